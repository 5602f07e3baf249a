/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/probe_share.h"

#include <math.h>
#include <string.h>

#define SMALL_BYTES ((size_t)65536)
#define KEPT 4 /* allocations that are elsewhere than the one wanted */

/* ---- the owner, a process of its own ---- */

static struct {
    CUstream stream;
    CUdeviceptr memory;
    size_t size_bytes;
    CUevent written;             /* that others wait for; NULL: there is no such call */
    CUevent copied;              /* another's; NULL: none so far */
    probe_ends ends[PROBE_WAYS]; /* made when first needed */
} owner;

static void fill_ends(CUdeviceptr memory, size_t size_bytes, uint32_t word)
{
    probe_fill(memory, word, owner.stream);
    probe_fill(memory + size_bytes - sizeof word, word, owner.stream);
}

static CUresult make(probe_message *message)
{
    owner.size_bytes = message->size_bytes;
    owner.memory = probe_memory(owner.size_bytes);
    fill_ends(owner.memory, owner.size_bytes, message->word);
    message->address = owner.memory;
    owner.written = probe_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    PROBE_CALL(cuEventRecord, owner.written, owner.stream);
    PROBE_CALL(cuStreamSynchronize, owner.stream); /* fired, before this process may be stopped */
    if (driver.cuIpcGetEventHandle != NULL)
        PROBE_CALL(cuIpcGetEventHandle, &message->event, owner.written);
    return driver.cuIpcGetMemHandle(&message->memory, owner.memory);
}

static CUresult fill(const probe_message *message)
{
    if (owner.copied != NULL)
        PROBE_CALL(cuStreamWaitEvent, owner.stream, owner.copied, CU_EVENT_WAIT_DEFAULT);
    if (message->took_ns > 0)
        probe_spin((uint64_t)message->took_ns, owner.stream);
    fill_ends(owner.memory, message->size_bytes, message->word);
    return driver.cuEventRecord(owner.written, owner.stream);
}

static CUresult free_memory(probe_message *message)
{
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuMemFree(owner.memory);
    message->took_ns = bench_now_ns() - begin_ns;
    return result;
}

static CUresult make_again(probe_message *message)
{
    owner.memory = probe_memory(owner.size_bytes);
    message->address = owner.memory;
    fill_ends(owner.memory, owner.size_bytes, message->word);
    return driver.cuStreamSynchronize(owner.stream);
}

/*
 * Whether a place is given again soon is up to the driver: some that are elsewhere are kept, as the
 * next is elsewhere then; the rest is freed, for a driver that goes round.
 */
static CUresult make_same(probe_message *message)
{
    CUdeviceptr wanted = message->address;
    int64_t end_ns = bench_now_ns() + message->took_ns;
    for (message->count = 1;; message->count++) {
        owner.memory = probe_memory(owner.size_bytes);
        if (owner.memory == wanted || bench_now_ns() >= end_ns)
            break;
        if (message->count > KEPT)
            PROBE_CALL(cuMemFree, owner.memory);
    }
    message->address = owner.memory;
    fill_ends(owner.memory, owner.size_bytes, message->word);
    PROBE_CALL(cuStreamSynchronize, owner.stream);
    return driver.cuIpcGetMemHandle(&message->memory, owner.memory);
}

static CUresult make_small(probe_message *message)
{
    CUdeviceptr first = probe_memory(SMALL_BYTES), second = probe_memory(SMALL_BYTES);
    fill_ends(first, SMALL_BYTES, message->word);
    fill_ends(second, SMALL_BYTES, message->word + 1);
    PROBE_CALL(cuStreamSynchronize, owner.stream);
    message->address = first;
    message->size_bytes = second > first ? second - first : 0;
    return driver.cuIpcGetMemHandle(&message->memory, first);
}

/* The last that it does: it is killed as its copies run. */
static CUresult read_always(const probe_message *message)
{
    CUdeviceptr theirs;
    CUdeviceptr own = probe_memory(message->size_bytes);
    CUresult result =
        driver.cuIpcOpenMemHandle(&theirs, message->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    for (uint32_t i = 0; i < message->count && result == CUDA_SUCCESS; i++)
        result = driver.cuMemcpyAsync(own, theirs, message->size_bytes, owner.stream);
    return result;
}

static CUresult copy(const probe_message *message)
{
    if (message->word >= PROBE_WAYS)
        return CUDA_SUCCESS;
    probe_ends *ends = &owner.ends[message->word];
    if (ends->size_bytes == 0)
        *ends = probe_ends_make((probe_way)message->word, SMALL_BYTES);
    if (message->size_bytes > SMALL_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    ends->size_bytes = message->size_bytes;
    probe_copy(ends, owner.stream);
    return driver.cuStreamSynchronize(owner.stream);
}

static CUresult obey(probe_message *message)
{
    CUresult result = CUDA_SUCCESS;
    switch ((share_order)message->order) {
    case SHARE_MAKE:
        return make(message);
    case SHARE_HEAR:
        return driver.cuIpcOpenEventHandle(&owner.copied, message->event);
    case SHARE_FILL:
        return fill(message);
    case SHARE_READ:
        message->word = share_read(owner.memory, owner.stream, &result);
        return result;
    case SHARE_FREE:
        return free_memory(message);
    case SHARE_AGAIN:
        return make_again(message);
    case SHARE_INSIDE:
        return driver.cuIpcGetMemHandle(&message->memory, owner.memory + message->size_bytes);
    case SHARE_SMALL:
        return make_small(message);
    case SHARE_HEALTHY:
        return share_health(owner.stream);
    case SHARE_READER:
        return read_always(message);
    case SHARE_SAME:
        return make_same(message);
    case SHARE_COPY:
        return copy(message);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

void probe_share_owner(const probe_case *which)
{
    probe_message message;
    (void)which;
    probe_gpu_open();
    owner.stream = probe_stream(0);
    while (probe_listen(&message)) {
        message.result = (int32_t)obey(&message);
        probe_reply(&message);
    }
}

/* ---- what either end asks ---- */

bool share_is_there(const char *shape)
{
    const char *absent = driver.cuIpcGetMemHandle == NULL      ? "cuIpcGetMemHandle"
                         : driver.cuIpcOpenMemHandle == NULL   ? "cuIpcOpenMemHandle"
                         : driver.cuIpcCloseMemHandle == NULL  ? "cuIpcCloseMemHandle"
                         : driver.cuIpcOpenEventHandle == NULL ? "cuIpcOpenEventHandle"
                                                               : NULL;
    if (absent != NULL)
        probe_row_absent(shape, absent);
    return absent == NULL;
}

probe_message share_ask(const probe_child *owner_process, share_order order, uint32_t word,
                        size_t size_bytes)
{
    static const char *const names[] = {"make",   "hear",  "fill",    "read",   "free", "again",
                                        "inside", "small", "healthy", "reader", "same", "copy"};
    probe_message message = {.order = (int32_t)order, .word = word, .size_bytes = size_bytes};
    message = probe_ask(owner_process, &message, names[order]);
    if (message.result != CUDA_SUCCESS)
        probe_fail("the owner, %s: %s", names[order], driver_error_name((CUresult)message.result));
    return message;
}

CUdeviceptr share_open(const probe_message *made, CUresult *result_p)
{
    CUdeviceptr memory = 0;
    *result_p =
        driver.cuIpcOpenMemHandle(&memory, made->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return *result_p == CUDA_SUCCESS ? memory : 0;
}

CUresult share_close(CUdeviceptr memory, int64_t *took_ns_p)
{
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuIpcCloseMemHandle(memory);
    *took_ns_p = bench_now_ns() - begin_ns;
    return result;
}

CUresult share_drain(CUstream stream, int64_t limit_ns, int64_t *took_ns_p)
{
    CUresult result;
    int64_t begin_ns = bench_now_ns();
    do {
        result = driver.cuStreamQuery(stream);
        *took_ns_p = bench_now_ns() - begin_ns;
    } while (result == CUDA_ERROR_NOT_READY && *took_ns_p < limit_ns);
    return result;
}

void share_kill(probe_child *other, const char *shape)
{
    int64_t gone_ns = probe_peer_kill(other);
    if (gone_ns == INT64_MAX)
        probe_row(shape, NAN, "ns", PROBE_NO, "it is not gone after 3 s");
    else
        share_row(shape, gone_ns, CUDA_SUCCESS);
}

uint32_t share_read(CUdeviceptr memory, CUstream stream, CUresult *result_p)
{
    static uint32_t *word;
    if (word == NULL)
        word = probe_pinned(sizeof *word);
    *word = 0;
    CUresult result = driver.cuMemcpyAsync(probe_address(word), memory, sizeof *word, stream);
    if (result == CUDA_SUCCESS)
        result = driver.cuStreamSynchronize(stream);
    *result_p = result;
    return probe_word(word);
}

CUresult share_health(CUstream stream)
{
    CUdeviceptr memory;
    CUresult result = driver.cuMemAlloc(&memory, SMALL_BYTES);
    if (result == CUDA_SUCCESS)
        result = driver.cuMemcpyAsync(memory, memory + SMALL_BYTES / 2, SMALL_BYTES / 2, stream);
    if (result == CUDA_SUCCESS)
        result = driver.cuStreamSynchronize(stream);
    if (result == CUDA_SUCCESS)
        result = driver.cuCtxSynchronize();
    return result == CUDA_SUCCESS ? driver.cuMemFree(memory) : result;
}

void share_row(const char *shape, int64_t took_ns, CUresult result)
{
    bool is_good = result == CUDA_SUCCESS;
    probe_row(shape, (double)took_ns, "ns", is_good ? PROBE_YES : PROBE_NO, "%s",
              is_good ? "" : driver_error_name(result));
}

void share_row_call(const char *shape, int64_t took_ns, CUresult result, const char *what)
{
    probe_row(shape, (double)took_ns, "ns", result == CUDA_SUCCESS ? PROBE_YES : PROBE_NO, "%s: %s",
              what, driver_error_name(result));
}

void share_row_word(const char *shape, CUresult result, uint32_t seen, uint32_t wanted,
                    const char *what)
{
    bool is_right = result == CUDA_SUCCESS && seen == wanted;
    if (result != CUDA_SUCCESS)
        probe_row(shape, NAN, "", PROBE_NO, "%s: %s", what, driver_error_name(result));
    else
        probe_row(shape, NAN, "", is_right ? PROBE_YES : PROBE_NO, "%s: %#x, wanted %#x", what,
                  seen, wanted);
}
