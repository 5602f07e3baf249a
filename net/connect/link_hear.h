/* SPDX-License-Identifier: Apache-2.0 */
/* What lines hear. The loop. */
#ifndef FRY_NET_CONNECT_LINK_HEAR_H
#define FRY_NET_CONNECT_LINK_HEAR_H

#include "net/connect/link.h"

typedef struct fry_line fry_line;

/*
 * Says that the connection's channel has failed. `ended` follows, unless `died` does: with what the
 * other end says within a moment, because an end that leaves says so after its channel has gone;
 * otherwise with `fault`.
 */
void fry_link_lost(fry_link_peer *link, const fry_fault *fault);

/* ---- for the files of links ---- */

/*
 * Makes a member's connection to itself: one channel with both ends here. The link may be gone
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
