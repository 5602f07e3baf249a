/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading another process's memory, with Spin (tests/model/run net/ucx/mark.pml).
 *
 *  sender     net/ucx/offer.c and net/ucx/channel.c: offers memory. The offer is quiet when the
 *             receiver has said TAKEN, or when the mark is wiped as the channel is destroyed; then
 *             the memory is overwritten. The sender may fork and be killed at any time
 *  world      the processor and the kernel: the store that wipes the mark reaches memory late. A
 *             dead process loses its number, which another process takes: an unrelated one, the
 *             sender's child with a copy of its memory, or one that shares its memory
 *  receiver   net/ucx/offer.c over net/ucx/mark.c: drops a recalled offer, or reads the memory in
 *             two calls, each of which reads the data and then the mark. It may be stopped between
 *             any two steps, while the others run on
 *
 * A call finds the address space by the number, once, and keeps it until its end, whatever becomes
 * of the process.
 *
 * Holds: a receive that ends well has the offered bytes; an ended read says so once, so that memory
 * which nobody gives up is quiet in the end.
 */
/* correct: - */
/* correct: NOBODY_DIES */
/* liveness: yes */
/* broken: NO_CHECK assertion violated */
/* broken: CHECK_FIRST assertion violated */
/* broken: CHECK_IN_ANOTHER_CALL assertion violated */
/* broken: CHECK_LAST_CALL_ONLY assertion violated */
/* broken: CHECK_THAT_SOMEBODY_LIVES assertion violated */
/* broken: TRUST_SHORT_READ assertion violated */
/* broken: WIPE_AFTER_QUIET assertion violated */
/* broken: WIPE_WITHOUT_FENCE assertion violated */
/* broken: MARK_IN_CHILD assertion violated */
/* broken: QUIET_WHEN_CANCELLED assertion violated */
/* broken: TAKEN_BEFORE_READ assertion violated */
/* broken: NOBODY_DIES+DROP_IN_SILENCE acceptance cycle */

#define OFFERED 1
#define OTHER 2
#define NOBODY 3

/* Address spaces. */
#define SENDERS 0
#define CHILDS 1
#define STRANGERS 2

byte first[3], second[3]; /* two pieces of memory at one address; 0: not readable */
bit mark[3];              /* the sender's mark is there */
byte number = SENDERS;    /* whose space the process with that number has */

bit is_told;     /* the OFFER has come */
bit is_recalled; /* the word has come that it was cancelled */
bit is_taken;    /* the TAKEN has come */
bit is_dead;     /* the sender */
bit has_child;
bit wipe_is_late; /* the wipe is in the store buffer */
bit is_quiet;
bit has_given_up; /* the receiver has no promise any more */
bit is_over;      /* the receiver */
bit has_failed;   /* the receive has failed, at its own end */

/* A dead sender does nothing. */
#define STEP(statement)                                                                            \
    if                                                                                             \
    :: atomic { !is_dead -> statement; }                                                           \
    :: is_dead -> goto gone;                                                                       \
    fi

proctype sender()
{
    STEP(is_told = 1);
    if
    :: atomic { !is_dead -> is_recalled = 1; }
#ifdef QUIET_WHEN_CANCELLED
       goto quiet;
#endif
    :: true;
    fi;
    if
    :: is_dead -> goto gone;
    :: atomic { !is_dead && is_taken -> goto quiet; }
    :: atomic { !is_dead && (!is_over || has_failed) -> has_given_up = 1; }
    fi;
#ifdef WIPE_AFTER_QUIET
    STEP(is_quiet = 1; first[SENDERS] = OTHER);
#endif
    STEP(wipe_is_late = 1);
#if !defined(WIPE_WITHOUT_FENCE) && !defined(WIPE_AFTER_QUIET)
    if
    :: atomic { !is_dead && !wipe_is_late -> skip; }
    :: is_dead -> goto gone;
    fi;
#endif
quiet:
    STEP(is_quiet = 1);
    STEP(first[SENDERS] = OTHER);
    STEP(second[SENDERS] = OTHER);
gone:
    skip;
}

proctype world()
{
    do
    :: atomic { wipe_is_late && !is_dead -> wipe_is_late = 0; mark[SENDERS] = 0; }
    :: atomic { !is_dead && !has_child -> has_child = 1;
                first[CHILDS] = first[SENDERS]; second[CHILDS] = second[SENDERS];
#ifdef MARK_IN_CHILD
                mark[CHILDS] = mark[SENDERS];
#endif
              }
    :: atomic { has_child && first[CHILDS] == OFFERED -> first[CHILDS] = OTHER; }
#ifndef NOBODY_DIES
    :: atomic { !is_dead -> is_dead = 1; wipe_is_late = 0; number = NOBODY; }
    :: atomic { is_dead && number == NOBODY -> number = STRANGERS; }
    :: atomic { is_dead && number == NOBODY && has_child -> number = CHILDS; }
    :: atomic { is_dead && number == NOBODY -> number = SENDERS; } /* a child that shares it */
    :: atomic { is_dead && number != NOBODY -> number = NOBODY; }
#endif
    :: is_over && (is_quiet || is_dead) -> break;
    od;
}

proctype receiver()
{
    byte space, piece, at;
    byte got[2];
    bit is_marked, is_good = 1;

    is_told;
    if
    :: is_recalled ->
#ifndef DROP_IN_SILENCE
       is_taken = 1;
#endif
       goto over;
    :: true;
    fi;
#ifdef TAKEN_BEFORE_READ
    is_taken = 1;
#endif
    do
    :: at < 2 && is_good ->
        space = number;
        if
        :: space == NOBODY -> is_good = 0; break;
        :: else;
        fi;
#ifdef CHECK_FIRST
        is_marked = mark[space];
#endif
        if
        :: at == 0 -> piece = first[space];
        :: at == 1 -> piece = second[space];
        fi;
        got[at] = piece;
#ifndef TRUST_SHORT_READ
        if
        :: piece == 0 -> is_good = 0; break; /* the call has not reached the mark */
        :: else;
        fi;
#endif
#ifdef CHECK_IN_ANOTHER_CALL
        space = number;
#endif
#ifdef CHECK_THAT_SOMEBODY_LIVES
        is_marked = (number != NOBODY);
#endif
#ifdef NO_CHECK
        is_marked = 1;
#endif
#if !defined(CHECK_FIRST) && !defined(CHECK_THAT_SOMEBODY_LIVES) && !defined(NO_CHECK)
        if
        :: space == NOBODY -> is_marked = 0;
        :: else -> is_marked = mark[space];
        fi;
#endif
#ifdef CHECK_LAST_CALL_ONLY
        is_good = (at == 0 || is_marked);
#else
        is_good = is_marked;
#endif
        at++;
    :: else -> break;
    od;
    if
    :: is_good -> assert(got[0] == OFFERED && got[1] == OFFERED);
        is_taken = 1;
    :: else -> assert(has_given_up || is_dead); has_failed = 1;
    fi;
over:
    is_over = 1;
}

init
{
    atomic {
        first[SENDERS] = OFFERED;
        second[SENDERS] = OFFERED;
        mark[SENDERS] = 1;
        first[STRANGERS] = OTHER;
#ifndef TRUST_SHORT_READ
        second[STRANGERS] = OTHER;
#else
        first[SENDERS] = 0; /* nobody can read it, or not any more */
#endif
        run sender();
        run world();
        run receiver();
    }
}

#ifdef NOBODY_DIES
ltl quiet { <> is_quiet }
#else
ltl quiet { <> (is_quiet || is_dead) }
#endif
