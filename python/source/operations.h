/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_OPERATIONS_H
#define FERRY_PYTHON_OPERATIONS_H

#include "engine.h"

struct listed_options;

typedef struct operations_object {
    PyObject base;
    engine_object *engine;
    ferry_op *ops;
    size_t count, room;
    ferry_buffer **buffers; /* that the operations name: a reference each */
    size_t buffer_count, buffer_room;
    struct listed_options *options; /* that the operations point to */
    PyObject *kept;                 /* list: windows, groups, what notices point to */
    PyObject *wrapped;              /* dict: an exporter's address -> (exporter, its Buffer) */
    unsigned readers;               /* calls without the interpreter's lock that read the list */
    bool has_groups;
} operations_object;

extern PyTypeObject *operations_type;

int operations_add_type(PyObject *module);

/* False with ValueError: a group that an operation names was closed. */
bool operations_are_open(const operations_object *self);

#endif
