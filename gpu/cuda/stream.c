/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: what is given to the driver, and in what order. How the end of it is found: firing.c.
 *
 * Marks. Operations fire in order, so a *mark* behind the newest one speaks for all before it. A
 * mark is made at flush, when others may begin to wait. It is made earlier behind many bytes, ahead
 * of a wait, where another stream must wait, and behind a copy that goes alone into an idle stream,
 * so that the context is entered once and not twice. It is an event, which others wait for and
 * which can be queried, and then a word: the stream itself writes the low half of the mark's number
 * to pinned host memory (cuStreamWriteValue32). Finding what has fired is then one load and no
 * call.
 *
 * Tellers. On an H200 an event costs its stream nothing, and a word 2 us, in which 100 KB come from
 * the host. So behind many bytes another stream, the *teller*, waits for the mark's event and
 * writes the word, and the copies behind the mark go on meanwhile. What a wait for an event has
 * seen is there for the teller's fence too (200,000 copies by the probe, none wrong). Where little
 * is copied the stream writes its word itself: by a teller a copy to and fro takes 1.4 us longer.
 * So do streams for copies within a GPU, but behind so many bytes that the word would cost the
 * copies more than a question to the driver costs the thread that looks: such a mark has no word
 * (FRY_CUDA_ASKED_BYTES; smaller copies take no longer than the calls that make them). A teller
 * waits as long as the copy takes; with few hardware queues kernels of the program's would stand
 * behind that, whatever their priority, and words behind the program's waits (bench/results). So
 * there are tellers only where the program has asked for all queues
 * (CUDA_DEVICE_MAX_CONNECTIONS=32). If a teller's words are late all the same, time after time, its
 * stream does without from then on.
 *
 * Batches. Small plain copies that wait for nothing on the device are kept back until the flush, or
 * until something must come behind them. Two or more go to cuMemcpyBatchAsync, which runs them in
 * any order. So a copy whose `waits` name a kept copy submits the kept ones first, and stands
 * behind the whole batch. Marks stand behind the batch too, so sequence numbers fire in order
 * whatever the batch does inside. If the driver refuses a batch, its copies go one by one, and each
 * fails alone. Copies that the driver had taken are then made twice, which nobody can see: none
 * depends on another, and operations that depend on them come later.
 */
#include "gpu/cuda/stream.h"

#include "gpu/cuda/bounce.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/mark.h"
#include "gpu/cuda/spare.h"
#include "gpu/cuda/submit.h"
#include "gpu/cuda/word.h"
#include "gpu/device.h"

#include <assert.h>

#define BATCHES_REFUSED_MAX 8 /* in a row */

/* --- making --- */

bool fry_cuda_stream_is_programs(const fry_cuda_stream *stream)
{
    return stream->stream.kind == FRY_STREAM_OUTSIDE &&
           stream < fry_cuda_bridges(fry_cuda_device_of(stream->stream.device));
}

void fry_cuda_stream_init(fry_cuda_stream *stream, fry_cuda_device *device, fry_stream_kind kind)
{
    size_t offset = (size_t)(stream - device->streams) * FRY_CACHE_LINE;
    stream->stream.device = &device->device;
    stream->stream.kind = (uint8_t)kind;
    stream->stream.is_polled = true;
    stream->stream.depth = kind == FRY_STREAM_MAIN ? FRY_CUDA_MAIN_DEPTH : 0;
    if (device->words.memory != NULL) {
        stream->words = (uint32_t *)(void *)(device->words.memory + offset);
        stream->word_address = device->words_address + offset;
        stream->is_worded = !fry_cuda_stream_is_programs(stream);
    }
    fry_cuda_stream_start_at(stream, 1);
}

static fry_cuda_device *device_of(const fry_cuda_stream *stream)
{
    return fry_cuda_device_of(stream->stream.device);
}

static size_t slots_bytes(const fry_cuda_stream *stream)
{
    return fry_stream_depth(&stream->stream) * sizeof *stream->slots;
}

ferry_status fry_cuda_stream_make(fry_cuda_stream *stream, bool is_copying)
{
    const fry_memory *memory = &device_of(stream)->backend->memory;
    if (stream->slots == NULL)
        stream->slots = fry_alloc(memory, slots_bytes(stream), _Alignof(fry_cuda_slot));
    if (stream->batch == NULL && is_copying)
        stream->batch = fry_alloc(memory, sizeof *stream->batch, _Alignof(fry_cuda_batch));
    if (stream->marks == NULL && is_copying)
        stream->marks = fry_alloc(memory, sizeof *stream->marks, _Alignof(fry_cuda_marks));
    bool has_all = !is_copying || (stream->batch != NULL && stream->marks != NULL);
    return stream->slots != NULL && has_all ? FERRY_OK : FERRY_E_NO_MEMORY;
}

/* What the copies on it are; FRY_CUDA_DIRECTIONS: any. */
static size_t direction_of(const fry_cuda_stream *stream)
{
    fry_cuda_device *device = device_of(stream);
    if (stream->stream.kind == FRY_STREAM_MAIN)
        return (size_t)(stream - device->streams);
    if (stream->stream.kind == FRY_STREAM_SPARE)
        return (size_t)(stream - fry_cuda_spares(device)) / FRY_CUDA_SPARE_COUNT;
    return FRY_CUDA_DIRECTIONS;
}

/* Whether it is for copies from or to the host, and has words. */
static bool is_to_have_teller(const fry_cuda_stream *stream)
{
    return direction_of(stream) < FRY_CUDA_ON_DEVICE && stream->words != NULL &&
           device_of(stream)->has_tellers;
}

static CUresult make_stream(CUstream *native_p, int priority)
{
    return *native_p != NULL
               ? CUDA_SUCCESS
               : fry_cuda.cuStreamCreateWithPriority(native_p, CU_STREAM_NON_BLOCKING, priority);
}

CUresult fry_cuda_stream_make_native(fry_cuda_stream *stream, int priority)
{
    CUresult result = make_stream(&stream->native, priority);
    stream->is_within = direction_of(stream) == FRY_CUDA_ON_DEVICE;
    if (result != CUDA_SUCCESS || !is_to_have_teller(stream))
        return result;
    result = make_stream(&stream->teller, priority);
    stream->is_telling = result == CUDA_SUCCESS;
    return result;
}

CUresult fry_cuda_stream_make_events(fry_cuda_stream *stream, size_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 1; i <= count && result == CUDA_SUCCESS; i++)
        result = fry_cuda_mark_make_event(fry_cuda_slot_of(stream, stream->stream.issued + i));
    return result;
}

void fry_cuda_stream_unmake(fry_cuda_stream *stream)
{
    const fry_memory *memory = &device_of(stream)->backend->memory;
    bool is_alive = fry_cuda_lost(device_of(stream)) == CUDA_SUCCESS;
    for (size_t i = 0; stream->slots != NULL && i < fry_stream_depth(&stream->stream); i++) {
        if (is_alive && stream->slots[i].event != NULL)
            (void)fry_cuda.cuEventDestroy(stream->slots[i].event);
    }
    if (is_alive && stream->native != NULL)
        (void)fry_cuda.cuStreamDestroy(stream->native);
    if (is_alive && stream->teller != NULL)
        (void)fry_cuda.cuStreamDestroy(stream->teller);
    fry_free(memory, stream->marks, sizeof *stream->marks);
    fry_free(memory, stream->batch, sizeof *stream->batch);
    fry_free(memory, stream->slots, slots_bytes(stream));
    stream->native = stream->teller = NULL;
    stream->marks = NULL;
    stream->batch = NULL;
    stream->slots = NULL;
}

/* --- marks --- */

static bool has_no_room(uint32_t entries)
{
    return entries + FRY_CUDA_OPERATION_ENTRIES > FRY_CUDA_QUEUE_ENTRIES;
}

void fry_cuda_stream_add_entries(fry_cuda_stream *stream, uint32_t more)
{
    fry_cuda_device *device = device_of(stream);
    stream->entries += more;
    if (stream->stream.kind != FRY_STREAM_PARKED) {
        stream->stream.is_full =
            has_no_room(stream->entries) || !fry_cuda_bounce_has_room(&stream->bounce);
        return;
    }
    device->parked_entries += more;
    for (fry_cuda_stream *one = fry_cuda_parked(device); one < fry_cuda_outside(device); one++)
        one->stream.is_full = has_no_room(device->parked_entries);
}

/* Marks the newest operation. If that fails, operations would stay unknown: the device is lost. */
static void mark_own(fry_cuda_stream *stream)
{
    if (fry_cuda_lost(device_of(stream)) != CUDA_SUCCESS)
        return;
    CUresult result = fry_cuda_mark_newest(stream);
    if (result != CUDA_SUCCESS) {
        fry_cuda_lose(device_of(stream), result, "cuEventRecord");
        return;
    }
    fry_cuda_slot_of(stream, stream->stream.issued)->entries += FRY_CUDA_MARK_ENTRIES;
    fry_cuda_stream_add_entries(stream, FRY_CUDA_MARK_ENTRIES);
    stream->unmarked_bytes = 0;
}

/* --- handing over --- */

static void strike(fry_cuda_stream *stream, fry_cuda_slot *slot, CUresult result, const char *call)
{
    slot->result = result;
    slot->call = call;
    stream->stream.struck++;
}

/* Counts the newest operations as the entries of a batch; as they were kept back each counted. */
static void count_as_batch(fry_cuda_stream *stream, size_t count)
{
    uint32_t entries = ((uint32_t)count - 1) / FRY_CUDA_BATCH_COPIES_AN_ENTRY + 1;
    for (uint64_t i = 1; i < count; i++)
        fry_cuda_slot_of(stream, stream->stream.issued - i)->entries = 0;
    fry_cuda_slot_of(stream, stream->stream.issued)->entries = entries;
    fry_cuda_stream_add_entries(stream, entries - (uint32_t)count);
}

/* False: the copies must go one by one; *result_p is CUDA_SUCCESS if nothing was tried. */
static bool submit_together(fry_cuda_stream *stream, fry_cuda_batch *batch, CUresult *result_p)
{
    *result_p = CUDA_SUCCESS;
    if (batch->count < 2 || fry_cuda_batchless(device_of(stream)) != NULL)
        return false;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first = 0;
    CUresult result;
    FRY_CUDA_ISSUE(result, fry_cuda.cuMemcpyBatchAsync(batch->dst, batch->src, batch->size_bytes,
                                                       batch->count, &attributes, &first, 1,
                                                       stream->native));
    if (result == CUDA_SUCCESS) {
        device_of(stream)->batches_refused = 0;
        count_as_batch(stream, batch->count);
    }
    *result_p = result;
    return result == CUDA_SUCCESS ||
           fry_cuda_is_fatal(device_of(stream), result, "cuMemcpyBatchAsync");
}

/* Counts a refused batch whose copies were taken singly: such a batch only costs a call. */
static void count_refusal(fry_cuda_device *device, CUresult result)
{
    fry_fault fault;
    if (++device->batches_refused != BATCHES_REFUSED_MAX)
        return;
    fry_store_relaxed(&device->has_no_batches, 1);
    (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, result, "cuMemcpyBatchAsync");
    fry_log_line(device->backend->options.log, FERRY_LOG_WARNING,
                 "%s: small copies are made one by one from now on: %s", device->device.name,
                 fault.message);
}

/* Hands the kept copies to the driver. In a scope. */
static void submit(fry_cuda_stream *stream)
{
    fry_cuda_batch *batch = stream->batch;
    if (batch->count == 0)
        return;
    uint64_t sequence = stream->stream.issued - batch->count;
    uint64_t struck = stream->stream.struck;
    CUresult refusal;
    if (!submit_together(stream, batch, &refusal)) {
        for (size_t i = 0; i < batch->count; i++) {
            CUresult result;
            FRY_CUDA_ISSUE(result, fry_cuda.cuMemcpyAsync(batch->dst[i], batch->src[i],
                                                          batch->size_bytes[i], stream->native));
            if (result == CUDA_SUCCESS)
                continue;
            strike(stream, fry_cuda_slot_of(stream, sequence + 1 + i), result, "cuMemcpyAsync");
            if (fry_cuda_is_fatal(device_of(stream), result, "cuMemcpyAsync"))
                break;
        }
        if (refusal != CUDA_SUCCESS && stream->stream.struck == struck)
            count_refusal(device_of(stream), refusal);
    }
    batch->count = 0;
}

static uint64_t begin_operation(fry_cuda_stream *stream, size_t entries, size_t size_bytes)
{
    uint64_t sequence = ++stream->stream.issued;
    fry_cuda_slot *slot = fry_cuda_slot_of(stream, sequence);
    fry_store_release(&slot->mark, 0); /* its old operation has fired: fry_cuda_mark_of */
    slot->result = CUDA_SUCCESS;
    slot->entries = (uint32_t)entries;
    slot->bounced_bytes = 0;
    stream->unmarked_bytes += size_bytes;
    fry_cuda_stream_add_entries(stream, slot->entries);
    return sequence;
}

static void keep_back(fry_cuda_stream *stream, const fry_copy *copy)
{
    fry_cuda_batch *batch = stream->batch;
    batch->dst[batch->count] = (CUdeviceptr)(uintptr_t)copy->dst;
    batch->src[batch->count] = (CUdeviceptr)(uintptr_t)copy->src;
    batch->size_bytes[batch->count] = copy->size_bytes;
    batch->count++;
}

/* --- waits --- */

bool fry_cuda_stream_wait_for(CUstream native, const fry_event *event, CUresult *result_p)
{
    const fry_cuda_stream *other = fry_cuda_stream_of(event->stream);
    CUevent awaited = NULL;
    *result_p = CUDA_SUCCESS;
    while (awaited == NULL) { /* again if a later mark has just taken the event */
        if (fry_cuda_stream_peek(other) >= event->sequence)
            return true;
        uint64_t mark = fry_cuda_mark_of(other, event->sequence);
        if (mark == 0)
            return true;
        awaited = fry_cuda_event_of(other, mark);
    }
    FRY_CUDA_ISSUE(*result_p, fry_cuda.cuStreamWaitEvent(native, awaited, CU_EVENT_WAIT_DEFAULT));
    return *result_p == CUDA_SUCCESS;
}

static bool has_waited(const fry_cuda_stream *stream, const fry_event *event)
{
    for (size_t i = 0; i < FRY_CUDA_WAITED; i++) {
        if (stream->waited[i].stream == event->stream)
            return stream->waited[i].sequence >= event->sequence;
    }
    return false;
}

/*
 * Notes that the next operation waits for the event. A wait that is over makes room, else the
 * oldest: a forgotten wait would be made again, and its device's loss not be noticed.
 */
static void note_wait(fry_cuda_stream *stream, const fry_event *event)
{
    size_t at = 0, over = FRY_CUDA_WAITED;
    while (at < FRY_CUDA_WAITED && stream->waited[at].stream != event->stream) {
        if (stream->waited[at].by <= stream->fired)
            over = at;
        at++;
    }
    if (at == FRY_CUDA_WAITED)
        at = over != FRY_CUDA_WAITED ? over : stream->waited_next++ % FRY_CUDA_WAITED;
    stream->waited[at].stream = event->stream;
    stream->waited[at].sequence = event->sequence;
    stream->waited[at].by = stream->stream.issued + 1;
    stream->untaught &= ~(1U << at);
    fry_cuda_stream *other = fry_cuda_stream_of(event->stream);
    if (!fry_cuda_stream_is_programs(other))
        return;
    stream->untaught |= 1U << at;
    if (other->relied < event->sequence)
        other->relied = event->sequence;
}

/* Selects waits for the device; *after_p: the newest operation named of this stream. */
static size_t select_waits(const fry_cuda_stream *stream, const fry_event *waits, size_t wait_count,
                           const fry_event **selected, uint64_t *after_p)
{
    size_t count = 0;
    *after_p = 0;
    for (size_t i = 0; i < wait_count; i++) {
        if (waits[i].stream == &stream->stream) {
            if (*after_p < waits[i].sequence)
                *after_p = waits[i].sequence;
        } else if (!has_waited(stream, &waits[i]) &&
                   fry_cuda_stream_peek(fry_cuda_stream_of(waits[i].stream)) < waits[i].sequence) {
            selected[count++] = &waits[i];
        }
    }
    return count;
}

/* Makes the waits. Returns the answer for the first that can't be made. In a scope. */
static CUresult put_waits(fry_cuda_stream *stream, const fry_event **waits, size_t wait_count,
                          size_t *entries_p)
{
    for (size_t i = 0; i < wait_count; i++) {
        fry_stream *other = waits[i]->stream;
        fry_cuda_stream_flush(other); /* its operation may have been issued in this turn */
        CUresult result;
        const fry_cuda_device *lost = fry_cuda_dead_by(other);
        if (lost != NULL)
            return fry_cuda_lost(lost); /* the stream would wait for ever */
        if (!fry_cuda_stream_wait_for(stream->native, waits[i], &result))
            return result;
        ++*entries_p;
        note_wait(stream, waits[i]);
    }
    return CUDA_SUCCESS;
}

/* --- the operations --- */

static CUresult submit_copy(const fry_cuda_stream *stream, const fry_copy *copy,
                            const char **call_p, size_t *entries_p)
{
    if (fry_unlikely(copy->row_count == 0)) {
        /* No document says what a launch takes of the queue: the most that an operation may. */
        CUresult result = fry_cuda_graph_launch(copy->graph, stream->native, call_p);
        *entries_p += result == CUDA_SUCCESS ? FRY_CUDA_ROWS_SINGLY : 0;
        return result;
    }
    return fry_cuda_submit(stream->native, copy, device_of(stream)->pitch_max_bytes, call_p,
                           entries_p);
}

static void submit_and_mark(fry_cuda_stream *stream)
{
    submit(stream);
    mark_own(stream);
}

/* In a scope: waits, then the copy. */
static ferry_status copy_now(fry_cuda_stream *stream, const fry_copy *copy, const fry_event **waits,
                             size_t wait_count, fry_fault *fault)
{
    submit(stream);
    /* Otherwise the end of earlier operations would be found only after the wait. */
    if (wait_count != 0 && stream->stream.issued != stream->marked)
        mark_own(stream);
    if (fry_cuda_lost(device_of(stream)) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(device_of(stream), fault);
    size_t entries = 0;
    const char *call = "cuStreamWaitEvent";
    CUresult result = put_waits(stream, waits, wait_count, &entries);
    if (result == CUDA_SUCCESS)
        result = submit_copy(stream, copy, &call, &entries);
    if (result != CUDA_SUCCESS && fry_cuda_is_fatal(device_of(stream), result, call))
        return fry_cuda_tell_lost(device_of(stream), fault);
    if (result != CUDA_SUCCESS && entries == 0)
        return fry_cuda_tell(fault, FERRY_E_DEVICE, result, call);
    /* Entries in the driver's queue belong to an operation, so that their room comes back. */
    uint64_t sequence = begin_operation(stream, entries, copy->size_bytes);
    if (result != CUDA_SUCCESS)
        strike(stream, fry_cuda_slot_of(stream, sequence), result, call);
    return FERRY_OK;
}

static ferry_status enter(fry_cuda_stream *stream, fry_cuda_scope *scope, fry_fault *fault)
{
    fry_cuda_device *device = device_of(stream);
    CUresult result = fry_cuda_enter_to_issue(scope, device->context, true);
    if (result == CUDA_SUCCESS)
        return FERRY_OK;
    fry_cuda_leave(scope);
    fry_cuda_lose(device, result, "cuCtxPushCurrent");
    return fry_cuda_tell_lost(device, fault);
}

/*
 * Keeps back a small copy that waits for nothing on the device, unless the batch is then large
 * enough. `after`: the newest operation of this stream that the copy comes behind.
 */
static ferry_status copy_together(fry_cuda_stream *stream, const fry_copy *copy, uint64_t after,
                                  fry_fault *fault)
{
    fry_cuda_batch *batch = stream->batch;
    bool is_behind = after > stream->stream.issued - batch->count;
    bool is_full = batch->count + 1 == FRY_CUDA_BATCH_COUNT;
    bool is_much = stream->unmarked_bytes + copy->size_bytes >= FRY_CUDA_TOGETHER_BYTES;
    fry_cuda_scope scope = {0};
    if (is_behind || is_full || is_much) {
        ferry_status status = enter(stream, &scope, fault);
        if (status != FERRY_OK)
            return status;
    }
    if (is_behind)
        submit(stream);
    (void)begin_operation(stream, 1, copy->size_bytes);
    keep_back(stream, copy);
    if (is_much)
        submit_and_mark(stream);
    else if (is_full)
        submit(stream);
    fry_cuda_leave(&scope);
    return FERRY_OK;
}

/* In an idle stream, or behind many bytes, the copy gets a mark at once. */
static ferry_status copy_alone(fry_cuda_stream *stream, const fry_copy *copy,
                               const fry_event **waits, size_t wait_count, fry_fault *fault)
{
    bool was_idle = fry_cuda_stream_peek(stream) == stream->stream.issued;
    fry_cuda_scope scope;
    ferry_status status = enter(stream, &scope, fault);
    if (status != FERRY_OK)
        return status;
    status = copy_now(stream, copy, waits, wait_count, fault);
    if (status == FERRY_OK && (was_idle || stream->unmarked_bytes >= FRY_CUDA_MARKED_BYTES))
        mark_own(stream);
    fry_cuda_leave(&scope);
    return status;
}

ferry_status fry_cuda_stream_copy(fry_stream *base, const fry_copy *copy, const fry_event *waits,
                                  size_t wait_count, uint64_t *sequence_p, fry_fault *fault)
{
    fry_cuda_stream *stream = fry_cuda_stream_of(base);
    const fry_cuda_device *lost = fry_cuda_dead_by(base);
    if (lost != NULL)
        return fry_cuda_tell_lost(lost, fault);
    assert(!base->is_full && base->issued - stream->fired < fry_stream_depth(base));
    const fry_event *selected[FRY_STREAM_WAITS];
    uint64_t after;
    wait_count = select_waits(stream, waits, wait_count, selected, &after);

    fry_copy bounced;
    uint32_t taken = stream->bounce.taken;
    if (copy->is_read_now) {
        assert(wait_count == 0 && copy->size_bytes <= FRY_CUDA_BOUNCED_BYTES);
        bounced = *copy;
        bounced.src = fry_cuda_bounce_take(&stream->bounce, copy);
        copy = &bounced;
    }
    bool is_small = copy->row_count == 1 && copy->size_bytes <= FRY_CUDA_BATCHED_BYTES &&
                    wait_count == 0 && fry_cuda_batchless(device_of(stream)) == NULL;
    ferry_status status = is_small ? copy_together(stream, copy, after, fault)
                                   : copy_alone(stream, copy, selected, wait_count, fault);
    if (status != FERRY_OK) {
        stream->bounce.taken = taken;
        return status;
    }
    fry_cuda_slot_of(stream, base->issued)->bounced_bytes = stream->bounce.taken - taken;
    *sequence_p = base->issued;
    return FERRY_OK;
}

void fry_cuda_stream_flush(fry_stream *base)
{
    fry_cuda_stream *stream = fry_cuda_stream_of(base);
    /* On an outside stream the recording thread marks at once, perhaps now. */
    if (base->kind == FRY_STREAM_OUTSIDE || base->issued == stream->marked ||
        fry_cuda_dead_by(base) != NULL)
        return;
    fry_cuda_scope scope;
    if (enter(stream, &scope, NULL) != FERRY_OK)
        return;
    submit_and_mark(stream);
    fry_cuda_leave(&scope);
}

ferry_status fry_cuda_stream_outcome(fry_stream *base, uint64_t sequence, fry_fault *fault)
{
    const fry_cuda_slot *slot = fry_cuda_slot_of(fry_cuda_stream_of(base), sequence);
    if (base->kind == FRY_STREAM_OUTSIDE || slot->result == CUDA_SUCCESS)
        return FERRY_OK;
    return fry_cuda_tell(fault, FERRY_E_DEVICE, slot->result, slot->call);
}
