/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be done wrongly with memory, order, events and handles. Operations are held back where a
 * fault is one only while another operation is not done.
 */
#include "faults.h"

#define BYTES ((size_t)65536)

static char plain[BYTES];

/* ---- Memory that is not there --------------------------------------------------------------- */

static void copy_after_free(bool faulty)
{
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES), other = new_memory(BYTES);

    OK(cuMemFree(memory));
    OK(cuMemcpyHtoDAsync(faulty ? memory : other, new_pinned(BYTES), BYTES, stream));
    OK(cuStreamSynchronize(stream));
}

static void past_the_end(bool faulty)
{
    OK(cuMemcpyHtoDAsync(new_memory(BYTES) + faulty, new_pinned(BYTES), BYTES, NEW_STREAM));
}

static void memset_past_the_end(bool faulty)
{
    OK(cuMemsetD32Async(new_memory(BYTES), 1, BYTES / 4 + faulty, NEW_STREAM));
}

static void last_row_past_the_end(bool faulty)
{
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = new_pinned(BYTES),
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = new_memory(BYTES),
                          .dstPitch = 1024,
                          .WidthInBytes = 64,
                          .Height = 64,
                          .dstXInBytes = 960 + faulty};

    rows.dstPitch += faulty; /* a pitch has to take the row and its offset */
    OK(cuMemcpy2DAsync(&rows, NEW_STREAM));
}

static void value_after_free(bool faulty)
{
    char *memory = new_pinned(BYTES), *other = new_pinned(BYTES);

    OK(cuMemFreeHost(memory));
    OK(cuStreamWriteValue32(NEW_STREAM, (CUdeviceptr)(faulty ? memory : other), 1, 0));
}

/* That the stream is done with it does not say that the word is there. */
static void late_word(bool faulty)
{
    void (*late)(int64_t) = EMU(emu_late_words);
    CUstream stream = NEW_STREAM;
    volatile uint32_t *word = (volatile uint32_t *)(void *)new_pinned(BYTES);

    if (late != NULL)
        late(20000000);
    for (uint32_t i = 1; i <= 16; i++) {
        *word = 0;
        OK(cuStreamWriteValue32(stream, (CUdeviceptr)word, i, 0));
        OK(cuCtxSynchronize());
        while (!faulty && *word != i)
            continue;
    }
    OK(cuMemFreeHost((void *)(uintptr_t)word));
    if (late != NULL)
        (void)EMU(emu_settle)();
}

static void double_free(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES), other = new_memory(BYTES);

    OK(cuMemFree(memory));
    OK(cuMemFree(faulty ? memory : other));
}

static void free_under_copy(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory;

    OK(cuMemAllocAsync(&memory, BYTES, a));
    hold_back();
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, a));
    if (!faulty)
        order(a, b);
    else
        OK(cuStreamSynchronize(b));
    OK(cuMemFreeAsync(memory, b));
}

static void copy_behind_free(bool faulty)
{
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory;

    OK(cuMemAllocAsync(&memory, BYTES, stream));
    hold_back();
    if (faulty)
        OK(cuMemFreeAsync(memory, stream));
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, stream));
    if (!faulty)
        OK(cuMemFreeAsync(memory, stream));
}

/* cuMemFree waits for nothing where the memory is a pool's. */
static void free_pool_memory(bool faulty)
{
    CUstream stream = NEW_STREAM;
    CUdeviceptr memory;

    OK(cuMemAllocAsync(&memory, BYTES, stream));
    hold_back();
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, stream));
    if (!faulty) {
        let_go();
        OK(cuStreamSynchronize(stream));
    }
    OK(cuMemFree(memory));
}

/* It waits for its context, but what another device does with the memory is not that. */
static void free_under_peer(bool faulty)
{
    CUcontext here, there;
    CUdeviceptr memory = new_memory(BYTES), elsewhere;
    CUstream stream;

    OK(cuCtxGetCurrent(&here));
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    elsewhere = new_memory(BYTES);
    stream = NEW_STREAM;
    hold_back();
    OK(cuMemcpyPeerAsync(elsewhere, there, memory, here, BYTES, stream));
    if (!faulty) {
        let_go();
        OK(cuStreamSynchronize(stream));
    }
    OK(cuMemFree(memory));
}

/* Seen when the copy runs: the memory went with its context. */
static void context_under_peer(bool faulty)
{
    CUcontext here, own;
    CUdeviceptr memory, elsewhere = new_memory(BYTES);
    CUstream stream = NEW_STREAM;

    OK(cuCtxGetCurrent(&here));
    OK(cuCtxCreate(&own, NULL, 0, 1));
    memory = new_memory(BYTES);
    hold_back();
    OK(cuMemcpyPeerAsync(elsewhere, here, memory, own, BYTES, stream));
    if (!faulty) {
        let_go();
        OK(cuStreamSynchronize(stream));
        OK(cuCtxDestroy(own));
    } else {
        OK(cuCtxDestroy(own));
        let_go();
        OK(cuStreamSynchronize(stream));
    }
}

static void free_host_under_copy(bool faulty)
{
    CUstream stream = NEW_STREAM;
    char *memory = new_pinned(BYTES);

    hold_back();
    OK(cuMemcpyHtoDAsync(new_memory(BYTES), memory, BYTES, stream));
    if (!faulty) {
        let_go();
        OK(cuStreamSynchronize(stream));
    }
    OK(cuMemFreeHost(memory));
}

static void unregister_under_copy(bool faulty)
{
    CUstream stream = NEW_STREAM;

    OK(cuMemHostRegister(plain, BYTES, 0));
    hold_back();
    OK(cuMemcpyDtoHAsync(plain, new_memory(BYTES), BYTES, stream));
    if (!faulty) {
        let_go();
        OK(cuStreamSynchronize(stream));
    }
    OK(cuMemHostUnregister(plain));
}

/* ---- No order ------------------------------------------------------------------------------- */

static void write_write(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    char *pinned = new_pinned(BYTES);

    hold_back();
    OK(cuMemcpyHtoDAsync(memory, pinned, BYTES, a));
    if (!faulty)
        order(a, b);
    OK(cuMemcpyHtoDAsync(memory + BYTES - 1, pinned, 1, b));
}

static void read_write(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);

    hold_back();
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, BYTES, a));
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, BYTES, b)); /* two who read are no race */
    if (!faulty) {
        order(a, b);
        OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, b));
    } else {
        OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, b));
    }
}

/* Columns of one matrix, side by side, or one of them a byte too wide. */
static void columns(bool faulty)
{
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = new_pinned(BYTES),
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = new_memory(BYTES),
                          .dstPitch = 256,
                          .WidthInBytes = 32 + faulty,
                          .Height = 200};

    hold_back();
    OK(cuMemcpy2DAsync(&rows, NEW_STREAM));
    rows.dstXInBytes = 32;
    rows.WidthInBytes = 32;
    OK(cuMemcpy2DAsync(&rows, NEW_STREAM));
}

/* What lies between rows is nobody's, the rows are. */
static void between_rows(bool faulty)
{
    const CUdeviceptr memory = new_memory(BYTES);
    char *pinned = new_pinned(BYTES);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = pinned,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = memory,
                          .dstPitch = 256,
                          .WidthInBytes = 64,
                          .Height = 200};

    hold_back();
    OK(cuMemcpy2DAsync(&rows, NEW_STREAM));
    OK(cuMemcpyHtoDAsync(memory + 256 * 100 + 64, pinned, 256 - 64 + faulty, NEW_STREAM));
}

#define BATCH 3

static void batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first = 0;

    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, BATCH, &attributes, &first, 1, NEW_STREAM));
}

static void batch_writes_twice(bool faulty)
{
    const CUdeviceptr dst = new_memory(BYTES), src = new_memory(BYTES);

    batch((CUdeviceptr[BATCH]){dst + 200, dst, dst + 100},
          (CUdeviceptr[BATCH]){src, src + 100, src + 200}, (size_t[BATCH]){100, 100 + faulty, 100});
}

static void batch_reads_what_it_writes(bool faulty)
{
    const CUdeviceptr a = new_memory(BYTES), b = new_memory(BYTES), c = new_memory(BYTES);

    batch((CUdeviceptr[BATCH]){b, c, c + 1000}, (CUdeviceptr[BATCH]){a, b + 100 - faulty, a},
          (size_t[BATCH]){100, 100, 100});
}

static void memset_beside_copy(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);

    hold_back();
    OK(cuMemsetD8Async(memory, 1, 100, a));
    OK(cuMemcpyHtoDAsync(memory + 100 - faulty, new_pinned(BYTES), 100, b));
}

static void value_beside_copy(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);

    hold_back();
    OK(cuStreamWriteValue32(a, memory, 1, 0));
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory + 4 - faulty, 100, b));
}

static void peer(bool faulty)
{
    CUcontext here, there;
    CUdeviceptr source = new_memory(BYTES), memory;
    CUstream a = NEW_STREAM, b;

    OK(cuCtxGetCurrent(&here));
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    memory = new_memory(BYTES);
    b = NEW_STREAM;
    hold_back();
    OK(cuMemcpyPeerAsync(memory, there, source, here, BYTES, a));
    if (!faulty)
        OK(cuMemcpyDtoHAsync(new_pinned(BYTES), new_memory(BYTES), BYTES, b));
    else
        OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, BYTES, b));
    let_go();
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
}

/* The legacy stream is in an order with blocking streams, both ways, and no other. */
static void legacy_after(bool faulty)
{
    CUstream stream = new_stream(faulty ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    CUdeviceptr memory = new_memory(BYTES);

    hold_back();
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, stream));
    OK(cuMemsetD8Async(memory, 0, BYTES, NULL));
}

static void legacy_before(bool faulty)
{
    CUstream stream = new_stream(faulty ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    CUdeviceptr memory = new_memory(BYTES);

    hold_back();
    OK(cuMemsetD8(memory, 0, BYTES));
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, stream));
}

/* A wait means what was recorded before it, not what the event is recorded for later. */
static void recorded_too_early(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    CUevent event = new_event();

    hold_back();
    if (faulty)
        OK(cuEventRecord(event, a));
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, a));
    if (!faulty)
        OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuEventRecord(event, a));
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, BYTES, b));
}

/* c stands behind b, which stands behind a, if b was told so before c was. */
static void chain(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM, c = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);

    hold_back();
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, a));
    if (faulty) {
        order(b, c);
        order(a, b);
    } else {
        order(a, b);
        order(b, c);
    }
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, BYTES, c));
}

/* A buffer that one stream uses again and again, and then another one once. */
static void used_often(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);
    char *pinned = new_pinned(BYTES);

    hold_back();
    for (int i = 0; i < 300; i++)
        OK(cuMemcpyHtoDAsync(memory + (unsigned)(i % 7), pinned, BYTES - 7, a));
    if (!faulty)
        order(a, b);
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, 1, b));
}

/* What the host has waited for needs no order any more. */
static void host_waits(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory = new_memory(BYTES);

    if (faulty)
        hold_back();
    OK(cuMemcpyHtoDAsync(memory, new_pinned(BYTES), BYTES, a));
    if (!faulty)
        OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), memory, BYTES, b));
}

static void alloc_elsewhere(bool faulty)
{
    CUstream a = NEW_STREAM, b = NEW_STREAM;
    CUdeviceptr memory;

    hold_back();
    OK(cuMemAllocAsync(&memory, BYTES, a));
    if (!faulty)
        order(a, b);
    OK(cuMemsetD8Async(memory, 0, BYTES, b));
    OK(cuMemFreeAsync(memory, b));
}

/* ---- Events --------------------------------------------------------------------------------- */

static void query(bool faulty)
{
    CUevent event = new_event();

    if (!faulty)
        OK(cuEventRecord(event, NEW_STREAM));
    OK(cuCtxSynchronize());
    OK(cuEventQuery(event));
}

static void synchronise(bool faulty)
{
    CUevent event = new_event();

    if (!faulty)
        OK(cuEventRecord(event, NEW_STREAM));
    OK(cuEventSynchronize(event));
}

static void stream_wait(bool faulty)
{
    CUevent event = new_event();

    if (!faulty)
        OK(cuEventRecord(event, NEW_STREAM));
    OK(cuStreamWaitEvent(NEW_STREAM, event, 0));
}

/* ---- Handles and pointers ------------------------------------------------------------------- */

static void destroyed_stream(bool faulty)
{
    CUstream stream = NEW_STREAM, other = NEW_STREAM;

    OK(cuStreamDestroy(stream));
    OK(cuMemsetD8Async(new_memory(BYTES), 0, 1, faulty ? stream : other));
}

static void destroyed_event(bool faulty)
{
    CUevent event = new_event(), other = new_event();

    OK(cuEventDestroy(event));
    OK(cuEventRecord(faulty ? event : other, NEW_STREAM));
}

static void destroyed_context(bool faulty)
{
    CUcontext primary, context, other;

    OK(cuCtxGetCurrent(&primary));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuCtxDestroy(context));
    OK(cuCtxPushCurrent(faulty ? context : other));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(primary));
}

static void foreign_event(bool faulty)
{
    CUstream stream = NEW_STREAM;
    CUevent event = new_event(), foreign;
    CUcontext there;

    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    foreign = new_event();
    OK(cuEventRecord(faulty ? foreign : event, stream));
}

static void device_copy_from_host(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);

    OK(cuMemcpyDtoHAsync(new_pinned(BYTES), faulty ? (CUdeviceptr)plain : memory, BYTES,
                         NEW_STREAM));
}

static void host_copy_from_device(bool faulty)
{
    CUdeviceptr memory = new_memory(BYTES);

    OK(cuMemcpyHtoDAsync(new_memory(BYTES), faulty ? (void *)memory : plain, BYTES, NEW_STREAM));
}

static void wrong_peer(bool faulty)
{
    CUcontext here, there;
    CUdeviceptr source = new_memory(BYTES), memory;

    OK(cuCtxGetCurrent(&here));
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    memory = new_memory(BYTES);
    OK(cuMemcpyPeerAsync(memory, faulty ? here : there, source, here, BYTES, NEW_STREAM));
}

static void free_of_inside(bool faulty)
{
    char *memory = malloc(BYTES);

    OK(cuMemFreeHost(faulty ? memory : new_pinned(BYTES)));
    free(memory);
}

static void call_cuda(void *arg)
{
    CUdevice device;

    if (*(bool *)arg)
        OK(cuDeviceGet(&device, 0));
}

static void call_in_callback(bool faulty)
{
    OK(cuLaunchHostFunc(NEW_STREAM, call_cuda, &faulty));
    OK(cuCtxSynchronize());
}

#define FAULT(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }

static const fault faults[] = {
    FAULT(copy_after_free),
    FAULT(past_the_end),
    FAULT(memset_past_the_end),
    FAULT(last_row_past_the_end),
    FAULT(value_after_free),
    FAULT(late_word),
    FAULT(double_free),
    FAULT(free_under_copy),
    FAULT(copy_behind_free),
    FAULT(free_pool_memory),
    FAULT(free_under_peer),
    FAULT(context_under_peer),
    FAULT(free_host_under_copy),
    FAULT(unregister_under_copy),
    FAULT(write_write),
    FAULT(read_write),
    FAULT(columns),
    FAULT(between_rows),
    FAULT(batch_writes_twice),
    FAULT(batch_reads_what_it_writes),
    FAULT(memset_beside_copy),
    FAULT(value_beside_copy),
    FAULT(peer),
    FAULT(legacy_after),
    FAULT(legacy_before),
    FAULT(recorded_too_early),
    FAULT(chain),
    FAULT(used_often),
    FAULT(host_waits),
    FAULT(alloc_elsewhere),
    FAULT(query),
    FAULT(synchronise),
    FAULT(stream_wait),
    FAULT(destroyed_stream),
    FAULT(destroyed_event),
    FAULT(destroyed_context),
    FAULT(foreign_event),
    FAULT(device_copy_from_host),
    FAULT(host_copy_from_device),
    FAULT(wrong_peer),
    FAULT(free_of_inside),
    FAULT(call_in_callback),
};

int main(int argc, char **argv)
{
    return faults_main(argc, argv, faults, sizeof faults / sizeof *faults);
}
