/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: immutable and reference counted; static ones for when there is no memory. */
#ifndef FRY_BASE_ERROR_H
#define FRY_BASE_ERROR_H

#include "base/fault.h"
#include "base/memory.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stdint.h>

#define FRY_ERROR_MESSAGE_BYTES 8192 /* at most: room to name absentees by rank */

typedef struct fry_error {
    ferry_error public_; /* first: a ferry_error * is a fry_error * */
    uint32_t references; /* atomic; static errors: FRY_ERROR_UNCOUNTED */
    fry_memory memory;   /* the memory that it was allocated from */
    size_t text_bytes;   /* size of the message with its zero; 0: the message is static */
    char text[];
} fry_error;

#define FRY_ERROR_UNCOUNTED UINT32_MAX

/* Initialises a static error with a status and a sentence. */
#define FRY_ERROR_STATIC(status_, text_)                                                           \
    {                                                                                              \
        .public_ = {.status = (status_),                                                           \
                    .rank = FERRY_RANK_NONE,                                                       \
                    .domain = "ferry",                                                             \
                    .message = (text_)},                                                           \
        .references = FRY_ERROR_UNCOUNTED,                                                         \
    }

/*
 * Makes the error of a fault, with one reference for the caller. Never NULL: without memory it is
 * the static error of the status, which has no cause. `cause` may be NULL and is retained; if it
 * has a cause itself, that root is used instead. The message is cut at FRY_ERROR_MESSAGE_BYTES;
 * format NULL: the fault's message. An empty message becomes the status's text. Any thread.
 */
fry_error *fry_error_create(const fry_memory *memory, const fry_fault *fault, fry_error *cause,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The fault that an error is about, with the start of its message, and without its label. */
fry_fault fry_error_fault(const fry_error *error);

/*
 * The static error of a status, without op, and with the status's text as message. Users' own
 * numbers have one too, the first FRY_ERROR_NUMBERS that the process asks for; further numbers get
 * FERRY_E_FAILED's, so the caller uses the status of the error it gets.
 */
#define FRY_ERROR_NUMBERS 256
fry_error *fry_error_static(ferry_status status);

/* Whether the error is static. */
bool fry_error_is_static(const fry_error *error);

/* Adds a reference; NULL for NULL. */
fry_error *fry_error_retain(fry_error *error);
void fry_error_release(fry_error *error);

#endif
