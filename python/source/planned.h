/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_PLANNED_H
#define FERRY_PYTHON_PLANNED_H

#include "completions.h"

/*
 * Sets the function of an operation of kind FERRY_OP_ASYNC: each time that it begins, the event
 * loop of the Completions calls target.begin(promise), and target.cancel() when one of those that
 * have begun has failed. *buffer_p receives a buffer, which the caller releases. As long as ferry
 * keeps that for a plan or a post, the target lives; so the operation is to name it in an access.
 * False with an exception.
 */
bool planned_make(completions_object *owner, PyObject *target, ferry_op *op,
                  ferry_buffer **buffer_p);

/* Cuts the references to Python of all of them, and forgets them. */
void planned_close(completions_object *owner);
int planned_traverse(completions_object *owner, visitproc visit, void *arg);

#endif
