/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failed future says of itself. The word `error` is written before the seal by whoever
 * resolves the future, and once more, by compare-and-swap, by the first who asks for an error of
 * its own.
 */
#include "futures/futures.h"

static fry_error *error_of(uintptr_t word)
{
    return (fry_error *)(word & ~FRY_ERROR_IS_CAUSE); /* NOLINT(performance-no-int-to-ptr) */
}

void fry_future_set_error(ferry_future *future, fry_error *error, bool is_cause)
{
    uintptr_t word = (uintptr_t)error;
    if (error != NULL && is_cause)
        word |= FRY_ERROR_IS_CAUSE;
    uintptr_t old = fry_load_relaxed(&future->error);
    fry_store_release(&future->error, word);
    fry_error_release(error_of(old));
}

fry_error *fry_future_root_error(const ferry_future *future)
{
    uintptr_t word = fry_load_acquire(&future->error);
    fry_error *error = error_of(word);
    if (error == NULL)
        return fry_error_static(fry_future_status(future));
    if ((word & FRY_ERROR_IS_CAUSE) == 0 && error->public_.cause != NULL)
        return (fry_error *)(uintptr_t)error->public_.cause;
    return error;
}

fry_error *fry_future_error_get(ferry_future *future, const fry_memory *memory, const char *label)
{
    if (!fry_future_is_resolved(future) || fry_future_status(future) == FERRY_OK)
        return NULL;
    uintptr_t word = fry_load_acquire(&future->error);
    if (word != 0 && (word & FRY_ERROR_IS_CAUSE) == 0)
        return error_of(word);
    if (memory == NULL)
        return fry_error_static(fry_future_status(future));

    fry_error_facts facts = {
        .status = fry_future_status(future),
        .op = future->id,
        .label = label,
        .cause = error_of(word),
    };
    if (facts.cause != NULL) /* whoever it began at */
        facts.rank_plus_1 = facts.cause->public_.rank + 1;
    fry_error *own = facts.cause != NULL ? fry_error_create(memory, &facts, "%s: %s",
                                                            ferry_status_text(facts.status),
                                                            facts.cause->public_.message)
                                         : fry_error_create(memory, &facts, NULL);
    if (own == fry_error_static(facts.status))
        return own; /* no memory: not kept, the next who asks may have more luck */
    if (fry_cas(&future->error, &word, (uintptr_t)own)) {
        fry_error_release(facts.cause); /* own holds it now */
        return own;
    }
    fry_error_release(own);
    return error_of(word);
}

void fry_future_drop_error(ferry_future *future)
{
    fry_error_release(error_of(fry_load_acquire(&future->error)));
    future->error = 0;
}
