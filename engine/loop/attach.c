/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached to the user's libev loop: an embedded engine whose user is two watchers. One watches
 * user_poller; the other makes progress and arms before the loop sleeps. No other file knows libev.
 * All of this runs on the loop's thread, or while the loop does not run.
 */
#include "engine/loop/attach.h"

#include "base/futex.h"
#include "engine/engine.h"
#include "engine/loop/embedded.h"

#include <ev.h>

#define ROUNDS_BEFORE_SLEEP 4 /* so that other watchers get their turn */

typedef struct fry_attachment {
    ferry_engine *engine;
    struct ev_loop *loop;
    struct ev_io io;
    struct ev_prepare prepare;
    struct ev_prepare first; /* never started, but pending at once: ev_run calls it first */
    pthread_t thread;        /* if is_seen: the loop's thread in its last round */
    uint32_t is_seen;
    uint32_t detached;  /* futex: 1 when the watchers are out of the loop */
    uint32_t is_wanted; /* a thread waits in fry_detach */
} fry_attachment;

/* On the loop's thread, or while the loop does not run. */
static void take_out(fry_attachment *attachment)
{
    if (fry_load_relaxed(&attachment->detached) != 0)
        return;
    ev_io_stop(attachment->loop, &attachment->io);
    ev_ref(attachment->loop);
    ev_prepare_stop(attachment->loop, &attachment->prepare);
    (void)ev_clear_pending(attachment->loop, &attachment->first);
    fry_store_seq_cst(&attachment->detached, 1);
    fry_futex_wake(&attachment->detached, INT32_MAX);
}

/* Until there is nothing to do, or other watchers should have a turn. */
static void make_progress(fry_attachment *attachment)
{
    for (int i = 0; i < ROUNDS_BEFORE_SLEEP; i++) {
        if (fry_embedded_progress(attachment->engine, 0, (uintptr_t)attachment) <= 0)
            break;
    }
}

static void engine_is_due(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop, (void)events;
    fry_attachment *attachment = io->data;
    if (fry_load_acquire(&attachment->is_wanted) != 0)
        take_out(attachment);
    else
        make_progress(attachment);
}

static void see_thread(fry_attachment *attachment)
{
    fry_store_relaxed(&attachment->thread, pthread_self());
    fry_store_release(&attachment->is_seen, 1);
}

static void loop_has_begun(struct ev_loop *loop, ev_prepare *first, int revents)
{
    (void)loop, (void)revents;
    see_thread(first->data);
}

static void loop_will_sleep(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
    (void)loop, (void)revents;
    fry_attachment *attachment = prepare->data;
    ferry_engine *engine = attachment->engine;
    see_thread(attachment);
    if (fry_load_acquire(&attachment->is_wanted) != 0) {
        take_out(attachment);
        return;
    }
    if (fry_load_relaxed(&engine->armed_by) != FRY_NOBODY_ARMED &&
        fry_load_relaxed(&engine->asleep) == FRY_ASLEEP)
        return; /* armed in an earlier round, and nothing has happened */
    make_progress(attachment);
    if (fry_embedded_arm(engine, (uintptr_t)attachment) != FERRY_OK)
        fry_poller_wake(&engine->user_poller); /* keeps the loop from sleeping */
    /*
     * Progress may have taken the wake of a thread that asked after the look above. A thread that
     * asks after this look leaves a readable descriptor, which nobody reads before the next round:
     * fry_detach.
     */
    if (fry_load_seq_cst(&attachment->is_wanted) != 0)
        take_out(attachment);
}

ferry_status fry_attach(ferry_engine *engine, struct ev_loop *loop, const char **why_p)
{
    if (ev_depth(loop) != 0) {
        *why_p = "the libev loop is running: attach before ev_run, and not in its callbacks";
        return FERRY_E_BUSY;
    }
    *why_p = "no memory for the watchers";
    fry_attachment *attachment =
        fry_alloc(&engine->memory, sizeof *attachment, _Alignof(fry_attachment));
    if (attachment == NULL)
        return FERRY_E_NO_MEMORY;
    attachment->engine = engine;
    attachment->loop = loop;
    ev_io_init(&attachment->io, engine_is_due, engine->user_poller.epoll_fd, EV_READ);
    ev_prepare_init(&attachment->prepare, loop_will_sleep);
    ev_prepare_init(&attachment->first, loop_has_begun);
    ev_set_priority(&attachment->first, EV_MAXPRI);
    attachment->io.data = attachment->prepare.data = attachment->first.data = attachment;
    ev_io_start(loop, &attachment->io);
    ev_prepare_start(loop, &attachment->prepare);
    ev_unref(loop); /* the two count as one */
    ev_feed_event(loop, &attachment->first, EV_PREPARE);
    engine->attachment = attachment;
    return FERRY_OK;
}

/*
 * Whether the calling thread runs the loop, in one of its callbacks. If no thread has been seen,
 * another thread has just begun to run it. A wrong guess would have take_out change what libev is
 * working on.
 */
static bool is_the_loops_thread(fry_attachment *attachment)
{
    return fry_load_acquire(&attachment->is_seen) != 0 &&
           pthread_equal(fry_load_relaxed(&attachment->thread), pthread_self());
}

bool fry_detach(ferry_engine *engine, int64_t end_ns)
{
    fry_attachment *attachment = engine->attachment;
    if (ev_depth(attachment->loop) == 0 || is_the_loops_thread(attachment)) {
        take_out(attachment);
        return true;
    }
    fry_store_seq_cst(&attachment->is_wanted, 1); /* before the wake: see loop_will_sleep */
    fry_poller_wake(&engine->user_poller);
    while (fry_load_acquire(&attachment->detached) == 0) {
        int64_t left_ns = fry_clock_left_ns(end_ns);
        if (left_ns == 0)
            return false;
        fry_futex_wait(&attachment->detached, 0, left_ns);
    }
    return true;
}

void fry_attachment_free(ferry_engine *engine)
{
    if (engine->attachment != NULL)
        fry_free(&engine->memory, engine->attachment, sizeof *engine->attachment);
    engine->attachment = NULL;
}
