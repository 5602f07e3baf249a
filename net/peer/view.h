/* SPDX-License-Identifier: Apache-2.0 */
/* Views: receives that read their message where its sender has it. For ask.c alone. */
#ifndef FRY_NET_PEER_VIEW_H
#define FRY_NET_PEER_VIEW_H

#include "net/peer/peer.h"

typedef struct fry_record fry_record;
typedef struct fry_wire_header fry_wire_header;

/* What has become of a view. */
typedef enum fry_view_news {
    FRY_VIEW_NOTHING = 0, /* it goes on, or was for nobody */
    FRY_VIEW_HAS_ALL,     /* the receive has its bytes: the view is the caller's, to end */
    FRY_VIEW_IS_REFUSED,  /* the message of that record is to come in pieces; the view goes on */
    FRY_VIEW_IS_WRONG,    /* the other end broke the rules */
} fry_view_news;

/* Whether a ready receive of this message, which can also come in pieces, begins with a view. */
bool fry_view_is_for(const fry_peer_connection *connection, const fry_record *record);

/* Begins it, with a free piece of those to ask for. */
void fry_view_begin(fry_peer_connection *connection, fry_record *record);

/* Tells the other end what is due (PLACED, VIEWED, LEAVING). There is a control. */
void fry_view_tell(fry_slice *view);

/* The engine reads no more: fry_peer_viewed. */
fry_view_news fry_view_is_read(fry_slice *view, bool has_all);

/* A SHOW or HOLDS has come. *view_p: whose, unless there is NOTHING or it IS_WRONG. */
fry_view_news fry_view_heard(fry_peer_connection *connection, const fry_wire_header *header,
                             fry_slice **view_p);

/* Its message is over, or the connection is. */
void fry_view_give_up(fry_slice *view);

/* The connection's channel was destroyed: the view is over, whatever its state. */
void fry_view_destroyed(fry_slice *view);

#endif
