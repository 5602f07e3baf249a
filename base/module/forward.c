/* SPDX-License-Identifier: Apache-2.0 */
#include "base/module/forward.h"

#include "base/eventcount.h"
#include "base/futex.h"

#include <stdarg.h>
#include <stdio.h>

static const fry_module_host *library;

#if FRY_TSAN
uint32_t fry_tsan_fence;
#endif

void fry_forward_init(const fry_module_host *host)
{
    library = host;
}

void *fry_alloc(const fry_memory *memory, size_t size_bytes, size_t align_bytes)
{
    return library->alloc(memory, size_bytes, align_bytes);
}

void *fry_alloc_raw(const fry_memory *memory, size_t size_bytes, size_t align_bytes)
{
    return library->alloc_raw(memory, size_bytes, align_bytes);
}

void fry_free(const fry_memory *memory, void *pointer, size_t size_bytes)
{
    library->free(memory, pointer, size_bytes);
}

/* Formats here, because variable arguments can't be handed on through the pointer. */
void fry_log_line(const fry_log *log, ferry_log_level level, const char *format, ...)
{
    char line[FRY_LOG_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    library->log_line(log, level, "%s", line);
}

int64_t fry_clock_now_ns(const fry_clock *clock)
{
    return library->clock_now_ns(clock);
}

int64_t fry_clock_monotonic_ns(void)
{
    return library->clock_monotonic_ns();
}

const char *fry_environment(fry_environment_variable variable)
{
    return library->environment(variable);
}

void fry_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    library->futex_wait(word, expected, timeout_ns);
}

void fry_futex_wake(const uint32_t *word, int32_t count)
{
    library->futex_wake(word, count);
}

fry_module_thread *fry_forward_thread(void)
{
    return library->thread();
}

void fry_eventcount_commit(fry_eventcount *eventcount, uint32_t key, int64_t timeout_ns)
{
    if (fry_load_acquire(&eventcount->epoch) == key)
        fry_futex_wait(&eventcount->epoch, key, timeout_ns);
    (void)fry_fetch_sub(&eventcount->sleepers, 1);
}

void fry_eventcount_wake(fry_eventcount *eventcount, int32_t count)
{
    (void)fry_fetch_add(&eventcount->epoch, 1);
    fry_futex_wake(&eventcount->epoch, count);
}
