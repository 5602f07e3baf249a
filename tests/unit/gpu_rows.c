/* SPDX-License-Identifier: Apache-2.0 */
/* Host devices: copies of rows, in chunks, cancelled midway, inline. */
#include "gpu/host.h"
#include "gpu/host_copy.h"
#include "tests/support/owned.h"
#include "tests/unit/copy_gate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(gpu_rows, .timeout = 60);

enum { FILL = 0x55 };

typedef struct fixture {
    copy_gate gate;
    uint64_t fired; /* calls to notify; the gate's mutex */
    fry_memory memory;
    fry_host *host;
    fry_stream *stream;
} fixture;

static void notify(void *arg)
{
    fixture *f = arg;
    (void)pthread_mutex_lock(&f->gate.mutex);
    f->fired++;
    (void)pthread_cond_broadcast(&f->gate.changed);
    (void)pthread_mutex_unlock(&f->gate.mutex);
}

static void wait_fired(fixture *f, uint64_t count)
{
    (void)pthread_mutex_lock(&f->gate.mutex);
    while (f->fired < count)
        (void)pthread_cond_wait(&f->gate.changed, &f->gate.mutex);
    (void)pthread_mutex_unlock(&f->gate.mutex);
}

static void fixture_open(fixture *f)
{
    *f = (fixture){.fired = 0};
    copy_gate_install(&f->gate);
    fry_memory_init(&f->memory, NULL);
    fry_host_options options = {.device_count = 1,
                                .worker_count = 1,
                                .inline_copy_bytes = 4096,
                                .notify = {notify, f},
                                .gate = {copy_gate_pass, &f->gate}};
    cr_assert_eq(fry_host_open(&f->memory, &options, &f->host), FERRY_OK);
    fry_device *device = fry_host_device(f->host, 0);
    f->stream = device->ops->copy_stream(device, device, false);
}

static void fixture_close(fixture *f)
{
    cr_assert_eq(fry_host_stop(f->host, FRY_NEVER_NS), FERRY_OK);
    fry_host_destroy(f->host);
}

static void issue(fixture *f, const fry_copy *copy)
{
    uint64_t sequence;
    cr_assert_eq(f->stream->device->ops->copy(f->stream, copy, NULL, 0, &sequence, NULL), FERRY_OK);
}

/* Two matrices of the same bytes: one to copy from, and one that ferry's copy is compared with. */
typedef struct matrices {
    size_t room_bytes;
    unsigned char *src, *dst, *expected;
} matrices;

static unsigned char *bytes(size_t size_bytes, int value)
{
    unsigned char *memory = malloc(size_bytes);
    cr_assert_not_null(memory);
    memset(memory, value, size_bytes);
    return memory;
}

static void open_matrices(matrices *m, size_t room_bytes)
{
    m->room_bytes = room_bytes;
    m->src = bytes(room_bytes, 0);
    m->dst = bytes(room_bytes, FILL);
    m->expected = bytes(room_bytes, FILL);
    uint32_t random = 1;
    for (size_t i = 0; i < room_bytes; i++) {
        random = random * 1664525u + 1013904223u;
        m->src[i] = (unsigned char)(random >> 24);
    }
}

static void close_matrices(matrices *m)
{
    free(m->src);
    free(m->dst);
    free(m->expected);
}

static fry_copy rows(const matrices *m, size_t row_bytes, size_t count, size_t dst_pitch,
                     size_t src_pitch)
{
    cr_assert_leq((count - 1) * dst_pitch + row_bytes, m->room_bytes);
    cr_assert_leq((count - 1) * src_pitch + row_bytes, m->room_bytes);
    return (fry_copy){.dst = m->dst,
                      .src = m->src,
                      .size_bytes = count * row_bytes,
                      .row_count = count,
                      .dst_pitch_bytes = dst_pitch,
                      .src_pitch_bytes = src_pitch};
}

/* The first `size_bytes` of the copy, byte by byte. */
static void expect(const matrices *m, const fry_copy *copy, size_t size_bytes)
{
    size_t row_bytes = copy->size_bytes / copy->row_count;
    memset(m->expected, FILL, m->room_bytes);
    for (size_t i = 0; i < size_bytes; i++) {
        size_t row = i / row_bytes, at = i % row_bytes;
        m->expected[row * copy->dst_pitch_bytes + at] = m->src[row * copy->src_pitch_bytes + at];
    }
}

static bool is_as_expected(const matrices *m)
{
    return memcmp(m->dst, m->expected, m->room_bytes) == 0;
}

Test(gpu_rows, rows_of_every_shape_arrive_whole_and_nothing_between_them)
{
    enum { CHUNK = FRY_HOST_CHUNK_BYTES, STREAMED = FRY_HOST_STREAMED_BYTES };
    static const struct {
        size_t row_bytes, count, dst_pitch, src_pitch;
    } cases[] = {
        {1, 2, 2, 2},
        {1, 65536, 3, 2},
        {7, 1000, 7, 9}, /* one side without gaps */
        {100, 100, 250, 100},
        {4096, 300, 5000, 4097},
        {CHUNK - 1, 3, CHUNK, CHUNK + 5},
        {CHUNK, 2, CHUNK + 1, CHUNK},
        {CHUNK + 1, 3, CHUNK + 1, CHUNK + 64},
        {2 * CHUNK + 100, 2, 3 * CHUNK, 2 * CHUNK + 100},
        {STREAMED / 1024 - 1, 1030, STREAMED / 1024 + 9, STREAMED / 1024}, /* too short to stream */
        {STREAMED / 512, 512, STREAMED / 512 + 64, STREAMED / 512 + 3},
        {STREAMED / 2 + 4097, 2, STREAMED / 2 + 5000, STREAMED / 2 + 4097},
    };
    matrices m;
    OPENED(fixture, f);
    open_matrices(&m, (size_t)STREAMED + 4 * CHUNK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fry_copy copy =
            rows(&m, cases[i].row_bytes, cases[i].count, cases[i].dst_pitch, cases[i].src_pitch);
        memset(m.dst, FILL, m.room_bytes);
        issue(&f, &copy);
        wait_fired(&f, i + 1);
        expect(&m, &copy, copy.size_bytes);
        cr_assert(is_as_expected(&m), "case %zu", i);
    }
    cr_assert_eq(f.gate.ended, sizeof cases / sizeof *cases, "the gate saw every byte of each");
    close_matrices(&m);
}

static void cancel_at(size_t row_bytes, size_t count, size_t at_bytes)
{
    matrices m;
    OPENED(fixture, f);
    open_matrices(&m, count * (row_bytes + 10));
    fry_copy copy = rows(&m, row_bytes, count, row_bytes + 10, row_bytes + 3);
    copy_gate_hold(&f.gate, m.dst, at_bytes);
    issue(&f, &copy);
    copy_gate_wait_held(&f.gate);
    f.stream->device->ops->cancel(f.stream, 1);
    copy_gate_open(&f.gate);
    wait_fired(&f, 1);
    expect(&m, &copy, at_bytes);
    cr_assert(is_as_expected(&m), "%zu rows of %zu bytes", count, row_bytes);
    close_matrices(&m);
}

Test(gpu_rows, cancelled_midway_they_are_copied_no_further)
{
    cancel_at(1000, 10000, 0);
    cancel_at(1000, 10000, FRY_HOST_CHUNK_BYTES);
    cancel_at(1000, 10000, 2 * FRY_HOST_CHUNK_BYTES);
    cancel_at(3 * FRY_HOST_CHUNK_BYTES / 2, 3, 2 * FRY_HOST_CHUNK_BYTES);
    cancel_at(1, 65536, 0);
}

Test(gpu_rows, all_their_bytes_count_when_copied_inline)
{
    matrices m;
    OPENED(fixture, f);
    open_matrices(&m, 8192);
    const fry_device_ops *ops = f.stream->device->ops;
    fry_copy larger = rows(&m, 513, 8, 600, 513);
    cr_assert_not(ops->copy_inline(f.stream, &larger));
    expect(&m, &larger, 0);
    cr_assert(is_as_expected(&m));
    fry_copy small = rows(&m, 512, 8, 600, 513);
    cr_assert(ops->copy_inline(f.stream, &small));
    expect(&m, &small, small.size_bytes);
    cr_assert(is_as_expected(&m));
    close_matrices(&m);
}
