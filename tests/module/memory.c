/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of GPUs: pools, allocations of their own, pinned memory, whose memory it is, peers. */
#include "tests/module/rig.h"

#include "gpu/cuda/reclaim.h"
#include "gpu/cuda/staged.h"

#include <pthread.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define GIB (MIB * KIB)

#define UNTIL(condition)                                                                           \
    while (!(condition))                                                                           \
    (void)usleep(50)

static emu_counters live(void)
{
    emu_counters counters;
    emu_get_counters(&counters);
    return counters;
}

static ferry_status try_alloc(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                              char **memory_p)
{
    void *memory = NULL;
    fry_fault fault;
    CUcontext before, now;
    OK(cuCtxGetCurrent(&before));
    ferry_status status = device->ops->memory_alloc(device, size_bytes, kind, &memory, &fault);
    OK(cuCtxGetCurrent(&now));
    CHECK(before == now && (memory != NULL) == (status == FERRY_OK));
    *memory_p = memory;
    return status;
}

static char *get(fry_device *device, size_t size_bytes, fry_memory_kind kind)
{
    char *memory;
    OK(try_alloc(device, size_bytes, kind, &memory));
    return memory;
}

static void put(fry_device *device, char *memory, size_t size_bytes, fry_memory_kind kind)
{
    CUcontext before, now;
    OK(cuCtxGetCurrent(&before));
    device->ops->memory_free(device, memory, size_bytes, kind);
    OK(cuCtxGetCurrent(&now));
    CHECK(before == now);
}

static fry_device_facts facts_of(fry_device *device)
{
    fry_device_facts facts = {0};
    device->ops->describe(device, &facts);
    return facts;
}

static uint64_t reserved_bytes(fry_device *device)
{
    cuuint64_t bytes = 0;
    OK(cuMemPoolGetAttribute(fry_cuda_device_of(device)->memory.pool,
                             CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

static void test_pool(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_device_facts empty = facts_of(device);
    CHECK((empty.capabilities & FERRY_CAN_POOL_MEMORY) != 0);
    CHECK(empty.memory_bytes > GIB && empty.memory_unused_bytes > empty.memory_bytes / 2);
    char *memory[20];
    for (size_t i = 0; i < 20; i++) {
        memory[i] = get(device, 1 + i * 100 * KIB, FRY_MEMORY_DEFAULT);
        CHECK((uintptr_t)memory[i] % 256 == 0);
    }
    CHECK(facts_of(device).memory_unused_bytes <= empty.memory_unused_bytes - 18 * MIB);
    /* Nothing is waited for, whatever the GPU does. */
    emu_hold();
    for (size_t i = 0; i < 20; i++)
        put(device, memory[i], 1 + i * 100 * KIB, FRY_MEMORY_DEFAULT);
    emu_release();
    (void)emu_settle();
    GIVES(live().live_device_bytes, 0);
    GIVES(facts_of(device).memory_unused_bytes, empty.memory_unused_bytes);

    /* What is free is kept, but no more than 4 GiB. */
    char *large = get(device, 6 * GIB, FRY_MEMORY_DEFAULT);
    put(device, large, 6 * GIB, FRY_MEMORY_DEFAULT);
    char *small = get(device, KIB, FRY_MEMORY_DEFAULT);
    CHECK(reserved_bytes(device) <= 4 * GIB + 32 * MIB && reserved_bytes(device) >= GIB);
    put(device, small, KIB, FRY_MEMORY_DEFAULT);
}

/* Too little memory is one allocation's failure; what pools keep is given up for it. */
static void test_limit(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0), *other = rig_device(self, "cuda:1", 0);
    OK(emu_set_memory_limit(0, 64 * MIB));
    for (int kind = FRY_MEMORY_DEFAULT; kind <= FRY_MEMORY_PLAIN; kind++) {
        fry_memory_kind unlike = kind == FRY_MEMORY_DEFAULT ? FRY_MEMORY_PLAIN : FRY_MEMORY_DEFAULT;
        char *first = get(device, 40 * MIB, (fry_memory_kind)kind), *second;
        GIVES(try_alloc(device, 40 * MIB, (fry_memory_kind)kind, &second), FERRY_E_NO_MEMORY);
        GIVES(try_alloc(device, 40 * MIB, unlike, &second), FERRY_E_NO_MEMORY);
        second = get(device, 10 * MIB, (fry_memory_kind)kind);
        char *elsewhere = get(other, 40 * MIB, FRY_MEMORY_DEFAULT);
        put(device, first, 40 * MIB, (fry_memory_kind)kind);
        /* At once: what is about to be freed is waited for. */
        first = get(device, 50 * MIB, unlike);
        put(device, first, 50 * MIB, unlike);
        put(device, second, 10 * MIB, (fry_memory_kind)kind);
        put(other, elsewhere, 40 * MIB, FRY_MEMORY_DEFAULT);
    }
    char *all = get(device, 60 * MIB, FRY_MEMORY_PLAIN);
    put(device, all, 60 * MIB, FRY_MEMORY_PLAIN);
    OK(emu_set_memory_limit(0, 0));
}

static CUstream user_stream(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* What is freed is kept, and given out again where it fits: the driver is not asked. */
static void test_kept(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0), *logical = rig_device(self, "cuda:0/1", 0);
    static const struct {
        const char *alloc, *free;
        fry_memory_kind kind;
        uint64_t keeps_bytes;
    } kinds[] = {{"cuMemAlloc", "cuMemFree", FRY_MEMORY_PLAIN, FRY_CUDA_KEPT_MOST_BYTES},
                 {"cuMemHostAlloc", "cuMemFreeHost", FRY_MEMORY_PINNED, FRY_CUDA_KEPT_HOST_BYTES}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fry_memory_kind kind = kinds[i].kind;
        char *first = get(device, 8 * MIB, kind), *second = get(device, MIB, kind);
        uint64_t allocs = rig_calls(kinds[i].alloc);
        put(device, first, 8 * MIB, kind);
        put(device, second, MIB, kind);
        CHECK(get(device, MIB, kind) == second);
        put(device, second, MIB, kind);
        CHECK(get(device, 7 * MIB, kind) == first);
        GIVES(rig_calls(kinds[i].alloc), allocs);
        char *small = get(device, MIB - MIB / 8 - 1, kind), *large = get(device, MIB + 1, kind);
        char *others = get(logical, MIB, kind);
        GIVES(rig_calls(kinds[i].alloc), allocs + 3); /* too large, too small, of another device */
        put(logical, others, MIB, kind);
        put(device, large, MIB + 1, kind);
        put(device, small, MIB - MIB / 8 - 1, kind);
        put(device, first, 8 * MIB, kind);
        GIVES(rig_calls(kinds[i].free), 0);
        /* No more than so much. */
        char *all = get(device, kinds[i].keeps_bytes, kind);
        put(device, all, kinds[i].keeps_bytes, kind);
        UNTIL(rig_calls(kinds[i].free) == 1);
    }
}

/* A program's work holds up the driver's frees, and nothing else. */
static void test_plain(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    char *plain = get(device, MIB, FRY_MEMORY_PLAIN);
    OK(cuCtxPushCurrent(fry_cuda_device_of(device)->context));
    CUstream stream = user_stream();
    char *used = rig_on_gpu(0, KIB, 0), *host = malloc(MIB);
    memset(host, 3, MIB);
    emu_hold_stream(stream);
    OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)used, 5, KIB, stream));
    uint64_t frees = rig_calls("cuMemFree");
    put(device, plain, MIB, FRY_MEMORY_PLAIN);
    GIVES(self->ops->stop(self->backend), FERRY_E_BUSY);
    UNTIL(rig_calls("cuMemFree") == frees + 1);
    GIVES(live().live_device_bytes, MIB + KIB);
    GIVES(self->ops->stop(self->backend), FERRY_E_BUSY);
    /* Copies of pageable memory go on, and so do other allocations. */
    char *pooled = get(device, MIB, FRY_MEMORY_DEFAULT);
    fry_stream *in = &fry_cuda_device_of(device)->staged[FRY_CUDA_WAY_IN].stream;
    fry_event event = rig_copy(self, in, pooled, host, MIB, NULL, 0);
    rig_flush(in);
    rig_await(self, event);
    CHECK(rig_is_all(pooled, 3, MIB));
    put(device, pooled, MIB, FRY_MEMORY_DEFAULT);
    char *second = get(device, MIB, FRY_MEMORY_PLAIN);
    put(device, second, MIB, FRY_MEMORY_PLAIN);
    emu_release_stream(stream);
    UNTIL(live().live_device_bytes == MIB + KIB);
    OK(cuStreamDestroy(stream));
    rig_free_on_gpu(used);
    CUcontext left;
    OK(cuCtxPopCurrent(&left));
    free(host);
    /* Once the thread is gone it is done in the call. */
    plain = get(device, MIB, FRY_MEMORY_PLAIN);
    UNTIL(self->ops->stop(self->backend) != FERRY_E_BUSY);
    put(device, plain, MIB, FRY_MEMORY_PLAIN);
    GIVES(live().live_device_bytes, 0);
}

static CUstream held;

/* Lets the stream go once an allocation has been refused. */
static void *let_go(void *arg)
{
    const uint64_t *refused = arg;
    UNTIL(rig_calls("cuMemAlloc") > *refused);
    emu_release_stream(held);
    return NULL;
}

/* What is about to be freed is waited for. */
static void test_about_to_be_freed(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    OK(cuCtxPushCurrent(fry_cuda_device_of(device)->context));
    held = user_stream();
    char *used = rig_on_gpu(0, KIB, 0);
    OK(emu_set_memory_limit(0, 64 * MIB));
    char *plain = get(device, 40 * MIB, FRY_MEMORY_PLAIN);
    emu_hold_stream(held);
    OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)used, 5, KIB, held));
    put(device, plain, 40 * MIB, FRY_MEMORY_PLAIN);
    uint64_t refused = rig_calls("cuMemAlloc");
    pthread_t thread;
    OK(pthread_create(&thread, NULL, let_go, &refused));
    plain = get(device, 50 * MIB, FRY_MEMORY_PLAIN);
    OK(pthread_join(thread, NULL));
    put(device, plain, 50 * MIB, FRY_MEMORY_PLAIN);
    OK(cuStreamDestroy(held));
    rig_free_on_gpu(used);
    CUcontext left;
    OK(cuCtxPopCurrent(&left));
}

static bool is_pinned(fry_device *device, const char *memory, size_t size_bytes)
{
    return device->ops->memory_is_pinned(device, memory, size_bytes);
}

static bool is_here(fry_device *device, const char *memory, size_t size_bytes)
{
    return device->ops->memory_is_here(device, memory, size_bytes);
}

static bool is_off_host(fry_device *device, const char *memory, size_t size_bytes)
{
    return device->ops->memory_is_off_host(device, memory, size_bytes);
}

static void test_whose(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0), *other = rig_device(self, "cuda:1", 0);
    char *pooled = get(device, MIB, FRY_MEMORY_DEFAULT), *own = rig_on_gpu(0, MIB, 0);
    char *pinned = get(device, MIB, FRY_MEMORY_PINNED);
    char *pageable = aligned_alloc(4096, 64 * KIB);
    for (char *at = pooled; at == pooled || at == own; at = at == pooled ? own : NULL) {
        CHECK(is_here(device, at, MIB) && is_here(device, at + 5, MIB - 5));
        CHECK(!is_here(device, at, MIB + 4096) && !is_here(other, at, MIB));
        CHECK(is_off_host(device, at, MIB) && is_off_host(other, at + 1, 1));
        CHECK(!is_pinned(device, at, MIB));
    }
    CHECK(is_pinned(device, pinned, MIB) && is_pinned(other, pinned + 3, MIB - 3));
    CHECK(!is_pinned(device, pinned, MIB + 4096));
    CHECK(!is_here(device, pinned, MIB) && !is_off_host(device, pinned, MIB));
    CHECK(!is_pinned(device, pageable, 64 * KIB) && !is_here(device, pageable, 1));
    CHECK(!is_off_host(device, pageable, 64 * KIB));

    /* Registered side by side, then with a gap. */
    OK(cuMemHostRegister(pageable, 16 * KIB, 0));
    OK(cuMemHostRegister(pageable + 16 * KIB, 16 * KIB, 0));
    OK(cuMemHostRegister(pageable + 48 * KIB, 16 * KIB, 0));
    CHECK(is_pinned(device, pageable, 32 * KIB) && is_pinned(device, pageable + 8 * KIB, 10 * KIB));
    CHECK(!is_pinned(device, pageable, 64 * KIB) && !is_pinned(device, pageable, 33 * KIB));
    CHECK(is_pinned(other, pageable + 63 * KIB, KIB));
    for (size_t kib = 0; kib <= 48; kib += kib == 16 ? 32 : 16)
        OK(cuMemHostUnregister(pageable + kib * KIB));
    CHECK(!is_pinned(device, pageable, 16 * KIB));

    put(device, pooled, MIB, FRY_MEMORY_DEFAULT);
    rig_free_on_gpu(own);
    put(device, pinned, MIB, FRY_MEMORY_PINNED);
    free(pageable);
}

/* A driver without pools: allocations of their own, and the reason is told. */
static void test_no_pool(rig *self)
{
    OK(emu_fail_call("cuMemPoolCreate", 1, CUDA_ERROR_NOT_SUPPORTED));
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_device_facts facts = facts_of(device);
    CHECK((facts.capabilities & FERRY_CAN_POOL_MEMORY) == 0);
    CHECK(facts.lacks[__builtin_ctz(FERRY_CAN_POOL_MEMORY)] != NULL);
    uint64_t allocs = rig_calls("cuMemAlloc");
    char *memory = get(device, MIB, FRY_MEMORY_DEFAULT);
    GIVES(rig_calls("cuMemAlloc"), allocs + 1);
    put(device, memory, MIB, FRY_MEMORY_DEFAULT);
    CHECK(get(device, MIB, FRY_MEMORY_DEFAULT) == memory);
    put(device, memory, MIB, FRY_MEMORY_DEFAULT);
    /* One that breaks off half-way leaves nothing. */
    OK(emu_fail_call("cuMemPoolSetAttribute", 1, CUDA_ERROR_NOT_SUPPORTED));
    uint64_t pools = live().live_pools;
    device = rig_device(self, "cuda:0/1", 0);
    GIVES(live().live_pools, pools);
}

static void test_peers(rig *self)
{
    fry_device *first = rig_device(self, "cuda:0", 0);
    GIVES(facts_of(first).peers, 0);
    CHECK(facts_of(first).lacks[__builtin_ctz(FERRY_CAN_COPY_TO_PEERS)] != NULL);
    uint64_t enables = rig_calls("cuCtxEnablePeerAccess"), pools = rig_calls("cuMemPoolSetAccess");
    fry_device *second = rig_device(self, "cuda:1", 0);
    GIVES(rig_calls("cuCtxEnablePeerAccess"), enables + 2);
    GIVES(rig_calls("cuMemPoolSetAccess"), pools + 2);
    GIVES(facts_of(first).peers, 2);
    GIVES(facts_of(second).peers, 1);
    CHECK((facts_of(second).capabilities & FERRY_CAN_COPY_TO_PEERS) != 0);
    fry_device *third = rig_device(self, "cuda:0/1", 0);
    GIVES(facts_of(third).peers, 2);
    /* From pool to pool. */
    char *from = get(third, MIB, FRY_MEMORY_DEFAULT), *to = get(second, MIB, FRY_MEMORY_DEFAULT);
    memset(from, 3, MIB);
    fry_stream *stream = third->ops->copy_stream(second, third, false);
    CHECK(stream == rig_main(third, FRY_CUDA_ON_DEVICE));
    fry_event event = rig_copy(self, stream, to, from, MIB, NULL, 0);
    rig_flush(stream);
    rig_await(self, event);
    CHECK(rig_is_all(to, 3, MIB));
    put(third, from, MIB, FRY_MEMORY_DEFAULT);
    put(second, to, MIB, FRY_MEMORY_DEFAULT);
}

/* Any call may fail: the allocation with it, and nothing is left. */
static void test_failures(rig *self)
{
    static const struct {
        const char *name;
        fry_memory_kind kind;
    } cases[] = {
        {"cuMemAllocFromPoolAsync", FRY_MEMORY_DEFAULT},
        {"cuStreamSynchronize", FRY_MEMORY_DEFAULT},
        {"cuMemAlloc", FRY_MEMORY_PLAIN},
        {"cuMemHostAlloc", FRY_MEMORY_PINNED},
    };
    fry_device *device = rig_device(self, "cuda:0", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *memory;
        OK(emu_fail_call(cases[i].name, 1, CUDA_ERROR_INVALID_VALUE));
        GIVES(try_alloc(device, MIB, cases[i].kind, &memory), FERRY_E_DEVICE);
        OK(emu_fail_call(cases[i].name, 0, CUDA_ERROR_OUT_OF_MEMORY));
        GIVES(try_alloc(device, MIB, cases[i].kind, &memory), FERRY_E_NO_MEMORY);
        OK(emu_fail_call(cases[i].name, 1, CUDA_ERROR_OUT_OF_MEMORY)); /* the second try */
        memory = get(device, MIB, cases[i].kind);
        put(device, memory, MIB, cases[i].kind);
        OK(emu_fail_call(cases[i].name, 0, CUDA_ERROR_OUT_OF_MEMORY)); /* it is kept, or pooled */
        memory = cases[i].kind != FRY_MEMORY_DEFAULT ? get(device, MIB, cases[i].kind) : NULL;
        OK(emu_fail_call(cases[i].name, 0, CUDA_SUCCESS));
        if (memory != NULL)
            put(device, memory, MIB, cases[i].kind);
        CHECK(strstr(self->logged, cases[i].name) != NULL);
    }
}

static void lost(void)
{
    static rig self;
    rig_open(&self);
    fry_device *device = rig_device(&self, "cuda:0", 0), *other = rig_device(&self, "cuda:1", 0);
    char *memory[3], *refused;
    for (int kind = 0; kind < 3; kind++)
        memory[kind] = get(device, MIB, (fry_memory_kind)kind);
    OK(emu_lose_device(0, CUDA_ERROR_LAUNCH_FAILED));
    for (int kind = 0; kind < 3; kind++) {
        GIVES(try_alloc(device, MIB, (fry_memory_kind)kind, &refused), FERRY_E_DEVICE);
        put(device, memory[kind], MIB, (fry_memory_kind)kind);
    }
    CHECK(facts_of(device).memory_bytes > 0);
    char *good = get(other, MIB, FRY_MEMORY_DEFAULT);
    put(other, good, MIB, FRY_MEMORY_DEFAULT);
    UNTIL(self.ops->stop(self.backend) != FERRY_E_BUSY);
    CHECK(strstr(self.logged, "leaked") != NULL);
    self.ops->destroy(self.backend);
}

static void run(void (*test)(rig *))
{
    static rig self;
    rig_open(&self);
    test(&self);
    rig_close(&self);
}

#define CASE(name)                                                                                 \
    static void name(void)                                                                         \
    {                                                                                              \
        run(test_##name);                                                                          \
    }
CASE(pool)
CASE(limit)
CASE(kept)
CASE(plain)
CASE(about_to_be_freed)
CASE(whose)
CASE(no_pool)
CASE(peers)
CASE(failures)

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"pool", pool},
        {"limit", limit},
        {"kept", kept},
        {"plain", plain},
        {"about_to_be_freed", about_to_be_freed},
        {"whose", whose},
        {"no_pool", no_pool},
        {"peers", peers},
        {"failures", failures},
        {"lost", lost},
    };
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
