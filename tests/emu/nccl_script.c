/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/nccl_script.h"

#include "tests/emu/emu.h"
#include "tests/emu/emu_nccl.h"
#include "tests/emu/nccl_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef EMU_NCCL_VERSION
#define EMU_NCCL_VERSION 22803
#endif
#define DELAY_NS 100000

typedef struct plan {
    bool is_set;
    unsigned in; /* calls until the one that fails; 0: all fail */
    ncclResult_t result;
} plan;

/* All with the lock. */
static plan plans[EMU_NCCL_CALL_COUNT];
static int64_t delay_ns = DELAY_NS;
static unsigned resident_most, kernel_fails_in;
static ncclResult_t kernel_fails_with;
static int version = EMU_NCCL_VERSION;

static const char *const names[EMU_NCCL_CALL_COUNT] = {
#define NAME(name) #name,
    EMU_NCCL_CALLS(NAME)
#undef NAME
};

static ncclResult_t take_result(plan *plan)
{
    if (!plan->is_set || (plan->in > 0 && --plan->in > 0))
        return ncclSuccess;
    /* The last of a countdown; one that was 0 from the beginning stays. */
    return plan->result;
}

ncclResult_t emu_nccl_enter(emu_nccl_call call)
{
    plan *const plan = &plans[call];
    ncclResult_t result;

    emu_outside_lock();
    const bool is_once = plan->in > 0;
    result = take_result(plan);
    if (result != ncclSuccess && is_once)
        plan->is_set = false;
    if (result != ncclSuccess) {
        (void)emu_nccl_error(NULL, result, "%s fails as it was told to", names[call]);
        emu_outside_unlock();
    }
    return result;
}

ncclResult_t emu_nccl_leave(ncclResult_t result)
{
    emu_outside_unlock();
    return result;
}

unsigned emu_nccl_resident_most(void)
{
    return resident_most;
}

ncclResult_t emu_nccl_kernel_error(void)
{
    if (kernel_fails_in == 0 || --kernel_fails_in > 0)
        return ncclSuccess;
    return kernel_fails_with;
}

int64_t emu_nccl_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool emu_nccl_is_delayed(int64_t since_ns)
{
    return !emu_outside_is_ending() && (delay_ns < 0 || emu_nccl_now_ns() < since_ns + delay_ns);
}

bool emu_nccl_is_held(void)
{
    return delay_ns < 0;
}

/* ---- What tests call ------------------------------------------------------------------------ */

void emu_nccl_resident(unsigned most)
{
    emu_outside_lock();
    resident_most = most;
    emu_outside_wake();
    emu_outside_unlock();
}

void emu_nccl_delay(int64_t new_ns)
{
    emu_outside_lock();
    delay_ns = new_ns;
    emu_outside_unlock();
}

unsigned emu_nccl_standing(void)
{
    unsigned kernels;

    (void)emu_settle();
    emu_outside_lock();
    kernels = emu_nccl_comms_kernels();
    emu_outside_unlock();
    return kernels;
}

ncclResult_t emu_nccl_fail_call(const char *name, unsigned nth, ncclResult_t result)
{
    ncclResult_t found = ncclInvalidArgument;

    emu_outside_lock();
    for (int i = 0; i < EMU_NCCL_CALL_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            plans[i] = (plan){result != ncclSuccess, nth, result};
            found = ncclSuccess;
        }
    }
    emu_outside_unlock();
    return found;
}

void emu_nccl_fail_kernel(unsigned nth, ncclResult_t result)
{
    emu_outside_lock();
    kernel_fails_in = nth;
    kernel_fails_with = result;
    emu_outside_unlock();
}

/* ---- The environment ------------------------------------------------------------------------ */

/* Commands of others are the driver's to complain of. */
static void command(const char *text)
{
    char name[64];
    unsigned nth, result;
    long long us;

    if (sscanf(text, " fail nccl%59s %u %u", name, &nth, &result) == 3) {
        memmove(name + strlen("nccl"), name, strlen(name) + 1);
        memcpy(name, "nccl", strlen("nccl"));
        if (emu_nccl_fail_call(name, nth, (ncclResult_t)result) != ncclSuccess)
            (void)fprintf(stderr, "emu: FERRY_EMU_SCRIPT: not understood: %s\n", text);
    } else if (sscanf(text, " nccl_error %u %u", &nth, &result) == 2) {
        emu_nccl_fail_kernel(nth, (ncclResult_t)result);
    } else if (sscanf(text, " nccl_delay %lld", &us) == 1) {
        emu_nccl_delay(us * 1000);
    }
}

static void read_script(void)
{
    const char *const script = getenv("FERRY_EMU_SCRIPT");
    char *copy, *rest, *text;

    copy = script != NULL ? strdup(script) : NULL;
    rest = copy;
    while (copy != NULL && (text = strsep(&rest, ";")) != NULL)
        command(text);
    free(copy);
}

__attribute__((constructor)) static void begin(void)
{
    const char *const of = getenv("FERRY_EMU_NCCL_VERSION");
    const char *const most = getenv("FERRY_EMU_NCCL_RESIDENT");

    if (of != NULL)
        version = (int)strtol(of, NULL, 10);
    if (most != NULL)
        resident_most = (unsigned)strtoul(most, NULL, 10);
    read_script();
    emu_outside_set_busy(emu_nccl_comms_are_busy);
}

/* ---- What NCCL says of itself --------------------------------------------------------------- */

ncclResult_t ncclGetVersion(int *version_p)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclGetVersion);

    if (result != ncclSuccess)
        return result;
    if (version_p == NULL)
        return emu_nccl_leave(emu_nccl_error(NULL, ncclInvalidArgument, "no place for it"));
    *version_p = version;
    return emu_nccl_leave(ncclSuccess);
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [ncclInternalError] = "internal error - please report this issue to the NCCL developers",
        [ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };

    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}
