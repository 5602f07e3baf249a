/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failed future says of itself. The word `error` is written before the seal by whoever
 * resolves the future, and once more, by compare-and-swap, by the first who asks for an error of
 * its own. What that one is told everybody is told: if there was no memory for an error, that is
 * noted in the word, beside the cause, which others may still want to name as theirs.
 */
#include "futures/futures.h"

static fry_error *error_of(uintptr_t word)
{
    return (fry_error *)(word & ~FRY_ERROR_FLAGS); /* NOLINT(performance-no-int-to-ptr) */
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

/* One that names what the future failed for as its cause; or the static one, without memory. */
static fry_error *own_error(const ferry_future *future, const fry_memory *memory, const char *label,
                            fry_error *cause)
{
    ferry_status status = fry_future_status(future);
    if (memory == NULL)
        return fry_error_static(status);
    fry_error_facts facts = {.status = status, .op = future->id, .label = label, .cause = cause};
    if (cause == NULL)
        return fry_error_create(memory, &facts, NULL);
    facts.rank_plus_1 = cause->public_.rank + 1; /* whoever it began at */
    return fry_error_create(memory, &facts, "%s: %s", ferry_status_text(status),
                            cause->public_.message);
}

fry_error *fry_future_error_get(ferry_future *future, const fry_memory *memory, const char *label)
{
    ferry_status status = fry_future_status(future);
    if (!fry_future_is_resolved(future) || status == FERRY_OK)
        return NULL;
    uintptr_t word = fry_load_acquire(&future->error);
    if (word != 0 && (word & FRY_ERROR_FLAGS) == 0)
        return error_of(word);
    if ((word & FRY_ERROR_IS_BARE) != 0)
        return fry_error_static(status);
    fry_error *cause = error_of(word), *own = own_error(future, memory, label, cause);
    bool is_bare = fry_error_is_static(own);
    if (fry_cas(&future->error, &word, is_bare ? word | FRY_ERROR_IS_BARE : (uintptr_t)own)) {
        if (!is_bare)
            fry_error_release(cause); /* own holds it now */
        return own;
    }
    fry_error_release(own); /* another was quicker */
    return (word & FRY_ERROR_IS_BARE) != 0 ? fry_error_static(status) : error_of(word);
}

void fry_future_drop_error(ferry_future *future)
{
    fry_error_release(error_of(fry_load_acquire(&future->error)));
    future->error = 0;
}
