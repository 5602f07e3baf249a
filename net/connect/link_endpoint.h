/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name, and the text of an endpoint. */
#ifndef FRY_NET_CONNECT_LINK_ENDPOINT_H
#define FRY_NET_CONNECT_LINK_ENDPOINT_H

#include "net/connect/link_state.h"

/* Finds the address of a network's name: NULL and "lo" are loopback. *why is static. */
ferry_status fry_link_find_network(const char *network, fry_link_place *place, const char **why);
socklen_t fry_link_place_size(const fry_link_place *place);
void fry_link_place_text(const fry_link_place *place, char text[FRY_LINK_PLACE_BYTES]);
void fry_link_write_endpoint(const fry_link_endpoint *endpoint, char text[FRY_ENDPOINT_BYTES]);
bool fry_link_read_endpoint(const char *text, fry_link_endpoint *endpoint);

#endif
