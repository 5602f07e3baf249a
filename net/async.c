/* SPDX-License-Identifier: Apache-2.0 */
#include "net/async.h"

#include "net/reactor.h"

/* Owns the state. A request that is on is in its provider's list; a timer is of one state alone. */
static void set_state(fry_async *async, fry_async_state state)
{
    fry_provider *provider = async->provider;

    if (async->state == FRY_ASYNC_OFF) {
        TAILQ_INSERT_TAIL(&provider->asyncs, async, entry);
        provider->count++;
    }
    fry_timer_stop(provider->reactor, &async->timer);
    async->state = state;
    if (state == FRY_ASYNC_OFF) {
        TAILQ_REMOVE(&provider->asyncs, async, entry);
        provider->count--;
    }
}

static void timer_is_due(fry_timer *timer)
{
    fry_async *async = timer->arg;

    if (async->state == FRY_ASYNC_ENDING) {
        fry_async_tell(async);
    } else {
        set_state(async, FRY_ASYNC_LATE);
        async->provider->ops->late(async);
    }
}

void fry_provider_init(fry_provider *provider, fry_reactor *reactor, const fry_provider_ops *ops)
{
    *provider = (fry_provider){.ops = ops, .reactor = reactor};
    TAILQ_INIT(&provider->asyncs);
}

void fry_async_begin(fry_async *async, fry_provider *provider)
{
    async->provider = provider;
    async->timer = (fry_timer){.fn = timer_is_due, .arg = async};
    set_state(async, FRY_ASYNC_UNDER_WAY);
}

void fry_async_set_deadline(fry_async *async, int64_t deadline_ns)
{
    if (deadline_ns != 0)
        fry_timer_set(async->provider->reactor, &async->timer, deadline_ns);
}

void fry_async_finish(fry_async *async)
{
    set_state(async, FRY_ASYNC_OFF);
}

void fry_async_finish_soon(fry_async *async, ferry_status verdict, const char *why)
{
    set_state(async, FRY_ASYNC_ENDING);
    async->verdict = verdict;
    async->why = why;
    fry_timer_set_soon(async->provider->reactor, &async->timer);
}

void fry_async_tell(fry_async *async)
{
    if (async->state != FRY_ASYNC_ENDING)
        return;
    set_state(async, FRY_ASYNC_OFF);
    async->provider->ops->tell(async, async->verdict, async->why);
}

/* The state first: what a drop makes room for must not begin this request again. */
void fry_async_abort(fry_async *async, ferry_status verdict, const char *why)
{
    if (async->state == FRY_ASYNC_ENDING)
        return; /* the first verdict counts */
    fry_async_finish_soon(async, verdict, why);
    async->provider->ops->drop(async);
}

void fry_async_cancel(fry_async *async)
{
    const fry_async_state state = async->state;

    if (state == FRY_ASYNC_OFF)
        return;
    set_state(async, FRY_ASYNC_OFF);
    if (state != FRY_ASYNC_ENDING)
        async->provider->ops->drop(async);
}
