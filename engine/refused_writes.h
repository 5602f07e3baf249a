/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that were refused for want of room. Any thread. */
#ifndef FRY_ENGINE_REFUSED_WRITES_H
#define FRY_ENGINE_REFUSED_WRITES_H

#include "engine/engine.h"

/* What is not written since there was no room is not valid from now on. The rows
 * were checked; context NULL: there is no memory for one. */
void fry_refused_write(ferry_engine *engine, fry_context *context, const fry_rows *rows,
                       fry_refusal why);

#endif
