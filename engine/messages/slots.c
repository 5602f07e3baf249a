/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots. Engines of one process have threads that know nothing of each other, and whoever asks for
 * a slot may be a program's thread that submits: it must not wait for one of them. So what is asked
 * for and what comes back is only noted, without a lock; then whoever gets the lock at once settles
 * all that is noted.
 *
 * *Nothing is left noted.* Who finds the lock taken goes on: he noted before he tried, and who has
 * the lock looks for notes after he has given it back. Both have a full barrier between the two
 * (note, barrier, try; give back, barrier, look), so one of them sees the other.
 *
 * *Oldest first.* The queue is in the order in which the lock's holder found the wishes, those
 * found together in the order of their notes. Slots that come back are held for the first in the
 * queue, so nobody overtakes who waits. A wish that is granted is taken or declined by its engine's
 * next turn: an engine whose program does not let it go on keeps what was granted to it, as it
 * keeps the slots of its lots.
 *
 * *Life.* A wish is in a pairing, which its engine frees after fry_slot_forget: that takes the
 * lock, so nobody looks at the wish, or wakes the engine for it, afterwards. GPUs' slots are for
 * the process's life.
 */
#include "engine/messages/slots.h"

#include "base/lf.h"
#include "engine/ground/ground.h"

#include <pthread.h>
#include <string.h>

struct fry_slots {
    fry_stack asked;    /* fry_slot_wish: of which the queue does not know yet */
    uint32_t came_back; /* atomic: slots of which `used` does not know yet */
    /* With the lock. */
    pthread_mutex_t lock;
    uint32_t used;
    TAILQ_HEAD(, fry_slot_wish) queue;
    char name[FRY_DEVICE_NAME_BYTES]; /* set once */
};

static struct {
    pthread_mutex_t lock;
    fry_slots of[FRY_DEVICES_MAX];
    uint32_t count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- settling ---- */

static fry_slot_wish *wish_of(fry_link *link)
{
    return (fry_slot_wish *)(void *)link;
}

/* With the lock. */
static void grant(fry_slots *self)
{
    fry_slot_wish *first;
    while ((first = TAILQ_FIRST(&self->queue)) != NULL && self->used < first->most) {
        ferry_engine *engine = first->engine;
        TAILQ_REMOVE(&self->queue, first, entry);
        self->used++;
        fry_store_release(&first->state, FRY_SLOT_GRANTED); /* pairs with fry_slot_is_granted */
        fry_fence(); /* pairs with the fence in fry_arm: the loop looks before it sleeps */
        fry_wake(engine);
    }
}

/* With the lock. */
static void settle_noted(fry_slots *self)
{
    fry_queue noted = {0};
    fry_link *link;
    fry_queue_append(&noted, fry_stack_take_all(&self->asked));
    while ((link = fry_queue_pop(&noted)) != NULL)
        TAILQ_INSERT_TAIL(&self->queue, wish_of(link), entry);
    uint32_t back = fry_exchange(&self->came_back, 0);
    self->used -= back;
    grant(self);
}

static bool has_notes(fry_slots *self)
{
    fry_fence(); /* pairs with itself: see the comment at the top */
    return fry_load_relaxed(&self->came_back) != 0 || !fry_stack_is_empty(&self->asked);
}

static void settle(fry_slots *self)
{
    while (has_notes(self) && pthread_mutex_trylock(&self->lock) == 0) {
        settle_noted(self);
        (void)pthread_mutex_unlock(&self->lock);
    }
}

/* ---- for pairings ---- */

fry_slots *fry_slots_find(const char *device_name)
{
    fry_slots *found = NULL;
    (void)pthread_mutex_lock(&all.lock);
    for (uint32_t i = 0; i < all.count && found == NULL; i++) {
        if (strcmp(all.of[i].name, device_name) == 0)
            found = &all.of[i];
    }
    if (found == NULL && all.count < FRY_DEVICES_MAX) {
        found = &all.of[all.count++];
        (void)pthread_mutex_init(&found->lock, NULL);
        TAILQ_INIT(&found->queue);
        strncpy(found->name, device_name, sizeof found->name - 1);
    }
    (void)pthread_mutex_unlock(&all.lock);
    return found;
}

void fry_slot_wish_init(fry_slot_wish *wish, fry_slots *slots, ferry_engine *engine, uint32_t most)
{
    wish->of = slots;
    wish->engine = engine;
    wish->most = most;
    wish->state = FRY_SLOT_NONE;
}

bool fry_slot_is_granted(const fry_slot_wish *wish)
{
    return fry_load_acquire(&wish->state) == FRY_SLOT_GRANTED;
}

bool fry_slot_take(fry_slot_wish *wish)
{
    if (fry_load_relaxed(&wish->state) == FRY_SLOT_NONE) {
        fry_store_relaxed(&wish->state, FRY_SLOT_WAITS);
        fry_stack_push(&wish->of->asked, &wish->link);
        settle(wish->of);
    }
    if (!fry_slot_is_granted(wish))
        return false;
    fry_store_relaxed(&wish->state, FRY_SLOT_NONE);
    return true;
}

void fry_slot_decline(fry_slot_wish *wish)
{
    fry_store_relaxed(&wish->state, FRY_SLOT_NONE);
    fry_slot_give(wish->of);
}

void fry_slot_give(fry_slots *slots)
{
    (void)fry_fetch_add(&slots->came_back, 1);
    settle(slots);
}

void fry_slot_forget(fry_slot_wish *wish)
{
    fry_slots *slots = wish->of;
    (void)pthread_mutex_lock(&slots->lock);
    settle_noted(slots);
    bool is_granted = fry_slot_is_granted(wish);
    if (!is_granted && fry_load_relaxed(&wish->state) == FRY_SLOT_WAITS)
        TAILQ_REMOVE(&slots->queue, wish, entry);
    (void)pthread_mutex_unlock(&slots->lock);
    fry_store_relaxed(&wish->state, FRY_SLOT_NONE);
    if (is_granted)
        fry_slot_give(slots);
    settle(slots); /* what was noted meanwhile */
}
