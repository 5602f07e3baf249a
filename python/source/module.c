/* SPDX-License-Identifier: Apache-2.0 */
/* The module ferry._core. It is one for the process: ferry's threads know one list (holder.c). */
#include "completions.h"
#include "error.h"
#include "future.h"
#include "group.h"
#include "holder.h"
#include "operations.h"
#include "plan.h"
#include "promise.h"
#include "scope.h"
#include "span.h"
#include "window.h"

static PyObject *core_setup(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *make_error, *wait;
    if (!PyArg_ParseTuple(arguments, "OO:_setup", &make_error, &wait))
        return NULL;
    error_set_maker(make_error);
    future_set_wait(wait);
    return new_reference(Py_None);
}

static PyObject *core_bin_descriptor(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    int fd = bin_descriptor();
    return fd < 0 ? NULL : PyLong_FromLong(fd);
}

static PyObject *core_bin_told(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    bin_told();
    return new_reference(Py_None);
}

static PyMethodDef core_methods[] = {
    METHOD("_setup", core_setup, METH_VARARGS, "_setup(make_error, wait)"),
    METHOD("bin_descriptor", core_bin_descriptor, METH_NOARGS,
           "Readable when memory of exporters may be let go."),
    METHOD("bin_told", core_bin_told, METH_NOARGS, "Lets that memory go."),
    {NULL, NULL, 0, NULL},
};

static int add_statuses(PyObject *module)
{
    PyObject *statuses = PyDict_New();
    if (!statuses)
        return -1;
#define ADD_STATUS(name_, value_, text_)                                                           \
    {                                                                                              \
        PyObject *number = PyLong_FromLong(value_);                                                \
        if (!number || PyDict_SetItemString(statuses, #name_, number))                             \
            PyErr_Clear();                                                                         \
        Py_XDECREF(number);                                                                        \
    }
    FERRY_STATUS_MAP(ADD_STATUS)
#undef ADD_STATUS
    if (PyModule_AddObject(module, "STATUSES", statuses)) {
        Py_DECREF(statuses);
        return -1;
    }
    return 0;
}

static int core_exec(PyObject *module)
{
    static bool is_made;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError,
                        "ferry works in the main interpreter alone, not in sub-interpreters");
        return -1;
    }
    if (is_made) {
        PyErr_SetString(PyExc_ImportError, "ferry can be loaded once in a process");
        return -1;
    }
    if (engine_add_type(module) || future_add_type(module) || promise_add_type(module) ||
        buffer_add_type(module) || span_add_type(module) || completions_add_type(module) ||
        group_add_type(module) || window_add_type(module) || scope_add_type(module) ||
        operations_add_type(module) || plan_add_type(module) || add_statuses(module) ||
        PyModule_AddStringConstant(module, "VERSION", ferry_version()))
        return -1;
    is_made = true;
    return 0;
}

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
    {0, NULL},
};

static PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ferry._core",
    .m_doc = "ferry's library, for the package ferry.",
    .m_methods = core_methods,
    .m_slots = core_slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}
