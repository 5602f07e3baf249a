/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleepers with store buffers, with Spin (tests/model/run base/sleeper.pml). Work is a count that
 * only its notifier stores, because a published word may be written without a barrier of its own.
 *
 *  ONE, ALL           base/eventcount.h, futex.c: the announcement is a count of sleepers, a wake
 *                     moves the epoch, on which they sleep. ONE: each notifier wakes a sleeper for
 *                     each item; any sleeper takes any. ALL: each sleeper waits for one notifier's
 *                     items, and a notify wakes all. Sleepers want all items
 *  ALONE, VISITED     engine/loop/loop.c, ground.c: the loop sleeps on the poller's edge-triggered
 *                     eventfd; it may wake for another reason, once. VISITED: a thread makes
 *                     progress once while another thread, which armed, sleeps; it takes the wake
 *                     and arms again (fry_embedded_progress, rearm). Full barriers pass the role
 *  MEMBARRIER, FENCE  engine/trace/bell.h, writer.c: recorders have no barrier, and
 *                     the trace file's thread calls membarrier, which ends when each has passed
 *                     one since it began; or they have a fence. Lingering ends by a timeout, at
 *                     any time (that recorders cut it short is left out). A recorder goes on only
 *                     when its record was taken, so nothing helps one that was left behind
 *
 * A futex compares and goes to sleep in one step, and may return early for no reason, but once in
 * all, so that this can't save a lost wake-up. Holds: no thread sleeps for ever beside work (an
 * invalid end state); the formula finds a loop that never rests.
 */
/* correct: ONE ALL ALONE VISITED MEMBARRIER FENCE */
/* liveness: ALONE VISITED */
/* broken: ONE+LOOK_BEFORE_ANNOUNCE,NOTIFY_WITHOUT_BARRIER,KEY_AFTER_LOOK invalid end state */
/* broken: ONE+SLEEP_WITHOUT_COMPARE,EPOCH_STAYS invalid end state */
/* broken: ONE+SLEEPER_FORGETS_TO_LEAVE assertion violated */
/* broken: ALL+LOOK_BEFORE_ANNOUNCE,SLEEP_WITHOUT_COMPARE,WAKE_TOO_FEW invalid end state */
/* broken: ALONE+LOOK_BEFORE_ANNOUNCE,ANNOUNCE_WITHOUT_BARRIER invalid end state */
/* broken: ALONE+SLEEP_WITHOUT_LOOK,NOTIFY_WITHOUT_BARRIER,WAKE_WITHOUT_WRITE invalid end state */
/* broken: ALONE+EVENT_STAYS acceptance cycle */
/* broken: VISITED+VISITOR_LEAVES_AWAKE,VISITOR_ARMS_AND_GOES invalid end state */
/* broken: MEMBARRIER+ANNOUNCE_WITHOUT_BARRIER,BARRIER_BEFORE_ANNOUNCE invalid end state */
/* broken: MEMBARRIER+LOOK_BEFORE_ANNOUNCE,SLEEP_WITHOUT_LOOK invalid end state */
/* broken: MEMBARRIER+NOTIFY_BEFORE_PUBLISH,WAKE_LEAVES_ANNOUNCEMENT invalid end state */
/* broken: MEMBARRIER+ASK_BY_BELL_ALONE,SLEEP_WHATEVER_IS_ASKED invalid end state */
/* broken: FENCE+NOTIFY_WITHOUT_BARRIER invalid end state */

#define STORE_BUFFERS 3
#define SLEEPER 2 /* the loop's buffer; the notifiers have 0 and 1 */
#include "base/sleeper.inc"

byte published[2], consumed[2];
bit in_kernel[2]; /* sleepers on the futex */
bit was_early, finished;

ltl all_is_done { <> finished }

inline publish() { store(me, round) }
inline write(who) {
    if :: who == SLEEPER -> asleep = buffered[who] :: else -> published[who] = buffered[who] fi
}
inline notify_barrier() { skip; UNLESS(MEMBARRIER, FULL_BARRIER(me);) }

inline futex_wait(word, expected, me, has_timeout) {
    in_kernel[me] = (word == expected IF(SLEEP_WITHOUT_COMPARE, || true));
    if
    :: !in_kernel[me]
    :: atomic { has_timeout && in_kernel[me] -> in_kernel[me] = 0 }
    :: atomic { !was_early && in_kernel[me] -> in_kernel[me] = 0; was_early = 1 }
    fi
}

#if defined(ONE) || defined(ALL)
#if defined(ALL) && !defined(WAKE_TOO_FEW)
#define WAKES_ALL 1
#endif
#define COUNT_OF(who) (2 - (who)) /* notifier 0 makes two items, sleeper 0 wants two */
byte epoch, sleepers, ended;

inline announce() { sleepers++; key = epoch }
inline announce_barrier() { skip }
inline read_announcement() { is_seen = (sleepers != 0) }
inline cancel() { skip; UNLESS(SLEEPER_FORGETS_TO_LEAVE, sleepers--;) }

inline look(armed) { /* takes an item that this sleeper may take, if there is one */
    armed = 1;
    for (i : first .. last) {
        if
        :: atomic { published[i] != consumed[i] -> consumed[i]++; armed = 0 }; break
        :: published[i] == consumed[i]
        fi
    }
    i = 0
}
inline commit() {
    IF(KEY_AFTER_LOOK, key = epoch;)
    WHEN(epoch == key, futex_wait(epoch, key, me, false));
    key = 0;
    cancel()
}
inline wake() {
    UNLESS(EPOCH_STAYS, atomic { FULL_BARRIER(me); epoch++ };)
    if
    :: atomic { in_kernel[0] -> in_kernel[0] = 0; IF(WAKES_ALL, in_kernel[1] = 0;) }
    :: atomic { in_kernel[1] -> in_kernel[1] = 0; IF(WAKES_ALL, in_kernel[0] = 0;) }
    :: !in_kernel[0] && !in_kernel[1]
    fi
}

proctype sleeper(byte me) {
    byte round, i, key, first = IS_DEFINED(ALL) * me, last = (IS_DEFINED(ALL) -> me : 1);
    bit armed;
    do
    :: round < COUNT_OF(me) ->
        look(armed);
        WHEN(armed, arm(armed));
        if :: armed -> commit() :: else -> round++ fi
    :: else -> break
    od;
    atomic { ended++; assert(ended < 2 || sleepers == 0) }
}
#define RUN_SLEEPERS run sleeper(0); run sleeper(1)

#else
#define COUNT_OF(who) 2
#define ALL_CONSUMED (consumed[0] == COUNT_OF(0) && consumed[1] == COUNT_OF(1))
bit role, asked, closing;

inline read_announcement() { is_seen = (asleep == ASLEEP) }
inline wake() { /* the swap is a full barrier; another thread may have been first */
    atomic {
        FULL_BARRIER(me);
        is_first = (asleep == ASLEEP);
        UNLESS(WAKE_LEAVES_ANNOUNCEMENT, WHEN(is_first, asleep = AWAKE);)
    };
    UNLESS(WAKE_WITHOUT_WRITE, WHEN(is_first, wake_in_kernel());)
    is_first = 0
}
inline look(armed) { /* word by word */
    armed = !asked IF(SLEEP_WHATEVER_IS_ASKED, || true);
    armed = armed && published[0] == consumed[0];
    armed = armed && published[1] == consumed[1]
}
inline work(who) { consumed[who] = published[who] }

#if defined(ALONE) || defined(VISITED)
inline wake_in_kernel() { event = 1 }
inline announce() { store(SLEEPER, ASLEEP) }
inline announce_barrier() { FULL_BARRIER(SLEEPER) }
inline cancel() { store(SLEEPER, AWAKE) } /* fry_disarm */
inline give_role() { FULL_BARRIER(SLEEPER); role = 0 }

#define RUN_SLEEPERS run loop(); IF(VISITED, run visitor())
proctype loop() {
    bit armed, had_other_event;
    do
    :: TAKE(role); work(0); work(1); arm(armed); give_role();
        WHEN(armed,
             if
             :: atomic { event -> event = IS_DEFINED(EVENT_STAYS) }
             :: atomic { !had_other_event -> had_other_event = 1 }
             :: atomic { ALL_CONSUMED -> finished = 1; break }
             fi);
        TAKE(role); cancel(); give_role()
    od
}

#ifdef VISITED
proctype visitor() {
    bit armed;
    TAKE(role); cancel(); event = 0; /* fry_poller_wait */
    work(0); work(1);
    UNLESS(VISITOR_LEAVES_AWAKE,
           arm(armed);
           UNLESS(VISITOR_ARMS_AND_GOES, WHEN(!armed, event = 1);))
    give_role()
}
#endif

#else
#define LINGERING 2

inline wake_in_kernel() { in_kernel[0] = 0 }
inline announce() { asleep = ASLEEP }
inline cancel() { asleep = AWAKE }

/* One processor after the other, as the interrupts come. */
inline announce_barrier() { skip; IF(MEMBARRIER, FULL_BARRIER(0); FULL_BARRIER(1);) }

#define RUN_SLEEPERS run writer(); run asker()
proctype writer() {
    bit armed, is_last, has_found = 1;
    do
    :: asked = 0;
        is_last = closing;
        atomic { has_found = has_found || published[0] != consumed[0]; work(0) };
        atomic { has_found = has_found || published[1] != consumed[1]; work(1) };
        if
        :: is_last -> break
        :: !is_last && has_found ->
            has_found = 0;
            asleep = LINGERING;
            WHEN(!asked, futex_wait(asleep, LINGERING, 0, true));
            asleep = AWAKE
        :: else -> arm(armed); WHEN(armed, futex_wait(asleep, ASLEEP, 0, false); asleep = AWAKE)
        fi
    od;
    finished = 1
}

proctype asker() { /* wants the last round */
    byte before;
    ALL_CONSUMED;
    closing = 1;
    UNLESS(ASK_BY_BELL_ALONE, asked = 1;)
    atomic { before = asleep; asleep = AWAKE };
    WHEN(before != AWAKE, wake_in_kernel());
    finished
}
#endif
#endif

proctype notifier(byte me) {
    byte round;
    bit is_seen, is_first;
    for (round : 1 .. COUNT_OF(me)) {
        publish_and_notify();
        IF(MEMBARRIER, consumed[me] == round;) IF(FENCE, consumed[me] == round;)
    }
}

proctype buffer(byte who) { /* of a processor */
    end: do :: atomic { is_buffered[who] -> write(who); buffered[who] = 0; is_buffered[who] = 0 } od
}

init {
    atomic {
        run notifier(0); run notifier(1); run buffer(0); run buffer(1); run buffer(SLEEPER);
        RUN_SLEEPERS
    }
}
