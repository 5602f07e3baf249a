/* SPDX-License-Identifier: Apache-2.0 */
/* The path of an engine's socket for figures: taking it, and giving it up. */
#ifndef FRY_ENGINE_OBSERVE_STATS_PATH_H
#define FRY_ENGINE_OBSERVE_STATS_PATH_H

#include "base/fault.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

typedef struct fry_stats_path {
    struct sockaddr_un address;
    char *absolute;  /* from the C library: the process may change its folder. NULL: not known */
    struct stat own; /* of the file that was made */
} fry_stats_path;

/*
 * Makes a listening socket at the path, for this user alone. A socket that a process which is gone
 * has left there is replaced. One caller at a time in a process. Returns the descriptor, which does
 * not block; or -1 with the fault: FERRY_E_INVALID (no path, or too long a one), FERRY_E_BUSY (a
 * living process serves it), FERRY_E_SYSTEM.
 */
int fry_stats_path_listen(fry_stats_path *at, const char *path, fry_fault *fault);

/* Removes the file, unless it is another's by now. */
void fry_stats_path_leave(fry_stats_path *at);

#endif
