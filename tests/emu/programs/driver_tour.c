/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through the driver API: what is done right has to work, here and on a GPU. */
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)

static CUcontext context;

static void fill(unsigned char *memory, size_t size_bytes, unsigned seed)
{
    for (size_t i = 0; i < size_bytes; i++)
        memory[i] = (unsigned char)(i * 31 + seed + (i >> 8));
}

static void check(const unsigned char *memory, size_t size_bytes, unsigned seed)
{
    for (size_t i = 0; i < size_bytes; i++)
        CHECK(memory[i] == (unsigned char)(i * 31 + seed + (i >> 8)));
}

/* ---- What there is -------------------------------------------------------------------------- */

static void functions_by_name(void)
{
    typedef CUresult get_device(CUdevice * ordinal_p);
    typedef CUresult get_device_of(CUdevice * ordinal_p, CUcontext context);
    CUdriverProcAddressQueryResult status;
    void *address;
    CUdevice ordinal = -1;

    OK(cuGetProcAddress("cuMemAlloc", &address, 3020, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS && address != NULL);
    OK(cuGetProcAddress("cuNoSuchThing", &address, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && address == NULL);
    OK(cuGetProcAddress("cuMemAllocAsync", &address, 11010, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && address == NULL);
    /* The same name has another form in CUDA 13. */
    OK(cuGetProcAddress("cuCtxGetDevice", &address, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    OK(((get_device *)address)(&ordinal));
    CHECK(ordinal == 0);
    OK(cuGetProcAddress("cuCtxGetDevice", &address, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    ordinal = -1;
    OK(((get_device_of *)address)(&ordinal, context));
    CHECK(ordinal == 0);
}

static void devices(void)
{
    const char *text;
    char name[64], bus[32];
    CUuuid uuid;
    size_t total_bytes, free_bytes;
    int value;

    OK(cuDeviceGetName(name, sizeof name, 0));
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(cuDeviceGetUuid(&uuid, 0));
    OK(cuDeviceTotalMem(&total_bytes, 0));
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    CHECK(strlen(name) > 0 && strlen(bus) == 12 && free_bytes <= total_bytes);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    CHECK(value == 1);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    CHECK(value == 1);
    GIVES(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99),
          CUDA_ERROR_INVALID_DEVICE);
    OK(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
    CHECK(strcmp(text, "CUDA_ERROR_NOT_READY") == 0);
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(strcmp(text, "out of memory") == 0);
    GIVES(cuGetErrorName((CUresult)123456, &text), CUDA_ERROR_INVALID_VALUE);
}

static void contexts(void)
{
    CUcontext own, popped;
    unsigned flags;
    int active, least, greatest;

    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active);
    OK(cuCtxCreate(&own, NULL, 0, 0));
    OK(cuCtxGetCurrent(&popped));
    CHECK(popped == own);
    OK(cuCtxPopCurrent(&popped));
    CHECK(popped == own);
    OK(cuCtxGetCurrent(&popped));
    CHECK(popped == context);
    OK(cuCtxDestroy(own));
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    OK(cuCtxSetCurrent(NULL));
    GIVES(cuMemAlloc(&(CUdeviceptr){0}, 1), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cuStreamCreate(&(CUstream){NULL}, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxSetCurrent(context));
}

/* ---- Copies --------------------------------------------------------------------------------- */

static void plain_copies(void)
{
    static unsigned char pageable[BYTES];
    CUstream stream = NEW_STREAM;
    const CUdeviceptr a = new_memory(BYTES), b = new_memory(BYTES);
    unsigned char *pinned = new_pinned(BYTES);

    fill(pinned, BYTES, 1);
    OK(cuMemcpyHtoDAsync(a, pinned, BYTES, stream));
    OK(cuMemcpyDtoDAsync(b, a, BYTES, stream));
    OK(cuMemcpyDtoHAsync(pageable, b, BYTES, stream)); /* returns when it is done */
    check(pageable, BYTES, 1);
    fill(pageable, BYTES, 2);
    OK(cuMemcpyAsync(a, (CUdeviceptr)pageable, BYTES, stream)); /* so does this */
    memset(pageable, 0, BYTES);
    OK(cuMemcpyDtoHAsync(pinned, a, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    check(pinned, BYTES, 2);

    OK(cuMemcpyHtoD(a, pinned, BYTES));
    OK(cuMemcpyDtoD(b, a, BYTES));
    OK(cuMemcpyDtoH(pageable, b, BYTES));
    check(pageable, BYTES, 2);
    OK(cuMemsetD8(a, 7, 1000));
    OK(cuMemsetD32(a + 1000, 0x01020304, 10));
    OK(cuMemcpy((CUdeviceptr)pageable, a, 1040));
    CHECK(pageable[999] == 7 && pageable[1000] == 4 && pageable[1003] == 1 && pageable[1039] == 1);
    OK(cuMemsetD8Async(b, 9, BYTES, stream));
    OK(cuMemsetD32Async(b, 5, 1, stream));
    OK(cuMemcpyDtoHAsync(pinned, b, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(pinned[0] == 5 && pinned[1] == 0 && pinned[4] == 9 && pinned[BYTES - 1] == 9);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
}

/* A small pageable source may change as soon as the call is back. */
static void staged(void)
{
    unsigned char small[4096];
    CUstream stream = NEW_STREAM;
    const CUdeviceptr memory = new_memory(sizeof small);
    void (*hold)(void) = EMU(emu_hold), (*release)(void) = EMU(emu_release);

    if (hold != NULL)
        hold();
    fill(small, sizeof small, 3);
    OK(cuMemcpyHtoDAsync(memory, small, sizeof small, stream));
    memset(small, 0, sizeof small);
    if (release != NULL)
        release();
    OK(cuMemcpyDtoHAsync(small, memory, sizeof small, stream));
    check(small, sizeof small, 3);
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

static void two_dimensions(void)
{
    CUstream stream = NEW_STREAM;
    unsigned char *from = new_pinned(BYTES), *to = new_pinned(BYTES);
    const CUdeviceptr memory = new_memory(BYTES);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = from,
                          .srcPitch = 512,
                          .srcXInBytes = 16,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = memory,
                          .dstPitch = 300,
                          .dstXInBytes = 4,
                          .dstY = 1,
                          .WidthInBytes = 200,
                          .Height = 100};

    fill(from, BYTES, 4);
    memset(to, 0, BYTES);
    OK(cuMemsetD8Async(memory, 0xee, BYTES, stream));
    OK(cuMemcpy2DAsync(&rows, stream));
    OK(cuMemcpyDtoHAsync(to, memory, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t row = 0; row < 101; row++) {
        for (size_t x = 0; x < 300; x++) {
            const bool copied = row >= 1 && x >= 4 && x < 204;

            CHECK(to[row * 300 + x] == (copied ? from[(row + 1) * 512 + x + 12] : 0xee));
        }
    }
    rows.srcPitch = 100; /* less than a row */
    GIVES(cuMemcpy2DAsync(&rows, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(memory));
    OK(cuMemFreeHost(from));
    OK(cuMemFreeHost(to));
    OK(cuStreamDestroy(stream));
}

#define BATCH 64

static void batches(void)
{
    CUstream stream = NEW_STREAM;
    unsigned char *from = new_pinned(BYTES), *to = new_pinned(BYTES);
    const CUdeviceptr memory = new_memory(BYTES);
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr dsts[BATCH], srcs[BATCH];
    size_t sizes[BATCH], first = 0;

    fill(from, BYTES, 5);
    for (size_t i = 0; i < BATCH; i++) {
        srcs[i] = (CUdeviceptr)from + i * 1024;
        dsts[i] = memory + i * 1024;
        sizes[i] = 1024;
    }
    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, BATCH, &attributes, &first, 1, stream));
    OK(cuMemcpyDtoHAsync(to, memory, (size_t)BATCH * 1024, stream));
    OK(cuStreamSynchronize(stream));
    check(to, (size_t)BATCH * 1024, 5);
    GIVES(cuMemcpyBatchAsync(dsts, srcs, sizes, BATCH, NULL, NULL, 0, stream),
          CUDA_ERROR_INVALID_VALUE);
    GIVES(cuMemcpyBatchAsync(dsts, srcs, sizes, BATCH, &attributes, &first, 1, NULL),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(memory));
    OK(cuMemFreeHost(from));
    OK(cuMemFreeHost(to));
    OK(cuStreamDestroy(stream));
}

/* cuMemAlloc's memory of a context is not another's, though the device is the same. */
static void two_contexts(void)
{
    CUcontext other;
    CUdeviceptr mine = new_memory(BYTES), theirs, dsts[2], srcs[2] = {mine, mine};
    CUstream stream = NEW_STREAM;
    size_t sizes[2] = {BYTES / 2, BYTES / 2}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    int can = 1;

    OK(cuDeviceCanAccessPeer(&can, 0, 0));
    CHECK(can == 0);
    OK(cuCtxCreate(&other, NULL, 0, 0));
    theirs = new_memory(BYTES);
    OK(cuCtxPopCurrent(NULL));
    GIVES(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    GIVES(cuCtxEnablePeerAccess(context, 0), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cuMemcpyAsync(theirs, mine, BYTES, stream), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuMemcpyAsync(mine, theirs, BYTES, stream), CUDA_ERROR_INVALID_VALUE);
    dsts[0] = theirs;
    dsts[1] = theirs + BYTES / 2;
    GIVES(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, stream),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyPeerAsync(theirs, other, mine, context, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(mine));
    OK(cuCtxDestroy(other));
}

static void peers(void)
{
    int count, can = 0;
    CUcontext there;
    CUdeviceptr here_memory, there_memory;
    CUstream stream;
    unsigned char *pinned;

    OK(cuDeviceGetCount(&count));
    if (count > 1)
        OK(cuDeviceCanAccessPeer(&can, 0, 1));
    if (!can)
        return;
    stream = NEW_STREAM;
    pinned = new_pinned(BYTES);
    here_memory = new_memory(BYTES);
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    there_memory = new_memory(BYTES);
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxEnablePeerAccess(there, 0));
    GIVES(cuCtxEnablePeerAccess(there, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    fill(pinned, BYTES, 6);
    OK(cuMemcpyHtoDAsync(here_memory, pinned, BYTES, stream));
    OK(cuMemcpyPeerAsync(there_memory, there, here_memory, context, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    memset(pinned, 0, BYTES);
    OK(cuMemcpyAsync((CUdeviceptr)pinned, there_memory, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    check(pinned, BYTES, 6);
    OK(cuCtxDisablePeerAccess(there));
    GIVES(cuCtxDisablePeerAccess(there), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuMemFree(here_memory));
    OK(cuMemFree(there_memory));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(1));
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void pointers(void)
{
    static unsigned char plain[4096];
    const CUdeviceptr memory = new_memory(BYTES);
    unsigned char *pinned = new_pinned(BYTES);
    unsigned type = 99;
    int ordinal = 99;
    CUdeviceptr start = 99;
    size_t size_bytes = 99;
    CUcontext owner;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&type, &ordinal, &start, &size_bytes, &owner};

    OK(cuPointerGetAttributes(5, attributes, values, memory + 100));
    CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && start == memory && size_bytes == BYTES &&
          owner == context);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
    CHECK(type == CU_MEMORYTYPE_HOST);
    GIVES(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)plain),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttributes(5, attributes, values, (CUdeviceptr)plain));
    CHECK(type == 0 && start == 0 && size_bytes == 0 && owner == NULL);
    OK(cuMemHostRegister(plain, sizeof plain, 0));
    GIVES(cuMemHostRegister(plain, 1, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)plain));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemHostUnregister(plain));
    GIVES(cuMemHostUnregister(plain), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemFree(memory));
    OK(cuMemFreeHost(pinned));
}

static void pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool, other;
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory, more;
    cuuint64_t bytes = UINT64_MAX;
    unsigned char *pinned = new_pinned(BYTES);

    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuDeviceGetMemPool(&other, 0));
    CHECK(pool == other);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
    OK(cuMemAllocFromPoolAsync(&memory, BYTES, pool, stream));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
    CHECK(bytes >= BYTES);
    OK(cuMemAllocAsync(&more, BYTES, stream));
    fill(pinned, BYTES, 7);
    OK(cuMemcpyHtoDAsync(memory, pinned, BYTES, stream));
    OK(cuMemcpyDtoDAsync(more, memory, BYTES, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuMemcpyDtoHAsync(pinned, more, BYTES, stream));
    OK(cuMemFreeAsync(more, stream));
    OK(cuStreamSynchronize(stream));
    check(pinned, BYTES, 7);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
    CHECK(bytes == 0);
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    CHECK(bytes == 0);
    OK(cuMemPoolDestroy(pool));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
}

/* ---- Streams and events --------------------------------------------------------------------- */

static void stream_facts(void)
{
    CUstream stream, other;
    unsigned long long id, other_id;
    unsigned flags;
    int priority, least, greatest;
    CUcontext owner;
    CUdevice ordinal;

    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(cuStreamGetId(stream, &id));
    OK(cuStreamGetId(other, &other_id));
    CHECK(id != other_id);
    OK(cuStreamGetPriority(stream, &priority));
    CHECK(priority == greatest);
    OK(cuStreamGetFlags(stream, &flags));
    CHECK(flags == CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetCtx(stream, &owner));
    CHECK(owner == context);
    OK(cuStreamGetDevice(stream, &ordinal));
    CHECK(ordinal == 0);
    OK(cuStreamQuery(stream));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
    OK(cuStreamGetId(NULL, &id));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &other_id));
    CHECK(id != other_id);
    OK(cuStreamGetId(CU_STREAM_LEGACY, &other_id));
    CHECK(id == other_id);
}

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic(int) *)arg, 1);
}

static void events(void)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUevent start, end, plain;
    float milliseconds = -1;
    _Atomic(int) count = 0;

    OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(start, a));
    OK(cuLaunchHostFunc(a, count_up, &count));
    OK(cuEventRecordWithFlags(end, a, 0));
    OK(cuStreamWaitEvent(b, end, 0));
    OK(cuLaunchHostFunc(b, count_up, &count));
    OK(cuEventRecord(plain, b));
    OK(cuEventSynchronize(plain));
    CHECK(count == 2);
    OK(cuEventQuery(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    CHECK(milliseconds >= 0);
    GIVES(cuEventElapsedTime(&milliseconds, start, plain), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(start));
    OK(cuEventDestroy(end));
    OK(cuEventDestroy(plain));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

/* The host opens a gate that one stream waits at; another tells that it has passed. */
static void values(void)
{
    CUstream stream = NEW_STREAM;
    unsigned char *pinned = new_pinned(64);
    _Atomic(uint32_t) *gate = (_Atomic(uint32_t) *)pinned, *told = gate + 1;

    atomic_store(gate, 0);
    atomic_store(told, 0);
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)told, 9, CU_STREAM_WRITE_VALUE_DEFAULT));
    GIVES(
        cuStreamWriteValue32(stream, (CUdeviceptr)told, 8, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
        CUDA_ERROR_INVALID_VALUE);
    GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CHECK(atomic_load(told) == 0);
    atomic_store(gate, 6);
    while (atomic_load(told) != 9)
        sched_yield();
    /* The value is there, so the stream is through with the memory. */
    OK(cuStreamSynchronize(stream));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
}

/* A stream that goes while it has work still does it. */
static void destroyed_at_work(void)
{
    _Atomic(int) count = 0;
    CUstream stream = NEW_STREAM;

    for (int i = 0; i < 100; i++)
        OK(cuLaunchHostFunc(stream, count_up, &count));
    OK(cuStreamDestroy(stream));
    OK(cuCtxSynchronize());
    CHECK(count == 100);
}

static void *own_default_stream(void *arg)
{
    const CUdeviceptr memory = *(CUdeviceptr *)arg;

    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 50; i++)
        OK(cuMemsetD8Async(memory, (unsigned char)i, 4096, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void per_thread_streams(void)
{
    CUdeviceptr memory[4];
    pthread_t threads[4];
    unsigned char bytes[4096];

    for (int i = 0; i < 4; i++) {
        memory[i] = new_memory(4096);
        CHECK(pthread_create(&threads[i], NULL, own_default_stream, &memory[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        OK(cuMemcpyDtoH(bytes, memory[i], sizeof bytes));
        CHECK(bytes[0] == 49 && bytes[4095] == 49);
        OK(cuMemFree(memory[i]));
    }
}

/* Many small copies that form a chain over four streams. */
static void many(void)
{
    enum { STREAMS = 4, ROUNDS = 2000 };
    CUstream streams[STREAMS];
    CUevent event;
    CUdeviceptr memory = new_memory((STREAMS * ROUNDS + 1) * 4);
    unsigned char *pinned = new_pinned(4);

    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < STREAMS; i++)
        streams[i] = NEW_STREAM;
    OK(cuMemsetD32Async(memory, 77, 1, streams[0]));
    for (unsigned i = 0; i < STREAMS * ROUNDS; i++) {
        OK(cuEventRecord(event, streams[(i + STREAMS - 1) % STREAMS]));
        if (i > 0)
            OK(cuStreamWaitEvent(streams[i % STREAMS], event, 0));
        OK(cuMemcpyDtoDAsync(memory + (i + 1) * 4, memory + i * 4, 4, streams[i % STREAMS]));
    }
    OK(cuMemcpyDtoHAsync(pinned, memory + STREAMS * ROUNDS * 4, 4, streams[STREAMS - 1]));
    OK(cuStreamSynchronize(streams[STREAMS - 1]));
    CHECK(pinned[0] == 77);
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy(streams[i]));
    OK(cuEventDestroy(event));
    OK(cuMemFree(memory));
    OK(cuMemFreeHost(pinned));
}

/* The child of a fork has no CUDA, and ends well. */
static void forked(void)
{
    int status;
    const pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        int count;

        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void nothing_left(void)
{
    void (*get)(emu_counters *) = EMU(emu_get_counters);
    emu_counters counters;

    if (get == NULL)
        return;
    get(&counters);
    CHECK(counters.caught == 0 && counters.live_streams == 0 && counters.live_events == 0);
    CHECK(counters.live_pools == 0 && counters.live_contexts == 0);
    CHECK(counters.live_device_bytes == 0 && counters.live_device_ranges == 0);
    CHECK(counters.live_pinned_bytes == 0 && counters.live_registered_ranges == 0);
}

int main(void)
{
    int version;

    GIVES(cuDeviceGetCount(&version), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuInit(0));
    OK(cuDriverGetVersion(&version));
    CHECK(version >= 13000);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    functions_by_name();
    devices();
    contexts();
    plain_copies();
    staged();
    two_dimensions();
    batches();
    two_contexts();
    peers();
    pointers();
    pools();
    stream_facts();
    events();
    values();
    destroyed_at_work();
    per_thread_streams();
    many();
    forked();
    OK(cuDevicePrimaryCtxRelease(0));
    nothing_left();
    puts("driver_tour: done");
    return EXIT_SUCCESS;
}
