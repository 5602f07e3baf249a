/* SPDX-License-Identifier: Apache-2.0 */
/* What tests do to the emulator, by call or from the environment. */
#include "tests/emu/driver.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static unsigned holds; /* with the lock */

void emu_hold_locked(void)
{
    holds++;
    emu.held = true;
}

void emu_release_locked(void)
{
    if (holds > 0 && --holds == 0) {
        emu.held = false;
        emu_streams_wake(NULL);
    }
}

void emu_hold(void)
{
    emu_lock();
    emu_hold_locked();
    emu_unlock();
}

void emu_release(void)
{
    emu_lock();
    emu_release_locked();
    emu_unlock();
}

bool emu_stream_is_next(CUstream stream)
{
    const emu_operation *const head = TAILQ_FIRST(&stream->queue);

    if (stream->running != NULL || head == NULL || emu.held || stream->held || stream->hung ||
        emu_context_error(stream->context) != CUDA_SUCCESS)
        return false;
    for (size_t i = 0; i < head->wait_count; i++) {
        const emu_wait *const wait = &head->waits[i];

        if (!emu_is_complete(wait->stream, wait->sequence, wait->record))
            return false;
    }
    return emu_channel_lets(head);
}

/* Whether it has something to do that nothing keeps it from. With the lock. */
static bool is_busy(CUstream stream)
{
    const emu_operation *const head = TAILQ_FIRST(&stream->queue);

    if (stream->running != NULL)
        return stream->running->stands == NULL || !stream->running->stands(stream->running);
    return emu_stream_is_next(stream) && (head->gate == NULL || head->gate(head));
}

static bool is_any_busy(void)
{
    const uint64_t steps = emu_outside_steps();
    CUcontext context;
    CUstream stream;

    LIST_FOREACH(context, &emu.contexts, entry) {
        LIST_FOREACH(stream, &context->streams, entry) {
            if (is_busy(stream))
                return true;
        }
    }
    /* A step of one may be what another, that has been looked at, has stood for. */
    return emu_outside_is_busy() || steps != emu_outside_steps();
}

uint64_t emu_settle(void)
{
    uint64_t operations;

    emu_lock();
    while (is_any_busy() || emu_has_late_words()) {
        emu_unlock();
        sched_yield();
        emu_lock();
    }
    operations = emu.counters.operations;
    emu_unlock();
    return operations;
}

static void with_stream(CUstream handle, void (*change)(CUstream stream))
{
    CUstream stream;

    emu_lock();
    if (emu_stream_find(handle, &stream) == CUDA_SUCCESS) {
        change(stream);
        emu_streams_wake(NULL); /* others may have stood behind it for a slot */
    }
    emu_unlock();
}

static void hold(CUstream stream)
{
    stream->held = true;
}

static void release(CUstream stream)
{
    stream->held = false;
}

static void hang(CUstream stream)
{
    stream->hung = true;
}

void emu_hold_stream(CUstream stream)
{
    with_stream(stream, hold);
}

void emu_release_stream(CUstream stream)
{
    with_stream(stream, release);
}

void emu_hang_stream(CUstream stream)
{
    with_stream(stream, hang);
}

void emu_never_fire(CUevent handle)
{
    CUevent event;

    emu_lock();
    event = emu_object_find(EMU_OBJECT_EVENT, handle);
    if (event != NULL) {
        event->never = true;
        if (event->record != NULL)
            event->record->never = true;
    }
    emu_unlock();
}
