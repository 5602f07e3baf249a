/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No two slices of a row overlap. A slice gets its place (row, start, end) once, when its end is
 * known: it starts no earlier than the latest end in its row, and its own end is then the latest.
 * Records come in the order of their times, so a cut removes the time that the operation stood
 * behind the one before it. If records come in another order, a slice gets too short, but not
 * wrong.
 */
#include "base/trace_lines.h"

#include "base/json_text.h"

#include <ferry/group.h>
#include <ferry/version.h>
#include <stdlib.h>

#define NONE 65535
#define WAIT_MIN_NS 1000 /* no line for shorter waits */
#define HINTS 64

/* Bits of `known`: what is known of an operation. A moment's bit is 1 << ferry_trace_what. */
#define KNOWS(what) (1U << (what))
#define KNOWS_PLACE 1U /* row, start_ns, end_ns */

typedef enum story_state {
    STORY_NONE = 0, /* nothing that still matters is known */
    STORY_LIVE,     /* its line is not written yet */
    STORY_WRITTEN,  /* its line is written; kept for arrows */
} story_state;

typedef struct story {
    uint64_t op;
    int64_t moments_ns[FERRY_TRACE_RESOLVED]; /* index: what - 1 */
    int64_t start_ns, end_ns;
    const char *label;
    uint64_t size_bytes;
    uint64_t waited_for, user_data;
    uint64_t flow; /* joins the two ends of a message; valid with RESOLVED */
    uint64_t lost; /* the engine's lost records at the time of its last record */
    int32_t status;
    uint16_t device, stream, kind, row;
    uint8_t state;
    uint8_t known;
    uint8_t way; /* ferry_gpu_way, or 0; valid with RESOLVED */
} story;

typedef struct row {
    int64_t end_ns; /* end of its latest slice */
    uint16_t device, stream;
    bool is_named;
} row;

struct fry_trace_lines {
    uint64_t engine;
    int32_t process;
    fry_trace_device_name_fn name;
    void *name_arg;
    int64_t latest_ns;
    uint64_t lost;
    uint64_t unwritten;
    size_t live; /* stories in STORY_LIVE */
    uint32_t stream_rows;
    uint16_t hints[HINTS]; /* the row where a stream was found last */
    row streams[FRY_TRACE_STREAM_ROWS];
    row calls[FRY_TRACE_CALLS_ROWS];
    row graph;
    story stories[FRY_TRACE_STORIES];
};

fry_trace_lines *fry_trace_lines_create(uint64_t engine, int32_t process,
                                        fry_trace_device_name_fn name, void *arg)
{
    fry_trace_lines *lines = calloc(1, sizeof *lines); /* pages come when they are touched */
    if (lines == NULL)
        return NULL;
    lines->engine = engine;
    lines->process = process;
    lines->name = name;
    lines->name_arg = arg;
    lines->latest_ns = INT64_MIN;
    for (size_t i = 0; i < FRY_TRACE_STREAM_ROWS; i++)
        lines->streams[i].end_ns = INT64_MIN;
    for (size_t i = 0; i < FRY_TRACE_CALLS_ROWS; i++)
        lines->calls[i].end_ns = INT64_MIN;
    return lines;
}

void fry_trace_lines_destroy(fry_trace_lines *lines)
{
    free(lines);
}

void fry_trace_lines_lose(fry_trace_lines *lines, uint64_t count)
{
    lines->lost += count;
}

int64_t fry_trace_lines_latest_ns(const fry_trace_lines *lines)
{
    return lines->latest_ns;
}

/* ---- pieces of lines ---- */

static char *put_process(char *at, int32_t process)
{
    at = fry_json_literal(at, ",\"pid\":");
    return fry_json_signed(at, process);
}

static char *put_place(char *at, const fry_trace_lines *lines, uint16_t row_number, int64_t when_ns)
{
    at = put_process(at, lines->process);
    at = fry_json_literal(at, ",\"tid\":");
    at = fry_json_unsigned(at, lines->engine * FRY_TRACE_ENGINE_ROWS + row_number);
    at = fry_json_literal(at, ",\"ts\":");
    return fry_json_microseconds(at, when_ns);
}

/* A number that no other operation of the process has; in engine 1 it is the op itself. */
static char *put_id(char *at, const fry_trace_lines *lines, uint64_t op)
{
    at = fry_json_literal(at, ",\"id\":");
    return fry_json_unsigned(at, op + ((lines->engine - 1) << 40));
}

static const char *kind_name(const story *of)
{
    return ferry_op_kind_name((ferry_op_kind)of->kind);
}

static bool knows(const story *of, ferry_trace_what what)
{
    return (of->known & KNOWS(what)) != 0;
}

static int64_t moment_ns(const story *of, ferry_trace_what what)
{
    return of->moments_ns[what - 1];
}

/* ---- rows ---- */

static void name_row(const fry_trace_lines *lines, fry_trace_file *file, row *named,
                     uint16_t number)
{
    if (named->is_named)
        return;
    named->is_named = true;
    char *at = fry_trace_file_room(file);
    at = fry_json_literal(at, "{\"name\":\"thread_name\",\"ph\":\"M\"");
    at = put_process(at, lines->process);
    at = fry_json_literal(at, ",\"tid\":");
    at = fry_json_unsigned(at, lines->engine * FRY_TRACE_ENGINE_ROWS + number);
    at = fry_json_literal(at, ",\"args\":{\"name\":\"engine ");
    at = fry_json_unsigned(at, lines->engine);
    if (number == FRY_TRACE_GRAPH_ROW) {
        at = fry_json_literal(at, " graph");
    } else if (number >= FRY_TRACE_CALLS_ROW) {
        at = fry_json_literal(at, " calls");
        if (number != FRY_TRACE_CALLS_ROW) {
            *at++ = ' ';
            at = fry_json_unsigned(at, (uint64_t)(number - FRY_TRACE_MORE_CALLS_ROW + 2));
        }
    } else {
        *at++ = ' ';
        char *name = at; /* without quotes: it stands within a string */
        at = fry_json_string(name, lines->name(lines->name_arg, named->device),
                             FRY_TRACE_LABEL_BYTES) -
             2;
        memmove(name, name + 1, (size_t)(at - name));
        at = fry_json_literal(at, " stream ");
        at = fry_json_unsigned(at, named->stream);
    }
    at = fry_json_literal(at, "\"}},\n");
    fry_trace_file_add(file, at);
}

/* NULL: no row is left. */
static row *stream_row(fry_trace_lines *lines, uint16_t device, uint16_t stream)
{
    uint16_t *hint = &lines->hints[(device * 5U + stream) % HINTS];
    row *found = &lines->streams[*hint];
    if (*hint < lines->stream_rows && found->device == device && found->stream == stream)
        return found;
    for (uint32_t i = 0; i < FRY_TRACE_STREAM_ROWS; i++) {
        found = &lines->streams[i];
        if (i == lines->stream_rows) {
            found->device = device;
            found->stream = stream;
            lines->stream_rows++;
        }
        if (found->device == device && found->stream == stream) {
            *hint = (uint16_t)i;
            return found;
        }
    }
    return NULL;
}

/* The first row where nothing has run since the function began; if there is none, the first. */
static row *calls_row(fry_trace_lines *lines, int64_t begun_ns)
{
    for (size_t i = 0; i < FRY_TRACE_CALLS_ROWS; i++) {
        if (lines->calls[i].end_ns <= begun_ns)
            return &lines->calls[i];
    }
    return &lines->calls[0];
}

static uint16_t row_number(const fry_trace_lines *lines, const row *of)
{
    if (of == &lines->graph)
        return FRY_TRACE_GRAPH_ROW;
    if (of == lines->calls)
        return FRY_TRACE_CALLS_ROW;
    if (of > lines->calls && of < lines->calls + FRY_TRACE_CALLS_ROWS)
        return (uint16_t)(FRY_TRACE_MORE_CALLS_ROW - 1 + (of - lines->calls));
    return (uint16_t)(of - lines->streams);
}

static story *find(fry_trace_lines *lines, uint64_t op)
{
    story *found = &lines->stories[op % FRY_TRACE_STORIES];
    return found->op == op && found->state != STORY_NONE ? found : NULL;
}

static bool is_function(const story *of)
{
    return of->kind == FERRY_OP_CALL || of->kind == FERRY_OP_ASYNC;
}

static int64_t started_ns(fry_trace_lines *lines, const story *of, int64_t end_ns)
{
    if (knows(of, FERRY_TRACE_BEGUN) && knows(of, FERRY_TRACE_ISSUED) &&
        moment_ns(of, FERRY_TRACE_BEGUN) < moment_ns(of, FERRY_TRACE_ISSUED))
        return moment_ns(of, FERRY_TRACE_ISSUED); /* a worker began before the issue was noted */
    if (knows(of, FERRY_TRACE_BEGUN))
        return moment_ns(of, FERRY_TRACE_BEGUN);
    if (is_function(of))
        return end_ns; /* the executor never ran it */
    int64_t issued_ns = moment_ns(of, FERRY_TRACE_ISSUED);
    /* If it was issued behind a copy that had not fired, its stream waited for that copy. */
    const story *before = find(lines, of->waited_for);
    bool has_waited = before != NULL && before->kind == FERRY_OP_COPY &&
                      knows(before, FERRY_TRACE_FIRED) && before->end_ns > issued_ns &&
                      before->end_ns <= end_ns;
    return has_waited ? before->end_ns : issued_ns;
}

/* Sets where and when it ran; if it never did, a moment in the graph's row. */
static void place(fry_trace_lines *lines, fry_trace_file *file, story *of, int64_t end_ns)
{
    row *in = NULL;
    if ((of->known & KNOWS_PLACE) != 0)
        return;
    if (knows(of, FERRY_TRACE_ISSUED) && of->kind == FERRY_OP_COPY && of->device != NONE)
        in = stream_row(lines, of->device, of->stream);
    else if (knows(of, FERRY_TRACE_ISSUED) && is_function(of))
        in = calls_row(lines, started_ns(lines, of, end_ns));
    of->known |= KNOWS_PLACE;
    of->start_ns = of->end_ns = end_ns;
    if (in != NULL) {
        of->start_ns = started_ns(lines, of, end_ns);
        if (of->start_ns < in->end_ns)
            of->start_ns = in->end_ns;
        if (of->end_ns < of->start_ns)
            of->end_ns = of->start_ns;
        in->end_ns = of->end_ns;
    } else {
        in = &lines->graph;
    }
    of->row = row_number(lines, in);
    name_row(lines, file, in, of->row);
}

/* ---- an operation's lines ---- */

static char *put_moment(char *at, const story *of, ferry_trace_what what)
{
    if (!knows(of, what))
        return at;
    switch (what) {
    case FERRY_TRACE_SUBMITTED:
        at = fry_json_literal(at, ",\"submitted\":");
        break;
    case FERRY_TRACE_READY:
        at = fry_json_literal(at, ",\"ready\":");
        break;
    case FERRY_TRACE_ISSUED:
        at = fry_json_literal(at, ",\"issued\":");
        break;
    case FERRY_TRACE_BEGUN:
        at = fry_json_literal(at, ",\"begun\":");
        break;
    case FERRY_TRACE_FIRED:
        at = fry_json_literal(at, ",\"fired\":");
        break;
    default:
        at = fry_json_literal(at, ",\"resolved\":");
        break;
    }
    return fry_json_microseconds(at, moment_ns(of, what));
}

static char *put_plain(char *at, const char *text)
{
    size_t length = strlen(text);
    return (char *)memcpy(at, text, length) + length;
}

static const char *way_name(uint8_t way)
{
    return way == FERRY_GPU_WAY_NCCL ? "nccl" : way == FERRY_GPU_WAY_IPC ? "ipc" : "staging";
}

static char *put_arguments(char *at, const fry_trace_lines *lines, const story *of)
{
    at = fry_json_literal(at, ",\"args\":{\"op\":");
    at = fry_json_unsigned(at, of->op);
    at = fry_json_literal(at, ",\"kind\":\"");
    at = put_plain(at, kind_name(of));
    if (of->size_bytes != 0) {
        at = fry_json_literal(at, "\",\"bytes\":");
        at = fry_json_unsigned(at, of->size_bytes);
        at = fry_json_literal(at, ",\"status\":\"");
    } else {
        at = fry_json_literal(at, "\",\"status\":\"");
    }
    at = put_plain(at, ferry_status_name((ferry_status)of->status));
    *at++ = '"';
    if (of->way != 0) {
        at = fry_json_literal(at, ",\"way\":\"");
        at = put_plain(at, way_name(of->way));
        *at++ = '"';
    }
    if (of->status == FERRY_PENDING && of->lost != lines->lost)
        at = fry_json_literal(at, ",\"may_have_ended\":true");
    if (of->waited_for != 0) {
        at = fry_json_literal(at, ",\"waited_for\":");
        at = fry_json_unsigned(at, of->waited_for);
    }
    if (of->user_data != 0) {
        at = fry_json_literal(at, ",\"user_data\":");
        at = fry_json_unsigned(at, of->user_data);
    }
    if (of->device != NONE) {
        at = fry_json_literal(at, ",\"device\":");
        at = fry_json_string(at, lines->name(lines->name_arg, of->device), FRY_TRACE_LABEL_BYTES);
        at = fry_json_literal(at, ",\"stream\":");
        at = fry_json_unsigned(at, of->stream);
    }
    for (int what = FERRY_TRACE_SUBMITTED; what <= FERRY_TRACE_RESOLVED; what++)
        at = put_moment(at, of, (ferry_trace_what)what);
    return fry_json_literal(at, "}},\n");
}

static char *put_slice(char *at, const fry_trace_lines *lines, const story *of)
{
    at = fry_json_literal(at, "{\"name\":");
    at = fry_json_string(at, of->label != NULL ? of->label : kind_name(of), FRY_TRACE_LABEL_BYTES);
    at = fry_json_literal(at, ",\"cat\":\"ferry\",\"ph\":\"X\"");
    at = put_place(at, lines, of->row, of->start_ns);
    at = fry_json_literal(at, ",\"dur\":");
    at = fry_json_microseconds(at, of->end_ns - of->start_ns);
    return put_arguments(at, lines, of);
}

/* A wait: from submit until nothing held the operation, or until its end. */
static char *put_wait(char *at, const fry_trace_lines *lines, const story *of, int64_t end_ns)
{
    int64_t begin_ns = moment_ns(of, FERRY_TRACE_SUBMITTED);
    if (knows(of, FERRY_TRACE_READY))
        end_ns = moment_ns(of, FERRY_TRACE_READY);
    else if (knows(of, FERRY_TRACE_RESOLVED))
        end_ns = moment_ns(of, FERRY_TRACE_RESOLVED);
    if (!knows(of, FERRY_TRACE_SUBMITTED) || end_ns - begin_ns < WAIT_MIN_NS)
        return at;
    at = fry_json_literal(at, "{\"name\":\"wait\",\"cat\":\"ferry\",\"ph\":\"b\"");
    at = put_id(at, lines, of->op);
    at = put_place(at, lines, of->row, begin_ns);
    at = fry_json_literal(at, "},\n{\"name\":\"wait\",\"cat\":\"ferry\",\"ph\":\"e\"");
    at = put_id(at, lines, of->op);
    at = put_place(at, lines, of->row, end_ns);
    return fry_json_literal(at, "},\n");
}

/* An arrow from the operation that held this one last, which has a place unless it ends later. */
static char *put_arrow(char *at, fry_trace_lines *lines, const story *of)
{
    const story *from = of->waited_for != 0 ? find(lines, of->waited_for) : NULL;
    if (from == NULL || (from->known & KNOWS_PLACE) == 0)
        return at;
    /* The last instant in the slice, because viewers look for a slice that is open then. */
    int64_t leaves_ns = from->end_ns - (from->end_ns > from->start_ns);
    if (leaves_ns > of->start_ns)
        return at;
    at = fry_json_literal(at, "{\"name\":\"released\",\"cat\":\"ferry\",\"ph\":\"s\"");
    at = put_id(at, lines, of->op);
    at = put_place(at, lines, from->row, leaves_ns);
    at = fry_json_literal(at,
                          "},\n{\"name\":\"released\",\"cat\":\"ferry\",\"ph\":\"f\",\"bp\":\"e\"");
    at = put_id(at, lines, of->op);
    at = put_place(at, lines, of->row, of->start_ns);
    return fry_json_literal(at, "},\n");
}

/*
 * Both ends of a message have one number, which nothing else has in any process: so the merged
 * files of several processes show messages as arrows.
 */
static char *put_message(char *at, const fry_trace_lines *lines, const story *of)
{
    bool is_send =
        of->kind == FERRY_OP_SEND || of->kind == FERRY_OP_PUT || of->kind == FERRY_OP_NOTICE;
    bool is_received =
        of->kind == FERRY_OP_RECV || of->kind == FERRY_OP_GET || of->kind == FERRY_OP_NOTICE_NEXT;
    if ((!is_send && !is_received) || of->status != FERRY_OK || of->flow == 0 || of->flow == of->op)
        return at; /* of a get that its owner took no part in, the flow is its own number */
    at = is_send ? fry_json_literal(at, "{\"name\":\"message\",\"cat\":\"ferry\",\"ph\":\"s\"")
                 : fry_json_literal(
                       at, "{\"name\":\"message\",\"cat\":\"ferry\",\"ph\":\"f\",\"bp\":\"e\"");
    at = fry_json_literal(at, ",\"id\":");
    at = fry_json_unsigned(at, of->flow);
    at = put_place(at, lines, of->row,
                   is_send && knows(of, FERRY_TRACE_ISSUED) ? moment_ns(of, FERRY_TRACE_ISSUED)
                                                            : of->end_ns);
    return fry_json_literal(at, "},\n");
}

static void write_story(fry_trace_lines *lines, fry_trace_file *file, story *of, int64_t end_ns)
{
    place(lines, file, of, end_ns);
    char *at = fry_trace_file_room(file);
    at = put_slice(at, lines, of);
    at = put_wait(at, lines, of, end_ns);
    at = put_arrow(at, lines, of);
    at = put_message(at, lines, of);
    fry_trace_file_add(file, at);
    of->state = STORY_WRITTEN;
    lines->live--;
}

/* ---- taking records ---- */

/* Whether hardware or a function may still use its memory. Then its slice ends when it is quiet. */
static bool may_be_at_work(const story *of)
{
    return knows(of, FERRY_TRACE_ISSUED) && !knows(of, FERRY_TRACE_FIRED) &&
           ((of->kind == FERRY_OP_COPY && of->device != NONE) || is_function(of));
}

/* When a resolved and quiet operation ended. A successful function ended when it resolved. */
static int64_t ended_ns(const story *of, int64_t quiet_ns)
{
    return of->status == FERRY_OK || !may_be_at_work(of) ? moment_ns(of, FERRY_TRACE_RESOLVED)
                                                         : quiet_ns;
}

static void begin_story(fry_trace_lines *lines, story *of, const ferry_trace_record *record)
{
    if (of->state == STORY_LIVE)
        lines->unwritten++;
    else
        lines->live++;
    *of = (story){.op = record->op,
                  .label = record->label,
                  .size_bytes = record->size_bytes,
                  .status = FERRY_PENDING,
                  .device = record->device,
                  .stream = record->stream,
                  .kind = record->kind,
                  .state = STORY_LIVE};
}

void fry_trace_lines_take(fry_trace_lines *lines, fry_trace_file *file,
                          const ferry_trace_record *record)
{
    ferry_trace_what what = (ferry_trace_what)record->what;
    story *of = &lines->stories[record->op % FRY_TRACE_STORIES];
    bool is_moment = what >= FERRY_TRACE_SUBMITTED && what <= FERRY_TRACE_RESOLVED;
    if (record->when_ns > lines->latest_ns)
        lines->latest_ns = record->when_ns;
    if (of->op != record->op || of->state == STORY_NONE) {
        if (!is_moment)
            return; /* the last record of an operation whose slot another has */
        begin_story(lines, of, record);
    }
    if (of->state != STORY_LIVE)
        return;
    of->lost = lines->lost;
    if (is_moment) {
        of->known |= (uint8_t)KNOWS(what);
        of->moments_ns[what - 1] = record->when_ns;
    }
    if (what != FERRY_TRACE_READY)
        of->user_data = record->user_data;
    if (what == FERRY_TRACE_READY) {
        of->waited_for = record->waited_for;
    } else if (what == FERRY_TRACE_FIRED) {
        place(lines, file, of, record->when_ns);
    } else if (what == FERRY_TRACE_RESOLVED) {
        of->status = record->status;
        of->flow = record->flow;
        of->size_bytes = record->size_bytes; /* of what came from anybody it is known only now */
        of->way = record->way;
        if (!may_be_at_work(of))
            write_story(lines, file, of, record->when_ns);
    } else if (what == FERRY_TRACE_QUIET) {
        bool is_resolved = knows(of, FERRY_TRACE_RESOLVED);
        write_story(lines, file, of, is_resolved ? ended_ns(of, record->when_ns) : record->when_ns);
    }
}

/* ---- the beginning and the end ---- */

/* Sorts the operations of a stream into its order. */
static int compare_issued(const void *left, const void *right)
{
    const story *a = *(story *const *)left, *b = *(story *const *)right;
    int64_t a_ns = knows(a, FERRY_TRACE_ISSUED) ? moment_ns(a, FERRY_TRACE_ISSUED) : INT64_MAX;
    int64_t b_ns = knows(b, FERRY_TRACE_ISSUED) ? moment_ns(b, FERRY_TRACE_ISSUED) : INT64_MAX;
    if (a_ns != b_ns)
        return a_ns < b_ns ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

uint64_t fry_trace_lines_finish(fry_trace_lines *lines, fry_trace_file *file, int64_t now_ns)
{
    size_t count = lines->live, listed = 0;
    story **live = count != 0 ? malloc(count * sizeof(story *)) : NULL;
    for (uint64_t i = 0; live != NULL && i < FRY_TRACE_STORIES; i++) {
        if (lines->stories[i].state == STORY_LIVE)
            live[listed++] = &lines->stories[i];
    }
    if (listed != 0)
        qsort(live, listed, sizeof(story *), compare_issued);
    for (size_t i = 0; i < listed; i++)
        write_story(lines, file, live[i], now_ns);
    free(live);
    uint64_t unwritten = lines->unwritten + (count - listed);
    lines->unwritten = 0;
    return unwritten;
}

void fry_trace_lines_open(fry_trace_file *file, int32_t process)
{
    char *at = fry_trace_file_room(file);
    at = fry_json_literal(at, "[\n{\"name\":\"process_name\",\"ph\":\"M\"");
    at = put_process(at, process);
    at = fry_json_literal(at, ",\"args\":{\"name\":\"ferry\"}},\n");
    fry_trace_file_add(file, at);
}

void fry_trace_lines_close(fry_trace_file *file, int32_t process, uint64_t records,
                           uint64_t dropped, uint64_t unwritten)
{
    char *at = fry_trace_file_room(file);
    at = fry_json_literal(at, "{\"name\":\"ferry_end\",\"ph\":\"M\"");
    at = put_process(at, process);
    at = fry_json_literal(at, ",\"args\":{\"records\":");
    at = fry_json_unsigned(at, records);
    at = fry_json_literal(at, ",\"dropped\":");
    at = fry_json_unsigned(at, dropped);
    at = fry_json_literal(at, ",\"unwritten\":");
    at = fry_json_unsigned(at, unwritten);
    at = fry_json_literal(at, ",\"version\":\"");
    at = put_plain(at, ferry_version());
    at = fry_json_literal(at, "\"}}\n]\n");
    fry_trace_file_add(file, at);
}
