/* SPDX-License-Identifier: Apache-2.0 */
#include "sides.h"

#include <ferry/ferry.h>

#include <string.h>

#define FILL_(function_, type_, init_)                                                             \
    void function_(void *there)                                                                    \
    {                                                                                              \
        static const type_ here = init_; /* static: bytes between its fields are zero */           \
        memcpy(there, &here, sizeof here);                                                         \
    }

FILL_(c_engine_options, ferry_engine_options, FERRY_ENGINE_OPTIONS_INIT)
FILL_(c_op_options, ferry_op_options, FERRY_OP_OPTIONS_INIT)
FILL_(c_device_options, ferry_device_options, FERRY_DEVICE_OPTIONS_INIT)
FILL_(c_device_info, ferry_device_info, FERRY_DEVICE_INFO_INIT)
FILL_(c_member_info, ferry_member_info, FERRY_MEMBER_INFO_INIT)
FILL_(c_barrier_options, ferry_barrier_options, FERRY_BARRIER_OPTIONS_INIT)
FILL_(c_message_info, ferry_message_info, FERRY_MESSAGE_INFO_INIT)
FILL_(c_window_info, ferry_window_info, FERRY_WINDOW_INFO_INIT)
FILL_(c_group_options, ferry_group_options, FERRY_GROUP_OPTIONS_INIT)
FILL_(c_plan_info, ferry_plan_info, FERRY_PLAN_INFO_INIT)

#define IS_INT_(name_) _Static_assert(sizeof(name_) == sizeof(int), #name_)
IS_INT_(ferry_status);
IS_INT_(ferry_op_kind);
IS_INT_(ferry_trace_what);
IS_INT_(ferry_loop_mode);
IS_INT_(ferry_log_level);
IS_INT_(ferry_completion);
IS_INT_(ferry_memory);
IS_INT_(ferry_priority);
IS_INT_(ferry_access_mode);
IS_INT_(ferry_dump_format);
IS_INT_(ferry_capability);
IS_INT_(ferry_member_state);
IS_INT_(ferry_window_rights);
IS_INT_(ferry_window_state);
IS_INT_(ferry_group_kind);
