/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/poller.h"
#include "tests/support/owned.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define LONG_NS (INT64_C(10000) * NS_PER_MS) /* far beyond what a test may take */

static fry_poller poller;

static void open_poller(void)
{
    cr_assert_eq(fry_poller_open(&poller), FERRY_OK);
}

static void close_poller(void)
{
    fry_poller_close(&poller);
}

TestSuite(base_poller, .init = open_poller, .fini = close_poller, .timeout = 30);

/* Whether somebody who watches epoll_fd with poll(2) would wake up now. */
static bool outside_sees_it(void)
{
    struct pollfd watched = {.fd = poller.epoll_fd, .events = POLLIN};
    int count = poll(&watched, 1, 0);
    cr_assert_geq(count, 0);
    return count == 1 && (watched.revents & POLLIN) != 0;
}

/* Sleeps outside until epoll_fd is readable, as a foreign loop does. */
static void outside_waits(void)
{
    struct pollfd watched = {.fd = poller.epoll_fd, .events = POLLIN};
    cr_assert_eq(poll(&watched, 1, 10000), 1);
}

Test(base_poller, descriptors_do_not_block_and_end_at_exec)
{
    int fds[] = {poller.epoll_fd, poller.event_fd, poller.timer_fd};
    for (size_t i = 0; i < 3; i++)
        cr_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
    cr_assert(fcntl(poller.event_fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(poller.timer_fd, F_GETFL) & O_NONBLOCK);
}

Test(base_poller, close_twice)
{
    int fd = poller.epoll_fd;
    fry_poller_close(&poller);
    cr_assert_eq(poller.epoll_fd, -1);
    cr_assert_eq(fcntl(fd, F_GETFD), -1);
    fry_poller_close(&poller);
}

Test(base_poller, open_that_fails_leaves_nothing_open)
{
    int lowest = dup(STDIN_FILENO);
    cr_assert_eq(close(lowest), 0);
    /* Room for none, one and two of its three descriptors. */
    for (int room = 0; room < 3; room++) {
        struct rlimit limit, tight;
        cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        tight = (struct rlimit){.rlim_cur = (rlim_t)(lowest + room), .rlim_max = limit.rlim_max};
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
        fry_poller refused;
        errno = 0;
        ferry_status status = fry_poller_open(&refused);
        int refused_errno = errno;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        cr_assert_eq(status, FERRY_E_SYSTEM);
        cr_assert_eq(refused_errno, EMFILE);
        cr_assert_eq(refused.epoll_fd, -1);
        cr_assert_eq(refused.event_fd, -1);
        cr_assert_eq(refused.timer_fd, -1);
        int next = dup(STDIN_FILENO);
        cr_assert_eq(next, lowest, "a descriptor was left open");
        cr_assert_eq(close(next), 0);
    }
}

Test(base_poller, looking_finds_nothing_and_times_out)
{
    cr_assert_not(outside_sees_it());
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    int64_t start_ns = fry_clock_monotonic_ns();
    cr_assert_eq(fry_poller_wait(&poller, 3 * NS_PER_MS), 0);
    cr_assert_geq(fry_clock_monotonic_ns() - start_ns, 3 * NS_PER_MS);
}

Test(base_poller, waits_shorter_than_a_millisecond)
{
    /* Until one is, as a busy machine lengthens some; if none ever is, it hangs. */
    int64_t took_ns;
    do {
        int64_t start_ns = fry_clock_monotonic_ns();
        cr_assert_eq(fry_poller_wait(&poller, 20000), 0);
        took_ns = fry_clock_monotonic_ns() - start_ns;
        cr_assert_geq(took_ns, 20000);
    } while (took_ns >= NS_PER_MS);
}

Test(base_poller, a_wake_between_waits_is_not_lost_and_ends_one_wait)
{
    for (int round = 0; round < 100; round++) {
        fry_poller_wake(&poller);
        cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
        cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    }
    fry_poller_wake(&poller);
    fry_poller_wake(&poller);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1, "two wakes are one");
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
}

Test(base_poller, the_outside_sees_a_wake_until_the_wait_has_taken_it)
{
    for (int round = 0; round < 3; round++) {
        cr_assert_not(outside_sees_it());
        fry_poller_wake(&poller);
        for (int i = 0; i < 3; i++)
            cr_assert(outside_sees_it(), "poll itself must not use it up");
        cr_assert_eq(fry_poller_wait(&poller, 0), 1);
    }
    cr_assert_not(outside_sees_it());
}

Test(base_poller, a_nested_epoll_sees_it_level_triggered)
{
    int outer = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    cr_assert_eq(epoll_ctl(outer, EPOLL_CTL_ADD, poller.epoll_fd, &event), 0);
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(epoll_wait(outer, &event, 1, 0), 0);
        fry_poller_wake(&poller);
        cr_assert_eq(epoll_wait(outer, &event, 1, 0), 1);
        cr_assert_eq(epoll_wait(outer, &event, 1, 0), 1);
        cr_assert_eq(fry_poller_wait(&poller, 0), 1);
    }
    cr_assert_eq(epoll_wait(outer, &event, 1, 0), 0);
    cr_assert_eq(close(outer), 0);
}

/* docs/design.md counts which pollers may lie in one another. */
Test(base_poller, the_kernel_nests_five_deep)
{
    int fds[6] = {poller.event_fd};
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = 1; i < 6; i++) {
        fds[i] = epoll_create1(EPOLL_CLOEXEC);
        cr_assert_eq(epoll_ctl(fds[i], EPOLL_CTL_ADD, fds[i - 1], &event), 0, "%d deep", i);
    }
    int sixth = epoll_create1(EPOLL_CLOEXEC);
    cr_assert_neq(epoll_ctl(sixth, EPOLL_CTL_ADD, fds[5], &event), 0);
    (void)close(sixth);
    for (int i = 1; i < 6; i++)
        (void)close(fds[i]);
}

Test(base_poller, wakes_when_the_counter_is_full)
{
    cr_assert_eq(eventfd_write(poller.event_fd, UINT64_MAX - 1), 0);
    cr_assert_eq(fry_poller_wait(&poller, 0), 1);
    cr_assert_eq(eventfd_write(poller.event_fd, 1), -1, "the counter is not full");
    errno = ENOSPC;
    fry_poller_wake(&poller);
    cr_assert_eq(errno, ENOSPC, "a wake keeps errno");
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    fry_poller_wake(&poller);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
}

Test(base_poller, the_timer_expires_on_time_and_is_off_then)
{
    for (int round = 0; round < 3; round++) {
        int64_t when_ns = fry_clock_monotonic_ns() + 2 * NS_PER_MS;
        fry_poller_set_timer(&poller, when_ns);
        cr_assert_eq(poller.timer_ns, when_ns);
        cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
        cr_assert_geq(fry_clock_monotonic_ns(), when_ns);
        cr_assert_eq(poller.timer_ns, 0);
        cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    }
}

Test(base_poller, an_expired_time_can_be_set_again)
{
    int64_t when_ns = fry_clock_monotonic_ns() + NS_PER_MS;
    for (int round = 0; round < 3; round++) {
        fry_poller_set_timer(&poller, when_ns); /* in the past from the second round on */
        cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    }
    fry_poller_set_timer(&poller, 1);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    fry_poller_set_timer(&poller, -5);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
}

Test(base_poller, a_timer_that_was_switched_off_or_moved_is_silent)
{
    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + NS_PER_MS);
    fry_poller_set_timer(&poller, 0);
    cr_assert_eq(fry_poller_wait(&poller, 3 * NS_PER_MS), 0);

    /* Also when it has expired before it is switched off, or moved. */
    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + NS_PER_MS);
    outside_waits();
    fry_poller_set_timer(&poller, 0);
    cr_assert_not(outside_sees_it());
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);

    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + NS_PER_MS);
    outside_waits();
    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + LONG_NS);
    cr_assert_not(outside_sees_it());
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + NS_PER_MS);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
}

Test(base_poller, the_outside_sees_an_expiry_until_the_wait_has_taken_it)
{
    for (int round = 0; round < 3; round++) {
        int64_t when_ns = fry_clock_monotonic_ns() + NS_PER_MS;
        fry_poller_set_timer(&poller, when_ns);
        outside_waits();
        cr_assert(outside_sees_it());
        fry_poller_set_timer(&poller, when_ns); /* nothing changes: the expiry stays */
        cr_assert(outside_sees_it());
        cr_assert_eq(fry_poller_wait(&poller, 0), 1);
        cr_assert_not(outside_sees_it());
    }
}

Test(base_poller, setting_the_same_time_makes_no_system_call)
{
    int64_t when_ns = fry_clock_monotonic_ns() + LONG_NS;
    fry_poller_set_timer(&poller, when_ns);
    int timer_fd = poller.timer_fd;
    poller.timer_fd = -1; /* a call fails, shows in errno and leaves timer_ns as it is */
    errno = 0;
    fry_poller_set_timer(&poller, when_ns);
    cr_assert_eq(errno, 0, "a system call was made");
    cr_assert_eq(poller.timer_ns, when_ns);
    fry_poller_set_timer(&poller, when_ns + 1);
    cr_assert_eq(errno, EBADF, "a different time does make the call");
    cr_assert_eq(poller.timer_ns, when_ns);
    poller.timer_fd = timer_fd;
}

/* A watch on a pipe of its own that reads what comes. */
typedef struct piped_watch {
    fry_watch watch; /* first */
    int write_fd;
    int calls;
    uint32_t events;
    fry_watch *removes; /* taken away when called, with its memory made useless */
    int64_t sets_timer_ns;
} piped_watch;

static void on_pipe(fry_watch *watch, uint32_t events)
{
    piped_watch *piped = (piped_watch *)watch;
    piped->calls++;
    piped->events = events;
    char byte;
    if ((events & EPOLLIN) != 0)
        cr_assert_eq(read(watch->fd, &byte, 1), 1);
    if (piped->sets_timer_ns != 0)
        fry_poller_set_timer(&poller, piped->sets_timer_ns);
    if (piped->removes != NULL) {
        fry_poller_remove(&poller, piped->removes);
        piped->removes->fn = NULL; /* a call through it would crash */
    }
}

static void piped_watch_open(piped_watch *piped)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    *piped = (piped_watch){.watch = {.fd = ends[0], .fn = on_pipe}, .write_fd = ends[1]};
    cr_assert_eq(fry_poller_add(&poller, &piped->watch, EPOLLIN), FERRY_OK);
}

static void piped_watch_close(piped_watch *piped)
{
    cr_assert_eq(close(piped->watch.fd), 0);
    (void)close(piped->write_fd);
}

static void piped_watch_poke(piped_watch *piped)
{
    cr_assert_eq(write(piped->write_fd, "x", 1), 1);
}

Test(base_poller, a_watch_is_called_while_it_is_added)
{
    OWNED(piped_watch_close) piped_watch piped;
    piped_watch_open(&piped);
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    piped_watch_poke(&piped);
    cr_assert(outside_sees_it());
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    cr_assert_eq(piped.calls, 1);
    cr_assert_eq(piped.events, EPOLLIN);
    cr_assert_not(outside_sees_it());

    fry_poller_remove(&poller, &piped.watch);
    piped_watch_poke(&piped);
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    cr_assert_eq(piped.calls, 1);
}

Test(base_poller, a_watch_for_one_event_is_called_once_each_time_it_is_asked_for)
{
    OWNED(piped_watch_close) piped_watch piped;
    piped_watch_open(&piped);
    cr_assert_eq(fry_poller_change(&poller, &piped.watch, 0), FERRY_OK);
    piped_watch_poke(&piped);
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    cr_assert_not(outside_sees_it());
    for (int i = 1; i <= 2; i++) {
        /* It is readable already. */
        cr_assert_eq(fry_poller_change(&poller, &piped.watch, EPOLLIN | EPOLLONESHOT), FERRY_OK);
        cr_assert(outside_sees_it());
        cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
        cr_assert_eq(piped.calls, i);
        cr_assert_not(outside_sees_it());
        piped_watch_poke(&piped);
        cr_assert_eq(fry_poller_wait(&poller, 0), 0);
        cr_assert_eq(piped.calls, i);
    }
    fry_poller_remove(&poller, &piped.watch);
    cr_assert_eq(fry_poller_change(&poller, &piped.watch, EPOLLIN), FERRY_E_SYSTEM);
}

Test(base_poller, a_hang_up_is_told)
{
    OWNED(piped_watch_close) piped_watch piped;
    piped_watch_open(&piped);
    cr_assert_eq(close(piped.write_fd), 0);
    piped.write_fd = -1;
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    cr_assert_eq(piped.events, EPOLLHUP);
    fry_poller_remove(&poller, &piped.watch);
}

Test(base_poller, what_cannot_be_watched_is_refused)
{
    fry_watch nothing = {.fd = -1, .fn = on_pipe};
    errno = 0;
    cr_assert_eq(fry_poller_add(&poller, &nothing, EPOLLIN), FERRY_E_SYSTEM);
    cr_assert_eq(errno, EBADF);
}

Test(base_poller, one_of_two_ready_watches_removes_the_other)
{
    piped_watch first, second;
    piped_watch_open(&first);
    piped_watch_open(&second);
    first.removes = &second.watch; /* whichever is called first removes the other */
    second.removes = &first.watch;
    piped_watch_poke(&first);
    piped_watch_poke(&second);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 2);
    cr_assert_eq(first.calls + second.calls, 1);
    piped_watch *left = first.calls == 1 ? &first : &second;
    left->removes = NULL;
    piped_watch_poke(left);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    cr_assert_eq(first.calls + second.calls, 2);
    fry_poller_remove(&poller, &left->watch);
    piped_watch_close(&first);
    piped_watch_close(&second);
}

Test(base_poller, a_watch_removes_itself)
{
    OWNED(piped_watch_close) piped_watch piped;
    piped_watch_open(&piped);
    piped.removes = &piped.watch;
    piped_watch_poke(&piped);
    piped_watch_poke(&piped);
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 1);
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    cr_assert_eq(piped.calls, 1);
}

Test(base_poller, a_timer_set_by_a_watch_beside_an_expiry_is_not_forgotten)
{
    OWNED(piped_watch_close) piped_watch piped;
    piped_watch_open(&piped);
    piped_watch_poke(&piped); /* on the ready list before the timer */
    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + NS_PER_MS);
    struct pollfd timer = {.fd = poller.timer_fd, .events = POLLIN};
    cr_assert_eq(poll(&timer, 1, 10000), 1);
    piped.sets_timer_ns = fry_clock_monotonic_ns() + LONG_NS;
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 2);
    cr_assert_eq(poller.timer_ns, piped.sets_timer_ns);
    fry_poller_remove(&poller, &piped.watch);
}

Test(base_poller, many_ready_watches_are_all_called)
{
    enum { COUNT = 150 }; /* more than one batch */
    static piped_watch piped[COUNT];
    for (int i = 0; i < COUNT; i++) {
        piped_watch_open(&piped[i]);
        piped_watch_poke(&piped[i]);
    }
    int events = 0;
    for (int waits = 0; waits < 10 && events < COUNT; waits++)
        events += fry_poller_wait(&poller, 0);
    cr_assert_eq(events, COUNT);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(piped[i].calls, 1);
        fry_poller_remove(&poller, &piped[i].watch);
        piped_watch_close(&piped[i]);
    }
}

static void *wake_it(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        sched_yield(); /* so that the loop is likely asleep */
    fry_poller_wake(&poller);
    return NULL;
}

Test(base_poller, another_thread_wakes_a_wait_for_ever)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, wake_it, NULL), 0);
    cr_assert_eq(fry_poller_wait(&poller, -1), 1);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void on_alarm(int number)
{
    (void)number;
}

Test(base_poller, a_signal_ends_a_wait_with_nothing)
{
    struct sigaction action = {.sa_handler = on_alarm};
    cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
    cr_assert_eq(ualarm(5000, 5000), 0); /* repeated: the first may come before the wait */
    cr_assert_eq(fry_poller_wait(&poller, LONG_NS), 0);
    (void)ualarm(0, 0);
}

Test(base_poller, a_broken_poller_says_so)
{
    int epoll_fd = poller.epoll_fd;
    poller.epoll_fd = -1;
    errno = 0;
    cr_assert_eq(fry_poller_wait(&poller, 0), -1);
    cr_assert_eq(errno, EBADF);
    poller.epoll_fd = epoll_fd;
}

/* From here on the kernel answers epoll_pwait2 with an error, as an old kernel or a sandbox does.
 */
static void refuse_epoll_pwait2(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    errno = 0;
    cr_assert_eq(syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 0), -1);
    cr_assert_eq(errno, error);
}

static void assert_works_in_milliseconds(void)
{
    cr_assert_eq(fry_poller_wait(&poller, 0), 0);
    int64_t start_ns = fry_clock_monotonic_ns();
    int64_t timeout_ns = 2 * NS_PER_MS + 900000;
    cr_assert_eq(fry_poller_wait(&poller, timeout_ns), 0);
    cr_assert_geq(fry_clock_monotonic_ns() - start_ns, timeout_ns, "rounded down");
    fry_poller_wake(&poller);
    cr_assert_eq(fry_poller_wait(&poller, INT64_MAX), 1);
    fry_poller_set_timer(&poller, fry_clock_monotonic_ns() + NS_PER_MS);
    cr_assert_eq(fry_poller_wait(&poller, -1), 1);
}

Test(base_poller, works_on_a_kernel_without_epoll_pwait2)
{
    refuse_epoll_pwait2(ENOSYS);
    assert_works_in_milliseconds();
}

Test(base_poller, works_in_a_sandbox_without_epoll_pwait2)
{
    refuse_epoll_pwait2(EPERM);
    assert_works_in_milliseconds();
}
