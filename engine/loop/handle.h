/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting threads, which help the loop. */
#ifndef FRY_ENGINE_LOOP_HANDLE_H
#define FRY_ENGINE_LOOP_HANDLE_H

#include "engine/engine.h"

/* Ends the calling thread's help; wakes the loop if it is needed. */
void fry_help_ends(ferry_engine *engine, fry_context *context);

#endif
