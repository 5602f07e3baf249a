/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the threads' records: for hooks, and after a failure. */
#ifndef FRY_ENGINE_TRACE_OBSERVE_H
#define FRY_ENGINE_TRACE_OBSERVE_H

#include "engine/engine.h"

/*
 * Whether there are records that the hooks have not heard. The role's holder, before it sleeps:
 * who gives the baton back after a record wakes the loop, and the loop may be about to sleep.
 */
bool fry_observe_is_due(ferry_engine *engine);

/* Shows the hooks the records. False: there are more by now. */
bool fry_observe_pump(ferry_engine *engine);

/* Logs the newest records for the operation in flight_due. The role's holder. */
void fry_flight_dump(ferry_engine *engine);

#endif
