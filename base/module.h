/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: parts of ferry in separate files, opened at run time and never closed (their threads and
 * the drivers behind them do not end with an engine). A module exports only fry_module_entry. It
 * gets what it needs of base/ in a table, so it links nothing of ferry.
 */
#ifndef FRY_BASE_MODULE_H
#define FRY_BASE_MODULE_H

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/memory.h"

/*
 * Version of the layouts in this file and of what modules offer (gpu/backend.h, net/pairs.h):
 * library and module must be of one build.
 */
#define FRY_MODULE_VERSION 5

#define FRY_MODULE_ENTRY "fry_module_entry"

/*
 * A module's state of a thread, zeroed at first. The library owns it: the loader would free a
 * module's own thread-local variables in other threads, in an order that sanitizers do not see.
 * Only the CUDA module has any.
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

/* What a module offers begins with this; the rest depends on which it is. */
typedef struct fry_module_ops {
    const char *name; /* "cuda", "nccl" */
} fry_module_ops;

/*
 * A module's entry. NULL: it was made for another version; *reason says so. Called once a process.
 */
typedef const fry_module_ops *(*fry_module_entry_fn)(const fry_module_host *host,
                                                     const char **reason);

/*
 * What the module of that name offers: "cuda" a fry_backend_ops, "nccl" a fry_pairs_ops. It is
 * opened from FERRY_MODULE_PATH, then from the folder `ferry` beside the library. The first call
 * opens it, once a process; the module and the answer are kept. NULL: *reason says why, in text
 * that stays; always NULL in a fork's child of a process that has it. reason may be NULL. Any
 * thread; may block.
 */
const fry_module_ops *fry_module_find(const char *name, const char **reason);

#endif
