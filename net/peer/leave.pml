/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving, with Spin (tests/model/run net/peer/leave.pml).
 *
 * There are two ends, each of which has sent the other two messages. One leaves, or both do. An end
 * that does not leave receives all messages.
 *
 *  end        net/peer/*.c: receives messages, answers, and hears answers. When it leaves, it
 *             receives no more and refuses messages that come; it gives up the place that a
 *             receive, perhaps a withdrawn one, kept for the other's messages. It waits for answers
 *             to its sends, and for that place. It posts the answers that it owes, says BYE with
 *             how many it has given in all, answers nothing any more, and ends the connection when
 *             fry_peer_part says so. An end that hears a BYE, and as many answers as the BYE says,
 *             ends the connection too
 *
 * Posted data is under way in any order. NETWORK: when an end has destroyed its channel, data under
 * way is lost, both ways, and the other end may be told at any time. SHARED: data that an end had
 * posted lies at the other end, which takes it before it is told (net/ucx/channel.c).
 *
 * Holds: both ends go; then each message was received if and only if its sender knows so.
 */
/* correct: NETWORK */
/* correct: SHARED */
/* liveness: yes */
/* broken: NETWORK+BYE_WITHOUT_COUNT assertion violated */
/* broken: SHARED+BYE_WITHOUT_COUNT assertion violated */
/* broken: SHARED+ANSWERS_AFTER_BYE assertion violated */
/* broken: NETWORK+NO_FAREWELL assertion violated */
/* broken: NETWORK+FAREWELL_EARLY assertion violated */
/* broken: NETWORK+BYE_BEFORE_ANSWERS assertion violated */
/* broken: SHARED+BYE_BEFORE_ANSWERS assertion violated */
/* broken: SHARED+TOLD_BEFORE_WHAT_CAME assertion violated */
/* broken: NETWORK+NO_FAREWELL_BY_WHO_LEAVES acceptance cycle */
/* broken: SHARED+NO_REFUSAL acceptance cycle */
/* broken: NETWORK+PLACES_KEPT acceptance cycle */
/* broken: SHARED+PLACES_KEPT acceptance cycle */

#ifdef ANSWERS_AFTER_BYE
#define REFUSES 1
#else
#define REFUSES !is_bye_said
#endif

#define MESSAGES 2
#define RECEIVED 1
#define REFUSED 2

/* For each message what is under way. */
typedef messages { byte at[MESSAGES] }
messages sent[2];     /* by that end: 1 until it has arrived */
messages answer[2];   /* by that end, to the other's */
bit bye[2], farewell[2];
byte bye_answers[2];

messages fate[2];     /* of the other end's messages, at that end */
messages known[2];    /* of its own messages: the answer heard */
bit leaves[2];
bit is_cut[2];        /* the other end's channel is destroyed: this end may be told */
bit is_gone[2];

#define NOTHING_COMES(other)                                                                       \
    (!sent[other].at[0] && !sent[other].at[1] && !answer[other].at[0] && !answer[other].at[1] &&   \
     !bye[other] && !farewell[other])

inline arrive(k)
{
    sent[other].at[k] = 0;
    if
#ifndef ANSWERS_AFTER_BYE
    :: is_bye_said; /* the other end learns it when the connection ends */
#endif
    :: !is_stopped -> fate[self].at[k] = RECEIVED; owes[k] = RECEIVED; keeps_place = 0;
#ifndef NO_REFUSAL
    :: is_stopped && REFUSES -> fate[self].at[k] = REFUSED; owes[k] = REFUSED;
#else
    :: else;
#endif
    fi;
}

inline post_answer(k)
{
    answer[self].at[k] = owes[k];
    owes[k] = 0;
    given++;
}

inline hear_answer(k)
{
    known[self].at[k] = answer[other].at[k];
    answer[other].at[k] = 0;
    heard++;
}

proctype end(byte self)
{
    byte given, heard, wanted;
    byte owes[MESSAGES];
    bit is_stopped, is_bye_said, has_bye, has_farewell, is_over;
    bit keeps_place = 1;
    byte other = 1 - self;

    do
    :: atomic { !is_over && sent[other].at[0] -> arrive(0); }
    :: atomic { !is_over && sent[other].at[1] -> arrive(1); }
    :: atomic { !is_over && owes[0] -> post_answer(0); }
    :: atomic { !is_over && owes[1] -> post_answer(1); }
    :: atomic { !is_over && answer[other].at[0] -> hear_answer(0); }
    :: atomic { !is_over && answer[other].at[1] -> hear_answer(1); }
    :: atomic {
           !is_over && bye[other] -> bye[other] = 0; has_bye = 1; wanted = bye_answers[other];
       }
    :: atomic { !is_over && farewell[other] -> farewell[other] = 0; has_farewell = 1; }
#ifdef FAREWELL_EARLY
    :: atomic { !is_over && has_bye && heard < wanted && !farewell[self] -> farewell[self] = 1; }
#endif
#ifdef BYE_WITHOUT_COUNT
    :: atomic { !is_over && has_bye ->
#else
    :: atomic { !is_over && has_bye && heard >= wanted ->
#endif
           has_bye = 0;
#ifdef NETWORK
#ifdef NO_FAREWELL_BY_WHO_LEAVES
           farewell[self] = !is_stopped;
#else
           farewell[self] = 1;
#endif
#endif
           is_over = !is_stopped;
       }
    :: atomic { !is_over && leaves[self] && !is_stopped ->
           is_stopped = 1;
#ifndef PLACES_KEPT
           keeps_place = 0;
#endif
       }
#ifdef BYE_BEFORE_ANSWERS
    :: atomic { !is_over && is_stopped && !is_bye_said && known[self].at[0] && known[self].at[1] &&
                !keeps_place ->
#else
    :: atomic { !is_over && is_stopped && !is_bye_said && known[self].at[0] && known[self].at[1] &&
                !keeps_place && !owes[0] && !owes[1] ->
#endif
           is_bye_said = 1;
           bye[self] = 1;
           bye_answers[self] = given;
       }
#if defined(NETWORK) && !defined(NO_FAREWELL)
    :: !is_over && is_bye_said && has_farewell -> is_over = 1;
#else
    :: !is_over && is_bye_said -> is_over = 1;
#endif
#if defined(NETWORK) || defined(TOLD_BEFORE_WHAT_CAME)
    :: is_cut[self] && !is_over -> is_over = 1;
#else
    :: is_cut[self] && !is_over && NOTHING_COMES(other) && !(has_bye && heard >= wanted) ->
        is_over = 1;
#endif
    :: is_over -> break;
    od;
    atomic { /* the channel is destroyed */
        is_cut[other] = 1;
        is_gone[self] = 1;
#ifdef NETWORK
        sent[0].at[0] = 0; sent[0].at[1] = 0; sent[1].at[0] = 0; sent[1].at[1] = 0;
        answer[0].at[0] = 0; answer[0].at[1] = 0; answer[1].at[0] = 0; answer[1].at[1] = 0;
        bye[0] = 0; bye[1] = 0; farewell[0] = 0; farewell[1] = 0;
#endif
    }
}

init
{
    atomic {
        sent[0].at[0] = 1; sent[0].at[1] = 1; sent[1].at[0] = 1; sent[1].at[1] = 1;
        leaves[0] = 1;
        if
        :: leaves[1] = 1;
        :: skip;
        fi;
        run end(0);
        run end(1);
    }
    is_gone[0] && is_gone[1];
    assert((fate[0].at[0] == RECEIVED) == (known[1].at[0] == RECEIVED));
    assert((fate[0].at[1] == RECEIVED) == (known[1].at[1] == RECEIVED));
    assert((fate[1].at[0] == RECEIVED) == (known[0].at[0] == RECEIVED));
    assert((fate[1].at[1] == RECEIVED) == (known[0].at[1] == RECEIVED));
}

ltl both_go { <> (is_gone[0] && is_gone[1]) }
