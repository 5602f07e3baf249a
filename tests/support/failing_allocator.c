/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/failing_allocator.h"

#include "tests/support/large_block.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RUBBISH 0xa5
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* A member's tables are 28 MB of which a test touches little, and shadow comes on top. Builds
 * without a sanitizer run the same tests and fill all of it. */
#define FILLS_ENDS true
#else
#define FILLS_ENDS false
#endif
enum { END_BYTES = 64 << 10 };

static bool must_fail(failing_allocator *fa)
{
    uint64_t call = atomic_fetch_add(&fa->calls, 1) + 1;
    uint64_t fail_at = atomic_load(&fa->fail_at);
    if (fail_at == 0)
        return false;
    bool persistent = (fail_at & 1) != 0;
    if (persistent ? call < fail_at / 2 : call != fail_at / 2)
        return false;
    atomic_fetch_add(&fa->failures, 1);
    return true;
}

static void fill_with_rubbish(const failing_allocator *fa, unsigned char *memory, size_t size_bytes)
{
    if (atomic_load(&fa->fills_ends) && size_bytes / 2 > END_BYTES) {
        memset(memory + size_bytes - END_BYTES, RUBBISH, END_BYTES);
        size_bytes = END_BYTES;
    }
    memset(memory, RUBBISH, size_bytes);
}

static void *counted_alloc(void *arg, size_t size_bytes, size_t align_bytes)
{
    failing_allocator *fa = arg;
    if (must_fail(fa))
        return NULL;
    void *memory = NULL;
    if (align_bytes < sizeof(void *))
        align_bytes = sizeof(void *);
    if (size_bytes >= LARGE_BLOCK_BYTES_MIN)
        memory = large_block_alloc(size_bytes, align_bytes);
    else if (posix_memalign(&memory, align_bytes, size_bytes) != 0)
        return NULL;
    if (memory == NULL)
        return NULL;
    fill_with_rubbish(fa, memory, size_bytes);
    atomic_fetch_add(&fa->live_bytes, (int64_t)size_bytes);
    return memory;
}

static void counted_free(void *arg, void *memory, size_t size_bytes)
{
    failing_allocator *fa = arg;
    atomic_fetch_sub(&fa->live_bytes, (int64_t)size_bytes);
    if (size_bytes >= LARGE_BLOCK_BYTES_MIN)
        large_block_free(memory, size_bytes);
    else
        free(memory);
}

void failing_allocator_init(failing_allocator *fa)
{
    atomic_init(&fa->calls, 0);
    atomic_init(&fa->failures, 0);
    atomic_init(&fa->fail_at, 0);
    atomic_init(&fa->live_bytes, 0);
    atomic_init(&fa->fills_ends, FILLS_ENDS);
}

ferry_allocator failing_allocator_interface(failing_allocator *fa)
{
    return (ferry_allocator){.alloc = counted_alloc, .free = counted_free, .arg = fa};
}

void failing_allocator_arm(failing_allocator *fa, uint64_t nth, bool persistent)
{
    uint64_t fail_at = nth == 0 ? 0 : (atomic_load(&fa->calls) + nth) * 2 + (persistent ? 1 : 0);
    atomic_store(&fa->fail_at, fail_at);
}

void failing_allocator_fill_ends(failing_allocator *fa)
{
    atomic_store(&fa->fills_ends, true);
}

int64_t failing_allocator_live_bytes(failing_allocator *fa)
{
    return atomic_load(&fa->live_bytes);
}

uint64_t failing_allocator_calls(failing_allocator *fa)
{
    return atomic_load(&fa->calls);
}

uint64_t failing_allocator_failures(failing_allocator *fa)
{
    return atomic_load(&fa->failures);
}
