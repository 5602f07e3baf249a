/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of an engine: what is refused past each, what a refused write leaves behind, and that
 * ferry_engine_writable says when another try is worth while.
 */
#include "tests/support/play.h"

SCENE_SUITE(limits);

enum { FEW = 16 };

/* An engine with little room. */
static void begin(ferry_loop_mode loop, uint32_t max_nodes, uint64_t max_edges,
                  uint64_t max_accesses)
{
    ferry_engine_options *options = scene_options(loop);
    options->max_nodes = max_nodes;
    options->max_edges = max_edges;
    options->max_accesses = max_accesses;
}

/* A nop behind so many of the promises, from that one on; it is "it". */
static void nop_behind(const char *promises, int first, int count)
{
    ferry_future *after[64];
    for (int i = 0; i < count; i++)
        after[i] = ferry_promise_future(the_promise("%s%d", promises, first + i));
    ferry_op_options options = behind(after, (size_t)count);
    (void)scene_own_as(SCENE_FUTURE, ferry_nop(engine(), &options), "it");
    for (int i = 0; i < count; i++)
        ferry_future_release(after[i]);
}

/* ---- the bounds ---- */

typedef struct toucher {
    ferry_promise *promises[8192];
    size_t count;
    pthread_barrier_t barrier;
    pthread_mutex_t turn;
} toucher;

/* Takes every node there is. */
static void take(toucher *self)
{
    ferry_status status;
    while ((status = ferry_promise_create(engine(), &self->promises[self->count])) == FERRY_OK)
        cr_assert_lt(++self->count, 8192);
    ASSERT_STATUS(status, FERRY_E_AGAIN);
}

static void give(toucher *self)
{
    while (self->count > 0)
        ferry_promise_release(self->promises[--self->count]);
}

/* Leaves as much in its thread's caches as it can, and stays. */
static void *touch_all_nodes(void *arg)
{
    toucher *self = arg;
    (void)pthread_mutex_lock(&self->turn);
    take(self);
    give(self);
    (void)pthread_mutex_unlock(&self->turn);
    (void)pthread_barrier_wait(&self->barrier);
    (void)pthread_barrier_wait(&self->barrier);
    return NULL;
}

/* What other threads keep in their caches is not missing here. */
static void all_nodes_can_be_had(uint32_t max_nodes, unsigned thread_count)
{
    static toucher self = {.turn = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[16];
    begin(FERRY_LOOP_EMBEDDED, max_nodes, 0, 0);
    (void)engine(); /* this thread's */
    (void)pthread_barrier_init(&self.barrier, NULL, thread_count + 1);
    for (unsigned i = 0; i < thread_count; i++)
        threads[i] = begin_thread(touch_all_nodes, &self);
    (void)pthread_barrier_wait(&self.barrier);
    scene_settle();
    take(&self);
    cr_assert_geq(self.count, max_nodes);
    if (max_nodes < 1024)
        cr_assert_eq(self.count, max_nodes);
    else
        cr_assert_leq(self.count, max_nodes + max_nodes / 16 * (thread_count + 2));
    give(&self);
    (void)pthread_barrier_wait(&self.barrier);
    for (unsigned i = 0; i < thread_count; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&self.barrier);
    scene_end();
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
    begin(FERRY_LOOP_EMBEDDED, 0, 64, 64);
    play("buffer b 64 of 1; buffer other 64 of 2 on 1; promise p");
    ferry_future *after[17];
    for (size_t i = 0; i < 17; i++)
        after[i] = own(ferry_promise_future(the_promise("p")));
    ferry_op_options options = behind(after, 17);
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    EXPECT_NOW(own(ferry_future_all(engine(), after, 17)), E_INVALID);
    options.after_count = 16;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), PENDING);
    play("nop reads b[0:8] reads b[8:16] reads b[16:24] reads b[24:32] reads b[32:40]"
         " reads b[40:48] reads b[48:56]; now it INVALID;"
         "copy other <- b reads b[0:8] reads b[8:16] reads b[16:24] reads b[24:32]"
         " reads b[32:40] reads b[40:48]; now it OK; settle; writable; now it OK; keep p");
}

Test(limits, the_least_bounds_still_copy)
{
    begin(FERRY_LOOP_EMBEDDED, 1, 16, 16);
    play("buffer b 64 of 1; buffer other 64 of 2 on 1; promise p;"
         "copy other <- b after p; now it AGAIN;" /* the promise is the one node */
         "keep p; release p; settle; writable; now it OK; copy other <- b; now it OK;"
         "bytes other 1");
}

/* ---- writable: nodes ---- */

Test(limits, writable_at_once_if_nothing_was_refused)
{
    play("writable; now it OK; promise p; w = writable; now w OK");
    cr_assert_null(ferry_future_error(the_future("w")));
    play("keep p");
}

Test(limits, writable_when_a_node_is_free)
{
    begin(FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    cr_assert_eq(take_all_nodes(), FEW);
    play("w = writable; expect w PENDING");
    cr_assert_neq(ferry_future_id(the_future("w")), 0);
    play("nop; now it AGAIN; expect w PENDING");
    give_node();
    play("expect w OK; promise p; writable; now it OK");
}

/* Handles keep nodes; the last release comes from a thread that does nothing else. */
static void *release_elsewhere(void *arg)
{
    ferry_future_release(arg);
    return NULL;
}

Test(limits, writable_when_a_kept_future_is_released)
{
    begin(FERRY_LOOP_THREAD, FEW, 0, 0);
    ferry_future *kept = ferry_nop(engine(), NULL);
    WAIT(kept, OK);
    for (int i = 1; i < FEW; i++)
        play("kept%d = nop; wait kept%d OK", i, i);
    play("nop; now it AGAIN; w = writable");
    ASSERT_STATUS(ferry_future_wait(the_future("w"), 1000000), FERRY_PENDING);
    pthread_t thread = begin_thread(release_elsewhere, kept);
    play("wait w OK");
    (void)end_thread(thread);
    play("nop; wait it OK");
}

Test(limits, refused_writes_are_poisoned_until_the_retry)
{
    begin(FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    play("buffer b 64 of 1; buffer other 64 of 2 on 1");
    (void)take_all_nodes();
    play("copy other <- b; now it AGAIN; w = writable");
    give_node();
    give_node();
    play("wait w OK; r = nop reads other; expect r DEPENDENCY; cause r AGAIN; release r;"
         "copy other <- b; now it OK; release it; nop reads other; now it OK; bytes other 1");
}

/* ---- writable: edges ---- */

enum { EDGES = 64, WANTED = 5 };

/* Nops behind promises of their own, until all edges are taken. */
static void take_all_edges(void)
{
    begin(FERRY_LOOP_EMBEDDED, 0, EDGES, 0);
    for (int i = 0; i < EDGES; i++)
        play("promise head%d; held%d = nop after head%d; now held%d PENDING", i, i, i, i);
}

static void end_held(int first, int end)
{
    for (int i = first; i < end; i++)
        play("resolve head%d; expect held%d OK", i, i);
}

/* One of the five that it needs is of no use. */
Test(limits, writable_when_as_many_edges_are_free_as_were_lacking)
{
    take_all_edges();
    nop_behind("head", EDGES - WANTED, WANTED);
    play("now it AGAIN; w = writable");
    for (int i = 0; i < WANTED; i++) {
        scene_settle();
        /* What ends is a promise and a nop with one edge each. */
        if (2 * i < WANTED)
            play("now w PENDING");
        end_held(i, i + 1);
    }
    play("expect w OK");
    nop_behind("head", EDGES - WANTED, WANTED);
    play("now it PENDING");
    end_held(WANTED, EDGES);
    play("now it OK");
}

/* Its predecessors resolve: it needs no edges any more, though none came back. */
Test(limits, writable_when_what_it_waits_for_has_ended)
{
    take_all_edges();
    for (int i = 0; i < WANTED; i++)
        play("promise root%d", i);
    nop_behind("root", 0, WANTED);
    play("now it AGAIN; w = writable; expect w PENDING");
    for (int i = 0; i < WANTED; i++)
        play("resolve root%d", i);
    play("wait w OK");
    nop_behind("root", 0, WANTED);
    play("now it OK");
    end_held(0, EDGES);
}

/* Two were refused; room for the one must not wait for the other's. */
Test(limits, room_for_one_of_two_is_enough)
{
    take_all_edges();
    nop_behind("head", 0, 8);
    play("now it AGAIN; first = writable; expect first PENDING; nop after head63; now it AGAIN;"
         "second = writable");
    cr_assert_eq(the_future("first"), the_future("second"), "all share one");
    end_held(0, 1);
    play("expect second OK; retry = nop after head63; now retry PENDING");
    /* The other was told too, in vain, and asks again. */
    nop_behind("head", 4, 8);
    play("now it AGAIN; release first second; third = writable; expect third PENDING");
    end_held(1, EDGES);
    play("now third retry OK");
}

Test(limits, writable_can_be_waited_for_in_the_graph)
{
    take_all_edges();
    play("nop after head63; now it AGAIN; w = writable");
    end_held(0, 1); /* so that the two below have their edge, one after the other */
    play("now w OK; filler = nop after head63");
    nop_behind("head", 8, 2);
    play("now it AGAIN; release w; w = writable; now w PENDING;"
         "drained = drain"); /* waits for operations alone */
    end_held(1, EDGES);
    play("nop after w; now it drained filler OK");
}

/* ---- writable: accesses ---- */

enum { ACCESSES = 64, SLICES = ACCESSES, SLICE = 8 };

static void write_slices(ferry_loop_mode loop)
{
    begin(loop, 0, 0, ACCESSES);
    play("buffer b %d of 1", SLICES * SLICE);
    for (int i = 0; i < SLICES; i++)
        play("promise p%d; held%d = nop writes b[%d:%d] after p%d", i, i, i * SLICE,
             (i + 1) * SLICE, i);
}

static void end_slice(size_t i)
{
    play("keep p%zu; wait held%zu OK; release held%zu p%zu", i, i, i, i);
}

/* What was submitted before this call has entered, or was refused. */
static void let_enter(void)
{
    play("entered = nop; wait entered OK; release entered");
}

/* Refused as it enters: there is no room to list it beside what it must wait for. */
static void an_operation_that_finds_no_room_in_the_lists(ferry_loop_mode loop)
{
    write_slices(loop);
    int refusals = 0;
    size_t ended = 0;
    for (;;) {
        play("w = nop writes b");
        let_enter();
        while (ferry_future_poll(the_future("w")) == FERRY_PENDING && ended < SLICES)
            end_slice(ended++); /* it was not refused */
        ferry_status status = ferry_future_wait(the_future("w"), -1);
        play("release w");
        if (status == FERRY_OK)
            break;
        ASSERT_STATUS(status, FERRY_E_AGAIN);
        refusals++;
        play("room = writable");
        while (ferry_future_poll(the_future("room")) == FERRY_PENDING && ended < SLICES) {
            end_slice(ended++);
            let_enter();
        }
        play("wait room OK; release room"); /* or nobody is told: it hangs */
    }
    cr_assert_gt(refusals, 0, "%d slices are few", SLICES);
    cr_assert_leq(refusals, 12, "each try is worth something");
    while (ended < SLICES)
        end_slice(ended++);
    play("writable; now it OK; nop reads b; wait it OK"); /* the retry healed it */
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
    write_slices(FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 10; i++)
        play("write = nop writes b; dependent = nop after write; other = nop; expect write AGAIN;"
             "expect dependent DEPENDENCY; expect other OK; release write dependent other;"
             "settle; writable; now it PENDING; release it");
    for (size_t i = 0; i < SLICES; i++)
        end_slice(i);
    play("settle; writable; now it OK");
}

/* ---- batches and rows ---- */

Test(limits, a_batch_of_which_there_is_room_for_some)
{
    begin(FERRY_LOOP_EMBEDDED, 4, 0, 0); /* the promise, the batch's own, two operations */
    play("promise p; b = batch each nop , nop , nop , nop , nop , nop , with after p;"
         "now b0 b1 PENDING; now b2 b3 b4 b5 AGAIN; w = writable; expect w PENDING; keep p;"
         "release p; expect b0 b1 OK; now b2 b3 b4 b5 AGAIN; release b0 b1; wait w OK;"
         "now b DEPENDENCY; release b; batch nop , nop , nop , nop; expect it OK");
}

Test(limits, rows_that_could_never_have_room_are_invalid)
{
    begin(FERRY_LOOP_EMBEDDED, 0, 0, 100);
    play("buffer l 1000 of 1; buffer r 1000 of 2 on 1;"
         "rows 51 r[0:1] pitch 2 <- l[0:1] pitch 2; now it INVALID;"
         "rows 50 r[0:1] pitch 2 <- l[0:1] pitch 2; now it OK;"
         "rows 1000 r[0:1] pitch 1 <- l[0:1] pitch 1; now it OK;"
         "rows 6 r[0:1] pitch 2 <- l[0:1] pitch 2 reads l[500:508]; now it INVALID;"
         "rows 5 r[0:1] pitch 2 <- l[0:1] pitch 2 reads l[500:508]; now it OK;"
         "settle; writable; now it OK");
}

/* ---- first use ---- */

typedef struct first_use {
    pthread_barrier_t *barrier;
    ferry_promise *promise;
} first_use;

static void *create_promise(void *arg)
{
    first_use *self = arg;
    (void)pthread_barrier_wait(self->barrier);
    ASSERT_STATUS(ferry_promise_create(engine(), &self->promise), FERRY_OK);
    return NULL;
}

/* Nobody is refused because another thread is making the slots just now. */
Test(limits, as_many_threads_as_nodes_begin_at_once)
{
    enum { THREADS = 4 };
    for (int round = 0; round < 200; round++) {
        begin(FERRY_LOOP_EMBEDDED, THREADS, 0, 0);
        (void)engine(); /* this thread's */
        pthread_barrier_t barrier;
        (void)pthread_barrier_init(&barrier, NULL, THREADS);
        pthread_t threads[THREADS];
        first_use users[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            users[i] = (first_use){.barrier = &barrier};
            threads[i] = begin_thread(create_promise, &users[i]);
        }
        for (size_t i = 0; i < THREADS; i++) {
            (void)pthread_join(threads[i], NULL);
            (void)own(users[i].promise);
        }
        (void)pthread_barrier_destroy(&barrier);
        scene_end();
    }
}
