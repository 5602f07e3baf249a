/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a reshard, in words, until an error is made of it. */
#ifndef FRY_ENGINE_RESHARD_WRONG_H
#define FRY_ENGINE_RESHARD_WRONG_H

#include "base/memory.h"

#include <ferry/status.h>

#define FRY_RESHARD_WRONG_BYTES 512

typedef struct fry_reshard_wrong {
    ferry_status status;                /* FERRY_OK: nothing */
    char text[FRY_RESHARD_WRONG_BYTES]; /* what is longer is cut */
} fry_reshard_wrong;

/* Notes it; returns the status. */
ferry_status fry_reshard_wrong_note(fry_reshard_wrong *wrong, ferry_status status,
                                    const char *format, ...) __attribute__((format(printf, 3, 4)));

ferry_status fry_reshard_wrong_memory(fry_reshard_wrong *wrong);

/* Makes the error of it, if *error_p wants one; returns the status. */
ferry_status fry_reshard_wrong_tell(const fry_reshard_wrong *wrong, const fry_memory *memory,
                                    ferry_error **error_p);

#endif
