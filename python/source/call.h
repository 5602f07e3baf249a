/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_CALL_H
#define FERRY_PYTHON_CALL_H

#include "completions.h"

/* A method of Engine. */
PyObject *engine_call(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *names);

/*
 * Cuts the calls' references to Python. Returns those that ferry will not report as quiet. After a
 * shutdown that succeeded they are quiet and can be freed, once the post is empty; otherwise ferry
 * may still use them, and they are leaked, as ferry leaks the engine.
 */
struct call *calls_close(completions_object *self);
void calls_free(struct call *left, bool is_quiet);
int calls_traverse(completions_object *self, visitproc visit, void *arg);

#endif
