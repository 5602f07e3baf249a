/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What trace files say, one or those of a job's processes together: rows, and operations by row and
 * time. Everything in it is bounded and checked: times are no more than TRACE_TIME_MAX_NS and none
 * ends before it begins, texts are clean (trace_text.h), and an operation stands in it once.
 */
#ifndef TRACE_MODEL_H
#define TRACE_MODEL_H

#include "tools/trace_problems.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_OPERATIONS_MAX ((size_t)1 << 24)
#define TRACE_ROWS_MAX 4096
#define TRACE_FILES_MAX 64
#define TRACE_TIME_MAX_NS INT64_C(9000000000000000000) /* 285 years */
#define TRACE_NO_TIME INT64_C(-1)
#define TRACE_NO_OP UINT32_MAX

/* A row's number within its engine says what it is: thread = engine * 4096 + number. */
#define TRACE_ROWS_OF_ENGINE 4096
#define TRACE_NUMBER_CALLS 4000 /* those from 4002 to 4064 are taken for this one too */
#define TRACE_NUMBER_GRAPH 4001
#define TRACE_NUMBER_CALLS_LAST 4064

typedef enum trace_row_kind {
    TRACE_ROW_STREAM, /* of a device: operations run one after the other */
    TRACE_ROW_CALLS,  /* functions, all of an engine: several may run at once */
    TRACE_ROW_GRAPH,  /* what runs nowhere: nops, promises, combinations */
    TRACE_ROW_OTHER,  /* of a ferry this tool does not know */
} trace_row_kind;

typedef struct trace_row {
    uint32_t file;   /* from 0; processes of two hosts may have one number */
    int64_t process; /* as in the file */
    int64_t thread;
    trace_row_kind kind;
    const char *name; /* NULL until it is told */
    size_t first;     /* its operations, once the model is finished */
    size_t count;
    uint32_t engine; /* number of the engine in all files, from 0 */
} trace_row;

typedef struct trace_op {
    uint64_t id; /* within its engine, from 1 */
    uint64_t waited_for;
    uint64_t size_bytes;
    int64_t begin_ns; /* it ran from here */
    int64_t end_ns;   /* until here */
    int64_t submitted_ns;
    int64_t ready_ns;
    int64_t issued_ns;
    int64_t begun_ns;
    int64_t fired_ns;
    int64_t resolved_ns;
    const char *label; /* or its kind */
    const char *kind;
    const char *status;
    uint64_t flow;         /* of a message that succeeded; 0: none */
    bool is_sender;        /* of that message */
    uint64_t offset_bytes; /* where it stands in the file */
    uint32_t line;
    uint32_t row;
    uint32_t cause; /* index of what it waited for; TRACE_NO_OP: nothing, or not in the file */
    uint32_t peer;  /* index of the message's other end; TRACE_NO_OP: none, or not in the files */
} trace_op;

typedef enum trace_result {
    TRACE_OK,
    TRACE_FULL, /* a limit above is reached */
    TRACE_NO_MEMORY,
} trace_result;

typedef struct trace_model {
    uint32_t file_count;
    int64_t shift_ns[TRACE_FILES_MAX]; /* added to a file's times, so that no message goes back */
    size_t joined;                     /* messages with both ends */
    trace_row *rows;
    uint32_t *row_order; /* indices of rows by process and thread */
    size_t row_count;
    uint32_t engine_count;
    trace_op *ops; /* once finished: row by row, by begin_ns within a row */
    size_t op_count;
    size_t op_capacity;
    uint32_t *by_id;       /* indices of ops, by engine and id */
    void *texts;           /* tsearch's tree */
    const char *status_ok; /* those two, as texts of the model */
    const char *status_pending;
    int64_t begin_ns; /* of the first moment and the last, once finished */
    int64_t end_ns;
    bool is_cut;        /* the record that ends a file is missing, of at least one */
    uint64_t records;   /* as these say, together */
    uint64_t dropped;   /* records that were overwritten before they could be written */
    uint64_t unwritten; /* operations that were given up */
} trace_model;

trace_result trace_model_init(trace_model *model);

/* Takes everything back; also after any failure. */
void trace_model_release(trace_model *model);

/* The one clean copy of a text (valid UTF-8), or NULL if there is no memory. Lives as long as the
 * model; equal texts are the same pointer. */
const char *trace_model_text(trace_model *model, const char *text, size_t length_bytes);

/* The row of a process and thread (neither negative) of the file that was begun last, made if there
 * is none yet. */
trace_result trace_model_row(trace_model *model, int64_t process, int64_t thread, uint32_t *row_p);

/* Takes a copy of an operation whose times and row are good. */
trace_result trace_model_add(trace_model *model, const trace_op *op);

/*
 * Sorts, names rows without a name, drops operations that stand in a file twice (a problem each),
 * joins the two ends of messages and finds who waited for whom. No row and no operation may be
 * added later.
 *  problems  as many as the model has files
 */
trace_result trace_model_finish(trace_model *model, trace_problems *problems);

/* When it began to wait, and until when it waited for others; then its stream let it wait until
 * begin_ns. All three are begin_ns if the file does not tell. */
int64_t trace_op_submitted_ns(const trace_op *op);
int64_t trace_op_ready_ns(const trace_op *op);

/* Neither succeeded nor unfinished. */
bool trace_op_failed(const trace_model *model, const trace_op *op);

#endif
