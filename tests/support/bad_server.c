/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/bad_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define REQUEST_BYTES 65536
#define DEPTH 100000

typedef struct connection {
    int fd;             /* -1: free */
    const char *filler; /* repeated for ever; NULL: nothing */
} connection;

struct bad_server {
    bad_manner manner;
    int listen_fd, wake_fd;
    uint16_t port;
    pthread_t thread;
    atomic_uint requests;
    connection connections[CONNECTIONS_MAX];
};

static const char *const names[BAD_MANNERS] = {
    [BAD_CLOSES] = "closes",
    [BAD_SILENT] = "silent",
    [BAD_GARBAGE] = "garbage",
    [BAD_ENDLESS_HEAD] = "endless head",
    [BAD_ENDLESS_BODY] = "endless body",
    [BAD_HALF] = "half",
    [BAD_NO_JSON] = "no JSON",
    [BAD_EMPTY_OBJECT] = "empty object",
    [BAD_DEEP_JSON] = "deep JSON",
    [BAD_WRONG_TYPES] = "wrong types",
    [BAD_ERROR_500] = "error 500",
    [BAD_ERROR_TEXT] = "error with odd text",
    [BAD_WATCH_GARBAGE] = "watch of garbage",
    [BAD_WATCH_ENDS] = "watch that ends",
    [BAD_WATCH_ENDLESS] = "watch without end",
};

#define HEADER                                                                                     \
    "\"header\":{\"cluster_id\":\"1\",\"member_id\":\"1\",\"revision\":\"7\",\"raft_term\":\"2\"}"
#define CREATED "{\"result\":{" HEADER ",\"created\":true}}\n"
#define CHUNKED                                                                                    \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

static void say(int fd, const char *bytes, size_t count)
{
    (void)send(fd, bytes, count, MSG_NOSIGNAL);
}

static void say_text(int fd, const char *text)
{
    say(fd, text, strlen(text));
}

static void say_answer(int fd, const char *status, const char *body)
{
    char head[256];

    (void)snprintf(head, sizeof head,
                   "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                   status, strlen(body));
    say_text(fd, head);
    say_text(fd, body);
}

static void say_chunk(int fd, const char *text)
{
    char head[32];

    (void)snprintf(head, sizeof head, "%zx\r\n", strlen(text));
    say_text(fd, head);
    say_text(fd, text);
    say_text(fd, "\r\n");
}

static void end(connection *c)
{
    (void)close(c->fd);
    *c = (connection){.fd = -1};
}

static void say_deep(int fd)
{
    static char body[DEPTH + 8];

    (void)strcpy(body, "{\"kvs\":");
    memset(body + strlen(body), '[', DEPTH);
    body[DEPTH + 7] = '\0';
    say_answer(fd, "200 OK", body);
}

static void answer_watch(const bad_server *server, connection *c)
{
    static char long_line[65536 + 16];

    say_text(c->fd, CHUNKED);
    say_chunk(c->fd, CREATED);
    if (server->manner == BAD_WATCH_GARBAGE) {
        say_chunk(c->fd, "{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"!\"}}]}}\n");
        say_chunk(c->fd, "\x01\x02 garbage\n");
    } else if (server->manner == BAD_WATCH_ENDS) {
        end(c);
    } else {
        (void)snprintf(long_line, sizeof long_line, "10000\r\n%065536d\r\n", 7);
        c->filler = long_line;
    }
}

static void answer(const bad_server *server, connection *c, bool is_watch)
{
    static const char garbage[] = "\x00\xff\x13\x37 no server at all\r\n\r\n\r\n";

    switch (server->manner) {
    case BAD_CLOSES:
        end(c);
        break;
    case BAD_GARBAGE:
        say(c->fd, garbage, sizeof garbage - 1);
        end(c);
        break;
    case BAD_ENDLESS_HEAD:
        say_text(c->fd, "HTTP/1.1 200 OK\r\n");
        c->filler = "X-Filler: and more of it, and yet more, and it never comes to an end\r\n";
        break;
    case BAD_ENDLESS_BODY:
        say_text(c->fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"kvs\":[");
        c->filler = "{\"key\":\"Zm9v\"},{\"key\":\"Zm9v\"},{\"key\":\"Zm9v\"},{\"key\":\"Zm9v\"},";
        break;
    case BAD_HALF:
        say_text(c->fd, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{" HEADER);
        end(c);
        break;
    case BAD_NO_JSON:
        say_answer(c->fd, "200 OK", "<html><body>It works!</body></html>");
        break;
    case BAD_EMPTY_OBJECT:
        say_answer(c->fd, "200 OK", "{}");
        break;
    case BAD_DEEP_JSON:
        say_deep(c->fd);
        break;
    case BAD_WRONG_TYPES:
        say_answer(c->fd, "200 OK",
                   "{\"header\":{\"revision\":[]},\"kvs\":{\"key\":1},\"succeeded\":\"yes\","
                   "\"responses\":\"none\",\"ID\":{},\"TTL\":-5,\"token\":7}");
        break;
    case BAD_ERROR_500:
        say_answer(c->fd, "500 Internal Server Error", "");
        break;
    case BAD_ERROR_TEXT:
        say_answer(c->fd, "400 Bad Request",
                   "{\"code\":3,\"message\":\"\\u001b[31mred \\u0007 bell\\nline\"}");
        break;
    case BAD_WATCH_GARBAGE:
    case BAD_WATCH_ENDS:
    case BAD_WATCH_ENDLESS:
        if (is_watch)
            answer_watch(server, c);
        else
            say_answer(c->fd, "200 OK", "{" HEADER "}");
        break;
    case BAD_SILENT:
    case BAD_MANNERS:
        break;
    }
}

static void take_request(bad_server *server, connection *c)
{
    static char request[REQUEST_BYTES];
    const ssize_t got = recv(c->fd, request, sizeof request, 0);

    if (got <= 0) {
        end(c);
        return;
    }
    if (memmem(request, (size_t)got, "POST ", 5) == NULL)
        return; /* the body of one that has been answered */
    atomic_fetch_add(&server->requests, 1);
    answer(server, c, memmem(request, (size_t)got, "/v3/watch", 9) != NULL);
}

static void fill(connection *c)
{
    const ssize_t sent = send(c->fd, c->filler, strlen(c->filler), MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0 || (size_t)sent < strlen(c->filler))
        end(c); /* a piece that is cut would be garbage of another sort */
}

static void take_connection(bad_server *server)
{
    const int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    for (size_t i = 0; i < CONNECTIONS_MAX && fd >= 0; i++) {
        if (server->connections[i].fd < 0) {
            server->connections[i] = (connection){.fd = fd};
            return;
        }
    }
    if (fd >= 0)
        (void)close(fd);
}

static void *run(void *arg)
{
    bad_server *server = arg;
    struct pollfd fds[2 + CONNECTIONS_MAX];

    for (;;) {
        fds[0] = (struct pollfd){.fd = server->wake_fd, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = server->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            const connection *c = &server->connections[i];

            fds[2 + i] = (struct pollfd){
                .fd = c->fd, .events = (short)(c->filler != NULL ? POLLIN | POLLOUT : POLLIN)};
        }
        (void)poll(fds, sizeof fds / sizeof *fds, -1);
        if (fds[0].revents != 0)
            return NULL;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            connection *c = &server->connections[i];

            if (c->fd >= 0 && (fds[2 + i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                take_request(server, c);
            if (c->fd >= 0 && c->filler != NULL && (fds[2 + i].revents & POLLOUT) != 0)
                fill(c);
        }
        if (fds[1].revents != 0)
            take_connection(server);
    }
}

static void must(bool is_so)
{
    if (is_so)
        return;
    perror("bad_server");
    abort();
}

bad_server *bad_server_start(bad_manner manner)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    bad_server *server = calloc(1, sizeof *server);

    must(server != NULL);
    server->manner = manner;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        server->connections[i].fd = -1;
    server->wake_fd = eventfd(0, EFD_CLOEXEC);
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(server->wake_fd >= 0 && server->listen_fd >= 0 &&
         bind(server->listen_fd, (struct sockaddr *)&address, size) == 0 &&
         listen(server->listen_fd, CONNECTIONS_MAX) == 0 &&
         getsockname(server->listen_fd, (struct sockaddr *)&address, &size) == 0);
    server->port = ntohs(address.sin_port);
    must(pthread_create(&server->thread, NULL, run, server) == 0);
    return server;
}

void bad_server_stop(bad_server *server)
{
    (void)eventfd_write(server->wake_fd, 1);
    (void)pthread_join(server->thread, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (server->connections[i].fd >= 0)
            (void)close(server->connections[i].fd);
    (void)close(server->listen_fd);
    (void)close(server->wake_fd);
    free(server);
}

uint16_t bad_server_port(const bad_server *server)
{
    return server->port;
}

unsigned bad_server_requests(bad_server *server)
{
    return atomic_load(&server->requests);
}

const char *bad_manner_name(bad_manner manner)
{
    return names[manner];
}
