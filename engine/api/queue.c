/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues, as their users see them: completion.c has the argument. */
#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/completion.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"

#include <ferry/queue.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEPTH_MAX ((size_t)1 << 22)

/* ---- freeing ---- */

/* With engine->cold: takes out of the list what no operation names any more, and returns it. */
static ferry_queue *take_ended(ferry_engine *engine)
{
    ferry_queue *ended = NULL, **at = &engine->queues;
    while (*at != NULL) {
        ferry_queue *queue = *at;
        if (!queue->is_released || fry_load_acquire(&queue->held) >= FRY_COMPLETION_OPERATION) {
            at = &queue->next;
            continue;
        }
        *at = queue->next;
        queue->next = ended;
        ended = queue;
    }
    return ended;
}

/* With engine->cold. */
static void put_back(ferry_engine *engine, ferry_queue *ended)
{
    while (ended != NULL) {
        ferry_queue *next = ended->next;
        ended->next = engine->queues;
        engine->queues = ended;
        ended = next;
    }
}

/* Frees what has ended, if the baton is to be had: whoever had it has let go of those then. */
static void free_ended(ferry_engine *engine)
{
    fry_context *context = fry_context_get(engine);
    (void)pthread_mutex_lock(&engine->cold);
    ferry_queue *ended = take_ended(engine);
    (void)pthread_mutex_unlock(&engine->cold);
    if (ended == NULL)
        return;
    fry_turn turn;
    if (context != NULL && fry_turn_begin(&turn, engine, context, false)) {
        (void)fry_turn_end(&turn, 0);
        fry_completions_end(ended);
        fry_late_call_ends(engine); /* for who found the baton taken: late.c */
        return;
    }
    (void)pthread_mutex_lock(&engine->cold);
    put_back(engine, ended);
    (void)pthread_mutex_unlock(&engine->cold);
}

static uint32_t mask_for(size_t depth)
{
    uint32_t mask = 0;
    while (mask + 1 < depth)
        mask = mask * 2 + 1;
    return mask;
}

static ferry_status open_queue(ferry_engine *engine, size_t depth, ferry_queue **queue_p, int *fd_p)
{
    uint32_t mask = mask_for(depth);
    ferry_queue *queue =
        fry_alloc(&engine->memory, fry_completion_bytes(mask), _Alignof(ferry_queue));
    if (queue == NULL)
        return FERRY_E_NO_MEMORY;
    queue->engine = engine;
    queue->mask = mask;
    queue->depth = (uint32_t)depth;
    queue->fd = fd_p != NULL ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (fd_p != NULL && queue->fd < 0) {
        fry_free(&engine->memory, queue, fry_completion_bytes(mask));
        return FERRY_E_SYSTEM;
    }
    (void)pthread_mutex_init(&queue->taking, NULL);
    free_ended(engine);
    (void)pthread_mutex_lock(&engine->cold);
    queue->next = engine->queues;
    engine->queues = queue;
    (void)pthread_mutex_unlock(&engine->cold);
    *queue_p = queue;
    if (fd_p != NULL)
        *fd_p = queue->fd;
    return FERRY_OK;
}

static void hand_out(char *to, size_t record_size_bytes, const ferry_queue_record *record)
{
    if (fry_likely(record_size_bytes == sizeof *record)) {
        memcpy(to, record, sizeof *record);
        return;
    }
    size_t known_bytes = record_size_bytes < sizeof *record ? record_size_bytes : sizeof *record;
    memcpy(to, record, known_bytes);
    memset(to + known_bytes, 0, record_size_bytes - known_bytes);
}

static size_t take(ferry_queue *queue, void *records, size_t record_size_bytes, size_t count)
{
    (void)pthread_mutex_lock(&queue->taking);
    uint64_t head = queue->head;
    uint64_t there_are = fry_load_acquire(&queue->tail) - head; /* pairs with the record's store */
    if (count > there_are)
        count = (size_t)there_are;
    for (size_t i = 0; i < count; i++)
        hand_out((char *)records + i * record_size_bytes, record_size_bytes,
                 &queue->records[(head + i) & queue->mask]);
    fry_store_release(&queue->head, head + count);
    if (count != 0)
        (void)fry_fetch_sub(&queue->held, count);
    (void)pthread_mutex_unlock(&queue->taking);
    return count;
}

static bool arm(ferry_queue *queue)
{
    uint64_t ignored;
    (void)!read(queue->fd, &ignored, sizeof ignored); /* what an earlier arm was told */
    (void)fry_exchange(&queue->armed, 1);
    return fry_load_seq_cst(&queue->tail) == fry_load_acquire(&queue->head);
}

/* ---- the functions ---- */

ferry_status ferry_queue_create(ferry_engine *engine, size_t depth, ferry_queue **queue_p,
                                int *fd_p)
{
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK)
        return status;
    if (queue_p == NULL || depth == 0 || depth > DEPTH_MAX)
        return FERRY_E_INVALID;
    status = open_queue(engine, depth, queue_p, fd_p);
    if (status == FERRY_OK)
        fry_engine_retain(engine); /* until its release */
    return status;
}

size_t ferry_queue_take(ferry_queue *queue, ferry_queue_record *records, size_t record_size_bytes,
                        size_t count)
{
    if (queue == NULL || records == NULL || record_size_bytes < sizeof(uint64_t) ||
        record_size_bytes > FRY_OPTIONS_BYTES_MAX || fry_engine_check(queue->engine) != FERRY_OK)
        return 0;
    return take(queue, records, record_size_bytes, count);
}

ferry_status ferry_queue_arm(ferry_queue *queue)
{
    if (queue == NULL)
        return FERRY_E_INVALID;
    ferry_status status = fry_engine_check(queue->engine);
    if (status != FERRY_OK)
        return status;
    if (queue->fd < 0)
        return FERRY_E_INVALID;
    return arm(queue) ? FERRY_OK : FERRY_E_BUSY;
}

ferry_engine *ferry_queue_engine(const ferry_queue *queue)
{
    return queue != NULL ? queue->engine : NULL;
}

void ferry_queue_release(ferry_queue *queue)
{
    if (queue == NULL || fry_engine_check(queue->engine) != FERRY_OK)
        return;
    ferry_engine *engine = queue->engine;
    (void)pthread_mutex_lock(&engine->cold);
    queue->is_released = true;
    (void)pthread_mutex_unlock(&engine->cold);
    free_ended(engine);
    fry_engine_unretain(engine, 1); /* perhaps the last */
}
