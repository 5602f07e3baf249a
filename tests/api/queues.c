/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: a record for each operation, room that is kept, a descriptor that wakes. */
#include "tests/support/play.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

SCENE_SUITE(queues);

static ferry_queue *queue_of(size_t depth, int *fd_p)
{
    ferry_queue *queue = NULL;
    ASSERT_STATUS(ferry_queue_create(engine(), depth, &queue, fd_p), FERRY_OK);
    cr_assert_not_null(queue);
    return queue;
}

static ferry_op_options into(ferry_queue *queue, uint64_t user_data)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.queue = queue;
    options.user_data = user_data;
    return options;
}

static size_t take(ferry_queue *queue, ferry_queue_record *records, size_t count)
{
    return ferry_queue_take(queue, records, sizeof *records, count);
}

/* The next record, of that operation. */
static void expect_record(ferry_queue *queue, uint64_t user_data, const ferry_future *future,
                          ferry_op_kind kind, size_t size_bytes, ferry_status status)
{
    ferry_queue_record record;
    cr_assert_eq(take(queue, &record, 1), 1);
    cr_assert_eq(record.user_data, user_data);
    cr_assert_eq(record.op, ferry_future_id(future));
    cr_assert_eq(record.kind, kind);
    cr_assert_eq(record.size_bytes, size_bytes);
    ASSERT_STATUS(record.status, status);
}

static void expect_empty(ferry_queue *queue)
{
    ferry_queue_record record;
    cr_assert_eq(take(queue, &record, 1), 0);
}

static bool is_readable(int fd)
{
    struct pollfd descriptor = {.fd = fd, .events = POLLIN};
    return poll(&descriptor, 1, 0) == 1;
}

static ferry_status fail(void *arg)
{
    (void)arg;
    return FERRY_E_FAILED;
}

/* ---- records ---- */

Test(queues, each_operation_makes_one_record)
{
    play("buffer a 64 of 1; buffer b 64; promise p");
    ferry_queue *queue = queue_of(16, NULL);
    ferry_op_options options = into(queue, 1);
    ferry_future *copy = own(ferry_copy(engine(), the_span("b"), the_span("a"), &options));
    options = into(queue, 2);
    ferry_future *call = own(ferry_call(engine(), NULL, fail, NULL, &options));
    ferry_future *after = the_future("p");
    options = behind(&after, 1);
    options.queue = queue; /* and no number */
    ferry_future *nop = own(ferry_nop(engine(), &options));
    scene_settle();
    expect_record(queue, 1, copy, FERRY_OP_COPY, 64, FERRY_OK);
    expect_record(queue, 2, call, FERRY_OP_CALL, 0, FERRY_E_FAILED);
    expect_empty(queue);
    play("cancel p; settle");
    expect_record(queue, 0, nop, FERRY_OP_NOP, 0, FERRY_E_DEPENDENCY);
    expect_empty(queue);
    cr_assert_eq(ferry_queue_engine(queue), engine());
    ferry_queue_release(queue);
}

Test(queues, the_future_has_resolved_when_its_record_is_there)
{
    scene_begin(FERRY_LOOP_THREAD);
    play("buffer a 65536 of 7; buffer b 65536");
    ferry_queue *queue = queue_of(4, NULL);
    ferry_op_options options = into(queue, 1);
    ferry_future *copy = own(ferry_copy(engine(), the_span("b"), the_span("a"), &options));
    ferry_queue_record record;
    while (take(queue, &record, 1) == 0)
        (void)sched_yield();
    ASSERT_STATUS(ferry_future_poll(copy), FERRY_OK);
    cr_assert(is_filled(the_buffer("b"), 0, 65536, 7));
    ferry_queue_release(queue);
}

Test(queues, a_batch_gives_its_queue_to_operations_that_have_none)
{
    enum { MANY = 100 };
    static ferry_op ops[MANY];
    static ferry_op_options options[MANY];
    play("buffer a 64 of 1; buffer b 64");
    ferry_queue *shared = queue_of(MANY, NULL), *other = queue_of(MANY, NULL);
    for (int i = 0; i < MANY; i++) {
        options[i] = into(i % 4 == 0 ? other : NULL, (uint64_t)i + 1);
        ops[i] = (ferry_op){.kind = i % 2 == 0 ? FERRY_OP_COPY : FERRY_OP_NOP,
                            .dst = the_span("b"),
                            .src = the_span("a"),
                            .options = &options[i]};
    }
    ops[2].options = NULL; /* it has the batch's */
    ferry_op_options whole = into(shared, 7777);
    ferry_future *batch = own(ferry_batch(engine(), ops, sizeof *ops, MANY, NULL, &whole));
    EXPECT(batch, OK);
    static ferry_queue_record records[MANY + 1];
    cr_assert_eq(take(other, records, MANY + 1), MANY / 4);
    size_t count = take(shared, records, MANY + 1);
    cr_assert_eq(count, MANY - MANY / 4, "%zu: the batch itself makes none", count);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += records[i].user_data;
    cr_assert_eq(sum, 7777 + 5050 - 3 - (uint64_t)(25 * 1 + 4 * 300));
    whole = into(shared, 5);
    batch = own(ferry_batch(engine(), NULL, sizeof *ops, 0, NULL, &whole));
    EXPECT(batch, OK);
    expect_record(shared, 5, batch, FERRY_OP_BATCH, 0, FERRY_OK);
    ferry_queue_release(shared);
    ferry_queue_release(other);
}

Test(queues, records_of_another_version)
{
    struct {
        uint64_t user_data, op;
    } older;
    struct {
        ferry_queue_record known;
        uint64_t later;
    } newer;
    ferry_queue *queue = queue_of(4, NULL);
    ferry_op_options options = into(queue, 11);
    play("settle");
    ferry_future *first = own(ferry_nop(engine(), &options));
    ferry_future *second = own(ferry_nop(engine(), &options));
    scene_settle();
    cr_assert_eq(ferry_queue_take(queue, (ferry_queue_record *)(void *)&older, sizeof older, 1), 1);
    cr_assert(older.user_data == 11 && older.op == ferry_future_id(first));
    memset(&newer, 0xee, sizeof newer);
    cr_assert_eq(ferry_queue_take(queue, &newer.known, sizeof newer, 1), 1);
    cr_assert(newer.known.op == ferry_future_id(second) && newer.later == 0);
    ferry_queue_release(queue);
}

/* ---- room ---- */

Test(queues, a_full_queue_refuses_and_loses_nothing)
{
    enum { DEPTH = 5 }; /* no power of two */
    play("promise p");
    ferry_queue *queue = queue_of(DEPTH, NULL);
    ferry_future *after = the_future("p");
    for (uint64_t round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < DEPTH; i++) {
            ferry_op_options options = into(queue, round * 10 + i);
            options.after = &after;
            options.after_count = round == 0;
            (void)own(ferry_nop(engine(), &options));
        }
        ferry_op_options options = into(queue, 1000);
        ferry_future *refused = own(ferry_nop(engine(), &options));
        EXPECT_NOW(refused, E_AGAIN);
        cr_assert_not_null(strstr(ferry_future_error(refused)->message, "completion queue"));
        if (round == 0)
            play("keep p");
        after = NULL;
        scene_settle();
        EXPECT_NOW(own(ferry_nop(engine(), &options)), E_AGAIN);
        ferry_queue_record records[DEPTH + 1];
        cr_assert_eq(take(queue, records, 2), 2);
        cr_assert_eq(take(queue, records + 2, DEPTH), DEPTH - 2);
        for (uint64_t i = 0; i < DEPTH; i++)
            cr_assert_eq(records[i].user_data, round * 10 + i);
    }
    expect_empty(queue);
    ferry_queue_release(queue);
}

Test(queues, what_is_refused_for_another_reason_keeps_no_room)
{
    play("buffer a 64; promise p");
    ferry_queue *queue = queue_of(1, NULL);
    ferry_op_options options = into(queue, 1);
    ferry_future *none = NULL;
    options.after = &none;
    options.after_count = 1;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    ferry_access outside = {{the_buffer("a"), 60, 8}, FERRY_READ};
    options = into(queue, 1);
    options.accesses = &outside;
    options.access_count = 1;
    EXPECT_NOW(own(ferry_nop(engine(), &options)), E_INVALID);
    options = into(queue, 2);
    ferry_future *fine = own(ferry_nop(engine(), &options));
    scene_settle();
    expect_record(queue, 2, fine, FERRY_OP_NOP, 0, FERRY_OK);
    expect_empty(queue);
    ferry_queue_release(queue);
}

Test(queues, a_batch_larger_than_the_queue)
{
    ferry_op ops[4] = {{.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP},
                       {.kind = FERRY_OP_NOP}};
    ferry_future *each[4];
    ferry_queue *queue = queue_of(3, NULL);
    ferry_op_options options = into(queue, 1);
    ferry_future *batch = own(ferry_batch(engine(), ops, sizeof *ops, 4, each, &options));
    scene_settle();
    for (int i = 0; i < 4; i++)
        ASSERT_STATUS(ferry_future_poll(own(each[i])), i < 3 ? FERRY_OK : FERRY_E_AGAIN);
    EXPECT(batch, E_DEPENDENCY);
    ferry_queue_record records[4];
    cr_assert_eq(take(queue, records, 4), 3);
    ferry_queue_release(queue);
}

/* ---- sleeping ---- */

Test(queues, many_records_wake_once)
{
    int fd = -1;
    ferry_queue *queue = queue_of(64, &fd);
    ferry_op_options options = into(queue, 1);
    ferry_queue_record records[64];
    cr_assert_not(is_readable(fd));
    (void)own(ferry_nop(engine(), &options));
    scene_settle();
    cr_assert_not(is_readable(fd), "nobody has armed");
    ASSERT_STATUS(ferry_queue_arm(queue), FERRY_E_BUSY);
    cr_assert_eq(take(queue, records, 64), 1);
    ASSERT_STATUS(ferry_queue_arm(queue), FERRY_OK);
    for (int i = 0; i < 10; i++)
        (void)own(ferry_nop(engine(), &options));
    scene_settle();
    cr_assert(is_readable(fd));
    cr_assert_eq(take(queue, records, 64), 10);
    cr_assert(is_readable(fd), "until the next arm");
    ASSERT_STATUS(ferry_queue_arm(queue), FERRY_OK);
    cr_assert_not(is_readable(fd));
    ferry_queue_release(queue);
}

typedef struct sleeper {
    ferry_queue *queue;
    int fd;
    uint64_t sum;
    size_t left;
} sleeper;

static void *sleep_and_take(void *arg)
{
    sleeper *self = arg;
    struct pollfd descriptor = {.fd = self->fd, .events = POLLIN};
    while (self->left != 0) {
        ferry_queue_record records[16];
        size_t count = take(self->queue, records, 16);
        for (size_t i = 0; i < count; i++)
            self->sum += records[i].user_data;
        self->left -= count;
        if (count == 0 && ferry_queue_arm(self->queue) == FERRY_OK)
            (void)poll(&descriptor, 1, -1);
    }
    return NULL;
}

static void wake_a_thread(ferry_loop_mode loop)
{
    enum { MANY = 5000 };
    scene_begin(loop);
    sleeper self = {.left = MANY};
    self.queue = queue_of(32, &self.fd);
    pthread_t thread = begin_thread(sleep_and_take, &self);
    for (uint64_t i = 1; i <= MANY; i++) {
        ferry_op_options options = into(self.queue, i);
        ferry_status status;
        do {
            ferry_future *nop = ferry_nop(engine(), &options);
            status = ferry_future_wait(nop, -1);
            ferry_future_release(nop);
        } while (status == FERRY_E_AGAIN); /* the other thread takes */
        ASSERT_STATUS(status, FERRY_OK);
    }
    (void)end_thread(thread);
    cr_assert_eq(self.sum, (uint64_t)MANY * (MANY + 1) / 2);
    ferry_queue_release(self.queue);
}

Test(queues, a_thread_that_sleeps_is_woken)
{
    wake_a_thread(FERRY_LOOP_THREAD);
}

Test(queues, a_thread_that_sleeps_is_woken_embedded)
{
    wake_a_thread(FERRY_LOOP_EMBEDDED);
}

/* ---- ends ---- */

Test(queues, released_before_its_operations_end)
{
    play("promise p; promise q");
    for (int i = 0; i < 50; i++) {
        int fd;
        ferry_queue *queue = queue_of(8, &fd);
        ferry_future *after = the_future(i % 2 == 0 ? "p" : "q");
        for (uint64_t k = 0; k < 8; k++) {
            ferry_op_options options = into(queue, k);
            options.after = &after;
            options.after_count = 1;
            (void)own(ferry_nop(engine(), &options));
        }
        ferry_queue_release(queue);
    }
    play("keep p; cancel q; settle"); /* and all memory and descriptors go: see scene_end */
    int first_fd, last_fd;
    ferry_queue_release(queue_of(1, &first_fd));
    ferry_queue *queue = queue_of(1, &last_fd);
    cr_assert_lt(last_fd, 32, "descriptors are closed: %d", last_fd);
    ferry_queue_release(queue);
}

Test(queues, records_can_be_taken_after_the_shutdown_and_the_release)
{
    scene_begin(FERRY_LOOP_THREAD);
    play("promise p");
    ferry_queue *queue = queue_of(8, NULL);
    ferry_future *after = the_future("p");
    ferry_op_options options = into(queue, 3);
    options.after = &after;
    options.after_count = 1;
    ferry_future *nop = own(ferry_nop(engine(), &options));
    uint64_t id = ferry_future_id(nop);
    scene_leave();
    ferry_queue_record record;
    cr_assert_eq(take(queue, &record, 1), 1);
    cr_assert(record.user_data == 3 && record.op == id);
    cr_assert(record.status == FERRY_E_DEPENDENCY || record.status == FERRY_E_SHUTDOWN);
    ferry_queue_release(queue); /* perhaps the last handle */
}

Test(queues, without_a_descriptor_to_be_had)
{
    ferry_queue *queue = NULL;
    struct rlimit limit, few;
    (void)engine();
    int fd = dup(0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t)fd;
    (void)close(fd);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ASSERT_STATUS(ferry_queue_create(engine(), 1, &queue, &fd), FERRY_E_SYSTEM);
    cr_assert_null(queue);
    ASSERT_STATUS(ferry_queue_create(engine(), 1, &queue, NULL), FERRY_OK);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ferry_queue_release(queue);
}

Test(queues, wrong_arguments)
{
    ferry_queue *queue = (ferry_queue *)(void *)&queue;
    ferry_queue *untouched = queue;
    ferry_queue_record record;
    ASSERT_STATUS(ferry_queue_create(NULL, 1, &queue, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_queue_create(engine(), 1, NULL, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_queue_create(engine(), 0, &queue, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_queue_create(engine(), ((size_t)1 << 22) + 1, &queue, NULL),
                  FERRY_E_INVALID);
    failing_allocator_arm(&scene()->memory, 1, true);
    ASSERT_STATUS(ferry_queue_create(engine(), 1, &queue, NULL), FERRY_E_NO_MEMORY);
    failing_allocator_arm(&scene()->memory, 0, false);
    cr_assert_eq(queue, untouched);
    queue = queue_of(1, NULL);
    ASSERT_STATUS(ferry_queue_arm(queue), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_queue_arm(NULL), FERRY_E_INVALID);
    cr_assert_eq(take(NULL, &record, 1), 0);
    cr_assert_eq(take(queue, NULL, 1), 0);
    cr_assert_eq(ferry_queue_take(queue, &record, 4, 1), 0);
    cr_assert_eq(ferry_queue_take(queue, &record, 5000, 1), 0);
    cr_assert_null(ferry_queue_engine(NULL));
    ferry_queue_release(NULL);
    ferry_engine_options plain = FERRY_ENGINE_OPTIONS_INIT;
    plain.loop = FERRY_LOOP_EMBEDDED;
    ferry_engine *other = NULL;
    ASSERT_STATUS(ferry_engine_create(&plain, &other, NULL), FERRY_OK);
    ferry_op_options options = into(queue, 1);
    ferry_future *refused = ferry_nop(other, &options);
    ASSERT_STATUS(ferry_future_poll(refused), FERRY_E_INVALID);
    ferry_future_release(refused);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    ferry_queue *late = NULL;
    ASSERT_STATUS(ferry_queue_create(engine(), 1, &late, NULL), FERRY_E_SHUTDOWN);
    ferry_engine_release(other);
    ferry_queue_release(queue);
}
