/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a test lends a peer for pieces of staged messages, as the engine does. */
#ifndef FERRY_TESTS_LENT_PLACE_H
#define FERRY_TESTS_LENT_PLACE_H

#include "net/peer/ask.h"
#include "net/peer/serve.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef enum lent_due {
    LENT_HELD, /* the peer has it */
    LENT_TO_SERVE,
    LENT_TO_PLACE,
    LENT_TO_STORE,
    LENT_TO_VIEW, /* a view: its bytes are to be read where the sender has them */
} lent_due;

typedef struct lent {
    struct lent *next;
    fry_slice *slice;
    lent_due due; /* what the peer waits for */
    uint8_t bytes[];
} lent;

static inline lent *lent_new(lent **list, fry_slice *slice, lent_due due)
{
    lent *l = malloc(sizeof(*l) + slice->size_bytes);
    if (l == NULL || slice->owner != NULL)
        abort();
    *l = (lent){.next = *list, .slice = slice, .due = due};
    *list = l;
    slice->owner = l;
    return l;
}

/* Nobody uses it any more. */
static inline void lent_take_back(lent **list, lent *l)
{
    while (*list != l)
        list = &(*list)->next;
    *list = l->next;
    free(l);
}

/*
 * Does what is due; `bytes` are the message's. NULL, for a view: nothing is read. It may be gone
 * after this.
 */
static inline void lent_answer(lent **list, lent *l, uint8_t *bytes, void *turn)
{
    fry_slice *slice = l->slice;
    lent_due due = l->due;
    l->due = LENT_HELD;
    if (due == LENT_TO_SERVE) {
        memcpy(l->bytes, bytes + slice->offset, slice->size_bytes);
        fry_peer_served(slice, l->bytes, turn);
    } else if (due == LENT_TO_PLACE) {
        fry_peer_placed(slice, l->bytes, turn);
    } else if (due == LENT_TO_STORE) {
        memcpy(bytes + slice->offset, l->bytes, slice->size_bytes);
        lent_take_back(list, l);
        fry_peer_stored(slice, turn);
    } else if (due == LENT_TO_VIEW) {
        bool has_all = bytes != NULL;
        if (has_all)
            memcpy(bytes, slice->memory, slice->message->size_bytes);
        lent_take_back(list, l);
        fry_peer_viewed(slice, has_all, turn);
    }
}

/* How many are due. */
static inline size_t lent_count(const lent *list)
{
    size_t count = 0;
    for (; list != NULL; list = list->next)
        count += list->due != LENT_HELD;
    return count;
}

/* One that is due, behind so many others of any sort; NULL: there is none. */
static inline lent *lent_pick(lent *list, uint32_t skip)
{
    for (; list != NULL && (list->due == LENT_HELD || skip > 0); list = list->next)
        skip -= skip > 0;
    return list;
}

#endif
