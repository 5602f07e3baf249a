/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PYTHON_STATS_H
#define FERRY_PYTHON_STATS_H

#include "engine.h"

/* The figures of an engine, or of a scope of it, in the order of ferry/_stats.py. */
PyObject *stats_tuple(const engine_object *engine, const ferry_scope *scope);

#endif
