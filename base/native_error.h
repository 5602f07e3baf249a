/* SPDX-License-Identifier: Apache-2.0 */
/* A driver's or transport's own report of a failure: takes no memory, for errors made later. */
#ifndef FRY_BASE_NATIVE_ERROR_H
#define FRY_BASE_NATIVE_ERROR_H

#include <stdint.h>

#define FRY_NATIVE_MESSAGE_BYTES 160

typedef struct fry_native_error {
    const char *domain; /* whose code it is: "cuda"; static. NULL: no report */
    int64_t code;
    char message[FRY_NATIVE_MESSAGE_BYTES];
} fry_native_error;

#endif
