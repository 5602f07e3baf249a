/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP server on loopback, on a thread of its own, that answers badly. */
#ifndef FERRY_TESTS_BAD_SERVER_H
#define FERRY_TESTS_BAD_SERVER_H

#include <stdint.h>

typedef enum bad_manner {
    BAD_CLOSES,        /* at once */
    BAD_SILENT,        /* takes the request and says nothing */
    BAD_GARBAGE,       /* bytes that are no HTTP */
    BAD_ENDLESS_HEAD,  /* header lines for ever */
    BAD_ENDLESS_BODY,  /* a body without end, nor end of line */
    BAD_HALF,          /* less than was announced, then the end */
    BAD_NO_JSON,       /* a page in HTML */
    BAD_EMPTY_OBJECT,  /* {} */
    BAD_DEEP_JSON,     /* a hundred thousand brackets */
    BAD_WRONG_TYPES,   /* etcd's names with other types */
    BAD_ERROR_500,     /* without a word */
    BAD_ERROR_TEXT,    /* a refusal with control bytes in its message */
    BAD_WATCH_GARBAGE, /* lists well, then a stream of lines that are none of etcd's */
    BAD_WATCH_ENDS,    /* lists well, then a stream that ends at once */
    BAD_WATCH_ENDLESS, /* lists well, then one line without end */
    BAD_MANNERS
} bad_manner;

typedef struct bad_server bad_server;

/* Ends the program if it can't be had. */
bad_server *bad_server_start(bad_manner manner);
void bad_server_stop(bad_server *server);

uint16_t bad_server_port(const bad_server *server);

/* How many requests came. Any thread. */
unsigned bad_server_requests(bad_server *server);

const char *bad_manner_name(bad_manner manner);

#endif
