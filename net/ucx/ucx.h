/* SPDX-License-Identifier: Apache-2.0 */
/* Channels over UCX. */
#ifndef FRY_NET_UCX_UCX_H
#define FRY_NET_UCX_UCX_H

#include "net/transport.h"

typedef struct fry_ucx fry_ucx;

typedef struct fry_ucx_options {
    const fry_memory *memory;
    const fry_log *log;
    const char *net_devices; /* UCX_NET_DEVICES for other hosts: "eth0"; NULL: all that are up */
    /*
     * FRY_PATH_NET: a network that does not answer for this long and a second has failed. With
     * nothing under way TCP decides, which counts whole seconds, at least 3.
     */
    int64_t keepalive_ns;
    size_t registration_cache_bytes;
} fry_ucx_options;

/*
 * Opens UCX: finds libucp.so.0 at run time. FERRY_OK, FERRY_E_UNSUPPORTED (no UCX, or one that is
 * too old), FERRY_E_SYSTEM; *why says more, static. The loop.
 */
ferry_status fry_ucx_open(const fry_ucx_options *options, fry_ucx **ucx_p, const char **why);
void fry_ucx_close(fry_ucx *ucx);

/*
 * Opens a channel, not connected yet, and writes its address for the peer's channel. FERRY_OK,
 * FERRY_E_NO_MEMORY, FERRY_E_PEER with *fault. The loop.
 */
ferry_status fry_ucx_channel_open(fry_ucx *ucx, fry_channel_path path,
                                  const fry_channel_events *events, void *events_arg,
                                  fry_channel **channel_p, void *address, size_t *address_bytes,
                                  fry_fault *fault);

/* Connects to the address of the peer's channel. Waits for nobody. The loop. */
ferry_status fry_ucx_channel_connect(fry_channel *channel, const void *address,
                                     size_t address_bytes, fry_fault *fault);

#endif
