/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_COPIES_H
#define FERRY_PYTHON_COPIES_H

#include "engine.h"

/* Methods of Engine. */
PyObject *engine_copy(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *names);
PyObject *engine_copy_rows(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *names);
PyObject *engine_copy_pairs(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names);
PyObject *engine_copy_blocks(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names);
PyObject *engine_nop(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *names);

#endif
