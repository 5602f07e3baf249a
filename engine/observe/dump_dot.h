/* SPDX-License-Identifier: Apache-2.0 */
/* The form of dumps for graphviz. */
#ifndef FRY_ENGINE_OBSERVE_DUMP_DOT_H
#define FRY_ENGINE_OBSERVE_DUMP_DOT_H

#include "engine/observe/dump.h"

extern const fry_dump_form fry_dump_dot;

#endif
