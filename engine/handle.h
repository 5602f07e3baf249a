/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting threads, which help the loop. */
#ifndef FRY_ENGINE_HANDLE_H
#define FRY_ENGINE_HANDLE_H

#include "engine/engine.h"

/* The thread is one of the engine's helpers no more, and leaves the loop a wake if it is needed. */
void fry_help_ends(ferry_engine *engine, fry_context *context);

#endif
