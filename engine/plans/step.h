/* SPDX-License-Identifier: Apache-2.0 */
/* A step: an operation of a plan, as the plan keeps it. */
#ifndef FRY_ENGINE_PLANS_STEP_H
#define FRY_ENGINE_PLANS_STEP_H

#include "engine/api/request.h"
#include "engine/graph/node.h"

#include <ferry/op.h>

typedef struct fry_plan_step {
    uint8_t kind;    /* ferry_op_kind */
    bool is_apart;   /* FERRY_OP_UNTRACKED */
    int8_t priority; /* ferry_priority */
    uint32_t access_count;
    ferry_access *accesses; /* those of its options, its own */
    const char *label;      /* or NULL */
    ferry_span dst, src;    /* what it writes and reads; no buffer: nothing */
    union {
        struct {
            size_t count, dst_pitch_bytes, src_pitch_bytes;
        } rows; /* copy */
        struct {
            ferry_window *window;
            uint64_t offset;
        } reach; /* get, put */
        struct {
            ferry_group *group;
            ferry_tag tag;
            ferry_rank peer;
        } message; /* send, receive */
        struct {
            ferry_group *group;
            void *data;
            size_t size_bytes;
            ferry_rank peer;
        } notice;
        struct {
            ferry_executor *executor;
            ferry_call_fn fn;
            ferry_begin_fn begin;
            ferry_cancel_fn cancel;
            void *arg;
        } call; /* call, async */
    };
} fry_plan_step;

/*
 * Checks an operation and keeps it; the request has been opened without options. FRY_TAKEN: the
 * step holds references and memory that _drop gives back.
 */
fry_refusal fry_plan_step_keep(fry_request *request, const ferry_op *op, fry_plan_step *step);
void fry_plan_step_drop(ferry_engine *engine, fry_plan_step *step);

/*
 * Makes the node of a step; the request has the label of the post and no other options. NULL:
 * *why_p says why, and nothing is left behind.
 */
fry_node *fry_plan_step_node(fry_request *request, const fry_plan_step *step, fry_refusal *why_p);

/*
 * The index-th of the spans that it touches: what it reads, what it writes, each row by itself, and
 * those of its options. False: there are no more. None is empty, and a step that is apart has none.
 */
bool fry_plan_step_access(const fry_plan_step *step, size_t index, ferry_access *access);

/* How many bytes it moves. */
uint64_t fry_plan_step_bytes(const fry_plan_step *step);

/*
 * Makes *step move the next one's bytes, too, if the two touch at both ends and are otherwise
 * alike. False: they don't. What the steps hold is not counted.
 */
bool fry_plan_step_join(fry_plan_step *step, const fry_plan_step *next);

static inline bool fry_plan_step_is_message(const fry_plan_step *step)
{
    return step->kind == FERRY_OP_SEND || step->kind == FERRY_OP_RECV;
}

/* Whether it ends without anything that the program does after it. */
static inline bool fry_plan_step_ends_alone(const fry_plan_step *step)
{
    return step->kind == FERRY_OP_COPY || step->kind == FERRY_OP_GET || step->kind == FERRY_OP_PUT;
}

/* Whether the thread that has the baton does it itself. */
static inline bool fry_plan_step_is_inline(const ferry_engine *engine, const fry_plan_step *step)
{
    return step->kind == FERRY_OP_COPY && step->rows.count <= 1 && step->dst.buffer != NULL &&
           step->dst.size_bytes <= engine->inline_copy_bytes &&
           step->dst.buffer->device->host_lane != NULL &&
           step->src.buffer->device->host_lane != NULL;
}

#endif
