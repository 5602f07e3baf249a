/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_stream.h"

#include "tools/perf_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- one direction of a step, at one end ---- */

typedef struct stream {
    perf_end *end;
    const perf_step *step;
    bool is_send;
    perf_area *area;
    ferry_future **ring; /* operations under way, by slot */
    uint64_t begun;      /* messages or batches */
    uint64_t ended;
} stream;

static ferry_span slot_span(const stream *stream, uint64_t message)
{
    size_t size = stream->step->size_bytes;
    return perf_end_span(stream->area, (size_t)(message % stream->step->window) * size, size);
}

/* What is got out of a window lies there before: by slots, and not by messages. */
static bool is_of_window(const perf_step *step)
{
    return step->test == PERF_GET || step->test == PERF_PUT || step->test == PERF_PLAN;
}

static uint64_t mark_of(const stream *stream, uint64_t message)
{
    bool is_got = stream->step->test == PERF_GET || stream->step->test == PERF_PLAN;
    return is_got ? message % stream->step->window : message;
}

/* Whether the bytes are a device's, and have to come here to be looked at. */
static bool has_mirror(const stream *stream)
{
    return stream->area->mirror && stream->step->test != PERF_NOTICE;
}

static void prepare(const stream *stream, uint64_t message)
{
    ferry_span span = slot_span(stream, message);
    if (!stream->is_send || !stream->step->is_checked)
        return;
    perf_bytes_fill(
        stream->area->bytes + span.offset_bytes, span.size_bytes,
        (perf_mark){stream->step->number, mark_of(stream, message), stream->end->member.rank});
    if (has_mirror(stream)) /* the message comes behind it, and fails if it does */
        ferry_future_release(
            perf_end_upload(stream->end, stream->area, span.offset_bytes, span.size_bytes));
}

static int check(const stream *stream, uint64_t message)
{
    if (stream->is_send || !stream->step->is_checked)
        return 0;
    ferry_span span = slot_span(stream, message);
    if (has_mirror(stream)) {
        int result = perf_end_finish(
            stream->end,
            perf_end_download(stream->end, stream->area, span.offset_bytes, span.size_bytes),
            "copying a message to the host");
        if (result)
            return result;
    }
    size_t wrong = perf_bytes_find_wrong(
        stream->area->bytes + span.offset_bytes, span.size_bytes,
        (perf_mark){stream->step->number, mark_of(stream, message), (int)stream->end->other});
    if (wrong == span.size_bytes)
        return 0;
    fprintf(stderr, "ferry: rank %d: message %llu of %zu bytes differs near byte %zu\n",
            stream->end->member.rank, (unsigned long long)message, span.size_bytes, wrong);
    return EXIT_FAILURE;
}

static int finish(const stream *stream, ferry_future **future_p)
{
    ferry_future *future = *future_p;
    *future_p = NULL;
    return perf_end_finish(stream->end, future, stream->is_send ? "sending" : "receiving");
}

static ferry_op op_of(const stream *stream, uint64_t message)
{
    perf_end *end = stream->end;
    ferry_span span = slot_span(stream, message);
    ferry_op op = {.kind = stream->is_send ? FERRY_OP_SEND : FERRY_OP_RECV,
                   .group = end->member.group,
                   .tag = PERF_TAG_DATA,
                   .peer = end->other};
    if (is_of_window(stream->step))
        op = (ferry_op){.kind = stream->is_send ? FERRY_OP_PUT : FERRY_OP_GET,
                        .window = end->window,
                        .window_offset = span.offset_bytes};
    *(stream->is_send ? &op.src : &op.dst) = span;
    return op;
}

static ferry_future *submit(const ferry_op *op)
{
    switch (op->kind) {
    case FERRY_OP_SEND:
        return ferry_send(op->group, op->peer, op->tag, op->src, NULL);
    case FERRY_OP_RECV:
        return ferry_recv(op->group, op->peer, op->tag, op->dst, NULL);
    case FERRY_OP_PUT:
        return ferry_put(op->window, op->window_offset, op->src, NULL);
    default:
        return ferry_get(op->window, op->window_offset, op->dst, NULL);
    }
}

static ferry_future *submit_notice(const stream *stream, uint64_t message)
{
    ferry_span span = slot_span(stream, message);
    const unsigned char *bytes = stream->area->bytes + span.offset_bytes;
    return stream->is_send ? ferry_notice_send(stream->end->member.group, stream->end->other, bytes,
                                               span.size_bytes, NULL)
                           : ferry_notice_next(stream->end->member.group, 0);
}

static void begin_one(stream *stream)
{
    uint64_t message = stream->begun++;
    ferry_future **at = &stream->ring[message % stream->step->window];
    prepare(stream, message);
    if (stream->step->test == PERF_NOTICE) {
        *at = submit_notice(stream, message);
        return;
    }
    const ferry_op op = op_of(stream, message);
    *at = submit(&op);
}

/* What has come goes where a message's bytes would be, to be looked at. */
static int end_notice(const stream *stream, uint64_t message, ferry_future **future_p)
{
    ferry_future *future = ferry_future_retain(*future_p);
    ferry_span span = slot_span(stream, message);
    ferry_value value = FERRY_VALUE_INIT;
    int result = finish(stream, future_p);
    if (!result && !stream->is_send && stream->step->is_checked &&
        ferry_future_value(future, &value) == FERRY_OK && value.size_bytes == span.size_bytes)
        memcpy(stream->area->bytes + span.offset_bytes, value.data, span.size_bytes);
    ferry_future_release(future);
    return result ? result : check(stream, message);
}

static int end_one(stream *stream)
{
    uint64_t message = stream->ended++;
    ferry_future **at = &stream->ring[message % stream->step->window];
    if (stream->step->test == PERF_NOTICE)
        return end_notice(stream, message, at);
    int result = finish(stream, at);
    return result ? result : check(stream, message);
}

/* Keeps the window full; with two directions a message of each in turn. */
static int run_singly(stream *streams, size_t count)
{
    const perf_step *step = streams[0].step;
    int result = 0;
    while (streams[0].ended < step->iterations && !result) {
        for (size_t i = 0; i < count && !result; i++) {
            stream *stream = &streams[i];
            if (stream->begun == step->iterations || stream->begun - stream->ended == step->window)
                result = end_one(stream);
            if (stream->begun < step->iterations && !result)
                begin_one(stream);
        }
    }
    /* The other direction may have one left. */
    for (size_t i = 1; i < count; i++) {
        while (streams[i].ended < streams[i].begun && !result)
            result = end_one(&streams[i]);
    }
    return result;
}

/* ---- by batches: half a window each, two under way ---- */

static uint64_t batch_messages(const perf_step *step)
{
    return step->window / 2;
}

static uint64_t batch_end(const perf_step *step, uint64_t batch)
{
    uint64_t end = (batch + 1) * batch_messages(step);
    return end < step->iterations ? end : step->iterations;
}

static void begin_batch(stream *stream, ferry_op *ops)
{
    perf_end *end = stream->end;
    uint64_t batch = stream->begun++;
    uint64_t first = batch * batch_messages(stream->step);
    uint64_t last = batch_end(stream->step, batch);
    for (uint64_t message = first; message < last; message++) {
        prepare(stream, message);
        ops[message - first] = op_of(stream, message);
    }
    stream->ring[batch % 2] =
        ferry_batch(end->member.engine, ops, sizeof(*ops), (size_t)(last - first), NULL, NULL);
}

static int end_batch(stream *stream)
{
    uint64_t batch = stream->ended++;
    int result = finish(stream, &stream->ring[batch % 2]);
    uint64_t last = batch_end(stream->step, batch);
    for (uint64_t message = batch * batch_messages(stream->step); message < last && !result;
         message++)
        result = check(stream, message);
    return result;
}

static int run_batches(stream *streams, size_t count)
{
    const perf_step *step = streams[0].step;
    uint64_t batches = (step->iterations + batch_messages(step) - 1) / batch_messages(step);
    ferry_op *ops = calloc(step->window, sizeof(*ops));
    if (!ops) {
        fputs("ferry: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    int result = 0;
    while (streams[count - 1].ended < batches && !result) {
        for (size_t i = 0; i < count && !result; i++) {
            stream *stream = &streams[i];
            if (stream->ended < batches &&
                (stream->begun == batches || stream->begun - stream->ended == 2))
                result = end_batch(stream);
            if (stream->begun < batches && !result)
                begin_batch(stream, ops);
        }
    }
    free(ops);
    return result;
}

/* ---- by plans: like batches ---- */

/* Those of a half of the window; every other one first, so that no neighbours are one. */
static ferry_plan *make_plan(const stream *stream, uint64_t batch, ferry_op *ops)
{
    uint64_t count = batch_messages(stream->step), middle = (count + 1) / 2;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t message = i < middle ? 2 * i : 2 * (i - middle) + 1;
        ops[i] = op_of(stream, batch * count + message);
    }
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    if (ferry_plan_create(stream->end->member.engine, ops, sizeof(*ops), count, &plan, &error) !=
        FERRY_OK) {
        fprintf(stderr, "ferry: a plan of %llu gets: %s\n", (unsigned long long)count,
                error->message);
        ferry_error_release(error);
    }
    return plan;
}

/* The last may be short: then it picks those that are left. */
static void begin_plan(stream *stream, ferry_plan *plan, uint32_t *picks)
{
    uint64_t batch = stream->begun++, most = batch_messages(stream->step);
    uint64_t count = batch_end(stream->step, batch) - batch * most, middle = (most + 1) / 2;
    for (uint64_t i = 0; i < count; i++)
        picks[i] = (uint32_t)(i % 2 == 0 ? i / 2 : middle + i / 2);
    stream->ring[batch % 2] =
        ferry_plan_post(plan, count < most ? picks : NULL, count < most ? count : 0, NULL);
}

static int run_plans(stream *stream)
{
    const perf_step *step = stream->step;
    uint64_t batches = (step->iterations + batch_messages(step) - 1) / batch_messages(step);
    ferry_op *ops = calloc(step->window, sizeof(*ops));
    uint32_t *picks = calloc(step->window, sizeof(*picks));
    ferry_plan *plans[2] = {NULL, NULL};
    int result = EXIT_FAILURE;
    if (!ops || !picks)
        fputs("ferry: out of memory\n", stderr);
    else if ((plans[0] = make_plan(stream, 0, ops)) && (plans[1] = make_plan(stream, 1, ops)))
        result = 0;
    while (stream->ended < batches && !result) {
        if (stream->begun == batches || stream->begun - stream->ended == 2)
            result = end_batch(stream);
        if (stream->begun < batches && !result)
            begin_plan(stream, plans[stream->begun % 2], picks);
    }
    ferry_plan_release(plans[0]);
    ferry_plan_release(plans[1]);
    free(ops);
    free(picks);
    return result;
}

/* ---- there and back ---- */

/*
 * Each end has a receive posted before the other's message can come: it posts the next one behind
 * its own message, before it waits for that message's answer, which comes with the other's message.
 */
static int run_turns(perf_end *end, const perf_step *step, perf_samples *samples)
{
    stream streams[] = {
        {.end = end, .step = step, .is_send = true, .area = &end->out, .ring = end->futures},
        {.end = end, .step = step, .area = &end->in, .ring = end->futures + PERF_WINDOW_MAX},
    };
    stream *out = &streams[0];
    stream *in = &streams[1];
    uint64_t stride = step->iterations / PERF_SAMPLES_MAX + 1;
    int result = 0;
    double before_s = now_s();
    if (end->member.rank != 0)
        begin_one(in);
    for (uint64_t i = 0; i < step->iterations && !result; i++) {
        if (end->member.rank == 0) {
            begin_one(out);
            begin_one(in);
        }
        result = end_one(in);
        if (out->ended < out->begun && !result)
            result = end_one(out);
        if (end->member.rank != 0 && !result) {
            begin_one(out);
            if (in->begun < step->iterations)
                begin_one(in);
        }
        if (samples->values_s && i % stride == 0) {
            double after_s = now_s();
            samples->values_s[samples->count++] = (after_s - before_s) / 2;
            before_s = after_s;
        } else if (samples->values_s && (i + 1) % stride == 0) {
            before_s = now_s();
        }
    }
    return out->ended < out->begun && !result ? end_one(out) : result;
}

/* ---- windows ---- */

/* What rank 1 has its window over. */
static stream owner_of(perf_end *end, const perf_step *step)
{
    bool is_put = step->test == PERF_PUT;
    return (stream){.end = end,
                    .step = step,
                    .is_send = !is_put,
                    .area = is_put ? &end->in : &end->out,
                    .ring = end->futures};
}

static int prepare_window(perf_end *end, const perf_step *step)
{
    if (end->member.rank == 0)
        return perf_end_find_window(end, step->number);
    const stream owner = owner_of(end, step);
    for (uint32_t slot = 0; slot < step->window; slot++)
        prepare(&owner, slot);
    return perf_end_open_window(end, owner.area, step->number);
}

/* One byte says that it is over, in the area that the test has no use for. */
static int say_over(perf_end *end, const perf_step *step)
{
    perf_area *area = (step->test == PERF_PUT) == (end->member.rank == 0) ? &end->in : &end->out;
    ferry_span byte = perf_end_span(area, 0, 1);
    return perf_end_finish(end,
                           end->member.rank == 0 ? perf_end_send(end, PERF_TAG_READY, byte)
                                                 : perf_end_recv(end, PERF_TAG_READY, byte),
                           "ending a step");
}

/* Each by itself, timed; with a plan, this is posted. */
static int run_timed(stream *stream, perf_samples *samples)
{
    const perf_step *step = stream->step;
    uint64_t stride = step->iterations / PERF_SAMPLES_MAX + 1;
    int result = 0;
    ferry_plan *plan = NULL;
    if (step->test == PERF_PLAN) {
        const ferry_op op = op_of(stream, 0);
        result = ferry_plan_create(stream->end->member.engine, &op, sizeof(op), 1, &plan, NULL) ==
                         FERRY_OK
                     ? 0
                     : EXIT_FAILURE;
    }
    for (uint64_t i = 0; i < step->iterations && !result; i++) {
        double before_s = i % stride == 0 ? now_s() : 0;
        if (plan)
            stream->ring[stream->begun++ % step->window] = ferry_plan_post(plan, NULL, 0, NULL);
        else
            begin_one(stream);
        result = end_one(stream);
        if (samples->values_s && i % stride == 0)
            samples->values_s[samples->count++] = now_s() - before_s;
    }
    ferry_plan_release(plan);
    return result;
}

static int run_user(perf_end *end, const perf_step *step, perf_samples *samples)
{
    bool is_put = step->test == PERF_PUT;
    stream stream = {.end = end,
                     .step = step,
                     .is_send = is_put,
                     .area = is_put ? &end->out : &end->in,
                     .ring = end->futures};
    if (step->window == 1)
        return run_timed(&stream, samples);
    if (step->test == PERF_PLAN)
        return run_plans(&stream);
    return step->is_batch ? run_batches(&stream, 1) : run_singly(&stream, 1);
}

/* What was put last into each slot. */
static int check_window(perf_end *end, const perf_step *step)
{
    const stream owner = owner_of(end, step);
    uint64_t first = step->iterations > step->window ? step->iterations - step->window : 0;
    int result = 0;
    for (uint64_t message = first; message < step->iterations && !result; message++)
        result = check(&owner, message);
    return result;
}

/* The window is closed before its memory is looked at. */
static int end_window(perf_end *end, const perf_step *step)
{
    int result = say_over(end, step);
    if (!result)
        result = perf_end_close_window(end);
    return result || end->member.rank == 0 ? result : check_window(end, step);
}

/* ---- all of it ---- */

static int run_streams(perf_end *end, const perf_step *step)
{
    stream streams[2];
    size_t count = 0;
    if (step->test == PERF_BI || end->member.rank != 0)
        streams[count++] = (stream){
            .end = end, .step = step, .area = &end->in, .ring = end->futures + PERF_WINDOW_MAX};
    if (step->test == PERF_BI || end->member.rank == 0)
        streams[count++] = (stream){
            .end = end, .step = step, .is_send = true, .area = &end->out, .ring = end->futures};
    bool can_be_batch = step->test != PERF_NOTICE;
    return can_be_batch && step->is_batch && step->window >= 2 ? run_batches(streams, count)
                                                               : run_singly(streams, count);
}

/* Memory to send from, and to receive into. In lat and bi both ends have both, and with windows. */
static bool needs_area(const perf_end *end, const perf_step *step, bool is_out)
{
    bool has_both = step->test == PERF_LAT || step->test == PERF_BI || is_of_window(step);
    return has_both || (end->member.rank == 0) == is_out;
}

static bool is_window_shared(const perf_end *end, const perf_step *step)
{
    return step->is_shared != 0 && is_of_window(step) && end->member.rank == 1;
}

int perf_stream_prepare(perf_end *end, const perf_step *step)
{
    size_t bytes = step->size_bytes * step->window;
    int result = perf_end_place(end, step->devices[end->member.rank]);
    if (!result && needs_area(end, step, true))
        result = perf_end_room(end, &end->out, bytes, is_window_shared(end, step));
    if (!result && needs_area(end, step, false))
        result = perf_end_room(end, &end->in, bytes, is_window_shared(end, step));
    return result || !is_of_window(step) ? result : prepare_window(end, step);
}

int perf_stream_run(perf_end *end, const perf_step *step, perf_samples *samples, double *seconds_p)
{
    double begin_s = now_s();
    int result = 0;
    if (step->test == PERF_LAT)
        result = run_turns(end, step, samples);
    else if (!is_of_window(step))
        result = run_streams(end, step);
    else if (end->member.rank == 0)
        result = run_user(end, step, samples);
    *seconds_p = now_s() - begin_s;
    return result || !is_of_window(step) ? result : end_window(end, step);
}
