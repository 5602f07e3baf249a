/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a member process of a test (net_test.h): an engine that joins a group as its
 * arguments say, and transfers that tell what became of them. What can't go wrong and does ends the
 * process with a line on stderr.
 */
#ifndef FERRY_TESTS_NET_SELF_H
#define FERRY_TESTS_NET_SELF_H

#include "tests/support/net_test.h"

#include <ferry/ferry.h>
#include <pthread.h>

typedef struct net_self {
    ferry_engine *engine;
    ferry_group *group;
    uint32_t rank;
    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t changed;
    ferry_member_info members[16]; /* as on_member told them */
    size_t warnings;               /* that ferry has logged */
    size_t news;                   /* how often on_member was called */
    size_t slow_lines;             /* those that call the store slow */
    bool is_silent;                /* they are not shown */
    struct ev_loop *ev_loop;       /* loop=attached: the engine's */
} net_self;

_Noreturn void net_self_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define NET_SELF_CHECK(condition, ...)                                                             \
    do {                                                                                           \
        if (!(condition))                                                                          \
            net_self_fail(__VA_ARGS__);                                                            \
    } while (0)

/*
 * An engine, and the future of joining. Arguments: store, job, size, rank, lease_ms, deadline_ms
 * (from now), network, secret, place, window_bytes, window_messages, unexpected_max,
 * any_source_max, open (1: an open group), linger_ms, wait_spin_us, loop ("embedded" or "attached";
 * else it has a thread of its own), silent (its log is not shown). Without lease_ms the lease is 10
 * s: a busy machine may keep a thread from a CPU for some seconds, and only a test of what leases
 * do has a shorter one.
 */
ferry_future *net_self_begin(net_self *self, int argc, char **argv);

/* One after the other; joining can be done again when the group that it made has been released. */
void net_self_open(net_self *self, int argc, char **argv);
ferry_future *net_self_begin_join(net_self *self, int argc, char **argv);

/* The same, and joined; says "joined rank=R incarnation=I". */
void net_self_join(net_self *self, int argc, char **argv);

/* Waits, then says: WORD STATUS rank=R at=NS message. Returns the status; gives the future back. */
ferry_status net_self_tell(net_self *self, const char *word, ferry_future *future);

/*
 * Of a future that has failed: says "failed STATUS cause=STATUS rank=R: message", and waits until
 * it is quiet.
 */
void net_self_tell_failure(ferry_future *future);

/* Leaves, shuts down, releases; fails unless all of that goes well. */
void net_self_end(net_self *self);

/* Waits until on_member has told of a state, and of an incarnation above that. */
ferry_member_info net_self_await_member(net_self *self, uint32_t rank, ferry_member_state state,
                                        uint64_t above);

int64_t net_self_deadline(int64_t from_now_ns);

size_t net_self_warnings(net_self *self);
size_t net_self_slow_lines(net_self *self);
size_t net_self_news(net_self *self);

/*
 * One message from the lower rank to the higher, tried anew until one comes through; both ends call
 * it. Each attempt has a deadline of a second, as the other end may not be there yet.
 */
void net_self_probe(net_self *self, uint32_t peer, ferry_tag tag);

/* ---- many messages of one direction, each in a slot of its own ---- */

typedef struct net_traffic {
    net_self *self;
    uint32_t peer;
    ferry_tag tag;
    bool is_send;
    size_t count, size_bytes;
    uint32_t seed; /* the same at both ends */
    int64_t deadline_ns;
    ferry_buffer *buffer;
    ferry_future **futures;
    unsigned char *before; /* what was in the slots of what failed, once it was quiet */
} net_traffic;

/* What became of them. */
typedef struct net_tally {
    size_t good, failed;
    size_t good_first;   /* how many came well before the first that failed */
    ferry_status status; /* of the first that failed */
    int64_t last_ns;     /* when the last was seen to be resolved */
    size_t unnamed;      /* failed without the peer's rank, in number and words */
    char message[256];   /* of the first that failed */
} net_tally;

/* Sends get bytes that tell; `self`, peer, tag, is_send, count, size_bytes, seed are set. */
void net_traffic_open(net_traffic *traffic);
void net_traffic_submit(net_traffic *traffic, size_t first, size_t end);

/* Waits for messages, each to be FERRY_OK. */
void net_traffic_await(net_traffic *traffic, size_t first, size_t end);

/* Waits for all, whatever becomes of them; adds to the tally. */
void net_traffic_tally(net_traffic *traffic, net_tally *tally);

/* Waits until all is quiet, and keeps what is in memory then. */
void net_traffic_quiet(net_traffic *traffic);

/* Received bytes are those that were sent; memory of what failed is as net_traffic_quiet saw it. */
void net_traffic_check(const net_traffic *traffic);
void net_traffic_close(net_traffic *traffic);

/* Ranks 0 and 1 send each other so many messages, with tags `tag` and the next, and check them. */
void net_self_exchange(net_self *self, ferry_tag tag, size_t count, size_t size_bytes);

/* "good=N failed=N first=N unnamed=N at=NS status=NAME message": for net_say. */
const char *net_tally_text(const net_tally *tally);

#endif
