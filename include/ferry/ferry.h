/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry: asynchronous transfers between devices as a graph of futures.
 *
 * This header includes all the others. Reading order: types.h, status.h, engine.h, device.h, op.h,
 * future.h, trace.h, dump.h, info.h; docs/threading.md has it all in one place. Unless a prototype
 * says otherwise:
 *  - any thread may call it, also inside a callback, while the handles it is given are valid: an
 *    engine and its devices until ferry_engine_release, everything else until its own release,
 *    which may come after the engine's;
 *  - it waits for no operation and no callback. It may take a mutex for a moment, and the engine's
 *    allocator may be called;
 *  - pointers to options and arrays are borrowed during the call, and so are the handles in them;
 *  - callbacks (waiters, free_fn, an executor's post, hooks, functions of ferry_call that have no
 *    executor of their own) run on the thread that runs the engine's loop, never inside the call;
 *  - once ferry_engine_shutdown has succeeded there is no loop: what still causes a callback
 *    (ferry_future_on_ready, ferry_waiter_remove, ferry_buffer_release, ferry_task_run) runs it in
 *    the calling thread, inside the call, or posts it from there, unless another thread is at it
 *    and takes it along;
 *  - in a child made by fork() it answers FERRY_E_FORKED (or a future failed with it, or NULL, 0,
 *    -1) and does nothing. What only looks at a handle (poll, error, id, sizes, names) still
 *    answers. A child made inside a callback must not return from it, into the parent's loop.
 */
#ifndef FERRY_FERRY_H
#define FERRY_FERRY_H

#include <ferry/device.h>
#include <ferry/dump.h>
#include <ferry/engine.h>
#include <ferry/event.h>
#include <ferry/future.h>
#include <ferry/group.h>
#include <ferry/info.h>
#include <ferry/message.h>
#include <ferry/op.h>
#include <ferry/status.h>
#include <ferry/trace.h>
#include <ferry/types.h>
#include <ferry/version.h>

#endif
