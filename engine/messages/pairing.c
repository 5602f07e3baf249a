/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a pairing. The member with the lower rank leads:
 *
 *     wanted ──► OPEN ──► NAMING ──► MAKING ──► READY ──► ENDING ──► ENDED ──► gone
 *        (the role)    (leader)                            (fails, or retires)
 *
 * The leader's is wanted by messages that wait for a lot, the follower's by the leader's word, with
 * the token. The role opens one at a time (pairing_open.c). It ends because the transport fails,
 * because a message in a lot is cancelled or late, because the other end's ends, with the
 * connection, or because others need its place. Both ends say when theirs has ended; the next one
 * of the route begins after that, with another generation.
 *
 * *Room.* An engine has so many pairs at most. If another is wanted, one *retires*: that which was
 * used the longest time ago and has nothing to do, or else, after LOTS_IN_ROW, one that has. It
 * admits no lots, and when nothing goes here any more it says so (RETIRE); the other end admits
 * none either, and ends the pair once nothing goes there: so no lot is cut short, also one that is
 * over here and not yet there. A pair that was made goes once before it retires, or it could be
 * made and ended for ever; and as the lower rank leads, who waits with a pair half made for another
 * member's room is never in a circle of such: retire.pml.
 *
 * A program that needs its GPUs for kernels of its own has its member's pairings *pause* (pause.c).
 *
 * A pair that can't be made turns its connection off (fry_peer_pair_off), and the log says why.
 */
#include "engine/messages/pairing.h"

#include "engine/graph/node.h"
#include "engine/messages/launch.h"
#include "engine/messages/message.h"
#include "engine/messages/pairing_state.h"
#include "engine/messages/pause.h"
#include "engine/messages/route.h"

#include <string.h>

#define LOTS_IN_ROW 16 /* that a pair may have before others may have its place */

bool fry_pairing_takes(fry_route *route, const ferry_device *device)
{
    const ferry_device *first = NULL;
    if (!route->can_pair || device->device->ops->native_enter == NULL)
        return false;
    return fry_load_relaxed(&route->pair_device) == device ||
           fry_cas(&route->pair_device, &first, device) || first == device;
}

static const ferry_device *device_of(const fry_route *route)
{
    return fry_load_relaxed(&route->pair_device);
}

/* ---- admission ---- */

static bool is_in_use(const fry_pairing *pairing)
{
    return fry_pairing_is_open(pairing) && !pairing->is_retiring;
}

static bool is_open_for_lots(const fry_pairing *pairing)
{
    return is_in_use(pairing) && !fry_pause_holds(pairing);
}

bool fry_pairing_admit(void *turn, fry_peer *peer)
{
    const fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    (void)turn;
    return pairing != NULL && is_open_for_lots(pairing) && fry_slot_take(&pairing->wish);
}

void fry_pairing_dismiss(void *turn, fry_peer *peer)
{
    const fry_route *route = fry_peer_arg(peer);
    (void)turn;
    fry_slot_give(route->pair_slots);
}

/* It has waited for a slot, and has it. A follower nudges, and then asks again as others do. */
static size_t use_grant(fry_turn *turn, fry_pairing *pairing)
{
    if (!fry_slot_is_granted(&pairing->wish))
        return 0;
    if (is_open_for_lots(pairing)) {
        fry_peer_joint_go_on(fry_pairing_peer(pairing), turn);
        fry_route_launched(turn, pairing->route);
    }
    if (fry_slot_is_granted(&pairing->wish))
        fry_slot_decline(&pairing->wish);
    return 1;
}

/* ---- wanting, and saying so ---- */

static void want(fry_turn *turn, fry_route *route)
{
    fry_pairings *pairings = fry_pairings_of(turn->engine);
    if (!route->pair_is_wanted)
        TAILQ_INSERT_TAIL(&pairings->wanted, route, pair_wanted);
    route->pair_is_wanted = true;
    fry_pairings_note(turn);
}

static void want_no_more(fry_pairings *pairings, fry_route *route)
{
    if (route->pair_is_wanted)
        TAILQ_REMOVE(&pairings->wanted, route, pair_wanted);
    route->pair_is_wanted = false;
}

void fry_pairing_wanted(void *turn, fry_peer *peer)
{
    fry_route *route = fry_peer_arg(peer);
    route->pair_note = (fry_pair_note){.generation = ++route->pair_generation};
    want(turn, route);
}

/* There is no pair for this connection. */
static void go_without(fry_turn *turn, fry_route *route, const char *why)
{
    fry_log_line(&turn->engine->log, FERRY_LOG_WARNING,
                 "member %u: GPU memory goes another way than NCCL, because %s", route->rank, why);
    fry_peer_pair_off(fry_route_made_peer(route), turn);
    fry_route_launched(turn, route);
}

static void say(fry_turn *turn, fry_pairing *pairing, fry_pair_word word)
{
    if (pairing->route == NULL)
        return;
    pairing->note.is_put_off = pairing->is_put_off;
    fry_peer_pair_say(fry_pairing_peer(pairing), word, &pairing->note, turn);
    fry_route_launched(turn, pairing->route);
}

/* ---- room ---- */

bool fry_pairing_is_idle(const fry_pairing *pairing)
{
    return fry_launches_are_none(pairing) && !fry_peer_joint_is_busy(fry_pairing_peer(pairing));
}

/* Nobody needs it any more, though it was never used: only the leader can know. */
static bool is_in_vain(const fry_pairing *pairing)
{
    return pairing->is_leader && pairing->lots_over == 0 && fry_pairing_is_idle(pairing) &&
           !fry_peer_joint_has_more(fry_pairing_peer(pairing));
}

/* Whether a should retire before b, which may be NULL. */
static bool is_before(const fry_pairing *a, const fry_pairing *b)
{
    if (b == NULL || fry_pairing_is_idle(a) != fry_pairing_is_idle(b))
        return b == NULL || fry_pairing_is_idle(a);
    return a->used_at < b->used_at;
}

static void retire(fry_turn *turn, fry_pairing *pairing)
{
    pairing->is_retiring = true;
    fry_pairings_note(turn);
}

/* As many retire as are wanted. */
static void make_room(fry_turn *turn, fry_pairings *pairings)
{
    fry_pairing *pairing, *first = NULL;
    const fry_route *route;
    uint32_t wanted = 0, leaving = 0;
    TAILQ_FOREACH(route, &pairings->wanted, pair_wanted)
        wanted += !route->group->pause.is_on;
    LIST_FOREACH(pairing, &pairings->all, entry) {
        leaving += (pairing->is_retiring || pairing->is_failing) && !pairing->is_left_behind;
        bool can = is_in_use(pairing) && pairing->lots_over != 0 &&
                   (fry_pairing_is_idle(pairing) || pairing->lots_over >= LOTS_IN_ROW);
        if (can && is_before(pairing, first))
            first = pairing;
    }
    if (first != NULL && leaving < wanted)
        retire(turn, first);
}

/* A step of one that retires, or should. */
static size_t go_on_retiring(fry_turn *turn, fry_pairing *pairing)
{
    static const fry_fault retired = {.status = FERRY_E_PEER,
                                      .message = "its communicator made room for another"};
    if (!fry_pairing_is_open(pairing))
        return 0;
    if (!pairing->is_retiring && is_in_vain(pairing))
        retire(turn, pairing);
    if (!pairing->is_retiring || !fry_pairing_is_idle(pairing))
        return 0;
    if (pairing->is_heard) {
        fry_pairing_fail(turn, pairing, &retired);
        return 1;
    }
    bool says = !pairing->has_said;
    pairing->has_said = true;
    if (says)
        say(turn, pairing, FRY_PAIR_RETIRE);
    return says;
}

/* ---- beginning ---- */

/* The first that is wanted and whose last one is gone. The role has nothing to do. */
static void begin_next(fry_turn *turn, fry_pairings *pairings)
{
    fry_route *route, *next;
    TAILQ_FOREACH_SAFE(route, &pairings->wanted, pair_wanted, next) {
        if (route->pairing != NULL || route->group->pause.is_on)
            continue;
        if (device_of(route) == NULL) { /* the leader's word came before any message here */
            want_no_more(pairings, route);
            go_without(turn, route, "no GPU of this member sends to it or receives from it");
            continue;
        }
        if (pairings->count - pairings->left_behind >= turn->engine->options.nccl_pairs) {
            make_room(turn, pairings);
            return;
        }
        pairings->job = (fry_pairing_job){.state = FRY_PAIRING_ASKED,
                                          .route = route,
                                          .device = (ferry_device *)(uintptr_t)device_of(route),
                                          .is_leader = fry_peer_leads(fry_route_made_peer(route))};
        return;
    }
}

/* The role has opened one, or could not. */
static void adopt(fry_turn *turn, fry_pairings *pairings)
{
    fry_pairing_job job = pairings->job;
    fry_pairing *pairing = job.pairing;
    fry_route *route = job.route;
    pairings->job.state = FRY_PAIRING_IDLE;
    bool is_wanted = route != NULL && route->pair_is_wanted && route->pairing == NULL;
    const char *why = pairing == NULL ? pairings->reason : NULL;
    if (is_wanted && route->pair_slots == NULL)
        route->pair_slots = fry_slots_find(job.device->device->name);
    if (is_wanted && why == NULL && route->pair_slots == NULL)
        why = "this process uses too many GPUs";
    if (is_wanted && why == NULL && !job.is_leader && route->pair_note.version != pairings->version)
        why = "it has another version of NCCL";
    if (is_wanted)
        want_no_more(pairings, route);
    if (pairing != NULL && (!is_wanted || why != NULL)) {
        pairings->ops->pair_close(pairing->pair);
        fry_free(&turn->engine->memory, pairing, sizeof *pairing);
        pairing = NULL;
    }
    if (is_wanted && why != NULL)
        go_without(turn, route, why);
    if (pairing == NULL)
        return;
    pairing->engine = turn->engine;
    pairing->route = route;
    pairing->device = job.device;
    pairing->is_leader = job.is_leader;
    pairing->note = route->pair_note;
    pairing->note.version = pairings->version;
    pairing->fault.rank = -1;
    fry_slot_wish_init(&pairing->wish, route->pair_slots, turn->engine,
                       turn->engine->options.nccl_slots);
    route->pairing = pairing;
    LIST_INSERT_HEAD(&pairings->all, pairing, entry);
    pairings->count++;
}

/* ---- words ---- */

void fry_pairing_heard(void *arg, fry_peer *peer, fry_pair_word word, const fry_pair_note *note)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    static const fry_fault ended = {.status = FERRY_E_PEER,
                                    .message = "the other end has ended the communicator"};
    bool is_this = pairing != NULL && pairing->note.generation == note->generation;
    if (word == FRY_PAIR_MAKE) {
        route->pair_note = *note;
        want(turn, route);
    } else if (is_this && word == FRY_PAIR_RETIRE) {
        pairing->is_heard = true;
        retire(turn, pairing);
    } else if (is_this) {
        pairing->is_end_heard = true;
        pairing->is_put_off |= note->is_put_off;
        pairing->is_ended_there |= word == FRY_PAIR_HAS_ENDED;
        fry_pairing_fail(turn, pairing, &ended);
        fry_pairings_note(turn);
    } else if (word == FRY_PAIR_END) { /* nothing of it is here, and nothing will be */
        if (route->pair_is_wanted && route->pair_note.generation == note->generation)
            want_no_more(fry_pairings_of(turn->engine), route);
        fry_peer_pair_say(peer, FRY_PAIR_HAS_ENDED, note, turn);
    }
}

/* ---- ending ---- */

static void end(fry_turn *turn, fry_pairing *pairing)
{
    bool will_be_another = pairing->state == FRY_PAIRING_READY || pairing->is_put_off;
    pairing->state = FRY_PAIRING_ENDING;
    /* First: from here on nobody hears that it has not ended (net/peer/joint.c, WHOLE). */
    if (pairing->route != NULL && will_be_another)
        fry_peer_pair_ready(fry_pairing_peer(pairing), false, turn);
    fry_pairings_of(turn->engine)->ops->pair_end(pairing->pair);
    if (!pairing->is_end_heard)
        say(turn, pairing, FRY_PAIR_END);
    if (pairing->route != NULL && !will_be_another)
        go_without(turn, pairing->route, pairing->fault.message);
    fry_launches_fail(turn, pairing);
}

/* Whether nothing of it uses memory any more, here or there. */
static bool is_over(const fry_pairing *pairing)
{
    return pairing->state == FRY_PAIRING_ENDED && pairing->is_ended_there &&
           fry_launches_are_over(pairing);
}

static void leave(fry_turn *turn, fry_pairing *pairing)
{
    fry_pairings *pairings = fry_pairings_of(turn->engine);
    fry_launches_drop(turn, pairing);
    fry_slot_forget(&pairing->wish);
    pairings->ops->pair_close(pairing->pair);
    LIST_REMOVE(pairing, entry);
    pairings->count--;
    if (pairing->route != NULL)
        pairing->route->pairing = NULL;
    fry_free(&turn->engine->memory, pairing, sizeof *pairing);
    fry_pairings_note(turn);
}

/* What a lost GPU may do for ever is over for nobody. The route goes on without it, and without a
 * pair: another one would be of that GPU, too. */
static void leave_behind(fry_turn *turn, fry_pairing *pairing)
{
    fry_route *route = pairing->route;
    pairing->is_left_behind = true;
    fry_pairings_of(turn->engine)->left_behind++;
    if (route == NULL)
        return;
    want_no_more(fry_pairings_of(turn->engine), route);
    route->pairing = NULL;
    pairing->route = NULL;
    go_without(turn, route, "a GPU is lost");
}

static bool is_to_be_left(const fry_pairing *pairing)
{
    return !pairing->is_left_behind && pairing->state == FRY_PAIRING_ENDED &&
           pairing->is_ended_there && fry_launches_are_stuck(pairing);
}

void fry_pairing_failed(fry_turn *turn, const fry_transfer *transfer)
{
    static const fry_fault fault = {
        .status = FERRY_E_PEER,
        .message = "a message that was launched together with it was cancelled, late or failed"};
    if (transfer->is_in_lot && transfer->route->pairing != NULL)
        fry_pairing_fail(turn, transfer->route->pairing, &fault);
}

void fry_pairing_unpaired(void *arg, fry_peer *peer)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    fry_pairings *pairings = fry_pairings_of(turn->engine);
    want_no_more(pairings, route);
    if (pairings->job.route == route) /* which may be gone when the role has opened it */
        pairings->job.route = NULL;
    route->pairing = NULL;
    if (pairing == NULL)
        return;
    static const fry_fault fault = {.status = FERRY_E_PEER, .message = "it has no communicator"};
    fry_pairing_fail(turn, pairing, &fault);
    pairing->route = NULL;
    pairing->is_ended_there = true; /* or it will never say */
    fry_pairings_note(turn);
}

/* ---- steps ---- */

static void is_named(fry_turn *turn, fry_pairing *pairing)
{
    const fry_pairs_ops *ops = fry_pairings_of(turn->engine)->ops;
    memcpy(pairing->note.token, ops->pair_token(pairing->pair), FRY_PAIR_TOKEN_BYTES);
    ops->pair_make(pairing->pair, NULL);
    pairing->state = FRY_PAIRING_MAKING;
    say(turn, pairing, FRY_PAIR_MAKE);
}

static void is_ready(fry_turn *turn, fry_pairing *pairing)
{
    pairing->state = FRY_PAIRING_READY;
    fry_peer_pair_ready(fry_pairing_peer(pairing), true, turn);
    fry_route_launched(turn, pairing->route);
}

static void start(fry_turn *turn, fry_pairing *pairing)
{
    const fry_pairs_ops *ops = fry_pairings_of(turn->engine)->ops;
    if (pairing->is_leader)
        ops->pair_make_token(pairing->pair);
    else
        ops->pair_make(pairing->pair, pairing->note.token);
    pairing->state = pairing->is_leader ? FRY_PAIRING_NAMING : FRY_PAIRING_MAKING;
}

/* Goes on as the module says, if it does. */
static size_t go_on(fry_turn *turn, fry_pairing *pairing)
{
    const fry_pairs_ops *ops = fry_pairings_of(turn->engine)->ops;
    fry_pair_state now = ops->pair_state(pairing->pair);
    if (now == FRY_PAIR_FAILED && !pairing->is_failing) {
        fry_fault fault;
        ops->pair_fault(pairing->pair, &fault);
        fry_pairing_fail(turn, pairing, &fault);
    }
    if (pairing->is_failing && pairing->state < FRY_PAIRING_ENDING)
        end(turn, pairing);
    else if (pairing->state == FRY_PAIRING_OPEN && !fry_pause_holds(pairing))
        start(turn, pairing);
    else if (pairing->state == FRY_PAIRING_NAMING && now == FRY_PAIR_TOKEN)
        is_named(turn, pairing);
    else if (pairing->state == FRY_PAIRING_MAKING && now == FRY_PAIR_READY)
        is_ready(turn, pairing);
    else if (pairing->state == FRY_PAIRING_ENDING && now == FRY_PAIR_ENDED)
        pairing->state = FRY_PAIRING_ENDED, say(turn, pairing, FRY_PAIR_HAS_ENDED);
    else if (is_to_be_left(pairing))
        leave_behind(turn, pairing);
    else
        return 0;
    return 1;
}

size_t fry_pairings_turn(fry_turn *turn, fry_members *members)
{
    fry_pairings *pairings = &members->pairings;
    size_t done = 0;
    fry_pairing *pairing, *next;
    pairings->has_news = false;
    if (pairings->job.state == FRY_PAIRING_DONE) {
        adopt(turn, pairings);
        done++;
    }
    if (pairings->job.state == FRY_PAIRING_IDLE && !TAILQ_EMPTY(&pairings->wanted)) {
        begin_next(turn, pairings);
        done += pairings->job.state == FRY_PAIRING_ASKED;
    }
    LIST_FOREACH_SAFE(pairing, &pairings->all, entry, next) {
        done += fry_launches_go_on(turn, pairing) + go_on(turn, pairing);
        done += use_grant(turn, pairing) + go_on_retiring(turn, pairing);
        if (is_over(pairing)) {
            leave(turn, pairing);
            done++;
        }
    }
    return done;
}

bool fry_pairings_have_work(const fry_pairings *pairings)
{
    return pairings->has_news || pairings->count != 0 || pairings->job.state != FRY_PAIRING_IDLE;
}

bool fry_pairings_must_not_sleep(const fry_pairings *pairings)
{
    if (pairings->has_news || pairings->job.state != FRY_PAIRING_IDLE)
        return true;
    const fry_pairing *pairing;
    LIST_FOREACH(pairing, &pairings->all, entry) {
        fry_pair_state now = pairings->ops->pair_state(pairing->pair);
        if ((now == FRY_PAIR_FAILED && !pairing->is_failing) ||
            (pairing->state == FRY_PAIRING_NAMING && now == FRY_PAIR_TOKEN) ||
            (pairing->state == FRY_PAIRING_MAKING && now == FRY_PAIR_READY) ||
            (pairing->state == FRY_PAIRING_ENDING && now == FRY_PAIR_ENDED))
            return true;
        if (fry_launches_have_news(pairing) || fry_slot_is_granted(&pairing->wish))
            return true;
    }
    return false;
}
