/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cases share that ask of memory that another process has open: the owner, a process that
 * does as it is told, and what is asked of either end again and again.
 */
#ifndef FRY_BENCH_PROBE_SHARE_H
#define FRY_BENCH_PROBE_SHARE_H

#include "bench/probe_peer.h"

/* What the owner does, and what is in its answer besides the result. */
typedef enum share_order {
    SHARE_MAKE,    /* memory of size_bytes whose ends are `word` -> address, memory, event */
    SHARE_HEAR,    /* opens `event`: from now on it fills behind that */
    SHARE_FILL,    /* queues: spin took_ns, write `word` to both ends of size_bytes, record */
    SHARE_READ,    /* -> word, the first one, when all it queued is over */
    SHARE_FREE,    /* cuMemFree -> took_ns */
    SHARE_AGAIN,   /* memory of the same size, filled with `word` -> address */
    SHARE_INSIDE,  /* -> memory, the handle of size_bytes behind the beginning */
    SHARE_SMALL,   /* two small ones, `word` and `word` + 1 -> memory of the first; address, and
                      size_bytes from one to the other */
    SHARE_HEALTHY, /* is its context? */
    SHARE_READER,  /* opens `memory` and queues `count` copies of size_bytes out of it */
    SHARE_SAME,    /* as SHARE_AGAIN, at `address` if it gets that within took_ns
                      -> address, memory, and how many it got -> count */
    SHARE_COPY,    /* makes a copy of size_bytes, 64 KiB at most, of the way `word` (PROBE_WAYS:
                      none), and waits for its end */
} share_order;

/* False, and a row without an answer: this driver has no such calls. */
bool share_is_there(const char *shape);

/* An order with a word; one that fails ends this process. */
probe_message share_ask(const probe_child *owner, share_order order, uint32_t word,
                        size_t size_bytes);

/* The memory of an answer, opened here; 0 and its error in *result_p. */
CUdeviceptr share_open(const probe_message *made, CUresult *result_p);

/* Closes it here; *took_ns_p: how long the call took. */
CUresult share_close(CUdeviceptr memory, int64_t *took_ns_p);

/* Waits until the stream is empty, or for that long: CUDA_ERROR_NOT_READY. */
CUresult share_drain(CUstream stream, int64_t limit_ns, int64_t *took_ns_p);

/* Kills the other process; a row of how long it took to be gone. */
void share_kill(probe_child *other, const char *shape);

/* The word there, read behind all that the stream has to do; its error in *result_p. */
uint32_t share_read(CUdeviceptr memory, CUstream stream, CUresult *result_p);

/* Whether this process can allocate, write, read and free: after what may have broken it. */
CUresult share_health(CUstream stream);

/* A row of a call: how long it took; the answer is whether it succeeded, the note its error. */
void share_row(const char *shape, int64_t took_ns, CUresult result);

/*
 * A row of a question whose answer is a call's: yes if it succeeded. The note has its error and
 * `what` it was.
 */
void share_row_call(const char *shape, int64_t took_ns, CUresult result, const char *what);

/* A row of words: the answer is whether it is the one wanted. */
void share_row_word(const char *shape, CUresult result, uint32_t seen, uint32_t wanted,
                    const char *what);

#endif
