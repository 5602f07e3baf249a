/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One short function for each call that the larger examples don't need: memory of your own, columns
 * of a matrix, the first of several, values, a promise that hears of a cancel, a waiter taken back.
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "small_calls.c:%d: not so: %s\n", __LINE__, #condition);               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static ferry_engine *engine;

static ferry_status end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

static void free_memory(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)size_bytes;
    free(memory); /* ferry will never touch it again */
}

static void wrap_memory(void)
{
    ferry_buffer *buffer = NULL;
    void *memory = calloc(1, 4096);
    EXPECT(ferry_buffer_wrap(ferry_device_at(engine, 0), memory, 4096, free_memory, NULL,
                             &buffer) == FERRY_OK);
    EXPECT(ferry_buffer_data(buffer) == memory && ferry_buffer_size_bytes(buffer) == 4096);
    EXPECT(ferry_buffer_device(buffer) == ferry_device_at(engine, 0));
    ferry_buffer_release(buffer);
}

/* Memory that is only read, as a mapped file is: an operation that would write it is refused. */
static void wrap_constant(void)
{
    static const char text[] = "read only";
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    options.source = text;
    options.size_bytes = sizeof text;
    if (ferry_buffer_create(ferry_device_at(engine, 0), &options, &buffer, &error) != FERRY_OK) {
        fprintf(stderr, "%s (%lld)\n", error->message, (long long)error->native_code);
        ferry_error_release(error);
        exit(1);
    }
    ferry_span half = ferry_span_slice(ferry_buffer_span(buffer), 0, 5);
    EXPECT(end(ferry_copy(engine, half, half, NULL)) == FERRY_E_INVALID);
    ferry_buffer_release(buffer);
}

/* Two owners of one buffer, who need not know of each other. */
static void share_buffer(void)
{
    ferry_buffer *mine = NULL;
    EXPECT(ferry_buffer_alloc_kind(ferry_device_at(engine, 0), 64, FERRY_MEMORY_DEFAULT, &mine) ==
           FERRY_OK);
    ferry_buffer *theirs = ferry_buffer_retain(mine);
    ferry_buffer_release(mine);
    EXPECT(ferry_buffer_engine(theirs) == engine);
    EXPECT(ferry_device_engine(ferry_buffer_device(theirs)) == engine);
    ferry_buffer_release(theirs);
}

/* Column 3 of a matrix of 16 rows of 8 numbers goes to column 0 of another one. */
static void copy_column(ferry_buffer *from, ferry_buffer *to)
{
    size_t row_bytes = 8 * sizeof(double);
    ferry_span source = {from, 3 * sizeof(double), sizeof(double)}; /* of the first row */
    ferry_span target = {to, 0, sizeof(double)};
    ((double *)ferry_buffer_data(from))[15 * 8 + 3] = 2.5;
    EXPECT(end(ferry_copy_rows(engine, target, row_bytes, source, row_bytes, 16, NULL)) ==
           FERRY_OK);
    EXPECT(((double *)ferry_buffer_data(to))[15 * 8] == 2.5);
}

/* Resolves when `before` has: a place to wait for several things. */
static void join_futures(ferry_future *const before[], size_t count)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = before;
    options.after_count = count;
    ferry_future *joined = ferry_nop(engine, &options);
    EXPECT(ferry_future_engine(joined) == engine && ferry_future_id(joined) != 0);
    EXPECT(end(joined) == FERRY_OK);
}

static void take_first(ferry_future *const futures[], size_t count)
{
    ferry_future *first = ferry_future_any(engine, futures, count);
    EXPECT(end(first) == FERRY_OK); /* the others go on */
}

static void pass_value(void)
{
    ferry_promise *promise = NULL;
    ferry_value value = FERRY_VALUE_INIT;
    EXPECT(ferry_promise_create(engine, &promise) == FERRY_OK);
    ferry_future *answer = ferry_promise_future(promise);
    EXPECT(ferry_promise_resolve_value(promise, "forty-two", 9) == FERRY_OK);
    ferry_promise_release(promise);
    EXPECT(ferry_future_value(answer, &value) == FERRY_OK && value.size_bytes == 9);
    join_futures(&answer, 1);
    take_first(&answer, 1);
    ferry_future_release(answer);
}

/* Nobody wants the result any more: its maker stops, and says so. */
static void stop_work(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    ferry_promise *stopped = waiter->arg; /* who is told may free the waiter */
    (void)future;
    EXPECT(ferry_promise_resolve(stopped, status, "stopped") == FERRY_OK);
    ferry_promise_release(stopped);
}

static void hear_of_cancel(void)
{
    ferry_promise *promise = NULL, *stopped = NULL;
    EXPECT(ferry_promise_create(engine, &promise) == FERRY_OK);
    EXPECT(ferry_promise_create(engine, &stopped) == FERRY_OK);
    ferry_waiter waiter = FERRY_WAITER_INIT(stop_work, stopped);
    ferry_future *told = ferry_promise_future(stopped);
    EXPECT(ferry_promise_on_cancel(promise, &waiter) == FERRY_OK);
    ferry_future *wanted = ferry_promise_future(promise);
    ferry_future_cancel(wanted);
    EXPECT(end(wanted) == FERRY_E_CANCELLED);
    ferry_promise_release(promise);
    EXPECT(end(told) == FERRY_E_CANCELLED); /* `waiter` stays in place until then */
}

static void never_called(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    abort();
}

/* The object that the callback uses may go when the waiter has been taken back. */
static void take_waiter_back(void)
{
    ferry_promise *promise = NULL;
    ferry_waiter waiter = FERRY_WAITER_INIT(never_called, NULL);
    waiter.executor = ferry_executor_inline(); /* ahead of other waiters, on the loop */
    EXPECT(ferry_promise_create(engine, &promise) == FERRY_OK);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *held = ferry_future_retain(future);
    EXPECT(ferry_future_on_ready(future, &waiter) == FERRY_OK);
    EXPECT(ferry_waiter_remove(&waiter));
    ferry_promise_release(promise);
    EXPECT(end(held) == FERRY_E_BROKEN_PROMISE);
    puts(ferry_status_text(FERRY_E_BROKEN_PROMISE));
    ferry_future_release(future);
}

static ferry_status do_nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static void run_on_loop(void)
{
    /* Where the engine has an executor of its own, this names the loop. */
    EXPECT(end(ferry_call(engine, ferry_executor_loop(), do_nothing, NULL, NULL)) == FERRY_OK);
}

static void name_things(void)
{
    printf("%s, %s\n", ferry_op_kind_name(FERRY_OP_COPY),
           ferry_trace_what_name(FERRY_TRACE_ISSUED));
}

/* The last moments of an engine that keeps them (flight_records). */
static void show_flight(void)
{
    ferry_trace_record records[16];
    size_t count = ferry_engine_flight_records(engine, records, sizeof records[0], 16);
    for (size_t i = 0; i < count; i++)
        printf("op %llu: %s\n", (unsigned long long)records[i].op,
               ferry_trace_what_name((ferry_trace_what)records[i].what));
    EXPECT(count > 0);
}

/* How long a loop with a timeout of its own may sleep: -1 for ever, else milliseconds, rounded up.
 */
static int sleep_ms(const ferry_engine *embedded)
{
    int64_t timeout_ns = ferry_engine_timeout_ns(embedded);
    return timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000);
}

int main(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_buffer *from = NULL, *to = NULL;
    ferry_queue *queue = NULL;
    options.flight_records = 64;
    EXPECT(ferry_engine_create(&options, &engine, NULL) == FERRY_OK);
    EXPECT(ferry_buffer_alloc(ferry_device_at(engine, 0), 1024, &from) == FERRY_OK);
    EXPECT(ferry_buffer_alloc(ferry_device_at(engine, 1), 1024, &to) == FERRY_OK);
    EXPECT(ferry_queue_create(engine, 8, &queue, NULL) == FERRY_OK);
    EXPECT(ferry_queue_engine(queue) == engine && sleep_ms(engine) == -1);
    wrap_memory();
    wrap_constant();
    share_buffer();
    copy_column(from, to);
    pass_value();
    hear_of_cancel();
    take_waiter_back();
    run_on_loop();
    name_things();
    show_flight();
    ferry_queue_release(queue);
    ferry_buffer_release(from);
    ferry_buffer_release(to);
    ferry_engine_release(engine);
    return 0;
}
