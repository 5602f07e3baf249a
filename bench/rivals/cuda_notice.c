/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rivals/cuda_notice.h"

#include "bench/bench.h"
#include "bench/rivals/cuda.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POOL_EVENTS 64

static void do_nothing(void)
{
}

/* ---- word ---- */

static uint32_t *word;
static uint32_t word_value;

static void open_word(void)
{
    word = cuda_pinned_alloc(sizeof *word);
    word_value = 0;
}

static void post_word(void *stream)
{
    (void)cuda_word_write(word, ++word_value, stream);
}

static void await_word(void *stream)
{
    (void)stream;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != word_value)
        continue;
}

static void close_word(void)
{
    cuda_pinned_free(word);
}

const cuda_notice *cuda_notice_word(void)
{
    static const cuda_notice notice = {"word", false, open_word, post_word, await_word, close_word};
    open_word();
    void *stream = cuda_stream_open(false);
    bool can_write = cuda_word_write(word, 1, stream);
    cuda_stream_synchronize(stream);
    cuda_stream_close(stream);
    close_word();
    return can_write ? &notice : NULL;
}

/* ---- synchronize ---- */

static void post_nothing(void *stream)
{
    (void)stream;
}

static void await_synchronize(void *stream)
{
    cuda_stream_synchronize(stream);
}

/* ---- an event for each ---- */

static void *fresh_event;

static void post_fresh(void *stream)
{
    fresh_event = cuda_event_open(CUDA_EVENT_PLAIN);
    cuda_event_record(fresh_event, stream);
}

static void await_fresh(void *stream)
{
    (void)stream;
    while (!cuda_event_is_fired(fresh_event))
        continue;
    cuda_event_close(fresh_event);
}

/* ---- the oldest of pooled events ---- */

static void *pool[POOL_EVENTS];
static size_t pool_head, pool_tail; /* those between have been recorded */

static void open_pool(void)
{
    for (size_t i = 0; i < POOL_EVENTS; i++)
        pool[i] = cuda_event_open(CUDA_EVENT_PLAIN);
    pool_head = pool_tail = 0;
}

static void post_pooled(void *stream)
{
    cuda_event_record(pool[pool_tail++ % POOL_EVENTS], stream);
}

static void await_pooled(void *stream)
{
    (void)stream;
    while (pool_head < pool_tail) {
        if (cuda_event_is_fired(pool[pool_head % POOL_EVENTS]))
            pool_head++;
    }
}

static void close_pool(void)
{
    for (size_t i = 0; i < POOL_EVENTS; i++)
        cuda_event_close(pool[i]);
}

/* ---- host function, eventfd, epoll ---- */

static int event_fd, epoll_fd;

static void open_host_function(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (event_fd < 0 || epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event) != 0)
        bench_fail("cannot make descriptors");
}

static void write_event_fd(void *arg)
{
    (void)arg;
    uint64_t one = 1;
    if (write(event_fd, &one, sizeof one) != sizeof one)
        bench_fail("cannot write an eventfd");
}

static void post_host_function(void *stream)
{
    cuda_host_call(write_event_fd, NULL, stream);
}

static void await_host_function(void *stream)
{
    (void)stream;
    struct epoll_event event;
    uint64_t count;
    for (;;) {
        int ready = epoll_wait(epoll_fd, &event, 1, -1);
        if (ready < 0 && errno != EINTR)
            bench_fail("cannot wait in epoll");
        if (ready > 0 && read(event_fd, &count, sizeof count) == sizeof count)
            return;
    }
}

static void close_host_function(void)
{
    (void)close(event_fd);
    (void)close(epoll_fd);
}

/* ---- an event whose waiters sleep ---- */

static void *blocking_event;

static void open_blocking(void)
{
    blocking_event = cuda_event_open(CUDA_EVENT_BLOCKING);
}

static void post_blocking(void *stream)
{
    cuda_event_record(blocking_event, stream);
}

static void await_blocking(void *stream)
{
    (void)stream;
    cuda_event_synchronize(blocking_event);
}

static void close_blocking(void)
{
    cuda_event_close(blocking_event);
}

const cuda_notice *cuda_notice_at(size_t index)
{
    static const cuda_notice notices[] = {
        {"synchronize", false, do_nothing, post_nothing, await_synchronize, do_nothing},
        {"event-each", false, do_nothing, post_fresh, await_fresh, do_nothing},
        {"event-head", false, open_pool, post_pooled, await_pooled, close_pool},
        {"hostfn-eventfd", true, open_host_function, post_host_function, await_host_function,
         close_host_function},
        {"synchronize-asleep", true, open_blocking, post_blocking, await_blocking, close_blocking},
    };
    return index < sizeof notices / sizeof notices[0] ? &notices[index] : NULL;
}
