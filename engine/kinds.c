/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds.h"

#include "engine/api/call.h"
#include "engine/api/call_async.h"
#include "engine/api/combine.h"
#include "engine/api/copy.h"
#include "engine/api/define.h"
#include "engine/api/event.h"
#include "engine/graph/batch_node.h"
#include "engine/graph/join.h"
#include "engine/graph/kind.h"
#include "engine/graph/promise.h"
#include "engine/graph/refused_mark.h"
#include "engine/graph/scope_node.h"
#include "engine/messages/launch.h"
#include "engine/messages/message.h"
#include "engine/messages/notices.h"
#include "engine/messages/notify.h"
#include "engine/messages/reach.h"
#include "engine/messages/stage.h"
#include "engine/messages/symmetric.h"
#include "engine/messages/take.h"
#include "engine/messages/window.h"
#include "engine/plans/launch.h"
#include "engine/plans/post.h"

const fry_op_kind *const fry_op_kinds[FRY_OP_KINDS] = {
    [FERRY_OP_NOP] = &fry_kind_nop,
    [FERRY_OP_COPY] = &fry_kind_copy,
    [FERRY_OP_CALL] = &fry_kind_call,
    [FERRY_OP_PROMISE] = &fry_kind_promise,
    [FERRY_OP_ALL] = &fry_kind_all,
    [FERRY_OP_ANY] = &fry_kind_any,
    [FERRY_OP_DRAIN] = &fry_kind_drain,
    [FERRY_OP_DEFINE] = &fry_kind_define,
    [FERRY_OP_ISSUED] = &fry_kind_issued,
    [FERRY_OP_QUIET] = &fry_kind_quiet,
    [FERRY_OP_BATCH] = &fry_kind_batch,
    [FERRY_OP_EVENT] = &fry_kind_event,
    [FERRY_OP_SEND] = &fry_kind_send,
    [FERRY_OP_RECV] = &fry_kind_recv,
    [FERRY_OP_ASYNC] = &fry_kind_async,
    [FERRY_OP_SCOPE] = &fry_kind_scope,
    [FERRY_OP_PROBE] = &fry_kind_probe,
    [FERRY_OP_WINDOW] = &fry_kind_window,
    [FERRY_OP_FIND] = &fry_kind_find,
    [FERRY_OP_GET] = &fry_kind_get,
    [FERRY_OP_PUT] = &fry_kind_put,
    [FERRY_OP_NOTICE] = &fry_kind_notice,
    [FERRY_OP_NOTICE_NEXT] = &fry_kind_notice_next,
    [FERRY_OP_PLAN] = &fry_kind_plan,
    [FERRY_OP_SYMMETRIC] = &fry_kind_symmetric,
    [FRY_OP_JOIN] = &fry_kind_join,
    [FRY_OP_MARK] = &fry_kind_mark,
    [FRY_OP_TAKE] = &fry_kind_take,
    [FRY_OP_GIVE] = &fry_kind_give,
    [FRY_OP_ACCEPT] = &fry_kind_accept,
    [FRY_OP_STAGE] = &fry_kind_stage,
    [FRY_OP_LOT] = &fry_kind_lot,
    [FRY_OP_LAUNCH] = &fry_kind_launch,
};
