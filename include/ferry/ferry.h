/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry: asynchronous transfers between devices as a graph of futures.
 *
 * This header includes all the others. Reading order: types.h, status.h, engine.h, device.h, op.h,
 * future.h, queue.h, scope.h, stats.h, event.h, group.h, message.h, window.h, symmetric.h, trace.h,
 * dump.h, info.h.
 * docs/threading.md has the rules for threads in one place. Unless the comment of a function says
 * otherwise:
 *  - Any thread may call the function, also inside a callback, while the handles that it gets are
 *    valid. An engine and its devices are valid until ferry_engine_release; every other handle is
 *    valid until its own release, which may come after the engine's.
 *  - The function waits for no operation and no callback. It may take a mutex for a moment, and it
 *    may call the engine's allocator.
 *  - The function borrows options, arrays and the handles in them, for the duration of the call.
 *  - Callbacks run on the thread that runs the engine's loop, never inside the function. Callbacks
 *    are waiters, free_fn, an executor's post, hooks, and functions of ferry_call that run on the
 *    loop.
 *  - After ferry_engine_shutdown has succeeded there is no loop. A call that causes a callback
 *    (ferry_future_on_ready, ferry_waiter_remove, ferry_buffer_release, ferry_task_run) then runs
 *    or posts the callback in the calling thread, before it returns. If another thread is running
 *    callbacks at that moment, that thread runs or posts it instead.
 *  - In a child made by fork() the function does nothing. It answers FERRY_E_FORKED, a future that
 *    has failed with FERRY_E_FORKED, NULL, 0 or -1. Functions that only read a handle (poll, error,
 *    id, sizes, names) still answer. A child made inside a callback must not return from the
 *    callback, because it would return into the parent's loop.
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
#include <ferry/notice.h>
#include <ferry/op.h>
#include <ferry/plan.h>
#include <ferry/queue.h>
#include <ferry/reshard.h>
#include <ferry/scope.h>
#include <ferry/stats.h>
#include <ferry/status.h>
#include <ferry/symmetric.h>
#include <ferry/trace.h>
#include <ferry/types.h>
#include <ferry/version.h>
#include <ferry/window.h>

#endif
