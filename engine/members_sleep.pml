/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's sleep with channels, with Spin (tests/model/run engine/members_sleep.pml).
 *
 *  loop       engine/members.c and loop.c: a tick lets polled channels progress; fry_arm, with the
 *             baton (is_looked_at, arm_routes) or without; the poller
 *  looker     a thread in ferry_future_wait: looks, whether the channel is armed or not
 *             (watch_members, fry_route_look), goes when its message has come, or parks
 *             (watch_no_more)
 *  launcher   a thread that sends, cancels or refuses (fry_route_launched); the other end's queue
 *             may be full, and then a waiting post counts: fry_peer_is_busy
 *  peer       the other end: sends, and sometimes empties its full queue
 *
 * One channel. SHARED is one of UCX's shared memory: when it is armed, the first arrival makes the
 * descriptor readable, and it stays so until the next arming. Nothing tells when a full queue has
 * room again, so a channel that refuses to be armed for that dozes: a timer makes the descriptor
 * readable. NETWORK is a TCP channel: readable as long as data is there, reported anew with each
 * arrival, and no longer when a thread has taken the data. Either is watched for one event at a
 * time, from the arming on; a descriptor that is readable then is such an event. A descriptor that
 * is not readable any more when the poller looks reports nothing.
 *
 * A received message needs an answer: by the next progress that finds nothing, or when the channel
 * is armed. Times are left out: a timer that is set may expire at any moment.
 *
 * Holds: no message, no answer and no post that waited for room is left with all threads asleep.
 * The loop of the model ends only then. Steps are sequentially consistent: full barriers are
 * between those who publish and those who look (the baton's give, the swap of watchers, the fences
 * about asleep and must_arm), and loop_sleep.pml has what store buffers do to a sleep.
 */
/* correct: SHARED */
/* correct: NETWORK */
/* broken: NETWORK+LOOK_LEAVES_IT_ARMED invalid end state */
/* broken: NETWORK+LOOK_WITHOUT_WAKE invalid end state */
/* broken: SHARED+DOZE_TAKEN_BACK invalid end state */
/* broken: SHARED+FULL_WITHOUT_DOZE invalid end state */
/* broken: SHARED+LAUNCH_WITHOUT_WAKE invalid end state */
/* broken: SHARED+LAUNCH_WITHOUT_POLL invalid end state */
/* broken: SHARED+GRACE_WITHOUT_TIMER invalid end state */
/* broken: SHARED+BATON_TAKEN_WITHOUT_TIMER invalid end state */
/* broken: SHARED+ARM_WITHOUT_LOOK invalid end state */
/* broken: SHARED+ARM_WITHOUT_POLLER invalid end state */

#define MESSAGES 2

bit baton;
bit asleep;
bit wake_event; /* the eventfd is on the poller's list */
bit timer;      /* the poller's timer is set */
bit grace;      /* the grace has not lapsed */

byte queue;  /* messages that have come and were not taken */
bit armed;   /* SHARED: the next arrival makes the descriptor readable */
bit signalled;  /* SHARED: the descriptor is readable */
bit watched; /* the poller watches the descriptor for an event */
bit edge;    /* that event is on the poller's list */
bit doze;    /* the doze's timer is set */
bit doze_is_over;
bit queue_is_full;    /* the other end's queue */
bit posted;  /* a post waits for room there */
bit room;    /* NETWORK: the descriptor says that there is room */
bit owed;    /* an answer is due */

bit polled = 1; /* set when it is attached */
bit event; /* the poller has reported the descriptor; the loop has yet to poll */
bit must_arm;
bit watchers;
bit looks; /* a look came since the loop's last */
byte received;
bit looker_is_done, launcher_is_done, peer_is_done;
bit finished;

#ifdef SHARED
#define READABLE (signalled || doze_is_over)
#else
#define READABLE (queue > 0 || (room && posted))
#endif

#define ALL_DONE                                                                                   \
    (looker_is_done && launcher_is_done && peer_is_done && queue == 0 && !owed && !posted &&       \
     received == MESSAGES)

/* fry_wake: one compare-and-swap decides which thread writes. */
inline wake()
{
    d_step {
        if
        :: asleep ->
            asleep = 0;
            wake_event = 1
        :: else
        fi
    }
}

/* Sends the due answer, or makes it wait for room. */
inline answer()
{
    if
    :: owed && queue_is_full -> posted = 1
    :: else
    fi;
    owed = 0
}

/* fry_peer_progress, with the baton. */
inline progress(found)
{
    d_step {
        found = 0;
        if
        :: posted && !queue_is_full ->
            posted = 0;
            room = 0;
            found = 1
        :: else
        fi;
        if
        :: queue > 0 ->
            queue--;
            received++;
            owed = 1;
            found = 1
        :: queue == 0 && owed ->
            answer();
            found = 1
        :: else
        fi;
#ifdef DOZE_TAKEN_BACK
        if
        :: doze_is_over ->
            doze_is_over = 0
        :: else
        fi
#endif
    }
}

/* fry_route_arm, with the baton. */
inline arm(is_armed)
{
    d_step {
        answer();
        doze = 0;
        doze_is_over = 0;
        is_armed = 1;
#ifdef SHARED
        if
#ifndef ARM_WITHOUT_LOOK
        :: queue > 0 -> is_armed = 0
        :: queue == 0 && posted ->
#else
        :: posted ->
#endif
#ifdef FULL_WITHOUT_DOZE
            armed = 1
#else
            doze = 1
#endif
        :: else ->
            armed = 1;
            signalled = 0
        fi;
#endif
#ifndef ARM_WITHOUT_POLLER
        if
        :: is_armed ->
            watched = 1;
            edge = READABLE
        :: else
        fi
#endif
    }
}

/* is_looked_at and arm_routes, with the baton. */
inline arm_polled()
{
    d_step {
        must = must_arm;
        must_arm = 0
    };
    d_step {
        is_watched = watchers;
        if
        :: must && !is_watched -> grace = 0
        :: else
        fi
    };
    if
    :: grace -> is_watched = 1
    :: d_step {
           true ->
           is_watched = is_watched || (!must && looks);
           looks = 0;
           grace = is_watched
       }
    fi;
    must = 0;
    if
    :: is_watched ->
        is_watched = 0;
#ifndef GRACE_WITHOUT_TIMER
        timer = 1
#endif
    :: else ->
        progress(found);
        d_step {
            if
            :: found -> idle = 0
            :: else -> arm(idle)
            fi;
            polled = !idle;
            found = 0
        }
    fi
}

proctype loop()
{
    bit idle, found, must, is_watched;
    do
    :: /* fry_tick */
       if
       :: atomic { !baton -> baton = 1 };
           d_step {
               polled = polled || event;
               event = 0
           };
           if
           :: polled -> progress(found)
           :: else
           fi;
           d_step {
               found = 0;
               baton = 0
           }
       :: baton
       fi;
       /* fry_arm */
       asleep = 1;
       if
       :: atomic { !baton -> baton = 1; timer = 0; idle = !event };
           if
           :: idle && polled -> arm_polled()
           :: else
           fi;
           baton = 0
       :: d_step {
              baton -> /* perhaps a waiting thread has it */
              idle = watchers && !event;
#ifndef BATON_TAKEN_WITHOUT_TIMER
              timer = timer || idle
#endif
          }
       fi;
       if
       :: idle -> /* the poller */
           do
           :: atomic { wake_event -> wake_event = 0; break }
           :: atomic { edge && READABLE -> edge = 0; watched = 0; event = 1; break }
           :: atomic { edge && !READABLE -> edge = 0 }
           :: atomic { timer -> timer = 0; grace = 0; break }
           :: atomic { ALL_DONE -> finished = 1; break }
           od
       :: else
       fi;
       atomic {
           asleep = 0;
           idle = 0;
           if
           :: finished -> break
           :: else
           fi
       }
    od
}

proctype looker()
{
    byte wanted = 1;
    bit found, must_wake;
    do
    :: wanted <= MESSAGES ->
        watchers = 1;
        do
        :: received >= wanted -> break
        :: received < wanted && !baton -> /* fry_members_look */
            looks = 1;
            if
            :: atomic { !baton -> baton = 1 };
                progress(found);
                d_step {
#ifndef LOOK_LEAVES_IT_ARMED
#ifndef LOOK_WITHOUT_WAKE
                    must_wake = found && !polled;
#endif
                    polled = polled || found;
#endif
                    found = 0;
                    baton = 0
                };
                if
                :: must_wake -> must_wake = 0; wake()
                :: else
                fi
            :: baton
            fi
        :: true -> break /* has spun for long enough */
        od;
        watchers = 0;
        if
        :: received < wanted ->
            if
            :: polled -> /* watch_no_more */
                must_arm = 1;
                wake()
            :: else
            fi;
            received >= wanted /* parked */
        :: else
        fi;
        wanted++
    :: else -> break
    od;
    looker_is_done = 1
}

proctype launcher()
{
    bit must_wake;
    atomic { !baton -> baton = 1 };
    d_step {
        if
        :: queue_is_full ->
            posted = 1;
#ifndef LAUNCH_WITHOUT_POLL
            must_wake = !polled;
            polled = 1
#endif
        :: else
        fi;
        baton = 0
    };
#ifndef LAUNCH_WITHOUT_WAKE
    if
    :: must_wake -> must_wake = 0; wake()
    :: else
    fi;
#endif
    launcher_is_done = 1
}

proctype peer()
{
    byte sent;
    bit has_filled;
    do
    :: atomic {
           sent < MESSAGES ->
           sent++;
           queue++;
#ifdef SHARED
           if
           :: armed ->
               armed = 0;
               signalled = 1;
               edge = edge || watched
           :: else
           fi
#else
           edge = edge || watched
#endif
       }
    :: atomic { !queue_is_full && !has_filled -> queue_is_full = 1; has_filled = 1 }
    :: atomic {
           queue_is_full ->
           queue_is_full = 0;
#ifdef NETWORK
           if
           :: posted ->
               room = 1;
               edge = edge || watched
           :: else
           fi
#endif
       }
    :: sent == MESSAGES && !queue_is_full -> break
    od;
    peer_is_done = 1
}

/* The kernel: the doze's timer expires. */
proctype clock()
{
end:
    do
    :: atomic {
           doze ->
           doze = 0;
           doze_is_over = 1;
           edge = edge || watched
       }
    od
}

init {
    atomic {
        run loop();
        run looker();
        run launcher();
        run peer();
        run clock()
    }
}
