/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of a barrier, with Spin (tests/model/run net/group_barrier.pml); net/group_rounds.c has
 * the argument.
 *
 *  member    calls the barrier until ROUNDS rounds of it have ended. A call writes its arrival and
 *            waits until it is told that the round has ended. Meanwhile it may end the round: the
 *            host (0) when it has been told of an arrival of each; anybody when a deadline passes
 *            (one, once) or when it is told that a member is dead.
 *  killer    ends the lease of one member at any time: its record and its arrival go, and what it
 *            writes in the lease is refused from then on; but it runs on until it is told, some
 *            time. A new start of it may come, with nothing remembered but what it reads then.
 *
 * Of the key that says how the newest round ended, and of arrivals, a member has a copy that is
 * brought up to date at any time: late, and not with every value. SWAP is one step, on the store.
 *
 * Holds: a round has one outcome for all that came to it; none is released before all have come,
 * and only to who has come (an old start
 * may be late for one that its successor passed: it is told so); nobody waits for ever (an invalid end state).
 */
/* correct: DEADLINE */
/* correct: DEATH */
/* correct: DEATH+HOST_DIES */
/* correct: DEATH+DEADLINE */
/* correct: DEATH+DEADLINE+HOST_DIES */
/* broken: DEADLINE+BLIND_WRITE assertion violated */
/* broken: DEATH+BLIND_WRITE assertion violated */
/* broken: DEADLINE+ANY_NUMBER assertion violated */
/* broken: DEADLINE+OUTCOME_OF_ITS_OWN invalid end state */
/* broken: DEATH+NEWEST_FOR_ITS_OWN assertion violated */
/* broken: DEATH+NOT_TOLD_CHANGED assertion violated */
/* broken: DEATH+HOST_DIES+HOST_ALONE_ENDS invalid end state */

#define ROUNDS 2
#define RELEASED 1
#define FAILED 2
#ifdef HOST_DIES
#define MORTAL 0
#else
#define MORTAL 1
#endif

/* The store. */
byte number, how; /* the newest round that has ended, and its outcome */
byte passed;      /* the newest that ended well */
byte arrival[3];  /* the number that each has come to; 0: no key */
bit is_gone;      /* the mortal's record */
byte start;       /* of the mortal, that has the rank: 0 or 1 */

bit is_told;      /* the old start, that it is no more */
bit is_late;      /* the deadline has passed */

/* For the checks: of each round, who has come (bits) and what somebody was told. */
byte came[ROUNDS + 1];
byte outcome[ROUNDS + 1];

inline tell_outcome(value)
{
    assert(outcome[own] == 0 || outcome[own] == value);
    assert(value != RELEASED || (came[own] == 7 && has_come));
    outcome[own] = value
}

inline look()
{
    seen = number;
    how_seen = how;
    passed_seen = passed
}

inline end_round(value)
{
    atomic {
        if
#ifdef BLIND_WRITE
        :: true ->
#else
        :: number == own ->
#endif
            number = own + 1;
            how = value;
            if
            :: value == RELEASED -> passed = own + 1
            :: else
            fi
#ifndef BLIND_WRITE
        :: else
#endif
        fi;
        look()
    }
}

#ifdef ANY_NUMBER
#define HAS_COME(who) (copy[who] != 0)
#else
#define HAS_COME(who) (copy[who] == own + 1)
#endif

proctype member(byte me; bit is_new)
{
    byte own, seen, how_seen, passed_seen, born;
    byte copy[3];
    bit has_come, knows_dead;

    born = is_new;
    {
        atomic { look() };
        do
        :: own == ROUNDS -> break
        :: else ->
            has_come = 0;
            if
#ifndef NOT_TOLD_CHANGED
            :: seen > own && (is_new || passed_seen > own) ->
                own = seen; /* FERRY_E_CHANGED: others passed it without this start */
                is_new = 0
#endif
            :: else ->
                is_new = 0;
                if
                :: seen > own /* it ended without this one */
                :: else ->
                    atomic {
                        if
                        :: me != MORTAL || (start == born && !is_gone) -> arrival[me] = own + 1
                        :: else
                        fi;
                        came[own + 1] = came[own + 1] | (1 << me);
                        has_come = 1
                    };
                    do
                    :: seen > own -> break
                    :: atomic { seen <= own && number != seen -> look() }
                    :: atomic { me == 0 && copy[1] != arrival[1] -> copy[1] = arrival[1] }
                    :: atomic { me == 0 && copy[2] != arrival[2] -> copy[2] = arrival[2] }
                    :: me == 0 && seen <= own && HAS_COME(1) && HAS_COME(2) -> end_round(RELEASED)
#ifdef DEATH
#ifdef HOST_ALONE_ENDS
                    :: me == 0 && seen <= own && is_gone -> end_round(FAILED)
#else
                    :: me != MORTAL && seen <= own && is_gone -> end_round(FAILED)
#endif
#endif
#ifdef DEADLINE
                    :: atomic { seen <= own && !is_late -> is_late = 1 };
#ifdef OUTCOME_OF_ITS_OWN
                        own++;
                        tell_outcome(FAILED);
                        own--;
                        seen = own + 1;
                        how_seen = FAILED;
                        break
#else
                        end_round(FAILED)
#endif
#endif
                    od
                fi;
                atomic {
                    own++;
                    if
#ifndef NEWEST_FOR_ITS_OWN
                    :: seen > own && passed_seen == own -> tell_outcome(RELEASED)
                    :: seen > own && passed_seen > own -> own = seen /* FERRY_E_CHANGED, too */
                    :: seen > own && passed_seen < own -> tell_outcome(FAILED)
                    :: seen == own -> tell_outcome(how_seen)
#else
                    :: true -> tell_outcome(how_seen)
#endif
                    fi
                }
            fi
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
       :: true -> is_told = 1 /* and nobody comes in its place */
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
