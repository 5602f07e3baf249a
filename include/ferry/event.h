/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outside events: what a program's own GPU streams do before ferry's operations, and after them.
 * Native streams and events are the backend's: with CUDA cudaStream_t and cudaEvent_t (or CUstream
 * and CUevent, which are the same).
 *
 * All three may be called from any thread, also in a callback of ferry's, but not in a function
 * that a CUDA stream runs (docs/threading.md). They leave the thread's current device, its last
 * CUDA error and its capture mode as they were. A stream that is being captured is refused, and its
 * capture goes on unharmed: what a graph replays can't be waited for once.
 */
#ifndef FERRY_EVENT_H
#define FERRY_EVENT_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A future for what the stream holds now: records an event of ferry's own on it and resolves
 * FERRY_OK when it has fired. Name it in `after` of operations, or in ferry_buffer_define when the
 * stream's work writes a span: copies that depend on it are issued at once and wait on the device.
 *  device         whose stream it is; it may be of another context than ferry's, of the same GPU
 *  native_stream  NULL: the legacy default stream of the device. Borrowed during the call: it may
 *                 be destroyed afterwards
 * The future can be cancelled; it is quiet when the event has fired. Never NULL; one reference for
 * the caller. Fails at once: FERRY_E_INVALID (NULL, a stream of another GPU), FERRY_E_UNSUPPORTED
 * (a device without native streams), FERRY_E_CAPTURE, FERRY_E_AGAIN (64 streams of the device have
 * unfired events, or this one has 256: ferry_engine_writable does not tell when not),
 * FERRY_E_NO_MEMORY, FERRY_E_SHUTDOWN, FERRY_E_FORKED; and with the driver's own number
 * FERRY_E_DEVICE, also later.
 */
FERRY_API ferry_future *ferry_event_record(ferry_device *device, void *native_stream);

/*
 * A future for an event that the program has recorded, as it is now: recording it anew changes
 * nothing. An event that was never recorded counts as fired, as it does with CUDA, and ferry can't
 * tell: ferry_event_record has no such trap.
 *  device         the one whose stream it was recorded on
 *  native_event   borrowed during the call. Without interprocess use
 *  native_stream  where it was recorded; events of one stream are then to be wrapped in the order
 *                 they were recorded, as they wait behind each other. NULL if that is not known:
 *                 each takes one of 32 places of the device, and FERRY_E_AGAIN comes sooner
 * Otherwise like ferry_event_record; FERRY_E_CAPTURE also for an event that was recorded in a
 * capture. Wrapping one while the capture goes on breaks it, as asking CUDA about it does, unless
 * native_stream is given.
 */
FERRY_API ferry_future *ferry_event_wrap(ferry_device *device, void *native_event,
                                         void *native_stream);

/*
 * Makes the program's stream wait, on the device, for an operation: what is launched on it from now
 * on begins after it. It carries no failure: if the operation fails, the stream goes on, and only
 * the future tells. The operation stays ferry's: cancelled on its way it may never have written.
 *  future         a copy of a device with native streams, or an event; any other once it is quiet,
 *                 as nearly all are that have resolved: then there is nothing to wait for
 *  device         whose stream it is; it need not be the operation's
 *  native_stream  NULL: the legacy default stream of the device; borrowed during the call
 * Returns FERRY_OK: the stream waits, or there is nothing to wait for, as the operation is over.
 * How it ended ferry_future_poll can then tell: one that failed before it began has waited for
 * nobody, so operations before it may still be at its memory;
 * FERRY_E_NOT_ISSUED: it does not stand in a stream yet: it waits for something on the host, for
 * room in its stream, or, seldom, for a thread that works on the graph (which this call gives a
 * tenth of a millisecond). Wait for ferry_future_issued, or chain on it, and call again;
 * FERRY_E_UNSUPPORTED: no device can wait for this, wait for it on the host; FERRY_E_INVALID;
 * FERRY_E_CAPTURE; FERRY_E_DEVICE (logged with the driver's number); FERRY_E_SHUTDOWN for what is
 * not over once the shutdown began; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_future_stream_wait(ferry_future *future, ferry_device *device,
                                                void *native_stream);

#ifdef __cplusplus
}
#endif
#endif
