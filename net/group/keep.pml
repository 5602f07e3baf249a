/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping a place when the store goes away, loses its leases, or all its contents; with Spin
 * (tests/model/run net/group/keep.pml). net/group/roster.c and stand.c have the argument.
 *
 *  A      has rank 0 and lives. It marks the holder of rank 1 dead when that has been missing for
 *         long enough, and lets C in. Its writes are asked for in one step and reach the store in
 *         another, whatever has happened between.
 *  B      has rank 1. It lives; or dies; or is late: stopped, or cut off, for longer than others
 *         wait.
 *  C      wants rank 1.
 *  store  goes away at most twice, and comes back with its contents, without leases, or emptied. An
 *         emptied store begins its versions anew: the same numbers for other contents.
 *
 * Each member hears of the roster at any time: late, and not of every version. That others wait
 * long enough is an assumption here: a living member that is not late is back before it is marked.
 *
 * Holds: no start's number is given twice, and A sees those of rank 1 grow; a living member that is
 * not late is not fenced; in the end rank 1 is B's if B lived and was in time, else C's.
 */
/* correct: EXPIRES */
/* correct: EMPTIES */
/* broken: EXPIRES+NO_GRACE assertion violated */
/* broken: EXPIRES+FENCED_BY_LEASE assertion violated */
/* broken: EMPTIES+NO_GUARD assertion violated */
/* broken: EMPTIES+NOBODY_RESTORES assertion violated */
/* broken: EMPTIES+GUARD_OF_ANY_LEASE assertion violated */
/* broken: EMPTIES+OLDER_COUNTS assertion violated */
/* broken: EMPTIES+NUMBERS_GO_ON assertion violated */

#define A 0
#define B 1
#define C 2
#define AHEAD 4 /* more starts than come between two times that the store is emptied */

/* The store. */
bit up = 1;
byte life;          /* how often the store was emptied */
bit record[3];
byte lease;         /* of A's record; no lease is given twice */
bit there = 1;      /* the roster: */
byte version = 1;
byte holder = B;    /* of rank 1 */
byte number = 1;    /* of that start */
bit is_dead;
byte starts = 1;    /* the newest number */

/* What each member knows of the roster. */
byte k_life[3], k_version[3], k_holder[3], k_number[3], k_starts[3];
bit k_dead[3];
bit is_in[3], is_fenced[3];
bit has_had_chance; /* B could be back since the store is back, or never will be in time */
bit has_ended;      /* B */
bit is_late;        /* B */
byte hour;          /* the time; new numbers are at least AHEAD times it */
byte given;         /* numbers that were given, as bits; only C's matter */
bit is_calm;        /* the store goes away no more */

inline know(x)
{
    k_version[x] = version;
    k_holder[x] = holder;
    k_number[x] = number;
    k_dead[x] = is_dead;
    k_starts[x] = starts
}

/* Sets values without meaning to 0: fewer states. */
inline forget(x)
{
    k_holder[x] = 0;
    k_number[x] = 0;
    k_dead[x] = 0;
    k_starts[x] = 0
}

#define STORE_IS_OLDER(x) (is_in[x] && (k_number[x] > number || \
                           (k_number[x] == number && k_dead[x] && !is_dead)))

inline hear(x)
{
    if
#ifndef OLDER_COUNTS
    :: STORE_IS_OLDER(x) -> k_version[x] = version; behind = 1
    :: else ->
#else
    :: true ->
#endif
        assert(x != A || number >= k_number[A]);
        know(x);
        behind = 0
    fi;
    if
    :: x != A && is_in[x] && (k_holder[x] != x || k_dead[x]) ->
        assert(x == C || has_ended || is_late);
        is_in[x] = 0;
        is_fenced[x] = 1
    :: x == C && !is_in[C] && !is_fenced[C] && k_holder[C] == C && !k_dead[C] -> is_in[C] = 1
    :: else
    fi;
    if
    :: !is_in[x] -> forget(x)
    :: else
    fi
}

inline write(x)
{
    there = 1;
    version++;
    holder = k_holder[x];
    number = k_number[x];
    is_dead = k_dead[x];
    starts = k_starts[x];
    k_version[x] = version;
    behind = 0
}

#define STANDS(x) (up && record[x] && k_life[x] == life)

#ifdef NO_GRACE
#define MAY_BE_MARKED (!record[k_holder[A]])
#else
#define MAY_BE_MARKED (!record[k_holder[A]] && \
                       (k_holder[A] == C || has_had_chance))
#endif

#ifdef NO_GUARD
#define GUARD_STANDS true
#elif defined(GUARD_OF_ANY_LEASE)
#define GUARD_STANDS (record[A])
#else
#define GUARD_STANDS (record[A] && lease == asked_lease)
#endif

proctype member(byte x)
{
    bit behind;
    bit is_asking; /* A's write, and the state that it is based on */
    byte asked_version, asked_lease;
    bit asks_for_c;

    do
    :: atomic { is_fenced[x] || (x == B && has_ended) ->
           record[x] = 0;
           k_version[x] = 0;
           k_life[x] = 0;
           behind = 0;
           forget(x);
           break }
    :: atomic { up && k_life[x] != life ->
           k_life[x] = life;
           k_version[x] = 0 }
    :: atomic { up && k_life[x] == life && there && k_version[x] != version -> hear(x) }
#ifdef FENCED_BY_LEASE
    :: atomic { x == B && up && !record[B] && is_in[B] ->
           assert(has_ended || is_late);
           is_in[B] = 0;
           is_fenced[B] = 1 }
#else
    :: atomic { up && k_life[x] == life && !record[x] && (is_in[x] || x == C) ->
           record[x] = 1;
           if
           :: x == A -> lease++
           :: x == B -> has_had_chance = 1
           :: else
           fi }
#endif
#ifndef NOBODY_RESTORES
    :: atomic { STANDS(x) && is_in[x] && !there ->
           hour++;
#ifndef NUMBERS_GO_ON
           k_starts[x] = (k_starts[x] > hour * AHEAD -> k_starts[x] : hour * AHEAD);
#endif
           write(x) }
#endif
    :: atomic { STANDS(x) && is_in[x] && there && behind && k_version[x] == version -> write(x) }
    :: atomic { x == A && STANDS(A) && !is_asking && k_version[A] != 0 && !behind &&
                MAY_BE_MARKED && (!k_dead[A] || record[C]) && k_holder[A] != C ->
           is_asking = 1;
           asked_version = k_version[A];
           asked_lease = lease;
           asks_for_c = record[C] }
    :: atomic { x == A && is_asking && up ->
           is_asking = 0;
           if
           :: there && version == asked_version && GUARD_STANDS ->
               version++;
               if
               :: asks_for_c ->
                   k_starts[A]++;
                   assert((given & (1 << k_starts[A])) == 0);
                   given = given | (1 << k_starts[A]);
                   holder = C;
                   number = k_starts[A];
                   is_dead = 0;
                   starts = k_starts[A]
               :: else -> is_dead = 1
               fi
           :: else
           fi;
           asked_version = 0;
           asked_lease = 0;
           asks_for_c = 0 }
    :: atomic { timeout && is_calm -> break }
    od
}

proctype store()
{
    byte times;

    do
    :: times < 2 ->
        up = 0;
        times++;
        atomic {
            has_had_chance = has_ended || is_late;
            if
            :: true /* with all its contents */
            :: true -> record[A] = 0; record[B] = 0; record[C] = 0
#ifdef EMPTIES
            :: true ->
                record[A] = 0; record[B] = 0; record[C] = 0;
                there = 0;
                version = 0;
                life++
#endif
            fi;
            up = 1
        }
    :: true -> break
    od;
    is_calm = 1
}

proctype fate()
{
    if
    :: true
    :: atomic { has_ended = 1; has_had_chance = 1 }
    :: atomic { is_late = 1; has_had_chance = 1 }
    fi;
    /* In a present store a lease expires when nobody renews it. */
    do
    :: atomic { up && record[B] && (has_ended || is_late) -> record[B] = 0; break }
    :: atomic { timeout && is_calm -> break }
    od
}

init {
    atomic {
        know(A);
        know(B);
        is_in[A] = 1;
        is_in[B] = 1;
        record[A] = 1;
        record[B] = 1;
        run member(A);
        run member(B);
        run member(C);
        run store();
        run fate()
    }
    timeout && is_calm;
    assert(there && !is_dead && is_in[A]);
    assert(is_in[holder] && record[holder]);
    assert(holder == C || !has_ended);
    assert(holder == B || has_ended || is_late)
}
