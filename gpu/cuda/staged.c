/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy on a staged stream is cut into pieces, and each goes this way:
 *
 *     in     filled by the CPU ─► sent to the device ─► over
 *     out    fetched from the device ─► emptied by the CPU ─► over
 *     peer   fetched from one device ─► sent to the other ─► over
 *
 * Pieces come and go in order, so their memory is a ring. While the oldest piece waits for a
 * device, newer ones go on as far as the ring has room; the thread never waits here, it looks
 * again. An operation has ended when its last piece is over.
 *
 * An operation's waits end before its first byte is touched, except that the CPU may fill pieces
 * while the device waits. Of the streams that can be waited for, only those to the host write what
 * the CPU reads, and for those the thread waits first (is_host_written). In an engine with one GPU
 * the stream waits for events, on the device. With several GPUs the thread looks until the events
 * have fired: if the other GPU is lost meanwhile, or a stream here waits for it for ever, the
 * operation fails and the others of its stream go on. A wait on the device would never end.
 *
 * A skipped or failed operation still ends only behind all that it had to wait for: an operation
 * after it in the graph may be ordered behind it alone.
 *
 * A lost device is not touched any more, and its streams stay as they are: operations under way
 * have not fired and never will. If only the source of a peer copy is lost, the copy fails. The
 * source may still write to its pieces' memory, so the ring is abandoned.
 */
#include "gpu/cuda/staged.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/pinned.h"
#include "gpu/cuda/ring.h"
#include "gpu/cuda/spare.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/track.h"
#include "gpu/cuda/word.h"
#include "gpu/device.h"

#include <string.h>

#define PIECE_MOST_BYTES ((size_t)2 << 20)
#define PIECE_LEAST_BYTES ((size_t)256 << 10) /* if a copy has several */
#define PIECE_ROUND_BYTES ((size_t)4 << 10)

/* What a step may do before other streams have their turn: bytes copied by the CPU, and moves. */
#define STEP_BYTES ((size_t)1 << 20)
#define STEPS_AT_ONCE 128

/* --- operations --- */

static fry_cuda_staged_slot *slot_of(fry_cuda_staged *staged, uint64_t sequence)
{
    return &staged->slots[sequence % FRY_STREAM_DEPTH];
}

static fry_cuda_staged_slot *current_slot(fry_cuda_staged *staged)
{
    return slot_of(staged, staged->current);
}

/* Stores an operation's failure; the first one stays. */
static void fail(fry_cuda_staged *staged, uint64_t sequence, ferry_status status, CUresult code,
                 const char *call)
{
    fry_cuda_staged_slot *slot = slot_of(staged, sequence);
    if (slot->status != FERRY_OK)
        return;
    slot->status = status;
    slot->code = code;
    slot->call = call;
}

static ferry_status status_of(CUresult result)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY ? FERRY_E_NO_MEMORY : FERRY_E_DEVICE;
}

/* Fails one operation, unless the answer means that the device is lost. */
static void fail_call(fry_cuda_staged *staged, uint64_t sequence, CUresult result, const char *call)
{
    if (fry_cuda_is_fatal(staged->device, result, call))
        return;
    fail(staged, sequence, status_of(result), result, call);
}

/* Whether the operation's memory must not be touched any more. */
static bool is_off(fry_cuda_staged *staged, uint64_t sequence)
{
    const fry_cuda_staged_slot *slot = slot_of(staged, sequence);
    return slot->status != FERRY_OK || fry_load_relaxed(&slot->skip_sequence) == sequence;
}

static bool is_lost(const fry_cuda_staged *staged)
{
    return fry_cuda_lost(staged->device) != CUDA_SUCCESS;
}

static void fire(fry_cuda_staged *staged, uint64_t sequence)
{
    if (slot_of(staged, sequence)->status != FERRY_OK)
        fry_store_relaxed(&staged->failures, fry_load_relaxed(&staged->failures) + 1);
    /* Pairs with each load of `fired`: bytes and outcome are there, the slot is the producer's. */
    fry_store_release(&staged->fired, sequence);
}

/* --- where bytes are --- */

/* A piece's place on one side of a copy: part of a row, or whole rows. */
typedef struct place {
    char *first;
    size_t pitch_bytes, row_bytes, row_count;
} place;

static place place_of(const fry_copy *copy, const void *base, size_t pitch_bytes,
                      const fry_cuda_piece *piece)
{
    size_t row_bytes = fry_copy_row_bytes(copy);
    size_t row = piece->at_bytes / row_bytes, in_row = piece->at_bytes % row_bytes;
    char *first = (char *)(uintptr_t)base + row * pitch_bytes + in_row;
    if (copy->row_count == 1 || piece->size_bytes <= row_bytes)
        return (place){first, piece->size_bytes, piece->size_bytes, 1};
    return (place){first, pitch_bytes, row_bytes, piece->size_bytes / row_bytes};
}

static place dst_of(const fry_copy *copy, const fry_cuda_piece *piece)
{
    return place_of(copy, copy->dst, copy->dst_pitch_bytes, piece);
}

static place src_of(const fry_copy *copy, const fry_cuda_piece *piece)
{
    return place_of(copy, copy->src, copy->src_pitch_bytes, piece);
}

static void copy_on_host(char *pinned, const place *at, bool is_to_pinned)
{
    if (at->row_count == 1 || at->pitch_bytes == at->row_bytes) {
        size_t size_bytes = at->row_count * at->row_bytes;
        memcpy(is_to_pinned ? pinned : at->first, is_to_pinned ? at->first : pinned, size_bytes);
        return;
    }
    for (size_t row = 0; row < at->row_count; row++) {
        char *here = pinned + row * at->row_bytes, *there = at->first + row * at->pitch_bytes;
        memcpy(is_to_pinned ? here : there, is_to_pinned ? there : here, at->row_bytes);
    }
}

static CUresult copy_on_device(const fry_cuda_track *track, char *pinned, const place *at,
                               bool is_to_device)
{
    return fry_cuda_track_copy(track, pinned, at->first, at->row_bytes, at->row_count,
                               at->pitch_bytes, is_to_device);
}

/* --- pieces --- */

static fry_cuda_piece *piece_at(fry_cuda_staged *staged, uint32_t count)
{
    return &staged->pieces[count % FRY_CUDA_PIECES];
}

/*
 * The first and last pieces are small: while the CPU fills the first or empties the last, the
 * device has nothing to do, and the other way round. Small copies are one piece.
 */
static size_t next_piece_bytes(const fry_cuda_staged *staged, const fry_copy *copy)
{
    size_t row_bytes = fry_copy_row_bytes(copy), in_row = staged->made_bytes % row_bytes;
    size_t left = copy->size_bytes - staged->made_bytes;
    size_t most = staged->ring.size_bytes / 4;
    if (most > PIECE_MOST_BYTES)
        most = PIECE_MOST_BYTES;
    if (most > PIECE_LEAST_BYTES + staged->made_bytes)
        most = PIECE_LEAST_BYTES + staged->made_bytes;
    if (most > left / 2 && left > PIECE_LEAST_BYTES)
        most = left / 2 > PIECE_LEAST_BYTES ? left / 2 : PIECE_LEAST_BYTES;
    if (most > staged->ring.size_bytes / 4)
        most = staged->ring.size_bytes / 4;
    if (most > PIECE_ROUND_BYTES)
        most -= most % PIECE_ROUND_BYTES;
    if (most > left)
        most = left;
    if (copy->row_count == 1)
        return most;
    if (in_row != 0 || row_bytes > most)
        return most < row_bytes - in_row ? most : row_bytes - in_row;
    return most - most % row_bytes;
}

static CUevent event_of(const fry_cuda_staged *staged, const fry_cuda_piece *piece,
                        const fry_cuda_track *track)
{
    return track->events[piece - staged->pieces];
}

/* Records an event behind the piece's last step. In a scope of the track's device. */
static void record(const fry_cuda_staged *staged, fry_cuda_piece *piece,
                   const fry_cuda_track *track)
{
    CUresult result = fry_cuda.cuEventRecord(event_of(staged, piece, track), track->native);
    piece->is_recorded = result == CUDA_SUCCESS;
}

/*
 * Whether the device has finished the piece's last step. An event that could not be recorded is
 * recorded now: it stands behind more, and is only late. If that fails too, the stream is queried.
 */
static bool has_landed(fry_cuda_staged *staged, fry_cuda_piece *piece, const fry_cuda_track *track)
{
    if (!piece->is_recorded)
        record(staged, piece, track);
    CUresult result = piece->is_recorded ? fry_cuda.cuEventQuery(event_of(staged, piece, track))
                                         : fry_cuda.cuStreamQuery(track->native);
    if (result == CUDA_SUCCESS)
        return true;
    staged->is_watching = true;
    if (result != CUDA_ERROR_NOT_READY)
        fry_cuda_lose(track->device, result, piece->is_recorded ? "cuEventQuery" : "cuStreamQuery");
    return false;
}

/* Issues the step that brings the bytes to the device, or drops a piece that is off. */
static void send_piece(fry_cuda_staged *staged, fry_cuda_piece *piece)
{
    if (is_off(staged, piece->sequence)) {
        piece->state = FRY_CUDA_PIECE_EMPTY;
        return;
    }
    place at = dst_of(&slot_of(staged, piece->sequence)->copy, piece);
    CUresult result = copy_on_device(staged->track, piece->part.memory, &at, true);
    if (result != CUDA_SUCCESS) /* some rows may have been issued, so it is SENT too */
        fail_call(staged, piece->sequence, result, "cuMemcpyAsync");
    piece->state = FRY_CUDA_PIECE_SENT;
    record(staged, piece, staged->track);
    staged->has_unmarked_wait = false;
}

/* Whether the bytes have come from the other device, or never will. */
static bool has_been_fetched(fry_cuda_staged *staged, fry_cuda_piece *piece)
{
    fry_cuda_device *source = piece->source->device;
    fry_cuda_scope scope;
    bool is_here = false;
    if (fry_cuda_lost(source) == CUDA_SUCCESS) {
        CUresult result = fry_cuda_enter(&scope, source->context);
        if (result == CUDA_SUCCESS)
            is_here = has_landed(staged, piece, piece->source);
        else
            fry_cuda_lose(source, result, "cuCtxPushCurrent");
        fry_cuda_leave(&scope);
    }
    if (is_here)
        return true;
    CUresult lost = fry_cuda_lost(source);
    if (lost == CUDA_SUCCESS)
        return false;
    fail(staged, piece->sequence, FERRY_E_DEVICE, lost, fry_cuda_lost_call(source));
    staged->is_tainted = true;
    return true;
}

/* Sends all pieces that can be sent, in order. The way out has no such step. */
static bool send_pieces(fry_cuda_staged *staged)
{
    bool has_moved = false;
    if (staged->way == FRY_CUDA_WAY_OUT)
        return false;
    for (; staged->sent != staged->made; staged->sent++, has_moved = true) {
        fry_cuda_piece *piece = piece_at(staged, staged->sent);
        if (piece->state == FRY_CUDA_PIECE_FETCHED && !has_been_fetched(staged, piece))
            break;
        if (piece->state == FRY_CUDA_PIECE_FETCHED || piece->state == FRY_CUDA_PIECE_FILLED)
            send_piece(staged, piece);
    }
    return has_moved;
}

/* Whether the oldest piece is over; empties it if its bytes have come. */
static bool is_over(fry_cuda_staged *staged, fry_cuda_piece *piece, size_t *copied_bytes)
{
    if (piece->state == FRY_CUDA_PIECE_EMPTY)
        return true;
    if (!has_landed(staged, piece, staged->track))
        return false;
    if (piece->state == FRY_CUDA_PIECE_FETCHED && !is_off(staged, piece->sequence)) {
        place at = dst_of(&slot_of(staged, piece->sequence)->copy, piece);
        copy_on_host(piece->part.memory, &at, false);
        *copied_bytes += piece->size_bytes;
    }
    return true;
}

static bool free_pieces(fry_cuda_staged *staged, size_t *copied_bytes)
{
    bool has_moved = false;
    while (*copied_bytes < STEP_BYTES && !is_lost(staged)) {
        if (staged->freed == (staged->way == FRY_CUDA_WAY_OUT ? staged->made : staged->sent))
            break;
        fry_cuda_piece *piece = piece_at(staged, staged->freed);
        if (!is_over(staged, piece, copied_bytes))
            break;
        if (piece->part.charged_bytes != 0)
            fry_cuda_ring_give(&staged->ring, piece->part.charged_bytes);
        staged->freed++;
        has_moved = true;
        if (piece->is_last)
            fire(staged, piece->sequence);
    }
    return has_moved;
}

/* Takes a place for a piece; NULL: there is none now. */
static fry_cuda_piece *new_piece(fry_cuda_staged *staged, size_t size_bytes)
{
    if (staged->made - staged->freed == FRY_CUDA_PIECES)
        return NULL;
    fry_cuda_part part = {0};
    if (size_bytes != 0 && !fry_cuda_ring_take(&staged->ring, size_bytes, &part))
        return NULL;
    fry_cuda_piece *piece = piece_at(staged, staged->made);
    *piece = (fry_cuda_piece){
        .sequence = staged->current,
        .at_bytes = staged->made_bytes,
        .size_bytes = size_bytes,
        .part = part,
        .state = FRY_CUDA_PIECE_EMPTY,
    };
    staged->made++;
    return piece;
}

/* --- what the driver is asked for, at the first copy --- */

static bool has_track(fry_cuda_staged *staged)
{
    CUresult result;
    const char *call;
    if (staged->track == NULL)
        staged->track = fry_cuda_track_open(staged->device, &result, &call);
    if (staged->track == NULL)
        fail_call(staged, staged->current, result, call);
    return staged->track != NULL;
}

/* Makes a ring of the intended size, or of a smaller one that the driver has memory for. */
static CUresult make_ring(fry_cuda_staged *staged, const char **call_p)
{
    CUresult result;
    size_t bytes = staged->ring_bytes;
    for (;;) {
        bytes -= bytes % FRY_CUDA_RING_ALIGN_BYTES;
        result = fry_cuda_pinned_take(&staged->pinned, bytes, call_p);
        if (result == CUDA_SUCCESS)
            staged->ring = (fry_cuda_ring){.memory = staged->pinned.memory, .size_bytes = bytes};
        if (result != CUDA_ERROR_OUT_OF_MEMORY || bytes / 2 < FRY_CUDA_RING_LEAST_BYTES)
            break;
        bytes /= 2;
    }
    if (result == CUDA_SUCCESS && bytes < staged->ring_bytes)
        fry_log_line(staged->device->backend->options.log, FERRY_LOG_WARNING,
                     "%s: copies of pageable memory use %zu KiB of pinned memory, because the "
                     "driver has no %zu",
                     staged->device->device.name, bytes >> 10, staged->ring_bytes >> 10);
    return result;
}

/* Makes sure of a ring. False: there is none yet, or the operation has failed without one. */
static bool has_ring(fry_cuda_staged *staged)
{
    if (staged->is_tainted) {
        if (staged->ring.used_bytes != 0)
            return false;
        fry_log_line(staged->device->backend->options.log, FERRY_LOG_WARNING,
                     "%s: %zu KiB of pinned memory are abandoned, because a lost GPU may still "
                     "write to them",
                     staged->device->device.name, staged->ring.size_bytes >> 10);
        staged->ring = (fry_cuda_ring){0};
        staged->pinned = (fry_cuda_pinned){0};
        staged->is_tainted = false;
    }
    if (staged->ring.size_bytes != 0)
        return true;
    const char *call;
    CUresult result = make_ring(staged, &call);
    if (result != CUDA_SUCCESS)
        fail_call(staged, staged->current, result, call);
    return result == CUDA_SUCCESS;
}

/* Whether the call's answer means that the other device is lost. */
static bool see_whether_lost(fry_cuda_device *source, CUresult result, const char *call)
{
    fry_cuda_scope scope;
    bool is_fatal = true;
    if (fry_cuda_enter(&scope, source->context) == CUDA_SUCCESS)
        is_fatal = fry_cuda_is_fatal(source, result, call);
    else
        fry_cuda_lose(source, result, call);
    fry_cuda_leave(&scope);
    return is_fatal;
}

static fry_cuda_track *open_source(fry_cuda_staged *staged, fry_cuda_device *source)
{
    CUresult result;
    const char *call;
    fry_cuda_track *track = fry_cuda_track_open(source, &result, &call);
    if (track != NULL)
        return track;
    (void)see_whether_lost(source, result, call);
    fail(staged, staged->current, status_of(result), result, call);
    return NULL;
}

/* The track of the device that has the current copy's source; NULL: the operation has failed. */
static const fry_cuda_track *find_source(fry_cuda_staged *staged)
{
    const void *src = current_slot(staged)->copy.src;
    fry_cuda_device *source = fry_cuda_memory_owner(staged->device->backend, src);
    if (source == NULL) {
        fail(staged, staged->current, FERRY_E_DEVICE, CUDA_ERROR_INVALID_VALUE,
             "cuPointerGetAttributes");
        return NULL;
    }
    size_t at = 0;
    while (at < FRY_CUDA_SOURCES && staged->sources[at] != NULL &&
           staged->sources[at]->device != source)
        at++;
    if (at == FRY_CUDA_SOURCES) {
        fail(staged, staged->current, FERRY_E_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, "ferry");
        return NULL;
    }
    if (staged->sources[at] == NULL)
        staged->sources[at] = open_source(staged, source);
    return staged->sources[at];
}

/* --- what an operation comes after --- */

/* Whether a staged stream is past the event. A lost device's event fails this operation. */
static bool is_behind_staged(fry_cuda_staged *staged, const fry_event *wait)
{
    const fry_cuda_staged *other = fry_cuda_staged_of(wait->stream);
    if (other == staged || fry_cuda_staged_fired(other) >= wait->sequence)
        return true;
    CUresult lost = fry_cuda_lost(other->device);
    if (lost != CUDA_SUCCESS)
        fail(staged, staged->current, FERRY_E_DEVICE, lost, fry_cuda_lost_call(other->device));
    return lost != CUDA_SUCCESS;
}

/* Queries an event of a native stream. */
static CUresult look_at(const fry_event *wait)
{
    const fry_cuda_stream *stream = fry_cuda_stream_of(wait->stream);
    if (fry_cuda_stream_peek(stream) >= wait->sequence)
        return CUDA_SUCCESS;
    uint64_t mark = fry_cuda_mark_of(stream, wait->sequence);
    if (mark == 0)
        return CUDA_SUCCESS;
    CUevent event = fry_cuda_event_of(stream, mark);
    return event != NULL ? fry_cuda.cuEventQuery(event) : CUDA_ERROR_NOT_READY;
}

/* The same for a native stream. An answer other than "done" and "not yet" means a lost device. */
static bool is_behind_native(fry_cuda_staged *staged, const fry_event *wait)
{
    CUresult result = look_at(wait);
    fry_cuda_device *device = fry_cuda_device_of(wait->stream->device);
    if (result == CUDA_SUCCESS)
        return true;
    if (result != CUDA_ERROR_NOT_READY)
        fry_cuda_lose(device, result, "cuEventQuery");
    const fry_cuda_device *dead_by = fry_cuda_dead_by(wait->stream);
    if (dead_by != NULL)
        fail(staged, staged->current, FERRY_E_DEVICE, fry_cuda_lost(dead_by),
             fry_cuda_lost_call(dead_by));
    else
        staged->is_watching = true;
    return dead_by != NULL;
}

/* Has the stream wait, if it can. False: the thread must wait. */
static bool is_left_to_stream(fry_cuda_staged *staged, const fry_event *wait)
{
    CUresult result;
    if (staged->waits_on_host)
        return false;
    if (!fry_cuda_stream_wait_for(staged->track->native, wait, &result)) {
        fail_call(staged, staged->current, result, "cuStreamWaitEvent");
        staged->waits_on_host = true;
        return false;
    }
    staged->has_unmarked_wait = true;
    return true;
}

/* Goes through the waits for events, as far as they are over. True: something has moved. */
static bool open_gate(fry_cuda_staged *staged)
{
    const fry_cuda_staged_slot *slot = current_slot(staged);
    uint32_t before = staged->wait_index;
    for (; staged->wait_index < slot->wait_count; staged->wait_index++) {
        const fry_event *wait = &slot->waits[staged->wait_index];
        if (fry_cuda_stream_is_native(wait->stream) && !is_left_to_stream(staged, wait) &&
            !is_behind_native(staged, wait))
            return staged->wait_index != before;
    }
    staged->is_gate_open = true;
    return true;
}

/* Whether it is a main stream to the host, or a spare in its place. */
static bool is_to_host(const fry_stream *stream)
{
    fry_cuda_device *device = fry_cuda_device_of(stream->device);
    const fry_cuda_stream *native = fry_cuda_stream_of(stream);
    const fry_cuda_stream *spares =
        fry_cuda_spares(device) + FRY_CUDA_TO_HOST * FRY_CUDA_SPARE_COUNT;
    return native == &device->streams[FRY_CUDA_TO_HOST] ||
           (native >= spares && native < spares + FRY_CUDA_SPARE_COUNT);
}

/* Whether an operation that this one waits for may have written to host memory. */
static bool is_host_written(const fry_cuda_staged_slot *slot)
{
    for (uint32_t i = 0; i < slot->wait_count; i++) {
        const fry_stream *stream = slot->waits[i].stream;
        if (fry_cuda_stream_is_native(stream) && is_to_host(stream))
            return true;
    }
    return false;
}

/* Whether another device of the engine can be lost without this one. */
static bool has_other_gpus(const fry_cuda_staged *staged)
{
    const fry_cuda_device *other = fry_load_acquire(&staged->device->backend->devices);
    while (other != NULL && other->context == staged->device->context)
        other = other->next;
    return other != NULL;
}

/* --- the steps --- */

static bool take_next(fry_cuda_staged *staged)
{
    if (fry_load_acquire(&staged->flushed) == staged->current)
        return false;
    staged->current++;
    staged->made_bytes = 0;
    staged->wait_index = 0;
    staged->is_gate_open = false;
    staged->phase = FRY_CUDA_STAGED_HELD;
    return true;
}

static bool begin(fry_cuda_staged *staged)
{
    fry_cuda_staged_slot *slot = current_slot(staged);
    const fry_backend_options *options = &staged->device->backend->options;
    for (uint32_t i = 0; i < slot->wait_count; i++) {
        if (!fry_cuda_stream_is_native(slot->waits[i].stream) &&
            !is_behind_staged(staged, &slot->waits[i]))
            return false;
    }
    bool is_traced = options->tracing != NULL && fry_load_relaxed(options->tracing) != 0;
    slot->begun_ns = is_traced ? fry_clock_now_ns(options->clock) : 0;
    staged->is_source_awaited = staged->way == FRY_CUDA_WAY_IN && is_host_written(slot);
    staged->waits_on_host = !has_track(staged) || staged->way == FRY_CUDA_WAY_PEER ||
                            staged->is_source_awaited || has_other_gpus(staged);
    staged->phase = FRY_CUDA_STAGED_MOVING;
    return true;
}

/* Brings a new piece's bytes to pinned memory, by the CPU or a device. */
static void fill_piece(fry_cuda_staged *staged, fry_cuda_piece *piece, const fry_cuda_track *source)
{
    place at = src_of(&current_slot(staged)->copy, piece);
    if (staged->way == FRY_CUDA_WAY_IN) {
        copy_on_host(piece->part.memory, &at, true);
        piece->state = FRY_CUDA_PIECE_FILLED;
        return;
    }
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter(&scope, source->device->context);
    if (result == CUDA_SUCCESS) {
        result = copy_on_device(source, piece->part.memory, &at, false);
        record(staged, piece, source);
    }
    fry_cuda_leave(&scope);
    piece->source = source;
    piece->state = FRY_CUDA_PIECE_FETCHED;
    staged->has_unmarked_wait = false;
    if (result != CUDA_SUCCESS && !see_whether_lost(source->device, result, "cuMemcpyAsync"))
        fail_call(staged, staged->current, result, "cuMemcpyAsync");
}

/* Makes one more piece, or finds that no more are needed. */
static bool move(fry_cuda_staged *staged, size_t *copied_bytes)
{
    const fry_copy *copy = &current_slot(staged)->copy;
    bool fills_early = staged->way == FRY_CUDA_WAY_IN && !staged->is_source_awaited;
    if (!is_off(staged, staged->current) && staged->made_bytes != copy->size_bytes) {
        if (!staged->is_gate_open && !fills_early)
            return false;
        const fry_cuda_track *source = staged->track;
        if (staged->way == FRY_CUDA_WAY_PEER)
            source = find_source(staged);
        if (source != NULL && has_ring(staged)) {
            fry_cuda_piece *piece = new_piece(staged, next_piece_bytes(staged, copy));
            if (piece == NULL)
                return false;
            fill_piece(staged, piece, source);
            staged->made_bytes += piece->size_bytes;
            *copied_bytes += staged->way == FRY_CUDA_WAY_IN ? piece->size_bytes : 0;
            return true;
        }
        if (!is_off(staged, staged->current))
            return false;
    }
    staged->phase = FRY_CUDA_STAGED_ENDING;
    return true;
}

/*
 * Ends the operation: all pieces are made, and the newest is the last one. If it is gone, or does
 * not stand behind the stream's waits, an empty piece takes its place.
 */
static bool end(fry_cuda_staged *staged)
{
    if (!staged->is_gate_open || (staged->way == FRY_CUDA_WAY_IN && staged->sent != staged->made))
        return false;
    fry_cuda_piece *last = NULL;
    if (staged->made != staged->freed)
        last = piece_at(staged, staged->made - 1);
    if (last == NULL || last->sequence != staged->current || staged->has_unmarked_wait) {
        last = new_piece(staged, 0);
        if (last == NULL)
            return false;
        if (staged->has_unmarked_wait) {
            last->state = FRY_CUDA_PIECE_SENT;
            record(staged, last, staged->track);
            staged->has_unmarked_wait = false;
        }
    }
    last->is_last = true;
    staged->phase = FRY_CUDA_STAGED_NONE;
    return true;
}

static bool advance(fry_cuda_staged *staged, size_t *copied_bytes)
{
    bool has_moved = false;
    bool is_begun = staged->phase >= FRY_CUDA_STAGED_MOVING;
    if (is_begun && !staged->is_gate_open)
        has_moved = open_gate(staged);
    /* Pieces of earlier operations may always go on. */
    if (!is_begun || staged->is_gate_open || staged->way == FRY_CUDA_WAY_PEER)
        has_moved |= send_pieces(staged);
    switch (staged->phase) {
    case FRY_CUDA_STAGED_NONE:
        return take_next(staged) || has_moved;
    case FRY_CUDA_STAGED_HELD:
        return begin(staged) || has_moved;
    case FRY_CUDA_STAGED_MOVING:
        return move(staged, copied_bytes) || has_moved;
    case FRY_CUDA_STAGED_ENDING:
        return end(staged) || has_moved;
    }
    return has_moved;
}

bool fry_cuda_staged_step(fry_cuda_staged *staged)
{
    size_t copied_bytes = 0;
    uint32_t steps = 0;
    staged->is_watching = false;
    if (staged->is_dead ||
        (staged->phase == FRY_CUDA_STAGED_NONE && staged->freed == staged->made &&
         fry_load_acquire(&staged->flushed) == staged->current))
        return false;
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter(&scope, staged->device->context);
    if (result != CUDA_SUCCESS)
        fry_cuda_lose(staged->device, result, "cuCtxPushCurrent");
    for (; steps < STEPS_AT_ONCE && copied_bytes < STEP_BYTES && !is_lost(staged); steps++) {
        bool has_moved = free_pieces(staged, &copied_bytes);
        has_moved |= advance(staged, &copied_bytes);
        if (!has_moved)
            break;
    }
    fry_cuda_leave(&scope);
    staged->is_dead = is_lost(staged);
    return staged->is_dead || steps != 0;
}

void fry_cuda_staged_close(fry_cuda_staged *staged)
{
    fry_cuda_scope scope;
    fry_cuda_track_close(staged->track);
    for (size_t i = 0; i < FRY_CUDA_SOURCES; i++)
        fry_cuda_track_close(staged->sources[i]);
    if (staged->ring.size_bytes == 0 || staged->is_tainted || is_lost(staged))
        return;
    if (fry_cuda_enter(&scope, staged->device->context) == CUDA_SUCCESS)
        fry_cuda_pinned_give(&staged->pinned);
    fry_cuda_leave(&scope);
}
