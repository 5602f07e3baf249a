/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libuv hears of ferry's transfers. The engine keeps its own thread; a completion queue has a
 * descriptor that libuv watches, so the end of each copy is handled in libuv's thread, many a
 * wake-up. (To have no thread of ferry's at all, embed the engine: examples/libuv_loop.c.)
 */
#define _DEFAULT_SOURCE /* what uv.h needs of the system, also with -std=c11 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <uv.h>

enum { COPIES = 100, BYTES = 64 << 10 };

static ferry_engine *engine;
static ferry_queue *queue;
static size_t ended, right;

/* Takes all records, then arms, so that the next record makes the descriptor readable again. */
static void take(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    ferry_queue_record records[32];
    do {
        size_t count;
        while ((count = ferry_queue_take(queue, records, sizeof records[0], 32)) > 0) {
            for (size_t i = 0; i < count; i++)
                right += records[i].status == FERRY_OK && records[i].size_bytes == BYTES;
            ended += count;
        }
    } while (ended < COPIES && ferry_queue_arm(queue) == FERRY_E_BUSY);
    if (ended == COPIES)
        uv_poll_stop(poll);
}

static void start(ferry_buffer *source, ferry_buffer *target)
{
    for (size_t i = 0; i < COPIES; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.queue = queue;
        options.user_data = i;
        ferry_span from = {source, i * BYTES, BYTES}, to = {target, i * BYTES, BYTES};
        ferry_future_release(ferry_copy(engine, to, from, &options));
    }
}

int main(void)
{
    ferry_buffer *source = NULL, *target = NULL;
    uv_loop_t loop;
    uv_poll_t poll;
    int fd = -1;
    if (uv_loop_init(&loop) != 0 || ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_queue_create(engine, COPIES, &queue, &fd) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), COPIES * BYTES, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), COPIES * BYTES, &target) != FERRY_OK)
        return 1;
    uv_poll_init(&loop, &poll, fd);
    uv_poll_start(&poll, UV_READABLE, take);
    start(source, target);
    take(&poll, 0, 0); /* arms the queue for the first time */
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    printf("%zu of %d copies are right\n", right, COPIES);
    ferry_queue_release(queue);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return right == COPIES && uv_loop_close(&loop) == 0 ? 0 : 1;
}
