/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in pieces between two members that stage them, with Spin
 * (tests/model/run net/peer/pieces.pml).
 *
 * Each step is one hold of a member's baton, or what a device or the channel does meanwhile.
 *
 *  piece    net/peer/ask.c, serve.c and engine/messages/stage.c: a receive asks for a piece when it
 *           has a chunk for it; the other end copies it out into a chunk and posts it; it comes
 *           into the chunk that waits for it, and is copied in. One piece of a message is pulled,
 *           so its post lasts until the other end has pulled or dropped it. The other comes with
 *           its data, and its post may be done long before that or after it
 *  message  net/peer/send.c, receive.c: launches, which are handled in their order (match.pml), and
 *           recalls among them; answers, at any time; what is withdrawn. A small send is copied out
 *           first, and leaves with its bytes. If it can't, it lets go of its chunk and is held like
 *           a large one
 *  member   the connection is lost: fry_peer_detach, and after that fry_peer_destroyed
 *  program  says at some time that nothing more is withdrawn, and that the connection is not lost:
 *           what might yet end a standstill would hide it
 *
 *  BOTH_WAYS  each member sends a message of two pieces and a small one, with one chunk a way
 *  ONE_SLOT   the same, and a member's messages share a slot: the second waits for an answer
 *  BOTH_END   a message of two pieces each way, one end of one withdrawn, and a loss
 *  MIXED      the messages of ONE_SLOT one way, up to two ends of them withdrawn, and a loss
 *  AGAIN      two messages of two pieces one way through one slot, two chunks a way, one end
 *             withdrawn, and a loss
 *  TURNS      two messages of two pieces one way at once, up to two ends of them withdrawn; one
 *             piece of the connection can be asked for at a time
 *
 * Left out: sizes (pieces of two launches differ in their numbers alone), receives that are ready
 * late (their launches come late instead), headers' own posts, the want of controls, slots of
 * poison, and the bound on pieces served. Pieces get chunks in any order, not only the first come.
 * No step can be repeated for ever, so what comes to no standstill ends.
 *
 * Holds: when nothing can happen any more, all messages are over and quiet, and all chunks and
 * slots are free. No chunk is free while a copy or the channel uses it. A receive that has its
 * message has all its pieces, of that launch. No copy, post or pull of a quiet message is under
 * way. Neither end breaks the rules.
 */
/* correct: BOTH_WAYS ONE_SLOT BOTH_END MIXED AGAIN TURNS */
/* broken: BOTH_WAYS+ONE_POOL assertion violated */
/* broken: ONE_SLOT+ONE_POOL,SMALL_KEEPS_CHUNK assertion violated */
/* broken: BOTH_END+QUIET_DURING_COPY,QUIET_DURING_POST,QUIET_DURING_PULL assertion violated */
/* broken: BOTH_END+FREE_DURING_COPY,FREE_DURING_PULL,DUE_IS_FORGOTTEN assertion violated */
/* broken: BOTH_END+POST_ENDS_AT_DETACH,NO_RECALL assertion violated */
/* broken: MIXED+UNTOUCHED_DURING_COPY,SMALL_ENDS_WITHOUT_CHUNK assertion violated */
/* broken: AGAIN+OLD_PIECE_IS_TAKEN,OLD_WANT_IS_SERVED assertion violated */
/* broken: AGAIN+ENDS_WHEN_ALL_IS_ASKED assertion violated */
/* broken: TURNS+GIVEN_UP_WITHOUT_GOING_ON assertion violated */
#include "tests/model/variants.inc"

#if defined(BOTH_WAYS) || defined(ONE_SLOT) || defined(BOTH_END)
#define WAYS 2
#else
#define WAYS 1
#endif
#ifdef BOTH_END
#define A_WAY 1 /* messages */
#else
#define A_WAY 2
#endif
#ifdef AGAIN
#define CHUNKS 2 /* of a way, at each end */
#else
#define CHUNKS 1
#endif
#ifdef TURNS
#define ASKS 1 /* pieces of a connection that can be asked for at once */
#else
#define ASKS 4
#endif
#if defined(BOTH_WAYS) || defined(ONE_SLOT) || defined(MIXED)
#define HAS_SMALL 1
#else
#define HAS_SMALL 0
#endif
#if defined(ONE_SLOT) || defined(MIXED) || defined(AGAIN)
#define SLOT(m) WAY(m)
#else
#define SLOT(m) (m)
#endif
#if defined(BOTH_WAYS) || defined(ONE_SLOT)
#define WITHDRAWALS 0
#define LOSSES 0
#elif defined(TURNS)
#define WITHDRAWALS 2
#define LOSSES 0
#elif defined(AGAIN) || defined(BOTH_END)
#define WITHDRAWALS 1
#define LOSSES 1
#else
#define WITHDRAWALS 2
#define LOSSES 1
#endif

/* A way's number is its sender's. The other member receives. */
#define MESSAGES (WAYS * A_WAY)
#define WAY(m) ((m) / A_WAY)
#define IS_SMALL(m) (HAS_SMALL && (m) % A_WAY == 1)
#define PIECES(m) (IS_SMALL(m) -> 1 : 2)
#define MESSAGE(x) ((x) / 2)
#define PLACE(x) ((x) % 2) /* in its message */
#define LIKE(x, m) (2 * (m) + PLACE(x)) /* the piece there in another message */
#define IS_PULLED(x) ((x) % 2 == MESSAGE(x) % 2)
#define SENDER(m) WAY(m)
#define RECEIVER(m) (1 - WAY(m))

/* A message at one end: what is counted of it. */
#define SEND(m) (m)
#define RECEIVE(m) (MESSAGES + (m))
byte posts[2 * MESSAGES], copies[2 * MESSAGES];
bit ends[2 * MESSAGES]; /* the peer is done with it, and copies are not */
bit is_quiet[2 * MESSAGES];

/* Sends: TO_FETCH and FETCHING, a small one's bytes; READY: it waits for a slot. */
#define TO_FETCH 0
#define FETCHING 1
#define READY 2
#define LAUNCHED 3
#define ENDED 4
/* Receives: COMING, in pieces; RECEIVED, with success; ENDED. */
#define EXPECTED 0
#define COMING 1
#define RECEIVED 2
byte send[MESSAGES], receive[MESSAGES];
bit has_data[MESSAGES]; /* it was launched with its bytes */
byte asked[MESSAGES], stored[MESSAGES]; /* pieces */

/*
 * Chunks, by what is in them. What is DUE or COPIES may be over: nobody asks for or serves it any
 * more (fry_stage.slice is NULL).
 */
#define NONE 0
#define HELD 1
#define DUE 2
#define COPIES 3
byte chunk_out[2 * MESSAGES], chunk_in[2 * MESSAGES]; /* pieces */
byte whole[MESSAGES]; /* small sends */
byte free_chunks[4];
#define OUT 0
#define IN 1
#ifdef ONE_POOL
#define POOL(member, way) ((member) * 2)
#define CHUNKS_OF(pool) ((pool) % 2 == 0 -> 2 * CHUNKS : 0)
#else
#define POOL(member, way) ((member) * 2 + (way))
#define CHUNKS_OF(pool) CHUNKS
#endif

/* Pieces at the receiver. */
#define WANTS_CHUNK 1
#define ASKED 2
#define PULLING 3
#define LANDING 4
#define GIVEN_UP 5 /* it is being pulled, for nobody */
byte asks[2 * MESSAGES];
byte free_asks[WAYS];
byte left_asks[WAYS]; /* GIVEN_UP_WITHOUT_GOING_ON: free, and nobody has been told */
/* At the sender. */
#define FILLING 2
#define POSTED 3
byte serves[2 * MESSAGES];

/* Under way. */
bit want[2 * MESSAGES], flies[2 * MESSAGES];
bit was_read[2 * MESSAGES]; /* pulled or dropped */
#define REFUSED 1
#define OK 2
byte answer[MESSAGES];
#define LAUNCH 0
#define POISON 1
#define RECALL 2
chan launches[2] = [4] of { byte, byte };

/* The message plus 1 that has the slot: at the sender, and at the receiver. */
byte sent_in[MESSAGES], came_in[MESSAGES];

byte withdrawals = WITHDRAWALS, losses = LOSSES;
bit is_lost[2], is_destroyed[2];

hidden byte owner, i;

/* ---- quiet ---- */

/* The peer is done with it. */
inline end_quietly(op)
{
    assert(!is_quiet[op] && !ends[op]);
    if
    :: copies[op] > 0 IF(QUIET_DURING_COPY, && false) -> ends[op] = 1
    :: else -> is_quiet[op] = 1
    fi
}

/* A copy has ended. */
inline copy_is_over(op)
{
    assert(!is_quiet[op]);
    copies[op]--
}

inline end_if_last(op)
{
    if
    :: copies[op] == 0 && ends[op] -> ends[op] = 0; is_quiet[op] = 1
    :: else
    fi
}

inline post_is_over(m)
{
    assert(!is_quiet[SEND(m)]);
    posts[SEND(m)]--;
    if
    :: posts[SEND(m)] == 0 && send[m] == ENDED && !is_quiet[SEND(m)] && !ends[SEND(m)] ->
        end_quietly(SEND(m))
    :: else
    fi
}

inline end_send(m)
{
    send[m] = ENDED;
    if
    :: posts[SEND(m)] == 0 IF(QUIET_DURING_POST, || true) -> end_quietly(SEND(m))
    :: else
    fi
}

inline end_receive(m, how)
{
    receive[m] = how;
    if
    :: posts[RECEIVE(m)] == 0 IF(QUIET_DURING_PULL, || true) -> end_quietly(RECEIVE(m))
    :: else
    fi
}

/* ---- chunks ---- */

inline give(chunk, pool)
{
    assert(chunk != COPIES);
    chunk = NONE;
    free_chunks[pool]++
}

/* fry_stage_over: the peer wants nothing of the piece any more. */
inline over(chunk, pool)
{
    if
    :: chunk == HELD IF(FREE_DURING_COPY, || chunk == COPIES) -> give(chunk, pool)
    :: else
    fi
}

/* ---- the ends of pieces ---- */

inline end_ask(x)
{
    asks[x] = NONE;
    over(chunk_in[x], POOL(RECEIVER(MESSAGE(x)), IN));
    UNLESS(GIVEN_UP_WITHOUT_GOING_ON, free_asks[WAY(MESSAGE(x))]++;)
    IF(GIVEN_UP_WITHOUT_GOING_ON, left_asks[WAY(MESSAGE(x))]++;)
    skip
}

/* give_up */
inline give_up(x)
{
    if
    :: asks[x] == PULLING ->
        asks[x] = GIVEN_UP;
        IF(FREE_DURING_PULL, over(chunk_in[x], POOL(RECEIVER(MESSAGE(x)), IN));)
        skip
    :: asks[x] == WANTS_CHUNK || asks[x] == ASKED || asks[x] == LANDING -> end_ask(x)
    :: else
    fi
}

inline give_up_all(m)
{
    came_in[SLOT(m)] = 0;
    for (i : 2 * m .. 2 * m + 1) { give_up(i) }
}

inline stop_serving(x)
{
    if
    :: serves[x] == WANTS_CHUNK || serves[x] == FILLING ->
        serves[x] = NONE;
        over(chunk_out[x], POOL(SENDER(MESSAGE(x)), OUT))
    :: else
    fi
}

/* fry_serve_end */
inline stop_serving_all(m)
{
    for (i : 2 * m .. 2 * m + 1) { stop_serving(i) }
}

/* ---- pieces ---- */

/* fry_ask_go_on is called. */
inline go_on(way)
{
    IF(GIVEN_UP_WITHOUT_GOING_ON, free_asks[way] = free_asks[way] + left_asks[way];
       left_asks[way] = 0;)
    skip
}

/* fry_peer_stored */
inline store(x, m)
{
    asks[x] = NONE;
    free_asks[WAY(m)]++;
    stored[m]++;
    go_on(WAY(m));
    if
    :: asked[m] == PIECES(m) UNLESS(ENDS_WHEN_ALL_IS_ASKED, && stored[m] == asked[m]) ->
        assert(stored[m] == PIECES(m));
        came_in[SLOT(m)] = 0;
        answer[m] = OK;
        end_receive(m, RECEIVED)
    :: else
    fi
}

inline land(x)
{
    asks[x] = LANDING;
    chunk_in[x] = DUE
}

#define M MESSAGE(x)
#define IS_LIVE(member) (!is_lost[member])

proctype piece(byte x)
{
end:
    do
    :: atomic { /* begin_piece */
           receive[M] == COMING && asked[M] == PLACE(x) && asked[M] < PIECES(M) &&
           free_asks[WAY(M)] > 0 && IS_LIVE(RECEIVER(M)) ->
           asked[M]++;
           free_asks[WAY(M)]--;
           asks[x] = WANTS_CHUNK
       }
    :: atomic { /* give_out, placed */
           asks[x] == WANTS_CHUNK && free_chunks[POOL(RECEIVER(M), IN)] > 0 ->
           free_chunks[POOL(RECEIVER(M), IN)]--;
           chunk_in[x] = HELD;
           if
           :: has_data[M] -> land(x)
           :: !has_data[M] -> asks[x] = ASKED; want[x] = 1
           fi
       }
    :: atomic { /* fry_serve_wanted */
           want[x] && IS_LIVE(SENDER(M)) ->
           want[x] = 0;
           owner = sent_in[SLOT(M)];
           if
           :: owner != 0 UNLESS(OLD_WANT_IS_SERVED, && owner == M + 1) &&
              send[owner - 1] == LAUNCHED ->
               assert(owner == M + 1);
               serves[x] = WANTS_CHUNK
           :: else /* that launch has ended */
           fi;
           owner = 0
       }
    :: atomic { /* give_out */
           serves[x] == WANTS_CHUNK && free_chunks[POOL(SENDER(M), OUT)] > 0 ->
           free_chunks[POOL(SENDER(M), OUT)]--;
           serves[x] = FILLING;
           chunk_out[x] = COPIES;
           copies[SEND(M)]++
       }
    :: atomic { /* copied, fry_peer_served */
           chunk_out[x] == COPIES ->
           copy_is_over(SEND(M));
           chunk_out[x] = HELD;
           if
           :: serves[x] == FILLING ->
               serves[x] = POSTED;
               posts[SEND(M)]++;
               flies[x] = 1
           :: serves[x] == NONE ->
               give(chunk_out[x], POOL(SENDER(M), OUT));
               end_if_last(SEND(M))
           fi
       }
    :: atomic { /* posted */
           serves[x] == POSTED && (!IS_PULLED(x) || was_read[x]) && IS_LIVE(SENDER(M)) ->
           was_read[x] = 0;
           serves[x] = NONE;
           give(chunk_out[x], POOL(SENDER(M), OUT));
           post_is_over(M)
       }
    :: atomic { /* fry_ask_arrived */
           flies[x] && IS_LIVE(RECEIVER(M)) ->
           flies[x] = 0;
           owner = came_in[SLOT(M)];
           if
           :: owner != 0 UNLESS(OLD_PIECE_IS_TAKEN, && owner == M + 1) &&
              asks[LIKE(x, owner - 1)] == ASKED ->
               assert(owner == M + 1);
               if
               :: IS_PULLED(x) -> asks[x] = PULLING; posts[RECEIVE(M)]++
               :: !IS_PULLED(x) -> land(x)
               fi
           :: else -> /* that launch has ended */
               assert(owner != M + 1);
               was_read[x] = IS_PULLED(x)
           fi;
           owner = 0
       }
    :: atomic { /* pulled */
           (asks[x] == PULLING || asks[x] == GIVEN_UP) && IS_LIVE(RECEIVER(M)) &&
           !is_destroyed[SENDER(M)] ->
           assert(serves[x] == POSTED && chunk_out[x] == HELD && chunk_in[x] == HELD);
           assert(!is_quiet[RECEIVE(M)]);
           was_read[x] = 1;
           posts[RECEIVE(M)]--;
           if
           :: asks[x] == PULLING -> land(x)
           :: asks[x] == GIVEN_UP ->
               end_ask(x);
               if
               :: posts[RECEIVE(M)] == 0 -> end_quietly(RECEIVE(M))
               :: else
               fi
           fi
       }
    :: atomic { /* step */
           chunk_in[x] == DUE ->
           if
           :: asks[x] == LANDING -> chunk_in[x] = COPIES; copies[RECEIVE(M)]++
           :: asks[x] == NONE ->
               UNLESS(DUE_IS_FORGOTTEN, give(chunk_in[x], POOL(RECEIVER(M), IN));)
               chunk_in[x] = NONE
           fi
       }
    :: atomic { /* copied, fry_peer_stored */
           chunk_in[x] == COPIES ->
           copy_is_over(RECEIVE(M));
           chunk_in[x] = HELD;
           give(chunk_in[x], POOL(RECEIVER(M), IN));
           if
           :: asks[x] == LANDING -> store(x, M)
           :: asks[x] == NONE -> end_if_last(RECEIVE(M))
           fi
       }
    od
}

#undef M

/* ---- messages ---- */

#define HAS_SLOT(m) (sent_in[SLOT(m)] == 0 && IS_LIVE(SENDER(m)))

inline launch(m)
{
    sent_in[SLOT(m)] = m + 1;
    send[m] = LAUNCHED;
    launches[WAY(m)]!LAUNCH(m)
}

inline launch_data(m)
{
    has_data[m] = 1;
    whole[m] = HELD;
    posts[SEND(m)]++;
    launch(m)
}

/* fry_receive_withdraw: a receive that nothing has come for leaves a ghost. */
inline withdraw_receive(m)
{
    if
    :: receive[m] == COMING -> give_up_all(m); answer[m] = REFUSED
    :: receive[m] == EXPECTED
    fi;
    end_receive(m, ENDED)
}

inline withdraw_send(m)
{
    if
    :: send[m] == LAUNCHED ->
        stop_serving_all(m);
        if
        :: !has_data[m] -> UNLESS(NO_RECALL, launches[WAY(m)]!RECALL(m);) skip
        :: has_data[m]
        fi;
        end_send(m)
    :: send[m] == FETCHING ->
        launches[WAY(m)]!POISON(m);
        send[m] = ENDED;
        IF(UNTOUCHED_DURING_COPY, is_quiet[SEND(m)] = 1;)
        UNLESS(UNTOUCHED_DURING_COPY, end_quietly(SEND(m));)
        skip
    :: send[m] == TO_FETCH || send[m] == READY -> launches[WAY(m)]!POISON(m); end_send(m)
    fi
}

proctype message(byte m)
{
end:
    do
    :: atomic { /* give_out_small */
           send[m] == TO_FETCH && free_chunks[POOL(SENDER(m), OUT)] > 0 ->
           free_chunks[POOL(SENDER(m), OUT)]--;
           whole[m] = COPIES;
           copies[SEND(m)]++;
           send[m] = FETCHING
       }
    :: atomic { /* copied_small */
           whole[m] == COPIES ->
           copy_is_over(SEND(m));
           whole[m] = HELD;
           if
           :: send[m] == FETCHING && HAS_SLOT(m) -> launch_data(m)
           :: send[m] == FETCHING ->
               UNLESS(SMALL_KEEPS_CHUNK, give(whole[m], POOL(SENDER(m), OUT));)
               send[m] = READY
           :: send[m] == ENDED ->
               give(whole[m], POOL(SENDER(m), OUT));
               end_if_last(SEND(m))
           fi
       }
    :: atomic { /* fry_sends_start_waiting */
           send[m] == READY && HAS_SLOT(m) ->
           if
           :: whole[m] == NONE -> launch(m)
#ifdef SMALL_KEEPS_CHUNK
           :: whole[m] == HELD -> launch_data(m)
#endif
           fi
       }
    :: atomic { /* post_done, fry_stage_left */
           has_data[m] && whole[m] == HELD && IS_LIVE(SENDER(m)) ->
           IF(SMALL_ENDS_WITHOUT_CHUNK, if :: send[m] != ENDED ->)
           give(whole[m], POOL(SENDER(m), OUT));
           IF(SMALL_ENDS_WITHOUT_CHUNK, :: else -> whole[m] = NONE fi;)
           post_is_over(m)
       }
    :: atomic { /* process: settle, meet_ghost */
           launches[WAY(m)]?[LAUNCH, eval(m)] && IS_LIVE(RECEIVER(m)) ->
           launches[WAY(m)]?LAUNCH, eval(m);
           assert(came_in[SLOT(m)] == 0);
           if
           :: receive[m] == EXPECTED -> /* fry_ask_begin */
               receive[m] = COMING;
               came_in[SLOT(m)] = m + 1;
               go_on(WAY(m))
           :: receive[m] == ENDED -> answer[m] = REFUSED
           fi
       }
    :: atomic { /* recall */
           launches[WAY(m)]?[RECALL, eval(m)] && IS_LIVE(RECEIVER(m)) ->
           launches[WAY(m)]?RECALL, eval(m);
           if
           :: came_in[SLOT(m)] == m + 1 ->
               give_up_all(m);
               answer[m] = OK; /* poison is acknowledged */
               end_receive(m, ENDED)
           :: else
           fi
       }
    :: atomic { /* process: poison */
           launches[WAY(m)]?[POISON, eval(m)] && IS_LIVE(RECEIVER(m)) ->
           launches[WAY(m)]?POISON, eval(m);
           if
           :: receive[m] == EXPECTED -> end_receive(m, ENDED)
           :: receive[m] == ENDED
           fi
       }
    :: atomic { /* fry_send_acknowledged, fry_send_refused */
           answer[m] != NONE && IS_LIVE(SENDER(m)) ->
           assert(sent_in[SLOT(m)] == m + 1);
           sent_in[SLOT(m)] = 0;
           if
           :: send[m] == LAUNCHED ->
               assert(answer[m] == REFUSED || receive[m] == RECEIVED);
               stop_serving_all(m);
               end_send(m)
           :: send[m] == ENDED
           fi;
           answer[m] = NONE
       }
#if WITHDRAWALS > 0
    :: atomic {
           withdrawals > 0 && send[m] != ENDED ->
           withdrawals--;
           withdraw_send(m)
       }
    :: atomic {
           withdrawals > 0 && receive[m] < RECEIVED ->
           withdrawals--;
           withdraw_receive(m)
       }
#endif
    od
}

/* ---- the connection ---- */

#if LOSSES > 0
/* A pull may fail before: then it is over. */
inline lose_receive(m)
{
    for (i : 2 * m .. 2 * m + 1) {
        if
        :: asks[i] == PULLING -> posts[RECEIVE(m)]--; end_ask(i)
        :: true -> give_up(i)
        fi
    }
    came_in[SLOT(m)] = 0;
    if
    :: receive[m] == EXPECTED -> end_receive(m, ENDED)
    :: receive[m] == COMING -> receive[m] = ENDED /* quiet as the channel is destroyed */
    :: else
    fi
}

inline lose_send(m)
{
    stop_serving_all(m);
    sent_in[SLOT(m)] = 0;
    IF(POST_ENDS_AT_DETACH, end_posts(m);)
    if
    :: send[m] != ENDED -> end_send(m)
    :: else
    fi
}

inline end_posts(m)
{
    for (i : 2 * m .. 2 * m + 1) {
        if
        :: serves[i] == POSTED ->
            serves[i] = NONE;
            was_read[i] = 0;
            posts[SEND(m)]--;
            give(chunk_out[i], POOL(SENDER(m), OUT))
        :: else
        fi
    }
}

inline end_pulls(m)
{
    for (i : 2 * m .. 2 * m + 1) {
        if
        :: asks[i] == GIVEN_UP -> posts[RECEIVE(m)]--; end_ask(i)
        :: else
        fi
    }
}

inline end_at_last(op)
{
    if
    :: !is_quiet[op] && !ends[op] -> end_quietly(op)
    :: else
    fi
}

proctype member(byte self)
{
    byte m;
end:
    atomic { /* fry_peer_detach */
        losses > 0 || is_lost[1 - self] ->
        losses = 0;
        for (m : 0 .. MESSAGES - 1) {
            if
            :: SENDER(m) == self -> lose_send(m)
            :: else -> lose_receive(m)
            fi
        }
        is_lost[self] = 1;
        m = 0
    }
    atomic { /* fry_peer_destroyed */
        is_destroyed[self] = 1;
        for (m : 0 .. MESSAGES - 1) {
            if
            :: SENDER(m) == self ->
                end_posts(m);
                if
                :: whole[m] == HELD ->
                    posts[SEND(m)]--;
                    give(whole[m], POOL(self, OUT))
                :: else
                fi;
                end_at_last(SEND(m))
            :: else ->
                end_pulls(m);
                end_at_last(RECEIVE(m))
            fi
        }
        m = 0
    }
}
#endif

proctype program()
{
end:
    do
    :: withdrawals > 0 -> withdrawals = 0
    :: losses > 0 -> losses = 0
    od
}

proctype judge()
{
    byte k;
    timeout ->
    do
    :: k < MESSAGES ->
        assert(send[k] == ENDED && (receive[k] == RECEIVED || receive[k] == ENDED));
        assert(is_quiet[SEND(k)] && is_quiet[RECEIVE(k)]);
        assert(posts[SEND(k)] == 0 && posts[RECEIVE(k)] == 0);
        assert(sent_in[k] == 0 && came_in[k] == 0);
        k++
    :: else -> break
    od;
    k = 0;
    do
    :: k < WAYS -> assert(free_asks[k] + left_asks[k] == ASKS); k++
    :: else -> break
    od;
    k = 0;
    do
    :: k < 4 -> assert(free_chunks[k] == CHUNKS_OF(k)); k++
    :: else -> break
    od
}

init
{
    byte k;
    atomic {
        for (k : 0 .. 3) { free_chunks[k] = CHUNKS_OF(k) }
        for (k : 0 .. WAYS - 1) { free_asks[k] = ASKS }
        for (k : 0 .. MESSAGES - 1) {
            if
            :: IS_SMALL(k) -> send[k] = TO_FETCH
            :: else -> send[k] = READY
            fi;
            run message(k)
        }
        for (k : 0 .. 2 * MESSAGES - 1) {
            if
            :: PLACE(k) < PIECES(MESSAGE(k)) -> run piece(k)
            :: else
            fi
        }
        k = 0;
#if LOSSES > 0
        run member(0);
        run member(1);
#endif
        run program();
        run judge()
    }
}
