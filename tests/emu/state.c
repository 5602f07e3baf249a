/* SPDX-License-Identifier: Apache-2.0 */
/* The one state of the driver: its lock, what begins and ends a call, objects, catches. */
#include "tests/emu/driver.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REMEMBERED_MOST 8192 /* destroyed objects whose use is told from garbage */
#define ENDING_NS 5000000    /* that the driver's end takes if it was at work */

emu_state emu = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .quiet = PTHREAD_COND_INITIALIZER,
    .unlocked = PTHREAD_COND_INITIALIZER,
    .contexts = LIST_HEAD_INITIALIZER(emu.contexts),
    .events = LIST_HEAD_INITIALIZER(emu.events),
};

static bool only_count; /* with the lock */
static uint64_t caught[EMU_CATCH_KINDS];
static _Thread_local bool inside_callback;
static _Thread_local uint64_t thread_number;

void emu_lock(void)
{
    pthread_mutex_lock(&emu.mutex);
}

void emu_unlock(void)
{
    pthread_mutex_unlock(&emu.mutex);
}

void *emu_allocate(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);

    if (memory == NULL) {
        fprintf(stderr, "emu: no memory for the emulator itself\n");
        abort();
    }
    return memory;
}

int64_t emu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t emu_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13; /* xorshift64 of Marsaglia */
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

uint64_t emu_thread_number(void)
{
    static _Atomic(uint64_t) last;

    if (thread_number == 0)
        thread_number = atomic_fetch_add(&last, 1) + 1;
    return thread_number;
}

void emu_thread_in_callback(bool inside)
{
    inside_callback = inside;
}

/* ---- Objects -------------------------------------------------------------------------------- */

static int object_compare(const emu_object *a, const emu_object *b)
{
    return (a > b) - (a < b);
}

static RB_HEAD(object_tree, emu_object) objects = RB_INITIALIZER(&objects);
/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(object_tree, emu_object, entry, object_compare, __attribute__((unused)) static)

static TAILQ_HEAD(, emu_object) remembered = TAILQ_HEAD_INITIALIZER(remembered);
static size_t remembered_count;
static const char *const object_names[EMU_OBJECT_KINDS] = {
    [EMU_OBJECT_CONTEXT] = "context", [EMU_OBJECT_STREAM] = "stream",
    [EMU_OBJECT_EVENT] = "event",     [EMU_OBJECT_POOL] = "memory pool",
    [EMU_OBJECT_MODULE] = "module",   [EMU_OBJECT_FUNCTION] = "function",
    [EMU_OBJECT_GRAPH] = "graph",     [EMU_OBJECT_GRAPH_EXEC] = "instantiated graph",
};

void *emu_object_new(emu_object_kind kind, size_t size_bytes, void (*free_fn)(emu_object *object))
{
    emu_object *object = emu_allocate(size_bytes);

    object->kind = kind;
    object->references = 1;
    object->free_fn = free_fn;
    RB_INSERT(object_tree, &objects, object);
    return object;
}

static emu_object *object_at(emu_object_kind kind, const void *handle)
{
    /* Only its address is compared. */
    const emu_object *const key = handle;
    emu_object *node = RB_ROOT(&objects);

    while (node != NULL && node != key)
        node = key < node ? RB_LEFT(node, entry) : RB_RIGHT(node, entry);
    return node != NULL && node->kind == kind ? node : NULL;
}

void *emu_object_find(emu_object_kind kind, const void *handle)
{
    emu_object *const object = object_at(kind, handle);

    if (object == NULL)
        return NULL;
    if (object->destroyed) {
        emu_catch(EMU_CATCH_MISUSE, "a %s that was destroyed is used", object_names[kind]);
        return NULL;
    }
    return object;
}

bool emu_object_alive(emu_object_kind kind, const void *handle)
{
    const emu_object *const object = object_at(kind, handle);

    return object != NULL && !object->destroyed;
}

void emu_object_destroy(void *handle)
{
    emu_object *const object = handle;

    object->destroyed = true;
    TAILQ_INSERT_TAIL(&remembered, object, remembered); /* keeps the program's reference */
    if (++remembered_count > REMEMBERED_MOST) {
        emu_object *const oldest = TAILQ_FIRST(&remembered);

        TAILQ_REMOVE(&remembered, oldest, remembered);
        remembered_count--;
        emu_object_drop(oldest);
    }
}

void emu_object_hold(void *handle)
{
    emu_object *const object = handle;

    object->references++;
}

void emu_object_drop(void *handle)
{
    emu_object *const object = handle;

    if (--object->references > 0)
        return;
    RB_REMOVE(object_tree, &objects, object);
    if (object->free_fn != NULL)
        object->free_fn(object);
    free(object);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int traits;
} calls[EMU_CALL_COUNT] = {
#define CALL(name, version, traits) {#name, traits},
    EMU_CALLS(CALL)
#undef CALL
};

CUresult emu_enter(emu_call call)
{
    CUresult result = CUDA_SUCCESS;

    emu_lock();
    emu.calls[call]++;
    if (inside_callback) {
        emu_catch(EMU_CATCH_MISUSE, "%s is called in a function that a stream runs",
                  calls[call].name);
        result = CUDA_ERROR_NOT_PERMITTED;
    } else if ((!emu.initialised || emu.forked) && !(calls[call].traits & EMU_CALL_EARLY)) {
        result = CUDA_ERROR_NOT_INITIALIZED;
    } else if (atomic_load(&emu.stopping) && !emu.forked) {
        result = CUDA_ERROR_DEINITIALIZED;
    }
    if (result == CUDA_SUCCESS)
        result = emu_script_result(call);
    if (result == CUDA_SUCCESS && (calls[call].traits & EMU_CALL_UNSAFE))
        result = emu_capture_forbids(call);
    if (result != CUDA_SUCCESS)
        emu_unlock();
    return result;
}

CUresult emu_enter_context(emu_call call, CUcontext *context_p)
{
    CUcontext context;
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    context = emu_context_current();
    if (context == NULL)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (context->object.destroyed || !context->active) {
        emu_catch(EMU_CATCH_MISUSE, "%s with a context that was destroyed", calls[call].name);
        return emu_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    emu_context_pass(context);
    result = emu_context_error(context);
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    *context_p = context;
    return CUDA_SUCCESS;
}

/*
 * What a call on a stream answers in a thread that has no context: an H200 (driver 580, CUDA 13.0)
 * takes the first two and refuses a batch like this. Of the others nobody knows.
 */
static CUresult without_context(emu_call call)
{
    return call == EMU_CALL_cuMemcpyAsync || call == EMU_CALL_cuStreamWriteValue32 ? CUDA_SUCCESS
           : call == EMU_CALL_cuMemcpyBatchAsync ? CUDA_ERROR_INVALID_VALUE
                                                 : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult emu_enter_work(emu_call call, CUstream handle, CUstream *stream_p)
{
    CUresult result = emu_enter_stream(call, handle, stream_p);

    if (result == CUDA_SUCCESS && emu_context_current() == NULL) {
        result = without_context(call);
        if (result != CUDA_SUCCESS)
            (void)emu_leave(result);
    }
    return result;
}

CUresult emu_enter_stream(emu_call call, CUstream handle, CUstream *stream_p)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    result = emu_stream_find(handle, stream_p);
    if (result == CUDA_SUCCESS && emu.locks) {
        emu_context_pass((*stream_p)->context);
        result = emu_stream_find(handle, stream_p); /* the lock was given away */
    }
    if (result == CUDA_SUCCESS && (*stream_p)->legacy)
        result = emu_capture_touch_legacy((*stream_p)->context);
    return result == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(result);
}

CUresult emu_leave(CUresult result)
{
    emu_unlock();
    return result;
}

uint64_t emu_call_count(const char *name)
{
    uint64_t count = 0;

    emu_lock();
    for (int i = 0; i < EMU_CALL_COUNT; i++) {
        if (strcmp(calls[i].name, name) == 0)
            count = emu.calls[i];
    }
    emu_unlock();
    return count;
}

uint64_t emu_call_total(void)
{
    uint64_t total = 0;

    emu_lock();
    for (int i = 0; i < EMU_CALL_COUNT; i++)
        total += emu.calls[i];
    emu_unlock();
    return total;
}

/* ---- Catches -------------------------------------------------------------------------------- */

static const char *const catch_names[EMU_CATCH_KINDS] = {
    [EMU_CATCH_FREED] = "freed",           [EMU_CATCH_UNORDERED] = "unordered",
    [EMU_CATCH_UNRECORDED] = "unrecorded", [EMU_CATCH_CAPTURE] = "capture",
    [EMU_CATCH_MISUSE] = "misuse",
};

void emu_catch(emu_catch_kind kind, const char *format, ...)
{
    char line[512];
    int length = snprintf(line, sizeof line, "emu: caught %s: ", catch_names[kind]);
    va_list args;

    va_start(args, format);
    vsnprintf(line + length, sizeof line - (size_t)length, format, args);
    va_end(args);
    fprintf(stderr, "%s\n", line);
    caught[kind]++;
    emu.counters.caught++;
    if (!only_count)
        abort();
}

uint64_t emu_caught(emu_catch_kind kind)
{
    uint64_t count;

    emu_lock();
    count = kind < EMU_CATCH_KINDS ? caught[kind] : 0;
    emu_unlock();
    return count;
}

void emu_count_catches(bool count)
{
    emu_lock();
    only_count = count;
    emu_unlock();
}

void emu_get_counters(emu_counters *counters)
{
    emu_lock();
    *counters = emu.counters;
    emu_unlock();
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

/*
 * The lock may have been anybody's when the process forked; the child has nobody to give it back. A
 * process that has not called cuInit yet has nothing that a child could not have anew.
 */
static void in_child(void)
{
    pthread_mutex_init(&emu.mutex, NULL);
    emu.forked = emu.initialised;
    emu.stopping = emu.initialised;
}

/* Whether a stream has something that it has not come to. With the lock. */
static bool is_at_work(void)
{
    CUcontext context;
    CUstream stream;

    LIST_FOREACH(context, &emu.contexts, entry) {
        LIST_FOREACH(stream, &context->streams, entry) {
            if (!TAILQ_EMPTY(&stream->queue))
                return true;
        }
    }
    return false;
}

/*
 * The process ends, and the driver before it: calls are refused, nothing more is done, and pinned
 * memory is gone. Other threads of the program may go on meanwhile, and if something stood in a
 * stream they get the time to see that. What works just now ends first.
 */
__attribute__((destructor)) static void stop(void)
{
    bool was_at_work;

    if (emu.forked || !emu.initialised)
        return;
    emu_lock();
    atomic_store(&emu.stopping, true);
    for (int i = 0; i < emu.device_count; i++) {
        while (emu.devices[i].working > 0)
            pthread_cond_wait(&emu.quiet, &emu.mutex);
    }
    was_at_work = is_at_work();
    emu_memory_take_pinned();
    emu_unlock();
    if (was_at_work)
        nanosleep(&(struct timespec){.tv_nsec = ENDING_NS}, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    const char *const mode = getenv("FERRY_EMU_CATCH"), *const of = getenv("FERRY_EMU_VERSION");
    const char *const ipc = getenv("FERRY_EMU_IPC"), *const peers = getenv("FERRY_EMU_PEERS");
    const long version = of != NULL ? strtol(of, NULL, 10) : EMU_VERSION;

    emu.version = version < 1 || version > EMU_VERSION ? EMU_VERSION : (int)version;
    emu.ipc = ipc == NULL || strcmp(ipc, "0") != 0;
    emu.peers = peers == NULL || strcmp(peers, "0") != 0;
    only_count = mode != NULL && strcmp(mode, "count") == 0;
    pthread_atfork(NULL, NULL, in_child);
}
