/* SPDX-License-Identifier: Apache-2.0 */
/* This program again, as a process of its own: begun by exec, as CUDA survives no fork. */
#include "bench/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS_MOST 32
#define STACKS_NS INT64_C(1500000000) /* for saying where its threads stand: bench/preload */
#define KILL_NS INT64_C(3000000000)   /* a process that the driver keeps from ending is left */

static void set_number(const char *name, int value)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", value);
    if ((value > 0 ? setenv(name, text, 1) : unsetenv(name)) != 0)
        bench_fail("cannot set an environment variable");
}

/* What the driver reads once, as it starts. The other GPUs cost time and are not asked. */
static void set_environment(const probe_case *which)
{
    set_number("CUDA_DEVICE_MAX_CONNECTIONS",
               which->connections > 0 ? which->connections : CONNECTIONS_MOST);
    set_number("CUDA_DEVICE_MAX_COPY_CONNECTIONS", which->copy_connections);
    if (setenv("CUDA_VISIBLE_DEVICES", "0", 0) != 0)
        bench_fail("cannot set an environment variable");
}

static void close_end(int file)
{
    if (file >= 0)
        (void)close(file);
}

/* The child's end is the one that is its `number`, 0 or 1. */
static void open_pipe(int ends[2], int number, posix_spawn_file_actions_t *actions)
{
    if (pipe2(ends, O_CLOEXEC) != 0 ||
        posix_spawn_file_actions_adddup2(actions, ends[number], number) != 0)
        bench_fail("cannot make a pipe to a child");
}

probe_child probe_child_start(const probe_case *which, bool has_in, bool has_out)
{
    probe_child child = {.in = -1, .out = -1};
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    pid_t pid;
    const char *words[8] = {"ferry_probe", "--child", which->name};
    size_t count = 3;
    if (probe.is_json)
        words[count++] = "--json";
    if (probe.is_smoke)
        words[count++] = "--smoke";
    words[count++] = "--device";
    words[count++] = probe.device;
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    if (has_in)
        open_pipe(in, STDIN_FILENO, &actions);
    if (has_out)
        open_pipe(out, STDOUT_FILENO, &actions);
    set_environment(which);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char **)words, environ) != 0)
        bench_fail("cannot start a child");
    (void)posix_spawn_file_actions_destroy(&actions);
    close_end(in[0]);
    close_end(out[1]);
    child.in = in[1];
    child.out = out[0];
    child.pid = pid;
    child.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (child.pidfd < 0)
        bench_fail("cannot watch a child");
    return child;
}

static bool has_ended(const probe_child *child, int64_t limit_ns)
{
    struct pollfd look = {.fd = child->pidfd, .events = POLLIN};
    int64_t end_ns = bench_now_ns() + limit_ns;
    for (;;) {
        int64_t left_ns = end_ns - bench_now_ns();
        if (poll(&look, 1, left_ns > 0 ? (int)(left_ns / 1000000 + 1) : 0) == 1)
            return true;
        if (left_ns <= 0)
            return false;
    }
}

static void tell_end(int state, int *status_p, char *how, size_t how_bytes)
{
    *status_p = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    if (WIFSIGNALED(state))
        (void)snprintf(how, how_bytes, "signal %d, %s", WTERMSIG(state),
                       strsignal(WTERMSIG(state)));
    else if (*status_p != 0)
        (void)snprintf(how, how_bytes, "status %d", *status_p);
    else
        how[0] = '\0';
}

bool probe_child_end(probe_child *child, int64_t limit_ns, int *status_p, char *how,
                     size_t how_bytes)
{
    int state = 0;
    bool is_in_time = has_ended(child, limit_ns);
    if (!is_in_time) {
        (void)kill(child->pid, SIGQUIT);
        if (!has_ended(child, STACKS_NS))
            (void)kill(child->pid, SIGKILL);
    }
    if (is_in_time || has_ended(child, KILL_NS))
        (void)waitpid(child->pid, &state, 0);
    tell_end(state, status_p, how, how_bytes);
    if (!is_in_time)
        (void)snprintf(how, how_bytes, "ended after %.1f s", (double)limit_ns / 1e9);
    (void)close(child->pidfd);
    close_end(child->in);
    close_end(child->out);
    return is_in_time && WIFEXITED(state);
}
