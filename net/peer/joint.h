/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joint messages: both ends launch them together, on their GPUs (net/pairs.h). The comment at the
 * top of joint.c says how they agree.
 */
#ifndef FRY_NET_PEER_JOINT_H
#define FRY_NET_PEER_JOINT_H

#include "net/pairs.h"
#include "net/peer/peer.h"

typedef struct fry_record fry_record;
typedef struct fry_wire_header fry_wire_header;

#define FRY_JOINT_LOTS 2 /* agreed or being agreed at once, as the leader knows */
#define FRY_JOINT_PLACES                                                                           \
    (2 * FRY_JOINT_LOTS)                 /* those, and as many that the follower has to answer */
#define FRY_JOINT_SMALL_BYTES (1U << 20) /* messages of up to this size are one size class... */
#define FRY_JOINT_LOT_BYTES ((size_t)1 << 28) /* ...and so much of the other goes in one lot */

typedef enum fry_joint_state {
    FRY_JOINT_FREE = 0,
    FRY_JOINT_PROPOSED, /* the leader's: the other end has yet to answer */
    FRY_JOINT_ANSWERED, /* the leader's: it goes once those before it have been answered */
    FRY_JOINT_HEARD,    /* the follower's: the answer waits for a control */
    FRY_JOINT_GOING,    /* the engine has launched it, or will */
} fry_joint_state;

/* Where a launch stands. */
typedef enum fry_join {
    FRY_JOIN_NOT = 0,
    FRY_JOIN_WAITS,   /* in the list: at the leader for a lot, at the follower to be offered */
    FRY_JOIN_OFFERED, /* a follower's receive: the leader has been told, and will name it */
    FRY_JOIN_IN_LOT,
} fry_join;

typedef struct fry_joint_item {
    fry_message *message;  /* held by the engine */
    uint32_t slot, number; /* of its launch */
    bool is_send;
    bool is_taken; /* it goes */
} fry_joint_item;

/* Messages that are launched together. */
struct fry_joint_lot {
    uint32_t number;
    uint8_t state; /* fry_joint_state */
    uint32_t count;
    fry_joint_item items[FRY_LOT_MOST];
};

/* Engines number the pairs of a connection. */
struct fry_pair_note {
    uint64_t generation;
    uint32_t version;                    /* MAKE: of the transport */
    uint8_t token[FRY_PAIR_TOKEN_BYTES]; /* MAKE */
};

typedef struct fry_joint {
    fry_message *first, *last; /* those that wait */
    fry_joint_lot lots[FRY_JOINT_PLACES];
    uint32_t next_lot; /* number of the next to be proposed, or answered */
    bool is_ready;     /* lots can be launched */
    bool is_off;       /* messages go another way */
    bool has_wanted;   /* the engine was told that a pair is wanted */
    bool is_short;     /* something else than what follows waits for a control */
    bool is_refused;   /* leader: the other end is busy, and will nudge */
    bool owes_nudge;   /* follower */
    bool off_is_due;
    bool is_word_due[FRY_PAIR_WORDS];
    uint32_t nudged; /* leader: number of the newest refused lot that it was nudged for */
    uint32_t nudge;  /* follower: of the newest that it refused */
    fry_pair_note words[FRY_PAIR_WORDS];
} fry_joint;

/* Whether this end leads: the lower rank. */
bool fry_peer_leads(const fry_peer *peer);

/*
 * Tells the other end, now or as soon as there is a control; a word that waits is replaced by the
 * same word. Nothing happens without a connection.
 */
void fry_peer_pair_say(fry_peer *peer, fry_pair_word word, const fry_pair_note *note, void *turn);

/* Whether lots can be launched from now on. */
void fry_peer_pair_ready(fry_peer *peer, bool is_ready, void *turn);

/* There is no pair, and there will be none: messages go another way, at both ends. */
void fry_peer_pair_off(fry_peer *peer, void *turn);

/* `admit` may answer something else now. */
void fry_peer_joint_go_on(fry_peer *peer, void *turn);

/*
 * A lot is over, which the engine was told to launch on this connection. is_whole: receives have
 * their bytes. Otherwise the engine fails them.
 */
void fry_peer_joint_landed(fry_peer *peer, uint32_t number, bool is_whole, void *turn);

/* ---- for the files of a peer ---- */

/* Whether a ready receive of this message, which can also come in pieces, goes so. */
bool fry_joint_is_for(const fry_peer_connection *connection, const fry_record *record);

/* It does. */
void fry_joint_begin(fry_peer_connection *connection, fry_record *record);

/* A launched message is over or withdrawn: it joins no lot any more. It has its slot or record. */
void fry_joint_forget(fry_peer_connection *connection, const fry_message *message);

/* Handles a header of these. False: the other end broke the rules. */
bool fry_joint_heard(fry_peer_connection *connection, const fry_wire_header *header);

/* Whether something waits for a control; says it, as far as possible. */
bool fry_joint_is_due(const fry_peer_connection *connection);
void fry_joint_go_on(fry_peer_connection *connection);

/* Whether lots are going, or being agreed. */
bool fry_joint_is_busy(const fry_peer_connection *connection);

/* The connection was detached. */
void fry_joint_detach(fry_peer_connection *connection);

#endif
