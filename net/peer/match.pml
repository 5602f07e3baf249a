/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching, launches and recalls between two peers, with Spin (tests/model/run net/peer/match.pml).
 *
 *  sender    launches its sends, all but the last of the first tag, in any order while there is a
 *            slot: net/peer/send.c and fry_match_launch. May recall a launched send that is not
 *            answered
 *  receiver  enters its receives in the order of each tag, takes launches off the channel in any
 *            order, stashes early ones and gives the others their places, by lists and gaps:
 *            net/peer/receive.c, fry_match_find, fry_match_keep and fry_match_enter_receive. It
 *            answers a message, in any order, once the message has its receive
 *
 *  MATCHING  no send is recalled.
 *  RECALLS   fewer sends, each of which may be recalled.
 *
 * Holds: the k-th send of a tag meets the k-th receive; a recall meets its own message, or none if
 * that was answered; when nothing can happen any more, all have met, all slots are free, and
 * nothing is stashed or unexpected.
 */
/* correct: MATCHING */
/* correct: RECALLS */
/* broken: MATCHING+AHEAD_IGNORED assertion violated */
/* broken: MATCHING+AHEAD_OF_ALL assertion violated */
/* broken: MATCHING+NO_STASH assertion violated */
/* broken: MATCHING+GAP_KEPT assertion violated */
/* broken: MATCHING+GAP_NOT_SPLIT assertion violated */
/* broken: RECALLS+RECALL_UNORDERED assertion violated */
/* broken: RECALLS+SLOT_KNOWN_EARLY assertion violated */

#ifdef RECALLS
#define SENDS 3
#define LAUNCHES 6
#define SLOTS 1
#else
#define SENDS 5
#define LAUNCHES 5
#define SLOTS 5
#endif
#define tag_of(k) ((k) == SENDS - 1 -> 1 : 0)

bool launched[SENDS];
bool recalled[SENDS];
byte slot_of[SENDS]; /* the slot plus 1, while it is held */
bool slot_used[SLOTS];
byte next_number;

/* A launch on the channel: a message's, or that of its recall. */
bool flying[LAUNCHES];
bool is_recall[LAUNCHES];
byte message_of[LAUNCHES];
byte ahead_of[LAUNCHES];
byte slot_in[LAUNCHES];
bool answer_flying[SENDS];

/* The receiver. */
byte expected;
bool stashed[LAUNCHES];
byte by_slot[SLOTS]; /* the message plus 1 */
bool entered[SENDS];
bool has_message[SENDS]; /* the receive has a message */
bool is_matched[SENDS];  /* the send is matched */
bool answered[SENDS];
/* For each tag: unexpected messages, in the order of their places. */
typedef unexpected {
    byte count;
    byte message[SENDS];
    byte gap[SENDS];
    byte entered; /* receives entered, with and without a message */
}
unexpected of_tag[2];

byte slots_free = SLOTS;

inline launch(k)
{
    d_step {
        byte ahead_ = 0;
        byte i_ = 0;
        do
        :: i_ < k ->
            if
#ifdef AHEAD_OF_ALL
            :: tag_of(i_) == tag_of(k) -> ahead_++
#else
            :: tag_of(i_) == tag_of(k) && !launched[i_] -> ahead_++
#endif
            :: else
            fi;
            i_++
        :: else -> break
        od;
        launched[k] = true;
        i_ = 0;
        do
        :: slot_used[i_] -> i_++
        :: else -> break
        od;
        slot_used[i_] = true;
        slots_free--;
        slot_of[k] = i_ + 1;
#ifdef AHEAD_IGNORED
        ahead_ = 0;
#endif
        ahead_of[next_number] = ahead_;
        message_of[next_number] = k;
        slot_in[next_number] = i_;
        flying[next_number] = true;
        next_number++;
        i_ = 0;
        ahead_ = 0
    }
}

inline recall(k)
{
    d_step {
        recalled[k] = true;
        is_recall[next_number] = true;
        message_of[next_number] = k;
        slot_in[next_number] = slot_of[k] - 1;
        flying[next_number] = true;
        next_number++
    }
}

/* Gives a receive its message: k is the send's number, r the receive's. */
inline meet(k, r)
{
    assert(k == r);
    is_matched[k] = true;
    has_message[r] = true
}

/* fry_match_find and fry_match_keep */
inline give_place(k, ahead)
{
    d_step {
        byte left_ = ahead;
        byte r_ = 0;
        /* Receives entered that have no message. */
        do
        :: r_ < SENDS && (tag_of(r_) != tag_of(k) || !entered[r_] || has_message[r_]) -> r_++
        :: r_ < SENDS && tag_of(r_) == tag_of(k) && entered[r_] && !has_message[r_] && left_ > 0 ->
            left_--;
            r_++
        :: else -> break
        od;
        if
        :: r_ < SENDS -> meet(k, r_)
        :: else ->
            /* The left_-th free place behind them. */
            byte at_ = 0;
            do
            :: at_ < of_tag[tag_of(k)].count && left_ >= of_tag[tag_of(k)].gap[at_] ->
                left_ = left_ - of_tag[tag_of(k)].gap[at_];
                at_++
            :: else -> break
            od;
            byte j_ = of_tag[tag_of(k)].count;
            do
            :: j_ > at_ ->
                of_tag[tag_of(k)].message[j_] = of_tag[tag_of(k)].message[j_ - 1];
                of_tag[tag_of(k)].gap[j_] = of_tag[tag_of(k)].gap[j_ - 1];
                j_--
            :: else -> break
            od;
            of_tag[tag_of(k)].message[at_] = k;
            of_tag[tag_of(k)].gap[at_] = left_;
            of_tag[tag_of(k)].count++;
#ifndef GAP_NOT_SPLIT
            if
            :: at_ + 1 < of_tag[tag_of(k)].count ->
                of_tag[tag_of(k)].gap[at_ + 1] = of_tag[tag_of(k)].gap[at_ + 1] - left_ - 1
            :: else
            fi;
#endif
            at_ = 0;
            j_ = 0
        fi;
        left_ = 0;
        r_ = 0
    }
}

/* fry_match_enter_receive */
inline enter(r)
{
    d_step {
        entered[r] = true;
        if
        :: of_tag[tag_of(r)].count > 0 && of_tag[tag_of(r)].gap[0] == 0 ->
            meet(of_tag[tag_of(r)].message[0], r);
            byte e_ = 1;
            do
            :: e_ < of_tag[tag_of(r)].count ->
                of_tag[tag_of(r)].message[e_ - 1] = of_tag[tag_of(r)].message[e_];
                of_tag[tag_of(r)].gap[e_ - 1] = of_tag[tag_of(r)].gap[e_];
                e_++
            :: else -> break
            od;
            of_tag[tag_of(r)].count--;
            of_tag[tag_of(r)].message[of_tag[tag_of(r)].count] = 0;
            of_tag[tag_of(r)].gap[of_tag[tag_of(r)].count] = 0;
            e_ = 0
        :: of_tag[tag_of(r)].count > 0 && of_tag[tag_of(r)].gap[0] > 0 ->
#ifndef GAP_KEPT
            of_tag[tag_of(r)].gap[0]--
#else
            skip
#endif
        :: else
        fi
    }
}

/* A launch that is due. */
inline process(n)
{
    if
    :: is_recall[n] ->
        /* The slot has the recalled message, or that message was answered. */
        assert(by_slot[slot_in[n]] == message_of[n] + 1 ||
               (by_slot[slot_in[n]] == 0 && answered[message_of[n]]));
        by_slot[slot_in[n]] = 0
    :: else ->
        by_slot[slot_in[n]] = message_of[n] + 1;
        give_place(message_of[n], ahead_of[n])
    fi
}

#define FIRST_OF_TAG(r) ((r) == 0 || (r) == SENDS - 1 || entered[(r) - 1])

#define ARRIVE(n)                                                                                  \
    atomic {                                                                                       \
        flying[n] ->                                                                               \
        flying[n] = false;                                                                         \
        arrive(n)                                                                                  \
    }
#define ENTER(r)                                                                                   \
    atomic {                                                                                       \
        !entered[r] && FIRST_OF_TAG(r) -> enter(r)                                                 \
    }
#define ANSWER(k)                                                                                  \
    atomic {                                                                                       \
        is_matched[k] && !answered[k] ->                                                           \
        answered[k] = true;                                                                        \
        answer(k)                                                                                  \
    }
#define LAUNCH(k)                                                                                  \
    atomic {                                                                                       \
        !launched[k] && slots_free > 0 -> launch(k)                                                \
    }
#define TAKE_ANSWER(k)                                                                             \
    atomic {                                                                                       \
        answer_flying[k] ->                                                                        \
        answer_flying[k] = false;                                                                  \
        take_answer(k)                                                                             \
    }
#define RECALL(k)                                                                                  \
    atomic {                                                                                       \
        slot_of[k] > 0 && !recalled[k] -> recall(k)                                                \
    }

inline arrive(n)
{
#if defined(NO_STASH)
    process(n);
#elif defined(RECALL_UNORDERED)
    if
    :: is_recall[n] -> process(n); stashed[n] = true
    :: else -> stashed[n] = true
    fi;
#else
    stashed[n] = true;
#ifdef SLOT_KNOWN_EARLY
    if
    :: !is_recall[n] -> by_slot[slot_in[n]] = message_of[n] + 1
    :: else
    fi;
#endif
#endif
    do
    :: expected < LAUNCHES && stashed[expected] ->
        stashed[expected] = false;
#ifdef RECALL_UNORDERED
        if
        :: is_recall[expected]
        :: else -> process(expected)
        fi;
#else
        process(expected);
#endif
        expected++
    :: else -> break
    od
}

inline answer(k)
{
    d_step {
        byte s_ = 0;
        do
        :: s_ < SLOTS ->
            if
            :: by_slot[s_] == k + 1 -> by_slot[s_] = 0
            :: else
            fi;
            s_++
        :: else -> break
        od;
        s_ = 0;
        answer_flying[k] = true
    }
}

inline take_answer(k)
{
    slot_used[slot_of[k] - 1] = false;
    slot_of[k] = 0;
    slots_free++
}

proctype sender()
{
end:
    do
    :: LAUNCH(0)
    :: LAUNCH(1)
    :: LAUNCH(2)
    :: TAKE_ANSWER(0)
    :: TAKE_ANSWER(1)
    :: TAKE_ANSWER(2)
#ifdef RECALLS
    :: RECALL(0)
    :: RECALL(1)
    :: RECALL(2)
#else
    :: LAUNCH(3)
    :: LAUNCH(4)
    :: TAKE_ANSWER(3)
    :: TAKE_ANSWER(4)
#endif
    od
}

proctype receiver()
{
end:
    do
    :: ENTER(0)
    :: ENTER(1)
    :: ENTER(2)
    :: ARRIVE(0)
    :: ARRIVE(1)
    :: ARRIVE(2)
    :: ARRIVE(3)
    :: ARRIVE(4)
    :: ANSWER(0)
    :: ANSWER(1)
    :: ANSWER(2)
#ifdef RECALLS
    :: ARRIVE(5)
#else
    :: ENTER(3)
    :: ENTER(4)
    :: ANSWER(3)
    :: ANSWER(4)
#endif
    od
}

proctype judge()
{
    byte k;
    timeout ->
    do
    :: k < SENDS ->
        assert(launched[k] && is_matched[k] && entered[k] && has_message[k]);
        k++
    :: else -> break
    od;
    assert(of_tag[0].count == 0 && of_tag[1].count == 0);
#ifndef NO_STASH
    assert(expected == next_number);
#endif
    assert(slots_free == SLOTS)
}

init
{
    atomic {
        run sender();
        run receiver();
        run judge()
    }
}
