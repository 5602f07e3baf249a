/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of an engine: what is refused past each, what a refused write leaves behind, and that
 * ferry_engine_writable says when another try is worth while.
 */
#include "tests/support/limits_test.h"

TestSuite(limits, .timeout = HANG_S);

/* ---- the bounds ---- */

typedef struct toucher {
    const test_engine *te;
    promises *all;
    pthread_barrier_t *barrier;
    pthread_mutex_t *turn;
} toucher;

/* Leaves as much in its thread's caches as it can, and stays. */
static void *touch_all_nodes(void *arg)
{
    toucher *self = arg;
    (void)pthread_mutex_lock(self->turn);
    (void)take_all_nodes(self->te, self->all);
    release_all(self->all);
    (void)pthread_mutex_unlock(self->turn);
    (void)pthread_barrier_wait(self->barrier);
    (void)pthread_barrier_wait(self->barrier);
    return NULL;
}

/* What other threads keep in their caches is not missing here. */
static void all_nodes_can_be_had(uint32_t max_nodes, unsigned thread_count)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, max_nodes, 0, 0);
    pthread_barrier_t barrier;
    pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    toucher self = {&te, no_promises(), &barrier, &turn};
    pthread_t threads[16];
    (void)pthread_barrier_init(&barrier, NULL, thread_count + 1);
    for (unsigned i = 0; i < thread_count; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, touch_all_nodes, &self), 0);
    (void)pthread_barrier_wait(&barrier);
    settle(&te);
    size_t count = take_all_nodes(&te, self.all);
    cr_assert_geq(count, max_nodes);
    if (max_nodes < 1024)
        cr_assert_eq(count, max_nodes);
    else
        cr_assert_leq(count, max_nodes + max_nodes / 16 * (thread_count + 2));
    release_all(self.all);
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < thread_count; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&barrier);
    test_engine_close(&te);
}

Test(limits, max_nodes_is_true_whatever_other_threads_keep)
{
    static const uint32_t bounds[] = {1, 16, 64, 100, 1023, 1024, 2000};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        all_nodes_can_be_had(bounds[i], 0);
        all_nodes_can_be_had(bounds[i], 4);
        all_nodes_can_be_had(bounds[i], 16);
    }
}

Test(limits, an_operation_that_could_never_have_room_is_invalid)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, 0, 64, 64);
    ferry_buffer *buffer = test_buffer(&te, 0, 64, 1), *other = test_buffer(&te, 1, 64, 2);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after[17];
    for (size_t i = 0; i < 17; i++)
        after[i] = ferry_promise_future(promise);
    ASSERT_STATUS(status_of(nop_after_all(&te, after, 17)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_future_all(te.engine, after, 17)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(nop_after_all(&te, after, 16)), FERRY_PENDING);
    ferry_access accesses[7];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = accesses;
    for (size_t i = 0; i < 7; i++)
        accesses[i] = (ferry_access){span_of(buffer, 8 * i, 8), FERRY_READ};
    options.access_count = 7;
    ASSERT_STATUS(status_of(ferry_nop(te.engine, &options)), FERRY_E_INVALID);
    options.access_count = 6;
    ASSERT_STATUS(status_of(ferry_copy(te.engine, ferry_buffer_span(other),
                                       ferry_buffer_span(buffer), &options)),
                  FERRY_OK);
    ASSERT_STATUS(writable_now(&te), FERRY_OK);
    for (size_t i = 0; i < 17; i++)
        ferry_future_release(after[i]);
    keep_promise(promise, FERRY_OK);
    ferry_buffer_release(buffer);
    ferry_buffer_release(other);
    test_engine_close(&te);
}

Test(limits, the_least_bounds_still_copy)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, 1, 16, 16);
    ferry_buffer *buffer = test_buffer(&te, 0, 64, 1), *other = test_buffer(&te, 1, 64, 2);
    ferry_promise *promise = test_promise(&te);
    ferry_future *held = ferry_promise_future(promise);
    ASSERT_STATUS(
        status_of(copy_after(&te, ferry_buffer_span(other), ferry_buffer_span(buffer), held)),
        FERRY_E_AGAIN); /* the promise is the one node */
    ferry_future_release(held);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(writable_now(&te), FERRY_OK);
    ASSERT_STATUS(
        status_of(ferry_copy(te.engine, ferry_buffer_span(other), ferry_buffer_span(buffer), NULL)),
        FERRY_OK);
    cr_assert(is_filled(other, 0, 64, 1));
    ferry_buffer_release(buffer);
    ferry_buffer_release(other);
    test_engine_close(&te);
}

/* ---- writable: nodes ---- */

Test(limits, writable_at_once_if_nothing_was_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(status_of(ferry_engine_writable(te.engine)), FERRY_OK);
    ferry_promise *promise = test_promise(&te);
    ferry_future *writable = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_OK);
    cr_assert_null(ferry_future_error(writable));
    ferry_future_release(writable);
    keep_promise(promise, FERRY_OK);
    test_engine_close(&te);
}

Test(limits, writable_when_a_node_is_free)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    promises *all = no_promises();
    cr_assert_eq(take_all_nodes(&te, all), FEW);
    ferry_future *writable = ferry_engine_writable(te.engine);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    cr_assert_neq(ferry_future_id(writable), 0);
    ASSERT_STATUS(status_of(ferry_nop(te.engine, NULL)), FERRY_E_AGAIN);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    release_newest(all);
    settle(&te);
    ASSERT_STATUS(status_of(writable), FERRY_OK);
    ASSERT_STATUS(ferry_promise_create(te.engine, &all->list[all->count]), FERRY_OK);
    all->count++;
    ASSERT_STATUS(status_of(ferry_engine_writable(te.engine)), FERRY_OK);
    release_all(all);
    test_engine_close(&te);
}

/* Handles keep nodes; the last release comes from a thread that does nothing else. */
Test(limits, writable_when_a_kept_future_is_released)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_THREAD, FEW, 0, 0);
    ferry_future *kept[FEW];
    for (size_t i = 0; i < FEW; i++) {
        kept[i] = ferry_nop(te.engine, NULL);
        ASSERT_STATUS(ferry_future_wait(kept[i], -1), FERRY_OK);
    }
    ASSERT_STATUS(status_of(ferry_nop(te.engine, NULL)), FERRY_E_AGAIN);
    ferry_future *writable = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_wait(writable, 1000000), FERRY_PENDING);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, release_elsewhere, kept[3]), 0);
    ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
    (void)pthread_join(thread, NULL);
    kept[3] = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_future_wait(kept[3], -1), FERRY_OK);
    for (size_t i = 0; i < FEW; i++)
        ferry_future_release(kept[i]);
    ferry_future_release(writable);
    test_engine_close(&te);
}

Test(limits, refused_writes_are_poisoned_until_the_retry)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    ferry_buffer *buffer = test_buffer(&te, 0, 64, 1), *other = test_buffer(&te, 1, 64, 2);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    ferry_span whole = ferry_buffer_span(other);
    ASSERT_STATUS(status_of(ferry_copy(te.engine, whole, ferry_buffer_span(buffer), NULL)),
                  FERRY_E_AGAIN);
    ferry_future *writable = ferry_engine_writable(te.engine);
    release_newest(all);
    release_newest(all);
    ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
    ferry_access reads = {whole, FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &reads;
    options.access_count = 1;
    ferry_future *reader = ferry_nop(te.engine, &options);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(reader)->cause->status, FERRY_E_AGAIN);
    ferry_future_release(reader);
    ASSERT_STATUS(status_of(ferry_copy(te.engine, whole, ferry_buffer_span(buffer), NULL)),
                  FERRY_OK);
    ASSERT_STATUS(status_of(ferry_nop(te.engine, &options)), FERRY_OK);
    cr_assert(is_filled(other, 0, 64, 1));
    ferry_future_release(writable);
    release_all(all);
    ferry_buffer_release(buffer);
    ferry_buffer_release(other);
    test_engine_close(&te);
}

/* ---- writable: edges ---- */

enum { EDGES = 64, WANTED = 5 };

/* Nops behind promises of their own, until all edges are taken. */
typedef struct held_edges {
    test_engine te;
    ferry_promise *promise[EDGES];
    ferry_future *held[EDGES];
    ferry_future *heads[EDGES]; /* futures of the promises */
} held_edges;

static void take_all_edges(held_edges *self)
{
    open_limited(&self->te, FERRY_LOOP_EMBEDDED, 0, EDGES, 0);
    for (size_t i = 0; i < EDGES; i++) {
        self->promise[i] = test_promise(&self->te);
        self->heads[i] = ferry_promise_future(self->promise[i]);
        self->held[i] = nop_after(&self->te, self->heads[i]);
        ASSERT_STATUS(ferry_future_poll(self->held[i]), FERRY_PENDING);
    }
}

static void end_held(held_edges *self, size_t i)
{
    keep_promise(self->promise[i], FERRY_OK);
    settle(&self->te);
    ASSERT_STATUS(ferry_future_poll(self->held[i]), FERRY_OK);
}

static void close_held(held_edges *self)
{
    for (size_t i = 0; i < EDGES; i++) {
        ferry_future_release(self->held[i]);
        ferry_future_release(self->heads[i]);
    }
    test_engine_close(&self->te);
}

/* One of the five that it needs is of no use. */
Test(limits, writable_when_as_many_edges_are_free_as_were_lacking)
{
    held_edges all;
    take_all_edges(&all);
    ASSERT_STATUS(status_of(nop_after_all(&all.te, all.heads + EDGES - WANTED, WANTED)),
                  FERRY_E_AGAIN);
    ferry_future *writable = ferry_engine_writable(all.te.engine);
    for (size_t i = 0; i < WANTED; i++) {
        settle(&all.te);
        /* What ends is a promise and a nop with one edge each. */
        if (2 * i < WANTED)
            ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
        end_held(&all, i);
    }
    settle(&all.te);
    ASSERT_STATUS(status_of(writable), FERRY_OK);
    ferry_future *retry = nop_after_all(&all.te, all.heads + EDGES - WANTED, WANTED);
    ASSERT_STATUS(ferry_future_poll(retry), FERRY_PENDING);
    for (size_t i = WANTED; i < EDGES; i++)
        end_held(&all, i);
    ASSERT_STATUS(status_of(retry), FERRY_OK);
    close_held(&all);
}

/* Its predecessors resolve: it needs no edges any more, though none came back. */
Test(limits, writable_when_what_it_waits_for_has_ended)
{
    held_edges all;
    take_all_edges(&all);
    ferry_promise *roots[WANTED];
    ferry_future *after[WANTED];
    for (size_t i = 0; i < WANTED; i++) {
        roots[i] = test_promise(&all.te);
        after[i] = ferry_promise_future(roots[i]);
    }
    ASSERT_STATUS(status_of(nop_after_all(&all.te, after, WANTED)), FERRY_E_AGAIN);
    ferry_future *writable = ferry_engine_writable(all.te.engine);
    settle(&all.te);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    for (size_t i = 0; i < WANTED; i++)
        keep_promise(roots[i], FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
    ASSERT_STATUS(status_of(nop_after_all(&all.te, after, WANTED)), FERRY_OK);
    for (size_t i = 0; i < WANTED; i++)
        ferry_future_release(after[i]);
    ferry_future_release(writable);
    for (size_t i = 0; i < EDGES; i++)
        end_held(&all, i);
    close_held(&all);
}

/* Two were refused; room for the one must not wait for the other's. */
Test(limits, room_for_one_of_two_is_enough)
{
    held_edges all;
    take_all_edges(&all);
    ASSERT_STATUS(status_of(nop_after_all(&all.te, all.heads, 8)), FERRY_E_AGAIN);
    ferry_future *first = ferry_engine_writable(all.te.engine);
    settle(&all.te);
    ASSERT_STATUS(ferry_future_poll(first), FERRY_PENDING);
    ASSERT_STATUS(status_of(nop_after(&all.te, all.heads[EDGES - 1])), FERRY_E_AGAIN);
    ferry_future *second = ferry_engine_writable(all.te.engine);
    cr_assert_eq(first, second, "all share one");
    end_held(&all, 0);
    settle(&all.te);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    ferry_future *retry = nop_after(&all.te, all.heads[EDGES - 1]);
    ASSERT_STATUS(ferry_future_poll(retry), FERRY_PENDING);
    /* The other was told too, in vain, and asks again. */
    ASSERT_STATUS(status_of(nop_after_all(&all.te, all.heads + 4, 8)), FERRY_E_AGAIN);
    ferry_future_release(first);
    first = ferry_engine_writable(all.te.engine);
    settle(&all.te);
    ASSERT_STATUS(ferry_future_poll(first), FERRY_PENDING);
    for (size_t i = 1; i < EDGES; i++)
        end_held(&all, i);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(retry), FERRY_OK);
    close_held(&all);
}

Test(limits, writable_can_be_waited_for_in_the_graph)
{
    held_edges all;
    take_all_edges(&all);
    ASSERT_STATUS(status_of(nop_after(&all.te, all.heads[EDGES - 1])), FERRY_E_AGAIN);
    ferry_future *writable = ferry_engine_writable(all.te.engine);
    end_held(&all, 0); /* so that the two below have their edge, one after the other */
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_OK);
    ferry_future *filler = nop_after(&all.te, all.heads[EDGES - 1]);
    ASSERT_STATUS(status_of(nop_after_all(&all.te, all.heads + 8, 2)), FERRY_E_AGAIN);
    ferry_future_release(writable);
    writable = ferry_engine_writable(all.te.engine);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    ferry_future *drained = ferry_engine_drain(all.te.engine); /* waits for operations alone */
    for (size_t i = 1; i < EDGES; i++)
        end_held(&all, i);
    ASSERT_STATUS(status_of(nop_after(&all.te, writable)), FERRY_OK);
    ASSERT_STATUS(status_of(drained), FERRY_OK);
    ASSERT_STATUS(status_of(filler), FERRY_OK);
    ferry_future_release(writable);
    close_held(&all);
}

/* ---- writable: accesses ---- */

enum { ACCESSES = 64, SLICES = ACCESSES, SLICE = 8 };

typedef struct slices {
    test_engine te;
    ferry_buffer *buffer;
    ferry_promise *promise[SLICES];
    ferry_future *held[SLICES];
} slices;

static ferry_future *write_span(const test_engine *te, ferry_span span, ferry_future *after)
{
    ferry_access access = {span, FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    options.after = &after;
    options.after_count = after != NULL;
    return ferry_nop(te->engine, &options);
}

static void write_slices(slices *self, ferry_loop_mode loop)
{
    open_limited(&self->te, loop, 0, 0, ACCESSES);
    self->buffer = test_buffer(&self->te, 0, SLICES * SLICE, 1);
    for (size_t i = 0; i < SLICES; i++) {
        self->promise[i] = test_promise(&self->te);
        ferry_future *head = ferry_promise_future(self->promise[i]);
        self->held[i] = write_span(&self->te, span_of(self->buffer, i * SLICE, SLICE), head);
        ferry_future_release(head);
    }
}

static void end_slice(slices *self, size_t i)
{
    keep_promise(self->promise[i], FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(self->held[i], -1), FERRY_OK);
    ferry_future_release(self->held[i]);
}

static void close_slices(slices *self)
{
    ferry_buffer_release(self->buffer);
    test_engine_close(&self->te);
}

/* What was submitted before this call has entered, or was refused. */
static void let_enter(const test_engine *te)
{
    ferry_future *nop = ferry_nop(te->engine, NULL);
    ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK);
    ferry_future_release(nop);
}

/* Refused as it enters: there is no room to list it beside what it must wait for. */
static void an_operation_that_finds_no_room_in_the_lists(ferry_loop_mode loop)
{
    slices all;
    write_slices(&all, loop);
    ferry_span whole = ferry_buffer_span(all.buffer);
    int refusals = 0;
    size_t ended = 0;
    for (;;) {
        ferry_future *write = write_span(&all.te, whole, NULL);
        let_enter(&all.te);
        ferry_status status = ferry_future_poll(write);
        while (status == FERRY_PENDING && ended < SLICES) { /* it was not refused */
            end_slice(&all, ended++);
            status = ferry_future_poll(write);
        }
        status = ferry_future_wait(write, -1);
        ferry_future_release(write);
        if (status == FERRY_OK)
            break;
        ASSERT_STATUS(status, FERRY_E_AGAIN);
        refusals++;
        ferry_future *writable = ferry_engine_writable(all.te.engine);
        while (ferry_future_poll(writable) == FERRY_PENDING && ended < SLICES) {
            end_slice(&all, ended++);
            let_enter(&all.te);
        }
        ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK); /* or nobody is told: it hangs */
        ferry_future_release(writable);
    }
    cr_assert_gt(refusals, 0, "%d slices are few", SLICES);
    cr_assert_leq(refusals, 12, "each try is worth something");
    while (ended < SLICES)
        end_slice(&all, ended++);
    ASSERT_STATUS(status_of(ferry_engine_writable(all.te.engine)), FERRY_OK);
    ferry_access reads = {whole, FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &reads;
    options.access_count = 1;
    ferry_future *reader = ferry_nop(all.te.engine, &options);
    ASSERT_STATUS(ferry_future_wait(reader, -1), FERRY_OK); /* the retry healed it */
    ferry_future_release(reader);
    close_slices(&all);
}

Test(limits, writable_when_the_lists_have_room_embedded)
{
    an_operation_that_finds_no_room_in_the_lists(FERRY_LOOP_EMBEDDED);
}

Test(limits, writable_when_the_lists_have_room)
{
    an_operation_that_finds_no_room_in_the_lists(FERRY_LOOP_THREAD);
}

/* A refused one and what depends on it end too, and that is no reason to try again. */
Test(limits, a_refusal_does_not_make_room)
{
    slices all;
    write_slices(&all, FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 10; i++) {
        ferry_future *write = write_span(&all.te, ferry_buffer_span(all.buffer), NULL);
        ferry_future *dependent = nop_after(&all.te, write);
        ferry_future *other = ferry_nop(all.te.engine, NULL);
        settle(&all.te);
        ASSERT_STATUS(status_of(write), FERRY_E_AGAIN);
        ASSERT_STATUS(status_of(dependent), FERRY_E_DEPENDENCY);
        ASSERT_STATUS(status_of(other), FERRY_OK);
        ASSERT_STATUS(writable_now(&all.te), FERRY_PENDING);
    }
    for (size_t i = 0; i < SLICES; i++)
        end_slice(&all, i);
    ASSERT_STATUS(writable_now(&all.te), FERRY_OK);
    close_slices(&all);
}

/* ---- batches and rows ---- */

Test(limits, a_batch_of_which_there_is_room_for_some)
{
    enum { OPS = 6, ROOM = 2 };
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, 2 + ROOM, 0, 0); /* the promise, the batch's own */
    ferry_promise *promise = test_promise(&te);
    ferry_future *held = ferry_promise_future(promise), *each[OPS];
    ferry_op ops[OPS];
    for (size_t i = 0; i < OPS; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_NOP};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &held;
    options.after_count = 1;
    ferry_future *batch = ferry_batch(te.engine, ops, sizeof *ops, OPS, each, &options);
    for (size_t i = 0; i < OPS; i++)
        ASSERT_STATUS(ferry_future_poll(each[i]), i < ROOM ? FERRY_PENDING : FERRY_E_AGAIN);
    ferry_future *writable = ferry_engine_writable(te.engine);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(held);
    settle(&te);
    for (size_t i = 0; i < OPS; i++)
        ASSERT_STATUS(status_of(each[i]), i < ROOM ? FERRY_OK : FERRY_E_AGAIN);
    ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
    ferry_future_release(writable);
    ASSERT_STATUS(status_of(batch), FERRY_E_DEPENDENCY);
    batch = ferry_batch(te.engine, ops + ROOM, sizeof *ops, OPS - ROOM, NULL, NULL);
    settle(&te);
    ASSERT_STATUS(status_of(batch), FERRY_OK);
    test_engine_close(&te);
}

Test(limits, rows_that_could_never_have_room_are_invalid)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, 0, 0, 100);
    ferry_buffer *left = test_buffer(&te, 0, 1000, 1), *right = test_buffer(&te, 1, 1000, 2);
    ferry_span from = span_of(left, 0, 1), to = span_of(right, 0, 1);
    ASSERT_STATUS(status_of(ferry_copy_rows(te.engine, to, 2, from, 2, 51, NULL)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_copy_rows(te.engine, to, 2, from, 2, 50, NULL)), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_copy_rows(te.engine, to, 1, from, 1, 1000, NULL)), FERRY_OK);
    ferry_access access = {span_of(left, 500, 8), FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ASSERT_STATUS(status_of(ferry_copy_rows(te.engine, to, 2, from, 2, 6, &options)),
                  FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_copy_rows(te.engine, to, 2, from, 2, 5, &options)), FERRY_OK);
    ASSERT_STATUS(writable_now(&te), FERRY_OK);
    ferry_buffer_release(left);
    ferry_buffer_release(right);
    test_engine_close(&te);
}

/* ---- first use ---- */

typedef struct first_use {
    const test_engine *te;
    pthread_barrier_t *barrier;
    ferry_promise *promise;
} first_use;

static void *create_promise(void *arg)
{
    first_use *self = arg;
    (void)pthread_barrier_wait(self->barrier);
    ASSERT_STATUS(ferry_promise_create(self->te->engine, &self->promise), FERRY_OK);
    return NULL;
}

/* Nobody is refused because another thread is making the slots just now. */
Test(limits, as_many_threads_as_nodes_begin_at_once)
{
    enum { THREADS = 4 };
    for (int round = 0; round < 200; round++) {
        test_engine te;
        open_limited(&te, FERRY_LOOP_EMBEDDED, THREADS, 0, 0);
        pthread_barrier_t barrier;
        (void)pthread_barrier_init(&barrier, NULL, THREADS);
        pthread_t threads[THREADS];
        first_use users[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            users[i] = (first_use){.te = &te, .barrier = &barrier};
            cr_assert_eq(pthread_create(&threads[i], NULL, create_promise, &users[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            (void)pthread_join(threads[i], NULL);
            ferry_promise_release(users[i].promise);
        }
        (void)pthread_barrier_destroy(&barrier);
        test_engine_close(&te);
    }
}
