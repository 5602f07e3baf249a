/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving a rank of an open group away again; with Spin (tests/model/run net/group/seats.pml).
 * net/group/seats.c has the argument.
 *
 *  O      has had a rank, and is gone at some time. N wants that rank.
 *  0, 1   are members, and hold something of O at first.
 *  2      is let in at any time. If it hears of O as here it holds something of it, too.
 *  fate   kills a member; or stops it for so long that its record goes, and then lets it go on.
 *
 * Each member hears of the roster at any time: late, and not of every version. It lets go of O some
 * time after it has heard of the end, and then gives its word; words and changes of the roster are
 * asked for in one step and reach the store in another, whatever has happened between. Any member
 * may make any change: that usually the lowest rank does, only saves work.
 *
 * Holds: when N gets the rank no member that is in the roster and not marked holds anything of O;
 * and N gets it in the end, if O is gone and somebody is left.
 */
/* correct: - */
/* broken: NO_WORDS assertion violated */
/* broken: WORD_BEFORE_LETTING_GO assertion violated */
/* broken: NO_VERSION assertion violated */
/* broken: NEWCOMERS_ARE_SPARED assertion violated */
/* broken: MISSING_ARE_SPARED assertion violated */
/* broken: OWN_WORD_IS_SPARED assertion violated */
/* broken: MARKED_ARE_ASKED assertion violated */

#define MEMBERS 3
#define NEWCOMER 2

#define HERE 0
#define ENDED 1
#define GIVEN 2

#define NOTHING 0 /* what a member has asked the store for */
#define END 1
#define LET_IN 2
#define MARK 3 /* and 4, 5: the member with the number above it */
#define GIVE 6

/* The roster. */
byte version = 1;
byte starts = 2;
byte rank_state = HERE;
byte ended;            /* the number of O's end */
byte began[MEMBERS];   /* the number of their admission; 0: not yet */
bit marked[MEMBERS];

/* What each member knows of it. */
byte k_version[MEMBERS], k_state[MEMBERS], k_ended[MEMBERS], k_newcomer[MEMBERS];
byte k_marked[MEMBERS]; /* bits */

/* The other keys, in their leases. */
bit record[MEMBERS];
bit has_word[MEMBERS]; /* it has been told of O's end, and holds nothing of it */

bit is_alive[MEMBERS], is_stopped[MEMBERS], holds[MEMBERS];
bit is_o_gone, is_calm;

#define IS_IN(x) (began[x] != 0)
#define KNOWS_IN(x, y) (y != NEWCOMER || k_newcomer[x] != 0)
#define IS_MARKED_FOR(x, y) ((k_marked[x] & (1 << y)) != 0)

#ifdef NEWCOMERS_ARE_SPARED
#define IS_LATER(x, y) (y == NEWCOMER)
#else
#define IS_LATER(x, y) (y == NEWCOMER && k_newcomer[x] > k_ended[x])
#endif

#ifdef NO_WORDS
#define MAY_HOLD(x, y) false
#elif defined(MISSING_ARE_SPARED)
#define MAY_HOLD(x, y) (record[y] && !has_word[y])
#else
#define MAY_HOLD(x, y) (!has_word[y])
#endif

#ifdef MARKED_ARE_ASKED
#define NEEDS_WORD(x, y) (y != x && KNOWS_IN(x, y) && !IS_LATER(x, y))
#else
#define NEEDS_WORD(x, y) (y != x && KNOWS_IN(x, y) && !IS_MARKED_FOR(x, y) && !IS_LATER(x, y))
#endif

#ifdef OWN_WORD_IS_SPARED
#define OWN_HOLDS(x) false
#else
#define OWN_HOLDS(x) (holds[x])
#endif

#define IS_FREE(x) (k_state[x] == ENDED && !OWN_HOLDS(x) && \
                    !(NEEDS_WORD(x, 0) && MAY_HOLD(x, 0)) && \
                    !(NEEDS_WORD(x, 1) && MAY_HOLD(x, 1)) && \
                    !(NEEDS_WORD(x, 2) && MAY_HOLD(x, 2)))

#define PRESENT_HOLDS(y) (IS_IN(y) && !marked[y] && holds[y])

#ifdef NO_VERSION
#define IS_AS_ASKED true
#else
#define IS_AS_ASKED (version == asked_version)
#endif

inline know(x)
{
    k_version[x] = version;
    k_state[x] = rank_state;
    k_ended[x] = ended;
    k_newcomer[x] = began[NEWCOMER];
    k_marked[x] = marked[0] + 2 * marked[1] + 4 * marked[2]
}

inline hear(x)
{
    know(x);
    if
    :: x == NEWCOMER && rank_state == HERE && !marked[x] -> holds[x] = 1
    :: else
    fi;
    if
    :: marked[x] -> is_alive[x] = 0; holds[x] = 0; record[x] = 0; has_word[x] = 0 /* fenced */
    :: else
    fi
}

/* Of a member that is no more nothing matters: fewer states. */
inline forget(x)
{
    k_version[x] = 0;
    k_state[x] = 0;
    k_ended[x] = 0;
    k_newcomer[x] = 0;
    k_marked[x] = 0
}

inline change(what)
{
    version++;
    if
    :: what == END && rank_state == HERE -> starts++; rank_state = ENDED; ended = starts
    :: what == LET_IN && !IS_IN(NEWCOMER) -> starts++; began[NEWCOMER] = starts
    :: what >= MARK && what < GIVE -> marked[what - MARK] = 1
    :: what == GIVE ->
        assert(rank_state == ENDED);
        assert(!PRESENT_HOLDS(0) && !PRESENT_HOLDS(1) && !PRESENT_HOLDS(2));
        rank_state = GIVEN
    :: else
    fi
}

#define CAN_ASK(x) (is_alive[x] && !is_stopped[x] && record[x] && IS_IN(x) && \
                    k_version[x] != 0 && asked == NOTHING)
#define ASK(what) asked = what; asked_version = k_version[x]
#define MAY_MARK(x, y) (y != x && KNOWS_IN(x, y) && !IS_MARKED_FOR(x, y) && !record[y] && \
                        (!is_alive[y] || is_stopped[y]))

proctype member(byte x)
{
    byte asked, asked_version;
    bit says; /* its word is under way */

    do
    :: atomic { is_alive[x] && !is_stopped[x] && IS_IN(x) && k_version[x] != version -> hear(x) }
    :: atomic { is_alive[x] && !is_stopped[x] && IS_IN(x) && !record[x] -> record[x] = 1 }
    :: atomic { is_alive[x] && holds[x] && k_version[x] != 0 && k_state[x] == ENDED ->
        holds[x] = 0 }
    :: atomic { CAN_ASK(x) && k_state[x] == ENDED && !says && !has_word[x] &&
#ifndef WORD_BEFORE_LETTING_GO
                !holds[x] &&
#endif
                true -> says = 1 }
    :: atomic { says ->
        says = 0;
        if
        :: record[x] -> has_word[x] = 1
        :: else
        fi }
    :: atomic { CAN_ASK(x) && is_o_gone && k_state[x] == HERE -> ASK(END) }
    :: atomic { CAN_ASK(x) && k_newcomer[x] == 0 -> ASK(LET_IN) }
    :: atomic { CAN_ASK(x) && MAY_MARK(x, 0) -> ASK(MARK) }
    :: atomic { CAN_ASK(x) && MAY_MARK(x, 1) -> ASK(MARK + 1) }
    :: atomic { CAN_ASK(x) && MAY_MARK(x, 2) -> ASK(MARK + 2) }
    :: atomic { CAN_ASK(x) && IS_FREE(x) -> ASK(GIVE) }
    :: atomic { asked != NOTHING ->
        if
        :: record[x] && IS_AS_ASKED -> change(asked)
        :: else
        fi;
        asked = NOTHING;
        asked_version = 0 }
    :: atomic { !is_alive[x] && k_version[x] != 0 -> forget(x); says = 0 }
    :: atomic { timeout && is_calm -> break }
    od
}

/* A record goes some time after its member was killed, or stopped for long; its word goes too. */
inline lose(x)
{
    record[x] = 0;
    has_word[x] = 0
}

proctype fate()
{
    byte x, times;

    do
    :: atomic { times < 1 ->
        times++;
        select(x : 0 .. 2);
        if
        :: is_alive[x] && IS_IN(x) -> is_alive[x] = 0; holds[x] = 0 /* killed */
        :: is_alive[x] && IS_IN(x) && !is_stopped[x] -> is_stopped[x] = 1
        :: else
        fi }
    :: atomic { (!is_alive[0] || is_stopped[0]) && record[0] -> lose(0) }
    :: atomic { (!is_alive[1] || is_stopped[1]) && record[1] -> lose(1) }
    :: atomic { (!is_alive[2] || is_stopped[2]) && record[2] -> lose(2) }
    :: atomic { is_stopped[0] || is_stopped[1] || is_stopped[2] ->
        is_stopped[0] = 0;
        is_stopped[1] = 0;
        is_stopped[2] = 0 }
    :: !is_o_gone -> is_o_gone = 1
    :: times == 1 && is_o_gone && (is_alive[0] || !record[0]) && (is_alive[1] || !record[1]) &&
       (is_alive[2] || !record[2]) && !is_stopped[0] && !is_stopped[1] && !is_stopped[2] -> break
    od;
    is_calm = 1
}

#define IS_LEFT(x) (is_alive[x] && IS_IN(x))

init {
    atomic {
        began[0] = 1;
        began[1] = 2;
        is_alive[0] = 1;
        is_alive[1] = 1;
        is_alive[NEWCOMER] = 1;
        holds[0] = 1;
        holds[1] = 1;
        record[0] = 1;
        record[1] = 1;
        know(0);
        know(1);
        run member(0);
        run member(1);
        run member(NEWCOMER);
        run fate()
    }
    timeout && is_calm;
    assert(rank_state == GIVEN || !(IS_LEFT(0) || IS_LEFT(1) || IS_LEFT(NEWCOMER)))
}
