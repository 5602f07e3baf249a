/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that each case of a suite has anew, all of which it has to give back. */
#ifndef FERRY_TESTS_COUNTED_MEMORY_H
#define FERRY_TESTS_COUNTED_MEMORY_H

#include "base/memory.h"
#include "tests/support/failing_allocator.h"

#include <criterion/criterion.h>

static failing_allocator fa;
static fry_memory memory;

static inline void counted_memory_open(void)
{
    failing_allocator_init(&fa);
    ferry_allocator interface = failing_allocator_interface(&fa);
    fry_memory_init(&memory, &interface);
}

static inline void nothing_lives(void)
{
    cr_assert_eq(failing_allocator_live_bytes(&fa), 0);
}

/* The runner of tests/support counts what fails as a case is taken down. */
#define COUNTED_SUITE(name_) TestSuite(name_, .init = counted_memory_open, .fini = nothing_lives)

#endif
