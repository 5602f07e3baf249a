/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: backends in separate files, opened at run time and never closed (their threads and the
 * drivers behind them do not end with an engine). A module exports only fry_module_entry. It gets
 * what it needs of base/ in a table, so it links nothing of ferry.
 */
#ifndef FRY_GPU_MODULE_H
#define FRY_GPU_MODULE_H

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/memory.h"
#include "gpu/device.h"

/* Version of the layouts in this file and gpu/device.h: library and module must be of one build. */
#define FRY_MODULE_VERSION 4

#define FRY_MODULE_ENTRY "fry_module_entry"

/*
 * The CUDA module's state of a thread, zeroed at first. The library owns it: the loader would free
 * a module's own thread-local variables in other threads, in an order that sanitizers do not see.
 */
typedef struct fry_module_thread {
    void *scope; /* for gpu/cuda/context.c, like the next */
    bool had_context;
    uint32_t entered; /* scopes of it that have made a context current */
} fry_module_thread;

/* The functions of base/ that a module gets, by their names. */
typedef struct fry_module_host {
    uint32_t version;    /* FRY_MODULE_VERSION */
    uint32_t size_bytes; /* of this struct */
    const char *build;   /* ferry_version() */
    void *(*alloc)(const fry_memory *memory, size_t size_bytes, size_t align_bytes);
    void *(*alloc_raw)(const fry_memory *memory, size_t size_bytes, size_t align_bytes);
    void (*free)(const fry_memory *memory, void *pointer, size_t size_bytes);
    void (*log_line)(const fry_log *log, ferry_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    int64_t (*clock_now_ns)(const fry_clock *clock);
    int64_t (*clock_monotonic_ns)(void);
    const char *(*environment)(fry_environment_variable variable);
    void (*futex_wait)(const uint32_t *word, uint32_t expected, int64_t timeout_ns);
    void (*futex_wake)(const uint32_t *word, int count);
    fry_module_thread *(*thread)(void); /* the calling thread's state */
} fry_module_host;

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
    const char *name; /* "cuda" */

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
     * user's stream, has not fired (nothing happens then). Afterwards only memory_free and destroy
     * may be called.
     */
    ferry_status (*stop)(fry_backend *backend);

    /* Frees the backend, which was stopped, but not buffers' memory. */
    void (*destroy)(fry_backend *backend);
} fry_backend_ops;

/*
 * A module's entry. NULL: it was made for another version; *reason says so. Called once a process.
 */
typedef const fry_backend_ops *(*fry_module_entry_fn)(const fry_module_host *host,
                                                      const char **reason);

/*
 * The backend of a module ("cuda"), from FERRY_MODULE_PATH, then from the folder `ferry` beside the
 * library. The first call opens it, once a process; the module and the answer are kept. NULL:
 * *reason says why, in text that stays; always NULL in a fork's child of a process that has it.
 * reason may be NULL. Any thread; may block.
 */
const fry_backend_ops *fry_module_find(const char *name, const char **reason);

#endif
