/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far an operation has come that enters in pieces.
 *
 * Entering takes as long as an operation is large: it may name 2^20 others in after[] or 2^16 spans
 * or rows, and each span may overlap what as many others are at. Nobody may hold the baton for so
 * long, so after FRY_ENTERING_STEPS elementary steps the rest is left for later. Until all of it is
 * in the operation stands at the head of the backlog, and nothing behind it enters; what ends
 * meanwhile ends, between two pieces. One operation at a time is half-way, so this is part of the
 * engine; hazard.c and enter.c go on from what it says. With the baton.
 */
#ifndef FRY_ENGINE_ENTERING_H
#define FRY_ENGINE_ENTERING_H

#include "engine/node.h"

#ifndef FRY_ENTERING_STEPS /* tests make pieces smaller */
#define FRY_ENTERING_STEPS 256
#endif

/* Why a piece has ended before all was in. */
typedef enum fry_entering_stop {
    FRY_STOP_STEPS = 0, /* it is long enough */
    FRY_STOP_ROOM,      /* a pool ran dry, and only the loop may fill it with the baton */
    FRY_STOP_REFUSED,   /* no room is to be had: the operation fails */
} fry_entering_stop;

typedef struct fry_entering {
    fry_node *node;      /* half-way; NULL: none is */
    fry_edge *edge;      /* the next of its after[] that is to be attached; NULL: all are */
    uint32_t edge_count; /* edges that lead to it, or would if they did not lead to joins */
    fry_node *gatherer;  /* open: the join that further ones lead to; or NULL */
    uint8_t gatherer_nature;
    uint8_t stop;        /* fry_entering_stop */
    bool gathers;        /* its own edges are attached, those from `edge` on go to joins */
    bool is_listed;      /* all its accesses are */
    bool is_begun;       /* some may be: the rest says how far they have come */
    bool is_refused;     /* what it would have written is being poisoned */
    bool has_stocked;    /* room may be set aside */
    bool has_failed;     /* its turn to fail came meanwhile */
    bool is_apart;       /* its accesses don't overlap */
    uint8_t pass;        /* over its accesses, see hazard.c */
    uint8_t own;         /* spans that are none of its uses are gone over before those: the next */
    uint8_t phase;       /* of an access */
    uint32_t steps_left; /* of this piece */
    const fry_use *use;  /* the next of its uses */
    uint32_t row;        /* the next of the access's */
    size_t at;           /* the next offset in it */
    const fry_segment *last; /* the last read there that was gone over; only compared */
    fry_layer *layer;        /* the next to be gone over */
    fry_layer *made;         /* a layer that it makes; or NULL */
    fry_segment *piece;      /* taken for what it writes; or NULL */
    ferry_status status;     /* FRY_STOP_REFUSED: why */
} fry_entering;

#endif
