/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the stop, with Spin (tests/model/run engine/stopped.pml).
 *
 *  visitor    any thread with something for a loop that has stopped: publishes it and does it
 *             himself if he can have the role: fry_wake_now and work_after_stop of engine/loop.c.
 *             The caller has something that takes the role alone (a waiter to call), the freer
 *             something that takes the baton too (a buffer to free, a cancel)
 *  straggler  takes the baton alone and wakes after giving it: fry_turn_end of engine/turn.c,
 *             ferry_engine_release
 *  loop       has the role and has just said STOPPED: the end of loop_thread, or of
 *             progress_until_stopped
 *
 * All operations are exchanges or seq_cst loads that follow one, so no store buffers are modelled;
 * baton.pml has those.
 *
 * Holds: when all threads are through, nothing is left; and all come through. INSISTS_ON_THE_BATON
 * is a look that does not leave the graph's work to whoever has the baton: with the baton in hand,
 * as a thread that resolves a future has it, that thread would go round for ever.
 */
/* liveness: yes */
/* broken: NO_LOOK_AFTER_GIVE assertion violated */
/* broken: LOOK_BEFORE_GIVE assertion violated */
/* broken: STRAGGLER_WITHOUT_WAKE assertion violated */
/* broken: STRAGGLER_WAKES_BEFORE_GIVE assertion violated */
/* broken: STRAGGLER_WAKES_BEFORE_GIVE+INSISTS_ON_THE_BATON acceptance cycle */

#define THREADS 4

byte due;   /* what takes the role alone */
byte frees; /* what takes the baton too */
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

/* fry_tick until it finds nothing to do. */
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

/* is_left_over: word by word, as they are read. */
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

inline work_after_stop()
{
    do
    ::
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
    due++;
    work_after_stop();
    leave()
}

proctype freer()
{
    bit done, left, got_role, got_baton;
    frees++;
    work_after_stop();
    leave()
}

proctype straggler()
{
    bit done, left, got_role, got_baton;
    take(baton, got_baton);
    if
    :: got_baton ->
#ifdef STRAGGLER_WAKES_BEFORE_GIVE
        work_after_stop();
        baton = 0
#else
        baton = 0;
#ifndef STRAGGLER_WITHOUT_WAKE
        work_after_stop()
#endif
#endif
    :: else
    fi;
    leave()
}

proctype loop()
{
    bit done, left, got_role, got_baton;
    role = 0;
    work_after_stop();
    leave()
}

init {
    atomic {
        role = 1;
        run loop();
        run caller();
        run freer();
        run straggler()
    }
}
