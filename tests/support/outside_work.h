/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own work on GPUs in random programs: events, and copies that write and read what
 * ferry's operations touch too. One thread, but for gates that functions open.
 */
#ifndef FERRY_TESTS_OUTSIDE_WORK_H
#define FERRY_TESTS_OUTSIDE_WORK_H

#include "tests/support/random_plan.h"
#include "tests/support/user_gpu.h"

#define OUTSIDE_GPUS_MAX 8

/* A kernel in a stream of the program's waits for it, and then copies if it is to. */
typedef struct outside_gate {
    uint32_t *flag;
} outside_gate;

typedef struct outside_work {
    user_gpu *gpus[OUTSIDE_GPUS_MAX];
    uint32_t gpu_count;
    bool are_queues_shared; /* by more streams than there are queues: FERRY_EMU_QUEUES */
    uint32_t *flags;        /* one an op, page-locked */
    unsigned char *bytes;   /* PLAN_OUTSIDE_BYTES_MAX an op, page-locked */
    outside_gate gates[PLAN_OPS_MAX];
    struct {
        unsigned long events, writes_at_once, gated_writes, reads, reads_refused;
    } totals; /* of all programs */
} outside_work;

/* What an op of the program that is running has to do with. */
typedef struct outside_op {
    const random_plan *plan;
    uint32_t index;
    ferry_engine *engine;
    ferry_device *device; /* on its GPU */
    ferry_span dst;
    ferry_executor *executor; /* for what opens a gate */
} outside_op;

/* False: there is no CUDA. */
bool outside_work_open(outside_work *work, uint32_t gpu_count);
void outside_work_close(outside_work *work);

/* Before each program, with nothing of the one before left. */
void outside_work_begin(outside_work *work);

/* These return the event's future. */
ferry_future *outside_event(outside_work *work, const outside_op *op);
ferry_future *outside_write(outside_work *work, const outside_op *op);

/* `copied` is the op just before. NULL: no stream can wait for it now, so nothing was done. */
ferry_future *outside_read(outside_work *work, const outside_op *op, ferry_future *copied);

/* What the read found, once outside_work_finish has returned. */
const unsigned char *outside_read_bytes(const outside_work *work, uint32_t index);

void outside_open_gate(outside_work *work, uint32_t index);

/* Those of all events; what writes waits for its span all the same. */
void outside_open_gates(outside_work *work, const random_plan *plan);

/* Waits until all streams are done; all gates are open. */
void outside_work_finish(outside_work *work);

#endif
