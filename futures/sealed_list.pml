/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A future's sealed list, with Spin (tests/model/run futures/sealed_list.pml).
 *
 *  owner     a thread with one waiter: fry_future_add_waiter; then perhaps fry_future_remove_waiter
 *            (detach_list, the walk, restore_list of futures/future.c); after a removal perhaps
 *            adds the same waiter again, so that the word has a former value again
 *  resolver  fry_future_claim, the error, fry_future_seal; two of them: a promise and a cancel
 *  parker    a waiting thread: fry_future_is_resolved, fry_future_prepare_park and
 *            fry_future_commit_park in a loop; in NUDGED it checks another condition in between
 *  nudger    makes another condition true and calls fry_future_nudge
 *
 * A word is as in futures.h: a waiter's number times 8, and the flags. Weak swaps that fail without
 * cause are left out; a thread that waits for REMOVING to be cleared is a blocked process. All
 * decisions are read-modify-writes of one word, so there are no store buffers.
 *
 * The futex compares the word's low half, which has all flags and a part of the address. So it may
 * take two words with the same flags for equal: here the parker may sleep if the flags are the
 * same, and may return if the word is not.
 *
 * A fired or removed waiter belongs to its owner again: no other thread may read it then
 * (`listed`). Holds: each waiter fires exactly once, or its removal answers true and it does not
 * fire; a removal answers false only after the seal; one resolver wins; a thread that sees the seal
 * sees status and error; no parker sleeps for ever.
 *
 *  REMOVERS  two removers, one of which may add again, and a waiter that stays.
 *  PARKERS   one remover and a waiter that stays; two parkers.
 *  MIXED     two removers and one parker.
 *  NUDGED    one remover; a parker that goes on as soon as `other` is true, long before the future
 *            resolves, so that only the nudge can wake it. Only one parker: if two park on a
 *            future, the second can set PARKED again after the nudge and before the first commits,
 *            and the first then sleeps through the nudge. The nudger must know that the second goes
 *            on in its place.
 */
/* correct: REMOVERS */
/* correct: PARKERS */
/* correct: MIXED */
/* correct: NUDGED */
/* broken: REMOVERS+SEAL_WITHOUT_EXCHANGE invalid end state */
/* broken: REMOVERS+CLAIM_WITHOUT_EXCHANGE assertion violated (winners==1) */
/* broken: REMOVERS+ERROR_AFTER_SEAL assertion violated error_is_set */
/* broken: REMOVERS+ADD_IGNORES_SEALED invalid end state */
/* broken: REMOVERS+ADD_FORGETS_FLAGS assertion violated (answer||(word==4)) */
/* broken: REMOVERS+REMOVER_DOES_NOT_WAIT assertion violated (answer||(word==4)) */
/* broken: REMOVERS+RESTORE_DROPS_WHEN_SEALED invalid end state */
/* broken: REMOVERS+RESTORE_DROPS_PUSHED invalid end state */
/* broken: REMOVERS+RESTORE_WITHOUT_COMPARE invalid end state */
/* broken: PARKERS+PARK_WITHOUT_COMPARE invalid end state */
/* broken: PARKERS+RESTORE_DROPS_PARKED invalid end state */
/* broken: PARKERS+DETACH_DROPS_PARKED invalid end state */
/* broken: PARKERS+WAKES_ONE invalid end state */
/* broken: NUDGED+NUDGE_KEEPS_PARKED invalid end state */
/* broken: NUDGED+NUDGE_WITHOUT_WAKE invalid end state */
/* broken: NUDGED+LOOK_BEFORE_PREPARE invalid end state */

#define PARKED 1
#define REMOVING 2
#define SEALED 4
#define FLAGS 7
#define WAITER(word_) ((word_) >> 3)
#define WORD(waiter_) ((waiter_) << 3)

#define RESOLVERS 2

#ifdef REMOVERS
#define WAITERS 3
#else
#define WAITERS 2
#endif

byte word;
byte next[WAITERS + 1];
bit listed[WAITERS + 1]; /* in the list: its owner may not touch it, others may */
bit fired[WAITERS + 1];
bit claimed; /* the status, PENDING until then */
bit error_is_set;
byte winners;
bit asleep[2]; /* in the kernel */
bit other;      /* the other condition of a parker, NUDGED only */
bit parker_left;

/* Takes the waiters below a waiter in a detached list. */
inline follow(at, to)
{
    assert(listed[at]);
    to = next[at]
}

inline fire(waiter_)
{
    atomic {
        assert(listed[waiter_] && !fired[waiter_]);
        listed[waiter_] = 0;
        next[waiter_] = 0;
        fired[waiter_] = 1
    }
}

/* Oldest first. Turning the chain round is one step: nobody else has it until its waiters fire. */
inline fire_all(newest)
{
    atomic {
        ordered = 0;
        do
        :: newest != 0 ->
            follow(newest, below);
            next[newest] = ordered;
            ordered = newest;
            newest = below
        :: else -> break
        od;
        below = 0
    }
    do
    :: ordered != 0 ->
        atomic {
            follow(ordered, below);
            fire(ordered);
            ordered = below;
            below = 0
        }
    :: else -> break
    od
}

/* fry_future_add_waiter */
inline add(waiter_, added)
{
    seen = word;
    do
    :: atomic {
#ifndef ADD_IGNORES_SEALED
           seen == SEALED -> seen = 0; added = 0; break
       }
    :: atomic {
           seen != SEALED ->
#endif
           next[waiter_] = WAITER(seen);
           listed[waiter_] = 1
       }
       if
       :: atomic {
              word == seen ->
#ifdef ADD_FORGETS_FLAGS
              word = WORD(waiter_);
#else
              word = WORD(waiter_) | (seen & FLAGS);
#endif
              seen = 0;
              added = 1
          }
          break
       :: atomic { word != seen -> seen = word; listed[waiter_] = 0; next[waiter_] = 0 }
       fi
    od
}

/* detach_list */
inline detach(detached)
{
    do
    :: atomic { word == SEALED -> detached = 0; break }
#ifdef REMOVER_DOES_NOT_WAIT
    :: atomic {
           word != SEALED ->
#else
    :: atomic {
           word != SEALED && !(word & REMOVING) ->
#endif
           seen = word
       }
       if
       :: atomic {
              word == seen ->
              list = WAITER(seen);
#ifdef DETACH_DROPS_PARKED
              word = REMOVING;
#else
              word = (seen & PARKED) | REMOVING;
#endif
              seen = 0;
              detached = 1
          }
          break
       :: atomic { word != seen -> seen = 0 }
       fi
    od
}

#ifdef RESTORE_DROPS_PARKED
#define KEPT 0
#else
#define KEPT (seen & PARKED)
#endif

#ifdef RESTORE_WITHOUT_COMPARE
#define IS_AS_SEEN true
#else
#define IS_AS_SEEN (word == seen)
#endif

/* restore_list */
inline restore()
{
    seen = word;
    do
    :: atomic {
           seen == SEALED -> seen = 0
#ifdef RESTORE_DROPS_WHEN_SEALED
           ; list = 0
#endif
       }
       fire_all(list);
       break
    :: atomic { seen != SEALED -> pushed = WAITER(seen) }
       if
       :: pushed == 0 || list == 0 ->
           if
           :: atomic {
                  IS_AS_SEEN ->
                  if
                  :: pushed != 0 -> word = WORD(pushed) | KEPT
                  :: else -> word = WORD(list) | KEPT
                  fi;
                  pushed = 0;
                  list = 0;
                  seen = 0
              }
              break
           :: atomic { !IS_AS_SEEN -> seen = word; pushed = 0 }
           fi
       :: else ->
           if
           :: atomic {
                  word == seen ->
#ifndef RESTORE_DROPS_PUSHED
                  word = seen & FLAGS
#else
                  word = seen & FLAGS;
                  pushed = list
#endif
              }
              atomic { /* detached as well: the former list goes below it */
                  ordered = pushed;
                  do
                  :: next[ordered] != 0 -> follow(ordered, ordered)
                  :: else -> break
                  od;
                  if
                  :: pushed != list -> next[ordered] = list
                  :: else
                  fi;
                  list = pushed;
                  pushed = 0;
                  ordered = 0
              }
              seen = word
           :: atomic { word != seen -> seen = word; pushed = 0 }
           fi
       fi
    od
}

/* fry_future_remove_waiter */
inline remove(waiter_, found)
{
    detach(found);
    if
    :: found ->
        atomic { /* a walk of the detached list */
            found = 0;
            below = list;
            do
            :: below != 0 && below != waiter_ -> ordered = below; follow(below, below)
            :: else -> break
            od;
            if
            :: below == 0
            :: below != 0 && ordered == 0 -> found = 1; follow(waiter_, list)
            :: below != 0 && ordered != 0 -> found = 1; follow(waiter_, next[ordered])
            fi;
            below = 0;
            ordered = 0;
            if
            :: found -> listed[waiter_] = 0; next[waiter_] = 0
            :: else
            fi;
            assert(found || word == SEALED) /* false means that the future has resolved */
        }
        restore()
    :: else
    fi
}

proctype owner(byte me; bit may_remove; bit may_add_again)
{
    byte seen, list, pushed, ordered, below;
    bit answer;
again:
    add(me, answer);
    if
    :: !answer -> /* the adder fires it */
        assert(error_is_set);
        listed[me] = 1;
        fire(me)
    :: answer ->
        if
        :: may_remove ->
            remove(me, answer);
            if
            :: answer ->
                assert(!fired[me]);
                if
                :: may_add_again -> may_add_again = 0; goto again
                :: true -> goto removed
                fi
            :: !answer -> assert(word == SEALED)
            fi
        :: true
        fi
    fi;
    fired[me] /* it has fired or will */
    goto end;
removed:
    (winners != 0 && word == SEALED);
    assert(!fired[me] && !listed[me]);
end:
    skip
}

proctype resolver()
{
    byte list, ordered, below;
    bit won;
#ifdef NUDGED
    parker_left;
#endif
#ifdef CLAIM_WITHOUT_EXCHANGE
    won = !claimed;
    claimed = 1;
#else
    atomic {
        won = !claimed;
        claimed = 1
    }
#endif
    if
    :: won ->
        winners++;
        assert(winners == 1);
#ifndef ERROR_AFTER_SEAL
        error_is_set = 1;
#endif
#ifdef SEAL_WITHOUT_EXCHANGE
        list = word;
        word = SEALED;
#else
        atomic {
            list = word;
            word = SEALED
        }
#endif
#ifdef ERROR_AFTER_SEAL
        error_is_set = 1;
#endif
        if
        :: list & PARKED ->
            atomic {
#ifdef WAKES_ONE
                if
                :: asleep[0] -> asleep[0] = 0
                :: else -> asleep[1] = 0
                fi
#else
                asleep[0] = 0;
                asleep[1] = 0
#endif
            }
        :: else
        fi;
        list = WAITER(list);
        fire_all(list)
    :: else
    fi
}

#ifndef REMOVERS
proctype parker(byte me)
{
    byte seen;
    do
    :: word == SEALED -> break
#ifdef NUDGED
    :: other -> break
#endif
    :: word != SEALED ->
        seen = word;
        do /* fry_future_prepare_park */
        :: seen == SEALED -> break
        :: else ->
            if
            :: atomic { word == seen -> seen = seen | PARKED; word = seen } break
            :: atomic { word != seen -> seen = word }
            fi
        od;
        if
        :: seen == SEALED
#if defined(NUDGED) && !defined(LOOK_BEFORE_PREPARE)
        :: seen != SEALED && other
        :: seen != SEALED && !other ->
#else
        :: else ->
#endif
            if /* fry_future_commit_park: futex_wait */
#ifdef PARK_WITHOUT_COMPARE
            :: asleep[me] = 1; !asleep[me]
#else
            :: atomic { (word & FLAGS) == (seen & FLAGS) -> asleep[me] = 1 } !asleep[me]
            :: word != seen
#endif
            fi
        fi;
        seen = 0
    od;
#ifdef NUDGED
    parker_left = 1
#else
    assert(claimed && error_is_set)
#endif
}
#endif

#ifdef NUDGED
proctype nudger()
{
    byte seen;
    other = 1;
    seen = word;
    do
    :: seen == SEALED -> break
    :: else ->
        if
#ifdef NUDGE_KEEPS_PARKED
        :: atomic { word == seen -> seen = 0 }
#else
        :: atomic { word == seen -> word = seen & ~PARKED; seen = 0 }
#endif
#ifndef NUDGE_WITHOUT_WAKE
            atomic {
                asleep[0] = 0;
                asleep[1] = 0
            }
#endif
            break
        :: atomic { word != seen -> seen = word }
        fi
    od
}
#endif

init {
    atomic {
#if defined(REMOVERS)
        run owner(1, 1, 1);
        run owner(2, 1, 0);
        run owner(3, 0, 0);
#elif defined(PARKERS)
        run owner(1, 1, 0);
        run owner(2, 0, 0);
        run parker(0);
        run parker(1);
#elif defined(MIXED)
        run owner(1, 1, 0);
        run owner(2, 1, 0);
        run parker(0);
#elif defined(NUDGED)
        run owner(1, 1, 0);
        run owner(2, 0, 0);
        run parker(0);
        run nudger();
#endif
        run resolver();
        run resolver()
    }
}
