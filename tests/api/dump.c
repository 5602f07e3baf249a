/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_engine_dump: what it shows of each operation, and when it may be called. */
#include "tests/support/dump_test.h"
#include "tests/support/play.h"

#include <sys/wait.h>
#include <unistd.h>

SCENE_SUITE(dump);

enum { SMALL = 8192 /* above the inline limit */ };

/* ---- the engine ---- */

/* The state of an operation, what it waits for, and what its memory does. */
static void assert_state(const json_t *whole, const char *name, const char *state,
                         const char *waits_for)
{
    const json_t *node = dump_of(whole, the_future("%s", name));
    ASSERT_WORD(node, "state", state);
    ASSERT_WORD(node, "waits_for", waits_for);
}

static bool waits(const json_t *whole, const char *name, const char *other, const char *how)
{
    return dump_waits(dump_of(whole, the_future("%s", name)), the_future("%s", other), how);
}

static uint64_t batch_of(const json_t *whole, const char *name)
{
    return (uint64_t)dump_number(dump_of(whole, the_future("%s", name)), "batch");
}

static void check_engine(ferry_loop_mode loop, const char *mode)
{
    ferry_engine_options *options = scene_options(loop);
    options->max_nodes = 1000;
    options->watchdog_ns = 3600000000000;
    const json_t *whole = dump_now(engine());
    const json_t *facts = json_object_get(whole, "engine");
    ASSERT_WORD(facts, "mode", mode);
    ASSERT_WORD(facts, "version", ferry_version());
    cr_assert_gt(dump_number(facts, "id"), 0);
    cr_assert(json_is_false(json_object_get(facts, "closing")));
    cr_assert(json_is_false(json_object_get(facts, "stopped")));
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
    cr_assert_eq(json_object_size(pools), 8);
    const json_t *graph = json_object_get(whole, "graph");
    cr_assert_eq(dump_number(graph, "entering"), 0);
    cr_assert(json_is_false(json_object_get(graph, "starved")));
    const json_t *lanes = json_object_get(whole, "lanes");
    size_t lane_count = json_array_size(lanes);
    cr_assert(test_devices_are_hosts() ? lane_count == 4 : lane_count > 4); /* GPUs have several */
    for (size_t i = 0; i < lane_count; i++) {
        const json_t *lane = json_array_get(lanes, i);
        if (i < 4)
            ASSERT_WORD(lane, "device", ferry_device_name(ferry_device_at(engine(), i)));
        cr_assert_eq(dump_number(lane, "in_flight") + dump_number(lane, "backlog"), 0);
    }
    cr_assert_eq(dump_count(whole, "nodes"), 0);
    cr_assert_eq(dump_count(whole, "promises"), 0);
    cr_assert_eq(dump_count(whole, "poisoned"), 0);
    cr_assert_eq(dump_count(whole, "not_quiet"), 0);
    cr_assert_eq(dump_total(whole, "nodes"), 0);
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
    dump_text text = {0};
    ASSERT_STATUS(ferry_engine_dump(NULL, FERRY_DUMP_JSON, dump_take, &text), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, NULL, &text), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_dump(engine(), (ferry_dump_format)2, dump_take, &text),
                  FERRY_E_INVALID);
    cr_assert_eq(text.pieces, 0);
}

Test(dump, a_forks_child_is_refused)
{
    (void)engine(); /* the parent's */
    pid_t child = fork();
    if (child == 0) {
        dump_text text = {0};
        ferry_status status = ferry_engine_dump(engine(), FERRY_DUMP_JSON, dump_take, &text);
        _exit(status == FERRY_E_FORKED && text.pieces == 0 ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

/* ---- each state ---- */

Test(dump, a_promise_and_what_it_holds)
{
    play("promise p; step 40; n = nop after p label weights deadline 1000;"
         "a = all n; o = any n p; i = issued n; q = quiet n; d = drain; step 60");
    ferry_future *root = own(ferry_promise_future(the_promise("p"))), *nop = the_future("n");
    const json_t *whole = dump_now(engine());
    const json_t *node = dump_of(whole, root);
    ASSERT_WORD(node, "kind", "promise");
    ASSERT_WORD(node, "state", "waiting");
    ASSERT_WORD(node, "waits_for", "outside");
    cr_assert_eq(dump_number(node, "age_ns"), 100);
    cr_assert_null(json_object_get(node, "waits"));
    cr_assert_eq(dump_count(whole, "promises"), 1);

    assert_state(whole, "n", "waiting", "operations");
    node = dump_of(whole, nop);
    ASSERT_WORD(node, "kind", "nop");
    ASSERT_WORD(node, "label", "weights");
    cr_assert_eq(dump_number(node, "age_ns"), 60);
    cr_assert_eq(dump_number(node, "deadline_in_ns"), 900);
    cr_assert(dump_waits(node, root, "after/host"));
    cr_assert_null(json_object_get(node, "status"));
    cr_assert_null(json_object_get(node, "flags"));
    cr_assert_null(json_object_get(node, "device"));

    cr_assert(waits(whole, "a", "n", "after/host"));
    cr_assert(waits(whole, "o", "n", "any/host"));
    cr_assert(dump_waits(dump_of(whole, the_future("o")), root, "any/host"));
    cr_assert(waits(whole, "i", "n", "issued/host"));
    cr_assert(waits(whole, "q", "n", "quiet/host"));
    cr_assert(waits(whole, "d", "n", "before/host"));
    cr_assert_null(json_object_get(dump_of(whole, the_future("a")), "label"));
    cr_assert_eq(dump_total(whole, "promises"), 1);
    cr_assert_eq(dump_total(whole, "nodes"), 6);
    cr_assert_eq(dump_total(whole, "waiting"), 6);
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "totals"), "cut")));

    play("keep p; settle");
    whole = dump_now(engine());
    cr_assert_eq(dump_total(whole, "nodes") + dump_total(whole, "promises"), 0);
}

Test(dump, a_batch_and_its_operations)
{
    play("promise p; all = batch each nop , nop , nop , nop deadline 1000 , with after p;"
         "blind = batch nop , nop , nop , nop deadline 1000 , with after p");
    const json_t *whole = dump_now(engine());
    const json_t *node = dump_of(whole, the_future("all"));
    ASSERT_WORD(node, "kind", "batch");
    ASSERT_WORD(node, "waits_for", "operations");
    cr_assert_null(json_object_get(node, "waits"));
    cr_assert_eq(dump_number(node, "more"), 4);
    static const char *const each[] = {"all0", "all1", "all2", "all3"};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(batch_of(whole, each[i]), ferry_future_id(the_future("all")));
    node = dump_of(whole, the_future("blind"));
    cr_assert_null(json_object_get(node, "waits"));
    cr_assert_eq(dump_number(node, "more"), 4);
    cr_assert_null(json_object_get(node, "batch"));
    play("keep p; expect all blind all0 all1 all2 all3 OK");
}

Test(dump, copies_and_what_the_buffers_make_them_wait_for)
{
    play("buffer a 8192 of 1; buffer b 8192 on 2; buffer c 8192 on 1; promise p;"
         "held = copy b <- a after p; reads = copy c[0:100] <- b[50:150];"
         "writes = copy a[0:100] <- c[500:600]; define c[50:110]");
    const json_t *whole = dump_now(engine());
    const json_t *node = dump_of(whole, the_future("held"));
    ASSERT_WORD(node, "kind", "copy");
    ASSERT_WORD(node, "device",
                ferry_device_name(test_device_that_copies(the_buffer("b"), the_buffer("a"))));
    cr_assert_eq(dump_number(node, "size_bytes"), SMALL);
    cr_assert(dump_waits(node, own(ferry_promise_future(the_promise("p"))), "after/host"));
    cr_assert(waits(whole, "reads", "held", "read/host"));
    cr_assert(waits(whole, "writes", "held", "order/host"));
    const json_t *define = json_array_get(json_object_get(whole, "nodes"), 3);
    ASSERT_WORD(define, "kind", "define");
    ASSERT_WORD(define, "device", ferry_device_name(ferry_buffer_device(the_buffer("c"))));
    cr_assert_eq(dump_number(define, "size_bytes"), 60);
    cr_assert(dump_waits(define, the_future("reads"), "order/host"));
    play("keep p; wait writes OK");
}

Test(dump, functions_wait_for_the_loop_or_for_their_executor)
{
    play("plain = call; posted = call by hand");
    const json_t *whole = dump_now(engine());
    assert_state(whole, "plain", "ready", "loop");
    assert_state(whole, "posted", "ready", "executor");
    play("posted 1");
    whole = dump_now(engine());
    cr_assert_null(dump_find(whole, ferry_future_id(the_future("plain"))));
    assert_state(whole, "posted", "issued", "executor");
    play("run; expect plain posted OK");
}

Test(dump, tasks_are_counted_those_that_were_not_there_too)
{
    play("f0 = call by hand; f1 = call by hand; f2 = call by hand; settle");
    manual_run_one(by_hand());
    ferry_task_run(by_hand()->tasks[0]); /* once more */
    const json_t *tasks = json_object_get(dump_now(engine()), "tasks");
    cr_assert_eq(dump_number(tasks, "posted"), 2);
    cr_assert_eq(dump_number(tasks, "misrun"), 1);
    play("run 2; expect f0 f1 f2 OK");
}

/* A cancel goes over so many in pieces; between two of them the rest is there, and no more. */
Test(dump, a_batch_that_is_being_cancelled)
{
    enum { COUNT = 10000 };
    static ferry_op ops[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_NOP};
    play("promise p");
    ferry_future *root = own(ferry_promise_future(the_promise("p")));
    ferry_op_options options = behind(&root, 1);
    ferry_future *batch = own(ferry_batch(engine(), ops, sizeof ops[0], COUNT, NULL, &options));
    scene_settle();
    ASSERT_STATUS(ferry_future_cancel(batch), FERRY_OK);
    (void)ferry_engine_progress(engine(), 1);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_PENDING);
    const json_t *whole = dump_now(engine());
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
    EXPECT(batch, E_CANCELLED);
}

Test(dump, a_batch_and_the_operations_that_it_counts)
{
    play("promise p; all = batch each nop , nop deadline 1000 , nop , nop ,"
         " with after p label batch priority high");
    const json_t *whole = dump_now(engine());
    const json_t *node = dump_of(whole, the_future("all"));
    ASSERT_WORD(node, "kind", "batch");
    assert_state(whole, "all", "waiting", "operations");
    cr_assert_eq(dump_number(node, "more"), 4);
    node = dump_of(whole, the_future("all0"));
    cr_assert_eq(batch_of(whole, "all0"), ferry_future_id(the_future("all")));
    ASSERT_WORD(node, "priority", "high");
    ASSERT_WORD(node, "label", "batch");
    cr_assert(dump_waits(node, own(ferry_promise_future(the_promise("p"))), "after/host"));
    cr_assert_eq(batch_of(whole, "all1"), ferry_future_id(the_future("all")));
    cr_assert_eq(dump_number(dump_of(whole, the_future("all1")), "deadline_in_ns"), 1000);

    play("cancel all0; expect all DEPENDENCY");
    whole = dump_now(engine());
    assert_state(whole, "all", "resolved", "operations");
    node = dump_of(whole, the_future("all"));
    ASSERT_WORD(node, "not_quiet", "operations");
    cr_assert_eq(dump_number(node, "more"), 3);
    play("keep p");
}

/* A function that has its engine dumped, and cancels itself first. */
typedef struct dumping_call {
    ferry_future *self;
    json_t *before, *after;
} dumping_call;

static ferry_status dump_in_function(void *arg)
{
    dumping_call *call = arg;
    call->before = dump_json(engine());
    (void)ferry_future_cancel(call->self);
    while (ferry_future_poll(call->self) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 0);
    call->after = dump_json(engine());
    return FERRY_OK;
}

Test(dump, a_function_that_was_cancelled_is_resolved_and_not_quiet)
{
    static dumping_call call;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = "long one";
    call.self = own(ferry_call(engine(), &by_hand()->executor, dump_in_function, &call, &options));
    play("run");

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
    EXPECT(call.self, E_CANCELLED);
}

Test(dump, what_is_quiet_and_still_orders_memory_is_shown_without_its_label)
{
    play("buffer b 100; first = call by hand reads b; second = nop writes b label until_quiet;"
         "settle; cancel second");
    const json_t *whole = dump_now(engine());
    cr_assert(dump_has_flag(dump_of(whole, the_future("second")), "cancel_requested"));
    ASSERT_WORD(dump_of(whole, the_future("second")), "label", "until_quiet");
    scene_settle();
    whole = dump_now(engine());
    const json_t *node = dump_of(whole, the_future("second"));
    ASSERT_WORD(node, "state", "quiet");
    ASSERT_WORD(node, "status", "FERRY_E_CANCELLED");
    cr_assert(waits(whole, "second", "first", "order/host"));
    cr_assert_null(json_object_get(node, "label"));
    cr_assert_null(json_object_get(node, "not_quiet"));
    play("run");
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
    play("buffer src 1000 of 1; buffer dst 1000 on 3; promise p;"
         "c = copy dst[100:150] <- src[0:50] after p label shard_\"7\";"
         "other = copy dst[400:450] <- src[0:50]; cancel c; settle");
    ferry_buffer *dst = the_buffer("dst");
    const json_t *whole = dump_now(engine());
    cr_assert_eq(dump_count(whole, "poisoned"), 1);
    const json_t *poison = poison_at(whole, 100);
    cr_assert_not_null(poison);
    cr_assert_eq(dump_number(poison, "end"), 150);
    ASSERT_WORD(poison, "device", ferry_device_name(ferry_buffer_device(dst)));
    ASSERT_WORD(poison, "status", "FERRY_E_CANCELLED");
    ASSERT_WORD(poison, "label", "shard_\"7\"");
    cr_assert_eq((uint64_t)dump_number(poison, "op"), ferry_future_id(the_future("c")));
    char address[32];
    (void)snprintf(address, sizeof address, "0x%llx",
                   (unsigned long long)(uintptr_t)ferry_buffer_data(dst));
    ASSERT_WORD(poison, "buffer", address);

    play("define dst[110:120]");
    whole = dump_now(engine());
    cr_assert_eq(dump_count(whole, "poisoned"), 2);
    cr_assert_eq(dump_number(poison_at(whole, 100), "end"), 110);
    cr_assert_eq(dump_number(poison_at(whole, 120), "end"), 150);
    play("define dst");
    cr_assert_eq(dump_count(dump_now(engine()), "poisoned"), 0);
    play("expect other OK; keep p");
}

Test(dump, poison_goes_with_its_buffer)
{
    enum { BUFFERS = 5 };
    play("promise p");
    for (int i = 0; i < BUFFERS; i++)
        play("buffer b%d %d; define b%d by p", i, 100 + i, i);
    play("keep p FAILED; release p");
    static const int order[BUFFERS] = {2, 0, 4, 1, 3}; /* amidst, and at both ends */
    for (size_t i = 0; i <= BUFFERS; i++) {
        scene_settle();
        cr_assert_eq(dump_count(dump_now(engine()), "poisoned"), BUFFERS - i);
        if (i < BUFFERS)
            play("release b%d", order[i]);
    }
}

Test(dump, many_poisoned_spans_are_all_shown)
{
    enum { SPANS = 3000 };
    play("promise p; buffer b %d", 2 * SPANS);
    for (int i = 0; i < SPANS; i++)
        play("define b[%d:%d] by p", 2 * i, 2 * i + 1);
    play("keep p FAILED; settle");
    const json_t *poisoned = json_object_get(dump_now(engine()), "poisoned");
    cr_assert_eq(json_array_size(poisoned), SPANS);
    for (size_t i = 0; i < SPANS; i++)
        cr_assert_eq(dump_number(json_array_get(poisoned, i), "begin"), (json_int_t)(2 * i));
}

/* ---- labels ---- */

/* An operation that waits, whose label is in the dump as expected; NULL: there is one. */
static void check_label(const char *label, const char *expected)
{
    ferry_future *root = own(ferry_promise_future(the_promise("p")));
    ferry_op_options options = behind(&root, 1);
    options.label = label;
    ferry_future *nop = own(ferry_nop(engine(), &options));
    const json_t *whole = dump_now(engine());
    if (expected != NULL)
        ASSERT_WORD(dump_of(whole, nop), "label", expected);
}

#define FFFD "\xEF\xBF\xBD"

Test(dump, labels_may_hold_anything)
{
    play("promise p");
    static const char *const same[] = {"",
                                       "a \"quoted\" one",
                                       "back\\slash\\",
                                       "a\nb\tc\x01\x1f\x7f",
                                       "\u00e9\u20ac\U0001F680",
                                       "/* </script> & */"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        check_label(same[i], same[i]);
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
        check_label(changed[i][0], changed[i][1]);

    char longer[300], expected[128];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    memcpy(expected, longer, 127);
    expected[127] = '\0';
    check_label(longer, expected);
    memcpy(longer + 125, "\u20ac", 3); /* cut in its midst */
    expected[125] = '\0';
    check_label(longer, expected);
    memset(longer, 0x80, sizeof longer - 1); /* no character begins anywhere */
    check_label(longer, NULL);
    scene_end(); /* before its label goes */
}
