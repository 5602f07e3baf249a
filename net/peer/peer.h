/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: this member's state of another member, for sending and receiving messages. Matching, flow
 * control, acknowledgements and failures are here, over any channel; the engine's graph is above.
 *
 * The holder of the engine's baton calls everything, except opening and closing. Nothing blocks.
 * Events come from within these calls and may call back into the peer. Each call's `turn` is passed
 * to its events: the caller's own, or NULL; it is never read here and not used after the call. The
 * loop allocates the memory for unexpected data when the peer is attached.
 */
#ifndef FRY_NET_PEER_PEER_H
#define FRY_NET_PEER_PEER_H

#include "base/fault.h"
#include "net/transport.h"

#include <bsd/sys/queue.h>
#include <ferry/types.h>

typedef struct fry_peer fry_peer;
typedef struct fry_message fry_message;
typedef struct fry_slice fry_slice;
typedef struct fry_peer_connection fry_peer_connection; /* what attaching needs */
typedef struct fry_joint_lot fry_joint_lot;
typedef struct fry_pair_note fry_pair_note;
typedef struct fry_found fry_found; /* windows: find.h */
typedef struct fry_grant fry_grant;
typedef struct fry_reach fry_reach;
typedef struct fry_any fry_any; /* what the peers of a group with any source share: any.h */

#define FRY_SLICE_BYTES_MAX ((size_t)1 << 20)
#define FRY_PLACE_BYTES 88
#define FRY_WINDOW_NAME_BYTES 129 /* with its end */

/* What ends tell each other of their pair (net/pairs.h): joint.h. */
typedef enum fry_pair_word {
    FRY_PAIR_MAKE = 0,  /* the leader: make your end, with this token */
    FRY_PAIR_RETIRE,    /* nothing goes here any more, nor will: end it when nothing goes there */
    FRY_PAIR_END,       /* end yours; perhaps another is to be made later */
    FRY_PAIR_HAS_ENDED, /* mine has */
    FRY_PAIR_WORDS,
} fry_pair_word;

/* Where another process of the host finds a message's bytes: the engines' words, checked there. */
typedef struct fry_place {
    uint8_t bytes[FRY_PLACE_BYTES];
} fry_place;

typedef enum fry_message_state {
    FRY_MESSAGE_NEW = 0,
    FRY_MESSAGE_ENTERED, /* has its place among the messages of its tag */
    FRY_MESSAGE_READY, /* its memory may be touched; it waits for room, the connection or the other
                          end */
    FRY_MESSAGE_UNDER_WAY, /* posted, or being pulled: its memory is in use */
    FRY_MESSAGE_DELIVERED, /* a send: its data has left, and the receiver has yet to answer */
    FRY_MESSAGE_ENDED,     /* `resolved` was called; its memory may still be in use */
    FRY_MESSAGE_QUIET,     /* `quiet` was called: the peer has nothing of it any more */
} fry_message_state;

/* With any source: what a receive waits for, while it has no message; or a probe. */
typedef struct fry_seek {
    TAILQ_ENTRY(fry_message) entry; /* in fry_any.waiting, if it has no peer */
    fry_any *any;
    uint64_t place; /* among all receives and probes of the group */
    int32_t rank;   /* of the member; -1: any */
    bool takes_any_tag, is_probe;
} fry_seek;

/* A send or a receive. It is the engine's memory until `quiet`. */
struct fry_message {
    /* Set by the engine. */
    void *owner;
    void *memory; /* NULL only if size_bytes is 0, or it is_staged */
    size_t size_bytes;
    ferry_tag tag;
    uint64_t op; /* number of its operation, which is sent: traces join by it */
    bool is_send;
    bool is_staged; /* its bytes are where no channel reads and writes: the engine moves them, piece
                       by piece (fry_slice). A send may have `memory` with a copy of all its bytes;
                       it is used if the message goes with its data */
    bool may_view;  /* a staged receive: the engine can read its bytes where the sender has them */
    bool may_join;  /* staged: the engine can launch it together with the other end */
    bool is_apart;  /* of a window: its tag is the two peers', given by that end which asked */
    bool is_notice; /* a send that needs no receive: notice.c; is_apart too */
    /* Owned by the peer. */
    bool was_viewed; /* all its bytes were read where the sender had them */
    bool was_joint;  /* they went in a lot */
    uint8_t state;   /* fry_message_state */
    uint8_t flags;
    uint8_t posts;  /* of its pieces: posts or pulls that use memory; with the message's own */
    bool is_untold; /* is_apart: the other end has not heard of it yet. reach.c, notice.c */
    bool is_read;   /* likewise: this end reads the bytes where the other has them */
    bool is_put;    /* likewise: a send that this end has asked for */
    uint32_t reach_number; /* likewise: of the window */
    uint64_t reach_offset;
    fry_peer *peer;
    uint64_t other_op;            /* number of the other end's operation; 0: unknown */
    fry_message *next, *previous; /* in the list of its tag: not launched, or without a message */
    fry_message *open_next, *open_previous; /* in the list of all open messages */
    union {
        TAILQ_ENTRY(fry_message)
        waiting; /* waits for a connection or for room, before it is launched */
        fry_post post;
        fry_pull pull;
        fry_seek seek;
    };
    uint64_t number;
    void *private_;
};

/*
 * A piece of a message, on its way; or a view of all of it (is_view). If the message is_staged,
 * the peer asks the engine for memory of `size_bytes` that channels can use, by an event, and the
 * engine answers during that or later. `over` ends the piece, unless fry_peer_stored has.
 */
struct fry_slice {
    union {
        fry_post post;
        fry_pull pull;
    };
    fry_message *message;
    uint64_t offset;
    uint32_t size_bytes;
    uint32_t number, slot; /* of the launch */
    uint8_t state;         /* net/peer/state.h */
    bool is_staged;        /* its message is */
    bool is_view;          /* no piece: all bytes are read where the sender has them */
    bool is_given_up;      /* a view whose message is over, or goes another way */
    void *memory;
    void *owner;                   /* the engine's; NULL at first */
    TAILQ_ENTRY(fry_slice) owners; /* the engine's */
    fry_peer_connection *connection;
    fry_slice *next;
};

typedef struct fry_peer_events {
    /*
     * Called once, with FERRY_OK or the status of the failure; fault is NULL with FERRY_OK, else
     * valid during the call. A cause at the other end is status FERRY_E_DEPENDENCY with the cause
     * as fault; if the other end leaves, it is FERRY_E_DEAD.
     */
    void (*resolved)(void *turn, fry_message *message, ferry_status status, const fry_fault *fault);
    /* Called once, after `resolved`: nobody touches the memory or the message any more. */
    void (*quiet)(void *turn, fry_message *message);
    /*
     * Something is open and there is no channel: the loop should make one. Once until attached or
     * failed.
     */
    void (*wants_connection)(void *turn, fry_peer *peer);
    /*
     * The channel failed, or the other end broke the rules; called once for each channel. The
     * engine calls fry_peer_detach, now or later.
     */
    void (*connection_failed)(void *turn, fry_peer *peer, const fry_fault *fault);
    /*
     * Replaces `resolved` and `quiet` for a message that succeeds and is quiet at once. NULL: both
     * are called.
     */
    void (*done)(void *turn, fry_message *message);
    /* fry_peer_part would answer something else now. */
    void (*parted)(void *turn, fry_peer *peer);
    /*
     * Called before `quiet`, at most once: nobody touches the memory any more, but the peer keeps
     * the message. It was withdrawn, and there was no memory for anything else to hold its place
     * until the other end's message has come, or the other end was told. NULL: not called.
     */
    void (*untouched)(void *turn, fry_message *message);

    /*
     * A staged send that had `memory` has been launched: that memory is used no more. NULL: not
     * called. Not called either if the send is quiet instead, or was launched without a post.
     */
    void (*left)(void *turn, fry_message *message);

    /*
     * With any source; NULL: there is none. A receive has a message of that peer, whose it is from
     * now on: `tag` and, unless the message is longer, `size_bytes` are the message's. Or a probe
     * has found one: `done` follows, or `resolved` and `quiet`. size_bytes: of the message.
     */
    void (*met)(void *turn, fry_message *message, fry_peer *peer, uint64_t size_bytes);

    /* Of staged messages' pieces; NULL: there are no such messages. */

    /* The other end wants these bytes of a send: the engine answers by fry_peer_served. */
    void (*serve)(void *turn, fry_slice *piece);
    /* These bytes of a receive can be fetched: the engine answers by fry_peer_placed. */
    void (*wants_place)(void *turn, fry_slice *piece);
    /* They are in that place: the engine takes them from there, then calls fry_peer_stored. */
    void (*landed)(void *turn, fry_slice *piece);
    /* The peer needs nothing more for the piece, and nobody touches its memory: the piece is gone.
     */
    void (*over)(void *turn, fry_slice *piece);

    /*
     * The other end, on this host, would read a staged send's bytes where they are. True: *place_p
     * says where; they stay there until the message is quiet. False: in pieces.
     */
    bool (*show)(void *turn, fry_message *message, fry_place *place_p);
    /*
     * They are there: the engine reads all of a receive's bytes, or does not, and calls
     * fry_peer_viewed, now or later, unless it was told `over` before.
     */
    void (*shown)(void *turn, fry_slice *view, const fry_place *place);
    /*
     * The other end would free the memory of that generation, of which nobody reads any more: the
     * engine closes it and calls fry_peer_has_closed, now or later.
     */
    void (*hide)(void *turn, fry_peer *peer, uint64_t generation);
    /* The other end has closed what it was asked to by fry_peer_hide. */
    void (*hidden)(void *turn, fry_peer *peer);
    /* Of messages that may_join; NULL, all of them: there are none. net/peer/joint.h. */

    /* The leader's: messages wait for a pair. Once until fry_peer_pair_ready or fry_peer_pair_off.
     */
    void (*wants_pair)(void *turn, fry_peer *peer);
    /* The other end's words: what it says is not checked. */
    void (*pair_heard)(void *turn, fry_peer *peer, fry_pair_word word, const fry_pair_note *note);
    /*
     * Whether a lot can go on this end's GPU, now. True: it is counted until `dismiss` or
     * fry_peer_joint_flown or _lost. False: fry_peer_joint_go_on is called when it could be.
     */
    bool (*admit)(void *turn, fry_peer *peer);
    void (*dismiss)(void *turn, fry_peer *peer);
    /* The message, whatever becomes of it, is kept until `release`, or the lot that has it is over.
     */
    void (*hold)(void *turn, fry_message *message);
    void (*release)(void *turn, fry_message *message);
    /*
     * The engine launches the lot, after those that it was told to launch before; then it calls
     * fry_peer_joint_flown or fry_peer_joint_lost, now or later. The lot is read during the call.
     */
    void (*launch)(void *turn, fry_peer *peer, const fry_joint_lot *lot);
    /* The lot, which has flown, was whole at the other end, too: what it received ends well. */
    void (*whole)(void *turn, fry_peer *peer, uint32_t number);
    /*
     * The connection is detached, and has no lots any more but those that were launched; or the
     * other end has said that it has no pair, and has launched none.
     */
    void (*unpaired)(void *turn, fry_peer *peer);

    /* Of windows; NULL, all of them: there are none. net/peer/find.h, reach.h. */

    /* The window is open, and can be used until it is left. */
    void (*window_found)(void *turn, fry_found *found);
    /* Its owner would close it: the engine is to leave it, when it does not use it any more. */
    void (*window_closing)(void *turn, fry_found *found);
    /* It will not be found, or is gone: the connection is over, or there is no room (then the
     * status is FERRY_E_AGAIN). On the loop. */
    void (*window_lost)(void *turn, fry_found *found, ferry_status status, const fry_fault *fault);
    /* The other end looks for a window. True: it is open, and may be used until `window_left`,
     * which says what the other end told with that, or 0. */
    bool (*window_sought)(void *turn, fry_peer *peer, const char *name, fry_grant *grant);
    void (*window_left)(void *turn, fry_peer *peer, void *window, uint32_t told);
    /*
     * The other end would have bytes out of a window that it has found, or into it; window NULL: it
     * has left that window since. The engine enters a message that is_apart, of that tag; or calls
     * fry_peer_refuse_reach.
     */
    void (*reached)(void *turn, fry_peer *peer, void *window, const fry_reach *reach);
    /* A notice has come, and can be taken: net/peer/notice.h. */
    void (*noticed)(void *turn, fry_peer *peer);

    /* May be NULL. fry_peer_destroyed has made all quiet: neither end has anything of the other. */
    void (*gone)(void *turn, fry_peer *peer);
} fry_peer_events;

typedef struct fry_peer_options {
    const fry_memory *memory;
    const fry_log *log;
    int32_t rank, own_rank;
    uint32_t window_messages, unexpected_max;
    size_t window_bytes;
    uint32_t piece_bytes; /* up to FRY_SLICE_BYTES_MAX; 0: that many */
    fry_any *any;         /* its receives enter by seek.h; NULL: by fry_peer_enter */
    const fry_peer_events *events;
    void *arg;
} fry_peer_options;

/* The result of the hello. */
typedef struct fry_connection_session {
    uint8_t send_key[16], receive_key[16]; /* SipHash */
    bool is_keyed;    /* between hosts; on one host control messages carry no hash */
    bool has_pieces;  /* both ends can send a message in pieces */
    bool has_views;   /* on one host, and both ends know views */
    bool has_pairs;   /* both ends have the same transport for pairs */
    bool has_windows; /* both ends know windows and notices */
    bool has_maps;    /* on one host, and both ends know how to map a window */
    uint32_t window_messages, unexpected_max; /* the smaller of what both ends allow */
    uint64_t window_bytes;
} fry_connection_session;

/* Opens a peer; NULL: no memory. Any thread. */
fry_peer *fry_peer_open(const fry_peer_options *options);

/* Closes a detached peer with nothing open. NULL is allowed. */
void fry_peer_close(fry_peer *peer);
void *fry_peer_arg(const fry_peer *peer);

/* The argument of the events with which a channel of a connection is opened: arrive.h. */
void *fry_peer_channel_arg(fry_peer_connection *connection);

/* Attaches a connected channel; ready messages are launched. */
void fry_peer_attach(fry_peer *peer, fry_peer_connection *connection, fry_channel *channel,
                     void *turn);

/*
 * Detaches the connection, which is over or can't be made: all open messages resolve with the
 * status and fault. Messages whose memory may still be in use become quiet when fry_peer_destroyed
 * is called, after the channel was destroyed. Messages that enter from now on belong to the next
 * connection. Returns what was attached (or NULL), for the loop to destroy: the channel first, then
 * the connection.
 */
fry_peer_connection *fry_peer_detach(fry_peer *peer, ferry_status status, const fry_fault *fault,
                                     fry_channel **channel_p, void *turn);
void fry_peer_destroyed(fry_peer *peer, fry_peer_connection *connection, void *turn);

/*
 * Enters a message, in program order: it takes its place. False: too many are open
 * (unexpected_max).
 */
bool fry_peer_enter(fry_peer *peer, fry_message *message, void *turn);

/* Says that the message's dependencies have resolved. */
void fry_peer_ready(fry_message *message, void *turn);

/*
 * The same, when more messages follow: small sends are gathered, to go as one. True: the caller
 * calls fry_peer_flush before giving the baton back, and does nothing slow before that.
 */
bool fry_peer_gather(fry_message *message, void *turn);
void fry_peer_flush(fry_peer *peer, void *turn);

/*
 * Withdraws a message that failed or was cancelled after it entered and before it ended: the other
 * end is told the fault. It counts as resolved (the event is not called); `quiet` comes, perhaps
 * within this call, as may `untouched`.
 */
void fry_peer_withdraw(fry_message *message, const fry_fault *fault, void *turn);

/*
 * Stops the peer because this member leaves. Open messages fail here, with their events, and at the
 * other end with FERRY_E_DEAD: receives, and with `with_sends` sends too. No receive is entered any
 * more, and messages that come are refused.
 */
void fry_peer_stop(fry_peer *peer, bool with_sends, ferry_status status, const fry_fault *fault,
                   void *turn);

/*
 * Parts from the other end because this member leaves: nothing is launched any more. Tells the
 * other end so, after every answer that it is owed. True: the other end has all that it needs, and
 * the connection can be ended, or there is none. False: call again, at the latest when `parted` is
 * called; a caller that waits for that must give up in the end.
 */
bool fry_peer_part(fry_peer *peer, void *turn);

/*
 * Lets the channel progress, and sends what is due: acknowledgements, messages that waited for
 * room. Returns how much there was.
 */
size_t fry_peer_progress(fry_peer *peer, void *turn);

/* Whether something is under way that progress would soon end without the other end. */
bool fry_peer_is_busy(const fry_peer *peer);

/* Like fry_channel_ops.arm; ARMED without a channel. */
fry_arming fry_peer_arm(fry_peer *peer, void *turn);

/* fry_channel.look_ns; 0 without a channel. */
int64_t fry_peer_look_ns(const fry_peer *peer);

/* ---- for the files of a peer ---- */

typedef struct fry_match fry_match;

/*
 * Withdraws a message and puts another in its place in its tag's list (NULL: it is in none): a
 * ghost or, without memory for one, the message itself. Returns it. The caller calls
 * fry_message_be_replaced when it is done with the message.
 */
fry_message *fry_message_leave_ghost(fry_message *message, fry_match *match,
                                     const fry_fault *fault);

#endif
