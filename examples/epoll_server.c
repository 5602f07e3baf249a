/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An epoll server with ferry: one thread, and one epoll set with the engine's descriptor beside the
 * clients' sockets. A client asks "COPY n". The server starts a transfer of n bytes, serves other
 * clients meanwhile, and answers with the checksum when the transfer's future has resolved. The
 * clients are threads of this program, which ends when all of them have left.
 */
#include <ferry/ferry.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 4, REQUESTS = 5, FILE_BYTES = 4 << 20, MESSAGE_BYTES = 64 };

typedef struct client {
    int ends[2]; /* of its connection: server's, client's */
    pthread_t thread;
    int right;            /* right answers */
    ferry_buffer *target; /* the target of its transfer */
    ferry_waiter waiter;
} client;

static client clients[CLIENTS];
static ferry_engine *engine;
static ferry_buffer *file;
static int epoll_fd, connected;

static uint32_t checksum(const ferry_buffer *buffer, size_t size_bytes)
{
    const unsigned char *bytes = ferry_buffer_data(buffer);
    uint32_t sum = 0;
    for (size_t i = 0; i < size_bytes; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static int watch(int operation, int fd, uint32_t events, void *what)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(epoll_fd, operation, fd, &event);
}

static void hang_up(client *self)
{
    close(self->ends[0]);
    connected--;
}

/* Called by ferry inside ferry_engine_progress. */
static void answer(ferry_waiter *waiter, ferry_future *copied, ferry_status status)
{
    (void)copied;
    client *self = waiter->arg;
    size_t size_bytes = ferry_buffer_size_bytes(self->target);
    char message[MESSAGE_BYTES];
    int length = snprintf(message, sizeof message, "%s %u", ferry_status_name(status),
                          status == FERRY_OK ? checksum(self->target, size_bytes) : 0);
    ferry_buffer_release(self->target);
    self->target = NULL;
    printf("client %d: %zu bytes, %s\n", (int)(self - clients), size_bytes, message);
    if (send(self->ends[0], message, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) != length ||
        watch(EPOLL_CTL_MOD, self->ends[0], EPOLLIN | EPOLLONESHOT, self) != 0)
        hang_up(self);
}

static void hear(client *self)
{
    char message[MESSAGE_BYTES] = "";
    size_t size_bytes = 0;
    if (recv(self->ends[0], message, sizeof message - 1, MSG_DONTWAIT) <= 0) {
        hang_up(self);
        return;
    }
    /* A copy that can't be made is a failed future, answered like any other. */
    if (sscanf(message, "COPY %zu", &size_bytes) == 1 && size_bytes <= FILE_BYTES)
        ferry_buffer_alloc(ferry_device_at(engine, 1), size_bytes, &self->target);
    ferry_span from = {file, 0, size_bytes};
    ferry_future *copied = ferry_copy(engine, ferry_buffer_span(self->target), from, NULL);
    self->waiter = (ferry_waiter)FERRY_WAITER_INIT(answer, self);
    ferry_future_on_ready(copied, &self->waiter);
    ferry_future_release(copied);
}

static void serve(void)
{
    struct epoll_event events[8];
    for (int timeout_ms = 0; connected > 0;) {
        int count = epoll_wait(epoll_fd, events, 8, timeout_ms);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr != NULL) /* NULL is ferry's, whose progress comes anyway */
                hear(events[i].data.ptr);
        bool is_busy =
            ferry_engine_progress(engine, 0) > 0 || ferry_engine_arm(engine) == FERRY_E_BUSY;
        timeout_ms = is_busy ? 0 : -1;
    }
}

/* A client's thread. */
static void *ask(void *arg)
{
    client *self = arg;
    for (size_t i = 0; i < REQUESTS; i++) {
        size_t size_bytes = 5 + (i * CLIENTS + (size_t)(self - clients)) * 999983 % FILE_BYTES;
        char expected[MESSAGE_BYTES], message[MESSAGE_BYTES];
        snprintf(expected, sizeof expected, "FERRY_OK %u", checksum(file, size_bytes));
        int length = snprintf(message, sizeof message, "COPY %zu", size_bytes);
        send(self->ends[1], message, (size_t)length, MSG_NOSIGNAL);
        length = (int)recv(self->ends[1], message, sizeof message, 0);
        self->right +=
            length == (int)strlen(expected) && memcmp(message, expected, (size_t)length) == 0;
    }
    close(self->ends[1]);
    return NULL;
}

int main(void)
{
    ferry_engine_options options = {sizeof options, .loop = FERRY_LOOP_EMBEDDED};
    if (ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), FILE_BYTES, &file) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < FILE_BYTES; i++)
        ((unsigned char *)ferry_buffer_data(file))[i] = (unsigned char)(i * i >> 3);

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (watch(EPOLL_CTL_ADD, ferry_engine_fd(engine), EPOLLIN, NULL) != 0)
        return 1;
    for (client *self = clients; self < clients + CLIENTS; self++, connected++) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, self->ends) != 0 ||
            watch(EPOLL_CTL_ADD, self->ends[0], EPOLLIN | EPOLLONESHOT, self) != 0 ||
            pthread_create(&self->thread, NULL, ask, self) != 0)
            return 1;
    }
    serve();

    int right = 0;
    for (client *self = clients; self < clients + CLIENTS; self++) {
        pthread_join(self->thread, NULL);
        right += self->right;
    }
    close(epoll_fd);
    ferry_buffer_release(file);
    ferry_engine_release(engine);
    printf("%d of %d answers are right\n", right, CLIENTS * REQUESTS);
    return right == CLIENTS * REQUESTS ? 0 : 1;
}
