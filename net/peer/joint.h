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

/* Whether lots go, or are being agreed. */
bool fry_peer_joint_is_busy(const fry_peer *peer);

/* The leader: whether messages wait for a lot. */
bool fry_peer_joint_has_more(const fry_peer *peer);

/*
 * A lot is over, which the engine was told to launch on this connection. is_whole: receives have
 * their bytes. Otherwise the engine fails them.
 */
void fry_peer_joint_landed(fry_peer *peer, uint32_t number, bool is_whole, void *turn);

/* ---- for the files of a peer ---- */

/* Handles a header of these. False: the other end broke the rules. */
bool fry_joint_heard(fry_peer_connection *connection, const fry_wire_header *header);

/* Where there are joint messages: whether something waits for a control; says what can be said. */
bool fry_joint_is_due(const fry_peer_connection *connection);
void fry_joint_go_on(fry_peer_connection *connection);

/* Whether lots are going, or being agreed. */
bool fry_joint_is_busy(const fry_peer_connection *connection);

/* The connection was detached. */
void fry_joint_detach(fry_peer_connection *connection);

#endif
