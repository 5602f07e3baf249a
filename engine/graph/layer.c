/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/layer.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/edge.h"
#include "engine/graph/join.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"

_Static_assert(sizeof(fry_layer) <= sizeof(fry_segment), "it is a slot of the segments' pool");

fry_layer *fry_layer_open(fry_turn *turn, ferry_buffer *buffer)
{
    fry_layer *layer = fry_pool_take(&turn->engine->segments, &turn->context->segments);
    *layer = (fry_layer){.buffer = buffer, .next = buffer->layers};
    buffer->layers = layer;
    buffer->has_more = true;
    return layer;
}

void fry_layer_tidy(fry_turn *turn, fry_layer *layer)
{
    ferry_engine *engine = turn->engine;
    if (layer->stair_count != 0 || engine->entering.made == layer)
        return;
    if (engine->entering.layer == layer)
        engine->entering.layer = layer->next;
    for (fry_layer **at = &layer->buffer->layers; *at != NULL;) {
        if ((*at)->into == layer)
            (*at)->into = NULL;
        if (*at == layer)
            *at = layer->next;
        else
            at = &(*at)->next;
    }
    fry_buffer_look(layer->buffer);
    fry_pool_give(&engine->segments, &turn->context->segments, layer);
}

/* ---- stairs ---- */

static void insert(fry_turn *turn, fry_layer *layer, fry_node *node, size_t begin, size_t end)
{
    fry_segment *stair = fry_segment_take(turn, layer->buffer, FRY_SEGMENT_STAIR, begin, end);
    stair->layer = layer;
    fry_segment_list(turn, stair, node);
    fry_spans_insert(&layer->stairs, stair);
    layer->stair_count++;
}

static void detach(fry_turn *turn, fry_segment *stair)
{
    fry_layer *layer = stair->layer;
    fry_spans_remove(&layer->stairs, stair);
    layer->stair_count--;
    fry_node *node = stair->node;
    fry_segment_unlist(turn, stair);
    if (fry_node_is_join(node))
        fry_join_release(node);
    fry_segment_give(turn, stair);
}

void fry_layer_remove(fry_turn *turn, fry_segment *stair)
{
    fry_layer *layer = stair->layer;
    detach(turn, stair);
    fry_layer_tidy(turn, layer);
}

/* Makes the part behind the offset a stair of its own. */
static void cut(fry_turn *turn, fry_segment *stair, size_t offset)
{
    size_t end = stair->end;
    stair->end = offset;
    insert(turn, stair->layer, stair->node, offset, end);
}

/* Adds a reader to the stair. False: there is no join for that. */
static bool add(fry_turn *turn, fry_segment *stair, fry_node *node)
{
    fry_node *others = stair->node;
    if (others == node)
        return true;
    if (fry_join_may_grow(others, stair)) {
        fry_join_add(turn, others, node, FRY_EDGE_ORDER);
        return true;
    }
    fry_node *both = fry_join_open(turn);
    if (both == NULL)
        return false;
    fry_join_add(turn, both, others, FRY_EDGE_ORDER);
    fry_join_add(turn, both, node, FRY_EDGE_ORDER);
    fry_segment_unlist(turn, stair);
    fry_segment_list(turn, stair, both);
    fry_join_close(turn, both);
    return true;
}

size_t fry_layer_put(fry_turn *turn, fry_layer *layer, fry_node *node, size_t begin, size_t end)
{
    fry_segment *stair = fry_spans_from(&layer->stairs, begin);
    if (stair == NULL || stair->begin > begin) {
        if (stair != NULL && stair->begin < end)
            end = stair->begin;
        insert(turn, layer, node, begin, end);
        return end;
    }
    if (stair->begin < begin) {
        cut(turn, stair, begin);
        stair = fry_spans_from(&layer->stairs, begin);
    }
    if (stair->end > end)
        cut(turn, stair, end);
    return add(turn, stair, node) ? stair->end : begin;
}

/* ---- writes ---- */

fry_segment *fry_layer_first(const fry_layer *layer, size_t begin, size_t end)
{
    fry_segment *stair = fry_spans_from(&layer->stairs, begin);
    return stair != NULL && stair->begin < end ? stair : NULL;
}

bool fry_layer_take(fry_turn *turn, fry_segment *stair, size_t begin, size_t end)
{
    if (stair->begin < begin && stair->end > end)
        return false;
    if (stair->begin < begin)
        stair->end = begin;
    else if (stair->end > end)
        stair->begin = end; /* the stair keeps its place in the order */
    else
        fry_layer_remove(turn, stair);
    return true;
}

/* ---- merging ---- */

static int class_of(const fry_layer *layer)
{
    return layer->stair_count == 0 ? -1 : 63 - __builtin_clzll(layer->stair_count);
}

fry_layer *fry_layer_to_merge(ferry_buffer *buffer)
{
    fry_layer *of_class[64] = {0}, *found = NULL;
    size_t count = 0;
    for (fry_layer *layer = buffer->layers; layer != NULL; layer = layer->next, count++) {
        if (layer->into != NULL)
            return layer;
    }
    if (count <= FRY_LAYERS)
        return NULL;
    for (fry_layer *layer = buffer->layers; layer != NULL && found == NULL; layer = layer->next) {
        int class = class_of(layer);
        if (class < 0)
            continue;
        if (of_class[class] != NULL)
            found = layer;
        else
            of_class[class] = layer;
    }
    if (found == NULL)
        return NULL;
    fry_layer *other = of_class[class_of(found)];
    fry_layer *smaller = found->stair_count < other->stair_count ? found : other;
    smaller->into = smaller == found ? other : found;
    return smaller;
}

bool fry_layer_merge_some(fry_turn *turn, fry_layer *layer)
{
    fry_segment *stair = fry_spans_from(&layer->stairs, 0);
    size_t put = fry_layer_put(turn, layer->into, stair->node, stair->begin, stair->end);
    if (put == stair->begin)
        return false;
    if (put == stair->end)
        fry_layer_remove(turn, stair);
    else
        stair->begin = put;
    return true;
}
