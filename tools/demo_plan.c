/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_plan.h"

#include "tools/demo_expected.h"
#include "tools/demo_measure.h"
#include "tools/demo_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON_BYTE 0xff /* as floats: not a number, which each sum carries on to the output */

static int fail_status(const char *doing, ferry_status status)
{
    fprintf(stderr, "ferry: %s: %s (%s)\n", doing, ferry_status_text(status),
            ferry_status_name(status));
    return EXIT_FAILURE;
}

static int fail_memory(void)
{
    fputs("ferry: out of memory\n", stderr);
    return EXIT_FAILURE;
}

/* Allocates host memory so that GPUs, if there are any, copy straight from and to it. */
static int allocate(demo_plan *plan, ferry_device *device, size_t size_bytes,
                    ferry_buffer **buffer_p)
{
    bool is_pinned = plan->cuda && device == plan->home;
    ferry_status status = ferry_buffer_alloc_kind(
        device, size_bytes, is_pinned ? FERRY_MEMORY_PINNED : FERRY_MEMORY_DEFAULT, buffer_p);
    if (status != FERRY_OK)
        return fail_status("allocating a buffer", status);
    plan->buffers.all[plan->buffers.count++] = *buffer_p;
    return 0;
}

/* Allocates two buffers for each stage, on the stage's device. */
static int allocate_pairs(demo_plan *plan, size_t size_bytes, ferry_buffer **pairs)
{
    int result = 0;
    for (size_t i = 0; i < plan->options.stages * 2 && !result; i++)
        result = allocate(plan, plan->places[i / 2], size_bytes, &pairs[i]);
    return result;
}

/* One array holds all handles; groups are parts of a second array. */
static int allocate_handles(demo_plan *plan)
{
    demo_buffers *buffers = &plan->buffers;
    size_t pairs = plan->options.stages * 2;
    size_t count = plan->layer_count + 4 * pairs + 3;
    buffers->all = calloc(count, sizeof(ferry_buffer *));
    buffers->masters = calloc(count, sizeof(ferry_buffer *));
    plan->places = calloc(plan->options.stages, sizeof(ferry_device *));
    if (!buffers->all || !buffers->masters || !plan->places)
        return fail_memory();
    buffers->slots = buffers->masters + plan->layer_count;
    buffers->in = buffers->slots + pairs;
    buffers->hidden = buffers->in + pairs;
    buffers->out = buffers->hidden + pairs;
    return 0;
}

static int fail_error(const char *doing, ferry_status status, ferry_error *error)
{
    fprintf(stderr, "ferry: %s: %s\n", doing, error ? error->message : ferry_status_text(status));
    ferry_error_release(error);
    return EXIT_FAILURE;
}

static int open_place(demo_plan *plan, size_t stage)
{
    if (!plan->cuda) {
        plan->places[stage] = ferry_device_at(plan->engine, stage + 1);
        return 0;
    }
    char name[DEMO_CUDA_NAME_BYTES];
    demo_cuda_device_name(plan->cuda, stage, name);
    ferry_error *error = NULL;
    ferry_status status = ferry_device_open(plan->engine, name, NULL, &plan->places[stage], &error);
    return status == FERRY_OK ? 0 : fail_error(name, status, error);
}

static int make_engine(demo_plan *plan)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = plan->cuda ? 1 : (uint32_t)plan->options.stages + 1;
    options.host_workers = 1; /* one thread copies, as in the ways compared */
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(&options, &plan->engine, &error);
    if (status != FERRY_OK)
        return fail_error("creating an engine", status, error);
    plan->home = ferry_device_at(plan->engine, 0);
    int result = 0;
    for (size_t i = 0; i < plan->options.stages && !result; i++)
        result = open_place(plan, i);
    return result;
}

static int make_weights(demo_plan *plan)
{
    size_t size_bytes = plan->options.width * plan->options.width * sizeof(float);
    for (size_t i = 0; i < plan->layer_count; i++) {
        int result = allocate(plan, plan->home, size_bytes, &plan->buffers.masters[i]);
        if (result)
            return result;
        demo_weights_fill(ferry_buffer_data(plan->buffers.masters[i]), plan->options.width, i);
    }
    return allocate_pairs(plan, size_bytes, plan->buffers.slots);
}

static int make_activations(demo_plan *plan, const unsigned char *bytes, size_t byte_count)
{
    demo_buffers *buffers = &plan->buffers;
    size_t size_bytes = plan->options.rows * plan->options.width * sizeof(float);
    size_t all_bytes = size_bytes * plan->options.micro_batches;
    int result = allocate(plan, plan->home, all_bytes, &buffers->input);
    if (!result)
        result = allocate(plan, plan->home, all_bytes, &buffers->output);
    if (!result)
        result = allocate(plan, plan->home, 2 * size_bytes, &buffers->aside);
    if (!result)
        result = allocate_pairs(plan, size_bytes, buffers->in);
    if (!result)
        result = allocate_pairs(plan, size_bytes, buffers->hidden);
    if (!result)
        result = allocate_pairs(plan, size_bytes, buffers->out);
    if (result)
        return result;
    demo_input_fill(ferry_buffer_data(buffers->input), all_bytes / sizeof(float), bytes,
                    byte_count);
    return 0;
}

/* Defines what was written without ferry: the input and weights on host:0. */
static int define_sources(demo_plan *plan)
{
    demo_buffers *buffers = &plan->buffers;
    ferry_status status = ferry_buffer_define(ferry_buffer_span(buffers->input), NULL);
    for (size_t i = 0; i < plan->layer_count && status == FERRY_OK; i++)
        status = ferry_buffer_define(ferry_buffer_span(buffers->masters[i]), NULL);
    return status == FERRY_OK ? 0 : fail_status("defining a buffer", status);
}

static ferry_span micro_batch_span(const demo_plan *plan, ferry_buffer *buffer, size_t micro_batch)
{
    size_t size_bytes = plan->options.rows * plan->options.width * sizeof(float);
    return (ferry_span){buffer, micro_batch * size_bytes, size_bytes};
}

/* `number`: which of the named things, from 1. */
static void add_copy(demo_plan *plan, demo_step copy, const char *name, size_t number,
                     ferry_span out, ferry_span in)
{
    demo_step *step = &plan->steps[plan->step_count++];
    *step = copy;
    step->out = out;
    step->in = in;
    (void)snprintf(step->label, sizeof(step->label), "%s %zu", name, number);
    plan->copy_bytes += out.size_bytes;
}

static void name_layer(const demo_plan *plan, demo_step *step, size_t stage, size_t layer,
                       size_t micro_batch)
{
    if (plan->options.layers == 1)
        (void)snprintf(step->label, sizeof(step->label), "stage %zu batch %zu", stage + 1,
                       micro_batch + 1);
    else
        (void)snprintf(step->label, sizeof(step->label), "stage %zu layer %zu batch %zu", stage + 1,
                       layer + 1, micro_batch + 1);
}

/* Adds the steps of one layer of a stage for one micro-batch. */
static void add_layer(demo_plan *plan, size_t stage, size_t layer, size_t micro_batch)
{
    const demo_options *options = &plan->options;
    demo_buffers *buffers = &plan->buffers;
    size_t tick = micro_batch + stage;
    size_t pair = stage * 2;
    size_t turn = pair + micro_batch % 2;
    bool is_last = layer + 1 == options->layers;
    ferry_span stage_in = ferry_buffer_span(buffers->in[turn]);
    ferry_span stage_out = ferry_buffer_span(buffers->out[turn]);
    const demo_step from_host = {.kind = DEMO_STEP_FROM_HOST, .stage = stage, .tick = tick};
    const demo_step to_host = {.kind = DEMO_STEP_TO_HOST, .stage = stage, .tick = tick};
    const demo_step across = {.kind = DEMO_STEP_ACROSS, .stage = stage, .tick = tick};
    const demo_step send = {.kind = DEMO_STEP_SEND, .stage = stage, .tick = tick};
    const demo_step recv = {.kind = DEMO_STEP_RECV, .stage = stage, .tick = tick};
    if (layer == 0 && stage == 0)
        add_copy(plan, from_host, "input", micro_batch + 1, stage_in,
                 micro_batch_span(plan, buffers->input, micro_batch));
    else if (layer == 0 && stage == plan->part.first)
        add_copy(plan, recv, "receive", micro_batch + 1, stage_in,
                 micro_batch_span(plan, buffers->aside, 0));
    else if (layer == 0)
        add_copy(plan, across, "activations", micro_batch + 1, stage_in,
                 ferry_buffer_span(buffers->out[turn - 2]));

    /*
     * Counted through all micro-batches: with an odd number of layers a slot never gets the same
     * weights twice in a row, so a lost or early copy shows in the output.
     */
    size_t slot = pair + (micro_batch * options->layers + layer) % 2;
    ferry_span weights = ferry_buffer_span(buffers->slots[slot]);
    size_t number = stage * options->layers + layer;
    ferry_buffer *master = buffers->masters[number];
    add_copy(plan, from_host, "weights", number + 1, weights, ferry_buffer_span(master));

    demo_step *step = &plan->steps[plan->step_count++];
    *step = (demo_step){
        .kind = DEMO_STEP_LAYER,
        .stage = stage,
        .tick = tick,
        .width = options->width,
        .rows = options->rows,
        .out = is_last ? stage_out : ferry_buffer_span(buffers->hidden[pair + layer % 2]),
        .in = layer ? ferry_buffer_span(buffers->hidden[pair + (layer - 1) % 2]) : stage_in,
        .weights = weights,
    };
    name_layer(plan, step, stage, layer, micro_batch);
    plan->layer_step_count++;
    if (is_last && stage + 1 == options->stages)
        add_copy(plan, to_host, "output", micro_batch + 1,
                 micro_batch_span(plan, buffers->output, micro_batch), stage_out);
    else if (is_last && stage + 1 == plan->part.end)
        add_copy(plan, send, "send", micro_batch + 1, micro_batch_span(plan, buffers->aside, 1),
                 stage_out);
}

static int make_steps(demo_plan *plan)
{
    const demo_options *options = &plan->options;
    const demo_part *part = &plan->part;
    size_t count = options->micro_batches * (2 * plan->layer_count + options->stages + 2);
    plan->steps = calloc(count, sizeof(demo_step));
    if (!plan->steps)
        return fail_memory();
    plan->tick_count = options->micro_batches + options->stages - 1;
    for (size_t tick = 0; tick < plan->tick_count; tick++) {
        for (size_t layer = 0; layer < options->layers; layer++) {
            for (size_t stage = part->first; stage < part->end && stage <= tick; stage++) {
                if (tick - stage < options->micro_batches)
                    add_layer(plan, stage, layer, tick - stage);
            }
        }
    }
    return 0;
}

static int make_expected(demo_plan *plan)
{
    const float **weights = calloc(plan->layer_count, sizeof(float *));
    if (!weights)
        return fail_memory();
    for (size_t i = 0; i < plan->layer_count; i++)
        weights[i] = ferry_buffer_data(plan->buffers.masters[i]);
    int result = demo_expected_make(
        plan->options.width, plan->options.rows * plan->options.micro_batches, weights,
        plan->layer_count, ferry_buffer_data(plan->buffers.input), &plan->expected);
    free(weights);
    return result;
}

/* One process finds the number, because each would find another. */
static int choose_rows(demo_plan *plan)
{
    size_t *rows_p = &plan->options.rows;
    int result = plan->part.rank == 0 ? demo_calibrate_rows(plan, rows_p) : 0;
    return result ? result : demo_part_share_rows(&plan->part, rows_p);
}

int demo_plan_make(demo_plan *plan, const demo_options *options, demo_part part,
                   const unsigned char *bytes, size_t byte_count)
{
    *plan = (demo_plan){
        .options = *options, .part = part, .layer_count = options->stages * options->layers};
    int result = allocate_handles(plan);
    if (!result && options->is_cuda)
        result = demo_cuda_open(options->stages, &plan->cuda);
    if (!result)
        result = make_engine(plan);
    if (!result)
        result = demo_part_join(&plan->part, plan->engine);
    if (!result)
        result = make_weights(plan);
    if (!result && options->rows == 0)
        result = choose_rows(plan);
    if (!result)
        result = make_activations(plan, bytes, byte_count);
    if (!result)
        result = define_sources(plan);
    if (!result)
        result = make_steps(plan);
    if (!result && demo_part_is_last(&plan->part))
        result = make_expected(plan);
    return result;
}

void demo_plan_release(demo_plan *plan)
{
    demo_part_leave(&plan->part);
    for (size_t i = 0; i < plan->buffers.count; i++)
        ferry_buffer_release(plan->buffers.all[i]);
    ferry_engine_release(plan->engine);
    demo_cuda_close(plan->cuda);
    free(plan->places);
    free(plan->events);
    free(plan->buffers.all);
    free(plan->buffers.masters);
    free(plan->expected);
    free(plan->steps);
    *plan = (demo_plan){0};
}

void *demo_span_data(ferry_span span)
{
    return (char *)ferry_buffer_data(span.buffer) + span.offset_bytes;
}

void demo_step_run(const demo_step *step)
{
    void *out = demo_span_data(step->out);
    const void *in = demo_span_data(step->in);
    if (step->kind == DEMO_STEP_LAYER)
        demo_layer_compute(step->width, step->rows, demo_span_data(step->weights), in, out);
    else
        memcpy(out, in, step->out.size_bytes);
}

/* Fills all bytes of a stage's buffer. */
static int fill(const demo_plan *plan, size_t stage, ferry_buffer *buffer)
{
    void *bytes = ferry_buffer_data(buffer);
    size_t size_bytes = ferry_buffer_size_bytes(buffer);
    if (plan->cuda)
        return demo_cuda_fill(plan->cuda, stage, bytes, POISON_BYTE, size_bytes);
    memset(bytes, POISON_BYTE, size_bytes);
    return 0;
}

/* Copies from the beginning of a buffer of host:0. */
static int put(const demo_plan *plan, size_t stage, ferry_buffer *buffer, ferry_buffer *from)
{
    void *bytes = ferry_buffer_data(buffer);
    size_t size_bytes = ferry_buffer_size_bytes(buffer);
    if (plan->cuda)
        return demo_cuda_put(plan->cuda, stage, bytes, ferry_buffer_data(from), size_bytes);
    memcpy(bytes, ferry_buffer_data(from), size_bytes);
    return 0;
}

static void fill_output(demo_plan *plan)
{
    memset(ferry_buffer_data(plan->buffers.output), POISON_BYTE,
           ferry_buffer_size_bytes(plan->buffers.output));
}

int demo_plan_poison(demo_plan *plan)
{
    demo_buffers *buffers = &plan->buffers;
    ferry_buffer **const groups[] = {buffers->slots, buffers->in, buffers->hidden, buffers->out};
    int result = 0;
    for (size_t group = 0; group < sizeof(groups) / sizeof(groups[0]); group++) {
        for (size_t i = 0; i < plan->options.stages * 2 && !result; i++)
            result = fill(plan, i / 2, groups[group][i]);
    }
    fill_output(plan);
    return result;
}

int demo_plan_fill_slots(const demo_plan *plan)
{
    const demo_buffers *buffers = &plan->buffers;
    int result = 0;
    for (size_t i = 0; i < plan->options.stages * 2 && !result; i++)
        result =
            put(plan, i / 2, buffers->slots[i], buffers->masters[i / 2 * plan->options.layers]);
    return result;
}

int demo_plan_prime(demo_plan *plan)
{
    demo_buffers *buffers = &plan->buffers;
    ferry_buffer **const groups[] = {buffers->in, buffers->hidden, buffers->out};
    int result = demo_plan_fill_slots(plan);
    for (size_t i = 0; i < plan->options.stages * 2; i++) {
        for (size_t group = 0; group < sizeof(groups) / sizeof(groups[0]) && !result; group++)
            result = put(plan, i / 2, groups[group][i], buffers->input);
    }
    fill_output(plan);
    return result;
}

bool demo_plan_verify(const demo_plan *plan)
{
    if (!demo_part_is_last(&plan->part))
        return true;
    return memcmp(ferry_buffer_data(plan->buffers.output), plan->expected,
                  ferry_buffer_size_bytes(plan->buffers.output)) == 0;
}
