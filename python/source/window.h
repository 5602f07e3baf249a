/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_WINDOW_H
#define FERRY_PYTHON_WINDOW_H

#include "engine.h"

int window_add_type(PyObject *module);

#endif
