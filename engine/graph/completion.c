/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues. A ring of records with one writer, the baton's holder, and with takers, who
 * take turns by a mutex of their own. So nothing that submits or resolves waits for a taker.
 *
 * Room. `held` counts two things in one word: records that are promised or not taken, in its lower
 * half, and operations that may still touch the queue, in its upper half. An operation adds one to
 * both at its submit, if the lower half is below the depth. So the writer always finds room: of the
 * ring's `depth` places at most as many are written and not taken. A taker takes what it has copied
 * off the lower half, after it has moved `head`; so a submitter that is let in by that has its
 * place written only after it was read.
 *
 * The rest is done once for all records that a hold of the baton has made in a queue, before the
 * baton is given: their operations are taken off the upper half, and takers are woken.
 *
 * Sleep. The writer has stored `tail`, passes a full barrier, and looks at `armed`; who arms stores
 * `armed`, passes a full barrier, and looks at `tail` (the argument of base/sleeper.pml). So either
 * the writer sees that somebody sleeps, or that one sees the record.
 *
 * End. A queue stands in the engine's list until it is freed, which happens in a call of its users
 * (making or releasing a queue) or as the engine goes, never with the baton, since it calls the
 * allocator. It is freed once it is released and the upper half is zero, and the freeing thread has
 * had the baton after it saw that: the writer, which looks at `armed` after that, has given the
 * baton then. If another thread has the baton, the queue waits for the next such call. The
 * descriptor is closed then and not before, as the writer might write to another file that has its
 * number by then.
 */
#include "engine/graph/completion.h"

#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"

#include <unistd.h>

fry_refusal fry_completion_expect(ferry_queue *queue, fry_node *node)
{
    uint64_t held = fry_load_relaxed(&queue->held);
    do { /* not added first and taken back: that would refuse others for whom there is room */
        if ((held & FRY_COMPLETION_RECORDS) >= queue->depth)
            return FRY_REFUSED_QUEUE_FULL;
    } while (!fry_cas_weak(&queue->held, &held, held + FRY_COMPLETION_OPERATION + 1));
    node->note->queue = queue;
    return FRY_TAKEN;
}

void fry_completion_cancel(fry_node *node)
{
    ferry_queue *queue = node->note->queue;
    node->note->queue = NULL;
    if (queue != NULL)
        (void)fry_fetch_sub(&queue->held, FRY_COMPLETION_OPERATION + 1);
}

void fry_completion_record(fry_turn *turn, fry_node *node)
{
    ferry_queue *queue = node->note->queue;
    if (queue == NULL)
        return;
    const fry_op_kind *kind = fry_kind(turn->engine, node);
    ferry_status status = fry_future_status(&node->future);
    uint64_t flow, size_bytes = 0;
    if (status == FERRY_OK && kind->moved_bytes != NULL)
        size_bytes = kind->moved_bytes(node, &flow);
    if (turn->queue != queue) {
        fry_completion_flush(turn);
        turn->queue = queue;
        turn->recorded = 0;
    }
    uint64_t tail = queue->tail;
    queue->records[tail & queue->mask] =
        (ferry_queue_record){.user_data = node->note->user_data,
                             .op = node->future.id,
                             .size_bytes = size_bytes,
                             .status = status,
                             .kind = (ferry_op_kind)fry_node_shown_kind(node)};
    fry_store_release(&queue->tail, tail + 1);
    node->note->queue = NULL;
    turn->recorded++;
}

void fry_completion_flush(fry_turn *turn)
{
    ferry_queue *queue = turn->queue;
    if (queue == NULL)
        return;
    turn->queue = NULL;
    (void)fry_fetch_sub(&queue->held,
                        turn->recorded * FRY_COMPLETION_OPERATION); /* full barrier: see above */
    if (fry_unlikely(fry_load_seq_cst(&queue->armed) != 0) && fry_exchange(&queue->armed, 0) != 0)
        (void)!write(queue->fd, &(uint64_t){1}, sizeof(uint64_t)); /* full: it is readable */
}

size_t fry_completion_bytes(uint32_t mask)
{
    return sizeof(ferry_queue) + ((size_t)mask + 1) * sizeof(ferry_queue_record);
}

static void free_queue(ferry_queue *queue)
{
    if (queue->fd >= 0)
        (void)close(queue->fd);
    (void)pthread_mutex_destroy(&queue->taking);
    fry_free(&queue->engine->memory, queue, fry_completion_bytes(queue->mask));
}

void fry_completions_end(ferry_queue *queue)
{
    while (queue != NULL) {
        ferry_queue *next = queue->next;
        free_queue(queue);
        queue = next;
    }
}

void fry_completions_free(ferry_engine *engine)
{
    fry_completions_end(engine->queues);
    engine->queues = NULL;
}
