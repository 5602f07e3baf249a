/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of an operation that enters in pieces.
 *
 * Entering takes as long as an operation is large: it may name 2^20 others in after[] or 2^16 spans
 * or rows, and each span may overlap as many accesses. No thread may hold the baton that long, so
 * after FRY_ENTERING_STEPS elementary steps the rest is left for later. Until all of it is in, the
 * operation is at the head of the backlog and nothing behind it enters; operations that end between
 * two pieces end. Only one operation at a time is half-way, so this is part of the engine; hazard.c
 * and enter.c continue from it. With the baton.
 */
#ifndef FRY_ENGINE_GRAPH_ENTERING_H
#define FRY_ENGINE_GRAPH_ENTERING_H

#include "engine/graph/node.h"

#ifndef FRY_ENTERING_STEPS /* tests use smaller pieces */
#define FRY_ENTERING_STEPS 256
#endif

/* Why a piece ended before the operation was in. */
typedef enum fry_entering_stop {
    FRY_STOP_STEPS = 0, /* the piece is long enough */
    FRY_STOP_ROOM,      /* a pool is empty, and only the loop may fill it with the baton */
    FRY_STOP_REFUSED,   /* there is no room: the operation fails */
} fry_entering_stop;

typedef struct fry_entering {
    fry_node *node;      /* the operation that is half-way; NULL: none */
    fry_edge *edge;      /* the next edge of its after[] to attach; NULL: all are attached */
    uint32_t edge_count; /* edges into it, including those that lead to joins instead */
    fry_node *gatherer;  /* the open join for further edges; or NULL */
    uint8_t gatherer_nature;
    uint8_t stop;        /* fry_entering_stop */
    bool gathers;        /* its own edges are attached; those from `edge` on go to joins */
    bool is_listed;      /* all its accesses are listed */
    bool is_begun;       /* some may be listed: the fields below say how far */
    bool is_refused;     /* the spans that it was to write are being poisoned */
    bool has_stocked;    /* slots may be reserved */
    bool has_failed;     /* it was to be failed meanwhile */
    bool is_apart;       /* its accesses do not overlap each other */
    uint8_t pass;        /* pass over its accesses, see hazard.c */
    uint8_t own;         /* spans that are not in its uses come before those: the next of them */
    uint8_t phase;       /* of an access */
    uint32_t steps_left; /* of this piece */
    const fry_use *use;  /* the use to enter next */
    uint32_t row;        /* the row of that use to enter next */
    size_t at;           /* the offset in that row to go on from */
    const fry_segment *last; /* the last read visited there; only compared */
    fry_layer *layer;        /* the layer to visit next */
    fry_layer *made;         /* the layer that it is making; or NULL */
    fry_segment *piece;      /* the segment taken for its write; or NULL */
    ferry_status status;     /* for FRY_STOP_REFUSED: the reason */
} fry_entering;

#endif
