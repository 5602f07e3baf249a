/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failed future says of itself. The thread that resolves the future writes the word `error`
 * before the seal. The first thread that asks for the future's own error changes the word once
 * more, by compare-and-swap, and everybody gets that thread's answer from then on. If there was no
 * memory for an error, the word notes this beside the cause, which others may still name as theirs.
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

/* An error with the future's cause as its cause; without memory the status's static error. */
static fry_error *own_error(const ferry_future *future, const fry_memory *memory, const char *label,
                            fry_error *cause)
{
    ferry_status status = fry_future_status(future);
    if (memory == NULL)
        return fry_error_static(status);
    fry_fault fault = {.status = status, .rank = -1, .op = future->id, .label = label};
    if (cause == NULL)
        return fry_error_create(memory, &fault, NULL, NULL);
    fault.rank = (int32_t)cause->public_.rank; /* where it began */
    return fry_error_create(memory, &fault, cause, "%s: %s", ferry_status_text(status),
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
            fry_error_release(cause); /* `own` holds the cause now */
        return own;
    }
    fry_error_release(own); /* another thread was quicker */
    return (word & FRY_ERROR_IS_BARE) != 0 ? fry_error_static(status) : error_of(word);
}

void fry_future_drop_error(ferry_future *future)
{
    fry_error_release(error_of(fry_load_acquire(&future->error)));
    future->error = 0;
}
