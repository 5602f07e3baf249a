/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations as ranges of NVTX's domain "ferry", from issued to resolved, for a tool that is
 * injected into the process. Where the build found no NVTX there never is one.
 *
 * Every call but the first and last is made with the engine's baton, so nothing here is atomic.
 */
#ifndef FRY_BASE_NVTX_H
#define FRY_BASE_NVTX_H

#include "base/memory.h"

#include <stdbool.h>

/* An engine's ranges that have started. */
typedef struct fry_nvtx fry_nvtx;

/* Whether the build found NVTX. */
extern const bool fry_nvtx_is_built;

/* NULL: no tool wants them (base/environment.h says when one does), or there is no memory. */
fry_nvtx *fry_nvtx_create(const fry_memory *memory);

/* Ends what has not ended. NULL is allowed. */
void fry_nvtx_destroy(const fry_memory *memory, fry_nvtx *nvtx);

/*
 * Starts an operation's range; the name is copied by the tool. At most FRY_NVTX_RANGES are under
 * way: one in the way of another, by its number modulo that, ends early.
 */
#define FRY_NVTX_RANGES 4096
void fry_nvtx_start(fry_nvtx *nvtx, uint64_t op, const char *name);

/* Ends it; nothing if it never started or has ended. */
void fry_nvtx_end(fry_nvtx *nvtx, uint64_t op);

#endif
