/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eventcount, with Spin (tests/model/run base/eventcount.pml).
 *
 *  sleeper   look; fry_eventcount_prepare; look again; fry_eventcount_cancel, or
 *            fry_eventcount_commit (base/futex.c) with its load of the epoch and its futex_wait
 *  notifier  makes a condition true, then fry_eventcount_notify: fence, load of sleepers, and
 *            fry_eventcount_wake (base/futex.c): epoch += 1, futex_wake
 *  buffer    the store buffer of a notifier's processor (x86 TSO): others see a plain store only
 *            when it has left the buffer; fences and read-modify-writes wait for that
 *
 * The futex does what the kernel promises: it compares and goes to sleep in one step, and a wake
 * takes any sleeping threads. A sleeper may also return early for no reason (a signal, a timeout),
 * but at most once in all, so that this can't save a lost wake-up.
 *
 *  ONE  each notifier makes items, and wakes one sleeper for each; any sleeper may take any item.
 *  ALL  each sleeper waits for the items of one notifier, so a notify wakes all.
 *
 * Holds: no sleeper sleeps for ever while its item is there. There are as many items as sleepers
 * want, so a sleeper that sleeps for ever is an invalid end state. Loads that pass each other (Arm,
 * POWER) are not modelled.
 */
/* correct: ONE */
/* correct: ALL */
/* broken: ONE+LOOK_BEFORE_PREPARE invalid end state */
/* broken: ALL+LOOK_BEFORE_PREPARE invalid end state */
/* broken: ONE+NOTIFY_WITHOUT_FENCE invalid end state */
/* broken: ONE+COMMIT_WITHOUT_KEY invalid end state */
/* broken: ALL+COMMIT_WITHOUT_KEY invalid end state */
/* broken: ONE+KEY_AFTER_LOOK invalid end state */
/* broken: ONE+EPOCH_STAYS invalid end state */
/* broken: ALL+WAKE_TOO_FEW invalid end state */
/* broken: ONE+SLEEPER_FORGETS_TO_LEAVE assertion violated */

#define SLEEPERS 2
#define NOTIFIERS 2
#define ITEMS 3
#define FIRST_OF(who) ((who) * 2) /* notifier 0 makes items 0 and 1, notifier 1 makes item 2 */
#define COUNT_OF(who) (2 - (who)) /* and sleeper 0 wants two, sleeper 1 wants one */

byte epoch;
byte sleepers;
bit item[ITEMS]; /* in memory: made and not yet taken */
bit buffered[NOTIFIERS];
byte buffered_item[NOTIFIERS];
bit asleep[SLEEPERS]; /* in the kernel */
bit was_early;
byte finished;

proctype buffer(byte who)
{
end:
    do
    :: atomic {
           buffered[who] ->
           item[buffered_item[who]] = 1;
           buffered_item[who] = 0;
           buffered[who] = 0
       }
    od
}

/* Takes an item that this sleeper may take, if there is one; reads word by word. */
inline look(taken)
{
    i = first;
    taken = 0;
    do
    :: i < end_ ->
        if
        :: atomic { item[i] -> item[i] = 0; taken = 1 }; break
        :: atomic { !item[i] -> i++ }
        fi
    :: else -> break
    od;
    i = 0
}

inline prepare()
{
    sleepers++;
    key = epoch
}

inline leave()
{
#ifndef SLEEPER_FORGETS_TO_LEAVE
    sleepers--
#else
    skip
#endif
}

inline commit()
{
    if
#ifdef COMMIT_WITHOUT_KEY
    :: true ->
        asleep[me] = 1;
#else
    :: epoch != key
    :: epoch == key ->
        if /* futex_wait */
        :: atomic { epoch != key }
        :: atomic { epoch == key -> asleep[me] = 1 }
        fi;
#endif
        if
        :: !asleep[me]
        :: atomic { !was_early -> was_early = 1; asleep[me] = 0 }
        fi
    fi;
    key = 0;
    leave()
}

proctype sleeper(byte me)
{
    byte round, i, key;
    bit taken;
#ifdef ALL
    byte first = FIRST_OF(me);
    byte end_ = first + COUNT_OF(me);
#else
    byte first = 0;
    byte end_ = ITEMS;
#endif
    do
    :: round < COUNT_OF(me) ->
        look(taken);
        if
        :: taken -> round++
        :: else ->
#ifdef KEY_AFTER_LOOK
            sleepers++;
            look(taken);
            key = epoch;
#else
            prepare();
#ifndef LOOK_BEFORE_PREPARE
            look(taken);
#endif
#endif
            if
            :: taken -> round++; leave() /* fry_eventcount_cancel */
            :: else -> commit()
            fi
        fi
    :: else -> break
    od;
    finished++
}

inline wake_one()
{
    atomic {
        if
        :: asleep[0] -> asleep[0] = 0
        :: asleep[1] -> asleep[1] = 0
        :: !asleep[0] && !asleep[1]
        fi
    }
}

inline wake_all()
{
    atomic {
        asleep[0] = 0;
        asleep[1] = 0
    }
}

proctype notifier(byte me)
{
    byte round;
    do
    :: round < COUNT_OF(me) ->
        atomic { /* make it true: a plain store; the buffer has room for one */
            !buffered[me];
            buffered_item[me] = FIRST_OF(me) + round;
            buffered[me] = 1
        }
#ifndef NOTIFY_WITHOUT_FENCE
        !buffered[me];
#endif
        if
        :: sleepers != 0 ->
#ifndef EPOCH_STAYS
            atomic {
                !buffered[me];
                epoch++
            }
#endif
#if defined(ALL) && !defined(WAKE_TOO_FEW)
            wake_all()
#else
            wake_one()
#endif
        :: else
        fi;
        round++
    :: else -> break
    od
}

init {
    atomic {
        run sleeper(0);
        run sleeper(1);
        run notifier(0);
        run notifier(1);
        run buffer(0);
        run buffer(1)
    }
    timeout;
    if
    :: finished == SLEEPERS -> assert(sleepers == 0)
    fi
}
