/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: records of operations that have resolved. completion.c. */
#ifndef FRY_ENGINE_GRAPH_COMPLETION_H
#define FRY_ENGINE_GRAPH_COMPLETION_H

#include "engine/engine.h"
#include "engine/graph/node.h"

#include <ferry/queue.h>
#include <pthread.h>

/* What ferry_queue.held counts: completion.c. */
#define FRY_COMPLETION_OPERATION ((uint64_t)1 << 32)
#define FRY_COMPLETION_RECORDS (FRY_COMPLETION_OPERATION - 1)

struct ferry_queue {
    ferry_engine *engine;
    ferry_queue *next; /* in engine->queues; with engine->cold */
    uint32_t mask;     /* places, less one */
    uint32_t depth;
    int fd;           /* -1: none */
    bool is_released; /* with engine->cold */

    uint64_t held __attribute__((aligned(64))); /* atomic: completion.c */
    uint64_t tail;                              /* records written; atomic, with the baton */
    uint32_t armed;                             /* atomic: somebody sleeps, or is about to */

    pthread_mutex_t taking __attribute__((aligned(64)));
    uint64_t head; /* records taken; atomic, with `taking` */
    ferry_queue_record records[];
};

/*
 * Keeps room in the queue for the record of a new node, which has a note. FRY_REFUSED_QUEUE_FULL:
 * there is none. Any thread. fry_completion_cancel gives it back: the node will make no record.
 */
fry_refusal fry_completion_expect(ferry_queue *queue, fry_node *node);
void fry_completion_cancel(fry_node *node);

/* The node, which has a note, has resolved: makes its record, if it is to. With the baton. */
void fry_completion_record(fry_turn *turn, fry_node *node);

/* The turn gives the baton back: lets go of the queue that it has made records in, wakes takers. */
void fry_completion_flush(fry_turn *turn);

/* The bytes of a queue. */
size_t fry_completion_bytes(uint32_t mask);

/* Frees a list of them, which nobody names any more. */
void fry_completions_end(ferry_queue *queue);

/* Frees all that there are, as the engine goes. */
void fry_completions_free(ferry_engine *engine);

#endif
