/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Your kernel writes a block, and the block goes to another member's GPU. Nobody waits on the host
 * for the kernel: the send waits for an event on your stream, and the receiver's stream waits for
 * the receive. Both members are in this process, to keep the program short; each has an engine.
 */
#include <cuda_runtime_api.h>
#include <ferry/ferry.h>
#include <stdio.h>

enum { BLOCK_BYTES = 1 << 20 };

typedef struct member {
    ferry_engine *engine;
    ferry_device *gpu;
    ferry_group *group;
    ferry_buffer *block;
    ferry_future *joined;
    cudaStream_t stream; /* the program's own */
} member;

static int open_member(member *self, ferry_rank rank)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:event-to-peer";
    options.job = "event-to-peer";
    options.size = 2;
    options.rank = rank;
    options.has_rank = true;
    if (ferry_engine_create(NULL, &self->engine, NULL) != FERRY_OK ||
        ferry_device_open(self->engine, "cuda:0", NULL, &self->gpu, NULL) != FERRY_OK ||
        ferry_buffer_alloc(self->gpu, BLOCK_BYTES, &self->block) != FERRY_OK ||
        cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking) != cudaSuccess)
        return 1;
    self->joined = ferry_group_join(self->engine, &options, &self->group);
    return 0;
}

/* The send waits for what stands on the stream now: it reads the block that this work writes. */
static ferry_future *compute_and_send(member *self)
{
    cudaMemsetAsync(ferry_buffer_data(self->block), 42, BLOCK_BYTES, self->stream); /* a kernel */
    ferry_future *computed = ferry_event_record(self->gpu, self->stream);
    ferry_buffer_define(ferry_buffer_span(self->block), computed);
    ferry_future_release(computed);
    return ferry_send(self->group, 1, 0, ferry_buffer_span(self->block), NULL);
}

/* What is launched on the stream after this call runs when the bytes are in the block. */
static ferry_status receive_then(member *self, ferry_future **received)
{
    *received = ferry_recv(self->group, 0, 0, ferry_buffer_span(self->block), NULL);
    ferry_future *issued = ferry_future_issued(*received); /* its last bytes are on their way */
    ferry_status status = ferry_future_wait(issued, -1);
    ferry_future_release(issued);
    return status == FERRY_OK ? ferry_future_stream_wait(*received, self->gpu, self->stream)
                              : status;
}

static void close_member(member *self)
{
    ferry_group_release(self->group);
    ferry_buffer_release(self->block);
    ferry_future_release(self->joined);
    ferry_engine_release(self->engine);
    cudaStreamDestroy(self->stream);
}

int main(void)
{
    member sender = {0}, receiver = {0};
    ferry_future *received = NULL;
    unsigned char last = 0;
    if (open_member(&sender, 0) != 0 || open_member(&receiver, 1) != 0 ||
        ferry_future_wait(sender.joined, -1) != FERRY_OK ||
        ferry_future_wait(receiver.joined, -1) != FERRY_OK)
        return 1;
    ferry_future *sent = compute_and_send(&sender);
    ferry_status status = receive_then(&receiver, &received);
    cudaMemcpyAsync(&last, (char *)ferry_buffer_data(receiver.block) + BLOCK_BYTES - 1, 1,
                    cudaMemcpyDeviceToHost, receiver.stream);
    cudaStreamSynchronize(receiver.stream);
    if (status == FERRY_OK)
        status = ferry_future_wait(received, -1); /* the stream's wait carries no failure */
    printf("%s, the last byte is %d\n", ferry_status_name(status), last);
    ferry_future_wait(sent, -1);
    ferry_future_release(sent);
    ferry_future_release(received);
    close_member(&sender);
    close_member(&receiver);
    return status == FERRY_OK && last == 42 ? 0 : 1;
}
