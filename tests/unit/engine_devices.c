/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of two backends in one engine: there is no such pair yet, so both are made here. */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "tests/support/failing_allocator.h"

#include <criterion/criterion.h>

enum { SIZE = 64, HANG_S = 60 };

TestSuite(engine_devices, .timeout = HANG_S);

static ferry_status take_memory(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                void **memory_p, fry_fault *fault)
{
    (void)device, (void)kind, (void)fault;
    *memory_p = calloc(1, size_bytes);
    return *memory_p != NULL ? FERRY_OK : FERRY_E_NO_MEMORY;
}

static void give_memory(fry_device *device, void *memory, size_t size_bytes, fry_memory_kind kind)
{
    (void)device, (void)size_bytes, (void)kind;
    free(memory);
}

static fry_stream *no_stream(fry_device *device, size_t index)
{
    (void)device, (void)index;
    return NULL;
}

static const fry_device_ops red_ops = {.backend = "red",
                                       .memory_alloc = take_memory,
                                       .memory_free = give_memory,
                                       .stream_at = no_stream};
static const fry_device_ops blue_ops = {.backend = "blue",
                                        .memory_alloc = take_memory,
                                        .memory_free = give_memory,
                                        .stream_at = no_stream};

static ferry_buffer *buffer_on(ferry_engine *engine, fry_device *device)
{
    ferry_device *handle = NULL;
    ferry_buffer *buffer = NULL;
    cr_assert_eq(fry_lane_attach(engine, device, &handle), FERRY_OK);
    cr_assert_eq(ferry_buffer_alloc(handle, SIZE, &buffer), FERRY_OK);
    return buffer;
}

static ferry_status status_of(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

Test(engine_devices, nothing_is_copied_between_two_backends)
{
    static fry_device red = {.ops = &red_ops, .name = "red:0"};
    static fry_device blue = {.ops = &blue_ops, .name = "blue:0"};
    ferry_engine *engine = NULL;
    cr_assert_eq(ferry_engine_create(NULL, &engine, NULL), FERRY_OK);
    ferry_buffer *from = buffer_on(engine, &red), *to = buffer_on(engine, &blue);
    ferry_span dst = ferry_buffer_span(to), src = ferry_buffer_span(from);
    cr_assert_eq(status_of(ferry_copy(engine, dst, src, NULL)), FERRY_E_UNSUPPORTED);
    dst.size_bytes = src.size_bytes = 8;
    cr_assert_eq(status_of(ferry_copy_rows(engine, dst, 16, src, 8, 4, NULL)), FERRY_E_UNSUPPORTED);
    ferry_op op = {.kind = FERRY_OP_COPY, .dst = dst, .src = src};
    ferry_future *each = NULL, *batch = ferry_batch(engine, &op, sizeof op, 1, &each, NULL);
    cr_assert_eq(status_of(batch), FERRY_E_DEPENDENCY);
    cr_assert_eq(status_of(each), FERRY_E_UNSUPPORTED);
    ferry_buffer_release(from);
    ferry_buffer_release(to);
    cr_assert_eq(ferry_engine_shutdown(engine, -1), FERRY_OK);
    ferry_engine_release(engine);
}
