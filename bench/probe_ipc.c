/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc: another process opens this one's memory and an event by their handles, copies through it
 * both ways, and closes. What this one wrote it has to see, and the other way round.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY_BYTES ((size_t)67108864)
#define COPY_BYTES ((size_t)16777216)
#define ROUNDS 20
#define PEER_LIMIT_NS INT64_C(6000000000)
#define BEFORE 0x0badcafeU /* what this process writes, and what the other one */
#define AFTER 0x600df00dU

typedef struct handles {
    CUipcMemHandle memory;
    CUipcEventHandle event;
    bool has_event;
} handles;

/* ---- the process that has the memory ---- */

/* The event comes behind a kernel of some length, so that waiting for it means something. */
static void export_event(handles *handles, CUstream stream)
{
    CUevent event;
    if (driver.cuIpcGetEventHandle == NULL) {
        probe_row_absent("get-event-handle", "cuIpcGetEventHandle");
        return;
    }
    CUresult result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    if (result == CUDA_SUCCESS)
        result = driver.cuEventRecord(event, stream);
    int64_t begin_ns = bench_now_ns();
    if (result == CUDA_SUCCESS)
        result = driver.cuIpcGetEventHandle(&handles->event, event);
    handles->has_event = result == CUDA_SUCCESS;
    probe_row("get-event-handle", (double)(bench_now_ns() - begin_ns), "ns", handles->has_event,
              "%s", handles->has_event ? "" : driver_error_name(result));
}

static bool export_memory(handles *handles, CUdeviceptr memory)
{
    if (driver.cuIpcGetMemHandle == NULL) {
        probe_row_absent("get-handle", "cuIpcGetMemHandle");
        return false;
    }
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuIpcGetMemHandle(&handles->memory, memory);
    bool is_there = result == CUDA_SUCCESS;
    probe_row("get-handle", (double)(bench_now_ns() - begin_ns), "ns", is_there, "%s",
              is_there ? "" : driver_error_name(result));
    return is_there;
}

void probe_ipc(const probe_case *which)
{
    handles handles = {.has_event = false};
    char how[64];
    int status;
    (void)which;
    probe_gpu_open();
    CUstream stream = probe_stream(0);
    CUdeviceptr memory = probe_memory(MEMORY_BYTES);
    uint32_t *word = probe_pinned(sizeof *word);
    probe_spin(UINT64_C(1000000), stream);
    probe_fill(memory, BEFORE, stream);
    if (!export_memory(&handles, memory))
        return;
    export_event(&handles, stream);
    if (!handles.has_event)
        PROBE_CALL(cuStreamSynchronize, stream);
    probe_child peer = probe_child_start(probe_case_find("ipc-peer"), true, false);
    bool is_sent = write(peer.in, &handles, sizeof handles) == (ssize_t)sizeof handles;
    bool is_by_itself = probe_child_end(&peer, PEER_LIMIT_NS, &status, how, sizeof how);
    if (!is_sent || !is_by_itself || status != 0) {
        probe_row("peer", NAN, "", PROBE_NO, "%s", how);
        return;
    }
    PROBE_CALL(cuMemcpyAsync, probe_address(word), memory, sizeof *word, stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    probe_row("seen-here", NAN, "", probe_word(word) == AFTER ? PROBE_YES : PROBE_NO,
              "what the other process copied into this one's memory");
}

/* ---- the process that opens it ---- */

static void wait_for_event(const handles *handles, CUstream stream)
{
    CUevent event;
    if (!handles->has_event)
        return;
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuIpcOpenEventHandle(&event, handles->event);
    int64_t took_ns = bench_now_ns() - begin_ns;
    if (result == CUDA_SUCCESS)
        result = driver.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
    probe_row("open-event", (double)took_ns, "ns", result == CUDA_SUCCESS, "%s",
              result == CUDA_SUCCESS ? "" : driver_error_name(result));
}

static CUdeviceptr open_memory(const handles *handles, const char *shape)
{
    CUdeviceptr memory = 0;
    int64_t begin_ns = bench_now_ns();
    CUresult result =
        driver.cuIpcOpenMemHandle(&memory, handles->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS)
        probe_fail("cuIpcOpenMemHandle: %s", driver_error_name(result));
    probe_row(shape, (double)(bench_now_ns() - begin_ns), "ns", PROBE_YES, "%s", "");
    return memory;
}

static void close_memory(CUdeviceptr memory, const char *shape)
{
    int64_t begin_ns = bench_now_ns();
    PROBE_CALL(cuIpcCloseMemHandle, memory);
    probe_row(shape, (double)(bench_now_ns() - begin_ns), "ns", PROBE_YES, "%s", "");
}

static void time_copies(CUdeviceptr theirs, CUstream stream)
{
    bench_samples samples = {0};
    CUdeviceptr own = probe_memory(COPY_BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin_ns = bench_now_ns();
        PROBE_CALL(cuMemcpyAsync, own, theirs, COPY_BYTES, stream);
        PROBE_CALL(cuStreamSynchronize, stream);
        bench_samples_add(&samples, (double)(bench_now_ns() - begin_ns));
    }
    probe_row_median("copy-16MiB", &samples, "ns");
    bench_samples_free(&samples);
}

void probe_ipc_peer(const probe_case *which)
{
    handles handles;
    (void)which;
    if (read(STDIN_FILENO, &handles, sizeof handles) != (ssize_t)sizeof handles)
        bench_fail("no handles on stdin");
    probe_gpu_open();
    CUstream stream = probe_stream(0);
    uint32_t *words = probe_pinned(2 * sizeof *words);
    words[1] = AFTER;
    CUdeviceptr memory = open_memory(&handles, "open");
    wait_for_event(&handles, stream);
    PROBE_CALL(cuMemcpyAsync, probe_address(words), memory, sizeof *words, stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    probe_row("seen-there", NAN, "", probe_word(words) == BEFORE ? PROBE_YES : PROBE_NO,
              "what this process's kernel wrote before the event");
    time_copies(memory, stream);
    PROBE_CALL(cuMemcpyAsync, memory, probe_address(words + 1), sizeof *words, stream);
    PROBE_CALL(cuStreamSynchronize, stream);
    close_memory(memory, "close");
    close_memory(open_memory(&handles, "open-again"), "close-again");
}
