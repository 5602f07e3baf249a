/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_GROUP_H
#define FERRY_PYTHON_GROUP_H

#include "engine.h"

int group_add_type(PyObject *module);

/* A method of Engine: a Group, and when it has met. */
PyObject *engine_join(engine_object *self, PyObject *arguments, PyObject *names);

#endif
