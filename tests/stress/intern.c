/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that ask for the same texts at once, each in an order of its own: every text is kept
 * once, and all get the same one. A plain program, so that it runs under ThreadSanitizer. Exit 0:
 * everything held.
 */
#include "base/intern.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define TEXTS 512
#define ROUNDS 20
#define HANG_S 180

static struct {
    failing_allocator allocator;
    fry_memory memory;
    fry_intern intern;
    _Atomic(const char *) kept[TEXTS];
    atomic_uint ready;
} run;

static void *work(void *arg)
{
    size_t number = (size_t)(uintptr_t)arg;
    atomic_fetch_add(&run.ready, 1);
    while (atomic_load(&run.ready) < THREADS)
        continue;
    for (size_t i = 0; i < TEXTS; i++) {
        size_t index = number % 2 == 0 ? i : TEXTS - 1 - i;
        char text[32];
        (void)snprintf(text, sizeof text, "text %zu", index);
        const char *kept = fry_intern_text(&run.intern, &run.memory, text), *known = NULL;
        CHECK(kept != NULL && strcmp(kept, text) == 0);
        CHECK(atomic_compare_exchange_strong(&run.kept[index], &known, kept) || known == kept);
    }
    return NULL;
}

int main(void)
{
    end_if_hung(HANG_S);
    for (int round = 0; round < ROUNDS; round++) {
        memset(&run, 0, sizeof run);
        failing_allocator_init(&run.allocator);
        ferry_allocator interface = failing_allocator_interface(&run.allocator);
        fry_memory_init(&run.memory, &interface);
        fry_intern_open(&run.intern);
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++)
            threads[i] = start_thread(work, (void *)(uintptr_t)i);
        for (size_t i = 0; i < THREADS; i++)
            join_thread(threads[i]);
        CHECK(run.intern.count == TEXTS);
        fry_intern_close(&run.intern, &run.memory);
        CHECK(failing_allocator_live_bytes(&run.allocator) == 0);
    }
    return 0;
}
