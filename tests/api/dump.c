/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_engine_dump: what it shows of each operation, and when it may be called. */
#include "tests/support/api_test.h"
#include "tests/support/dump_test.h"

#include <sys/wait.h>
#include <unistd.h>

TestSuite(dump, .timeout = HANG_S);

enum { SMALL = 8192 /* above the inline limit */ };

/* ---- the engine ---- */

static void check_engine(ferry_loop_mode loop, const char *mode)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, loop);
    options.max_nodes = 1000;
    options.watchdog_ns = 3600000000000;
    test_engine_create(&te, &options);
    json_t *whole = dump_json(te.engine);
    const json_t *engine = json_object_get(whole, "engine");
    ASSERT_WORD(engine, "mode", mode);
    ASSERT_WORD(engine, "version", ferry_version());
    cr_assert_gt(dump_number(engine, "id"), 0);
    cr_assert(json_is_false(json_object_get(engine, "closing")));
    cr_assert(json_is_false(json_object_get(engine, "stopped")));
    const json_t *limits = json_object_get(whole, "limits");
    cr_assert_eq(dump_number(limits, "max_nodes"), 1000);
    cr_assert_eq(dump_number(limits, "max_edges"), 12096);
    cr_assert_eq(dump_number(limits, "max_accesses"), 12096);
    cr_assert_eq(dump_number(limits, "max_tasks"), 65536);
    cr_assert_eq(dump_number(limits, "stream_depth"), 4096);
    cr_assert_eq(dump_number(limits, "submit_budget"), 64);
    cr_assert_eq(dump_number(limits, "watchdog_ns"), 3600000000000);
    const json_t *pools = json_object_get(whole, "pools");
    cr_assert_eq(dump_number(json_object_get(pools, "reserve"), "made"), 64);
    cr_assert_eq(dump_number(json_object_get(pools, "nodes"), "limit"), 1000);
    cr_assert_eq(json_object_size(pools), 7);
    const json_t *graph = json_object_get(whole, "graph");
    cr_assert_eq(dump_number(graph, "entering"), 0);
    cr_assert(json_is_false(json_object_get(graph, "starved")));
    const json_t *lanes = json_object_get(whole, "lanes");
    size_t lane_count = json_array_size(lanes);
    cr_assert(test_devices_are_hosts() ? lane_count == 4 : lane_count > 4); /* GPUs have several */
    for (size_t i = 0; i < lane_count; i++) {
        const json_t *lane = json_array_get(lanes, i);
        if (i < 4)
            ASSERT_WORD(lane, "device", ferry_device_name(ferry_device_at(te.engine, i)));
        cr_assert_eq(dump_number(lane, "in_flight") + dump_number(lane, "backlog"), 0);
    }
    cr_assert_eq(json_array_size(json_object_get(whole, "nodes")), 0);
    cr_assert_eq(json_array_size(json_object_get(whole, "promises")), 0);
    cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), 0);
    cr_assert_eq(json_array_size(json_object_get(whole, "not_quiet")), 0);
    cr_assert_eq(dump_total(whole, "nodes"), 0);
    json_decref(whole);
    test_engine_close(&te);
}

Test(dump, an_idle_engine_shows_its_facts)
{
    check_engine(FERRY_LOOP_THREAD, "thread");
}

Test(dump, an_idle_embedded_engine_shows_its_facts)
{
    check_engine(FERRY_LOOP_EMBEDDED, "embedded");
}

Test(dump, what_cannot_be_is_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    dump_text text = {0};
    ASSERT_STATUS(ferry_engine_dump(NULL, FERRY_DUMP_JSON, dump_take, &text), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_dump(te.engine, FERRY_DUMP_JSON, NULL, &text), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_dump(te.engine, (ferry_dump_format)2, dump_take, &text),
                  FERRY_E_INVALID);
    cr_assert_eq(text.pieces, 0);
    test_engine_close(&te);
}

Test(dump, a_forks_child_is_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    pid_t child = fork();
    if (child == 0) {
        dump_text text = {0};
        ferry_status status = ferry_engine_dump(te.engine, FERRY_DUMP_JSON, dump_take, &text);
        _exit(status == FERRY_E_FORKED && text.pieces == 0 ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    test_engine_close(&te);
}

/* ---- each state ---- */

Test(dump, a_promise_and_what_it_holds)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    stepped_clock_step(&te.time, 40);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    options.label = "weights";
    options.deadline_ns = START_NS + 1000;
    ferry_future *nop = ferry_nop(te.engine, &options);
    ferry_future *all = ferry_future_all(te.engine, &nop, 1);
    ferry_future *any = ferry_future_any(te.engine, (ferry_future *[]){nop, root}, 2);
    ferry_future *issued = ferry_future_issued(nop), *quiet = ferry_future_quiet(nop);
    ferry_future *drain = ferry_engine_drain(te.engine);
    stepped_clock_step(&te.time, 60);
    json_t *whole = dump_json(te.engine);

    const json_t *node = dump_of(whole, root);
    ASSERT_WORD(node, "kind", "promise");
    ASSERT_WORD(node, "state", "waiting");
    ASSERT_WORD(node, "waits_for", "outside");
    cr_assert_eq(dump_number(node, "age_ns"), 100);
    cr_assert_null(json_object_get(node, "waits"));
    cr_assert_eq(json_array_size(json_object_get(whole, "promises")), 1);

    node = dump_of(whole, nop);
    ASSERT_WORD(node, "kind", "nop");
    ASSERT_WORD(node, "label", "weights");
    ASSERT_WORD(node, "state", "waiting");
    ASSERT_WORD(node, "waits_for", "operations");
    cr_assert_eq(dump_number(node, "age_ns"), 60);
    cr_assert_eq(dump_number(node, "deadline_in_ns"), 900);
    cr_assert(dump_waits(node, root, "after/host"));
    cr_assert_null(json_object_get(node, "status"));
    cr_assert_null(json_object_get(node, "flags"));
    cr_assert_null(json_object_get(node, "device"));

    cr_assert(dump_waits(dump_of(whole, all), nop, "after/host"));
    cr_assert(dump_waits(dump_of(whole, any), nop, "any/host"));
    cr_assert(dump_waits(dump_of(whole, any), root, "any/host"));
    cr_assert(dump_waits(dump_of(whole, issued), nop, "issued/host"));
    cr_assert(dump_waits(dump_of(whole, quiet), nop, "quiet/host"));
    cr_assert(dump_waits(dump_of(whole, drain), nop, "before/host"));
    cr_assert_null(json_object_get(dump_of(whole, all), "label"));
    cr_assert_eq(dump_total(whole, "promises"), 1);
    cr_assert_eq(dump_total(whole, "nodes"), 6);
    cr_assert_eq(dump_total(whole, "waiting"), 6);
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "totals"), "cut")));
    json_decref(whole);

    keep_promise(promise, FERRY_OK);
    settle(&te);
    whole = dump_json(te.engine);
    cr_assert_eq(dump_total(whole, "nodes") + dump_total(whole, "promises"), 0);
    json_decref(whole);
    ferry_future *futures[] = {root, nop, all, any, issued, quiet, drain};
    for (size_t i = 0; i < sizeof futures / sizeof futures[0]; i++)
        ferry_future_release(futures[i]);
    test_engine_close(&te);
}

Test(dump, a_batch_and_its_operations)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT, late = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    late.deadline_ns = START_NS + 1000;
    ferry_op ops[4] = {{.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP, .options = &late}};
    ferry_future *each[4];
    ferry_future *all = ferry_batch(te.engine, ops, sizeof ops[0], 4, each, &options);
    ferry_future *blind = ferry_batch(te.engine, ops, sizeof ops[0], 4, NULL, &options);
    json_t *whole = dump_json(te.engine);
    const json_t *node = dump_of(whole, all);
    ASSERT_WORD(node, "kind", "batch");
    ASSERT_WORD(node, "waits_for", "operations");
    cr_assert_null(json_object_get(node, "waits"));
    cr_assert_eq(dump_number(node, "more"), 4);
    for (int i = 0; i < 4; i++)
        cr_assert_eq((uint64_t)dump_number(dump_of(whole, each[i]), "batch"), ferry_future_id(all));
    node = dump_of(whole, blind);
    cr_assert_null(json_object_get(node, "waits"));
    cr_assert_eq(dump_number(node, "more"), 4);
    cr_assert_null(json_object_get(node, "batch"));
    json_decref(whole);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    ASSERT_STATUS(status_of(blind), FERRY_OK);
    for (int i = 0; i < 4; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_OK);
    ferry_future_release(root);
    test_engine_close(&te);
}

Test(dump, copies_and_what_the_buffers_make_them_wait_for)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *a = test_buffer(&te, 0, SMALL, 1), *b = test_buffer(&te, 2, SMALL, 0);
    ferry_buffer *c = test_buffer(&te, 1, SMALL, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    ferry_future *held =
        copy_after_promise(&te, ferry_buffer_span(b), ferry_buffer_span(a), promise);
    ferry_future *reads = ferry_copy(te.engine, span_of(c, 0, 100), span_of(b, 50, 100), NULL);
    ferry_future *writes = ferry_copy(te.engine, span_of(a, 0, 100), span_of(c, 500, 100), NULL);
    ASSERT_STATUS(ferry_buffer_define(span_of(c, 50, 60), NULL), FERRY_OK);
    json_t *whole = dump_json(te.engine);

    const json_t *node = dump_of(whole, held);
    ASSERT_WORD(node, "kind", "copy");
    ASSERT_WORD(node, "device", ferry_device_name(test_device_that_copies(b, a)));
    cr_assert_eq(dump_number(node, "size_bytes"), SMALL);
    cr_assert(dump_waits(node, root, "after/host"));
    cr_assert(dump_waits(dump_of(whole, reads), held, "read/host"));
    cr_assert(dump_waits(dump_of(whole, writes), held, "order/host"));
    const json_t *define = json_array_get(json_object_get(whole, "nodes"), 3);
    ASSERT_WORD(define, "kind", "define");
    ASSERT_WORD(define, "device", ferry_device_name(ferry_buffer_device(c)));
    cr_assert_eq(dump_number(define, "size_bytes"), 60);
    cr_assert(dump_waits(define, reads, "order/host"));
    json_decref(whole);

    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(writes, -1), FERRY_OK);
    ferry_future_release(root);
    ferry_future_release(held);
    ferry_future_release(reads);
    ferry_future_release(writes);
    ferry_buffer_release(a);
    ferry_buffer_release(b);
    ferry_buffer_release(c);
    test_engine_close(&te);
}

Test(dump, functions_wait_for_the_loop_or_for_their_executor)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    static manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_future *plain = ferry_call(te.engine, NULL, count_call, &calls, NULL);
    ferry_future *posted = ferry_call(te.engine, &executor.executor, count_call, &calls, NULL);
    json_t *whole = dump_json(te.engine);
    ASSERT_WORD(dump_of(whole, plain), "state", "ready");
    ASSERT_WORD(dump_of(whole, plain), "waits_for", "loop");
    ASSERT_WORD(dump_of(whole, posted), "state", "ready");
    ASSERT_WORD(dump_of(whole, posted), "waits_for", "executor");
    json_decref(whole);
    settle(&te);
    cr_assert_eq(manual_waiting(&executor), 1);
    whole = dump_json(te.engine);
    cr_assert_null(dump_find(whole, ferry_future_id(plain)));
    ASSERT_WORD(dump_of(whole, posted), "state", "issued");
    ASSERT_WORD(dump_of(whole, posted), "waits_for", "executor");
    json_decref(whole);
    manual_run_one(&executor);
    settle(&te);
    ASSERT_STATUS(status_of(plain), FERRY_OK);
    ASSERT_STATUS(status_of(posted), FERRY_OK);
    test_engine_close(&te);
}

Test(dump, tasks_are_counted_those_that_were_not_there_too)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    static manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_future *futures[3];
    for (int i = 0; i < 3; i++)
        futures[i] = ferry_call(te.engine, &executor.executor, count_call, &calls, NULL);
    settle(&te);
    manual_run_one(&executor);
    ferry_task_run(executor.tasks[0]); /* once more */
    json_t *whole = dump_json(te.engine);
    cr_assert_eq(dump_number(json_object_get(whole, "tasks"), "posted"), 2);
    cr_assert_eq(dump_number(json_object_get(whole, "tasks"), "misrun"), 1);
    json_decref(whole);
    manual_run_one(&executor);
    manual_run_one(&executor);
    settle(&te);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(status_of(futures[i]), FERRY_OK);
    test_engine_close(&te);
}

/* A cancel goes over so many in pieces; between two of them the rest is there, and no more. */
Test(dump, a_batch_that_is_being_cancelled)
{
    enum { COUNT = 10000 };
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    static ferry_op ops[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_NOP};
    ferry_future *batch = ferry_batch(te.engine, ops, sizeof ops[0], COUNT, NULL, &options);
    settle(&te);
    ASSERT_STATUS(ferry_future_cancel(batch), FERRY_OK);
    (void)ferry_engine_progress(te.engine, 1);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_PENDING);
    json_t *whole = dump_json(te.engine);
    int64_t there = 0;
    size_t i;
    json_t *node;
    json_array_foreach(json_object_get(whole, "nodes"), i, node)
    {
        const json_t *of = json_object_get(node, "batch");
        there += of != NULL && (uint64_t)json_integer_value(of) == ferry_future_id(batch);
    }
    cr_assert_gt(there, 0);
    cr_assert_lt(there, COUNT);
    cr_assert_eq(dump_number(dump_of(whole, batch), "more"), there);
    json_decref(whole);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_CANCELLED);
    ferry_future_release(batch);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(root);
    test_engine_close(&te);
}

Test(dump, a_batch_and_the_operations_that_it_counts)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT, late = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    options.label = "of a batch";
    options.priority = FERRY_PRIORITY_HIGH;
    late.deadline_ns = START_NS + 1000;
    ferry_op ops[4] = {{.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP, .options = &late},
                       {.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP}};
    ferry_future *each[4];
    ferry_future *batch = ferry_batch(te.engine, ops, sizeof ops[0], 4, each, &options);
    json_t *whole = dump_json(te.engine);
    const json_t *node = dump_of(whole, batch);
    ASSERT_WORD(node, "kind", "batch");
    ASSERT_WORD(node, "state", "waiting");
    ASSERT_WORD(node, "waits_for", "operations");
    cr_assert_eq(dump_number(node, "more"), 4);
    for (int i = 0; i < 4; i++)
        cr_assert_eq((uint64_t)dump_number(dump_of(whole, each[i]), "batch"),
                     ferry_future_id(batch), "also of one with a deadline");
    node = dump_of(whole, each[0]);
    cr_assert_eq((uint64_t)dump_number(node, "batch"), ferry_future_id(batch));
    ASSERT_WORD(node, "priority", "high");
    ASSERT_WORD(node, "label", "of a batch");
    cr_assert(dump_waits(node, root, "after/host"));
    node = dump_of(whole, each[1]);
    cr_assert_eq((uint64_t)dump_number(node, "batch"), ferry_future_id(batch));
    cr_assert_eq(dump_number(node, "deadline_in_ns"), 1000);
    json_decref(whole);

    ASSERT_STATUS(ferry_future_cancel(each[0]), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_DEPENDENCY);
    whole = dump_json(te.engine);
    node = dump_of(whole, batch);
    ASSERT_WORD(node, "state", "resolved");
    ASSERT_WORD(node, "not_quiet", "operations");
    ASSERT_WORD(node, "waits_for", "operations");
    cr_assert_eq(dump_number(node, "more"), 3);
    json_decref(whole);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    for (int i = 0; i < 4; i++)
        ferry_future_release(each[i]);
    ferry_future_release(batch);
    ferry_future_release(root);
    test_engine_close(&te);
}

/* A function that has its engine dumped, and cancels itself first. */
typedef struct dumping_call {
    test_engine te;
    ferry_future *self;
    json_t *before, *after;
} dumping_call;

static ferry_status dump_in_function(void *arg)
{
    dumping_call *call = arg;
    call->before = dump_json(call->te.engine);
    (void)ferry_future_cancel(call->self);
    while (ferry_future_poll(call->self) == FERRY_PENDING)
        (void)ferry_engine_progress(call->te.engine, 0);
    call->after = dump_json(call->te.engine);
    return FERRY_OK;
}

Test(dump, a_function_that_was_cancelled_is_resolved_and_not_quiet)
{
    static dumping_call call;
    static manual_executor executor;
    test_engine_open(&call.te, FERRY_LOOP_EMBEDDED);
    manual_executor_init(&executor);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = "long one";
    call.self = ferry_call(call.te.engine, &executor.executor, dump_in_function, &call, &options);
    settle(&call.te);
    manual_run_one(&executor);
    settle(&call.te);

    const json_t *node = dump_of(call.before, call.self);
    ASSERT_WORD(node, "state", "issued");
    ASSERT_WORD(node, "waits_for", "function");
    node = dump_of(call.after, call.self);
    ASSERT_WORD(node, "state", "resolved");
    ASSERT_WORD(node, "status", "FERRY_E_CANCELLED");
    ASSERT_WORD(node, "not_quiet", "function");
    ASSERT_WORD(node, "label", "long one");
    cr_assert_eq(dump_total(call.after, "resolved"), 1);
    const json_t *not_quiet = json_object_get(call.after, "not_quiet");
    cr_assert_eq(json_array_size(not_quiet), 1);
    cr_assert_eq((uint64_t)json_integer_value(json_array_get(not_quiet, 0)),
                 ferry_future_id(call.self));
    json_decref(call.before);
    json_decref(call.after);
    ASSERT_STATUS(status_of(call.self), FERRY_E_CANCELLED);
    test_engine_close(&call.te);
}

Test(dump, what_is_quiet_and_still_orders_memory_is_shown_without_its_label)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    static manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_buffer *buffer = test_buffer(&te, 0, 100, 0);
    ferry_future *first =
        call_on(&te, &executor.executor, count_call, &calls, ferry_buffer_span(buffer), FERRY_READ);
    char label[] = "gone when quiet";
    ferry_access access = {ferry_buffer_span(buffer), FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    options.label = label;
    ferry_future *second = ferry_nop(te.engine, &options);
    settle(&te);
    ASSERT_STATUS(ferry_future_cancel(second), FERRY_OK);
    json_t *whole = dump_json(te.engine);
    cr_assert(dump_has_flag(dump_of(whole, second), "cancel_requested"));
    ASSERT_WORD(dump_of(whole, second), "label", "gone when quiet");
    json_decref(whole);
    settle(&te);
    whole = dump_json(te.engine);
    const json_t *node = dump_of(whole, second);
    ASSERT_WORD(node, "state", "quiet");
    ASSERT_WORD(node, "status", "FERRY_E_CANCELLED");
    cr_assert(dump_waits(node, first, "order/host"));
    cr_assert_null(json_object_get(node, "label"));
    cr_assert_null(json_object_get(node, "not_quiet"));
    json_decref(whole);
    manual_run_one(&executor);
    settle(&te);
    ferry_future_release(first);
    ferry_future_release(second);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
}

/* ---- poison ---- */

static const json_t *poison_at(const json_t *whole, size_t begin)
{
    size_t at;
    json_t *poison;
    json_array_foreach(json_object_get(whole, "poisoned"), at, poison)
    {
        if ((size_t)dump_number(poison, "begin") == begin)
            return poison;
    }
    return NULL;
}

Test(dump, poisoned_spans_name_who_is_to_blame_until_they_are_healed)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, 1000, 1), *dst = test_buffer(&te, 3, 1000, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *root = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    options.label = "shard \"7\"";
    ferry_future *copy =
        ferry_copy(te.engine, span_of(dst, 100, 50), span_of(src, 0, 50), &options);
    ferry_future *other = ferry_copy(te.engine, span_of(dst, 400, 50), span_of(src, 0, 50), NULL);
    ASSERT_STATUS(ferry_future_cancel(copy), FERRY_OK);
    settle(&te);
    json_t *whole = dump_json(te.engine);
    cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), 1);
    const json_t *poison = poison_at(whole, 100);
    cr_assert_not_null(poison);
    cr_assert_eq(dump_number(poison, "end"), 150);
    ASSERT_WORD(poison, "device", ferry_device_name(ferry_buffer_device(dst)));
    ASSERT_WORD(poison, "status", "FERRY_E_CANCELLED");
    ASSERT_WORD(poison, "label", "shard \"7\"");
    cr_assert_eq((uint64_t)dump_number(poison, "op"), ferry_future_id(copy));
    char address[32];
    (void)snprintf(address, sizeof address, "0x%llx",
                   (unsigned long long)(uintptr_t)ferry_buffer_data(dst));
    ASSERT_WORD(poison, "buffer", address);
    json_decref(whole);

    ASSERT_STATUS(ferry_buffer_define(span_of(dst, 110, 10), NULL), FERRY_OK);
    whole = dump_json(te.engine);
    cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), 2);
    cr_assert_eq(dump_number(poison_at(whole, 100), "end"), 110);
    cr_assert_eq(dump_number(poison_at(whole, 120), "end"), 150);
    json_decref(whole);

    ASSERT_STATUS(ferry_buffer_define(span_of(dst, 0, 1000), NULL), FERRY_OK);
    whole = dump_json(te.engine);
    cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), 0);
    json_decref(whole);
    ASSERT_STATUS(status_of(other), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(root);
    ferry_future_release(copy);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

Test(dump, poison_goes_with_its_buffer)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    enum { BUFFERS = 5 };
    ferry_promise *promise = test_promise(&te);
    ferry_buffer *buffers[BUFFERS];
    for (size_t i = 0; i < BUFFERS; i++) {
        ferry_future *future = ferry_promise_future(promise);
        buffers[i] = test_buffer(&te, 0, 100 + i, 0);
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(buffers[i]), future), FERRY_OK);
        ferry_future_release(future);
    }
    keep_promise(promise, FERRY_E_FAILED);
    static const size_t order[BUFFERS] = {2, 0, 4, 1, 3}; /* amidst, and at both ends */
    for (size_t i = 0; i <= BUFFERS; i++) {
        settle(&te);
        json_t *whole = dump_json(te.engine);
        cr_assert_eq(json_array_size(json_object_get(whole, "poisoned")), BUFFERS - i);
        json_decref(whole);
        if (i < BUFFERS)
            ferry_buffer_release(buffers[order[i]]);
    }
    test_engine_close(&te);
}

Test(dump, many_poisoned_spans_are_all_shown)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    enum { SPANS = 3000 };
    ferry_buffer *buffer = test_buffer(&te, 0, 2 * SPANS, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    for (size_t i = 0; i < SPANS; i++)
        ASSERT_STATUS(ferry_buffer_define(span_of(buffer, 2 * i, 1), future), FERRY_OK);
    keep_promise(promise, FERRY_E_FAILED);
    settle(&te);
    json_t *whole = dump_json(te.engine);
    const json_t *poisoned = json_object_get(whole, "poisoned");
    cr_assert_eq(json_array_size(poisoned), SPANS);
    for (size_t i = 0; i < SPANS; i++)
        cr_assert_eq(dump_number(json_array_get(poisoned, i), "begin"), (json_int_t)(2 * i));
    json_decref(whole);
    ferry_future_release(future);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
}

/* ---- labels ---- */

static void check_label(const test_engine *te, ferry_promise *promise, const char *label,
                        const char *expected)
{
    ferry_future *root = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    options.label = label;
    ferry_future *nop = ferry_nop(te->engine, &options);
    json_t *whole = dump_json(te->engine);
    ASSERT_WORD(dump_of(whole, nop), "label", expected);
    json_decref(whole);
    ferry_future_release(root);
    ferry_future_release(nop);
}

#define FFFD "\xEF\xBF\xBD"

Test(dump, labels_may_hold_anything)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    static const char *const same[] = {"",
                                       "a \"quoted\" one",
                                       "back\\slash\\",
                                       "a\nb\tc\x01\x1f\x7f",
                                       "\u00e9\u20ac\U0001F680",
                                       "/* </script> & */"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        check_label(&te, promise, same[i], same[i]);
    static const char *const changed[][2] = {
        {"\xff\xfe", FFFD FFFD},
        {"a\x80z", "a" FFFD "z"},
        {"\xc0\xaf", FFFD FFFD},                   /* overlong */
        {"\xe0\x80\xaf", FFFD FFFD FFFD},          /* overlong */
        {"\xed\xa0\x80", FFFD FFFD FFFD},          /* a surrogate */
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* above U+10FFFF */
        {"\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD},
        {"cut \xe2\x82", "cut " FFFD FFFD},
        {"\xe2\"", FFFD "\""},
    };
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        check_label(&te, promise, changed[i][0], changed[i][1]);

    char longer[300], expected[128];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    memcpy(expected, longer, 127);
    expected[127] = '\0';
    check_label(&te, promise, longer, expected);
    memcpy(longer + 125, "\u20ac", 3); /* cut in its midst */
    expected[125] = '\0';
    check_label(&te, promise, longer, expected);
    memset(longer, 0x80, sizeof longer - 1); /* no character begins anywhere */
    ferry_future *root = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &root;
    options.after_count = 1;
    options.label = longer;
    ferry_future *nop = ferry_nop(te.engine, &options);
    json_decref(dump_json(te.engine));
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ferry_future_release(root);
    ferry_future_release(nop);
    test_engine_close(&te);
}
