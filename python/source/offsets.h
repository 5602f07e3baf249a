/* SPDX-License-Identifier: Apache-2.0 */
/* Many integers in one argument: an array with the buffer protocol, a sequence, or one for all. */
#ifndef FERRY_PYTHON_OFFSETS_H
#define FERRY_PYTHON_OFFSETS_H

#include "abi.h"

struct offsets {
    const char *name; /* of the argument, for exceptions */
    Py_buffer view;   /* view.obj is NULL if the argument was no array */
    PyObject *tuple;  /* or NULL */
    uint64_t one;     /* if neither */
    size_t count;     /* SIZE_MAX: one for all */
};

/* False with an exception set. After true the caller calls offsets_clear(). */
bool offsets_read(struct offsets *offsets, PyObject *argument, const char *name);
/* The number at an index below the count; false with ValueError for one below zero. */
bool offsets_at(const struct offsets *offsets, size_t index, size_t *value_p);
void offsets_clear(struct offsets *offsets);

#endif
