/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread is woken for the loop's timed looks while waiting threads help, with Spin
 * (tests/model/run engine/helped_look.pml).
 *
 *  loop     fry_tick and fry_arm of engine/loop.c. An arm with a look sets the timer for operations
 *           in flight, and next_look says so; an arm without one, as a thread helps, leaves both as
 *           they were
 *  timer    expires at some time; then the poller is readable
 *  visitor  submits heads that no thread reports (head_is_new of engine/lane.c). Each wants its
 *           look later than those before, so the loop is woken only if next_look says that none is
 *           set
 *  helper   looks too, so it may find what the loop's timer was for; then fry_help_ends
 *
 * Holds: in the end all heads are seen to have fired, though only the loop need look.
 */
/* correct: - */
/* broken: END_KEEPS_LOOK invalid end state */
/* broken: END_WITHOUT_WAKE invalid end state */
/* broken: END_WITHOUT_WAKE_IF_TAKEN invalid end state */
/* broken: NEW_HEAD_WITHOUT_WAKE invalid end state */
/* broken: ARM_WITHOUT_TIMER invalid end state */

#define HEADS 3
#define HOLDINGS 2

bit baton;
bit asleep;
bit event;     /* the poller is readable */
bit timer;     /* the timer is set */
bit next_look; /* engine->next_look_ns is a time, perhaps a past one */
bit in_flight; /* a head that no thread has seen fire */
byte helpers;
byte submitted;

inline wake()
{
    atomic {
        if
        :: asleep -> asleep = 0; event = 1
        :: else
        fi
    }
}

/* With the baton: the head has fired by now, or not yet. */
inline look()
{
    if
    :: in_flight = 0
    :: skip
    fi
}

proctype visitor()
{
    bit has_to;
    do
    :: submitted < HEADS ->
        atomic { !baton && !in_flight -> baton = 1 };
        in_flight = 1;
#ifdef NEW_HEAD_WITHOUT_WAKE
        has_to = 0;
#else
        has_to = !next_look;
#endif
        submitted++;
        baton = 0;
        if
        :: has_to -> wake()
        :: else
        fi
    :: else -> break
    od
}

proctype alarm_clock()
{
end_no_timer:
    do
    :: atomic { timer -> timer = 0; event = 1 }
    od
}

proctype helper()
{
    byte round = 0;
    bit has_to;
    atomic { helpers++ };
    do
    :: round < HOLDINGS ->
        if
        :: atomic { !baton -> baton = 1 };
           look();
           baton = 0
        :: atomic { baton -> break }
        fi;
        round++
    :: else -> break
    od;
    atomic { helpers-- };
    if
    :: atomic { !baton -> baton = 1 };
       has_to = in_flight;
#ifndef END_KEEPS_LOOK
       if
       :: !has_to -> next_look = 0
       :: else
       fi;
#endif
       baton = 0;
#ifndef END_WITHOUT_WAKE
       if
       :: has_to -> wake()
       :: else
       fi
#endif
    :: atomic { baton -> skip };
#ifndef END_WITHOUT_WAKE_IF_TAKEN
       wake()
#endif
    fi
}

proctype loop()
{
    bit idle, will_look;
    do
    :: /* fry_tick */
       if
       :: atomic { !baton -> baton = 1 };
          look();
          baton = 0
       :: atomic { baton -> skip }
       fi;
       asleep = 1; /* fry_arm */
       if
       :: atomic { !baton -> baton = 1 };
          look();
          will_look = in_flight;
          next_look = will_look;
          baton = 0;
          idle = 1;
#ifndef ARM_WITHOUT_TIMER
          timer = will_look
#endif
       :: atomic { baton -> skip };
          idle = (helpers != 0)
       fi;
       if
       :: idle ->
          if
          :: atomic { event -> event = 0 }
          :: atomic { submitted == HEADS && !in_flight -> break }
          fi
       :: else
       fi;
       asleep = 0 /* fry_disarm */
    od
}

init {
    atomic {
        run loop();
        run alarm_clock();
        run visitor();
        run helper();
        run helper()
    }
}
