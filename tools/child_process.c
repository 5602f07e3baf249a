/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the others go on after one has failed: longer than their own goodbyes take. */
#define GRACE_S 15

static int start(child_process *child, const sigset_t *mask)
{
    pid_t parent = getpid();
    (void)fflush(stdout);
    (void)fflush(stderr);
    child->pid = fork();
    if (child->pid < 0) {
        fprintf(stderr, "ferry: starting %s: %s\n", child->name, strerror(errno));
        child->pid = 0;
        return EXIT_FAILURE;
    }
    if (child->pid > 0)
        return 0;
    /* The child dies with its parent, which may be gone already. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
    sigprocmask(SIG_SETMASK, mask, NULL);
    int result = child->run(child->arg);
    exit(result);
}

static void reap(child_process *child, int status)
{
    child->pid = 0;
    child->result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status))
        fprintf(stderr, "ferry: %s was ended by signal %d (%s)\n", child->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
}

static void tell_all(const child_process *children, int count, int number)
{
    for (int i = 0; i < count; i++) {
        if (children[i].pid > 0)
            (void)kill(children[i].pid, number);
    }
}

/*
 * Reaps all children that have ended. Returns how many still run. is_told: they were told to end,
 * or a signal came. Before that, one that a signal ended is the cause, though others can have
 * noticed and failed before it can be reaped.
 */
static int reap_all(child_process *children, int count, bool is_told, int *result_p)
{
    int running = 0;
    for (int i = 0; i < count; i++) {
        child_process *child = &children[i];
        int status = 0;
        if (child->pid > 0 && waitpid(child->pid, &status, WNOHANG) == child->pid) {
            reap(child, status);
            bool is_cause = !is_told && child->result > 128 && *result_p <= 128;
            if (*result_p == 0 || is_cause)
                *result_p = child->result;
        }
        running += child->pid > 0;
    }
    return running;
}

/* Waits for SIGCHLD as for the other signals, so none is lost between the look and the sleep. */
static int watch(child_process *children, int count, const sigset_t *signals)
{
    int result = 0;
    bool is_ending = false, is_told = false;
    struct timespec left = {.tv_sec = GRACE_S};
    while (reap_all(children, count, is_told, &result) > 0) {
        is_ending = is_ending || result != 0;
        siginfo_t info;
        int number = sigtimedwait(signals, &info, is_ending ? &left : NULL);
        if (number < 0 && errno == EAGAIN) {
            tell_all(children, count, SIGKILL);
            is_told = true;
            left.tv_sec = GRACE_S;
        } else if (number == SIGINT || number == SIGTERM) {
            is_told = true;
            /* A terminal sends the signal to all. */
            if (info.si_code != SI_KERNEL)
                tell_all(children, count, number);
            if (result == 0)
                result = 128 + number;
        }
    }
    return result;
}

int children_run(child_process *children, int count)
{
    sigset_t signals;
    sigset_t before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int result = 0;
    for (int i = 0; i < count && !result; i++)
        result = start(&children[i], &before);
    if (result)
        tell_all(children, count, SIGTERM);
    int watched = watch(children, count, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result ? result : watched;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

/*
 * Has a process of its own remove the folder when this process and its children have ended, in
 * whatever way: then the pipe has no writer any more.
 */
static void remove_at_end(const char *folder)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        (void)setsid();                           /* the terminal's interrupt must not reach it */
        (void)prctl(PR_SET_NAME, "ferry-folder"); /* tells it apart from the others */
        for (int fd = 0; fd <= 2; fd++)
            (void)close(fd);
        (void)close(ends[1]);
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            continue;
        (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        _exit(0);
    }
    (void)close(ends[0]); /* the other end is open while this process lives */
}

int child_folder_make(char folder[CHILD_FOLDER_BYTES])
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(folder, CHILD_FOLDER_BYTES, "%s/ferry-XXXXXX",
                          parent && *parent ? parent : "/tmp");
    if (length < CHILD_FOLDER_BYTES && mkdtemp(folder)) {
        remove_at_end(folder);
        return 0;
    }
    fprintf(stderr, "ferry: making a folder: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

void child_folder_remove(const char *folder)
{
    if (nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "ferry: removing %s: %s\n", folder, strerror(errno));
}
