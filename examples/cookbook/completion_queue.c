/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many copies, looked at many at a time. Each names a queue and a number of your own; the queue has
 * a record for each that has ended, in the order of their ends. The thread sleeps on the queue's
 * descriptor when there are none. A batch costs less than single submits.
 */
#include <ferry/ferry.h>
#include <poll.h>
#include <stdio.h>

enum { COPIES = 4096, BYTES = 4096, AT_ONCE = 64 };

static void sleep_until_records(ferry_queue *queue, int fd)
{
    struct pollfd descriptor = {.fd = fd, .events = POLLIN};
    if (ferry_queue_arm(queue) == FERRY_OK) /* else there are records already */
        poll(&descriptor, 1, -1);
}

/* Returns how many of the copies have succeeded; `seen` marks each by its number. */
static size_t take_all(ferry_queue *queue, int fd, unsigned char seen[COPIES])
{
    ferry_queue_record records[AT_ONCE];
    size_t succeeded = 0;
    for (size_t taken = 0; taken < COPIES;) {
        size_t count = ferry_queue_take(queue, records, sizeof records[0], AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            seen[records[i].user_data]++;
            succeeded += records[i].status == FERRY_OK;
        }
        taken += count;
        if (count == 0)
            sleep_until_records(queue, fd);
    }
    return succeeded;
}

/* Each copy has options of its own, because each has a number of its own. */
static ferry_future *submit(ferry_engine *engine, ferry_queue *queue, ferry_buffer *source,
                            ferry_buffer *target)
{
    static ferry_op_options options[COPIES];
    static ferry_op ops[COPIES];
    for (size_t i = 0; i < COPIES; i++) {
        options[i] = (ferry_op_options){sizeof options[i], .queue = queue, .user_data = i};
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .src = {source, i * BYTES, BYTES},
                            .dst = {target, (COPIES - 1 - i) * BYTES, BYTES},
                            .options = &options[i]};
    }
    return ferry_batch(engine, ops, sizeof ops[0], COPIES, NULL, NULL);
}

int main(void)
{
    static unsigned char seen[COPIES];
    ferry_engine *engine = NULL;
    ferry_buffer *source = NULL, *target = NULL;
    ferry_queue *queue = NULL;
    int fd = -1;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), COPIES * BYTES, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), COPIES * BYTES, &target) != FERRY_OK ||
        ferry_queue_create(engine, COPIES, &queue, &fd) != FERRY_OK)
        return 1;
    ferry_future_release(submit(engine, queue, source, target));
    size_t succeeded = take_all(queue, fd, seen), once = 0;
    for (size_t i = 0; i < COPIES; i++)
        once += seen[i] == 1;
    printf("%zu of %d copies succeeded, %zu were reported once\n", succeeded, COPIES, once);
    ferry_queue_release(queue);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return succeeded == COPIES && once == COPIES ? 0 : 1;
}
