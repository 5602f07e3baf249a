/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a record is a place in a stream, and waits mean the record that they found. */
#include "tests/emu/driver.h"
#include <stdlib.h>

void emu_record_drop(emu_record *record)
{
    if (--record->references > 0)
        return;
    emu_object_drop(record->stream);
    emu_clock_drop(record->clock);
    if (record->shared != NULL)
        emu_ipc_event_drop(record->shared);
    free(record);
}

static void event_free(emu_object *object)
{
    const CUevent event = (CUevent)object;

    if (event->record != NULL)
        emu_record_drop(event->record);
    if (event->shared != NULL)
        emu_ipc_event_drop(event->shared);
    emu_object_drop(event->context);
}

void emu_event_destroy(CUevent event)
{
    if (event->capture != NULL)
        emu_capture_forget_event(event);
    if (event->record != NULL)
        emu_record_drop(event->record);
    event->record = NULL;
    if (event->shared != NULL)
        emu_ipc_event_close(event->shared);
    LIST_REMOVE(event, entry);
    emu.counters.live_events--;
    emu_object_destroy(event);
}

CUevent emu_event_new(CUcontext context, unsigned flags)
{
    CUevent event = emu_object_new(EMU_OBJECT_EVENT, sizeof *event, event_free);

    event->context = context;
    emu_object_hold(context);
    event->flags = flags;
    LIST_INSERT_HEAD(&emu.events, event, entry);
    emu.counters.live_events++;
    return event;
}

CUresult cuEventCreate(CUevent *event_p, unsigned int flags)
{
    CUcontext context;
    emu_ipc_event *shared = NULL;
    CUresult result = emu_enter_context(EMU_CALL_cuEventCreate, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (event_p == NULL || (flags & ~7u) ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags & CU_EVENT_INTERPROCESS) {
        if (!emu.ipc)
            return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
        shared = emu_ipc_event_new();
        if (shared == NULL)
            return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *event_p = emu_event_new(context, flags);
    (*event_p)->shared = shared;
    return emu_leave(CUDA_SUCCESS);
}

/* Of the live event, or the error that its context has. */
static CUresult enter_event(emu_call call, CUevent handle, CUevent *event_p)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    *event_p = emu_object_find(EMU_OBJECT_EVENT, handle);
    if (*event_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    result = emu_context_error((*event_p)->context);
    return result == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(result);
}

CUresult cuEventDestroy(CUevent handle)
{
    CUevent event;
    CUresult result = emu_enter(EMU_CALL_cuEventDestroy);

    if (result != CUDA_SUCCESS)
        return result;
    event = emu_object_find(EMU_OBJECT_EVENT, handle);
    if (event == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    result = emu_context_error(event->context);
    emu_event_destroy(event);
    return emu_leave(result);
}

static void record_complete(emu_operation *operation)
{
    emu_record *const record = *(emu_record **)operation->data;

    /* Its bubble comes behind it. */
    record->time_ns = operation->begun_ns != 0 ? operation->begun_ns : emu_now_ns();
    if (record->shared != NULL && !record->never)
        emu_ipc_event_end(record->shared, record->recording);
}

static void record_release(emu_operation *operation)
{
    emu_record_drop(*(emu_record **)operation->data);
}

/*
 * The record's place is known once the operation stands in its stream, and emu_enqueue may give the
 * lock away before that; so the event gets the record afterwards, which is also when the call ends.
 */
static CUresult record(CUevent event, CUstream stream)
{
    emu_operation *operation =
        emu_operation_new(EMU_OPERATION_MARK, "cuEventRecord", sizeof(emu_record *));
    emu_record *place = emu_allocate(sizeof *place);
    CUresult result;

    place->references = 2; /* the operation's, this function's */
    place->stream = stream;
    place->never = event->never;
    emu_object_hold(stream);
    emu_object_hold(event);
    *(emu_record **)operation->data = place;
    operation->complete = record_complete;
    operation->release = record_release;
    result = emu_enqueue(stream, operation);
    if (result == CUDA_SUCCESS && !event->object.destroyed) {
        place->sequence = stream->issued; /* the lock was not given away since */
        place->clock = emu_clock_hold(stream->clock);
        if (event->shared != NULL) {
            place->shared = emu_ipc_event_hold(event->shared);
            place->recording = event->recording = emu_ipc_event_begin(event->shared);
        }
        if (event->capture != NULL)
            emu_capture_forget_event(event);
        if (event->record != NULL)
            emu_record_drop(event->record);
        event->record = place;
    } else {
        emu_record_drop(place);
    }
    emu_object_drop(event);
    return result;
}

static CUresult event_record(emu_call call, CUevent handle, CUstream stream_handle, unsigned flags)
{
    CUevent event;
    CUstream stream;
    CUresult result = emu_enter_stream(call, stream_handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    event = emu_object_find(EMU_OBJECT_EVENT, handle);
    if (event == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags == CU_EVENT_RECORD_EXTERNAL && stream->capture != NULL)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED); /* event nodes of graphs are not emulated */
    if (flags != 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (event->context != stream->context) {
        emu_catch(EMU_CATCH_MISUSE, "an event is recorded on a stream of another context");
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (stream->capture != NULL)
        return emu_leave(emu_capture_record(stream, event));
    return emu_leave(record(event, stream));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return event_record(EMU_CALL_cuEventRecord, event, stream, 0);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    return event_record(EMU_CALL_cuEventRecordWithFlags, event, stream, flags);
}

/* Whether it was another process that recorded it last. */
static bool is_elsewhere(CUevent event)
{
    return event->shared != NULL && emu_ipc_event_last(event->shared) != event->recording;
}

static void catch_unrecorded(const char *what)
{
    emu_catch(EMU_CATCH_UNRECORDED, "%s of an event that was never recorded", what);
}

CUresult cuEventQuery(CUevent handle)
{
    CUevent event;
    CUresult result = enter_event(EMU_CALL_cuEventQuery, handle, &event);

    if (result != CUDA_SUCCESS)
        return result;
    if (event->capture != NULL)
        return emu_leave(emu_capture_touch_event(event));
    if (is_elsewhere(event))
        return emu_leave(emu_ipc_event_has_fired(event->shared, emu_ipc_event_last(event->shared))
                             ? CUDA_SUCCESS
                             : CUDA_ERROR_NOT_READY);
    if (event->record == NULL) {
        catch_unrecorded("query");
        return emu_leave(CUDA_SUCCESS);
    }
    result = emu_context_error(event->record->stream->context);
    if (result == CUDA_SUCCESS &&
        !emu_is_complete(event->record->stream, event->record->sequence, event->record))
        result = CUDA_ERROR_NOT_READY;
    return emu_leave(result);
}

CUresult cuEventSynchronize(CUevent handle)
{
    CUevent event;
    emu_record *place;
    CUresult result = enter_event(EMU_CALL_cuEventSynchronize, handle, &event);

    if (result != CUDA_SUCCESS)
        return result;
    if (event->capture != NULL)
        return emu_leave(emu_capture_touch_event(event));
    if (is_elsewhere(event))
        return emu_leave(emu_ipc_event_synchronize(event));
    place = event->record;
    if (place == NULL) {
        catch_unrecorded("synchronisation");
        return emu_leave(CUDA_SUCCESS);
    }
    place->references++;
    result = emu_wait_for(place->stream, place->sequence, place);
    emu_record_drop(place);
    return emu_leave(result);
}

CUresult cuEventElapsedTime(float *milliseconds_p, CUevent start_handle, CUevent end_handle)
{
    CUevent start, end;
    CUresult result = enter_event(EMU_CALL_cuEventElapsedTime, start_handle, &start);

    if (result != CUDA_SUCCESS)
        return result;
    end = emu_object_find(EMU_OBJECT_EVENT, end_handle);
    if (milliseconds_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (end == NULL || end->context != start->context || start->record == NULL ||
        end->record == NULL || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!emu_is_complete(start->record->stream, start->record->sequence, start->record) ||
        !emu_is_complete(end->record->stream, end->record->sequence, end->record))
        return emu_leave(CUDA_ERROR_NOT_READY);
    *milliseconds_p = (float)((double)(end->record->time_ns - start->record->time_ns) / 1e6);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
    CUstream stream;
    CUevent event;
    emu_operation *operation;
    CUresult result = emu_enter_stream(EMU_CALL_cuStreamWaitEvent, stream_handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    event = emu_object_find(EMU_OBJECT_EVENT, handle);
    if (event == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags == CU_EVENT_WAIT_EXTERNAL && stream->capture != NULL)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (flags != 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture != NULL || event->capture != NULL)
        return emu_leave(emu_capture_wait(stream, event));
    if (is_elsewhere(event)) {
        operation = emu_ipc_event_wait(event->shared, emu_ipc_event_last(event->shared));
        return emu_leave(emu_enqueue(stream, operation));
    }
    if (event->record == NULL) {
        catch_unrecorded("a stream's wait");
        return emu_leave(CUDA_SUCCESS);
    }
    operation = emu_operation_new(EMU_OPERATION_MARK, "cuStreamWaitEvent", 0);
    emu_operation_waits(operation, event->record->stream, event->record->sequence, event->record);
    return emu_leave(emu_enqueue(stream, operation));
}
