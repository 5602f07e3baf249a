/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send that is read ahead, with Spin (tests/model/run engine/messages/ahead.pml).
 *
 *  gpu      the program's kernel, and the copy behind it if that is on the device: ahead.c
 *  host     looks at both, in any order; each step is one hold of the baton: entered, failed and
 *           message_quiet of message.c, copied of stage.c. If edges hold the copy on the host, it
 *           is issued when the kernel is seen to have ended well, and fails if it has not
 *  peer     asks for the first piece of a large send, pulls it or not, and answers. A small send
 *           leaves with its bytes, and the channel reads them
 *  failure  the send fails, by the program at any time, or by the kernel or the copy
 *
 *  SMALL, LARGE  what the send is
 *
 * Left out: other chunks, so a small send without its chunk leaves by itself, and pieces that are
 * not the first (pieces.pml has them); that the other end's pieces may be of another size.
 *
 * Holds: bytes leave only if the send has started and the copy has ended well. Nothing reads the
 * program's memory once the send is quiet. The chunk is given back once, not while a copy or a post
 * uses it. It counts as one that is ahead until the send has it. At the end the send is over and
 * quiet, and the chunk is free.
 */
/* correct: SMALL LARGE */
/* broken: SMALL+QUIET_DURING_COPY,LEAVES_BEFORE_START,TAKEN_AND_KEPT assertion violated */
/* broken: SMALL+CHUNK_IS_NOT_DROPPED,BAD_COPY_LEAVES,LEAVES_UNREAD assertion violated */
/* broken: SMALL+COUNTS_TOO_SHORT,COUNTS_TOO_LONG assertion violated */
/* broken: LARGE+QUIET_DURING_COPY,GIVEN_WITH_A_PIECE,TAKEN_AND_KEPT assertion violated */
/* broken: LARGE+CHUNK_IS_NOT_DROPPED,BAD_COPY_LEAVES assertion violated */
/* broken: LARGE+COUNTS_TOO_SHORT,COUNTS_TOO_LONG assertion violated */
#include "tests/model/variants.inc"

#define IS_SMALL IS_DEFINED(SMALL)

/* The kernel. */
#define RUNS 0
#define WELL 1
#define BAD 2
byte kernel;
bit kernel_is_seen;

/* The copy: HELD_BACK on the host; ISSUED, READS the program's memory; OVER, not seen; SEEN. */
#define BEGINS 0
#define HELD_BACK 1
#define ISSUED 2
#define READS 3
#define OVER 4
#define SEEN 5
byte copy;
bit copy_is_good;

/* The chunk: fry_stage.state. POSTED is HELD, and the channel has it. */
#define FREE 0
#define COPYING 1
#define HELD 2
#define POSTED 3
byte chunk = COPYING;
bit has_piece;     /* fry_stage.slice */
bit is_ahead = 1;  /* fry_stage.is_ahead */
bit has_ahead = 1; /* fry_transfer.ahead */
bit counts = 1;    /* in fry_stages.ahead */
byte copies = 1;   /* fry_transfer.copies */

/* The send. */
#define WAITS 0
#define STARTED 1
#define RESOLVED 2
byte send;
bit ends; /* FRY_TRANSFER_ENDS */
bit is_quiet;

/* The message, as the peer has it. */
bit is_offered, is_asked;
bit is_over; /* the peer is done with it */

inline give()
{
    assert(chunk == HELD);
    assert(!has_piece);
    chunk = FREE
}

/* take_from of ahead.c */
inline take_from()
{
    if
    :: has_ahead && !is_ahead -> assert(counts); UNLESS(COUNTS_TOO_LONG, counts = 0;) skip
    :: else
    fi;
    UNLESS(TAKEN_AND_KEPT, has_ahead = 0;)
    skip
}

/* fry_ahead_drop */
inline drop()
{
    if
    :: has_ahead && !is_ahead ->
        take_from();
        UNLESS(CHUNK_IS_NOT_DROPPED, give();)
        skip
    :: else
    fi;
    has_ahead = 0
}

inline quiet()
{
    drop();
    ends = 0;
    is_quiet = 1
}

/* The peer is done with the message: message_quiet. */
inline end_message()
{
    assert(!is_over);
    is_over = 1;
    if
    :: copies == 0 IF(QUIET_DURING_COPY, || true) -> quiet()
    :: else -> ends = 1 /* the copy calls this again */
    fi
}

/* The bytes leave: fry_peer_served, or fry_peer_ready of a small send. */
inline leave()
{
    assert(send == STARTED && copy == SEEN && copy_is_good);
    chunk = POSTED
}

/* fry_stage_start_small; without its chunk the send is fetched, and leaves from another. */
inline start_small()
{
    if
    :: has_ahead && !is_ahead ->
        take_from();
        leave()
    :: has_ahead && is_ahead IF(LEAVES_UNREAD, -> leave()) /* it goes on when it is copied */
    :: !has_ahead -> is_offered = 1
    fi
}

inline start()
{
    send = STARTED;
    if
    :: IS_SMALL -> start_small()
    :: !IS_SMALL -> is_offered = 1
    fi
}

active proctype gpu()
{
    if
    :: kernel = WELL
    :: kernel = BAD
    fi;
end:
    atomic { copy == ISSUED -> assert(!is_quiet); copy = READS };
    atomic {
        assert(!is_quiet);
        copy = OVER;
        if
        :: kernel == WELL -> copy_is_good = 1
        :: true /* it fails by itself, or with the kernel */
        fi
    }
}

/* copied, fry_ahead_copied, copied_ahead */
inline copied()
{
    copy = SEEN;
    copies--;
    is_ahead = 0;
    chunk = HELD;
    if
    :: has_piece IF(GIVEN_WITH_A_PIECE, && false) -> counts = 0; leave()
    :: !has_piece && has_ahead && (copy_is_good IF(BAD_COPY_LEAVES, || true)) ->
        IF(COUNTS_TOO_SHORT, counts = 0;)
        skip
    :: else -> has_ahead = 0; counts = 0; give()
    fi;
    if
    :: ends -> quiet()
    :: !ends && IS_SMALL && !is_offered && chunk == HELD &&
       (send == STARTED IF(LEAVES_BEFORE_START, || send == WAITS)) -> start_small()
    :: else
    fi
}

active proctype host()
{
    /* fry_ahead_begin */
    if
    :: copy = ISSUED
    :: copy = HELD_BACK
    fi;
end:
    do
    :: atomic { /* the kernel is seen to be over */
           !kernel_is_seen && kernel != RUNS ->
           kernel_is_seen = 1;
           if
           :: copy == HELD_BACK -> copy = (kernel == WELL -> ISSUED : OVER)
           :: else
           fi;
           if
           :: send == WAITS && kernel == WELL -> start()
           :: else
           fi
       }
    :: atomic { /* what the copy's own failure fails comes first */
           copy == OVER && (copy_is_good || send == RESOLVED IF(BAD_COPY_LEAVES, || true)) ->
           copied()
       }
    od
}

/*
 * The send fails, by the program, the kernel or the copy: failed. A copy that was not issued is
 * over then, and has read nothing. The peer lets go of a piece that is not posted, and of a message
 * that it has not offered.
 */
active proctype failure()
{
end:
    atomic {
        copy != BEGINS && send != RESOLVED ->
        send = RESOLVED;
        if
        :: has_ahead && copy == HELD_BACK -> copy = OVER
        :: else
        fi;
        if
        :: has_piece && chunk == COPYING -> has_piece = 0
        :: else
        fi;
        if
        :: !is_offered && chunk != POSTED -> end_message()
        :: else /* by the answer, or when the post is over */
        fi
    }
}

active proctype peer()
{
end:
    do
    :: atomic { /* fry_stage_serve */
           !IS_SMALL && is_offered && !is_asked && !is_over && send == STARTED ->
           is_asked = 1;
           if
           :: has_ahead ->
               take_from();
               has_piece = 1;
               if
               :: chunk == HELD -> leave()
               :: else
               fi
           :: else
           fi
       }
    :: atomic { /* the post is over */
           chunk == POSTED ->
           has_piece = 0;
           chunk = HELD;
           give();
           is_offered = 1 /* a small send, too, is over by the answer */
       }
    :: atomic { /* it is answered: well, or refused, and then a piece may be under way */
           is_offered && !is_over && chunk != POSTED ->
           send = RESOLVED;
           if
           :: has_piece -> has_piece = 0
           :: else
           fi;
           end_message()
       }
    od
}

active proctype end_of_all()
{
    timeout ->
    assert(send == RESOLVED && is_quiet);
    assert(chunk == FREE && copies == 0 && !is_ahead && !has_ahead && !has_piece && !counts)
}
