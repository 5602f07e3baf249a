/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input: each a clear status, never a crash, nothing lost or leaked. */
#include "tests/support/play.h"

SCENE_SUITE(bad_input);

Test(bad_input, null_handles_have_an_answer)
{
    ferry_engine *engine = NULL;
    ferry_promise *promise = NULL;
    ferry_buffer *buffer = NULL;
    ferry_span no_span = {0};
    ferry_trace_record record;
    ASSERT_STATUS(ferry_engine_create(NULL, NULL, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_shutdown(NULL, -1), FERRY_E_INVALID);
    ferry_engine_release(NULL);
    EXPECT_NOW(own(ferry_engine_drain(NULL)), E_INVALID);
    cr_assert_eq(ferry_engine_fd(NULL), -1);
    cr_assert_eq(ferry_engine_progress(NULL, 0), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_arm(NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_engine_timeout_ns(NULL), -1);
    ASSERT_STATUS(ferry_engine_trace(NULL, NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_engine_flight_records(NULL, &record, sizeof(ferry_trace_record), 1), 0);

    cr_assert_null(ferry_device_find(NULL, "host:0"));
    cr_assert_null(ferry_device_at(NULL, 0));
    cr_assert_eq(ferry_device_count(NULL), 0);
    cr_assert_str_empty(ferry_device_name(NULL));
    ASSERT_STATUS(ferry_buffer_alloc(NULL, 1, &buffer), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_wrap(NULL, &record, 1, NULL, NULL, &buffer), FERRY_E_INVALID);
    ferry_buffer_release(NULL);
    cr_assert_null(ferry_buffer_data(NULL));
    cr_assert_eq(ferry_buffer_size_bytes(NULL), 0);
    cr_assert_null(ferry_buffer_device(NULL));
    cr_assert_null(ferry_buffer_span(NULL).buffer);
    ASSERT_STATUS(ferry_buffer_define(no_span, NULL), FERRY_E_INVALID);

    EXPECT_NOW(own(ferry_copy(NULL, no_span, no_span, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_copy_rows(NULL, no_span, 0, no_span, 0, 2, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_call(NULL, NULL, fail_call, NULL, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_nop(NULL, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_batch(NULL, NULL, 0, 0, NULL, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_future_all(NULL, NULL, 0)), E_INVALID);
    EXPECT_NOW(own(ferry_future_any(NULL, NULL, 0)), E_INVALID);
    EXPECT_NOW(own(ferry_future_issued(NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_future_quiet(NULL)), E_INVALID);
    ferry_task_run(NULL);

    ASSERT_STATUS(ferry_future_poll(NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_wait(NULL, -1), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_cancel(NULL), FERRY_E_INVALID);
    cr_assert_null(ferry_future_retain(NULL));
    ferry_future_release(NULL);
    cr_assert_null(ferry_future_error(NULL));
    cr_assert_eq(ferry_future_id(NULL), 0);
    ASSERT_STATUS(ferry_future_on_ready(NULL, NULL), FERRY_E_INVALID);
    cr_assert_not(ferry_waiter_remove(NULL));

    ASSERT_STATUS(ferry_promise_create(NULL, &promise), FERRY_E_INVALID);
    EXPECT_NOW(own(ferry_promise_future(NULL)), E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(NULL, FERRY_OK, NULL), FERRY_E_INVALID);
    ferry_promise_release(NULL);
    ferry_error_release(NULL);
    cr_assert_null(engine);
    cr_assert_null(promise);
    cr_assert_null(buffer);
}

Test(bad_input, a_future_without_an_engine_is_a_whole_future)
{
    ferry_future *future = ferry_nop(NULL, NULL);
    cr_assert_not_null(future);
    ASSERT_STATUS(ferry_future_wait(future, -1), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    cr_assert_eq(ferry_future_retain(future), future);
    ASSERT_STATUS(ferry_future_error(future)->status, FERRY_E_INVALID);
    cr_assert_eq(ferry_future_id(future), 0);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(future, &waiter.waiter), FERRY_OK);
    cr_assert_eq(waiter.calls, 1, "there is no loop: it was called at once");
    ASSERT_STATUS(waiter.status, FERRY_E_INVALID);
    cr_assert_not(ferry_waiter_remove(&waiter.waiter));
    ferry_future_release(future);
    ferry_future_release(future);
}

Test(bad_input, null_pointers_beside_good_handles)
{
    ferry_device *device = ferry_device_at(engine(), 0);
    ferry_buffer *buffer = NULL;
    char memory[4];
    ASSERT_STATUS(ferry_buffer_alloc(device, 4, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_wrap(device, NULL, 4, NULL, NULL, &buffer), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_wrap(device, memory, 4, NULL, NULL, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_alloc(device, 0, &buffer), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_alloc(device, SIZE_MAX, &buffer), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_alloc(device, (size_t)1 << 48, &buffer), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_buffer_wrap(device, memory, 0, NULL, NULL, &buffer), FERRY_E_INVALID);
    cr_assert_null(buffer);
    ASSERT_STATUS(ferry_promise_create(engine(), NULL), FERRY_E_INVALID);
    ferry_future *nop = own(ferry_nop(engine(), NULL)), *none = NULL;
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    waiter.waiter.fn = NULL;
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_on_ready(nop, NULL), FERRY_E_INVALID);
    EXPECT_NOW(own(ferry_future_all(engine(), NULL, 1)), E_INVALID);
    EXPECT_NOW(own(ferry_future_all(engine(), &none, 1)), E_INVALID);
    ASSERT_STATUS(status_of(nop_after(scene(), NULL)), FERRY_E_INVALID);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after_count = 1;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.access_count = 1;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
}

Test(bad_input, unknown_devices_are_null_and_logged)
{
    static const char *const names[] = {"",        "host",   "host:",   "host:4",
                                        "host:00", "cuda:0", "host:0 ", "Host:0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int lines = scene()->log_lines;
        cr_assert_null(ferry_device_find(engine(), names[i]), "\"%s\"", names[i]);
        cr_assert_eq(scene()->log_lines, lines + 1);
    }
    cr_assert_null(ferry_device_find(engine(), NULL));
    cr_assert_eq(ferry_device_count(engine()), 4);
    for (size_t i = 0; i < 4; i++) {
        ferry_device *device = ferry_device_at(engine(), i);
        cr_assert_eq(ferry_device_find(engine(), ferry_device_name(device)), device);
    }
    cr_assert_null(ferry_device_at(engine(), 4));
}

Test(bad_input, spans_outside_their_buffer_are_refused)
{
    play("buffer b 100 of 1; buffer other 100 of 2 on 1");
    static const struct {
        size_t offset_bytes, size_bytes;
    } spans[] = {{0, 101},
                 {100, 1},
                 {1, SIZE_MAX},
                 {SIZE_MAX, 1},
                 {SIZE_MAX, SIZE_MAX},
                 {50, SIZE_MAX - 49},
                 {SIZE_MAX - 9, 10}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        ferry_span bad = span_of(the_buffer("b"), spans[i].offset_bytes, spans[i].size_bytes);
        ferry_span good = span_of(the_buffer("other"), 0, bad.size_bytes);
        EXPECT_NOW(own(ferry_copy(engine(), bad, good, NULL)), E_INVALID);
        EXPECT_NOW(own(ferry_copy(engine(), good, bad, NULL)), E_INVALID);
        ASSERT_STATUS(ferry_buffer_define(bad, NULL), FERRY_E_INVALID);
        EXPECT_NOW(own(call_on(scene(), NULL, fail_call, NULL, bad, FERRY_READ)), E_INVALID);
    }
    play("copy b[100:100] <- other[100:100]; now it OK; bytes b 1");
}

/* Wherever they lie, of whatever buffer or of none: in accesses and as what is copied. */
Test(bad_input, empty_spans_are_ignored)
{
    test_engine other;
    test_engine_open(&other, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 100, 1)),
                 *theirs = own(test_buffer(&other, 0, 100, 2));
    const ferry_span spans[] = {{NULL, 0, 0},     {NULL, 7, 0},          {buffer, 100, 0},
                                {buffer, 101, 0}, {buffer, SIZE_MAX, 0}, {theirs, 3, 0}};
    enum { SPANS = sizeof spans / sizeof spans[0] };
    ferry_access accesses[SPANS + 1];
    for (size_t i = 0; i < SPANS; i++)
        accesses[i] = (ferry_access){spans[i], i % 2 == 0 ? FERRY_WRITE : (ferry_access_mode)9};
    accesses[SPANS] = (ferry_access){ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(accesses, SPANS + 1);
    _Atomic int calls = 0;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), OK);
    ferry_future *call = ferry_call(engine(), NULL, count_call, &calls, &options);
    scene_settle();
    ASSERT_STATUS(status_of(call), FERRY_OK);
    cr_assert_eq(calls, 1);
    for (size_t i = 0; i < SPANS; i++) {
        ferry_span to = spans[i], from = spans[(i + 1) % SPANS];
        ferry_op op = {.kind = FERRY_OP_COPY, .dst = to, .src = from};
        const ferry_op_options *with[] = {NULL, &options};
        for (size_t k = 0; k < 2; k++) {
            EXPECT_NOW(own(ferry_copy(engine(), to, from, with[k])), OK);
            EXPECT_NOW(own(ferry_copy_rows(engine(), to, 0, from, 9, 5, with[k])), OK);
            op.options = with[k];
            EXPECT_NOW(own(ferry_batch(engine(), &op, sizeof op, 1, NULL, NULL)), OK);
        }
        ASSERT_STATUS(ferry_buffer_define(to, NULL), FERRY_E_INVALID);
    }
    ferry_span none = {NULL, 0, 5};
    EXPECT_NOW(own(ferry_copy_rows(engine(), none, 0, none, 0, 0, NULL)), OK);
    cr_assert(is_filled(buffer, 0, 100, 1));
    scene_end();
    settle(&other);
    test_engine_close(&other);
}

/* What ferry_buffer_span makes of no buffer is not empty: a buffer that could not be had is no
 * reason to do nothing. */
Test(bad_input, the_span_of_no_buffer_is_refused)
{
    ferry_span none = ferry_buffer_span(NULL);
    EXPECT_NOW(own(ferry_copy(engine(), none, none, NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_copy_rows(engine(), none, 0, none, 0, 2, NULL)), E_INVALID);
    EXPECT_NOW(own(call_on(scene(), NULL, fail_call, NULL, none, FERRY_READ)), E_INVALID);
    ASSERT_STATUS(ferry_buffer_define(none, NULL), FERRY_E_INVALID);
}

Test(bad_input, copies_that_overlap_or_differ_in_size_are_refused)
{
    play("buffer b 100 of 1");
    ferry_buffer *again = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(engine(), 1),
                                    ferry_buffer_data(the_buffer("b")), 100, NULL, NULL, &again),
                  FERRY_OK);
    cr_assert(scene_own_as(SCENE_BUFFER, again, "again"));
    for (int at = 21; at < 60; at += 19)
        play("copy b[%d:%d] <- again[40:60]; now it INVALID", at, at + 20);
    play("copy b[0:20] <- b[19:39]; now it INVALID; copy b[0:20] <- b[20:41]; now it INVALID;"
         "copy b[0:20] <- b[20:40]; now it OK");
}

Test(bad_input, handles_of_another_engine_are_refused)
{
    test_engine other;
    test_engine_open(&other, FERRY_LOOP_EMBEDDED);
    ferry_buffer *mine = own(test_buffer(scene(), 0, 10, 1)),
                 *theirs = own(test_buffer(&other, 0, 10, 2));
    ferry_future *their_nop = own(ferry_nop(other.engine, NULL));
    EXPECT_NOW(own(ferry_copy(engine(), ferry_buffer_span(mine), ferry_buffer_span(theirs), NULL)),
               E_INVALID);
    EXPECT_NOW(own(ferry_copy(engine(), ferry_buffer_span(theirs), ferry_buffer_span(mine), NULL)),
               E_INVALID);
    ASSERT_STATUS(status_of(nop_after(scene(), their_nop)), FERRY_E_INVALID);
    EXPECT_NOW(own(ferry_future_all(engine(), &their_nop, 1)), E_INVALID);
    EXPECT_NOW(own(ferry_future_any(engine(), &their_nop, 1)), E_INVALID);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(mine), their_nop), FERRY_E_INVALID);
    ASSERT_STATUS(
        status_of(call_on(scene(), NULL, fail_call, NULL, ferry_buffer_span(theirs), FERRY_WRITE)),
        FERRY_E_INVALID);
    cr_assert(is_filled(mine, 0, 10, 1));
    cr_assert(is_filled(theirs, 0, 10, 2));
    scene_end();
    test_engine_close(&other);
}

Test(bad_input, accesses_of_no_known_mode_are_refused)
{
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 10, 1));
    static const int modes[] = {0, 4, -1};
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(status_of(call_on(scene(), NULL, fail_call, NULL, ferry_buffer_span(buffer),
                                        (ferry_access_mode)modes[i])),
                      FERRY_E_INVALID);
}

/* ---- options of other versions ---- */

typedef struct longer {
    ferry_op_options options;
    char tail[64];
} longer;

static ferry_status nop_with(test_engine *te, ferry_future *after, size_t struct_size,
                             size_t rubbish_at)
{
    longer given;
    memset(&given, 0, sizeof given);
    given.options.struct_size = struct_size;
    given.options.after = &after;
    given.options.after_count = 1;
    if (rubbish_at != 0)
        ((char *)&given)[rubbish_at] = 1;
    ferry_future *nop = ferry_nop(te->engine, &given.options);
    settle(te);
    return status_of(nop);
}

Test(bad_input, operation_options_of_other_sizes)
{
    ferry_promise *promise = test_promise(scene());
    ferry_future *after = own(ferry_promise_future(promise));
    size_t whole = sizeof(ferry_op_options), room = sizeof(longer);
    ASSERT_STATUS(nop_with(scene(), after, whole, 0), FERRY_PENDING);
    ASSERT_STATUS(nop_with(scene(), after, offsetof(ferry_op_options, deadline_ns), 0),
                  FERRY_PENDING);
    ASSERT_STATUS(nop_with(scene(), after, offsetof(ferry_op_options, after), 0), FERRY_OK);
    ASSERT_STATUS(nop_with(scene(), after, room, 0), FERRY_PENDING);
    ASSERT_STATUS(nop_with(scene(), after, room, whole), FERRY_E_INVALID);
    ASSERT_STATUS(nop_with(scene(), after, room, room - 1), FERRY_E_INVALID);
    ASSERT_STATUS(nop_with(scene(), after, room - 1, room - 1), FERRY_PENDING);
    static const size_t absurd[] = {0, 1, sizeof(size_t) - 1, (size_t)1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
        ASSERT_STATUS(nop_with(scene(), after, absurd[i], 0), FERRY_E_INVALID);
    keep_promise(promise, FERRY_OK);
}

Test(bad_input, operations_of_no_known_priority_are_refused)
{
    static const struct {
        int priority;
        uint32_t flags;
        ferry_status status;
    } cases[] = {{0, 0, FERRY_OK},         {1, 0, FERRY_OK},
                 {-1, 0, FERRY_OK},        {2, 0, FERRY_E_INVALID},
                 {-2, 0, FERRY_E_INVALID}, {INT32_MAX, 0, FERRY_E_INVALID},
                 {0, 1, FERRY_OK},         {0, 3, FERRY_OK},
                 {0, 4, FERRY_E_INVALID},  {0, UINT32_MAX, FERRY_E_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.priority = (ferry_priority)cases[i].priority;
        options.flags = cases[i].flags;
        int lines = scene()->log_lines;
        ASSERT_STATUS(status_of(ferry_nop(engine(), &options)), cases[i].status);
        cr_assert_eq(scene()->log_lines, lines + (cases[i].status != FERRY_OK));
    }
}

/* 16 lines, and one for 32, 64, 128, 256 and 512 times; of each reason by itself. */
Test(bad_input, refusals_do_not_fill_the_log)
{
    ferry_op_options unknown = FERRY_OP_OPTIONS_INIT, sizeless = FERRY_OP_OPTIONS_INIT;
    unknown.flags = 4;
    sizeless.struct_size = 0;
    int lines = scene()->log_lines;
    for (int i = 0; i < 1000; i++)
        ASSERT_STATUS(status_of(ferry_nop(engine(), &unknown)), FERRY_E_INVALID);
    cr_assert_eq(scene()->log_lines, lines + 21);
    ASSERT_STATUS(status_of(ferry_nop(engine(), &sizeless)), FERRY_E_INVALID);
    cr_assert_eq(scene()->log_lines, lines + 22);
}

typedef struct longer_engine {
    ferry_engine_options options;
    char tail[64];
} longer_engine;

static ferry_status create_with(size_t struct_size, size_t rubbish_at)
{
    longer_engine given;
    memset(&given, 0, sizeof given);
    given.options.struct_size = struct_size;
    given.options.loop = FERRY_LOOP_EMBEDDED;
    if (rubbish_at != 0)
        ((char *)&given)[rubbish_at] = 1;
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(&given.options, &engine, &error);
    cr_assert_eq(engine != NULL, status == FERRY_OK);
    cr_assert_eq(error != NULL, status != FERRY_OK);
    ferry_engine_release(engine);
    ferry_error_release(error);
    return status;
}

Test(bad_input, engine_options_of_other_sizes)
{
    size_t whole = sizeof(ferry_engine_options), room = sizeof(longer_engine);
    ASSERT_STATUS(create_with(whole, 0), FERRY_OK);
    ASSERT_STATUS(create_with(offsetof(ferry_engine_options, spin_ns), 0), FERRY_OK);
    ASSERT_STATUS(create_with(room, 0), FERRY_OK);
    ASSERT_STATUS(create_with(room, whole), FERRY_E_INVALID);
    ASSERT_STATUS(create_with(0, 0), FERRY_E_INVALID);
    ASSERT_STATUS(create_with(7, 0), FERRY_E_INVALID);
    ASSERT_STATUS(create_with(SIZE_MAX, 0), FERRY_E_INVALID);
}

Test(bad_input, engine_options_out_of_their_limits_are_refused)
{
    ferry_allocator no_alloc = {0};
    ferry_clock no_clock = {0};
    ferry_engine_options cases[] = {
        {.host_devices = 65},     {.host_workers = 9},     {.max_nodes = (1u << 28) + 1},
        {.spin_ns = -1},          {.spin_ns = 1000000001}, {.flight_records = (1u << 20) + 1},
        {.nccl_slots = 65},       {.nccl_pairs = 1025},    {.stats = 2},
        {.allocator = &no_alloc}, {.clock = &no_clock},    {.loop = (ferry_loop_mode)2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ferry_engine *engine = NULL;
        cases[i].struct_size = sizeof cases[i];
        ASSERT_STATUS(ferry_engine_create(&cases[i], &engine, NULL), FERRY_E_INVALID);
        cr_assert_null(engine);
    }
}

Test(bad_input, trace_hooks_that_cannot_be_called_are_refused)
{
    ferry_trace_hooks no_size = {0}, no_record = {.struct_size = sizeof no_record};
    ASSERT_STATUS(ferry_engine_trace(engine(), &no_size), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_trace(engine(), &no_record), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
}

Test(bad_input, too_many_of_anything_is_refused)
{
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    ferry_access access = {0};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &nop; /* refused by the number alone */
    options.after_count = ((size_t)1 << 20) + 1;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    options.after_count = SIZE_MAX;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    options.after_count = 0;
    options.accesses = &access;
    options.access_count = ((size_t)1 << 16) + 1;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    EXPECT_NOW(own(ferry_future_all(engine(), &nop, SIZE_MAX)), E_INVALID);
}

Test(bad_input, as_many_accesses_as_the_header_allows_work)
{
    enum { ACCESSES = 1 << 16 };
    static ferry_access accesses[ACCESSES];
    ferry_buffer *buffer = own(test_buffer(scene(), 0, ACCESSES, 0));
    for (size_t i = 0; i < ACCESSES; i++)
        accesses[i] = (ferry_access){span_of(buffer, i, 1), i % 2 == 0 ? FERRY_READ : FERRY_WRITE};
    ferry_op_options options = touching(accesses, ACCESSES);
    int64_t before_bytes = failing_allocator_live_bytes(&scene()->memory);
    ferry_future *nop = ferry_nop(engine(), &options);
    scene_settle();
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    int64_t an_access = (failing_allocator_live_bytes(&scene()->memory) - before_bytes) / ACCESSES;
    cr_assert_lt(an_access, 4096, "%lld bytes an access", (long long)an_access);
}

Test(bad_input, no_more_than_max_nodes_are_alive)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 100;
    play("promise p");
    int count = 0;
    for (;; count++) {
        play("n%d = nop after p", count);
        if (ferry_future_poll(the_future("n%d", count)) != FERRY_PENDING)
            break;
        cr_assert_lt(count, 100);
    }
    play("now n%d AGAIN; keep p; settle", count);
    cr_assert_eq(count, 99);
    for (int i = 0; i < count; i++)
        play("now n%d OK; release n%d", i, i);
    play("nop; now it OK");
}
