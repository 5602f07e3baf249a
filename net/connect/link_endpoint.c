/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by name, and the text of an endpoint: "host=HEX tcp=10.0.0.7:4711", "tcp=[::1]:4711". */
#include "net/connect/link_endpoint.h"

#include "net/connect/link.h"
#include "net/connect/link_state.h"
#include "net/connect/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/if.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

socklen_t fry_link_place_size(const fry_link_place *place)
{
    return place->any.sa_family == AF_INET6 ? sizeof(place->v6) : sizeof(place->v4);
}

static uint16_t port_of(const fry_link_place *place)
{
    return ntohs(place->any.sa_family == AF_INET6 ? place->v6.sin6_port : place->v4.sin_port);
}

void fry_link_place_text(const fry_link_place *place, char text[FRY_LINK_PLACE_BYTES])
{
    char address[INET6_ADDRSTRLEN] = "?";
    const bool is_v6 = place->any.sa_family == AF_INET6;
    const void *bytes =
        is_v6 ? (const void *)&place->v6.sin6_addr : (const void *)&place->v4.sin_addr;

    (void)inet_ntop(place->any.sa_family, bytes, address, sizeof(address));
    (void)snprintf(text, FRY_LINK_PLACE_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", address,
                   port_of(place));
}

void fry_link_write_endpoint(const fry_link_endpoint *endpoint, char text[FRY_ENDPOINT_BYTES])
{
    char place[FRY_LINK_PLACE_BYTES], host[2 * FRY_MACHINE_BYTES + 1];

    fry_link_place_text(&endpoint->place, place);
    (void)sodium_bin2hex(host, sizeof(host), endpoint->host, FRY_MACHINE_BYTES);
    (void)snprintf(text, FRY_ENDPOINT_BYTES, "host=%s tcp=%s", host, place);
}

/* Reads a number from 1 to 65535, without sign or blanks, at the end of the text. */
static bool read_port(const char *text, in_port_t *port_p)
{
    unsigned long port = 0;
    size_t length = 0;

    for (; text[length] >= '0' && text[length] <= '9' && length < 5; length++)
        port = port * 10 + (unsigned long)(text[length] - '0');
    *port_p = htons((uint16_t)port);
    return text[length] == 0 && port > 0 && port <= UINT16_MAX;
}

/* Reads a numeric address: names would have to be looked up. */
static bool read_place(const char *text, fry_link_place *place)
{
    char address[FRY_LINK_PLACE_BYTES];
    const bool is_v6 = text[0] == '[';
    const char *end = strrchr(text, ':');

    *place = (fry_link_place){.any.sa_family = is_v6 ? AF_INET6 : AF_INET};
    if (end == NULL || (is_v6 && (end == text || end[-1] != ']')))
        return false;
    const char *from = is_v6 ? text + 1 : text;
    const char *to = is_v6 ? end - 1 : end;
    if (to < from || (size_t)(to - from) >= sizeof(address))
        return false;
    memcpy(address, from, (size_t)(to - from));
    address[to - from] = 0;
    if (is_v6)
        return inet_pton(AF_INET6, address, &place->v6.sin6_addr) == 1 &&
               read_port(end + 1, &place->v6.sin6_port);
    return inet_pton(AF_INET, address, &place->v4.sin_addr) == 1 &&
           read_port(end + 1, &place->v4.sin_port);
}

bool fry_link_read_endpoint(const char *text, fry_link_endpoint *endpoint)
{
    static const char first[] = "host=", second[] = " tcp=";
    const size_t first_length = sizeof(first) - 1, second_length = sizeof(second) - 1;
    size_t host_bytes = 0;

    if (strnlen(text, FRY_ENDPOINT_BYTES) == FRY_ENDPOINT_BYTES ||
        strncmp(text, first, first_length) != 0)
        return false;
    text += first_length;
    if (strnlen(text, 2 * FRY_MACHINE_BYTES) != 2 * FRY_MACHINE_BYTES ||
        sodium_hex2bin(endpoint->host, FRY_MACHINE_BYTES, text, 2 * FRY_MACHINE_BYTES, NULL,
                       &host_bytes, NULL) != 0 ||
        host_bytes != FRY_MACHINE_BYTES)
        return false;
    text += 2 * FRY_MACHINE_BYTES;
    return strncmp(text, second, second_length) == 0 &&
           read_place(text + second_length, &endpoint->place);
}

/* Whether an address means something on other hosts too, or is loopback. */
static bool is_of_use(const fry_link_place *place)
{
    if (place->any.sa_family == AF_INET)
        return place->v4.sin_addr.s_addr != htonl(INADDR_ANY);
    return place->any.sa_family == AF_INET6 && !IN6_IS_ADDR_UNSPECIFIED(&place->v6.sin6_addr) &&
           !IN6_IS_ADDR_LINKLOCAL(&place->v6.sin6_addr);
}

static bool read_address(const char *text, fry_link_place *place)
{
    *place = (fry_link_place){.any.sa_family = AF_INET};
    if (inet_pton(AF_INET, text, &place->v4.sin_addr) == 1)
        return true;
    *place = (fry_link_place){.any.sa_family = AF_INET6};
    return inet_pton(AF_INET6, text, &place->v6.sin6_addr) == 1;
}

/* Finds the interface's first usable address; IPv4 goes first. */
static bool find_interface(const char *name, fry_link_place *place, const char **why)
{
    struct ifaddrs *all = NULL;
    bool is_there = false, is_found = false;

    *why = "the system lists no interfaces";
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        fry_link_place found = {0};
        if (strcmp(one->ifa_name, name) != 0)
            continue;
        is_there = true;
        if (one->ifa_addr == NULL || (one->ifa_flags & IFF_UP) == 0)
            continue;
        if (one->ifa_addr->sa_family == AF_INET)
            memcpy(&found.v4, one->ifa_addr, sizeof(found.v4));
        else if (one->ifa_addr->sa_family == AF_INET6)
            memcpy(&found.v6, one->ifa_addr, sizeof(found.v6));
        if (!is_of_use(&found) || (is_found && found.any.sa_family == AF_INET6))
            continue;
        const bool is_last = found.any.sa_family == AF_INET;
        *place = found;
        is_found = true;
        if (is_last)
            break;
    }
    freeifaddrs(all);
    *why = is_there ? "the interface is down, or has no address that others can use"
                    : "there is no such interface";
    return is_found;
}

ferry_status fry_link_find_network(const char *network, fry_link_place *place, const char **why)
{
    if (network == NULL || strcmp(network, "lo") == 0) {
        (void)read_address("127.0.0.1", place);
        return FERRY_OK;
    }
    if (read_address(network, place)) {
        *why = "other hosts can't reach that address";
        return is_of_use(place) ? FERRY_OK : FERRY_E_INVALID;
    }
    if (!find_interface(network, place, why))
        return FERRY_E_INVALID;
    if (place->any.sa_family == AF_INET6)
        place->v6.sin6_port = 0;
    else
        place->v4.sin_port = 0;
    return FERRY_OK;
}
