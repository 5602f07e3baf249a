/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders: what keeps the memory of an exporter (an object with the buffer protocol, or a tensor of
 * DLPack) in place until ferry's last operation on it is quiet. ferry's free_fn puts the holder
 * into the bin; a thread with the interpreter's lock empties the bin.
 */
#ifndef FERRY_PYTHON_HOLDER_H
#define FERRY_PYTHON_HOLDER_H

#include "abi.h"
#include "list.h"
#include <ferry/ferry.h>

struct holder {
    struct list_node node; /* in the bin */
    int references;        /* the Buffer's, and ferry's: until the bin was emptied of it */
    bool is_let_go;        /* the exporter has its memory back */
    Py_buffer view;        /* view.obj is NULL where `drop` holds the memory */
    void (*drop)(void *arg);
    void *drop_arg;
    void *memory;
    size_t size_bytes;
    bool is_readonly;
    _Atomic(ferry_promise *) freed; /* told by free_fn; holder_freed: it has run */
};

/* A holder with one reference; NULL with MemoryError. */
struct holder *holder_make(void);
/* A holder of an exporter's view; NULL with BufferError or TypeError. */
struct holder *holder_of_view(PyObject *exporter, PyObject *readonly);
void holder_release(struct holder *holder);

/* ferry's free_fn: any thread. */
void holder_free(void *arg, void *memory, size_t size_bytes);

/*
 * Has the promise resolved when free_fn has put the holder into the bin; takes the promise. One
 * promise a holder: false if there is one.
 */
bool holder_tell(struct holder *holder, ferry_promise *promise);

/* Any thread: something for the bin, whose `drop` runs with the interpreter's lock. */
void bin_put(struct holder *holder);
/* Lets go what is in the bin. With the interpreter's lock. */
void bin_empty(void);
/* A descriptor that is readable when the bin was filled; -1 with OSError. */
int bin_descriptor(void);
void bin_told(void);

#endif
