/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a shutdown in another thread libev's loop removes ferry's watchers, with Spin
 * (tests/model/run engine/loop/detach.pml).
 *
 *  loop    the libev loop's thread; in each round engine_is_due, if the descriptor is readable, and
 *          loop_will_sleep of engine/loop/attach.c. Both check whether a detach is wanted, and both
 *          make progress, which takes everything off the descriptor
 *  asker   fry_detach: says that it wants a detach, makes the descriptor readable, then waits
 *  other   any other thread that makes the descriptor readable
 *
 * Holds: the watchers are removed. The asker may come between any two steps of a round. Steps are
 * sequentially consistent: the asker's two are a store and a system call, the loop's a system call
 * and a load.
 */
/* correct: - */
/* broken: NO_SECOND_LOOK invalid end state */
/* broken: NO_FIRST_LOOKS invalid end state */
/* broken: WAKE_FIRST invalid end state */

bit readable;
bit wanted;
bit out;

inline make_progress()
{
    readable = 0
}

proctype loop()
{
    do
    :: /* loop_will_sleep */
#ifndef NO_FIRST_LOOKS
       if
       :: wanted -> break
       :: else
       fi;
#endif
       make_progress();
#if !defined(NO_SECOND_LOOK) && !defined(NO_FIRST_LOOKS)
       if
       :: wanted -> break
       :: else
       fi;
#endif
       atomic { readable -> skip }; /* libev sleeps */
       /* engine_is_due */
#ifndef NO_FIRST_LOOKS
       if
       :: wanted -> break
       :: else
       fi;
#endif
       make_progress()
    od;
    out = 1
}

proctype asker()
{
#ifdef WAKE_FIRST
    readable = 1;
    wanted = 1;
#else
    wanted = 1;
    readable = 1;
#endif
    atomic { out -> skip }
}

proctype other()
{
    byte times = 0;
    do
    :: times < 3 -> readable = 1; times++
    :: else -> break
    od
}

init {
    atomic {
        run loop();
        run asker();
        run other()
    }
}
