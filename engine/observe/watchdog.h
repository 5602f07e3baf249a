/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: reports operations that have lived too long. */
#ifndef FRY_ENGINE_OBSERVE_WATCHDOG_H
#define FRY_ENGINE_OBSERVE_WATCHDOG_H

#include "engine/engine.h"

/*
 * With the baton: when it must look again; INT64_MAX while no operation lives. An operation that
 * enters then wakes the loop.
 */
int64_t fry_watchdog_next_ns(ferry_engine *engine);

/*
 * With the role, about to sleep: when it must look again if the loop could not look at the graph
 * (!has_looked).
 */
int64_t fry_watchdog_again_ns(ferry_engine *engine, bool has_looked);

/*
 * Whether a report is due. True: the caller must call fry_watchdog_bark, without the baton. With
 * the baton, on the loop.
 */
bool fry_watchdog_is_due(ferry_engine *engine);
void fry_watchdog_bark(ferry_engine *engine);

/* Copies the path; FERRY_OK or FERRY_E_NO_MEMORY. */
ferry_status fry_watchdog_open(ferry_engine *engine, const char *path);
void fry_watchdog_close(ferry_engine *engine);

#endif
