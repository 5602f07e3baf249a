/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of shared memory (base/shared.h): an owner takes the mark back in the middle of reads, and
 * writes other bytes at once. No read that succeeds may have seen one of them. The reader maps the
 * memory at another address, so that ThreadSanitizer sees no race where there is none by C's words.
 */
#include "base/lf.h"
#include "base/shared.h"
#include "tests/support/stress.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { SIZE = 1 << 14, ROUNDS = 400 };

static struct {
    fry_shared_place place; /* of the round */
    uint32_t round;         /* atomic; the owner has granted it */
    uint32_t reads;         /* atomic; good ones, of the round */
    uint32_t seen;          /* atomic; the reader has found that it is over */
} stage;

static void *read_on(void *arg)
{
    static unsigned char got[SIZE], expected[SIZE];
    (void)arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (fry_load_acquire(&stage.round) != round)
            (void)sched_yield();
        fry_shared_map map;
        CHECK(fry_shared_open(&map, &stage.place));
        memset(expected, (int)(round % 251), SIZE);
        while (fry_shared_read(&map, got, 0, SIZE)) {
            CHECK(memcmp(got, expected, SIZE) == 0);
            (void)fry_fetch_add(&stage.reads, 1);
        }
        fry_shared_close(&map);
        fry_store_release(&stage.seen, round);
    }
    return NULL;
}

int main(void)
{
    unsigned char *memory = fry_shared_alloc(SIZE);
    pthread_t reader;
    CHECK(memory != NULL);
    CHECK(pthread_create(&reader, NULL, read_on, NULL) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        memset(memory, (int)(round % 251), SIZE);
        CHECK(fry_shared_grant(memory, &stage.place));
        fry_store_relaxed(&stage.reads, 0);
        fry_store_release(&stage.round, round);
        while (fry_load_acquire(&stage.reads) <= round % 4)
            (void)sched_yield();
        for (uint32_t spins = round * 31 % 997; spins > 0; spins--)
            fry_pause(); /* so that it ends anywhere in a read */
        fry_shared_withdraw(memory, stage.place.mark);
        memset(memory, 255, SIZE);
        while (fry_load_acquire(&stage.seen) != round)
            (void)sched_yield();
    }
    CHECK(pthread_join(reader, NULL) == 0);
    fry_shared_free(memory);
    return 0;
}
