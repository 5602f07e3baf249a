/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_PLAN_H
#define FERRY_PYTHON_PLAN_H

#include "engine.h"

int plan_add_type(PyObject *module);

#endif
