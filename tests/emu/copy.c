/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. What a call waits for follows "API synchronization behavior" of the driver API: pageable
 * memory is staged in the call up to 64 KiB, and makes the call wait for its copy otherwise; copies
 * from host to host wait always; synchronous copies stand in the legacy stream and wait unless they
 * are between devices. (A real synchronous copy from pageable memory may return when it is staged.)
 */
#include "tests/emu/driver.h"
#include "tests/emu/rows.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 * 1024) /* copied before the device's loss is looked at again */

/* What a call demands of a pointer. */
typedef enum demand {
    DEMAND_ANY,
    DEMAND_HOST,
    DEMAND_DEVICE, /* device memory, or host memory that the device sees */
} demand;

typedef struct side {
    uintptr_t start;
    demand demand;
    emu_allocation *allocation; /* NULL: pageable */
    bool freed;
} side;

typedef struct copy_call {
    emu_call call;
    const char *name;
    CUstream stream;
    side dst, src;
    emu_rows rows;
    bool synchronous;
    bool names_contexts; /* says itself of which contexts the memory is */
} copy_call;

/* The copies of one call, in the order in which they run. */
typedef struct copy_data {
    size_t count;
    void *staged; /* NULL: the source is read where it is */
    emu_rows rows[];
} copy_data;

/* False: given up half way, as nothing may be touched any more. */
static bool copy_bytes(const emu_operation *operation, char *dst, const char *src,
                       size_t size_bytes)
{
    while (size_bytes > 0) {
        const size_t chunk_bytes = size_bytes < CHUNK_BYTES ? size_bytes : CHUNK_BYTES;

        if (emu_operation_stopped(operation))
            return false;
        memmove(dst, src, chunk_bytes); /* what overlaps is caught, and is no reason to crash */
        dst += chunk_bytes;
        src += chunk_bytes;
        size_bytes -= chunk_bytes;
    }
    return true;
}

static CUresult copy_run(emu_operation *operation)
{
    const copy_data *const data = operation->data;

    for (size_t i = 0; i < data->count; i++) {
        const emu_rows *const rows = &data->rows[i];

        for (size_t row = 0; row < rows->row_count; row++) {
            if (!copy_bytes(operation, (char *)rows->dst + row * rows->dst_pitch_bytes,
                            (const char *)rows->src + row * rows->src_pitch_bytes, rows->row_bytes))
                return CUDA_SUCCESS;
        }
    }
    return CUDA_SUCCESS;
}

static void copy_release(emu_operation *operation)
{
    const copy_data *const data = operation->data;

    free(data->staged);
}

/*
 * Memory of cuMemAlloc is its context's. Another context of the same device has access by
 * cuCtxEnablePeerAccess alone, which devices that are no peers of themselves refuse. What a driver
 * does with such a copy no document says, so it is refused and not caught.
 */
static bool is_foreign(CUcontext context, const side *side)
{
    const emu_allocation *const allocation = side->allocation;

    return allocation != NULL && !side->freed && allocation->kind == EMU_MEMORY_DEVICE &&
           allocation->pool == NULL && allocation->device == context->device &&
           allocation->context != context;
}

/* Finds out what a side is; false: caught, not what the call demands. */
static bool side_look(const copy_call *call, side *side, size_t size_bytes)
{
    const emu_pointer kind = emu_pointer_kind((void *)side->start, size_bytes, &side->allocation);
    const bool device = kind != EMU_POINTER_PLAIN && side->allocation != NULL &&
                        side->allocation->kind == EMU_MEMORY_DEVICE;

    side->freed = kind == EMU_POINTER_FREED;
    if (kind == EMU_POINTER_PLAIN)
        side->allocation = NULL;
    if ((side->demand == DEMAND_HOST && device) ||
        (side->demand == DEMAND_DEVICE && kind == EMU_POINTER_PLAIN)) {
        emu_catch(EMU_CATCH_MISUSE, "%s is given %p as %s memory, which it is not", call->name,
                  (void *)side->start, side->demand == DEMAND_HOST ? "host" : "device");
        return false;
    }
    return true;
}

static bool is_device(const side *side)
{
    return side->freed || (side->allocation != NULL && side->allocation->kind == EMU_MEMORY_DEVICE);
}

static emu_direction direction_of(const side *dst, const side *src)
{
    if (!is_device(dst))
        return is_device(src) ? EMU_TO_HOST : EMU_ON_HOST;
    if (!is_device(src))
        return EMU_TO_DEVICE;
    return dst->allocation != NULL && src->allocation != NULL &&
                   dst->allocation->device != src->allocation->device
               ? EMU_TO_PEER
               : EMU_ON_DEVICE;
}

/* Reads a pageable source now, so that the program may change it when the call returns. */
static void stage(copy_data *data)
{
    emu_rows *const rows = &data->rows[0];

    data->staged = emu_allocate(rows->row_bytes * rows->row_count);
    for (size_t row = 0; row < rows->row_count; row++)
        memcpy((char *)data->staged + row * rows->row_bytes,
               (const char *)rows->src + row * rows->src_pitch_bytes, rows->row_bytes);
    rows->src = data->staged;
    rows->src_pitch_bytes = rows->row_bytes;
}

static void touches(emu_operation *operation, const emu_rows *rows, bool reads, uint32_t part)
{
    emu_operation_touches(operation, rows->dst, rows->row_bytes, rows->row_count,
                          rows->dst_pitch_bytes, true, part);
    if (reads)
        emu_operation_touches(operation, rows->src, rows->row_bytes, rows->row_count,
                              rows->src_pitch_bytes, false, part);
}

/* Issues it; waits for it if `waits`. Ends the public call. */
/* What is used for the first time may have to be loaded. Gives the lock away. */
static CUresult load(CUstream stream, const emu_operation *operation)
{
    const unsigned form = strstr(operation->name, "2D") != NULL      ? 1
                          : strstr(operation->name, "Batch") != NULL ? 2
                                                                     : 0;
    const emu_direction direction =
        operation->direction == EMU_TO_PEER ? EMU_ON_DEVICE : operation->direction;
    const uint32_t bit = (uint32_t)1 << (form * EMU_DIRECTIONS + (unsigned)direction);
    const bool was_loaded = (stream->context->copies_loaded & bit) != 0;
    CUresult result;

    stream->context->copies_loaded |= bit;
    if (!emu.lazy || was_loaded || stream->capture != NULL || emu_context_is_held(stream->context))
        return CUDA_SUCCESS;
    emu_object_hold(stream);
    result = emu_context_drain(stream->context);
    if (result == CUDA_SUCCESS && stream->object.destroyed)
        result = CUDA_ERROR_INVALID_HANDLE;
    emu_object_drop(stream);
    return result;
}

static CUresult issue(CUstream stream, emu_operation *operation, bool waits)
{
    const bool captured = stream->capture != NULL;
    CUresult result = load(stream, operation);

    if (result != CUDA_SUCCESS) {
        emu_operation_free(operation);
        return emu_leave(result);
    }
    result = emu_enqueue(stream, operation);
    if (result == CUDA_SUCCESS && waits && !captured)
        result = emu_wait_for(stream, stream->issued, NULL);
    return emu_leave(result);
}

/* The public call has begun; ends it. */
static CUresult copy(copy_call *call, CUstream stream)
{
    const emu_rows *const rows = &call->rows;
    const size_t size_bytes = rows->row_bytes * rows->row_count;
    emu_operation *operation;
    copy_data *data;
    bool pageable_source, staged, waits;

    if (size_bytes == 0)
        return emu_leave(CUDA_SUCCESS);
    call->dst.start = (uintptr_t)rows->dst;
    call->src.start = (uintptr_t)rows->src;
    if (!side_look(call, &call->dst, emu_rows_extent(rows, rows->dst_pitch_bytes)) ||
        !side_look(call, &call->src, emu_rows_extent(rows, rows->src_pitch_bytes)) ||
        (!call->names_contexts &&
         (is_foreign(stream->context, &call->dst) || is_foreign(stream->context, &call->src))))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    operation =
        emu_operation_new(EMU_OPERATION_COPY, call->name, sizeof(copy_data) + sizeof(emu_rows));
    data = operation->data;
    data->count = 1;
    data->rows[0] = *rows;
    operation->run = copy_run;
    operation->release = copy_release;
    operation->direction = direction_of(&call->dst, &call->src);
    operation->size_bytes = size_bytes;
    pageable_source = call->src.allocation == NULL && !call->src.freed;
    staged = pageable_source && is_device(&call->dst) && size_bytes <= EMU_STAGED_BYTES_MOST &&
             !call->synchronous && stream->capture == NULL;
    waits = call->synchronous
                ? operation->direction != EMU_ON_DEVICE && operation->direction != EMU_TO_PEER
                : (pageable_source && !staged) || call->dst.allocation == NULL ||
                      operation->direction == EMU_ON_HOST;
    if (staged)
        stage(data);
    touches(operation, rows, !staged, 0);
    return issue(stream, operation, waits);
}

static CUresult copy_enter(copy_call *call)
{
    CUstream stream;
    CUresult result = emu_enter_work(call->call, call->stream, &stream);

    return result == CUDA_SUCCESS ? copy(call, stream) : result;
}

/* One dimension; `stream` is not looked at if the call is synchronous. */
#define PLAIN_COPY(NAME, DST, DST_DEMAND, SRC, SRC_DEMAND, SIZE_BYTES, SYNCHRONOUS, STREAM)        \
    copy_enter(&(copy_call){.call = EMU_CALL_##NAME,                                               \
                            .name = #NAME,                                                         \
                            .stream = STREAM,                                                      \
                            .dst = {.demand = DST_DEMAND},                                         \
                            .src = {.demand = SRC_DEMAND},                                         \
                            .rows = {.dst = (void *)(DST),                                         \
                                     .src = (const void *)(SRC),                                   \
                                     .row_bytes = SIZE_BYTES,                                      \
                                     .row_count = 1},                                              \
                            .synchronous = SYNCHRONOUS})

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes)
{
    return PLAIN_COPY(cuMemcpy, dst, DEMAND_ANY, src, DEMAND_ANY, size_bytes, true, NULL);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes, CUstream stream)
{
    return PLAIN_COPY(cuMemcpyAsync, dst, DEMAND_ANY, src, DEMAND_ANY, size_bytes, false, stream);
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t size_bytes)
{
    return PLAIN_COPY(cuMemcpyHtoD, dst, DEMAND_DEVICE, src, DEMAND_HOST, size_bytes, true, NULL);
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t size_bytes)
{
    return PLAIN_COPY(cuMemcpyDtoH, dst, DEMAND_HOST, src, DEMAND_DEVICE, size_bytes, true, NULL);
}

CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes)
{
    return PLAIN_COPY(cuMemcpyDtoD, dst, DEMAND_DEVICE, src, DEMAND_DEVICE, size_bytes, true, NULL);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t size_bytes, CUstream stream)
{
    return PLAIN_COPY(cuMemcpyHtoDAsync, dst, DEMAND_DEVICE, src, DEMAND_HOST, size_bytes, false,
                      stream);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t size_bytes, CUstream stream)
{
    return PLAIN_COPY(cuMemcpyDtoHAsync, dst, DEMAND_HOST, src, DEMAND_DEVICE, size_bytes, false,
                      stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes, CUstream stream)
{
    return PLAIN_COPY(cuMemcpyDtoDAsync, dst, DEMAND_DEVICE, src, DEMAND_DEVICE, size_bytes, false,
                      stream);
}

/* ---- Between contexts ----------------------------------------------------------------------- */

/* A pointer and the context it is said to be of. */
static CUresult peer_side(const char *name, CUdeviceptr memory, CUcontext handle)
{
    const CUcontext context = emu_object_find(EMU_OBJECT_CONTEXT, handle);
    const emu_allocation *const allocation = emu_allocation_at((void *)memory);

    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (emu_context_error(context) != CUDA_SUCCESS)
        return emu_context_error(context);
    if (allocation != NULL && allocation->kind == EMU_MEMORY_DEVICE &&
        allocation->device != context->device) {
        emu_catch(EMU_CATCH_MISUSE, "%s is given %p with a context of device %d; it is device %d's",
                  name, (void *)memory, context->device->ordinal, allocation->device->ordinal);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult copy_peer(copy_call *call, CUcontext dst_context, CUcontext src_context)
{
    CUstream stream;
    CUresult result = emu_enter_work(call->call, call->stream, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    result = peer_side(call->name, (CUdeviceptr)call->rows.dst, dst_context);
    if (result == CUDA_SUCCESS)
        result = peer_side(call->name, (CUdeviceptr)call->rows.src, src_context);
    return result == CUDA_SUCCESS ? copy(call, stream) : emu_leave(result);
}

static copy_call peer_call(emu_call call, const char *name, CUdeviceptr dst, CUdeviceptr src,
                           size_t size_bytes)
{
    return (copy_call){
        .call = call,
        .name = name,
        .names_contexts = true,
        .dst = {.demand = DEMAND_DEVICE},
        .src = {.demand = DEMAND_DEVICE},
        .rows = {
            .dst = (void *)dst, .src = (const void *)src, .row_bytes = size_bytes, .row_count = 1}};
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                      CUcontext src_context, size_t size_bytes)
{
    copy_call call = peer_call(EMU_CALL_cuMemcpyPeer, "cuMemcpyPeer", dst, src, size_bytes);

    call.synchronous = true;
    return copy_peer(&call, dst_context, src_context);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                           CUcontext src_context, size_t size_bytes, CUstream stream)
{
    copy_call call =
        peer_call(EMU_CALL_cuMemcpyPeerAsync, "cuMemcpyPeerAsync", dst, src, size_bytes);

    call.stream = stream;
    return copy_peer(&call, dst_context, src_context);
}

/* ---- Two dimensions ------------------------------------------------------------------------- */

/* Where a side's first row begins. False: an array, or nothing. */
static bool side_2d(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
                    size_t pitch_bytes, side *side)
{
    uintptr_t base;

    switch (type) {
    case CU_MEMORYTYPE_HOST:
        base = (uintptr_t)host;
        side->demand = DEMAND_HOST;
        break;
    case CU_MEMORYTYPE_DEVICE:
        base = device;
        side->demand = DEMAND_DEVICE;
        break;
    case CU_MEMORYTYPE_UNIFIED:
        base = device;
        side->demand = DEMAND_ANY;
        break;
    default:
        return false;
    }
    side->start = base + y * pitch_bytes + x;
    return base != 0;
}

static CUresult copy_2d(emu_call call_number, const char *name, const CUDA_MEMCPY2D *params,
                        CUstream stream, bool synchronous)
{
    copy_call call = {
        .call = call_number, .name = name, .stream = stream, .synchronous = synchronous};
    CUstream found;
    CUresult result = emu_enter_work(call_number, stream, &found);

    if (result != CUDA_SUCCESS)
        return result;
    if (params == NULL ||
        !side_2d(params->dstMemoryType, params->dstHost, params->dstDevice, params->dstXInBytes,
                 params->dstY, params->dstPitch, &call.dst) ||
        !side_2d(params->srcMemoryType, params->srcHost, params->srcDevice, params->srcXInBytes,
                 params->srcY, params->srcPitch, &call.src))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (params->Height > 1 && (params->dstPitch < params->WidthInBytes + params->dstXInBytes ||
                               params->srcPitch < params->WidthInBytes + params->srcXInBytes))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    call.rows = (emu_rows){.dst = (void *)call.dst.start,
                           .src = (const void *)call.src.start,
                           .row_bytes = params->WidthInBytes,
                           .row_count = params->Height,
                           .dst_pitch_bytes = params->dstPitch,
                           .src_pitch_bytes = params->srcPitch};
    return copy(&call, found);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *params)
{
    return copy_2d(EMU_CALL_cuMemcpy2D, "cuMemcpy2D", params, NULL, true);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *params)
{
    return copy_2d(EMU_CALL_cuMemcpy2DUnaligned, "cuMemcpy2DUnaligned", params, NULL, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *params, CUstream stream)
{
    return copy_2d(EMU_CALL_cuMemcpy2DAsync, "cuMemcpy2DAsync", params, stream, false);
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* Whether the attributes say something of every copy, as the call demands. */
static bool attributes_hold(size_t count, const CUmemcpyAttributes *attributes,
                            const size_t *indexes, size_t attribute_count)
{
    if (attributes == NULL || indexes == NULL || attribute_count == 0 || attribute_count > count ||
        indexes[0] != 0)
        return false;
    for (size_t i = 0; i < attribute_count; i++) {
        if ((i > 0 && indexes[i] <= indexes[i - 1]) || indexes[i] >= count ||
            attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
            attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
            return false;
    }
    return true;
}

static void shuffle(copy_data *data, CUstream stream)
{
    for (size_t i = data->count; i > 1; i--) {
        const size_t other = emu_random(&stream->random) % i;
        const emu_rows kept = data->rows[i - 1];

        data->rows[i - 1] = data->rows[other];
        data->rows[other] = kept;
    }
}

/*
 * A source order other than the stream's is taken as the stream's where the source is pinned or
 * device memory: the stream's order is one that "any" allows. *waits_p: the call returns only when
 * all is copied, as pageable memory has part in it.
 */
static CUresult batch(CUstream stream, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                      const size_t *sizes, size_t count, emu_operation *operation, bool *waits_p)
{
    copy_data *const data = operation->data;
    copy_call call = {.name = operation->name};

    for (size_t i = 0; i < count; i++) {
        const emu_rows rows = {.dst = (void *)dsts[i],
                               .src = (const void *)srcs[i],
                               .row_bytes = sizes[i],
                               .row_count = 1};

        if (sizes[i] == 0 || dsts[i] == 0 || srcs[i] == 0)
            return CUDA_ERROR_INVALID_VALUE;
        call.dst = (side){.start = dsts[i]};
        call.src = (side){.start = srcs[i]};
        side_look(&call, &call.dst, sizes[i]);
        side_look(&call, &call.src, sizes[i]);
        if (is_foreign(stream->context, &call.dst) || is_foreign(stream->context, &call.src))
            return CUDA_ERROR_INVALID_VALUE;
        *waits_p |= (call.dst.allocation == NULL && !call.dst.freed) ||
                    (call.src.allocation == NULL && !call.src.freed);
        operation->direction = direction_of(&call.dst, &call.src);
        operation->size_bytes += sizes[i];
        data->rows[data->count++] = rows;
        touches(operation, &rows, true, (uint32_t)(i + 1));
    }
    shuffle(data, stream);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *attribute_indexes,
                            size_t attribute_count, CUstream handle)
{
    CUstream stream;
    emu_operation *operation;
    bool waits = false;
    CUresult result = emu_enter_work(EMU_CALL_cuMemcpyBatchAsync, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (dsts == NULL || srcs == NULL || sizes == NULL || count == 0 || stream->legacy ||
        !attributes_hold(count, attributes, attribute_indexes, attribute_count))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    operation = emu_operation_new(EMU_OPERATION_COPY, "cuMemcpyBatchAsync",
                                  sizeof(copy_data) + count * sizeof(emu_rows));
    operation->entries = (count + EMU_ENTRY_COPIES - 1) / EMU_ENTRY_COPIES;
    operation->run = copy_run;
    operation->release = copy_release;
    result = batch(stream, dsts, srcs, sizes, count, operation, &waits);
    if (result != CUDA_SUCCESS) {
        emu_operation_free(operation);
        return emu_leave(result);
    }
    return issue(stream, operation, waits);
}
