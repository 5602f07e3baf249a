/* SPDX-License-Identifier: Apache-2.0 */
/* From ferry's statuses and errors to Python's exceptions, which ferry/errors.py makes. */
#include "error.h"

static PyObject *error_maker;

void error_set_maker(PyObject *maker)
{
    Py_INCREF(maker);
    Py_XDECREF(error_maker);
    error_maker = maker;
}

static PyObject *text_or_none(const char *text)
{
    if (!text)
        return new_reference(Py_None);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *exception_of(ferry_status status, const char *domain, const ferry_error *error,
                              const char *message, PyObject *cause)
{
    if (!error_maker) {
        PyErr_SetString(PyExc_ImportError, "ferry._core is for the package ferry alone");
        return NULL;
    }
    PyObject *rank = error && error->rank != FERRY_RANK_NONE ? PyLong_FromUnsignedLong(error->rank)
                                                             : new_reference(Py_None);
    PyObject *label = text_or_none(error ? error->label : NULL);
    PyObject *text = text_or_none(message);
    PyObject *made = NULL;
    if (rank && label && text)
        made = PyObject_CallFunction(error_maker, "isLKOOOO", (int)status, domain,
                                     (long long)(error ? error->native_code : 0),
                                     (unsigned long long)(error ? error->op : 0), rank, label, text,
                                     cause);
    Py_XDECREF(rank);
    Py_XDECREF(label);
    Py_XDECREF(text);
    return made;
}

static PyObject *exception_of_error(const ferry_error *error)
{
    /* ferry's chains are an error and the first error that led to it; deeper ones work too. */
    PyObject *cause = error->cause ? exception_of_error(error->cause) : new_reference(Py_None);
    if (!cause)
        return NULL;
    PyObject *made = exception_of(error->status, error->domain, error, error->message, cause);
    Py_DECREF(cause);
    return made;
}

static PyObject *set_exception(PyObject *exception)
{
    if (exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *raise_status(ferry_status status, const char *message)
{
    return set_exception(exception_of(status, "ferry", NULL,
                                      message ? message : ferry_status_text(status), Py_None));
}

PyObject *raise_error(ferry_error *error)
{
    PyObject *exception = exception_of_error(error);
    ferry_error_release(error);
    return set_exception(exception);
}

PyObject *future_exception(const ferry_future *future)
{
    return exception_of_error(ferry_future_error(future));
}

PyObject *raise_future(const ferry_future *future)
{
    return set_exception(future_exception(future));
}
