/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's sleep beside the baton, with Spin (tests/model/run engine/loop/loop_sleep.pml;
 * base/sleeper.inc). engine/loop/loop.c, handle.c and members.c have the arguments.
 *
 *  loop      fry_tick, which does nothing without the baton; fry_arm, with the baton, or without it
 *            if the thread that has it is sure to wake the loop
 *  helper    help of handle.c: holds of the baton, then fry_help_ends
 *  visitor   a thread that submits
 *  looker    a thread in ferry_future_wait: looks, also at an armed channel (watch_members,
 *            fry_route_look), goes when its message has come, or parks (watch_no_more)
 *  launcher  sends, cancels or refuses (fry_route_launched); if the other end's queue is full, a
 *            post waits (fry_peer_is_busy)
 *  peer      the other end: sends, and sometimes empties its full queue
 *
 * HELPED: holds may leave work that only the loop can do. The graph's state tells of some of it (a
 * batch whose cancel has begun), not of all, so whoever leaves work also sets loop_wanted. The loop
 * may wake for another reason, once.
 * LOOKS: heads that no thread reports (head_is_new of lane.c). An arm with a look sets the timer
 * for what is in flight, and next_look says so; an arm without one leaves both. Each head wants its
 * look later than those before, so it wakes the loop only if no look is set. A helper looks too.
 * SHARED: a channel in UCX's shared memory. The first arrival after an arming makes its descriptor
 * readable until the next. Nothing tells when a full queue has room again, so a channel that
 * refuses to be armed for that is stuck: it stays polled, and the loop sleeps with a timer.
 * NETWORK: over TCP, readable as long as data is there, reported anew with each arrival. Either is
 * watched for one event, from the arming on; being readable then is one. The event is lost if the
 * descriptor is not readable any more when the poller looks. A message needs an answer: by the next
 * progress that finds nothing, or when the channel is armed.
 *
 * A timer that is set may expire at any moment. Holds: all work left is taken, all heads are seen,
 * no message, answer or post is left with all threads asleep. The loop ends only then.
 */
/* correct: HELPED LOOKS SHARED NETWORK */
/* liveness: HELPED */
/* broken: HELPED+END_WITHOUT_LOOK,END_COUNTS_LAST,END_WITHOUT_WAKE_IF_TAKEN invalid end state */
/* broken: HELPED+END_LOOKS_AT_STATE_ALONE,END_LOOKS_AT_WANTED_ALONE invalid end state */
/* broken: HELPED+ARM_LOOKS_AT_STATE_ALONE,ARM_TAKES_IT,LOOK_BEFORE_ANNOUNCE invalid end state */
/* broken: LOOKS+END_KEEPS_LOOK,END_WITHOUT_WAKE,END_WITHOUT_WAKE_IF_TAKEN invalid end state */
/* broken: LOOKS+NEW_HEAD_WITHOUT_WAKE,ARM_WITHOUT_TIMER,LOOK_BEFORE_ANNOUNCE invalid end state */
/* broken: NETWORK+LOOK_LEAVES_IT_ARMED,LOOK_WITHOUT_WAKE,LOOK_BEFORE_ANNOUNCE invalid end state */
/* broken: SHARED+STUCK_TAKEN_BACK,STUCK_WITHOUT_TIMER,LAUNCH_WITHOUT_WAKE invalid end state */
/* broken: SHARED+LAUNCH_WITHOUT_POLL,GRACE_WITHOUT_TIMER,LOOK_BEFORE_ANNOUNCE invalid end state */
/* broken: SHARED+BATON_TAKEN_WITHOUT_TIMER,ARM_WITHOUT_LOOK,ARM_WITHOUT_POLLER invalid end state */

#include "base/sleeper.inc"

bit baton, finished;
bit timer; /* the poller's timer is set */

ltl all_is_done { <> finished }

inline wake_in_kernel() { event = 1 }

#if defined(HELPED) || defined(LOOKS)
#define HELPERS 2
#define HOLDINGS 2
#define HEADS 3

bit wanted;
byte helpers;
byte shown;    /* work for the loop alone, shown by the graph's state, perhaps for several ticks */
bit unseen;    /* the same, but no state shows it */
byte gone;     /* helpers and visitors that have ended */
bit next_look; /* engine->next_look_ns is a time, perhaps a past one */
bit in_flight; /* a head that no thread has seen fire */
byte submitted;

#ifdef HELPED
#define ALL_DONE (gone == HELPERS + 1 && shown == 0 && !unseen)

inline work() {
    wanted = 0;
    unseen = 0;
    if :: shown = 0 :: shown > 1 -> shown-- fi /* its time is over, or not yet */
}
inline look_with_baton(armed) {
    armed = (shown == 0 UNLESS(ARM_LOOKS_AT_STATE_ALONE, && !wanted));
    IF(ARM_TAKES_IT, wanted = 0; armed = 1;)
}
inline hold() {
    if
    :: shown++; wanted = 1; has_to = 1
    :: unseen = 1; wanted = 1; has_to = 1
    :: has_to = 0
    fi
}
inline loop_is_needed() {
    has_to = (wanted UNLESS(END_LOOKS_AT_WANTED_ALONE, || shown != 0));
    IF(END_LOOKS_AT_STATE_ALONE, has_to = (shown != 0);)
}

active proctype visitor() {
    bit has_to;
    TAKE(baton, hold()); baton = 0; WHEN(has_to, notify()); gone++
}

#else
#define ALL_DONE (submitted == HEADS && !in_flight)

inline work() { if :: in_flight = 0 :: skip fi } /* the head has fired by now, or not yet */
inline look_with_baton(armed) { work(); will_look = in_flight; next_look = in_flight; armed = 1 }
inline hold() { work() }
inline loop_is_needed() {
    has_to = in_flight;
    UNLESS(END_KEEPS_LOOK, next_look = next_look && has_to;)
}

active proctype visitor() {
    bit has_to;
    for (submitted : 0 .. HEADS - 1) {
        atomic { !baton && !in_flight -> baton = 1; in_flight = 1; has_to = !next_look };
        baton = 0;
        UNLESS(NEW_HEAD_WITHOUT_WAKE, WHEN(has_to, notify());)
    }
}

active proctype clock() { end: do :: atomic { timer -> timer = 0; event = 1 } od }
#endif

inline tick() { if :: TAKE(baton, work()); baton = 0 :: baton fi }

inline look(armed) {
    if
    :: TAKE(baton, look_with_baton(armed)); baton = 0;
        IF(LOOKS, UNLESS(ARM_WITHOUT_TIMER, timer = will_look;))
    :: baton -> armed = (helpers != 0)
    fi
}
inline commit() {
    if
    :: atomic { event -> event = 0 }
    :: atomic { !had_other_event -> had_other_event = 1 }
    :: atomic { ALL_DONE -> finished = 1 }
    fi
}

active [HELPERS] proctype helper() {
    byte round;
    bit has_to;
    helpers++;
    for (round : 1 .. HOLDINGS) {
        if
        :: TAKE(baton, hold()); baton = 0; WHEN(has_to, notify())
        :: baton -> break
        fi
    }
    UNLESS(END_COUNTS_LAST, helpers--;)
    UNLESS(END_WITHOUT_LOOK,
        if
        :: TAKE(baton, loop_is_needed()); baton = 0;
           UNLESS(END_WITHOUT_WAKE, WHEN(has_to, notify());)
        :: baton -> UNLESS(END_WITHOUT_WAKE_IF_TAKEN, notify();)
        fi;)
    IF(END_COUNTS_LAST, helpers--;)
    IF(HELPED, gone++;)
}

#else
#define MESSAGES 2

bit grace;           /* the grace has not lapsed */
byte queue;          /* messages that have come and were not taken */
bit is_armed;        /* SHARED: the next arrival makes the descriptor readable */
bit signalled;       /* SHARED: the descriptor is readable */
bit watched, edge;   /* the poller watches the descriptor for an event; the event has come */
bit stuck;           /* the loop has found it so (has_stuck) */
bit queue_is_full;   /* the other end's queue */
bit posted;          /* a post waits for room there */
bit room;            /* NETWORK: the descriptor says that there is room */
bit owed;            /* an answer is due */
bit polled = 1;      /* set when it is attached */
bit reported;        /* by the poller; the loop has yet to poll */
bit must_arm, watchers, looks; /* a look came since the loop's last */
byte received, ended;

#define READABLE (IF(SHARED, signalled) IF(NETWORK, queue > 0 || (room && posted)))
#define ALL_DONE (ended == 3 && queue == 0 && !owed && !posted && received == MESSAGES)

/* Sends the due answer, or makes it wait for room. */
inline answer() { posted = posted || (owed && queue_is_full); owed = 0 }

inline progress() { /* fry_peer_progress, with the baton */
    d_step {
        found = 0;
        WHEN(posted && !queue_is_full, posted = 0; room = 0; found = 1);
        if
        :: queue > 0 -> queue--; received++; owed = 1; found = 1
        :: queue == 0 && owed -> answer(); found = 1
        :: else
        fi;
        IF(STUCK_TAKEN_BACK, stuck = 0;)
    }
}
inline arm_channel(armed) { /* fry_route_arm, with the baton */
    answer();
    armed = 1;
    IF(SHARED, if
               :: queue > 0 && !IS_DEFINED(ARM_WITHOUT_LOOK) -> armed = 0
               :: (queue == 0 || IS_DEFINED(ARM_WITHOUT_LOOK)) && posted -> armed = 0; stuck = 1
               :: else -> is_armed = 1; signalled = 0
               fi;)
    UNLESS(ARM_WITHOUT_POLLER, WHEN(armed, watched = 1; edge = READABLE);)
}
inline arm_polled(armed) { /* is_looked_at and arm_routes, with the baton */
    d_step { must = must_arm; must_arm = 0 };
    d_step { is_watched = watchers; grace = grace && (!must || is_watched) };
    if
    :: grace -> is_watched = 1
    :: d_step { !grace -> is_watched = is_watched || (!must && looks); looks = 0;
                grace = is_watched }
    fi;
    must = 0;
    if
    :: is_watched -> is_watched = 0; UNLESS(GRACE_WITHOUT_TIMER, timer = 1;)
    :: else -> progress();
               d_step { stuck = 0; armed = 0; WHEN(!found, arm_channel(armed)); polled = !armed;
                         armed = armed || stuck; found = 0 }
    fi
}
inline tick() {
    if
    :: TAKE(baton, polled = polled || reported; reported = 0);
        WHEN(polled, progress());
        d_step { found = 0; baton = 0 }
    :: baton
    fi
}
inline look(armed) {
    if
    :: TAKE(baton, timer = 0; armed = !reported);
       WHEN(armed && polled, arm_polled(armed));
       baton = 0;
       UNLESS(STUCK_WITHOUT_TIMER, timer = timer || (polled && stuck);)
    :: d_step { baton -> armed = watchers && !reported; /* perhaps a waiting thread has it */
                UNLESS(BATON_TAKEN_WITHOUT_TIMER, timer = timer || armed;) }
    fi
}
inline commit() {
    do
    :: atomic { event -> event = 0; break }
    :: atomic { edge && READABLE -> edge = 0; watched = 0; reported = 1; break }
    :: atomic { edge && !READABLE -> edge = 0 }
    :: atomic { timer -> timer = 0; grace = 0; break }
    :: atomic { ALL_DONE -> finished = 1; break }
    od
}

active proctype looker() {
    byte wanted;
    bit found, must_wake;
    for (wanted : 1 .. MESSAGES) {
        watchers = 1;
        do
        :: received >= wanted -> break
        :: received < wanted && !baton -> /* fry_members_look */
            looks = 1;
            if
            :: TAKE(baton);
                progress();
                d_step {
                    UNLESS(LOOK_WITHOUT_WAKE, must_wake = found && !polled;)
                    polled = polled || found;
                    IF(LOOK_LEAVES_IT_ARMED, polled = polled && !must_wake; must_wake = 0;)
                    found = 0;
                    baton = 0
                };
                WHEN(must_wake, must_wake = 0; notify())
            :: baton
            fi
        :: true -> break /* has spun for long enough */
        od;
        watchers = 0;
        WHEN(received < wanted, /* parks */
             WHEN(polled, must_arm = 1; notify());
             received >= wanted)
    }
    ended++
}

active proctype launcher() {
    bit must_wake;
    TAKE(baton);
    d_step {
        WHEN(queue_is_full,
             posted = 1;
             UNLESS(LAUNCH_WITHOUT_POLL, must_wake = !polled; polled = 1;));
        baton = 0
    };
    UNLESS(LAUNCH_WITHOUT_WAKE, WHEN(must_wake, must_wake = 0; notify());)
    ended++
}

active proctype peer() {
    byte sent;
    bit has_filled;
    do
    :: atomic { sent < MESSAGES -> sent++; queue++;
                edge = edge || (watched IF(SHARED, && is_armed));
                IF(SHARED, signalled = signalled || is_armed; is_armed = 0;) }
    :: atomic { !queue_is_full && !has_filled -> queue_is_full = 1; has_filled = 1 }
    :: atomic { queue_is_full -> queue_is_full = 0;
                IF(NETWORK, room = room || posted; edge = edge || (watched && posted);) }
    :: sent == MESSAGES && !queue_is_full -> break
    od;
    ended++
}
#endif

active proctype loop() {
    bit armed, will_look, had_other_event = IS_DEFINED(LOOKS), found, must, is_watched;
    do
    :: tick();
        arm(armed);
        WHEN(armed, commit());
        if :: finished -> break :: else -> asleep = AWAKE fi /* fry_disarm */
    od
}
