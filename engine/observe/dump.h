/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps: what they copy from the graph, and which form prints it.
 *
 * The graph may be read only with the baton, and with the baton nothing may be allocated and no
 * user code called. So a dump goes by slices: with the baton it copies some hundred operations into
 * memory allocated before; without the baton it prints them. Cursors of the baton's holder say
 * where it goes on (engine->dump_node, _edge, _buffer); an object that leaves a list under its
 * cursor moves the cursor on.
 */
#ifndef FRY_ENGINE_OBSERVE_DUMP_H
#define FRY_ENGINE_OBSERVE_DUMP_H

#include "engine/engine.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/poison.h"
#include "engine/ground/context.h"
#include "engine/observe/dump_text.h"

#include <ferry/dump.h>

#define FRY_DUMP_SLICE 256     /* operations copied in one hold of the baton */
#define FRY_DUMP_EDGES 2048    /* edges read in one hold */
#define FRY_DUMP_SEGMENTS 1024 /* segments of buffers read in one hold */
#define FRY_DUMP_ENTERING 256  /* nodes of the inbox counted */
#define FRY_DUMP_WAITS 8       /* edges shown for one operation */
#define FRY_DUMP_NOT_QUIET 64  /* operations listed again at the end */
#define FRY_DUMP_NO_DEVICE UINT16_MAX

/* Nature of what a drain waits for, besides fry_edge_nature. */
#define FRY_DUMP_BEFORE (FRY_EDGE_QUIET + 1)

typedef struct fry_dump_wait {
    uint64_t op;
    uint8_t nature;
    bool is_on_device;
} fry_dump_wait;

typedef struct fry_dump_node {
    uint64_t id;
    int64_t age_ns;
    int64_t deadline_in_ns; /* has_deadline */
    uint64_t size_bytes;    /* has_size */
    uint64_t more;          /* waits besides those listed */
    uint64_t batch;         /* 0: no batch counts it */
    int32_t status;         /* FERRY_PENDING: its future is not resolved */
    uint16_t device;
    uint16_t lane; /* copies: index of the stream among the engine's */
    uint8_t kind;
    uint8_t state;
    int8_t priority;
    uint8_t reason; /* fry_dump_reason */
    uint8_t wait_count;
    bool has_label, has_size, has_deadline;
    uint64_t user_data; /* 0: none */
    bool is_message;    /* tag and rank say which */
    uint32_t rank;
    uint64_t tag;
    bool is_failing, is_cancel_requested, has_fired, is_refused_write, is_untracked;
    fry_dump_wait waits[FRY_DUMP_WAITS];
    char label[FRY_LABEL_BYTES];
} fry_dump_node;

typedef struct fry_dump_poison {
    uintptr_t buffer;
    size_t begin, end;
    uint64_t op;
    int32_t status;
    uint16_t device;
    bool is_wide;
    bool has_label;
    char label[FRY_LABEL_BYTES];
} fry_dump_poison;

typedef struct fry_dump_lane {
    uint64_t issued, fired;
    uint64_t backlog; /* counts only operations shown */
    uint32_t in_flight;
    uint16_t device, stream;
    bool is_shown; /* lanes for outside events are shown once they have been used */
} fry_dump_lane;

typedef struct fry_dump_facts {
    bool is_closing, is_stopped, is_starved;
    uint32_t entering;
    uint64_t tasks_posted, tasks_misrun;
} fry_dump_facts;

typedef struct fry_dump_totals {
    uint64_t promises, nodes;
    uint64_t states[FRY_NODE_QUIET + 1]; /* of nodes */
    bool is_cut;
} fry_dump_totals;

typedef struct fry_dump fry_dump;

/* One form of a dump. Its functions print the parts of the dump in this order. */
typedef struct fry_dump_form {
    void (*begin)(fry_dump *dump);
    void (*promises_begin)(fry_dump *dump);
    void (*nodes_begin)(fry_dump *dump);
    void (*node)(fry_dump *dump, const fry_dump_node *node,
                 bool is_first); /* operations and promises */
    void (*lanes)(fry_dump *dump);
    void (*poisons_begin)(fry_dump *dump);
    void (*poison)(fry_dump *dump, const fry_dump_poison *poison, bool is_first);
    void (*end)(fry_dump *dump);
} fry_dump_form;

struct fry_dump {
    ferry_engine *engine;
    fry_context *context; /* the dumping thread's */
    int64_t
        start_ns;  /* by the coarse clock, or later: operations that enter after it are not shown */
    uint64_t left; /* how many promises, then operations, may still be shown */
    uint64_t node_limit;   /* operations that may be shown */
    uint64_t poison_limit; /* about how many poisoned spans are shown */
    fry_dump_facts facts;
    fry_dump_totals totals;
    fry_dump_lane *lanes; /* by index of the stream, for the devices that existed at the start */
    size_t lane_count;
    uint32_t device_count;
    uint64_t not_quiet[FRY_DUMP_NOT_QUIET];
    size_t not_quiet_count;
    bool is_partial; /* the slice's first operation was begun in the slice before */
    fry_text text;
    union {
        fry_dump_node nodes[FRY_DUMP_SLICE];
        fry_dump_poison poisons[FRY_DUMP_SLICE];
    } slice;
};

/*
 * Makes a dump, with memory for its slices; the caller owns it (engine->dumping taken). NULL: no
 * memory. promise_limit and node_limit are the numbers that it shows at most.
 */
fry_dump *fry_dump_open(ferry_engine *engine, fry_context *context, uint64_t promise_limit,
                        uint64_t node_limit);
void fry_dump_close(fry_dump *dump);

/* Prints the whole dump. */
void fry_dump_print(fry_dump *dump, const fry_dump_form *form, ferry_write_fn write, void *arg);

/*
 * Copies the oldest promises, or else operations, into the slice, at most a slice. Returns how
 * many.
 */
size_t fry_dump_oldest(fry_dump *dump, bool are_promises, size_t capacity);

#endif
