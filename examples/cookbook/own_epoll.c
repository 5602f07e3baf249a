/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry in a loop of your own. The engine has no thread: its descriptor stands in your epoll set,
 * and your thread calls ferry_engine_progress. It sleeps until there is something to do, and
 * callbacks run in your thread, so they need no locks.
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BYTES = 8 << 20 };

static bool is_over;

static void copied(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    *(ferry_status *)waiter->arg = status;
    is_over = true;
}

/* One round: sleep if ferry lets us, then do what ferry has to do. */
static int turn(ferry_engine *engine, int epoll_fd)
{
    struct epoll_event events[8];
    /* FERRY_OK: ferry will make its descriptor readable, and we may sleep. */
    int timeout_ms = ferry_engine_arm(engine) == FERRY_OK ? -1 : 0;
    int count = epoll_wait(epoll_fd, events, 8, timeout_ms);
    for (int i = 0; i < count; i++) {
        /* Your own descriptors are handled here; ferry's needs no more than the call below. */
    }
    return ferry_engine_progress(engine, 0) >= 0 ? 0 : 1;
}

int main(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    ferry_engine *engine = NULL;
    ferry_buffer *source = NULL, *target = NULL;
    if (ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_find(engine, "host:0"), BYTES, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_find(engine, "host:1"), BYTES, &target) != FERRY_OK)
        return 1;

    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event readable = {.events = EPOLLIN};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ferry_engine_fd(engine), &readable) != 0)
        return 1;

    ferry_status status = FERRY_PENDING;
    ferry_waiter waiter = FERRY_WAITER_INIT(copied, &status);
    ferry_future *copy =
        ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL);
    ferry_future_on_ready(copy, &waiter);
    ferry_future_release(copy);
    while (!is_over) {
        if (turn(engine, epoll_fd) != 0)
            return 1;
    }
    printf("%s\n", ferry_status_name(status));
    close(epoll_fd);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return status == FERRY_OK ? 0 : 1;
}
