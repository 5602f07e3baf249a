/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations as ranges of NVTX's domain "ferry", from issued to resolved, for a tool that is
 * injected into the process. If the build found no NVTX there never is a tool.
 *
 * Every call except the first and the last is made with the engine's baton, so nothing here is
 * atomic.
 */
#ifndef FRY_BASE_NVTX_H
#define FRY_BASE_NVTX_H

#include "base/memory.h"

#include <stdbool.h>

/* An engine's ranges that have started. */
typedef struct fry_nvtx fry_nvtx;

/* Whether the build found NVTX. */
extern const bool fry_nvtx_is_built;

/*
 * Makes an engine's ranges. NULL: no tool wants them (base/environment.h), or there is no memory.
 */
fry_nvtx *fry_nvtx_create(const fry_memory *memory);

/* Ends all ranges that have not ended. NULL is allowed. */
void fry_nvtx_destroy(const fry_memory *memory, fry_nvtx *nvtx);

/*
 * Starts an operation's range; the tool copies the name. At most FRY_NVTX_RANGES are under way: of
 * two with the same number modulo that, the older ends early.
 */
#define FRY_NVTX_RANGES 4096
void fry_nvtx_start(fry_nvtx *nvtx, uint64_t op, const char *name);

/* Ends a range; no effect if it never started or has ended. */
void fry_nvtx_end(fry_nvtx *nvtx, uint64_t op);

#endif
