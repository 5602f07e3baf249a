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
    scene_begin(loop);
    for (int i = 0; i < PROMISES; i++)
        play("promise p%d", i);
    for (int i = 0; i < NODES; i++)
        futures[i] = own(nop_after_promise(scene(), the_promise("p%d", i % PROMISES)));
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
        play("resolve p%d", i);
    for (int i = 0; i < NODES; i++)
        WAIT(futures[i], OK);
}

Test(dump_anytime, many_operations_each_once_and_in_order)
{
    check_many(FERRY_LOOP_THREAD);
}

Test(dump_anytime, many_operations_embedded_without_progress)
{
    check_many(FERRY_LOOP_EMBEDDED);
}

static void make_parts(ferry_future *parts[], ferry_promise *promises[], int count)
{
    for (int i = 0; i < count; i++) {
        promises[i] = own(test_promise(scene()));
        parts[i] = own(ferry_promise_future(promises[i]));
    }
}

Test(dump_anytime, of_many_edges_it_names_those_that_still_hold)
{
    enum { PARTS = 10000 };
    static ferry_future *parts[PARTS];
    static ferry_promise *promises[PARTS];
    make_parts(parts, promises, PARTS);
    ferry_future *all = own(ferry_future_all(engine(), parts, PARTS));
    ferry_future *nop = own(nop_after(scene(), parts[0]));
    const json_t *whole = dump_now(engine());
    const json_t *node = dump_of(whole, all);
    cr_assert_eq(json_array_size(json_object_get(node, "waits")), 8);
    cr_assert_eq(dump_number(node, "more"), PARTS - 8);
    cr_assert(dump_waits(dump_of(whole, nop), parts[0], "after/host"));
    cr_assert_eq(dump_total(whole, "nodes"), 2);
    for (int i = 1; i < PARTS; i++)
        ASSERT_STATUS(ferry_promise_resolve(promises[i], FERRY_OK, NULL), FERRY_OK);
    scene_settle();
    node = dump_of(dump_now(engine()), all);
    cr_assert_eq(json_array_size(json_object_get(node, "waits")), 1, "the one among so many");
    cr_assert(dump_waits(node, parts[0], "after/host"));
    cr_assert_null(json_object_get(node, "more"));
    ASSERT_STATUS(ferry_promise_resolve(promises[0], FERRY_OK, NULL), FERRY_OK);
    EXPECT(all, OK);
    EXPECT(nop, OK);
}

/* ---- while it writes ---- */

typedef struct meddler {
    dump_text text;
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

/* A dump while which something is done; the caller gives back what it says. */
static json_t *dump_meddled(meddler *self)
{
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, meddle, self), FERRY_OK);
    json_t *whole = dump_parse(&self->text);
    dump_free(&self->text);
    return whole;
}

static void dump_again(meddler *self)
{
    dump_text text = {0};
    self->nested = ferry_engine_dump(engine(), FERRY_DUMP_DOT, dump_take, &text);
    cr_assert_eq(text.pieces, 0);
}

Test(dump_anytime, one_at_a_time)
{
    scene_begin(FERRY_LOOP_THREAD);
    meddler self = {.act = dump_again, .act_at_word = ""};
    json_decref(dump_meddled(&self));
    ASSERT_STATUS(self.nested, FERRY_E_BUSY);
    (void)dump_now(engine());
}

static void end_everything(meddler *self)
{
    (void)self;
    play("keep p; settle");
}

static void submit_more(meddler *self)
{
    (void)self;
    stepped_clock_step(&scene()->time, 1);
    for (int i = 0; i < 1000; i++)
        ferry_future_release(nop_after_promise(scene(), the_promise("p")));
}

/* Holds nodes, meddles midway, and gives the operations shown. */
static size_t shown_of(void (*act)(meddler *self), size_t nodes)
{
    play("promise p");
    for (size_t i = 0; i < nodes; i++)
        ferry_future_release(nop_after_promise(scene(), the_promise("p")));
    meddler self = {.act = act, .act_at_word = "\"nodes\":["};
    json_t *whole = dump_meddled(&self);
    size_t shown = dump_count(whole, "nodes");
    cr_assert_eq(shown, (size_t)dump_total(whole, "nodes"));
    json_decref(whole);
    if (act != end_everything)
        end_everything(&self);
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
    EXPECT(self->all, E_CANCELLED);
}

/* An operation of more edges than one look takes ends between two looks: it is the last of the
 * first slice of operations, and what is before it is being written. */
Test(dump_anytime, the_one_it_is_at_may_end)
{
    enum { BEFORE = 100, PARTS = 5000 };
    static ferry_future *parts[PARTS];
    static ferry_promise *promises[PARTS];
    make_parts(parts, promises, PARTS);
    for (int i = 0; i < BEFORE; i++)
        ferry_future_release(nop_after(scene(), parts[0]));
    meddler self = {.all = own(ferry_future_all(engine(), parts, PARTS)),
                    .act = cancel_all,
                    .act_at_word = "\"nodes\":["};
    ferry_future *last = own(nop_after(scene(), parts[0]));
    json_t *whole = dump_meddled(&self);
    ASSERT_WORD(dump_of(whole, self.all), "state", "waiting");
    cr_assert_eq(dump_number(dump_of(whole, self.all), "more"), 2048 - BEFORE - 8,
                 "what was seen of it");
    cr_assert(dump_waits(dump_of(whole, last), parts[0], "after/host"));
    cr_assert_eq(dump_total(whole, "nodes"), BEFORE + 2);
    json_decref(whole);
    for (int i = 0; i < PARTS; i++)
        ASSERT_STATUS(ferry_promise_resolve(promises[i], FERRY_OK, NULL), FERRY_OK);
    EXPECT(last, OK);
}

/* ---- from everywhere ---- */

typedef struct dumping_waiter {
    ferry_waiter waiter; /* first */
    json_t *whole;
    _Atomic int is_done;
} dumping_waiter;

static void dump_when_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    dumping_waiter *self = (dumping_waiter *)(void *)waiter;
    self->whole = dump_json(engine());
    atomic_store(&self->is_done, 1);
}

static void check_in_callback(ferry_loop_mode loop)
{
    scene_begin(loop);
    play("promise p; promise other; held = nop after other");
    dumping_waiter waiter = {.waiter = FERRY_WAITER_INIT(dump_when_ready, NULL)};
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    ASSERT_STATUS(ferry_future_on_ready(future, &waiter.waiter), FERRY_OK);
    play("keep p");
    while (atomic_load(&waiter.is_done) == 0) {
        scene_settle();
        sched_yield();
    }
    ASSERT_WORD(dump_of(waiter.whole, the_future("held")), "waits_for", "operations");
    json_decref(waiter.whole);
    play("keep other; wait held OK");
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
    play("c = call");
    void *whole = in_thread(dump_in_thread, engine());
    ASSERT_WORD(dump_of(whole, the_future("c")), "waits_for", "loop");
    json_decref(whole);
    cr_assert_eq(*scene_calls(), 0, "a dump runs nothing");
    play("expect c OK");
}

/* ---- the shutdown ---- */

static void check_shutdown(ferry_loop_mode loop)
{
    scene_begin(loop);
    play("buffer b 100; call by hand writes b");
    wait_posted(1);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    const json_t *whole = dump_now(engine()), *facts = json_object_get(whole, "engine");
    cr_assert(json_is_true(json_object_get(facts, "closing")));
    cr_assert(json_is_true(json_object_get(facts, "stopped")));
    cr_assert_eq(dump_total(whole, "nodes"), 0, "it had not begun, so it is quiet");
    const json_t *poisoned = json_object_get(whole, "poisoned");
    cr_assert_eq(json_array_size(poisoned), 1);
    ASSERT_WORD(json_array_get(poisoned, 0), "status", "FERRY_E_SHUTDOWN");
    manual_run_one(by_hand());
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
    scene_begin(loop);
    stuck_call call = {0};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = "stuck";
    ferry_future *stuck = own(ferry_call(engine(), &by_hand()->executor, hold_on, &call, &options));
    wait_posted(1);
    pthread_t thread = begin_thread(run_one, by_hand());
    while (atomic_load(&call.has_begun) == 0)
        sched_yield();
    ferry_status status = ferry_engine_shutdown(engine(), 0);
    while (ferry_future_poll(stuck) == FERRY_PENDING)
        status = ferry_engine_shutdown(engine(), 0); /* 0 looks once: the loop may not have */
    ASSERT_STATUS(status, FERRY_E_DEADLINE);
    const json_t *whole = dump_now(engine());
    cr_assert(json_is_true(json_object_get(json_object_get(whole, "engine"), "closing")));
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "engine"), "stopped")));
    const json_t *node = dump_of(whole, stuck);
    ASSERT_WORD(node, "state", "resolved");
    ASSERT_WORD(node, "status", "FERRY_E_SHUTDOWN");
    ASSERT_WORD(node, "not_quiet", "function");
    ASSERT_WORD(node, "label", "stuck");
    atomic_store(&call.may_end, 1);
    (void)end_thread(thread);
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
    play("promise p");
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
}

static void *dump_without_memory(void *arg)
{
    (void)arg;
    dump_text text = {0};
    failing_allocator_arm(&scene()->memory, 1, true);
    ferry_status status = ferry_engine_dump(engine(), FERRY_DUMP_JSON, dump_take, &text);
    failing_allocator_arm(&scene()->memory, 0, false);
    cr_assert_eq(text.pieces, 0);
    return (void *)(intptr_t)status; /* NOLINT */
}

Test(dump_anytime, a_new_thread_without_memory_is_told_so)
{
    scene_begin(FERRY_LOOP_EMBEDDED);
    void *status = in_thread(dump_without_memory, NULL);
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
    play("promise p; buffer b 64 on 1; buffer source 64");
    ferry_future *root = own(ferry_promise_future(the_promise("p"))), *copies[LABELS];
    for (size_t i = 0; i < LABELS; i++) {
        ferry_op_options options = behind(&root, 1);
        options.label = labels[i];
        copies[i] = own(ferry_copy(engine(), the_span("b"), the_span("source"), &options));
    }
    ASSERT_STATUS(ferry_future_cancel(copies[LABELS - 1]), FERRY_OK);
    scene_settle();
    play("batch nop , nop , with after p; release it");
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

    play("keep p FAILED; settle");
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_DOT, dump_take, &text), FERRY_OK);
    dot = dot_parse(text.bytes);
    cr_assert_eq(dot.nodes, 1, "the poison");
    cr_assert_not_null(strstr(text.bytes, "poisoned"));
    check_with_graphviz(&text);
    dump_free(&text);
}
