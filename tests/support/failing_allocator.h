/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that counts what is alive and fails a call that the test names. Memory comes filled
 * with rubbish, so that what should have been zeroed and was not shows; large memory only at its
 * ends if a sanitizer is there, or the test says so (large_block.h: what becomes of large memory).
 * Any thread.
 */
#ifndef FERRY_TESTS_FAILING_ALLOCATOR_H
#define FERRY_TESTS_FAILING_ALLOCATOR_H

#include <ferry/engine.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct failing_allocator {
    _Atomic uint64_t calls;    /* to alloc, failed ones too */
    _Atomic uint64_t failures; /* calls that were made to fail */
    _Atomic uint64_t
        fail_at; /* number of the call that fails, doubled, plus 1 if for ever; 0 none */
    _Atomic int64_t live_bytes;
    _Atomic bool fills_ends; /* of large memory only the ends are filled */
} failing_allocator;

void failing_allocator_init(failing_allocator *fa);

/* The allocator to hand to ferry; fa stays in place while it is in use. */
ferry_allocator failing_allocator_interface(failing_allocator *fa);

/*
 * From now on the nth call fails (1: the next one), once or, with `persistent`, that one and all
 * after it. 0: none fails.
 */
void failing_allocator_arm(failing_allocator *fa, uint64_t nth, bool persistent);

/* For hundreds of engines in one process: what ferry does not touch takes no memory. */
void failing_allocator_fill_ends(failing_allocator *fa);

/* Bytes allocated and not freed, by the sizes given to free: a wrong size there leaves a
 * difference. */
int64_t failing_allocator_live_bytes(failing_allocator *fa);

/* Calls to alloc since init. */
uint64_t failing_allocator_calls(failing_allocator *fa);

/* Calls that failed on request since init: a sweep is over when a run adds none. */
uint64_t failing_allocator_failures(failing_allocator *fa);

#endif
