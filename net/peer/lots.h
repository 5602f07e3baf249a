/* SPDX-License-Identifier: Apache-2.0 */
/* Lots: joint messages (joint.h) that wait to be launched, and those that are launched together. */
#ifndef FRY_NET_PEER_LOTS_H
#define FRY_NET_PEER_LOTS_H

#include "net/pairs.h"
#include "net/peer/peer.h"

typedef struct fry_record fry_record;

#define FRY_JOINT_LOTS 2 /* agreed or being agreed at once, as the leader knows */
/* Those, as many that the follower has to answer, and as many that wait for the other end's word.
 */
#define FRY_JOINT_PLACES (3 * FRY_JOINT_LOTS)
#define FRY_JOINT_SMALL_BYTES (1U << 20) /* messages of up to this size are one size class... */
#define FRY_JOINT_LOT_BYTES ((size_t)1 << 28) /* ...and so much of the other goes in one lot */

typedef enum fry_joint_state {
    FRY_JOINT_FREE = 0,
    FRY_JOINT_PROPOSED, /* the leader's: the other end has yet to answer */
    FRY_JOINT_ANSWERED, /* the leader's: it goes once those before it have been answered */
    FRY_JOINT_HEARD,    /* the follower's: the answer waits for a control */
    FRY_JOINT_GOING,    /* the engine has launched it, or will */
    FRY_JOINT_FLOWN,    /* it is over on this end's GPU; the other end has yet to answer for it */
} fry_joint_state;

/* Where a launch stands. */
typedef enum fry_join {
    FRY_JOIN_NOT = 0,
    FRY_JOIN_WAITS,   /* in the list: at the leader for a lot, at the follower to be offered */
    FRY_JOIN_OFFERED, /* a follower's receive: the leader has been told, and will name it */
    FRY_JOIN_IN_LOT,
    FRY_JOIN_LEFT, /* a send that went with a lot, until it is answered */
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
    uint8_t state;  /* fry_joint_state */
    bool is_untold; /* FLOWN: to be said when there is a control */
    uint32_t count;
    fry_joint_item items[FRY_LOT_MOST];
};

/* Engines number the pairs of a connection. */
struct fry_pair_note {
    uint64_t generation;
    uint32_t version;                    /* MAKE: of the transport */
    bool is_put_off;                     /* END: another is to be made later */
    uint8_t token[FRY_PAIR_TOKEN_BYTES]; /* MAKE */
};

typedef struct fry_joint {
    fry_message *first, *last; /* those that wait */
    uint32_t waiting;          /* so many */
    fry_joint_lot lots[FRY_JOINT_PLACES];
    uint32_t next_lot; /* number of the next to be proposed, or answered */
    bool is_ready;     /* lots can be launched */
    bool is_off;       /* messages go another way */
    bool has_wanted;   /* the engine was told that a pair is wanted */
    bool is_short;     /* something else than what follows waits for a control */
    bool has_news;     /* leader: more waits for a lot; what comes in one progress goes together */
    bool is_refused;   /* leader: the other end is busy, and will nudge */
    bool owes_nudge;   /* follower */
    bool off_is_due;
    bool is_word_due[FRY_PAIR_WORDS];
    uint32_t nudged; /* leader: number of the newest refused lot that it was nudged for */
    uint32_t nudge;  /* follower: of the newest that it refused */
    uint32_t owed[FRY_JOINT_PLACES]; /* lots that the other end waits to hear WHOLE of */
    uint32_t owed_count;
    uint32_t left; /* sends that have LEFT */
    fry_pair_note words[FRY_PAIR_WORDS];
} fry_joint;

/* Whether this end leads: the lower rank. */
bool fry_peer_leads(const fry_peer *peer);

/* ---- for the files of a peer ---- */

/* Where a launched message stands: fry_join. */
uint8_t *fry_lots_join_of(const fry_peer_connection *connection, const fry_message *message);

/* Puts it in the list of those that wait, at its end; or takes it out, to stand so. */
void fry_lots_list(fry_peer_connection *connection, fry_message *message);
void fry_lots_unlist(fry_peer_connection *connection, const fry_message *message, fry_join join);

/* Whether a launched send can join a lot; also again, if its lot's pair has ended since. */
bool fry_lots_can_join(fry_peer_connection *connection, const fry_message *message);

/* A launched message is over or withdrawn: it joins no lot any more. It has its slot or record. */
void fry_lots_forget(fry_peer_connection *connection, const fry_message *message);

/* The lot in that state, and of that number if it is not FREE; NULL: there is none. */
fry_joint_lot *fry_lot_find(fry_joint *joint, fry_joint_state state, uint32_t number);

/* Whether one more can be agreed, as far as this end knows. */
bool fry_lots_have_room(const fry_joint *joint);

/* Whether the message of an item of a lot goes on. */
bool fry_lot_has(const fry_peer_connection *connection, const fry_joint_item *item);

/* The lot does not go; or it does, with the items that are taken. */
void fry_lot_drop(fry_peer_connection *connection, fry_joint_lot *lot);
void fry_lot_launch(fry_peer_connection *connection, fry_joint_lot *lot);

/* The leader proposes lots, as far as it can now. */
void fry_lots_propose(fry_peer_connection *connection);

/* The follower says which of its receives are ready, as far as it can now. */
void fry_lots_offer(fry_peer_connection *connection);

/* Whether a ready receive of this message, which can also come in pieces, goes in a lot. */
bool fry_lots_are_for(const fry_peer_connection *connection, const fry_record *record);

/* It does. */
void fry_lots_begin(fry_peer_connection *connection, fry_record *record);

#endif
