/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-open-dead: the owner is killed before anybody opened what it has. Does its memory open, and
 * its event? share-die asks the same of memory that is open already.
 *
 * share-event-dead: a stream waits for an event that the owner recorded behind a kernel, and the
 * owner is killed. Does the wait end? If so, is the word there that the owner was to write before
 * the event? If not, what can this process still do, and can it end? A process of its own waits, as
 * it may be one that nothing but a kill ends.
 */
#include "bench/probe_share.h"

#include <math.h>

#define MEMORY_BYTES ((size_t)16777216)
#define SMOKE_BYTES ((size_t)1048576)
#define SPIN_NS INT64_C(4000000000) /* of the owner's kernel: it ends, but not while it matters */
#define LOOK_NS INT64_C(1000000000)
#define SMOKE_LOOK_NS INT64_C(100000000)
#define OTHER_BYTES ((size_t)65536)
#define OTHER_MOST_NS INT64_C(1000000000)
#define WAITER_LIMIT_NS INT64_C(8000000000)
#define OLD 0x01d0deadU
#define NEW 0x0e30deadU

static struct {
    probe_child owner;
    CUstream stream;
    size_t size_bytes;
} rig;

static probe_message open_rig(void)
{
    rig.stream = probe_stream(0);
    rig.size_bytes = probe.is_smoke ? SMOKE_BYTES : MEMORY_BYTES;
    return share_ask(&rig.owner, SHARE_MAKE, OLD, rig.size_bytes);
}

/* ---- share-open-dead ---- */

void probe_share_open_dead(const probe_case *which)
{
    CUresult result;
    CUevent written = NULL;
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("dead"))
        return;
    probe_message made = open_rig();
    share_kill(&rig.owner, "dead-gone");
    int64_t begin_ns = bench_now_ns();
    CUdeviceptr theirs = share_open(&made, &result);
    share_row_call("dead-opens", bench_now_ns() - begin_ns, result, "memory of a dead owner");
    if (result == CUDA_SUCCESS) {
        uint32_t word = share_read(theirs, rig.stream, &result);
        share_row_word("dead-reads", result, word, OLD, "what the owner wrote before it died");
        result = share_close(theirs, &begin_ns);
        share_row("dead-close", begin_ns, result);
    }
    begin_ns = bench_now_ns();
    result = driver.cuIpcOpenEventHandle(&written, made.event);
    share_row_call("dead-event-opens", bench_now_ns() - begin_ns, result, "its event");
    share_row("dead-healthy", 0, share_health(rig.stream));
}

/* ---- share-event-dead ---- */

/* What stands behind the wait, and where its word comes. */
static struct {
    CUevent written;
    CUdeviceptr theirs;
    uint32_t *word;
} behind;

static void queue_wait(const probe_message *made)
{
    CUresult result;
    probe_message fill = {
        .order = SHARE_FILL, .word = NEW, .size_bytes = rig.size_bytes, .took_ns = SPIN_NS};
    behind.word = probe_pinned(sizeof *behind.word);
    behind.theirs = share_open(made, &result);
    probe_check("cuIpcOpenMemHandle", result);
    PROBE_CALL(cuIpcOpenEventHandle, &behind.written, made->event);
    fill = probe_ask(&rig.owner, &fill, "fill");
    probe_check("the owner, fill", (CUresult)fill.result);
    PROBE_CALL(cuStreamWaitEvent, rig.stream, behind.written, CU_EVENT_WAIT_DEFAULT);
    PROBE_CALL(cuMemcpyAsync, probe_address(behind.word), behind.theirs, sizeof *behind.word,
               rig.stream);
}

static void look_for_end(void)
{
    int64_t took_ns;
    CUresult result = share_drain(rig.stream, probe.is_smoke ? SMOKE_LOOK_NS : LOOK_NS, &took_ns);
    bool is_over = result != CUDA_ERROR_NOT_READY;
    probe_row("event-dead-wait-ends", (double)took_ns, "ns", is_over ? PROBE_YES : PROBE_NO,
              "%s since its owner is gone: %s", is_over ? "over" : "it stands, that long",
              driver_error_name(result));
    if (is_over)
        share_row_word("event-dead-word", result, probe_word(behind.word), NEW,
                       "what the copy behind the wait read");
    else
        probe_row("event-dead-word", NAN, "", PROBE_NONE, "the copy behind the wait stands");
}

/* A stream that has nothing to do with the dead one: cuCtxSynchronize would wait for both. */
static void try_other_stream(void)
{
    int64_t took_ns = 0;
    CUstream other = probe_stream(0);
    CUdeviceptr memory = probe_memory(2 * OTHER_BYTES);
    CUresult result = driver.cuMemcpyAsync(memory, memory + OTHER_BYTES, OTHER_BYTES, other);
    if (result == CUDA_SUCCESS)
        result = share_drain(other, OTHER_MOST_NS, &took_ns);
    share_row("event-dead-other-stream", took_ns, result);
}

/* Each is a row as soon as it returned: if one hangs, the last row tells which. */
static void give_up(void)
{
    int64_t begin_ns = bench_now_ns();
    CUresult result = driver.cuEventDestroy(behind.written);
    share_row("event-dead-destroy-event", bench_now_ns() - begin_ns, result);
    begin_ns = bench_now_ns();
    result = driver.cuStreamDestroy(rig.stream);
    share_row("event-dead-destroy-stream", bench_now_ns() - begin_ns, result);
}

void probe_share_waiter(const probe_case *which)
{
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("event-dead"))
        return;
    probe_message made = open_rig();
    queue_wait(&made);
    bool stands = driver.cuStreamQuery(rig.stream) == CUDA_ERROR_NOT_READY;
    probe_row("event-dead-stands-before", NAN, "", stands ? PROBE_YES : PROBE_NONE, "%s",
              stands ? ""
                     : "the wait was over before the owner was killed: the rest shows nothing");
    share_kill(&rig.owner, "event-dead-gone");
    look_for_end();
    CUresult result = driver.cuEventQuery(behind.written);
    share_row_call("event-dead-fired", 0, result, "cuEventQuery of the dead owner's event");
    try_other_stream();
    give_up();
}

void probe_share_event_dead(const probe_case *which)
{
    char how[64];
    int status;
    (void)which;
    probe_child waiter = probe_child_start(probe_case_find("share-waiter"), false, false);
    bool is_by_itself = probe_child_end(&waiter, WAITER_LIMIT_NS, &status, how, sizeof how);
    probe_row("event-dead-waiter-ends", NAN, "", is_by_itself && status == 0 ? PROBE_YES : PROBE_NO,
              "%s", how);
}
