/* SPDX-License-Identifier: Apache-2.0 */
/* Making nodes in the caller's thread, before anybody holds the baton, and giving them back. */
#include "engine/graph/node.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/completion.h"
#include "engine/graph/kind.h"
#include "engine/graph/scope.h"
#include "engine/graph/turn.h"
#include "engine/graph/use.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

#define ID_BLOCK 4096

static uint64_t next_id(ferry_engine *engine, fry_context *context)
{
    if (fry_unlikely(context == NULL))
        return fry_fetch_add(&engine->next_id, 1) + 1;
    if (fry_unlikely(context->next_id == context->last_id)) {
        context->next_id = fry_fetch_add(&engine->next_id, ID_BLOCK) + 1;
        context->last_id = context->next_id + ID_BLOCK;
    }
    return context->next_id++;
}

static void node_init(ferry_engine *engine, fry_context *context, fry_node *node,
                      ferry_op_kind kind)
{
    /* Zeroes the first two lines; fry_node_init_spans and the operations set the rest. */
    memset((char *)node + sizeof(ferry_future), 0,
           __builtin_offsetof(fry_node, listed) - sizeof(ferry_future));
    node->kind = (uint8_t)kind;
    fry_future_init(&node->future, &engine->owner, 2, next_id(engine, context));
}

void fry_node_init_own(ferry_engine *engine, fry_context *context, fry_node *node, uint8_t kind)
{
    node_init(engine, context, node, (ferry_op_kind)kind);
    node->future.references = 1; /* its life's: no user knows it */
    node->flags |= FRY_NODE_RESERVE;
}

fry_node *fry_node_create(ferry_engine *engine, fry_context *context, ferry_op_kind kind,
                          fry_refusal *why_p)
{
    ferry_status status = FERRY_OK;
    fry_node *node = fry_pool_take_or_grow(&engine->nodes, &context->nodes, &status);
    if (fry_unlikely(node == NULL)) {
        if (status == FERRY_E_AGAIN)
            fry_pool_refused(&engine->nodes, 1);
        *why_p = fry_refusal_of_want(status, FRY_REFUSED_MAX_NODES);
        return NULL;
    }
    node_init(engine, context, node, kind);
    return node;
}

/* Once a node is out of the graph, only its first cache line is read. */
ferry_future *fry_node_init_done(fry_turn *turn, fry_node *slot, ferry_op_kind kind)
{
    fry_future_init(&slot->future, &turn->engine->owner, 1, next_id(turn->engine, turn->context));
    slot->future.status = FERRY_OK;
    fry_future_seal_unshared(&slot->future);
    slot->kind = (uint8_t)kind;
    slot->state = FRY_NODE_QUIET;
    slot->flags = FRY_NODE_FIRED | FRY_NODE_WAS_ISSUED | FRY_NODE_RETIRED | FRY_NODE_DETACHED;
    slot->counts = 0;
    slot->edges = NULL;
    turn->engine->detached++; /* the batch's caller has the engine, so it is not released */
    return &slot->future;
}

static fry_node *create_from(fry_pool *pool, ferry_engine *engine, fry_context *context,
                             ferry_op_kind kind)
{
    fry_pool_cache cache = {0}; /* threads keep none, as there are few */
    fry_node *node = fry_pool_take(pool, &cache);
    fry_pool_flush(pool, &cache);
    if (node == NULL)
        return NULL;
    node_init(engine, context, node, kind);
    node->flags |= FRY_NODE_RESERVE;
    return node;
}

fry_node *fry_node_create_reserve(ferry_engine *engine, fry_context *context)
{
    return create_from(&engine->reserve, engine, context, FERRY_OP_DEFINE);
}

fry_node *fry_node_create_writable(ferry_engine *engine, fry_context *context)
{
    fry_node *node = create_from(&engine->writables, engine, context, FERRY_OP_PROMISE);
    if (node != NULL) {
        node->op.promise.value = NULL;
        node->op.promise.on_cancel = NULL;
    }
    return node;
}

static const fry_op_kind *kind_of(const fry_node *node)
{
    return fry_kind(fry_engine_of(&node->future), node);
}

void fry_node_hold_buffers(fry_node *node)
{
    if ((node->flags & (FRY_NODE_HELD_BUFFERS | FRY_NODE_HAS_SPANS)) != FRY_NODE_HAS_SPANS)
        return;
    node->flags |= FRY_NODE_HELD_BUFFERS;
    if (fry_likely(node->kind == FERRY_OP_COPY)) {
        if (!node->has_rows && node->op.copy.size_bytes != 0) {
            fry_buffer_retain(node->op.copy.dst);
            fry_buffer_retain(node->op.copy.src);
        }
    } else {
        fry_use own;
        for (uint8_t i = 0; fry_node_span(node, i, &own); i++)
            fry_buffer_retain(own.buffer);
    }
    for (const fry_use *use = node->uses; use != NULL; use = use->next)
        fry_buffer_retain(use->buffer);
}

void fry_node_drop_buffers(const fry_node *node)
{
    if (fry_likely(node->kind == FERRY_OP_COPY)) {
        if (!node->has_rows && node->op.copy.size_bytes != 0) {
            fry_buffer_unretain(node->op.copy.dst);
            fry_buffer_unretain(node->op.copy.src);
        }
        return;
    }
    fry_use own;
    for (uint8_t i = 0; fry_node_span(node, i, &own); i++)
        fry_buffer_unretain(own.buffer);
}

/*
 * Holds the predecessors' futures until the edges are attached. A batch holds them from the start.
 */
static void hold_after(fry_node *node, const fry_edge *edge)
{
    if (edge == NULL || (node->flags & FRY_NODE_HELD_AFTER) != 0)
        return;
    node->flags |= FRY_NODE_HELD_AFTER;
    for (; edge != NULL; edge = edge->sibling)
        (void)fry_fetch_add(&edge->from->future.references, 1);
}

/* Holds what the node needs to stay valid once its submit call has returned. */
void fry_graph_share(fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_UNSHARED;
    fry_node_hold_buffers(node);
    hold_after(node, node->edges);
}

void fry_graph_share_entering(const ferry_engine *engine, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_UNSHARED;
    fry_node_hold_buffers(node);
    hold_after(node, engine->entering.edge);
}

/* For a node with FRY_NODE_RESERVE. */
static fry_pool *reserve_of(ferry_engine *engine, const fry_node *node)
{
    return node->kind == FERRY_OP_PROMISE ? &engine->writables : &engine->reserve;
}

fry_refusal fry_node_add_edge(ferry_engine *engine, fry_context *context, fry_node *node,
                              fry_node *from, fry_edge_nature nature)
{
    ferry_status status = FERRY_OK;
    fry_edge *edge = fry_pool_take_or_grow(&engine->edges, &context->edges, &status);
    if (fry_unlikely(edge == NULL))
        return fry_refusal_of_want(status, FRY_REFUSED_MAX_EDGES);
    edge->from = from;
    edge->to = node;
    edge->sibling = node->edges;
    edge->nature = (uint8_t)nature;
    edge->state = FRY_EDGE_LOOSE;
    node->edges = edge;
    return FRY_TAKEN;
}

fry_refusal fry_node_add_note(ferry_engine *engine, fry_context *context, fry_node *node,
                              uint64_t user_data)
{
    ferry_status status = FERRY_OK;
    fry_note *note = fry_pool_take_or_grow(&engine->notes, &context->notes, &status);
    if (note == NULL)
        return fry_refusal_of_want(status, FRY_REFUSED_MAX_NODES);
    note->label = node->label;
    note->user_data = user_data;
    note->queue = NULL;
    note->scope = NULL;
    node->note = note;
    node->has_note = 1;
    node->flags |= FRY_NODE_HAS_NOTE;
    return FRY_TAKEN;
}

static void give_note(ferry_engine *engine, fry_context *context, fry_node *node)
{
    if (fry_unlikely(node->note->queue != NULL))
        fry_completion_cancel(node); /* it was not submitted */
    if (fry_unlikely(node->note->scope != NULL))
        fry_scope_forget(node);
    if (fry_likely(context != NULL)) {
        fry_pool_give(&engine->notes, &context->notes, node->note);
        return;
    }
    fry_pool_cache none = {0};
    fry_pool_give(&engine->notes, &none, node->note);
    fry_pool_flush(&engine->notes, &none);
}

fry_refusal fry_node_add_use(ferry_engine *engine, fry_context *context, fry_node *node,
                             const fry_rows *rows, ferry_access_mode mode)
{
    ferry_status status = FERRY_OK;
    fry_use *use = fry_pool_take_or_grow(&engine->uses, &context->uses, &status);
    if (use == NULL)
        return fry_refusal_of_want(status, FRY_REFUSED_MAX_ACCESSES);
    fry_node_init_spans(node);
    *use = (fry_use){.next = node->uses,
                     .buffer = rows->buffer,
                     .begin = rows->offset,
                     .end = rows->offset + rows->row_bytes,
                     .pitch_bytes = rows->pitch_bytes,
                     .row_count = rows->count,
                     .mode = mode};
    node->uses = use;
    return FRY_TAKEN;
}

static inline void free_tail(ferry_engine *engine, fry_node *node)
{
    if (fry_unlikely(engine->kinds[node->kind]->free != NULL))
        engine->kinds[node->kind]->free(engine, node);
}

/* A node whose tail holds nothing. Inline, as a call more would be a seventieth of a nop's cost. */
static inline __attribute__((always_inline)) void give_head(ferry_engine *engine,
                                                            fry_context *context, fry_node *node)
{
    if (fry_unlikely(node->future.error != 0))
        fry_future_drop_error(&node->future);
    if (fry_unlikely((node->flags & FRY_NODE_HAS_NOTE) != 0 && node->kind != FERRY_OP_ANY))
        give_note(engine, context, node);
    if (fry_likely((node->flags & FRY_NODE_RESERVE) == 0 && context != NULL)) {
        fry_pool_give(&engine->nodes, &context->nodes, node);
        return;
    }
    if (node->kind == FRY_OP_STAGE || node->kind == FRY_OP_LOT)
        return;
    if (node->kind == FRY_OP_JOIN) {
        fry_pool_give(&engine->joins, &context->joins, node);
        return;
    }
    /* There is no cache to put it in. */
    bool is_reserve = (node->flags & FRY_NODE_RESERVE) != 0;
    fry_pool *pool = is_reserve ? reserve_of(engine, node) : &engine->nodes;
    fry_pool_cache cache = {0};
    fry_pool_give(pool, &cache, node);
    fry_pool_flush(pool, &cache);
}

static __attribute__((noinline)) void give_slot(ferry_engine *engine, fry_context *context,
                                                fry_node *node)
{
    free_tail(engine, node);
    give_head(engine, context, node);
}

void fry_node_discard(ferry_engine *engine, fry_context *context, fry_node *node)
{
    if (kind_of(node)->discard != NULL)
        kind_of(node)->discard(engine, context, node);
    free_tail(engine, node);
    fry_node_discard_new(engine, context, node);
}

void fry_node_discard_new(ferry_engine *engine, fry_context *context, fry_node *node)
{
    while (node->edges != NULL) {
        fry_edge *edge = node->edges;
        node->edges = edge->sibling;
        fry_pool_give(&engine->edges, &context->edges, edge);
    }
    while ((node->flags & FRY_NODE_HAS_SPANS) != 0 && node->uses != NULL) {
        fry_use *use = node->uses;
        node->uses = use->next;
        fry_pool_give(&engine->uses, &context->uses, use);
    }
    give_head(engine, context, node);
}

fry_fault fry_node_fault(const fry_node *node, ferry_status status)
{
    int32_t (*rank)(const fry_node *) = kind_of(node)->rank;
    return (fry_fault){.status = status,
                       .rank = rank != NULL ? rank(node) : -1,
                       .op = node->future.id,
                       .label = fry_node_label(node)};
}

fry_error *fry_node_error(const fry_node *node, ferry_status status, const char *text)
{
    const fry_fault fault = fry_node_fault(node, status);
    return fry_error_create(&fry_engine_of(&node->future)->memory, &fault, NULL, "%s",
                            text != NULL ? text : "");
}

/* Drops the reference of the node's life. True: it was the last. */
static inline bool drop_reference(fry_node *node)
{
    if ((node->flags & FRY_NODE_UNSHARED) == 0)
        return fry_fetch_sub(&node->future.references, 1) == 1;
    node->future.references--;
    return false;
}

/* The engine's handle is released, so a node that detaches is counted at once: see engine.c. */
static __attribute__((cold, noinline)) void drop_life_late(fry_turn *turn, fry_node *node)
{
    fry_engine_retain(turn->engine);
    if (drop_reference(node)) {
        give_slot(turn->engine, turn->context, node);
        fry_engine_unretain(turn->engine, 1); /* not the last: the caller has a handle */
    }
}

/*
 * A node whose user's handles outlive it is counted in engine->detached, so that the engine's
 * memory stays until the last handle is released. A node that ends with its life costs no atomic
 * operation.
 */
void fry_node_drop_life(fry_turn *turn, fry_node *node)
{
    ferry_engine *engine = turn->engine;
    if (fry_load_acquire(&node->future.references) == 1) {
        give_slot(engine, turn->context, node);
        return;
    }
    node->flags |= FRY_NODE_DETACHED;
    if (fry_unlikely(engine->is_released)) {
        drop_life_late(turn, node);
        return;
    }
    engine->detached++;
    if (fry_unlikely(drop_reference(node))) {
        engine->detached--;
        give_slot(engine, turn->context, node);
    }
}

void fry_node_released(ferry_future *future)
{
    ferry_engine *engine = fry_engine_of(future);
    give_slot(engine, fry_context_get(engine), fry_node_of(future));
    fry_engine_unretain(engine, 1);
}
