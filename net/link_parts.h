/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by net/link*.c. link.c keeps members and their states; link_hear.c decides about hellos;
 * link_line.c has the sockets of hellos; link_port.c has the port that others call, and logs
 * refused callers; link_endpoint.c has the text of a port's endpoint.
 */
#ifndef FRY_NET_LINK_PARTS_H
#define FRY_NET_LINK_PARTS_H

#include "net/hello.h"
#include "net/link.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define FRY_LINK_STRANGERS_MAX 128            /* callers without a lane yet */
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
    uint8_t host[FRY_HOST_BYTES];
} fry_link_endpoint;

typedef enum fry_link_state {
    FRY_LINK_IDLE = 0,  /* no lane, and none is wanted */
    FRY_LINK_WAITING,   /* a lane is wanted; the next call is at the timer */
    FRY_LINK_CALLING,   /* this end's hello is under way */
    FRY_LINK_ANSWERING, /* the other end's hello is, and that end has proven itself */
    FRY_LINK_CONNECTED, /* the engine has the lane */
    FRY_LINK_ENDING, /* the engine has the lane, and the other end has ended it, or the channel has
                        failed; reported at the timer */
    FRY_LINK_ENDED,  /* the engine was told, or has ended it itself; until fry_link_over */
} fry_link_state;

struct fry_link_peer {
    fry_links *links;
    fry_link_peer *next, *previous;
    void *arg;
    uint32_t rank;
    uint64_t incarnation;
    fry_link_endpoint endpoint;
    bool has_endpoint;
    fry_link_state state;
    bool is_wanted, has_died;
    int64_t deadline_ns;  /* until which a lane is wanted; 0: none */
    int64_t next_call_ns; /* WAITING */
    int64_t backoff_ns;
    int64_t answer_ns; /* how long the next call waits for its answer */
    fry_timer timer;
    fry_line *line;       /* from CALLING on, until it is lost */
    fry_peer_lane *lane;  /* the opened lane; NULL after it was passed on */
    fry_channel *channel; /* likewise */
    fry_channel_path path;
    uint64_t lanes;    /* number of lanes made so far */
    fry_watch process; /* fd -1: not watched */
    int64_t pid;       /* of `process` */
    uint64_t started;
    fry_fault fault; /* fault of the last call, or why the lane ended */
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
    const fry_lane_opener *opener;
    fry_lane_opener own_opener; /* UCX's, if no other was given */
    fry_ucx *ucx;               /* once the first lane was opened */
    int64_t lease_ns;
    size_t registration_cache_bytes;
    char job[FRY_HELLO_JOB_BYTES + 1];
    uint8_t psk[FRY_NOISE_KEY_BYTES];
    bool has_own, is_leaving;
    fry_hello_offer own;  /* this member's offer, without `lanes` */
    fry_link_place place; /* the port's */
    fry_watch port;
    bool is_port_watched;
    bool has_rested;
    int64_t rested_ns;
    fry_timer port_timer;   /* accepts again */
    fry_timer settle_timer; /* looks again at waiting callers */
    fry_link_peer *peers;
    fry_line *strangers, *last_stranger; /* oldest first */
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

/* A socket of a hello, which stays beside the lane that follows. */
struct fry_line {
    fry_links *links;
    fry_link_peer *link;       /* NULL: of a stranger */
    fry_line *next, *previous; /* strangers */
    fry_line_state state;
    uint64_t number; /* grows with each line */
    int64_t since_ns;
    fry_watch watch;
    uint32_t watched; /* events; 0: the poller does not have the socket */
    fry_timer timer;
    char address[FRY_LINK_PLACE_BYTES]; /* of the other end */
    fry_hello hello;
};

/* ---- link_endpoint.c ---- */

/* Finds the address of a network's name: NULL and "lo" are loopback. *why is static. */
ferry_status fry_link_find_network(const char *network, fry_link_place *place, const char **why);
socklen_t fry_link_place_size(const fry_link_place *place);
void fry_link_place_text(const fry_link_place *place, char text[FRY_LINK_PLACE_BYTES]);
void fry_link_write_endpoint(const fry_link_endpoint *endpoint, char text[FRY_ENDPOINT_BYTES]);
bool fry_link_read_endpoint(const char *text, fry_link_endpoint *endpoint);

/* ---- link_lane.c ---- */

void fry_link_use_ucx(fry_links *links);
void fry_link_close_ucx(fry_links *links);

/* ---- link_port.c ---- */

ferry_status fry_link_port_open(fry_links *links, fry_error **error_p);
void fry_link_port_close(fry_links *links);

/* Logs a refused caller, within the limits. `detail` may be "". */
void fry_link_refuse(fry_links *links, const char *address, const char *reason, const char *detail);

/* ---- link_line.c ---- */

/*
 * Makes a line of an accepted socket. NULL: no memory or no room in the poller; the socket is
 * closed.
 */
fry_line *fry_line_answer(fry_links *links, int fd, const fry_link_place *from);

/* Calls a member. NULL: errno says why. */
fry_line *fry_line_call(fry_links *links, fry_link_peer *link);

/* Sends what can be sent, and watches for the next event. */
void fry_line_settle(fry_line *line);

/* Ends the hello, saying why as far as the hello allows, and closes the line. */
void fry_line_end(fry_line *line, fry_hello_reason reason);
void fry_line_close(fry_line *line);

/*
 * Gives the line the time for one more step of its hello. A stranger gets 5 seconds. An end that
 * has proven to be a member gets its lease, if that is longer: one end may have taken the lane
 * while the other, on a busy machine, has yet to read that, and giving up then would fail what is
 * under way.
 */
void fry_line_give_time(fry_line *line);

/* Makes a stranger's line a member's. */
void fry_line_adopt(fry_line *line, fry_link_peer *link);

/* ---- link.c ---- */

/*
 * Changes a link's state; only this function does. Timers belong to states, so the old state's
 * timer ends.
 */
void fry_link_set_state(fry_link_peer *link, fry_link_state state);

/* Sets the link's timer to the time until which a lane is wanted. */
void fry_link_set_deadline(fry_link_peer *link);

void fry_link_set_fault(fry_link_peer *link, ferry_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes what was opened for a lane that will not be made. */
void fry_link_undo_lane(fry_link_peer *link);

void fry_link_drop_line(fry_link_peer *link, fry_hello_reason reason);

/*
 * Doubles the time that the next call waits for its answer, up to a lease, because a call was not
 * answered in time.
 */
void fry_link_wait_longer(fry_link_peer *link);

/*
 * Handles a failed call; the fault is set. is_final: calling again would be useless. The link may
 * be gone afterwards.
 */
void fry_link_call_failed(fry_link_peer *link, fry_hello_reason reason, bool is_final);

/* Handles the end of the member's process: reports `died`. The link may be gone afterwards. */
void fry_link_process_ended(fry_link_peer *link);

/* Checks that the process is the one it claims to be, and watches it from now on, if possible. */
fry_hello_reason fry_link_watch_process(fry_link_peer *link, const fry_hello *hello);

/* ---- link_hear.c ---- */

/*
 * Makes a member's lane to itself: one channel with both ends here. The link may be gone
 * afterwards.
 */
void fry_link_connect_self(fry_link_peer *link);

/* For a timer: decides about waiting strangers, oldest first, after a change. */
void fry_link_settle_strangers(fry_timer *timer);

/* Handles an event of a line. False: the line may be closed and freed. */
bool fry_link_hear(fry_line *line, fry_hello_event event);

/* Handles a lost socket; `why` in a few words. The line is closed and freed. */
void fry_link_lose(fry_line *line, const char *why);

/* Handles a line whose time is over; likewise. */
void fry_link_line_timeout(fry_line *line);

#endif
