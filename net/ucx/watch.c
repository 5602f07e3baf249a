/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ucx/watch.h"

#include "base/clock.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOKS_A_KEEPALIVE 4
#define LOOK_NS_MIN (INT64_C(100) * 1000 * 1000)
#define NS_PER_S INT64_C(1000000000)
#define SKIPS 31
#define DEPTH_MAX 3 /* nested epoll descriptors; UCX's are two deep */
#define INFO_BYTES 8192

/* What is under way on a channel's connections. */
typedef struct traffic {
    bool is_under_way;
    bool is_repeated; /* sent again, and not answered yet */
} traffic;

static int64_t now_ns(void)
{
    return fry_clock_monotonic_ns();
}

void fry_ucx_watch_init(fry_ucx_watch *watch, fry_channel *channel, int64_t keepalive_ns)
{
    *watch = (fry_ucx_watch){.channel = channel, .keepalive_ns = keepalive_ns};
}

static void set_look(fry_ucx_watch *watch, int64_t from_ns)
{
    int64_t interval_ns = watch->keepalive_ns / LOOKS_A_KEEPALIVE;
    watch->channel->look_ns = from_ns + (interval_ns > LOOK_NS_MIN ? interval_ns : LOOK_NS_MIN);
}

/* UCX turns TCP's keepalive on for sockets that it connects, but not for those that it accepts. */
static void keep_alive(int fd, int64_t keepalive_ns)
{
    int is_on = 0;
    socklen_t length = sizeof is_on;
    if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is_on, &length) != 0 || is_on)
        return;
    is_on = 1;
    int tries = FRY_UCX_KEEPALIVE_TRIES;
    int seconds = fry_ucx_keepalive_s(keepalive_ns);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is_on, sizeof is_on);
}

static void look_at_socket(int fd, int64_t keepalive_ns, traffic *traffic)
{
    int protocol = 0;
    int listens = 0;
    struct tcp_info info;
    memset(&info, 0, sizeof info);
    socklen_t length = sizeof protocol;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 || protocol != IPPROTO_TCP)
        return;
    length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens)
        return;
    keep_alive(fd, keepalive_ns);
    length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return;
    traffic->is_under_way |= info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
    traffic->is_repeated |= info.tcpi_retransmits > 0;
}

/* Lines "tfd:       15 events: ..." name what an epoll descriptor watches. */
static void look_below(int fd, int depth, int64_t keepalive_ns, traffic *traffic)
{
    char path[48];
    char info[INFO_BYTES];
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t length = read(file, info, sizeof info - 1);
    (void)close(file);
    info[length > 0 ? length : 0] = '\0';
    for (const char *at = info; (at = strstr(at, "tfd:")) != NULL;) {
        at += strlen("tfd:");
        int watched = (int)strtol(at, NULL, 10);
        look_at_socket(watched, keepalive_ns, traffic);
        if (depth < DEPTH_MAX)
            look_below(watched, depth + 1, keepalive_ns, traffic);
    }
}

int fry_ucx_keepalive_s(int64_t keepalive_ns)
{
    int64_t seconds = keepalive_ns / ((1 + FRY_UCX_KEEPALIVE_TRIES) * NS_PER_S);
    return seconds < 1 ? 1 : seconds > INT16_MAX ? INT16_MAX : (int)seconds;
}

void fry_ucx_watch_set_look(fry_ucx_watch *watch)
{
    if (watch->keepalive_ns > 0 && watch->channel->look_ns == 0)
        set_look(watch, now_ns());
}

void fry_ucx_watch_arm(fry_ucx_watch *watch)
{
    watch->is_armed = true;
    watch->skips = 0; /* a caller that wakes may have been woken to look */
    if (watch->has_sent)
        fry_ucx_watch_set_look(watch);
}

bool fry_ucx_watch_is_well(fry_ucx_watch *watch)
{
    if (watch->channel->look_ns == 0)
        return true;
    /* Reading the clock takes a tenth of the time of a progress that finds nothing. */
    if (watch->skips > 0) {
        watch->skips--;
        return true;
    }
    watch->skips = SKIPS;
    int64_t now = now_ns();
    if (now < watch->channel->look_ns)
        return true;
    traffic traffic = {false, false};
    look_below(watch->channel->event_fd, 1, watch->keepalive_ns, &traffic);
    if (!traffic.is_repeated)
        watch->stuck_ns = 0;
    else if (watch->stuck_ns == 0)
        watch->stuck_ns = now;
    watch->has_sent = traffic.is_under_way;
    watch->channel->look_ns = 0; /* until the next send */
    if (traffic.is_under_way)
        set_look(watch, now);
    return watch->stuck_ns == 0 || now - watch->stuck_ns < watch->keepalive_ns;
}
