/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine, what of it is in C. Three rules hold in all of this folder:
 *  - No thread of ferry's runs Python code or takes the interpreter's lock. What ferry tells by a
 *    callback is put on a lock-free list (list.h), and a thread that has the interpreter's lock
 *    takes it from there. So ferry never waits for Python, also not while the interpreter ends.
 *  - Calls that may block (shutdown, wait, allocation, batches) let the interpreter's lock go.
 *  - Every object that holds a handle of ferry's holds its Engine, so no call follows the engine's
 *    release.
 */
#ifndef FERRY_PYTHON_ENGINE_H
#define FERRY_PYTHON_ENGINE_H

#include "abi.h"
#include <ferry/ferry.h>

typedef struct engine_object {
    PyObject base;
    ferry_engine *engine;
    ferry_op *scratch; /* room for a batch, kept for the next one */
    bool is_shut_down; /* the shutdown has succeeded */
} engine_object;

extern PyTypeObject *engine_type;

int engine_add_type(PyObject *module);

/* A device by its name; NULL with an exception. */
ferry_device *engine_device(const engine_object *self, const char *name);

#endif
