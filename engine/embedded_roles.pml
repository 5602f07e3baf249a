/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sleeps where without a thread of ferry's own, with Spin (tests/model/run
 * engine/embedded_roles.pml).
 *
 *  user       a thread of the user's loop: ferry_engine_progress, ferry_engine_arm, sleep on
 *             user_poller. TWO_LOOPS: two threads, which call in any order or not at all; so one is
 *             also a thread that makes progress or arms once beside a loop that sleeps
 *  waiting    WAITS: a thread in ferry_future_wait, with the seat: ticks, sleeps on the poller
 *             (poller_sleep), or parks for the role (park), all of engine/embedded.c
 *  publisher  any thread that leaves work for the graph; each piece makes a callback due
 *  resolver   a thread that resolves the future for which `waiting` waits (fry_fire_waiter); or the
 *             last piece of work does so, in any thread's tick
 *
 * `inner` is the poller's readiness, which stays until a thread has taken it (take_wakes, or
 * fry_embedded_progress through user_poller). Holds: no thread sleeps over its own work. All work
 * is done, the waiting thread returns, and all callbacks have run in the user's loop, unless both
 * its threads made no further calls; anything else is an invalid end state. Steps are sequentially
 * consistent: loop_sleep.pml has what store buffers do to the sleep, and every word in question is
 * passed on with full barriers.
 */
/* correct: WAITS */
/* correct: TWO_LOOPS */
/* broken: WAITS+LEAVE_WITHOUT_REARM invalid end state */
/* broken: WAITS+WANTED_NOT_LOOKED_AT invalid end state */
/* broken: WAITS+CALLBACKS_LEFT_ALONE invalid end state */
/* broken: WAITS+FIRED_NOT_LOOKED_AT invalid end state */
/* broken: WAITS+NUDGE_BEFORE_GIVE invalid end state */
/* broken: WAITS+RETURN_WITHOUT_LEAVE invalid end state */
/* broken: TWO_LOOPS+LEAVE_WITHOUT_REARM invalid end state */
/* broken: TWO_LOOPS+CALLBACKS_LEFT_ALONE invalid end state */
/* broken: TWO_LOOPS+PROGRESS_ENDS_ALL_ARMS invalid end state */
/* broken: TWO_LOOPS+BUSY_ENDS_ALL_ARMS invalid end state */
/* broken: TWO_LOOPS+LAST_ARM_ALONE invalid end state */
/* broken: TWO_LOOPS+WOKEN_FOR_GOOD invalid end state */

#define PIECES 1

/* armed_by; the users are 1 and 2 */
#define NOBODY 0
#define SEVERAL 3

bit role;
bit asleep;
bit inner;
bit user_event;
byte armed_by;
bit user_woken; /* user_event was set and not yet taken */
bit user_poller_is_due;
bit arm_wanted;
bit sleepers;
bit waiter_fired;
bit wake_written;
byte work;
byte due;
byte published;
bit resolved;
bit waiter_listed; /* on the future: the resolver fires it */
bit waiter_state;
bit parked;  /* the future's mark */
bit listed;  /* in embedded_waiters */
bit waiting_is_done;
bit resolver_is_done;
bit by_tick; /* the last piece of work resolves the future */

#define ALL_DONE                                                                                   \
    (published == PIECES && work == 0 && due == 0 && waiting_is_done && resolver_is_done)

/* fry_wake: one compare-and-swap decides which thread writes. */
inline wake()
{
    d_step {
        if
        :: asleep ->
            asleep = 0;
            wake_written = 1;
            inner = 1
        :: else
        fi
    }
}

/* fry_arm: stores that it is asleep, then looks. */
inline arm(armed)
{
    asleep = 1;
    atomic {
        if
        :: work != 0 ->
            asleep = 0;
            armed = 0
        :: else -> armed = 1
        fi
    }
}

/* Seals the future in a tick by one exchange. The role is taken, so no thread arms meanwhile. */
inline resolve()
{
    d_step {
        resolved = 1;
        parked = 0;
        if
        :: waiter_listed ->
            waiter_fired = 1;
            waiter_state = 0
        :: else
        fi;
        if
        :: waiter_listed && asleep ->
            asleep = 0;
            wake_written = 1;
            inner = 1
        :: else
        fi
    }
}

inline tick(worked)
{
    worked = 0;
    do
    :: atomic {
           work > 0 ->
           work--;
           due++;
           worked = 1
       };
       if
       :: by_tick && published == PIECES && work == 0 -> resolve()
       :: else
       fi
    :: work == 0 -> break
    od
}

inline rearm(armed)
{
    if
    :: !asleep ->
        arm(armed);
        d_step {
            if
            :: !armed ->
                wake_written = 1;
                inner = 1
#ifndef FIRED_NOT_LOOKED_AT
            :: armed && waiter_fired ->
                wake_written = 1;
                inner = 1
#endif
            :: else
            fi
        }
    :: else
    fi
}

inline nudge()
{
    parked = parked && !listed
}

inline take_over_wanted()
{
    atomic {
        if
        :: arm_wanted -> arm_wanted = 0
        :: else
        fi;
        if
        :: armed_by != NOBODY -> user_poller_is_due = 1
        :: else
        fi
    }
}

inline wake_user_for_callbacks()
{
#ifndef CALLBACKS_LEFT_ALONE
    d_step {
        if
        :: armed_by != NOBODY && due > 0 && !user_woken ->
            user_woken = 1;
            user_event = 1
        :: else
        fi
    }
#else
    skip
#endif
}

/* Gives the role, then looks; repeats while it takes the role again. */
inline give_and_look()
{
#ifdef NUDGE_BEFORE_GIVE
    nudge();
    role = 0;
#else
    role = 0;
    nudge();
#endif
    if
#ifndef WANTED_NOT_LOOKED_AT
    :: arm_wanted ->
        if
        :: atomic { !role -> role = 1 }
        :: role -> break
        fi
    :: else -> break
#else
    :: true -> break
#endif
    fi
}

/* role_give: the arming thread comes back, or does not. */
inline comes_back()
{
    do
    :: take_over_wanted();
       wake_user_for_callbacks();
       give_and_look()
    od
}

inline leave(armed)
{
    do
    :: take_over_wanted();
#ifndef LEAVE_WITHOUT_REARM
       if
       :: armed_by != NOBODY || sleepers -> rearm(armed)
       :: else
       fi;
#endif
       wake_user_for_callbacks();
       give_and_look()
    od
}

/* Stores that it sleeps, before it has the role. */
inline announce(me)
{
    atomic {
        if
        :: armed_by == NOBODY -> armed_by = me
#ifdef LAST_ARM_ALONE
        :: else -> armed_by = me
#else
        :: armed_by == me
        :: else -> armed_by = SEVERAL
#endif
        fi
    }
}

/* Stores that it is awake. */
inline withdraw(me)
{
    atomic {
        if
        :: armed_by == me -> armed_by = NOBODY
        :: else
        fi
    }
}

/* ferry_engine_progress. */
inline progress(me)
{
    if
    :: atomic { !role -> role = 1 };
#ifdef PROGRESS_ENDS_ALL_ARMS
        armed_by = NOBODY;
#else
        withdraw(me);
#endif
        asleep = 0;
        if
        :: user_poller_is_due ->
            d_step {
                user_poller_is_due = 0;
#ifndef WOKEN_FOR_GOOD
                user_woken = 0;
#endif
                user_event = 0;
                inner = 0
            }
        :: else
        fi;
        tick(worked);
        if
        :: due = 0 /* callbacks, with the role: all due ones */
#ifdef TWO_LOOPS
        :: true /* or as many as the budget allows, here none */
#endif
        fi;
        leave(armed);
        armed = 0; /* fewer states */
        worked = 0
    :: role
    fi
}

/* ferry_engine_arm. */
inline arm_to_sleep(me)
{
    sleeps = 0;
    announce(me);
    if
    :: atomic { !role -> role = 1 }
    :: role ->
        arm_wanted = 1;
        if
        :: atomic { !role -> role = 1 }; arm_wanted = 0
        :: role -> sleeps = 1
        fi
    fi;
    if
    :: sleeps
    :: else ->
        arm(armed);
        if
        :: armed && due == 0 -> sleeps = 1
#ifdef BUSY_ENDS_ALL_ARMS
        :: else -> armed_by = NOBODY
#else
        :: else -> withdraw(me)
#endif
        fi;
        user_poller_is_due = 1;
        leave(armed);
        armed = 0
    fi
}

proctype user(byte me)
{
    bit armed, worked, sleeps;
    do
    :: break /* it makes no further calls */
#ifdef TWO_LOOPS
    :: progress(me)
    ::
#else
    :: progress(me);
#endif
       arm_to_sleep(me);
       if
       :: sleeps ->
           if
           :: atomic { inner || user_event -> sleeps = 0 }
           :: atomic { ALL_DONE -> break }
           fi
       :: else
       fi
    od
}

#ifdef WAITS
proctype waiting()
{
    bit armed, worked, slept, may_sleep;
    slept = 1;
    do
    :: resolved -> break
    :: else ->
        atomic {
            armed = 0;
            worked = 0;
            if
            :: may_sleep = 0 /* it spins for a while */
            :: may_sleep = 1
            fi
        };
        if
        :: atomic { !role -> role = 1 };
            if
            :: slept || wake_written -> wake_written = 0; asleep = 0; inner = 0
            :: else
            fi;
            tick(worked);
            slept = !worked && may_sleep;
            if
            :: !slept -> comes_back()
            :: else ->
                /* seat_sleep */
                waiter_fired = 0;
                waiter_state = 1;
                atomic {
                    if
                    :: !resolved -> waiter_listed = 1
                    :: else
                    fi
                };
                if
                :: !waiter_listed -> leave(armed)
                :: else ->
                    arm(armed);
                    if
                    :: !armed -> leave(armed)
                    :: else ->
                        sleepers = 1;
                        worked = !waiter_state; /* fired before it was known to sleep */
                        leave(armed);
                        if
                        :: worked
                        :: else -> inner
                        fi;
                        sleepers = 0
                    fi;
                    atomic {
                        if
                        :: waiter_listed && !resolved -> waiter_listed = 0
                        :: else
                        fi
                    };
                    if
                    :: waiter_listed -> waiter_state == 0; waiter_listed = 0
                    :: else
                    fi;
                    waiter_fired = 0
                fi
            fi
        :: role ->
            if
            :: may_sleep ->
                listed = 1;
                atomic {
                    if
                    :: !resolved -> parked = 1
                    :: else
                    fi
                };
                if
                :: parked && role -> !parked /* the nudge or the seal clears it */
                :: else -> parked = 0
                fi;
                listed = 0
            :: else
            fi
        fi
    od;
#ifndef RETURN_WITHOUT_LEAVE
    if
    :: atomic { !role -> role = 1 }; leave(armed)
    :: role
    fi;
#endif
    waiting_is_done = 1
}

#endif

proctype publisher()
{
    do
    :: published < PIECES ->
        atomic { work++; published++ };
        wake()
    :: else -> break
    od
}

#ifdef WAITS
proctype resolver()
{
    if
    :: !by_tick ->
        atomic { resolved = 1; parked = 0 };
        if
        :: waiter_listed ->
            waiter_fired = 1;
            waiter_state = 0;
            wake()
        :: else
        fi
    :: else
    fi;
    resolver_is_done = 1
}

#endif

init {
    atomic {
        run user(1);
        run publisher();
#ifdef TWO_LOOPS
        run user(2);
        waiting_is_done = 1;
        resolver_is_done = 1;
#endif
#ifdef WAITS
        if
        :: by_tick = 0
        :: by_tick = 1
        fi;
        run waiting();
        run resolver()
#endif
    }
}
