/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members need of the engine's loop, and of the holder of the baton.
 *
 * Two domains. Stores, groups, hellos, and making and unmaking channels run in a reactor, with the
 * role and without the baton. Its watches are called when the engine's poller is looked at: after a
 * sleep, and now and then while the loop is too busy to sleep. Its timers run in the tick after
 * that. Bytes move with the baton, whichever thread has it. A tick of the loop has the role and the
 * baton in turn, and for a while both, so what crosses between the domains needs no lock: requests
 * of the baton's holder to the loop stand in `asks`, requests of the loop to the baton's holder in
 * `orders`, and the tick looks at both when it has the role and the baton. Callers' requests come
 * by a stack (errands), like cancels.
 *
 * The sleep. Errands are pushed and wake the loop like cancels (loop.c, sleeper.pml). `asks` and
 * `faulted` are looked at with the baton, and a thread that adds to them wakes the loop at the end
 * of its turn. The time of the reactor's first timer ends the sleep (source.h). With the role,
 * timers are set before the loop arms. But a waiting thread may tick while the user's loop sleeps
 * armed, and if it sets a timer for sooner, it wakes that loop (note_timers).
 *
 * Channels. Each attached channel is polled or armed. When something comes on an armed channel, its
 * descriptor becomes readable, the engine's poller sees that, and from then on the channel is
 * polled. The poller reports a descriptor once for each arming (EPOLLONESHOT) and never before the
 * first: over TCP the kernel makes the descriptor readable with every packet, and the loop would
 * wake beside a thread that looks. Before it sleeps, the loop lets all polled channels progress
 * until nothing comes, then arms them (fry_members_arm): first the channel, then the poller. So
 * nothing on an armed channel is missed: what came before the channel's arming made the arming
 * fail; what comes after makes the descriptor readable, and the poller, asked anew, also reports a
 * descriptor that is readable already. Events are taken and the poller is asked anew with the role,
 * and nothing is armed while a taken event has not been handled (fry_members_arm looks at
 * has_orders). So either the poller will report, or the route is polled, or is about to be. A
 * launch that leaves something under way makes the route polled and wakes the loop. So does a
 * launch that only announces, refuses or recalls: the other end's queue may be full, and nothing
 * reports when that queue has room again. A waiting thread's look at an armed channel that finds
 * something does the same (fry_route_look): a TCP descriptor is readable only until a thread has
 * taken what came, often before the poller has looked at the descriptor, and what was received must
 * still be answered. If the poller still reports that arming afterwards, the loop wakes once for
 * nothing.
 *
 * A channel is stuck if nothing moves and nothing reports when it can go on. UCX can't be armed
 * while the other end's queue is full; and the kernel refuses to watch UCX's descriptors, which are
 * pollers themselves, if the user's loop is nested too deep (docs/design.md). A stuck channel stays
 * polled, and the loop looks at it every millisecond. A channel may also have a time at which it
 * wants to be looked at (fry_channel.look_ns). The loop learns that as it arms the channel, and
 * keeps it in `look_times`; so a launch that sets the time of an armed channel makes the route
 * polled and wakes the loop.
 *
 * Waiting threads look at channels themselves while they spin (fry_members_look), and meanwhile the
 * loop leaves channels alone: if a channel is armed, the sender of the next bytes pays for a system
 * call, and the loop would take the baton from the waiting thread. So as long as a thread looks, or
 * did a moment ago, the loop sleeps without arming, but with a timer (grace). If no thread has
 * looked when the timer ends, the loop arms. A thread that looked and is about to park sets
 * must_arm and wakes the loop:
 *
 *     parker   watchers -= 1; must_arm = 1; barrier; polled? wake if asleep
 *     loop     asleep = yes; barrier; watchers, must_arm; arm, or set the timer; sleep
 *
 * These are the barriers of any work: either the loop sees that nobody looks, and arms, or the
 * parker sees the loop asleep. A thread that returns because its future has resolved leaves the
 * arming to the timer: what comes then waits at most GRACE_MAX_NS, once, or not at all if the
 * thread waits again. While no thread looks there is no timer. A thread that looks has the baton
 * most of the time. So when the loop fails to take the baton and a thread waits, that counts as a
 * look (grace_ns): otherwise the loop would wake all the time, on a CPU that the looking threads
 * want. loop_sleep.pml checks all this.
 */
#include "engine/messages/members.h"

#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/messages/errand.h"
#include "engine/messages/groups.h"
#include "engine/messages/happenings.h"
#include "engine/messages/message.h"
#include "engine/messages/neighbour.h"
#include "engine/messages/notices.h"
#include "engine/messages/pairing_open.h"
#include "engine/messages/pause.h"
#include "engine/messages/route.h"
#include "engine/messages/symmetric.h"
#include "engine/messages/window.h"

#define TICKS_PER_LOOK 256  /* ticks of a busy loop between two looks at the reactor */
#define GRACE_MIN_NS 50000  /* how long the loop leaves channels to threads that look, at first */
#define GRACE_MAX_NS 500000 /* at most */
#define BUSY_SPIN_NS 20000  /* how long the loop looks at something under way that does not move */
#define STUCK_NS 1000000    /* how long the loop sleeps with a channel that is stuck */
#define ROUNDS_PER_LOOK 8   /* rounds of progress in one hold of the baton */
#define ROUTES_PER_LOOK 64  /* routes that a waiting thread looks at in one round */

/* ---- making ---- */

static fry_members *make(ferry_engine *engine)
{
    fry_members *members = fry_alloc(&engine->memory, sizeof *members, _Alignof(fry_members));
    if (members == NULL)
        return NULL;
    if ((fry_pool_is_exact(&engine->transfers) &&
         fry_pool_fill(&engine->transfers, engine->transfers.limit) != FERRY_OK) ||
        !fry_stages_init(engine, &members->stages)) {
        fry_free(&engine->memory, members, sizeof *members);
        return NULL;
    }
    fry_reactor_init(&members->reactor, &engine->poller, &engine->memory, &engine->log,
                     &engine->clock);
    members->engine = engine;
    members->message_events = &fry_transfer_events;
    fry_hiding_init(&members->hiding);
    TAILQ_INIT(&members->pairings.wanted);
    TAILQ_INIT(&members->windows_due);
    TAILQ_INIT(&members->nexts_refused);
    TAILQ_INIT(&members->symmetrics_due);
    members->next_ns = INT64_MAX;
    members->grace_ns = GRACE_MIN_NS;
    return members;
}

fry_members *fry_members_get(ferry_engine *engine)
{
    fry_members *members = fry_load_acquire(&engine->members);
    if (members != NULL)
        return members;
    (void)pthread_mutex_lock(&engine->opening);
    members = fry_load_acquire(&engine->members);
    if (members == NULL && (members = make(engine)) != NULL) {
        engine->members_flush = fry_messages_flush;
        engine->members_hide = fry_hidden_take;
        fry_store_release(&engine->members, members); /* pairs with the ticks' loads */
    }
    (void)pthread_mutex_unlock(&engine->opening);
    return members;
}

void fry_members_free(ferry_engine *engine)
{
    fry_members *members = engine->members;
    if (members == NULL)
        return;
    fry_pairings_free(&members->pairings);
    fry_stages_free(engine, &members->stages);
    fry_free(&engine->memory, members, sizeof *members);
}

void fry_members_push(fry_members *members, fry_errand *errand)
{
    fry_stack_push(&members->errands, &errand->link);
    fry_wake(members->engine);
}

/* ---- a tick ---- */

/* After what may have set timers. Sleepers that armed before must not miss one that is sooner. */
static void note_timers(fry_members *members)
{
    int64_t next_ns = fry_reactor_next_ns(&members->reactor);
    bool is_sooner = next_ns < members->next_ns;
    fry_store_relaxed(&members->next_ns, next_ns);
    if (is_sooner)
        fry_wake(members->engine);
}

/*
 * Takes what the poller has, which a loop that is awake does only now and then: also wakes, which
 * it does not need, and the timer, so sleepers must be armed anew.
 */
static void look_at_poller(fry_members *members)
{
    members->ticks = 0;
    members->must_look = true;
    fry_disarm(members->engine);
    (void)fry_poller_wait(&members->engine->poller, 0);
}

/* Runs the timers, and finds out whether the poller has called watches of the reactor. */
static size_t run_reactor(fry_members *members)
{
    const fry_poller *poller = &members->engine->poller;
    size_t done = (size_t)(poller->calls - members->called);
    members->called = poller->calls;
    if (members->must_look || !members->engine->clock.is_real) {
        members->must_look = false;
        fry_routes_look(members);
        if (fry_reactor_next_ns(&members->reactor) != INT64_MAX) /* else no clock is read */
            done += fry_reactor_run(&members->reactor);
    }
    if (done != 0)
        members->has_steps = true;
    return done;
}

static size_t step_groups(fry_members *members)
{
    size_t done = fry_memberships_step(members);
    fry_pauses_step(members);
    fry_happenings_step(members);
    note_timers(members);
    return done;
}

size_t fry_members_run(fry_members *members)
{
    ferry_engine *engine = members->engine;
    size_t done = 0;
    if (++members->ticks >= TICKS_PER_LOOK)
        look_at_poller(members);
    if (fry_unlikely(fry_load_relaxed(&members->errands.top) != NULL)) {
        fry_link *item = fry_stack_take_all(&members->errands);
        while (item != NULL) {
            fry_errand *errand = FRY_CONTAINER(item, fry_errand, link);
            item = item->next;
            fry_errand_begin(members, errand);
            done++;
        }
        members->must_look = members->has_steps = true;
    }
    if (fry_unlikely(fry_load_relaxed(&engine->closing) != 0) && !members->has_seen_closing)
        members->has_seen_closing = members->has_steps = true;
    done += run_reactor(members);
    if (members->has_steps)
        done += step_groups(members);
    return done;
}

static size_t poll_routes(fry_turn *turn, fry_members *members)
{
    size_t done = 0;
    fry_route *route;
    LIST_FOREACH(route, &members->polled, polled)
        done += fry_peer_progress(fry_route_made_peer(route), turn);
    return done;
}

/* A neighbour's memory is being opened or closed. */
static bool has_job(const fry_members *members)
{
    return fry_imports_are_due(&members->stages.imports);
}

bool fry_members_have_closed(ferry_engine *engine)
{
    const fry_members *members = fry_load_acquire(&engine->members);
    return members != NULL && has_job(members);
}

size_t fry_members_turn(fry_turn *turn, fry_members *members)
{
    size_t done = fry_routes_step(turn, members);
    if (!LIST_EMPTY(&members->polled))
        done += poll_routes(turn, members);
    if (fry_unlikely(fry_stages_have_work(turn->engine, &members->stages) || has_job(members)))
        done += fry_stages_run(turn, members) + fry_neighbours_run(turn, members);
    if (fry_unlikely(fry_pairings_have_work(&members->pairings)))
        done += fry_pairings_turn(turn, members);
    if (fry_unlikely(fry_windows_have_work(members)))
        done += fry_windows_turn(turn, members);
    if (fry_unlikely(fry_symmetrics_have_work(members)))
        done += fry_symmetrics_turn(turn, members);
    if (fry_unlikely(!TAILQ_EMPTY(&members->nexts_refused)))
        done += fry_notices_turn(turn, members);
    if (members->faulted.first != NULL)
        done += fry_transfers_fail(turn, members);
    if (members->groups != NULL) {
        fry_memberships_look(turn, members);
        fry_pauses_look(turn, members);
    }
    return done;
}

size_t fry_members_finish(fry_members *members, bool with_callbacks)
{
    size_t done = fry_stages_make(members) + fry_imports_work(&members->stages.imports) +
                  fry_pairings_work(members);
    if (members->finishing.first != NULL || members->has_steps) {
        done += fry_routes_finish(members);
        done += step_groups(members);
    }
    if (with_callbacks && fry_load_relaxed(&members->has_callbacks) != 0)
        done += fry_memberships_tell(members);
    return done;
}

/* ---- sleeping ---- */

static void leave_to_looker(fry_members *members, int64_t now_ns)
{
    members->grace_end_ns = now_ns + members->grace_ns;
    members->grace_ns = members->grace_ns < GRACE_MAX_NS / 2 ? 2 * members->grace_ns : GRACE_MAX_NS;
}

/* Whether a thread waits and lets channels progress, or did a moment ago. */
static bool is_looked_at(fry_members *members, int64_t now_ns)
{
    bool must_arm =
        fry_load_seq_cst(&members->must_arm) != 0 && fry_exchange(&members->must_arm, 0) != 0;
    bool is_watched = fry_load_seq_cst(&members->watchers) != 0;
    uint64_t looks = fry_load_relaxed(&members->looks);
    if (must_arm && !is_watched)
        members->grace_end_ns = 0;
    else if (now_ns < members->grace_end_ns)
        return true;
    bool has_looked = is_watched || (!must_arm && looks != members->looks_seen);
    members->looks_seen = looks;
    if (!has_looked) {
        members->grace_ns = GRACE_MIN_NS;
        return false;
    }
    leave_to_looker(members, now_ns);
    return true;
}

/* Whether what is under way may be about to end: it has not stood still for BUSY_SPIN_NS. */
static bool is_soon(fry_members *members, int64_t now_ns)
{
    if (members->busy_since_ns == 0)
        members->busy_since_ns = now_ns;
    return now_ns - members->busy_since_ns < BUSY_SPIN_NS;
}

static fry_arming arm_route(fry_turn *turn, fry_members *members, fry_route *route, int64_t now_ns)
{
    fry_peer *peer = fry_route_made_peer(route);
    if (fry_peer_progress(peer, turn) != 0) {
        members->busy_since_ns = 0;
        return FRY_ARMING_BUSY;
    }
    if (fry_peer_is_busy(peer) && route->is_watched && is_soon(members, now_ns))
        return FRY_ARMING_BUSY;
    return fry_route_arm(turn, route);
}

/* False: something has come, or is about to come. */
static bool arm_routes(fry_turn *turn, fry_members *members, int64_t now_ns)
{
    bool is_idle = true;
    members->has_stuck = false;
    fry_route *route, *next;
    LIST_FOREACH_SAFE(route, &members->polled, polled, next) {
        fry_arming arming = arm_route(turn, members, route, now_ns);
        if (arming == FRY_ARMING_ARMED) {
            LIST_REMOVE(route, polled);
            route->is_polled = false;
        } else if (arming == FRY_ARMING_STUCK) {
            members->has_stuck = true;
        } else {
            is_idle = false;
        }
    }
    fry_store_relaxed(&members->has_polled, !LIST_EMPTY(&members->polled));
    if (is_idle)
        members->busy_since_ns = 0;
    return is_idle;
}

bool fry_members_have_work(const fry_members *members)
{
    return fry_load_seq_cst(&members->errands.top) != NULL ||
           fry_load_seq_cst(&members->window_releases.top) != NULL ||
           fry_load_seq_cst(&members->symmetric_releases.top) != NULL ||
           fry_load_relaxed(&members->has_orders) != 0 ||
           fry_load_relaxed(&members->has_looks) != 0;
}

bool fry_members_arm(fry_turn *turn, fry_members *members)
{
    if (fry_members_have_work(members) || members->has_steps || members->finishing.first != NULL ||
        members->asks.first != NULL || members->faulted.first != NULL ||
        fry_windows_have_work(members) || fry_symmetrics_have_work(members) ||
        !TAILQ_EMPTY(&members->nexts_refused) ||
        fry_stages_have_work(turn->engine, &members->stages) || has_job(members) ||
        fry_pairings_must_not_sleep(&members->pairings))
        return false;
    if (LIST_EMPTY(&members->polled))
        return true;
    int64_t now_ns = fry_clock_monotonic_ns();
    return is_looked_at(members, now_ns) ||
           (arm_routes(turn, members, now_ns) && members->asks.first == NULL &&
            members->faulted.first == NULL);
}

/* How long the loop leaves the channels to other threads. */
static int64_t grace_ns(fry_members *members, bool has_looked)
{
    if (has_looked && fry_load_relaxed(&members->has_polled) == 0)
        return INT64_MAX;
    int64_t now_ns = fry_clock_monotonic_ns();
    if (has_looked && members->grace_end_ns <= now_ns && members->has_stuck)
        return now_ns + STUCK_NS;
    /*
     * A looking thread has the baton most of the time, so finding the baton taken counts as a look.
     */
    if (!has_looked && members->grace_end_ns <= now_ns && fry_load_relaxed(&members->watchers) != 0)
        leave_to_looker(members, now_ns);
    return members->grace_end_ns > now_ns ? members->grace_end_ns : now_ns + GRACE_MIN_NS;
}

int64_t fry_members_again_ns(ferry_engine *engine, bool has_looked)
{
    fry_members *members = fry_load_acquire(&engine->members);
    if (fry_likely(members == NULL))
        return INT64_MAX;
    members->must_look = true; /* after the sleep */
    return fry_sooner_ns(grace_ns(members, has_looked), fry_timers_next_ns(&members->look_times));
}

int64_t fry_members_next_ns(ferry_engine *engine)
{
    const fry_members *members = fry_load_acquire(&engine->members);
    return members != NULL ? fry_load_relaxed(&members->next_ns) : INT64_MAX;
}

bool fry_members_are_over(const fry_members *members)
{
    for (const ferry_group *group = members->groups; group != NULL; group = group->next) {
        if (fry_load_relaxed(&group->life) != FRY_GROUP_OVER || group->is_handle_gone)
            return false;
    }
    return members->pairings.count == 0 && members->pairings.job.state == FRY_PAIRING_IDLE &&
           members->orders.first == NULL && members->finishing.first == NULL &&
           fry_load_seq_cst(&members->errands.top) == NULL;
}

/* ---- waiting threads ---- */

/*
 * One round. Routes with something open come first, armed or not: the thread may wait for them. One
 * look each: a second look, which finds nothing, would send the answer to what came by itself.
 */
static size_t look_once(fry_turn *turn, fry_members *members)
{
    size_t done = 0, count = 0;
    uint32_t round = ++members->look_round;
    fry_route *route, *next; /* the look may leave nothing open */
    LIST_FOREACH_SAFE(route, &members->open, opened, next) {
        if (count++ >= ROUTES_PER_LOOK)
            break;
        route->look_round = round;
        done += fry_route_look(turn, route);
    }
    LIST_FOREACH(route, &members->polled, polled) {
        if (count++ >= ROUTES_PER_LOOK)
            break;
        if (route->look_round != round)
            done += fry_route_look(turn, route);
    }
    return done;
}

bool fry_members_look_on(ferry_engine *engine, const ferry_future *future)
{
    fry_members *members = fry_load_acquire(&engine->members);
    if (members == NULL)
        return false;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    if (context == NULL || !fry_turn_begin(&turn, engine, context, false))
        return false;
    size_t done = 0;
    for (int i = 0; i < ROUNDS_PER_LOOK && done == 0; i++) {
        done = look_once(&turn, members);
        if (fry_unlikely(members->stages.copying != 0))
            done += fry_lanes_poll(&turn); /* the message may wait for such a copy */
        if (fry_load_relaxed(&engine->inbox.top) != NULL || fry_future_is_resolved(future))
            break;
    }
    done += fry_turn_end(&turn, engine->submit_budget);
    return done != 0;
}

bool fry_members_look(ferry_engine *engine, const ferry_future *future)
{
    fry_members *members = fry_load_acquire(&engine->members);
    fry_store_relaxed(&members->looks, fry_load_relaxed(&members->looks) + 1); /* only a hint */
    return fry_members_look_on(engine, future);
}
