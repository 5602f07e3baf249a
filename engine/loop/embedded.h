/* SPDX-License-Identifier: Apache-2.0 */
/* The loop on the user's threads. */
#ifndef FRY_ENGINE_LOOP_EMBEDDED_H
#define FRY_ENGINE_LOOP_EMBEDDED_H

#include "engine/engine.h"

ferry_status fry_embedded_open(ferry_engine *engine);
void fry_embedded_close(ferry_engine *engine);

/* Makes progress until everything is quiet; `is_look`: as far as it goes without waiting. */
bool fry_embedded_end(ferry_engine *engine, int64_t end_ns, bool is_look);

/* Waits; the waiting thread acts as the loop meanwhile. */
ferry_status fry_embedded_wait(ferry_engine *engine, ferry_future *future, int64_t timeout_ns);

/*
 * Takes the role for a moment, for a thread that is not the loop: after the stop in any mode,
 * before it if no thread has the role for good. False: another thread has it. fry_role_return gives
 * the role back, and sees to sleepers.
 */
bool fry_role_borrow(ferry_engine *engine);
void fry_role_return(ferry_engine *engine);

/* ferry_engine.armed_by: the armed thread's word, or one of these. */
#define FRY_NOBODY_ARMED 0
#define FRY_SEVERAL_ARMED 1

/*
 * One round of the user's loop. Returns how much was done, or a negative status. `sleeper` is the
 * thread's word for armed_by: its arm ends.
 */
int64_t fry_embedded_progress(ferry_engine *engine, size_t budget, uintptr_t sleeper);

/* FERRY_OK: the user's loop may sleep on user_poller; FERRY_E_BUSY: there is work. */
ferry_status fry_embedded_arm(ferry_engine *engine, uintptr_t sleeper);

#endif
