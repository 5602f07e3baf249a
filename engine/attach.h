/* SPDX-License-Identifier: Apache-2.0 */
/* The loop in the user's libev loop. */
#ifndef FRY_ENGINE_ATTACH_H
#define FRY_ENGINE_ATTACH_H

#include "engine/engine.h"

/* *why_p says what is wrong if it is not FERRY_OK. */
ferry_status fry_attach(ferry_engine *engine, struct ev_loop *loop, const char **why_p);

/* Takes the watchers out of the user's loop; false if its thread did not come by in time. */
bool fry_detach(ferry_engine *engine, int64_t end_ns);
void fry_attachment_free(ferry_engine *engine);

#endif
