/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps as JSON; ferry/dump.h says what the members mean. One operation per line, for grep. */
#include "engine/observe/dump_json.h"

#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/poison.h"
#include "engine/observe/dump.h"
#include "engine/observe/dump_names.h"
#include "engine/observe/dump_text.h"

#include <inttypes.h>

/* Starts a member that is not the first of its object. */
static void print_name(fry_text *text, const char *name)
{
    fry_text_string(text, ",\"");
    fry_text_string(text, name);
    fry_text_string(text, "\":");
}

/* For ferry's own words, which need no escapes. */
static void print_string(fry_text *text, const char *name, const char *value)
{
    print_name(text, name);
    fry_text_string(text, "\"");
    fry_text_string(text, value);
    fry_text_string(text, "\"");
}

static void print_label(fry_text *text, const char *label)
{
    print_name(text, "label");
    fry_text_json(text, label);
}

static void print_number(fry_text *text, const char *name, int64_t value)
{
    print_name(text, name);
    fry_text_number(text, value);
}

static const char *boolean(bool value)
{
    return value ? "true" : "false";
}

static void print_pool(fry_text *text, const char *name, const fry_pool *pool, bool is_first)
{
    fry_text_print(text, "%s\"%s\":{\"made\":%" PRIu64 ",\"limit\":%" PRIu64 "}",
                   is_first ? "" : ",", name, fry_load_relaxed(&pool->made),
                   fry_load_relaxed(&pool->limit));
}

static void begin(fry_dump *dump)
{
    const ferry_engine *engine = dump->engine;
    const fry_dump_facts *facts = &dump->facts;
    fry_text *text = &dump->text;
    fry_text_print(text,
                   "{\"engine\":{\"id\":%" PRIu64 ",\"version\":\"%s\",\"mode\":\"%s\","
                   "\"closing\":%s,\"stopped\":%s},\n",
                   engine->id, ferry_version(), fry_dump_mode_name(engine),
                   boolean(facts->is_closing), boolean(facts->is_stopped));
    fry_text_print(text,
                   "\"limits\":{\"max_nodes\":%" PRIu32 ",\"max_edges\":%" PRIu64
                   ",\"max_accesses\":%" PRIu64 ",\"max_tasks\":%" PRIu32
                   ",\"stream_depth\":%" PRIu32 ",\"submit_budget\":%zu,\"inline_copy_bytes\":%zu,"
                   "\"watchdog_ns\":%" PRId64 "},\n",
                   engine->options.max_nodes, engine->options.max_edges,
                   engine->options.max_accesses, engine->max_tasks, engine->stream_depth,
                   engine->submit_budget, engine->inline_copy_bytes, engine->watchdog_ns);
    fry_text_print(text, "\"pools\":{");
    print_pool(text, "nodes", &engine->nodes, true);
    print_pool(text, "edges", &engine->edges, false);
    print_pool(text, "uses", &engine->uses, false);
    print_pool(text, "notes", &engine->notes, false);
    print_pool(text, "segments", &engine->segments, false);
    print_pool(text, "readers", &engine->readers, false);
    print_pool(text, "transfers", &engine->transfers, false);
    print_pool(text, "reserve", &engine->reserve, false);
    fry_text_print(text,
                   "},\n\"tasks\":{\"posted\":%" PRIu64 ",\"misrun\":%" PRIu64 "},\n"
                   "\"graph\":{\"entering\":%" PRIu32 ",\"starved\":%s}",
                   facts->tasks_posted, facts->tasks_misrun, facts->entering,
                   boolean(facts->is_starved));
}

static void promises_begin(fry_dump *dump)
{
    fry_text_string(&dump->text, ",\n\"promises\":[");
}

static void nodes_begin(fry_dump *dump)
{
    fry_text_string(&dump->text, "],\n\"nodes\":[");
}

static void print_flags(fry_text *text, const fry_dump_node *node)
{
    const struct {
        bool is_set;
        const char *name;
    } flags[] = {{node->is_failing, "\"failing\""},
                 {node->is_cancel_requested, "\"cancel_requested\""},
                 {node->has_fired, "\"fired\""},
                 {node->is_refused_write, "\"refused_write\""},
                 {node->is_untracked, "\"untracked\""}};
    bool is_first = true;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!flags[i].is_set)
            continue;
        fry_text_string(text, is_first ? ",\"flags\":[" : ",");
        fry_text_string(text, flags[i].name);
        is_first = false;
    }
    if (!is_first)
        fry_text_string(text, "]");
}

static void print_waits(fry_text *text, const fry_dump_node *node)
{
    for (uint8_t i = 0; i < node->wait_count; i++) {
        const fry_dump_wait *wait = &node->waits[i];
        fry_text_string(text, i == 0 ? ",\"waits\":[{\"op\":" : ",{\"op\":");
        fry_text_number(text, (int64_t)wait->op);
        print_string(text, "nature", fry_dump_nature_name(wait->nature));
        print_string(text, "where", wait->is_on_device ? "device" : "host");
        fry_text_string(text, "}");
    }
    if (node->wait_count != 0)
        fry_text_string(text, "]");
    if (node->more != 0)
        print_number(text, "more", (int64_t)node->more);
}

/* A receive or probe of any member, or with any tag, says so until it has met a message. */
static void print_peer(fry_text *text, const fry_dump_node *node)
{
    if (node->rank == FERRY_RANK_ANY)
        print_string(text, "peer", "any");
    else
        print_number(text, "peer", (int64_t)node->rank);
    if (node->tag == FERRY_TAG_ANY)
        print_string(text, "tag", "any");
    else
        fry_text_print(text, ",\"tag\":%" PRIu64, node->tag);
}

static void print_node(fry_dump *dump, const fry_dump_node *node, bool is_first)
{
    fry_text *text = &dump->text;
    fry_text_string(text, is_first ? "\n{\"id\":" : ",\n{\"id\":");
    fry_text_number(text, (int64_t)node->id);
    print_string(text, "kind", ferry_op_kind_name((ferry_op_kind)node->kind));
    if (node->has_label)
        print_label(text, node->label);
    if (node->user_data != 0)
        fry_text_print(text, ",\"user_data\":%" PRIu64, node->user_data);
    print_string(text, "state", fry_dump_state_name(node->state));
    print_number(text, "age_ns", node->age_ns);
    if (node->has_size)
        print_number(text, "size_bytes", (int64_t)node->size_bytes);
    if (node->is_message) {
        print_peer(text, node);
    }
    if (node->device != FRY_DUMP_NO_DEVICE)
        print_string(text, "device", fry_dump_device_name(dump->engine, node->device));
    if (node->status != FERRY_PENDING)
        print_string(text, "status", ferry_status_name((ferry_status)node->status));
    if (node->state == FRY_NODE_RESOLVED)
        print_string(text, "not_quiet",
                     node->reason == FRY_DUMP_FUNCTION     ? "function"
                     : node->reason == FRY_DUMP_OPERATIONS ? "operations"
                     : node->reason == FRY_DUMP_OUTSIDE    ? "outside"
                     : node->is_message                    ? "member"
                                                           : "hardware");
    print_string(text, "waits_for", fry_dump_reason_name(node->reason));
    print_waits(text, node);
    if (node->batch != 0)
        print_number(text, "batch", (int64_t)node->batch);
    if (node->priority != FERRY_PRIORITY_NORMAL)
        print_string(text, "priority", node->priority > 0 ? "high" : "low");
    print_flags(text, node);
    if (node->has_deadline)
        print_number(text, "deadline_in_ns", node->deadline_in_ns);
    fry_text_string(text, "}");
}

static void print_lanes(fry_dump *dump)
{
    fry_text *text = &dump->text;
    fry_text_string(text, "],\n\"lanes\":[");
    bool is_first = true;
    for (size_t i = 0; i < dump->lane_count; i++) {
        const fry_dump_lane *lane = &dump->lanes[i];
        if (!lane->is_shown)
            continue;
        fry_text_print(text,
                       "%s\n{\"device\":\"%s\",\"stream\":%u,\"in_flight\":%" PRIu32
                       ",\"backlog\":%" PRIu64 ",\"issued\":%" PRIu64 ",\"fired\":%" PRIu64 "}",
                       is_first ? "" : ",", fry_dump_device_name(dump->engine, lane->device),
                       (unsigned)lane->stream, lane->in_flight, lane->backlog, lane->issued,
                       lane->fired);
        is_first = false;
    }
}

static void poisons_begin(fry_dump *dump)
{
    fry_text_string(&dump->text, "],\n\"poisoned\":[");
}

static void print_poison(fry_dump *dump, const fry_dump_poison *poison, bool is_first)
{
    fry_text *text = &dump->text;
    fry_text_print(text, "%s\n{\"buffer\":\"0x%" PRIxPTR "\"", is_first ? "" : ",", poison->buffer);
    print_number(text, "begin", (int64_t)poison->begin);
    print_number(text, "end", (int64_t)poison->end);
    print_string(text, "device", fry_dump_device_name(dump->engine, poison->device));
    if (poison->is_wide)
        fry_text_string(text, ",\"wide\":true");
    print_string(text, "status", ferry_status_name((ferry_status)poison->status));
    if (poison->op != 0)
        print_number(text, "op", (int64_t)poison->op);
    if (poison->has_label)
        print_label(text, poison->label);
    fry_text_string(text, "}");
}

static void end(fry_dump *dump)
{
    const fry_dump_totals *totals = &dump->totals;
    fry_text *text = &dump->text;
    fry_text_print(text, "],\n\"totals\":{\"promises\":%" PRIu64 ",\"nodes\":%" PRIu64,
                   totals->promises, totals->nodes);
    for (uint8_t state = FRY_NODE_WAITING; state <= FRY_NODE_QUIET; state++)
        fry_text_print(text, ",\"%s\":%" PRIu64, fry_dump_state_name(state), totals->states[state]);
    fry_text_print(text, ",\"cut\":%s},\n\"not_quiet\":[", boolean(totals->is_cut));
    for (size_t i = 0; i < dump->not_quiet_count; i++)
        fry_text_print(text, "%s%" PRIu64, i == 0 ? "" : ",", dump->not_quiet[i]);
    fry_text_string(text, "]}\n");
}

const fry_dump_form fry_dump_json = {
    .begin = begin,
    .promises_begin = promises_begin,
    .nodes_begin = nodes_begin,
    .node = print_node,
    .lanes = print_lanes,
    .poisons_begin = poisons_begin,
    .poison = print_poison,
    .end = end,
};
