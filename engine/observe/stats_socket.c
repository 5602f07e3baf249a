/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread serves all clients of an engine, and waits for none of them: their descriptors don't
 * block, an answer is made in memory before its first byte is sent, and a client whose time is over
 * is dropped. The thread takes the baton only to dump, by slices as every dump. So neither the loop
 * nor a shutdown ever waits for a client.
 *
 * A child of fork has the parent's descriptors and no thread. If it kept them, the path would seem
 * served after the parent's end. So all sockets stand in a list, and the child closes theirs.
 */
#include "engine/observe/stats_socket.h"

#include "engine/engine.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/observe/dump.h"
#include "engine/observe/dump_json.h"
#include "engine/observe/stats_json.h"
#include "engine/observe/stats_path.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 8 /* at once; others wait in the kernel's queue */
#define LINE_BYTES 64
#define PATIENCE_NS INT64_C(5000000000)
#define ACCEPT_REST_NS INT64_C(100000000) /* after the system had no descriptor for a client */
#define POLL_REST_NS 10000000             /* after the system could not poll */
#define DUMP_PROMISES 4096
#define DUMP_NODES 16384
#define DUMP_POISONS 4096
#define ANSWER_FIRST_BYTES ((size_t)8 << 10)
#define ANSWER_MAX_BYTES ((size_t)64 << 20)

int64_t fry_test_stats_patience_ns = PATIENCE_NS;

typedef struct answer {
    const fry_memory *memory;
    char *bytes;
    size_t room_bytes, used_bytes;
    bool has_failed; /* no memory: it is not whole */
} answer;

typedef struct client {
    int fd; /* -1: no client */
    size_t line_bytes;
    char line[LINE_BYTES];
    int64_t end_ns; /* of its time, by CLOCK_MONOTONIC */
    answer answer;  /* `bytes` is set when the line has come */
    size_t sent_bytes;
} client;

struct fry_stats_socket {
    ferry_engine *engine;
    fry_stats_socket_read_fn read;
    struct fry_stats_socket *next;
    fry_stats_path path;
    int listen_fd, stop_fd;
    pthread_t thread;
    int64_t accept_after_ns;
    client clients[CLIENTS];
};

static struct {
    pthread_mutex_t lock; /* the list, and taking a path */
    struct fry_stats_socket *sockets;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- answers ---- */

static bool make_room(answer *at, size_t size_bytes)
{
    if (size_bytes <= at->room_bytes - at->used_bytes)
        return true;
    size_t room_bytes = at->room_bytes != 0 ? at->room_bytes : ANSWER_FIRST_BYTES;
    while (room_bytes - at->used_bytes < size_bytes)
        room_bytes *= 2;
    if (room_bytes > ANSWER_MAX_BYTES)
        return false;
    char *bytes = fry_alloc_raw(at->memory, room_bytes, 1);
    if (bytes == NULL)
        return false;
    if (at->used_bytes != 0)
        memcpy(bytes, at->bytes, at->used_bytes);
    fry_free(at->memory, at->bytes, at->room_bytes);
    at->bytes = bytes;
    at->room_bytes = room_bytes;
    return true;
}

static void add_to_answer(void *arg, const char *text, size_t size_bytes)
{
    answer *at = arg;
    at->has_failed = at->has_failed || !make_room(at, size_bytes);
    if (at->has_failed)
        return;
    memcpy(at->bytes + at->used_bytes, text, size_bytes);
    at->used_bytes += size_bytes;
}

static void answer_error(answer *at, ferry_status status, const char *words)
{
    fry_text text = {.write = add_to_answer, .arg = at};
    at->has_failed = false;
    at->used_bytes = 0;
    fry_stats_json_error(&text, status, words);
    fry_text_flush(&text);
}

static void answer_stats(const struct fry_stats_socket *at, answer *to)
{
    fry_text text = {.write = add_to_answer, .arg = to};
    ferry_stats stats = FERRY_STATS_INIT;
    ferry_status status = at->read(at->engine, NULL, &stats);
    if (status != FERRY_OK) {
        answer_error(to, status, "the figures can't be read");
        return;
    }
    fry_stats_json_print(&text, at->engine, &stats);
    fry_text_flush(&text);
}

static void answer_dump(const struct fry_stats_socket *at, answer *to)
{
    ferry_engine *engine = at->engine;
    fry_context *context = fry_context_get(engine);
    fry_dump *dump = NULL;
    if (!fry_baton_take(&engine->dumping)) {
        answer_error(to, FERRY_E_BUSY, "another dump is under way");
        return;
    }
    if (context != NULL)
        dump = fry_dump_open(engine, context, DUMP_PROMISES, DUMP_NODES);
    if (dump != NULL) {
        dump->poison_limit = DUMP_POISONS;
        fry_dump_print(dump, &fry_dump_json, add_to_answer, to);
        fry_dump_close(dump);
    }
    fry_baton_give(&engine->dumping);
    if (dump == NULL || to->has_failed)
        answer_error(to, FERRY_E_NO_MEMORY, "there is no memory for a dump");
}

/* ---- a client ---- */

/* Nothing is closed twice in a child that is forked meanwhile. */
static void close_fd(int *fd_p)
{
    int fd = *fd_p;
    *fd_p = -1;
    if (fd >= 0)
        (void)close(fd);
}

static void drop(client *gone)
{
    close_fd(&gone->fd);
    fry_free(gone->answer.memory, gone->answer.bytes, gone->answer.room_bytes);
    gone->answer.bytes = NULL;
}

/* The line is whole, or longer than any that is known. */
static void answer_line(const struct fry_stats_socket *at, client *of)
{
    of->end_ns = fry_clock_monotonic_ns() + fry_test_stats_patience_ns;
    if (of->line_bytes == strlen("stats\n") && memcmp(of->line, "stats\n", of->line_bytes) == 0)
        answer_stats(at, &of->answer);
    else if (of->line_bytes == strlen("dump\n") && memcmp(of->line, "dump\n", of->line_bytes) == 0)
        answer_dump(at, &of->answer);
    else
        answer_error(&of->answer, FERRY_E_INVALID, "the request is neither stats nor dump");
}

static bool may_try_again(ssize_t result)
{
    return result < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Reads up to the end of the line and no further. False: the client is of no use. */
static bool read_line(const struct fry_stats_socket *at, client *from)
{
    ssize_t got = recv(from->fd, from->line + from->line_bytes, LINE_BYTES - from->line_bytes, 0);
    if (got <= 0)
        return may_try_again(got);
    size_t begin = from->line_bytes, end = begin + (size_t)got;
    const char *newline = memchr(from->line + begin, '\n', end - begin);
    from->line_bytes = newline != NULL ? (size_t)(newline - from->line) + 1 : end;
    if (newline == NULL && end < LINE_BYTES)
        return true;
    answer_line(at, from);
    return from->answer.bytes != NULL;
}

/* False: all is sent, or the client is of no use. */
static bool send_answer(client *to)
{
    ssize_t sent = send(to->fd, to->answer.bytes + to->sent_bytes,
                        to->answer.used_bytes - to->sent_bytes, MSG_NOSIGNAL);
    if (sent < 0)
        return may_try_again(sent);
    to->sent_bytes += (size_t)sent;
    return to->sent_bytes < to->answer.used_bytes;
}

static void accept_one(struct fry_stats_socket *at)
{
    client *free_one = at->clients;
    while (free_one->fd >= 0)
        free_one++;
    int fd = accept4(at->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int64_t now_ns = fry_clock_monotonic_ns();
    if (fd >= 0)
        *free_one = (client){.fd = fd,
                             .end_ns = now_ns + fry_test_stats_patience_ns,
                             .answer = {.memory = &at->engine->memory}};
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        at->accept_after_ns = now_ns + ACCEPT_REST_NS;
}

/* ---- the thread ---- */

typedef struct waiting {
    struct pollfd fds[2 + CLIENTS]; /* the stop, the listening socket, the clients */
    int64_t until_ns;               /* FRY_NEVER_NS: there is no client */
} waiting;

static void set_up(const struct fry_stats_socket *at, waiting *on)
{
    bool has_room = false;
    int64_t now_ns = fry_clock_monotonic_ns();
    bool rests = now_ns < at->accept_after_ns;
    on->until_ns = rests ? at->accept_after_ns : FRY_NEVER_NS;
    for (size_t i = 0; i < CLIENTS; i++) {
        const client *one = &at->clients[i];
        short events = one->answer.bytes == NULL ? POLLIN : POLLOUT;
        on->fds[2 + i] = (struct pollfd){.fd = one->fd, .events = events};
        if (one->fd >= 0)
            on->until_ns = fry_sooner_ns(on->until_ns, one->end_ns);
        else
            has_room = true;
    }
    on->fds[0] = (struct pollfd){.fd = at->stop_fd, .events = POLLIN};
    on->fds[1] = (struct pollfd){.fd = has_room && !rests ? at->listen_fd : -1, .events = POLLIN};
}

static void wait_for(waiting *on)
{
    int64_t left_ns = fry_clock_left_ns(on->until_ns);
    struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    if (ppoll(on->fds, 2 + CLIENTS, left_ns < 0 ? NULL : &left, NULL) >= 0)
        return;
    /* The system has no memory, or allows few descriptors: clients wait, a shutdown does not. */
    struct timespec nap = {.tv_nsec = POLL_REST_NS};
    eventfd_t stop;
    (void)nanosleep(&nap, NULL);
    for (size_t i = 0; i < 2 + CLIENTS; i++)
        on->fds[i].revents = 0;
    if (eventfd_read(on->fds[0].fd, &stop) == 0)
        on->fds[0].revents = POLLIN;
}

static void serve(struct fry_stats_socket *at, const waiting *on)
{
    int64_t now_ns = fry_clock_monotonic_ns();
    for (size_t i = 0; i < CLIENTS; i++) {
        client *one = &at->clients[i];
        bool stays = true;
        if (one->fd < 0)
            continue;
        if (on->fds[2 + i].revents != 0)
            stays = one->answer.bytes == NULL ? read_line(at, one) : send_answer(one);
        if (!stays || now_ns >= one->end_ns)
            drop(one);
    }
    if (on->fds[1].revents != 0)
        accept_one(at);
}

static void *socket_thread(void *arg)
{
    struct fry_stats_socket *at = arg;
    waiting on;
    do {
        set_up(at, &on);
        wait_for(&on);
        serve(at, &on);
    } while (on.fds[0].revents == 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (at->clients[i].fd >= 0)
            drop(&at->clients[i]);
    }
    return NULL;
}

static int start_thread(struct fry_stats_socket *at)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int refused = pthread_create(&at->thread, NULL, socket_thread, at);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refused == 0)
        (void)pthread_setname_np(at->thread, "ferry-stats");
    return refused;
}

/* ---- forks ---- */

static void lock_all(void)
{
    (void)pthread_mutex_lock(&the.lock);
}

static void unlock_all(void)
{
    (void)pthread_mutex_unlock(&the.lock);
}

static void forked_in_child(void)
{
    for (struct fry_stats_socket *at = the.sockets; at != NULL; at = at->next) {
        close_fd(&at->listen_fd);
        close_fd(&at->stop_fd);
        for (size_t i = 0; i < CLIENTS; i++)
            close_fd(&at->clients[i].fd);
    }
    the.sockets = NULL;
    unlock_all();
}

static void register_fork(void)
{
    (void)pthread_atfork(lock_all, unlock_all, forked_in_child);
}

static void watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, register_fork);
}

/* ---- opening and closing ---- */

static ferry_status fail(fry_fault *fault, ferry_status status, int error)
{
    const char *why = status == FERRY_E_NO_MEMORY ? "no memory" : strerrordesc_np(error);
    *fault = (fry_fault){
        .status = status, .rank = -1, .native_code = error, .domain = error != 0 ? "errno" : NULL};
    (void)snprintf(fault->message, sizeof fault->message, "the socket for figures: %s", why);
    return status;
}

/* With `lock`: takes the path, and begins to serve it. */
static ferry_status begin(struct fry_stats_socket *at, const char *path, fry_fault *fault)
{
    at->listen_fd = fry_stats_path_listen(&at->path, path, fault);
    if (at->listen_fd < 0)
        return fault->status;
    at->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = at->stop_fd < 0 ? errno : start_thread(at);
    if (error == 0) {
        at->next = the.sockets;
        the.sockets = at;
        return FERRY_OK;
    }
    fry_stats_path_leave(&at->path);
    close_fd(&at->listen_fd);
    close_fd(&at->stop_fd);
    return fail(fault, FERRY_E_SYSTEM, error);
}

ferry_status fry_stats_socket_open(ferry_engine *engine, const char *path,
                                   fry_stats_socket_read_fn read, fry_fault *fault)
{
    if (path == NULL)
        return FERRY_OK;
    struct fry_stats_socket *at =
        fry_alloc(&engine->memory, sizeof *at, _Alignof(struct fry_stats_socket));
    if (at == NULL)
        return fail(fault, FERRY_E_NO_MEMORY, 0);
    at->engine = engine;
    at->read = read;
    for (size_t i = 0; i < CLIENTS; i++)
        at->clients[i].fd = -1;
    watch_forks();
    lock_all();
    ferry_status status = begin(at, path, fault);
    unlock_all();
    if (status == FERRY_OK)
        engine->stats_socket = at;
    else
        fry_free(&engine->memory, at, sizeof *at);
    return status;
}

void fry_stats_socket_close(ferry_engine *engine)
{
    struct fry_stats_socket *at = engine->stats_socket;
    if (at == NULL)
        return;
    engine->stats_socket = NULL;
    (void)eventfd_write(at->stop_fd, 1);
    (void)pthread_join(at->thread, NULL);
    lock_all();
    struct fry_stats_socket **link = &the.sockets;
    while (*link != at)
        link = &(*link)->next;
    *link = at->next;
    fry_stats_path_leave(&at->path);
    unlock_all();
    close_fd(&at->listen_fd);
    close_fd(&at->stop_fd);
    fry_free(&engine->memory, at, sizeof *at);
}
