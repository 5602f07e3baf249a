/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: into a stream, through its thread, and waiting for them. */
#include "tests/emu/driver.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

emu_operation *emu_operation_new(emu_operation_kind kind, const char *name, size_t data_bytes)
{
    emu_operation *operation = emu_allocate(sizeof *operation);

    operation->kind = kind;
    operation->name = name;
    operation->entries = 1;
    if (data_bytes > 0)
        operation->data = emu_allocate(data_bytes);
    return operation;
}

/* Room for one more in an array that grows by doubling. */
static void *array_grow(void *array, size_t count, size_t *room, size_t item_bytes)
{
    if (count < *room)
        return array;
    *room = *room == 0 ? 2 : *room * 2;
    array = realloc(array, *room * item_bytes);
    if (array == NULL)
        abort();
    return array;
}

void emu_operation_touches(emu_operation *operation, const void *start, size_t row_bytes,
                           size_t row_count, size_t pitch_bytes, bool write, uint32_t part)
{
    const uintptr_t first = (uintptr_t)start;

    if (row_bytes == 0 || row_count == 0)
        return;
    if (row_count > 1 && pitch_bytes == row_bytes) { /* no gaps: one row */
        row_bytes *= row_count;
        row_count = 1;
    }
    operation->accesses = array_grow(operation->accesses, operation->access_count,
                                     &operation->access_room, sizeof *operation->accesses);
    operation->accesses[operation->access_count++] =
        (emu_access){.start = first,
                     .end = first + (row_count - 1) * pitch_bytes + row_bytes,
                     .row_bytes = row_bytes,
                     .row_count = row_count,
                     .pitch_bytes = pitch_bytes,
                     .write = write,
                     .part = part,
                     .operation = operation};
}

void emu_operation_touches_as(emu_operation *operation, const emu_access *access)
{
    emu_operation_touches(operation, (void *)access->start, access->row_bytes, access->row_count,
                          access->pitch_bytes, access->write, 0);
    operation->accesses[operation->access_count - 1].atomic = access->atomic;
    operation->accesses[operation->access_count - 1].polls = access->polls;
}

void emu_operation_waits(emu_operation *operation, CUstream stream, uint64_t sequence,
                         emu_record *record)
{
    operation->waits = array_grow(operation->waits, operation->wait_count, &operation->wait_room,
                                  sizeof *operation->waits);
    operation->waits[operation->wait_count++] = (emu_wait){stream, sequence, record};
    emu_object_hold(stream);
    if (record != NULL)
        record->references++;
}

void emu_operation_free(emu_operation *operation)
{
    emu_accesses_unlink(operation);
    emu_channel_take_out(operation);
    if (operation->release != NULL)
        operation->release(operation);
    for (size_t i = 0; i < operation->wait_count; i++) {
        emu_object_drop(operation->waits[i].stream);
        if (operation->waits[i].record != NULL)
            emu_record_drop(operation->waits[i].record);
    }
    free(operation->waits);
    free(operation->accesses);
    free(operation->data);
    free(operation);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

bool emu_is_complete(CUstream stream, uint64_t sequence, const emu_record *record)
{
    return stream->abandoned ||
           (stream->completed >= sequence && (record == NULL || !record->never));
}

static void waiter_link(emu_waiter *waiter, CUstream stream, uint64_t sequence)
{
    waiter->sequence = sequence;
    waiter->linked = true;
    LIST_INSERT_HEAD(&stream->waiters, waiter, entry);
}

static void waiter_unlink(emu_waiter *waiter)
{
    if (waiter->linked)
        LIST_REMOVE(waiter, entry);
    waiter->linked = false;
}

CUresult emu_wait_for(CUstream stream, uint64_t sequence, const emu_record *record)
{
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    emu_waiter waiter = {.wake = &wake};
    CUresult result;

    emu_object_hold(stream);
    for (;;) {
        result = stream->abandoned ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                   : emu_context_error(stream->context);
        if (result != CUDA_SUCCESS || emu_is_complete(stream, sequence, record))
            break;
        waiter_link(&waiter, stream, sequence);
        pthread_cond_wait(&wake, &emu.mutex);
        waiter_unlink(&waiter);
    }
    pthread_cond_destroy(&wake);
    emu_object_drop(stream);
    return result;
}

void emu_context_pass(CUcontext context)
{
    while (context->locked_by != 0 && context->locked_by != emu_thread_number())
        pthread_cond_wait(&emu.unlocked, &emu.mutex);
}

bool emu_context_take(CUcontext context)
{
    emu_context_pass(context);
    if (!emu.locks || context->locked_by != 0)
        return false;
    context->locked_by = emu_thread_number();
    return true;
}

void emu_context_give(CUcontext context)
{
    context->locked_by = 0;
    pthread_cond_broadcast(&emu.unlocked);
}

CUresult emu_wait_for_context(CUcontext context)
{
    CUstream stream;
    size_t count = 0;
    emu_wait *waits;
    CUresult result = CUDA_SUCCESS;

    LIST_FOREACH(stream, &context->streams, entry)
        count++;
    waits = emu_allocate((count + 1) * sizeof *waits);
    count = 0;
    LIST_FOREACH(stream, &context->streams, entry) {
        emu_object_hold(stream);
        waits[count++] = (emu_wait){stream, stream->issued, NULL};
    }
    for (size_t i = 0; i < count; i++) {
        if (result == CUDA_SUCCESS)
            result = emu_wait_for(waits[i].stream, waits[i].sequence, NULL);
        emu_object_drop(waits[i].stream);
    }
    free(waits);
    return result;
}

CUresult emu_context_drain(CUcontext context)
{
    const bool has_context = emu_context_take(context);
    const CUresult result = emu_wait_for_context(context);

    if (has_context)
        emu_context_give(context);
    return result;
}

bool emu_context_is_held(CUcontext context)
{
    CUstream stream;
    bool is_any = emu.held;

    LIST_FOREACH(stream, &context->streams, entry)
        is_any |= stream->held || stream->hung;
    return is_any;
}

static void wake_all(CUstream stream)
{
    emu_waiter *waiter;

    if (!TAILQ_EMPTY(&stream->queue)) /* an empty one's thread is woken by what comes, or its end */
        pthread_cond_signal(&stream->work);
    LIST_FOREACH(waiter, &stream->waiters, entry)
        pthread_cond_signal(waiter->wake);
}

void emu_streams_wake(const emu_device *device)
{
    CUcontext context;
    CUstream stream;

    LIST_FOREACH(context, &emu.contexts, entry) {
        if (device != NULL && context->device != device)
            continue;
        LIST_FOREACH(stream, &context->streams, entry)
            wake_all(stream);
    }
}

bool emu_operation_stopped(const emu_operation *operation)
{
    const CUcontext context = operation->stream->context;

    return atomic_load(&emu.stopping) || atomic_load(&context->error) != CUDA_SUCCESS ||
           atomic_load(&context->device->lost) != CUDA_SUCCESS;
}

/* ---- A stream's thread ---------------------------------------------------------------------- */

/* Whether the head may begin. If it waits for another stream, its waiter stands there. */
static bool may_begin(CUstream stream, const emu_operation *operation)
{
    if (emu.stopping || emu.held || stream->held || stream->hung || stream->abandoned ||
        emu_context_error(stream->context) != CUDA_SUCCESS)
        return false;
    for (size_t i = 0; i < operation->wait_count; i++) {
        const emu_wait *const wait = &operation->waits[i];

        if (emu_is_complete(wait->stream, wait->sequence, wait->record))
            continue;
        waiter_link(&stream->awaits, wait->stream, wait->sequence);
        return false;
    }
    return emu_channel_lets(operation) && (operation->gate == NULL || operation->gate(operation));
}

/* Now and then gives others the time that this operation would have begun with. */
static void delay(CUstream stream, emu_operation *operation)
{
    const uint64_t luck = emu_random(&stream->random);
    struct timespec pause = {.tv_nsec = (long)(luck >> 8) % 200000};

    operation->delayed = true;
    if (luck % 4 > 1)
        return;
    emu_unlock();
    if (luck % 16 == 1)
        nanosleep(&pause, NULL);
    else
        sched_yield();
    emu_lock();
}

/* Takes the head out of its stream; `stream` may be gone afterwards. */
static void retire(CUstream stream, emu_operation *operation)
{
    emu_waiter *waiter;

    TAILQ_REMOVE(&stream->queue, operation, entry);
    emu_operation_free(operation);
    LIST_FOREACH(waiter, &stream->waiters, entry) {
        if (waiter->sequence <= stream->completed)
            pthread_cond_signal(waiter->wake);
    }
}

/* Without the lock. */
static CUresult run_timed(emu_operation *operation)
{
    const CUresult result = operation->run != NULL ? operation->run(operation) : CUDA_SUCCESS;

    if (operation->has_engine)
        emu_engine_time(operation, operation->begun_ns);
    else if (emu.timing && operation->kind == EMU_OPERATION_MARK)
        emu_bubble_time(operation, operation->begun_ns);
    return result;
}

static CUresult run(CUstream stream, emu_operation *operation)
{
    emu_device *const device = stream->context->device;
    /* A function of the program's may itself be what loses the device, and waits for this count. */
    const bool counts = operation->kind != EMU_OPERATION_HOST;
    CUresult result;

    if (emu.timing && operation->kind == EMU_OPERATION_COPY && !emu_engine_take(operation))
        return CUDA_SUCCESS;
    stream->running = operation;
    device->working += counts;
    operation->begun_ns = emu.timing ? emu_now_ns() : 0;
    emu_unlock();
    result = run_timed(operation);
    emu_lock();
    device->working -= counts;
    stream->running = NULL;
    if (operation->has_engine)
        emu_engine_give(operation);
    pthread_cond_broadcast(&emu.quiet);
    return result;
}

static void run_head(CUstream stream, emu_operation *operation)
{
    CUresult result = operation->fails_with;

    emu_channel_begin(operation);
    if (operation->begin != NULL)
        operation->begin(operation);
    if (result == CUDA_SUCCESS && operation->run != NULL &&
        emu_check_allocated(operation, stream, true))
        result = run(stream, operation);
    else if (result == CUDA_SUCCESS && emu.timing && operation->kind == EMU_OPERATION_MARK)
        result = run(stream, operation);
    if (emu_context_error(stream->context) != CUDA_SUCCESS || emu.stopping || stream->hung ||
        stream->abandoned)
        return; /* it never completes */
    if (result != CUDA_SUCCESS) {
        emu_context_fail(stream->context, result);
        return;
    }
    stream->completed = operation->sequence;
    stream->entries -= operation->entries;
    emu.counters.operations++;
    if (operation->complete != NULL)
        operation->complete(operation);
    retire(stream, operation);
}

/* What can't begin any more goes, once nobody has a handle to ask for it. */
static bool is_over(CUstream stream)
{
    return stream->object.destroyed && (TAILQ_EMPTY(&stream->queue) || stream->abandoned ||
                                        emu_context_error(stream->context) != CUDA_SUCCESS);
}

static void *thread_main(void *arg)
{
    const CUstream stream = arg;
    char name[16]; /* as long as names of threads may be */

    snprintf(name, sizeof name, "emu-stream-%u", (unsigned)(stream->id % 10000));
    pthread_setname_np(pthread_self(), name);
    emu_lock();
    while (!is_over(stream)) {
        emu_operation *const operation = TAILQ_FIRST(&stream->queue);

        if (operation != NULL && may_begin(stream, operation)) {
            if (emu.seed != 0 && !operation->delayed)
                delay(stream, operation); /* and what may begin is looked at anew */
            else
                run_head(stream, operation);
            continue;
        }
        pthread_cond_wait(&stream->work, &emu.mutex);
        waiter_unlink(&stream->awaits);
    }
    while (!TAILQ_EMPTY(&stream->queue)) {
        emu_operation *const operation = TAILQ_FIRST(&stream->queue);

        TAILQ_REMOVE(&stream->queue, operation, entry);
        emu_operation_free(operation);
    }
    stream->has_thread = false;
    emu_stream_unlist(stream);
    emu_object_drop(stream);
    emu_unlock();
    return NULL;
}

static CUresult thread_start(CUstream stream)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;
    int failed;

    if (stream->has_thread)
        return CUDA_SUCCESS;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&thread, &attributes, thread_main, stream);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->has_thread = true;
    emu_object_hold(stream);
    return CUDA_SUCCESS;
}

/* ---- The door into a stream ----------------------------------------------------------------- */

/* Until when the call has to wait for room. False: it need not. */
static bool room_comes_with(CUstream stream, const emu_operation *operation, emu_wait *until)
{
    emu_channel *const channel = emu_channel_for(stream, operation);
    const emu_operation *oldest;

    if (channel == NULL) {
        *until = (emu_wait){stream, stream->completed + 1, NULL};
        return stream->entries + operation->entries > EMU_STREAM_DEPTH;
    }
    oldest = emu_channel_full(channel, operation->entries);
    if (oldest == NULL)
        return false;
    *until = (emu_wait){oldest->stream, oldest->sequence, NULL};
    return true;
}

static CUresult wait_for_room(CUstream stream, const emu_operation *operation)
{
    CUresult result = emu_context_error(stream->context);
    bool counted = false, has_context = false;
    emu_wait until;

    while (result == CUDA_SUCCESS && room_comes_with(stream, operation, &until)) {
        emu.counters.blocked += !counted;
        counted = true;
        has_context = has_context || emu_context_take(stream->context);
        result = emu_wait_for(until.stream, until.sequence, NULL);
        if (stream->object.destroyed)
            result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (has_context)
        emu_context_give(stream->context);
    return result;
}

/* `operation` begins behind all that stands in `other`, unless that follows already. */
static void stand_behind(emu_operation *operation, CUstream stream, CUstream other)
{
    if (other == stream || emu_ordered(other, other->issued, stream))
        return;
    emu_operation_waits(operation, other, other->issued, NULL);
}

/* The order that the legacy stream and the blocking streams of a context have among each other. */
static void legacy_order(CUstream stream, emu_operation *operation)
{
    CUstream other;

    if (stream->legacy) {
        LIST_FOREACH(other, &stream->context->streams, entry) {
            if (!(other->flags & CU_STREAM_NON_BLOCKING))
                stand_behind(operation, stream, other);
        }
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING) && stream->context->legacy != NULL) {
        stand_behind(operation, stream, stream->context->legacy);
    }
}

static void script_operation(emu_operation *operation)
{
    if (emu.fail_operation_in == 0 || (operation->run == NULL && operation->access_count == 0))
        return;
    if (--emu.fail_operation_in == 0)
        operation->fails_with = emu.fail_operation_with;
}

CUresult emu_enqueue(CUstream stream, emu_operation *operation)
{
    emu_channel *channel;
    CUresult result;

    if (stream->capture != NULL)
        return emu_capture_operation(stream, operation);
    emu_object_hold(stream);
    result = wait_for_room(stream, operation);
    if (result == CUDA_SUCCESS)
        result = thread_start(stream);
    if (result != CUDA_SUCCESS) {
        emu_operation_free(operation);
        emu_object_drop(stream);
        return result;
    }
    operation->stream = stream;
    legacy_order(stream, operation);
    for (size_t i = 0; i < operation->wait_count; i++) {
        const emu_wait *const wait = &operation->waits[i];

        emu_order(stream, wait->stream, wait->sequence,
                  wait->record != NULL ? wait->record->clock : wait->stream->clock);
    }
    operation->sequence = ++stream->issued;
    stream->entries += operation->entries;
    script_operation(operation);
    if (!emu_check_allocated(operation, stream, false)) {
        operation->run = NULL; /* caught and only counted: it must not crash the process either */
        operation->complete = NULL;
    }
    emu_check_order(operation);
    emu_accesses_link(operation);
    TAILQ_INSERT_TAIL(&stream->queue, operation, entry);
    channel = emu_channel_for(stream, operation);
    if (channel != NULL)
        emu_channel_put(channel, operation);
    pthread_cond_signal(&stream->work);
    emu_object_drop(stream);
    return CUDA_SUCCESS;
}
