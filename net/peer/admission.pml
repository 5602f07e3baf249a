/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of lots, with Spin (tests/model/run net/peer/admission.pml).
 *
 * There are three members, each with a GPU on which one lot may stand at a time, so with one slot.
 * Each two of them have lots to launch; the lower rank leads (net/peer/joint.c, lots.c).
 *
 *  leader     takes a slot of its GPU and proposes a lot. GO: it launches. BUSY: it gives the slot
 *             back, and waits for NUDGE
 *  follower   with a free slot it takes that and says GO, and has launched. Else it says BUSY, and
 *             NUDGE when there is a slot
 *  gpus       a lot is over when both have launched it; each end then gives its slot back
 *
 * A channel may bring BUSY and NUDGE in another order.
 *
 * Holds: all lots go. Leading by rank is needed for that: IN_A_CIRCLE, member 0 leads with 1, 1
 * with 2, 2 with 0, all may propose at once, refuse each other, and do so again for ever. By rank
 * the highest member leads with nobody, so its slot is always on its way back, and so on downwards.
 * In a circle worse may come: HOLDS, a leader keeps its slot after BUSY; AT_ONCE, it launches as it
 * proposes, and followers let proposals wait. NO_NUDGE: nobody asks it again. FORGETS: it takes a
 * nudge that came before its BUSY for none.
 */
/* correct: - */
/* liveness: yes */
/* broken: IN_A_CIRCLE acceptance cycle */
/* broken: IN_A_CIRCLE+HOLDS invalid end state */
/* broken: IN_A_CIRCLE+AT_ONCE invalid end state */
/* broken: -+NO_NUDGE,FORGETS invalid end state */

#define PAIRS 3
#define LOTS 2 /* of each pair, one after the other */

#define IDLE 0
#define PROPOSED 1
#define GOING 2

/* Pair 0 is of members 0 and 1, pair 1 of 1 and 2, pair 2 of 0 and 2. */
#ifdef IN_A_CIRCLE
#define LEADER(p) (p)
#define FOLLOWER(p) ((p + 1) % 3)
#else
#define LEADER(p) (p == 1 -> 1 : 0)
#define FOLLOWER(p) (p == 0 -> 1 : 2)
#endif

bit is_free[3] = 1; /* the slot of that member's GPU */
byte left[PAIRS] = LOTS;

/* Under way; of each there is one at most. */
bit lot[PAIRS], go[PAIRS], busy[PAIRS], nudge[PAIRS];

/* On the GPUs: launched by that end; over, as that end has yet to see. */
bit by_leader[PAIRS], by_follower[PAIRS], over_there[PAIRS], over_here[PAIRS];

proctype leader(byte p)
{
    byte state = IDLE;
    bit is_refused, was_nudged;
end:
    do
    :: atomic { state == IDLE && left[p] > 0 && !is_refused && is_free[LEADER(p)] ->
           is_free[LEADER(p)] = 0;
           state = PROPOSED;
           lot[p] = 1;
#ifdef AT_ONCE
           by_leader[p] = 1;
#endif
       }
    :: atomic { go[p] ->
           go[p] = 0;
           state = GOING;
           by_leader[p] = 1;
       }
    :: atomic { busy[p] ->
           busy[p] = 0;
           state = IDLE;
           is_refused = !was_nudged;
           was_nudged = 0;
#ifdef HOLDS
           if
           :: is_refused -> skip
           :: else -> is_free[LEADER(p)] = 1
           fi
#else
           is_free[LEADER(p)] = 1
#endif
       }
    :: atomic { nudge[p] ->
           nudge[p] = 0;
#ifdef HOLDS
           if
           :: is_refused -> is_free[LEADER(p)] = 1
           :: else -> skip
           fi;
#endif
           is_refused = 0;
#ifndef FORGETS
           was_nudged = state == PROPOSED;
#endif
       }
    :: atomic { state == GOING && over_there[p] ->
           over_there[p] = 0;
           state = IDLE;
           left[p]--;
           is_free[LEADER(p)] = 1;
       }
    od
}

proctype follower(byte p)
{
    bit owes_nudge;
end:
    do
    :: atomic { lot[p] && is_free[FOLLOWER(p)] ->
           lot[p] = 0;
           is_free[FOLLOWER(p)] = 0;
           by_follower[p] = 1;
           go[p] = 1;
       }
#ifndef AT_ONCE
    :: atomic { lot[p] && !is_free[FOLLOWER(p)] ->
           lot[p] = 0;
           busy[p] = 1;
           owes_nudge = 1;
       }
#endif
#ifndef NO_NUDGE
    :: atomic { owes_nudge && is_free[FOLLOWER(p)] ->
           owes_nudge = 0;
           nudge[p] = 1;
       }
#endif
    :: atomic { over_here[p] ->
           over_here[p] = 0;
           is_free[FOLLOWER(p)] = 1;
       }
    od
}

#define OVER(p)                                                                                    \
    atomic { by_leader[p] && by_follower[p] ->                                                     \
        by_leader[p] = 0;                                                                          \
        by_follower[p] = 0;                                                                        \
        over_there[p] = 1;                                                                         \
        over_here[p] = 1;                                                                          \
    }

proctype gpus()
{
end:
    do
    :: OVER(0)
    :: OVER(1)
    :: OVER(2)
    od
}

#define ALL_WENT (left[0] == 0 && left[1] == 0 && left[2] == 0)

init
{
    byte p;
    atomic {
        for (p : 0 .. PAIRS - 1) {
            run leader(p);
            run follower(p);
        }
        run gpus();
    }
    ALL_WENT
}

ltl all_go { <> ALL_WENT }
