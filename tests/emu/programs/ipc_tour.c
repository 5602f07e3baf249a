/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events between processes, and every rule of it: one case a run. This process opens
 * what `owner` has, but where a case says otherwise. Runs on the emulator alone.
 */
#include "peer.h"

#include <pthread.h>
#include <sys/resource.h>

#define BYTES ((size_t)300001) /* no whole pages */
#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
#define ROUNDS 200

static peer owner;
static CUstream stream;
static unsigned char *pinned;

static emu_counters counters(void)
{
    emu_counters now;
    emu_get_counters(&now);
    return now;
}

/* The owner's memory, filled with that byte. */
static peer_message made(size_t size_bytes, int byte)
{
    return peer_do(
        &owner,
        (peer_message){.order = PEER_MAKE, .size_bytes = size_bytes, .byte = (unsigned char)byte});
}

static CUdeviceptr opened(const peer_message *of)
{
    CUdeviceptr memory;
    OK(cuIpcOpenMemHandle(&memory, of->memory, LAZY));
    return memory;
}

static CUresult try_open(const CUipcMemHandle *handle)
{
    CUdeviceptr memory;
    return cuIpcOpenMemHandle(&memory, *handle, LAZY);
}

static void do_there(peer_order order)
{
    (void)peer_do(&owner, (peer_message){.order = order});
}

/* All of it is that byte, as copies see it. */
static bool is_all(CUdeviceptr memory, size_t size_bytes, int byte)
{
    memset(pinned, ~byte, size_bytes);
    OK(cuMemcpyDtoHAsync(pinned, memory, size_bytes, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < size_bytes; i++) {
        if (pinned[i] != (unsigned char)byte)
            return false;
    }
    return true;
}

static uint64_t freed_open_there(void)
{
    return peer_do(&owner, (peer_message){.order = PEER_COUNT}).freed_open;
}

static void check_there(int byte)
{
    const peer_message seen = peer_do(&owner, (peer_message){.order = PEER_SEE});
    GIVES(seen.byte, byte);
    GIVES(seen.last, byte);
}

/* ---- Copies --------------------------------------------------------------------------------- */

static void run_copies(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of), mine = new_memory(BYTES);
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuMemcpyAsync(mine, theirs, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(is_all(mine, BYTES, 'a'));
    OK(cuMemsetD8Async(mine, 'b', BYTES, stream));
    OK(cuMemcpyDtoDAsync(theirs, mine, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    check_there('b');
    memset(pinned, 'c', BYTES);
    OK(cuMemcpyHtoDAsync(theirs, pinned, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    check_there('c');
    OK(cuMemsetD8Async(theirs, 'd', BYTES, stream));
    OK(cuStreamSynchronize(stream));
    check_there('d');
    (void)peer_do(&owner, (peer_message){.order = PEER_FILL, .byte = 'e'});
    check_there('e');
    CHECK(is_all(theirs, BYTES, 'e'));
    OK(cuIpcCloseMemHandle(theirs));
    OK(cuMemFree(mine));
    do_there(PEER_FREE);
}

static void run_forms(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of), mine = new_memory(BYTES);
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr dsts[2] = {mine, mine + 100}, srcs[2] = {theirs, theirs + BYTES - 100};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = theirs,
                          .srcPitch = 1000,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = mine,
                          .dstPitch = 10,
                          .WidthInBytes = 10,
                          .Height = 100};
    size_t sizes[2] = {100, 100}, index = 0;
    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, stream));
    CHECK(is_all(mine, 200, 'a'));
    OK(cuMemsetD8Async(mine, 0, BYTES, stream));
    OK(cuMemcpy2DAsync(&rows, stream));
    CHECK(is_all(mine, 1000, 'a'));
    OK(cuStreamWriteValue32(stream, theirs, 0x62626262, 0));
    CHECK(is_all(theirs, 4, 'b') && is_all(theirs + 4, BYTES - 4, 'a'));
    OK(cuIpcCloseMemHandle(theirs));
}

static void run_attributes(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of), start;
    CUcontext context, current;
    int number = -1;
    size_t size_bytes;
    bool is_capable = true;
    OK(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, theirs + BYTES - 1));
    GIVES(number, 0);
    OK(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, theirs + 1));
    GIVES(number, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, theirs));
    OK(cuCtxGetCurrent(&current));
    CHECK(context == current);
    OK(cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, theirs));
    CHECK(!is_capable);
    OK(cuMemGetAddressRange(&start, &size_bytes, theirs + 5));
    CHECK(start == theirs && size_bytes == BYTES);
    GIVES(cuMemGetAddressRange(&start, &size_bytes, theirs + BYTES), CUDA_ERROR_NOT_FOUND);
    const peer_message inside = peer_do(&owner, (peer_message){.order = PEER_INSIDE});
    CHECK(opened(&inside) == theirs);
    OK(cuIpcCloseMemHandle(theirs));
    OK(cuIpcCloseMemHandle(theirs));
}

/* What lies behind it is caught, as of memory of one's own; it is nobody's to free but its owner's.
 */
static void run_bounds(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of), mine = new_memory(2 * BYTES);
    emu_count_catches(true);
    OK(cuMemcpyAsync(mine, theirs + 1, BYTES, stream));
    OK(cuStreamSynchronize(stream));
    GIVES(emu_caught(EMU_CATCH_FREED), 1);
    GIVES(cuMemFree(theirs), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuMemFreeAsync(theirs, stream), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcCloseMemHandle(mine), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcCloseMemHandle(theirs + 1), CUDA_ERROR_INVALID_VALUE);
    GIVES(emu_caught(EMU_CATCH_MISUSE), 4);
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(cuIpcCloseMemHandle(theirs), CUDA_ERROR_INVALID_VALUE);
    GIVES(emu_caught(EMU_CATCH_FREED), 2);
    OK(cuMemcpyAsync(mine, theirs, 1, stream));
    GIVES(emu_caught(EMU_CATCH_FREED), 3);
    check_there('a');
}

/* Caught: a copy of it is not done. */
static void run_close_busy(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of), mine = new_memory(BYTES);
    CHECK(opened(&of) == theirs);
    emu_hold();
    OK(cuMemcpyAsync(mine, theirs, BYTES, stream));
    OK(cuIpcCloseMemHandle(theirs)); /* one of two */
    OK(cuIpcCloseMemHandle(theirs));
}

static void *release_later(void *unused)
{
    OK(usleep(30000));
    emu_release_stream(stream);
    return unused;
}

/* The last close waits for whatever the context has to do. */
static void run_close_waits(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of), mine = new_memory(BYTES);
    pthread_t thread;
    CHECK(opened(&of) == theirs);
    emu_hold_stream(stream);
    OK(cuMemsetD8Async(mine, 'm', BYTES, stream));
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(pthread_create(&thread, NULL, release_later, NULL));
    OK(cuIpcCloseMemHandle(theirs));
    OK(cuStreamQuery(stream));
    OK(pthread_join(thread, NULL));
    GIVES(counters().live_imports, 0);
}

/* A device that is lost keeps what is open on it. */
static void run_lost(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of);
    OK(emu_lose_device(0, CUDA_ERROR_DEVICE_UNAVAILABLE));
    GIVES(try_open(&of.memory), CUDA_ERROR_DEVICE_UNAVAILABLE);
    GIVES(cuIpcCloseMemHandle(theirs), CUDA_ERROR_DEVICE_UNAVAILABLE);
    GIVES(counters().live_imports, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    GIVES(counters().live_imports, 0);
    check_there('a');
}

/* ---- Lives and deaths ----------------------------------------------------------------------- */

static void run_twice(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of);
    CHECK(opened(&of) == theirs);
    GIVES(counters().live_imports, 2);
    GIVES(counters().live_import_ranges, 1);
    OK(cuIpcCloseMemHandle(theirs));
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(counters().live_imports, 0);
    GIVES(counters().live_import_ranges, 0);
    /* Nothing of it is left where it was, which memory of the emulator's lets everybody see. */
    CHECK(*(volatile unsigned char *)theirs != 'a');
    theirs = opened(&of);
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuIpcCloseMemHandle(theirs));
    do_there(PEER_FREE);
    GIVES(freed_open_there(), 0);
}

/* What is open stays as it was, whatever its owner allocates next. */
static void run_freed(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of);
    do_there(PEER_FREE);
    GIVES(freed_open_there(), 1);
    const peer_message next = made(BYTES, 'b');
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuMemsetD8Async(theirs, 'c', BYTES, stream));
    OK(cuStreamSynchronize(stream));
    check_there('b');
    CUdeviceptr beside = opened(&next);
    CHECK(is_all(beside, BYTES, 'b') && is_all(theirs, BYTES, 'c'));
    CHECK(opened(&of) == theirs); /* again, while it is open */
    OK(cuIpcCloseMemHandle(theirs));
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(try_open(&of.memory), CUDA_ERROR_NOT_PERMITTED);
    OK(cuIpcCloseMemHandle(beside));
}

/* The next memory's file gets the number of the old one's: a handle of old is none of new. */
static void run_stale(void)
{
    peer_message last = made(BYTES, 'a');
    for (int i = 0; i < 20; i++) {
        do_there(PEER_FREE);
        const peer_message next = made(BYTES, 'b');
        GIVES(try_open(&last.memory), CUDA_ERROR_NOT_PERMITTED);
        CUdeviceptr theirs = opened(&next);
        OK(cuIpcCloseMemHandle(theirs));
        last = next;
    }
}

static void run_killed(void)
{
    const peer_message of = made(BYTES, 'a'), other = made(BYTES, 'b');
    CUdeviceptr theirs = opened(&of), mine = new_memory(BYTES);
    for (int i = 0; i < 100; i++)
        OK(cuMemcpyAsync(mine, theirs, BYTES, stream));
    peer_kill(&owner);
    OK(cuStreamSynchronize(stream));
    CHECK(is_all(mine, BYTES, 'a') && is_all(theirs, BYTES, 'a'));
    GIVES(try_open(&other.memory), CUDA_ERROR_INVALID_HANDLE);
    CHECK(opened(&of) == theirs);
    OK(cuMemsetD8Async(theirs, 'c', BYTES, stream));
    CHECK(is_all(theirs, BYTES, 'c'));
    OK(cuIpcCloseMemHandle(theirs));
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(try_open(&of.memory), CUDA_ERROR_INVALID_HANDLE);
}

static void run_left(void)
{
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of);
    peer_end(&owner);
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(try_open(&of.memory), CUDA_ERROR_INVALID_HANDLE);
}

static void run_stopped(void)
{
    const peer_message of = made(BYTES, 'a');
    CHECK(kill(owner.pid, SIGSTOP) == 0);
    CUdeviceptr theirs = opened(&of);
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuIpcCloseMemHandle(theirs));
    CHECK(kill(owner.pid, SIGCONT) == 0);
    check_there('a');
}

/* The other way round: the peer opens this process's memory, and is killed as it reads. */
static void run_reader_killed(void)
{
    CUdeviceptr mine = new_memory(BYTES);
    peer_message message = {.order = PEER_OPEN};
    OK(cuMemsetD8Async(mine, 'm', BYTES, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuIpcGetMemHandle(&message.memory, mine));
    (void)peer_do(&owner, message);
    (void)peer_do(&owner, (peer_message){.order = PEER_READ_ALL, .size_bytes = BYTES});
    peer_kill(&owner);
    CHECK(is_all(mine, BYTES, 'm'));
    OK(cuMemFree(mine));
    GIVES(counters().freed_open, 0);
    CHECK(*(volatile unsigned char *)mine != 'm');
    OK(cuMemFree(new_memory(BYTES)));
}

/* Between two that are no relatives, by this one that passes the handle on. */
static void run_siblings(const peer *reader)
{
    peer_message of = made(BYTES, 'a');
    of.order = PEER_OPEN;
    (void)peer_do(reader, of);
    const uint64_t before = peer_do(reader, (peer_message){.order = PEER_COUNT}).count;
    (void)peer_do(reader, of);
    GIVES(peer_do(reader, (peer_message){.order = PEER_COUNT}).count, before + 1); /* openings */
    (void)peer_do(reader, (peer_message){.order = PEER_CLOSE});
    do_there(PEER_FREE);
    GIVES(freed_open_there(), 1);
    (void)peer_do(reader, (peer_message){.order = PEER_READ_ALL, .size_bytes = BYTES});
    peer_kill(&owner);
    peer_kill(reader);
}

/* A context takes what it has open with it. */
static void run_contexts(void)
{
    const peer_message of = made(BYTES, 'a'), next = made(BYTES, 'b');
    CUcontext other;
    OK(cuCtxCreate(&other, NULL, 0, 0));
    CUdeviceptr theirs = opened(&of);
    OK(cuCtxPopCurrent(NULL));
    GIVES(try_open(&of.memory), CUDA_ERROR_INVALID_HANDLE);
    GIVES(try_open(&next.memory), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxPushCurrent(other));
    CHECK(opened(&of) == theirs);
    OK(cuCtxPopCurrent(NULL));
    GIVES(counters().live_imports, 2);
    OK(cuCtxDestroy(other));
    GIVES(counters().live_imports, 0);
    GIVES(counters().live_import_ranges, 0);
    theirs = opened(&of);
    CHECK(is_all(theirs, BYTES, 'a'));
    OK(cuCtxSetCurrent(NULL));
    GIVES(try_open(&next.memory), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cuIpcCloseMemHandle(theirs), CUDA_ERROR_INVALID_CONTEXT);
}

/* The owner's memory comes around to an address that is still open here. */
static void run_reused(void)
{
    const size_t page_bytes = 4096, most_bytes = (size_t)1 << 30;
    const peer_message of = made(1, 'a');
    const CUdeviceptr end = of.address + EMU_AROUND_BYTES; /* a device's addresses are a ring */
    CUdeviceptr theirs = opened(&of), at = of.address + 2 * page_bytes;
    do_there(PEER_FREE);
    while (at < end) { /* behind each there is a page that nobody gets */
        const size_t left_bytes = end - at - page_bytes;
        const size_t size_bytes = left_bytes < most_bytes ? left_bytes : most_bytes;
        GIVES(peer_do(&owner, (peer_message){.order = PEER_SKIP, .size_bytes = size_bytes}).address,
              at);
        at += size_bytes + page_bytes;
    }
    const peer_message next = made(1, 'b');
    GIVES(next.address, of.address);
    GIVES(try_open(&next.memory), CUDA_ERROR_ALREADY_MAPPED);
    CHECK(is_all(theirs, 1, 'a'));
    OK(cuIpcCloseMemHandle(theirs));
    theirs = opened(&next);
    CHECK(is_all(theirs, 1, 'b'));
    OK(cuIpcCloseMemHandle(theirs));
}

static void run_many(void)
{
    const peer_message kept = made(BYTES, 'k');
    CUdeviceptr theirs = opened(&kept);
    const emu_counters before = counters();
    const unsigned descriptors_before = descriptors();
    const uint64_t there = peer_do(&owner, (peer_message){.order = PEER_COUNT}).count;
    for (int i = 0; i < ROUNDS; i++) {
        const peer_message of = made(BYTES, i);
        CUdeviceptr memory = opened(&of);
        CHECK(is_all(memory, 5, i & 0xff));
        if (i % 2 == 0)
            do_there(PEER_FREE);
        OK(cuIpcCloseMemHandle(memory));
        if (i % 2 == 1)
            do_there(PEER_FREE);
    }
    GIVES(descriptors(), descriptors_before);
    GIVES(counters().live_imports, before.live_imports);
    GIVES(counters().live_import_ranges, before.live_import_ranges);
    GIVES(counters().live_device_ranges, before.live_device_ranges);
    GIVES(peer_do(&owner, (peer_message){.order = PEER_COUNT}).count, there);
    CHECK(is_all(theirs, BYTES, 'k'));
    OK(cuIpcCloseMemHandle(theirs));
}

/* ---- What is refused ------------------------------------------------------------------------ */

/* No byte of a handle may be another; nothing that comes from outside ends the process. */
static void run_garbage(void)
{
    const peer_message of = made(BYTES, 'a');
    const peer_message event = peer_do(&owner, (peer_message){.order = PEER_EVENT});
    uint64_t random_state = 77;
    CUipcMemHandle handle;
    CUipcEventHandle as_event;
    CUevent opened_event;
    for (size_t i = 0; i < 56; i++) {
        handle = of.memory;
        handle.reserved[i] ^= 1;
        GIVES(try_open(&handle), CUDA_ERROR_INVALID_VALUE);
    }
    memset(&handle, 0, sizeof handle);
    GIVES(try_open(&handle), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 1000; i++) {
        for (size_t j = 0; j < sizeof handle; j++) {
            random_state = random_state * 6364136223846793005 + 1442695040888963407;
            handle.reserved[j] = (char)(random_state >> 56);
        }
        memcpy(&as_event, &handle, sizeof handle);
        GIVES(try_open(&handle), CUDA_ERROR_INVALID_VALUE);
        GIVES(cuIpcOpenEventHandle(&opened_event, as_event), CUDA_ERROR_INVALID_VALUE);
    }
    memcpy(&handle, &event.event, sizeof handle);
    GIVES(try_open(&handle), CUDA_ERROR_INVALID_VALUE);
    memcpy(&as_event, &of.memory, sizeof handle);
    GIVES(cuIpcOpenEventHandle(&opened_event, as_event), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcOpenMemHandle(NULL, of.memory, LAZY), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcOpenMemHandle(&(CUdeviceptr){0}, of.memory, 0), CUDA_ERROR_INVALID_VALUE);
    GIVES(counters().live_imports, 0);
    OK(cuIpcCloseMemHandle(opened(&of)));
}

/* Memory that has no handle. */
static void run_kinds(void)
{
    const peer_message of = made(BYTES, 'a');
    static unsigned char registered[4096];
    CUipcMemHandle handle;
    CUdeviceptr pool, mine = new_memory(BYTES);
    bool is_capable;
    OK(cuMemAllocAsync(&pool, BYTES, stream));
    OK(cuMemHostRegister(registered, sizeof registered, 0));
    GIVES(cuIpcGetMemHandle(&handle, pool), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(&handle, (CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(&handle, (CUdeviceptr)registered), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(&handle, (CUdeviceptr)&handle), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(&handle, 0), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(&handle, opened(&of)), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(NULL, mine), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetMemHandle(&handle, mine + BYTES), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcGetMemHandle(&handle, mine + BYTES - 1));
    GIVES(try_open(&handle), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, mine));
    CHECK(is_capable);
    OK(cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pool));
    CHECK(!is_capable);
    OK(cuMemFree(mine));
    GIVES(cuIpcGetMemHandle(&handle, mine), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSetCurrent(NULL));
    GIVES(cuIpcGetMemHandle(&handle, pool), CUDA_ERROR_INVALID_CONTEXT);
}

/* Of two devices; with FERRY_EMU_PEERS=0 they are none of each other's. */
static void run_peers(void)
{
    const peer_message of = made(BYTES, 'a');
    CUcontext there;
    int number = 0;
    const char *const peers = getenv("FERRY_EMU_PEERS");
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxSetCurrent(there));
    OK(cuDeviceCanAccessPeer(&number, 1, 0));
    if (peers != NULL) {
        GIVES(number, 0);
        GIVES(try_open(&of.memory), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        return;
    }
    CUdeviceptr theirs = opened(&of), mine = new_memory(BYTES);
    CUstream other = NEW_STREAM;
    OK(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, theirs));
    GIVES(number, 0);
    OK(cuMemcpyAsync(mine, theirs, BYTES, other));
    OK(cuMemcpyDtoHAsync(pinned, mine, BYTES, other));
    OK(cuStreamSynchronize(other));
    CHECK(pinned[0] == 'a' && pinned[BYTES - 1] == 'a');
    OK(cuIpcCloseMemHandle(theirs));
}

/* A process that may share nothing: FERRY_EMU_IPC=0, or emu_set_ipc. */
static void run_off(void)
{
    CUipcMemHandle handle = {{0}};
    CUipcEventHandle event_handle = {{0}};
    CUevent event;
    CUdeviceptr before = new_memory(BYTES);
    int is_supported = 1;
    if (getenv("FERRY_EMU_IPC") == NULL)
        emu_set_ipc(false);
    CUdeviceptr mine = new_memory(BYTES);
    OK(cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0));
    GIVES(is_supported, 0);
    GIVES(cuIpcGetMemHandle(&handle, mine), CUDA_ERROR_NOT_SUPPORTED);
    GIVES(try_open(&handle), CUDA_ERROR_NOT_SUPPORTED);
    GIVES(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS),
          CUDA_ERROR_NOT_SUPPORTED);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    GIVES(cuIpcGetEventHandle(&event_handle, event), CUDA_ERROR_NOT_SUPPORTED);
    GIVES(cuIpcOpenEventHandle(&event, event_handle), CUDA_ERROR_NOT_SUPPORTED);
    emu_set_ipc(true);
    OK(cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0));
    GIVES(is_supported, 1);
    GIVES(cuIpcGetMemHandle(&handle, mine), CUDA_ERROR_OUT_OF_MEMORY);
    GIVES(cuIpcGetMemHandle(&handle, before),
          getenv("FERRY_EMU_IPC") == NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuIpcGetMemHandle(&handle, new_memory(BYTES)));
}

/* Half of the descriptors are the program's own; memory beyond that is there and has no handle. */
static void run_descriptors(void)
{
    CUdeviceptr memory[40];
    CUipcMemHandle handle;
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}) == 0);
    for (int i = 0; i < 40; i++)
        memory[i] = new_memory(BYTES);
    OK(cuIpcGetMemHandle(&handle, memory[0]));
    GIVES(cuIpcGetMemHandle(&handle, memory[39]), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(is_all(memory[39], 10, 0xa5));
    CHECK(descriptors() < 50);
    OK(cuMemFree(memory[0]));
    OK(cuMemFree(memory[39]));
    OK(cuIpcGetMemHandle(&handle, new_memory(BYTES)));
}

static void run_calls(void)
{
    static const char *const names[] = {"cuIpcGetMemHandle", "cuIpcOpenMemHandle",
                                        "cuIpcCloseMemHandle", "cuIpcGetEventHandle",
                                        "cuIpcOpenEventHandle"};
    const peer_message of = made(BYTES, 'a');
    CUdeviceptr theirs = opened(&of);
    CUipcMemHandle handle;
    CUipcEventHandle event_handle = {{0}};
    CUevent event;
    void *address, *symbol;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        OK(cuGetProcAddress(names[i], &address, 13000, CU_GET_PROC_ADDRESS_DEFAULT, NULL));
        symbol = dlsym(RTLD_DEFAULT, i == 1 ? "cuIpcOpenMemHandle_v2" : names[i]);
        CHECK(address != NULL && address == symbol);
        OK(cuGetProcAddress(names[i], &address, 4010, CU_GET_PROC_ADDRESS_DEFAULT, NULL));
        CHECK(address != NULL);
        OK(emu_fail_call(names[i], 1, CUDA_ERROR_MAP_FAILED));
    }
    GIVES(cuIpcGetMemHandle(&handle, new_memory(1)), CUDA_ERROR_MAP_FAILED);
    GIVES(try_open(&of.memory), CUDA_ERROR_MAP_FAILED);
    GIVES(cuIpcCloseMemHandle(theirs), CUDA_ERROR_MAP_FAILED);
    GIVES(cuIpcGetEventHandle(&event_handle, new_event()), CUDA_ERROR_MAP_FAILED);
    GIVES(cuIpcOpenEventHandle(&event, event_handle), CUDA_ERROR_MAP_FAILED);
    GIVES(counters().live_imports, 1);
    OK(cuIpcCloseMemHandle(theirs));
    GIVES(emu_call_count("cuIpcOpenMemHandle"), 2);
    GIVES(emu_call_count("cuIpcCloseMemHandle"), 2);
}

/* ---- Events --------------------------------------------------------------------------------- */

static CUevent opened_event(void)
{
    CUevent event;
    const peer_message of = peer_do(&owner, (peer_message){.order = PEER_EVENT});
    OK(cuIpcOpenEventHandle(&event, of.event));
    return event;
}

/* Both write the memory in turn, each behind the other's event, and no host waits. */
static void run_event_order(void)
{
    const peer_message of = made(BYTES, 0);
    CUdeviceptr theirs = opened(&of), mine = new_memory(4 * BYTES);
    CUevent written = opened_event(), copied;
    peer_message mine_is = {.order = PEER_HEAR};
    OK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(cuIpcGetEventHandle(&mine_is.event, copied));
    OK(cuEventRecord(copied, stream));
    (void)peer_do(&owner, mine_is);
    for (size_t i = 0; i < 4; i++) {
        (void)peer_do(&owner, (peer_message){.order = PEER_FILL, .byte = (unsigned char)('a' + i)});
        OK(cuStreamWaitEvent(stream, written, 0));
        OK(cuMemcpyAsync(mine + i * BYTES, theirs, BYTES, stream));
        OK(cuEventRecord(copied, stream));
    }
    OK(cuEventSynchronize(copied));
    for (int i = 0; i < 4; i++)
        CHECK(is_all(mine + (size_t)i * BYTES, BYTES, 'a' + i));
    OK(cuEventDestroy(written));
    OK(cuEventDestroy(copied));
}

static void run_event_asked(void)
{
    (void)made(BYTES, 0);
    CUevent written = opened_event();
    emu_count_catches(true);
    OK(cuEventQuery(written));
    GIVES(emu_caught(EMU_CATCH_UNRECORDED), 1);
    do_there(PEER_HOLD);
    do_there(PEER_FILL);
    GIVES(cuEventQuery(written), CUDA_ERROR_NOT_READY);
    OK(cuStreamWaitEvent(stream, written, 0));
    (void)emu_settle(); /* what stands for another process is nothing to wait for */
    GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    do_there(PEER_RELEASE);
    OK(cuEventSynchronize(written));
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(written));
    OK(cuEventRecord(written, stream)); /* who opened it may record it, too */
    OK(cuEventSynchronize(written));
    do_there(PEER_HOLD);
    do_there(PEER_FILL);
    GIVES(cuEventQuery(written), CUDA_ERROR_NOT_READY);
    do_there(PEER_FORGET_IT); /* what was recorded fires still */
    do_there(PEER_RELEASE);
    OK(cuEventSynchronize(written));
    OK(cuEventDestroy(written));
}

static void run_event_refused(void)
{
    CUevent event, other;
    CUipcEventHandle handle;
    const peer_message of = peer_do(&owner, (peer_message){.order = PEER_EVENT});
    GIVES(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    GIVES(cuIpcGetEventHandle(&handle, new_event()), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    GIVES(cuIpcGetEventHandle(NULL, event), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcGetEventHandle(&handle, event));
    GIVES(cuIpcOpenEventHandle(&other, handle), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuIpcOpenEventHandle(&other, of.event));
    GIVES(cuIpcGetEventHandle(&handle, other), CUDA_ERROR_INVALID_HANDLE);
    const uint64_t live = counters().live_events;
    OK(cuEventDestroy(other));
    GIVES(counters().live_events, live - 1);
    do_there(PEER_FORGET_IT);
    GIVES(cuIpcOpenEventHandle(&other, of.event), CUDA_ERROR_INVALID_HANDLE);
}

/* Its recorder is dead: it never fires, which keeps the process from nothing. */
static void run_event_killed(void)
{
    (void)made(BYTES, 0);
    CUevent written = opened_event();
    do_there(PEER_HOLD);
    do_there(PEER_FILL);
    OK(cuStreamWaitEvent(stream, written, 0));
    peer_kill(&owner);
    (void)emu_settle();
    GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    GIVES(cuEventQuery(written), CUDA_ERROR_NOT_READY);
    OK(cuEventDestroy(written));
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"copies", run_copies},
        {"forms", run_forms},
        {"attributes", run_attributes},
        {"bounds", run_bounds},
        {"close_busy", run_close_busy},
        {"close_waits", run_close_waits},
        {"lost", run_lost},
        {"twice", run_twice},
        {"freed", run_freed},
        {"stale", run_stale},
        {"killed", run_killed},
        {"left", run_left},
        {"stopped", run_stopped},
        {"reader_killed", run_reader_killed},
        {"contexts", run_contexts},
        {"reused", run_reused},
        {"many", run_many},
        {"garbage", run_garbage},
        {"kinds", run_kinds},
        {"peers", run_peers},
        {"off", run_off},
        {"descriptors", run_descriptors},
        {"calls", run_calls},
        {"event_order", run_event_order},
        {"event_asked", run_event_asked},
        {"event_refused", run_event_refused},
        {"event_killed", run_event_killed},
    };
    CHECK(argc == 2);
    owner = peer_start();
    if (strcmp(argv[1], "siblings") == 0) {
        const peer reader = peer_start();
        run_siblings(&reader);
        return EXIT_SUCCESS;
    }
    use_first_device();
    stream = NEW_STREAM;
    pinned = new_pinned(BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        return EXIT_SUCCESS;
    }
    fprintf(stderr, "no case %s\n", argv[1]);
    return EXIT_FAILURE;
}
