/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_FUTURE_H
#define FERRY_PYTHON_FUTURE_H

#include "engine.h"

typedef struct future_object {
    PyObject base;
    ferry_future *future;
    engine_object *engine;
    PyObject *convert; /* called with the Future for its result, or NULL: the result is None */
    bool is_operation; /* ends by itself, so that another operation may wait for it */
} future_object;

extern PyTypeObject *future_type;

int future_add_type(PyObject *module);

/* A generator function that waits for a pending Future in an event loop. */
void future_set_wait(PyObject *wait);

/*
 * A Future for what an operation of ferry's returned; takes the reference. If the operation was
 * refused, raises why. `convert` is borrowed, or NULL.
 */
PyObject *future_wrap(engine_object *engine, ferry_future *future, PyObject *convert);

/* The same for what is an operation, and no request or promise. */
PyObject *operation_wrap(engine_object *engine, ferry_future *future, PyObject *convert);

#endif
