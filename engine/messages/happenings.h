/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a group's members, told one by one to whoever takes the next: happenings.c. */
#ifndef FRY_ENGINE_MESSAGES_HAPPENINGS_H
#define FRY_ENGINE_MESSAGES_HAPPENINGS_H

#include "base/memory.h"

#include <ferry/group.h>

#include <bsd/sys/queue.h>

typedef struct fry_errand fry_errand;
typedef struct fry_members fry_members;

#define FRY_HAPPENINGS_MOST 65536

typedef struct fry_happening {
    ferry_group_event event;
    uint64_t number; /* the same for all members of an open group; 0: it is none */
} fry_happening;

/* The role. */
typedef struct fry_happenings {
    fry_happening *ring; /* NULL: not joined */
    uint32_t most, first, count;
    TAILQ_HEAD(, fry_errand) takers; /* if there are any, there are no events; in order */
} fry_happenings;

/* How many untaken events a group keeps: as asked, or a default for its size. */
uint32_t fry_happenings_most(uint32_t asked, uint32_t size);

/* Makes room for so many. False: no memory. */
bool fry_happenings_open(const fry_memory *memory, fry_happenings *happenings, uint32_t most);

static inline void fry_happenings_close(const fry_memory *memory, fry_happenings *happenings)
{
    fry_free(memory, happenings->ring, happenings->most * sizeof *happenings->ring);
    happenings->ring = NULL;
}

/* Adds an event. If none has been taken for too long, the oldest goes, and the next one says so. */
void fry_happenings_add(ferry_group *group, const fry_happening *happening);

/* Begins to take the next event, for an errand; and its future has resolved, for any reason. */
void fry_happening_begin(fry_errand *errand);
void fry_happening_is_over(fry_errand *errand);

/* Fails who waits in groups whose membership has ended. */
void fry_happenings_step(const fry_members *members);

#endif
