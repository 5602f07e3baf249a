/* SPDX-License-Identifier: Apache-2.0 */
#include "type.h"

int type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **type_p)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type)
        return -1;
    *type_p = (PyTypeObject *)type;
    const char *dot = strrchr(spec->name, '.');
    Py_INCREF(type);
    if (PyModule_AddObject(module, dot + 1, type)) {
        Py_DECREF(type);
        return -1;
    }
    return 0;
}
