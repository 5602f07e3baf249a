/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_copies.h"

#include "tools/perf_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static ferry_future *copy_within(perf_end *end, size_t offset, size_t size_bytes)
{
    return ferry_copy(end->member.engine, perf_end_span(&end->in, offset, size_bytes),
                      perf_end_span(&end->out, offset, size_bytes), NULL);
}

/* All slots to the GPU and back again, from one area to the other if that is the way. */
static int check(perf_end *end, const perf_step *step, perf_copy_way way)
{
    perf_area *area = &end->out, *last = way == PERF_ON_GPU ? &end->in : area;
    size_t bytes = step->size_bytes * step->window;
    perf_mark mark = {.step = step->number, .rank = end->member.rank};
    perf_mark other = {.step = step->number, .message = 1, .rank = end->member.rank};
    perf_bytes_fill(area->bytes, bytes, mark);
    int result = perf_end_finish(end, perf_end_upload(end, area, 0, bytes), "copying to the GPU");
    if (!result && way == PERF_ON_GPU)
        result = perf_end_finish(end, copy_within(end, 0, bytes), "copying within the GPU");
    if (result)
        return result;
    perf_bytes_fill(last->bytes, bytes, other);
    result = perf_end_finish(end, perf_end_download(end, last, 0, bytes), "copying from the GPU");
    if (result)
        return result;
    size_t wrong = perf_bytes_find_wrong(last->bytes, bytes, mark);
    if (wrong == bytes)
        return 0;
    fprintf(stderr, "ferry: rank %d: %zu copied bytes differ near byte %zu\n", end->member.rank,
            bytes, wrong);
    return EXIT_FAILURE;
}

static ferry_future *begin_one(perf_end *end, const perf_step *step, perf_copy_way way,
                               uint64_t copy)
{
    size_t offset = (size_t)(copy % step->window) * step->size_bytes;
    switch (way) {
    case PERF_TO_GPU:
        return perf_end_upload(end, &end->out, offset, step->size_bytes);
    case PERF_FROM_GPU:
        return perf_end_download(end, &end->out, offset, step->size_bytes);
    case PERF_ON_GPU:
        break;
    }
    return copy_within(end, offset, step->size_bytes);
}

static int finish(perf_end *end, ferry_future **future_p)
{
    ferry_future *future = *future_p;
    *future_p = NULL;
    return perf_end_finish(end, future, "copying");
}

int perf_copies_run(perf_end *end, const perf_step *step, perf_copy_way way, double time_s,
                    uint64_t *count_p, double *seconds_p)
{
    int result = perf_stream_prepare(end, step);
    if (!result && way == PERF_ON_GPU)
        result = perf_end_room(end, &end->in, step->size_bytes * step->window, false);
    if (!result)
        result = check(end, step, way);
    uint64_t begun = 0;
    uint64_t ended = 0;
    double begin_s = now_s();
    while (!result) {
        bool is_enough =
            step->iterations ? begun == step->iterations : begun > 0 && now_s() - begin_s >= time_s;
        if (is_enough && ended == begun)
            break;
        if (is_enough || begun - ended == step->window)
            result = finish(end, &end->futures[ended++ % step->window]);
        if (!is_enough && !result) {
            end->futures[begun % step->window] = begin_one(end, step, way, begun);
            begun++;
        }
    }
    *count_p = ended;
    *seconds_p = now_s() - begin_s;
    return result;
}
