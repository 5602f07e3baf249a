/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that were refused for lack of room or memory. Any thread. */
#ifndef FRY_ENGINE_GRAPH_REFUSED_WRITES_H
#define FRY_ENGINE_GRAPH_REFUSED_WRITES_H

#include "engine/engine.h"

/*
 * Poisons the rows of a refused write, from its place in program order on. The rows were checked;
 * context NULL: there is no memory for one.
 */
void fry_refused_write(ferry_engine *engine, fry_context *context, const fry_rows *rows,
                       fry_refusal why);

#endif
