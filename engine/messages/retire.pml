/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs that make room for others, with Spin (tests/model/run engine/messages/retire.pml).
 *
 * There are three members, each with room for one pair. Each two of them have lots to launch; the
 * lower rank leads (pairing.c). A pair is ready once both ends have begun it, and each has room for
 * it from then until both have ended it. A lot that is launched at both ends is over at each of
 * them some time later, at one of them first. An end whose room is wanted *retires*: it says so
 * when nothing goes there any more, and who hears it retires too, and ends the pair when nothing
 * goes there.
 *
 * Holds: all lots go; no end ends its pair while a lot goes there. Planted: EARLY, who retires ends
 * the pair instead of saying that it retires; UNUSED, a pair may retire that has not been used yet;
 * LATECOMER, who retires goes on with lots; NEVER, nobody retires. IN_A_CIRCLE: member 0 leads with
 * 1, 1 with 2, 2 with 0, and all have begun a pair for which the other has no room.
 */
/* correct: - */
/* liveness: yes */
/* broken: -+EARLY,LATECOMER assertion violated */
/* broken: -+UNUSED acceptance cycle */
/* broken: -+NEVER invalid end state */
/* broken: IN_A_CIRCLE invalid end state */

#define PAIRS 3
#define LOTS 2 /* of each pair, one after the other */

#define NONE 0
#define MAKING 1
#define READY 2
#define ENDING 3
#define ENDED 4

/* Pair 0 is of members 0 and 1, pair 1 of 1 and 2, pair 2 of 0 and 2. */
#ifdef IN_A_CIRCLE
#define LEADER(p) (p)
#define FOLLOWER(p) ((p + 1) % 3)
#else
#define LEADER(p) (p == 1 -> 1 : 0)
#define FOLLOWER(p) (p == 0 -> 1 : 2)
#endif

/* Ends: the leader's of pair p is 2 * p, the follower's 2 * p + 1. */
#define OTHER(e) (e ^ 1)
#define MEMBER(e) (e % 2 == 0 -> LEADER(e / 2) : FOLLOWER(e / 2))
#define IS_LEADER(e) (e % 2 == 0)

bit has_room[3] = 1;
byte left[PAIRS] = LOTS;

byte state[6];
bit retiring[6], said[6], heard[6], used[6], goes[6], launched[6];

/* Under way to an end; of each there is one at most. */
bit make[PAIRS], lot[PAIRS], go[PAIRS], busy[PAIRS];
bit retire[6], end_it[6], has_ended[6];

/* Whether another pair of that end's member has no room. */
#define WANTS(e) (state[e] == NONE && (IS_LEADER(e) -> left[e / 2] > 0 : make[e / 2]))
#define LACKS(e, o) (e != o && MEMBER(e) == MEMBER(o) && WANTS(o))
#define LACKS_ANY(e, o) (LACKS(e, o) || LACKS(e, (o + 1)))
#define IS_PRESSED(e) (LACKS_ANY(e, 0) || LACKS_ANY(e, 2) || LACKS_ANY(e, 4))

#ifdef UNUSED
#define MAY_RETIRE(e) true
#else
#define MAY_RETIRE(e) (used[e] || (IS_LEADER(e) && left[e / 2] == 0 && !goes[e]))
#endif
#ifdef LATECOMER
#define TAKES_LOTS(e) (state[e] == READY)
#else
#define TAKES_LOTS(e) (state[e] == READY && !retiring[e])
#endif

inline begin_to_end(e)
{
    assert(!goes[e]);
    state[e] = ENDING;
}

inline forget(e)
{
    state[e] = NONE;
    has_ended[e] = 0;
    retire[e] = 0; /* of an older generation than the next */
    end_it[e] = 0;
    retiring[e] = 0;
    said[e] = 0;
    heard[e] = 0;
    used[e] = 0;
    has_room[MEMBER(e)] = 1;
}

#ifdef NEVER
#define RETIRES 0
#else
#define RETIRES 1
#endif
inline say_so(e)
{
#ifdef EARLY
    begin_to_end(e);
    end_it[OTHER(e)] = 1;
#else
    said[e] = 1;
    retire[OTHER(e)] = 1;
#endif
}

inline is_over(e)
{
    goes[e] = 0;
    used[e] = 1;
    if
    :: IS_LEADER(e) -> left[e / 2]--
    :: !IS_LEADER(e) -> skip
    fi;
    if
    :: !goes[OTHER(e)] -> launched[e] = 0; launched[OTHER(e)] = 0
    :: goes[OTHER(e)] -> skip
    fi
}

/* What both ends do: made; a lot is over; retires, says so, hears it; ends; is ended; forgets. */
#define STEPS(e)                                                                                   \
    :: atomic { state[e] == MAKING && (state[OTHER(e)] == MAKING || state[OTHER(e)] == READY) ->   \
           state[e] = READY }                                                                      \
    :: atomic { goes[e] && launched[e] && launched[OTHER(e)] -> is_over(e) }                       \
    :: atomic { RETIRES && state[e] == READY && !retiring[e] && IS_PRESSED(e) && MAY_RETIRE(e) ->  \
           retiring[e] = 1 }                                                                       \
    :: atomic { state[e] == READY && retiring[e] && !goes[e] && !said[e] && !heard[e] ->           \
           say_so(e) }                                                                             \
    :: atomic { retire[e] && state[e] == READY ->                                                  \
           retire[e] = 0; retiring[e] = 1; heard[e] = 1 }                                          \
    :: atomic { state[e] == READY && retiring[e] && heard[e] && !goes[e] ->                        \
           begin_to_end(e); end_it[OTHER(e)] = 1 }                                                 \
    :: atomic { end_it[e] && (state[e] == MAKING || state[e] == READY) ->                          \
           end_it[e] = 0; begin_to_end(e) }                                                        \
    :: atomic { state[e] == ENDING -> state[e] = ENDED; has_ended[OTHER(e)] = 1 }                  \
    :: atomic { state[e] == ENDED && has_ended[e] -> forget(e) }

proctype leader(byte p)
{
    bit is_refused;
end:
    do
    :: atomic { state[2 * p] == NONE && left[p] > 0 && has_room[LEADER(p)] && !make[p] ->
           has_room[LEADER(p)] = 0;
           state[2 * p] = MAKING;
           make[p] = 1;
           is_refused = 0;
       }
    :: atomic { TAKES_LOTS(2 * p) && left[p] > 0 && !goes[2 * p] && !goes[2 * p + 1] &&
                !is_refused ->
           goes[2 * p] = 1;
           lot[p] = 1;
       }
    :: atomic { go[p] ->
           go[p] = 0;
           launched[2 * p] = 1;
       }
    :: atomic { busy[p] ->
           busy[p] = 0;
           goes[2 * p] = 0;
           is_refused = 1;
       }
    STEPS((2 * p))
    od
}

proctype follower(byte p)
{
end:
    do
    :: atomic { make[p] && state[2 * p + 1] == NONE && has_room[FOLLOWER(p)] ->
           make[p] = 0;
           has_room[FOLLOWER(p)] = 0;
           state[2 * p + 1] = MAKING;
       }
    :: atomic { lot[p] && TAKES_LOTS(2 * p + 1) ->
           lot[p] = 0;
           goes[2 * p + 1] = 1;
           launched[2 * p + 1] = 1;
           go[p] = 1;
       }
    :: atomic { lot[p] && state[2 * p + 1] != MAKING && !TAKES_LOTS(2 * p + 1) ->
           lot[p] = 0;
           busy[p] = 1;
       }
    STEPS((2 * p + 1))
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
    }
    ALL_WENT
}

ltl all_go { <> ALL_WENT }
