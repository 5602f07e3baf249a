/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_ERROR_H
#define FERRY_PYTHON_ERROR_H

#include "abi.h"
#include <ferry/ferry.h>

/* What makes exceptions: (status, domain, native_code, op, rank, label, message, cause). */
void error_set_maker(PyObject *maker);

/* Each sets a Python exception and returns NULL. */
PyObject *raise_status(ferry_status status, const char *message);
PyObject *raise_error(ferry_error *error); /* releases it */
PyObject *raise_future(const ferry_future *future);

/* The exception of a future that failed: a new reference, or NULL with an exception set. */
PyObject *future_exception(const ferry_future *future);

#endif
