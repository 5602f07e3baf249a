/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with GPU work of its own beside ferry. While the program's stream computes a block,
 * ferry keeps the block before it in host memory. Later ferry brings it back into another buffer,
 * and the program's second stream works on it. The host only submits: each dependency is named
 * once, and the GPU waits. Build it with -lferry and -lcudart.
 */
#include <cuda_runtime_api.h>
#include <ferry/ferry.h>
#include <stdio.h>

#define BLOCKS 16
#define BLOCK_BYTES ((size_t)1 << 20)

typedef struct program {
    ferry_engine *engine;
    ferry_device *gpu;
    ferry_buffer *work[2];      /* on the GPU: computed, double buffered */
    ferry_buffer *kept;         /* on the host, pinned: all blocks */
    ferry_buffer *back;         /* on the GPU: brought back */
    cudaStream_t first, second; /* the program's */
} program;

static int complain(const char *what, const ferry_error *error)
{
    return fprintf(stderr, "%s: %s\n", what, error != NULL ? error->message : "failed");
}

static int open_all(program *p)
{
    ferry_error *error = NULL;
    if (ferry_engine_create(NULL, &p->engine, &error) != FERRY_OK ||
        ferry_device_open(p->engine, "cuda:0", NULL, &p->gpu, &error) != FERRY_OK) {
        complain("no GPU", error);
        ferry_error_release(error);
        return 1;
    }
    ferry_device *host = ferry_device_find(p->engine, "host:0");
    if (cudaStreamCreateWithFlags(&p->first, cudaStreamNonBlocking) != cudaSuccess ||
        cudaStreamCreateWithFlags(&p->second, cudaStreamNonBlocking) != cudaSuccess ||
        ferry_buffer_alloc(p->gpu, BLOCK_BYTES, &p->work[0]) != FERRY_OK ||
        ferry_buffer_alloc(p->gpu, BLOCK_BYTES, &p->work[1]) != FERRY_OK ||
        ferry_buffer_alloc(p->gpu, BLOCKS * BLOCK_BYTES, &p->back) != FERRY_OK ||
        ferry_buffer_alloc_kind(host, BLOCKS * BLOCK_BYTES, FERRY_MEMORY_PINNED, &p->kept) !=
            FERRY_OK)
        return complain("setting up", NULL);
    return 0;
}

static ferry_span block_of(ferry_buffer *buffer, int block)
{
    return (ferry_span){buffer, (size_t)block * BLOCK_BYTES, BLOCK_BYTES};
}

/*
 * Makes the stream's later work wait for the copy, which nearly always stands in a stream when
 * ferry_copy returns. If not (another thread is at the graph, streams are full) the host waits.
 */
static void let_wait(program *p, cudaStream_t stream, ferry_future *copy)
{
    ferry_status status = ferry_future_stream_wait(copy, p->gpu, stream);
    if (status == FERRY_E_NOT_ISSUED) {
        ferry_future *issued = ferry_future_issued(copy);
        status = ferry_future_wait(issued, -1);
        ferry_future_release(issued);
        if (status == FERRY_OK)
            status = ferry_future_stream_wait(copy, p->gpu, stream);
    }
    if (status != FERRY_OK)
        complain(ferry_status_name(status), ferry_future_error(copy));
}

/*
 * Computes (here: fills) and keeps a block. The stream waits for `before`, which read its buffer.
 */
static ferry_future *compute_and_keep(program *p, int block, ferry_future *before)
{
    ferry_buffer *work = p->work[block % 2];
    if (before != NULL)
        let_wait(p, p->first, before);
    cudaMemsetAsync(ferry_buffer_data(work), block + 1, BLOCK_BYTES, p->first);

    /* The buffer is valid when the stream's work so far is done. */
    ferry_future *computed = ferry_event_record(p->gpu, p->first);
    ferry_buffer_define(ferry_buffer_span(work), computed);
    ferry_future_release(computed);
    return ferry_copy(p->engine, block_of(p->kept, block), ferry_buffer_span(work), NULL);
}

/* Brings a block back, and has the second stream work on its first half. */
static ferry_future *bring_back(program *p, int block)
{
    ferry_span back = block_of(p->back, block);
    ferry_future *came = ferry_copy(p->engine, back, block_of(p->kept, block), NULL);
    let_wait(p, p->second, came);
    char *bytes = (char *)ferry_buffer_data(p->back) + back.offset_bytes;
    cudaMemsetAsync(bytes, 100 + block, BLOCK_BYTES / 2, p->second);
    return came;
}

/* Checks on the host: each block's first half is the second stream's, the rest the first's. */
static int count_wrong(program *p)
{
    int wrong = 0;
    for (int block = 0; block < BLOCKS; block++) {
        unsigned char ends[2];
        const char *bytes = (const char *)ferry_buffer_data(p->back) + (size_t)block * BLOCK_BYTES;
        if (cudaMemcpy(&ends[0], bytes, 1, cudaMemcpyDefault) != cudaSuccess ||
            cudaMemcpy(&ends[1], bytes + BLOCK_BYTES - 1, 1, cudaMemcpyDefault) != cudaSuccess ||
            ends[0] != 100 + block || ends[1] != block + 1)
            wrong++;
    }
    return wrong;
}

static int run(program *p)
{
    ferry_future *kept[BLOCKS], *came[BLOCKS];
    for (int block = 0; block < BLOCKS; block++) {
        kept[block] = compute_and_keep(p, block, block >= 2 ? kept[block - 2] : NULL);
        came[block] = bring_back(p, block);
    }
    ferry_future *all = ferry_future_all(p->engine, came, BLOCKS);
    ferry_status status = ferry_future_wait(all, -1);
    if (status != FERRY_OK)
        complain("copying", ferry_future_error(all));
    cudaStreamSynchronize(p->second);
    int wrong = count_wrong(p);
    printf("%s: %d blocks out and back, %d of them wrong\n", ferry_status_name(status), BLOCKS,
           wrong);

    ferry_future_release(all);
    for (int block = 0; block < BLOCKS; block++) {
        ferry_future_release(kept[block]);
        ferry_future_release(came[block]);
    }
    return status == FERRY_OK && wrong == 0 ? 0 : 1;
}

int main(void)
{
    program p = {0};
    int result = open_all(&p) == 0 ? run(&p) : 1;
    ferry_buffer_release(p.work[0]);
    ferry_buffer_release(p.work[1]);
    ferry_buffer_release(p.kept);
    ferry_buffer_release(p.back);
    ferry_engine_release(p.engine);
    return result;
}
