/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_SPAN_H
#define FERRY_PYTHON_SPAN_H

#include "buffer.h"

typedef struct span_object {
    PyObject base;
    buffer_object *buffer;
    size_t offset_bytes;
    size_t size_bytes;
} span_object;

extern PyTypeObject *span_type;

int span_add_type(PyObject *module);

/* The span of a Buffer or Span; false with TypeError or ValueError (closed) set. */
bool span_read(PyObject *object, ferry_span *span_p);

/* The Buffer of a Buffer or Span; borrowed. */
buffer_object *span_buffer(PyObject *object);

/*
 * A Buffer or Span as it is, or a Buffer for one operation alone around an exporter, with
 * `readonly` as for buffer_wrap: a new reference, or NULL with an exception.
 */
PyObject *span_or_wrap(engine_object *engine, PyObject *object, PyObject *readonly);

#endif
