/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "tests/support/failing_allocator.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const size_t aligns_bytes[] = {1, 2, 4, 8, 16, 32, 64, 128, 4096, 65536};
#define ALIGN_COUNT (sizeof aligns_bytes / sizeof aligns_bytes[0])

static bool all_zero(const unsigned char *memory, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (memory[i] != 0)
            return false;
    }
    return true;
}

Test(base_memory, default_allocator_aligns_and_zeroes)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    for (size_t i = 0; i < ALIGN_COUNT; i++) {
        for (size_t size_bytes = 1; size_bytes < 3000; size_bytes = size_bytes * 3 + 1) {
            /* A used block first, so that the zeroed one is likely to be recycled. */
            void *used = fry_alloc_raw(&memory, size_bytes, aligns_bytes[i]);
            cr_assert_not_null(used);
            memset(used, 0xff, size_bytes);
            fry_free(&memory, used, size_bytes);

            unsigned char *zeroed = fry_alloc(&memory, size_bytes, aligns_bytes[i]);
            cr_assert_not_null(zeroed);
            cr_assert_eq((uintptr_t)zeroed % aligns_bytes[i], 0);
            cr_assert(all_zero(zeroed, size_bytes));
            fry_free(&memory, zeroed, size_bytes);
        }
    }
}

/* Of the sizes the first are blocks and the last ones are mapped. */
static const size_t tables_bytes[] = {64, 4096, 32 * 1024 - 1, 32 * 1024, 1000 * 1000, 24 << 20};
#define TABLE_COUNT (sizeof tables_bytes / sizeof tables_bytes[0])

Test(base_memory, tables_are_aligned_zeroed_and_given_back)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        for (int round = 0; round < 3; round++) {
            unsigned char *table = fry_alloc_table(&memory, tables_bytes[i], true);
            cr_assert_not_null(table);
            cr_assert_eq((uintptr_t)table % 64, 0);
            cr_assert(all_zero(table, tables_bytes[i]));
            memset(table, 0xff, tables_bytes[i]);
            fry_free_table(&memory, table, tables_bytes[i]);
        }
        fry_free_table(&memory, NULL, tables_bytes[i]);
    }
}

#ifdef __SANITIZE_ADDRESS__
static bool may_be_read(const unsigned char *address)
{
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    ssize_t written = write(pipes[1], address, 1);
    cr_assert(written == 1 || errno == EFAULT);
    close(pipes[0]);
    close(pipes[1]);
    return written == 1;
}

Test(base_memory, a_mapped_table_is_guarded_and_its_address_not_used_again)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    size_t size_bytes = 64 * 1001;
    unsigned char *table = fry_alloc_table(&memory, size_bytes, false);
    cr_assert(may_be_read(table));
    cr_assert(may_be_read(table + size_bytes - 1));
    cr_assert(!may_be_read(table + size_bytes));
    cr_assert(!may_be_read(table - 4096));
    fry_free_table(&memory, table, size_bytes);

    unsigned char *next = fry_alloc_table(&memory, size_bytes, false);
    cr_assert(!may_be_read(table));
    cr_assert(!may_be_read(table + size_bytes - 1));
    fry_free_table(&memory, next, size_bytes);
}
#endif

Test(base_memory, zeroes_what_a_user_allocator_gives)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    ferry_allocator interface = failing_allocator_interface(&fa);
    fry_memory memory;
    fry_memory_init(&memory, &interface);

    unsigned char *raw = fry_alloc_raw(&memory, 100, 64);
    cr_assert_eq(raw[0], 0xa5, "raw memory is as the allocator gave it");
    unsigned char *zeroed = fry_alloc(&memory, 100, 64);
    cr_assert(all_zero(zeroed, 100));
    cr_assert_eq(failing_allocator_live_bytes(&fa), 200);
    fry_free(&memory, raw, 100);
    fry_free(&memory, zeroed, 100);
    cr_assert_eq(failing_allocator_live_bytes(&fa), 0);
    cr_assert_eq(failing_allocator_calls(&fa), 2);
}

Test(base_memory, size_zero_gives_null_without_a_call_and_null_can_be_freed)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    ferry_allocator interface = failing_allocator_interface(&fa);
    fry_memory memory;
    fry_memory_init(&memory, &interface);
    cr_assert_null(fry_alloc(&memory, 0, 8));
    cr_assert_null(fry_alloc_raw(&memory, 0, 8));
    fry_free(&memory, NULL, 17);
    cr_assert_eq(failing_allocator_calls(&fa), 0);
    cr_assert_eq(failing_allocator_live_bytes(&fa), 0);
}

Test(base_memory, too_much_gives_null)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    cr_assert_null(fry_alloc(&memory, SIZE_MAX / 2, 8));
    cr_assert_null(fry_alloc(&memory, SIZE_MAX / 2, 64));
}

Test(base_memory, a_call_fails_once)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    ferry_allocator interface = failing_allocator_interface(&fa);
    fry_memory memory;
    fry_memory_init(&memory, &interface);
    failing_allocator_arm(&fa, 2, false);
    void *first = fry_alloc(&memory, 8, 8);
    void *second = fry_alloc(&memory, 8, 8);
    void *third = fry_alloc(&memory, 8, 8);
    cr_assert_not_null(first);
    cr_assert_null(second);
    cr_assert_not_null(third);
    cr_assert_eq(failing_allocator_failures(&fa), 1);
    fry_free(&memory, first, 8);
    fry_free(&memory, third, 8);
}

Test(base_memory, calls_fail_for_ever_until_disarmed)
{
    failing_allocator fa;
    failing_allocator_init(&fa);
    ferry_allocator interface = failing_allocator_interface(&fa);
    fry_memory memory;
    fry_memory_init(&memory, &interface);
    failing_allocator_arm(&fa, 2, true);
    void *first = fry_alloc(&memory, 8, 8);
    cr_assert_not_null(first);
    for (int i = 0; i < 5; i++)
        cr_assert_null(fry_alloc(&memory, 8, 8));
    failing_allocator_arm(&fa, 0, false);
    void *last = fry_alloc(&memory, 8, 8);
    cr_assert_not_null(last);
    cr_assert_eq(failing_allocator_failures(&fa), 5);
    cr_assert_eq(failing_allocator_calls(&fa), 7);
    fry_free(&memory, first, 8);
    fry_free(&memory, last, 8);
    cr_assert_eq(failing_allocator_live_bytes(&fa), 0);
}
