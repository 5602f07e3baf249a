/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of dumps. */
#ifndef FRY_ENGINE_OBSERVE_DUMP_JSON_H
#define FRY_ENGINE_OBSERVE_DUMP_JSON_H

#include "engine/observe/dump.h"

extern const fry_dump_form fry_dump_json;

#endif
