/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a copy waits for on its device, and on which stream.
 *
 * Streams work in order, so a wait holds up all that comes behind it. A wait for ferry's own copies
 * only costs time. A wait for an event of the program's own streams may last for ever, if what
 * makes that event fire waits for something that ferry has yet to do. So a copy that waits for an
 * outside event that has not fired goes on a parked stream.
 *
 * The rules, kept where a copy is issued:
 *  1. A copy is issued to a main lane only if nothing that it waits for on its device, and that has
 *     yet to fire, stands on an outside or parked lane.
 *  2. A parked lane that is not empty has a key, the outside lane whose events it waits for and the
 *     main lane whose copies it takes, and the latest of those events that it waits for (`behind`:
 *     for each copy). A copy goes there only if it waits for events of that one outside lane, by
 *     itself or through copies parked for it, and the latest of them is not older than the lane's
 *     latest.
 *  3. A copy that waits for two outside lanes, or finds no parked lane, does not wait on its
 *     device. Its edges are held on the host, and it is issued to its main lane when they have
 *     fired.
 *
 * *Nothing on a main lane stands behind an outside event.* By induction in the order of issuing:
 * what stands before a copy in its main lane was issued to that lane, and by 1 what the copy waits
 * for stands on main lanes. All of that was issued before the copy.
 *
 * *A parked copy stands behind no outside event except those that it depends on anyway.* By 2 the
 * copies before it in its lane wait for events of the same outside lane that are no later than its
 * own latest event, and have fired when that has. What it waits for on other parked lanes waits for
 * the same outside lane; `behind` says up to which event, and its own latest event includes that.
 *
 * *A copy whose source is read as it is issued waits for nothing on its device*, except for what
 * stands before it in its own lane, which only writes to GPUs (fry_node_copy_is_read_now). Its
 * other edges are held on the host, as by 3.
 *
 * So if the program makes an event fire only after it has seen some copy finish, the event does not
 * keep that copy from finishing, unless the copy was ordered after the event.
 *
 * *No deadlock on the device.* A wait names an event that is recorded, or an operation that is
 * issued, so all waits lead back in time and nothing waits in a circle. And the engine issues only
 * to streams that have room, so no issue blocks.
 *
 * A parked lane is given back when the last operation in it has fired, by fry_lanes_poll alone. No
 * copy waits for a place in a parked lane: rule 3 also holds if the lane is full.
 */
#include "engine/graph/park.h"

#include "engine/graph/buffer.h"
#include "engine/graph/edge.h"
#include "engine/graph/join.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"

/* Whether the node, which is ISSUED, stands on a device, at (lane, sequence). */
static bool is_on_device(const fry_node *from)
{
    return fry_node_has_place(from) ||
           (fry_node_stands(from) && fry_node_stand(from, 0).lane != NULL);
}

static bool has_parked_lanes(const fry_lane *main)
{
    const fry_device_ops *ops = main->stream->device->ops;
    return ops->parked_stream != NULL && ops->parked_stream(main->stream, 0) != NULL;
}

_Static_assert(FRY_STREAM_WAITS <= 16, "fry_node.device_waits has four bits");

/* See fry_lane_define. */
static bool can_define_behind(const fry_node *from, const fry_node *to, fry_edge_nature nature)
{
    const fry_lane *lane = to->op.define.stand.lane;
    uint8_t elsewhere =
        fry_stands_elsewhere(from, lane != NULL ? lane : fry_node_stand(from, 0).lane);
    return elsewhere == 0 ||
           (nature == FRY_EDGE_ORDER && lane != NULL && lane->stream->kind == FRY_STREAM_OUTSIDE &&
            to->device_waits + elsewhere < FRY_STREAM_WAITS);
}

static bool can_stand_behind(const fry_node *from, const fry_node *to, fry_edge_nature nature)
{
    if (from->kind == FERRY_OP_DEFINE && from->device_waits != 0)
        return false;
    return fry_node_is_join(to) ? fry_join_can_stand(to, from)
                                : can_define_behind(from, to, nature);
}

bool fry_lane_can_wait_for(const fry_node *from, const fry_node *to, fry_edge_nature nature)
{
    if (!is_on_device(from) || to->unconfirmed == UINT16_MAX)
        return false;
    if (fry_unlikely(to->kind != FERRY_OP_COPY && to->kind != FRY_OP_STAGE &&
                     to->kind != FRY_OP_LAUNCH))
        return fry_node_stands(to) && can_stand_behind(from, to, nature);
    const fry_lane *own = to->op.copy.stand.lane;
    if (own == NULL)
        return false;
    fry_stream *stream = own->stream;
    bool is_read_now = fry_node_copy_is_read_now(to);
    uint8_t waits = to->device_waits;
    for (size_t i = 0; i < fry_node_stand_count(from); i++) {
        const fry_lane *lane = fry_node_stand(from, i).lane;
        if (lane == own)
            continue;
        if (is_read_now || ++waits >= FRY_STREAM_WAITS ||
            !stream->device->ops->can_wait(stream, lane->stream) ||
            (lane->stream->kind != FRY_STREAM_MAIN && !has_parked_lanes(own)))
            return false;
    }
    return true;
}

/* Whether the operation there has yet to fire. */
static bool is_waited_for(fry_stand stand)
{
    return stand.sequence > stand.lane->fired;
}

/* The outside event that the operation at the stand is behind; lane is NULL if there is none. */
static fry_outside_event outside_of(fry_stand stand)
{
    switch ((fry_stream_kind)stand.lane->stream->kind) {
    case FRY_STREAM_OUTSIDE:
        return (fry_outside_event){stand.lane, stand.sequence};
    case FRY_STREAM_PARKED:
        return (fry_outside_event){stand.lane->outside.lane,
                                   stand.lane->behind[stand.sequence % FRY_STREAM_DEPTH]};
    case FRY_STREAM_MAIN:
    case FRY_STREAM_SPARE:
        break;
    }
    return (fry_outside_event){NULL, 0};
}

/*
 * Keeps one wait for each stream, the latest. The copy's own stream counts too: copies that are
 * handed over as a batch are in no order among each other.
 */
static void add_wait(fry_waits *waits, fry_stream *stream, uint64_t sequence)
{
    size_t at = 0;
    while (at < waits->count && waits->events[at].stream != stream)
        at++;
    if (at == waits->count)
        waits->events[waits->count++] = (fry_event){stream, sequence};
    else if (waits->events[at].sequence < sequence)
        waits->events[at].sequence = sequence;
}

/*
 * Adds a wait for the operation at the stand. False: rule 3 applies, or there are too many waits.
 */
static bool add_event(const fry_node *node, fry_stand stand, fry_waits *waits)
{
    fry_stream *stream = node->op.copy.stand.lane->stream, *other = stand.lane->stream;
    fry_outside_event outside = outside_of(stand);
    if (stream != other && fry_unlikely(fry_node_copy_is_read_now(node)))
        return false; /* what the copy reads may yet be written there */
    if (fry_unlikely(outside.lane != NULL)) {
        if (waits->outside.lane == NULL)
            waits->outside = outside;
        if (waits->outside.lane != outside.lane)
            return false;
        if (waits->outside.sequence < outside.sequence)
            waits->outside.sequence = outside.sequence;
    }
    if (waits->count == FRY_STREAM_WAITS ||
        (stream != other && !stream->device->ops->can_wait(stream, other)))
        return false;
    add_wait(waits, other, stand.sequence);
    return true;
}

/* Adds waits for the stands of the edge's predecessor that have yet to fire. */
static bool add_stands(const fry_node *node, const fry_edge *edge, fry_waits *waits)
{
    for (size_t i = 0; i < fry_node_stand_count(edge->from); i++) {
        fry_stand stand = fry_node_stand(edge->from, i);
        if (is_waited_for(stand) && !add_event(node, stand, waits))
            return false;
    }
    return true;
}

/*
 * Adds waits for an edge on the device. For a definition these include the stands of its own
 * predecessors, which may be on several lanes.
 */
static bool add_edge(const fry_node *node, const fry_edge *edge, fry_waits *waits)
{
    if (!add_stands(node, edge, waits))
        return false;
    if (fry_likely(edge->from->kind != FERRY_OP_DEFINE))
        return true;
    for (const fry_edge *into = edge->from->edges; into != NULL; into = into->sibling) {
        if (into->state == FRY_EDGE_ON_DEVICE && !add_stands(node, into, waits))
            return false;
    }
    return true;
}

/* Holds on the host the edges that can't wait on the device. True: there are none. */
static bool collect(const fry_node *node, fry_waits *waits)
{
    bool is_free = true;
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state == FRY_EDGE_ON_DEVICE && !add_edge(node, edge, waits)) {
            fry_edge_take_from_device(edge);
            is_free = false;
        }
    }
    return is_free;
}

/* Rule 2: a lane with that key, or one without a key. NULL: neither has room. */
static fry_lane *park(const fry_lane *main, fry_outside_event outside)
{
    const fry_device_ops *ops = main->stream->device->ops;
    fry_lane *empty = NULL;
    fry_stream *stream;
    for (size_t i = 0; (stream = ops->parked_stream(main->stream, i)) != NULL; i++) {
        fry_lane *lane = stream->lane;
        if (!fry_lane_has_room(lane))
            continue;
        if (lane->outside.lane == outside.lane && lane->main == main &&
            lane->outside.sequence <= outside.sequence)
            return lane;
        if (lane->outside.lane == NULL && empty == NULL)
            empty = lane;
    }
    return empty;
}

static bool stands_outside(const fry_edge *edge)
{
    for (size_t i = 0; i < fry_node_stand_count(edge->from); i++) {
        fry_stand stand = fry_node_stand(edge->from, i);
        if (is_waited_for(stand) && outside_of(stand).lane != NULL)
            return true;
    }
    return false;
}

static bool is_outside(const fry_edge *edge)
{
    if (edge->state != FRY_EDGE_ON_DEVICE)
        return false;
    if (stands_outside(edge))
        return true;
    if (edge->from->kind != FERRY_OP_DEFINE)
        return false;
    const fry_edge *into = edge->from->edges;
    while (into != NULL && !(into->state == FRY_EDGE_ON_DEVICE && stands_outside(into)))
        into = into->sibling;
    return into != NULL;
}

static void hold_all_outside(const fry_node *node)
{
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (is_outside(edge))
            fry_edge_take_from_device(edge);
    }
}

fry_lane *fry_lane_choose(const fry_node *node, fry_waits *waits)
{
    if (!collect(node, waits))
        return NULL;
    if (fry_likely(waits->outside.lane == NULL))
        return node->op.copy.stand.lane;
    fry_lane *lane = park(node->op.copy.stand.lane, waits->outside);
    if (lane == NULL)
        hold_all_outside(node);
    return lane;
}

void fry_lane_parked(fry_lane *lane, const fry_lane *main, const fry_waits *waits,
                     uint64_t sequence)
{
    lane->outside = waits->outside;
    lane->main = main;
    lane->behind[sequence % FRY_STREAM_DEPTH] = waits->outside.sequence;
}

/*
 * A definition whose predecessors stand on a device is issued with them. It needs no stream: its
 * place is that of the last predecessor that makes it valid, because all of these are in one lane.
 * So its readers can wait for the definition on their devices.
 *
 * Earlier users of the span may stand on other lanes: with two buffers in turn that is the rule. If
 * the definition is by an outside event it is issued all the same, and an operation that waits for
 * it waits for those users too (add_edge), until the definition has resolved, which it does when
 * all of them have. If the definition is by a copy, the edges from those users hold it. They also
 * hold a definition behind a definition that has such edges.
 */
bool fry_lane_define(fry_node *node)
{
    fry_stand *own = &node->op.define.stand;
    uint64_t sequence = 0;
    for (const fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state != FRY_EDGE_ON_DEVICE)
            continue;
        for (size_t i = 0; i < fry_node_stand_count(edge->from); i++) {
            fry_stand stand = fry_node_stand(edge->from, i);
            if (stand.lane == own->lane && stand.sequence > sequence)
                sequence = stand.sequence;
        }
    }
    own->sequence = sequence;
    return node->unconfirmed != 0;
}
