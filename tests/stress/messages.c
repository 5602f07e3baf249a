/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from many threads at once, between engines of one process over real channels. A plain
 * program, so that it runs under ThreadSanitizer. Exit 0: everything held.
 *   exchange  pairs of threads, each with a tag of its own, send and receive bytes that say whose
 *             they are, in batches, slices and one by one, some behind promises; every byte is
 *             looked at
 *   storm     threads submit, cancel, let deadlines pass, release and wait at random, while values
 *             and barriers go on; then one engine is shut down in the midst of it, and the other
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/paint.h"
#include "tests/support/stress.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define EFFORT 1
#else
#define EFFORT 4
#endif
#define HANG_S 170
#define PAIRS 3
#define EXCHANGES (150 * EFFORT) /* of each pair, each way */
#define WINDOW 8
#define SLOT_BYTES 20000
#define STORMERS 2 /* of each engine */
#define STORM_OPS (600 * EFFORT)
#define STORM_TAGS 4
#define STORM_BYTES 9000

/* ---- two members ---- */

typedef struct member {
    failing_allocator memory;
    ferry_allocator allocator;
    ferry_engine *engine;
    ferry_group *group;
} member;

static void open_members(member members[2])
{
    ferry_future *joins[2];
    for (int i = 0; i < 2; i++) {
        failing_allocator_init(&members[i].memory);
        members[i].allocator = failing_allocator_interface(&members[i].memory);
        ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
        options.allocator = &members[i].allocator;
        options.host_workers = 1;
        CHECK(ferry_engine_create(&options, &members[i].engine, NULL) == FERRY_OK);
        ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
        group.store = "mem:stress";
        group.job = "job";
        group.size = 2;
        group.rank = (ferry_rank)i;
        group.has_rank = true;
        group.lease_ns = 100000000000; /* nobody is dead for want of a core */
        group.window_messages = 16;
        group.window_bytes = 65536;
        joins[i] = ferry_group_join(members[i].engine, &group, &members[i].group);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(ferry_future_wait(joins[i], -1) == FERRY_OK);
        ferry_future_release(joins[i]);
    }
}

static void close_members(member members[2])
{
    for (int i = 0; i < 2; i++)
        ferry_group_release(members[i].group);
    for (int i = 0; i < 2; i++) {
        CHECK(ferry_engine_shutdown(members[i].engine, -1) == FERRY_OK);
        ferry_engine_release(members[i].engine);
        CHECK(failing_allocator_live_bytes(&members[i].memory) == 0);
    }
}

static ferry_buffer *buffer_of(const member *of, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc(ferry_device_at(of->engine, 0), size_bytes, &buffer) == FERRY_OK);
    return buffer;
}

/* ---- exchange ---- */

typedef struct trader {
    member *members;
    ferry_rank own;
    ferry_tag tag;
    bool sends;
    uint64_t random;
} trader;

/* Both ends of a pair draw the same. */
static size_t size_of(uint64_t *random)
{
    static const uint32_t bounds[] = {1, 9, 300, 5000, SLOT_BYTES};
    return below(random, bounds[below(random, 5)] + 1);
}

static uint64_t seed_of(uint32_t number, ferry_tag tag)
{
    return (uint64_t)number * 7 + tag * 31;
}

static ferry_future *trade(const trader *self, ferry_span span, bool is_batch)
{
    ferry_group *group = self->members[self->own].group;
    ferry_rank other = 1 - self->own;
    if (!is_batch)
        return self->sends ? ferry_send(group, other, self->tag, span, NULL)
                           : ferry_recv(group, other, self->tag, span, NULL);
    ferry_op op = {.kind = self->sends ? FERRY_OP_SEND : FERRY_OP_RECV,
                   .group = group,
                   .tag = self->tag,
                   .peer = other};
    *(self->sends ? &op.src : &op.dst) = span;
    return ferry_batch(self->members[self->own].engine, &op, sizeof op, 1, NULL, NULL);
}

static void *run_trader(void *arg)
{
    trader *self = arg;
    ferry_buffer *buffer = buffer_of(&self->members[self->own], (size_t)WINDOW * SLOT_BYTES);
    unsigned char *bytes = ferry_buffer_data(buffer);
    ferry_future *futures[WINDOW] = {NULL};
    size_t sizes[WINDOW];
    uint64_t own_random = self->random + self->own + 77;
    for (uint32_t i = 0; i < EXCHANGES + WINDOW; i++) {
        uint32_t slot = i % WINDOW;
        unsigned char *at = bytes + (size_t)slot * SLOT_BYTES;
        if (futures[slot] != NULL) {
            CHECK(ferry_future_wait(futures[slot], -1) == FERRY_OK);
            ferry_future_release(futures[slot]);
            futures[slot] = NULL;
            if (!self->sends)
                CHECK(is_painted(at, sizes[slot], seed_of(i - WINDOW, self->tag)));
        }
        if (i >= EXCHANGES)
            continue;
        sizes[slot] = size_of(&self->random);
        if (self->sends)
            paint(at, sizes[slot], seed_of(i, self->tag));
        ferry_span span = {buffer, (size_t)slot * SLOT_BYTES, sizes[slot]};
        futures[slot] = trade(self, span, below(&own_random, 4) == 0);
    }
    ferry_buffer_release(buffer);
    return NULL;
}

static void exchange(void)
{
    member members[2];
    open_members(members);
    pthread_t threads[PAIRS * 4];
    trader traders[PAIRS * 4];
    size_t count = 0;
    for (uint32_t pair = 0; pair < PAIRS; pair++) {
        for (uint32_t way = 0; way < 2; way++) {
            for (uint32_t end = 0; end < 2; end++) {
                traders[count] = (trader){.members = members,
                                          .own = end,
                                          .tag = pair,
                                          .sends = end == way,
                                          .random = 1234567 + pair * 10 + way};
                CHECK(pthread_create(&threads[count], NULL, run_trader, &traders[count]) == 0);
                count++;
            }
        }
    }
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    close_members(members);
}

/* ---- storm ---- */

typedef struct stormer {
    member *own;
    ferry_buffer *buffer; /* there before the engine may be shut down */
    ferry_rank other;
    uint64_t random;
} stormer;

static ferry_future *any_message(stormer *self, ferry_buffer *buffer)
{
    uint64_t *random = &self->random;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    if (below(random, 8) == 0)
        options.deadline_ns = in_ns(below(random, 3000000));
    ferry_promise *promise = NULL;
    ferry_future *after = NULL;
    if (below(random, 6) == 0 && ferry_promise_create(self->own->engine, &promise) == FERRY_OK) {
        after = ferry_promise_future(promise);
        options.after = &after;
        options.after_count = 1;
    }
    size_t size_bytes = below(random, 2) == 0 ? 8 : STORM_BYTES / 2;
    ferry_span span = {buffer, below(random, STORM_BYTES / 2), size_bytes};
    ferry_tag tag = below(random, STORM_TAGS);
    ferry_future *future = below(random, 2) == 0
                               ? ferry_send(self->own->group, self->other, tag, span, &options)
                               : ferry_recv(self->own->group, self->other, tag, span, &options);
    ferry_future_release(after);
    if (promise != NULL && below(random, 3) != 0)
        (void)ferry_promise_resolve(promise, below(random, 3) == 0 ? FERRY_E_FAILED : FERRY_OK,
                                    NULL);
    ferry_promise_release(promise); /* broken, if nobody has resolved it */
    return future;
}

static ferry_future *anything(stormer *self, ferry_buffer *buffer)
{
    ferry_group *group = self->own->group;
    switch (below(&self->random, 40)) {
    case 0:
        return ferry_group_set(group, "key", "value", 5, 0);
    case 1:
        return ferry_group_try_get(group, "key", 0);
    case 2:
        return ferry_group_get(group, "never", in_ns(1000000));
    case 3: {
        ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
        options.deadline_ns = in_ns(2000000);
        return ferry_barrier(group, "b", &options);
    }
    default:
        return any_message(self, buffer);
    }
}

static void *run_stormer(void *arg)
{
    stormer *self = arg;
    ferry_buffer *buffer = self->buffer;
    enum { KEPT = 16 };
    ferry_future *kept[KEPT] = {NULL};
    for (uint32_t i = 0; i < STORM_OPS; i++) {
        ferry_future **slot = &kept[below(&self->random, KEPT)];
        if (*slot != NULL && below(&self->random, 3) == 0)
            (void)ferry_future_cancel(*slot);
        if (*slot != NULL && below(&self->random, 4) == 0)
            (void)ferry_future_wait(*slot, below(&self->random, 300000));
        ferry_future_release(*slot);
        *slot = anything(self, buffer);
    }
    for (size_t i = 0; i < KEPT; i++) {
        if (kept[i] == NULL)
            continue;
        (void)ferry_future_cancel(kept[i]);
        CHECK(ferry_future_wait(kept[i], -1) != FERRY_PENDING);
        ferry_future_release(kept[i]);
    }
    ferry_buffer_release(buffer);
    return NULL;
}

static void *shut_down(void *arg)
{
    member *of = arg;
    CHECK(ferry_engine_shutdown(of->engine, -1) == FERRY_OK);
    return NULL;
}

static void storm(uint64_t seed)
{
    member members[2];
    open_members(members);
    pthread_t threads[2 * STORMERS + 1];
    stormer stormers[2 * STORMERS];
    for (uint32_t i = 0; i < 2 * STORMERS; i++) {
        stormers[i] = (stormer){.own = &members[i % 2],
                                .buffer = buffer_of(&members[i % 2], STORM_BYTES),
                                .other = below(&seed, 5) == 0 ? i % 2 : 1 - i % 2,
                                .random = seed + i};
        CHECK(pthread_create(&threads[i], NULL, run_stormer, &stormers[i]) == 0);
    }
    struct timespec nap = {.tv_nsec = 1000000 * (long)below(&seed, 60)};
    (void)nanosleep(&nap, NULL); /* wherever they are then */
    CHECK(pthread_create(&threads[2 * STORMERS], NULL, shut_down, &members[seed % 2]) == 0);
    for (size_t i = 0; i <= 2 * STORMERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    close_members(members);
}

int main(void)
{
    end_if_hung(HANG_S);
    spare_ucx_hooks();
    exchange();
    for (uint64_t seed = 1; seed <= 3 * EFFORT; seed++)
        storm(seed * 0x9e3779b97f4a7c15);
    return 0;
}
