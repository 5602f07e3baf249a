/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each form of copy is made once, because the driver may load code at its first use. Then the trial
 * puts a *gate* on a main stream: a wait for a number in host memory, with a copy behind it. Each
 * parked stream gets a copy of the same direction, and writes a number when it is done. A number
 * that comes while the gate is shut has passed it: that stream shares no queue with the main one. A
 * stream whose number does not come is tried again with more patience, and in the end counts as
 * sharing: a slow machine costs a stream its use, but nothing hangs. The opposite case (a parked
 * stream that waits delays a main one) needs no trial, because sharing is mutual. Each direction is
 * tried, because a parked stream takes copies of all directions, which have queues of their own.
 *
 * Why nothing hangs. While the gate is shut, a driver call of the trial may wait for a thread of
 * the program that is inside a call that waits for all work on the GPU (one that frees memory), and
 * so for the gate. So a separate thread makes the trial, and the thread that opens the device keeps
 * the gate: it opens a gate that stays shut for GATE_NS, by a store, which nothing can delay. What
 * passes after that proves nothing, so the round is *void* and is made again; after VOID_MOST void
 * rounds the trial counts as refused.
 *
 * If the trial reads a number and then finds the round not void, the gate was shut: the keeper
 * marks the round void before it opens the gate (release), a stream that saw the gate open writes
 * its number after that, and the trial reads the number with acquire before it checks.
 */
#include "gpu/cuda/apart.h"

#include "base/futex.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/pinned.h"
#include "gpu/cuda/thread.h"
#include "gpu/device.h"

#include <limits.h>
#include <time.h>

#define GATE_NS ((int64_t)2000000000)
#define VOID_MOST 3
#define LOOK_NS 20000
#define LAST_NUMBER_NS ((int64_t)1000000000) /* from the gate's opening */
#define LINE_BYTES FRY_CACHE_LINE
#define COPY_BYTES ((size_t)16 << 10) /* the driver may make a smaller copy without the queue */
#define ENDED UINT32_MAX

/* How long the first try and each further try wait for the numbers that should pass the gate. */
static const int64_t patience_ns[] = {5000000, 50000000, 250000000};

typedef struct trial {
    fry_cuda_device *device;
    uint32_t state;  /* atomic; 2n + 1 while the gate of round n is shut, else even; or ENDED */
    uint32_t voided; /* atomic; the round whose gate the keeper opened */
    uint32_t round;
    CUdeviceptr gpu;  /* a place for each stream's copy, and its target within */
    uint64_t apart;   /* bits: the parked streams that have passed all gates so far */
    uint64_t touched; /* bits: the parked streams used in this round */
    bool is_stray;    /* a stream may still touch the memory */
    CUresult result;
    const char *call;
} trial;

/* --- places --- */

/* A line for the gate and each stream's number; for each stream's copy a place in host memory. */
static size_t lines_bytes(const fry_cuda_device *device)
{
    return (1 + FRY_CUDA_DIRECTIONS + device->parked_count) * LINE_BYTES;
}

static size_t copies_bytes(const fry_cuda_device *device)
{
    return (FRY_CUDA_DIRECTIONS + device->parked_count) * COPY_BYTES;
}

static uint32_t *gate_of(const fry_cuda_device *device)
{
    return (uint32_t *)(void *)device->trial.memory;
}

static size_t line_of(const trial *self, const fry_cuda_stream *stream)
{
    return (1 + (size_t)(stream - self->device->streams)) * LINE_BYTES;
}

static uint32_t *number_of(const trial *self, const fry_cuda_stream *stream)
{
    return (uint32_t *)(void *)(self->device->trial.memory + line_of(self, stream));
}

/* --- the gate --- */

static void set_state(trial *self, uint32_t state)
{
    fry_store_seq_cst(&self->state, state);
    fry_futex_wake(&self->state, INT_MAX);
}

static void shut_gate(trial *self)
{
    self->round++;
    set_state(self, 2 * self->round + 1);
}

static void open_gate(trial *self)
{
    fry_store_release(gate_of(self->device), self->round);
    set_state(self, 2 * self->round + 2);
}

static bool is_void(trial *self)
{
    return fry_load_acquire(&self->voided) == self->round;
}

/* Keeps the gate until the trial has ended. On the thread that opens the device. */
static void keep_gate(trial *self)
{
    uint32_t state;
    while ((state = fry_load_acquire(&self->state)) != ENDED) {
        bool is_shut = state % 2 != 0 && fry_load_relaxed(&self->voided) != state / 2;
        int64_t until_ns = fry_clock_monotonic_ns() + GATE_NS;
        fry_futex_wait(&self->state, state, is_shut ? GATE_NS : -1);
        if (!is_shut || fry_load_acquire(&self->state) != state ||
            fry_clock_monotonic_ns() < until_ns)
            continue;
        fry_store_release(&self->voided, state / 2);
        fry_store_release(gate_of(self->device), state / 2);
    }
}

/* --- a round --- */

static CUresult issue_copy(trial *self, fry_cuda_stream *stream, fry_cuda_direction direction)
{
    fry_cuda_device *device = self->device;
    size_t place = (size_t)(stream - device->streams) * COPY_BYTES;
    CUdeviceptr host = device->trial_address + lines_bytes(device) + place;
    CUdeviceptr gpu = self->gpu + place;
    CUdeviceptr dst = direction == FRY_CUDA_FROM_HOST ? gpu
                      : direction == FRY_CUDA_TO_HOST ? host
                                                      : gpu + copies_bytes(device);
    CUdeviceptr src = direction == FRY_CUDA_FROM_HOST ? host : gpu;
    self->call = "cuMemcpyAsync";
    CUresult result = fry_cuda.cuMemcpyAsync(dst, src, COPY_BYTES, stream->native);
    if (result != CUDA_SUCCESS)
        return result;
    self->call = "cuStreamWriteValue32";
    return fry_cuda.cuStreamWriteValue32(stream->native,
                                         device->trial_address + line_of(self, stream), self->round,
                                         CU_STREAM_WRITE_VALUE_DEFAULT);
}

static CUresult issue(trial *self, fry_cuda_direction direction, uint64_t tried)
{
    fry_cuda_device *device = self->device;
    self->call = "cuStreamWaitValue32";
    CUresult result =
        fry_cuda.cuStreamWaitValue32(device->streams[direction].native, device->trial_address,
                                     self->round, CU_STREAM_WAIT_VALUE_GEQ);
    if (result == CUDA_SUCCESS)
        result = issue_copy(self, &device->streams[direction], direction);
    for (uint32_t i = 0; i < device->parked_count && result == CUDA_SUCCESS; i++) {
        if ((tried >> i & 1) == 0)
            continue;
        self->touched |= (uint64_t)1 << i;
        result = issue_copy(self, &fry_cuda_parked(device)[i], direction);
    }
    return result;
}

static uint64_t passed(const trial *self)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < self->device->parked_count; i++) {
        if (fry_load_acquire(number_of(self, &fry_cuda_parked(self->device)[i])) == self->round)
            bits |= (uint64_t)1 << i;
    }
    return bits & self->touched;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* Returns the numbers that come in that time. */
static uint64_t look(const trial *self, int64_t time_ns)
{
    const int64_t until_ns = fry_clock_monotonic_ns() + time_ns;
    uint64_t bits;
    while ((bits = passed(self)) != self->touched && fry_clock_monotonic_ns() < until_ns)
        nap();
    return bits;
}

static bool main_is_done(const trial *self, fry_cuda_direction direction)
{
    const uint32_t *number = number_of(self, &self->device->streams[direction]);
    const int64_t until_ns = fry_clock_monotonic_ns() + LAST_NUMBER_NS;
    while (fry_load_acquire(number) != self->round) {
        if (fry_clock_monotonic_ns() >= until_ns)
            return false;
        nap();
    }
    return true;
}

static bool numbers_come(const trial *self, fry_cuda_direction direction)
{
    return main_is_done(self, direction) && look(self, LAST_NUMBER_NS) == self->touched;
}

/*
 * With the gate open: waits until nothing of the round touches the memory; else sets is_stray. On a
 * machine that is slow to run the streams their numbers are waited for once more when the streams
 * are done: only a number that does not come then is lost.
 */
static void settle(trial *self, fry_cuda_direction direction, bool is_whole)
{
    fry_cuda_device *device = self->device;
    if (is_whole && numbers_come(self, direction))
        return;
    bool is_done = fry_cuda.cuStreamSynchronize(device->streams[direction].native) == CUDA_SUCCESS;
    for (uint32_t i = 0; i < device->parked_count; i++) {
        if (self->touched >> i & 1)
            is_done =
                fry_cuda.cuStreamSynchronize(fry_cuda_parked(device)[i].native) == CUDA_SUCCESS &&
                is_done;
    }
    if (!is_done || (is_whole && !numbers_come(self, direction)))
        self->is_stray = true;
}

/* *passed_p: the streams of `tried` that were seen to pass. */
static CUresult try_once(trial *self, fry_cuda_direction direction, uint64_t tried, int64_t time_ns,
                         uint64_t *passed_p)
{
    self->touched = 0;
    shut_gate(self);
    CUresult result = issue(self, direction, tried);
    *passed_p = result == CUDA_SUCCESS ? look(self, time_ns) : 0;
    if (is_void(self))
        *passed_p = 0;
    open_gate(self);
    settle(self, direction, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS && self->is_stray) {
        self->call = "a number that cuStreamWriteValue32 was to write";
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    return result;
}

/* --- what a driver loads first --- */

static CUresult load_form(trial *self, const char *call, CUresult result)
{
    if (result != CUDA_SUCCESS && !fry_cuda_is_refusal(result))
        self->call = call;
    return result != CUDA_SUCCESS && fry_cuda_is_refusal(result) ? CUDA_SUCCESS : result;
}

/*
 * Makes one copy of each form that ferry uses, in the direction. A driver that loads code waits for
 * all running work: later that would happen with the baton, beside a kernel that waits for the
 * program; during the trial it would wait for the gate. A refusal is reported where it matters.
 */
static CUresult load_direction(trial *self, fry_cuda_direction direction)
{
    CUstream native = self->device->streams[0].native;
    CUdeviceptr host = self->device->trial_address + lines_bytes(self->device);
    CUdeviceptr dst = direction == FRY_CUDA_TO_HOST ? host : self->gpu;
    CUdeviceptr src = direction == FRY_CUDA_FROM_HOST ? host
                      : direction == FRY_CUDA_TO_HOST ? self->gpu
                                                      : self->gpu + COPY_BYTES / 2;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = src,
                          .srcPitch = 2,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = dst,
                          .dstPitch = 2,
                          .WidthInBytes = 1,
                          .Height = 2};
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr dsts[] = {dst, dst + 1}, srcs[] = {src, src + 1};
    size_t sizes[] = {1, 1}, first = 0;
    CUresult result =
        load_form(self, "cuMemcpyAsync", fry_cuda.cuMemcpyAsync(dst, src, COPY_BYTES / 2, native));
    if (result == CUDA_SUCCESS)
        result = load_form(self, "cuMemcpy2DAsync", fry_cuda.cuMemcpy2DAsync(&rows, native));
    if (result == CUDA_SUCCESS && fry_cuda.cuMemcpyBatchAsync != NULL)
        result = load_form(
            self, "cuMemcpyBatchAsync",
            fry_cuda.cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, native));
    return result;
}

/* Makes all forms; nothing of them is left in the stream. */
static CUresult load_forms(trial *self)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < FRY_CUDA_DIRECTIONS && result == CUDA_SUCCESS; i++)
        result = load_direction(self, (fry_cuda_direction)i);
    CUresult waited = fry_cuda.cuStreamSynchronize(self->device->streams[0].native);
    if (waited == CUDA_SUCCESS || result != CUDA_SUCCESS)
        return result;
    /* A wait that was refused once may succeed now. If not, a copy may still be under way. */
    self->is_stray = fry_cuda.cuStreamSynchronize(self->device->streams[0].native) != CUDA_SUCCESS;
    self->call = "cuStreamSynchronize";
    return waited;
}

/* --- the trial --- */

static CUresult try_direction(trial *self, fry_cuda_direction direction)
{
    uint64_t left = self->apart, now;
    size_t again = 0, voids = 0;
    while (left != 0 && again < sizeof patience_ns / sizeof *patience_ns) {
        CUresult result = try_once(self, direction, left, patience_ns[again], &now);
        if (result != CUDA_SUCCESS)
            return result;
        left &= ~now;
        if (!is_void(self)) {
            again++;
        } else if (++voids == VOID_MOST) {
            self->call = "a trial that other threads' calls delayed";
            return CUDA_ERROR_NOT_READY;
        }
    }
    self->apart &= ~left;
    return CUDA_SUCCESS;
}

static void give_memory(const trial *self)
{
    const fry_cuda_memory *memory = &self->device->memory;
    if (self->is_stray)
        return;
    if (memory->pool == NULL)
        (void)fry_cuda.cuMemFree(self->gpu);
    else
        (void)fry_cuda.cuMemFreeAsync(self->gpu, memory->stream);
}

/* In a scope. */
static CUresult try_all(trial *self)
{
    void *gpu = NULL;
    CUresult result = fry_cuda_memory_take(self->device, 2 * copies_bytes(self->device),
                                           FRY_MEMORY_DEFAULT, &gpu, &self->call);
    if (result != CUDA_SUCCESS)
        return result;
    self->gpu = (CUdeviceptr)(uintptr_t)gpu;
    result = load_forms(self);
    for (int i = 0; i < FRY_CUDA_DIRECTIONS && result == CUDA_SUCCESS; i++)
        result = try_direction(self, (fry_cuda_direction)i);
    give_memory(self);
    return result;
}

static void *trial_main(void *arg)
{
    trial *self = arg;
    fry_cuda_scope scope;
    self->call = "cuCtxPushCurrent";
    self->result = fry_cuda_enter(&scope, self->device->context);
    if (self->result == CUDA_SUCCESS)
        self->result = try_all(self);
    fry_cuda_leave(&scope);
    set_state(self, ENDED);
    return NULL;
}

static void run(trial *self)
{
    fry_cuda_device *device = self->device;
    self->result = fry_cuda_pinned_take(&device->trial, lines_bytes(device) + copies_bytes(device),
                                        &self->call);
    if (self->result != CUDA_SUCCESS)
        return;
    self->call = "cuMemHostGetDevicePointer";
    self->result =
        fry_cuda.cuMemHostGetDevicePointer(&device->trial_address, device->trial.memory, 0);
    pthread_t thread;
    if (self->result == CUDA_SUCCESS &&
        fry_cuda_thread_start(&thread, "ferry-cuda-try", trial_main, self)) {
        keep_gate(self);
        (void)pthread_join(thread, NULL);
    } else if (self->result == CUDA_SUCCESS) {
        self->call = "a thread for a trial";
        self->result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (self->is_stray)
        device->trial = (fry_cuda_pinned){0};
}

/* Exchanges native streams; nothing stands in them. */
static void put_to_front(fry_cuda_device *device, uint64_t apart)
{
    fry_cuda_stream *parked = fry_cuda_parked(device);
    for (uint32_t i = 0; i < device->parked_count; i++) {
        if ((apart >> i & 1) == 0)
            continue;
        CUstream native = parked[i].native;
        parked[i].native = parked[device->parked_apart].native;
        parked[device->parked_apart++].native = native;
    }
}

static void tell(fry_cuda_device *device, const trial *self)
{
    const fry_log *log = device->backend->options.log;
    const char *name = device->device.name;
    if (self->result != CUDA_SUCCESS) {
        fry_fault fault;
        (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, self->result, self->call);
        device->parkless = "ferry could not find which streams delay others";
        fry_log_line(log, FERRY_LOG_WARNING,
                     "%s: ferry could not find which streams delay others, so copies behind the "
                     "program's events wait on the host: %s",
                     name, fault.message);
    } else if (device->parked_apart == 0) {
        device->parkless = "each of its parked streams shares a hardware queue with a main stream "
                           "(CUDA_DEVICE_MAX_CONNECTIONS)";
        fry_log_line(log, FERRY_LOG_WARNING,
                     "%s: each parked stream shares a hardware queue with another stream, so "
                     "copies behind the program's events wait on the host; "
                     "CUDA_DEVICE_MAX_CONNECTIONS=32 gives more queues",
                     name);
    } else if (device->parked_apart != device->parked_count) {
        fry_log_line(log, FERRY_LOG_INFO,
                     "%s: %u of %u parked streams share a hardware queue with other streams and "
                     "are not used",
                     name, (unsigned)(device->parked_count - device->parked_apart),
                     (unsigned)device->parked_count);
    }
}

CUresult fry_cuda_apart_try(fry_cuda_device *device, const char **call_p)
{
    trial self = {.device = device, .apart = UINT64_MAX >> (64 - device->parked_count)};
    run(&self);
    if (self.result != CUDA_SUCCESS && self.result != CUDA_ERROR_NOT_READY &&
        !fry_cuda_is_refusal(self.result)) {
        *call_p = self.call;
        return self.result;
    }
    if (self.result == CUDA_SUCCESS)
        put_to_front(device, self.apart);
    tell(device, &self);
    return CUDA_SUCCESS;
}

void fry_cuda_apart_close(fry_cuda_device *device)
{
    if (fry_cuda_lost(device) == CUDA_SUCCESS)
        fry_cuda_pinned_give(&device->trial);
    device->trial = (fry_cuda_pinned){0};
}
