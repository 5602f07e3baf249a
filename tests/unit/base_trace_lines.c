/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace_lines.h"
#include "tests/support/trace_document.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE 65535
#define ENGINE 3
#define BASE_NS 1000000000

static char path[] = "/tmp/ferry-trace-lines.XXXXXX";
static fry_trace_file file;
static fry_trace_lines *lines;
static trace_document document;

static const char *name_of(void *arg, uint16_t device)
{
    static const char *const names[] = {"host:0", "host:1", "odd \"name\""};
    (void)arg;
    return device < 3 ? names[device] : "?";
}

static void set_up(void)
{
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    (void)close(fd);
    cr_assert_eq(fry_trace_file_open(&file, path), FERRY_OK);
    fry_trace_lines_open(&file, 4711);
    lines = fry_trace_lines_create(ENGINE, 4711, name_of, NULL);
    cr_assert_not_null(lines);
}

/* Ends the file as of a moment, and reads it. */
static void finish(int64_t now_ns)
{
    uint64_t unwritten = fry_trace_lines_finish(lines, &file, BASE_NS + now_ns);
    fry_trace_lines_close(&file, 4711, 1, 2, unwritten);
    cr_assert(fry_trace_file_close(&file));
    fry_trace_lines_destroy(lines);
    const char *complaint = trace_document_read(&document, path, true);
    cr_assert_null(complaint, "%s", complaint);
}

static void take_down(void)
{
    trace_document_release(&document);
    (void)unlink(path);
}

TestSuite(base_trace_lines, .init = set_up, .fini = take_down, .timeout = 60);

static uint64_t user_data; /* of the operations; each case is a process of its own */

/* A record of what `of` says, at a moment. */
static void take(ferry_trace_record of, ferry_trace_what what, int64_t when_ns)
{
    of.what = (uint8_t)what;
    of.when_ns = BASE_NS + when_ns;
    if (what != FERRY_TRACE_READY)
        of.user_data = user_data;
    if (what != FERRY_TRACE_RESOLVED)
        of.status = FERRY_PENDING;
    fry_trace_lines_take(lines, &file, &of);
}

static ferry_trace_record copy_of(uint64_t op, uint16_t device, uint16_t stream)
{
    return (ferry_trace_record){
        .op = op, .kind = FERRY_OP_COPY, .device = device, .stream = stream, .size_bytes = 4096};
}

static ferry_trace_record other(uint64_t op, ferry_op_kind kind)
{
    return (ferry_trace_record){.op = op, .kind = (uint16_t)kind, .device = NONE, .stream = NONE};
}

static void resolve(ferry_trace_record of, int64_t when_ns)
{
    take(of, FERRY_TRACE_RESOLVED, when_ns);
    take(of, FERRY_TRACE_QUIET, when_ns);
}

static void begin(ferry_trace_record of, int64_t submitted_ns, int64_t ready_ns, int64_t issued_ns)
{
    take(of, FERRY_TRACE_SUBMITTED, submitted_ns);
    take(of, FERRY_TRACE_READY, ready_ns);
    take(of, FERRY_TRACE_ISSUED, issued_ns);
}

static const json_t *slice_of(uint64_t op)
{
    const json_t *found = trace_document_slice(&document, ENGINE, op);
    cr_assert_not_null(found, "op %llu has no slice", (unsigned long long)op);
    return found;
}

static void assert_slice(uint64_t op, const char *row, int64_t start_ns, int64_t end_ns)
{
    const json_t *found = slice_of(op);
    int64_t ts = trace_time_ns(found, "ts") - BASE_NS;
    cr_assert_str_eq(trace_row_name(&document, found), row);
    cr_assert_eq(ts, start_ns, "op %llu begins at %lld", (unsigned long long)op, (long long)ts);
    cr_assert_eq(ts + trace_time_ns(found, "dur"), end_ns, "op %llu lasts %lld",
                 (unsigned long long)op, (long long)trace_time_ns(found, "dur"));
}

static void assert_time(uint64_t op, const char *key, int64_t when_ns)
{
    cr_assert_eq(trace_time_ns(slice_of(op), key), BASE_NS + when_ns);
}

/* ---- where slices lie ---- */

Test(base_trace_lines, a_copy_runs_from_issued_to_fired)
{
    ferry_trace_record copy = copy_of(7, 1, 5);
    copy.label = "weights";
    begin(copy, 100, 4200, 4300);
    take(copy, FERRY_TRACE_FIRED, 9000);
    resolve(copy, 9100);
    finish(10000);
    assert_slice(7, "engine 3 host:1 stream 5", 4300, 9000);
    const json_t *slice = slice_of(7);
    cr_assert_str_eq(json_string_value(json_object_get(slice, "name")), "weights");
    cr_assert_str_eq(json_string_value(json_object_get(slice, "cat")), "ferry");
    cr_assert_eq(trace_number(slice, "pid"), 4711);
    cr_assert_eq(trace_number(slice, "tid"), ENGINE * FRY_TRACE_ENGINE_ROWS);
    cr_assert_str_eq(trace_text(slice, "kind"), "copy");
    cr_assert_str_eq(trace_text(slice, "status"), "FERRY_OK");
    cr_assert_str_eq(trace_text(slice, "device"), "host:1");
    cr_assert_eq(trace_number(slice, "stream"), 5);
    cr_assert_eq(trace_number(slice, "bytes"), 4096);
    cr_assert_eq(trace_number(slice, "waited_for"), -1, "nothing: left out");
    cr_assert_eq(trace_number(slice, "user_data"), -1, "none: left out");
    assert_time(7, "submitted", 100);
    assert_time(7, "ready", 4200);
    assert_time(7, "issued", 4300);
    assert_time(7, "fired", 9000);
    assert_time(7, "resolved", 9100);
    const json_t *wait = trace_document_find(&document, ENGINE, "b", "ts", 0);
    cr_assert_null(wait, "times are no whole numbers");
    cr_assert_eq(trace_document_count(&document, "b"), 1, "4.1 us is worth a line");
    cr_assert_eq(trace_document_count(&document, "s"), 0);
    cr_assert_eq(trace_end_number(&document, "records"), 1);
    cr_assert_eq(trace_end_number(&document, "dropped"), 2);
    cr_assert_eq(trace_end_number(&document, "unwritten"), 0);
}

Test(base_trace_lines, copies_of_a_stream_run_one_after_the_other)
{
    ferry_trace_record copies[3] = {copy_of(1, 0, 0), copy_of(2, 0, 0), copy_of(3, 1, 1)};
    for (int i = 0; i < 3; i++)
        begin(copies[i], 0, 10, 20 + i);
    take(copies[0], FERRY_TRACE_FIRED, 500);
    take(copies[1], FERRY_TRACE_FIRED, 800);
    take(copies[2], FERRY_TRACE_FIRED, 900);
    resolve(copies[1], 810); /* the first waits for what it overtook elsewhere */
    resolve(copies[2], 910);
    resolve(copies[0], 950);
    finish(1000);
    assert_slice(1, "engine 3 host:0 stream 0", 20, 500);
    assert_slice(2, "engine 3 host:0 stream 0", 500, 800);
    assert_slice(3, "engine 3 host:1 stream 1", 22, 900);
}

/* It stands where READY has what held the operation, which it must not hide. */
Test(base_trace_lines, the_callers_number_is_told)
{
    user_data = UINT64_MAX / 2;
    ferry_trace_record copy = copy_of(7, 1, 5);
    copy.waited_for = 3;
    begin(copy, 100, 4200, 4300);
    take(copy, FERRY_TRACE_FIRED, 9000);
    resolve(copy, 9100);
    finish(10000);
    cr_assert_eq(trace_number(slice_of(7), "user_data"), INT64_MAX);
    cr_assert_eq(trace_number(slice_of(7), "waited_for"), 3);
}

Test(base_trace_lines, a_copy_begins_when_the_copy_it_was_issued_behind_has_fired)
{
    ferry_trace_record first = copy_of(1, 0, 0), second = copy_of(2, 1, 1);
    second.waited_for = 1;
    begin(first, 0, 10, 20);
    begin(second, 0, 30, 40);
    take(first, FERRY_TRACE_FIRED, 500);
    resolve(first, 510);
    take(second, FERRY_TRACE_FIRED, 900);
    resolve(second, 910);
    finish(1000);
    assert_slice(1, "engine 3 host:0 stream 0", 20, 500);
    assert_slice(2, "engine 3 host:1 stream 1", 500, 900);
    cr_assert_eq(trace_number(slice_of(2), "waited_for"), 1);
    cr_assert_eq(trace_document_count(&document, "s"), 1);
}

Test(base_trace_lines, a_cancelled_copy_runs_until_it_has_fired)
{
    ferry_trace_record copy = copy_of(1, 0, 0);
    begin(copy, 0, 10, 20);
    copy.status = FERRY_E_CANCELLED;
    take(copy, FERRY_TRACE_CANCEL, 25);
    take(copy, FERRY_TRACE_RESOLVED, 30);
    take(copy, FERRY_TRACE_FIRED, 700);
    take(copy, FERRY_TRACE_QUIET, 710);
    finish(1000);
    assert_slice(1, "engine 3 host:0 stream 0", 20, 700);
    cr_assert_str_eq(trace_text(slice_of(1), "status"), "FERRY_E_CANCELLED");
    assert_time(1, "resolved", 30);
}

Test(base_trace_lines, what_never_ran_is_a_moment)
{
    ferry_trace_record copy = copy_of(1, 0, 0), empty = copy_of(2, NONE, NONE);
    take(copy, FERRY_TRACE_SUBMITTED, 0);
    copy.status = FERRY_E_DEPENDENCY;
    resolve(copy, 5000);
    empty.size_bytes = 0;
    begin(empty, 6000, 6001, 6002);
    resolve(empty, 6003);
    static const ferry_op_kind kinds[] = {FERRY_OP_NOP, FERRY_OP_PROMISE, FERRY_OP_ALL,
                                          FERRY_OP_DRAIN};
    for (uint64_t i = 0; i < 4; i++) {
        begin(other(10 + i, kinds[i]), 100, 6900, 6950);
        resolve(other(10 + i, kinds[i]), 7000);
    }
    finish(10000);
    assert_slice(1, "engine 3 graph", 5000, 5000);
    assert_slice(2, "engine 3 graph", 6003, 6003);
    for (uint64_t i = 0; i < 4; i++) {
        assert_slice(10 + i, "engine 3 graph", 7000, 7000);
        cr_assert_str_eq(json_string_value(json_object_get(slice_of(10 + i), "name")),
                         ferry_op_kind_name(kinds[i]));
        cr_assert_null(json_object_get(json_object_get(slice_of(10 + i), "args"), "device"));
    }
    const json_t *end =
        trace_document_find(&document, ENGINE, "e", "id", 1 + ((ENGINE - 1ULL) << 40));
    cr_assert_eq(trace_time_ns(end, "ts"), BASE_NS + 5000, "never ready: waited until it ended");
}

/* Counts the lines of the file that begin an arrow, or end one, of that flow. */
static size_t count_ends(const char *phase, uint64_t flow)
{
    char line[4096], wanted[128];
    size_t count = 0;
    (void)snprintf(wanted, sizeof wanted, "{\"name\":\"message\",\"cat\":\"ferry\",\"ph\":\"%s\"",
                   phase);
    FILE *written = fopen(path, "r");
    cr_assert_not_null(written);
    while (fgets(line, sizeof line, written) != NULL) {
        const char *id = strstr(line, ",\"id\":");
        count += strncmp(line, wanted, strlen(wanted)) == 0 && id != NULL &&
                 strtoull(id + strlen(",\"id\":"), NULL, 10) == flow;
    }
    (void)fclose(written);
    return count;
}

/* The other ends are elsewhere, so what holds for a document of its own does not for this one. */
Test(base_trace_lines, what_goes_between_members_has_an_end_in_each_file)
{
    static const struct {
        ferry_op_kind kind;
        size_t begins, ends;
    } of[] = {{FERRY_OP_SEND, 1, 0}, {FERRY_OP_PUT, 1, 0}, {FERRY_OP_NOTICE, 1, 0},
              {FERRY_OP_RECV, 0, 1}, {FERRY_OP_GET, 0, 1}, {FERRY_OP_NOTICE_NEXT, 0, 1},
              {FERRY_OP_NOP, 0, 0}};
    enum { COUNT = sizeof of / sizeof of[0] };
    for (uint64_t i = 0; i < 3 * COUNT; i++) {
        ferry_trace_record record = other(10 + i, of[i % COUNT].kind);
        begin(record, 100, 100, 200);
        record.flow = i < 2 * COUNT ? (UINT64_C(3) << 40) + i : record.op;
        record.status = i < COUNT ? FERRY_OK : i < 2 * COUNT ? FERRY_E_CANCELLED : FERRY_OK;
        resolve(record, 300);
    }
    fry_trace_lines_close(&file, 4711, 1, 2, fry_trace_lines_finish(lines, &file, BASE_NS + 1000));
    cr_assert(fry_trace_file_close(&file));
    fry_trace_lines_destroy(lines);
    for (uint64_t i = 0; i < 3 * COUNT; i++) {
        uint64_t flow = i < 2 * COUNT ? (UINT64_C(3) << 40) + i : 10 + i;
        cr_assert_eq(count_ends("s", flow), i < COUNT ? of[i].begins : 0, "%u", (unsigned)i);
        cr_assert_eq(count_ends("f", flow), i < COUNT ? of[i].ends : 0, "%u", (unsigned)i);
    }
}

/* Of nops here, as a message's line is followed by an arrow's half, and its other end is elsewhere.
 */
Test(base_trace_lines, what_went_by_a_way_says_which)
{
    static const char *const names[] = {NULL, "staging", "ipc", "nccl"};
    for (uint8_t way = 0; way < 4; way++) {
        ferry_trace_record of = other(10 + way, FERRY_OP_NOP);
        begin(of, 100, 100, 200);
        of.way = way;
        resolve(of, 300);
    }
    finish(1000);
    for (uint8_t way = 0; way < 4; way++) {
        const json_t *said = json_object_get(json_object_get(slice_of(10 + way), "args"), "way");
        if (names[way] == NULL)
            cr_assert_null(said);
        else
            cr_assert_str_eq(json_string_value(said), names[way]);
    }
}

Test(base_trace_lines, functions_beside_each_other_have_rows_of_their_own)
{
    ferry_trace_record calls[4];
    for (uint64_t i = 0; i < 4; i++)
        calls[i] = other(1 + i, FERRY_OP_CALL);
    for (int i = 0; i < 3; i++)
        begin(calls[i], 0, 10, 15);
    take(calls[0], FERRY_TRACE_BEGUN, 20);
    take(calls[1], FERRY_TRACE_BEGUN, 21);
    take(calls[2], FERRY_TRACE_BEGUN, 22);
    resolve(calls[1], 500);
    resolve(calls[0], 600);
    begin(calls[3], 0, 10, 30);
    take(calls[3], FERRY_TRACE_BEGUN, 650); /* the others have ended: the first row is free */
    calls[2].status = FERRY_E_CANCELLED;
    take(calls[2], FERRY_TRACE_RESOLVED, 700);
    resolve(calls[3], 800);
    take(calls[2], FERRY_TRACE_QUIET, 900); /* its function ran on */
    finish(1000);
    assert_slice(2, "engine 3 calls", 21, 500);
    assert_slice(1, "engine 3 calls 2", 20, 600);
    assert_slice(4, "engine 3 calls", 650, 800);
    assert_slice(3, "engine 3 calls 3", 22, 900);
    cr_assert_eq(trace_number(slice_of(2), "tid"), ENGINE * FRY_TRACE_ENGINE_ROWS + 4000);
    cr_assert_eq(trace_number(slice_of(1), "tid"), ENGINE * FRY_TRACE_ENGINE_ROWS + 4002);
    assert_time(3, "resolved", 700);
}

Test(base_trace_lines, what_began_later_than_it_was_issued_ran_from_then)
{
    ferry_trace_record copy = copy_of(1, 0, 0), call = other(2, FERRY_OP_CALL);
    begin(copy, 0, 10, 20);
    take(copy, FERRY_TRACE_BEGUN, 400);
    take(copy, FERRY_TRACE_FIRED, 500);
    resolve(copy, 510);
    begin(call, 0, 10, 20);
    call.status = FERRY_E_CANCELLED;
    take(call, FERRY_TRACE_RESOLVED, 700); /* its executor has not come to it */
    take(call, FERRY_TRACE_QUIET, 700);
    ferry_trace_record early = copy_of(3, 1, 1);
    begin(early, 0, 10, 720);
    take(early, FERRY_TRACE_BEGUN, 719); /* noted as issued when a worker was at it */
    take(early, FERRY_TRACE_FIRED, 800);
    resolve(early, 810);
    finish(1000);
    assert_slice(3, "engine 3 host:1 stream 1", 720, 800);
    assert_slice(1, "engine 3 host:0 stream 0", 400, 500);
    assert_slice(2, "engine 3 calls", 700, 700);
    assert_time(1, "begun", 400);
}

/* ---- waits and arrows ---- */

Test(base_trace_lines, short_waits_have_no_line)
{
    begin(other(1, FERRY_OP_NOP), 0, 999, 999);
    resolve(other(1, FERRY_OP_NOP), 2000);
    cr_assert_eq(fry_trace_lines_latest_ns(lines), BASE_NS + 2000);
    begin(other(2, FERRY_OP_NOP), 0, 1000, 1000);
    resolve(other(2, FERRY_OP_NOP), 2000);
    finish(3000);
    cr_assert_eq(trace_document_count(&document, "b"), 1);
    const json_t *wait =
        trace_document_find(&document, ENGINE, "b", "id", 2 + ((ENGINE - 1ULL) << 40));
    cr_assert_eq(trace_time_ns(wait, "ts"), BASE_NS);
    cr_assert_str_eq(json_string_value(json_object_get(wait, "name")), "wait");
}

Test(base_trace_lines, arrows_go_from_what_held_it_last)
{
    ferry_trace_record copy = copy_of(1, 0, 0), next = other(2, FERRY_OP_NOP);
    ferry_trace_record view = other(3, FERRY_OP_ISSUED), lost = other(4, FERRY_OP_NOP);
    next.waited_for = view.waited_for = 1;
    lost.waited_for = 4000; /* never heard of */
    begin(copy, 0, 10, 20);
    begin(view, 0, 20, 25);
    resolve(view, 30); /* before the copy has ended: where should an arrow begin? */
    take(copy, FERRY_TRACE_FIRED, 500);
    resolve(copy, 510);
    begin(next, 0, 510, 520);
    resolve(next, 530);
    begin(lost, 0, 510, 520);
    resolve(lost, 530);
    finish(1000);
    cr_assert_eq(trace_document_count(&document, "s"), 1);
    uint64_t id = 2 + ((ENGINE - 1ULL) << 40);
    const json_t *from = trace_document_find(&document, ENGINE, "s", "id", id);
    const json_t *to = trace_document_find(&document, ENGINE, "f", "id", id);
    cr_assert_str_eq(trace_row_name(&document, from), "engine 3 host:0 stream 0");
    cr_assert_eq(trace_time_ns(from, "ts"), BASE_NS + 499, "still inside its slice");
    cr_assert_str_eq(trace_row_name(&document, to), "engine 3 graph");
    cr_assert_eq(trace_time_ns(to, "ts"), BASE_NS + 530);
    cr_assert_str_eq(json_string_value(json_object_get(to, "bp")), "e");
}

/* ---- what is not whole ---- */

Test(base_trace_lines, what_has_not_ended_is_pending)
{
    ferry_trace_record copies[3] = {copy_of(3, 0, 0), copy_of(2, 0, 0), copy_of(1, 0, 0)};
    begin(copies[0], 0, 10, 20);
    begin(copies[1], 0, 10, 30);
    take(copies[2], FERRY_TRACE_SUBMITTED, 40);
    fry_trace_lines_lose(lines, 5);
    take(other(9, FERRY_OP_PROMISE), FERRY_TRACE_SUBMITTED, 50);
    finish(5000);
    assert_slice(3, "engine 3 host:0 stream 0", 20, 5000);
    assert_slice(2, "engine 3 host:0 stream 0", 5000, 5000); /* still behind it */
    assert_slice(1, "engine 3 graph", 5000, 5000);
    assert_slice(9, "engine 3 graph", 5000, 5000);
    for (uint64_t op = 1; op <= 3; op++) {
        cr_assert_str_eq(trace_text(slice_of(op), "status"), "FERRY_PENDING");
        cr_assert(
            json_is_true(json_object_get(json_object_get(slice_of(op), "args"), "may_have_ended")));
    }
    cr_assert_str_eq(trace_text(slice_of(9), "status"), "FERRY_PENDING");
    cr_assert_null(json_object_get(json_object_get(slice_of(9), "args"), "may_have_ended"));
    cr_assert_eq(trace_document_count(&document, "b"), 2, "1 and 9 still wait");
}

Test(base_trace_lines, parts_of_a_life_are_enough)
{
    ferry_trace_record copy = copy_of(1, 0, 0), call = other(2, FERRY_OP_CALL);
    resolve(copy, 100);
    take(call, FERRY_TRACE_ISSUED, 140);
    take(call, FERRY_TRACE_BEGUN, 150);
    take(call, FERRY_TRACE_QUIET, 200);
    take(other(3, FERRY_OP_NOP), FERRY_TRACE_QUIET, 250);  /* the last word on one unknown */
    take(other(4, FERRY_OP_NOP), FERRY_TRACE_CANCEL, 260); /* likewise */
    take(copy_of(5, 1, 1), FERRY_TRACE_FIRED, 300);
    take(copy_of(5, 1, 1), FERRY_TRACE_QUIET, 310);
    finish(1000);
    assert_slice(1, "engine 3 graph", 100, 100);
    assert_slice(2, "engine 3 calls", 150, 200);
    cr_assert_str_eq(trace_text(slice_of(2), "status"), "FERRY_PENDING");
    cr_assert_null(trace_document_slice(&document, ENGINE, 3));
    cr_assert_null(trace_document_slice(&document, ENGINE, 4));
    assert_slice(5, "engine 3 graph", 300, 300);
    cr_assert_eq(trace_end_number(&document, "unwritten"), 0);
}

Test(base_trace_lines, a_newer_operation_takes_the_slot)
{
    ferry_trace_record older = other(5, FERRY_OP_PROMISE);
    ferry_trace_record newer = other(5 + FRY_TRACE_STORIES, FERRY_OP_NOP);
    take(older, FERRY_TRACE_SUBMITTED, 0);
    begin(newer, 100, 110, 120);
    resolve(newer, 130);
    resolve(older, 200); /* what is known of it now is its end */
    take(newer, FERRY_TRACE_QUIET, 210);
    finish(1000);
    assert_slice(newer.op, "engine 3 graph", 130, 130);
    assert_slice(5, "engine 3 graph", 200, 200);
    cr_assert_eq(trace_time_ns(slice_of(5), "submitted"), -1);
    cr_assert_eq(trace_end_number(&document, "unwritten"), 1);
}

Test(base_trace_lines, labels_of_any_bytes)
{
    static char endless[4 * FRY_TRACE_LABEL_BYTES];
    memset(endless, '"', sizeof endless - 1);
    const char *labels[] = {"\xff\xfe\x80", "a\nb\\\"", "", endless};
    for (uint64_t i = 0; i < 4; i++) {
        ferry_trace_record nop = other(1 + i, FERRY_OP_NOP);
        nop.label = labels[i];
        resolve(nop, (int64_t)i);
    }
    ferry_trace_record copy = copy_of(9, 2, 0);
    begin(copy, 10, 11, 12);
    take(copy, FERRY_TRACE_FIRED, 20);
    resolve(copy, 30);
    finish(1000);
    cr_assert_str_eq(json_string_value(json_object_get(slice_of(1), "name")),
                     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    cr_assert_str_eq(json_string_value(json_object_get(slice_of(2), "name")), "a\nb\\\"");
    cr_assert_str_eq(json_string_value(json_object_get(slice_of(3), "name")), "");
    cr_assert_eq(json_string_length(json_object_get(slice_of(4), "name")), FRY_TRACE_LABEL_BYTES);
    cr_assert_str_eq(trace_row_name(&document, slice_of(9)), "engine 3 odd \"name\" stream 0");
}

/* Whatever comes in whatever order: the document's rules hold. */
Test(base_trace_lines, any_records_make_a_good_file)
{
    unsigned seed = 20250101;
    for (int i = 0; i < 200000; i++) {
        unsigned random = (unsigned)rand_r(&seed);
        ferry_trace_record record = {
            .op = 1 + (uint64_t)i / 50 + random % 200,
            .kind = (uint16_t)(1 + random / 7 % 10),
            .device = random % 5 == 0 ? NONE : (uint16_t)(random / 3 % 70),
            .stream = (uint16_t)(random / 11 % 40),
            .waited_for = random % 3 == 0 ? 1 + (uint64_t)i / 50 : 0,
            .status = random % 4 == 0 ? FERRY_E_CANCELLED : FERRY_OK,
        };
        take(record, (ferry_trace_what)(1 + random / 13 % 7), i * 10 - (int64_t)(random % 500));
    }
    finish(3000000);
}
