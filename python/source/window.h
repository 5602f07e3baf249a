/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_WINDOW_H
#define FERRY_PYTHON_WINDOW_H

#include "engine.h"

typedef struct window_object {
    PyObject base;
    ferry_window *window;
    engine_object *engine;
    PyObject *ready;      /* Future: it is open, or was found */
    ferry_future *closed; /* NULL before close() */
} window_object;

extern PyTypeObject *window_type;

int window_add_type(PyObject *module);

#endif
