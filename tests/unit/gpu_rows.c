/* SPDX-License-Identifier: Apache-2.0 */
/* Host devices: copies of rows, in chunks, cancelled midway, inline. */
#include "gpu/host/copy.h"
#include "tests/support/paint.h"
#include "tests/unit/gated_host.h"

TestSuite(gpu_rows, .timeout = 60);

enum { FILL = 0x55 };

static fry_stream *issue(gated_host *f, const fry_copy *copy)
{
    uint64_t sequence;
    fry_stream *stream = stream_of(f, 0);
    cr_assert_eq(stream->device->ops->copy(stream, copy, NULL, 0, &sequence, NULL), FERRY_OK);
    return stream;
}

/* Two matrices of the same bytes: one to copy from, and one that ferry's copy is compared with. */
typedef struct matrices {
    size_t room_bytes;
    unsigned char *src, *dst, *expected;
} matrices;

/* They go with the host. */
static void make_matrices(matrices *m, gated_host *f, size_t room_bytes)
{
    m->room_bytes = room_bytes;
    m->src = bytes_of(f, room_bytes, 0);
    m->dst = bytes_of(f, room_bytes, FILL);
    m->expected = bytes_of(f, room_bytes, FILL);
    paint(m->src, room_bytes, 1);
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

/* The first `size_bytes` of the copy, row by row. */
static void expect(const matrices *m, const fry_copy *copy, size_t size_bytes)
{
    size_t row_bytes = copy->size_bytes / copy->row_count;
    memset(m->expected, FILL, m->room_bytes);
    for (size_t row = 0; row * row_bytes < size_bytes; row++) {
        size_t left = size_bytes - row * row_bytes;
        memcpy(m->expected + row * copy->dst_pitch_bytes, m->src + row * copy->src_pitch_bytes,
               left < row_bytes ? left : row_bytes);
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
    OPENED_WITH(gated_host, f, 1, 1);
    make_matrices(&m, &f, (size_t)STREAMED + 4 * CHUNK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fry_copy copy =
            rows(&m, cases[i].row_bytes, cases[i].count, cases[i].dst_pitch, cases[i].src_pitch);
        memset(m.dst, FILL, m.room_bytes);
        (void)issue(&f, &copy);
        wait_fired_count(&f, i + 1);
        expect(&m, &copy, copy.size_bytes);
        cr_assert(is_as_expected(&m), "case %zu", i);
    }
    cr_assert_eq(f.gate.ended, sizeof cases / sizeof *cases, "the gate saw every byte of each");
}

static void cancel_at(size_t row_bytes, size_t count, size_t at_bytes)
{
    matrices m;
    OPENED_WITH(gated_host, f, 1, 1);
    make_matrices(&m, &f, count * (row_bytes + 10));
    fry_copy copy = rows(&m, row_bytes, count, row_bytes + 10, row_bytes + 3);
    copy_gate_hold(&f.gate, m.dst, at_bytes);
    fry_stream *stream = issue(&f, &copy);
    copy_gate_wait_held(&f.gate);
    stream->device->ops->cancel(stream, 1);
    copy_gate_open(&f.gate);
    wait_fired_count(&f, 1);
    expect(&m, &copy, at_bytes);
    cr_assert(is_as_expected(&m), "%zu rows of %zu bytes", count, row_bytes);
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
    OPENED_WITH(gated_host, f, 1, 1);
    make_matrices(&m, &f, 8192);
    fry_stream *stream = stream_of(&f, 0);
    const fry_device_ops *ops = stream->device->ops;
    fry_copy larger = rows(&m, 513, 8, 600, 513);
    cr_assert_not(ops->copy_inline(stream, &larger));
    expect(&m, &larger, 0);
    cr_assert(is_as_expected(&m));
    fry_copy small = rows(&m, 512, 8, 600, 513);
    cr_assert(ops->copy_inline(stream, &small));
    expect(&m, &small, small.size_bytes);
    cr_assert(is_as_expected(&m));
}
