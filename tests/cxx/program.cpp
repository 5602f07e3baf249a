/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers as C++ sees them, from C++11 on: every initialiser, enums that hold numbers without a
 * name, and that both languages lay out the same. Exit 0: everything held.
 */
#include <ferry/ferry.h>

#include "sides.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)std::fprintf(stderr, "program.cpp:%d: not so: %s\n", __LINE__, #condition);      \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

#define CHECK_ENUM(name_)                                                                          \
    static_assert(sizeof(name_) == sizeof(int), #name_ " is an int");                              \
    static_assert(static_cast<name_>(-777) < static_cast<name_>(0), #name_ " holds any number")

CHECK_ENUM(ferry_status);
CHECK_ENUM(ferry_op_kind);
CHECK_ENUM(ferry_trace_what);
CHECK_ENUM(ferry_loop_mode);
CHECK_ENUM(ferry_log_level);
CHECK_ENUM(ferry_completion);
CHECK_ENUM(ferry_memory);
CHECK_ENUM(ferry_priority);
CHECK_ENUM(ferry_access_mode);
CHECK_ENUM(ferry_dump_format);
CHECK_ENUM(ferry_capability);
CHECK_ENUM(ferry_member_state);
CHECK_ENUM(ferry_window_rights);
CHECK_ENUM(ferry_window_state);
CHECK_ENUM(ferry_group_kind);

/* What C makes of an initialiser C++ makes too, byte by byte; so both are static, where also the
 * bytes between fields are zero. */
template <typename Struct> static void check_init(const Struct &here, void (*fill)(void *there))
{
    Struct there;
    std::memset(static_cast<void *>(&there), 0, sizeof there);
    fill(&there);
    CHECK(std::memcmp(&here, &there, sizeof there) == 0);
}

static ferry_engine_options engine_options = FERRY_ENGINE_OPTIONS_INIT; /* before main, too */

static void check_inits()
{
    static ferry_op_options op = FERRY_OP_OPTIONS_INIT;
    static ferry_device_options device = FERRY_DEVICE_OPTIONS_INIT;
    static ferry_device_info device_info = FERRY_DEVICE_INFO_INIT;
    static ferry_member_info member_info = FERRY_MEMBER_INFO_INIT;
    static ferry_barrier_options barrier = FERRY_BARRIER_OPTIONS_INIT;
    static ferry_message_info message_info = FERRY_MESSAGE_INFO_INIT;
    static ferry_window_info window_info = FERRY_WINDOW_INFO_INIT;
    static ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
    static ferry_plan_info plan_info = FERRY_PLAN_INFO_INIT;
    check_init(engine_options, c_engine_options);
    check_init(op, c_op_options);
    check_init(device, c_device_options);
    check_init(device_info, c_device_info);
    check_init(member_info, c_member_info);
    check_init(barrier, c_barrier_options);
    check_init(message_info, c_message_info);
    check_init(window_info, c_window_info);
    check_init(group, c_group_options);
    check_init(plan_info, c_plan_info);
}

static ferry_status seen = FERRY_OK;

static void note(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future;
    seen = status;
}

static ferry_status give_number(void *number)
{
    return static_cast<ferry_status>(*static_cast<const int *>(number));
}

/* A number of the user's own, from a promise and from a function. */
static void check_numbers()
{
    static int number = -777;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    ferry_engine *engine = nullptr;
    ferry_promise *promise = nullptr;
    CHECK(ferry_engine_create(&options, &engine, nullptr) == FERRY_OK);
    CHECK(ferry_promise_create(engine, &promise) == FERRY_OK);
    ferry_future *future = ferry_promise_future(promise);
    ferry_waiter waiter = FERRY_WAITER_INIT(note, nullptr);
    CHECK(ferry_future_on_ready(future, &waiter) == FERRY_OK);
    CHECK(ferry_promise_resolve(promise, static_cast<ferry_status>(number), nullptr) == FERRY_OK);
    ferry_future *call = ferry_call(engine, nullptr, give_number, &number, nullptr);
    while (ferry_engine_progress(engine, 0) > 0)
        continue;
    CHECK(static_cast<int>(ferry_future_poll(future)) == number);
    CHECK(static_cast<int>(ferry_future_poll(call)) == number);
    CHECK(ferry_future_error(future)->status == ferry_future_poll(future));
    CHECK(static_cast<int>(seen) == number);
    CHECK(std::strcmp(ferry_status_name(seen), "FERRY_E_UNKNOWN") == 0);
    ferry_future_release(call);
    ferry_future_release(future);
    ferry_promise_release(promise);
    ferry_engine_release(engine);
}

int main()
{
    check_inits();
    check_numbers();
    return 0;
}
