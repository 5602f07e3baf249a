/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_end.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS 1000000000 /* an engine's maximum */

int perf_end_finish(perf_end *end, ferry_future *future, const char *doing)
{
    return member_finish(&end->member, future, doing);
}

/* ---- opening ---- */

static const ferry_gpu_way group_ways[] = {[PERF_WAY_AUTO] = FERRY_GPU_WAY_ANY,
                                           [PERF_WAY_STAGING] = FERRY_GPU_WAY_STAGING,
                                           [PERF_WAY_IPC] = FERRY_GPU_WAY_IPC,
                                           [PERF_WAY_NCCL] = FERRY_GPU_WAY_NCCL};

static int pin(const perf_end *end)
{
    int cpu = end->options->cpus[end->member.rank];
    if (cpu < 0)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0
               ? 0
               : member_fail(&end->member, "--cpus", strerror(errno));
}

int perf_end_open(perf_end *end, const perf_options *options, int rank)
{
    ferry_engine_options engine = FERRY_ENGINE_OPTIONS_INIT;
    engine.loop = options->has_thread ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED;
    engine.host_devices = 1;
    engine.host_workers = 1;
    if (options->wait == PERF_WAIT_POLL)
        engine.wait_spin_ns = SPIN_NS;
    ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
    group.gpu_way = group_ways[options->way];

    *end = (perf_end){.options = options, .other = rank == 0};
    int result = member_begin(&end->member, &options->meeting, rank, end->other, &engine);
    end->futures = calloc(2 * (size_t)PERF_WINDOW_MAX, sizeof(ferry_future *));
    if (!result && !end->futures)
        result = member_fail(&end->member, "starting", "out of memory");
    if (!result)
        result = perf_end_place(end, options->devices[rank]);
    if (!result) /* after the engine, whose threads may run on any CPU */
        result = pin(end);
    return result ? result : member_join(&end->member, &group);
}

static void release(perf_area *area)
{
    ferry_buffer_release(area->buffer);
    ferry_buffer_release(area->mirror);
    *area = (perf_area){0};
}

int perf_end_close(perf_end *end, int result)
{
    member_leave(&end->member);
    for (size_t i = 0; end->futures && i < 2 * (size_t)PERF_WINDOW_MAX; i++)
        ferry_future_release(end->futures[i]);
    release(&end->out);
    release(&end->in);
    free(end->futures);
    return member_end(&end->member, result);
}

/* ---- messages ---- */

int perf_end_place(perf_end *end, const char *device)
{
    ferry_error *error = NULL;
    ferry_device *place = NULL;
    ferry_status status = ferry_device_open(end->member.engine, device, NULL, &place, &error);
    if (status != FERRY_OK) {
        (void)member_fail_error(&end->member, "opening a device", status, error);
        ferry_error_release(error);
        return EXIT_FAILURE;
    }
    if (place != end->place) {
        release(&end->out);
        release(&end->in);
    }
    end->place = place;
    return 0;
}

bool perf_end_is_on_host(const perf_end *end)
{
    return ferry_device_lacks(end->place, FERRY_CAN_USE_HOST_POINTERS) == NULL;
}

perf_ways perf_end_ways(const perf_end *end)
{
    ferry_member_info member = FERRY_MEMBER_INFO_INIT;
    (void)ferry_group_member(end->member.group, end->other, &member);
    return (perf_ways){{[PERF_WAY_STAGING] = member.staged_bytes,
                        [PERF_WAY_IPC] = member.ipc_bytes,
                        [PERF_WAY_NCCL] = member.nccl_bytes}};
}

static ferry_memory kind_of(const perf_end *end, bool is_shared)
{
    if (perf_end_is_on_host(end))
        return is_shared ? FERRY_MEMORY_SHARED : FERRY_MEMORY_DEFAULT;
    bool is_opened = end->options->way == PERF_WAY_AUTO || end->options->way == PERF_WAY_IPC;
    return is_opened ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT;
}

int perf_end_room(perf_end *end, perf_area *area, size_t size_bytes, bool is_shared)
{
    if (area->capacity_bytes >= size_bytes && area->is_shared == is_shared)
        return 0;
    release(area);
    area->is_shared = is_shared;
    ferry_status status =
        ferry_buffer_alloc_kind(end->place, size_bytes, kind_of(end, is_shared), &area->buffer);
    if (status == FERRY_OK && !perf_end_is_on_host(end))
        status = ferry_buffer_alloc_kind(end->member.device, size_bytes, FERRY_MEMORY_PINNED,
                                         &area->mirror);
    if (status != FERRY_OK)
        return member_fail_error(&end->member, "allocating memory for messages", status, NULL);
    area->bytes = ferry_buffer_data(area->mirror ? area->mirror : area->buffer);
    area->capacity_bytes = size_bytes;
    memset(area->bytes, 0, size_bytes);
    return 0;
}

ferry_span perf_end_span(const perf_area *area, size_t offset_bytes, size_t size_bytes)
{
    return (ferry_span){area->buffer, offset_bytes, size_bytes};
}

ferry_future *perf_end_upload(perf_end *end, const perf_area *area, size_t offset_bytes,
                              size_t size_bytes)
{
    return ferry_copy(end->member.engine, perf_end_span(area, offset_bytes, size_bytes),
                      (ferry_span){area->mirror, offset_bytes, size_bytes}, NULL);
}

ferry_future *perf_end_download(perf_end *end, const perf_area *area, size_t offset_bytes,
                                size_t size_bytes)
{
    return ferry_copy(end->member.engine, (ferry_span){area->mirror, offset_bytes, size_bytes},
                      perf_end_span(area, offset_bytes, size_bytes), NULL);
}

ferry_future *perf_end_send(perf_end *end, ferry_tag tag, ferry_span span)
{
    return ferry_send(end->member.group, end->other, tag, span, NULL);
}

ferry_future *perf_end_recv(perf_end *end, ferry_tag tag, ferry_span span)
{
    return ferry_recv(end->member.group, end->other, tag, span, NULL);
}

#define WINDOW_NAME_BYTES 24

static void name_window(char name[WINDOW_NAME_BYTES], uint32_t number)
{
    (void)snprintf(name, WINDOW_NAME_BYTES, "step/%u", number);
}

int perf_end_open_window(perf_end *end, const perf_area *area, uint32_t number)
{
    char name[WINDOW_NAME_BYTES];
    name_window(name, number);
    ferry_span all = ferry_buffer_span(area->buffer);
    return perf_end_finish(
        end, ferry_window_open(end->member.group, all, name, FERRY_WINDOW_GET_PUT, &end->window),
        "opening a window");
}

int perf_end_find_window(perf_end *end, uint32_t number)
{
    char name[WINDOW_NAME_BYTES];
    name_window(name, number);
    return perf_end_finish(end,
                           ferry_window_find(end->member.group, end->other, name, 0, &end->window),
                           "finding the other end's window");
}

int perf_end_close_window(perf_end *end)
{
    ferry_future *closed = ferry_window_close(end->window);
    ferry_window_release(end->window);
    end->window = NULL;
    return perf_end_finish(end, closed, "closing a window");
}
