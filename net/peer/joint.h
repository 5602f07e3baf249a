/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joint messages: both ends launch them together, on their GPUs (net/pairs.h). The comment at the
 * top of joint.c says how they agree.
 */
#ifndef FRY_NET_PEER_JOINT_H
#define FRY_NET_PEER_JOINT_H

#include "net/peer/lots.h"

typedef struct fry_wire_header fry_wire_header;

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

/* Whether there are lots; and whether all that was sent in lots has been answered. */
bool fry_peer_joint_is_busy(const fry_peer *peer);
bool fry_peer_joint_is_answered(const fry_peer *peer);

/* The leader: whether messages wait for a lot. */
bool fry_peer_joint_has_more(const fry_peer *peer);

/*
 * A lot that the engine was told to launch on this connection is over on this end's GPU, and
 * nothing has ended its pair. True: it is over. False: what it received waits for the other end,
 * and fry_peer_events.whole is called, unless fry_peer_joint_lost is before.
 */
bool fry_peer_joint_flown(fry_peer *peer, uint32_t number, void *turn);

/* Nothing more comes of such a lot. The engine has failed what it received. */
void fry_peer_joint_lost(fry_peer *peer, uint32_t number, void *turn);

/* ---- for the files of a peer ---- */

/* Handles a header of these. False: the other end broke the rules. */
bool fry_joint_heard(fry_peer_connection *connection, const fry_wire_header *header);

/* Where there are joint messages: whether something waits for a control; says what can be said. */
bool fry_joint_is_due(const fry_peer_connection *connection);
void fry_joint_go_on(fry_peer_connection *connection);

/* Whether there are lots. */
bool fry_joint_is_busy(const fry_peer_connection *connection);

/* The connection was detached. */
void fry_joint_detach(fry_peer_connection *connection);

#endif
