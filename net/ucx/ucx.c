/* SPDX-License-Identifier: Apache-2.0 */
/* UCX contexts, and opening and connecting channels. */
#include "net/ucx/ucx.h"

#include "base/lf.h"
#include "net/transport.h"
#include "net/ucx/channel.h"
#include "net/ucx/guard.h"
#include "net/ucx/library.h"
#include "net/ucx/offer.h"
#include "net/ucx/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE_BYTES 32
#define NAME_BYTES 64
#define MINOR_THAT_NEEDS_CACHE 14
#define MINOR_WITH_MENDED_TCP 18 /* at the latest: tried */

/*
 * Messages of at most this size are quicker when they carry their data than when it is pulled,
 * including a copy out of the place where they arrive. Within a host both cost the same between 16
 * and 32 KiB. Over TCP carrying wins as long as the message with its headers is one UCX segment.
 */
#define LOCAL_EAGER_BYTES 16384
#define NET_EAGER_BYTES 131072

typedef struct setting {
    const char *transport; /* its prefix: "TCP_"; NULL: a setting of UCX itself */
    const char *name;
    const char *value;
} setting;

/* ---- all settings of UCX; the rest is UCX's default, or the program's UCX_* ---- */

static const setting posix_settings[] = {
    /*
     * A channel uses one kind of segments, not both: each takes memory, used or not. Posix segments
     * take descriptors and room in /dev/shm; System V segments are few on a machine
     * (kernel.shmmni).
     */
    {NULL, "TLS", "posix"},
    /* 64 buffers of 8 KiB wait in the queue for senders to fill them; UCX makes 512 at once. */
    {"", "MM_RX_BUFS_GROW", "64"},
};

static const setting sysv_settings[] = {
    {NULL, "TLS", "sysv"},
    {"", "MM_RX_BUFS_GROW", "64"},
};

static const setting local_settings[] = {
    /*
     * ferry itself reads large messages (net/ucx/offer.c), not UCX's "cma". If it can't, the
     * sender's bytes come as messages. Never a put.
     */
    {NULL, "RNDV_SCHEME", "get_zcopy"},
};

static const setting net_settings[] = {
    /* connect() would wait for an end that does not answer. */
    {"TCP_", "CONN_NB", "y"},
    /*
     * Sends are copied into buffers of the first size, each of which is one system call, and arrive
     * in buffers of twice the second. The size is NET_EAGER_BYTES and some room for headers. 256
     * KiB, which is out of the cache, is slower than this or half of it.
     */
    {"TCP_", "TX_SEG_SIZE", "132k"},
    {"TCP_", "RX_SEG_SIZE", "132k"},
    /*
     * Two or three such buffers are in use at a time; UCX makes eight of each sort at once, 3 MiB a
     * channel. They come from malloc, which may keep what was touched of them.
     */
    {"TCP_", "TX_BUFS_GROW", "1"},
    {"TCP_", "RX_BUFS_GROW", "1"},
};

static const setting tcp_settings[] = {
    {NULL, "TLS", "tcp"},
    /*
     * UCX's own keepalive sends a message now and then. It wakes both ends and, if there is no
     * answer, keeps TCP's keepalive from reporting.
     */
    {NULL, "KEEPALIVE_INTERVAL", "inf"},
};

/* If there are such devices. Not tried. */
static const setting infiniband_settings[] = {
    {NULL, "TLS", "tcp,ib"},
};

/* On one host; and between hosts without InfiniBand before 1.14. */
static const setting unregistered_settings[] = {
    /*
     * Shared memory and TCP register no memory, and watching for freed memory changes the C
     * library's code in the running process (see library.c). Later versions need the cache:
     * endpoints that fail dereference it.
     */
    {NULL, "RCACHE_ENABLE", "n"},
};

/* Before 1.18 or so. */
static const setting old_net_settings[] = {
    /*
     * If a connection breaks off during a zero-copy send, UCX completes the send twice and aborts
     * the process: when the rest of a message can't be sent, uct_tcp_ep_sendv purges the endpoint,
     * which completes the send, and completes it again. So messages are copied first, pulled data
     * too, which costs the sender some time.
     */
    {NULL, "ZCOPY_THRESH", "inf"},
};

static ucs_status_t apply_one(ucp_config_t *config, const setting *setting)
{
    if (setting->transport == NULL)
        return fry_ucp.ucp_config_modify(config, setting->name, setting->value);
    /*
     * Up to 1.13 a transport's setting is named without the transport, and an unknown name causes
     * only a warning at the first worker. From 1.15 on it is named with the transport.
     */
    ucs_status_t status = UCS_OK;
    if (fry_ucx_minor() <= 14)
        status = fry_ucp.ucp_config_modify(config, setting->name, setting->value);
    if (fry_ucx_minor() < 14 || status != UCS_OK)
        return status;
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s%s", setting->transport, setting->name);
    return fry_ucp.ucp_config_modify(config, name, setting->value);
}

static ucs_status_t apply(ucp_config_t *config, const setting *settings, size_t count)
{
    ucs_status_t status = UCS_OK;
    for (size_t i = 0; i < count && status == UCS_OK; i++)
        status = apply_one(config, &settings[i]);
    return status;
}

#define APPLY(config, settings) apply((config), (settings), sizeof(settings) / sizeof *(settings))

static ucs_status_t apply_options(const fry_ucx *ucx, bool has_infiniband, ucp_config_t *config)
{
    char seconds[VALUE_BYTES];
    char cache[VALUE_BYTES];
    char tries[VALUE_BYTES];
    (void)snprintf(seconds, sizeof seconds, "%ds", fry_ucx_keepalive_s(ucx->keepalive_ns));
    (void)snprintf(tries, sizeof tries, "%d", FRY_UCX_KEEPALIVE_TRIES);
    (void)snprintf(cache, sizeof cache, "%zu", ucx->registration_cache_bytes);
    const setting settings[] = {
        {NULL, "NET_DEVICES", ucx->net_devices != NULL ? ucx->net_devices : "all"},
        {"TCP_", "KEEPIDLE", seconds},
        {"TCP_", "KEEPINTVL", seconds},
        {"TCP_", "KEEPCNT", tries},
    };
    const setting infiniband[] = {
        {"IB_", "RCACHE_MAX_SIZE", cache},
        {NULL, "KEEPALIVE_INTERVAL", seconds},
    };
    ucs_status_t status = APPLY(config, settings);
    return status == UCS_OK && has_infiniband ? APPLY(config, infiniband) : status;
}

static ucs_status_t configure_net(const fry_ucx *ucx, bool has_infiniband, ucp_config_t *config)
{
    ucs_status_t status =
        has_infiniband ? APPLY(config, infiniband_settings) : APPLY(config, tcp_settings);
    if (status == UCS_OK)
        status = APPLY(config, net_settings);
    if (status == UCS_OK && fry_ucx_minor() < MINOR_WITH_MENDED_TCP)
        status = APPLY(config, old_net_settings);
    return status == UCS_OK ? apply_options(ucx, has_infiniband, config) : status;
}

static ucs_status_t configure(const fry_ucx *ucx, fry_ucx_kind kind, ucp_config_t *config)
{
    /*
     * UCX prints its messages to stdout. An event that kills a channel is reported as an error. A
     * program that uses UCX itself, or sets its log level, keeps its own.
     */
    if (fry_ucx_is_ours() && getenv("UCX_LOG_LEVEL") == NULL)
        (void)fry_ucp.ucp_config_modify(config, "LOG_LEVEL", "fatal");
    bool has_infiniband = kind == FRY_UCX_NET && fry_ucx_has_infiniband();
    ucs_status_t status = UCS_OK;
    if (kind != FRY_UCX_NET || (fry_ucx_minor() < MINOR_THAT_NEEDS_CACHE && !has_infiniband))
        status = APPLY(config, unregistered_settings);
    if (status != UCS_OK)
        return status;
    if (kind == FRY_UCX_NET)
        return configure_net(ucx, has_infiniband, config);
    status = kind == FRY_UCX_POSIX ? APPLY(config, posix_settings) : APPLY(config, sysv_settings);
    return status == UCS_OK ? APPLY(config, local_settings) : status;
}

static ucs_status_t make_context(const fry_ucx *ucx, fry_ucx_kind kind, ucp_context_h *context,
                                 const char **call)
{
    ucp_config_t *config;
    *call = "ucp_config_read";
    ucs_status_t status = fry_ucp.ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    *call = "ucp_config_modify";
    status = configure(ucx, kind, config);
    if (status == UCS_OK) {
        /* One thread at a time uses a worker, but the loop may make one while another works. */
        ucp_params_t params = {
            .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                          UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
            .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
            .mt_workers_shared = 1,
            .estimated_num_eps = 1,
        };
        *call = "ucp_init";
        status = fry_ucp.ucp_init_version(FRY_UCX_MAJOR, FRY_UCX_MINOR, &params, config, context);
    }
    fry_ucp.ucp_config_release(config);
    return status;
}

/*
 * UCX's locks and its thread don't survive a fork: a lock that a thread of the parent held at that
 * moment is held in the child for ever. So only the first process to use UCX may use it.
 */
static bool claim(void)
{
    static uint32_t user; /* atomic */
    const uint32_t own = (uint32_t)getpid();
    uint32_t found = 0;
    return fry_cas(&user, &found, own) || found == own;
}

ferry_status fry_ucx_open(const fry_ucx_options *options, fry_ucx **ucx_p, const char **why)
{
    ferry_status status = fry_ucx_load(why);
    if (status != FERRY_OK)
        return status;
    if (!claim()) {
        *why = "no UCX in a fork's child whose parent has used UCX: exec, or fork before";
        return FERRY_E_UNSUPPORTED;
    }
    fry_ucx *ucx = fry_alloc(options->memory, sizeof *ucx, _Alignof(fry_ucx));
    if (ucx == NULL)
        goto no_memory;
    ucx->memory = options->memory;
    ucx->log = options->log;
    ucx->keepalive_ns = options->keepalive_ns;
    ucx->registration_cache_bytes = options->registration_cache_bytes;
    ucx->pid = getpid();
    if (options->net_devices != NULL) {
        ucx->net_devices_bytes = strlen(options->net_devices) + 1;
        ucx->net_devices = fry_alloc_raw(ucx->memory, ucx->net_devices_bytes, 1);
        if (ucx->net_devices == NULL)
            goto no_memory;
        memcpy(ucx->net_devices, options->net_devices, ucx->net_devices_bytes);
    }
    *ucx_p = ucx;
    return FERRY_OK;

no_memory:
    fry_free(options->memory, ucx, sizeof *ucx);
    *why = "out of memory";
    return FERRY_E_SYSTEM;
}

void fry_ucx_close(fry_ucx *ucx)
{
    if (ucx->pid == getpid()) {
        for (int kind = 0; kind < FRY_UCX_KINDS; kind++)
            if (ucx->contexts[kind] != NULL)
                fry_ucp.ucp_cleanup(ucx->contexts[kind]);
    }
    fry_free(ucx->memory, ucx->net_devices, ucx->net_devices_bytes);
    fry_free(ucx->memory, ucx, sizeof *ucx);
}

/* ---- channels ---- */

static ucs_status_t make_worker(fry_ucx_channel *channel, fry_ucx_kind kind, const char **call)
{
    fry_ucx *ucx = channel->ucx;
    ucp_context_h *context = &ucx->contexts[kind];
    /*
     * From 1.14 on the cache of registrations, which belongs to a context, may report to a worker
     * that does not exist any more, if two workers share it.
     */
    if (kind == FRY_UCX_NET && fry_ucx_minor() >= MINOR_THAT_NEEDS_CACHE)
        context = &channel->own_context;
    if (*context == NULL) {
        ucs_status_t status = make_context(ucx, kind, context, call);
        if (status != UCS_OK)
            return status;
    }
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
    };
    *call = "ucp_worker_create";
    return fry_ucp.ucp_worker_create(*context, &params, &channel->worker);
}

static ucs_status_t start_worker(fry_ucx_channel *channel, const char **call)
{
    *call = "ucp_worker_set_am_recv_handler";
    ucs_status_t status = fry_ucx_channel_listen(channel, FRY_UCX_MESSAGE, fry_ucx_channel_receive);
    if (status != UCS_OK)
        return status;
    *call = "ucp_worker_get_efd";
    status = fry_ucp.ucp_worker_get_efd(channel->worker, &channel->public_.event_fd);
    if (status != UCS_OK)
        return status;
    fry_ucx_watch_init(&channel->watch, &channel->public_,
                       channel->public_.path == FRY_PATH_NET ? channel->ucx->keepalive_ns : 0);
    return UCS_OK;
}

/*
 * Writes what the other end connects to: UCX's own address, on one host after the mark's place. On
 * one host both ends have the same byte order.
 */
static ucs_status_t write_address(fry_ucx_channel *channel, void *address, size_t *address_bytes,
                                  const char **call)
{
    fry_ucx_mark_place place;
    ucp_address_t *worker_address;
    size_t length;
    size_t place_bytes = 0;
    if (channel->public_.path != FRY_PATH_NET) {
        *call = "a mark";
        ucs_status_t status = fry_ucx_offers_open(channel, &place);
        if (status != UCS_OK)
            return status;
        place_bytes = sizeof place;
        memcpy(address, &place, place_bytes);
    }
    *call = "ucp_worker_get_address";
    ucs_status_t status = fry_ucp.ucp_worker_get_address(channel->worker, &worker_address, &length);
    if (status != UCS_OK)
        return status;
    if (length <= FRY_ADDRESS_BYTES_MAX - place_bytes) {
        memcpy((char *)address + place_bytes, worker_address, length);
        *address_bytes = place_bytes + length;
    } else {
        status = UCS_ERR_EXCEEDS_LIMIT;
    }
    fry_ucp.ucp_worker_release_address(channel->worker, worker_address);
    return status;
}

static ferry_status status_of(ucs_status_t status)
{
    return status == UCS_ERR_NO_MEMORY ? FERRY_E_NO_MEMORY : FERRY_E_PEER;
}

ferry_status fry_ucx_channel_open(fry_ucx *ucx, fry_channel_path path,
                                  const fry_channel_events *events, void *events_arg,
                                  fry_channel **channel_p, void *address, size_t *address_bytes,
                                  fry_fault *fault)
{
    fry_ucx_channel *channel = fry_alloc(ucx->memory, sizeof *channel, _Alignof(fry_ucx_channel));
    if (channel == NULL)
        return FERRY_E_NO_MEMORY;
    channel->ucx = ucx;
    channel->public_ = (fry_channel){
        .ops = &fry_ucx_channel_ops,
        .path = path,
        .event_fd = -1,
        .eager_bytes_max = path == FRY_PATH_NET ? NET_EAGER_BYTES : LOCAL_EAGER_BYTES,
        .events = events,
        .events_arg = events_arg,
    };
    if (!fry_ucx_channel_add_parcels(channel)) {
        fry_free(ucx->memory, channel, sizeof *channel);
        return FERRY_E_NO_MEMORY;
    }

    const char *call = NULL;
    fry_ucx_guard guard;
    fry_ucx_guard_enter(&guard);
    ucs_status_t status =
        make_worker(channel, path == FRY_PATH_NET ? FRY_UCX_NET : FRY_UCX_POSIX, &call);
    if (status != UCS_OK && path != FRY_PATH_NET)
        status = make_worker(channel, FRY_UCX_SYSV, &call);
    if (status == UCS_OK)
        status = start_worker(channel, &call);
    if (status == UCS_OK)
        status = write_address(channel, address, address_bytes, &call);
    fry_ucx_guard_leave(&guard);
    if (status != UCS_OK) {
        channel->public_.ops->destroy(&channel->public_);
        return fry_ucx_tell(fault, status_of(status), status, call);
    }
    *channel_p = &channel->public_;
    return FERRY_OK;
}

/* Takes the mark's place off what write_address wrote. False: the address is too short. */
static bool read_place(fry_ucx_channel *channel, const void **address, size_t address_bytes)
{
    fry_ucx_mark_place place;
    if (channel->public_.path == FRY_PATH_NET)
        return address_bytes > 0;
    if (address_bytes <= sizeof place)
        return false;
    memcpy(&place, *address, sizeof place);
    *address = (const char *)*address + sizeof place;
    fry_ucx_offers_connect(channel, &place);
    return true;
}

ferry_status fry_ucx_channel_connect(fry_channel *public_, const void *address,
                                     size_t address_bytes, fry_fault *fault)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    if (!read_place(channel, &address, address_bytes))
        return fry_ucx_tell(fault, FERRY_E_PEER, UCS_ERR_INVALID_ADDR, "the other end's address");
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode =
            public_->path == FRY_PATH_NET ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler.cb = fry_ucx_channel_broken,
        .err_handler.arg = channel,
    };
    fry_ucx_guard guard;
    fry_ucx_guard_enter(&guard);
    ucs_status_t status = fry_ucp.ucp_ep_create(channel->worker, &params, &channel->endpoint);
    fry_ucx_guard_leave(&guard);
    if (status != UCS_OK) {
        channel->endpoint = NULL;
        return fry_ucx_tell(fault, status_of(status), status, "ucp_ep_create");
    }
    fry_ucx_channel_set_state(channel, FRY_UCX_CHANNEL_CONNECTED);
    return FERRY_OK;
}
