/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_BUFFER_H
#define FERRY_PYTHON_BUFFER_H

#include "engine.h"

typedef struct buffer_object {
    PyObject base;
    ferry_buffer *buffer; /* NULL after close() */
    engine_object *engine;
    struct holder *holder; /* of the exporter; NULL: ferry's own memory */
    Py_ssize_t exports;    /* views of this buffer that Python has, and calls that use it */
    bool is_readonly;
    bool is_on_host;
} buffer_object;

extern PyTypeObject *buffer_type;

int buffer_add_type(PyObject *module);

/* A Buffer as the options say, on a device. */
PyObject *buffer_make(engine_object *engine, const ferry_buffer_options *options,
                      ferry_device *device);

/* A Buffer that wraps an exporter's memory; device_name NULL: where the memory is. */
PyObject *buffer_wrap(engine_object *engine, PyObject *exporter, PyObject *readonly,
                      const char *device_name);

#endif
