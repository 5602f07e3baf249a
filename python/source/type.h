/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_TYPE_H
#define FERRY_PYTHON_TYPE_H

#include "abi.h"

/* Makes a type of a spec, adds it to the module and keeps it in *type_p while the process lives. */
int type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **type_p);

#endif
