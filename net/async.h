/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One asynchronous request: the common part of every request in net/, to a store, to etcd and to a
 * group. It can have a deadline and be cancelled, and it ends exactly once.
 *
 *               begin                 the deadline passes
 *     OFF ───────────────► UNDER_WAY ─────────────────────► LATE
 *      ▲                       │                             │
 *      ├── finish, cancel ─────┼─────────────────────────────┤
 *      │                       │  finish_soon, abort         │
 *      └── told, cancel ─── ENDING ◄─────────────────────────┘
 *
 * The *owner* asks: it has the memory, and keeps it until the request is off. It may cancel, and is
 * told nothing then. The *provider* is asked: it has a list of its requests, and tells the owner
 * how each has ended. After that, or after a cancel, the provider knows the request no more.
 *
 * The loop.
 */
#ifndef FRY_NET_ASYNC_H
#define FRY_NET_ASYNC_H

#include "net/reactor.h"

#include <bsd/sys/queue.h>
#include <ferry/status.h>

typedef struct fry_async fry_async;
typedef struct fry_provider fry_provider;

typedef enum fry_async_state {
    FRY_ASYNC_OFF = 0,   /* not begun, or over */
    FRY_ASYNC_UNDER_WAY, /* the provider has it */
    FRY_ASYNC_LATE,      /* the provider has it, and its deadline has passed */
    FRY_ASYNC_ENDING,    /* the provider has done with it; the owner is told its verdict soon */
} fry_async_state;

/* First in a provider's own kind of request. Zeroed: off. Private, but for looking at the state. */
struct fry_async {
    fry_async_state state;
    ferry_status verdict; /* ENDING */
    const char *why;
    fry_provider *provider;
    TAILQ_ENTRY(fry_async) entry;
    fry_timer timer; /* UNDER_WAY: the deadline; ENDING: at once */
};

typedef struct fry_provider_ops {
    /* The deadline has passed: the provider ends the request now or later. NULL: none has one. */
    void (*late)(fry_async *async);
    /* A cancel or an abort: the provider forgets a request. It tells nobody. */
    void (*drop)(fry_async *async);
    /* Tells the owner the verdict. The request is off, and may be gone afterwards. */
    void (*tell)(fry_async *async, ferry_status verdict, const char *why);
} fry_provider_ops;

struct fry_provider {
    const fry_provider_ops *ops;
    fry_reactor *reactor;
    TAILQ_HEAD(, fry_async) asyncs; /* those that are on, in the order in which they began */
    size_t count;
};

void fry_provider_init(fry_provider *provider, fry_reactor *reactor, const fry_provider_ops *ops);

/* Begins a request, which is off. */
void fry_async_begin(fry_async *async, fry_provider *provider);

/* Sets the deadline of a request under way, on the reactor's clock; 0: none. */
void fry_async_set_deadline(fry_async *async, int64_t deadline_ns);

/* The provider has done with a request, and tells the owner itself, right after this call. */
void fry_async_finish(fry_async *async);

/* The same, and `tell` is called in the loop's next round. `why` must live for ever. */
void fry_async_finish_soon(fry_async *async, ferry_status verdict, const char *why);

/* Ends a request in the provider's place: drops it, and the owner is told soon. */
void fry_async_abort(fry_async *async, ferry_status verdict, const char *why);

/* Tells the owner of a request that is ending now, not soon. Does nothing in other states. */
void fry_async_tell(fry_async *async);

/* The owner wants no answer any more. Does nothing if the request is off. */
void fry_async_cancel(fry_async *async);

static inline bool fry_async_is_on(const fry_async *async)
{
    return async->state != FRY_ASYNC_OFF;
}

#endif
