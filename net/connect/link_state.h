/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by net/connect/link*.c. link.c keeps members and their states; link_hear.c decides about
 * hellos; link_line.c has the sockets of hellos; link_port.c has the port that others call, and
 * logs refused callers; link_endpoint.c has the text of a port's endpoint.
 */
#ifndef FRY_NET_CONNECT_LINK_STATE_H
#define FRY_NET_CONNECT_LINK_STATE_H

#include "net/connect/hello.h"
#include "net/connect/link.h"

#include <bsd/sys/queue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define FRY_LINK_STRANGERS_MAX 128            /* callers without a connection yet */
#define FRY_LINK_HELLO_NS INT64_C(5000000000) /* for a step of a hello; see fry_line_give_time */
#define FRY_LINK_NEWS_NS INT64_C(3000000000)  /* for the store's news of a caller */
#define FRY_LINK_PLACE_BYTES 64               /* text of an address and port */
#define FRY_LINK_REFUSALS 16
#define FRY_LINK_DEVICE_BYTES 64

typedef struct fry_line fry_line;
typedef struct fry_ucx fry_ucx;

/* An address and port, of either family. */
typedef union fry_link_place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} fry_link_place;

typedef struct fry_link_endpoint {
    fry_link_place place;
    uint8_t host[FRY_MACHINE_BYTES];
} fry_link_endpoint;

struct fry_link_peer {
    fry_links *links;
    LIST_ENTRY(fry_link_peer) entry;
    void *arg;
    uint32_t rank;
    uint64_t incarnation;
    fry_link_endpoint endpoint;
    bool has_endpoint;
    fry_link_state state;
    bool is_wanted, has_died;
    int64_t deadline_ns;  /* until which a connection is wanted; 0: none */
    int64_t next_call_ns; /* WAITING */
    int64_t backoff_ns;
    int64_t answer_ns; /* how long the next call waits for its answer */
    fry_timer timer;
    fry_line *line;                  /* from CALLING on, until it is lost */
    fry_peer_connection *connection; /* opened; NULL: none */
    fry_channel *channel;            /* likewise */
    fry_channel_path path;
    uint64_t connections; /* number of connections made so far */
    fry_watch process;    /* fd -1: not watched */
    int64_t pid;          /* of `process` */
    uint64_t started;
    fry_fault fault; /* fault of the last call, or why the connection ended */
};

typedef struct fry_link_refusal {
    char address[FRY_LINK_PLACE_BYTES];
    const char *reason;
    int64_t logged_ns;
    uint64_t unlogged;
} fry_link_refusal;

struct fry_links {
    fry_reactor *reactor;
    const fry_link_events *events;
    const fry_connection_opener *opener;
    fry_connection_opener own_opener; /* UCX's, if no other was given */
    fry_ucx *ucx;                     /* once the first connection was opened */
    int64_t lease_ns;
    size_t registration_cache_bytes;
    char job[FRY_HELLO_JOB_BYTES + 1];
    uint8_t psk[FRY_NOISE_KEY_BYTES];
    bool has_own, is_leaving;
    fry_hello_offer own;  /* this member's offer, without `connections` */
    fry_link_place place; /* the port's */
    fry_watch port;
    bool is_port_watched;
    bool has_rested;
    int64_t rested_ns;
    fry_timer port_timer;   /* accepts again */
    fry_timer settle_timer; /* looks again at waiting callers */
    LIST_HEAD(, fry_link_peer) peers;
    TAILQ_HEAD(, fry_line) strangers; /* oldest first */
    size_t stranger_count;
    uint64_t line_count;
    fry_link_refusal refusals[FRY_LINK_REFUSALS];
    int64_t refusals_since_ns;
    uint32_t refusals_logged;
};

typedef enum fry_line_state {
    FRY_LINE_CONNECTING, /* this end called */
    FRY_LINE_TALKING,
    FRY_LINE_WAITS, /* greeted or offered, but this member can't decide yet */
} fry_line_state;

/* A socket of a hello, which stays beside the connection that follows. */
struct fry_line {
    fry_links *links;
    fry_link_peer *link;         /* NULL: of a stranger */
    TAILQ_ENTRY(fry_line) entry; /* strangers */
    fry_line_state state;
    uint64_t number; /* grows with each line */
    int64_t since_ns;
    fry_watch watch;
    uint32_t watched; /* events; 0: the poller does not have the socket */
    fry_timer timer;
    char address[FRY_LINK_PLACE_BYTES]; /* of the other end */
    fry_hello hello;
};

#endif
