/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_PROMISE_H
#define FERRY_PYTHON_PROMISE_H

#include "engine.h"

int promise_add_type(PyObject *module);

/* A Promise, which takes the handle. */
PyObject *promise_wrap(engine_object *engine, ferry_promise *promise);

#endif
