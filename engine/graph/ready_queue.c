/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/ready_queue.h"

void fry_ready_queue_push(fry_ready_queue *queue, fry_link *item, ferry_priority priority)
{
    fry_queue_push(&queue->ranks[priority - FERRY_PRIORITY_LOW], item);
    queue->count++;
}

static bool waits(const fry_ready_queue *queue, int rank)
{
    return queue->ranks[rank].first != NULL;
}

/* Something waits. Returns the lowest rank that was overtaken often enough, or else the highest. */
static int next_rank(const fry_ready_queue *queue)
{
    int highest = FRY_RANKS - 1;
    while (!waits(queue, highest))
        highest--;
    for (int rank = 0; rank < highest; rank++) {
        if (waits(queue, rank) && queue->overtaken[rank] >= FRY_OVERTAKES_MAX)
            return rank;
    }
    return highest;
}

fry_link *fry_ready_queue_next(const fry_ready_queue *queue)
{
    return queue->count != 0 ? queue->ranks[next_rank(queue)].first : NULL;
}

fry_link *fry_ready_queue_pop(fry_ready_queue *queue)
{
    if (queue->count == 0)
        return NULL;
    int next = next_rank(queue);
    for (int rank = 0; rank < next; rank++) {
        if (waits(queue, rank))
            queue->overtaken[rank]++;
    }
    queue->overtaken[next] = 0;
    queue->count--;
    return fry_queue_pop(&queue->ranks[next]);
}

void fry_ready_queue_append(fry_ready_queue *queue, fry_ready_queue *from)
{
    for (int rank = 0; rank < FRY_RANKS; rank++)
        fry_queue_append(&queue->ranks[rank], from->ranks[rank].first);
    queue->count += from->count;
    *from = (fry_ready_queue){0};
}
