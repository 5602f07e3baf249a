/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture, as cuda.h (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode) and the
 * programming guide have it. A capture is the streams in it: the one it began on, and those that
 * joined it by waiting for an event that was recorded in it. What they are given becomes nodes. A
 * call that can't be part of it gives an error and invalidates it: until it is ended, its streams
 * and events give errors, and its end gives no graph.
 */
#include "tests/emu/graph.h"

#include <stdlib.h>

typedef struct capture {
    LIST_ENTRY(capture) entry;
    unsigned references; /* of its streams and events, and one until it has ended */
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread; /* the one that began it */
    bool invalid;
    bool ended;
    emu_nodes *nodes; /* NULL once it has ended */
    LIST_HEAD(, captured_stream) streams;
    size_t slots; /* given out */
} capture;

/* A stream's part in a capture: its `capture`. */
typedef struct captured_stream {
    LIST_ENTRY(captured_stream) entry;
    capture *capture; /* a reference */
    CUstream stream;
    size_t slot;
    bool joined;         /* the capture did not begin here */
    emu_frontier before; /* what is ordered before the next node */
} captured_stream;

/* What an event that was recorded in a capture says: its `capture`. */
typedef struct captured_event {
    capture *capture; /* a reference */
    emu_frontier before;
} captured_event;

static LIST_HEAD(, capture) captures = LIST_HEAD_INITIALIZER(captures); /* those under way */
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static const char *const call_names[EMU_CALL_COUNT] = {
#define CALL(name, version, traits) #name,
    EMU_CALLS(CALL)
#undef CALL
};

static void drop(capture *capture)
{
    if (--capture->references > 0)
        return;
    free(capture);
}

/* ---- Streams in a capture ------------------------------------------------------------------- */

static captured_stream *join(capture *capture, CUstream stream, bool joined)
{
    captured_stream *part = emu_allocate(sizeof(*part));
    part->capture = capture;
    capture->references++;
    part->stream = stream;
    part->slot = capture->slots++;
    part->joined = joined;
    LIST_INSERT_HEAD(&capture->streams, part, entry);
    stream->capture = part;
    return part;
}

static void part_with(captured_stream *part)
{
    LIST_REMOVE(part, entry);
    part->stream->capture = NULL;
    emu_frontier_free(&part->before);
    drop(part->capture);
    free(part);
}

/* Takes all streams out; `capture` may be gone afterwards. */
static void end(capture *capture)
{
    captured_stream *part;
    captured_stream *following;
    LIST_REMOVE(capture, entry);
    capture->ended = true;
    if (capture->nodes != NULL)
        emu_nodes_drop(capture->nodes);
    capture->nodes = NULL;
    LIST_FOREACH_SAFE(part, &capture->streams, entry, following)
        part_with(part);
    drop(capture);
}

/* ---- What the driver asks ------------------------------------------------------------------- */

CUresult emu_capture_operation(CUstream stream, emu_operation *operation)
{
    captured_stream *part = stream->capture;
    if (part->capture->invalid) {
        emu_operation_free(operation);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    emu_nodes_add(part->capture->nodes, stream, operation, part->slot, &part->before);
    emu_frontier_set(&part->before, part->slot, emu_frontier_get(&part->before, part->slot) + 1);
    emu.counters.captured++;
    emu.counters.captured_joined += part->joined;
    return CUDA_SUCCESS;
}

CUresult emu_capture_record(CUstream stream, CUevent event)
{
    captured_stream *part = stream->capture;
    if (part->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->capture != NULL)
        emu_capture_forget_event(event);
    captured_event *recorded = emu_allocate(sizeof(*recorded));
    recorded->capture = part->capture;
    part->capture->references++;
    emu_frontier_join(&recorded->before, &part->before);
    event->capture = recorded;
    return CUDA_SUCCESS;
}

/* A stream under capture waits for what was not captured. */
static CUresult wait_for_outside(captured_stream *part)
{
    if (part->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    part->capture->invalid = true;
    emu_catch(EMU_CATCH_CAPTURE,
              "a stream that is captured waits for an event that was recorded outside of it");
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

/* A stream that is not captured waits for a captured event, and so joins. */
static CUresult wait_from_outside(CUstream stream, captured_event *recorded)
{
    if (recorded->capture->ended) {
        emu_catch(EMU_CATCH_CAPTURE, "a stream waits for an event of a capture that has ended");
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (recorded->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->legacy) {
        recorded->capture->invalid = true;
        emu_catch(EMU_CATCH_CAPTURE, "the legacy stream waits for a captured event");
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    captured_stream *part = join(recorded->capture, stream, true);
    emu_frontier_join(&part->before, &recorded->before);
    emu.counters.capture_joins++;
    return CUDA_SUCCESS;
}

CUresult emu_capture_wait(CUstream stream, CUevent event)
{
    captured_stream *part = stream->capture;
    captured_event *recorded = event->capture;
    if (recorded == NULL)
        return wait_for_outside(part);
    if (part == NULL)
        return wait_from_outside(stream, recorded);
    if (recorded->capture != part->capture) {
        part->capture->invalid = true;
        recorded->capture->invalid = true;
        emu_catch(EMU_CATCH_CAPTURE, "a stream that is captured waits for an event of %s capture",
                  recorded->capture->ended ? "an ended" : "another");
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (part->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    emu_frontier_join(&part->before, &recorded->before);
    return CUDA_SUCCESS;
}

/* Whether one of the capture's streams is the context's. */
static bool is_in(const capture *capture, CUcontext context)
{
    const captured_stream *part;
    LIST_FOREACH(part, &capture->streams, entry) {
        if (part->stream->context == context)
            return true;
    }
    return false;
}

/* Whether the capture keeps this thread from the call. */
static bool forbids(const capture *capture, emu_call call, uint64_t thread)
{
    /* This one waits for the captured streams themselves, whatever the modes. */
    if (call == EMU_CALL_cuCtxSynchronize && is_in(capture, emu_context_current()))
        return true;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == thread)
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult emu_capture_forbids(emu_call call)
{
    uint64_t thread = emu_thread_number();
    bool forbidden = false;
    bool other = false; /* thread's capture */
    capture *capture;
    LIST_FOREACH(capture, &captures, entry) {
        if (!forbids(capture, call, thread))
            continue;
        capture->invalid = true;
        forbidden = true;
        other = capture->thread != thread;
    }
    if (!forbidden)
        return CUDA_SUCCESS;
    emu_catch(EMU_CATCH_CAPTURE, "%s is called while %s captures", call_names[call],
              other ? "another thread" : "the thread");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult emu_capture_touch_stream(CUstream stream)
{
    captured_stream *part = stream->capture;
    if (part->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    part->capture->invalid = true;
    emu_catch(EMU_CATCH_CAPTURE, "a stream that is captured is queried or waited for");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult emu_capture_touch_event(CUevent event)
{
    captured_event *recorded = event->capture;
    recorded->capture->invalid = true;
    emu_catch(EMU_CATCH_CAPTURE,
              "an event that was recorded in a capture is queried or waited for");
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* The first capture that a blocking stream of the context is in, or NULL. */
static capture *blocking_capture(CUcontext context)
{
    capture *capture;
    const captured_stream *part;
    LIST_FOREACH(capture, &captures, entry) {
        LIST_FOREACH(part, &capture->streams, entry) {
            if (part->stream->context == context &&
                (part->stream->flags & CU_STREAM_NON_BLOCKING) == 0)
                return capture;
        }
    }
    return NULL;
}

CUresult emu_capture_touch_legacy(CUcontext context)
{
    capture *capture = blocking_capture(context);
    if (capture == NULL)
        return CUDA_SUCCESS;
    capture->invalid = true;
    emu_catch(EMU_CATCH_CAPTURE,
              "the legacy stream is used while a stream that it waits for is captured");
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

void emu_capture_forget_stream(CUstream stream)
{
    captured_stream *part = stream->capture;
    capture *capture = part->capture;
    emu_catch(EMU_CATCH_CAPTURE, "a stream is destroyed that is captured");
    capture->invalid = true;
    if (part->joined)
        part_with(part);
    else
        end(capture); /* nobody can any more */
}

void emu_capture_forget_event(CUevent event)
{
    captured_event *recorded = event->capture;
    event->capture = NULL;
    emu_frontier_free(&recorded->before);
    drop(recorded->capture);
    free(recorded);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult result = emu_enter(EMU_CALL_cuThreadExchangeStreamCaptureMode);
    if (result != CUDA_SUCCESS)
        return result;
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
    CUstream stream;
    CUresult result = emu_enter(EMU_CALL_cuStreamBeginCapture);
    if (result != CUDA_SUCCESS)
        return result;
    result = emu_stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->legacy)
        return emu_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture != NULL)
        return emu_leave(CUDA_ERROR_ILLEGAL_STATE);
    capture *capture = emu_allocate(sizeof(*capture));
    capture->references = 1;
    capture->id = ++emu.numbers;
    capture->mode = mode;
    capture->thread = emu_thread_number();
    capture->nodes = emu_nodes_new();
    LIST_INIT(&capture->streams);
    LIST_INSERT_HEAD(&captures, capture, entry);
    (void)join(capture, stream, false);
    return emu_leave(CUDA_SUCCESS);
}

/* Whether the stream has all nodes of all streams before it. */
static bool is_joined(const captured_stream *origin)
{
    const emu_nodes *nodes = origin->capture->nodes;
    for (size_t i = 0; i < nodes->count; i++) {
        if (emu_frontier_get(&origin->before, nodes->nodes[i].slot) < nodes->nodes[i].position)
            return false;
    }
    return true;
}

static CUresult end_capture(captured_stream *part, CUgraph *graph_p)
{
    capture *capture = part->capture;
    if (part->joined) {
        capture->invalid = true;
        emu_catch(EMU_CATCH_CAPTURE, "a capture is ended on a stream that it did not begin on");
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != emu_thread_number()) {
        emu_catch(EMU_CATCH_CAPTURE, "a capture is ended in another thread than began it");
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    CUresult result = CUDA_SUCCESS;
    if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!is_joined(part)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        emu_catch(EMU_CATCH_CAPTURE, "a capture is ended with work that no stream waits for");
    } else {
        *graph_p = emu_graph_new(capture->nodes);
        capture->nodes = NULL;
    }
    end(capture);
    return result;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph_p)
{
    CUstream stream;
    CUresult result = emu_enter(EMU_CALL_cuStreamEndCapture);
    if (result != CUDA_SUCCESS)
        return result;
    if (graph_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *graph_p = NULL;
    result = emu_stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    if (stream->capture == NULL)
        return emu_leave(CUDA_ERROR_ILLEGAL_STATE);
    return emu_leave(end_capture(stream->capture, graph_p));
}

/* What the stream's capture is, without touching it. *part_p is NULL if there is none. */
static CUresult look(emu_call call, CUstream handle, CUstreamCaptureStatus *status_p,
                     captured_stream **part_p)
{
    CUstream stream;
    CUresult result = emu_enter(call);
    if (result != CUDA_SUCCESS)
        return result;
    if (status_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    result = emu_stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && stream->legacy && blocking_capture(stream->context) != NULL)
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    *part_p = stream->capture;
    *status_p = *part_p == NULL               ? CU_STREAM_CAPTURE_STATUS_NONE
                : (*part_p)->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status_p)
{
    captured_stream *part;
    CUresult result = look(EMU_CALL_cuStreamIsCapturing, handle, status_p, &part);
    return result == CUDA_SUCCESS ? emu_leave(CUDA_SUCCESS) : result;
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status_p, cuuint64_t *id_p,
                                CUgraph *graph_p, const CUgraphNode **dependencies_p,
                                const CUgraphEdgeData **edges_p, size_t *dependency_count_p)
{
    captured_stream *part;
    CUresult result = look(EMU_CALL_cuStreamGetCaptureInfo, handle, status_p, &part);
    if (result != CUDA_SUCCESS)
        return result;
    /* The graph is not one before the capture has ended; handles of nodes there are none. */
    if (part != NULL && (graph_p != NULL || dependencies_p != NULL || edges_p != NULL ||
                         dependency_count_p != NULL))
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (part != NULL && id_p != NULL)
        *id_p = part->capture->id;
    return emu_leave(CUDA_SUCCESS);
}
