/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/host/stream.h"

#include "gpu/device.h"
#include "gpu/host/copy.h"

static fry_host_slot *slot_of(fry_host_stream *stream, uint64_t sequence)
{
    return &stream->slots[sequence % FRY_STREAM_DEPTH];
}

static bool has_fired(const fry_event *event)
{
    const fry_host_stream *stream = (const fry_host_stream *)(const void *)event->stream;
    return fry_host_stream_fired(stream) >= event->sequence;
}

bool fry_host_stream_issue(fry_host_stream *stream, const fry_copy *copy, const fry_event *waits,
                           size_t wait_count)
{
    uint64_t sequence = stream->stream.issued + 1;
    if (wait_count > FRY_STREAM_WAITS)
        return false;
    if (sequence - stream->fired_seen > FRY_STREAM_DEPTH) {
        stream->fired_seen = fry_host_stream_fired(stream);
        if (sequence - stream->fired_seen > FRY_STREAM_DEPTH)
            return false;
    }
    fry_host_slot *slot = slot_of(stream, sequence);
    slot->copy = *copy;
    slot->wait_count = 0;
    for (size_t i = 0; i < wait_count; i++) {
        /* The stream's own order covers waits for itself. */
        if (waits[i].stream != &stream->stream && !has_fired(&waits[i]))
            slot->waits[slot->wait_count++] = waits[i];
    }
    fry_store_seq_cst(&stream->stream.issued, sequence);
    return true;
}

/*
 * This can't overwrite another operation's request: until `sequence` has fired, no other operation
 * is in its slot. When another one is, the producer has seen `sequence` fire, and sees it here.
 */
void fry_host_stream_skip(fry_host_stream *stream, uint64_t sequence)
{
    if (sequence > stream->stream.issued || sequence <= fry_host_stream_fired(stream))
        return;
    fry_store_relaxed(&slot_of(stream, sequence)->skip_sequence, sequence);
}

bool fry_host_stream_is_ready(fry_host_stream *stream)
{
    uint64_t sequence = fry_load_relaxed(&stream->fired) + 1;
    if (fry_load_acquire(&stream->stream.issued) < sequence)
        return false;
    const fry_host_slot *slot = slot_of(stream, sequence);
    for (uint64_t i = 0; i < slot->wait_count; i++) {
        const fry_event *wait = &slot->waits[i];
        if (!has_fired(wait)) {
            fry_store_relaxed(&stream->blocked_sequence, wait->sequence);
            fry_store_release(&stream->blocked_on,
                              (const fry_host_stream *)(const void *)wait->stream);
            return false;
        }
    }
    return true;
}

static void copy_unless_skipped(const fry_host_slot *slot, uint64_t sequence,
                                const fry_host_gate *gate)
{
    const fry_copy *copy = &slot->copy;
    size_t copied_bytes = 0;
    while (fry_load_relaxed(&slot->skip_sequence) != sequence) {
        if (gate->fn != NULL) {
            gate->fn(gate->arg, copy, copied_bytes);
            if (fry_load_relaxed(&slot->skip_sequence) == sequence)
                return;
        }
        if (copied_bytes == copy->size_bytes)
            return;
        copied_bytes += fry_host_copy_chunk(copy, copied_bytes);
    }
}

int64_t fry_host_stream_begun_ns(fry_host_stream *stream, uint64_t sequence)
{
    return slot_of(stream, sequence)->begun_ns;
}

void fry_host_stream_run(fry_host_stream *stream, const fry_host_options *options)
{
    uint64_t sequence = fry_load_relaxed(&stream->fired) + 1;
    fry_host_slot *slot = slot_of(stream, sequence);
    bool is_traced = options->tracing != NULL && fry_load_relaxed(options->tracing) != 0;
    slot->begun_ns = is_traced ? fry_clock_now_ns(options->clock) : 0;
    copy_unless_skipped(slot, sequence, &options->gate);
    /* Pairs with every load of `fired`: the bytes are there, and the slot is the producer's. */
    fry_store_release(&stream->fired, sequence);
}
