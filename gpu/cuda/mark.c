/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/mark.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/stream.h"
#include "gpu/device.h"

static fry_cuda_device *device_of(const fry_cuda_stream *stream)
{
    return fry_cuda_device_of(stream->stream.device);
}

CUresult fry_cuda_mark_make_event(fry_cuda_slot *slot)
{
    CUevent event = NULL;
    if (fry_load_relaxed(&slot->event) != NULL)
        return CUDA_SUCCESS;
    CUresult result = fry_cuda_enter_put_off(); /* the event is made in the current context */
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        fry_store_release(&slot->event, event); /* pairs with fry_cuda_event_of */
    return result;
}

/* --- making a mark --- */

/* From here on only events tell, also of failures. Earlier words come before these events fire. */
static void end_words(fry_cuda_stream *stream, CUresult result)
{
    fry_fault fault;
    fry_store_relaxed(&stream->is_worded, 0);
    (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, result, "cuStreamWriteValue32");
    fry_log_line(device_of(stream)->backend->options.log, FERRY_LOG_WARNING,
                 "%s: ferry queries the driver about a stream from now on: %s",
                 stream->stream.device->name, fault.message);
}

static bool is_to_be_told(const fry_cuda_stream *stream, uint64_t sequence)
{
    if (!stream->is_telling || sequence - stream->worded >= FRY_CUDA_WORD_AGE_MOST)
        return false;
    return stream->unmarked_bytes >= FRY_CUDA_TOLD_BYTES ||
           sequence - stream->told >= FRY_CUDA_WORD_AGE_MOST;
}

/* A word would cost the copies behind it more than a question costs the thread that looks. */
static bool needs_no_word(const fry_cuda_stream *stream, uint64_t sequence)
{
    return stream->is_within && stream->unmarked_bytes >= FRY_CUDA_ASKED_BYTES &&
           sequence - stream->worded < FRY_CUDA_WORD_AGE_MOST;
}

/* Has the teller write the word of the mark. False: it was refused, and is not used any more. */
static bool tell(fry_cuda_stream *stream, fry_cuda_slot *slot, uint64_t sequence)
{
    CUresult result;
    FRY_CUDA_ISSUE(result,
                   fry_cuda.cuStreamWaitEvent(stream->teller, slot->event, CU_EVENT_WAIT_DEFAULT));
    if (result == CUDA_SUCCESS)
        FRY_CUDA_ISSUE(result, fry_cuda.cuStreamWriteValue32(
                                   stream->teller, stream->word_address + sizeof *stream->words,
                                   (uint32_t)sequence, CU_STREAM_WRITE_VALUE_DEFAULT));
    if (result != CUDA_SUCCESS) {
        stream->is_telling = false;
        return false;
    }
    slot->told_by = FRY_CUDA_TOLD_BY_TELLER;
    fry_store_relaxed(&stream->told, sequence);
    return true;
}

static void write_word_if_needed(fry_cuda_stream *stream, CUstream native, fry_cuda_slot *slot,
                                 uint64_t sequence)
{
    CUresult result;
    if (needs_no_word(stream, sequence)) {
        slot->told_by = FRY_CUDA_TOLD_BY_EVENT;
        return;
    }
    if (is_to_be_told(stream, sequence) && tell(stream, slot, sequence))
        return;
    slot->told_by = FRY_CUDA_TOLD_BY_STREAM;
    FRY_CUDA_ISSUE(result,
                   fry_cuda.cuStreamWriteValue32(native, stream->word_address, (uint32_t)sequence,
                                                 CU_STREAM_WRITE_VALUE_DEFAULT));
    if (result == CUDA_SUCCESS)
        fry_store_relaxed(&stream->worded, sequence);
    else
        end_words(stream, result);
}

CUresult fry_cuda_stream_mark(fry_cuda_stream *stream, CUstream native)
{
    uint64_t sequence = stream->stream.issued;
    fry_cuda_slot *slot = fry_cuda_slot_of(stream, sequence);
    CUresult result = fry_cuda_mark_make_event(slot);
    if (result == CUDA_SUCCESS)
        FRY_CUDA_ISSUE(result, fry_cuda.cuEventRecord(slot->event, native));
    if (result != CUDA_SUCCESS)
        return result;
    if (fry_load_relaxed(&stream->is_worded) != 0)
        write_word_if_needed(stream, native, slot, sequence);
    uint64_t marked = fry_load_relaxed(&stream->marked);
    for (uint64_t i = marked + 1; i <= sequence; i++)
        fry_store_release(&fry_cuda_slot_of(stream, i)->mark, sequence); /* see fry_cuda_mark_of */
    /* Release: its reader may wait for the event, look for the word, and read the slots. */
    fry_store_release(&stream->marked, sequence);
    return CUDA_SUCCESS;
}

/* --- events to make it with --- */

/*
 * Gives the slot the event of a mark that has fired. Another thread may still want to wait for the
 * old mark: it finds no event and then that the mark has fired (pairs with fry_cuda_event_of), or
 * has the event already and waits longer than it must, as for a mark that was found late.
 */
static void take_fired(fry_cuda_stream *stream, fry_cuda_slot *slot)
{
    fry_cuda_marks *marks = stream->marks;
    while (marks->count > 0 && fry_load_relaxed(&slot->event) == NULL) {
        uint64_t oldest = marks->sequences[marks->first];
        fry_cuda_slot *lender = fry_cuda_slot_of(stream, oldest);
        if (oldest > stream->fired)
            return;
        marks->first = (marks->first + 1) % FRY_CUDA_MARKS;
        marks->count--;
        if (lender == slot || fry_load_relaxed(&lender->mark) != oldest)
            continue; /* the slot belongs to a later operation */
        fry_store_release(&slot->event, lender->event);
        fry_store_release(&lender->event, (CUevent)NULL);
    }
}

static void note_mark(fry_cuda_stream *stream)
{
    fry_cuda_marks *marks = stream->marks;
    if (marks->count == FRY_CUDA_MARKS) { /* the oldest mark's event stays */
        marks->first = (marks->first + 1) % FRY_CUDA_MARKS;
        marks->count--;
    }
    marks->sequences[(marks->first + marks->count++) % FRY_CUDA_MARKS] = stream->stream.issued;
}

/* The slot whose event can be taken: the newest mark's, or any if nothing is under way. */
static fry_cuda_slot *find_lender(fry_cuda_stream *stream)
{
    if (stream->marked != stream->fired)
        return fry_cuda_slot_of(stream, stream->marked);
    for (size_t i = 0; i < fry_stream_depth(&stream->stream); i++) {
        if (fry_load_relaxed(&stream->slots[i].event) != NULL)
            return &stream->slots[i];
    }
    return NULL;
}

/*
 * Finds an event for the newest operation's mark; with the baton. If no more can be made, the
 * newest older mark gives up its event, and the new mark covers that mark's operations too: a
 * thread that waits for one of these waits longer than it must. Until the event is recorded anew it
 * stands for the old mark, which is right for all operations that point to the new one by then.
 * Only for ferry's own streams: an outside stream's marks are queried by other threads while they
 * are recorded.
 */
static CUresult find_event(fry_cuda_stream *stream)
{
    uint64_t issued = stream->stream.issued, old = stream->marked;
    fry_cuda_slot *slot = fry_cuda_slot_of(stream, issued);
    take_fired(stream, slot);
    CUresult result = fry_cuda_mark_make_event(slot);
    if (result == CUDA_SUCCESS || !fry_cuda_is_refusal(result))
        return result;
    fry_cuda_slot *lender = find_lender(stream);
    if (lender == NULL)
        return result;
    fry_store_release(&slot->event, lender->event);
    for (uint64_t i = old; i > stream->fired && fry_cuda_slot_of(stream, i)->mark == old; i--)
        fry_store_release(&fry_cuda_slot_of(stream, i)->mark, issued);
    /*
     * Pairs with fry_cuda_event_of: without an event there is the new mark, or the old has fired.
     */
    fry_store_release(&lender->event, (CUevent)NULL);
    return CUDA_SUCCESS;
}

CUresult fry_cuda_mark_newest(fry_cuda_stream *stream)
{
    CUresult result = find_event(stream);
    if (result == CUDA_SUCCESS)
        result = fry_cuda_stream_mark(stream, stream->native);
    if (result == CUDA_SUCCESS)
        note_mark(stream);
    return result;
}
