/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far streams are: by the words that they write (word.c), and by the driver where words don't
 * tell.
 *
 * Why a look is not enough. A device that fails never writes. If a head stays for a millisecond,
 * the driver is asked about it (cuEventQuery of its mark), then after twice that time, and so on up
 * to 64 ms: a busy device costs no calls, and a lost one is found soon. An answer other than "done"
 * and "not yet" means that the device is lost. If the event has fired and its word is missing, the
 * event is right and the word late: `fired` is ahead of the word until that comes, and the stream
 * does not count as idle. If this happens time after time and no word comes between, words don't
 * work here, and the stream goes on by events alone. A word may still come, so the words' memory is
 * freed only if the last one has come by the time the device is closed.
 *
 * By events alone, each look asks about the oldest mark's event.
 *
 * Marks behind many bytes within a GPU have no word either (stream.c): the driver is asked about
 * their events, at the first look and then every 2 us at most.
 *
 * The program's streams get events alone, because a word, with its fence, would delay the program's
 * next kernel. If only the host waits for such an event, the driver is asked about it, but not at
 * each look. If streams of ferry's wait for the event, it has fired once one of them has gone on;
 * until then the driver is asked now and then, because the host may wait too. (A stream of ferry's
 * that waits for the event and writes the number would stay in one of the hardware's few queues as
 * long as the program likes, and delay streams that share it: apart.h.)
 */
#include "gpu/cuda/firing.h"

#include "gpu/cuda/bounce.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/spare.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/word.h"
#include "gpu/device.h"

#define QUERY_FIRST_NS ((int64_t)1000000)
#define QUERY_LAST_NS ((int64_t)64000000)
#define ASK_NS ((int64_t)2000)         /* between two questions about an event without a word... */
#define ASK_LOOKS 64                   /* ...or so many looks, and... */
#define ASK_RELIED_NS ((int64_t)50000) /* ...if a stream of ferry's waits for it */
#define WORDS_MISSED_MAX                                                                           \
    8 /* events in a row that fired a millisecond or more ahead of a word that did not come */

static fry_cuda_device *device_of(const fry_cuda_stream *stream)
{
    return fry_cuda_device_of(stream->stream.device);
}

/* The mark of the oldest operation that has not fired; 0: none yet. */
static uint64_t head_mark(const fry_cuda_stream *stream)
{
    return fry_load_acquire(&stream->marked) > stream->fired
               ? fry_load_relaxed(&fry_cuda_slot_of(stream, stream->fired + 1)->mark)
               : 0;
}

/* Whether a question about the head is due; then the next one comes later. */
static bool head_is_old(fry_cuda_stream *stream)
{
    int64_t now_ns = fry_clock_now_ns(device_of(stream)->backend->options.clock);
    if (stream->query_ns == 0)
        stream->query_interval_ns = QUERY_FIRST_NS;
    else if (now_ns < stream->query_ns)
        return false;
    else if (stream->query_interval_ns < QUERY_LAST_NS)
        stream->query_interval_ns *= 2;
    bool is_old = stream->query_ns != 0;
    stream->query_ns = now_ns + stream->query_interval_ns;
    return is_old;
}

/* Events that a stream of ferry's waited for have fired when that stream has gone on. */
static void teach(fry_cuda_stream *stream)
{
    for (uint32_t left = stream->untaught; left != 0; left &= left - 1) {
        size_t at = (size_t)__builtin_ctz(left);
        if (stream->waited[at].by > stream->fired)
            continue;
        stream->untaught &= ~(1U << at);
        fry_cuda_stream *other = fry_cuda_stream_of(stream->waited[at].stream);
        if (other->learned < stream->waited[at].sequence)
            other->learned = stream->waited[at].sequence;
    }
}

/*
 * Whether to ask about the program's oldest event now: not at the first look, because a copy behind
 * it may be about to come, and not at each. Looks count too, in case the engine's clock stands
 * still.
 */
static bool is_to_be_asked(fry_cuda_stream *stream)
{
    bool is_relied_on = stream->fired < stream->relied;
    int64_t now_ns = fry_clock_now_ns(device_of(stream)->backend->options.clock);
    stream->unasked_looks++;
    if (now_ns < stream->ask_ns && (is_relied_on || stream->unasked_looks < ASK_LOOKS))
        return false;
    bool is_new = stream->ask_ns == 0;
    stream->ask_ns = now_ns + (is_relied_on ? ASK_RELIED_NS : ASK_NS);
    stream->unasked_looks = 0;
    return !is_new;
}

static CUresult query_mark(fry_cuda_stream *stream, uint64_t mark)
{
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter_to_ask(&scope, device_of(stream)->context);
    const char *call = "cuCtxPushCurrent";
    if (result == CUDA_SUCCESS) {
        call = "cuEventQuery";
        FRY_CUDA_ISSUE(result, fry_cuda.cuEventQuery(fry_cuda_event_of(stream, mark)));
    }
    fry_cuda_leave(&scope);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        fry_cuda_lose(device_of(stream), result, call);
    return result;
}

/* The head stays: if a device is lost, it may wait for that one for ever. */
static void sever_if_old(fry_cuda_stream *stream)
{
    if (fry_load_relaxed(&device_of(stream)->backend->has_lost) != 0 && head_is_old(stream))
        fry_cuda_sever(stream);
}

static uint64_t ask_events(fry_cuda_stream *stream)
{
    uint64_t mark = head_mark(stream), fired = stream->fired;
    while (mark != 0 && query_mark(stream, mark) == CUDA_SUCCESS) {
        fired = mark;
        mark = fry_load_acquire(&stream->marked) > fired
                   ? fry_load_relaxed(&fry_cuda_slot_of(stream, fired + 1)->mark)
                   : 0;
    }
    if (fired == stream->fired)
        sever_if_old(stream);
    return fired;
}

/* About the head's mark, which has no word. */
static uint64_t ask_head(fry_cuda_stream *stream, uint64_t mark)
{
    int64_t now_ns = fry_clock_now_ns(device_of(stream)->backend->options.clock);
    if (now_ns < stream->ask_ns && ++stream->unasked_looks < ASK_LOOKS)
        return stream->fired;
    stream->ask_ns = now_ns + ASK_NS;
    stream->unasked_looks = 0;
    if (query_mark(stream, mark) == CUDA_SUCCESS)
        return mark;
    sever_if_old(stream);
    return stream->fired;
}

/*
 * The head's event has fired. If the word of the mark before has come by now, words do come; an
 * event may have gone ahead of that word.
 */
static uint64_t believe_event(fry_cuda_stream *stream, uint64_t mark)
{
    uint64_t fired = fry_cuda_word_read(stream, stream->fired);
    if (fired >= mark)
        return fired;
    if (fry_cuda_slot_of(stream, mark)->told_by == FRY_CUDA_TOLD_BY_TELLER) {
        if (++stream->told_missed == WORDS_MISSED_MAX)
            stream->is_telling = false; /* something in its queue holds the teller up */
        return mark;
    }
    if (fry_load_acquire(&stream->words[0]) == (uint32_t)stream->fired)
        stream->words_missed = 0;
    if (++stream->words_missed < WORDS_MISSED_MAX)
        return mark;
    fry_store_relaxed(&stream->is_worded, 0);
    fry_log_line(
        device_of(stream)->backend->options.log, FERRY_LOG_WARNING,
        "%s: a stream's numbers do not arrive in host memory; ferry queries the driver instead",
        stream->stream.device->name);
    return mark;
}

/* About a head whose word has not come: now and then, if it stays. */
static uint64_t ask_if_old(fry_cuda_stream *stream)
{
    uint64_t mark = head_mark(stream);
    if (mark != 0 && fry_cuda_slot_of(stream, mark)->told_by == FRY_CUDA_TOLD_BY_EVENT)
        return ask_head(stream, mark);
    if (mark == 0 || !head_is_old(stream))
        return stream->fired;
    CUresult result = query_mark(stream, mark);
    if (result == CUDA_SUCCESS)
        return believe_event(stream, mark);
    if (result == CUDA_ERROR_NOT_READY)
        fry_cuda_sever(stream);
    return stream->fired;
}

static void advance(fry_cuda_stream *stream, uint64_t fired)
{
    if (stream->stream.kind != FRY_STREAM_OUTSIDE) {
        uint32_t fewer = 0;
        for (uint64_t i = stream->fired + 1; i <= fired; i++) {
            fewer += fry_cuda_slot_of(stream, i)->entries;
            stream->bounce.given += fry_cuda_slot_of(stream, i)->bounced_bytes;
        }
        fry_cuda_stream_add_entries(stream, 0 - fewer);
    }
    stream->query_ns = stream->ask_ns = 0;
    /* Release: a thread that finds an outside stream idle may use its slots for another stream. */
    fry_store_release(&stream->fired, fired);
    teach(stream);
}

static uint64_t ask_program(fry_cuda_stream *stream)
{
    if (stream->learned > stream->fired)
        return stream->learned;
    return is_to_be_asked(stream) ? ask_events(stream) : stream->fired;
}

uint64_t fry_cuda_stream_fired(fry_stream *base, ferry_status *status_p, fry_fault *fault)
{
    fry_cuda_stream *stream = fry_cuda_stream_of(base);
    *status_p = FERRY_OK;
    uint64_t fired = fry_cuda_word_read(stream, stream->fired);
    if (fired != stream->fired)
        stream->words_missed = stream->told_missed = 0;
    else if (fry_load_acquire(&stream->marked) != fired && fry_cuda_dead_by(base) == NULL)
        fired = fry_cuda_stream_is_programs(stream)         ? ask_program(stream)
                : fry_load_relaxed(&stream->is_worded) != 0 ? ask_if_old(stream)
                                                            : ask_events(stream);
    if (fired != stream->fired)
        advance(stream, fired);
    const fry_cuda_device *lost = fry_cuda_dead_by(base);
    if (fry_unlikely(lost != NULL))
        *status_p = fry_cuda_tell_lost(lost, fault);
    return stream->fired;
}

bool fry_cuda_stream_is_idle(fry_cuda_stream *stream)
{
    ferry_status status;
    fry_fault fault;
    uint64_t issued = fry_load_acquire(&stream->stream.issued);
    return fry_cuda_stream_fired(&stream->stream, &status, &fault) == issued &&
           fry_cuda_stream_waits_for_no_word(stream);
}
