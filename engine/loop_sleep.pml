/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's sleep, with Spin (tests/model/run engine/loop_sleep.pml).
 *
 *  loop    loop_thread of engine/loop.c: fry_tick until there is no work; fry_arm, which stores
 *          that the loop is asleep and then looks again; the poller (the edge-triggered eventfd of
 *          base/poller.c); fry_disarm
 *  visitor VISITED: a thread that makes progress once while another thread, which armed, sleeps
 *          (fry_embedded_progress, rearm): it takes the wake, and arms for the sleeper again.
 *          Threads that work or arm have the role, which is passed by full barriers
 *  waker   any thread that publishes work for the loop: a full barrier, fry_wake (engine/engine.h)
 *          with its load, fry_wake_now (engine/ground.c) with the swap that decides who writes the
 *          eventfd
 *  buffer  the store buffer of one processor (x86 TSO): others see a plain store only when it has
 *          left the buffer; fences, seq_cst stores and read-modify-writes wait for that
 *
 * Work is a count for each waker, which only that waker stores, because a published word may be
 * written without a barrier of its own. The loop consumes it by reading it. The loop may also be
 * woken for another reason (a timer, a watch), but at most once, so that this can't save a lost
 * wake-up.
 *
 * Holds: published work is consumed in the end. The loop of the model ends only when all work was,
 * so a loop that sleeps over work is an invalid end state; the formula finds a loop that never
 * rests. Loads that pass each other (Arm, POWER) are not modelled.
 */
/* liveness: yes */
/* correct: ALONE */
/* correct: VISITED */
/* broken: LOOK_BEFORE_ASLEEP invalid end state */
/* broken: ASLEEP_RELAXED invalid end state */
/* broken: WAKER_WITHOUT_FENCE invalid end state */
/* broken: WAKER_WITHOUT_WRITE invalid end state */
/* broken: LOOP_WITHOUT_LOOK invalid end state */
/* broken: EVENT_STAYS acceptance cycle */
/* broken: VISITED+VISITOR_LEAVES_AWAKE invalid end state */
/* broken: VISITED+VISITOR_ARMS_AND_GOES invalid end state */

#define WAKERS 2
#define ROUNDS 2
#define LOOP WAKERS /* the loop's place among the store buffers */

byte published[WAKERS]; /* in memory */
byte consumed[WAKERS];  /* the loop's own */
bit asleep;             /* in memory */
bit event;              /* the eventfd is on epoll's ready list */
bit buffered[WAKERS + 1];
byte buffered_value[WAKERS + 1];
bit finished;
bit role;

ltl all_is_consumed { <> finished }

#define ALL_CONSUMED (consumed[0] == ROUNDS && consumed[1] == ROUNDS)

/* A plain store: waits for room in the buffer, which holds one store. */
inline store(who, value)
{
    atomic {
        !buffered[who];
        buffered_value[who] = value;
        buffered[who] = 1
    }
}

inline fence(who)
{
    !buffered[who]
}

proctype buffer(byte who)
{
end:
    do
    :: atomic {
           buffered[who] ->
           if
           :: who == LOOP -> asleep = buffered_value[who]
           :: else -> published[who] = buffered_value[who]
           fi;
           buffered_value[who] = 0;
           buffered[who] = 0
       }
    od
}

/* Sets `found` if there is work that was not consumed. Reads word by word, as the loop does. */
inline look(found)
{
    found = 0;
    waker_i = 0;
    do
    :: waker_i < WAKERS ->
        if
        :: published[waker_i] != consumed[waker_i] -> found = 1
        :: else
        fi;
        waker_i++
    :: else -> break
    od
}

inline work()
{
    waker_i = 0;
    do
    :: waker_i < WAKERS ->
        consumed[waker_i] = published[waker_i];
        waker_i++
    :: else -> break
    od
}

inline set_asleep()
{
    store(LOOP, 1);
#ifndef ASLEEP_RELAXED
    fence(LOOP)
#endif
}

proctype loop()
{
    byte waker_i;
    bit found;
    bit had_other_event;
    do
    :: atomic { !role -> role = 1 };
       work(); /* fry_tick */
#ifdef LOOK_BEFORE_ASLEEP
       look(found);
       set_asleep();
#else
       set_asleep();
#ifdef LOOP_WITHOUT_LOOK
       found = 0;
#else
       look(found);
#endif
#endif
       fence(LOOP);
       role = 0;
       if
       :: found
       :: else -> /* the poller */
           if
#ifdef EVENT_STAYS
           :: event
#else
           :: atomic { event -> event = 0 }
#endif
           :: atomic { !had_other_event -> had_other_event = 1 }
           :: atomic { ALL_CONSUMED -> finished = 1; break }
           fi
       fi;
       atomic { !role -> role = 1 };
       store(LOOP, 0); /* fry_disarm */
       fence(LOOP);
       role = 0
    od
}

#ifdef VISITED
proctype visitor()
{
    byte waker_i;
    bit found;
    atomic { !role -> role = 1 };
    store(LOOP, 0); /* fry_disarm */
    event = 0;      /* fry_poller_wait */
    work();
#ifndef VISITOR_LEAVES_AWAKE
    set_asleep(); /* rearm */
    look(found);
    if
    :: found ->
        store(LOOP, 0);
#ifndef VISITOR_ARMS_AND_GOES
        event = 1
#endif
    :: else
    fi;
#endif
    fence(LOOP);
    role = 0
}
#endif

proctype waker(byte me)
{
    byte round = 1;
    bit was_asleep;
    do
    :: round <= ROUNDS ->
        store(me, round);
#ifndef WAKER_WITHOUT_FENCE
        fence(me);
#endif
        if
        :: asleep ->
            atomic { /* fry_wake_now's compare-and-swap */
                fence(me);
                was_asleep = asleep;
                asleep = 0
            }
            if
            :: was_asleep ->
#ifndef WAKER_WITHOUT_WRITE
                event = 1;
#endif
                was_asleep = 0
            :: else
            fi
        :: else
        fi;
        round++
    :: else -> break
    od
}

init {
    atomic {
        run loop();
#ifdef VISITED
        run visitor();
#endif
        run waker(0);
        run waker(1);
        run buffer(0);
        run buffer(1);
        run buffer(LOOP)
    }
}
