/* SPDX-License-Identifier: Apache-2.0 */
/* Acts that only look, and acts that ask for what can't be. */
#include "tests/support/random_api.h"

#include <string.h>

static void look_at_names(api_random *random)
{
    int number = (int)api_below(random, 4096) - 200;
    API_CHECK(ferry_status_name((ferry_status)number)[0] != '\0');
    API_CHECK(ferry_status_text((ferry_status)number)[0] != '\0');
    API_CHECK(ferry_trace_what_name((ferry_trace_what)number)[0] != '\0');
    API_CHECK(ferry_op_kind_name((ferry_op_kind)number)[0] != '\0');
    API_CHECK(ferry_capability_name((ferry_capability)number)[0] != '\0');
    API_CHECK(ferry_capability_text((ferry_capability)number)[0] != '\0');
    API_CHECK(ferry_version() != NULL && ferry_version_number() == FERRY_VERSION_NUMBER &&
              ferry_build_text()[0] != '\0');
}

static void look_at_build(api_random *random)
{
    size_t backend = api_below(random, 4), variable = api_below(random, 16);
    bool is_one = backend < ferry_backend_count();
    ferry_backend_info info = FERRY_BACKEND_INFO_INIT;
    API_CHECK((ferry_backend_at(backend, &info) == FERRY_OK) == is_one);
    is_one = variable < ferry_variable_count();
    ferry_variable_info known = FERRY_VARIABLE_INFO_INIT;
    API_CHECK((ferry_variable_at(variable, &known) == FERRY_OK) == is_one);
}

static void look_at_devices(api_actor *actor)
{
    ferry_engine *engine = actor->world->engine;
    size_t index = api_below(&actor->random, 4);
    ferry_device *device = ferry_device_at(engine, index);
    API_CHECK((device != NULL) == (index < ferry_device_count(engine)));
    if (device == NULL)
        return;
    API_CHECK(ferry_device_find(engine, ferry_device_name(device)) == device);
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    API_CHECK(ferry_device_describe(device, &info) == FERRY_OK && info.index == index);
    bool can = (info.capabilities & FERRY_CAN_COPY_ROWS) != 0;
    API_CHECK((ferry_device_lacks(device, FERRY_CAN_COPY_ROWS) == NULL) == can);
    ferry_device *opened = NULL;
    ferry_error *error = NULL;
    ferry_status status =
        ferry_device_open(engine, ferry_device_name(device), NULL, &opened, &error);
    API_CHECK((status == FERRY_OK) == (opened == device) && (error != NULL) == (opened == NULL));
    ferry_error_release(error);
}

bool api_act_looks(api_actor *actor)
{
    look_at_names(&actor->random);
    look_at_build(&actor->random);
    look_at_devices(actor);
    ferry_engine_options limits = FERRY_ENGINE_OPTIONS_INIT;
    API_CHECK(ferry_engine_limits(actor->world->engine, &limits) == FERRY_OK);
    API_CHECK(limits.loop == actor->world->loop && limits.max_nodes != 0);
    ferry_trace_record records[16];
    return ferry_engine_flight_records(actor->world->engine, records, sizeof(ferry_trace_record),
                                       16) != 0;
}

/* ---- what can't be ---- */

/* FERRY_E_INVALID, unless there is no room, or no engine that takes anything, to say so of. */
static bool is_refusal(const api_actor *actor, ferry_status status)
{
    const api_world *world = actor->world;
    return status == FERRY_E_INVALID || (status == FERRY_E_AGAIN && world->has_limits) ||
           ((world->fails_memory || world->is_cut_short) && status < 0);
}

static bool refused(api_actor *actor, ferry_future *future)
{
    API_CHECK(future != NULL);
    ferry_status status = ferry_future_poll(future);
    api_check_resolved(future);
    ferry_future_release(future);
    return is_refusal(actor, status);
}

static void bad_operations(api_actor *actor, ferry_buffer *buffer)
{
    ferry_engine *engine = actor->world->engine;
    ferry_span whole = ferry_buffer_span(buffer), none = ferry_buffer_span(NULL);
    ferry_span beyond = {buffer, API_BUFFER_BYTES - 4, 8};
    ferry_span around = {buffer, SIZE_MAX - 4, 8};
    ferry_op_options huge = FERRY_OP_OPTIONS_INIT, older = FERRY_OP_OPTIONS_INIT;
    huge.after_count = SIZE_MAX;
    older.struct_size = 1;
    API_CHECK(refused(actor, ferry_copy(engine, whole, none, NULL)));
    API_CHECK(refused(actor, ferry_copy(engine, whole, whole, NULL)));
    API_CHECK(refused(actor, ferry_copy(engine, beyond, beyond, NULL)));
    API_CHECK(refused(actor, ferry_copy(engine, around, whole, NULL)));
    API_CHECK(refused(actor, ferry_copy_rows(engine, beyond, 8, whole, 8, SIZE_MAX, NULL)));
    API_CHECK(refused(actor, ferry_copy_rows(engine, whole, 0, whole, 0, 2, NULL)));
    API_CHECK(refused(actor, ferry_call(engine, NULL, NULL, NULL, NULL)));
    API_CHECK(refused(actor, ferry_call_async(engine, NULL, NULL, NULL, NULL, NULL)));
    API_CHECK(refused(actor, ferry_nop(engine, &huge)));
    API_CHECK(refused(actor, ferry_nop(engine, &older)));
    API_CHECK(refused(actor, ferry_batch(engine, NULL, sizeof(ferry_op), 3, NULL, NULL)));
    API_CHECK(refused(actor, ferry_future_any(engine, NULL, 0)));
    API_CHECK(refused(actor, ferry_send(NULL, 0, 0, whole, NULL)));
    API_CHECK(is_refusal(actor, ferry_buffer_define(beyond, NULL)));
}

static void bad_handles(api_actor *actor)
{
    API_CHECK(refused(actor, ferry_nop(NULL, NULL)));
    API_CHECK(refused(actor, ferry_future_quiet(NULL)));
    API_CHECK(refused(actor, ferry_future_issued(NULL)));
    API_CHECK(refused(actor, ferry_promise_future(NULL)));
    API_CHECK(refused(actor, ferry_engine_drain(NULL)));
    API_CHECK(refused(actor, ferry_engine_writable(NULL)));
    API_CHECK(refused(actor, ferry_event_record(NULL, NULL)));
    API_CHECK(ferry_future_poll(NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_future_wait(NULL, 0) == FERRY_E_INVALID);
    API_CHECK(ferry_future_cancel(NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_future_error(NULL) == NULL && ferry_future_id(NULL) == 0);
    API_CHECK(ferry_future_retain(NULL) == NULL && !ferry_waiter_remove(NULL));
    API_CHECK(ferry_future_on_ready(NULL, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_promise_create(NULL, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_promise_resolve(NULL, FERRY_OK, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_promise_on_cancel(NULL, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_queue_create(NULL, 1, NULL, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_scope_create(NULL, NULL, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_engine_shutdown(NULL, 0) == FERRY_E_INVALID);
    API_CHECK(ferry_engine_progress(NULL, 0) == FERRY_E_INVALID);
    API_CHECK(ferry_engine_arm(NULL) == FERRY_E_INVALID && ferry_engine_fd(NULL) == -1);
    API_CHECK(ferry_engine_timeout_ns(NULL) == -1 && ferry_buffer_data(NULL) == NULL);
    ferry_future_release(NULL);
    ferry_promise_release(NULL);
    ferry_buffer_release(NULL);
    ferry_engine_release(NULL);
    ferry_group_release(NULL);
    ferry_error_release(NULL);
    ferry_task_run(NULL);
}

static void bad_devices(api_actor *actor)
{
    api_world *world = actor->world;
    ferry_buffer *buffer = NULL;
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    API_CHECK(is_refusal(actor, ferry_buffer_alloc(world->devices[0], 0, &buffer)));
    API_CHECK(ferry_buffer_alloc(NULL, 1, &buffer) == FERRY_E_INVALID);
    API_CHECK(
        is_refusal(actor, ferry_buffer_wrap(world->devices[0], NULL, 1, NULL, NULL, &buffer)));
    API_CHECK(ferry_device_find(world->engine, "host:99999999999") == NULL);
    API_CHECK(ferry_device_open(world->engine, "nothing:0", NULL, &device, &error) < 0);
    API_CHECK(error != NULL && device == NULL && buffer == NULL);
    ferry_error_release(error);
    API_CHECK(ferry_engine_trace(NULL, NULL) == FERRY_E_INVALID);
    API_CHECK(ferry_engine_dump(world->engine, (ferry_dump_format)9, NULL, NULL) ==
              FERRY_E_INVALID);
    API_CHECK(ferry_trace_open("") != FERRY_OK);
}

bool api_act_bad_input(api_actor *actor)
{
    ferry_buffer *buffer = api_buffer(actor);
    switch (api_below(&actor->random, 3)) {
    case 0:
        bad_handles(actor);
        break;
    case 1:
        bad_devices(actor);
        break;
    default:
        if (buffer == NULL)
            return false;
        bad_operations(actor, buffer);
        break;
    }
    return true;
}
