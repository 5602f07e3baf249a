/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults: why something failed, as a value that takes no memory. Whoever sees a failure fills one
 * in. An error that users can hold is made from one (base/error.h); what other members are told of
 * it is in net/peer/wire.h.
 */
#ifndef FRY_BASE_FAULT_H
#define FRY_BASE_FAULT_H

#include <ferry/status.h>
#include <stddef.h>
#include <stdint.h>

#define FRY_FAULT_MESSAGE_BYTES 160

typedef struct fry_fault {
    ferry_status status;
    int32_t rank; /* the rank where it began; -1: this process */
    uint64_t op;  /* number of that member's operation; 0: none */
    int64_t native_code;
    /* Its words: where there is no room for them, a fault is kept without. */
    const char *domain; /* whose native_code it is: "cuda"; static. NULL: nobody's */
    const char *label;  /* of the operation here; kept, not copied. NULL: none */
    char message[FRY_FAULT_MESSAGE_BYTES];
} fry_fault;

#define FRY_FAULT_BARE_BYTES offsetof(fry_fault, domain) /* of a fault without its words */

#endif
