/* SPDX-License-Identifier: Apache-2.0 */
/* The mark, which lifts bars from buffers when it comes out of the inbox: refused_writes.c. */
#include "engine/graph/refused_mark.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/hazard.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/refusal.h"

void fry_refused_mark_init(ferry_engine *engine)
{
    engine->mark.kind = FRY_OP_MARK;
    engine->mark.state = FRY_NODE_WAITING; /* not NEW, so fry_graph_arrive calls `arrive` */
}

static void place(ferry_buffer *buffer)
{
    fry_refusal why = (fry_refusal)fry_load_relaxed(&buffer->refused);
    fry_hazard_poison_buffer(buffer, fry_refusal_error(why));
    fry_store_release(&buffer->refused, FRY_TAKEN); /* pairs with fry_buffer_is_barred */
    fry_buffer_unretain(buffer);
}

static void arrive(fry_turn *turn, fry_node *mark)
{
    ferry_engine *engine = turn->engine;
#ifdef FRY_PLANT_POISON_EARLY
    /* A planted fault: tests/planted builds it and must find it. */
    if (engine->refused_noted == NULL)
        engine->refused_noted = fry_stack_take_all(&engine->refused_buffers);
#endif
    fry_link *buffers = engine->refused_noted;
    while (buffers != NULL) {
        ferry_buffer *buffer = FRY_CONTAINER(buffers, ferry_buffer, refused_link);
        buffers = buffers->next; /* once placed it may be barred and listed again */
        place(buffer);
    }
    engine->refused_noted = fry_stack_take_all(&engine->refused_buffers);
    bool goes_on = engine->refused_noted != NULL;
    if (!goes_on) {
        (void)fry_exchange(&engine->mark_is_pushed, 0);
        goes_on = !fry_stack_is_empty(&engine->refused_buffers) &&
                  fry_exchange(&engine->mark_is_pushed, 1) == 0;
    }
    if (goes_on)
        fry_stack_push(&engine->inbox, &mark->link);
}

const fry_op_kind fry_kind_mark = {.arrive = arrive};
