/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of one GPU that several engines' threads take, decline, forget and give back at once: never
 * more are in use than may be, who waits gets one, and none is lost. Then two hand one slot to and
 * fro: one gives it back just as the other asks, and both do nothing more until he has it. A plain
 * program, so that it runs under ThreadSanitizer. Exit 0: everything held.
 */
#include "engine/messages/slots.h"
#include "tests/support/stress.h"

#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define STEPS 4000
#else
#define STEPS 40000
#endif
#define HAND_OVERS (STEPS / 10)
#define HANG_S 180
#define THREADS 4
#define MOST 2

static struct {
    fry_slots *slots;
    ferry_engine engines[THREADS]; /* awake, so nobody wakes them */
    fry_slot_wish wishes[THREADS];
    atomic_uint in_use, ready, handed;
} run;

static void use(void)
{
    CHECK(atomic_fetch_add(&run.in_use, 1) < MOST);
    CHECK(atomic_fetch_sub(&run.in_use, 1) > 0);
    fry_slot_give(run.slots);
}

static void *work(void *arg)
{
    fry_slot_wish *wish = arg;
    uint64_t random = (uint64_t)(wish - run.wishes) + 1;
    for (int i = 0; i < STEPS; i++) {
        uint32_t what = below(&random, 16);
        if (fry_slot_take(wish)) {
            use();
        } else if (what == 0) {
            fry_slot_forget(wish);
        } else {
            while (!fry_slot_is_granted(wish))
                (void)sched_yield();
            if (what == 1) {
                fry_slot_decline(wish);
            } else {
                CHECK(fry_slot_take(wish));
                use();
            }
        }
    }
    fry_slot_forget(wish);
    return NULL;
}

/* In each round the one who took it in the last gives it back. */
static void *hand_over(void *arg)
{
    fry_slot_wish *wish = arg;
    unsigned me = (unsigned)(wish - run.wishes);
    for (unsigned i = 0; i < HAND_OVERS; i++) {
        (void)atomic_fetch_add(&run.ready, 1);
        while (atomic_load(&run.ready) < 2 * (i + 1))
            (void)sched_yield();
        if (i % 2 == me) {
            fry_slot_give(run.slots);
        } else if (!fry_slot_take(wish)) {
            while (!fry_slot_is_granted(wish))
                (void)sched_yield();
            CHECK(fry_slot_take(wish));
        }
        (void)atomic_fetch_add(&run.handed, i % 2 != me);
        while (atomic_load(&run.handed) == i)
            (void)sched_yield();
    }
    return NULL;
}

static void test_hand_over(void)
{
    pthread_t threads[2];
    fry_slots *slots = run.slots = fry_slots_find("cuda:1");
    for (int i = 0; i < 2; i++)
        fry_slot_wish_init(&run.wishes[i], slots, &run.engines[i], 1);
    CHECK(fry_slot_take(&run.wishes[0]));
    for (int i = 0; i < 2; i++)
        threads[i] = start_thread(hand_over, &run.wishes[i]);
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
}

int main(void)
{
    pthread_t threads[THREADS];
    end_if_hung(HANG_S);
    run.slots = fry_slots_find("cuda:0");
    for (int i = 0; i < THREADS; i++)
        fry_slot_wish_init(&run.wishes[i], run.slots, &run.engines[i], MOST);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(work, &run.wishes[i]);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    for (int i = 0; i < MOST; i++)
        CHECK(fry_slot_take(&run.wishes[0])); /* all came back */
    CHECK(!fry_slot_take(&run.wishes[0]));
    test_hand_over();
    return 0;
}
