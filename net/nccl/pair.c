/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a pair on the module's threads.
 *
 * NCCL lets one thread at a time use a communicator, so each pair has an owner, which alone calls
 * NCCL for it: the builder while it is made and ended, the launcher in between. Owners hand pairs
 * over by a release store; nobody takes one.
 *
 * A communicator does not block: a call answers ncclInProgress, and its owner asks until NCCL is
 * done. A group counts as launched only then, because what is recorded in its stream before that
 * covers nothing (docs/hardware.md).
 *
 * A pair always ends by ncclCommAbort, also if all went well: it waits for no other rank, and ends
 * kernels that stand.
 */
#include "net/nccl/pair.h"

#include <string.h>

#define FIRST_PAUSE_NS INT64_C(10000)
#define LONGEST_PAUSE_NS INT64_C(1000000)
#define WATCH_NS INT64_C(1000000)

_Static_assert(sizeof(ncclUniqueId) == FRY_PAIR_TOKEN_BYTES, "a token is NCCL's");

static int64_t pause(fry_pair *pair)
{
    int64_t pause_ns = pair->pause_ns;
    if (pause_ns < LONGEST_PAUSE_NS)
        pair->pause_ns *= 2;
    return pause_ns;
}

/* Pairs with `want` in nccl.c. */
static bool is_set(const uint32_t *wish)
{
    return fry_load_acquire(wish) != 0;
}

static fry_pair_state state_of(const fry_pair *pair)
{
    return (fry_pair_state)fry_load_relaxed(&pair->state);
}

static void fail_with(fry_pair *pair, const fry_fault *fault)
{
    pair->fault = *fault;
    fry_nccl_changed(pair, FRY_PAIR_FAILED);
}

static void fail(fry_pair *pair, ncclResult_t result, const char *call)
{
    fry_fault fault;
    (void)fry_nccl_tell(&fault, result, call, pair->comm);
    fail_with(pair, &fault);
}

static bool enter(fry_pair *pair)
{
    if (pair->device.make_current(pair->device.arg))
        return true;
    static const fry_fault fault = {
        .status = FERRY_E_DEVICE, .rank = -1, .message = "the GPU's context can't be made current"};
    fail_with(pair, &fault);
    return false;
}

/* What has become of the last call. */
static ncclResult_t ask(const fry_pair *pair)
{
    ncclResult_t state = ncclInternalError;
    ncclResult_t result = fry_nccl.ncclCommGetAsyncError(pair->comm, &state);
    return result == ncclSuccess ? state : result;
}

/* ---- making ---- */

static void make_token(fry_pair *pair)
{
    ncclUniqueId id;
    if (!enter(pair))
        return;
    ncclResult_t result = fry_nccl.ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
        fail(pair, result, "ncclGetUniqueId");
        return;
    }
    memcpy(pair->token, &id, sizeof id);
    fry_nccl_changed(pair, FRY_PAIR_TOKEN);
}

static void begin(fry_pair *pair)
{
    fry_fault fault;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (!enter(pair))
        return;
    pair->stream = pair->device.open_stream(pair->device.arg, &fault);
    if (pair->stream == NULL) {
        fail_with(pair, &fault);
        return;
    }
    memcpy(&id, pair->token, sizeof id);
    ncclResult_t result =
        fry_nccl.ncclCommInitRankConfig(&pair->comm, 2, id, pair->is_leader ? 0 : 1, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
        fail(pair, result, "ncclCommInitRankConfig");
        return;
    }
    pair->pause_ns = FIRST_PAUSE_NS;
    fry_nccl_changed(pair, FRY_PAIR_MAKING);
}

static int64_t go_on_making(fry_pair *pair)
{
    ncclResult_t result = ask(pair);
    if (result == ncclInProgress)
        return pause(pair);
    if (result != ncclSuccess) {
        fail(pair, result, "ncclCommInitRankConfig");
        return INT64_MAX;
    }
    fry_nccl_changed(pair, FRY_PAIR_READY);
    fry_nccl_hand_over(pair, FRY_NCCL_LAUNCHER);
    return INT64_MAX;
}

/*
 * Aborts, and then waits until the stream is empty: an abort returns while its kernels wait behind
 * others on the GPU, and nothing says that they leave their memory alone when they get their turn.
 */
static int64_t end(fry_pair *pair)
{
    const fry_pair_device *device = &pair->device;
    (void)device->make_current(device->arg);
    if (pair->comm != NULL)
        (void)fry_nccl.ncclCommAbort(pair->comm);
    pair->comm = NULL;
    if (!pair->is_draining)
        pair->pause_ns = FIRST_PAUSE_NS;
    pair->is_draining = true;
    if (pair->stream != NULL && !device->is_stream_idle(device->arg, pair->stream))
        return pause(pair);
    if (pair->stream != NULL)
        device->close_stream(device->arg, pair->stream);
    pair->stream = NULL;
    fry_nccl_changed(pair, FRY_PAIR_ENDED);
    return 0;
}

int64_t fry_nccl_build(fry_pair *pair)
{
    fry_pair_state state = (fry_pair_state)fry_load_acquire(&pair->state);
    if (state == FRY_PAIR_FREE || state == FRY_PAIR_ENDED)
        return INT64_MAX;
    if (is_set(&pair->wants_end))
        return end(pair);
    if (state == FRY_PAIR_OPEN && is_set(&pair->wants_token))
        make_token(pair);
    else if (state < FRY_PAIR_MAKING && is_set(&pair->wants_making))
        begin(pair);
    else if (state == FRY_PAIR_MAKING)
        return go_on_making(pair);
    else
        return INT64_MAX;
    return 0;
}

/* ---- launching ---- */

static fry_lot *lot_of(fry_link *item)
{
    return (fry_lot *)(void *)item;
}

static void answer(fry_lot *lot, ferry_status status, const fry_fault *fault)
{
    lot->launched(lot, NULL, status, fault);
}

/* No lot is launched any more. */
static void drop_lots(fry_pair *pair, const fry_fault *fault)
{
    fry_link *item;
    if (pair->launching != NULL)
        answer(pair->launching, fault->status, fault);
    pair->launching = NULL;
    fry_queue_append(&pair->waiting, fry_stack_take_all(&pair->lots));
    while ((item = fry_queue_pop(&pair->waiting)) != NULL)
        answer(lot_of(item), fault->status, fault);
}

static void let_go(fry_pair *pair)
{
    static const fry_fault ended = {.status = FERRY_E_CANCELLED,
                                    .rank = -1,
                                    .message = "the communicator with that member is ended"};
    drop_lots(pair, state_of(pair) == FRY_PAIR_FAILED ? &pair->fault : &ended);
    fry_nccl_hand_over(pair, FRY_NCCL_BUILDER);
}

static ncclResult_t give(const fry_pair *pair, const fry_lot *lot, const char **call_p)
{
    int other = pair->is_leader ? 1 : 0;
    *call_p = "ncclGroupStart";
    ncclResult_t result = fry_nccl.ncclGroupStart();
    if (result != ncclSuccess)
        return result;
    for (uint32_t i = 0; i < lot->count; i++) {
        const fry_lot_item *item = &lot->items[i];
        *call_p = item->is_send ? "ncclSend" : "ncclRecv";
        result = item->is_send ? fry_nccl.ncclSend(item->memory, item->size_bytes, ncclUint8, other,
                                                   pair->comm, pair->stream)
                               : fry_nccl.ncclRecv(item->memory, item->size_bytes, ncclUint8, other,
                                                   pair->comm, pair->stream);
        if (result != ncclSuccess && result != ncclInProgress)
            break;
    }
    ncclResult_t end_result = fry_nccl.ncclGroupEnd();
    if (result != ncclSuccess && result != ncclInProgress)
        return result;
    *call_p = "ncclGroupEnd";
    return end_result;
}

/* Begins with the next lot. False: there is none. */
static bool begin_next(fry_pair *pair)
{
    const char *call;
    fry_queue_append(&pair->waiting, fry_stack_take_all(&pair->lots));
    fry_link *item = fry_queue_pop(&pair->waiting);
    if (item == NULL)
        return false;
    pair->launching = lot_of(item);
    pair->pause_ns = FIRST_PAUSE_NS;
    if (!enter(pair))
        return true;
    ncclResult_t result = give(pair, pair->launching, &call);
    if (result != ncclSuccess && result != ncclInProgress)
        fail(pair, result, call);
    return true;
}

static void is_launched(fry_pair *pair)
{
    fry_lot *lot = pair->launching;
    pair->launching = NULL;
    (void)fry_fetch_add(&pair->unlanded, 1);
    lot->launched(lot, pair->stream, FERRY_OK, NULL);
}

/* Asks how the last group does, or all that stand. */
static int64_t look(fry_pair *pair)
{
    ncclResult_t result = ask(pair);
    if (result == ncclInProgress)
        return pause(pair);
    if (result != ncclSuccess) {
        fail(pair, result, pair->launching != NULL ? "ncclGroupEnd" : "ncclCommGetAsyncError");
        return 0;
    }
    if (pair->launching == NULL)
        return WATCH_NS;
    is_launched(pair);
    return 0;
}

int64_t fry_nccl_launch(fry_pair *pair)
{
    if (is_set(&pair->wants_end)) {
        let_go(pair);
        return INT64_MAX;
    }
    if (state_of(pair) == FRY_PAIR_FAILED) {
        drop_lots(pair, &pair->fault);
        return INT64_MAX;
    }
    if (pair->launching == NULL && begin_next(pair))
        return 0;
    bool has_some = pair->launching != NULL || fry_load_acquire(&pair->unlanded) != 0;
    return has_some ? look(pair) : INT64_MAX;
}
