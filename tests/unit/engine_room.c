/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room in the access lists. No step of entering a node may run dry half-way, so what it sees to
 * before has to be enough: here the pools hand out single slots and hold none in store, and whoever
 * takes one more than that gets NULL and crashes.
 */
#include "engine/buffer.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "tests/support/api_test.h"
#include "tests/support/owned.h"

#include <stdlib.h>

TestSuite(engine_room, .timeout = HANG_S);

enum { BYTES = 64, READERS_MAX = 12, ACCESSES_MAX = 24 };

/* Makes the pools grow by one slot at a time, whatever they would rather do. */
typedef struct single_slots {
    failing_allocator *memory;
    ferry_engine *engine; /* NULL: not yet */
} single_slots;

static void limit_to_one(fry_pool *pool)
{
    pool->magazine_slots = 0;
    pool->limit = pool->made + 1;
}

static void limit_pools(ferry_engine *engine)
{
    limit_to_one(&engine->segments);
    limit_to_one(&engine->readers);
    limit_to_one(&engine->edges);
    limit_to_one(&engine->joins);
}

/* A pool that grows has counted what it makes when it comes here. */
static void *alloc_and_limit(void *arg, size_t size_bytes, size_t align_bytes)
{
    single_slots *self = arg;
    ferry_allocator inner = failing_allocator_interface(self->memory);
    if (self->engine != NULL)
        limit_pools(self->engine);
    return inner.alloc(inner.arg, size_bytes, align_bytes);
}

static void free_inner(void *arg, void *memory, size_t size_bytes)
{
    ferry_allocator inner = failing_allocator_interface(((single_slots *)arg)->memory);
    inner.free(inner.arg, memory, size_bytes);
}

/* Their slots are lost to the pool, not to its memory, which goes with the engine. */
static void hide_store(fry_pool *pool, fry_pool_cache *cache)
{
    *cache = (fry_pool_cache){0};
    pool->depot = (fry_counted_pointer){0};
}

static void hide_stores(const test_engine *te)
{
    ferry_engine *engine = te->engine;
    fry_context *context = fry_context_get(engine);
    cr_assert_not_null(context);
    hide_store(&engine->segments, &context->segments);
    hide_store(&engine->readers, &context->readers);
    hide_store(&engine->edges, &context->edges);
    hide_store(&engine->joins, &context->joins);
}

static void open_with_single_slots(test_engine *te, single_slots *slots)
{
    ferry_engine_options options = test_engine_options(te, FERRY_LOOP_EMBEDDED);
    *slots = (single_slots){.memory = &te->memory};
    te->allocator = (ferry_allocator){.alloc = alloc_and_limit, .free = free_inner, .arg = slots};
    test_engine_create(te, &options);
    slots->engine = te->engine;
    limit_pools(te->engine);
}

static ferry_access random_access(ferry_buffer *buffer, unsigned *seed)
{
    size_t begin = (size_t)rand_r(seed) % BYTES;
    size_t size = 1 + (size_t)rand_r(seed) % (BYTES - begin);
    if (rand_r(seed) % 2 == 0 && size > 4)
        size = 1 + size / 4;
    return (ferry_access){span_of(buffer, begin, size), (ferry_access_mode)(1 + rand_r(seed) % 3)};
}

static ferry_op_options options_of(const ferry_access *accesses, size_t count,
                                   ferry_future *const *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = 1;
    options.accesses = accesses;
    options.access_count = count;
    return options;
}

static ferry_future *submit(const test_engine *te, const ferry_access *accesses, size_t count,
                            ferry_future *after)
{
    ferry_op_options options = options_of(accesses, count, &after);
    hide_stores(te);
    ferry_future *nop = ferry_nop(te->engine, &options);
    settle(te);
    return nop;
}

/* Rows of the buffer to others beside them, or between it and a buffer of its own size. */
static ferry_future *submit_rows(const test_engine *te, ferry_buffer *buffer, ferry_buffer *other,
                                 const ferry_op_options *options, unsigned *seed)
{
    size_t row_bytes = 1 + (size_t)rand_r(seed) % 3;
    size_t pitch = row_bytes + (size_t)rand_r(seed) % 5;
    size_t count = 2 + (size_t)rand_r(seed) % 8;
    bool is_beside = pitch >= 2 * row_bytes && rand_r(seed) % 2 == 0;
    size_t extent = (count - 1) * pitch + (is_beside ? 2 * row_bytes : row_bytes);
    cr_assert_leq(extent, BYTES);
    size_t begin = (size_t)rand_r(seed) % (BYTES - extent + 1);
    ferry_span here = span_of(buffer, begin, row_bytes);
    ferry_span there =
        span_of(is_beside ? buffer : other, begin + (is_beside ? row_bytes : 0), row_bytes);
    bool is_from_here = rand_r(seed) % 2 == 0;
    hide_stores(te);
    ferry_future *copy = ferry_copy_rows(te->engine, is_from_here ? there : here, pitch,
                                         is_from_here ? here : there, pitch, count, options);
    settle(te);
    return copy;
}

/*
 * Earlier readers and writers, some of which have failed, then one node with many accesses: its
 * options', rows, or both.
 */
static void run_seed(unsigned seed)
{
    OWNED(test_engine_close) test_engine te;
    single_slots slots;
    open_with_single_slots(&te, &slots);
    ferry_buffer *buffer = test_buffer(&te, 0, BYTES, 0), *other = test_buffer(&te, 1, BYTES, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *held = ferry_promise_future(promise), *earlier[READERS_MAX];
    for (int i = 0; i < READERS_MAX; i++) {
        ferry_access access = random_access(buffer, &seed);
        if (i > READERS_MAX / 3)
            access.mode = FERRY_READ;
        earlier[i] = submit(&te, &access, 1, held);
        if (rand_r(&seed) % 4 == 0)
            ASSERT_STATUS(ferry_future_cancel(earlier[i]), FERRY_OK);
    }
    settle(&te);
    ferry_access accesses[ACCESSES_MAX];
    size_t count = 1 + (size_t)rand_r(&seed) % ACCESSES_MAX;
    for (size_t i = 0; i < count; i++)
        accesses[i] = random_access(buffer, &seed);
    ferry_future *node;
    if (rand_r(&seed) % 2 == 0) {
        node = submit(&te, accesses, count, held);
    } else {
        ferry_op_options options = options_of(accesses, rand_r(&seed) % 2 == 0 ? 0 : count, &held);
        node = submit_rows(&te, buffer, other, &options, &seed);
    }
    keep_promise(promise, FERRY_OK);
    settle(&te);
    cr_assert_neq(ferry_future_poll(node), FERRY_PENDING);
    for (int i = 0; i < READERS_MAX; i++) {
        cr_assert_neq(ferry_future_poll(earlier[i]), FERRY_PENDING);
        ferry_future_release(earlier[i]);
    }
    ferry_future_release(node);
    ferry_future_release(held);
    ferry_buffer_release(buffer);
    ferry_buffer_release(other);
}

Test(engine_room, what_a_step_sees_to_is_enough_for_any_accesses)
{
    for (unsigned seed = 1; seed <= 2000; seed++)
        run_seed(seed);
}

/* Every slice of one access list is cut out of the same readers, then all are overwritten. */
Test(engine_room, slices_of_what_many_read_and_then_all_of_it)
{
    OWNED(test_engine_close) test_engine te;
    single_slots slots;
    open_with_single_slots(&te, &slots);
    ferry_buffer *buffer = test_buffer(&te, 0, BYTES, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *held = ferry_promise_future(promise), *readers[100];
    ferry_access accesses[BYTES / 2 + 1];
    accesses[0] = (ferry_access){ferry_buffer_span(buffer), FERRY_READ};
    for (int i = 0; i < 100; i++)
        readers[i] = submit(&te, accesses, 1, held);
    for (size_t i = 0; i < BYTES / 2; i++)
        accesses[i] = (ferry_access){span_of(buffer, 2 * i, 1), FERRY_READ};
    accesses[BYTES / 2] = (ferry_access){ferry_buffer_span(buffer), FERRY_WRITE};
    ferry_future *node = submit(&te, accesses, BYTES / 2 + 1, held);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(node), FERRY_OK);
    for (int i = 0; i < 100; i++)
        ASSERT_STATUS(status_of(readers[i]), FERRY_OK);
    ferry_future_release(held);
    ferry_buffer_release(buffer);
}

Test(engine_room, a_submitter_sees_to_room_itself)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    enum { SIZE = 8192 };
    ferry_buffer *src = test_buffer(&te, 0, SIZE, 1), *dst = test_buffer(&te, 1, SIZE, 0);
    for (int i = 0; i < 3; i++) {
        hide_stores(&te);
        ferry_future *copy =
            ferry_copy(te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
        ferry_future *issued = ferry_future_issued(copy);
        ASSERT_STATUS(status_of(issued), FERRY_OK); /* and nobody made progress */
        ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
        ferry_future_release(copy);
    }
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
}

Test(engine_room, without_memory_the_loop_refuses_and_poisons)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = test_buffer(&te, 0, BYTES, 1);
    ferry_access access = {span_of(buffer, 0, 10), FERRY_WRITE};
    ferry_future *first = submit(&te, &access, 1, NULL);
    ASSERT_STATUS(status_of(first), FERRY_E_INVALID); /* a null future */
    ferry_promise *promise = test_promise(&te);
    ferry_future *held = ferry_promise_future(promise);
    first = submit(&te, &access, 1, held); /* everything else is there now */
    failing_allocator_arm(&te.memory, 1, true);
    ferry_future *second = submit(&te, &access, 1, held);
    ASSERT_STATUS(status_of(second), FERRY_E_NO_MEMORY);
    failing_allocator_arm(&te.memory, 0, false);
    access.mode = FERRY_READ;
    ferry_future *reader = submit(&te, &access, 1, held);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(reader)->cause->status, FERRY_E_NO_MEMORY);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ferry_future_release(reader);
    ferry_future_release(held);
    access = (ferry_access){ferry_buffer_span(buffer), FERRY_WRITE};
    ferry_future *healing = ferry_nop(te.engine, NULL);
    ferry_future *write = submit(&te, &access, 1, healing);
    ASSERT_STATUS(status_of(write), FERRY_OK);
    access.mode = FERRY_READ;
    reader = submit(&te, &access, 1, healing);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ferry_future_release(healing);
    ferry_buffer_release(buffer);
}
