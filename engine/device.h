/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of backends: opening them, and what they tell. */
#ifndef FRY_ENGINE_DEVICE_H
#define FRY_ENGINE_DEVICE_H

#include "engine/engine.h"

/* A device's own thread has seen something fire; arg is the engine. */
void fry_device_has_fired(void *arg);

/*
 * Ends the backends of modules, when the graph is quiet. False: one was not quiet by
 * end_ns (CLOCK_MONOTONIC; INT64_MAX never comes), which was logged; it can be tried again.
 */
bool fry_backends_stop(ferry_engine *engine, int64_t end_ns);

/* And frees them, stopped before. */
void fry_backends_destroy(ferry_engine *engine);

#endif
