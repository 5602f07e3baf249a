/* SPDX-License-Identifier: Apache-2.0 */
#include "futures/futures.h"

#include "base/back_off.h"
#include "base/futex.h"

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the futex word is the low half of the waiters word: little-endian machines only"
#endif

_Static_assert(_Alignof(ferry_waiter) > (FRY_WAITER_FLAGS >> 1),
               "flags fit below a waiter's address");

/* The half of the word with the flags, on which threads sleep. */
static const uint32_t *future_futex(const ferry_future *future)
{
    return (const uint32_t *)(const void *)&future->waiters;
}

static ferry_waiter *waiters_of(uintptr_t word)
{
    return (ferry_waiter *)(word & ~FRY_WAITER_FLAGS); /* NOLINT(performance-no-int-to-ptr) */
}

/* Fires the oldest waiter first; the newest is on top of the stack. */
static void fire_all(const ferry_future *future, ferry_waiter *newest)
{
    ferry_waiter *ordered = NULL;
    while (newest != NULL) {
        ferry_waiter *next = newest->private_.next;
        newest->private_.next = ordered;
        ordered = newest;
        newest = next;
    }
    fry_future_owner *owner = future->owner;
    while (ordered != NULL) {
        ferry_waiter *next = ordered->private_.next; /* a fired waiter's memory is its owner's */
        owner->ops->fire(owner, ordered);
        ordered = next;
    }
}

void fry_future_seal(ferry_future *future)
{
    /* Pairs with the acquire in fry_future_is_resolved and with each compare-and-swap. */
    uintptr_t word = fry_exchange(&future->waiters, FRY_SEALED);
    if (fry_likely(word == 0))
        return;
    if ((word & FRY_PARKED) != 0)
        fry_futex_wake(future_futex(future), INT32_MAX);
    if (waiters_of(word) != NULL)
        fire_all(future, waiters_of(word));
}

bool fry_future_add_waiter(ferry_future *future, ferry_waiter *waiter)
{
    uintptr_t word = fry_load_acquire(&future->waiters);
    do {
        if (word == FRY_SEALED)
            return false;
        waiter->private_.next = waiters_of(word);
    } while (!fry_cas_weak(&future->waiters, &word, (uintptr_t)waiter | (word & FRY_WAITER_FLAGS)));
    return true;
}

/*
 * Takes the whole list, so that no other thread walks it; pushes, parks and the seal go on
 * meanwhile. Other removers wait: their waiter may be in this list, and "too late" would be false
 * if the list is put back. The list is held only for a walk over it.
 */
static bool detach_list(ferry_future *future, ferry_waiter **list_p)
{
    uintptr_t word = fry_load_acquire(&future->waiters);
    for (unsigned tries = 0;; tries++) {
        if (word == FRY_SEALED)
            return false;
        if ((word & FRY_REMOVING) != 0) {
            fry_back_off(tries);
            word = fry_load_acquire(&future->waiters);
        } else if (fry_cas_weak(&future->waiters, &word, (word & FRY_PARKED) | FRY_REMOVING)) {
            *list_p = waiters_of(word);
            return true;
        }
    }
}

/* Puts the list back below waiters pushed meanwhile. Fires it if the future has resolved since. */
static void restore_list(ferry_future *future, ferry_waiter *list)
{
    uintptr_t word = fry_load_acquire(&future->waiters);
    for (;;) {
        if (word == FRY_SEALED) {
            fire_all(future, list);
            return;
        }
        ferry_waiter *pushed = waiters_of(word);
        if (pushed == NULL || list == NULL) {
            uintptr_t whole = (uintptr_t)(pushed != NULL ? pushed : list);
            if (fry_cas_weak(&future->waiters, &word, whole | (word & FRY_PARKED)))
                return;
        } else if (fry_cas_weak(&future->waiters, &word, word & FRY_WAITER_FLAGS)) {
            /* The pushed waiters are taken too; REMOVING is still set. */
            ferry_waiter *last = pushed;
            while (last->private_.next != NULL)
                last = last->private_.next;
            last->private_.next = list;
            list = pushed;
            word = fry_load_acquire(&future->waiters);
        }
    }
}

bool fry_future_remove_waiter(ferry_future *future, ferry_waiter *waiter)
{
    ferry_waiter *list;
    if (!detach_list(future, &list))
        return false;
    ferry_waiter **at = &list;
    while (*at != NULL && *at != waiter)
        at = &(*at)->private_.next;
    bool found = *at != NULL;
    if (found)
        *at = waiter->private_.next;
    restore_list(future, list);
    return found;
}

bool fry_future_prepare_park(ferry_future *future, uint32_t *key_p)
{
    uintptr_t word = fry_load_acquire(&future->waiters);
    do {
        if (word == FRY_SEALED)
            return false;
    } while (!fry_cas_weak(&future->waiters, &word, word | FRY_PARKED));
    *key_p = (uint32_t)(word | FRY_PARKED);
    return true;
}

void fry_future_commit_park(ferry_future *future, uint32_t key, int64_t timeout_ns)
{
    fry_futex_wait(future_futex(future), key, timeout_ns);
}

void fry_future_nudge(ferry_future *future)
{
    uintptr_t word = fry_load_acquire(&future->waiters);
    do {
        if (word == FRY_SEALED)
            return;
    } while (!fry_cas_weak(&future->waiters, &word, word & ~FRY_PARKED));
    fry_futex_wake(future_futex(future), INT32_MAX);
}
