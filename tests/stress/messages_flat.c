/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages allocate nothing, once as many have been under way as there will be: 10^5 of them both
 * ways between two engines, small ones, 16 KiB and ones that are pulled, one by one and in batches.
 * What is counted is the calls of the engines' allocators, and the C library's by ferry's code: UCX
 * has memory of its own, which it may take as it likes. A plain program. Exit 0: nothing was taken.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#define HANG_S 170
#define WINDOW 64
#define NODES_MAX 1000 /* few enough that their memory is taken at creation */
#define WARM_ROUNDS 20 /* of each sort, so that all the memory has been taken that will be */

/* ---- the C library's allocator ---- */

static _Atomic uint64_t own_calls, others_calls;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define IS_COUNTED 0
#define EFFORT 10 /* the sanitizer's allocator can't be replaced: the engines' are counted */
#else
#define IS_COUNTED 1
#define EFFORT 100

extern const char __executable_start, etext; /* of the linker's: this program, ferry within */

void *__libc_malloc(size_t size_bytes);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *memory, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);

static void count(const void *caller)
{
    const char *at = caller;
    if (at >= &__executable_start && at < &etext)
        own_calls++;
    else
        others_calls++;
}

void *malloc(size_t size_bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size_bytes);
}

void *calloc(size_t number, size_t size_bytes)
{
    count(__builtin_return_address(0));
    return __libc_calloc(number, size_bytes);
}

void *realloc(void *memory, size_t size_bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(memory, size_bytes);
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(align_bytes, size_bytes);
}

int posix_memalign(void **memory_p, size_t align_bytes, size_t size_bytes)
{
    count(__builtin_return_address(0));
    *memory_p = __libc_memalign(align_bytes, size_bytes);
    return *memory_p != NULL ? 0 : ENOMEM;
}
#endif

/* ---- two members ---- */

typedef struct member {
    failing_allocator memory;
    ferry_allocator allocator;
    ferry_engine *engine;
    ferry_group *group;
    ferry_buffer *out, *in;
} member;

static const struct {
    const char *name;
    size_t size_bytes;
    size_t rounds; /* of WINDOW messages each way */
    bool is_batch;
} sorts[] = {{"8 B", 8, 6 * EFFORT, false},
             {"8 B, batches", 8, EFFORT, true},
             {"16 KiB", (size_t)16 << 10, EFFORT, false},
             {"16 KiB, batches", (size_t)16 << 10, EFFORT / 2, true},
             {"256 KiB", (size_t)256 << 10, EFFORT / 5, false},
             {"256 KiB, batches", (size_t)256 << 10, EFFORT / 10, true}};
#define SORTS (sizeof sorts / sizeof sorts[0])
#define SIZE_MAX_BYTES ((size_t)256 << 10)

static ferry_buffer *buffer_of(const member *of)
{
    ferry_buffer *buffer = NULL;
    ferry_device *host = ferry_device_at(of->engine, 0);
    CHECK(ferry_buffer_alloc(host, WINDOW * SIZE_MAX_BYTES, &buffer) == FERRY_OK);
    memset(ferry_buffer_data(buffer), 1, WINDOW * SIZE_MAX_BYTES);
    return buffer;
}

static void open_members(member members[2])
{
    ferry_future *joins[2];
    for (int i = 0; i < 2; i++) {
        failing_allocator_init(&members[i].memory);
        members[i].allocator = failing_allocator_interface(&members[i].memory);
        ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
        options.allocator = &members[i].allocator;
        options.host_workers = 1;
        options.max_nodes = NODES_MAX;
        CHECK(ferry_engine_create(&options, &members[i].engine, NULL) == FERRY_OK);
        ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
        group.store = "mem:flat";
        group.job = "job";
        group.size = 2;
        group.rank = (ferry_rank)i;
        group.has_rank = true;
        group.lease_ns = 1000000000000; /* renewed long after this has ended */
        group.deadline_ns = in_ns(60000000000);
        joins[i] = ferry_group_join(members[i].engine, &group, &members[i].group);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(ferry_future_wait(joins[i], -1) == FERRY_OK);
        ferry_future_release(joins[i]);
        members[i].out = buffer_of(&members[i]);
        members[i].in = buffer_of(&members[i]);
    }
}

static void close_members(member members[2])
{
    for (int i = 0; i < 2; i++) {
        ferry_buffer_release(members[i].out);
        ferry_buffer_release(members[i].in);
        ferry_group_release(members[i].group);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(ferry_engine_shutdown(members[i].engine, -1) == FERRY_OK);
        ferry_engine_release(members[i].engine);
        CHECK(failing_allocator_live_bytes(&members[i].memory) == 0);
    }
}

/* ---- messages ---- */

static size_t begin(member *of, ferry_rank other, size_t sort, ferry_future **futures)
{
    ferry_op ops[2 * WINDOW];
    size_t size_bytes = sorts[sort].size_bytes;
    for (size_t i = 0; i < WINDOW; i++) {
        ferry_span in = {of->in, i * size_bytes, size_bytes};
        ferry_span out = {of->out, i * size_bytes, size_bytes};
        if (sorts[sort].is_batch) {
            ops[i] = (ferry_op){
                .kind = FERRY_OP_RECV, .group = of->group, .tag = 1, .peer = other, .dst = in};
            ops[WINDOW + i] = (ferry_op){
                .kind = FERRY_OP_SEND, .group = of->group, .tag = 1, .peer = other, .src = out};
        } else {
            futures[i] = ferry_recv(of->group, other, 1, in, NULL);
            futures[WINDOW + i] = ferry_send(of->group, other, 1, out, NULL);
        }
    }
    if (!sorts[sort].is_batch)
        return 2 * WINDOW;
    futures[0] = ferry_batch(of->engine, ops, sizeof *ops, 2 * WINDOW, NULL, NULL);
    return 1;
}

static void exchange(member members[2], size_t sort)
{
    ferry_future *futures[2][2 * WINDOW];
    size_t counts[2];
    for (ferry_rank i = 0; i < 2; i++)
        counts[i] = begin(&members[i], 1 - i, sort, futures[i]);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < counts[i]; k++) {
            CHECK(ferry_future_wait(futures[i][k], -1) == FERRY_OK);
            ferry_future_release(futures[i][k]);
        }
    }
}

static uint64_t calls_of(member members[2])
{
    return failing_allocator_calls(&members[0].memory) +
           failing_allocator_calls(&members[1].memory) + own_calls;
}

int main(void)
{
    member members[2];
    uint64_t messages = 0;
    int failed = 0;
    end_if_hung(HANG_S);
    open_members(members);
    for (size_t round = 0; round < WARM_ROUNDS; round++) {
        for (size_t sort = 0; sort < SORTS; sort++)
            exchange(members, sort);
    }
    CHECK(!IS_COUNTED || own_calls != 0);
    for (size_t sort = 0; sort < SORTS; sort++) {
        uint64_t before = calls_of(members), others_before = others_calls;
        for (size_t round = 0; round < sorts[sort].rounds; round++)
            exchange(members, sort);
        uint64_t taken = calls_of(members) - before;
        printf("%-18s %6zu messages: %llu allocations, %llu of UCX and other libraries\n",
               sorts[sort].name, 2 * WINDOW * sorts[sort].rounds, (unsigned long long)taken,
               (unsigned long long)(others_calls - others_before));
        messages += 2 * WINDOW * sorts[sort].rounds;
        failed |= taken != 0;
    }
    printf("%llu messages\n", (unsigned long long)messages);
    close_members(members);
    return failed;
}
