/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the public API share: an engine whose memory is counted, small operations,
 * callbacks that count, and an executor that runs nothing until the test says so. For Criterion
 * programs.
 */
#ifndef FERRY_TESTS_API_TEST_H
#define FERRY_TESTS_API_TEST_H

#include "tests/support/failing_allocator.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/test_device.h"

#include <criterion/criterion.h>
#include <ferry/ferry.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#define HANG_S 60 /* a test that takes this long hangs */
#define TEST_DEVICES 4
#define START_NS 1000000000

#define ASSERT_STATUS(expression, expected)                                                        \
    do {                                                                                           \
        ferry_status status_ = (expression);                                                       \
        cr_assert(status_ == (expected), "%s is %s, not %s", #expression,                          \
                  ferry_status_name(status_), ferry_status_name(expected));                        \
    } while (0)

/* A test of what host devices alone do is skipped on others; `why` is one of test_device.h. */
#define ONLY_ON_HOSTS(why)                                                                         \
    do {                                                                                           \
        if (!test_devices_are_hosts())                                                             \
            cr_skip_test("%s", (why));                                                             \
    } while (0)

/* ---- an engine ---- */

typedef struct test_engine {
    failing_allocator memory;
    ferry_allocator allocator;
    stepped_clock time;
    ferry_clock clock;
    _Atomic int log_lines;
    ferry_engine *engine;
} test_engine;

static inline void test_log(void *arg, ferry_log_level level, const char *line)
{
    (void)level, (void)line;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/*
 * Counted memory; in embedded mode the clock stands still until the test steps it. TEST_DEVICES
 * devices, two workers.
 */
static inline ferry_engine_options test_engine_options(test_engine *te, ferry_loop_mode loop)
{
    failing_allocator_init(&te->memory);
    te->allocator = failing_allocator_interface(&te->memory);
    stepped_clock_init(&te->time, START_NS);
    te->clock = stepped_clock_interface(&te->time);
    atomic_init(&te->log_lines, 0);
    te->engine = NULL;
    return (ferry_engine_options){.struct_size = sizeof(ferry_engine_options),
                                  .loop = loop,
                                  .host_devices = TEST_DEVICES,
                                  .host_workers = 2,
                                  .allocator = &te->allocator,
                                  .clock = loop == FERRY_LOOP_EMBEDDED ? &te->clock : NULL,
                                  .log = test_log,
                                  .log_arg = &te->log_lines};
}

static inline void test_engine_create(test_engine *te, const ferry_engine_options *options)
{
    ASSERT_STATUS(ferry_engine_create(options, &te->engine, NULL), FERRY_OK);
    for (size_t i = 0; i < TEST_DEVICES && !test_devices_are_hosts(); i++)
        cr_assert_not_null(test_device(te->engine, i), "device %zu", i);
}

static inline void test_engine_open(test_engine *te, ferry_loop_mode loop)
{
    ferry_engine_options options = test_engine_options(te, loop);
    test_engine_create(te, &options);
}

/* All handles are released by now, so all memory goes with the engine. */
static inline void test_engine_close(test_engine *te)
{
    ASSERT_STATUS(ferry_engine_shutdown(te->engine, -1), FERRY_OK);
    ferry_engine_release(te->engine);
    cr_assert_eq(failing_allocator_live_bytes(&te->memory), 0, "%lld bytes are still allocated",
                 (long long)failing_allocator_live_bytes(&te->memory));
}

/* Embedded: makes progress until there is nothing to do without an event of the test's. */
static inline void settle(const test_engine *te)
{
    do {
        while (ferry_engine_progress(te->engine, 0) > 0)
            continue;
    } while (test_devices_settle());
}

/* What a host has done when the call returns a GPU has done when it has settled. */
static inline void settle_gpus(const test_engine *te)
{
    if (!test_devices_are_hosts())
        settle(te);
}

/* ---- operations ---- */

static inline ferry_promise *test_promise(const test_engine *te)
{
    ferry_promise *promise = NULL;
    ASSERT_STATUS(ferry_promise_create(te->engine, &promise), FERRY_OK);
    return promise;
}

/* Resolves a promise and gives it back. */
static inline void keep_promise(ferry_promise *promise, ferry_status status)
{
    ASSERT_STATUS(ferry_promise_resolve(promise, status, NULL), FERRY_OK);
    ferry_promise_release(promise);
}

/* Options of what waits for these, and of what touches these; both are borrowed. */
static inline ferry_op_options behind(ferry_future *const *after, size_t count)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = count;
    return options;
}

static inline ferry_op_options touching(const ferry_access *accesses, size_t count)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = accesses;
    options.access_count = count;
    return options;
}

static inline ferry_future *nop_after(const test_engine *te, ferry_future *after)
{
    ferry_op_options options = behind(&after, 1);
    return ferry_nop(te->engine, &options);
}

/* A nop that waits for the promise. */
static inline ferry_future *nop_after_promise(const test_engine *te, ferry_promise *promise)
{
    ferry_future *after = ferry_promise_future(promise);
    ferry_future *nop = nop_after(te, after);
    ferry_future_release(after);
    return nop;
}

static inline ferry_future *copy_after(const test_engine *te, ferry_span dst, ferry_span src,
                                       ferry_future *after)
{
    ferry_op_options options = behind(&after, 1);
    return ferry_copy(te->engine, dst, src, &options);
}

static inline ferry_future *copy_after_promise(const test_engine *te, ferry_span dst,
                                               ferry_span src, ferry_promise *promise)
{
    ferry_future *after = ferry_promise_future(promise);
    ferry_future *copy = copy_after(te, dst, src, after);
    ferry_future_release(after);
    return copy;
}

/* A buffer filled with one byte. */
static inline ferry_buffer *test_buffer(const test_engine *te, size_t device, size_t size_bytes,
                                        int fill)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_alloc(test_device(te->engine, device), size_bytes, &buffer),
                  FERRY_OK);
    memset(ferry_buffer_data(buffer), fill, size_bytes);
    return buffer;
}

/* Whose stream a copy is on: of two hosts that which it goes to, of two GPUs that which has it. */
static inline ferry_device *test_device_that_copies(const ferry_buffer *dst,
                                                    const ferry_buffer *src)
{
    return ferry_buffer_device(test_devices_are_hosts() ? dst : src);
}

static inline ferry_span span_of(ferry_buffer *buffer, size_t offset_bytes, size_t size_bytes)
{
    return (ferry_span){buffer, offset_bytes, size_bytes};
}

/* Whether every byte of a part of the buffer is `fill`. */
static inline bool is_filled(const ferry_buffer *buffer, size_t offset_bytes, size_t size_bytes,
                             int fill)
{
    const unsigned char *bytes = (unsigned char *)ferry_buffer_data(buffer) + offset_bytes;
    return size_bytes == 0 ||
           (bytes[0] == (unsigned char)fill && memcmp(bytes, bytes + 1, size_bytes - 1) == 0);
}

/*
 * The future's status now; gives the future back. What a host does within the call that submits it,
 * or that makes progress, a GPU has done when it has settled and the graph was looked at again.
 */
static inline ferry_status status_of(ferry_future *future)
{
    ferry_status status = ferry_future_poll(future);
    while (status == FERRY_PENDING && test_devices_settle())
        status = ferry_future_wait(future, 1);
    ferry_future_release(future);
    return status;
}

/* ---- callbacks ---- */

typedef struct counted_waiter {
    ferry_waiter waiter; /* first */
    _Atomic int calls;
    ferry_status status;
    ferry_future *future;
    pthread_t thread;
} counted_waiter;

static inline void count_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    counted_waiter *self = (counted_waiter *)(void *)waiter;
    self->status = status;
    self->future = future;
    self->thread = pthread_self();
    atomic_fetch_add(&self->calls, 1);
}

static inline void counted_waiter_init(counted_waiter *self, ferry_executor *executor)
{
    memset(self, 0, sizeof *self);
    self->waiter.fn = count_ready;
    self->waiter.executor = executor;
}

/* ---- an executor that keeps its tasks until the test runs them ---- */

#define MANUAL_TASKS_MAX 1024

typedef struct manual_executor {
    ferry_executor executor; /* first */
    ferry_task *tasks[MANUAL_TASKS_MAX];
    _Atomic size_t posted;
    size_t run;
} manual_executor;

static inline void manual_post(ferry_executor *executor, ferry_task *task)
{
    manual_executor *self = (manual_executor *)(void *)executor;
    size_t posted = atomic_load(&self->posted);
    cr_assert_lt(posted, MANUAL_TASKS_MAX);
    self->tasks[posted] = task;
    atomic_store(&self->posted, posted + 1);
}

static inline void manual_executor_init(manual_executor *self)
{
    memset(self, 0, sizeof *self);
    self->executor.struct_size = sizeof self->executor;
    self->executor.post = manual_post;
}

/* How many tasks wait to be run. */
static inline size_t manual_waiting(manual_executor *self)
{
    return atomic_load(&self->posted) - self->run;
}

/* Runs the oldest task in the calling thread. */
static inline void manual_run_one(manual_executor *self)
{
    cr_assert_gt(manual_waiting(self), 0, "nothing was posted");
    ferry_task_run(self->tasks[self->run++]);
}

/* ---- threads ---- */

static inline pthread_t begin_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

/* Gives what it has returned. */
static inline void *end_thread(pthread_t thread)
{
    void *result = NULL;
    cr_assert_eq(pthread_join(thread, &result), 0);
    return result;
}

/* In a thread of its own, which has ended. */
static inline void *in_thread(void *(*fn)(void *), void *arg)
{
    return end_thread(begin_thread(fn, arg));
}

/* ---- functions ---- */

/* Counts its calls; arg is an _Atomic int. */
static inline ferry_status count_call(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return FERRY_OK;
}

static inline ferry_status fail_call(void *arg)
{
    (void)arg;
    return FERRY_E_FAILED;
}

/* A function on a span, which runs on `executor`. */
static inline ferry_future *call_on(const test_engine *te, ferry_executor *executor,
                                    ferry_call_fn fn, void *arg, ferry_span span,
                                    ferry_access_mode mode)
{
    ferry_access access = {.span = span, .mode = mode};
    ferry_op_options options = touching(&access, 1);
    return ferry_call(te->engine, executor, fn, arg, &options);
}

#endif
