/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps as a digraph for graphviz: boxes are operations that wait; an arrow comes from what a box
 * waits for.
 */
#include "engine/observe/dump_dot.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/poison.h"
#include "engine/observe/dump.h"
#include "engine/observe/dump_names.h"
#include "engine/observe/dump_text.h"

#include <inttypes.h>

static const char *fill_of(const fry_dump_node *node)
{
    static const char *const fills[] = {
        [FRY_NODE_NEW] = "white",         [FRY_NODE_WAITING] = "white",
        [FRY_NODE_READY] = "lightyellow", [FRY_NODE_ISSUED] = "lightblue",
        [FRY_NODE_RESOLVED] = "orange",   [FRY_NODE_QUIET] = "lightgrey",
    };
    return node->reason == FRY_DUMP_OUTSIDE ? "pink" : fills[node->state];
}

static void begin(fry_dump *dump)
{
    const ferry_engine *engine = dump->engine;
    fry_text_print(
        &dump->text,
        "digraph ferry {\n"
        "graph [rankdir=LR, label=\"engine %" PRIu64 ", %s%s%s, entering %" PRIu32 "\"];\n"
        "node [shape=box, style=filled, fillcolor=white];\n",
        engine->id, fry_dump_mode_name(engine), dump->facts.is_closing ? ", closing" : "",
        dump->facts.is_stopped ? ", stopped" : "", dump->facts.entering);
}

static void print_edges(fry_text *text, const fry_dump_node *node)
{
    for (uint8_t i = 0; i < node->wait_count; i++) {
        const fry_dump_wait *wait = &node->waits[i];
        fry_text_print(text, "n%" PRIu64 " -> n%" PRIu64 " [label=\"%s\"%s];\n", wait->op, node->id,
                       fry_dump_nature_name(wait->nature),
                       wait->is_on_device ? ", style=dashed" : "");
    }
    if (node->batch != 0)
        fry_text_print(text, "n%" PRIu64 " -> n%" PRIu64 " [label=\"batch\"];\n", node->id,
                       node->batch);
}

/* Lines of a label end with \n, which graphviz reads. */
static void print_node(fry_dump *dump, const fry_dump_node *node, bool is_first)
{
    (void)is_first;
    fry_text *text = &dump->text;
    fry_text_print(text, "n%" PRIu64 " [fillcolor=%s, label=\"%" PRIu64 " %s", node->id,
                   fill_of(node), node->id, ferry_op_kind_name((ferry_op_kind)node->kind));
    if (node->has_label) {
        fry_text_string(text, "\\n");
        fry_text_dot(text, node->label);
    }
    fry_text_print(text, "\\n%s, %" PRId64 " ms", fry_dump_state_name(node->state),
                   node->age_ns / 1000000);
    if (node->has_size)
        fry_text_print(text, "\\n%" PRIu64 " bytes", node->size_bytes);
    if (node->device != FRY_DUMP_NO_DEVICE)
        fry_text_print(text, ", %s", fry_dump_device_name(dump->engine, node->device));
    if (node->is_untracked)
        fry_text_string(text, ", untracked");
    if (node->status != FERRY_PENDING)
        fry_text_print(text, "\\n%s", ferry_status_name((ferry_status)node->status));
    if (node->reason != FRY_DUMP_OPERATIONS)
        fry_text_print(text, "\\nwaits for %s", fry_dump_reason_name(node->reason));
    if (node->more != 0)
        fry_text_print(text, "\\n%s%" PRIu64 " %s", node->wait_count != 0 ? "and " : "", node->more,
                       node->kind == FERRY_OP_BATCH ? "of its operations" : "more");
    fry_text_string(text, "\"];\n");
    print_edges(text, node);
}

static void print_poison(fry_dump *dump, const fry_dump_poison *poison, bool is_first)
{
    (void)is_first;
    fry_text *text = &dump->text;
    fry_text_print(text, "p%" PRIxPTR "_%zu%s [shape=note, label=\"poisoned%s\\n%s 0x%" PRIxPTR,
                   poison->buffer, poison->begin, poison->is_wide ? "w" : "",
                   poison->is_wide ? " as a whole" : "",
                   fry_dump_device_name(dump->engine, poison->device), poison->buffer);
    fry_text_print(text, "\\n%zu to %zu\\n%s", poison->begin, poison->end,
                   ferry_status_name((ferry_status)poison->status));
    if (poison->op != 0)
        fry_text_print(text, " of %" PRIu64, poison->op);
    if (poison->has_label) {
        fry_text_string(text, " ");
        fry_text_dot(text, poison->label);
    }
    fry_text_string(text, "\"];\n");
}

static void end(fry_dump *dump)
{
    fry_text_string(&dump->text, "}\n");
}

static void nothing(fry_dump *dump)
{
    (void)dump;
}

const fry_dump_form fry_dump_dot = {
    .begin = begin,
    .promises_begin = nothing,
    .nodes_begin = nothing,
    .node = print_node,
    .lanes = nothing,
    .poisons_begin = nothing,
    .poison = print_poison,
    .end = end,
};
