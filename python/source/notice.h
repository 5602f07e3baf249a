/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_NOTICE_H
#define FERRY_PYTHON_NOTICE_H

#include "group.h"

/* Methods of Group. */
PyObject *group_send_notice(group_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names);
PyObject *group_next_notice(group_object *self, PyObject *arguments);

#endif
