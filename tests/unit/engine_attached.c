/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shutdown in another thread asks the loop's thread to take ferry's watchers out. Two calls that
 * both make are this program's own, so that it can stop each of them where it wants.
 */
#include "engine/engine.h"
#include "tests/support/api_test.h"

#include <dlfcn.h>
#include <ev.h>
#include <poll.h>
#include <sys/epoll.h>

TestSuite(engine_attached, .timeout = HANG_S);

typedef struct scene {
    test_engine te;
    struct ev_loop *loop;
    ev_async wakes, ends; /* the loop: for a round; for good */
    pthread_t loops_thread;
    _Atomic bool is_steered; /* the next ev_depth of another thread is the one of fry_detach */
    _Atomic bool has_looked; /* the loop's thread has found nothing wanted, and goes on to poll */
} scene;

static scene *_Atomic steered; /* NULL: the calls do what they always do */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

unsigned int ev_depth(struct ev_loop *loop)
{
    static unsigned int (*real)(struct ev_loop *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "ev_depth");
    scene *self = atomic_load(&steered);
    if (self != NULL && !pthread_equal(pthread_self(), self->loops_thread) &&
        atomic_exchange(&self->is_steered, false)) {
        ev_async_send(loop, &self->wakes);
        while (!atomic_load(&self->has_looked))
            (void)sched_yield();
    }
    return real(loop);
}

int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout,
                 const sigset_t *mask)
{
    static int (*real)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "epoll_pwait2");
    scene *self = atomic_load(&steered);
    if (self != NULL && pthread_equal(pthread_self(), self->loops_thread) &&
        fd == self->te.engine->user_poller.epoll_fd &&
        fry_load_seq_cst(&self->te.engine->asleep) == FRY_STOPPED) {
        atomic_store(&self->has_looked, true);
        (void)is_readable(fd, -1); /* until the other has asked, and written its wake */
    }
    return real(fd, events, most, timeout, mask);
}

static void have_a_round(struct ev_loop *loop, ev_async *wakes, int revents)
{
    (void)loop, (void)wakes, (void)revents;
}

static void break_loop(struct ev_loop *loop, ev_async *ends, int revents)
{
    (void)ends, (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void *run_loop(void *arg)
{
    scene *self = arg;
    (void)ev_run(self->loop, 0);
    return NULL;
}

/* The wake is taken off the descriptor by the very round that looked too early. */
Test(engine_attached, a_shutdown_elsewhere_is_heard_by_a_loop_that_has_just_looked)
{
    scene self = {.loop = ev_loop_new(EVFLAG_AUTO)};
    ev_async_init(&self.wakes, have_a_round);
    ev_async_start(self.loop, &self.wakes);
    ev_async_init(&self.ends, break_loop);
    ev_async_start(self.loop, &self.ends);
    ferry_engine_options options = test_engine_options(&self.te, FERRY_LOOP_ATTACHED);
    options.ev_loop = self.loop;
    options.clock = NULL;
    test_engine_create(&self.te, &options);
    cr_assert_eq(pthread_create(&self.loops_thread, NULL, run_loop, &self), 0);
    while (fry_load_seq_cst(&self.te.engine->asleep) != FRY_ASLEEP)
        (void)sched_yield();

    atomic_store(&self.is_steered, true);
    atomic_store(&steered, &self);
    ASSERT_STATUS(ferry_engine_shutdown(self.te.engine, -1), FERRY_OK);
    cr_assert(atomic_load(&self.has_looked));
    atomic_store(&steered, NULL);
    ev_async_send(self.loop, &self.ends);
    cr_assert_eq(pthread_join(self.loops_thread, NULL), 0);
    test_engine_close(&self.te);
    ev_loop_destroy(self.loop);
}
