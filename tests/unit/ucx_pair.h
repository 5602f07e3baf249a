/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes with a channel between them. Each end sleeps on its channel's descriptor whenever
 * there is nothing to do, so a lost wake-up is a test that does not end. Whoever includes this says
 * with FAIL(text) what a broken promise is.
 */
#ifndef TESTS_UNIT_UCX_PAIR_H
#define TESTS_UNIT_UCX_PAIR_H

#include "base/clock.h"
#include "net/ucx/ucx.h"
#include "tests/support/paint.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_at(__FILE__, __LINE__, #condition);                                               \
    } while (0)

#define HELD 64
#define KEEPALIVE_NS INT64_C(3000000000)

static void fail_at(const char *file, int line, const char *text)
{
    (void)fprintf(stderr, "%s:%d: pid %d: not so: %s\n", file, line, (int)getpid(), text);
    abort();
}

/* What a test puts into a message's header. */
typedef struct note {
    uint64_t number;
    uint64_t seed; /* of the data's pattern */
    uint64_t size_bytes;
} note;

/* An arrival that is to be pulled later. */
typedef struct held {
    note note;
    void *token;
    size_t size_bytes;
} held;

/* A post or pull that has begun. What is destroyed in its midst is never done. */
typedef struct begun {
    LIST_ENTRY(begun) entry;
    union {
        fry_post post;
        fry_pull pull;
    };
} begun;

/* One end of a channel. */
typedef struct end {
    fry_memory memory;
    fry_log log;
    fry_ucx *ucx;
    fry_channel *channel;
    int64_t keepalive_ns; /* 0: KEEPALIVE_NS */
    int socket;           /* to the other end's process */
    pid_t pid;            /* of the other end; 0 in the child */

    LIST_HEAD(, begun) begun;
    uint64_t arrived; /* messages, with all their data if they brought it */
    uint64_t brought_bytes;
    note last;
    held held[HELD];
    uint64_t held_count;
    bool drops;    /* what comes to be pulled */
    bool pulls;    /* it at once, into `memory_in` */
    void *into;    /* where to */
    uint64_t done; /* posts */
    uint64_t done_badly;
    uint64_t pulled;
    uint64_t pulled_badly;
    uint64_t failed;
    fry_fault fault;
} end;

static inline unsigned char *make_data(size_t size_bytes, uint64_t seed)
{
    unsigned char *data = malloc(size_bytes);
    EXPECT(data != NULL);
    paint(data, size_bytes, seed);
    return data;
}

#define begun_of(pointer, member) ((begun *)((char *)(pointer)-offsetof(begun, member)))

static inline begun *begin(end *end)
{
    begun *begun = calloc(1, sizeof *begun);
    EXPECT(begun != NULL);
    LIST_INSERT_HEAD(&end->begun, begun, entry);
    return begun;
}

static inline void forget(begun *begun)
{
    LIST_REMOVE(begun, entry);
    free(begun);
}

static void end_pull_done(fry_pull *pull, ferry_status status, const fry_fault *fault)
{
    end *end = pull->arg;
    EXPECT(status == FERRY_OK || (status == FERRY_E_PEER && fault != NULL));
    if (status == FERRY_OK)
        end->pulled++;
    else
        end->pulled_badly++;
    forget(begun_of(pull, pull));
}

static inline void end_pull(end *end, void *token, void *memory, size_t size_bytes)
{
    fry_pull *pull = &begin(end)->pull;
    pull->token = token;
    pull->memory = memory;
    pull->size_bytes = size_bytes;
    pull->done = end_pull_done;
    pull->arg = end;
    end->channel->ops->pull(end->channel, pull);
}

static void end_arrived(void *arg, const fry_arrival *arrival)
{
    end *end = arg;
    EXPECT(arrival->header_bytes == sizeof(note));
    memcpy(&end->last, arrival->header, sizeof(note));
    EXPECT(arrival->size_bytes == end->last.size_bytes);
    end->arrived++;
    if (arrival->token == NULL) {
        EXPECT((arrival->data == NULL) == (arrival->size_bytes == 0));
        EXPECT(is_painted(arrival->data, arrival->size_bytes, end->last.seed));
        end->brought_bytes += arrival->size_bytes;
        return;
    }
    EXPECT(arrival->data == NULL);
    if (end->drops) {
        end->channel->ops->drop(end->channel, arrival->token);
    } else if (end->pulls) {
        end_pull(end, arrival->token, end->into, arrival->size_bytes);
    } else {
        EXPECT(end->held_count < HELD);
        end->held[end->held_count++] = (held){end->last, arrival->token, arrival->size_bytes};
    }
}

static void end_failed(void *arg, const fry_fault *fault)
{
    end *end = arg;
    EXPECT(end->failed == 0 && fault != NULL && fault->message[0] != '\0');
    end->failed++;
    end->fault = *fault;
}

static const fry_channel_events end_events = {end_arrived, end_failed};

static void end_post_done(fry_post *post, ferry_status status, const fry_fault *fault)
{
    end *end = post->arg;
    EXPECT(status == FERRY_OK || (status == FERRY_E_PEER && fault != NULL));
    if (status == FERRY_OK)
        end->done++;
    else
        end->done_badly++;
    forget(begun_of(post, post));
}

/* The data stays in place until the post is done. */
static inline fry_post_result end_post(end *end, const note *note, const void *data, bool is_pulled)
{
    fry_post *post = &begin(end)->post;
    struct note header = *note; /* the channel copies it */
    post->header = &header;
    post->header_bytes = sizeof header;
    post->data = data;
    post->size_bytes = note->size_bytes;
    post->is_pulled = is_pulled;
    post->done = end_post_done;
    post->arg = end;
    fry_post_result result = end->channel->ops->post(end->channel, post);
    memset(&header, 0xee, sizeof header);
    if (result == FRY_POST_DONE)
        end->done++;
    if (result != FRY_POST_BEGUN)
        forget(begun_of(post, post));
    return result;
}

/* Makes progress. Whether nothing is left that only progress brings on: what is leaving while the
 * other end's queue is full wakes nobody when there is room. */
static inline bool end_may_sleep(end *end)
{
    if (end->channel->ops->progress(end->channel) > 0)
        return false;
    if (end->channel->leaving > 0) {
        (void)sched_yield();
        return false;
    }
    fry_arming arming = end->channel->ops->arm(end->channel);
    if (arming == FRY_ARMING_STUCK)
        (void)poll(NULL, 0, 1);
    return arming == FRY_ARMING_ARMED;
}

/* How long to sleep at most, with a timeout. */
static inline int end_sleep_ms(const end *end, int timeout_ms)
{
    if (end->channel->look_ns == 0)
        return timeout_ms;
    int64_t left_ns = end->channel->look_ns - fry_clock_monotonic_ns();
    int look_ms = left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0;
    return timeout_ms >= 0 && timeout_ms < look_ms ? timeout_ms : look_ms;
}

/* Makes progress, or sleeps until it can be made. False: nothing came for so long. */
static inline bool end_turn(end *end, int timeout_ms)
{
    if (!end_may_sleep(end))
        return true;
    int sleep_ms = end_sleep_ms(end, timeout_ms);
    struct pollfd sleeper = {.fd = end->channel->event_fd, .events = POLLIN};
    return poll(&sleeper, 1, sleep_ms) != 0 || sleep_ms != timeout_ms;
}

#define WAIT_UNTIL(end, condition)                                                                 \
    do {                                                                                           \
        while (!(condition))                                                                       \
            EXPECT(end_turn((end), -1) && ((end)->failed == 0 || (condition)));                    \
    } while (0)

/* ---- the other process ---- */

static inline void tell(const end *end, const void *data, size_t size_bytes)
{
    EXPECT(send(end->socket, data, size_bytes, MSG_NOSIGNAL) == (ssize_t)size_bytes);
}

static inline size_t hear(const end *end, void *data, size_t size_bytes)
{
    ssize_t got = recv(end->socket, data, size_bytes, 0);
    EXPECT(got > 0);
    return (size_t)got;
}

/* Each waits for the other. */
static inline void meet(const end *end)
{
    char word = 'm';
    tell(end, &word, 1);
    EXPECT(hear(end, &word, 1) == 1 && word == 'm');
}

/* Does its part until the other one has come to a `meet`. */
static inline void meet_at_work(end *end)
{
    struct pollfd sleepers[2] = {{.fd = end->socket, .events = POLLIN},
                                 {.fd = end->channel->event_fd, .events = POLLIN}};
    while (poll(sleepers, 1, 0) == 0)
        if (end_may_sleep(end))
            (void)poll(sleepers, 2, end_sleep_ms(end, -1));
    meet(end);
}

static inline void end_open(end *end, const char *net_devices)
{
    fry_memory_init(&end->memory, NULL);
    fry_log_init(&end->log, NULL, NULL);
    fry_ucx_options options = {
        .memory = &end->memory,
        .log = &end->log,
        .net_devices = net_devices,
        .keepalive_ns = end->keepalive_ns > 0 ? end->keepalive_ns : KEEPALIVE_NS,
        .registration_cache_bytes = (size_t)1 << 30,
    };
    const char *why = NULL;
    EXPECT(fry_ucx_open(&options, &end->ucx, &why) == FERRY_OK);
}

static inline void end_connect(end *end, fry_channel_path path)
{
    char mine[FRY_ADDRESS_BYTES_MAX];
    char other[FRY_ADDRESS_BYTES_MAX];
    size_t mine_bytes = 0;
    fry_fault fault;
    EXPECT(fry_ucx_channel_open(end->ucx, path, &end_events, end, &end->channel, mine, &mine_bytes,
                                &fault) == FERRY_OK);
    tell(end, mine, mine_bytes);
    size_t other_bytes = hear(end, other, sizeof other);
    EXPECT(fry_ucx_channel_connect(end->channel, other, other_bytes, &fault) == FERRY_OK);
}

/* A path, and what it may use. */
typedef struct way {
    fry_channel_path path;
    const char *net_devices, *name;
} way;

static const way ways[] = {{FRY_PATH_SHARED, NULL, "shared memory"}, {FRY_PATH_NET, "lo", "TCP"}};
#define SHARED_WAY (&ways[0])
#define NET_WAY (&ways[1])

static inline void open_way(end *end, const way *way)
{
    end_open(end, way->net_devices);
    end_connect(end, way->path);
}

static inline void end_destroy(end *end)
{
    if (end->channel != NULL)
        end->channel->ops->destroy(end->channel);
    end->channel = NULL;
    while (!LIST_EMPTY(&end->begun))
        forget(LIST_FIRST(&end->begun));
}

static inline void end_close(end *end)
{
    end_destroy(end);
    if (end->ucx != NULL)
        fry_ucx_close(end->ucx);
    end->ucx = NULL;
}

/* The child goes with its parent, even if that is killed. */
static inline void split(end *end, void (*other)(struct end *end, void *arg), void *arg)
{
    memset(end, 0, sizeof *end);
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    pid_t parent = getpid();
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        (void)close(sockets[0]);
        end->socket = sockets[1];
        other(end, arg);
        _exit(0);
    }
    (void)close(sockets[1]);
    end->socket = sockets[0];
    end->pid = pid;
}

/* Waits for the child; true: it found nothing wrong. */
static inline bool join(end *end)
{
    int status = 0;
    EXPECT(waitpid(end->pid, &status, 0) == end->pid);
    (void)close(end->socket);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline void kill_other(end *end)
{
    EXPECT(kill(end->pid, SIGKILL) == 0);
    EXPECT(waitpid(end->pid, NULL, 0) == end->pid);
}

#endif
