/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of backends: opening them and describing them. */
#ifndef FRY_ENGINE_API_DEVICE_H
#define FRY_ENGINE_API_DEVICE_H

#include "engine/engine.h"

/* Called by a device's own thread when something has fired; arg is the engine. */
void fry_fired_wake(void *arg);

/*
 * Stops the modules' backends, when the graph is quiet. False: one was not quiet by end_ns
 * (CLOCK_MONOTONIC; INT64_MAX never comes); this is logged, and the caller may try again.
 */
bool fry_backends_stop(ferry_engine *engine, int64_t end_ns);

/* Frees the backends, which have stopped. */
void fry_backends_destroy(ferry_engine *engine);

#endif
