/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of Python's as ferry's: numbers in bounds, times, texts. */
#include "numbers.h"

static bool out_of_bounds(const char *name)
{
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s is out of bounds", name);
    } else if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s is to be an integer", name);
    }
    return false;
}

bool number_u64(PyObject *object, const char *name, uint64_t *value_p)
{
    PyObject *number = PyNumber_Index(object);
    if (!number)
        return out_of_bounds(name);
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return out_of_bounds(name);
    *value_p = value;
    return true;
}

bool number_size(PyObject *object, const char *name, size_t *value_p)
{
    uint64_t value;
    if (!number_u64(object, name, &value))
        return false;
    *value_p = (size_t)value;
    return true;
}

bool number_u32(PyObject *object, const char *name, uint32_t *value_p)
{
    uint64_t value;
    if (!number_u64(object, name, &value))
        return false;
    if (value > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s is out of bounds", name);
        return false;
    }
    *value_p = (uint32_t)value;
    return true;
}

bool number_i64(PyObject *object, const char *name, int64_t *value_p)
{
    PyObject *number = PyNumber_Index(object);
    if (!number)
        return out_of_bounds(name);
    long long value = PyLong_AsLongLong(number);
    Py_DECREF(number);
    if (value == -1 && PyErr_Occurred())
        return out_of_bounds(name);
    *value_p = value;
    return true;
}

static bool seconds_as_ns(PyObject *object, int64_t *ns_p)
{
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred())
        return false;
    if (seconds != seconds) {
        PyErr_SetString(PyExc_ValueError, "a time is not a number");
        return false;
    }
    double ns = seconds * 1e9;
    *ns_p = ns >= 9e18 ? INT64_MAX : ns <= -9e18 ? INT64_MIN : (int64_t)ns;
    return true;
}

bool number_timeout_ns(PyObject *object, int64_t *timeout_ns_p)
{
    *timeout_ns_p = -1;
    if (object == Py_None)
        return true;
    if (!seconds_as_ns(object, timeout_ns_p))
        return false;
    if (*timeout_ns_p < 0)
        *timeout_ns_p = 0;
    return true;
}

bool number_deadline_ns(const engine_object *engine, PyObject *seconds, int64_t *deadline_ns_p)
{
    *deadline_ns_p = 0;
    if (seconds == Py_None)
        return true;
    int64_t ns;
    if (!seconds_as_ns(seconds, &ns))
        return false;
    *deadline_ns_p = ferry_engine_deadline_in(engine->engine, ns);
    return true;
}

PyObject *text_bytes(PyObject *object, const char *name, const char **text_p)
{
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s is to be a str", name);
        return NULL;
    }
    PyObject *bytes = PyUnicode_AsUTF8String(object);
    char *text;
    /* Without a place for the length, a zero in the text is refused. */
    if (bytes && PyBytes_AsStringAndSize(bytes, &text, NULL)) {
        Py_CLEAR(bytes);
        PyErr_Format(PyExc_ValueError, "%s has a zero in it", name);
    }
    if (bytes)
        *text_p = text;
    return bytes;
}
