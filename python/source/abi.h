/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's stable ABI, as of CPython 3.9. Two things that 3.9 has are in the headers of its stable
 * ABI only from later versions on, without a change: METH_FASTCALL (3.10) and the buffer protocol
 * (3.11). They are declared here, so that one extension serves every version from 3.9 on.
 */
#ifndef FERRY_PYTHON_ABI_H
#define FERRY_PYTHON_ABI_H

#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#endif

#ifndef PyBUF_SIMPLE
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer *view, PyObject *exporter, void *memory,
                                  Py_ssize_t size_bytes, int readonly, int flags);

#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#endif

typedef PyObject *(*fast_keywords_fn)(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                      PyObject *names);

/* A row of a table of methods, whatever the function's type. */
#define METHOD(name_, function_, flags_, text_)                                                    \
    {                                                                                              \
        name_, (PyCFunction)(void (*)(void))(function_), flags_, text_                             \
    }

static inline PyObject *new_reference(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

#endif
