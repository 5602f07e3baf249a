/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a GPU: how many lots (pairing.h) may stand on it at once, counted over all engines of
 * the process. Who finds none waits; slots that come back go to who has waited for the longest
 * time. The comment at the top of slots.c says why nobody waits for a thread here.
 */
#ifndef FRY_ENGINE_MESSAGES_SLOTS_H
#define FRY_ENGINE_MESSAGES_SLOTS_H

#include "base/stack.h"
#include "engine/engine.h"

#include <bsd/sys/queue.h>

typedef struct fry_slots fry_slots; /* a GPU's */

typedef enum fry_slot_state {
    FRY_SLOT_NONE = 0,
    FRY_SLOT_WAITS,
    FRY_SLOT_GRANTED, /* one is held for it, and its engine was woken */
} fry_slot_state;

/* Of one who wants slots, one at a time; the caller's memory. Zeroed, then fry_slot_wish_init. */
typedef struct fry_slot_wish {
    fry_link link; /* first; on its way to the queue */
    TAILQ_ENTRY(fry_slot_wish) entry;
    fry_slots *of;
    ferry_engine *engine;
    uint32_t most;  /* that this one lets be in use */
    uint32_t state; /* atomic, fry_slot_state */
} fry_slot_wish;

/* The slots of the GPU that the process knows by that name; NULL: too many have been asked for. */
fry_slots *fry_slots_find(const char *device_name);

void fry_slot_wish_init(fry_slot_wish *wish, fry_slots *slots, ferry_engine *engine, uint32_t most);

/* True: a slot was taken. False: it waits; the engine is woken when there is one. Never blocks. */
bool fry_slot_take(fry_slot_wish *wish);

bool fry_slot_is_granted(const fry_slot_wish *wish);

/* What was granted and is not wanted any more goes to the next. Never blocks. */
void fry_slot_decline(fry_slot_wish *wish);

/* A slot that was taken is not used any more. Never blocks. */
void fry_slot_give(fry_slots *slots);

/* It wants none any more, whatever its state. The engine's loop; waits for other threads' steps. */
void fry_slot_forget(fry_slot_wish *wish);

#endif
