/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that records CUDA events already hands them to ferry: a copy waits for one of them on
 * the GPU. Where you may choose, take ferry_event_record: it can't meet an event that was never
 * recorded.
 */
#include <cuda_runtime_api.h>
#include <ferry/ferry.h>
#include <stdio.h>

enum { BYTES = 1 << 20 };

/* Call it after cudaEventRecord: a later recording of the event does not change the future. */
static ferry_status define_by_event(ferry_device *gpu, ferry_buffer *block, cudaEvent_t event,
                                    cudaStream_t stream)
{
    ferry_future *fired = ferry_event_wrap(gpu, event, stream);
    ferry_status status = ferry_buffer_define(ferry_buffer_span(block), fired);
    ferry_future_release(fired);
    return status;
}

int main(void)
{
    ferry_engine *engine = NULL;
    ferry_device *gpu = NULL;
    ferry_buffer *block = NULL, *host = NULL;
    cudaStream_t stream;
    cudaEvent_t event;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_device_open(engine, "cuda:0", NULL, &gpu, NULL) != FERRY_OK ||
        ferry_buffer_alloc(gpu, BYTES, &block) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_find(engine, "host:0"), BYTES, &host) != FERRY_OK ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess)
        return 1;

    cudaMemsetAsync(ferry_buffer_data(block), 9, BYTES, stream);
    cudaEventRecord(event, stream);
    ferry_status status = define_by_event(gpu, block, event, stream);
    ferry_future *copied =
        ferry_copy(engine, ferry_buffer_span(host), ferry_buffer_span(block), NULL);
    if (status == FERRY_OK)
        status = ferry_future_wait(copied, -1);
    int last = ((char *)ferry_buffer_data(host))[BYTES - 1];
    printf("%s, the last byte is %d\n", ferry_status_name(status), last);
    ferry_future_release(copied);
    ferry_buffer_release(block);
    ferry_buffer_release(host);
    ferry_engine_release(engine);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
    return status == FERRY_OK && last == 9 ? 0 : 1;
}
