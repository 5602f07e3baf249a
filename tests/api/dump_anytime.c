/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_engine_dump from everywhere, of much, without memory, during and after the shutdown; DOT.
 */
#include "tests/support/dump_test.h"
#include "tests/support/play.h"

#include <ctype.h>
#include <unistd.h>

SCENE_SUITE(dump_anytime);

/* ---- much ---- */

static void check_many(ferry_loop_mode loop)
{
    enum { NODES = 3000, PROMISES = 700 };
    static ferry_future *futures[NODES];
    static ferry_promise *promises[PROMISES];
    (void)scene_options(loop);
    for (int i = 0; i < PROMISES; i++)
        promises[i] = test_promise(scene());
    for (int i = 0; i < NODES; i++)
        futures[i] = nop_after_promise(scene(), promises[i % PROMISES]);
    dump_text text = {0};
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, dump_take, &text), FERRY_OK);
    cr_assert_gt(text.pieces, 10, "it comes in pieces");
    json_t *whole = dump_parse(&text);
    const json_t *nodes = json_object_get(whole, "nodes");
    const json_t *listed = json_object_get(whole, "promises");
    cr_assert_eq(json_array_size(nodes), NODES);
    cr_assert_eq(json_array_size(listed), PROMISES);
    for (size_t i = 0; i < NODES; i++)
        cr_assert_eq((uint64_t)dump_number(json_array_get(nodes, i), "id"),
                     ferry_future_id(futures[i]), "program order");
    for (size_t i = 1; i < PROMISES; i++)
        cr_assert_lt(dump_number(json_array_get(listed, i - 1), "id"),
                     dump_number(json_array_get(listed, i), "id"), "oldest first");
    json_decref(whole);
    dump_free(&text);
    for (int i = 0; i < PROMISES; i++)
        keep_promise(promises[i], FERRY_OK);
    for (int i = 0; i < NODES; i++) {
        ASSERT_STATUS(ferry_future_wait(futures[i], -1), FERRY_OK);
        ferry_future_release(futures[i]);
    }
}

Test(dump_anytime, many_operations_each_once_and_in_order)
{
    check_many(FERRY_LOOP_THREAD);
}

Test(dump_anytime, many_operations_embedded_without_progress)
{
    check_many(FERRY_LOOP_EMBEDDED);
}

Test(dump_anytime, of_many_edges_it_names_those_that_still_hold)
{
    enum { PARTS = 10000 };
    static ferry_future *parts[PARTS];
    static ferry_promise *promises[PARTS];
    for (int i = 0; i < PARTS; i++) {
        promises[i] = test_promise(scene());
        parts[i] = ferry_promise_future(promises[i]);
    }
    ferry_future *all = ferry_future_all(engine(), parts, PARTS);
    ferry_future *nop = nop_after(scene(), parts[0]);
    json_t *whole = dump_json(engine());
    const json_t *node = dump_of(whole, all);
    cr_assert_eq(json_array_size(json_object_get(node, "waits")), 8);
    cr_assert_eq(dump_number(node, "more"), PARTS - 8);
    cr_assert(dump_waits(dump_of(whole, nop), parts[0], "after/host"));
    cr_assert_eq(dump_total(whole, "nodes"), 2);
    json_decref(whole);
    for (int i = 1; i < PARTS; i++)
        keep_promise(promises[i], FERRY_OK);
    scene_settle();
    whole = dump_json(engine());
    node = dump_of(whole, all);
    cr_assert_eq(json_array_size(json_object_get(node, "waits")), 1, "the one among so many");
    cr_assert(dump_waits(node, parts[0], "after/host"));
    cr_assert_null(json_object_get(node, "more"));
    json_decref(whole);
    keep_promise(promises[0], FERRY_OK);
    scene_settle();
    for (int i = 0; i < PARTS; i++)
        ferry_future_release(parts[i]);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
}

/* ---- while it writes ---- */

typedef struct meddler {
    test_engine te;
    dump_text text;
    ferry_promise *promise;
    ferry_status nested;
    ferry_future *all;
    void (*act)(struct meddler *self);
    const char *act_at_word; /* once this has been written */
} meddler;

static void meddle(void *arg, const char *bytes, size_t size_bytes)
{
    meddler *self = arg;
    dump_take(&self->text, bytes, size_bytes);
    if (self->act != NULL && strstr(self->text.bytes, self->act_at_word) != NULL) {
        void (*act)(meddler * self) = self->act;
        self->act = NULL;
        act(self);
    }
}

static void dump_again(meddler *self)
{
    dump_text text = {0};
    self->nested = ferry_engine_dump(self->te.engine, FERRY_DUMP_DOT, dump_take, &text);
    cr_assert_eq(text.pieces, 0);
}

Test(dump_anytime, one_at_a_time)
{
    static meddler self;
    test_engine_open(&self.te, FERRY_LOOP_THREAD);
    self.act = dump_again;
    self.act_at_word = "";
    ASSERT_STATUS(ferry_engine_dump(self.te.engine, FERRY_DUMP_JSON, meddle, &self), FERRY_OK);
    ASSERT_STATUS(self.nested, FERRY_E_BUSY);
    json_decref(dump_parse(&self.text));
    dump_free(&self.text);
    json_decref(dump_json(self.te.engine));
    test_engine_close(&self.te);
}

static void end_everything(meddler *self)
{
    keep_promise(self->promise, FERRY_OK);
    settle(&self->te);
}

static void submit_more(meddler *self)
{
    stepped_clock_step(&self->te.time, 1);
    for (int i = 0; i < 1000; i++)
        ferry_future_release(nop_after_promise(&self->te, self->promise));
}

/* Holds nodes, meddles midway, and gives the operations shown. */
static size_t shown_of(void (*act)(meddler *self), size_t nodes)
{
    static meddler self;
    memset(&self, 0, sizeof self);
    test_engine_open(&self.te, FERRY_LOOP_EMBEDDED);
    self.promise = test_promise(&self.te);
    self.act = act;
    self.act_at_word = "\"nodes\":[";
    for (size_t i = 0; i < nodes; i++)
        ferry_future_release(nop_after_promise(&self.te, self.promise));
    ASSERT_STATUS(ferry_engine_dump(self.te.engine, FERRY_DUMP_JSON, meddle, &self), FERRY_OK);
    json_t *whole = dump_parse(&self.text);
    size_t shown = json_array_size(json_object_get(whole, "nodes"));
    cr_assert_eq(shown, (size_t)dump_total(whole, "nodes"));
    json_decref(whole);
    dump_free(&self.text);
    if (act != end_everything)
        end_everything(&self);
    test_engine_close(&self.te);
    return shown;
}

Test(dump_anytime, what_ends_meanwhile_is_left_out)
{
    size_t shown = shown_of(end_everything, 3000);
    cr_assert(shown > 0 && shown < 3000, "%zu", shown);
}

Test(dump_anytime, what_comes_meanwhile_is_left_out)
{
    cr_assert_eq(shown_of(submit_more, 3000), 3000);
}

static void cancel_all(meddler *self)
{
    ASSERT_STATUS(ferry_future_cancel(self->all), FERRY_OK);
    settle(&self->te);
    ASSERT_STATUS(ferry_future_poll(self->all), FERRY_E_CANCELLED);
}

/* An operation of more edges than one look takes ends between two looks: it is the last of the
 * first slice of operations, and what is before it is being written. */
Test(dump_anytime, the_one_it_is_at_may_end)
{
    enum { BEFORE = 100, PARTS = 5000 };
    static meddler self;
    static ferry_future *parts[PARTS];
    static ferry_promise *promises[PARTS];
    test_engine_open(&self.te, FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < PARTS; i++) {
        promises[i] = test_promise(&self.te);
        parts[i] = ferry_promise_future(promises[i]);
    }
    for (int i = 0; i < BEFORE; i++)
        ferry_future_release(nop_after(&self.te, parts[0]));
    self.all = ferry_future_all(self.te.engine, parts, PARTS);
    ferry_future *last = nop_after(&self.te, parts[0]);
    self.act = cancel_all;
    self.act_at_word = "\"nodes\":[";
    ASSERT_STATUS(ferry_engine_dump(self.te.engine, FERRY_DUMP_JSON, meddle, &self), FERRY_OK);
    json_t *whole = dump_parse(&self.text);
    ASSERT_WORD(dump_of(whole, self.all), "state", "waiting");
    cr_assert_eq(dump_number(dump_of(whole, self.all), "more"), 2048 - BEFORE - 8,
                 "what was seen of it");
    cr_assert(dump_waits(dump_of(whole, last), parts[0], "after/host"));
    cr_assert_eq(dump_total(whole, "nodes"), BEFORE + 2);
    json_decref(whole);
    dump_free(&self.text);
    for (int i = 0; i < PARTS; i++) {
        keep_promise(promises[i], FERRY_OK);
        ferry_future_release(parts[i]);
    }
    settle(&self.te);
    ferry_future_release(self.all);
    ASSERT_STATUS(status_of(last), FERRY_OK);
    test_engine_close(&self.te);
}

/* ---- from everywhere ---- */

typedef struct dumping_waiter {
    ferry_waiter waiter; /* first */
    ferry_engine *engine;
    json_t *whole;
    _Atomic int is_done;
} dumping_waiter;

static void dump_when_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    dumping_waiter *self = (dumping_waiter *)(void *)waiter;
    self->whole = dump_json(self->engine);
    atomic_store(&self->is_done, 1);
}

static void check_in_callback(ferry_loop_mode loop)
{
    (void)scene_options(loop);
    ferry_promise *promise = test_promise(scene()), *other = test_promise(scene());
    ferry_future *future = own(ferry_promise_future(promise));
    ferry_future *held = own(nop_after_promise(scene(), other));
    dumping_waiter waiter = {.engine = engine()};
    waiter.waiter.fn = dump_when_ready;
    ASSERT_STATUS(ferry_future_on_ready(future, &waiter.waiter), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    while (atomic_load(&waiter.is_done) == 0) {
        if (loop == FERRY_LOOP_EMBEDDED)
            scene_settle();
        sched_yield();
    }
    ASSERT_WORD(dump_of(waiter.whole, held), "waits_for", "operations");
    json_decref(waiter.whole);
    keep_promise(other, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(held, -1), FERRY_OK);
}

Test(dump_anytime, in_a_callback)
{
    check_in_callback(FERRY_LOOP_THREAD);
}

Test(dump_anytime, in_a_callback_embedded)
{
    check_in_callback(FERRY_LOOP_EMBEDDED);
}

static void *dump_in_thread(void *engine)
{
    return dump_json(engine);
}

Test(dump_anytime, on_another_thread_without_progress)
{
    _Atomic int calls = 0;
    ferry_future *call = ferry_call(engine(), NULL, count_call, &calls, NULL);
    pthread_t thread;
    void *whole = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, dump_in_thread, engine()), 0);
    cr_assert_eq(pthread_join(thread, &whole), 0);
    ASSERT_WORD(dump_of(whole, call), "waits_for", "loop");
    json_decref(whole);
    cr_assert_eq(calls, 0, "a dump runs nothing");
    scene_settle();
    ASSERT_STATUS(status_of(call), FERRY_OK);
}

/* ---- the shutdown ---- */

static void check_shutdown(ferry_loop_mode loop)
{
    (void)scene_options(loop);
    static manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 100, 0));
    (void)own(call_on(scene(), &executor.executor, count_call, &calls, ferry_buffer_span(buffer),
                      FERRY_WRITE));
    while (manual_waiting(&executor) == 0) {
        if (loop == FERRY_LOOP_EMBEDDED)
            scene_settle();
        sched_yield();
    }
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    json_t *whole = dump_json(engine());
    const json_t *engine = json_object_get(whole, "engine");
    cr_assert(json_is_true(json_object_get(engine, "closing")));
    cr_assert(json_is_true(json_object_get(engine, "stopped")));
    cr_assert_eq(dump_total(whole, "nodes"), 0, "it had not begun, so it is quiet");
    const json_t *poisoned = json_object_get(whole, "poisoned");
    cr_assert_eq(json_array_size(poisoned), 1);
    ASSERT_WORD(json_array_get(poisoned, 0), "status", "FERRY_E_SHUTDOWN");
    json_decref(whole);
    manual_run_one(&executor);
}

Test(dump_anytime, after_the_shutdown)
{
    check_shutdown(FERRY_LOOP_THREAD);
}

Test(dump_anytime, after_the_shutdown_embedded)
{
    check_shutdown(FERRY_LOOP_EMBEDDED);
}

typedef struct stuck_call {
    _Atomic int has_begun, may_end;
} stuck_call;

static ferry_status hold_on(void *arg)
{
    stuck_call *self = arg;
    atomic_store(&self->has_begun, 1);
    while (atomic_load(&self->may_end) == 0)
        sched_yield();
    return FERRY_OK;
}

static void *run_one(void *executor)
{
    manual_run_one(executor);
    return NULL;
}

static void check_stuck(ferry_loop_mode loop)
{
    (void)scene_options(loop);
    static manual_executor executor;
    manual_executor_init(&executor);
    stuck_call call = {0};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = "stuck";
    ferry_future *stuck = own(ferry_call(engine(), &executor.executor, hold_on, &call, &options));
    while (manual_waiting(&executor) == 0) {
        if (loop == FERRY_LOOP_EMBEDDED)
            scene_settle();
        sched_yield();
    }
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, run_one, &executor), 0);
    while (atomic_load(&call.has_begun) == 0)
        sched_yield();
    ferry_status status = ferry_engine_shutdown(engine(), 0);
    while (ferry_future_poll(stuck) == FERRY_PENDING)
        status = ferry_engine_shutdown(engine(), 0); /* 0 looks once: the loop may not have */
    ASSERT_STATUS(status, FERRY_E_DEADLINE);
    json_t *whole = dump_json(engine());
    cr_assert(json_is_true(json_object_get(json_object_get(whole, "engine"), "closing")));
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "engine"), "stopped")));
    const json_t *node = dump_of(whole, stuck);
    ASSERT_WORD(node, "state", "resolved");
    ASSERT_WORD(node, "status", "FERRY_E_SHUTDOWN");
    ASSERT_WORD(node, "not_quiet", "function");
    ASSERT_WORD(node, "label", "stuck");
    json_decref(whole);
    atomic_store(&call.may_end, 1);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(dump_anytime, of_what_a_shutdown_could_not_wait_for)
{
    check_stuck(FERRY_LOOP_THREAD);
}

Test(dump_anytime, of_what_a_shutdown_could_not_wait_for_embedded)
{
    check_stuck(FERRY_LOOP_EMBEDDED);
}

/* ---- without memory ---- */

Test(dump_anytime, without_memory_it_says_so_and_writes_nothing)
{
    ferry_promise *promise = test_promise(scene());
    uint64_t nth = 1;
    for (;; nth++) {
        dump_text text = {0};
        uint64_t failures = failing_allocator_failures(&scene()->memory);
        failing_allocator_arm(&scene()->memory, nth, false);
        ferry_status status = ferry_engine_dump(engine(), FERRY_DUMP_JSON, dump_take, &text);
        failing_allocator_arm(&scene()->memory, 0, false);
        if (failing_allocator_failures(&scene()->memory) == failures) {
            ASSERT_STATUS(status, FERRY_OK);
            dump_free(&text);
            break;
        }
        ASSERT_STATUS(status, FERRY_E_NO_MEMORY);
        cr_assert_eq(text.pieces, 0);
    }
    cr_assert_gt(nth, 1, "it takes memory");
    keep_promise(promise, FERRY_OK);
}

static void *dump_without_memory(void *arg)
{
    test_engine *te = arg;
    dump_text text = {0};
    failing_allocator_arm(&te->memory, 1, true);
    ferry_status status = ferry_engine_dump(te->engine, FERRY_DUMP_JSON, dump_take, &text);
    failing_allocator_arm(&te->memory, 0, false);
    cr_assert_eq(text.pieces, 0);
    return (void *)(intptr_t)status; /* NOLINT */
}

Test(dump_anytime, a_new_thread_without_memory_is_told_so)
{
    pthread_t thread;
    void *status = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, dump_without_memory, scene()), 0);
    cr_assert_eq(pthread_join(thread, &status), 0);
    ASSERT_STATUS((ferry_status)(intptr_t)status, FERRY_E_NO_MEMORY);
}

/* ---- DOT ---- */

/* Graphviz's grammar, as far as a dump needs it: https://graphviz.org/doc/info/lang.html */
typedef struct dot_parser {
    const char *at;
    size_t nodes, edges;
} dot_parser;

static void dot_space(dot_parser *dot)
{
    while (isspace((unsigned char)*dot->at))
        dot->at++;
}

static bool dot_take(dot_parser *dot, const char *token)
{
    dot_space(dot);
    if (strncmp(dot->at, token, strlen(token)) != 0)
        return false;
    dot->at += strlen(token);
    return true;
}

static void dot_id(dot_parser *dot)
{
    dot_space(dot);
    if (*dot->at == '"') {
        for (dot->at++; *dot->at != '"'; dot->at++) {
            cr_assert_neq(*dot->at, '\0', "a string that does not end");
            if (*dot->at == '\\')
                dot->at++;
        }
        dot->at++;
        return;
    }
    const char *start = dot->at;
    while (isalnum((unsigned char)*dot->at) || *dot->at == '_')
        dot->at++;
    cr_assert_neq(dot->at, start, "no name at \"%.40s\"", start);
}

static void dot_attributes(dot_parser *dot)
{
    if (!dot_take(dot, "["))
        return;
    while (!dot_take(dot, "]")) {
        dot_id(dot);
        cr_assert(dot_take(dot, "="), "no = at \"%.40s\"", dot->at);
        dot_id(dot);
        (void)dot_take(dot, ",");
    }
}

static dot_parser dot_parse(const char *text)
{
    dot_parser dot = {.at = text};
    cr_assert(dot_take(&dot, "digraph"));
    dot_id(&dot);
    cr_assert(dot_take(&dot, "{"));
    while (!dot_take(&dot, "}")) {
        bool is_default = dot_take(&dot, "graph") || dot_take(&dot, "node");
        if (!is_default)
            dot_id(&dot);
        bool is_edge = !is_default && dot_take(&dot, "->");
        if (is_edge)
            dot_id(&dot);
        dot_attributes(&dot);
        cr_assert(dot_take(&dot, ";"), "no ; at \"%.40s\"", dot.at);
        dot.nodes += !is_default && !is_edge;
        dot.edges += is_edge;
    }
    dot_space(&dot);
    cr_assert_eq(*dot.at, '\0');
    return dot;
}

/* Where graphviz is, it has to take the text without a complaint. */
static void check_with_graphviz(const dump_text *text)
{
    if (system("command -v dot >/dev/null 2>&1") != 0)
        return;
    FILE *dot = popen("test -z \"$(dot -Tsvg -o /dev/null 2>&1)\"", "w");
    cr_assert_not_null(dot);
    cr_assert_eq(fwrite(text->bytes, 1, text->size_bytes, dot), text->size_bytes);
    cr_assert_eq(pclose(dot), 0, "graphviz complains");
}

Test(dump_anytime, dot_has_the_same_operations_and_edges)
{
    static const char *const labels[] = {
        "plain",    "a \"quoted\" one", "back\\slash\\", "a\nb\x01",
        "\xff\x80", "<b> &amp; & &#1;", "\u20ac",        ""};
    enum { LABELS = sizeof labels / sizeof labels[0] };
    ferry_promise *promise = test_promise(scene());
    ferry_future *root = own(ferry_promise_future(promise));
    ferry_buffer *buffer = own(test_buffer(scene(), 1, 64, 0));
    ferry_future *copies[LABELS];
    ferry_buffer *source = own(test_buffer(scene(), 0, 64, 0));
    for (size_t i = 0; i < LABELS; i++) {
        ferry_op_options options = behind(&root, 1);
        options.label = labels[i];
        copies[i] =
            ferry_copy(engine(), ferry_buffer_span(buffer), ferry_buffer_span(source), &options);
    }
    ASSERT_STATUS(ferry_future_cancel(copies[LABELS - 1]), FERRY_OK);
    scene_settle();
    ferry_op_options after_root = behind(&root, 1);
    ferry_op nops[2] = {{.kind = FERRY_OP_NOP}, {.kind = FERRY_OP_NOP}};
    ferry_future_release(ferry_batch(engine(), nops, sizeof nops[0], 2, NULL, &after_root));
    dump_text text = {0};
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_DOT, dump_take, &text), FERRY_OK);
    dot_parser dot = dot_parse(text.bytes);
    cr_assert_eq(dot.nodes, 1 + LABELS + 3, "the promise, the copies, the batch and its two");
    cr_assert_eq(dot.edges, 2 * LABELS - 2 + 4, "the cancelled one waits for memory alone");
    char edge[64];
    (void)snprintf(edge, sizeof edge, "n%llu -> n%llu [label=\"after\"];",
                   (unsigned long long)ferry_future_id(root),
                   (unsigned long long)ferry_future_id(copies[3]));
    cr_assert_not_null(strstr(text.bytes, edge));
    (void)snprintf(edge, sizeof edge, "n%llu -> n%llu [label=\"order\"];",
                   (unsigned long long)ferry_future_id(copies[2]),
                   (unsigned long long)ferry_future_id(copies[3]));
    cr_assert_not_null(strstr(text.bytes, edge));
    check_with_graphviz(&text);
    dump_free(&text);

    keep_promise(promise, FERRY_E_FAILED);
    scene_settle();
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_DOT, dump_take, &text), FERRY_OK);
    dot = dot_parse(text.bytes);
    cr_assert_eq(dot.nodes, 1, "the poison");
    cr_assert_not_null(strstr(text.bytes, "poisoned"));
    check_with_graphviz(&text);
    dump_free(&text);
    for (size_t i = 0; i < LABELS; i++)
        ferry_future_release(copies[i]);
}
