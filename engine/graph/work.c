/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/work.h"

#include "engine/engine.h"
#include "engine/graph/enter.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

/* Fetches for the node after the next: its edge and successor are here when its turn comes. */
static void prefetch_successor(fry_link *item)
{
    if (item != NULL)
        __builtin_prefetch(FRY_CONTAINER(item, fry_node, link)->successors, 1);
}

size_t fry_graph_work(fry_turn *turn, size_t budget)
{
    ferry_engine *engine = turn->engine;
    size_t done = 0;
    for (; done < budget && fry_likely(turn->steps < FRY_HOLDING_STEPS); done++) {
        fry_link *item;
        if ((item = fry_queue_pop(&engine->failing)) != NULL) {
            fry_graph_step_failing(turn, FRY_CONTAINER(item, fry_node, failing_link));
        } else if ((item = fry_queue_pop(&engine->ready)) != NULL) {
            prefetch_successor(engine->ready.first);
            fry_graph_step(turn, FRY_CONTAINER(item, fry_node, link));
        } else if (fry_unlikely(engine->loop_ready.first != NULL) && turn->is_loop) {
            item = fry_queue_pop(&engine->loop_ready);
            fry_graph_step(turn, FRY_CONTAINER(item, fry_node, link));
        } else if ((item = engine->backlog.first) != NULL) {
            fry_link *next = item->next; /* arriving may queue it elsewhere */
            engine->backlog.first = next;
            fry_entry arrival = fry_graph_arrive(turn, FRY_CONTAINER(item, fry_node, link));
            if (fry_unlikely(arrival != FRY_ARRIVED))
                engine->backlog.first = item;
            if (fry_unlikely(arrival == FRY_NO_ROOM)) {
                turn->wake = true;
                break;
            }
        } else if (!fry_stack_is_empty(&engine->inbox)) {
            fry_queue_append(&engine->backlog, fry_stack_take_all(&engine->inbox));
            engine->inbox_takes++;
        } else {
            break;
        }
    }
    return done;
}
