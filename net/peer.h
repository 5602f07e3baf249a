/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: what this member keeps of another to send and receive messages. Matching, flow control,
 * acknowledgements and failures stand here, over any channel; the engine's graph is above.
 *
 * Everything is called by the holder of the engine's baton, but for opening and closing. Nothing
 * blocks. Events come from within these calls, and may call back into the peer. Each call says with
 * its `turn` what its events are to be given: the caller's, or NULL; never looked at here, and not
 * used after the call. Memory for unexpected data is set aside when the peer is attached, by the
 * loop.
 */
#ifndef FRY_NET_PEER_H
#define FRY_NET_PEER_H

#include "net/transport.h"

#include <ferry/types.h>

typedef struct fry_peer fry_peer;
typedef struct fry_message fry_message;

/* Why something failed, told across processes: bounded, without memory. */
typedef struct fry_fault {
    ferry_status status;
    int32_t rank; /* where it began; -1: here */
    uint64_t op;  /* of that member's, 0: none */
    int64_t native_code;
    char domain[16]; /* whose number that is; "": none */
    char message[FRY_NATIVE_MESSAGE_BYTES];
} fry_fault;

typedef enum fry_message_state {
    FRY_MESSAGE_NEW = 0,
    FRY_MESSAGE_ENTERED, /* has its place among those of its tag */
    FRY_MESSAGE_READY,   /* its memory may be touched; waits for room, the lane or the other end */
    FRY_MESSAGE_UNDER_WAY, /* posted, or being pulled: its memory is being touched */
    FRY_MESSAGE_DELIVERED, /* a send: its data has left, the receiver has yet to say so */
    FRY_MESSAGE_ENDED,     /* `resolved` was called; the memory may be touched still */
    FRY_MESSAGE_QUIET,     /* `quiet` was called: the peer knows nothing of it any more */
} fry_message_state;

/* A send or a receive. The engine's memory until `quiet`. */
struct fry_message {
    /* Filled in by the engine. */
    void *owner;
    void *memory; /* NULL only if size_bytes is 0 */
    size_t size_bytes;
    ferry_tag tag;
    uint64_t op; /* its number, which crosses: traces join by it */
    bool is_send;
    /* The peer's. */
    uint8_t state; /* fry_message_state */
    uint8_t flags;
    fry_peer *peer;
    uint64_t other_op;                      /* the other end's; 0: not known */
    fry_message *next, *previous;           /* of its tag: not launched, or without a message */
    fry_message *open_next, *open_previous; /* all of the peer's */
    union {
        struct {
            fry_message *next, *previous;
        } waiting; /* for a lane or for room: before it is launched */
        fry_post post;
        fry_pull pull;
    };
    uint64_t number;
    void *private_;
};

typedef struct fry_peer_events {
    /* Once, with FERRY_OK or why not; fault is NULL with FERRY_OK, else valid during the call. A
     * cause at the other end is status FERRY_E_DEPENDENCY with the cause as fault, but that it
     * leaves, which is FERRY_E_DEAD. */
    void (*resolved)(void *turn, fry_message *message, ferry_status status, const fry_fault *fault);
    /* Once, after `resolved`: nobody touches the memory any more, nor the message. */
    void (*quiet)(void *turn, fry_message *message);
    /* Something is open and there is no channel: the loop should see to one. Once until attached or
     * failed. */
    void (*wants_lane)(void *turn, fry_peer *peer);
    /* The channel failed, or the other end broke the rules; called once for a channel. The engine
     * calls fry_peer_detach, now or later. */
    void (*lane_failed)(void *turn, fry_peer *peer, const fry_fault *fault);
    /* In place of `resolved` and `quiet`, where it is well and quiet at once. NULL: both are
     * called. */
    void (*done)(void *turn, fry_message *message);
    /* fry_peer_part would say something else now. */
    void (*parted)(void *turn, fry_peer *peer);
    /* Before `quiet`, at most once: nobody touches the memory any more, but the peer keeps the
     * message. It was withdrawn, and there was no memory for anything else that could stand in its
     * place until the other end's has come, or the other end was told. NULL: not called. */
    void (*untouched)(void *turn, fry_message *message);
} fry_peer_events;

typedef struct fry_peer_options {
    const fry_memory *memory;
    const fry_log *log;
    int32_t rank, own_rank;
    uint32_t window_messages, unexpected_max;
    size_t window_bytes;
    const fry_peer_events *events;
    void *arg;
} fry_peer_options;

/* What hello agreed on. */
typedef struct fry_lane_session {
    uint8_t send_key[16], receive_key[16]; /* SipHash */
    bool is_keyed; /* between hosts; on one host control messages carry no hash */
    uint32_t window_messages, unexpected_max; /* the smaller of what both ends allow */
    uint64_t window_bytes;
} fry_lane_session;

/* Any thread; NULL: no memory. */
fry_peer *fry_peer_open(const fry_peer_options *options);

/* Detached, and nothing is open. NULL is allowed. */
void fry_peer_close(fry_peer *peer);
void *fry_peer_arg(const fry_peer *peer);

/* What attaching takes, made by the loop without the baton; NULL: no memory. */
typedef struct fry_peer_lane fry_peer_lane;
fry_peer_lane *fry_peer_lane_open(const fry_peer_options *options, const fry_lane_session *session);
void fry_peer_lane_close(
    fry_peer_lane *lane); /* the loop; the channel was destroyed. NULL: allowed */

/* What a channel of it is opened with (fry_ucx_channel_open): its events and their argument. */
extern const fry_channel_events fry_peer_channel_events;
void *fry_peer_channel_arg(fry_peer_lane *lane);

/* A connected channel: what is ready is launched. */
void fry_peer_attach(fry_peer *peer, fry_peer_lane *lane, fry_channel *channel, void *turn);

/*
 * The lane is over, or can't be had: all that is open resolves with the status and fault. What may
 * still be at its memory is quiet when fry_peer_destroyed is called, after the channel was
 * destroyed. What enters from now on is of the next lane. Gives what was attached (or NULL), for
 * the loop to destroy: the channel first, then the lane.
 */
fry_peer_lane *fry_peer_detach(fry_peer *peer, ferry_status status, const fry_fault *fault,
                               fry_channel **channel_p, void *turn);
void fry_peer_destroyed(fry_peer *peer, fry_peer_lane *lane, void *turn);

/* In program order: it takes its place. False: too many are open (unexpected_max), it did not. */
bool fry_peer_enter(fry_peer *peer, fry_message *message, void *turn);

/* What it depends on has resolved. */
void fry_peer_ready(fry_message *message, void *turn);

/*
 * The same, where more are about to be: small sends are gathered, to go as one. True: the caller
 * calls fry_peer_flush before he gives the baton back, and does nothing else that takes long.
 */
bool fry_peer_gather(fry_message *message, void *turn);
void fry_peer_flush(fry_peer *peer, void *turn);

/*
 * Enters a send that is ready, and launches it or, if it gathers, gathers it, in place of both;
 * where fry_peer_can_send has just said that this can be done at once: there is a lane, and room,
 * and nothing that is to go before it.
 */
bool fry_peer_can_send(const fry_peer *peer, const fry_message *message, bool gathers);
void fry_peer_send(fry_peer *peer, fry_message *message, bool gathers, void *turn);

/*
 * It failed or was cancelled, entered but not ended: the other end is told the fault. It counts as
 * resolved (the event is not called); `quiet` comes, perhaps from within, as may `untouched`.
 */
void fry_peer_withdraw(fry_message *message, const fry_fault *fault, void *turn);

/* This member leaves. Whatever is open fails here, with its event, and there with FERRY_E_DEAD;
 * sends too, or receives alone. No receive is entered any more, and what comes is refused. */
void fry_peer_stop(fry_peer *peer, bool with_sends, ferry_status status, const fry_fault *fault,
                   void *turn);

/*
 * This member leaves: nothing is launched any more. Tells the other end so, after every answer that
 * it is owed. True: the other end has all that it needs of this one, and the lane can be ended, or
 * there is none. False: call again, at the latest when `parted` is called; in the end who waits
 * for that has to give up.
 */
bool fry_peer_part(fry_peer *peer, void *turn);

/* Lets the channel progress and sends what is due: acknowledgements, what waited for room. Returns
 * how much there was. */
size_t fry_peer_progress(fry_peer *peer, void *turn);

/* Something is under way that progress would end soon, without the other end's doing. */
bool fry_peer_is_busy(const fry_peer *peer);

/* As fry_channel_ops.arm; true without a channel. */
bool fry_peer_arm(fry_peer *peer, void *turn);

#endif
