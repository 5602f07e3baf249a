/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts for tests: network namespaces joined by a hub, with nothing of it left when the process has
 * ended, however: namespaces have no names, and go with their last descriptor and process. Plain
 * processes; the thread that calls net_hosts_open makes all calls, and fails the test (net_test.h)
 * if something can't be done.
 *
 * The calling process moves into the hub's namespace. Host i has 10.77.0.(i + 1) on "eth0", the hub
 * 10.77.0.254 on "hub"; both have "lo".
 */
#ifndef FERRY_TESTS_NET_HOSTS_H
#define FERRY_TESTS_NET_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#define NET_HOSTS_MAX 8
#define NET_HUB_ADDRESS "10.77.0.254"

typedef enum net_cable {
    NET_CABLE_VETH,  /* the kernel's: tc and nft work on it */
    NET_CABLE_RELAY, /* through a relay of this process's, which can delay frames; slower */
} net_cable;

/* NULL if hosts can be made here, else why tests with them are to be skipped. */
const char *net_hosts_absent(void);

void net_hosts_open(unsigned hosts, net_cable cable);

/* For a child made by fork: into the host's namespace, with a /sys that shows it. 0 or -1. */
int net_host_enter(unsigned host);

/* Runs a shell command in a host's namespace, or in the hub's; its status must be 0. */
void net_host_run(unsigned host, const char *format, ...) __attribute__((format(printf, 2, 3)));
void net_hub_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same of what not every place can do: the case is skipped if the status is not 0. */
void net_host_need(unsigned host, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NET_CABLE_VETH: takes a host's cable out of the hub, or puts it back. */
void net_host_plug(unsigned host, bool is_plugged);

/* NET_CABLE_RELAY: how long each frame takes from now on. */
void net_relay_delay(int64_t delay_ns);

/* The ports that somebody listens on in a host's namespace. Returns how many, at most `room`. */
unsigned net_host_listeners(unsigned host, uint16_t *ports, unsigned room);

#endif
