/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a path that other processes may want too.
 *
 * bind makes the file, and fails if there is one, so of two processes one gets it. What is there
 * may be left from a process that is gone: then nobody takes a connection. To remove it by its name
 * could remove what another process has put in its place since the look. So the file is renamed,
 * and looked at again: if it is not the one that was looked at, it gets its name back.
 *
 * A socket that is bound and does not listen yet looks as one that was left. So whoever listens
 * connects to the path before it believes that it has it, and the kernel says which process takes
 * connections there. If it is another, that one has the path.
 */
#include "engine/observe/stats_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 16
#define TRIES 8 /* files that others leave in its way meanwhile */
#define ASIDE_EXTRA_BYTES 32

/* Who takes connections at the path. */
typedef enum owner { OWNER_NONE, OWNER_LEFT, OWNER_ALIVE, OWNER_ERROR } owner;

static int fail(fry_fault *fault, ferry_status status, int error, const char *why)
{
    *fault = (fry_fault){
        .status = status, .rank = -1, .native_code = error, .domain = error != 0 ? "errno" : NULL};
    (void)snprintf(fault->message, sizeof fault->message, "the socket for figures: %s%s%s", why,
                   error != 0 ? ": " : "", error != 0 ? strerrordesc_np(error) : "");
    return -1;
}

static bool set_address(struct sockaddr_un *address, const char *path)
{
    size_t length = strlen(path);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length == 0 || length >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, length + 1);
    return true;
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Keeps errno. */
static void close_quietly(int fd)
{
    int error = errno;
    (void)close(fd);
    errno = error;
}

/* Connects to the path, for a moment. *pid_p: the process that listens there, if it can be told. */
static owner look(const fry_stats_path *at, pid_t *pid_p)
{
    struct ucred peer = {0};
    socklen_t peer_bytes = sizeof peer;
    owner found = OWNER_ERROR;
    int fd = open_socket();
    if (fd < 0)
        return OWNER_ERROR;
    if (connect(fd, (const struct sockaddr *)&at->address, sizeof at->address) == 0)
        found = OWNER_ALIVE;
    else if (errno == EAGAIN) /* its queue is full */
        found = OWNER_ALIVE;
    else if (errno == ECONNREFUSED)
        found = OWNER_LEFT;
    else if (errno == ENOENT)
        found = OWNER_NONE;
    if (found == OWNER_ALIVE && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0)
        *pid_p = peer.pid;
    close_quietly(fd);
    return found;
}

/* The time of the last change of its mode or owner, ctime, changes with its name. */
static bool is_same(const struct stat *left, const struct stat *right)
{
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino &&
           left->st_mtim.tv_sec == right->st_mtim.tv_sec &&
           left->st_mtim.tv_nsec == right->st_mtim.tv_nsec;
}

/* Removes the file that was looked at, and no other. */
static bool remove_left(const char *path, const struct stat *looked_at)
{
    char aside[sizeof(((struct sockaddr_un *)0)->sun_path) + ASIDE_EXTRA_BYTES];
    struct stat taken;
    (void)snprintf(aside, sizeof aside, "%s.%ld.left", path, (long)getpid());
    if (rename(path, aside) != 0)
        return errno == ENOENT;
    if (lstat(aside, &taken) == 0 && !is_same(&taken, looked_at))
        (void)link(aside, path);
    return unlink(aside) == 0;
}

/* What is in the way of bind: 0 when it is gone, -1 with the fault when it stays. */
static int clear(const fry_stats_path *at, fry_fault *fault)
{
    struct stat there;
    pid_t pid;
    if (lstat(at->address.sun_path, &there) != 0)
        return errno == ENOENT ? 0 : fail(fault, FERRY_E_SYSTEM, errno, "its path");
    if (!S_ISSOCK(there.st_mode))
        return fail(fault, FERRY_E_SYSTEM, EEXIST, "its path names a file that is no socket");
    switch (look(at, &pid)) {
    case OWNER_NONE:
        return 0;
    case OWNER_ALIVE:
        return fail(fault, FERRY_E_BUSY, 0, "a living process serves its path");
    case OWNER_LEFT:
        if (remove_left(at->address.sun_path, &there))
            return 0;
        return fail(fault, FERRY_E_SYSTEM, errno, "one that was left can't be removed");
    case OWNER_ERROR:
        break;
    }
    return fail(fault, FERRY_E_SYSTEM, errno, "what is at its path can't be reached");
}

/* A file of the mode that the socket has: it is never there with another. */
static bool bind_for_user(int fd, const fry_stats_path *at)
{
    return fchmod(fd, S_IRUSR | S_IWUSR) == 0 &&
           bind(fd, (const struct sockaddr *)&at->address, sizeof at->address) == 0;
}

int fry_stats_path_listen(fry_stats_path *at, const char *path, fry_fault *fault)
{
    if (!set_address(&at->address, path))
        return fail(fault, FERRY_E_INVALID, 0, "its path has 1 to 107 bytes");
    int fd = open_socket();
    if (fd < 0)
        return fail(fault, FERRY_E_SYSTEM, errno, "the system has none");
    for (int tries = 0; !bind_for_user(fd, at); tries++) {
        if (errno != EADDRINUSE || tries == TRIES) {
            (void)fail(fault, FERRY_E_SYSTEM, errno, "it can't be made at its path");
            goto err_fd;
        }
        if (clear(at, fault) != 0)
            goto err_fd;
    }
    pid_t pid = 0;
    if (listen(fd, BACKLOG) != 0) {
        (void)fail(fault, FERRY_E_SYSTEM, errno, "nobody can connect");
        (void)unlink(path);
        goto err_fd;
    }
    if (look(at, &pid) != OWNER_ALIVE || pid != getpid() || lstat(path, &at->own) != 0) {
        (void)fail(fault, FERRY_E_BUSY, 0, "another process takes its path at this moment");
        goto err_fd;
    }
    at->absolute = realpath(path, NULL);
    return fd;

err_fd:
    (void)close(fd);
    return -1;
}

void fry_stats_path_leave(fry_stats_path *at)
{
    const char *path = at->absolute != NULL ? at->absolute : at->address.sun_path;
    struct stat there;
    if (lstat(path, &there) == 0 && is_same(&there, &at->own))
        (void)unlink(path);
    free(at->absolute);
    at->absolute = NULL;
}
