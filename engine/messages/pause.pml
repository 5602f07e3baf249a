/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses for a program's collectives, with Spin (tests/model/run engine/messages/pause.pml).
 *
 * There are three members, each with a GPU that has room for one kernel. Each two have a pair, and
 * LOTS to launch, one after the other (joint.c: a slot of each GPU, GO or BUSY, and a nudge later).
 * Each member's program pauses (pause.c), launches its part of a collective once nothing goes at
 * this member, and resumes when that has ended; the first pauses once more for nothing. A kernel
 * leaves its GPU when all its other ends are there. What is launched waits for room, in any order.
 *
 * Holds: all lots and collectives end; nothing goes at a member whose pause has resolved. Planted:
 * ALONE, nobody pauses; GOES_ON, a paused member admits lots; PROPOSED, what was proposed and is
 * not answered does not count; NO_NUDGE, a member that refuses as it is paused does not nudge;
 * STAYS, members do not resume.
 */
/* correct: - */
/* broken: -+ALONE,GOES_ON,NO_NUDGE,STAYS invalid end state */
/* broken: -+PROPOSED assertion violated */

#define LOTS 2
#define PAIRS 3

/* Pair 0 is of members 0 and 1, pair 1 of 1 and 2, pair 2 of 0 and 2. */
#define LEADER(p) (p == 1 -> 1 : 0)
#define FOLLOWER(p) (p == 0 -> 1 : 2)

/* Ends: the leader's of pair p is 2 * p, the follower's 2 * p + 1. */
#define OTHER(e) (e ^ 1)
#define MEMBER(e) (e % 2 == 0 -> LEADER(e / 2) : FOLLOWER(e / 2))
#define END_A(m) (m == 0 -> 0 : (m == 1 -> 1 : 3))
#define END_B(m) (m == 0 -> 4 : (m == 1 -> 2 : 5))
#define TURNS(m) (m == 0 -> 2 : 1)

/* What a GPU has room for. */
#define FREE 0
#define COLLECTIVE 7 /* or a lot: the end's number + 1 */

byte room[3];
bit slot[3] = 1; /* ferry's, of the GPU */

byte left[PAIRS] = LOTS;
bit lot[PAIRS], go[PAIRS], busy[PAIRS], nudge[PAIRS], owes[PAIRS], refused[PAIRS];
bit goes[6], launched[6];
bit on[3], stands[3], is_reduced;

#ifdef GOES_ON
#define TAKES(e) true
#else
#define TAKES(e) (!on[MEMBER(e)])
#endif
#ifdef PROPOSED
#define IDLE(e) (!launched[e])
#else
#define IDLE(e) (!goes[e])
#endif
#ifdef NO_NUDGE
#define OWES(e) (!on[MEMBER(e)])
#else
#define OWES(e) 1
#endif

/* What both ends do: stand on the GPU, and leave it. */
#define STEPS(e)                                                                                   \
    :: atomic { launched[e] && room[MEMBER(e)] == FREE -> room[MEMBER(e)] = e + 1 }                \
    :: atomic { room[MEMBER(e)] == e + 1 && room[MEMBER(OTHER(e))] == OTHER(e) + 1 -> leave(e) }

/* The bytes are there: both ends leave, and give their slots back. */
inline leave(e)
{
    room[MEMBER(e)] = FREE;
    room[MEMBER(OTHER(e))] = FREE;
    launched[e] = 0;
    launched[OTHER(e)] = 0;
    goes[e] = 0;
    goes[OTHER(e)] = 0;
    slot[MEMBER(e)] = 1;
    slot[MEMBER(OTHER(e))] = 1;
    left[e / 2]--
}

proctype leader(byte p)
{
end:
    do
    :: atomic { left[p] > 0 && !goes[2 * p] && !refused[p] && TAKES((2 * p)) && slot[LEADER(p)] ->
           slot[LEADER(p)] = 0;
           goes[2 * p] = 1;
           lot[p] = 1;
       }
    :: atomic { go[p] ->
           go[p] = 0;
           launched[2 * p] = 1;
       }
    :: atomic { busy[p] ->
           busy[p] = 0;
           slot[LEADER(p)] = 1;
           goes[2 * p] = 0;
           refused[p] = 1;
       }
    :: atomic { nudge[p] && refused[p] ->
           nudge[p] = 0;
           refused[p] = 0;
       }
    STEPS((2 * p))
    od
}

proctype follower(byte p)
{
end:
    do
    :: atomic { lot[p] && TAKES((2 * p + 1)) && slot[FOLLOWER(p)] ->
           lot[p] = 0;
           slot[FOLLOWER(p)] = 0;
           goes[2 * p + 1] = 1;
           launched[2 * p + 1] = 1;
           go[p] = 1;
       }
    :: atomic { lot[p] && !(TAKES((2 * p + 1)) && slot[FOLLOWER(p)]) ->
           lot[p] = 0;
           owes[p] = OWES((2 * p + 1));
           busy[p] = 1;
       }
    :: atomic { owes[p] && TAKES((2 * p + 1)) && slot[FOLLOWER(p)] ->
           owes[p] = 0;
           nudge[p] = 1;
       }
    STEPS((2 * p + 1))
    od
}

/* A member's program. */
proctype program(byte m)
{
    byte turn;
    for (turn : 1 .. TURNS(m)) {
#ifndef ALONE
        on[m] = 1;
        atomic {
            IDLE(END_A(m)) && IDLE(END_B(m));
            assert(!goes[END_A(m)] && !goes[END_B(m)]);
        }
#endif
        if
        :: turn == 1 ->
            atomic {
                room[m] == FREE -> room[m] = COLLECTIVE;
                stands[m] = 1;
            }
            atomic {
                (stands[0] && stands[1] && stands[2]) || is_reduced;
                is_reduced = 1;
            }
#ifndef ALONE
            assert(!goes[END_A(m)] && !goes[END_B(m)]);
#endif
            room[m] = FREE
        :: turn == 2 -> skip
        fi;
#ifndef STAYS
        on[m] = 0
#endif
    }
}

init
{
    byte p;
    atomic {
        for (p : 0 .. PAIRS - 1) {
            run leader(p);
            run follower(p);
            run program(p);
        }
    }
    left[0] == 0 && left[1] == 0 && left[2] == 0
}
