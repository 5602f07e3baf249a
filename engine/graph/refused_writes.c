/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that were refused for lack of room. What they would have written is not valid, from their
 * place in program order on: earlier operations still read what was there, later ones fail. Marking
 * this must not need the room that is missing.
 *
 * One of a few reserved nodes stands for the write: a definition that fails as it enters. If all of
 * them are in the inbox, which happens only if the loop does not get to run, the buffer is
 * *barred*:
 *
 *  - A refused write bars the buffer, by one compare-and-swap on `refused`. The thread that barred
 *    it puts it in a list, and pushes the engine's mark into the inbox unless the mark is there
 *    already.
 *  - Later submits that name the buffer see the bar and are refused. A write among them is one more
 *    refused write, and needs nothing else.
 *  - When the mark's turn comes, the buffers that were noted at its last turn are poisoned as a
 *    whole and are free again. Buffers listed since then are noted, and the mark goes into the
 *    inbox once more; if there are none, it rests.
 *
 * *Program order.* Let W be a refused write of buffer B, and O an operation on B.
 *  - O before W: O's submit had returned before W barred B, so by then O's node had entered or
 *    stood in the inbox or the backlog. After that B was listed, after that a turn of the mark
 *    noted B, and only then was the mark pushed for the turn that poisons B. The inbox keeps its
 *    order, so O has entered by that turn, unharmed.
 *  - O after W: if B is still barred, O is refused. If not, the poison was there before the bar was
 *    lifted (release; O's submit loads with acquire), and O enters later than that, so it finds the
 *    poison.
 *  - W while another write W' bars B: no operation on B was taken between the two, so the place
 *    where the poison of W' enters is right for W too. If the bar is lifted at that moment, either
 *    W has seen it first (and the poison is there by then), or W finds B free and bars it again.
 * So the poison of W separates earlier from later operations. Only what happens at the same moment
 * in two threads may fall on either side.
 *
 * *Nothing is left behind.* A thread that lists a buffer then looks whether the mark is on its way.
 * The mark's turn says that the mark rests, then looks whether the list is empty. Both are full
 * barriers, so one of the two sees the other: refused_writes.pml.
 *
 * The list holds a barred buffer, so its memory stays. The mark is a node of the engine that is
 * never listed; its kind takes the mark's turn when the mark comes out of the backlog.
 */
#include "engine/graph/refused_writes.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/due.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"

/* Bars the buffer; needs neither a node nor a context. */
static void bar(ferry_engine *engine, fry_context *context, ferry_buffer *buffer, fry_refusal why)
{
    int32_t open = FRY_TAKEN;
    if (!fry_cas(&buffer->refused, &open, (int32_t)why))
        return;
    fry_buffer_retain(buffer);
    fry_stack_push(&engine->refused_buffers, &buffer->refused_link);
    if (fry_exchange(&engine->mark_is_pushed, 1) == 0)
        fry_turn_push(engine, context, &engine->mark);
}

void fry_refused_write(ferry_engine *engine, fry_context *context, const fry_rows *rows,
                       fry_refusal why)
{
    fry_node *node = fry_node_create_reserve(engine, context);
    if (node == NULL) {
        bar(engine, context, rows->buffer, why);
        return;
    }
    fry_node_init_define(node, rows);
    fry_node_refuse(node, fry_refusal_status(why), fry_refusal_error(why), false);
    if (context != NULL) {
        fry_turn_submit(engine, context, node);
    } else { /* a thread without a context can't work on the graph */
        fry_graph_share(node);
        fry_turn_push(engine, NULL, node);
    }
    ferry_future_release(&node->future);
}
