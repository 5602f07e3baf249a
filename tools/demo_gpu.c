/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_gpu.h"

#include "tools/demo_ferry.h"
#include "tools/demo_measure.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NONE SIZE_MAX

/* ---- a step ---- */

static demo_cuda_stream stream_of(const demo_step *step)
{
    static const demo_cuda_stream streams[] = {
        [DEMO_STEP_LAYER] = DEMO_CUDA_COMPUTE,   [DEMO_STEP_FROM_HOST] = DEMO_CUDA_FROM_HOST,
        [DEMO_STEP_TO_HOST] = DEMO_CUDA_TO_HOST, [DEMO_STEP_ACROSS] = DEMO_CUDA_ACROSS,
        [DEMO_STEP_SEND] = DEMO_CUDA_TO_HOST, /* alone: from and to page-locked memory */
        [DEMO_STEP_RECV] = DEMO_CUDA_FROM_HOST,
    };
    return streams[step->kind];
}

static bool is_same_stream(const demo_step *left, const demo_step *right)
{
    return left->stage == right->stage && stream_of(left) == stream_of(right);
}

/* Issues the step to its stream. */
static int begin_step(demo_plan *plan, const demo_step *step)
{
    void *out = demo_span_data(step->out);
    const void *in = demo_span_data(step->in);
    if (step->kind == DEMO_STEP_LAYER)
        return demo_cuda_layer(plan->cuda, step->stage, step->width, step->rows,
                               demo_span_data(step->weights), in, out);
    return demo_cuda_copy(plan->cuda, step->stage, stream_of(step), out, in, step->out.size_bytes);
}

static int run_some(demo_plan *plan, bool layers, double *seconds_p)
{
    int result = 0;
    double begin_s = demo_now_s();
    for (size_t i = 0; i < plan->step_count && !result; i++) {
        if ((plan->steps[i].kind == DEMO_STEP_LAYER) == layers)
            result = begin_step(plan, &plan->steps[i]);
    }
    if (!result)
        result = demo_cuda_finish_all(plan->cuda);
    *seconds_p = demo_now_s() - begin_s;
    return result;
}

int demo_gpu_compute(demo_plan *plan, double *seconds_p)
{
    return run_some(plan, true, seconds_p);
}

int demo_gpu_copy(demo_plan *plan, double *seconds_p)
{
    return run_some(plan, false, seconds_p);
}

int demo_gpu_serial(demo_plan *plan, double *seconds_p)
{
    int result = 0;
    double begin_s = demo_now_s();
    for (size_t i = 0; i < plan->step_count && !result; i++) {
        const demo_step *step = &plan->steps[i];
        result = begin_step(plan, step);
        if (!result)
            result = demo_cuda_finish(plan->cuda, step->stage, stream_of(step));
    }
    *seconds_p = demo_now_s() - begin_s;
    return result;
}

/* ---- the earlier steps that a step needs ---- */

typedef struct step_needs {
    size_t in, weights; /* the steps that write what it reads; NONE: there is none */
    size_t out;         /* the last step that touched what it overwrites */
} step_needs;

/* The use of a stage's buffer, which is written as a whole and then read by one step. */
typedef struct buffer_use {
    const ferry_buffer *buffer;
    size_t writer, last;
} buffer_use;

typedef struct buffer_uses {
    buffer_use *list;
    size_t count;
    buffer_use other; /* for host:0: no span there is written twice, or read and written */
} buffer_uses;

static buffer_use *use_of(buffer_uses *uses, ferry_span span)
{
    for (size_t i = 0; i < uses->count; i++) {
        if (uses->list[i].buffer == span.buffer)
            return &uses->list[i];
    }
    uses->other = (buffer_use){.writer = NONE, .last = NONE};
    return &uses->other;
}

static size_t note_read(buffer_uses *uses, ferry_span span, size_t step)
{
    buffer_use *use = use_of(uses, span);
    use->last = step;
    return use->writer;
}

static void find_needs(const demo_plan *plan, buffer_uses *uses, step_needs *needs)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const demo_step *step = &plan->steps[i];
        needs[i].in = note_read(uses, step->in, i);
        needs[i].weights = step->kind == DEMO_STEP_LAYER ? note_read(uses, step->weights, i) : NONE;
        buffer_use *use = use_of(uses, step->out);
        needs[i].out = use->last;
        use->writer = use->last = i;
    }
}

/* The caller frees the result; NULL after a message on stderr. */
static step_needs *make_needs(const demo_plan *plan)
{
    const demo_buffers *buffers = &plan->buffers;
    ferry_buffer **const groups[] = {buffers->slots, buffers->in, buffers->hidden, buffers->out};
    size_t pairs = plan->options.stages * 2;
    buffer_uses uses = {.list = calloc(pairs * 4, sizeof(buffer_use))};
    step_needs *needs = calloc(plan->step_count, sizeof(step_needs));
    if (!uses.list || !needs) {
        free(uses.list);
        free(needs);
        fputs("ferry: out of memory\n", stderr);
        return NULL;
    }
    for (size_t i = 0; i < pairs * 4; i++)
        uses.list[uses.count++] = (buffer_use){groups[i / pairs][i % pairs], NONE, NONE};
    find_needs(plan, &uses, needs);
    free(uses.list);
    return needs;
}

/* ---- by hand ---- */

static int wait_for(demo_plan *plan, const demo_step *step, size_t need, void **events)
{
    if (need == NONE || is_same_stream(step, &plan->steps[need]))
        return 0;
    return demo_cuda_wait_event(plan->cuda, step->stage, stream_of(step), events[need]);
}

static int begin_in_order(demo_plan *plan, size_t index, const step_needs *needs, void **events)
{
    const demo_step *step = &plan->steps[index];
    int result = wait_for(plan, step, needs->in, events);
    if (!result)
        result = wait_for(plan, step, needs->weights, events);
    if (!result)
        result = wait_for(plan, step, needs->out, events);
    if (!result)
        result = begin_step(plan, step);
    if (!result)
        result = demo_cuda_record(plan->cuda, step->stage, stream_of(step), events[index]);
    return result;
}

/* Creates the events outside the measured time: programs keep theirs. */
static int make_events(demo_plan *plan)
{
    if (plan->events)
        return 0;
    plan->events = calloc(plan->step_count, sizeof(void *));
    if (!plan->events) {
        fputs("ferry: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    int result = 0;
    for (size_t i = 0; i < plan->step_count && !result; i++)
        result = demo_cuda_event(plan->cuda, plan->steps[i].stage, &plan->events[i]);
    return result;
}

int demo_gpu_control(demo_plan *plan, double *seconds_p)
{
    step_needs *needs = make_needs(plan);
    if (!needs)
        return EXIT_FAILURE;
    int result = make_events(plan);
    double begin_s = demo_now_s();
    for (size_t i = 0; i < plan->step_count && !result; i++)
        result = begin_in_order(plan, i, &needs[i], plan->events);
    if (!result)
        result = demo_cuda_finish_all(plan->cuda);
    *seconds_p = demo_now_s() - begin_s;
    free(needs);
    return result;
}

/* ---- through ferry ---- */

typedef struct gpu_run {
    demo_plan *plan;
    step_needs *needs;
    ferry_future **futures; /* of a copy or message its own, of a layer its event's */
} gpu_run;

static int fail_status(const demo_step *step, const char *what, ferry_status status)
{
    fprintf(stderr, "ferry: '%s': %s: %s (%s)\n", step->label, what, ferry_status_text(status),
            ferry_status_name(status));
    return EXIT_FAILURE;
}

static int finish_message(ferry_future *message, const demo_step *step)
{
    (void)ferry_future_wait(message, -1);
    return demo_ferry_check(message, step->label);
}

/*
 * Makes the stage's compute stream wait for the copy. If another thread is at work on the graph,
 * the copy may not be in a stream yet. A receive is there once its bytes are on their way to the
 * GPU. No stream can wait for a send, or for a receive that failed: this thread does.
 */
static int follow_copy(gpu_run *run, const demo_step *step, size_t need)
{
    if (need == NONE || run->plan->steps[need].kind == DEMO_STEP_LAYER)
        return 0; /* the same stream orders it */
    const demo_step *needed = &run->plan->steps[need];
    ferry_future *copy = run->futures[need];
    if (needed->kind == DEMO_STEP_SEND)
        return finish_message(copy, needed);
    ferry_device *place = run->plan->places[step->stage];
    void *stream = demo_cuda_native_stream(run->plan->cuda, step->stage, DEMO_CUDA_COMPUTE);
    ferry_status status = ferry_future_stream_wait(copy, place, stream);
    if (status == FERRY_E_NOT_ISSUED) {
        ferry_future *issued = ferry_future_issued(copy);
        (void)ferry_future_wait(issued, -1);
        ferry_future_release(issued);
        status = ferry_future_stream_wait(copy, place, stream);
    }
    if (status == FERRY_E_UNSUPPORTED && needed->kind == DEMO_STEP_RECV)
        return finish_message(copy, needed);
    return status == FERRY_OK ? 0 : fail_status(step, "making its stream wait", status);
}

/*
 * Submits a layer: its stream waits for the copies of what it reads and overwrites, and an event
 * tells ferry when its output is there.
 */
static int submit_layer(gpu_run *run, size_t index)
{
    demo_plan *plan = run->plan;
    const demo_step *step = &plan->steps[index];
    const step_needs *needs = &run->needs[index];
    int result = follow_copy(run, step, needs->in);
    if (!result)
        result = follow_copy(run, step, needs->weights);
    if (!result)
        result = follow_copy(run, step, needs->out);
    if (!result)
        result = begin_step(plan, step);
    if (result)
        return result;
    void *stream = demo_cuda_native_stream(plan->cuda, step->stage, DEMO_CUDA_COMPUTE);
    run->futures[index] = ferry_event_record(plan->places[step->stage], stream);
    ferry_status status = ferry_buffer_define(step->out, run->futures[index]);
    return status == FERRY_OK ? 0 : fail_status(step, "defining what it writes", status);
}

/* Submits a copy or message after the layer that read what it overwrites; ferry finds the other
 * edges. */
static void submit_copy(gpu_run *run, size_t index)
{
    demo_plan *plan = run->plan;
    const demo_step *step = &plan->steps[index];
    size_t before = run->needs[index].out;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = step->label;
    if (before != NONE && plan->steps[before].kind == DEMO_STEP_LAYER) {
        options.after = &run->futures[before];
        options.after_count = 1;
    }
    run->futures[index] = demo_ferry_move(plan, step, &options);
}

/* As many ticks ahead as on hosts, for the same reason. */
static int submit_all(gpu_run *run)
{
    const demo_plan *plan = run->plan;
    size_t behind = 0;
    int result = 0;
    for (size_t i = 0; i < plan->step_count && !result; i++) {
        const demo_step *step = &plan->steps[i];
        size_t before = behind;
        while (plan->steps[behind].tick + DEMO_LOOKAHEAD_TICKS <= step->tick)
            behind++;
        if (behind > before)
            (void)ferry_future_wait(run->futures[behind - 1], -1);
        if (step->kind == DEMO_STEP_LAYER)
            result = submit_layer(run, i);
        else
            submit_copy(run, i);
    }
    for (size_t i = plan->step_count; i > 0 && !result; i--)
        (void)ferry_future_wait(run->futures[i - 1], -1);
    return result;
}

int demo_gpu_ferry(demo_plan *plan, double *seconds_p)
{
    gpu_run run = {.plan = plan,
                   .needs = make_needs(plan),
                   .futures = calloc(plan->step_count, sizeof(ferry_future *))};
    int result = run.needs && run.futures ? 0 : EXIT_FAILURE;
    double begin_s = demo_now_s();
    if (!result)
        result = submit_all(&run);
    *seconds_p = demo_now_s() - begin_s;
    for (size_t i = 0; i < plan->step_count && !result; i++)
        result = demo_ferry_check(run.futures[i], plan->steps[i].label);
    if (!result)
        result = demo_ferry_wait_quiet(plan);
    for (size_t i = 0; run.futures && i < plan->step_count; i++)
        ferry_future_release(run.futures[i]);
    free(run.futures);
    free(run.needs);
    return result;
}
