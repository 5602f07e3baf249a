/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-pool: memory of a pool that is shared by a file descriptor. Does another process get it, by
 * a pool and a pointer, what do the calls take, and is it harmless for the reader when the owner
 * frees first? What does allocating from such a pool cost beside one that nobody can share?
 */
#include "bench/probe_share.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#define MEMORY_BYTES ((size_t)16777216)
#define ALLOCATIONS 200
#define OLD 0x9001d01dU
#define NEW 0x9003e30eU

enum { POOL_IMPORT, POOL_OPEN, POOL_READ, POOL_FREE };

/* ---- the reader, a process of its own ---- */

static struct {
    CUstream stream;
    CUmemoryPool pool;
    CUdeviceptr memory;
} reader;

static CUresult obey(probe_message *message)
{
    CUresult result = CUDA_SUCCESS;
    int64_t begin_ns = bench_now_ns();
    switch (message->order) {
    case POOL_IMPORT:
        /* The handle is the descriptor itself, in the place of a pointer: so cuda.h has it. */
        result =
            driver.cuMemPoolImportFromShareableHandle(&reader.pool, (void *)(intptr_t)message->file,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        break;
    case POOL_OPEN:
        result = driver.cuMemPoolImportPointer(&reader.memory, reader.pool, &message->pointer);
        break;
    case POOL_READ:
        message->word = share_read(reader.memory, reader.stream, &result);
        break;
    case POOL_FREE:
        result = driver.cuMemFreeAsync(reader.memory, reader.stream);
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    message->took_ns = bench_now_ns() - begin_ns;
    return result;
}

void probe_share_pool_reader(const probe_case *which)
{
    probe_message message;
    (void)which;
    probe_gpu_open();
    reader.stream = probe_stream(0);
    while (probe_listen(&message)) {
        message.result = (int32_t)obey(&message);
        probe_reply(&message);
    }
}

/* ---- the owner ---- */

static struct {
    probe_child reader;
    CUstream stream;
    CUmemoryPool shared, plain;
} rig;

static bool is_there(void)
{
    const char *absent =
        driver.cuMemPoolExportToShareableHandle == NULL     ? "cuMemPoolExportToShareableHandle"
        : driver.cuMemPoolImportFromShareableHandle == NULL ? "cuMemPoolImportFromShareableHandle"
        : driver.cuMemPoolExportPointer == NULL             ? "cuMemPoolExportPointer"
        : driver.cuMemPoolImportPointer == NULL             ? "cuMemPoolImportPointer"
                                                            : NULL;
    if (absent != NULL)
        probe_row_absent("pool", absent);
    return absent == NULL;
}

static CUmemoryPool make_pool(const char *shape, CUmemAllocationHandleType handles)
{
    uint64_t keep = UINT64_MAX;
    CUmemoryPool pool;
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = handles,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu.device},
    };
    int64_t begin_ns = bench_now_ns();
    PROBE_CALL(cuMemPoolCreate, &pool, &props);
    share_row(shape, bench_now_ns() - begin_ns, CUDA_SUCCESS);
    PROBE_CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    return pool;
}

static CUdeviceptr allocate(CUmemoryPool pool)
{
    CUdeviceptr memory;
    PROBE_CALL(cuMemAllocFromPoolAsync, &memory, MEMORY_BYTES, pool, rig.stream);
    return memory;
}

/* Each allocation is freed before the next; only the first makes memory. */
static void time_allocations(const char *shape, const char *free_shape, CUmemoryPool pool)
{
    bench_samples samples = {0}, free_samples = {0};
    int rounds = probe.is_smoke ? 3 : ALLOCATIONS;
    for (int i = -1; i < rounds; i++) {
        int64_t begin_ns = bench_now_ns();
        CUdeviceptr memory = allocate(pool);
        int64_t made_ns = bench_now_ns();
        PROBE_CALL(cuMemFreeAsync, memory, rig.stream);
        int64_t freed_ns = bench_now_ns();
        PROBE_CALL(cuStreamSynchronize, rig.stream);
        if (i < 0)
            continue;
        bench_samples_add(&samples, (double)(made_ns - begin_ns));
        bench_samples_add(&free_samples, (double)(freed_ns - made_ns));
    }
    probe_row_median(shape, &samples, "ns");
    probe_row_median(free_shape, &free_samples, "ns");
    bench_samples_free(&samples);
    bench_samples_free(&free_samples);
}

static probe_message ask(int order, int file, const CUmemPoolPtrExportData *pointer,
                         const char *shape)
{
    probe_message message = {.order = order, .file = file};
    if (pointer != NULL)
        message.pointer = *pointer;
    message = probe_ask(&rig.reader, &message, shape);
    if (order != POOL_READ)
        share_row(shape, message.took_ns, (CUresult)message.result);
    return message;
}

/* The reader is started behind it, so that it has the descriptor; others send it by a socket. */
static int export_pool(void)
{
    int file = -1;
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuMemPoolExportToShareableHandle(
        &file, rig.shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    share_row("pool-export", bench_now_ns() - begin_ns, result);
    if (result != CUDA_SUCCESS || fcntl(file, F_SETFD, 0) != 0)
        return -1;
    return file;
}

static void read_there(const char *shape, uint32_t wanted, const char *what)
{
    probe_message message = ask(POOL_READ, -1, NULL, shape);
    share_row_word(shape, (CUresult)message.result, message.word, wanted, what);
}

static void try_handle(CUdeviceptr memory)
{
    CUipcMemHandle handle;
    if (driver.cuIpcGetMemHandle == NULL) {
        probe_row_absent("pool-ipc-handle", "cuIpcGetMemHandle");
        return;
    }
    CUresult result = driver.cuIpcGetMemHandle(&handle, memory);
    probe_row("pool-ipc-handle", NAN, "", PROBE_NONE, "cuIpcGetMemHandle of a pool's memory: %s",
              driver_error_name(result));
}

/* cuda.h wants the reader to free first. */
static void free_first_here(CUdeviceptr memory)
{
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuMemFreeAsync(memory, rig.stream);
    share_row("pool-owner-frees", bench_now_ns() - begin_ns, result);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    read_there("pool-freed-old-read", OLD, "what the owner wrote before it freed");
    CUdeviceptr next = allocate(rig.shared);
    probe_fill(next, NEW, rig.stream);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    probe_row("pool-freed-new-elsewhere", NAN, "", next == memory ? PROBE_NO : PROBE_YES,
              "where the owner's next memory is");
    read_there("pool-freed-new-unseen", OLD, "once the owner wrote to its next memory");
    (void)ask(POOL_FREE, -1, NULL, "pool-reader-frees");
    share_row("pool-owner-healthy", 0, share_health(rig.stream));
}

void probe_share_pool(const probe_case *which)
{
    CUmemPoolPtrExportData pointer;
    (void)which;
    probe_gpu_open();
    if (!is_there())
        return;
    rig.stream = probe_stream(0);
    rig.plain = make_pool("pool-make-plain", CU_MEM_HANDLE_TYPE_NONE);
    rig.shared = make_pool("pool-make", CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    int file = export_pool();
    if (file < 0)
        return;
    rig.reader = probe_peer_start("share-pool-reader");
    time_allocations("pool-alloc-plain", "pool-free-plain", rig.plain);
    time_allocations("pool-alloc", "pool-free", rig.shared);
    CUdeviceptr memory = allocate(rig.shared);
    probe_fill(memory, OLD, rig.stream);
    PROBE_CALL(cuStreamSynchronize, rig.stream);
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuMemPoolExportPointer(&pointer, memory);
    share_row("pool-export-pointer", bench_now_ns() - begin_ns, result);
    try_handle(memory);
    if (ask(POOL_IMPORT, file, NULL, "pool-import").result != CUDA_SUCCESS ||
        ask(POOL_OPEN, -1, &pointer, "pool-import-pointer").result != CUDA_SUCCESS)
        return;
    read_there("pool-read", OLD, "what the owner wrote");
    free_first_here(memory);
}
