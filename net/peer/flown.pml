/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a receive of a lot has the right bytes, with Spin (tests/model/run net/peer/flown.pml).
 *
 * A sends to B in three pairs, one after the other, a lot in each. A's kernel copies the bytes into
 * memory between the two, and B's takes them from there. A may end its pair at any time. Then its
 * kernel posts what it has not copied, and the memory between may be gone, so that B's kernel ends
 * with wrong bytes. B hears of that some time later; then it ends its own, says so, and A makes the
 * next pair. Words overtake each other.
 *
 * Holds: B's receive ends well with the right bytes alone, and one that is neither cut short nor
 * left by A ends well. Planted: TRUSTING, B does not ask; ONE_WAY, A says that it is whole as its
 * own kernel is over, without being asked; ANSWERS, A answers without a pair; NUMBERS_AGAIN, lots
 * of another pair have the same numbers.
 */
/* correct: - */
/* broken: -+TRUSTING,ONE_WAY,ANSWERS,NUMBERS_AGAIN assertion violated */

#define PAIRS 3

#ifdef NUMBERS_AGAIN
#define NUMBER(g) 0
#else
#define NUMBER(g) g
#endif

bit is_ready;            /* A has a pair */
bit is_copied[PAIRS];    /* all of it is in the memory between */
bit is_gone[PAIRS];      /* A has ended the pair */
bit has_wrong[PAIRS];    /* B's memory */
bit flown[PAIRS], whole[PAIRS]; /* under way, by number */
bit end_it[PAIRS], has_ended[PAIRS];

inline copy()
{
    is_copied[g] = 1;
#ifdef ONE_WAY
    whole[NUMBER(g)] = 1
#endif
}

active proctype a()
{
    byte g = 0;

    do
    :: is_ready = 1;
        if
        :: skip /* its kernel is cut short, or has yet to come to it */
        :: copy()
        fi;
        if
        :: g + 1 < PAIRS
        :: break
        fi;
        atomic { /* with the baton */
            is_ready = 0;
            is_gone[g] = 1
        }
        end_it[g] = 1;
        has_ended[g];
        g++
    od;
    copy()
}

/* A's loop. */
active proctype answers()
{
    byte number;

end_idle:
    do
    :: atomic {
        flown[0] || flown[1] || flown[2] ->
        number = (flown[0] -> 0 : (flown[1] -> 1 : 2));
        flown[number] = 0;
#ifndef ANSWERS
        if
        :: is_ready -> whole[number] = 1
        :: else
        fi
#else
        whole[number] = 1
#endif
    }
    od
}

active proctype b()
{
    byte g = 0;

    do
    :: /* Its kernel; a word may come before it is over. */
        if
        :: atomic { is_copied[g] && !is_gone[g] }
        :: atomic { is_gone[g] -> has_wrong[g] = 1 }
        :: end_it[g] -> goto ends
        fi;
#if !defined(TRUSTING) && !defined(ONE_WAY)
        flown[NUMBER(g)] = 1;
#endif
        if
#ifdef TRUSTING
        :: assert(!has_wrong[g])
#else
        :: atomic {
            whole[NUMBER(g)] ->
            whole[NUMBER(g)] = 0;
            assert(!has_wrong[g])
        }
#endif
        :: end_it[g] -> goto ends
        fi;
end_waits:
        if
        :: g + 1 == PAIRS -> break
        :: end_it[g]
        fi;
ends:
        has_ended[g] = 1;
        g++
    od
}
