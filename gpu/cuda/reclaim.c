/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/reclaim.h"

#include "base/eventcount.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/thread.h"

#include <assert.h>
#include <limits.h>

#define BUCKETS 64
#define LOOKS_MOST 64 /* kept blocks that are searched */

struct fry_cuda_reclaim {
    fry_backend *backend;
    fry_stack due;       /* blocks to free */
    uint32_t pending;    /* atomic; blocks that are due or being freed */
    uint32_t is_ending;  /* atomic */
    fry_eventcount idle; /* where the thread sleeps */
    fry_eventcount done; /* where others wait for it */

    pthread_mutex_t lock; /* for the fields below; nobody waits with it */
    bool has_thread, is_stopped;
    pthread_t thread;
    fry_cuda_block *buckets[BUCKETS];
    fry_cuda_block *kept[BUCKETS]; /* by the logarithm of their size */
};

/* --- freeing --- */

static void call_driver(fry_cuda_reclaim *reclaim, const fry_cuda_block *block)
{
    fry_cuda_scope scope;
    const char *call = "cuCtxPushCurrent";
    CUresult result = fry_cuda_enter(&scope, block->device->context);
    if (result == CUDA_SUCCESS && block->is_shared) {
        call = "cuIpcCloseMemHandle";
        result = fry_cuda.cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)block->memory);
    } else if (result == CUDA_SUCCESS && block->is_on_host) {
        call = "cuMemFreeHost";
        result = fry_cuda.cuMemFreeHost(block->memory);
    } else if (result == CUDA_SUCCESS) {
        call = "cuMemFree";
        result = fry_cuda.cuMemFree((CUdeviceptr)(uintptr_t)block->memory);
    }
    fry_cuda_leave(&scope);
    if (result != CUDA_SUCCESS) {
        fry_fault fault;
        (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, result, call);
        fry_log_line(reclaim->backend->options.log, FERRY_LOG_WARNING, "%s: memory is leaked: %s",
                     block->device->device.name, fault.message);
    }
}

/* What another process has shared goes with a lost device's context. */
static void free_block(fry_cuda_reclaim *reclaim, fry_cuda_block *block)
{
    fry_notify notify = reclaim->backend->options.notify;
    uint32_t *is_closed = block->is_closed;
    if (!block->is_shared || fry_cuda_lost(block->device) == CUDA_SUCCESS)
        call_driver(reclaim, block);
    fry_free(&reclaim->backend->memory, block, sizeof *block);
    if (is_closed == NULL)
        return;
    fry_store_release(is_closed, 1);
    notify.fn(notify.arg);
}

static void *reclaim_main(void *arg)
{
    fry_cuda_reclaim *reclaim = arg;
    for (;;) {
        fry_link *item = fry_stack_take_all(&reclaim->due);
        while (item != NULL) {
            fry_link *next = item->next; /* the link is a block's first member */
            free_block(reclaim, (fry_cuda_block *)(void *)item);
            if (fry_fetch_sub(&reclaim->pending, 1) == 1)
                fry_eventcount_notify(&reclaim->done, INT_MAX);
            item = next;
        }
        uint32_t key = fry_eventcount_prepare(&reclaim->idle);
        bool is_ending = fry_load_seq_cst(&reclaim->is_ending) != 0;
        if (!fry_stack_is_empty(&reclaim->due)) {
            fry_eventcount_cancel(&reclaim->idle);
        } else if (is_ending) {
            fry_eventcount_cancel(&reclaim->idle);
            return NULL;
        } else {
            fry_eventcount_commit(&reclaim->idle, key, -1);
        }
    }
}

/* With the lock. */
static bool has_thread(fry_cuda_reclaim *reclaim)
{
    if (!reclaim->has_thread)
        reclaim->has_thread =
            fry_cuda_thread_start(&reclaim->thread, "ferry-cuda-free", reclaim_main, reclaim);
    return reclaim->has_thread;
}

/* --- blocks --- */

static fry_cuda_block **bucket_of(fry_cuda_reclaim *reclaim, const void *memory)
{
    uint64_t hash = ((uint64_t)(uintptr_t)memory >> 8) * 0x9e3779b97f4a7c15U;
    return &reclaim->buckets[hash >> 58];
}

fry_cuda_block *fry_cuda_reclaim_expect(fry_cuda_reclaim *reclaim, fry_cuda_device *device,
                                        size_t size_bytes, bool is_on_host)
{
    fry_cuda_block *block =
        fry_alloc(&reclaim->backend->memory, sizeof *block, _Alignof(fry_cuda_block));
    if (block != NULL)
        *block =
            (fry_cuda_block){.device = device, .size_bytes = size_bytes, .is_on_host = is_on_host};
    return block;
}

/* With the lock. */
static void note(fry_cuda_reclaim *reclaim, fry_cuda_block *block)
{
    fry_cuda_block **bucket = bucket_of(reclaim, block->memory);
    block->next = *bucket;
    *bucket = block;
}

void fry_cuda_reclaim_note(fry_cuda_reclaim *reclaim, fry_cuda_block *block, void *memory)
{
    if (memory == NULL) {
        fry_free(&reclaim->backend->memory, block, sizeof *block);
        return;
    }
    block->memory = memory;
    (void)pthread_mutex_lock(&reclaim->lock);
    note(reclaim, block);
    (void)pthread_mutex_unlock(&reclaim->lock);
}

/* With the lock. */
static fry_cuda_block *take_block(fry_cuda_reclaim *reclaim, const void *memory)
{
    fry_cuda_block **at = bucket_of(reclaim, memory);
    while (*at != NULL && (*at)->memory != memory)
        at = &(*at)->next;
    fry_cuda_block *block = *at;
    if (block != NULL)
        *at = block->next;
    return block;
}

/* --- keeping --- */

/* With the lock. The kept bytes of the block's device, on the GPU or host. */
static uint64_t *kept_bytes_of(const fry_cuda_block *block)
{
    return &block->device->memory.kept_bytes[block->is_on_host];
}

static fry_cuda_block **kept_at(fry_cuda_reclaim *reclaim, size_t size_bytes)
{
    return &reclaim->kept[63 - __builtin_clzll((unsigned long long)size_bytes | 1)];
}

/* With the lock. A lost device's blocks are not kept. */
static bool keep(fry_cuda_reclaim *reclaim, fry_cuda_block *block)
{
    uint64_t *kept_bytes = kept_bytes_of(block);
    uint64_t most_bytes =
        block->is_on_host ? FRY_CUDA_KEPT_HOST_BYTES : fry_cuda_memory_keeps_bytes(block->device);
    if (reclaim->is_stopped || fry_cuda_lost(block->device) != CUDA_SUCCESS ||
        block->size_bytes > most_bytes || *kept_bytes > most_bytes - block->size_bytes)
        return false;
    fry_cuda_block **kept = kept_at(reclaim, block->size_bytes);
    block->next = *kept;
    *kept = block;
    *kept_bytes += block->size_bytes;
    return true;
}

/* With the lock. Wastes at most an eighth of a block. */
static fry_cuda_block *take_kept(fry_cuda_block **at, const fry_cuda_device *device,
                                 size_t size_bytes, bool is_on_host)
{
    for (int looks = 0; *at != NULL && looks < LOOKS_MOST; looks++, at = &(*at)->next) {
        fry_cuda_block *block = *at;
        if (block->device != device || block->is_on_host != is_on_host ||
            block->size_bytes < size_bytes ||
            block->size_bytes - size_bytes > block->size_bytes / 8)
            continue;
        *at = block->next;
        *kept_bytes_of(block) -= block->size_bytes;
        return block;
    }
    return NULL;
}

void *fry_cuda_reclaim_reuse(fry_cuda_reclaim *reclaim, fry_cuda_device *device, size_t size_bytes,
                             bool is_on_host)
{
    (void)pthread_mutex_lock(&reclaim->lock);
    fry_cuda_block **at = kept_at(reclaim, size_bytes);
    fry_cuda_block *block = take_kept(at, device, size_bytes, is_on_host);
    if (block == NULL && at + 1 < reclaim->kept + BUCKETS)
        block = take_kept(at + 1, device, size_bytes, is_on_host);
    if (block != NULL)
        note(reclaim, block);
    (void)pthread_mutex_unlock(&reclaim->lock);
    return block != NULL ? block->memory : NULL;
}

/* With the lock. False: the caller frees the block. */
static bool leave_to_thread(fry_cuda_reclaim *reclaim, fry_cuda_block *block)
{
    if (reclaim->is_stopped || !has_thread(reclaim))
        return false;
    (void)fry_fetch_add(&reclaim->pending, 1);
    fry_stack_push(&reclaim->due, &block->link);
    return true;
}

void fry_cuda_reclaim_free(fry_cuda_reclaim *reclaim, void *memory)
{
    (void)pthread_mutex_lock(&reclaim->lock);
    fry_cuda_block *block = take_block(reclaim, memory);
    assert(block != NULL);
    bool is_kept = keep(reclaim, block);
    bool is_left = !is_kept && leave_to_thread(reclaim, block);
    (void)pthread_mutex_unlock(&reclaim->lock);
    if (is_left)
        fry_eventcount_notify(&reclaim->idle, 1);
    else if (!is_kept)
        free_block(reclaim, block);
}

bool fry_cuda_reclaim_has_thread(fry_cuda_reclaim *reclaim)
{
    (void)pthread_mutex_lock(&reclaim->lock);
    bool is_there = has_thread(reclaim);
    (void)pthread_mutex_unlock(&reclaim->lock);
    return is_there;
}

void fry_cuda_reclaim_close_shared(fry_cuda_reclaim *reclaim, void *memory, uint32_t *is_closed)
{
    (void)pthread_mutex_lock(&reclaim->lock);
    fry_cuda_block *block = take_block(reclaim, memory);
    assert(block != NULL);
    block->is_shared = true;
    block->is_closed = is_closed;
    bool is_left = leave_to_thread(reclaim, block);
    (void)pthread_mutex_unlock(&reclaim->lock);
    if (is_left)
        fry_eventcount_notify(&reclaim->idle, 1);
    else
        free_block(reclaim, block);
}

/* Leaves all kept blocks to the thread; without one frees them here. */
static void let_go(fry_cuda_reclaim *reclaim)
{
    fry_cuda_block *own = NULL;
    (void)pthread_mutex_lock(&reclaim->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (reclaim->kept[i] != NULL) {
            fry_cuda_block *block = reclaim->kept[i];
            reclaim->kept[i] = block->next;
            *kept_bytes_of(block) -= block->size_bytes;
            if (leave_to_thread(reclaim, block))
                continue;
            block->next = own;
            own = block;
        }
    }
    (void)pthread_mutex_unlock(&reclaim->lock);
    fry_eventcount_notify(&reclaim->idle, 1);
    while (own != NULL) {
        fry_cuda_block *next = own->next;
        free_block(reclaim, own);
        own = next;
    }
}

bool fry_cuda_reclaim_empty(fry_cuda_reclaim *reclaim, int64_t timeout_ns)
{
    int64_t until_ns = fry_clock_monotonic_ns() + timeout_ns;
    let_go(reclaim);
    for (;;) {
        uint32_t key = fry_eventcount_prepare(&reclaim->done);
        int64_t left_ns = until_ns - fry_clock_monotonic_ns();
        bool is_done = fry_load_seq_cst(&reclaim->pending) == 0;
        if (is_done || left_ns <= 0) {
            fry_eventcount_cancel(&reclaim->done);
            return is_done;
        }
        fry_eventcount_commit(&reclaim->done, key, left_ns);
    }
}

/* --- open and close --- */

fry_cuda_reclaim *fry_cuda_reclaim_open(fry_backend *backend)
{
    fry_cuda_reclaim *reclaim =
        fry_alloc(&backend->memory, sizeof *reclaim, _Alignof(fry_cuda_reclaim));
    if (reclaim == NULL)
        return NULL;
    reclaim->backend = backend;
    (void)pthread_mutex_init(&reclaim->lock, NULL);
    return reclaim;
}

ferry_status fry_cuda_reclaim_stop(fry_cuda_reclaim *reclaim)
{
    let_go(reclaim);
    if (fry_load_seq_cst(&reclaim->pending) != 0)
        return FERRY_E_BUSY;
    (void)pthread_mutex_lock(&reclaim->lock);
    bool had_thread = reclaim->has_thread;
    reclaim->is_stopped = true;
    reclaim->has_thread = false;
    (void)pthread_mutex_unlock(&reclaim->lock);
    if (had_thread) {
        fry_store_seq_cst(&reclaim->is_ending, 1);
        fry_eventcount_notify(&reclaim->idle, INT_MAX);
        (void)pthread_join(reclaim->thread, NULL);
    }
    return FERRY_OK;
}

void fry_cuda_reclaim_close(fry_cuda_reclaim *reclaim)
{
    if (reclaim == NULL)
        return;
    fry_memory memory = reclaim->backend->memory;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (reclaim->buckets[i] != NULL) {
            fry_cuda_block *block = reclaim->buckets[i];
            reclaim->buckets[i] = block->next;
            fry_free(&memory, block, sizeof *block);
        }
    }
    (void)pthread_mutex_destroy(&reclaim->lock);
    fry_free(&memory, reclaim, sizeof *reclaim);
}
