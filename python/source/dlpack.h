/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_DLPACK_H
#define FERRY_PYTHON_DLPACK_H

#include "buffer.h"

/*
 * A holder of an exporter's tensor; NULL with an exception.
 *  is_cuda  whether the exporter says that its memory is a GPU's
 */
struct holder *dlpack_take(PyObject *exporter, bool is_cuda, bool *is_cuda_p, int *index_p);

/* Methods of Buffer. */
PyObject *dlpack_lend(buffer_object *self, PyObject *arguments, PyObject *names);
PyObject *dlpack_device(buffer_object *self, PyObject *ignored);

#endif
