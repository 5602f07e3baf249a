/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's sleep while waiting threads help, with Spin (tests/model/run engine/helped_sleep.pml).
 *
 *  loop    loop_thread of engine/loop.c: fry_tick, which does nothing without the baton; fry_arm,
 *          which sleeps without a look if the baton is taken and a thread helps
 *  helper  help of engine/handle.c: holds of the baton, each of which may leave the loop work that
 *          only the loop can do; then fry_help_ends
 *  visitor a thread that submits: one hold, which may leave work too
 *
 * The graph's state tells of some of that work (a batch whose cancel has begun), not of all. A
 * thread that leaves work says so (loop_wanted), gives the baton back, and wakes the loop if it is
 * asleep. The loop takes the work in a tick that has the baton. Steps are sequentially consistent:
 * between each publishing and its look is a full barrier (the baton's give, fetch_sub of helpers,
 * the fence in fry_arm). loop_sleep.pml has what store buffers do to a sleep.
 *
 * Holds: all work left is taken in the end. The loop of the model ends only then.
 */
/* liveness: yes */
/* correct: HELP */
/* broken: END_WITHOUT_LOOK invalid end state */
/* broken: END_LOOKS_AT_STATE_ALONE invalid end state */
/* broken: END_WITHOUT_WAKE_IF_TAKEN invalid end state */
/* broken: END_LOOKS_AT_WANTED_ALONE invalid end state */
/* broken: END_COUNTS_LAST invalid end state */
/* broken: ARM_LOOKS_AT_STATE_ALONE invalid end state */
/* broken: ARM_TAKES_IT invalid end state */

#define HELPERS 2
#define HOLDINGS 2

bit baton;
bit asleep;
bit event; /* the eventfd is on the poller's list */
byte helpers;
bit wanted;
byte shown;  /* work for the loop alone, shown by the graph's state; perhaps for several ticks */
bit unseen; /* work for the loop alone that no state shows */
byte gone;  /* helpers and visitors that have ended */
bit finished;

#define ALL (HELPERS + 1)

ltl all_is_taken { <> finished }

/* fry_wake, after the give. */
inline wake()
{
    atomic {
        if
        :: asleep -> asleep = 0; event = 1
        :: else
        fi
    }
}

inline give()
{
    baton = 0
}

/* A hold, at whose end the loop is woken if it is wanted. */
inline hold()
{
    leaves = 0;
    if
    :: shown++; wanted = 1; leaves = 1
    :: unseen = 1; wanted = 1; leaves = 1
    :: skip
    fi;
    give();
    if
    :: leaves -> wake()
    :: else
    fi
}

proctype helper()
{
    byte round = 0;
    bit leaves, has_to;
    atomic { helpers++ };
    do
    :: round < HOLDINGS ->
        if
        :: atomic { !baton -> baton = 1 };
           hold()
        :: atomic { baton -> break }
        fi;
        round++
    :: else -> break
    od;
#ifndef END_COUNTS_LAST
    atomic { helpers-- };
#endif
#ifndef END_WITHOUT_LOOK
    if
    :: atomic { !baton -> baton = 1 };
       /* fry_loop_is_needed */
#if defined(END_LOOKS_AT_STATE_ALONE)
       has_to = (shown != 0);
#elif defined(END_LOOKS_AT_WANTED_ALONE)
       has_to = wanted;
#else
       has_to = (wanted || shown != 0);
#endif
       give();
       if
       :: has_to -> wake()
       :: else
       fi
    :: atomic { baton -> skip };
#ifndef END_WITHOUT_WAKE_IF_TAKEN
       wake()
#endif
    fi;
#endif
#ifdef END_COUNTS_LAST
    atomic { helpers-- };
#endif
    gone++
}

proctype visitor()
{
    bit leaves;
    atomic { !baton -> baton = 1 };
    hold();
    gone++
}

proctype loop()
{
    bit idle, had_other_event;
    do
    :: /* fry_tick */
       if
       :: atomic { !baton -> baton = 1 };
          wanted = 0;
          unseen = 0;
          if
          :: shown = 0
          :: atomic { shown > 1 -> shown-- } /* its time is over */
          fi;
          give()
       :: atomic { baton -> skip }
       fi;
       asleep = 1; /* fry_arm */
       if
       :: atomic { !baton -> baton = 1 };
          #ifdef ARM_LOOKS_AT_STATE_ALONE
          idle = (shown == 0);
#else
          idle = (shown == 0 && !wanted);
#endif
#ifdef ARM_TAKES_IT
          wanted = 0;
          idle = 1;
#endif
          give()
       :: atomic { baton -> skip };
          idle = (helpers != 0)
       fi;
       if
       :: idle ->
          if
          :: atomic { event -> event = 0 }
          :: atomic { !had_other_event -> had_other_event = 1 }
          :: atomic { gone == ALL && shown == 0 && !unseen -> finished = 1; break }
          fi
       :: else
       fi;
       asleep = 0 /* fry_disarm */
    od
}

init {
    byte i = 0;
    atomic {
        run loop();
        run visitor();
        do
        :: i < HELPERS -> run helper(); i++
        :: else -> break
        od
    }
}
