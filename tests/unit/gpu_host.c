/* SPDX-License-Identifier: Apache-2.0 */
/* Host devices: streams, device waits, cancel, inline copies, opening and stopping. */
#include "gpu/host/copy.h"
#include "tests/support/failing_allocator.h"
#include "tests/unit/gated_host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SIZE 8192 /* above any inline limit used here */
#define HANG_S 30

TestSuite(gpu_host, .timeout = HANG_S);

/* --- thread creation that fails when told to --- */

static int threads_until_refusal = -1; /* -1: never */

typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Stands before the C library's (or a sanitizer's), which does the work. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                   void *arg)
{
    if (threads_until_refusal == 0)
        return EAGAIN;
    if (threads_until_refusal > 0)
        threads_until_refusal--;
    create_fn next;
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&next, &symbol, sizeof next);
    return next(thread, attributes, fn, arg);
}

static uint64_t fired(fry_stream *stream)
{
    ferry_status status = FERRY_PENDING;
    uint64_t sequence = stream->device->ops->fired(stream, &status, NULL);
    cr_assert_eq(status, FERRY_OK);
    return sequence;
}

static fry_copy plain(void *dst, const void *src, size_t size_bytes)
{
    return (fry_copy){.dst = dst, .src = src, .size_bytes = size_bytes, .row_count = 1};
}

static fry_event issue_after(fry_stream *stream, void *dst, const void *src, size_t size_bytes,
                             const fry_event *waits, size_t wait_count)
{
    fry_copy copy = plain(dst, src, size_bytes);
    fry_event event = {.stream = stream};
    uint64_t before = stream->issued;
    cr_assert_eq(stream->device->ops->copy(stream, &copy, waits, wait_count, &event.sequence, NULL),
                 FERRY_OK);
    cr_assert_eq(event.sequence, before + 1);
    cr_assert_eq(stream->issued, before + 1);
    return event;
}

static fry_event issue(fry_stream *stream, void *dst, const void *src, size_t size_bytes)
{
    return issue_after(stream, dst, src, size_bytes, NULL, 0);
}

static bool all_are(const char *memory, size_t size_bytes, char value)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (memory[i] != value)
            return false;
    }
    return true;
}

/* --- what the workers are doing --- */

/* Counters of one of this process's worker threads, from /proc. */
typedef struct worker_counters {
    char state;
    long switches; /* voluntary and not */
} worker_counters;

static bool read_worker(const char *task, worker_counters *counters)
{
    char path[300], line[256];
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool is_worker = false;
    *counters = (worker_counters){0};
    while (fgets(line, sizeof line, file) != NULL) {
        long number;
        is_worker = is_worker || strncmp(line, "Name:\tferry-host-", 17) == 0;
        if (sscanf(line, "State:\t%c", &counters->state) == 1)
            continue;
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &number) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %ld", &number) == 1)
            counters->switches += number;
    }
    (void)fclose(file);
    return is_worker;
}

/* Returns how many workers there are; *switches_p and *asleep_p are sums over them. */
static int read_workers(long *switches_p, int *asleep_p)
{
    DIR *tasks = opendir("/proc/self/task");
    cr_assert_not_null(tasks);
    int count = 0;
    *switches_p = 0;
    *asleep_p = 0;
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        worker_counters counters;
        if (task->d_name[0] == '.' || !read_worker(task->d_name, &counters))
            continue;
        count++;
        *switches_p += counters.switches;
        *asleep_p += counters.state == 'S';
    }
    (void)closedir(tasks);
    return count;
}

static long switches_when_asleep(int workers)
{
    long switches;
    int asleep;
    for (;;) {
        cr_assert_eq(read_workers(&switches, &asleep), workers);
        if (asleep == workers)
            return switches;
        (void)sched_yield();
    }
}

/* --- devices --- */

Test(gpu_host, devices_have_names_indices_and_streams_of_their_own)
{
    gated_host f, other;
    gated_host_open(&f, 4, 1);
    gated_host_open(&other, 1, 1);
    for (size_t i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "host:%zu", i);
        fry_device *device = fry_host_device(f.host, i);
        cr_assert_str_eq(device->name, name);
        cr_assert_eq(device->index, i);
        cr_assert_str_eq(device->ops->backend, "host");
        for (size_t j = 0; j < 4; j++) {
            fry_stream *stream =
                device->ops->copy_stream(device, fry_host_device(f.host, j), false);
            cr_assert_eq(stream, stream_of(&f, i), "a copy goes on its destination's stream");
            cr_assert_eq(stream->index, i);
            cr_assert_eq(stream->device, device);
            cr_assert(device->ops->can_wait(stream, stream_of(&f, j)));
        }
        cr_assert_not(device->ops->can_wait(stream_of(&f, i), stream_of(&other, 0)));
    }
    gated_host_close(&other);
    gated_host_close(&f);
}

Test(gpu_host, memory_is_aligned_and_its_want_is_told)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    ferry_allocator allocator = failing_allocator_interface(&fa);
    gated_host f;
    gated_host_open(&f, 1, 1);
    gated_host_close(&f);
    fry_memory_init(&f.memory, &allocator);
    fry_host_options options = {.device_count = 1, .worker_count = 1, .notify = {gated_notify, &f}};
    cr_assert_eq(fry_host_open(&f.memory, &options, &f.host), FERRY_OK);
    fry_device *device = fry_host_device(f.host, 0);

    static const struct {
        size_t size_bytes, align_bytes;
    } cases[] = {{1, 64}, {65535, 64}, {65536, 4096}, {2097151, 4096}, {2097152, 2097152}};
    fry_fault fault;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *memory = NULL;
        cr_assert_eq(device->ops->memory_alloc(device, cases[i].size_bytes, FRY_MEMORY_DEFAULT,
                                               &memory, &fault),
                     FERRY_OK);
        cr_assert_eq((uintptr_t)memory % cases[i].align_bytes, 0);
        device->ops->memory_free(device, memory, cases[i].size_bytes, FRY_MEMORY_DEFAULT);
    }
    void *untouched = &f;
    failing_allocator_arm(&fa, 1, false);
    cr_assert_eq(device->ops->memory_alloc(device, 64, FRY_MEMORY_DEFAULT, &untouched, &fault),
                 FERRY_E_NO_MEMORY);
    cr_assert_eq(untouched, &f);
    gated_host_close(&f);
    cr_assert_eq(failing_allocator_live_bytes(&fa), 0);
}

/* --- order --- */

Test(gpu_host, operations_of_a_stream_run_in_their_order)
{
    OPENED_WITH(gated_host, f, 1, 3);
    fry_stream *stream = stream_of(&f, 0);
    char *stage[21];
    for (int i = 0; i < 21; i++)
        stage[i] = bytes_of(&f, SIZE, i);
    for (int i = 0; i < 20; i++)
        (void)issue(stream, stage[i + 1], stage[i], SIZE); /* each reads what the last wrote */
    wait_fired_count(&f, 20);
    cr_assert_eq(fired(stream), 20);
    cr_assert_eq(f.order_count, 20);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(f.order[i], stage[i + 1]);
        cr_assert(all_are(stage[i + 1], SIZE, 0));
    }
}

static void chain_over_devices(uint32_t workers)
{
    OPENED_WITH(gated_host, f, 4, workers);
    char *stage[5];
    for (int i = 0; i < 5; i++)
        stage[i] = bytes_of(&f, SIZE, i + 1);
    copy_gate_hold(&f.gate, stage[1], 0);
    fry_event last = issue(stream_of(&f, 0), stage[1], stage[0], SIZE);
    for (size_t i = 1; i < 4; i++)
        last = issue_after(stream_of(&f, i), stage[i + 1], stage[i], SIZE, &last, 1);
    copy_gate_wait_held(&f.gate);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(fired(stream_of(&f, i)), 0);
        cr_assert(all_are(stage[i + 1], SIZE, (char)(i + 2)));
    }
    copy_gate_open(&f.gate);
    wait_fired_count(&f, 4); /* no call to the device in between */
    cr_assert_eq(f.order_count, 4);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(f.order[i], stage[i + 1]);
        cr_assert(all_are(stage[i + 1], SIZE, 1));
        cr_assert_eq(fired(stream_of(&f, i)), 1);
    }
}

Test(gpu_host, a_chain_over_four_devices_runs_by_itself_with_one_worker)
{
    chain_over_devices(1);
}

Test(gpu_host, a_chain_over_four_devices_runs_by_itself_with_four_workers)
{
    chain_over_devices(4);
}

Test(gpu_host, an_operation_waits_for_all_of_its_waits)
{
    enum { DEVICES = FRY_STREAM_WAITS + 1, LAST = FRY_STREAM_WAITS };
    OPENED_WITH(gated_host, f, DEVICES, 2);
    char *src = bytes_of(&f, SIZE, 7);
    char *dst[DEVICES];
    fry_event waits[FRY_STREAM_WAITS];
    for (size_t i = 0; i < DEVICES; i++)
        dst[i] = bytes_of(&f, SIZE, 0);
    copy_gate_hold(&f.gate, dst[7], 0);
    for (size_t i = 0; i < FRY_STREAM_WAITS; i++)
        waits[i] = issue(stream_of(&f, i), dst[i], src, SIZE);
    (void)issue_after(stream_of(&f, LAST), dst[LAST], src, SIZE, waits, FRY_STREAM_WAITS);
    copy_gate_wait_held(&f.gate);
    wait_fired_count(&f, FRY_STREAM_WAITS - 1);
    cr_assert_eq(fired(stream_of(&f, LAST)), 0);
    copy_gate_open(&f.gate);
    wait_fired_count(&f, DEVICES);
    cr_assert_eq(f.order[LAST], dst[LAST]);
    for (size_t i = 0; i < DEVICES; i++) {
        cr_assert(all_are(dst[i], SIZE, 7));
    }
}

Test(gpu_host, a_busy_worker_does_not_keep_streams_from_an_idle_one)
{
    OPENED_WITH(gated_host, f, 2, 2);
    char *src = bytes_of(&f, SIZE, 5);
    char *dst[4];
    for (int i = 0; i < 4; i++)
        dst[i] = bytes_of(&f, SIZE, 0);
    copy_gate_hold(&f.gate, dst[0], 0);
    fry_event first = issue(stream_of(&f, 0), dst[0], src, SIZE);
    (void)issue(stream_of(&f, 0), dst[1], src, SIZE);
    (void)issue_after(stream_of(&f, 1), dst[2], src, SIZE, &first, 1);
    copy_gate_wait_held(&f.gate);
    (void)switches_when_asleep(2); /* one in the gate, the other for want of work */
    /* What runs the first copy goes on to the second and is held there; it has freed the third. */
    copy_gate_hold(&f.gate, dst[1], 0);
    copy_gate_wait_held(&f.gate);
    wait_fired_count(&f, 2);
    cr_assert_eq(fired(stream_of(&f, 1)), 1);
    (void)switches_when_asleep(2);
    /* And what is issued now is the idle one's too. */
    (void)issue(stream_of(&f, 1), dst[3], src, SIZE);
    wait_fired_count(&f, 3);
    cr_assert_eq(fired(stream_of(&f, 0)), 1);
    copy_gate_open(&f.gate);
    wait_fired_count(&f, 4);
    for (int i = 0; i < 4; i++) {
        cr_assert(all_are(dst[i], SIZE, 5));
    }
}

/* --- cancel --- */

Test(gpu_host, cancelled_before_it_starts_it_copies_nothing_and_fires_in_turn)
{
    OPENED_WITH(gated_host, f, 3, 1);
    fry_stream *stream = stream_of(&f, 1);
    char *src = bytes_of(&f, SIZE, 1);
    char *first = bytes_of(&f, SIZE, 0), *waited_for = bytes_of(&f, SIZE, 0);
    char *cancelled = bytes_of(&f, SIZE, 0), *behind = bytes_of(&f, SIZE, 0);
    copy_gate_hold(&f.gate, first, 0);
    (void)issue(stream_of(&f, 0), first, src, SIZE);
    copy_gate_wait_held(&f.gate);
    fry_event wait = issue(stream_of(&f, 2), waited_for, src, SIZE);
    fry_event event = issue_after(stream, cancelled, src, SIZE, &wait, 1);
    (void)issue(stream, behind, src, SIZE);
    stream->device->ops->cancel(stream, event.sequence);
    /* The one worker goes round: it comes past the cancelled copy on its way to the third stream.
     */
    copy_gate_hold(&f.gate, waited_for, 0);
    copy_gate_wait_held(&f.gate);
    cr_assert_eq(fired(stream_of(&f, 0)), 1);
    cr_assert_eq(fired(stream), 0, "what it waits for has not fired");
    copy_gate_open(&f.gate);
    wait_fired_count(&f, 4);
    cr_assert_eq(fired(stream), 2);
    cr_assert(all_are(cancelled, SIZE, 0));
    cr_assert(all_are(behind, SIZE, 1));
    cr_assert(all_are(waited_for, SIZE, 1));
    cr_assert_eq(f.order_count, 3, "no byte of it was begun");
}

static void cancel_at(size_t at_bytes)
{
    OPENED_WITH(gated_host, f, 1, 1);
    fry_stream *stream = stream_of(&f, 0);
    size_t size_bytes = 3 * FRY_HOST_CHUNK_BYTES;
    char *src = bytes_of(&f, size_bytes, 1);
    char *dst = bytes_of(&f, size_bytes, 0);
    copy_gate_hold(&f.gate, dst, at_bytes);
    fry_event event = issue(stream, dst, src, size_bytes);
    copy_gate_wait_held(&f.gate);
    stream->device->ops->cancel(stream, event.sequence);
    cr_assert_eq(fired(stream), 0, "it may still touch its memory");
    copy_gate_open(&f.gate);
    wait_fired_count(&f, 1);
    cr_assert_eq(fired(stream), 1);
    cr_assert(all_are(dst, at_bytes, 1));
    cr_assert(all_are(dst + at_bytes, size_bytes - at_bytes, 0));
}

Test(gpu_host, cancelled_at_its_first_byte_it_copies_nothing)
{
    cancel_at(0);
}

Test(gpu_host, cancelled_midway_it_copies_no_further)
{
    cancel_at(FRY_HOST_CHUNK_BYTES);
}

Test(gpu_host, a_cancel_touches_no_operation_but_its_own)
{
    OPENED_WITH(gated_host, f, 1, 1);
    fry_stream *stream = stream_of(&f, 0);
    const fry_device_ops *ops = stream->device->ops;
    char *src = bytes_of(&f, SIZE, 1);
    char *held = bytes_of(&f, SIZE, 0);
    char *dst = bytes_of(&f, SIZE * FRY_STREAM_DEPTH, 0);
    (void)issue(stream, held, src, SIZE);
    wait_fired_count(&f, 1);
    memset(held, 0, SIZE);

    ops->cancel(stream, 0);
    ops->cancel(stream, 2);                    /* not issued yet */
    ops->cancel(stream, FRY_STREAM_DEPTH + 1); /* nor that */
    copy_gate_hold(&f.gate, held, 0);
    (void)issue(stream, held, src, SIZE);
    for (size_t i = 0; i + 1 < FRY_STREAM_DEPTH; i++)
        (void)issue(stream, dst + i * SIZE, src, SIZE);
    copy_gate_wait_held(&f.gate);
    /* Number 1 has fired, and its slot now holds the newest operation. */
    cr_assert_eq(stream->issued, FRY_STREAM_DEPTH + 1);
    ops->cancel(stream, FRY_STREAM_DEPTH + 1);
    ops->cancel(stream, 1); /* must not take that back */
    copy_gate_open(&f.gate);
    wait_fired_count(&f, FRY_STREAM_DEPTH + 1);
    cr_assert(all_are(held, SIZE, 1));
    cr_assert(all_are(dst, SIZE * (FRY_STREAM_DEPTH - 2), 1));
    cr_assert(all_are(dst + SIZE * (FRY_STREAM_DEPTH - 2), SIZE, 0));
    /* The next one in the slot of the one that was cancelled. */
    for (uint64_t i = 1; i <= FRY_STREAM_DEPTH; i++) {
        memset(dst, 0, SIZE);
        ops->cancel(stream, stream->issued); /* has fired */
        (void)issue(stream, dst, src, SIZE);
        wait_fired_count(&f, FRY_STREAM_DEPTH + 1 + i);
        cr_assert(all_are(dst, SIZE, 1));
    }
}

/* --- room, inline, large --- */

Test(gpu_host, a_full_stream_and_too_many_waits_are_refused)
{
    gated_host f;
    gated_host_open(&f, 2, 1);
    fry_stream *stream = stream_of(&f, 0);
    const fry_device_ops *ops = stream->device->ops;
    char *src = bytes_of(&f, SIZE, 1);
    char *dst = bytes_of(&f, SIZE * (FRY_STREAM_DEPTH + 1), 0);
    copy_gate_hold(&f.gate, dst, 0);
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++)
        (void)issue(stream, dst + i * SIZE, src, SIZE);
    fry_copy copy = plain(dst + SIZE * FRY_STREAM_DEPTH, src, SIZE);
    uint64_t sequence = 77;
    fry_fault fault = {0};
    cr_assert_eq(ops->copy(stream, &copy, NULL, 0, &sequence, &fault), FERRY_E_DEVICE);
    cr_assert_eq(fault.status, FERRY_E_DEVICE);
    cr_assert_eq(fault.rank, -1);
    cr_assert_eq(stream->issued, FRY_STREAM_DEPTH);
    cr_assert_eq(sequence, 77);
    copy_gate_wait_held(&f.gate);
    cr_assert_eq(fry_host_stop(f.host, FRY_NEVER_NS), FERRY_E_BUSY);
    copy_gate_open(&f.gate);
    wait_fired_count(&f, FRY_STREAM_DEPTH);
    cr_assert(all_are(dst, SIZE * FRY_STREAM_DEPTH, 1));
    cr_assert(all_are(copy.dst, SIZE, 0));

    fry_event waits[FRY_STREAM_WAITS + 1];
    for (size_t i = 0; i <= FRY_STREAM_WAITS; i++)
        waits[i] = (fry_event){stream_of(&f, 1), 0};
    cr_assert_eq(ops->copy(stream, &copy, waits, FRY_STREAM_WAITS + 1, &sequence, &fault),
                 FERRY_E_DEVICE);
    cr_assert_eq(stream->issued, FRY_STREAM_DEPTH);
    (void)issue(stream, copy.dst, src, SIZE);
    wait_fired_count(&f, FRY_STREAM_DEPTH + 1);
    cr_assert(all_are(copy.dst, SIZE, 1));
    gated_host_close(&f);
    cr_assert_eq(f.order_count, 32);
}

Test(gpu_host, copies_inline_when_small_and_the_stream_is_empty)
{
    OPENED_WITH(gated_host, f, 2, 1);
    fry_stream *stream = stream_of(&f, 0);
    const fry_device_ops *ops = stream->device->ops;
    char *src = bytes_of(&f, SIZE, 1), *dst = bytes_of(&f, SIZE, 0), *other = bytes_of(&f, SIZE, 0);
    fry_copy small = plain(dst, src, 4096), larger = plain(dst, src, 4097);
    cr_assert_not(ops->copy_inline(stream, &larger));
    cr_assert(all_are(dst, SIZE, 0));
    cr_assert(ops->copy_inline(stream, &small));
    cr_assert(all_are(dst, 4096, 1));
    cr_assert(all_are(dst + 4096, SIZE - 4096, 0));
    cr_assert_eq(stream->issued, 0);

    memset(dst, 0, SIZE);
    copy_gate_hold(&f.gate, other, 0);
    (void)issue(stream, other, src, SIZE);
    cr_assert_not(ops->copy_inline(stream, &small), "it would overtake what is issued");
    cr_assert(all_are(dst, SIZE, 0));
    cr_assert(ops->copy_inline(stream_of(&f, 1), &small), "the other stream is empty");
    copy_gate_wait_held(&f.gate);
    copy_gate_open(&f.gate);
    wait_fired_count(&f, 1);
    cr_assert(ops->copy_inline(stream, &small));
    cr_assert_eq(stream->issued, 1);
    cr_assert_eq(f.order_count, 1);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

Test(gpu_host, every_size_and_alignment_arrives_whole)
{
    OPENED_WITH(gated_host, f, 1, 1);
    fry_stream *stream = stream_of(&f, 0);
    size_t room = FRY_HOST_STREAMED_BYTES + 2 * FRY_HOST_CHUNK_BYTES;
    char *src = bytes_of(&f, room, 0), *dst = bytes_of(&f, room, 0);
    uint32_t random = 1;
    for (size_t i = 0; i < room; i++)
        src[i] = (char)next_random(&random);
    static const struct {
        size_t size_bytes, src_offset, dst_offset;
    } cases[] = {
        {1, 3, 5},
        {FRY_HOST_CHUNK_BYTES - 1, 0, 1},
        {FRY_HOST_CHUNK_BYTES, 1, 0},
        {FRY_HOST_CHUNK_BYTES + 1, 0, 0},
        {FRY_HOST_STREAMED_BYTES - 1, 7, 9},
        {FRY_HOST_STREAMED_BYTES, 0, 0},
        {FRY_HOST_STREAMED_BYTES + 1, 0, 16},
        {FRY_HOST_STREAMED_BYTES + FRY_HOST_CHUNK_BYTES + 12345, 11, 63},
        {FRY_HOST_STREAMED_BYTES + 63, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = cases[i].size_bytes;
        memset(dst, 0x55, room);
        char *to = dst + cases[i].dst_offset;
        (void)issue(stream, to, src + cases[i].src_offset, size);
        wait_fired_count(&f, i + 1);
        cr_assert_eq(memcmp(to, src + cases[i].src_offset, size), 0, "case %zu", i);
        cr_assert(all_are(dst, cases[i].dst_offset, 0x55), "case %zu", i);
        cr_assert(all_are(to + size, room - cases[i].dst_offset - size, 0x55), "case %zu", i);
    }
}

/* --- opening, stopping, being idle --- */

/* Opens a host whose memory is counted. A refusal gives no host, and takes no memory. */
static ferry_status open_counted(failing_allocator *fa, fry_host_options options)
{
    static gated_host f;
    fry_host *host = NULL;
    ferry_allocator allocator = failing_allocator_interface(fa);
    copy_gate_install(&f.gate);
    fry_memory_init(&f.memory, &allocator);
    options.notify = (fry_notify){gated_notify, &f};
    ferry_status status = fry_host_open(&f.memory, &options, &host);
    cr_assert_eq(host != NULL, status == FERRY_OK);
    if (host != NULL) {
        cr_assert_eq(fry_host_stop(host, FRY_NEVER_NS), FERRY_OK);
        fry_host_destroy(host);
    }
    cr_assert_eq(failing_allocator_live_bytes(fa), 0);
    return status;
}

static void failing_open(bool persistent)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    fry_host_options options = {.device_count = 4, .worker_count = 2};
    uint64_t refused = 0, failures;
    for (bool is_over = false; !is_over; refused++) {
        failures = failing_allocator_failures(&fa);
        failing_allocator_arm(&fa, refused + 1, persistent);
        ferry_status status = open_counted(&fa, options);
        is_over = failing_allocator_failures(&fa) == failures;
        cr_assert_eq(status, is_over ? FERRY_OK : FERRY_E_NO_MEMORY);
    }
    cr_assert_gt(refused, 2); /* the last was none */
}

Test(gpu_host, open_fails_cleanly_at_each_allocation)
{
    failing_open(false);
    failing_open(true);
}

Test(gpu_host, open_fails_cleanly_at_each_thread)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    fry_host_options options = {.device_count = 2, .worker_count = 3};
    for (int made = 0; made < 3; made++) {
        threads_until_refusal = made;
        cr_assert_eq(open_counted(&fa, options), FERRY_E_SYSTEM, "thread %d", made);
    }
    threads_until_refusal = -1;
}

Test(gpu_host, stop_can_be_called_again_and_destroy_takes_null)
{
    gated_host f;
    gated_host_open(&f, 1, 2);
    cr_assert_eq(fry_host_stop(f.host, FRY_NEVER_NS), FERRY_OK);
    cr_assert_eq(fry_host_stop(f.host, FRY_NEVER_NS), FERRY_OK);
    fry_device *device = fry_host_device(f.host, 0);
    void *memory = malloc(64);
    device->ops->memory_free(device, memory, 64, FRY_MEMORY_DEFAULT); /* may still be called */
    fry_host_destroy(f.host);
    fry_host_destroy(NULL);
}

static volatile sig_atomic_t signalled_thread_is_main;
static pthread_t main_thread;

static void on_signal(int number)
{
    (void)number;
    signalled_thread_is_main = pthread_equal(pthread_self(), main_thread) ? 1 : 2;
}

Test(gpu_host, workers_take_no_signals)
{
    OPENED_WITH(gated_host, f, 1, 4);
    main_thread = pthread_self();
    struct sigaction action = {.sa_handler = on_signal};
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    sigset_t usr1, before;
    (void)sigemptyset(&usr1);
    (void)sigaddset(&usr1, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &usr1, &before);
    cr_assert_eq(sigismember(&before, SIGUSR1), 0, "open must give the caller its mask back");
    cr_assert_eq(kill(getpid(), SIGUSR1), 0);
    (void)switches_when_asleep(4); /* a worker that could take it would by now */
    cr_assert_eq(signalled_thread_is_main, 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    cr_assert_eq(signalled_thread_is_main, 1);
}

Test(gpu_host, idle_workers_never_wake)
{
    OPENED_WITH(gated_host, f, 4, 3);
    char *src = bytes_of(&f, SIZE, 1), *dst = bytes_of(&f, SIZE, 0);
    (void)issue(stream_of(&f, 0), dst, src, SIZE);
    wait_fired_count(&f, 1);

    long before = switches_when_asleep(3);
    struct timespec measured = {.tv_nsec = 200 * 1000 * 1000};
    (void)nanosleep(&measured, NULL);
    long after;
    int asleep;
    cr_assert_eq(read_workers(&after, &asleep), 3);
    cr_assert_eq(after, before, "woken %ld times", after - before);

    /* The counters do show a wake-up where there is one. */
    (void)issue(stream_of(&f, 0), dst, src, SIZE);
    wait_fired_count(&f, 2);
    cr_assert_gt(switches_when_asleep(3), after);
}
