/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's functions, found at run time: a program that never talks to another process does not load
 * UCX, whose constructors take signal handlers, a signal stack and some megabytes.
 */
#ifndef FRY_NET_UCX_LIBRARY_H
#define FRY_NET_UCX_LIBRARY_H

#include "base/fault.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucp/api/ucp.h>

/* ferry uses functions that UCX 1.13 has, the oldest version that was tried. */
#define FRY_UCX_MAJOR 1
#define FRY_UCX_MINOR 13

#define FRY_UCX_FUNCTION_MAP(X)                                                                    \
    X(ucp_get_version)                                                                             \
    X(ucp_get_version_string)                                                                      \
    X(ucs_status_string)                                                                           \
    X(ucp_config_read)                                                                             \
    X(ucp_config_modify)                                                                           \
    X(ucp_config_release)                                                                          \
    X(ucp_init_version)                                                                            \
    X(ucp_cleanup)                                                                                 \
    X(ucp_worker_create)                                                                           \
    X(ucp_worker_destroy)                                                                          \
    X(ucp_worker_get_address)                                                                      \
    X(ucp_worker_release_address)                                                                  \
    X(ucp_worker_get_efd)                                                                          \
    X(ucp_worker_set_am_recv_handler)                                                              \
    X(ucp_worker_progress)                                                                         \
    X(ucp_worker_arm)                                                                              \
    X(ucp_ep_create)                                                                               \
    X(ucp_ep_close_nbx)                                                                            \
    X(ucp_am_send_nbx)                                                                             \
    X(ucp_am_recv_data_nbx)                                                                        \
    X(ucp_am_data_release)                                                                         \
    X(ucp_request_free)

#define FRY_UCX_FIELD_(name) __typeof__(&name) name;
typedef struct fry_ucx_functions {
    FRY_UCX_FUNCTION_MAP(FRY_UCX_FIELD_)
} fry_ucx_functions;
#undef FRY_UCX_FIELD_

/*
 * Finds UCX, once a process. FERRY_OK, or FERRY_E_UNSUPPORTED; *text_p says why not, or which UCX
 * it is; it lives as long as the process. Any thread.
 */
ferry_status fry_ucx_load(const char **text_p);

/* Set when fry_ucx_load has succeeded. */
extern fry_ucx_functions fry_ucp;

/* The minor version of the loaded UCX. */
unsigned fry_ucx_minor(void);

/* Whether this library loaded UCX into the process. */
bool fry_ucx_is_ours(void);

/* Whether there are InfiniBand devices, for which memory is registered. */
bool fry_ucx_has_infiniband(void);

/* Makes `fault` of a status and a call's answer: "ucp_init: No such device". Returns the status. */
ferry_status fry_ucx_tell(fry_fault *fault, ferry_status status, ucs_status_t result,
                          const char *call);

#endif
