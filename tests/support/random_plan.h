/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs: what to submit, resolve, cancel and wait for, in which order. A plan depends on
 * its seed alone, so that a seed reproduces it.
 */
#ifndef FERRY_TESTS_RANDOM_PLAN_H
#define FERRY_TESTS_RANDOM_PLAN_H

#include <ferry/op.h>
#include <ferry/status.h>
#include <ferry/types.h>
#include <stdbool.h>
#include <stdint.h>

#define PLAN_SHARED_MAX 5  /* buffers that any op may name */
#define PLAN_PRIVATE_MAX 2 /* behind those: of a batch that the program takes back */
#define PLAN_BUFFERS_MAX (PLAN_SHARED_MAX + PLAN_PRIVATE_MAX)
#define PLAN_DEVICES_MAX 5
#define PLAN_OPS_MAX 192
#define PLAN_STEPS_MAX (PLAN_OPS_MAX * 8) /* seven with each op, and the end of each promise */
#define PLAN_AFTER_MAX 4
#define PLAN_ACCESSES_MAX 4
#define PLAN_BATCH_MAX 8
#define PLAN_ROWS_MAX 12                                         /* of a copy */
#define PLAN_TOUCHED_MAX (PLAN_ACCESSES_MAX + 2 * PLAN_ROWS_MAX) /* accesses, rows apart */
#define PLAN_WINDOW 16 /* with few nodes: an op names none that is further back */
#define PLAN_OUTSIDE_BYTES_MAX 4096

#define PLAN_KIND_MAP(X)                                                                           \
    X(PLAN_COPY, "copy")                                                                           \
    X(PLAN_CALL, "call")                                                                           \
    X(PLAN_NOP, "nop")                                                                             \
    X(PLAN_DEFINE, "define")                                                                       \
    X(PLAN_PROMISE, "promise")                                                                     \
    X(PLAN_ALL, "all")                                                                             \
    X(PLAN_ANY, "any")                                                                             \
    X(PLAN_ISSUED, "issued")                                                                       \
    X(PLAN_QUIET, "quiet")                                                                         \
    X(PLAN_DRAIN, "drain")                                                                         \
    X(PLAN_BATCH, "batch") /* of the ops before it */                                              \
    X(PLAN_EVENT, "event") /* GPUs: of a stream of the program's, this and the next two */         \
    X(PLAN_OUTSIDE_WRITE, "outside write") /* there the program writes dst, and defines it */      \
    X(PLAN_OUTSIDE_READ, "outside read")   /* the copy before has written dst; it defines it anew */

#define PLAN_KIND_ENUM_(name, text) name,
typedef enum plan_kind { PLAN_KIND_MAP(PLAN_KIND_ENUM_) } plan_kind;
#undef PLAN_KIND_ENUM_

typedef enum plan_executor {
    PLAN_ON_LOOP,
    PLAN_INLINE,
    PLAN_OWN_THREAD,
} plan_executor;

typedef enum plan_deadline {
    PLAN_NO_DEADLINE,
    PLAN_PAST,
    PLAN_SOON, /* extra_ns from the submit */
    PLAN_FAR,
} plan_deadline;

typedef struct plan_span {
    uint32_t buffer;
    uint32_t offset;
    uint32_t size;
} plan_span;

typedef struct plan_access {
    plan_span span;
    ferry_access_mode mode;
} plan_access;

typedef struct plan_op {
    plan_kind kind;
    plan_span dst, src; /* copy: the first rows; define: dst */
    uint32_t row_count; /* copy: 1 for a plain one */
    uint32_t dst_pitch, src_pitch;
    plan_access accesses[PLAN_ACCESSES_MAX];
    uint32_t access_count;
    uint32_t
        after[PLAN_AFTER_MAX]; /* earlier ops; what is defined, combined or viewed is here too */
    uint32_t after_count;
    plan_executor executor; /* of a call */
    ferry_priority priority;
    plan_deadline deadline;
    int64_t extra_ns;
    ferry_status result; /* call: what its function returns; promise: what it is resolved with */
    bool is_dropped;     /* promise: released instead of resolved */
    bool is_cancelled;   /* a step cancels it, sooner or later */
    bool has_waiter;
    plan_executor waiter_executor;
    uint32_t member_count;    /* batch: the ops just before it are in it */
    uint32_t batch;           /* the batch it is in; 0 none */
    bool is_blind;            /* in a batch without each[]: it has no future */
    uint32_t own_after_count; /* in a batch: of after[], the first; the others are the batch's */
    bool has_batch_deadline;  /* in a batch: it has none of its own */
    uint32_t gpu, stream;     /* of the program: event, outside write and read */
    bool is_gated;            /* event: its stream waits for a step that opens the gate */
    bool is_tried_at_once;    /* outside write: if nobody is at the span it needs no gate */
    bool is_taken_back;       /* batch: its operations write a private buffer, and nothing else */
    uint32_t private_buffer;  /* batch and the ops in it, is_taken_back */
} plan_op;

typedef enum plan_action {
    PLAN_SUBMIT,
    PLAN_END_PROMISE,
    PLAN_CANCEL,
    PLAN_REMOVE_WAITER,
    PLAN_WAIT,      /* for the op, for extra_ns */
    PLAN_PROGRESS,  /* embedded: with budget extra_ns; else let others run */
    PLAN_OPEN_GATE, /* of the event */
    PLAN_TAKE_BACK, /* once the batch is quiet its private buffer is the program's, which writes it;
                       with extra_ns it is cancelled first */
} plan_action;

typedef struct plan_step {
    plan_action action;
    uint32_t op;
    int64_t extra_ns;
} plan_step;

typedef enum plan_place {
    PLAN_ON_DEVICE,
    PLAN_PINNED, /* host memory beside GPUs, this and the next */
    PLAN_PAGEABLE,
} plan_place;

typedef struct plan_buffer {
    uint32_t device;
    plan_place place;
    uint32_t size_bytes;
    bool is_wrapped;
    bool is_released_early; /* wrapped: as soon as everything is submitted */
} plan_buffer;

typedef struct random_plan {
    uint64_t seed;
    uint64_t random;
    uint32_t gpu_count; /* 0: all devices are hosts */
    uint32_t device_count, worker_count;
    uint32_t parked_streams; /* these three of a GPU */
    uint32_t staging_bytes;
    bool asks_events;
    uint32_t max_nodes; /* 0: the default */
    uint32_t inline_copy_bytes;
    uint32_t stream_depth; /* 0: the default */
    uint32_t flight_records;
    int64_t spin_ns;
    bool is_embedded;
    bool is_cut_short;     /* shut down without waiting for anything */
    bool copies_may_fail;  /* their devices refuse some, or fail at them */
    bool is_executor_lifo; /* the thread runs the newest task first */
    bool is_engine_first;  /* released before futures and buffers */
    uint32_t buffer_count; /* shared ones; the private ones come behind */
    uint32_t private_count;
    plan_buffer buffers[PLAN_BUFFERS_MAX];
    uint32_t op_count;
    plan_op ops[PLAN_OPS_MAX];
    uint32_t step_count;
    plan_step steps[PLAN_STEPS_MAX];
} random_plan;

/* Fills in everything from the seed, for host devices or for so many GPUs. */
void random_plan_make(random_plan *plan, uint64_t seed, uint32_t gpu_count);

/* What byte `at` of a buffer holds before the first op. */
unsigned char random_plan_initial(const random_plan *plan, uint32_t buffer, uint32_t at);

/* What the program's copy writes at byte `at` of an outside write's span. */
unsigned char random_plan_outside(const random_plan *plan, uint32_t op, uint32_t at);

/* What the program writes at byte `at` of a private buffer that it has taken back. */
unsigned char random_plan_mine(const random_plan *plan, uint32_t buffer, uint32_t at);

/*
 * What a call's function does to memory, given each buffer's first byte: from what it reads follows
 * what it writes.
 */
void random_plan_transform(const random_plan *plan, uint32_t op, unsigned char *const *memory);

const char *plan_kind_name(plan_kind kind);

/* The accesses of an op, a copy's rows and what a definition writes among them; returns how many.
 */
uint32_t plan_op_accesses(const plan_op *op, plan_access accesses[PLAN_TOUCHED_MAX]);

/* Row `row` of a copy. */
plan_span plan_dst_row(const plan_op *op, uint32_t row);
plan_span plan_src_row(const plan_op *op, uint32_t row);

/* One line on stderr. */
void random_plan_print_op(const random_plan *plan, uint32_t op);

#endif
