/* SPDX-License-Identifier: Apache-2.0 */
/* An engine with two devices that exist in the test's head; embedded, its clock stands still. */
#ifndef FERRY_TESTS_FAKE_ENGINE_H
#define FERRY_TESTS_FAKE_ENGINE_H

#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "tests/support/api_test.h"
#include "tests/support/fake_device.h"

#define GPU_SIZE 4096

typedef struct fake_engine {
    test_engine te;
    fake_world *world;
    fake_device *gpus[2];
    ferry_device *devices[2];
} fake_engine;

static inline void fake_engine_attach(fake_engine *f, const fake_options *options)
{
    static const char *const names[] = {"fake:0", "fake:1"};
    f->world = fake_world_create(1);
    cr_assert_not_null(f->world);
    for (size_t i = 0; i < 2; i++) {
        fake_options named = *options;
        named.name = names[i];
        f->gpus[i] = fake_world_add(f->world, &named);
        cr_assert_not_null(f->gpus[i]);
        ASSERT_STATUS(fry_lane_attach(f->te.engine, fake_backend(f->gpus[i]), &f->devices[i]),
                      FERRY_OK);
    }
}

static inline void fake_engine_open(fake_engine *f, ferry_loop_mode loop)
{
    test_engine_open(&f->te, loop);
    fake_engine_attach(f,
                       &(fake_options){.parked_count = 2, .outside_count = 4, .is_polled = true});
}

/* Everything was let go by now. */
static inline void fake_engine_close(fake_engine *f)
{
    test_engine_close(&f->te);
    cr_assert_null(fake_complaint(f->world), "%s", fake_complaint(f->world));
    fake_world_destroy(f->world);
}

/* Embedded: devices and engine, until neither has anything to do. */
static inline void run_all(const fake_engine *f)
{
    do {
        settle(&f->te);
    } while (fake_run(f->world) != 0);
}

static inline ferry_buffer *gpu_buffer(const fake_engine *f, size_t gpu, int fill)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_alloc(f->devices[gpu], GPU_SIZE, &buffer), FERRY_OK);
    memset(ferry_buffer_data(buffer), fill, GPU_SIZE);
    return buffer;
}

static inline ferry_future *gpu_copy(const fake_engine *f, ferry_buffer *dst, ferry_buffer *src)
{
    return ferry_copy(f->te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
}

static inline ferry_future *gpu_copy_after(const fake_engine *f, ferry_buffer *dst,
                                           ferry_buffer *src, ferry_future *after)
{
    return copy_after(&f->te, ferry_buffer_span(dst), ferry_buffer_span(src), after);
}

/* The i-th parked stream of a device. */
static inline fry_stream *parked(const fake_engine *f, size_t gpu, size_t i)
{
    return fake_stream(f->gpus[gpu], FAKE_MAIN_COUNT + i);
}

static inline uint64_t issued_to(const fry_stream *stream)
{
    return stream->issued;
}

static inline ferry_future *record(const fake_engine *f, size_t gpu, size_t user)
{
    return ferry_event_record(f->devices[gpu], fake_user_stream(f->gpus[gpu], user));
}

static inline void user_goes(const fake_engine *f, size_t gpu, size_t user)
{
    fake_user_go(f->gpus[gpu], fake_user_stream(f->gpus[gpu], user), 1);
}

static inline bool is_issued(ferry_future *future)
{
    ferry_future *issued = ferry_future_issued(future);
    return status_of(issued) == FERRY_OK;
}

static inline bool is_quiet(ferry_future *future)
{
    ferry_future *quiet = ferry_future_quiet(future);
    return status_of(quiet) == FERRY_OK;
}

#endif
