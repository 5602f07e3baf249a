/* SPDX-License-Identifier: Apache-2.0 */
/* The port that others call, and refused callers in the log. */
#ifndef FRY_NET_CONNECT_LINK_PORT_H
#define FRY_NET_CONNECT_LINK_PORT_H

#include "net/connect/link.h"

ferry_status fry_link_port_open(fry_links *links, fry_error **error_p);
void fry_link_port_close(fry_links *links);

/* Logs a refused caller, within the limits. `detail` may be "". */
void fry_link_refuse(fry_links *links, const char *address, const char *reason, const char *detail);

#endif
