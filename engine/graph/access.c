/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/access.h"

#include "engine/engine.h"
#include "engine/graph/edge.h"
#include "engine/graph/entering.h"
#include "engine/graph/join.h"
#include "engine/graph/node.h"
#include "engine/graph/stock.h"
#include "engine/graph/turn.h"

/* Without joins no more edges than that lead to one node: fry_node_holding has room for so many. */
#define DIRECT_EDGES_MAX ((uint32_t)1 << 20)

/* Missing joins only make it slower: the loop goes on if there is no room for joins alone. */
bool fry_access_find_room(fry_turn *turn, fry_entering *in, const fry_need *need)
{
    in->has_stocked = true;
    ferry_status status =
        fry_stock_fill(turn->engine, turn->context, need, turn->is_loop, &turn->lack);
    bool may_lack_joins = turn->is_loop && in->edge_count < DIRECT_EDGES_MAX;
    if (status != FERRY_OK && may_lack_joins && turn->lack.is_of_joins) {
        fry_need rest = *need;
        rest.joins = 0;
        status = fry_stock_fill(turn->engine, turn->context, &rest, true, &turn->lack);
    }
    if (status == FERRY_OK)
        return true;
    turn->need = *need;
    in->stop = turn->is_loop ? FRY_STOP_REFUSED : FRY_STOP_ROOM;
    in->status = status;
    return false;
}

fry_node *fry_access_gatherer(fry_turn *turn, fry_node *node, fry_edge_nature nature)
{
    fry_entering *in = &turn->engine->entering;
    fry_node *gatherer = in->gatherer;
    if (gatherer != NULL && in->gatherer_nature == nature &&
        gatherer->join.member_count < FRY_DEGREE_MAX)
        return gatherer;
    if (gatherer != NULL)
        fry_join_close(turn, gatherer);
    in->gatherer = gatherer = fry_join_open(turn);
    if (gatherer == NULL)
        return node;
    in->gatherer_nature = (uint8_t)nature;
    fry_graph_connect(turn, gatherer, node, nature);
    return gatherer;
}
