/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-reused: the owner frees memory that another process has open, and gets as much at the same
 * address again. Can the other process open the new memory beside the old, where is it, and what
 * are the bytes of each? If it can't, does it once the old memory is closed?
 */
#include "bench/probe_share.h"

#define MEMORY_BYTES ((size_t)268435456) /* so that a driver that goes round is soon round */
#define TRIES_NS INT64_C(1500000000)     /* of the owner, less than an answer may take */
#define OLD 0x01d4e05eU
#define NEW 0x0e34e05eU

static struct {
    probe_child owner;
    CUstream stream;
} rig;

/* False: the owner gets other addresses, and there is nothing to ask. */
static bool is_same_again(const probe_message *made, probe_message *same_p)
{
    probe_message same = {
        .order = SHARE_SAME, .word = NEW, .address = made->address, .took_ns = TRIES_NS};
    (void)share_ask(&rig.owner, SHARE_FREE, 0, 0);
    *same_p = probe_ask(&rig.owner, &same, "same");
    probe_check("the owner, same", (CUresult)same_p->result);
    bool is_same = same_p->address == made->address;
    probe_row("reused-same-address", same_p->count, "tries", is_same ? PROBE_YES : PROBE_NONE, "%s",
              is_same ? "until the owner got the old address again"
                      : "the owner got other addresses: the question is none");
    return is_same;
}

static CUdeviceptr open_beside(const probe_message *same, CUdeviceptr old)
{
    CUresult result;
    int64_t begin_ns = bench_now_ns();
    CUdeviceptr fresh = share_open(same, &result);
    share_row_call("reused-opens", bench_now_ns() - begin_ns, result,
                   result != CUDA_SUCCESS ? "the new memory beside the old"
                   : fresh == old         ? "the new memory beside the old, at the old's address"
                                          : "the new memory beside the old, elsewhere");
    if (result != CUDA_SUCCESS)
        return 0;
    uint32_t word = share_read(fresh, rig.stream, &result);
    share_row_word("reused-new-read-beside", result, word, NEW, "what the owner wrote to the new");
    return fresh;
}

void probe_share_reused(const probe_case *which)
{
    CUresult result;
    probe_message same;
    int64_t took_ns;
    (void)which;
    rig.owner = probe_peer_start("share-owner");
    probe_gpu_open();
    if (!share_is_there("reused"))
        return;
    rig.stream = probe_stream(0);
    probe_message made = share_ask(&rig.owner, SHARE_MAKE, OLD, MEMORY_BYTES);
    CUdeviceptr old = share_open(&made, &result);
    probe_check("cuIpcOpenMemHandle", result);
    if (!is_same_again(&made, &same))
        return;
    CUdeviceptr fresh = open_beside(&same, old);
    uint32_t word = share_read(old, rig.stream, &result);
    share_row_word("reused-old-read", result, word, OLD, "what the owner wrote to the old");
    result = share_close(old, &took_ns);
    share_row("reused-close-old", took_ns, result);
    if (fresh == 0) {
        int64_t begin_ns = bench_now_ns();
        fresh = share_open(&same, &result);
        share_row_call("reused-opens-then", bench_now_ns() - begin_ns, result,
                       "the new memory, once the old is closed");
    }
    if (fresh != 0) {
        word = share_read(fresh, rig.stream, &result);
        share_row_word("reused-new-read", result, word, NEW, "the new, once the old is closed");
        result = share_close(fresh, &took_ns);
        share_row("reused-close-new", took_ns, result);
    }
    share_row("reused-healthy", 0, share_health(rig.stream));
}
