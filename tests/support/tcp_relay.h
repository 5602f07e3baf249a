/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands between a client and an HTTP server on loopback, on a thread of its own, and loses or
 * holds what a test names: requests by a text in them ("/v3/kv/txn"), which come in one piece; or
 * is slow. Any thread.
 */
#ifndef FERRY_TESTS_TCP_RELAY_H
#define FERRY_TESTS_TCP_RELAY_H

#include <stdint.h>

typedef struct tcp_relay tcp_relay;

/* "127.0.0.1:PORT" is where it leads to. Ends the program if it can't be had. */
tcp_relay *tcp_relay_start(const char *target);
void tcp_relay_stop(tcp_relay *relay);

uint16_t tcp_relay_port(const tcp_relay *relay);

/* The next `count` answers to requests with that text are not passed on: the connection ends. */
void tcp_relay_drop(tcp_relay *relay, const char *text, unsigned count);

/* How many answers were dropped so far. */
unsigned tcp_relay_dropped(tcp_relay *relay);

/* Requests with that text are kept back until the release. */
void tcp_relay_hold(tcp_relay *relay, const char *text);
unsigned tcp_relay_held(tcp_relay *relay);
void tcp_relay_release(tcp_relay *relay);

/* From now on requests reach the server after so long. 0: at once. */
void tcp_relay_slow(tcp_relay *relay, int64_t way_ns);

/* What answers requests with that text is swallowed from now on, and their connections stay. */
void tcp_relay_mute(tcp_relay *relay, const char *text);

/* Ends all connections there are. */
void tcp_relay_cut(tcp_relay *relay);

#endif
