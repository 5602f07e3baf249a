/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outside events: they order ferry's operations after work on a program's own GPU streams, and that
 * work after ferry's operations. Native streams and events are the backend's: with CUDA
 * cudaStream_t and cudaEvent_t (or CUstream and CUevent, which are the same types).
 *
 * Any thread may call the three functions, also in a callback of ferry, but not in a function that
 * a CUDA stream runs (docs/threading.md). They preserve the thread's current device, its last CUDA
 * error and its capture mode. A stream that is being captured is refused, because a future resolves
 * once and a graph replays the work many times; the capture itself goes on undamaged.
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
 * A future for the work that is on a stream now. ferry records an event of its own on the stream,
 * and the future resolves FERRY_OK when that event has fired. Name the future in `after` of
 * operations, or in ferry_buffer_define if the stream's work writes a span. Copies that depend on
 * the future are issued at once and wait on the device.
 *  device         the stream's device. The stream may belong to another context of the same GPU
 *                 than ferry's
 *  native_stream  NULL: the legacy default stream of the device. Borrowed during the call; the
 *                 program may destroy the stream afterwards
 * The future can be cancelled; it is quiet when the event has fired. Never NULL; one reference for
 * the caller. Fails at once with FERRY_E_INVALID (a NULL device, a stream of another GPU),
 * FERRY_E_UNSUPPORTED (a device without native streams), FERRY_E_CAPTURE, FERRY_E_AGAIN (64 streams
 * of the device have unfired events, or this stream has 256; ferry_engine_writable does not cover
 * these limits), FERRY_E_NO_MEMORY, FERRY_E_SHUTDOWN, FERRY_E_FORKED. Fails at once or later with
 * FERRY_E_DEVICE and the driver's error code.
 */
FERRY_API ferry_future *ferry_event_record(ferry_device *device, void *native_stream);

/*
 * A future for the latest recording of the program's event: recording the event again does not
 * affect the future. An event that was never recorded counts as fired, as with CUDA, and ferry
 * can't detect that. ferry_event_record does not have this problem.
 *  device         the device of the stream that the event was recorded on
 *  native_event   borrowed during the call; not an interprocess event
 *  native_stream  the stream that the event was recorded on, or NULL if it is not known. Events of
 *                 one stream must be wrapped in the order of their recording, because they wait
 *                 behind each other. With NULL each event takes one of 32 places of the device, so
 *                 FERRY_E_AGAIN comes sooner
 * Otherwise like ferry_event_record. Also fails with FERRY_E_CAPTURE if the event was recorded in a
 * capture. Wrapping such an event without native_stream during the capture breaks the capture, as
 * any query of the event by CUDA does.
 */
FERRY_API ferry_future *ferry_event_wrap(ferry_device *device, void *native_event,
                                         void *native_stream);

/*
 * Makes the program's stream wait, on the device, for an operation: work that the program launches
 * on the stream from now on begins after the operation has ended. The wait carries no failure: if
 * the operation fails, the stream goes on, and only the future tells. A cancelled operation may end
 * without having written.
 *  future         a copy of a device with native streams, an event, or a receive into the memory of
 *                 such a device. Any other future once it is quiet: then there is nothing to wait
 *                 for. Nearly all resolved futures are quiet
 *  device         the stream's device; it may differ from the operation's
 *  native_stream  NULL: the legacy default stream of the device; borrowed during the call
 * Returns
 *  - FERRY_OK: the stream waits, or the operation has ended and there is nothing to wait for. In
 *    the latter case check ferry_future_poll: if the operation failed before it began, it waited
 *    for no other operation, and earlier operations may still use its memory.
 *  - FERRY_E_NOT_ISSUED: the operation is not in a stream yet. It waits for something on the host,
 *    for room in its stream or, rarely, for a thread that works on the graph (this call waits 0.1
 *    ms for that thread). A receive: its last bytes have not come yet. Wait for
 *    ferry_future_issued, or chain on it, then call again.
 *  - FERRY_E_UNSUPPORTED: no device can wait for this future; wait for it on the host. Also for a
 *    receive that failed before its last bytes came.
 *  - FERRY_E_INVALID; FERRY_E_CAPTURE; FERRY_E_DEVICE (logged with the driver's error code);
 *    FERRY_E_SHUTDOWN if the shutdown has begun and the operation has not ended; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_future_stream_wait(ferry_future *future, ferry_device *device,
                                                void *native_stream);

#ifdef __cplusplus
}
#endif
#endif
