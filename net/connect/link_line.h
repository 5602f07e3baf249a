/* SPDX-License-Identifier: Apache-2.0 */
/* Lines: sockets on which a hello is said. */
#ifndef FRY_NET_CONNECT_LINK_LINE_H
#define FRY_NET_CONNECT_LINK_LINE_H

#include "net/connect/link_state.h"

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
 * has proven to be a member gets its lease, if that is longer: one end may have taken the
 * connection while the other, on a busy machine, has yet to read that, and giving up then would
 * fail what is under way.
 */
void fry_line_give_time(fry_line *line);

/* Makes a stranger's line a member's. */
void fry_line_adopt(fry_line *line, fry_link_peer *link);

#endif
