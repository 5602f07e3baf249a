/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include "base/lf.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char default_domain[] = "ferry";

/*
 * Errors of users' own numbers, one each, in the order of first use; they take no memory and stay.
 * An error differs from the others only in its number, so the thread that swaps the number in for 0
 * has made the error, and no thread sees half of one. Each search begins at the start, so a number
 * always has the same error.
 */
static fry_error numbers[FRY_ERROR_NUMBERS] = {
    [0 ... FRY_ERROR_NUMBERS -
     1] = {.references = FRY_ERROR_UNCOUNTED,
           .public_ = {.status = FERRY_OK,
                       .rank = FERRY_RANK_NONE,
                       .domain = "user",
                       .message = "the user's function or promise reported a failure"}}};

static fry_error *error_of_number(ferry_status number)
{
    for (size_t i = 0; i < FRY_ERROR_NUMBERS; i++) {
        ferry_status seen = FERRY_OK;
        if (fry_load_relaxed(&numbers[i].public_.status) == number ||
            fry_cas(&numbers[i].public_.status, &seen, number) || seen == number)
            return &numbers[i];
    }
    return fry_error_static(FERRY_E_FAILED); /* callers use its status */
}

fry_error *fry_error_static(ferry_status status)
{
    /* Never written: retain and release leave a static error alone. */
#define STATIC_CASE(name, value, text)                                                             \
    case name: {                                                                                   \
        static fry_error error = FRY_ERROR_STATIC(name, text);                                     \
        return &error;                                                                             \
    }
    switch (status) {
        FERRY_STATUS_MAP(STATIC_CASE)
    }
#undef STATIC_CASE
    return error_of_number(status);
}

/*
 * Errors keep only the root of their causes, so a chain of any length costs one reference and no
 * recursion. A root has no cause: every error was made here.
 */
static fry_error *root_of(fry_error *cause)
{
    if (cause != NULL && cause->public_.cause != NULL)
        return (fry_error *)cause->public_.cause;
    return cause;
}

static size_t text_size(const fry_fault *fault, const char *format, va_list arguments)
{
    va_list copy;
    va_copy(copy, arguments);
    int length = format != NULL ? vsnprintf(NULL, 0, format, copy)
                                : (int)strnlen(fault->message, sizeof fault->message);
    va_end(copy);
    if (length <= 0)
        return 0;
    return length < FRY_ERROR_MESSAGE_BYTES ? (size_t)length + 1 : FRY_ERROR_MESSAGE_BYTES;
}

/* Without a text yet. NULL: no memory. */
static fry_error *error_of(const fry_memory *memory, const fry_fault *fault, fry_error *cause,
                           size_t text_bytes)
{
    fry_error *error = fry_alloc(memory, sizeof *error + text_bytes, _Alignof(fry_error));
    if (error == NULL)
        return NULL;
    error->references = 1;
    error->memory = *memory;
    error->text_bytes = text_bytes;
    fry_error *root = fry_error_retain(root_of(cause));
    error->public_ = (ferry_error){
        .status = fault->status,
        .rank = (ferry_rank)fault->rank, /* -1 becomes FERRY_RANK_NONE */
        .domain = fault->domain != NULL ? fault->domain : default_domain,
        .native_code = fault->native_code,
        .op = fault->op,
        .label = fault->label,
        .message = text_bytes != 0 ? error->text : ferry_status_text(fault->status),
        .cause = root != NULL ? &root->public_ : NULL,
    };
    return error;
}

fry_error *fry_error_create(const fry_memory *memory, const fry_fault *fault, fry_error *cause,
                            const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t text_bytes = text_size(fault, format, arguments);
    fry_error *error = error_of(memory, fault, cause, text_bytes);
    if (error != NULL && text_bytes != 0 && format != NULL)
        (void)vsnprintf(error->text, text_bytes, format, arguments);
    else if (error != NULL && text_bytes != 0)
        (void)snprintf(error->text, text_bytes, "%s", fault->message);
    va_end(arguments);
    return error != NULL ? error : fry_error_static(fault->status);
}

fry_fault fry_error_fault(const fry_error *error)
{
    const ferry_error *from = &error->public_;
    fry_fault fault = {.status = from->status,
                       .rank = (int32_t)from->rank,
                       .op = from->op,
                       .native_code = from->native_code,
                       .domain = strcmp(from->domain, default_domain) != 0 ? from->domain : NULL};
    (void)snprintf(fault.message, sizeof fault.message, "%s", from->message);
    return fault;
}

bool fry_error_is_static(const fry_error *error)
{
    return fry_load_relaxed(&error->references) == FRY_ERROR_UNCOUNTED;
}

fry_error *fry_error_retain(fry_error *error)
{
    if (error != NULL && !fry_error_is_static(error))
        (void)fry_fetch_add(&error->references, 1);
    return error;
}

void fry_error_release(fry_error *error)
{
    if (error == NULL || fry_error_is_static(error))
        return;
    /* A full barrier: other holders read the error before its memory is freed. */
    if (fry_fetch_sub(&error->references, 1) != 1)
        return;
    fry_error *root = (fry_error *)error->public_.cause;
    fry_memory memory = error->memory;
    fry_free(&memory, error, sizeof *error + error->text_bytes);
    fry_error_release(root);
}

void ferry_error_release(ferry_error *error)
{
    _Static_assert(offsetof(fry_error, public_) == 0, "the public error is the private one");
    fry_error_release((fry_error *)error);
}
