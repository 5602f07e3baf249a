/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of refused writes. */
#ifndef FRY_ENGINE_REFUSED_MARK_H
#define FRY_ENGINE_REFUSED_MARK_H

#include "engine/turn.h"

void fry_refused_mark_init(ferry_engine *engine);

/* With the baton: the mark comes out of the inbox. */
void fry_refused_mark_arrives(fry_turn *turn);

#endif
