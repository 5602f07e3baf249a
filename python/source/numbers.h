/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of Python's as ferry's: numbers in bounds, times, texts. */
#ifndef FERRY_PYTHON_NUMBERS_H
#define FERRY_PYTHON_NUMBERS_H

#include "engine.h"

/* Each returns false with an exception set, which names the argument. */
bool number_size(PyObject *object, const char *name, size_t *value_p);
bool number_u64(PyObject *object, const char *name, uint64_t *value_p);
bool number_u32(PyObject *object, const char *name, uint32_t *value_p);
bool number_i64(PyObject *object, const char *name, int64_t *value_p);

/* Seconds, or None for ever (-1), as relative nanoseconds. */
bool number_timeout_ns(PyObject *object, int64_t *timeout_ns_p);

/* Seconds from now, or None for no deadline (0), as a deadline of the engine's clock. */
bool number_deadline_ns(const engine_object *engine, PyObject *seconds, int64_t *deadline_ns_p);

/* A new reference to bytes, which own the text at *text_p; NULL with an exception. */
PyObject *text_bytes(PyObject *object, const char *name, const char **text_p);

#endif
