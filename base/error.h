/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: immutable, reference counted, and static ones for when there is no memory. */
#ifndef FRY_BASE_ERROR_H
#define FRY_BASE_ERROR_H

#include "base/memory.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stdint.h>

#define FRY_ERROR_MESSAGE_BYTES 8192 /* at most: room to name absentees by rank */

typedef struct fry_error {
    ferry_error public_; /* first: a ferry_error * is a fry_error * */
    uint32_t references; /* atomic; static errors: FRY_ERROR_UNCOUNTED */
    fry_memory memory;   /* where it came from */
    size_t text_bytes;   /* with its zero; 0: the message is static */
    char text[];
} fry_error;

#define FRY_ERROR_UNCOUNTED UINT32_MAX

/* Initialises a static error, which says a status and a sentence. */
#define FRY_ERROR_STATIC(status_, text_)                                                           \
    {                                                                                              \
        .public_ = {.status = (status_), .rank = -1, .domain = "ferry", .message = (text_)},       \
        .references = FRY_ERROR_UNCOUNTED,                                                         \
    }

/* What an error says; zero and NULL where there is nothing to say. */
typedef struct fry_error_facts {
    ferry_status status;
    const char *domain; /* NULL: "ferry" */
    int64_t native_code;
    uint64_t op;
    const char *label;
    int32_t rank_plus_1; /* member it is about; 0: this process */
    fry_error *cause;    /* retained; if it has a cause itself, that root is taken instead */
} fry_error_facts;

/*
 * Never NULL: without memory, the static error of the status, which has no cause. One reference for
 * the caller. The message is cut at FRY_ERROR_MESSAGE_BYTES; format NULL: the status's text. domain
 * and label are kept, not copied. Any thread.
 */
fry_error *fry_error_create(const fry_memory *memory, const fry_error_facts *facts,
                            const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * The static error of a status, with no op and no message but the status's text. A user's own
 * number has one as well, the first FRY_ERROR_NUMBERS that this process asks for; further ones have
 * FERRY_E_FAILED's, so who makes an error takes the status that it says.
 */
#define FRY_ERROR_NUMBERS 256
fry_error *fry_error_static(ferry_status status);

/* It was not made for whoever has it. */
bool fry_error_is_static(const fry_error *error);

/* NULL is allowed and gives NULL. */
fry_error *fry_error_retain(fry_error *error);
void fry_error_release(fry_error *error);

#endif
