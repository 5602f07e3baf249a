/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What recording threads ring for the trace file's thread (writer.c).
 *
 * Its sleep.
 *
 *     thread      bell = ASLEEP; membarrier; look at every ring's head; sleep while bell is ASLEEP
 *     recorder    head = p + 1; (no barrier); if bell is ASLEEP: swap it to AWAKE, wake
 *
 * The two stores and loads cross, so on each side a full barrier must stand between. The recorder's
 * is the one that membarrier puts into it, at some point B of its instructions between the thread's
 * store and its look. Is the recorder's store of head before B, then the look sees it, and the
 * thread does not sleep. Is it behind B, then so is its load of bell (fry_order_instructions), and
 * that sees ASLEEP: it was stored before the membarrier began. A recorder without a CPU passes its
 * barrier when it is taken off. sleeper.pml checks it. Where the kernel has no membarrier,
 * recorders pass a fence of their own (`needs_fence`). One that looked just before a file was
 * opened may lack it, or not tell at all, for that one record: the thread's first rest is a timed
 * one, and the next look finds it.
 *
 * A wake costs the waker a system call. So the thread, once it has found something, LINGERs a while
 * before it falls asleep; recorders then wake it only each time a quarter of their ring is written.
 * That look may be stale: then it wakes by its timeout, with records dropped at worst.
 */
#ifndef FRY_ENGINE_TRACE_BELL_H
#define FRY_ENGINE_TRACE_BELL_H

#include "base/lf.h"
#include "base/membarrier.h"

typedef enum fry_bell_state {
    FRY_BELL_AWAKE = 0, /* the thread will look again; or no file is open */
    FRY_BELL_LINGERING, /* the thread sleeps for a while: wake it before a ring is full */
    FRY_BELL_ASLEEP,    /* the thread sleeps until it is woken */
} fry_bell_state;

typedef struct fry_bell {
    uint32_t state; /* fry_bell_state; its thread sleeps on it */
    uint32_t needs_fence;
} __attribute__((aligned(FRY_CACHE_LINE))) fry_bell;

extern fry_bell fry_bell_of_process;
void fry_bell_ring(void);

/* Tells the thread that a record was written at `position` of a ring. */
static inline void fry_bell_tell(uint64_t position, uint64_t ring_mask)
{
    if (fry_unlikely(fry_load_relaxed(&fry_bell_of_process.needs_fence) != 0))
        fry_fence(); /* pairs with the thread's fence, which then replaces its membarrier */
    fry_order_instructions();
    uint32_t state = fry_load_relaxed(&fry_bell_of_process.state);
    if (fry_unlikely(state != FRY_BELL_AWAKE) &&
        (state == FRY_BELL_ASLEEP || (position & (ring_mask >> 2)) == 0))
        fry_bell_ring();
}

#endif
