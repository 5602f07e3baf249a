/* SPDX-License-Identifier: Apache-2.0 */
/* Labels that are copied, and the caller's own number: in records, errors and dumps. */
#include "tests/support/play.h"

#include <stdio.h>

enum { RECORDS_MAX = 512 };

static struct {
    ferry_trace_record records[RECORDS_MAX];
    size_t count;
} heard;

SCENE_SUITE(labels);

static void take_record(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    if (heard.count < RECORDS_MAX)
        heard.records[heard.count++] = *record;
}

static void hook(void)
{
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = take_record};
    heard.count = 0;
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
}

static ferry_op_options options_of(const char *label, uint32_t flags, uint64_t user_data)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = label;
    options.flags = flags;
    options.user_data = user_data;
    return options;
}

static void assert_heard(ferry_future *future, const char *label, uint64_t user_data)
{
    size_t count = 0;
    for (size_t i = 0; i < heard.count; i++) {
        const ferry_trace_record *record = &heard.records[i];
        if (record->op != ferry_future_id(future))
            continue;
        count++;
        cr_assert_str_eq(record->label, label);
        if (record->what != FERRY_TRACE_READY)
            cr_assert_eq(record->user_data, user_data, "%s",
                         ferry_trace_what_name((ferry_trace_what)record->what));
    }
    cr_assert_geq(count, 3);
}

static void write_into(void *arg, const char *text, size_t size_bytes)
{
    (void)strncat(arg, text, size_bytes);
}

static const char *dump(void)
{
    static char text[65536];
    text[0] = '\0';
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, write_into, text), FERRY_OK);
    return text;
}

Test(labels, are_copied_and_the_number_comes_along)
{
    hook();
    play("promise p");
    ferry_future *before = own(ferry_promise_future(the_promise("p")));
    char label[] = "block 17";
    ferry_op_options options = options_of(label, FERRY_OP_LABEL_COPIED, UINT64_MAX - 5);
    options.after = &before;
    options.after_count = 1;
    ferry_future *future = own(ferry_nop(engine(), &options));
    memset(label, '#', 8);
    play("settle");
    cr_assert_not_null(strstr(dump(), "\"label\":\"block 17\""));
    cr_assert_not_null(strstr(dump(), "\"user_data\":18446744073709551610"));
    play("resolve p FAILED; settle");
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_DEPENDENCY);
    cr_assert_str_eq(ferry_future_error(future)->label, "block 17");
    assert_heard(future, "block 17", UINT64_MAX - 5);
}

Test(labels, of_a_batch_are_its_operations)
{
    hook();
    char label[] = "batch";
    ferry_op_options options = options_of(label, FERRY_OP_LABEL_COPIED, 7);
    ferry_op_options own_options = options_of(NULL, 0, 9);
    ferry_op ops[2] = {{.kind = FERRY_OP_NOP}, {.kind = FERRY_OP_NOP, .options = &own_options}};
    ferry_future *each[2];
    ferry_future *all = own(ferry_batch(engine(), ops, sizeof *ops, 2, each, &options));
    memset(label, '#', 5);
    (void)own(each[0]), (void)own(each[1]);
    play("settle");
    ASSERT_STATUS(ferry_future_poll(all), FERRY_OK);
    size_t found = 0;
    for (size_t i = 0; i < heard.count; i++) {
        const ferry_trace_record *record = &heard.records[i];
        if (record->what != FERRY_TRACE_SUBMITTED)
            continue;
        cr_assert_str_eq(record->label, "batch");
        cr_assert(record->op != ferry_future_id(each[0]) || record->user_data == 7);
        cr_assert(record->op != ferry_future_id(each[1]) || record->user_data == 9);
        cr_assert(record->op != ferry_future_id(all) || record->user_data == 7);
        found++;
    }
    cr_assert_eq(found, 3);
}

Test(labels, without_memory_say_that_they_were_not_kept)
{
    char label[] = "never seen";
    ferry_future *warm = own(ferry_nop(engine(), NULL));
    (void)warm;
    hook();
    play("nop; settle; release it");
    failing_allocator_arm(&scene()->memory, 1, true);
    ferry_op_options options = options_of(label, FERRY_OP_LABEL_COPIED, 0);
    ferry_future *future = own(ferry_nop(engine(), &options));
    failing_allocator_arm(&scene()->memory, 0, false);
    play("settle");
    if (ferry_future_poll(future) == FERRY_OK)
        assert_heard(future, "(a label that was not kept)", 0);
}

/* Each number takes a slot, which comes back: nothing grows, and max_nodes is the only bound. */
Test(labels, numbers_take_nothing_for_long)
{
    ferry_op_options options = options_of("literal", 0, 1);
    for (int i = 0; i < 2000; i++)
        ferry_future_release(ferry_nop(engine(), &options));
    play("settle");
    uint64_t calls = failing_allocator_calls(&scene()->memory);
    for (int i = 0; i < 2000; i++) {
        options.user_data = (uint64_t)i + 1;
        ferry_future *future = ferry_nop(engine(), &options);
        ASSERT_STATUS(ferry_future_poll(future), FERRY_OK);
        ferry_future_release(future);
    }
    cr_assert_eq(failing_allocator_calls(&scene()->memory), calls);
}

Test(labels, a_known_copy_takes_nothing)
{
    char label[32];
    for (int round = 0; round < 3; round++) {
        uint64_t calls = failing_allocator_calls(&scene()->memory);
        for (int i = 0; i < 100; i++) {
            (void)snprintf(label, sizeof label, "layer %d", i);
            ferry_op_options options = options_of(label, FERRY_OP_LABEL_COPIED, 0);
            ferry_future_release(ferry_nop(engine(), &options));
        }
        play("settle");
        if (round > 0)
            cr_assert_eq(failing_allocator_calls(&scene()->memory), calls);
    }
}
