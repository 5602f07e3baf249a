/* SPDX-License-Identifier: Apache-2.0 */
/* Outside events: what a program's own streams come to. */
#ifndef FRY_ENGINE_API_EVENT_H
#define FRY_ENGINE_API_EVENT_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_event;

#endif
