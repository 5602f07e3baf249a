/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric memory, in the caller's thread: engine/messages/symmetric.c does what is asked. */
#include "engine/messages/symmetric.h"
#include "base/options.h"
#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/route.h"
#include "net/group/text.h"

#include <stdio.h>

static fry_refusal check(ferry_group *group, const ferry_device *device, size_t size_bytes,
                         const char *name, ferry_symmetric **symmetric_p)
{
    ferry_engine *engine = group->engine;
    if (symmetric_p == NULL)
        return fry_refuse(engine, FRY_REFUSED_SYMMETRIC_NULL);
    if (device == NULL)
        return fry_refuse(engine, FRY_REFUSED_DEVICE_NULL);
    if (device->engine != engine)
        return fry_refuse(engine, FRY_REFUSED_SYMMETRIC_ENGINE);
    fry_refusal why = fry_request_check_group(group);
    if (why != FRY_TAKEN)
        return why;
    if (group->options.kind == FERRY_GROUP_OPEN)
        return fry_refuse(engine, FRY_REFUSED_SYMMETRIC_OPEN);
    if (!fry_group_is_name(name, FRY_SYMMETRIC_NAME_BYTES - 1, true))
        return fry_refuse(engine, FRY_REFUSED_SYMMETRIC_NAME);
    if (size_bytes == 0 || size_bytes > FRY_BUFFER_BYTES_MAX)
        return fry_refuse(engine, FRY_REFUSED_SYMMETRIC_SIZE);
    if (device->host_lane == NULL && device->device->ops->memory_is_pinned == NULL)
        return fry_refuse(engine, FRY_REFUSED_MESSAGE_DEVICE);
    for (uint32_t i = 0; i < group->size; i++) {
        if ((int32_t)i != group->rank && fry_route_peer(&group->routes[i]) == NULL)
            return FRY_REFUSED_NO_MEMORY;
    }
    return FRY_TAKEN;
}

/* Memory is allocated here, so that nobody waits for it but the caller. */
static ferry_symmetric *attach(ferry_group *group, ferry_device *device, size_t size_bytes,
                               const char *name, fry_refusal *why_p)
{
    ferry_buffer *buffer = NULL;
    ferry_symmetric *handle = fry_symmetric_attach(group, device, size_bytes, name, &buffer, why_p);
    if (handle != NULL || *why_p != FRY_TAKEN)
        return handle;
    ferry_memory kind = device->host_lane != NULL ? FERRY_MEMORY_SHARED : FERRY_MEMORY_DEFAULT;
    *why_p = FRY_REFUSED_NO_MEMORY;
    if (ferry_buffer_alloc_kind(device, size_bytes, kind, &buffer) != FERRY_OK)
        return NULL;
    handle = fry_symmetric_attach(group, device, size_bytes, name, &buffer, why_p);
    ferry_buffer_release(buffer); /* another thread has made it meanwhile */
    return handle;
}

static fry_node *node_of(fry_request *request, ferry_symmetric *handle, fry_refusal *why_p)
{
    fry_node *node = fry_request_node(request, FERRY_OP_SYMMETRIC, why_p);
    if (node == NULL)
        return NULL;
    node->op.symmetric.handle = handle;
    fry_symmetric_retain(handle);
    handle->has_submitted = true;
    return node;
}

ferry_future *ferry_symmetric_alloc(ferry_group *group, ferry_device *device, size_t size_bytes,
                                    const char *name, int64_t deadline_ns,
                                    ferry_symmetric **symmetric_p)
{
    if (symmetric_p != NULL)
        *symmetric_p = NULL;
    if (group == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_GROUP_NULL);
    ferry_engine *engine = group->engine;
    fry_refusal why = fry_engine_refusal_open(engine);
    if (why == FRY_TAKEN)
        why = check(group, device, size_bytes, name, symmetric_p);
    if (why == FRY_TAKEN && deadline_ns < 0)
        why = FRY_REFUSED_DEADLINE;
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    fry_request request;
    why = fry_request_open(&request, engine, &options);
    ferry_symmetric *handle =
        why == FRY_TAKEN ? attach(group, device, size_bytes, name, &why) : NULL;
    fry_node *node = handle != NULL ? node_of(&request, handle, &why) : NULL;
    if (node == NULL) {
        if (handle != NULL)
            ferry_symmetric_release(handle);
        return fry_refusal_future(engine, why);
    }
    *symmetric_p = handle;
    return fry_request_submit(&request, node);
}

void ferry_symmetric_release(ferry_symmetric *symmetric)
{
    if (symmetric == NULL || fry_engine_check(symmetric->memory->group->engine) != FERRY_OK)
        return;
    ferry_engine *engine = symmetric->memory->group->engine;
    fry_engine_retain(engine); /* the memory may be what keeps it */
    fry_symmetric_release(symmetric);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1);
}

/* ---- asking ---- */

ferry_buffer *ferry_symmetric_buffer(const ferry_symmetric *symmetric)
{
    return symmetric != NULL ? symmetric->memory->buffer : NULL;
}

/* What this member has of that one's; NULL: nothing. */
static const fry_symmetric_part *part_of(const ferry_symmetric *symmetric, ferry_rank rank)
{
    bool is_whole =
        symmetric != NULL && fry_symmetric_outcome(symmetric) == FERRY_SYMMETRIC_IS_WHOLE;
    return is_whole && rank < symmetric->memory->group->size ? &symmetric->memory->parts[rank]
                                                             : NULL;
}

ferry_window *ferry_symmetric_window(const ferry_symmetric *symmetric, ferry_rank rank)
{
    const fry_symmetric_part *part = part_of(symmetric, rank);
    return part != NULL ? part->window : NULL;
}

void *ferry_symmetric_address(const ferry_symmetric *symmetric, ferry_rank rank)
{
    const fry_symmetric_part *part = part_of(symmetric, rank);
    if (part == NULL)
        return NULL;
    if ((int32_t)rank == symmetric->memory->group->rank)
        return symmetric->memory->buffer->data;
    return fry_shared_memory(&part->map);
}

ferry_status ferry_symmetric_describe(const ferry_symmetric *symmetric, ferry_symmetric_info *info)
{
    if (symmetric == NULL || info == NULL)
        return FERRY_E_INVALID;
    const fry_symmetric *memory = symmetric->memory;
    ferry_symmetric_info own = {.struct_size = sizeof own, .failed_rank = -1};
    own.state = fry_symmetric_outcome(symmetric);
    own.size_bytes = memory->buffer->size_bytes;
    (void)snprintf(own.name, sizeof own.name, "%s", memory->name);
    for (uint32_t i = 0; i < memory->group->size; i++)
        own.mapped += ferry_symmetric_address(symmetric, i) != NULL;
    fry_symmetric_life life = fry_symmetric_life_of(memory);
    if (own.state == FERRY_SYMMETRIC_IS_WHOLE &&
        (life == FRY_SYMMETRIC_BROKEN || life == FRY_SYMMETRIC_OVER)) {
        own.state = FERRY_SYMMETRIC_IS_BROKEN;
        own.failed_rank = memory->fault.rank;
        own.failed_status = memory->fault.status;
    }
    return fry_struct_hand_out(info, &own, sizeof own);
}
