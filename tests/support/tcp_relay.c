/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tcp_relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define PIECE_BYTES ((size_t)512 * 1024)
#define TEXT_BYTES 64

typedef struct pair {
    int client, server;    /* -1: free */
    bool is_named;         /* its last request has the text whose answers are dropped */
    char path[TEXT_BYTES]; /* of its last request, and what else stands in that line */
    char *held;
    size_t held_bytes;
    int64_t due_ns; /* of what is held; 0: until the release */
} pair;

struct tcp_relay {
    int listen_fd, wake_fd;
    uint16_t port, target;
    pthread_t thread;
    pthread_mutex_t lock; /* what follows */
    bool is_stopping, is_cut, is_released;
    char drop_text[TEXT_BYTES], hold_text[TEXT_BYTES], mute_text[TEXT_BYTES];
    unsigned to_drop, dropped, held;
    int64_t way_ns;
    pair pairs[PAIRS_MAX]; /* the thread's, as the room for a piece */
    char piece[PIECE_BYTES];
};

static void must(bool is_so, const char *what)
{
    if (is_so)
        return;
    perror(what);
    abort();
}

static void wake(tcp_relay *relay)
{
    (void)eventfd_write(relay->wake_fd, 1);
}

static void close_pair(tcp_relay *relay, pair *p)
{
    if (p->client >= 0)
        (void)close(p->client);
    if (p->server >= 0)
        (void)close(p->server);
    if (p->held != NULL)
        relay->held--;
    free(p->held);
    *p = (pair){.client = -1, .server = -1};
}

static void take_connection(tcp_relay *relay)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                        .sin_port = htons(relay->target)};
    const int client = accept4(relay->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    for (size_t i = 0; i < PAIRS_MAX && client >= 0 && server >= 0; i++) {
        pair *p = &relay->pairs[i];

        if (p->client >= 0)
            continue;
        *p = (pair){.client = client, .server = server};
        if (connect(server, (const struct sockaddr *)&address, sizeof address) != 0)
            close_pair(relay, p);
        return;
    }
    must(false, "tcp_relay: too many connections");
}

static bool pass_on(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

static bool has_text(const char *bytes, size_t count, const char *text)
{
    return *text != '\0' && memmem(bytes, count, text, strlen(text)) != NULL;
}

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void let_go(tcp_relay *relay, pair *p)
{
    const bool is_good = pass_on(p->server, p->held, p->held_bytes);

    free(p->held);
    p->held = NULL;
    p->held_bytes = 0;
    relay->held--;
    if (!is_good)
        close_pair(relay, p);
}

/* What is due is let go. How long until the next is, in ms; -1: none. */
static int let_go_what_is_due(tcp_relay *relay)
{
    const int64_t now = now_ns();
    int wait_ms = -1;

    for (size_t i = 0; i < PAIRS_MAX; i++) {
        pair *p = &relay->pairs[i];

        if (p->held == NULL || p->due_ns == 0)
            continue;
        const int64_t left_ms = (p->due_ns - now + 999999) / 1000000;
        if (left_ms <= 0)
            let_go(relay, p);
        else if (wait_ms < 0 || left_ms < wait_ms)
            wait_ms = (int)left_ms;
    }
    return wait_ms;
}

static void from_client(tcp_relay *relay, pair *p)
{
    const ssize_t got = recv(p->client, relay->piece, PIECE_BYTES, 0);

    if (got <= 0) {
        close_pair(relay, p);
        return;
    }
    const size_t count = (size_t)got;
    if (has_text(relay->piece, count, "POST ")) {
        p->is_named = has_text(relay->piece, count, relay->drop_text);
        (void)snprintf(p->path, TEXT_BYTES, "%.*s", (int)count, relay->piece);
    }
    const bool is_named = has_text(relay->piece, count, relay->hold_text);
    if (p->held != NULL || is_named || relay->way_ns > 0) {
        if (p->held == NULL) {
            relay->held++;
            p->due_ns = is_named ? 0 : now_ns() + relay->way_ns;
        }
        p->held = realloc(p->held, p->held_bytes + count);
        must(p->held != NULL, "tcp_relay");
        memcpy(p->held + p->held_bytes, relay->piece, count);
        p->held_bytes += count;
        return;
    }
    if (!pass_on(p->server, relay->piece, count))
        close_pair(relay, p);
}

static void from_server(tcp_relay *relay, pair *p)
{
    const ssize_t got = recv(p->server, relay->piece, PIECE_BYTES, 0);
    const bool is_dropped = got > 0 && p->is_named && relay->to_drop > 0;

    if (is_dropped) {
        relay->to_drop--;
        relay->dropped++;
    }
    if (got > 0 && relay->mute_text[0] != '\0' && strstr(p->path, relay->mute_text) != NULL)
        return;
    if (got <= 0 || is_dropped || !pass_on(p->client, relay->piece, (size_t)got))
        close_pair(relay, p);
}

static void obey(tcp_relay *relay)
{
    eventfd_t count;

    (void)eventfd_read(relay->wake_fd, &count);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        pair *p = &relay->pairs[i];

        if (p->client >= 0 && relay->is_cut)
            close_pair(relay, p);
        if (p->held != NULL && relay->is_released)
            let_go(relay, p);
    }
    relay->is_cut = relay->is_released = false;
}

static void *run(void *arg)
{
    tcp_relay *relay = arg;
    struct pollfd fds[2 + 2 * PAIRS_MAX];

    (void)pthread_mutex_lock(&relay->lock);
    while (!relay->is_stopping) {
        const int wait_ms = let_go_what_is_due(relay);
        fds[0] = (struct pollfd){.fd = relay->wake_fd, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = relay->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = relay->pairs[i].client, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = relay->pairs[i].server, .events = POLLIN};
        }
        (void)pthread_mutex_unlock(&relay->lock);
        (void)poll(fds, sizeof fds / sizeof *fds, wait_ms);
        (void)pthread_mutex_lock(&relay->lock);
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            pair *p = &relay->pairs[i];

            if (fds[2 + 2 * i].revents != 0 && p->client >= 0)
                from_client(relay, p);
            if (fds[3 + 2 * i].revents != 0 && p->server >= 0)
                from_server(relay, p);
        }
        if (fds[1].revents != 0)
            take_connection(relay);
        if (fds[0].revents != 0)
            obey(relay);
    }
    (void)pthread_mutex_unlock(&relay->lock);
    return NULL;
}

tcp_relay *tcp_relay_start(const char *target)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    tcp_relay *relay = calloc(1, sizeof *relay);

    must(relay != NULL, "tcp_relay");
    relay->target = (uint16_t)atoi(strchr(target, ':') + 1);
    for (size_t i = 0; i < PAIRS_MAX; i++)
        relay->pairs[i] = (pair){.client = -1, .server = -1};
    relay->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(relay->wake_fd >= 0 && relay->listen_fd >= 0 &&
             bind(relay->listen_fd, (struct sockaddr *)&address, size) == 0 &&
             listen(relay->listen_fd, PAIRS_MAX) == 0 &&
             getsockname(relay->listen_fd, (struct sockaddr *)&address, &size) == 0,
         "tcp_relay");
    relay->port = ntohs(address.sin_port);
    (void)pthread_mutex_init(&relay->lock, NULL);
    must(pthread_create(&relay->thread, NULL, run, relay) == 0, "tcp_relay");
    return relay;
}

void tcp_relay_stop(tcp_relay *relay)
{
    (void)pthread_mutex_lock(&relay->lock);
    relay->is_stopping = true;
    (void)pthread_mutex_unlock(&relay->lock);
    wake(relay);
    (void)pthread_join(relay->thread, NULL);
    for (size_t i = 0; i < PAIRS_MAX; i++)
        close_pair(relay, &relay->pairs[i]);
    (void)close(relay->listen_fd);
    (void)close(relay->wake_fd);
    (void)pthread_mutex_destroy(&relay->lock);
    free(relay);
}

uint16_t tcp_relay_port(const tcp_relay *relay)
{
    return relay->port;
}

void tcp_relay_slow(tcp_relay *relay, int64_t way_ns)
{
    (void)pthread_mutex_lock(&relay->lock);
    relay->way_ns = way_ns;
    (void)pthread_mutex_unlock(&relay->lock);
}

void tcp_relay_drop(tcp_relay *relay, const char *text, unsigned count)
{
    (void)pthread_mutex_lock(&relay->lock);
    (void)snprintf(relay->drop_text, TEXT_BYTES, "%s", text);
    relay->to_drop = count;
    (void)pthread_mutex_unlock(&relay->lock);
}

unsigned tcp_relay_dropped(tcp_relay *relay)
{
    (void)pthread_mutex_lock(&relay->lock);
    const unsigned dropped = relay->dropped;
    (void)pthread_mutex_unlock(&relay->lock);
    return dropped;
}

void tcp_relay_hold(tcp_relay *relay, const char *text)
{
    (void)pthread_mutex_lock(&relay->lock);
    (void)snprintf(relay->hold_text, TEXT_BYTES, "%s", text);
    (void)pthread_mutex_unlock(&relay->lock);
}

unsigned tcp_relay_held(tcp_relay *relay)
{
    (void)pthread_mutex_lock(&relay->lock);
    const unsigned held = relay->held;
    (void)pthread_mutex_unlock(&relay->lock);
    return held;
}

void tcp_relay_release(tcp_relay *relay)
{
    (void)pthread_mutex_lock(&relay->lock);
    relay->hold_text[0] = '\0';
    relay->is_released = true;
    (void)pthread_mutex_unlock(&relay->lock);
    wake(relay);
}

void tcp_relay_mute(tcp_relay *relay, const char *text)
{
    (void)pthread_mutex_lock(&relay->lock);
    (void)snprintf(relay->mute_text, TEXT_BYTES, "%s", text);
    (void)pthread_mutex_unlock(&relay->lock);
}

void tcp_relay_cut(tcp_relay *relay)
{
    (void)pthread_mutex_lock(&relay->lock);
    relay->is_cut = true;
    (void)pthread_mutex_unlock(&relay->lock);
    wake(relay);
}
