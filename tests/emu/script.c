/* SPDX-License-Identifier: Apache-2.0 */
/* Scripted errors, and what the environment says. */
#include "tests/emu/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is to become of the calls of a function. */
typedef struct plan {
    bool set;
    unsigned in; /* calls until the one that fails; 0: all fail */
    CUresult result;
} plan;

static plan plans[EMU_CALL_COUNT];

static const char *const names[EMU_CALL_COUNT] = {
#define NAME(name, version, traits) #name,
    EMU_CALLS(NAME)
#undef NAME
};

/* Of emu_hold_between: which call comes next, and what it does; EMU_CALL_COUNT: none. */
static struct {
    emu_call from, to;
} between = {EMU_CALL_COUNT, EMU_CALL_COUNT};

static void hold_between(emu_call call)
{
    if (call == between.from) {
        between.from = EMU_CALL_COUNT;
        emu_hold_locked();
    } else if (call == between.to && between.from == EMU_CALL_COUNT) {
        between.to = EMU_CALL_COUNT;
        emu_release_locked();
    }
}

CUresult emu_script_result(emu_call call)
{
    plan *const plan = &plans[call];

    hold_between(call);
    if (!plan->set)
        return CUDA_SUCCESS;
    if (plan->in == 0)
        return plan->result;
    if (--plan->in > 0)
        return CUDA_SUCCESS;
    plan->set = false;
    return plan->result;
}

/* EMU_CALL_COUNT: there is no such function. */
static emu_call call_named(const char *name)
{
    int i = 0;

    while (i < EMU_CALL_COUNT && strcmp(names[i], name) != 0)
        i++;
    return (emu_call)i;
}

CUresult emu_hold_between(const char *from, const char *to)
{
    const emu_call first = call_named(from), second = call_named(to);

    if (first == EMU_CALL_COUNT || second == EMU_CALL_COUNT)
        return CUDA_ERROR_NOT_FOUND;
    emu_lock();
    between.from = first;
    between.to = second;
    emu_unlock();
    return CUDA_SUCCESS;
}

static CUresult fail_call(const char *name, unsigned nth, CUresult result)
{
    const emu_call call = call_named(name);

    if (call == EMU_CALL_COUNT)
        return CUDA_ERROR_NOT_FOUND;
    plans[call] = (plan){result != CUDA_SUCCESS, nth, result};
    return CUDA_SUCCESS;
}

CUresult emu_fail_call(const char *name, unsigned nth, CUresult result)
{
    CUresult found;

    emu_lock();
    found = fail_call(name, nth, result);
    emu_unlock();
    return found;
}

static void fail_operation(unsigned nth, CUresult result)
{
    emu.fail_operation_in = nth;
    emu.fail_operation_with = result;
}

void emu_fail_operation(unsigned nth, CUresult result)
{
    emu_lock();
    fail_operation(nth, result);
    emu_unlock();
}

/* What works just now ends first; then nothing of the device's touches memory. */
static CUresult lose_device(int ordinal, CUresult result)
{
    emu_device *device;
    CUcontext context;

    if (ordinal < 0 || ordinal >= EMU_DEVICES_MOST || result == CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    device = &emu.devices[ordinal];
    device->lost = result;
    LIST_FOREACH(context, &emu.contexts, entry) {
        if (context->device == device)
            emu_context_fail(context, result);
    }
    while (device->working > 0)
        pthread_cond_wait(&emu.quiet, &emu.mutex);
    return CUDA_SUCCESS;
}

CUresult emu_lose_device(int ordinal, CUresult result)
{
    CUresult valid;

    emu_lock();
    valid = lose_device(ordinal, result);
    emu_unlock();
    return valid;
}

static CUresult set_memory_limit(int ordinal, uint64_t size_bytes)
{
    if (ordinal < 0 || ordinal >= EMU_DEVICES_MOST)
        return CUDA_ERROR_INVALID_VALUE;
    emu.devices[ordinal].total_bytes = size_bytes;
    return CUDA_SUCCESS;
}

CUresult emu_set_memory_limit(int ordinal, uint64_t size_bytes)
{
    CUresult valid;

    emu_lock();
    valid = set_memory_limit(ordinal, size_bytes);
    emu_unlock();
    return valid;
}

/* One command of the script, as emu.h tells. */
static void command(const char *text)
{
    char name[64];
    unsigned a, b;
    unsigned long long bytes;
    int ordinal;
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (strncmp(text + strspn(text, " "), "nccl", 4) == 0 ||
        sscanf(text, " fail nccl%c", name) == 1)
        return; /* libnccl's, if there is one */
    if (sscanf(text, " fail %63s %u %u", name, &a, &b) == 3) {
        result = fail_call(name, a, (CUresult)b);
    } else if (sscanf(text, " lose %d %u", &ordinal, &b) == 2) {
        result = lose_device(ordinal, (CUresult)b);
    } else if (sscanf(text, " operation %u %u", &a, &b) == 2) {
        fail_operation(a, (CUresult)b);
        result = CUDA_SUCCESS;
    } else if (sscanf(text, " memory %d %llu", &ordinal, &bytes) == 2) {
        result = set_memory_limit(ordinal, bytes);
    }
    if (result != CUDA_SUCCESS && text[strspn(text, " ")] != '\0')
        fprintf(stderr, "emu: FERRY_EMU_SCRIPT: not understood: %s\n", text);
}

void emu_script_read(void)
{
    const char *const script = getenv("FERRY_EMU_SCRIPT");
    const char *const seed = getenv("FERRY_EMU_SEED"), *const timing = getenv("FERRY_EMU_TIMING");
    const char *const late = getenv("FERRY_EMU_LATE_US"), *const locks = getenv("FERRY_EMU_LOCKS");
    const char *const queues = getenv("FERRY_EMU_QUEUES"), *const lazy = getenv("FERRY_EMU_LAZY");
    char *copy, *rest, *text;

    emu.seed = seed != NULL ? strtoull(seed, NULL, 10) : 0;
    emu.timing = timing != NULL && strcmp(timing, "1") == 0;
    emu.locks = locks != NULL && strcmp(locks, "1") == 0;
    emu.lazy = lazy != NULL && strcmp(lazy, "1") == 0;
    emu.channel_count = queues != NULL ? (unsigned)strtoul(queues, NULL, 10) : 0;
    if (emu.channel_count > EMU_CHANNELS_MOST)
        emu.channel_count = EMU_CHANNELS_MOST;
    emu_words_lag(late != NULL ? 1000 * strtoll(late, NULL, 10) : 0);
    if (script == NULL)
        return;
    copy = strdup(script);
    if (copy == NULL)
        return;
    rest = copy;
    while ((text = strsep(&rest, ";")) != NULL)
        command(text);
    free(copy);
}
