/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections as links open them: a peer's end (net/peer/peer.c) over a UCX channel. UCX is loaded
 * when the first connection is opened.
 */
#include "net/connect/link_connection.h"

#include "net/connect/link_state.h"
#include "net/peer/arrive.h"
#include "net/peer/connection.h"
#include "net/peer/peer.h"
#include "net/peer/state.h"
#include "net/ucx/ucx.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

/* Finds the interface that has the port's address: UCX may use only that one. */
static bool find_device(const fry_link_place *place, char name[FRY_LINK_DEVICE_BYTES])
{
    struct ifaddrs *all = NULL;
    bool is_found = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one != NULL && !is_found; one = one->ifa_next) {
        fry_link_place found = {0};
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != place->any.sa_family)
            continue;
        if (place->any.sa_family == AF_INET) {
            memcpy(&found.v4, one->ifa_addr, sizeof(found.v4));
            is_found = found.v4.sin_addr.s_addr == place->v4.sin_addr.s_addr;
        } else {
            memcpy(&found.v6, one->ifa_addr, sizeof(found.v6));
            is_found = IN6_ARE_ADDR_EQUAL(&found.v6.sin6_addr, &place->v6.sin6_addr);
        }
        if (is_found)
            (void)snprintf(name, FRY_LINK_DEVICE_BYTES, "%s", one->ifa_name);
    }
    freeifaddrs(all);
    return is_found;
}

static bool is_loopback(const fry_link_place *place)
{
    return place->any.sa_family == AF_INET ? ntohl(place->v4.sin_addr.s_addr) >> 24 == 127
                                           : IN6_IS_ADDR_LOOPBACK(&place->v6.sin6_addr);
}

static ferry_status open_ucx(fry_links *links, fry_fault *fault)
{
    char device[FRY_LINK_DEVICE_BYTES] = "lo";
    const char *why = NULL;

    if (links->ucx != NULL)
        return FERRY_OK;
    if (!is_loopback(&links->place) && !find_device(&links->place, device)) {
        (void)snprintf(fault->message, sizeof(fault->message),
                       "no interface has the network's address any more");
        return FERRY_E_SYSTEM;
    }
    const fry_ucx_options options = {
        .memory = links->reactor->memory,
        .log = links->reactor->log,
        .net_devices = device,
        .keepalive_ns = links->lease_ns / 4,
        .registration_cache_bytes = links->registration_cache_bytes,
    };
    const ferry_status status = fry_ucx_open(&options, &links->ucx, &why);
    if (status != FERRY_OK)
        (void)snprintf(fault->message, sizeof(fault->message), "UCX: %s",
                       why != NULL ? why : ferry_status_text(status));
    return status;
}

static ferry_status open_connection(void *arg, fry_channel_path path,
                                    const fry_peer_options *options,
                                    const fry_connection_session *session,
                                    fry_peer_connection **connection_p, fry_channel **channel_p,
                                    void *address, size_t *address_bytes, fry_fault *fault)
{
    fry_links *links = arg;
    ferry_status status = open_ucx(links, fault);

    if (status != FERRY_OK)
        return status;
    *connection_p = fry_peer_connection_open(options, session);
    if (*connection_p == NULL)
        return FERRY_E_NO_MEMORY;
    status = fry_ucx_channel_open(links->ucx, path, &fry_peer_channel_events,
                                  fry_peer_channel_arg(*connection_p), channel_p, address,
                                  address_bytes, fault);
    if (status != FERRY_OK)
        fry_peer_connection_close(*connection_p);
    return status;
}

static ferry_status connect_connection(void *arg, fry_channel *channel, const void *address,
                                       size_t address_bytes, fry_fault *fault)
{
    (void)arg;
    return fry_ucx_channel_connect(channel, address, address_bytes, fault);
}

static void close_connection(void *arg, fry_peer_connection *connection)
{
    (void)arg;
    fry_peer_connection_close(connection);
}

void fry_link_use_ucx(fry_links *links)
{
    links->own_opener = (fry_connection_opener){
        .arg = links,
        .open = open_connection,
        .connect = connect_connection,
        .close_connection = close_connection,
    };
    links->opener = &links->own_opener;
}

void fry_link_close_ucx(fry_links *links)
{
    if (links->ucx != NULL)
        fry_ucx_close(links->ucx);
    links->ucx = NULL;
}
