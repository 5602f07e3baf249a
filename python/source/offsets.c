/* SPDX-License-Identifier: Apache-2.0 */
#include "offsets.h"
#include "numbers.h"

static bool is_integers(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    return *format && strchr("iIlLqQnN", *format) && format[1] == 0 && view->ndim == 1 &&
           (view->itemsize == 4 || view->itemsize == 8);
}

static bool is_unsigned(const Py_buffer *view)
{
    return strpbrk(view->format, "ILQN") != NULL;
}

static bool read_array(struct offsets *offsets, PyObject *argument)
{
    if (PyObject_GetBuffer(argument, &offsets->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
        return false;
    if (!is_integers(&offsets->view)) {
        PyBuffer_Release(&offsets->view);
        PyErr_Format(PyExc_TypeError,
                     "%s is to be an array of one dimension, of integers of 32 or 64 bits",
                     offsets->name);
        return false;
    }
    offsets->count = (size_t)(offsets->view.len / offsets->view.itemsize);
    return true;
}

bool offsets_read(struct offsets *offsets, PyObject *argument, const char *name)
{
    *offsets = (struct offsets){.name = name, .count = SIZE_MAX};
    if (PyLong_Check(argument))
        return number_u64(argument, name, &offsets->one);
    if (PyObject_CheckBuffer(argument))
        return read_array(offsets, argument);
    offsets->tuple = PySequence_Tuple(argument);
    if (offsets->tuple)
        offsets->count = (size_t)PyTuple_Size(offsets->tuple);
    return offsets->tuple != NULL;
}

bool offsets_at(const struct offsets *offsets, size_t index, size_t *value_p)
{
    if (offsets->tuple)
        return number_size(PyTuple_GetItem(offsets->tuple, (Py_ssize_t)index), offsets->name,
                           value_p);
    if (!offsets->view.obj) {
        *value_p = (size_t)offsets->one;
        return true;
    }
    int64_t value;
    if (offsets->view.itemsize == 8) {
        memcpy(&value, (const char *)offsets->view.buf + 8 * index, 8);
    } else if (is_unsigned(&offsets->view)) {
        uint32_t word;
        memcpy(&word, (const char *)offsets->view.buf + 4 * index, 4);
        value = word;
    } else {
        int32_t word;
        memcpy(&word, (const char *)offsets->view.buf + 4 * index, 4);
        value = word;
    }
    if (value < 0) { /* or above what a size can be */
        PyErr_Format(PyExc_ValueError, "%s is out of bounds at index %zu", offsets->name, index);
        return false;
    }
    *value_p = (size_t)value;
    return true;
}

void offsets_clear(struct offsets *offsets)
{
    if (offsets->view.obj)
        PyBuffer_Release(&offsets->view);
    Py_CLEAR(offsets->tuple);
}
