/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a round of the demo does: its memory, and its steps in program order.
 *
 * Micro-batches enter the first stage one a tick; in tick t, stage s works on micro-batch t - s. A
 * tick goes through the layers, and through the stages within a layer. Each layer run is two steps,
 * the copy of its weights from host:0 and the layer itself; more copies take a micro-batch into a
 * stage and out of the last one. Weights, and what enters and leaves a stage, are double-buffered,
 * so that one can be copied while the other is in use.
 */
#ifndef DEMO_PLAN_H
#define DEMO_PLAN_H

#include "tools/demo_cuda.h"
#include "tools/demo_options.h"
#include "tools/demo_part.h"

#include <ferry/ferry.h>

#define DEMO_LABEL_BYTES 96

/* What a step does, and by that which stream it is on where there are any. */
typedef enum demo_step_kind {
    DEMO_STEP_LAYER,
    DEMO_STEP_FROM_HOST, /* copies, this and the next two */
    DEMO_STEP_TO_HOST,
    DEMO_STEP_ACROSS, /* from the stage before */
    DEMO_STEP_SEND,   /* to the next stage, which another process has; alone it is a copy aside */
    DEMO_STEP_RECV,   /* from the stage before, likewise */
} demo_step_kind;

typedef struct demo_step {
    demo_step_kind kind;
    size_t stage; /* that it belongs to */
    size_t tick;
    char label[DEMO_LABEL_BYTES];
    size_t width, rows; /* of a layer */
    ferry_span out;     /* what it overwrites, all of it */
    ferry_span in;      /* what it reads */
    ferry_span weights; /* what else a layer reads; a copy has none */
} demo_step;

typedef struct demo_buffers {
    ferry_buffer **masters; /* each layer's weights; these three are on host:0 */
    ferry_buffer *input;
    ferry_buffer *output;
    ferry_buffer *
        *slots;        /* two a stage for the weights in use; the rest is on the stages' devices */
    ferry_buffer **in; /* two a stage */
    ferry_buffer **hidden;
    ferry_buffer **out;
    ferry_buffer *aside; /* stands for other processes where there are none: the one before, then
                            the next one */
    ferry_buffer **all;  /* every buffer once: what is released */
    size_t count;
} demo_buffers;

typedef struct demo_plan {
    demo_options options; /* with the rows that are used */
    demo_part part;       /* that this process has */
    size_t layer_count;   /* of all stages */
    size_t tick_count;
    ferry_engine *engine;
    demo_cuda *cuda;       /* NULL: all devices are hosts */
    ferry_device *home;    /* host:0 */
    ferry_device **places; /* of each stage */
    demo_buffers buffers;
    demo_step *steps;
    size_t step_count;
    size_t layer_step_count; /* how many of the steps run a layer */
    size_t copy_bytes;       /* what all copies move */
    void **events;           /* one a step, for the pipeline by hand on GPUs; NULL: not made yet */
    float *expected;         /* the output there has to be */
} demo_plan;

/*
 * Makes the engine, the weights and the steps, chooses the rows if the options leave them open, and
 * fills the input from a file's bytes. Of several processes each has its part, and waits for the
 * others. Returns 0, or the exit status after a message on stderr; the
 * plan is to be released either way.
 */
int demo_plan_make(demo_plan *plan, const demo_options *options, demo_part part,
                   const unsigned char *bytes, size_t byte_count);

/* Takes everything back. The engine is shut down if it is still running. */
void demo_plan_release(demo_plan *plan);

/* Where a span begins: an address of the host's, or of a GPU's. */
void *demo_span_data(ferry_span span);

/* Does one step now, on this thread. All devices are hosts. */
void demo_step_run(const demo_step *step);

/*
 * The next three return 0, or an exit status after a message on stderr; nothing is in flight.
 * Gives stages and output contents that no correct result can come from.
 */
int demo_plan_poison(demo_plan *plan);

/* Fills the stages' weight buffers with weights of a layer of theirs. */
int demo_plan_fill_slots(const demo_plan *plan);

/* Gives stages sound weights and activations, for layers that run without the copies. */
int demo_plan_prime(demo_plan *plan);

/* Whether the output is bit for bit what was expected. */
bool demo_plan_verify(const demo_plan *plan);

#endif
