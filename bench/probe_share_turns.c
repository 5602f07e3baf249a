/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-turns: what it takes a GPU to go from one process to another. Two processes copy in turn,
 * each of them alone on the GPU meanwhile: a copy of this one, from the call until its end is seen,
 * behind a copy of the other that has ended. Does it take longer than behind one of its own, if
 * both are for the same engine, and if each is for another?
 */
#include "bench/probe_share.h"

#include <stdio.h>

#define ROUNDS 100
#define WARM 5

static const char *const way_names[] = {"h2d", "d2h", "d2d"};
static const size_t sizes[] = {4096, 65536};
#define SIZES (sizeof sizes / sizeof sizes[0])

static double time_copy(const probe_ends *ends, CUstream stream)
{
    int64_t begin_ns = bench_now_ns();
    probe_copy(ends, stream);
    while (driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        continue;
    return (double)(bench_now_ns() - begin_ns);
}

/* `theirs` is PROBE_WAYS: the other process does nothing. */
static void time_turns(const probe_child *owner, CUstream stream, const probe_ends *ends,
                       probe_way own, probe_way theirs)
{
    bench_samples samples = {0};
    char shape[64], size[16];
    int rounds = probe.is_smoke ? 3 : ROUNDS;
    for (int i = -WARM; i < rounds; i++) {
        (void)share_ask(owner, SHARE_COPY, (uint32_t)theirs, ends->size_bytes);
        double took_ns = time_copy(ends, stream);
        if (i >= 0)
            bench_samples_add(&samples, took_ns);
    }
    bench_size_name(size, sizeof size, ends->size_bytes);
    (void)snprintf(shape, sizeof shape, "turns-%s-%s-behind-%s", size, way_names[own],
                   theirs < PROBE_WAYS ? way_names[theirs] : "nothing");
    probe_row_median(shape, &samples, "ns");
    bench_samples_free(&samples);
}

void probe_share_turns(const probe_case *which)
{
    (void)which;
    probe_child owner = probe_peer_start("share-owner");
    probe_gpu_open();
    CUstream stream = probe_stream(0);
    for (probe_way own = 0; own < PROBE_WAYS; own++) {
        probe_ends ends = probe_ends_make(own, sizes[SIZES - 1]);
        for (size_t i = 0; i < SIZES; i++) {
            ends.size_bytes = sizes[i];
            for (probe_way theirs = 0; theirs <= PROBE_WAYS; theirs++)
                time_turns(&owner, stream, &ends, own, theirs);
        }
    }
}
