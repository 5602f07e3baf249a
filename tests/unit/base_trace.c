/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"
#include "tests/support/owned.h"
#include "tests/unit/counted_memory.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

COUNTED_SUITE(base_trace);

static void ring_close(fry_trace_ring **ring)
{
    fry_trace_ring_destroy(&memory, *ring);
}

#define RING(name_, capacity_)                                                                     \
    OWNED(ring_close) fry_trace_ring *name_ = fry_trace_ring_create(&memory, capacity_)

static void write_ops(fry_trace_ring *ring, uint64_t first, uint64_t count)
{
    for (uint64_t op = first; op < first + count; op++) {
        ferry_trace_record record = {.op = op};
        fry_trace_ring_write(ring, &record);
    }
}

static void assert_ops(const ferry_trace_record *records, size_t count, uint64_t first)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(records[i].op, first + i);
}

/* Of at most `room` it reads `count`, numbered from `first` on. */
static void expect_read(fry_trace_ring *ring, uint64_t *cursor, uint64_t *lost, size_t room,
                        size_t count, uint64_t first)
{
    ferry_trace_record records[64];
    cr_assert_eq(fry_trace_ring_read(ring, cursor, records, room, lost), count);
    assert_ops(records, count, first);
}

Test(base_trace, names)
{
#define CHECK_WHAT(name, value, text) cr_assert_str_eq(ferry_trace_what_name(name), text);
    FERRY_TRACE_MAP(CHECK_WHAT)
#undef CHECK_WHAT
#define CHECK_KIND(name, value, text) cr_assert_str_eq(ferry_op_kind_name(name), text);
    FERRY_OP_KIND_MAP(CHECK_KIND)
#undef CHECK_KIND
    cr_assert_str_eq(ferry_trace_what_name(FERRY_TRACE_ISSUED), "issued");
    cr_assert_str_eq(ferry_op_kind_name(FERRY_OP_COPY), "copy");
    cr_assert_str_eq(ferry_trace_what_name((ferry_trace_what)0), "?");
    cr_assert_str_eq(ferry_trace_what_name((ferry_trace_what)60000), "?");
    cr_assert_str_eq(ferry_op_kind_name((ferry_op_kind)0), "?");
    cr_assert_str_eq(ferry_op_kind_name((ferry_op_kind)60000), "?");
}

Test(base_trace, every_byte_of_a_record_comes_back)
{
    RING(ring, 8);
    ferry_trace_record in;
    for (size_t i = 0; i < sizeof in; i++)
        ((unsigned char *)&in)[i] = (unsigned char)(i * 7 + 1);
    fry_trace_ring_write(ring, &in);
    ferry_trace_record out;
    uint64_t cursor = 0, lost = 0;
    cr_assert_eq(fry_trace_ring_read(ring, &cursor, &out, 1, &lost), 1);
    cr_assert_arr_eq((char *)&out, (char *)&in, sizeof in);
}

Test(base_trace, capacity_is_rounded_up_to_a_power_of_two)
{
    static const struct {
        size_t asked;
        uint64_t slots;
    } cases[] = {{0, 2}, {1, 2}, {2, 2}, {3, 4}, {1000, 1024}, {1024, 1024}, {1025, 2048}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RING(ring, cases[i].asked);
        cr_assert_eq(ring->mask + 1, cases[i].slots);
        cr_assert_eq((uintptr_t)ring->records % FRY_CACHE_LINE, 0);
    }
    fry_trace_ring_destroy(&memory, NULL);
}

Test(base_trace, no_memory_and_no_such_size)
{
    failing_allocator_arm(&fa, 1, false);
    cr_assert_null(fry_trace_ring_create(&memory, 8));
    cr_assert_null(fry_trace_ring_create(&memory, SIZE_MAX));
    cr_assert_eq(failing_allocator_calls(&fa), 1, "an impossible size asks for nothing");
}

Test(base_trace, reads_in_order_in_pieces_and_around_the_end)
{
    RING(ring, 8);
    ferry_trace_record records[8];
    uint64_t cursor = 0, lost = 0, next = 0;
    cr_assert_eq(fry_trace_ring_read(ring, &cursor, records, 8, &lost), 0);
    for (int round = 0; round < 20; round++) {
        write_ops(ring, next, 5);
        expect_read(ring, &cursor, &lost, 3, 3, next);
        expect_read(ring, &cursor, &lost, 8, 2, next + 3);
        cr_assert_eq(fry_trace_ring_read(ring, &cursor, records, 8, &lost), 0);
        next += 5;
    }
    cr_assert_eq(cursor, 100);
    cr_assert_eq(lost, 0);
}

Test(base_trace, overwritten_records_are_counted_as_lost)
{
    RING(ring, 8);
    uint64_t cursor = 0, lost = 0;
    write_ops(ring, 0, 7);
    write_ops(ring, 7, 13); /* 20 written, the newest 7 can be read */
    expect_read(ring, &cursor, &lost, 16, 7, 13);
    cr_assert_eq(lost, 13);
    cr_assert_eq(cursor, 20);

    write_ops(ring, 20, 8); /* one too many */
    expect_read(ring, &cursor, &lost, 2, 2, 21);
    cr_assert_eq(lost, 14);
    expect_read(ring, &cursor, &lost, 16, 5, 23);
    cr_assert_eq(lost, 14);
}

Test(base_trace, readers_do_not_disturb_each_other)
{
    RING(ring, 8);
    ferry_trace_record records[8];
    uint64_t early = 0, late = 0, lost = 0;
    write_ops(ring, 0, 4);
    cr_assert_eq(fry_trace_ring_read(ring, &early, records, 8, &lost), 4);
    write_ops(ring, 4, 2);
    late = ring->head - 1;
    expect_read(ring, &late, &lost, 8, 1, 5);
    expect_read(ring, &early, &lost, 8, 2, 4);
}

Test(base_trace, a_smallest_ring_gives_the_newest_record)
{
    RING(ring, 1);
    uint64_t cursor = 0, lost = 0;
    write_ops(ring, 0, 9);
    expect_read(ring, &cursor, &lost, 4, 1, 8);
    cr_assert_eq(lost, 8);
}

/* A reader that is stopped midway: the page it copies to next lets it in once more has been
 * written. */
static fry_trace_ring *written_meanwhile;
static void *guarded_page;

static void on_touch(int number)
{
    (void)number;
    write_ops(written_meanwhile, 200, 150);
    if (mprotect(guarded_page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) != 0)
        _exit(1);
}

Test(base_trace, what_is_overwritten_while_it_is_read_is_lost)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = page_bytes / sizeof(ferry_trace_record); /* records before the page's end */
    char *pages =
        mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    guarded_page = pages + page_bytes;
    cr_assert_eq(mprotect(guarded_page, page_bytes, PROT_NONE), 0);
    struct sigaction action = {.sa_handler = on_touch};
    cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);

    RING(ring, 256);
    written_meanwhile = ring;
    write_ops(ring, 0, 200);
    /* 64 records go before the guarded page, wherever pages are that large or larger. */
    ferry_trace_record *records = (ferry_trace_record *)(void *)pages + room - 64;
    uint64_t cursor = 0, lost = 0;
    size_t count = fry_trace_ring_read(ring, &cursor, records, 128, &lost);
    cr_assert_eq(ring->head, 350, "the reader was not stopped");
    cr_assert_eq(lost, 350 - 255);
    cr_assert_eq(count, 128 - lost);
    assert_ops(records, count, lost);
    cr_assert_eq(cursor, 128);
    cr_assert_eq(munmap(pages, 2 * page_bytes), 0);
}

Test(base_trace, a_reader_that_is_overtaken_altogether_loses_all_it_copied)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    guarded_page = mmap(NULL, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(guarded_page, MAP_FAILED);
    struct sigaction action = {.sa_handler = on_touch};
    cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);

    RING(ring, 32);
    written_meanwhile = ring;
    write_ops(ring, 0, 200);
    ferry_trace_record *records = guarded_page;
    uint64_t cursor = 190, lost = 0;
    cr_assert_eq(fry_trace_ring_read(ring, &cursor, records, 64, &lost), 0);
    cr_assert_eq(ring->head, 350, "the reader was not stopped");
    cr_assert_eq(lost, 10);
    cr_assert_eq(cursor, 200);
    expect_read(ring, &cursor, &lost, 64, 31, 319);
    cr_assert_eq(lost, 10 + 119);
    cr_assert_eq(munmap(guarded_page, page_bytes), 0);
}

Test(base_trace, a_larger_ring_goes_on_where_the_small_one_stopped)
{
    RING(small, 8);
    RING(large, 64);
    write_ops(small, 0, 20);
    uint64_t early = 10, late = 18, lost = 0;
    fry_trace_ring_continue(large, small);
    write_ops(large, 20, 10);

    /* The oldest that the small one had is there, what it had overwritten is not. */
    expect_read(large, &early, &lost, 64, 18, 12);
    cr_assert_eq(lost, 2);
    cr_assert_eq(early, 30);
    lost = 0;
    expect_read(small, &late, &lost, 64, 2, 18);
    expect_read(large, &late, &lost, 64, 10, 20);
    cr_assert_eq(lost, 0);
}

Test(base_trace, a_ring_that_was_never_full_goes_on_from_its_start)
{
    RING(small, 8);
    RING(large, 64);
    write_ops(small, 0, 3);
    fry_trace_ring_continue(large, small);
    write_ops(large, 3, 1);
    uint64_t cursor = 0, lost = 0;
    expect_read(large, &cursor, &lost, 64, 4, 0);
    cr_assert_eq(lost, 0);
}
