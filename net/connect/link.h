/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: how this member gets a connection to another. A link makes a hello over a socket
 * of its own (net/connect/hello.c): both ends prove that they know the group's secret, name rank
 * and incarnation, agree on version, path and windows, and exchange encrypted addresses of
 * channels. Then the channels are connected. Either end may begin; if both do at once, the lower
 * rank's call counts. On one host both ends also hold a pidfd of the other, which reports death at
 * once.
 *
 * The loop. Nothing blocks; hellos have a deadline and are retried while they are wanted.
 */
#ifndef FRY_NET_CONNECT_LINK_H
#define FRY_NET_CONNECT_LINK_H

#include "base/error.h"
#include "net/connect/hello.h"
#include "net/peer/peer.h"
#include "net/reactor.h"

#define FRY_ENDPOINT_BYTES 512 /* text of a member's hello port and host */

typedef struct fry_links fry_links;
typedef struct fry_link_peer fry_link_peer;

/* Opens connections and their channels for links: net/connect/link_connection.c over UCX, or a
 * test's own. The loop. */
typedef struct fry_connection_opener {
    void *arg;
    /*
     * Opens a connection (fry_peer_connection_open) and a channel for its events, not connected
     * yet, and writes the address for the other end's channel: *address_bytes is the room, then the
     * length. FERRY_OK, or the status of the failure and *fault, and then nothing is open.
     * `options` are the peer's (fry_link_events).
     */
    ferry_status (*open)(void *arg, fry_channel_path path, const fry_peer_options *options,
                         const fry_connection_session *session, fry_peer_connection **connection_p,
                         fry_channel **channel_p, void *address, size_t *address_bytes,
                         fry_fault *fault);
    ferry_status (*connect)(void *arg, fry_channel *channel, const void *address,
                            size_t address_bytes, fry_fault *fault);
    /* Closes a connection that was opened here; its channel was destroyed. */
    void (*close_connection)(void *arg, fry_peer_connection *connection);
} fry_connection_opener;

typedef struct fry_links_options {
    fry_reactor *reactor;
    const char *network; /* interface or address; NULL: this host alone */
    const fry_connection_opener
        *opener; /* borrowed; NULL: UCX, loaded when a connection is first wanted */
    const char *job;
    const void *secret; /* NULL: none */
    size_t secret_bytes;
    int64_t lease_ns;
    uint32_t window_messages, unexpected_max;
    uint64_t window_bytes;
    size_t registration_cache_bytes;
    bool has_views; /* this member takes part in views: net/peer/view.c */
    bool has_pairs; /* and in joint messages: net/peer/joint.c */
} fry_links_options;

/*
 * The life of a link, from hello to hello: link.c has the picture. fry_link_set_state alone moves
 * it. From CONNECTED on there is a connection, which the engine attaches and detaches with its
 * baton: it moves the link to DETACHED and to TOLD.
 */
typedef enum fry_link_state {
    FRY_LINK_IDLE = 0,  /* no connection, and none is wanted */
    FRY_LINK_WAITING,   /* a connection is wanted; the next call is at the timer */
    FRY_LINK_CALLING,   /* this end's hello is under way */
    FRY_LINK_ANSWERING, /* the other end's hello is, and that end has proven itself */
    FRY_LINK_CONNECTED, /* the engine was told of the connection */
    FRY_LINK_LOST,      /* the other end has ended it, or the channel failed; told at the timer */
    FRY_LINK_OVER,      /* the engine was told so, and must detach it */
    FRY_LINK_DETACHED,  /* its channel must be destroyed: fry_link_destroy */
    FRY_LINK_DESTROYED, /* the peer must be told so */
    FRY_LINK_TOLD,      /* its memory must be freed: fry_link_over */
} fry_link_state;

/* Events; called on the loop, not from within the call that asked. */
typedef struct fry_link_events {
    /*
     * A connection is connected (link->connection, link->channel): the engine attaches it, with the
     * baton. It is destroyed by fry_link_destroy, not inside this event, and the next one comes
     * after fry_link_over.
     */
    void (*connected)(fry_link_peer *link);
    /*
     * No connection can be made now: FERRY_E_PEER: refused, or unreachable until the deadline;
     * FERRY_E_DEAD: the member has ended or left; FERRY_E_UNSUPPORTED: no UCX. Wanting a connection
     * again tries again. Or the other end has ended the connection or has gone: FERRY_E_DEAD if it
     * left, else FERRY_E_PEER; the engine detaches the connection. The latter comes once for each
     * connection, unless it was detached before. Messages that the other end sent over the channel
     * before are reported first, as far as the two can be compared.
     */
    void (*failed)(fry_link_peer *link, const fry_fault *fault);
    /*
     * The member's process on this host has ended (pidfd). At most once for each incarnation; its
     * connection is OVER, and `failed` is not called for it.
     */
    void (*died)(fry_link_peer *link);
    /* Asks for the options of fry_peer_connection_open for this peer. */
    const fry_peer_options *(*peer_options)(fry_link_peer *link);
} fry_link_events;

/*
 * Opens the hello port and writes its endpoint, for the member's record in the store: text of at
 * most FRY_ENDPOINT_BYTES with its zero. FERRY_OK, FERRY_E_SYSTEM, FERRY_E_INVALID (no such
 * network), FERRY_E_NO_MEMORY; *error_p says why.
 */
ferry_status fry_links_open(const fry_links_options *options, const fry_link_events *events,
                            fry_links **links_p, char *endpoint, fry_error **error_p);

/*
 * Sets this member's identity once it is known. Until then hellos wait; those that wait too long
 * are refused.
 */
void fry_links_set_own(fry_links *links, uint32_t rank, uint64_t incarnation);

/* Says that this member leaves: no hello is answered any more, and ends of connections say so. */
void fry_links_leave(fry_links *links);

/* Closes all links. Their connections must have ended. */
void fry_links_close(fry_links *links);

/*
 * Adds a member, of one incarnation, with the endpoint from its record (untrusted text: checked). A
 * hello from a rank and incarnation that was not added waits some seconds for it, because the peer
 * may have heard of this member first, and is then refused. An invalid endpoint is reported when a
 * connection is wanted. For this member's own rank: a connection to itself, without a hello. NULL:
 * no memory.
 */
fry_link_peer *fry_link_add(fry_links *links, uint32_t rank, uint64_t incarnation,
                            const char *endpoint, void *arg);
void *fry_link_arg(const fry_link_peer *link);

/*
 * Asks for a connection: `connected` or `failed` follows, by deadline_ns (on the reactor's clock;
 * 0: none) at the latest. If the other end wants one first, `connected` comes without this call.
 */
void fry_link_want(fry_link_peer *link, int64_t deadline_ns);

/* Whether there is a connection, which may be over. NULL: there is none. */
bool fry_link_has_connection(const fry_link_peer *link);

/* Destroys the channel of a detached connection, within the call. */
void fry_link_destroy(fry_link_peer *link);

/*
 * Frees the connection, of whose channel's end the peer was told. Only then can the next connection
 * come, whoever calls.
 */
void fry_link_over(fry_link_peer *link);

/* Removes a member without a connection; a hello under way is ended. */
void fry_link_remove(fry_link_peer *link);

/* Whether both ends are on one host, according to the endpoints. */
bool fry_link_is_local(const fry_link_peer *link);

/* ---- for the files of links, and for engine/messages/route.c ---- */

/*
 * Changes a link's state; only this function does. Timers belong to states, so the old state's
 * timer ends.
 */
void fry_link_set_state(fry_link_peer *link, fry_link_state state);

/* Sets the link's timer to the time until which a connection is wanted. */
void fry_link_set_deadline(fry_link_peer *link);

void fry_link_set_fault(fry_link_peer *link, ferry_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes what there is yet of a connection that is over, or will not be made. */
void fry_link_undo_connection(fry_link_peer *link);

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

#endif
