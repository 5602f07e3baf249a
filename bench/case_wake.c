/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake: from a submit on another thread until the callback runs on the loop. `asleep`: before each
 * round the kernel has said that the loop's thread sleeps. Its rival is half a round trip of two
 * eventfds between two threads that block in epoll and read, prepared in the same way; rounds
 * alternate. The waking thread is pinned to one CPU and both sleepers to another: waking on the
 * same CPU is a plain switch, on another an interrupt, ten times as long on a virtual machine, and
 * left to itself the scheduler gives one to ferry and the other to its rival, now so, now so.
 * `spinning`: the loop is still looking.
 */
#include "bench/bench.h"
#include "bench/procfs.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SETTLE_NS 20000 /* after the kernel says "sleeps", before the round starts */
#define PACE_NS 10000   /* between rounds with a spinning loop */

/* Where the callback leaves what it saw. */
typedef struct wake_round {
    int64_t called_ns;
    pid_t loop_thread;
    int done_fd; /* eventfd written by the callback, or -1 */
    int is_done; /* atomic */
} wake_round;

static void signal_fd(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one)
        bench_fail("cannot write an eventfd");
}

static void take_fd(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) != sizeof count)
        bench_fail("cannot read an eventfd");
}

static int open_event_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0)
        bench_fail("cannot make an eventfd");
    return fd;
}

static void on_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    int64_t now_ns = bench_now_ns();
    wake_round *round = waiter->arg;
    bench_check(status, "wake: nop");
    round->called_ns = now_ns;
    round->loop_thread = gettid();
    __atomic_store_n(&round->is_done, 1, __ATOMIC_RELEASE);
    if (round->done_fd >= 0)
        signal_fd(round->done_fd);
}

/*
 * One submit; returns when its callback has run: asleep on done_fd, or spinning without one. The
 * waiter is the caller's since the callback may still be returning; it must be another one than in
 * the round before.
 */
static double wake_once_ns(ferry_engine *engine, wake_round *round, ferry_waiter *waiter)
{
    *waiter = (ferry_waiter)FERRY_WAITER_INIT(on_ready, round);
    __atomic_store_n(&round->is_done, 0, __ATOMIC_RELAXED);
    int64_t start_ns = bench_now_ns();
    ferry_future *nop = ferry_nop(engine, NULL);
    bench_check(ferry_future_on_ready(nop, waiter), "ferry_future_on_ready");
    if (round->done_fd >= 0)
        take_fd(round->done_fd);
    else
        while (__atomic_load_n(&round->is_done, __ATOMIC_ACQUIRE) == 0)
            continue;
    ferry_future_release(nop);
    return (double)(round->called_ns - start_ns);
}

/* The rival's other end: woken by epoll, like a loop, it answers at once. */
typedef struct bare_peer {
    pthread_t thread;
    pid_t id; /* atomic; 0 until it runs */
    int request_fd;
    int answer_fd;
    int is_ending; /* atomic */
} bare_peer;

static void *bare_peer_main(void *arg)
{
    bare_peer *peer = arg;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, peer->request_fd, &event) != 0)
        bench_fail("cannot make an epoll descriptor");
    __atomic_store_n(&peer->id, gettid(), __ATOMIC_RELEASE);
    while (__atomic_load_n(&peer->is_ending, __ATOMIC_ACQUIRE) == 0) {
        if (epoll_wait(epoll_fd, &event, 1, -1) != 1)
            continue;
        take_fd(peer->request_fd);
        signal_fd(peer->answer_fd);
    }
    (void)close(epoll_fd);
    return NULL;
}

static void bare_peer_open(bare_peer *peer)
{
    *peer = (bare_peer){.request_fd = open_event_fd(), .answer_fd = open_event_fd()};
    if (pthread_create(&peer->thread, NULL, bare_peer_main, peer) != 0)
        bench_fail("cannot start a thread");
    while (__atomic_load_n(&peer->id, __ATOMIC_ACQUIRE) == 0)
        bench_spin_ns(PACE_NS);
}

static double bare_once_ns(bare_peer *peer)
{
    int64_t start_ns = bench_now_ns();
    signal_fd(peer->request_fd);
    take_fd(peer->answer_fd);
    return (double)(bench_now_ns() - start_ns) / 2;
}

static void bare_peer_close(bare_peer *peer)
{
    __atomic_store_n(&peer->is_ending, 1, __ATOMIC_RELEASE);
    (void)bare_once_ns(peer);
    (void)pthread_join(peer->thread, NULL);
    (void)close(peer->request_fd);
    (void)close(peer->answer_fd);
}

static void settle(pid_t thread)
{
    bench_thread_await_sleep(thread);
    bench_spin_ns(SETTLE_NS);
}

static void run_asleep(int rounds)
{
    ferry_engine *engine = bench_engine_open(NULL);
    wake_round round = {.done_fd = open_event_fd()};
    ferry_waiter waiters[2];
    bare_peer peer;
    bare_peer_open(&peer);
    (void)wake_once_ns(engine, &round, &waiters[1]); /* tells the loop's thread */
    cpu_set_t allowed = bench_cpus_allowed();
    bench_thread_pin(0, &allowed, 0);
    bench_thread_pin(round.loop_thread, &allowed, 1);
    bench_thread_pin(peer.id, &allowed, 1);
    bench_samples ferry = {0};
    bench_samples bare = {0};
    bench_samples ratio = {0};
    for (int i = 0; i < rounds; i++) {
        settle(round.loop_thread);
        double ferry_ns = wake_once_ns(engine, &round, &waiters[i % 2]);
        settle(peer.id);
        double bare_ns = bare_once_ns(&peer);
        bench_samples_add(&ferry, ferry_ns);
        bench_samples_add(&bare, bare_ns);
    }
    bench_samples_add(&ratio,
                      bench_samples_quantile(&ferry, 0.5) / bench_samples_quantile(&bare, 0.5));
    bench_report((bench_key){"wake", "asleep", "latency_ns", ""}, &ferry);
    bench_report((bench_key){"wake", "asleep", "latency_ns", "eventfd"}, &bare);
    bench_report((bench_key){"wake", "asleep", "ratio", "eventfd"}, &ratio);
    bench_samples_free(&ferry);
    bench_samples_free(&bare);
    bench_samples_free(&ratio);
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    bare_peer_close(&peer);
    bench_engine_close(engine);
    (void)close(round.done_fd);
}

static void run_spinning(int rounds)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.spin_ns = 1000000000;
    ferry_engine *engine = bench_engine_open(&options);
    wake_round round = {.done_fd = -1};
    ferry_waiter waiters[2];
    bench_samples ferry = {0};
    for (int i = -rounds / 10; i < rounds; i++) {
        bench_spin_ns(PACE_NS);
        double ferry_ns = wake_once_ns(engine, &round, &waiters[i & 1]);
        if (i >= 0)
            bench_samples_add(&ferry, ferry_ns);
    }
    bench_report((bench_key){"wake", "spinning", "latency_ns", ""}, &ferry);
    bench_samples_free(&ferry);
    bench_engine_close(engine);
}

void bench_wake(bool is_quick)
{
    run_asleep(is_quick ? 1000 : 5000);
    run_spinning(is_quick ? 5000 : 20000);
}
