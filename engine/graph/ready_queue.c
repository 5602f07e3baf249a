/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/ready_queue.h"

void fry_ready_queue_push(fry_ready_queue *queue, fry_link *item, ferry_priority priority)
{
    fry_queue_push(&queue->ranks[priority - FERRY_PRIORITY_LOW], item);
    queue->count++;
}

/* The lowest rank that was overtaken often enough, or else the highest. */
int fry_ready_rank_next(unsigned waiting, const uint8_t overtaken[FRY_RANKS])
{
    int highest = FRY_RANKS - 1;
    while ((waiting >> highest & 1) == 0)
        highest--;
    for (int rank = 0; rank < highest; rank++) {
        if ((waiting >> rank & 1) != 0 && overtaken[rank] >= FRY_OVERTAKES_MAX)
            return rank;
    }
    return highest;
}

void fry_ready_rank_goes(unsigned waiting, uint8_t overtaken[FRY_RANKS], int rank)
{
    for (int below = 0; below < rank; below++)
        overtaken[below] = (uint8_t)(overtaken[below] + (waiting >> below & 1));
    overtaken[rank] = 0;
}

static unsigned waiting_of(const fry_ready_queue *queue)
{
    unsigned waiting = 0;
    for (int rank = 0; rank < FRY_RANKS; rank++)
        waiting |= (unsigned)(queue->ranks[rank].first != NULL) << rank;
    return waiting;
}

fry_link *fry_ready_queue_next(const fry_ready_queue *queue)
{
    if (queue->count == 0)
        return NULL;
    return queue->ranks[fry_ready_rank_next(waiting_of(queue), queue->overtaken)].first;
}

fry_link *fry_ready_queue_pop(fry_ready_queue *queue)
{
    if (queue->count == 0)
        return NULL;
    unsigned waiting = waiting_of(queue);
    int next = fry_ready_rank_next(waiting, queue->overtaken);
    fry_ready_rank_goes(waiting, queue->overtaken, next);
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
