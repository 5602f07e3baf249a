/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing model, off by default: how long copies take, and who gets a copy engine; and that what
 * is no copy nor kernel, such as an event, a wait or a number that is written, keeps what stands
 * behind it waiting too. A device has one engine for each direction between it and the host, one to
 * its peers, two on itself. A copy holds one for latency + bytes/bandwidth; of those that are ready
 * the stream with the highest priority is next, then who came first.
 */
#include "tests/emu/driver.h"
#include <sched.h>
#include <time.h>

#define LATENCY_NS 2000
/* As on an H200: of an event or a wait; of a number, ahead of which all is made visible. */
#define BUBBLE_NS 0
#define WRITE_BUBBLE_NS 1900
#define SPIN_NS 60000 /* about what the kernel may be late by: this is not slept but yielded */
#define NAP_NS 2000000

/* About an H200's, in bytes a microsecond. */
static const uint64_t bytes_per_us[EMU_DIRECTIONS] = {
    [EMU_TO_DEVICE] = 55000, [EMU_TO_HOST] = 55000, [EMU_ON_DEVICE] = 2000000,
    [EMU_TO_PEER] = 380000,  [EMU_ON_HOST] = 20000,
};

static void grant(emu_engines *engines)
{
    emu_operation *next;

    while (!emu.engines_held && engines->free > 0 && !TAILQ_EMPTY(&engines->ready)) {
        next = TAILQ_FIRST(&engines->ready);
        TAILQ_REMOVE(&engines->ready, next, ready);
        engines->free--;
        next->has_engine = true;
        pthread_cond_signal(&next->stream->work);
    }
}

/* Nothing of its context begins any more. */
static bool is_over(const emu_operation *operation)
{
    return operation->stream->abandoned || emu_operation_stopped(operation);
}

bool emu_engine_take(emu_operation *operation)
{
    emu_engines *const engines = &operation->stream->context->device->engines[operation->direction];
    emu_operation *other;

    TAILQ_FOREACH(other, &engines->ready, ready) {
        /* A lower number is a higher priority. */
        if (other->stream->priority > operation->stream->priority)
            break;
    }
    if (other != NULL)
        TAILQ_INSERT_BEFORE(other, operation, ready);
    else
        TAILQ_INSERT_TAIL(&engines->ready, operation, ready);
    grant(engines);
    emu.counters.waiting_copies++;
    while (!operation->has_engine && !is_over(operation))
        pthread_cond_wait(&operation->stream->work, &emu.mutex);
    emu.counters.waiting_copies--;
    if (!is_over(operation))
        return true;
    if (operation->has_engine)
        emu_engine_give(operation);
    else
        TAILQ_REMOVE(&engines->ready, operation, ready);
    return false;
}

void emu_engine_give(emu_operation *operation)
{
    emu_engines *const engines = &operation->stream->context->device->engines[operation->direction];

    operation->has_engine = false;
    engines->free++;
    grant(engines);
}

void emu_hold_engines(void)
{
    emu_lock();
    emu.engines_held = true;
    emu_unlock();
}

void emu_release_engines(void)
{
    emu_lock();
    emu.engines_held = false;
    for (int i = 0; i < emu.device_count; i++) {
        for (int direction = 0; direction < EMU_DIRECTIONS; direction++)
            grant(&emu.devices[i].engines[direction]);
    }
    emu_unlock();
}

/* Without the lock. */
static void pass_until(const emu_operation *operation, int64_t end_ns)
{
    int64_t left_ns;

    while ((left_ns = end_ns - emu_now_ns()) > 0 && !emu_operation_stopped(operation)) {
        const int64_t nap_ns = left_ns - SPIN_NS < NAP_NS ? left_ns - SPIN_NS : NAP_NS;

        if (nap_ns <= 0)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
    }
}

void emu_engine_time(const emu_operation *operation, int64_t begun_ns)
{
    pass_until(operation,
               begun_ns + LATENCY_NS +
                   (int64_t)(operation->size_bytes * 1000 / bytes_per_us[operation->direction]));
}

void emu_bubble_time(const emu_operation *operation, int64_t begun_ns)
{
    pass_until(operation, begun_ns + (operation->is_write ? WRITE_BUBBLE_NS : BUBBLE_NS));
}
