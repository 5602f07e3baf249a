/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlapping accesses against a reference that compares each with all before it: what an operation
 * waits for, which failure it takes, and when those behind it may go on, after every event. The
 * operations touch bytes of one buffer and do nothing, each has a promise that holds it, and the
 * test keeps, breaks, drops and cancels in any order, between submits too.
 *
 * An operation that finds no memory is listed with an unknown part of its accesses. So the
 * reference says when the others may end at the earliest, as if it were not listed at all, and at
 * the latest, as if all of it were; of the others both are the same.
 *
 * Built again with small pieces (FRY_ENTERING_STEPS), all of it enters piece by piece.
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "tests/support/api_test.h"
#include "tests/support/effort.h"

#include <stdlib.h>

TestSuite(engine_overlaps, .timeout = 5 * HANG_S);

enum { CELLS = 48, ACCESSES_MAX = 4, OPS_MAX = 3000, WARM_EDGES = 100 };

typedef struct touch {
    size_t begin, end;
    ferry_access_mode mode;
} touch;

typedef struct op {
    touch touches[ACCESSES_MAX];
    size_t touch_count;
    ferry_promise *promise; /* NULL: it is resolved */
    uint64_t promise_id, id;
    ferry_future *future;
    ferry_status status;
    uint64_t root;       /* of its failure */
    bool is_kept;        /* its promise, well */
    bool may_fail;       /* its promise failed, or a cancel came */
    bool is_refused;     /* it found no memory */
    bool met_poison;     /* the whole buffer was when it entered */
    bool early, late;    /* retired, at the earliest and at the latest */
    uint32_t *conflicts; /* those before it that it must not meet */
    uint32_t conflict_count;
    uint32_t writers[CELLS]; /* whose bytes it reads */
    uint32_t writer_count;
} op;

typedef struct world {
    test_engine te;
    unsigned seed;
    ferry_buffer *buffer;
    op *ops;
    size_t count;
    uint32_t last_writer[CELLS]; /* plus 1; 0: none */
    bool is_poisoned;            /* the whole buffer */
    bool lacks_memory;           /* now and then */
    size_t *refused_p;           /* how many found none */
    unsigned style;
    unsigned random_seed;
} world;

static unsigned draw(world *w, unsigned below)
{
    return (unsigned)rand_r(&w->seed) % below;
}

/* ---- the reference ---- */

static bool touches(const op *o, size_t cell, ferry_access_mode mode)
{
    for (size_t i = 0; i < o->touch_count; i++) {
        if (o->touches[i].begin <= cell && cell < o->touches[i].end &&
            (o->touches[i].mode & mode) != 0)
            return true;
    }
    return false;
}

static bool conflict(const op *left, const op *right)
{
    for (size_t i = 0; i < left->touch_count; i++) {
        for (size_t j = 0; j < right->touch_count; j++) {
            const touch *a = &left->touches[i], *b = &right->touches[j];
            if (a->begin < b->end && b->begin < a->end && ((a->mode | b->mode) & FERRY_WRITE) != 0)
                return true;
        }
    }
    return false;
}

static bool reads_anything(const op *o)
{
    bool reads = false;
    for (size_t i = 0; i < o->touch_count; i++)
        reads |= (o->touches[i].mode & FERRY_READ) != 0;
    return reads;
}

static bool writes_anything(const op *o)
{
    bool writes = false;
    for (size_t i = 0; i < o->touch_count; i++)
        writes |= (o->touches[i].mode & FERRY_WRITE) != 0;
    return writes;
}

static bool writes_all_at_once(const op *o)
{
    bool writes = false;
    for (size_t i = 0; i < o->touch_count; i++)
        writes |= (o->touches[i].mode & FERRY_WRITE) != 0 && o->touches[i].begin == 0 &&
                  o->touches[i].end == CELLS;
    return writes;
}

static void reference_enter(world *w, op *o)
{
    uint32_t index = (uint32_t)(o - w->ops);
    o->conflicts = malloc(sizeof *o->conflicts * (index + 1));
    for (uint32_t j = 0; j < index; j++) {
        if ((!w->ops[j].late || !w->ops[j].early) && conflict(o, &w->ops[j]))
            o->conflicts[o->conflict_count++] = j;
    }
    o->met_poison = w->is_poisoned && reads_anything(o);
    if (writes_all_at_once(o))
        w->is_poisoned = false;
    for (size_t cell = 0; cell < CELLS; cell++) {
        uint32_t writer = w->last_writer[cell];
        bool is_new = writer != 0 && touches(o, cell, FERRY_READ);
        for (uint32_t i = 0; i < o->writer_count && is_new; i++)
            is_new = o->writers[i] != writer - 1;
        if (is_new)
            o->writers[o->writer_count++] = writer - 1;
    }
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        if (touches(o, cell, FERRY_WRITE))
            w->last_writer[cell] = index + 1;
    }
}

static bool is_refusal(ferry_status status)
{
    return status == FERRY_E_AGAIN || status == FERRY_E_NO_MEMORY;
}

static uint64_t root_of(const op *o)
{
    const ferry_error *error = ferry_future_error(o->future);
    cr_assert_not_null(error);
    return error->cause != NULL ? error->cause->op : error->op;
}

static void check_failure(world *w, op *o)
{
    bool may = o->may_fail, is_root_right = o->may_fail;
    uint64_t root = root_of(o);
    if (o->met_poison) {
        may = true;
        is_root_right = true;
    }
    for (uint32_t i = 0; i < o->writer_count; i++) {
        const op *writer = &w->ops[o->writers[i]];
        if (writer->status != FERRY_PENDING && writer->status != FERRY_OK) {
            may = true;
            is_root_right |= root == writer->root || (writer->is_refused && root == 0);
        }
    }
    if (o->may_fail)
        is_root_right = true;
    cr_assert(may, "seed %u: op %zu failed with %s", w->random_seed, (size_t)(o - w->ops),
              ferry_status_name(o->status));
    cr_assert(is_root_right, "seed %u: op %zu names %llu", w->random_seed, (size_t)(o - w->ops),
              (unsigned long long)root);
    o->root = root;
}

/* What has become of one, given what has of those before it. */
static void check(world *w, op *o)
{
    bool early = true, late = true, is_ok = o->is_kept, fails = o->may_fail || o->met_poison;
    for (uint32_t i = 0; i < o->conflict_count; i++) {
        early &= w->ops[o->conflicts[i]].early;
        late &= w->ops[o->conflicts[i]].late;
    }
    for (uint32_t i = 0; i < o->writer_count; i++) {
        ferry_status status = w->ops[o->writers[i]].status;
        is_ok &= status == FERRY_OK;
        /* Some of what was refused may not have come to be listed: then others are to blame. */
        fails |= status != FERRY_OK && status != FERRY_PENDING && !w->ops[o->writers[i]].is_refused;
    }
    if (o->status == FERRY_PENDING) {
        o->status = ferry_future_poll(o->future);
        if (o->status == FERRY_OK)
            cr_assert(is_ok && early && !fails, "seed %u: op %zu of %zu went too early",
                      w->random_seed, (size_t)(o - w->ops), w->count);
        else if (o->status == FERRY_PENDING)
            cr_assert(!fails && !(is_ok && late), "seed %u: op %zu of %zu waits for nothing",
                      w->random_seed, (size_t)(o - w->ops), w->count);
        else if (!o->is_refused)
            check_failure(w, o);
    }
    o->early = o->status != FERRY_PENDING && (early || o->is_refused);
    o->late = o->status != FERRY_PENDING && late;
}

static void check_all(world *w)
{
    settle(&w->te);
    for (size_t i = 0; i < w->count; i++) {
        if (!w->ops[i].late)
            check(w, &w->ops[i]);
    }
}

/* ---- events ---- */

static touch draw_touch(world *w)
{
    touch t = {.mode = (ferry_access_mode)(1 + draw(w, 3))};
    unsigned style = w->style == 6 ? draw(w, 6) : w->style;
    size_t n = w->count % CELLS;
    bool is_crowd = draw(w, 8) != 0; /* of readers, and now and then who writes a little */
    switch (style) {
    case 0: /* anything */
        t.begin = draw(w, CELLS);
        t.end = t.begin + 1 + draw(w, (unsigned)(CELLS - t.begin));
        return t;
    case 1: /* growing */
        t = (touch){0, n + 1, FERRY_READ};
        break;
    case 2: /* shrinking */
        t = (touch){n, CELLS, FERRY_READ};
        break;
    case 3: /* nested */
        t = (touch){n / 2, CELLS - n / 2, FERRY_READ};
        break;
    case 4: /* all of it */
        t = (touch){0, CELLS, FERRY_READ};
        break;
    case 5: /* sliding */
        t = (touch){n, n + CELLS / 4 < CELLS ? n + CELLS / 4 : CELLS, FERRY_READ};
        break;
    }
    if (!is_crowd) {
        t.begin = draw(w, CELLS);
        t.end = t.begin + 1 + draw(w, 3);
        t.end = t.end < CELLS ? t.end : CELLS;
        t.mode = draw(w, 3) == 0 ? FERRY_READ_WRITE : FERRY_WRITE;
    }
    return t;
}

static void submit(world *w)
{
    op *o = &w->ops[w->count];
    *o = (op){.status = FERRY_PENDING, .promise = test_promise(&w->te)};
    o->touch_count = draw(w, 6) == 0 ? 1 + draw(w, ACCESSES_MAX) : 1;
    ferry_access accesses[ACCESSES_MAX];
    for (size_t i = 0; i < o->touch_count; i++) {
        o->touches[i] = draw_touch(w);
        accesses[i].span =
            span_of(w->buffer, o->touches[i].begin, o->touches[i].end - o->touches[i].begin);
        accesses[i].mode = o->touches[i].mode;
    }
    ferry_future *after = ferry_promise_future(o->promise);
    ferry_op_options options = behind(&after, 1);
    options.accesses = accesses;
    options.access_count = o->touch_count;
    bool lacks = w->lacks_memory && draw(w, 6) == 0;
    if (lacks)
        failing_allocator_arm(&w->te.memory, 1 + draw(w, 4), true);
    o->future = ferry_nop(w->te.engine, &options);
    o->promise_id = ferry_future_id(after);
    settle(&w->te);
    failing_allocator_arm(&w->te.memory, 0, false);
    o->id = ferry_future_id(o->future);
    cr_assert_neq(o->id, 0, "seed %u: refused at submit", w->random_seed);
    ferry_future_release(after);
    reference_enter(w, o);
    w->count++;
    ferry_status status = ferry_future_poll(o->future);
    if (is_refusal(status)) {
        cr_assert(lacks);
        o->is_refused = true;
        ++*w->refused_p;
        o->status = status;
        o->root = o->id;
        w->is_poisoned |= writes_anything(o);
    }
}

static void end_promise(op *o, unsigned how)
{
    ferry_promise *promise = o->promise;
    o->promise = NULL;
    o->is_kept = how > 1;
    o->may_fail |= how <= 1;
    if (how > 1)
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    else if (how == 1)
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, NULL), FERRY_OK);
    ferry_promise_release(promise); /* dropped without that */
}

static void happen(world *w, unsigned failures_in_100)
{
    op *o = &w->ops[draw(w, (unsigned)w->count)];
    unsigned luck = draw(w, 100);
    if (luck < failures_in_100 / 2 && o->status == FERRY_PENDING) {
        o->may_fail = true;
        ASSERT_STATUS(ferry_future_cancel(o->future), FERRY_OK);
    } else if (o->promise != NULL) {
        end_promise(o, luck < failures_in_100 ? draw(w, 2) : 2);
    }
}

/* ---- worlds ---- */

/* Nodes, edges and uses enough for all, so that only the access lists need memory. */
static void warm_up(world *w, size_t count)
{
    ferry_future **nops = malloc(sizeof *nops * count);
    ferry_promise **promises = malloc(sizeof *promises * count);
    ferry_buffer *other = test_buffer(&w->te, 0, ACCESSES_MAX, 0);
    ferry_access accesses[ACCESSES_MAX];
    for (size_t i = 0; i < ACCESSES_MAX; i++)
        accesses[i] = (ferry_access){span_of(other, i, 1), FERRY_READ};
    for (size_t i = 0; i < count; i++) {
        promises[i] = test_promise(&w->te);
        ferry_future *after = ferry_promise_future(promises[i]);
        ferry_future *often[WARM_EDGES];
        for (size_t j = 0; j < WARM_EDGES; j++)
            often[j] = after;
        ferry_op_options options = behind(often, WARM_EDGES);
        options.accesses = accesses;
        options.access_count = ACCESSES_MAX;
        nops[i] = ferry_nop(w->te.engine, &options);
        ferry_future_release(after);
    }
    settle(&w->te);
    for (size_t i = 0; i < count; i++) {
        keep_promise(promises[i], FERRY_OK);
        ferry_future_release(nops[i]);
    }
    settle(&w->te);
    ferry_buffer_release(other);
    settle(&w->te);
    free(nops);
    free(promises);
}

static void hide_store(fry_pool *pool, fry_pool_cache *cache)
{
    *cache = (fry_pool_cache){0};
    pool->depot = (fry_counted_pointer){0};
    pool->magazine_slots = 0;
}

/* From now on each slot of the access lists is asked of the allocator. */
static void make_lists_ask(world *w)
{
    ferry_engine *engine = w->te.engine;
    fry_context *context = fry_context_get(engine);
    cr_assert_not_null(context);
    hide_store(&engine->segments, &context->segments);
    hide_store(&engine->readers, &context->readers);
    hide_store(&engine->joins, &context->joins);
    engine->segments.chunk_slots = engine->readers.chunk_slots = engine->joins.chunk_slots = 1;
}

typedef struct plan {
    size_t ops;
    unsigned submits_in_100, failures_in_100;
    bool lacks_memory, lacks_joins;
} plan;

/* Returns how many operations found no memory. */
static size_t run_world(unsigned seed, unsigned style, const plan *p)
{
    static op ops[OPS_MAX];
    size_t refused = 0;
    world w = {
        .seed = seed, .random_seed = seed, .style = style, .ops = ops, .refused_p = &refused};
    test_engine_open(&w.te, FERRY_LOOP_EMBEDDED);
    w.buffer = test_buffer(&w.te, 0, CELLS, 0);
    if (p->lacks_memory) {
        warm_up(&w, p->ops + 4);
        make_lists_ask(&w);
    }
    if (p->lacks_joins)
        w.te.engine->joins.limit = 0;
    w.lacks_memory = p->lacks_memory;
    while (w.count < p->ops) {
        if (w.count == 0 || draw(&w, 100) < p->submits_in_100)
            submit(&w);
        else
            happen(&w, p->failures_in_100);
        if (p->ops < 1000 || draw(&w, 100) == 0)
            check_all(&w);
    }
    check_all(&w);
    for (size_t i = 0; i < w.count; i++) {
        happen(&w, p->failures_in_100);
        if (p->ops < 1000 || draw(&w, 100) == 0)
            check_all(&w);
    }
    for (size_t i = 0; i < w.count; i++) {
        if (ops[i].promise != NULL)
            end_promise(&ops[i], 2);
    }
    check_all(&w);
    for (size_t i = 0; i < w.count; i++) {
        cr_assert(ops[i].late, "seed %u: op %zu never went", seed, i);
        ferry_future_release(ops[i].future);
        free(ops[i].conflicts);
    }
    ferry_buffer_release(w.buffer);
    test_engine_close(&w.te);
    return refused;
}

static void run_worlds(unsigned first, unsigned count, const plan *p)
{
    size_t refused = 0;
    for (unsigned seed = first; seed < first + SEEDS_OF(count); seed++)
        refused += run_world(seed, seed % 7, p);
    cr_assert_eq(refused != 0, p->lacks_memory);
}

Test(engine_overlaps, each_waits_for_what_it_must_not_meet)
{
    run_worlds(1, 350, &(plan){.ops = 90, .submits_in_100 = 75});
}

Test(engine_overlaps, each_fails_with_what_it_reads)
{
    run_worlds(1, 350, &(plan){.ops = 90, .submits_in_100 = 75, .failures_in_100 = 30});
}

Test(engine_overlaps, without_slots_for_joins)
{
    run_worlds(
        1, 140,
        &(plan){.ops = 90, .submits_in_100 = 75, .failures_in_100 = 20, .lacks_joins = true});
}

Test(engine_overlaps, under_failing_memory)
{
    run_worlds(
        1, 350,
        &(plan){.ops = 90, .submits_in_100 = 75, .failures_in_100 = 15, .lacks_memory = true});
}

/* More than a node has edges of its own. */
Test(engine_overlaps, more_than_a_node_has_edges)
{
    run_worlds(1, 7, &(plan){.ops = OPS_MAX, .submits_in_100 = 97, .failures_in_100 = 1});
}
