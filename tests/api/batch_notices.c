/* SPDX-License-Identifier: Apache-2.0 */
/* Notices at the end of batches: several engines of one process. */
#include "tests/support/member_test.h"
#include "tests/support/place.h"

#include <pthread.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(batch_notices, .init = need_channels);

enum { SLICE = 64, DUMP_BYTES = 65536 };

static ferry_promise *promise; /* of member 1, of a case */
static ferry_future *promised;

/* Two members, of which the second submits. */
static void begin(ferry_loop_mode loop)
{
    begin_members(2, loop);
    ASSERT_STATUS(ferry_promise_create(members[1].te.engine, &promise), FERRY_OK);
    promised = ferry_promise_future(promise);
}

static void end(void)
{
    ferry_promise_release(promise);
    ferry_future_release(promised);
}

static ferry_op nop_op(const ferry_op_options *options)
{
    return (ferry_op){.kind = FERRY_OP_NOP, .options = options};
}

static ferry_op notice_op(const void *data, size_t size_bytes)
{
    return (ferry_op){.kind = FERRY_OP_NOTICE,
                      .group = members[1].group,
                      .peer = 0,
                      .data = data,
                      .data_bytes = size_bytes};
}

static ferry_op_options behind_promise(void)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &promised;
    options.after_count = 1;
    return options;
}

static ferry_future *submit(const ferry_op *ops, size_t count, ferry_future **each)
{
    return ferry_batch(members[1].te.engine, ops, sizeof ops[0], count, each, NULL);
}

static ferry_future *next(void)
{
    return ferry_notice_next(members[0].group, 0);
}

/* The notice that the future, which is given back, has taken is that one. */
static void expect_taken(ferry_future *future, const char *text)
{
    ferry_value value = FERRY_VALUE_INIT;
    ASSERT_STATUS(await(ferry_future_retain(future)), FERRY_OK);
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_OK);
    cr_assert_str_eq(value.data, text);
    ferry_future_release(future);
}

static void expect_pending(const ferry_future *future)
{
    test_members_move(members, member_count);
    ASSERT_STATUS(ferry_future_poll((ferry_future *)future), FERRY_PENDING);
}

/* Whatever was sent is taken: only what comes now is left. */
static void expect_none_left(void)
{
    ferry_future *told =
        ferry_notice_send(members[1].group, 0, "the last", sizeof "the last", NULL);
    expect_taken(next(), "the last");
    AWAIT(told, OK);
}

/* ---- order ---- */

static void come_in_their_turn(ferry_loop_mode loop, bool has_each)
{
    begin(loop);
    ferry_future *each[4] = {NULL};
    ferry_buffer *from = buffer_of(1, 0, SLICE, 7), *to = buffer_of(1, 0, SLICE, 0);
    ferry_op_options late = behind_promise();
    char words[] = "one";
    ferry_op ops[] = {
        nop_op(&late),
        {.kind = FERRY_OP_COPY, .dst = ferry_buffer_span(to), .src = ferry_buffer_span(from)},
        notice_op(words, sizeof words),
        notice_op("two", 4)};
    ferry_future *all = submit(ops, 4, has_each ? each : NULL);
    memset(words, 0, sizeof words); /* it was copied */
    expect_none_left();             /* neither has left */
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    expect_taken(next(), "one");
    cr_assert(is_filled(to, 0, SLICE, 7));
    expect_taken(next(), "two");
    AWAIT(all, OK);
    for (size_t i = 0; has_each && i < 4; i++)
        AWAIT(each[i], OK);
    expect_none_left();
    end();
}

Test(batch_notices, come_in_their_turn)
{
    come_in_their_turn(FERRY_LOOP_THREAD, true);
}

Test(batch_notices, come_in_their_turn_without_futures)
{
    come_in_their_turn(FERRY_LOOP_THREAD, false);
}

Test(batch_notices, come_in_their_turn_in_embedded_engines)
{
    come_in_their_turn(FERRY_LOOP_EMBEDDED, true);
}

/* The second has another receiver, and waits for the first one's all the same. */
Test(batch_notices, wait_for_those_before_them)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_op ops[] = {notice_op("one", 4), notice_op("two", 4)};
    ops[1].peer = 2;
    for (int round = 0; round < 10; round++) {
        ferry_future *all = submit(ops, 2, NULL);
        ferry_future *mark = ferry_notice_send(members[1].group, 2, "mark", 5, NULL);
        expect_taken(ferry_notice_next(members[2].group, 0), "mark");
        AWAIT(mark, OK);
        expect_taken(next(), "one");
        expect_taken(ferry_notice_next(members[2].group, 0), "two");
        AWAIT(all, OK);
    }
}

/* What is before them has ended when they enter, or there is none. */
Test(batch_notices, start_at_once_where_nothing_holds_them)
{
    begin(FERRY_LOOP_THREAD);
    const ferry_op ops[] = {nop_op(NULL), notice_op("x", 2)};
    for (size_t first = 0; first < 2; first++) {
        ferry_future *all = submit(ops + first, 2 - first, NULL);
        expect_taken(next(), "x");
        AWAIT(all, OK);
    }
    end();
}

/* More than a batch stages at a time. */
static void are_many(bool has_each)
{
    enum { NOPS = 700, NOTICES = 300 };
    static ferry_op ops[NOPS + NOTICES];
    static ferry_future *each[NOPS + NOTICES];
    static char texts[NOTICES][8];
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise();
    for (size_t i = 0; i < NOPS; i++)
        ops[i] = nop_op(i % 3 == 0 ? &late : NULL);
    for (size_t i = 0; i < NOTICES; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%zu", i);
        ops[NOPS + i] = notice_op(texts[i], sizeof texts[i]);
    }
    ferry_future *all = submit(ops, NOPS + NOTICES, has_each ? each : NULL);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    for (size_t i = 0; i < NOTICES; i++)
        expect_taken(next(), texts[i]);
    AWAIT(all, OK);
    for (size_t i = 0; has_each && i < NOPS + NOTICES; i++)
        AWAIT(each[i], OK);
    end();
}

Test(batch_notices, may_be_many)
{
    are_many(true);
}

Test(batch_notices, may_be_many_without_futures)
{
    are_many(false);
}

/* A dump says that they wait for what is before them in the batch. */
static void take_text(void *arg, const char *text, size_t size_bytes)
{
    char *dump = arg;
    size_t length = strlen(dump);
    size_t more = size_bytes < DUMP_BYTES - 1 - length ? size_bytes : DUMP_BYTES - 1 - length;
    memcpy(dump + length, text, more);
    dump[length + more] = '\0';
}

Test(batch_notices, say_in_a_dump_what_they_wait_for)
{
    static char dump[DUMP_BYTES];
    char wait[64];
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise();
    const ferry_op ops[] = {nop_op(&late), notice_op("x", 2)};
    ferry_future *all = submit(ops, 2, NULL);
    ASSERT_STATUS(ferry_engine_dump(members[1].te.engine, FERRY_DUMP_JSON, take_text, dump),
                  FERRY_OK);
    (void)snprintf(wait, sizeof wait, "\"op\":%llu,\"nature\":\"before\"",
                   (unsigned long long)ferry_future_id(all));
    cr_assert(strstr(dump, wait) != NULL, "%s", dump);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    expect_taken(next(), "x");
    AWAIT(all, OK);
    end();
}

/* ---- failures ---- */

static ferry_status fail(void *arg)
{
    (void)arg;
    return FERRY_E_FAILED;
}

static void expect_cause(ferry_future *future, ferry_status status)
{
    ASSERT_STATUS(await(ferry_future_retain(future)), FERRY_E_DEPENDENCY);
    const ferry_error *error = ferry_future_error(future);
    cr_assert_not_null(error->cause);
    ASSERT_STATUS(error->cause->status, status);
    ferry_future_release(future);
}

/* At once, as it runs, or because the operation is refused. */
Test(batch_notices, are_not_sent_after_a_failure)
{
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise();
    const struct {
        ferry_op op;
        ferry_status cause;
    } failing[] = {{{.kind = FERRY_OP_CALL, .fn = fail}, FERRY_E_FAILED},
                   {{.kind = FERRY_OP_DRAIN}, FERRY_E_INVALID},
                   {{.kind = FERRY_OP_CALL}, FERRY_E_INVALID}};
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        ferry_future *each[4];
        const ferry_op ops[] = {nop_op(&late), failing[i].op, notice_op("no", 3),
                                notice_op("never", 6)};
        ferry_future *all = submit(ops, 4, each);
        expect_cause(each[2], failing[i].cause);
        expect_cause(each[3], failing[i].cause);
        expect_cause(all, failing[i].cause);
        expect_pending(each[0]); /* the others go on */
        (void)await(each[1]);
        ferry_future_release(each[0]);
    }
    ferry_future *all = submit((ferry_op[]){nop_op(&late), notice_op("no", 3)}, 2, NULL);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_CHANGED, "no"), FERRY_OK);
    expect_cause(all, FERRY_E_CHANGED);
    expect_none_left();
    end();
}

/* Those before it are sent, and those behind it are not. */
Test(batch_notices, behind_one_that_is_refused_are_not_sent)
{
    static const char much[FERRY_NOTICE_BYTES_MAX + 1];
    begin(FERRY_LOOP_THREAD);
    for (size_t wrong = 0; wrong < 3; wrong++) {
        ferry_future *each[3];
        ferry_op ops[] = {notice_op("0", 2), notice_op("1", 2), notice_op("2", 2)};
        ops[wrong] = notice_op(much, sizeof much);
        if (wrong == 0)
            ops[wrong].group = NULL;
        ferry_future *all = submit(ops, 3, each);
        if (wrong > 0)
            expect_taken(next(), "0");
        if (wrong > 1)
            expect_taken(next(), "1");
        expect_cause(all, FERRY_E_INVALID);
        for (size_t i = 0; i < 3; i++) {
            if (i <= wrong)
                ASSERT_STATUS(await(each[i]), i < wrong ? FERRY_OK : FERRY_E_INVALID);
            else
                expect_cause(each[i], FERRY_E_INVALID);
        }
    }
    expect_none_left();
    end();
}

Test(batch_notices, before_other_operations_are_refused)
{
    begin(FERRY_LOOP_THREAD);
    ferry_future *each[3];
    const ferry_op ops[] = {nop_op(NULL), notice_op("no", 3), nop_op(NULL)};
    ferry_future *all = submit(ops, 3, each);
    AWAIT(each[1], E_INVALID);
    AWAIT(each[0], OK);
    AWAIT(each[2], OK);
    expect_cause(all, FERRY_E_INVALID);
    expect_none_left();
    end();
}

/* ---- those that end before their turn ---- */

Test(batch_notices, are_cancelled_with_their_batch)
{
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise();
    for (size_t round = 0; round < 20; round++) {
        ferry_future *each[4];
        const ferry_op ops[] = {nop_op(&late), nop_op(NULL), notice_op("no", 3),
                                notice_op("never", 6)};
        ferry_future *all = submit(ops, 4, each);
        ferry_future_cancel(all);
        ferry_future *quiet = ferry_future_quiet(all);
        AWAIT(all, E_CANCELLED);
        AWAIT(quiet, OK);
        for (size_t i = 0; i < 4; i++)
            ASSERT_STATUS(await(each[i]), i == 1 ? FERRY_OK : FERRY_E_CANCELLED);
    }
    expect_none_left();
    end();
}

/* The others are as if it had not been, except those behind it. */
Test(batch_notices, are_cancelled_by_themselves)
{
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise();
    ferry_future *each[2][4], *all[2];
    const ferry_op ops[] = {nop_op(&late), notice_op("first", 6), notice_op("second", 7),
                            notice_op("third", 6)};
    for (size_t i = 0; i < 2; i++) {
        all[i] = submit(ops, 4, each[i]);
        ferry_future_cancel(each[i][1 + i]);
        ASSERT_STATUS(await(each[i][1 + i]), FERRY_E_CANCELLED);
        expect_cause(each[i][3], FERRY_E_CANCELLED);
        expect_pending(each[i][0]);
    }
    expect_cause(each[0][2], FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    expect_taken(next(), "first"); /* of the second batch */
    AWAIT(each[1][1], OK);
    for (size_t i = 0; i < 2; i++) {
        expect_cause(all[i], FERRY_E_CANCELLED);
        AWAIT(each[i][0], OK);
    }
    expect_none_left();
    end();
}

Test(batch_notices, are_late_by_themselves)
{
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise(), soon = FERRY_OP_OPTIONS_INIT;
    soon.deadline_ns = test_in_ns(2000000);
    ferry_op ops[] = {nop_op(&late), notice_op("late", 5), notice_op("never", 6)};
    ops[1].options = &soon;
    ferry_future *each[3], *all = submit(ops, 3, each);
    AWAIT(each[1], E_DEADLINE);
    expect_cause(each[2], FERRY_E_DEADLINE);
    expect_cause(all, FERRY_E_DEADLINE);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    AWAIT(each[0], OK);
    expect_none_left();
    end();
}

Test(batch_notices, end_with_the_engine)
{
    begin(FERRY_LOOP_THREAD);
    ferry_op_options late = behind_promise();
    ferry_future *each[3];
    const ferry_op ops[] = {nop_op(&late), notice_op("no", 3), notice_op("never", 6)};
    ferry_future *all = submit(ops, 3, each);
    ferry_future *untold = submit(ops, 3, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(members[1].te.engine, -1), FERRY_OK);
    for (size_t i = 0; i < 3; i++)
        cr_assert_lt(await(each[i]), 0);
    cr_assert_lt(await(all), 0);
    cr_assert_lt(await(untold), 0);
    end();
}

/* ---- threads ---- */

enum { THREADS = 3, ROUNDS = 400, PARTS = 5 };

static void *submit_many(void *arg)
{
    uint32_t thread = *(uint32_t *)arg;
    ferry_buffer *buffer = test_buffer(&members[1].te, 0, 2 * PARTS * SLICE, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t words[2][2] = {{thread, 2 * round}, {thread, 2 * round + 1}};
        ferry_op ops[PARTS + 2];
        for (size_t i = 0; i < PARTS; i++)
            ops[i] = i % 2 == 0 ? nop_op(NULL)
                                : (ferry_op){.kind = FERRY_OP_COPY,
                                             .dst = span_of(buffer, i * SLICE, SLICE),
                                             .src = span_of(buffer, (PARTS + i) * SLICE, SLICE)};
        ops[PARTS] = notice_op(words[0], sizeof words[0]);
        ops[PARTS + 1] = notice_op(words[1], sizeof words[1]);
        ferry_future *all = submit(ops, PARTS + 2, NULL);
        if (round % 7 == 0)
            ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_OK);
        ferry_future_release(all);
    }
    ferry_buffer_release(buffer);
    return NULL;
}

/* Of each batch they come in order, whoever has the baton. */
Test(batch_notices, of_many_threads)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS], seen[THREADS][2 * ROUNDS] = {{0}};
    begin(FERRY_LOOP_THREAD);
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, submit_many, &numbers[i]), 0);
    }
    for (size_t i = 0; i < (size_t)2 * THREADS * ROUNDS; i++) {
        uint32_t words[2];
        ferry_value value = FERRY_VALUE_INIT;
        ferry_future *taken = next();
        ASSERT_STATUS(await(ferry_future_retain(taken)), FERRY_OK);
        ASSERT_STATUS(ferry_future_value(taken, &value), FERRY_OK);
        cr_assert_eq(value.size_bytes, sizeof words);
        memcpy(words, value.data, sizeof words);
        ferry_future_release(taken);
        cr_assert_eq(seen[words[0]][words[1]]++, 0);
        cr_assert(words[1] % 2 == 0 || seen[words[0]][words[1] - 1] == 1);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    expect_none_left();
    end();
}
