/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stats_client.h"

#include "tools/trace_text.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 15000
#define FULL_QUEUE_MS 20 /* between two tries to connect */
#define FIRST_BYTES ((size_t)16 << 10)
#define MAX_BYTES ((size_t)128 << 20)

/* One question. Its functions say what is wrong in `problem`. */
typedef struct question {
    const char *path;
    int fd, stop_fd;
    int64_t end_ms;
    char *problem;
    char *bytes; /* the answer so far */
    size_t used_bytes, room_bytes;
} question;

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static __attribute__((format(printf, 3, 4))) stats_result fail(question *at, stats_result result,
                                                               const char *format, ...)
{
    va_list arguments;
    int used = snprintf(at->problem, STATS_PROBLEM_BYTES, "%s: ", at->path);
    if (used < 0 || used >= STATS_PROBLEM_BYTES)
        return result;
    va_start(arguments, format);
    (void)vsnprintf(at->problem + used, (size_t)(STATS_PROBLEM_BYTES - used), format, arguments);
    va_end(arguments);
    return result;
}

static stats_result fail_errno(question *at, const char *doing)
{
    return fail(at, STATS_FAILED, "%s: %s", doing, strerror(errno));
}

/* Waits for the descriptor, or for some time at most if that comes first. */
static stats_result rest(question *at, short events, int64_t most_ms)
{
    struct pollfd fds[2] = {{.fd = at->stop_fd, .events = POLLIN},
                            {.fd = at->fd, .events = events}};
    int64_t left_ms = at->end_ms - now_ms();
    if (left_ms <= 0)
        return fail(at, STATS_FAILED, "the process does not answer");
    int timeout_ms = (int)(left_ms < most_ms ? left_ms : most_ms);
    if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
        return fail_errno(at, "waiting");
    return fds[0].revents != 0 ? STATS_STOPPED : STATS_OK;
}

/* Why there is no connection. */
static stats_result refuse(question *at, int error)
{
    struct stat there;
    if (error == ENOENT)
        return fail(at, STATS_GONE, "no such socket");
    if (error == ECONNREFUSED && stat(at->path, &there) == 0 && !S_ISSOCK(there.st_mode))
        return fail(at, STATS_FAILED, "this is no socket");
    if (error == ECONNREFUSED)
        return fail(at, STATS_GONE, "refused: the process that made this socket is gone");
    return fail(at, STATS_FAILED, "connecting: %s", strerror(error));
}

static stats_result open_connection(question *at)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (at->path[0] == '\0' || strlen(at->path) >= sizeof(address.sun_path))
        return fail(at, STATS_FAILED, "the path of a socket has 1 to %zu bytes",
                    sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, at->path, strlen(at->path) + 1);
    at->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (at->fd < 0)
        return fail_errno(at, "a socket");
    while (connect(at->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return refuse(at, errno);
        stats_result rested = rest(at, 0, FULL_QUEUE_MS); /* its queue is full */
        if (rested != STATS_OK)
            return rested;
    }
    return STATS_OK;
}

static stats_result send_request(question *at, const char *request)
{
    char line[64];
    int length = snprintf(line, sizeof(line), "%s\n", request);
    for (int sent = 0; sent < length;) {
        ssize_t some = send(at->fd, line + sent, (size_t)(length - sent), MSG_NOSIGNAL);
        if (some > 0) {
            sent += (int)some;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return fail(at, STATS_GONE, "the process hung up");
        stats_result rested = rest(at, POLLOUT, PATIENCE_MS);
        if (rested != STATS_OK)
            return rested;
    }
    return STATS_OK;
}

static bool make_room(question *at)
{
    if (at->used_bytes < at->room_bytes)
        return true;
    size_t room_bytes = at->room_bytes ? at->room_bytes * 2 : FIRST_BYTES;
    char *bytes = room_bytes <= MAX_BYTES ? realloc(at->bytes, room_bytes) : NULL;
    if (!bytes)
        return false;
    at->bytes = bytes;
    at->room_bytes = room_bytes;
    return true;
}

static stats_result receive_answer(question *at)
{
    for (;;) {
        if (!make_room(at))
            return fail(at, STATS_FAILED, "the answer is too long");
        ssize_t got = recv(at->fd, at->bytes + at->used_bytes, at->room_bytes - at->used_bytes, 0);
        if (got > 0) {
            at->used_bytes += (size_t)got;
            continue;
        }
        if (got == 0 || errno == ECONNRESET)
            return at->used_bytes > 0 ? STATS_OK : fail(at, STATS_GONE, "the process hung up");
        if (errno != EAGAIN && errno != EINTR)
            return fail_errno(at, "the answer");
        stats_result rested = rest(at, POLLIN, PATIENCE_MS);
        if (rested != STATS_OK)
            return rested;
    }
}

static stats_result read_answer(question *at, json_t **answer_p)
{
    json_error_t error;
    json_t *answer = json_loadb(at->bytes, at->used_bytes, JSON_REJECT_DUPLICATES, &error);
    const char *name = json_string_value(json_object_get(answer, "error"));
    *answer_p = answer;
    if (json_is_object(answer) && !name)
        return STATS_OK;
    stats_result result = STATS_FAILED;
    char clean[TRACE_TEXT_MAX_BYTES + 1]; /* of what the other process says */
    const char *said = !answer ? error.text : name ? name : "no JSON object";
    trace_text_clean(said, strlen(said), clean);
    if (!answer)
        (void)fail(at, result, "garbage was answered: byte %d: %s", error.position, clean);
    else if (!name)
        (void)fail(at, result, "garbage was answered: %s", clean);
    else
        result = fail(at, STATS_REFUSED, "the process can't answer: %s", clean);
    *answer_p = NULL;
    json_decref(answer);
    return result;
}

stats_result stats_client_ask(const char *path, const char *request, int stop_fd, json_t **answer_p,
                              char problem[STATS_PROBLEM_BYTES])
{
    question at = {.path = path,
                   .fd = -1,
                   .stop_fd = stop_fd,
                   .end_ms = now_ms() + PATIENCE_MS,
                   .problem = problem};
    problem[0] = '\0';
    stats_result result = open_connection(&at);
    if (result == STATS_OK)
        result = send_request(&at, request);
    if (result == STATS_OK)
        result = receive_answer(&at);
    if (result == STATS_OK)
        result = read_answer(&at, answer_p);
    if (at.fd >= 0)
        (void)close(at.fd);
    free(at.bytes);
    return result;
}
