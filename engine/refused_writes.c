/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that were refused for want of room: what they would have written is not valid, from their
 * place in program order on. Who came before them still reads what was there; who comes later
 * fails. And saying so must not need the room that is missing.
 *
 * One of a few nodes set aside stands for the write: a definition that fails as it enters. If all
 * of them stand in the inbox, which takes a loop that does not come by, the buffer is *barred*:
 *
 *  - A refused write bars the buffer, by one exchange on `refused`. Who barred it hangs it in a
 *    list, and sends the engine's mark into the inbox unless the mark is there already.
 *  - Later submits that name the buffer see that, and are refused. A write among them is one more
 *    refused write, for which there is nothing else to do.
 *  - When the mark's turn comes, the buffers that were noted at its last turn are poisoned as a
 *    whole, and free again. Those that have come into the list since are noted, and the mark goes
 *    into the inbox once more; if there are none it rests.
 *
 * *In program order.* Let W be a refused write of buffer B, and O an operation on B.
 * O before W: O's submit had returned, so its node had entered or stood in the inbox or the backlog
 * before W barred B. B came into the list after that, was noted at a turn of the mark after that,
 * and only then the mark was pushed for the turn that poisons B. The inbox keeps its order, so O
 * has entered by then, and was not touched.
 * O after W: if B is still barred, O is refused. If not, the poison was there before the bar was
 * lifted (release; O's submit looks by acquire), and O enters later than that: it finds the poison.
 * W while B is barred by another write W': between the two no operation on B was taken, so where
 * the poison of W' takes its place is right for W too. If the bar is lifted just then, W has found
 * it before (and the poison is there by then) or finds B free and bars it anew.
 * So the poison of W separates those before it from those after it; only what happens at the same
 * moment in two threads may fall on either side.
 *
 * *Nothing is left behind.* Who hangs a buffer in the list looks after that whether the mark is on
 * its way; the mark's turn says that it rests, and looks after that whether the list is empty. Both
 * are full barriers, so one of the two sees the other: refused_writes.pml.
 *
 * A barred buffer is held by the list, so its memory stays. The mark is a node of the engine's own
 * that is never listed, and tells the loop from the backlog by what it is.
 */
#include "engine/refused_writes.h"

#include "engine/buffer.h"
#include "engine/context.h"
#include "engine/due.h"
#include "engine/engine.h"
#include "engine/node.h"
#include "engine/refusal.h"
#include "engine/turn.h"

/* In which neither a node nor a context is needed. */
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
    } else { /* such a thread can't work on the graph */
        fry_graph_share(node);
        fry_turn_push(engine, NULL, node);
    }
    ferry_future_release(&node->future);
}
