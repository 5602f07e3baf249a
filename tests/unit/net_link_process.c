/* SPDX-License-Identifier: Apache-2.0 */
/* A member that is a process of its own, and is killed. */
#include "tests/support/place.h"
#include "tests/unit/link_rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Swaps endpoints with the other process, and who this is. */
static void introduce(int fd, rig_member *self, rig_member *other)
{
    cr_assert_eq(send(fd, self->endpoint, FRY_ENDPOINT_BYTES, 0), FRY_ENDPOINT_BYTES);
    cr_assert_eq(recv(fd, other->endpoint, FRY_ENDPOINT_BYTES, MSG_WAITALL), FRY_ENDPOINT_BYTES);
}

/* Is killed. */
static void live(int fd, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    rig_open(&high, 5, 20, &rig_usual);
    low.rank = 2;
    low.incarnation = 10;
    introduce(fd, &high, &low);
    rig_meet(&high, &low);
    for (;;) {
        (void)driven_reactor_run(&high.reactor, 1000000);
        if (high.ended > 0 && high.channel != NULL)
            rig_end_connection(&high);
        rig_step_ns(1000000);
    }
}

static pid_t start(int *fd_p)
{
    int fds[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    const pid_t parent = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        close(fds[0]);
        live(fds[1], parent);
    }
    close(fds[1]);
    *fd_p = fds[0];
    rig_open(&low, 2, 10, &rig_usual);
    high.rank = 5;
    high.incarnation = 20;
    introduce(fds[0], &low, &high);
    rig_meet(&low, &high);
    return pid;
}

/* A process that does nothing, until it is killed. */
static pid_t start_idle(void)
{
    const pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    return pid;
}

static void stop(pid_t pid)
{
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static void need_processes(void)
{
    PLACE_NEEDS(place_lacks_this_host);
}

TestSuite(net_link_process, .init = need_processes, .fini = rig_close_all);

Test(net_link_process, killed_with_a_connection)
{
    int fd = -1;
    const pid_t pid = start(&fd);

    fry_link_want(low.link, 0);
    RIG_UNTIL(low.channel != NULL);
    cr_assert(fry_link_is_local(low.link));
    cr_assert_eq(low.channel->channel.path, FRY_PATH_SHARED);
    stop(pid);
    RIG_UNTIL(low.died == 1);
    rig_step_ns(INT64_C(10000000000));
    rig_rest();
    cr_assert_eq(low.ended, 0, "died says more");
    cr_assert_eq(low.died, 1);
    rig_end_connection(&low);
    fry_link_want(low.link, 0);
    RIG_UNTIL(low.failed == 1);
    cr_assert_eq(low.fault.status, FERRY_E_DEAD);
    cr_assert_eq(low.fault.rank, 5);
    close(fd);
}

Test(net_link_process, killed_after_its_connection)
{
    int fd = -1;
    const pid_t pid = start(&fd);

    fry_link_want(low.link, 0);
    RIG_UNTIL(low.channel != NULL);
    rig_end_connection(&low);
    rig_rest();
    cr_assert_eq(low.died, 0);
    stop(pid);
    RIG_UNTIL(low.died == 1);
    close(fd);
}

/* Its port has gone with it, and nobody has looked at the process before. */
Test(net_link_process, killed_before)
{
    int fd = -1;
    const pid_t pid = start(&fd);

    stop(pid);
    fry_link_want(low.link, rig_now_ns() + INT64_C(20000000));
    rig_rest();
    rig_step_ns(INT64_C(20000000));
    RIG_UNTIL(low.failed == 1);
    cr_assert_eq(low.died, 0);
    cr_assert_eq(low.fault.status, FERRY_E_PEER);
    close(fd);
}

/* Stopped: nothing is told of it, whatever the time; then it goes on. */
Test(net_link_process, stopped)
{
    int fd = -1;
    const pid_t pid = start(&fd);

    fry_link_want(low.link, 0);
    RIG_UNTIL(low.channel != NULL);
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    rig_step_ns(INT64_C(100000000000));
    rig_rest();
    cr_assert_eq(low.ended + low.died + low.failed, 0);
    rig_end_connection(&low);
    cr_assert_eq(kill(pid, SIGCONT), 0);
    for (int turn = 0; low.channel == NULL; turn++) {
        if (low.link->state == FRY_LINK_IDLE)
            fry_link_want(low.link, 0);
        rig_rest();
        rig_step_ns(INT64_C(10000000));
        cr_assert_lt(turn, 100000);
    }
    stop(pid);
    RIG_UNTIL(low.died == 1);
    close(fd);
}

Test(net_link_process, numbers_that_come_again)
{
    int fd = -1;
    const pid_t pid = start_idle();
    const uint64_t started = fry_process_started(pid);
    cr_assert_gt(started, 0);
    cr_assert_eq(fry_process_watch(pid, started + 1, &fd), FRY_PROCESS_GONE);
    cr_assert_eq(fry_process_watch(pid, started, &fd), FRY_PROCESS_WATCHED);
    close(fd);
    stop(pid);
    cr_assert_eq(fry_process_watch(pid, started, &fd), FRY_PROCESS_GONE);
    cr_assert_eq(fry_process_watch(getpid(), fry_process_started(getpid()), &fd),
                 FRY_PROCESS_IS_OWN);
    cr_assert_eq(fry_process_started(0x3fffffff), 0);
}

/* Who can't be looked at has not ended: /proc takes a descriptor. */
Test(net_link_process, that_can_t_be_looked_at)
{
    int fd = -1;
    struct rlimit limit;
    const pid_t pid = start_idle();
    const uint64_t started = fry_process_started(pid);
    cr_assert_eq(fry_process_look(pid, started), FRY_PROCESS_RUNS);
    const int next = dup(0); /* what the next descriptor would be */
    close(next);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {(rlim_t)next, limit.rlim_max};
    const struct rlimit one = {(rlim_t)next + 1, limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cr_expect_eq(fry_process_look(pid, started), FRY_PROCESS_UNKNOWN);
    cr_expect_not(fry_process_is_ending(pid, started));
    cr_expect_eq(fry_process_watch(pid, started, &fd), FRY_PROCESS_UNWATCHED);
    cr_expect_eq(fry_process_watch(getpid(), 1, &fd), FRY_PROCESS_IS_OWN);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &one), 0); /* one for the pidfd, none for /proc */
    cr_expect_eq(fry_process_watch(pid, started, &fd), FRY_PROCESS_UNWATCHED);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    stop(pid);
    cr_expect_eq(fry_process_look(pid, started), FRY_PROCESS_ENDED);
    cr_expect_eq(fry_process_watch(pid, started, &fd), FRY_PROCESS_GONE);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void *run_on(void *arg)
{
    (void)arg;
    for (;;)
        (void)pause();
    return NULL;
}

/* A program's first thread may end while others go on: the kernel calls it a zombie. */
Test(net_link_process, whose_first_thread_has_ended)
{
    const pid_t pid = fork();

    if (pid == 0) {
        pthread_t thread;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pthread_create(&thread, NULL, run_on, NULL) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    const uint64_t started = fry_process_started(pid);
    while (fry_process_look(pid, started) == FRY_PROCESS_RUNS)
        (void)sched_yield();
    cr_expect_eq(fry_process_look(pid, started), FRY_PROCESS_ENDING);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_expect_eq(fry_process_look(pid, started), FRY_PROCESS_ENDED);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* Its sockets are closed before the kernel is done with it: what they tell is asked for then. */
Test(net_link_process, ending)
{
    int fds[2];
    char byte;

    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    const pid_t pid = start_idle();
    close(fds[1]);
    const uint64_t started = fry_process_started(pid);
    cr_assert_not(fry_process_is_ending(pid, started));
    cr_assert(fry_process_is_ending(pid, started + 1));
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(read(fds[0], &byte, 1), 0, "it has closed its end");
    cr_assert(fry_process_is_ending(pid, started));
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_assert(fry_process_is_ending(pid, started));
    close(fds[0]);
}
