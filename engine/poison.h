/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poison: bytes whose last writer failed, with the root of that failure. They stand in a tree of
 * their own, so that a read of a span finds the first of many at once. With the baton.
 */
#ifndef FRY_ENGINE_POISON_H
#define FRY_ENGINE_POISON_H

#include "engine/buffer.h"
#include "engine/engine.h"
#include "engine/node.h"
#include "engine/segment.h"
#include "engine/turn.h"

typedef struct fry_poison_view {
    uintptr_t buffer;
    size_t begin, end;
    uint64_t op;
    int32_t status;
    uint16_t device;
    bool is_wide;
    bool has_label;
    char label[FRY_LABEL_BYTES];
} fry_poison_view;

/* A read fails if anything of its span is poisoned. */
void fry_poison_read(fry_turn *turn, fry_node *node, const fry_use *use);

/* Before an access: the buffer as a whole. A write of all of it heals that. */
void fry_poison_meet_wide(fry_turn *turn, fry_node *node, const fry_use *use);

/* Cuts it at an offset. Takes a segment. */
void fry_poison_cut(fry_turn *turn, ferry_buffer *buffer, size_t offset);

/* Takes the first of it in a span away, at whose ends it has been cut. False: there is none left.
 */
bool fry_poison_take_some(fry_turn *turn, const fry_use *use);

/* A segment in no tree becomes poison. */
void fry_poison_add(fry_segment *segment, fry_error *root);

/* The whole buffer is poisoned, for want of room or memory. */
void fry_poison_whole(ferry_buffer *buffer, fry_error *why);

/* Copies poison from the cursor on, and moves it. Baton. */
size_t fry_hazard_copy_poison(ferry_engine *engine, fry_poison_view *poisons, size_t capacity);

/* Nobody uses the buffer any more. */
void fry_poison_close(fry_turn *turn, ferry_buffer *buffer);

#endif
