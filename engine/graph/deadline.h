/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes by deadline: a heap. With the baton. */
#ifndef FRY_ENGINE_GRAPH_DEADLINE_H
#define FRY_ENGINE_GRAPH_DEADLINE_H

#include "engine/engine.h"

void fry_deadline_add(ferry_engine *engine, fry_node *node);
void fry_deadline_remove(ferry_engine *engine, fry_node *node);

#endif
