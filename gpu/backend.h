/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends: kinds of devices that modules offer (base/module.h), such as CUDA's.
 */
#ifndef FRY_GPU_BACKEND_H
#define FRY_GPU_BACKEND_H

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/module.h"
#include "gpu/device.h"

/* An engine's instance of a backend, with the devices that it has opened. */
typedef struct fry_backend fry_backend;

typedef struct fry_backend_options {
    fry_notify notify; /* called by the backend's own threads after an operation has fired */
    const fry_log *log;
    const fry_clock *clock;
    const uint32_t *tracing; /* not 0: beginnings of operations are recorded */
} fry_backend_options;

/* How to open a device; 0 and NULL: the default. */
typedef struct fry_device_request {
    const char *name;      /* "cuda:0", "cuda:1/2": checked by the backend */
    void *native_context;  /* CUDA: a CUcontext of the user's; borrowed while the engine lives */
    uint32_t completion;   /* ferry_completion */
    uint32_t parked_count; /* parked streams */
    size_t staging_bytes;  /* pinned memory for copies of pageable memory */
} fry_device_request;

typedef struct fry_backend_ops {
    fry_module_ops module; /* first */

    /*
     * The number of devices; if 0, *reason says why ("no driver", ...), else what there is. Static
     * text, or text of the process. Any thread; loads the driver, makes no context.
     */
    uint32_t (*probe)(const char **reason);

    /*
     * Opens the backend. FERRY_OK; FERRY_E_NO_MEMORY; FERRY_E_SYSTEM; FERRY_E_NOT_FOUND: no driver
     * or device. Costs little: contexts, streams and threads come with the first device that needs
     * them.
     */
    ferry_status (*open)(const fry_memory *memory, const fry_backend_options *options,
                         fry_backend **backend_p);

    /*
     * Opens a device. One at a time; may block. FERRY_OK; FERRY_E_INVALID (an invalid name or
     * option), FERRY_E_NOT_FOUND (no such device here), FERRY_E_NO_MEMORY, FERRY_E_DEVICE,
     * FERRY_E_SYSTEM; after a failure *fault says why in words.
     */
    ferry_status (*device_open)(fry_backend *backend, const fry_device_request *request,
                                fry_device **device_p, fry_fault *fault);

    /*
     * Ends the backend's threads. FERRY_OK; FERRY_E_BUSY if something issued, or recorded on a
     * user's stream, has not fired (nothing happens then). Afterwards only memory_free, graph_free
     * and destroy may be called.
     */
    ferry_status (*stop)(fry_backend *backend);

    /* Frees the backend, which was stopped, but not buffers' memory. */
    void (*destroy)(fry_backend *backend);
} fry_backend_ops;

/* The backend of that name; NULL: *reason says why, as with fry_module_find. */
static inline const fry_backend_ops *fry_backend_find(const char *name, const char **reason)
{
    return (const fry_backend_ops *)(const void *)fry_module_find(name, reason);
}

#endif
