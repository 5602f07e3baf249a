/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: immutable, reference counted, and static ones for when there is no memory. */
#ifndef FRY_BASE_ERROR_H
#define FRY_BASE_ERROR_H

#include "base/memory.h"

#include <ferry/status.h>
#include <stdint.h>

#define FRY_ERROR_MESSAGE_BYTES 8192 /* at most: room to name absentees by rank */

typedef struct fry_error {
    ferry_error public_; /* first: a ferry_error * is a fry_error * */
    uint32_t references; /* atomic; static errors: UINT32_MAX, never counted */
    fry_memory memory;   /* where it came from */
    size_t text_bytes;   /* with its zero; 0: the message is static */
    char text[];
} fry_error;

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
 * The static error of a status, with no op and no message but the status's text. FERRY_E_FAILED's
 * for a number that is no status.
 */
fry_error *fry_error_static(ferry_status status);

/* NULL is allowed and gives NULL. */
fry_error *fry_error_retain(fry_error *error);
void fry_error_release(fry_error *error);

#endif
