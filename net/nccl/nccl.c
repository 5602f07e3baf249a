/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module: an engine's pairs, and two threads that serve them all. The threads sleep on
 * eventcounts, without a timeout unless NCCL has something in progress. They begin with the first
 * pair.
 */
#include "base/eventcount.h"
#include "base/module/forward.h"
#include "net/nccl/library.h"
#include "net/nccl/pair.h"
#include "net/pairs.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

typedef struct worker {
    fry_pairs *pairs;
    fry_nccl_owner is;
    fry_eventcount news;
    pthread_t thread;
} worker;

struct fry_pairs {
    fry_memory memory;
    fry_pairs_options options;
    worker workers[2];     /* by fry_nccl_owner */
    uint32_t worker_count; /* that run */
    uint32_t is_closing;   /* atomic */
    fry_pair all[];        /* options.pairs_most */
};

/* ---- the threads ---- */

static int64_t step(fry_pair *pair, fry_nccl_owner by)
{
    if (fry_load_acquire(&pair->owner) != by) /* pairs with fry_nccl_hand_over */
        return INT64_MAX;
    return by == FRY_NCCL_BUILDER ? fry_nccl_build(pair) : fry_nccl_launch(pair);
}

/* Serves all of its pairs once. Returns in how long the next look is due. */
static int64_t serve_all(const worker *self)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < self->pairs->options.pairs_most; i++) {
        int64_t due_ns = step(&self->pairs->all[i], self->is);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

static void *work(void *arg)
{
    worker *self = arg;
    while (fry_load_acquire(&self->pairs->is_closing) == 0) {
        if (serve_all(self) == 0)
            continue;
        uint32_t key = fry_eventcount_prepare(&self->news);
        int64_t due_ns = serve_all(self);
        if (due_ns == 0 || fry_load_acquire(&self->pairs->is_closing) != 0)
            fry_eventcount_cancel(&self->news);
        else
            fry_eventcount_commit(&self->news, key, due_ns == INT64_MAX ? -1 : due_ns);
    }
    return NULL;
}

static bool start(worker *self)
{
    static const char *const names[] = {"ferry-nccl-make", "ferry-nccl"};
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    bool is_started = pthread_create(&self->thread, NULL, work, self) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        (void)pthread_setname_np(self->thread, names[self->is]);
    return is_started;
}

static bool has_workers(fry_pairs *pairs)
{
    while (pairs->worker_count < 2 && start(&pairs->workers[pairs->worker_count]))
        pairs->worker_count++;
    return pairs->worker_count == 2;
}

static void tell(fry_pairs *pairs, fry_nccl_owner whom)
{
    fry_eventcount_notify(&pairs->workers[whom].news, 1);
}

void fry_nccl_changed(fry_pair *pair, fry_pair_state state)
{
    fry_pairs_notify notify = pair->pairs->options.notify;
    fry_store_release(&pair->state, state); /* pairs with pair_state; the pair may be closed now */
    notify.fn(notify.arg);
}

void fry_nccl_hand_over(fry_pair *pair, fry_nccl_owner owner)
{
    fry_pairs *pairs = pair->pairs;
    fry_store_release(&pair->owner, owner); /* pairs with step */
    tell(pairs, owner);
}

/* ---- pairs ---- */

static fry_pair *pair_open(fry_pairs *pairs, const fry_pair_device *device, bool is_leader)
{
    fry_pair *pair = pairs->all, *end = pair + pairs->options.pairs_most;
    while (pair < end && fry_load_acquire(&pair->state) != FRY_PAIR_FREE)
        pair++;
    if (pair == end || !has_workers(pairs))
        return NULL;
    /* The threads look at `owner`, which is the builder as it was, and at `state`. */
    pair->pairs = pairs;
    pair->is_leader = is_leader;
    pair->device = *device;
    pair->wants_token = pair->wants_making = pair->wants_end = 0;
    pair->unlanded = 0;
    pair->is_draining = false;
    fry_store_release(&pair->state, FRY_PAIR_OPEN); /* pairs with fry_nccl_build */
    return pair;
}

static fry_pair_state pair_state(const fry_pair *pair)
{
    return (fry_pair_state)fry_load_acquire(&pair->state);
}

static void pair_fault(const fry_pair *pair, fry_fault *fault)
{
    *fault = pair->fault;
}

static void want(fry_pair *pair, uint32_t *wish)
{
    fry_store_release(wish, 1);
    tell(pair->pairs, FRY_NCCL_BUILDER);
}

static void pair_make_token(fry_pair *pair)
{
    want(pair, &pair->wants_token);
}

static const uint8_t *pair_token(const fry_pair *pair)
{
    return pair->token;
}

static void pair_make(fry_pair *pair, const uint8_t *token)
{
    if (token != NULL)
        memcpy(pair->token, token, sizeof pair->token);
    want(pair, &pair->wants_making);
}

static void pair_launch(fry_pair *pair, fry_lot *lot)
{
    fry_stack_push(&pair->lots, &lot->link);
    tell(pair->pairs, FRY_NCCL_LAUNCHER);
}

static void pair_landed(fry_pair *pair)
{
    (void)fry_fetch_sub(&pair->unlanded, 1);
}

static void pair_end(fry_pair *pair)
{
    want(pair, &pair->wants_end);
    tell(pair->pairs, FRY_NCCL_LAUNCHER);
}

static void pair_close(fry_pair *pair)
{
    fry_store_release(&pair->state, FRY_PAIR_FREE);
}

/* ---- the module ---- */

static size_t bytes_of(uint32_t pairs_most)
{
    return sizeof(fry_pairs) + pairs_most * sizeof(fry_pair);
}

static ferry_status pairs_open(const fry_memory *memory, const fry_pairs_options *options,
                               fry_pairs **pairs_p)
{
    if (fry_nccl_load(NULL) == 0)
        return FERRY_E_NOT_FOUND;
    fry_pairs *pairs = fry_alloc(memory, bytes_of(options->pairs_most), _Alignof(fry_pairs));
    if (pairs == NULL)
        return FERRY_E_NO_MEMORY;
    pairs->memory = *memory;
    pairs->options = *options;
    for (uint32_t i = 0; i < 2; i++)
        pairs->workers[i] = (worker){.pairs = pairs, .is = (fry_nccl_owner)i};
    *pairs_p = pairs;
    return FERRY_OK;
}

static void pairs_close(fry_pairs *pairs)
{
    fry_memory memory = pairs->memory;
    fry_store_release(&pairs->is_closing, 1);
    for (uint32_t i = 0; i < pairs->worker_count; i++) {
        tell(pairs, (fry_nccl_owner)i);
        (void)pthread_join(pairs->workers[i].thread, NULL);
    }
    fry_free(&memory, pairs, bytes_of(pairs->options.pairs_most));
}

static const fry_pairs_ops pairs_ops = {
    .module = {"nccl"},
    .probe = fry_nccl_load,
    .open = pairs_open,
    .close = pairs_close,
    .pair_open = pair_open,
    .pair_state = pair_state,
    .pair_fault = pair_fault,
    .pair_make_token = pair_make_token,
    .pair_token = pair_token,
    .pair_make = pair_make,
    .pair_launch = pair_launch,
    .pair_landed = pair_landed,
    .pair_end = pair_end,
    .pair_close = pair_close,
};

const fry_module_ops *fry_module_entry(const fry_module_host *host, const char **reason);

__attribute__((visibility("default"))) const fry_module_ops *
fry_module_entry(const fry_module_host *host, const char **reason)
{
    if (host->version != FRY_MODULE_VERSION || host->size_bytes != sizeof *host) {
        *reason = "made for another version of ferry";
        return NULL;
    }
    fry_forward_init(host);
    return &pairs_ops.module;
}
