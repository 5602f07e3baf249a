/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that are sent: notify.c. */
#ifndef FRY_ENGINE_MESSAGES_NOTIFY_H
#define FRY_ENGINE_MESSAGES_NOTIFY_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_notice;

#endif
