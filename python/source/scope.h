/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_SCOPE_H
#define FERRY_PYTHON_SCOPE_H

#include "engine.h"

typedef struct scope_object {
    PyObject base;
    ferry_scope *scope;
    engine_object *engine;
} scope_object;

extern PyTypeObject *scope_type;

int scope_add_type(PyObject *module);

#endif
