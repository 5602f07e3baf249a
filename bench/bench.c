/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_LIMIT_NS INT64_C(60000000000)

int64_t bench_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_spin_ns(int64_t duration_ns)
{
    int64_t end_ns = bench_now_ns() + duration_ns;
    while (bench_now_ns() < end_ns)
        continue;
}

void bench_sleep_ns(int64_t duration_ns)
{
    struct timespec rest = {.tv_sec = duration_ns / 1000000000,
                            .tv_nsec = duration_ns % 1000000000};
    while (nanosleep(&rest, &rest) != 0) {
        if (errno != EINTR)
            bench_fail("cannot sleep");
    }
}

_Noreturn void bench_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s: ", program_invocation_short_name);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    /* Other threads are still at work on memory that exit handlers would free. */
    _Exit(1);
}

void bench_find_tool(char *path, size_t path_bytes)
{
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0)
        bench_fail("cannot read /proc/self/exe");
    self[size] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        bench_fail("no folder in %s", self);
    *slash = '\0';
    int length = snprintf(path, path_bytes, "%s/../tools/ferry", self);
    if (length < 0 || (size_t)length >= path_bytes || access(path, X_OK) != 0)
        bench_fail("this case needs the ferry tool at %s: %s", path, strerror(errno));
}

void *bench_alloc(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (memory == NULL)
        bench_fail("no memory for %zu bytes", size_bytes);
    return memory;
}

void bench_size_name(char *name, size_t name_bytes, size_t size_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (unit < 3 && size_bytes >= 1024) {
        size_bytes /= 1024;
        unit++;
    }
    (void)snprintf(name, name_bytes, "%zu%s", size_bytes, units[unit]);
}

void bench_check(ferry_status status, const char *what)
{
    if (status != FERRY_OK)
        bench_fail("%s: %s (%s)", what, ferry_status_name(status), ferry_status_text(status));
}

ferry_engine *bench_engine_open(const ferry_engine_options *options)
{
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(options, &engine, &error);
    if (status != FERRY_OK)
        bench_fail("ferry_engine_create: %s: %s", ferry_status_name(status),
                   error == NULL ? ferry_status_text(status) : error->message);
    return engine;
}

void bench_engine_close(ferry_engine *engine)
{
    bench_check(ferry_engine_shutdown(engine, WAIT_LIMIT_NS), "ferry_engine_shutdown");
    ferry_engine_release(engine);
}

ferry_device *bench_device(ferry_engine *engine, const char *name)
{
    ferry_device *device = NULL;
    bench_check(ferry_device_open(engine, name, NULL, &device, NULL), name);
    return device;
}

ferry_buffer *bench_buffer(ferry_engine *engine, const char *device, size_t size_bytes, int fill)
{
    ferry_buffer *buffer = NULL;
    bench_check(ferry_buffer_alloc(bench_device(engine, device), size_bytes, &buffer),
                "ferry_buffer_alloc");
    /* Also takes the page faults before anything is timed. */
    memset(ferry_buffer_data(buffer), fill, size_bytes);
    return buffer;
}

void bench_wait(ferry_future *future)
{
    ferry_status status = ferry_future_poll(future);
    if (status == FERRY_PENDING)
        status = ferry_future_wait(future, WAIT_LIMIT_NS);
    if (status == FERRY_OK)
        return;
    const ferry_error *error = ferry_future_error(future);
    bench_fail("operation %llu: %s: %s", (unsigned long long)ferry_future_id(future),
               ferry_status_name(status),
               error == NULL ? ferry_status_text(status) : error->message);
}

void bench_finish(ferry_future *future)
{
    bench_wait(future);
    ferry_future_release(future);
}

bench_gate bench_gate_create(ferry_engine *engine)
{
    bench_gate gate = {0};
    bench_check(ferry_promise_create(engine, &gate.promise), "ferry_promise_create");
    gate.future = ferry_promise_future(gate.promise);
    return gate;
}

void bench_gate_open(bench_gate *gate)
{
    bench_check(ferry_promise_resolve(gate->promise, FERRY_OK, NULL), "ferry_promise_resolve");
}

void bench_gate_release(bench_gate *gate)
{
    ferry_future_release(gate->future);
    ferry_promise_release(gate->promise);
}

int64_t bench_chain_ns(ferry_engine *engine, size_t nodes, bool is_held)
{
    bench_gate gate = {0};
    if (is_held)
        gate = bench_gate_create(engine);
    ferry_future *previous = NULL;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < nodes; i++) {
        options.after = i == 0 ? &gate.future : &previous;
        options.after_count = i > 0 || is_held ? 1 : 0;
        ferry_future *node = ferry_nop(engine, &options);
        ferry_future_release(previous);
        previous = node;
    }
    if (is_held)
        bench_gate_open(&gate);
    bench_wait(previous);
    int64_t end_ns = bench_now_ns();
    ferry_future_release(previous);
    if (is_held)
        bench_gate_release(&gate);
    return end_ns - start_ns;
}
