/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of a barrier, with Spin (tests/model/run net/group/barrier.pml); net/group/rounds.c has
 * the argument.
 *
 *  member    calls the barrier until ROUNDS rounds have ended. A call writes its arrival and waits
 *            until it is told that the round has ended. Meanwhile it may end the round itself: the
 *            coordinator (0) when it has been told of all arrivals; any member when a deadline
 *            passes (one member, once) or when it is told that a member is dead.
 *  killer    ends the lease of one member at any time: its record and arrival go, and its writes in
 *            the lease are refused from then on, but it runs on until it is told. A new start of
 *            the member may come, which knows only what it reads then.
 *
 * A member is told of the key with the newest round's outcome at any time: late, and not of every
 * value. The same holds for the coordinator and arrivals, of which it has a copy (of one; the other
 * is read in place, to keep this small). SWAP is one step, on the store.
 *
 * Holds: a round has one outcome for all members that came to it; none is released before all have
 * come, and only members that have come are (an old start may be late for a round that its
 * successor passed, and is told so); no member waits for ever (an invalid end state).
 */
/* correct: DEADLINE */
/* correct: DEATH */
/* correct: DEATH+COORDINATOR_DIES */
/* correct: DEATH+DEADLINE */
/* correct: DEATH+DEADLINE+COORDINATOR_DIES */
/* broken: DEADLINE+BLIND_WRITE assertion violated */
/* broken: DEATH+BLIND_WRITE assertion violated */
/* broken: DEADLINE+ANY_NUMBER assertion violated */
/* broken: DEADLINE+OUTCOME_OF_ITS_OWN invalid end state */
/* broken: DEATH+NEWEST_FOR_ITS_OWN assertion violated */
/* broken: DEATH+NOT_TOLD_CHANGED assertion violated */
/* broken: DEATH+COORDINATOR_DIES+COORDINATOR_ALONE_ENDS invalid end state */

#define ROUNDS 2
#define RELEASED 1
#define FAILED 2
#ifdef COORDINATOR_DIES
#define MORTAL 0
#else
#define MORTAL 1
#endif

/* The store. */
byte number, how; /* the newest round that ended, and its outcome */
byte passed;      /* the newest round that ended well */
byte arrival[3];  /* the round that each member has come to; 0: no key */
bit is_gone;      /* the mortal member's record */
byte start;       /* of the mortal member that has the rank: 0 or 1 */

bit is_told;      /* the old start knows that it is dead */
bit is_late;      /* the deadline has passed */

/* For the checks, of each round: the members that came (bits), and the outcome that was told. */
byte came[ROUNDS + 1];
byte outcome[ROUNDS + 1];

inline tell_outcome(value)
{
    assert(outcome[own] == 0 || outcome[own] == value);
    assert(value != RELEASED || (came[own] == 7 && has_come));
    outcome[own] = value
}

/* Ends the call by the key's present value. */
inline resolve()
{
    if
#ifndef NOT_TOLD_CHANGED
    :: number > own && (passed > own + 1 || (!has_come && (is_new || passed > own))) ->
        own = number /* FERRY_E_CHANGED: another start was there, or the start before this */
    :: else ->
#else
    :: true ->
#endif
        own++;
        if
#ifndef NEWEST_FOR_ITS_OWN
        :: passed == own -> tell_outcome(RELEASED)
        :: passed != own -> tell_outcome(FAILED)
#else
        :: true -> tell_outcome(how)
#endif
        fi
    fi;
    has_come = 0;
    is_new = 0
}

/* SWAP; its answer is told like other changes. */
inline end_round(value)
{
    if
#ifdef BLIND_WRITE
    :: true ->
#else
    :: number == own ->
#endif
        number = own + 1;
        how = value;
        passed = (value == RELEASED -> own + 1 : passed)
#ifndef BLIND_WRITE
    :: else
#endif
    fi
}

#ifdef ANY_NUMBER
#define HAS_COME(where) ((where) != 0)
#else
#define HAS_COME(where) ((where) == own + 1)
#endif

proctype member(byte me; bit is_new)
{
    byte own, copy;
    bit has_come, born = is_new;

    {
        do
        :: own >= ROUNDS -> break
        :: atomic { own < ROUNDS && number > own -> resolve() }
        :: atomic { /* a call; an ended round may not have been told yet */
               own < ROUNDS && !has_come && (!is_new || number == 0) ->
               if
               :: me != MORTAL || (start == born && !is_gone) -> arrival[me] = own + 1
               :: else
               fi;
               came[own + 1] = came[own + 1] | (1 << me);
               has_come = 1;
               is_new = 0
           }
        :: atomic { me == 0 && has_come && copy != arrival[1] -> copy = arrival[1] }
        :: atomic { me == 0 && has_come && HAS_COME(copy) && HAS_COME(arrival[2]) ->
               end_round(RELEASED) }
#ifdef DEATH
#ifdef COORDINATOR_ALONE_ENDS
        :: atomic { me == 0 && has_come && is_gone -> end_round(FAILED) }
#else
        :: atomic { me != MORTAL && has_come && is_gone -> end_round(FAILED) }
#endif
#endif
#ifdef DEADLINE
        :: atomic { has_come && !is_late ->
               is_late = 1;
#ifdef OUTCOME_OF_ITS_OWN
               own++;
               tell_outcome(FAILED);
               has_come = 0
#else
               end_round(FAILED)
#endif
           }
#endif
        od
    } unless { me == MORTAL && born == 0 && is_told }
}

#ifdef DEATH
proctype killer()
{
    if
    :: true
    :: atomic { true -> is_gone = 1; arrival[MORTAL] = 0 };
       if
       :: true -> is_told = 1 /* no new start takes its place */
       :: true ->
           atomic { start = 1; is_gone = 0; run member(MORTAL, 1) };
           is_told = 1
       fi
    fi
}
#endif

init {
    atomic {
        run member(0, 0);
        run member(1, 0);
        run member(2, 0)
#ifdef DEATH
        ;
        run killer()
#endif
    }
}
