/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers on GPUs, kinds of memory, what may be wrapped, and which way copies between hosts and
 * GPUs go. The GPUs are a fake module's, and their memory is this process's. */
#include "tests/support/device_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { SIZE = 4096, PINNED_STREAM = 0, STAGED_STREAM = 1, OWN_STREAM = 2 };

TestSuite(device_memory, .timeout = HANG_S);

static ferry_buffer *alloc_kind(ferry_device *device, ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_alloc_kind(device, SIZE, kind, &buffer), FERRY_OK);
    cr_assert_eq(ferry_buffer_device(buffer), device);
    return buffer;
}

static void assert_kind_refused(device_test *t, ferry_device *device, ferry_memory kind,
                                ferry_status expected, const char *part)
{
    ferry_buffer *buffer = NULL;
    int allocs = t->fake->allocs;
    int64_t live_bytes = failing_allocator_live_bytes(&t->te.memory);
    ASSERT_STATUS(ferry_buffer_alloc_kind(device, SIZE, kind, &buffer), expected);
    cr_assert_null(buffer);
    ASSERT_SAYS(t->log.last, part);
    cr_assert_eq(t->fake->allocs, allocs);
    cr_assert_eq(failing_allocator_live_bytes(&t->te.memory), live_bytes);
}

static void copy_now(device_test *t, ferry_buffer *dst, ferry_buffer *src)
{
    ferry_future *copy =
        ferry_copy(t->engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
    ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    ferry_future_release(copy);
}

/* ---- kinds ---- */

Test(device_memory, a_gpu_has_two_kinds)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_device *gpu = open_gpu(&t, "cuda:0");
    ferry_buffer *first = alloc_kind(gpu, FERRY_MEMORY_DEFAULT);
    ferry_buffer *second = alloc_kind(gpu, FERRY_MEMORY_PLAIN);
    cr_assert_eq(t.fake->live_allocations, 2);
    assert_kind_refused(&t, gpu, FERRY_MEMORY_PINNED, FERRY_E_UNSUPPORTED,
                        "cuda:0: the device has no memory of that kind");
    assert_kind_refused(&t, gpu, (ferry_memory)3, FERRY_E_INVALID, "kind is not a ferry_memory");
    assert_kind_refused(&t, gpu, (ferry_memory)-1, FERRY_E_INVALID, "kind is not a ferry_memory");
    ferry_buffer_release(first);
    ferry_buffer_release(second);
    device_test_close(&t);
    cr_assert_eq(t.fake->frees, 2);
}

/* Of the mapping that an address is in, the letters that /proc/self/smaps has for its flags. */
static void find_flags(const void *memory, char *flags, size_t flags_bytes)
{
    char line[512];
    uintptr_t begin = 0, end = 0;
    bool is_here = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    flags[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
            is_here = (uintptr_t)memory >= begin && (uintptr_t)memory < end;
        else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
            (void)snprintf(flags, flags_bytes, "%s", line + 8);
    }
    if (file != NULL)
        (void)fclose(file);
}

Test(device_memory, a_hosts_large_memory_is_to_be_of_huge_pages)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = NULL;
    ferry_device *host = ferry_device_find(t.engine, "host:0");
    ASSERT_STATUS(ferry_buffer_alloc(host, (size_t)8 << 20, &buffer), FERRY_OK);
    char flags[512];
    find_flags(ferry_buffer_data(buffer), flags, sizeof flags);
    /* Where the kernel can't, or does not say, there is nothing to see. */
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0 && flags[0] != '\0')
        cr_assert(strstr(flags, " hg") != NULL, "flags:%s", flags);
    ferry_buffer_release(buffer);
    device_test_close(&t);
}

Test(device_memory, pinned_memory_is_a_hosts_and_asked_of_a_gpu)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_device *host = ferry_device_at(t.engine, 1);
    assert_kind_refused(&t, host, FERRY_MEMORY_PINNED, FERRY_E_UNSUPPORTED,
                        "host:1: there is no pinned memory: no GPU is open");
    assert_kind_refused(&t, host, FERRY_MEMORY_PLAIN, FERRY_E_UNSUPPORTED,
                        "host:1: the device has no memory of that kind");
    (void)open_gpu(&t, "cuda:0");
    ferry_buffer *buffer = alloc_kind(host, FERRY_MEMORY_PINNED);
    cr_assert_eq(t.fake->live_allocations, 1);
    memset(ferry_buffer_data(buffer), 1, SIZE);
    ferry_buffer_release(buffer);
    settle(&t.te);
    cr_assert_eq(t.fake->live_allocations, 0);
    ferry_buffer *plain = alloc_kind(host, FERRY_MEMORY_DEFAULT);
    cr_assert_eq(t.fake->allocs, 1, "a host's own memory is its allocator's");
    ferry_buffer_release(plain);
    device_test_close(&t);
}

Test(device_memory, each_refusal_of_a_driver_is_the_callers_and_leaves_nothing)
{
    static const ferry_status statuses[] = {FERRY_E_NO_MEMORY, FERRY_E_DEVICE, FERRY_E_UNSUPPORTED};
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_device *gpu = open_gpu(&t, "cuda:0");
    int64_t live_bytes = failing_allocator_live_bytes(&t.te.memory);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        ferry_buffer *buffer = NULL;
        t.fake->alloc_status = statuses[i];
        ASSERT_STATUS(ferry_buffer_alloc(gpu, SIZE, &buffer), statuses[i]);
        ASSERT_STATUS(ferry_buffer_alloc_kind(gpu, SIZE, FERRY_MEMORY_PLAIN, &buffer), statuses[i]);
        ASSERT_STATUS(ferry_buffer_alloc_kind(ferry_device_at(t.engine, 0), SIZE,
                                              FERRY_MEMORY_PINNED, &buffer),
                      statuses[i]);
        cr_assert_null(buffer);
    }
    cr_assert_eq(failing_allocator_live_bytes(&t.te.memory), live_bytes);
    device_test_close(&t);
}

Test(device_memory, it_is_freed_through_its_device_also_after_the_shutdown)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_THREAD);
    ferry_buffer *own = alloc_kind(open_gpu(&t, "cuda:0"), FERRY_MEMORY_DEFAULT);
    ferry_buffer *pinned = alloc_kind(ferry_device_at(t.engine, 0), FERRY_MEMORY_PINNED);
    ASSERT_STATUS(ferry_engine_shutdown(t.engine, -1), FERRY_OK);
    ferry_buffer_release(own);
    cr_assert_eq(t.fake->frees, 1);
    cr_assert(t.fake->was_freed_stopped);
    ferry_engine_release(t.engine);
    cr_assert_eq(t.fake->destroys, 0, "its memory is still there");
    ferry_buffer_release(pinned);
    cr_assert_eq(t.fake->frees, 2);
    cr_assert_eq(t.fake->destroys, 1);
    cr_assert_eq(failing_allocator_live_bytes(&t.te.memory), 0);
}

/* ---- wrapping ---- */

static void assert_wrap_refused(device_test *t, ferry_device *device, void *memory,
                                const char *part)
{
    ferry_buffer *buffer = NULL;
    int64_t live_bytes = failing_allocator_live_bytes(&t->te.memory);
    ASSERT_STATUS(ferry_buffer_wrap(device, memory, 16, NULL, NULL, &buffer), FERRY_E_INVALID);
    cr_assert_null(buffer);
    ASSERT_SAYS(t->log.last, part);
    cr_assert_eq(failing_allocator_live_bytes(&t->te.memory), live_bytes);
}

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    ++*(int *)arg;
}

Test(device_memory, only_what_is_the_devices_can_be_wrapped)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_device *first = open_gpu(&t, "cuda:0"), *second = open_gpu(&t, "cuda:1");
    ferry_device *host = ferry_device_at(t.engine, 2);
    ferry_buffer *own = alloc_kind(first, FERRY_MEMORY_DEFAULT);
    ferry_buffer *pinned = alloc_kind(host, FERRY_MEMORY_PINNED);
    char *memory = ferry_buffer_data(own), plain[64];
    assert_wrap_refused(&t, host, memory + 1, "host:2: wrapping a GPU's memory as a host's");
    assert_wrap_refused(&t, second, memory, "cuda:1: wrapping memory that is not this device's");
    assert_wrap_refused(&t, first, plain, "cuda:0: wrapping memory that is not this device's");
    assert_wrap_refused(&t, first, ferry_buffer_data(pinned), "not this device's");
    assert_wrap_refused(&t, first, memory + SIZE - 8, "not this device's");

    int freed = 0;
    ferry_buffer *wrapped[3] = {0};
    ASSERT_STATUS(ferry_buffer_wrap(first, memory + 16, 16, count_free, &freed, &wrapped[0]),
                  FERRY_OK);
    ASSERT_STATUS(ferry_buffer_wrap(host, plain, sizeof plain, count_free, &freed, &wrapped[1]),
                  FERRY_OK);
    ASSERT_STATUS(
        ferry_buffer_wrap(host, ferry_buffer_data(pinned), 16, count_free, &freed, &wrapped[2]),
        FERRY_OK);
    for (int i = 0; i < 3; i++)
        ferry_buffer_release(wrapped[i]);
    settle(&t.te);
    cr_assert_eq(freed, 3);
    cr_assert_eq(t.fake->live_allocations, 2, "wrapped memory is not ferry's to free");
    ferry_buffer_release(own);
    ferry_buffer_release(pinned);
    device_test_close(&t);
}

/* ---- which way copies go ---- */

Test(device_memory, a_hosts_buffer_is_asked_for_once_and_goes_its_way)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_device *host = ferry_device_at(t.engine, 0);
    ferry_buffer *on_first = alloc_kind(open_gpu(&t, "cuda:0"), FERRY_MEMORY_DEFAULT);
    ferry_buffer *on_second = alloc_kind(open_gpu(&t, "cuda:1"), FERRY_MEMORY_PLAIN);
    ferry_buffer *pageable = test_buffer(&t.te, 0, SIZE, 7);
    ferry_buffer *pinned = alloc_kind(host, FERRY_MEMORY_PINNED), *wrapped = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(host, ferry_buffer_data(pinned), SIZE, NULL, NULL, &wrapped),
                  FERRY_OK);
    memset(ferry_buffer_data(pinned), 0, SIZE);

    copy_now(&t, on_first, pageable);
    copy_now(&t, pageable, on_first);
    copy_now(&t, on_second, pageable);
    cr_assert_eq(t.fake->copies[STAGED_STREAM], 3);
    cr_assert_eq(t.fake->pinned_asked, 1);

    copy_now(&t, pinned, on_first);
    cr_assert(is_filled(pinned, 0, SIZE, 7));
    copy_now(&t, on_first, pinned);
    cr_assert_eq(t.fake->copies[PINNED_STREAM], 2);
    cr_assert_eq(t.fake->pinned_asked, 1, "what ferry pinned it knows");

    copy_now(&t, on_first, wrapped);
    copy_now(&t, wrapped, on_first);
    cr_assert_eq(t.fake->copies[PINNED_STREAM], 4);
    cr_assert_eq(t.fake->pinned_asked, 2);

    copy_now(&t, on_second, on_first);
    copy_now(&t, on_first, on_second);
    cr_assert_eq(t.fake->copies[OWN_STREAM], 2);
    cr_assert(is_filled(on_second, 0, SIZE, 7));
    copy_now(&t, pinned, pageable); /* hosts among themselves */
    cr_assert_eq(t.fake->pinned_asked, 2);
    cr_assert_eq(t.fake->copies[0] + t.fake->copies[1] + t.fake->copies[2], 9);

    ferry_buffer *const all[] = {on_first, on_second, pageable, pinned, wrapped};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ferry_buffer_release(all[i]);
    device_test_close(&t);
}

Test(device_memory, rows_and_batches_go_the_same_way)
{
    enum { COPIES = 40, PART = SIZE / COPIES };
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_buffer *gpu = alloc_kind(open_gpu(&t, "cuda:0"), FERRY_MEMORY_DEFAULT);
    ferry_buffer *from = test_buffer(&t.te, 0, SIZE, 3), *to = test_buffer(&t.te, 1, SIZE, 0);
    ferry_future *rows =
        ferry_copy_rows(t.engine, span_of(gpu, 0, 8), 16, span_of(from, 0, 8), 8, 100, NULL);
    ASSERT_STATUS(ferry_future_wait(rows, -1), FERRY_OK);
    ferry_future_release(rows);
    cr_assert_eq(t.fake->copies[STAGED_STREAM], 1);
    cr_assert(is_filled(gpu, 99 * 16, 8, 3));

    ferry_op ops[2 * COPIES];
    for (size_t i = 0; i < COPIES; i++) {
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(gpu, i * PART, PART),
                            .src = span_of(from, i * PART, PART)};
        ops[COPIES + i] = (ferry_op){.kind = FERRY_OP_COPY,
                                     .dst = span_of(to, i * PART, PART),
                                     .src = span_of(gpu, i * PART, PART)};
    }
    ferry_future *batch = ferry_batch(t.engine, ops, sizeof ops[0], 2 * COPIES, NULL, NULL);
    ASSERT_STATUS(ferry_future_wait(batch, -1), FERRY_OK);
    ferry_future_release(batch);
    cr_assert(is_filled(to, 0, COPIES * PART, 3));
    cr_assert_eq(t.fake->copies[STAGED_STREAM], 1 + 2 * COPIES);
    cr_assert_eq(t.fake->pinned_asked, 2);
    ferry_buffer_release(gpu);
    ferry_buffer_release(from);
    ferry_buffer_release(to);
    device_test_close(&t);
}

typedef struct submitter {
    device_test *test;
    ferry_buffer *dst, *src;
    bool is_batch;
    ferry_future *future;
} submitter;

static void *submit_in_thread(void *arg)
{
    submitter *self = arg;
    ferry_engine *engine = self->test->engine;
    ferry_op op = {.kind = FERRY_OP_COPY,
                   .dst = ferry_buffer_span(self->dst),
                   .src = ferry_buffer_span(self->src)};
    self->future = self->is_batch ? ferry_batch(engine, &op, sizeof op, 1, NULL, NULL)
                                  : ferry_copy(engine, op.dst, op.src, NULL);
    return NULL;
}

/* With the baton the question would keep everybody waiting for the driver. */
static void ask_while_others_work(bool is_batch)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_THREAD);
    submitter self = {.test = &t, .is_batch = is_batch};
    self.dst = alloc_kind(open_gpu(&t, "cuda:0"), FERRY_MEMORY_DEFAULT);
    self.src = test_buffer(&t.te, 0, SIZE, 9);
    int before = t.fake->at_gate;
    atomic_store(&t.fake->gates_pinned, true);
    atomic_store(&t.fake->is_gated, true);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, submit_in_thread, &self), 0);
    while (atomic_load(&t.fake->at_gate) == before)
        (void)sched_yield();
    ferry_future *nop = ferry_nop(t.engine, NULL);
    ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK);
    ferry_future_release(nop);
    atomic_store(&t.fake->is_gated, false);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    ASSERT_STATUS(ferry_future_wait(self.future, -1), FERRY_OK);
    ferry_future_release(self.future);
    cr_assert(is_filled(self.dst, 0, SIZE, 9));
    ferry_buffer_release(self.dst);
    ferry_buffer_release(self.src);
    device_test_close(&t);
}

Test(device_memory, the_driver_is_asked_while_others_work)
{
    ask_while_others_work(false);
}

Test(device_memory, so_it_is_in_a_batch_of_small_copies)
{
    ask_while_others_work(true);
}

Test(device_memory, a_buffer_released_at_once_is_held_until_the_gpu_is_done_with_it)
{
    device_test t;
    device_test_open(&t, FERRY_LOOP_EMBEDDED);
    ferry_buffer *gpu = alloc_kind(open_gpu(&t, "cuda:0"), FERRY_MEMORY_DEFAULT);
    ferry_buffer *pinned = alloc_kind(ferry_device_at(t.engine, 0), FERRY_MEMORY_PINNED);
    atomic_store(&t.fake->holds_copies, true);
    ferry_future *copy =
        ferry_copy(t.engine, ferry_buffer_span(gpu), ferry_buffer_span(pinned), NULL);
    ferry_buffer_release(gpu);
    ferry_buffer_release(pinned);
    settle(&t.te);
    cr_assert_eq(ferry_future_poll(copy), FERRY_PENDING);
    cr_assert_eq(t.fake->live_allocations, 2);
    ASSERT_STATUS(ferry_engine_shutdown(t.engine, 0), FERRY_E_DEADLINE);
    cr_assert_eq(t.fake->stops, 0, "the graph comes first");
    cr_assert_eq(t.fake->live_allocations, 2);
    atomic_store(&t.fake->holds_copies, false);
    ASSERT_STATUS(ferry_engine_shutdown(t.engine, -1), FERRY_OK);
    cr_assert_eq(t.fake->live_allocations, 0);
    ferry_future_release(copy);
    device_test_close(&t);
}

/* ---- want of memory ---- */

Test(device_memory, each_allocation_may_fail)
{
    bool is_over = false;
    for (uint64_t nth = 1; !is_over; nth++) {
        device_test t;
        device_test_open(&t, FERRY_LOOP_EMBEDDED);
        atomic_store(&t.fake->opens, 0);
        atomic_store(&t.fake->destroys, 0);
        ferry_device *gpu = open_gpu(&t, "cuda:0"), *host = ferry_device_at(t.engine, 0);
        failing_allocator_arm(&t.te.memory, nth, nth % 2 == 0);
        ferry_buffer *buffers[3] = {0};
        ferry_status status = ferry_buffer_alloc(gpu, SIZE, &buffers[0]);
        if (status == FERRY_OK)
            status = ferry_buffer_alloc_kind(host, SIZE, FERRY_MEMORY_PINNED, &buffers[1]);
        if (status == FERRY_OK)
            status = ferry_buffer_wrap(host, &t, sizeof t, NULL, NULL, &buffers[2]);
        failing_allocator_arm(&t.te.memory, 0, false);
        is_over = failing_allocator_failures(&t.te.memory) == 0;
        cr_assert_eq(status, is_over ? FERRY_OK : FERRY_E_NO_MEMORY);
        for (int i = 0; i < 3; i++)
            ferry_buffer_release(buffers[i]);
        device_test_close(&t);
        cr_assert_lt(nth, 10);
    }
}
