/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that is held, the watch-dog that lets it go, and threads beside the one that asks. */
#include "bench/probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define QUEUED_NS INT64_C(10000000)
#define LAUNCHES_MOST 128 /* in flight, so that launching never waits for room */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t armed;
    bool has_thread;
    bool is_held;
    int64_t deadline_ns;
    uint32_t *flag; /* pinned; a held kernel waits until it is `round` */
    uint32_t *begun;
    uint32_t round;
} hold = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* With the mutex. */
static void let_go(void)
{
    hold.is_held = false;
    __atomic_store_n(hold.flag, hold.round, __ATOMIC_RELEASE);
}

/* Calls nothing of CUDA: what it is to end may be a call that keeps all others out. */
static void *watch(void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&hold.mutex);
    for (;;) {
        struct timespec until = {.tv_sec = hold.deadline_ns / 1000000000,
                                 .tv_nsec = hold.deadline_ns % 1000000000};
        if (!hold.is_held)
            (void)pthread_cond_wait(&hold.armed, &hold.mutex);
        else if (bench_now_ns() >= hold.deadline_ns)
            let_go();
        else
            (void)pthread_cond_timedwait(&hold.armed, &hold.mutex, &until);
    }
    return NULL;
}

static void start_thread(void *(*function)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) != 0)
        bench_fail("cannot start a thread");
    (void)pthread_detach(thread);
}

static void open_hold(void)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&hold.armed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    hold.flag = probe_pinned(sizeof *hold.flag);
    hold.begun = probe_pinned(sizeof *hold.begun);
    start_thread(watch);
    hold.has_thread = true;
}

void probe_hold(CUstream stream)
{
    if (!hold.has_thread)
        open_hold();
    uint32_t round = ++hold.round;
    PROBE_CALL(cuLaunchKernel, gpu.wait_flag, 1, 1, 1, 1, 1, 1, 0, stream,
               ((void *[]){&hold.flag, &round}), NULL);
    (void)pthread_mutex_lock(&hold.mutex);
    hold.is_held = true;
    hold.deadline_ns = bench_now_ns() + PROBE_HOLD_NS;
    (void)pthread_cond_signal(&hold.armed);
    (void)pthread_mutex_unlock(&hold.mutex);
}

void probe_hold_running(CUstream stream)
{
    if (!hold.has_thread)
        open_hold();
    probe_fill(probe_address(hold.begun), hold.round + 1, stream);
    probe_hold(stream);
    while (probe_word(hold.begun) != hold.round)
        (void)sched_yield();
}

bool probe_hold_stands(void)
{
    (void)pthread_mutex_lock(&hold.mutex);
    bool stands = hold.is_held;
    (void)pthread_mutex_unlock(&hold.mutex);
    return stands;
}

bool probe_hold_let_go(void)
{
    (void)pthread_mutex_lock(&hold.mutex);
    bool stood = hold.is_held;
    if (stood)
        let_go();
    (void)pthread_mutex_unlock(&hold.mutex);
    return stood;
}

bool probe_hold_end(void)
{
    bool stood = probe_hold_let_go();
    PROBE_CALL(cuCtxSynchronize);
    return stood;
}

/* ---- another thread ---- */

static struct {
    _Atomic bool is_wanted;
    _Atomic bool is_at_work;
    _Atomic int64_t began_ns; /* of the call it is in; 0: in none */
    _Atomic int64_t longest_ns;
    const char *_Atomic call; /* that it is in */
    const char *_Atomic longest_call;
} other;

static void begin_call(const char *call)
{
    other.call = call;
    other.began_ns = bench_now_ns();
}

static void end_call(CUresult result)
{
    int64_t took_ns = bench_now_ns() - other.began_ns;
    other.began_ns = 0;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        probe_check(other.call, result);
    if (took_ns > other.longest_ns) {
        other.longest_ns = took_ns;
        other.longest_call = other.call;
    }
}

/*
 * A copy and an event are in flight once, so that no room is used up; should they stand behind what
 * is held, as they share its queue, now and then others come behind them.
 */
static void *call_always(void *unused)
{
    int64_t queued_ns = 0;
    CUevent made;
    (void)unused;
    PROBE_CALL(cuCtxSetCurrent, gpu.context);
    CUstream stream = probe_stream(0);
    CUevent event = probe_event(CU_EVENT_DISABLE_TIMING);
    probe_ends ends = probe_ends_make(PROBE_H2D, 64);
    PROBE_CALL(cuEventRecord, event, stream);
    for (;;) {
        other.is_at_work = other.is_wanted;
        if (!other.is_wanted) {
            (void)sched_yield();
            continue;
        }
        begin_call("cuEventQuery");
        CUresult result = driver.cuEventQuery(event);
        end_call(result);
        begin_call("cuEventCreate");
        end_call(driver.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
        begin_call("cuEventDestroy");
        end_call(driver.cuEventDestroy(made));
        if (result == CUDA_ERROR_NOT_READY && bench_now_ns() - queued_ns < QUEUED_NS)
            continue;
        queued_ns = bench_now_ns();
        begin_call("cuMemcpyAsync");
        end_call(driver.cuMemcpyAsync(ends.dst, ends.src, ends.size_bytes, stream));
        begin_call("cuEventRecord");
        end_call(driver.cuEventRecord(event, stream));
    }
    return NULL;
}

void probe_other_open(void)
{
    const char *call;
    start_thread(call_always);
    probe_other_begin();
    (void)probe_other_end(&call);
}

void probe_other_begin(void)
{
    other.longest_ns = 0;
    other.longest_call = "none";
    other.is_wanted = true;
    while (!other.is_at_work)
        (void)sched_yield();
}

int64_t probe_other_end(const char **call_p)
{
    int64_t began_ns = other.began_ns;
    int64_t so_far_ns = began_ns != 0 ? bench_now_ns() - began_ns : 0;
    other.is_wanted = false;
    *call_p = so_far_ns > other.longest_ns ? other.call : other.longest_call;
    int64_t longest_ns = so_far_ns > other.longest_ns ? so_far_ns : other.longest_ns;
    while (other.is_at_work)
        (void)sched_yield();
    return longest_ns;
}

static void *launch_always(void *unused)
{
    (void)unused;
    PROBE_CALL(cuCtxSetCurrent, gpu.context);
    CUstream stream = probe_stream(0);
    CUdeviceptr word = probe_memory(sizeof(uint32_t));
    for (uint32_t i = 1;; i++) {
        probe_fill(word, i, stream);
        if (i % LAUNCHES_MOST == 0)
            PROBE_CALL(cuStreamSynchronize, stream);
    }
    return NULL;
}

void probe_launch_always(void)
{
    start_thread(launch_always);
}
