/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's stop, and what follows, with Spin (tests/model/run engine/loop/stopped.pml).
 *
 *  visitor    a thread whose call causes work for the loop: publishes it and wakes the loop if
 *             there is one. If the engine closes and the loop has stopped, the thread does the work
 *             if it can have the role: fry_late_call_ends and fry_late_work of engine/loop/late.c.
 *             The caller's work takes only the role (a waiter to call), the freer's the baton too
 *             (a buffer to free, a cancel)
 *  straggler  takes only the baton; its call ends after the give: fry_turn_end of
 *             engine/graph/turn.c, ferry_engine_release
 *  loop       has the role, and stops at some time after the engine closes: the end of loop_thread,
 *             or of progress_until_stopped. It does not look for left work before, which is not
 *             needed here
 *
 * All operations are exchanges or seq_cst loads that follow one, so no store buffers are modelled;
 * baton.pml has those. Before the stop the loop never sleeps here: loop_sleep.pml has that.
 *
 * Holds: all threads end, and then no work is left. INSISTS_ON_THE_BATON is a look that does not
 * leave the graph's work to the baton's holder: a thread that has the baton, as when it resolves a
 * future, would then go round for ever.
 */
/* liveness: yes */
/* broken: NO_LOOK_AFTER_GIVE assertion violated */
/* broken: LOOK_BEFORE_GIVE assertion violated */
/* broken: CLOSING_BEFORE_PUBLISHING assertion violated */
/* broken: STRAGGLER_WITHOUT_END assertion violated */
/* broken: STRAGGLER_ENDS_BEFORE_GIVE assertion violated */
/* broken: STRAGGLER_ENDS_BEFORE_GIVE+INSISTS_ON_THE_BATON acceptance cycle */

#define THREADS 4

byte due;   /* work that takes only the role */
byte frees; /* work that takes the baton too */
bit closing;
bit stopped;
bit role;
bit baton;
byte through;

ltl all_end { <> (through == THREADS) }

inline take(flag, got)
{
    atomic {
        got = !flag;
        flag = 1
    }
}

/* fry_tick until it finds no work. */
inline ticks()
{
    do
    :: done = 0;
       take(baton, got_baton);
       if
       :: got_baton ->
           if
           :: atomic { frees > 0 -> frees = 0; done = 1 }
           :: frees == 0
           fi;
           baton = 0
       :: else
       fi;
       if
       :: atomic { due > 0 -> due = 0; done = 1 }
       :: due == 0
       fi;
       if
       :: !done -> break
       :: else
       fi
    od
}

/* is_left_over: reads word by word. */
inline look()
{
    left = due > 0;
    if
    :: !left ->
        left = frees > 0;
        if
#ifndef INSISTS_ON_THE_BATON
        :: left -> left = !baton
#endif
        :: else
        fi
    :: else
    fi
}

inline late_work()
{
    do
    :: !stopped -> break
    :: stopped ->
#ifdef NO_LOOK_AFTER_GIVE
       left = 1;
#else
       look();
#endif
       if
       :: left -> take(role, got_role)
       :: else -> got_role = 0
       fi;
       if
       :: got_role ->
           ticks();
#ifdef LOOK_BEFORE_GIVE
           look();
           role = 0;
           if
           :: !left -> break
           :: else
           fi
#else
           role = 0;
#endif
#ifdef NO_LOOK_AFTER_GIVE
           break
#endif
       :: else -> break
       fi
    od;
    done = 0;
    left = 0;
    got_role = 0;
    got_baton = 0
}

inline call_ends()
{
    if
    :: closing -> late_work()
    :: else
    fi
}

inline leave()
{
    atomic {
        through++;
        if
        :: through == THREADS -> assert(!due && !frees)
        :: else
        fi
    }
}

proctype caller()
{
    bit done, left, got_role, got_baton;
#ifdef CLOSING_BEFORE_PUBLISHING
    left = closing;
    due++;
    if
    :: left -> late_work()
    :: else
    fi;
#else
    due++;
    call_ends();
#endif
    leave()
}

proctype freer()
{
    bit done, left, got_role, got_baton;
    frees++;
    call_ends();
    leave()
}

proctype straggler()
{
    bit done, left, got_role, got_baton;
    take(baton, got_baton);
    if
    :: got_baton ->
#ifdef STRAGGLER_ENDS_BEFORE_GIVE
        call_ends();
        baton = 0
#else
        baton = 0;
#ifndef STRAGGLER_WITHOUT_END
        call_ends()
#endif
#endif
    :: else
    fi;
    leave()
}

proctype loop()
{
    bit done, left, got_role, got_baton;
    do
    :: ticks();
       if
       :: closing -> break
       :: else
       fi
    od;
    stopped = 1;
    role = 0;
    late_work();
    leave()
}

proctype shutdown()
{
    closing = 1
}

init {
    atomic {
        role = 1;
        run loop();
        run shutdown();
        run caller();
        run freer();
        run straggler()
    }
}
