/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room in the access lists. No step of entering a node may run dry half-way, so what it sees to
 * before has to be enough: here the pools hand out single slots and hold none in store, and whoever
 * takes one more than that gets NULL and crashes.
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "tests/support/effort.h"
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(engine_room);

enum { BYTES = 64, READERS_MAX = 12, ACCESSES_MAX = 24 };

/* Makes the pools grow by one slot at a time, whatever they would rather do. */
static struct {
    ferry_allocator inner, outer;
    ferry_engine *engine; /* NULL: not yet */
} slots;

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
    (void)arg;
    if (slots.engine != NULL)
        limit_pools(slots.engine);
    return slots.inner.alloc(slots.inner.arg, size_bytes, align_bytes);
}

static void free_inner(void *arg, void *memory, size_t size_bytes)
{
    (void)arg;
    slots.inner.free(slots.inner.arg, memory, size_bytes);
}

/* Their slots are lost to the pool, not to its memory, which goes with the engine. */
static void hide_store(fry_pool *pool, fry_pool_cache *cache)
{
    *cache = (fry_pool_cache){0};
    pool->depot = (fry_counted_pointer){0};
}

static void hide_stores(void)
{
    fry_context *context = fry_context_get(engine());
    cr_assert_not_null(context);
    hide_store(&engine()->segments, &context->segments);
    hide_store(&engine()->readers, &context->readers);
    hide_store(&engine()->edges, &context->edges);
    hide_store(&engine()->joins, &context->joins);
}

static void begin_with_single_slots(void)
{
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    slots.engine = NULL;
    slots.inner = *options->allocator;
    slots.outer = (ferry_allocator){.alloc = alloc_and_limit, .free = free_inner};
    options->allocator = &slots.outer;
    slots.engine = engine();
    limit_pools(slots.engine);
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
    ferry_op_options options = behind(after, 1);
    options.accesses = accesses;
    options.access_count = count;
    return options;
}

static ferry_future *submit(const ferry_access *accesses, size_t count, ferry_future *after)
{
    ferry_op_options options = options_of(accesses, count, &after);
    hide_stores();
    ferry_future *nop = own(ferry_nop(engine(), &options));
    scene_settle();
    return nop;
}

static ferry_future *submit_one(const char *span, ferry_access_mode mode, const char *after)
{
    ferry_access access = {the_span("%s", span), mode};
    return submit(&access, 1, *after != '\0' ? the_future("%s", after) : NULL);
}

/* Rows of the buffer to others beside them, or between it and a buffer of its own size. */
static ferry_future *submit_rows(ferry_buffer *buffer, ferry_buffer *other,
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
    hide_stores();
    ferry_future *copy = own(ferry_copy_rows(engine(), is_from_here ? there : here, pitch,
                                             is_from_here ? here : there, pitch, count, options));
    scene_settle();
    return copy;
}

/*
 * Earlier readers and writers, some of which have failed, then one node with many accesses: its
 * options', rows, or both. All of them end.
 */
static void run_seed(unsigned seed)
{
    begin_with_single_slots();
    ferry_buffer *buffer = own(test_buffer(scene(), 0, BYTES, 0));
    ferry_buffer *other = own(test_buffer(scene(), 1, BYTES, 0));
    ferry_promise *promise = test_promise(scene());
    ferry_future *held = own(ferry_promise_future(promise)), *futures[READERS_MAX + 1];
    for (int i = 0; i < READERS_MAX; i++) {
        ferry_access access = random_access(buffer, &seed);
        if (i > READERS_MAX / 3)
            access.mode = FERRY_READ;
        futures[i] = submit(&access, 1, held);
        if (rand_r(&seed) % 4 == 0)
            ASSERT_STATUS(ferry_future_cancel(futures[i]), FERRY_OK);
    }
    scene_settle();
    ferry_access accesses[ACCESSES_MAX];
    size_t count = 1 + (size_t)rand_r(&seed) % ACCESSES_MAX;
    for (size_t i = 0; i < count; i++)
        accesses[i] = random_access(buffer, &seed);
    if (rand_r(&seed) % 2 == 0) {
        futures[READERS_MAX] = submit(accesses, count, held);
    } else {
        ferry_op_options options = options_of(accesses, rand_r(&seed) % 2 == 0 ? 0 : count, &held);
        futures[READERS_MAX] = submit_rows(buffer, other, &options, &seed);
    }
    keep_promise(promise, FERRY_OK);
    scene_settle();
    for (int i = 0; i <= READERS_MAX; i++)
        cr_assert_neq(ferry_future_poll(futures[i]), FERRY_PENDING, "operation %d", i);
    scene_end();
}

Test(engine_room, what_a_step_sees_to_is_enough_for_any_accesses)
{
    for (unsigned seed = 1; seed <= SEEDS_OF(2000); seed++)
        run_seed(seed);
}

/* Every slice of one access list is cut out of the same readers, then all are overwritten. */
Test(engine_room, slices_of_what_many_read_and_then_all_of_it)
{
    ferry_future *readers[100];
    ferry_access accesses[BYTES / 2 + 1];
    begin_with_single_slots();
    play("buffer b 64; promise p");
    for (int i = 0; i < 100; i++)
        readers[i] = submit_one("b", FERRY_READ, "p");
    for (size_t i = 0; i < BYTES / 2; i++)
        accesses[i] = (ferry_access){span_of(the_buffer("b"), 2 * i, 1), FERRY_READ};
    accesses[BYTES / 2] = (ferry_access){the_span("b"), FERRY_WRITE};
    ferry_future *node = submit(accesses, BYTES / 2 + 1, the_future("p"));
    play("keep p; settle");
    EXPECT_NOW(node, OK);
    for (int i = 0; i < 100; i++)
        EXPECT_NOW(readers[i], OK);
}

Test(engine_room, a_submitter_sees_to_room_itself)
{
    play("buffer src 8192 of 1; buffer dst 8192 on 1");
    for (int i = 0; i < 3; i++) {
        hide_stores();
        play("c%d = copy dst <- src; issued c%d; now it OK; wait c%d OK; release c%d", i, i, i,
             i); /* issued, and nobody made progress */
    }
}

Test(engine_room, without_memory_the_loop_refuses_and_poisons)
{
    play("buffer b 64 of 1; promise p; healing = nop");
    EXPECT_NOW(submit_one("b[0:10]", FERRY_WRITE, ""), E_INVALID); /* a null future */
    ferry_future *first = submit_one("b[0:10]", FERRY_WRITE, "p"); /* all is there now */
    failing_allocator_arm(&scene()->memory, 1, true);
    EXPECT_NOW(submit_one("b[0:10]", FERRY_WRITE, "p"), E_NO_MEMORY);
    failing_allocator_arm(&scene()->memory, 0, false);
    ferry_future *reader = submit_one("b[0:10]", FERRY_READ, "p");
    EXPECT_NOW(reader, E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(reader)->cause->status, FERRY_E_NO_MEMORY);
    play("keep p; settle");
    EXPECT_NOW(first, OK);
    EXPECT_NOW(submit_one("b", FERRY_WRITE, "healing"), OK);
    EXPECT_NOW(submit_one("b[0:10]", FERRY_READ, "healing"), OK);
}
