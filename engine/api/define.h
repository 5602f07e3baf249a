/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions: spans that are valid from when something else has ended. */
#ifndef FRY_ENGINE_API_DEFINE_H
#define FRY_ENGINE_API_DEFINE_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_define;

#endif
