/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sleeps where without a thread of ferry's own, with Spin (tests/model/run
 * engine/loop/embedded_roles.pml; base/sleeper.inc). engine/loop/embedded.c has the argument.
 *
 *  user       a thread of the user's loop: ferry_engine_progress, ferry_engine_arm, sleep on
 *             user_poller. TWO_LOOPS: two threads, which call in any order or not at all; so one is
 *             also a thread that makes progress or arms once beside a loop that sleeps
 *  waiting    WAITS: a thread in ferry_future_wait, with the seat: ticks, sleeps on the poller
 *             (poller_sleep), or parks for the role (park)
 *  publisher  any thread that leaves work for the graph; the work makes a callback due
 *  resolver   a thread that resolves the future for which `waiting` waits (fry_fire_waiter); or the
 *             work does so, in any thread's tick
 *
 * `event` is the poller's readiness, which stays until a thread has taken it (take_wakes, or
 * fry_embedded_progress through user_poller). Holds: no thread sleeps over its own work. All work
 * is done, the waiting thread returns, and all callbacks have run in the user's loop, unless both
 * its threads made no further calls; anything else is an invalid end state.
 */
/* correct: WAITS TWO_LOOPS */
/* broken: WAITS+LEAVE_WITHOUT_REARM,WANTED_NOT_LOOKED_AT,LOOK_BEFORE_ANNOUNCE invalid end state */
/* broken: WAITS+CALLBACKS_LEFT_ALONE,FIRED_NOT_LOOKED_AT invalid end state */
/* broken: WAITS+NUDGE_BEFORE_GIVE,RETURN_WITHOUT_LEAVE invalid end state */
/* broken: TWO_LOOPS+LEAVE_WITHOUT_REARM,CALLBACKS_LEFT_ALONE,WOKEN_FOR_GOOD invalid end state */
/* broken: TWO_LOOPS+PROGRESS_ENDS_ALL_ARMS,BUSY_ENDS_ALL_ARMS invalid end state */
/* broken: TWO_LOOPS+LAST_ARM_ALONE,LOOK_BEFORE_ANNOUNCE invalid end state */

#include "base/sleeper.inc"

#define NOBODY 0 /* in armed_by; the users are 1 and 2 */
#define SEVERAL 3
#define ALL_DONE (published && work == 0 && due == 0 && waiting_is_done && resolver_is_done)

bit role, user_event, user_poller_is_due, arm_wanted, sleepers, wake_written;
byte armed_by;
bit user_woken; /* user_event was set and not yet taken */
bit published, work, due;
bit resolved, by_tick; /* the work resolves the future */
bit waiter_listed;     /* on the future: the resolver fires it */
bit waiter_state, waiter_fired;
bit parked, listed; /* the future's mark; in embedded_waiters */
bit waiting_is_done = IS_DEFINED(TWO_LOOPS), resolver_is_done = IS_DEFINED(TWO_LOOPS);

inline wake_in_kernel() { wake_written = 1; event = 1 }
inline look(armed) { armed = !work }
inline nudge() { parked = parked && !listed }

inline resolve() {
    atomic { resolved = 1; parked = 0 }; /* one exchange */
    WHEN(waiter_listed, waiter_fired = 1; waiter_state = 0; notify())
}
inline tick() {
    worked = work;
    WHEN(worked, atomic { work = 0; due = 1 }; d_step { WHEN(by_tick, resolve()) })
}
inline rearm() {
    WHEN((armed_by || sleepers) && !asleep,
         arm(armed);
         d_step { WHEN(!armed UNLESS(FIRED_NOT_LOOKED_AT, || waiter_fired), wake_in_kernel()) })
}
inline take_over() {
    atomic { arm_wanted = 0; user_poller_is_due = user_poller_is_due || armed_by }
}

/* Wakes the user's loop for callbacks, gives the role, then looks whether an arm was wanted. */
inline give_and_look() {
    UNLESS(CALLBACKS_LEFT_ALONE,
           d_step { WHEN(armed_by && due && !user_woken, user_woken = 1; user_event = 1) };)
    IF(NUDGE_BEFORE_GIVE, nudge();)
    role = 0;
    UNLESS(NUDGE_BEFORE_GIVE, nudge();)
    IF(WANTED_NOT_LOOKED_AT, break;)
    if
    :: arm_wanted -> if :: TAKE(role) :: role -> break fi
    :: else -> break
    fi
}

/* role_give of a thread that comes back, and of one that does not. */
inline leave_for_a_while() { do :: take_over(); give_and_look() od }
inline leave() { do :: take_over(); UNLESS(LEAVE_WITHOUT_REARM, rearm();) give_and_look() od }

inline withdraw(from_all) { atomic { WHEN(armed_by == me || from_all, armed_by = NOBODY) } }

inline progress() { /* ferry_engine_progress */
    if
    :: TAKE(role);
        withdraw(IS_DEFINED(PROGRESS_ENDS_ALL_ARMS));
        asleep = AWAKE;
        d_step { WHEN(user_poller_is_due, user_poller_is_due = 0; user_event = 0; event = 0;
                      user_woken = user_woken && IS_DEFINED(WOKEN_FOR_GOOD)) };
        tick();
        if
        :: due = 0             /* callbacks, with the role: all due ones */
        IF(TWO_LOOPS, :: true) /* or as many as the budget allows, here none */
        fi;
        leave();
        armed = 0; worked = 0 /* fewer states */
    :: role
    fi
}
inline arm_to_sleep() { /* ferry_engine_arm */
    sleeps = 0;
    atomic { /* says that it sleeps, before it has the role */
        if
        :: armed_by == NOBODY || armed_by == me || IS_DEFINED(LAST_ARM_ALONE) -> armed_by = me
        :: else -> armed_by = SEVERAL
        fi
    };
    if
    :: TAKE(role)
    :: role -> arm_wanted = 1; if :: TAKE(role); arm_wanted = 0 :: role -> sleeps = 1 fi
    fi;
    WHEN(!sleeps,
         arm(armed);
         sleeps = armed && !due;
         WHEN(!sleeps, withdraw(IS_DEFINED(BUSY_ENDS_ALL_ARMS)));
         user_poller_is_due = 1;
         leave();
         armed = 0)
}
inline sleep_on_user_poller() {
    if
    :: atomic { event || user_event -> sleeps = 0 }
    :: atomic { ALL_DONE -> break }
    fi
}

proctype user(byte me) {
    bit armed, worked, sleeps;
    do
    :: break /* it makes no further calls */
    IF(TWO_LOOPS, :: progress())
    :: IF(WAITS, progress();) arm_to_sleep(); WHEN(sleeps, sleep_on_user_poller())
    od
}

proctype publisher() { atomic { work = 1; published = 1 }; notify() }

#ifdef WAITS
inline seat_sleep() {
    waiter_fired = 0;
    waiter_state = 1;
    waiter_listed = !resolved;
    WHEN(waiter_listed, arm(armed));
    sleepers = armed;
    may_sleep = armed && waiter_state; /* it was fired before it was known to sleep? */
    leave();
    WHEN(may_sleep, event);
    sleepers = 0;
    waiter_listed = waiter_listed && resolved; /* takes it back, or is too late */
    WHEN(waiter_listed, waiter_state == 0; waiter_listed = 0);
    waiter_fired = 0
}
inline park() {
    listed = 1;
    parked = !resolved;
    WHEN(parked && role, !parked); /* the nudge or the seal clears it */
    atomic { parked = 0; listed = 0 }
}

proctype waiting() {
    bit armed, worked, slept = 1, may_sleep;
    do
    :: resolved -> break
    :: else ->
        atomic { armed = 0; worked = 0; if :: may_sleep = 0 :: may_sleep = 1 fi };
        if
        :: TAKE(role);
            WHEN(slept || wake_written, wake_written = 0; asleep = AWAKE; event = 0);
            tick();
            slept = !worked && may_sleep;
            if :: slept -> seat_sleep() :: else -> leave_for_a_while() fi
        :: role -> WHEN(may_sleep, park())
        fi
    od;
    UNLESS(RETURN_WITHOUT_LEAVE, if :: TAKE(role); leave() :: role fi;)
    waiting_is_done = 1
}

proctype resolver() { WHEN(!by_tick, resolve()); resolver_is_done = 1 }
#endif

init {
    atomic { run user(1); run publisher(); IF(TWO_LOOPS, run user(2);)
             IF(WAITS, if :: by_tick = 0 :: by_tick = 1 fi; run waiting(); run resolver();) }
}
