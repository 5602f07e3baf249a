/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of refused writes. */
#ifndef FRY_ENGINE_REFUSED_MARK_H
#define FRY_ENGINE_REFUSED_MARK_H

#include "engine/turn.h"

void fry_refused_mark_init(ferry_engine *engine);

/* Handles the mark when it comes out of the inbox. With the baton. */
void fry_refused_mark_arrives(fry_turn *turn);

#endif
