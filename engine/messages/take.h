/* SPDX-License-Identifier: Apache-2.0 */
/* Receives and probes of a group with any source (net/peer/any.h), as operations of the graph. */
#ifndef FRY_ENGINE_MESSAGES_TAKE_H
#define FRY_ENGINE_MESSAGES_TAKE_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_take, fry_kind_probe;

#endif
