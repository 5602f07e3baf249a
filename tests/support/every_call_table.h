/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of every_call.c, which alone includes this: each public function, and what it is. */
#ifndef FERRY_TESTS_EVERY_CALL_TABLE_H
#define FERRY_TESTS_EVERY_CALL_TABLE_H

#include "tests/support/every_call.h"

#define ENGINE CALL_TAKES_ENGINE
#define HEAVY CALL_IS_HEAVY
#define GROUP CALL_NEEDS_GROUP
/* S: what statements do, in a row; L: a function above. */
#define EVERY_CALL(S, L)                                                                           \
    L(engine_create, HEAVY | CALL_STARTS_THREADS)                                                  \
    L(engine_shutdown, ENGINE)                                                                     \
    L(engine_release, HEAVY | CALL_STARTS_THREADS)                                                 \
    S(engine_drain, ENGINE, drop(ferry_engine_drain(engine_of(self))))                             \
    S(engine_writable, ENGINE, drop(ferry_engine_writable(engine_of(self))))                       \
    S(engine_deadline_in, ENGINE, (void)ferry_engine_deadline_in(engine_of(self), 1000000))        \
    S(engine_fd, ENGINE, (void)ferry_engine_fd(engine_of(self)))                                   \
    L(engine_progress, ENGINE)                                                                     \
    S(engine_arm, ENGINE, (void)ferry_engine_arm(engine_of(self)))                                 \
    S(engine_timeout_ns, ENGINE, (void)ferry_engine_timeout_ns(engine_of(self)))                   \
    S(engine_dump, ENGINE,                                                                         \
      (void)ferry_engine_dump(engine_of(self), FERRY_DUMP_JSON, write_nowhere, NULL))              \
    L(engine_trace, ENGINE)                                                                        \
    L(engine_flight_records, ENGINE)                                                               \
    L(engine_limits, ENGINE)                                                                       \
    L(device_find, ENGINE)                                                                         \
    L(device_open, ENGINE)                                                                         \
    S(device_count, ENGINE, (void)ferry_device_count(engine_of(self)))                             \
    S(device_at, ENGINE, (void)ferry_device_at(engine_of(self), 0))                                \
    S(device_name, ENGINE, MUST(strcmp(ferry_device_name(self->scene->device), "host:0") == 0))    \
    L(device_describe, ENGINE)                                                                     \
    S(device_lacks, ENGINE, (void)ferry_device_lacks(self->scene->device, FERRY_CAN_COPY_ROWS))    \
    L(buffer_alloc, ENGINE)                                                                        \
    L(buffer_alloc_kind, ENGINE)                                                                   \
    L(buffer_wrap, ENGINE)                                                                         \
    L(buffer_create, ENGINE)                                                                       \
    S(buffer_retain, 0, ferry_buffer_release(ferry_buffer_retain(self->buffer)))                   \
    L(buffer_release, 0)                                                                           \
    S(buffer_data, 0, MUST(ferry_buffer_data(self->buffer) != NULL))                               \
    S(buffer_size_bytes, 0, MUST(ferry_buffer_size_bytes(self->buffer) == CALL_BUFFER_BYTES))      \
    S(buffer_device, 0, MUST(ferry_buffer_device(self->buffer) == self->scene->device))            \
    S(buffer_span, 0, MUST(ferry_buffer_span(self->buffer).size_bytes == CALL_BUFFER_BYTES))       \
    S(device_engine, 0, MUST(ferry_device_engine(self->scene->device) == engine_of(self)))         \
    S(buffer_engine, 0, MUST(ferry_buffer_engine(self->buffer) == engine_of(self)))                \
    S(span_slice, 0, MUST(ferry_span_slice(part_of(self, 0), 8, 8).offset_bytes == 8))             \
    S(buffer_define, 0, (void)ferry_buffer_define(part_of(self, 0), self->scene->done);            \
      (void)ferry_buffer_define(part_of(self, 64), self->scene->pending))                          \
    L(copy, ENGINE)                                                                                \
    L(copy_rows, ENGINE)                                                                           \
    S(call, ENGINE, drop(ferry_call(engine_of(self), NULL, do_nothing, NULL, NULL)))               \
    S(call_async, ENGINE,                                                                          \
      drop(ferry_call_async(engine_of(self), NULL, begin_nothing, NULL, NULL, NULL)))              \
    L(nop, ENGINE)                                                                                 \
    L(batch, ENGINE)                                                                               \
    S(plan_create, ENGINE, ferry_plan_release(new_plan(self)))                                     \
    L(plan_post, ENGINE)                                                                           \
    L(plan_describe, ENGINE)                                                                       \
    L(plan_enqueue, ENGINE)                                                                        \
    S(plan_release, ENGINE, ferry_plan_release(new_plan(self)))                                    \
    S(reshard_create, 0, ferry_reshard_release(new_reshard()))                                     \
    L(reshard_describe, 0)                                                                         \
    S(reshard_part_at, 0, call_reshard_describe(self))                                             \
    S(reshard_move_at, 0, call_reshard_describe(self))                                             \
    S(reshard_member_at, 0, call_reshard_describe(self))                                           \
    S(reshard_release, 0, ferry_reshard_release(NULL))                                             \
    L(reshard_plan, GROUP)                                                                         \
    L(queue_create, ENGINE)                                                                        \
    L(queue_take, 0)                                                                               \
    S(queue_arm, 0, (void)ferry_queue_arm(self->scene->queue))                                     \
    S(queue_engine, 0, MUST(ferry_queue_engine(self->scene->queue) == engine_of(self)))            \
    S(queue_release, 0, ferry_queue_release(NULL))                                                 \
    L(scope_create, ENGINE)                                                                        \
    S(scope_close, 0, drop(ferry_scope_close(self->scene->scope)))                                 \
    S(scope_cancel, 0, drop(ferry_scope_cancel(self->scene->scope)))                               \
    S(scope_engine, 0, MUST(ferry_scope_engine(self->scene->scope) == engine_of(self)))            \
    S(scope_release, 0, ferry_scope_release(NULL))                                                 \
    S(stats_read, 0, read_stats(self))                                                             \
    S(way_name, 0, MUST(strcmp(ferry_way_name(FERRY_WAY_SENT), "sent") == 0))                      \
    S(task_run, CALL_IS_OPERATION, ferry_task_run(call_scene_take_task(self->scene)))              \
    S(executor_loop, 0, MUST(ferry_executor_loop() != NULL))                                       \
    S(executor_inline, 0, MUST(ferry_executor_inline() != NULL))                                   \
    S(future_poll, 0, MUST(ferry_future_poll(self->scene->done) == FERRY_OK);                      \
      (void)ferry_future_poll(self->scene->pending))                                               \
    S(future_wait, CALL_IS_OPERATION, MUST(ferry_future_wait(self->scene->done, -1) == FERRY_OK);  \
      (void)ferry_future_wait(self->scene->pending, WAIT_NS))                                      \
    L(future_cancel, 0)                                                                            \
    S(future_retain, 0, ferry_future_release(ferry_future_retain(self->scene->pending));           \
      ferry_future_release(ferry_future_retain(self->scene->failed)))                              \
    L(future_release, 0)                                                                           \
    S(future_error, 0, MUST(ferry_future_error(self->scene->done) == NULL);                        \
      MUST(ferry_future_error(self->scene->failed) != NULL);                                       \
      (void)ferry_future_error(self->scene->pending))                                              \
    S(future_engine, 0, MUST(ferry_future_engine(self->scene->done) == engine_of(self)))           \
    S(future_id, 0, MUST(ferry_future_id(self->scene->done) != 0))                                 \
    S(future_on_ready, CALL_IS_OPERATION, register_and_remove(self, self->scene->done))            \
    S(waiter_remove, CALL_IS_OPERATION, register_and_remove(self, self->scene->pending))           \
    L(future_all, ENGINE)                                                                          \
    L(future_any, ENGINE)                                                                          \
    S(future_issued, 0, drop(ferry_future_issued(self->scene->done));                              \
      drop(ferry_future_issued(self->scene->pending));                                             \
      drop(ferry_future_issued(self->scene->failed)))                                              \
    S(future_quiet, 0, drop(ferry_future_quiet(self->scene->done));                                \
      drop(ferry_future_quiet(self->scene->pending));                                              \
      drop(ferry_future_quiet(self->scene->failed)))                                               \
    L(promise_create, ENGINE)                                                                      \
    S(promise_future, 0, drop(ferry_promise_future(self->scene->holder)))                          \
    L(promise_resolve, CALL_IS_OPERATION)                                                          \
    L(promise_resolve_value, CALL_IS_OPERATION)                                                    \
    L(promise_on_cancel, CALL_IS_OPERATION)                                                        \
    L(promise_release, CALL_IS_OPERATION)                                                          \
    S(event_record, ENGINE, drop(ferry_event_record(self->scene->device, NULL)))                   \
    S(event_wrap, ENGINE, drop(ferry_event_wrap(self->scene->device, self, NULL)))                 \
    S(future_stream_wait, ENGINE,                                                                  \
      (void)ferry_future_stream_wait(self->scene->pending, self->scene->device, NULL))             \
    L(group_join, ENGINE | HEAVY)                                                                  \
    S(group_event_next, GROUP, drop(ferry_group_event_next(self->scene->group, soon_ns())))        \
    S(group_leave, GROUP, drop(ferry_group_leave(self->scene->group)))                             \
    L(group_release, GROUP)                                                                        \
    S(group_rank, GROUP, (void)ferry_group_rank(self->scene->group))                               \
    S(group_engine, GROUP,                                                                         \
      MUST(ferry_group_engine(self->scene->group) == NULL ||                                       \
           ferry_group_engine(self->scene->group) == engine_of(self)))                             \
    S(group_size, GROUP, (void)ferry_group_size(self->scene->group))                               \
    L(group_member, GROUP)                                                                         \
    L(group_device, GROUP)                                                                         \
    L(future_value, GROUP)                                                                         \
    S(group_alive, GROUP, drop(ferry_group_alive(self->scene->group, soon_ns())))                  \
    L(barrier, GROUP)                                                                              \
    S(group_set, GROUP, drop(ferry_group_set(self->scene->group, "key", "value", 5, soon_ns())))   \
    S(group_get, GROUP, drop(ferry_group_get(self->scene->group, "never-set", soon_ns())))         \
    S(group_try_get, GROUP, drop(ferry_group_try_get(self->scene->group, "key", soon_ns())))       \
    S(group_watch, GROUP,                                                                          \
      drop(ferry_group_watch(self->scene->group, "key", 1000000000, soon_ns())))                   \
    S(group_give_notice, GROUP, drop(ferry_group_give_notice(self->scene->group)))                 \
    S(group_step, GROUP, drop(ferry_group_step(self->scene->group, 1, soon_ns())))                 \
    S(group_stop_step, GROUP, (void)ferry_group_stop_step(self->scene->group))                     \
    S(group_nccl_pause, GROUP, drop(ferry_group_nccl_pause(self->scene->group, soon_ns())))        \
    S(group_nccl_resume, GROUP, drop(ferry_group_nccl_resume(self->scene->group)))                 \
    S(send, GROUP, drop(ferry_send(self->scene->group, 0, 1, part_of(self, 0), NULL)))             \
    S(recv, GROUP, drop(ferry_recv(self->scene->group, 0, 1, part_of(self, 64), NULL)))            \
    L(message_probe, GROUP)                                                                        \
    L(window_open, GROUP)                                                                          \
    L(window_find, GROUP)                                                                          \
    L(notice_send, GROUP)                                                                          \
    L(notice_next, GROUP)                                                                          \
    L(window_close, GROUP)                                                                         \
    L(window_describe, GROUP)                                                                      \
    S(window_release, GROUP, ferry_window_release(new_window(self)))                               \
    L(get, GROUP)                                                                                  \
    L(put, GROUP)                                                                                  \
    S(symmetric_alloc, GROUP, ferry_symmetric_release(new_symmetric(self)))                        \
    S(symmetric_describe, GROUP, call_symmetric_address(self))                                     \
    L(symmetric_address, GROUP)                                                                    \
    S(symmetric_window, GROUP, call_symmetric_address(self))                                       \
    S(symmetric_buffer, GROUP, call_symmetric_address(self))                                       \
    S(symmetric_release, GROUP, ferry_symmetric_release(new_symmetric(self)))                      \
    L(message_describe, 0)                                                                         \
    L(trace_open, HEAVY | CALL_STARTS_THREADS)                                                     \
    S(trace_close, HEAVY, (void)ferry_trace_close())                                               \
    S(trace_what_name, 0, MUST(ferry_trace_what_name(FERRY_TRACE_READY) != NULL))                  \
    S(op_kind_name, 0, MUST(ferry_op_kind_name(FERRY_OP_NOP) != NULL))                             \
    L(error_release, HEAVY)                                                                        \
    S(status_name, 0, MUST(ferry_status_name(FERRY_E_BUSY) != NULL))                               \
    S(status_text, 0, MUST(ferry_status_text(FERRY_E_BUSY) != NULL))                               \
    S(version, 0, (void)ferry_version())                                                           \
    S(version_number, 0, MUST(ferry_version_number() == FERRY_VERSION_NUMBER))                     \
    S(build_text, 0, MUST(ferry_build_text() != NULL))                                             \
    S(backend_count, 0, MUST(ferry_backend_count() >= 1))                                          \
    L(backend_at, HEAVY)                                                                           \
    S(capability_name, 0, MUST(ferry_capability_name(FERRY_CAN_COPY_ROWS) != NULL))                \
    S(capability_text, 0, MUST(ferry_capability_text(FERRY_CAN_COPY_ROWS) != NULL))                \
    S(variable_count, 0, MUST(ferry_variable_count() > 0))                                         \
    L(variable_at, 0)

#endif
