/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers on GPUs, kinds of memory, what may be wrapped, and which way copies between hosts and
 * GPUs go. The GPUs are a fake module's, and their memory is this process's. */
#include "tests/support/device_test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIZE = 4096, PINNED_STREAM = 0, STAGED_STREAM = 1, OWN_STREAM = 2 };

DEVICE_SUITE(device_memory);

/* A buffer of the scene, under that name. */
static ferry_buffer *alloc_kind(const char *name, ferry_device *device, ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_alloc_kind(device, SIZE, kind, &buffer), FERRY_OK);
    cr_assert_eq(ferry_buffer_device(buffer), device);
    cr_assert(scene_own_as(SCENE_BUFFER, buffer, name));
    return buffer;
}

static void assert_kind_refused(ferry_device *device, ferry_memory kind, ferry_status expected,
                                const char *part)
{
    ferry_buffer *buffer = NULL;
    int allocs = fake->allocs;
    int64_t live_bytes = failing_allocator_live_bytes(&scene()->memory);
    ASSERT_STATUS(ferry_buffer_alloc_kind(device, SIZE, kind, &buffer), expected);
    cr_assert_null(buffer);
    ASSERT_SAYS(scene_warning(-1), part);
    cr_assert_eq(fake->allocs, allocs);
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), live_bytes);
}

static void copy_now(const char *dst, const char *src)
{
    play("copy %s <- %s; wait it OK; release it", dst, src);
}

/* ---- kinds ---- */

Test(device_memory, a_gpu_has_two_kinds)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *gpu = open_gpu("cuda:0");
    (void)alloc_kind("first", gpu, FERRY_MEMORY_DEFAULT);
    (void)alloc_kind("second", gpu, FERRY_MEMORY_PLAIN);
    cr_assert_eq(fake->live_allocations, 2);
    assert_kind_refused(gpu, FERRY_MEMORY_PINNED, FERRY_E_UNSUPPORTED,
                        "cuda:0: a buffer is refused: the device has no memory of that kind");
    assert_kind_refused(gpu, (ferry_memory)4, FERRY_E_INVALID, "kind is not a ferry_memory");
    assert_kind_refused(gpu, (ferry_memory)-1, FERRY_E_INVALID, "kind is not a ferry_memory");
    end();
    cr_assert_eq(fake->frees, 2);
}

Test(device_memory, a_drivers_refusal_comes_with_its_number)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *gpu = open_gpu("cuda:0"), *host = ferry_device_find(engine(), "host:0");
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.size_bytes = SIZE;
    options.kind = FERRY_MEMORY_PLAIN;
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    fake->alloc_status = FERRY_E_DEVICE;
    ASSERT_STATUS(ferry_buffer_create(gpu, &options, &buffer, &error), FERRY_E_DEVICE);
    ASSERT_STATUS(error->status, FERRY_E_DEVICE);
    cr_assert_eq(error->native_code, FAKE_ALLOC_CODE);
    cr_assert_str_eq(error->domain, "fake");
    cr_assert_str_eq(error->message, "cuda:0: the driver gives no memory");
    cr_assert_eq(error->rank, FERRY_RANK_NONE);
    ferry_error_release(error);
    options.kind = FERRY_MEMORY_PINNED; /* the GPU's driver gives it, too */
    ASSERT_STATUS(ferry_buffer_create(host, &options, &buffer, &error), FERRY_E_DEVICE);
    cr_assert_eq(error->native_code, FAKE_ALLOC_CODE);
    ferry_error_release(error);
    fake->alloc_status = FERRY_OK;
    ASSERT_STATUS(ferry_buffer_create(host, &options, &buffer, &error), FERRY_OK);
    cr_assert_null(error);
    ferry_buffer_release(buffer);
    end();
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
    begin(FERRY_LOOP_EMBEDDED);
    play("buffer b %d", 8 << 20);
    char flags[512];
    find_flags(ferry_buffer_data(the_buffer("b")), flags, sizeof flags);
    /* Where the kernel can't, or does not say, there is nothing to see. */
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0 && flags[0] != '\0')
        cr_assert(strstr(flags, " hg") != NULL, "flags:%s", flags);
}

Test(device_memory, pinned_memory_is_a_hosts_and_asked_of_a_gpu)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *host = ferry_device_at(engine(), 1);
    assert_kind_refused(host, FERRY_MEMORY_PINNED, FERRY_E_UNSUPPORTED,
                        "host:1: a buffer is refused: there is no pinned memory: no GPU is open");
    assert_kind_refused(host, FERRY_MEMORY_PLAIN, FERRY_E_UNSUPPORTED,
                        "host:1: a buffer is refused: the device has no memory of that kind");
    (void)open_gpu("cuda:0");
    (void)alloc_kind("pinned", host, FERRY_MEMORY_PINNED);
    cr_assert_eq(fake->live_allocations, 1);
    play("fill pinned 1; release pinned; settle");
    cr_assert_eq(fake->live_allocations, 0);
    (void)alloc_kind("plain", host, FERRY_MEMORY_DEFAULT);
    cr_assert_eq(fake->allocs, 1, "a host's own memory is its allocator's");
}

Test(device_memory, shared_memory_is_a_hosts_and_in_a_file)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *host = ferry_device_at(engine(), 0), *gpu = open_gpu("cuda:0");
    assert_kind_refused(gpu, FERRY_MEMORY_SHARED, FERRY_E_UNSUPPORTED,
                        "cuda:0: a buffer is refused: the device has no memory of that kind");
    const int64_t live_bytes = failing_allocator_live_bytes(&scene()->memory);
    ferry_buffer *buffer = alloc_kind("shared", host, FERRY_MEMORY_SHARED);
    cr_assert_eq((uintptr_t)ferry_buffer_data(buffer) % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    cr_assert_leq(failing_allocator_live_bytes(&scene()->memory) - live_bytes, SIZE / 2,
                  "its bytes are not the allocator's");
    char flags[512];
    find_flags(ferry_buffer_data(buffer), flags, sizeof flags);
    if (flags[0] != '\0')
        cr_assert(strstr(flags, " sh") != NULL, "flags:%s", flags);
    play("buffer plain %d; fill plain 5", SIZE);
    copy_now("shared", "plain");
    cr_assert_eq(((const unsigned char *)ferry_buffer_data(buffer))[SIZE - 1], 5);
    play("release shared; settle");
}

/* Without descriptors: the reason is told. */
Test(device_memory, shared_memory_takes_a_descriptor)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *host = ferry_device_at(engine(), 0);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {3, limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.size_bytes = SIZE;
    options.kind = FERRY_MEMORY_SHARED;
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_buffer_create(host, &options, &buffer, &error), FERRY_E_NO_MEMORY);
    cr_assert_str_eq(error->message, "host:0: shared memory: Too many open files");
    cr_assert_eq(error->native_code, EMFILE);
    cr_assert_str_eq(error->domain, "errno");
    ferry_error_release(error);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    (void)alloc_kind("shared", host, FERRY_MEMORY_SHARED);
}

Test(device_memory, each_refusal_of_a_driver_is_the_callers_and_leaves_nothing)
{
    static const ferry_status statuses[] = {FERRY_E_NO_MEMORY, FERRY_E_DEVICE, FERRY_E_UNSUPPORTED};
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *gpu = open_gpu("cuda:0");
    int64_t live_bytes = failing_allocator_live_bytes(&scene()->memory);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        ferry_buffer *buffer = NULL;
        fake->alloc_status = statuses[i];
        ASSERT_STATUS(ferry_buffer_alloc(gpu, SIZE, &buffer), statuses[i]);
        ASSERT_STATUS(ferry_buffer_alloc_kind(gpu, SIZE, FERRY_MEMORY_PLAIN, &buffer), statuses[i]);
        ASSERT_STATUS(ferry_buffer_alloc_kind(ferry_device_at(engine(), 0), SIZE,
                                              FERRY_MEMORY_PINNED, &buffer),
                      statuses[i]);
        cr_assert_null(buffer);
    }
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), live_bytes);
}

Test(device_memory, it_is_freed_through_its_device_also_after_the_shutdown)
{
    begin(FERRY_LOOP_THREAD);
    (void)alloc_kind("mine", open_gpu("cuda:0"), FERRY_MEMORY_DEFAULT);
    (void)alloc_kind("pinned", ferry_device_at(engine(), 0), FERRY_MEMORY_PINNED);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    play("release mine");
    cr_assert_eq(fake->frees, 1);
    cr_assert(fake->was_freed_stopped);
    scene_drop();
    cr_assert_eq(fake->destroys, 0, "its memory is still there");
    play("release pinned");
    cr_assert_eq(fake->frees, 2);
    cr_assert_eq(fake->destroys, 1);
}

/* ---- wrapping ---- */

static void assert_wrap_refused(ferry_device *device, void *memory, const char *part)
{
    ferry_buffer *buffer = NULL;
    int64_t live_bytes = failing_allocator_live_bytes(&scene()->memory);
    ASSERT_STATUS(ferry_buffer_wrap(device, memory, 16, NULL, NULL, &buffer), FERRY_E_INVALID);
    cr_assert_null(buffer);
    ASSERT_SAYS(scene_warning(-1), part);
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), live_bytes);
}

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    ++*(int *)arg;
}

Test(device_memory, only_what_is_the_devices_can_be_wrapped)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *first = open_gpu("cuda:0"), *second = open_gpu("cuda:1");
    ferry_device *host = ferry_device_at(engine(), 2);
    const ferry_buffer *pinned = alloc_kind("pinned", host, FERRY_MEMORY_PINNED);
    char *memory = ferry_buffer_data(alloc_kind("mine", first, FERRY_MEMORY_DEFAULT)), plain[64];
    assert_wrap_refused(host, memory + 1,
                        "host:2: a buffer is refused: wrapping a GPU's memory as a host's");
    assert_wrap_refused(second, memory,
                        "cuda:1: a buffer is refused: wrapping memory that is not this device's");
    assert_wrap_refused(first, plain,
                        "cuda:0: a buffer is refused: wrapping memory that is not this device's");
    assert_wrap_refused(first, ferry_buffer_data(pinned), "not this device's");
    assert_wrap_refused(first, memory + SIZE - 8, "not this device's");

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
    scene_settle();
    cr_assert_eq(freed, 3);
    cr_assert_eq(fake->live_allocations, 2, "wrapped memory is not ferry's to free");
}

/* ---- which way copies go ---- */

Test(device_memory, a_hosts_buffer_is_asked_for_once_and_goes_its_way)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *host = ferry_device_at(engine(), 0);
    (void)alloc_kind("first", open_gpu("cuda:0"), FERRY_MEMORY_DEFAULT);
    (void)alloc_kind("second", open_gpu("cuda:1"), FERRY_MEMORY_PLAIN);
    ferry_buffer *pinned = alloc_kind("pinned", host, FERRY_MEMORY_PINNED), *wrapped = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(host, ferry_buffer_data(pinned), SIZE, NULL, NULL, &wrapped),
                  FERRY_OK);
    cr_assert(scene_own_as(SCENE_BUFFER, wrapped, "wrapped"));
    play("buffer pageable %d of 7; fill pinned 0", SIZE);

    copy_now("first", "pageable");
    copy_now("pageable", "first");
    copy_now("second", "pageable");
    cr_assert_eq(fake->copies[STAGED_STREAM], 3);
    cr_assert_eq(fake->pinned_asked, 1);

    copy_now("pinned", "first");
    play("bytes pinned 7");
    copy_now("first", "pinned");
    cr_assert_eq(fake->copies[PINNED_STREAM], 2);
    cr_assert_eq(fake->pinned_asked, 1, "what ferry pinned it knows");

    copy_now("first", "wrapped");
    copy_now("wrapped", "first");
    cr_assert_eq(fake->copies[PINNED_STREAM], 4);
    cr_assert_eq(fake->pinned_asked, 2);

    copy_now("second", "first");
    copy_now("first", "second");
    cr_assert_eq(fake->copies[OWN_STREAM], 2);
    play("bytes second 7");
    copy_now("pinned", "pageable"); /* hosts among themselves */
    cr_assert_eq(fake->pinned_asked, 2);
    cr_assert_eq(fake->copies[0] + fake->copies[1] + fake->copies[2], 9);
}

Test(device_memory, rows_and_batches_go_the_same_way)
{
    enum { COPIES = 40, PART = SIZE / COPIES };
    begin(FERRY_LOOP_EMBEDDED);
    (void)alloc_kind("gpu", open_gpu("cuda:0"), FERRY_MEMORY_DEFAULT);
    play("buffer from %d of 3; buffer to %d on 1;"
         "rows 100 gpu[0:8] pitch 16 <- from[0:8] pitch 8; wait it OK; bytes gpu[1584:1592] 3",
         SIZE, SIZE);
    cr_assert_eq(fake->copies[STAGED_STREAM], 1);

    ferry_op ops[2 * COPIES];
    for (size_t i = 0; i < COPIES; i++) {
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(the_buffer("gpu"), i * PART, PART),
                            .src = span_of(the_buffer("from"), i * PART, PART)};
        ops[COPIES + i] = (ferry_op){.kind = FERRY_OP_COPY,
                                     .dst = span_of(the_buffer("to"), i * PART, PART),
                                     .src = ops[i].dst};
    }
    WAIT(own(ferry_batch(engine(), ops, sizeof ops[0], 2 * COPIES, NULL, NULL)), OK);
    play("bytes to[0:%d] 3", COPIES * PART);
    cr_assert_eq(fake->copies[STAGED_STREAM], 1 + 2 * COPIES);
    cr_assert_eq(fake->pinned_asked, 2);
}

typedef struct submitter {
    bool is_batch;
    ferry_future *future;
} submitter;

static void *submit_in_thread(void *arg)
{
    submitter *self = arg;
    ferry_op op = {.kind = FERRY_OP_COPY, .dst = the_span("dst"), .src = the_span("src")};
    self->future = self->is_batch ? ferry_batch(engine(), &op, sizeof op, 1, NULL, NULL)
                                  : ferry_copy(engine(), op.dst, op.src, NULL);
    return NULL;
}

/* With the baton the question would keep everybody waiting for the driver. */
static void ask_while_others_work(bool is_batch)
{
    begin(FERRY_LOOP_THREAD);
    submitter self = {.is_batch = is_batch};
    (void)alloc_kind("dst", open_gpu("cuda:0"), FERRY_MEMORY_DEFAULT);
    play("buffer src %d of 9", SIZE);
    int before = fake->at_gate;
    atomic_store(&fake->gates_pinned, true);
    atomic_store(&fake->is_gated, true);
    pthread_t thread = begin_thread(submit_in_thread, &self);
    while (atomic_load(&fake->at_gate) == before)
        (void)sched_yield();
    play("nop; wait it OK");
    atomic_store(&fake->is_gated, false);
    (void)end_thread(thread);
    WAIT(own(self.future), OK);
    play("bytes dst 9");
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
    begin(FERRY_LOOP_EMBEDDED);
    (void)alloc_kind("gpu", open_gpu("cuda:0"), FERRY_MEMORY_DEFAULT);
    (void)alloc_kind("pinned", ferry_device_at(engine(), 0), FERRY_MEMORY_PINNED);
    atomic_store(&fake->holds_copies, true);
    play("c = copy gpu <- pinned; release gpu pinned; expect c PENDING");
    cr_assert_eq(fake->live_allocations, 2);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    cr_assert_eq(fake->stops, 0, "the graph comes first");
    cr_assert_eq(fake->live_allocations, 2);
    atomic_store(&fake->holds_copies, false);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(fake->live_allocations, 0);
}

/* ---- want of memory ---- */

Test(device_memory, each_allocation_may_fail)
{
    bool is_over = false;
    for (uint64_t nth = 1; !is_over; nth++) {
        begin(FERRY_LOOP_EMBEDDED);
        atomic_store(&fake->opens, 0);
        atomic_store(&fake->destroys, 0);
        ferry_device *gpu = open_gpu("cuda:0"), *host = ferry_device_at(engine(), 0);
        failing_allocator_arm(&scene()->memory, nth, nth % 2 == 0);
        ferry_buffer *buffers[3] = {0};
        ferry_status status = ferry_buffer_alloc(gpu, SIZE, &buffers[0]);
        if (status == FERRY_OK)
            status = ferry_buffer_alloc_kind(host, SIZE, FERRY_MEMORY_PINNED, &buffers[1]);
        if (status == FERRY_OK)
            status = ferry_buffer_wrap(host, &status, sizeof status, NULL, NULL, &buffers[2]);
        failing_allocator_arm(&scene()->memory, 0, false);
        is_over = failing_allocator_failures(&scene()->memory) == 0;
        cr_assert_eq(status, is_over ? FERRY_OK : FERRY_E_NO_MEMORY);
        for (int i = 0; i < 3; i++)
            ferry_buffer_release(buffers[i]);
        end();
        cr_assert_lt(nth, 10);
    }
}
