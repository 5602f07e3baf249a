/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_GROUP_H
#define FERRY_PYTHON_GROUP_H

#include "engine.h"

typedef struct group_object {
    PyObject base;
    ferry_group *group; /* NULL after _close() */
    engine_object *engine;
} group_object;

extern PyTypeObject *group_type;

int group_add_type(PyObject *module);

/* False with ValueError: the group was closed. */
bool group_is_open(const group_object *self);

/* A method of Engine: a Group, and when it has met. */
PyObject *engine_join(engine_object *self, PyObject *arguments, PyObject *names);

#endif
