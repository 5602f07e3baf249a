/* SPDX-License-Identifier: Apache-2.0 */
/* Words of dumps and of the log. */
#ifndef FRY_ENGINE_OBSERVE_DUMP_NAMES_H
#define FRY_ENGINE_OBSERVE_DUMP_NAMES_H

#include "engine/engine.h"

const char *fry_dump_mode_name(const ferry_engine *engine);
const char *fry_dump_state_name(uint8_t state);
const char *fry_dump_nature_name(uint8_t nature);
const char *fry_dump_reason_name(uint8_t reason);
const char *fry_dump_device_name(const ferry_engine *engine, uint16_t device);

#endif
