/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module for tests (tests/fake/module.c) that calls itself "cuda", and the strings by
 * which a test moves it. Its GPUs copy as they are told and their memory is the process's, but it
 * keeps a list of which is whose, as a driver does.
 */
#ifndef FERRY_TESTS_FAKE_MODULE_H
#define FERRY_TESTS_FAKE_MODULE_H

#include <dlfcn.h>
#include <ferry/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* In folders of these names below FAKE_MODULES; each is a ferry_cuda.so. */
#define FAKE_GOOD "good"
#define FAKE_OTHER_VERSION "version" /* made for another version */
#define FAKE_NO_ENTRY "entryless"    /* exports nothing that is looked for */
#define FAKE_OTHER_NAME "renamed"    /* the module of something else */
#define FAKE_NO_LIBRARY "broken"     /* no shared object */

#define FAKE_DRIVER_CODE 719 /* native code of device_open's failures; its domain is "fake" */
#define FAKE_ALLOC_CODE 46   /* the same of allocations */
#define FAKE_STREAMS 3       /* of a device: 0 copies what is pinned, 1 is staged, 2 is its own */

typedef struct fake_module {
    /* What it does; set before the call that it is about. */
    _Atomic int gpus;               /* that there are; 1 */
    _Atomic int open_status;        /* of the backend */
    _Atomic int device_open_status; /* of devices */
    _Atomic int alloc_status;       /* of memory, of every kind */
    _Atomic int busy_stops;         /* stop() answers FERRY_E_BUSY so many times */
    _Atomic bool is_gated;          /* device_open, or the entry, waits until it is not */
    _Atomic bool gates_pinned;      /* so does the question whether memory is page-locked */
    _Atomic bool holds_copies;      /* what is issued does not fire */
    /* What it did. */
    _Atomic int entries, probes, opens, device_opens, stops, destroys;
    _Atomic int at_gate; /* calls that have come to the gate */
    _Atomic int allocs, frees, live_allocations, pinned_asked;
    _Atomic int copies[FAKE_STREAMS]; /* by the stream they went on */
    _Atomic bool was_freed_stopped;   /* memory was freed after stop */
    _Atomic uint32_t parked_count;    /* of the last request, as the next */
    _Atomic size_t staging_bytes;
    _Atomic(void *) native_context;
} fake_module;

#define FAKE_MODULE_STATE "fake_module_state" /* a fake_module */

/* Has ferry look for modules in a folder of this name. Before it has looked. */
static inline void fake_module_choose(const char *folder)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", FAKE_MODULES, folder);
    (void)setenv("FERRY_MODULE_PATH", path, 1);
}

/* The same with a good one, and its state. NULL: it can't be loaded. */
static inline fake_module *fake_module_load(void)
{
    fake_module_choose(FAKE_GOOD);
    void *handle = dlopen(FAKE_MODULES "/" FAKE_GOOD "/ferry_cuda.so", RTLD_NOW | RTLD_LOCAL);
    return handle != NULL ? dlsym(handle, FAKE_MODULE_STATE) : NULL;
}

#endif
