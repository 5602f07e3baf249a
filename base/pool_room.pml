/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News of room in a pool, with Spin (tests/model/run base/pool_room.pml).
 *
 *  looker    a refused user: fry_pool_look until there is room, and sleep until `news` in between
 *  giver     depot_push of a magazine of several slots, then tell_of
 *  borrower  depot_pop, then gives the slot back
 *
 * The depot is its number of slots and the counter beside its top. Counting takes time: first the
 * counter is read, later the slots. Pushes, pops and the stores to `wanted` and `to_come` are
 * read-modify-writes, so no store buffers are modelled.
 *
 * Holds: the looker finds room if in the end there is as much as it needs, and only then.
 */
/* broken: WANTED_IS_READ_FIRST invalid end state */
/* broken: ONE_LOOK_AT_THE_DEPOT invalid end state */
/* broken: WANTED_AFTER_THE_LOOK invalid end state */
/* broken: NEWS_AT_NOUGHT_EXACTLY invalid end state */
/* broken: NEWS_IS_CLEARED_AFTER_THE_LOOK invalid end state */

#define NEED 3

short depot;
byte counter;
bit wanted;
short to_come;
bit news;

inline tell_of(count)
{
    atomic {
        before = to_come;
        to_come = to_come - count
    };
    if
#ifdef NEWS_AT_NOUGHT_EXACTLY
    :: before == count -> news = 1
#else
    :: before > 0 && before <= count -> news = 1
#endif
    :: else
    fi;
    before = 0
}

inline give(count)
{
#ifdef WANTED_IS_READ_FIRST
    is_wanted = wanted;
#endif
    atomic {
        depot = depot + count;
        counter++
    };
#ifndef WANTED_IS_READ_FIRST
    is_wanted = wanted;
#endif
    if
    :: is_wanted -> tell_of(count)
    :: else
    fi
}

proctype giver(byte count)
{
    bit is_wanted;
    short before;
    give(count)
}

proctype borrower()
{
    bit is_wanted;
    short before;
    if
    :: atomic { depot > 0 -> depot--; counter++ };
       give(1)
    :: true
    fi
}

inline look()
{
#ifndef WANTED_AFTER_THE_LOOK
    wanted = 1;
#endif
    do
    :: seen = counter;
       count = depot;
       missing = (count < NEED -> NEED - count : 0);
       to_come = missing;
#ifdef ONE_LOOK_AT_THE_DEPOT
       assert(missing > 0 || depot >= NEED);
       break
#else
       if
       :: atomic { counter == seen -> assert(missing > 0 || depot >= NEED) }; break
       :: atomic { counter != seen -> seen = 0 }
       fi
#endif
    od;
#ifdef WANTED_AFTER_THE_LOOK
    wanted = 1;
#endif
    seen = 0;
    count = 0
}

proctype looker()
{
    byte seen;
    short count, missing;
    do
    :: look();
#ifdef NEWS_IS_CLEARED_AFTER_THE_LOOK
       news = 0;
#endif
       if
       :: missing == 0 -> break
       :: else
       fi;
#ifdef NEWS_IS_CLEARED_AFTER_THE_LOOK
       news
#else
       atomic { news -> news = 0 }
#endif
    od
}

init {
    atomic {
        run looker();
        run giver(2);
        run giver(1);
        run borrower()
    }
}
