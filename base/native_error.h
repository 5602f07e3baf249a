/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver or a transport itself says of a failure: without memory, for errors made later. */
#ifndef FRY_BASE_NATIVE_ERROR_H
#define FRY_BASE_NATIVE_ERROR_H

#include <stdint.h>

#define FRY_NATIVE_MESSAGE_BYTES 160

typedef struct fry_native_error {
    const char *domain; /* whose number it is: "cuda"; static. NULL: there is nothing to say */
    int64_t code;
    char message[FRY_NATIVE_MESSAGE_BYTES];
} fry_native_error;

#endif
