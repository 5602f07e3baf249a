/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what threads recorded: for hooks, and after a failure. */
#ifndef FRY_ENGINE_OBSERVE_H
#define FRY_ENGINE_OBSERVE_H

#include "engine/engine.h"

/* Shows the hooks what was recorded. False: not all that there is by now. */
bool fry_trace_pump(ferry_engine *engine);

/* Logs the newest records, because of the operation in flight_due. The role's holder. */
void fry_flight_dump(ferry_engine *engine);

#endif
