/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine's life.
 *
 * Memory. `references` counts what must outlive the user's handle: buffers, references to refused
 * futures, and nodes that only users' handles keep. The handle itself counts as FRY_REFERENCE_BIAS.
 * Such nodes are counted without atomics while the engine runs (engine->detached, with the baton),
 * and each takes one off `references` when it is released. So the count may be anything below the
 * bias until the handle is released. Then the bias is taken off and `detached` is added, and the
 * thread that brings the sum to zero frees the engine. The sum can't be zero before, and after that
 * nobody adds to it except from a reference already counted.
 *
 * Calls during the release. Some calls are given no engine, but a part of it that keeps its memory
 * (ferry_future_quiet, ferry_buffer_define, ferry_group_get), and may submit while another thread
 * releases the engine. Such a call may have found the engine open, and reach the graph after the
 * release. Its node is refused as it enters (stop_graph), but detaches all the same, when
 * `detached` is not added any more. So the release reads `detached` and sets is_released in one
 * hold of the baton. A thread that detaches a node, also with the baton, looks at is_released:
 * before the release it counts the node in `detached`, after it in `references` at once
 * (fry_node_drop_life). Either way each node is counted once, before its handle can be released.
 * The sum can't reach zero during such a call: what the call was given is counted until the call
 * has returned. The same holds for a thread that works off what another thread left in the inbox:
 * it is in such a call, or is the release itself, which keeps its bias until it has looked. No
 * other thread exists by then. released.pml checks this. The cost is a look at a flag beside the
 * count.
 */
#include "engine/engine.h"

#include "base/back_off.h"
#include "base/options.h"
#include "engine/api/device.h"
#include "engine/graph/completion.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/refused_mark.h"
#include "engine/graph/room.h"
#include "engine/graph/scope_node.h"
#include "engine/graph/segment.h"
#include "engine/graph/tally.h"
#include "engine/graph/turn.h"
#include "engine/graph/writable.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/ground/ring.h"
#include "engine/kinds.h"
#include "engine/loop/attach.h"
#include "engine/loop/embedded.h"
#include "engine/loop/late.h"
#include "engine/loop/own_thread.h"
#include "engine/messages/members.h"
#include "engine/messages/message.h"
#include "engine/messages/notices.h"
#include "engine/observe/stats_socket.h"
#include "engine/observe/watchdog.h"
#include "engine/tasks/executor.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter.h"
#include "engine/trace/writer.h"

#include <stdlib.h>
#include <unistd.h>

#define HOST_DEVICES_DEFAULT 4
#define WORKERS_MAX 8
#define MAX_NODES_DEFAULT ((uint32_t)1 << 20)
#define MAX_NODES_MAX ((uint32_t)1 << 28)
#define SPIN_MAX_NS 1000000000
#define WAIT_SPIN_DEFAULT_NS 10000
#define INLINE_COPY_DEFAULT 4096
#define RECORDS_MAX ((uint32_t)1 << 20) /* for each thread */
#define TRACE_RECORDS_DEFAULT 8192
#define POOL_MAX ((uint64_t)1 << 40)
#define TASKS_DEFAULT 65536
#define TASKS_MAX ((uint32_t)1 << 24)
#define SUBMIT_BUDGET_DEFAULT 64
#define SUBMIT_BUDGET_MAX ((uint32_t)1 << 16)
#define RESERVE_NODES 64
#define JOINS_MIN 1024 /* at least so many, whatever the bound of accesses */
#define WRITABLE_NODES 16
#define EDGES_MIN 16
#define ACCESSES_MIN 16
#define AFTER_COUNT_MAX ((size_t)1 << 20)
#define RELEASE_TIMEOUT_NS 5000000000
#define WORKERS_GRACE_NS 1000000000
#define STAGING_DEFAULT ((size_t)32 << 20)
#define NCCL_SLOTS_DEFAULT 8
#define NCCL_SLOTS_MAX 64
#define NCCL_PAIRS_DEFAULT 16
#define NCCL_PAIRS_MAX 1024
#define STAGING_MAX ((size_t)1 << 40)

fry_host_gate fry_test_host_gate;

static void engine_free(ferry_engine *engine)
{
    fry_memory memory = engine->memory;
    fry_engine_unregister(engine);
    fry_contexts_free(engine);
    fry_pool_close(&engine->nodes);
    fry_pool_close(&engine->edges);
    fry_pool_close(&engine->uses);
    fry_pool_close(&engine->notes);
    fry_pool_close(&engine->scopes);
    fry_intern_close(&engine->labels, &engine->memory);
    fry_completions_free(engine);
    fry_pool_close(&engine->segments);
    fry_pool_close(&engine->readers);
    fry_pool_close(&engine->joins);
    fry_pool_close(&engine->notices);
    fry_pool_close(&engine->transfers);
    fry_pool_close(&engine->reserve);
    fry_pool_close(&engine->writables);
    fry_members_free(engine);
    fry_tasks_close(engine);
    fry_error_release(engine->loss);
    fry_devices_detach(engine);
    fry_backends_destroy(engine);
    fry_host_destroy(engine->host);
    fry_attachment_free(engine);
    fry_embedded_close(engine);
    fry_poller_close(&engine->poller);
    fry_nvtx_destroy(&memory, engine->nvtx);
    fry_watchdog_close(engine);
    fry_tally_close(engine);
    (void)pthread_mutex_destroy(&engine->cold);
    (void)pthread_mutex_destroy(&engine->opening);
    (void)pthread_mutex_destroy(&engine->room_lock);
    fry_free(&memory, engine, sizeof *engine);
}

/* ---- creating ---- */

static ferry_error *creation_error(const fry_memory *memory, const fry_fault *fault,
                                   const char *why)
{
    return &fry_error_create(memory, fault, NULL, "%s", why)->public_;
}

static void set_default_u32(uint32_t *value, uint32_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void set_default_u64(uint64_t *value, uint64_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void options_set_defaults(ferry_engine_options *options)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t workers = cpus < 2 ? 1 : cpus / 2 > WORKERS_MAX ? WORKERS_MAX : (uint32_t)(cpus / 2);
    set_default_u32(&options->host_devices, HOST_DEVICES_DEFAULT);
    set_default_u32(&options->host_workers, workers);
    set_default_u32(&options->max_nodes, MAX_NODES_DEFAULT);
    if (options->inline_copy_bytes == 0)
        options->inline_copy_bytes = INLINE_COPY_DEFAULT;
    if (options->wait_spin_ns == 0)
        options->wait_spin_ns = WAIT_SPIN_DEFAULT_NS;
    if (options->message_staging_bytes == 0)
        options->message_staging_bytes = STAGING_DEFAULT;
    set_default_u32(&options->nccl_slots, NCCL_SLOTS_DEFAULT);
    set_default_u32(&options->nccl_pairs, NCCL_PAIRS_DEFAULT);
    set_default_u64(&options->max_edges, (uint64_t)options->max_nodes * 8 + 4096);
    set_default_u64(&options->max_accesses, (uint64_t)options->max_nodes * 8 + 4096);
    set_default_u32(&options->max_tasks, TASKS_DEFAULT);
    set_default_u32(&options->stream_depth, FRY_STREAM_DEPTH_MOST);
    set_default_u32(&options->submit_budget, SUBMIT_BUDGET_DEFAULT);
    set_default_u32(&options->trace_records, TRACE_RECORDS_DEFAULT);
}

/* What is wrong with the options; NULL: nothing. */
static const char *options_complaint(const ferry_engine_options *options)
{
    if (options->loop < FERRY_LOOP_THREAD || options->loop > FERRY_LOOP_ATTACHED)
        return "loop is not a ferry_loop_mode";
    if ((options->loop == FERRY_LOOP_ATTACHED) != (options->ev_loop != NULL))
        return "FERRY_LOOP_ATTACHED needs ev_loop, and no other mode allows it";
    if (options->host_devices > FRY_HOST_DEVICES_MAX)
        return "host_devices is at most 64";
    if (options->host_workers > WORKERS_MAX)
        return "host_workers is at most 8";
    if (options->max_nodes > MAX_NODES_MAX)
        return "max_nodes is at most 2^28";
    if (options->max_edges < EDGES_MIN || options->max_accesses < ACCESSES_MIN)
        return "max_edges and max_accesses are at least 16";
    if (options->max_edges > POOL_MAX || options->max_accesses > POOL_MAX)
        return "max_edges and max_accesses are at most 2^40";
    if (options->max_tasks > TASKS_MAX)
        return "max_tasks is at most 2^24";
    if (options->stream_depth > FRY_STREAM_DEPTH_MOST)
        return "stream_depth is at most 4096";
    if (options->submit_budget > SUBMIT_BUDGET_MAX)
        return "submit_budget is at most 2^16";
    if (options->trace_records > RECORDS_MAX)
        return "trace_records is at most 2^20";
    if (options->message_staging_bytes > STAGING_MAX)
        return "message_staging_bytes is at most 2^40";
    if (options->nccl_slots > NCCL_SLOTS_MAX)
        return "nccl_slots is at most 64";
    if (options->nccl_pairs > NCCL_PAIRS_MAX)
        return "nccl_pairs is at most 1024";
    if (options->watchdog_ns < 0)
        return "watchdog_ns is negative";
    if (options->spin_ns < 0 || options->spin_ns > SPIN_MAX_NS)
        return "spin_ns is 0 to 10^9";
    if (options->flight_records > RECORDS_MAX)
        return "flight_records is at most 2^20";
    if (options->allocator != NULL &&
        (options->allocator->alloc == NULL || options->allocator->free == NULL))
        return "an allocator needs both its functions";
    if (options->clock != NULL && options->clock->now_ns == NULL)
        return "a clock needs its function";
    if (!fry_executor_is_whole(options->executor))
        return "struct_size of the executor is invalid, or its post is NULL";
    if (options->stats > 1)
        return "stats is 0 or 1";
    if (options->stats_path != NULL && options->stats == 0)
        return "stats_path needs stats";
    return NULL;
}

static ferry_status open_devices(ferry_engine *engine, const ferry_engine_options *options)
{
    fry_host_options host = {.device_count = options->host_devices,
                             .worker_count = options->host_workers,
                             .inline_copy_bytes = options->inline_copy_bytes,
                             .notify = {fry_fired_wake, engine},
                             .gate = fry_test_host_gate,
                             .tracing = &engine->tracing,
                             .clock = &engine->clock};
    ferry_status status = fry_host_open(&engine->memory, &host, &engine->host);
    if (status != FERRY_OK)
        return status;
    for (uint32_t i = 0; status == FERRY_OK && i < options->host_devices; i++) {
        ferry_device *device;
        status = fry_lane_attach(engine, fry_host_device(engine->host, i), &device);
        if (status == FERRY_OK)
            device->host_lane = &device->lanes[0];
    }
    if (status != FERRY_OK)
        (void)fry_host_stop(engine->host, FRY_NEVER_NS);
    return status;
}

static void open_pools(ferry_engine *engine, const ferry_engine_options *options)
{
    const fry_memory *memory = &engine->memory;
    fry_pool_open(&engine->nodes, memory, sizeof(fry_node), options->max_nodes);
    fry_pool_open(&engine->edges, memory, sizeof(fry_edge), options->max_edges);
    fry_pool_open(&engine->uses, memory, sizeof(fry_use), options->max_accesses);
    fry_pool_open(&engine->segments, memory, sizeof(fry_segment), options->max_accesses);
    fry_pool_open(&engine->readers, memory, sizeof(fry_reader), options->max_accesses);
    fry_pool_open(&engine->joins, memory, sizeof(fry_node),
                  options->max_accesses > JOINS_MIN ? options->max_accesses : JOINS_MIN);
    fry_pool_open(&engine->notes, memory, sizeof(fry_note), options->max_nodes);
    fry_pool_open(&engine->scopes, memory, fry_scope_bytes(options->stats != 0),
                  options->max_nodes);
    fry_pool_open(&engine->transfers, memory, sizeof(fry_transfer), options->max_nodes);
    fry_pool_open(&engine->notices, memory, FRY_NOTICE_SLOT_BYTES, options->max_nodes);
    fry_pool_open(&engine->reserve, memory, sizeof(fry_node), RESERVE_NODES);
    fry_pool_open(&engine->writables, memory, sizeof(fry_node), WRITABLE_NODES);
    fry_pool_news news = {fry_room_has_come, engine};
    engine->nodes.news = engine->edges.news = engine->uses.news = engine->transfers.news =
        engine->notices.news = news;
    fry_pools_add_cache(engine); /* for role_context */
}

/*
 * The reserves must exist when memory has run out. Pools with an exact bound are filled before two
 * threads need them at once.
 */
static ferry_status fill_pools(ferry_engine *engine)
{
    fry_pool *const pools[] = {&engine->nodes,   &engine->edges,     &engine->uses,
                               &engine->notes,   &engine->segments,  &engine->readers,
                               &engine->reserve, &engine->writables, &engine->scopes};
    ferry_status status = FERRY_OK;
    for (size_t i = 0; status == FERRY_OK && i < sizeof pools / sizeof *pools; i++) {
        if (fry_pool_is_exact(pools[i]))
            status = fry_pool_fill(pools[i], pools[i]->limit);
    }
    return status;
}

/*
 * Limits what an operation may name, so that it has room when nothing else has any. Entering
 * reserves at most 7 segments and readers, and 2 edges, for each span that nobody else uses
 * (access_write.c). Half of the edges are for those, half for what the operation waits for;
 * operations of a batch wait for the batch's predecessors too.
 */
static void limit_operations(ferry_engine *engine, const ferry_engine_options *options)
{
    size_t by_edges = (size_t)(options->max_edges / 4), after = by_edges;
    size_t by_accesses = (size_t)(options->max_accesses / 8);
    engine->span_count_max = by_accesses < by_edges ? by_accesses : by_edges;
    engine->after_count_max = after < AFTER_COUNT_MAX ? after : AFTER_COUNT_MAX;
}

static void engine_init(ferry_engine *engine, const fry_memory *memory,
                        const ferry_engine_options *options)
{
    static const fry_future_owner_ops owner_ops = {fry_node_released, fry_fire_waiter};
    TAILQ_INIT(&engine->live);
    TAILQ_INIT(&engine->promises);
    engine->owner.ops = &owner_ops;
    engine->kinds = fry_op_kinds;
    engine->memory = *memory;
    engine->references = FRY_REFERENCE_BIAS;
    engine->free_last = engine_free;
    engine->options = *options;
    engine->options.allocator = NULL;
    engine->options.clock = NULL;
    engine->options.watchdog_path = NULL;
    engine->options.stats_path = NULL;
    engine->fork_generation = fry_fork_generation;
    engine->embedded = options->loop != FERRY_LOOP_THREAD;
    engine->spin_ns = options->spin_ns;
    engine->wait_spin_ns = options->wait_spin_ns;
    engine->inline_copy_bytes = options->inline_copy_bytes;
    engine->flight_records = options->flight_records;
    engine->trace_records = options->trace_records;
    engine->submit_budget = options->submit_budget;
    engine->stream_depth = options->stream_depth;
    engine->max_tasks = options->max_tasks;
    engine->executor = options->executor;
    engine->watchdog_ns = options->watchdog_ns;
    engine->watchdog_wants_timer = options->watchdog_ns != 0;
    engine->tracing = options->flight_records != 0 ? FRY_SINK_FLIGHT : 0;
    fry_clock_init(&engine->clock, options->clock);
    fry_log_init(&engine->log, options->log, options->log_arg);
    fry_refusal_init(engine);
    fry_refused_mark_init(engine);
    engine->nvtx = fry_nvtx_create(&engine->memory);
    if (engine->nvtx != NULL)
        engine->tracing |= FRY_SINK_NVTX;
    engine->role_context.engine = engine;
    engine->poller = engine->user_poller = (fry_poller)FRY_POLLER_CLOSED;
    engine->load_target = FRY_LOAD_NOT_REFUSED;
    engine->next_look_ns = INT64_MAX;
    engine->give_up_ns = FRY_NEVER_NS;
    limit_operations(engine, options);
    open_pools(engine, options);
    fry_intern_open(&engine->labels);
    (void)pthread_mutex_init(&engine->cold, NULL);
    (void)pthread_mutex_init(&engine->opening, NULL);
    (void)pthread_mutex_init(&engine->room_lock, NULL);
}

/* Fills the options from what was given. NULL, or why they are refused. */
static const char *read_options(ferry_engine_options *options, const ferry_engine_options *given)
{
    if (fry_options_read(options, sizeof *options, given) != FERRY_OK)
        return "struct_size of the engine options is invalid, or unknown fields are set: use "
               "FERRY_ENGINE_OPTIONS_INIT";
    options_set_defaults(options);
    return options_complaint(options);
}

ferry_status ferry_engine_create(const ferry_engine_options *given, ferry_engine **engine_p,
                                 ferry_error **error_p)
{
    if (error_p != NULL)
        *error_p = NULL;
    fry_memory memory;
    fry_fault fault = {.rank = -1};
    fry_memory_init(&memory, NULL);
    ferry_engine_options options;
    ferry_status status = FERRY_E_INVALID;
    const char *why = read_options(&options, given);
    if (why == NULL && engine_p == NULL)
        why = "engine_p is null";
    if (why != NULL)
        goto err;
    fry_watch_forks();
    fry_memory_init(&memory, options.allocator);

    why = "no memory for an engine";
    ferry_engine *engine = fry_alloc(&memory, sizeof *engine, _Alignof(ferry_engine));
    if (engine == NULL) {
        status = FERRY_E_NO_MEMORY;
        goto err;
    }
    engine_init(engine, &memory, &options);
    fry_engine_register(engine);
    why = "the operating system refuses the poller's descriptors";
    status = fry_poller_open(&engine->poller);
    if (status == FERRY_OK && engine->embedded)
        status = fry_embedded_open(engine);
    if (status != FERRY_OK)
        goto err_engine;
    why = "no memory for the reserved nodes";
    status = fill_pools(engine);
    if (status != FERRY_OK)
        goto err_engine;
    why = "no memory for the figures";
    status = fry_tally_open(engine);
    if (status != FERRY_OK)
        goto err_engine;
    why = "no memory for tasks";
    status = fry_tasks_open(engine);
    if (status != FERRY_OK)
        goto err_engine;
    why = "no memory for the watchdog's path";
    status = fry_watchdog_open(engine, options.watchdog_path);
    if (status != FERRY_OK)
        goto err_engine;
    why = "the host devices can't be opened";
    status = open_devices(engine, &options);
    if (status != FERRY_OK)
        goto err_engine;
    why = fault.message;
    status = fry_stats_socket_open(engine, options.stats_path, ferry_stats_read, &fault);
    if (status != FERRY_OK)
        goto err_host;
    if (options.loop == FERRY_LOOP_ATTACHED) {
        status = fry_attach(engine, options.ev_loop, &why);
    } else if (!engine->embedded) {
        why = "the loop's thread can't be started";
        status = fry_own_thread_start(engine);
    }
    if (status != FERRY_OK)
        goto err_socket;
    fry_writer_attach(engine);
    *engine_p = engine;
    return FERRY_OK;

err_socket:
    fry_stats_socket_close(engine);
err_host:
    (void)fry_host_stop(engine->host, FRY_NEVER_NS);
err_engine:
    engine_free(engine);
err:
    fault.status = status;
    if (error_p != NULL)
        *error_p = creation_error(&memory, &fault, why);
    return status;
}

/* ---- ending ---- */

static void log_what_is_left(ferry_engine *engine)
{
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    if (context == NULL || !fry_turn_begin(&turn, engine, context, false)) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "shutdown timed out while the graph was worked on");
        return;
    }
    size_t count = 0;
    const fry_node *oldest = TAILQ_FIRST(&engine->live);
    for (const fry_node *node = oldest; node != NULL; node = TAILQ_NEXT(node, live))
        count++;
    uint64_t id = oldest != NULL ? oldest->future.id : 0;
    char label[FRY_LABEL_BYTES] = "";
    if (oldest != NULL && oldest->state < FRY_NODE_QUIET)
        (void)fry_label_copy(label, fry_node_label(oldest));
    (void)fry_turn_end(&turn, 0);
    if (count == 0) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "shutdown timed out: all operations are quiet, but the loop has not stopped: "
                     "another thread runs it, or callbacks, calls, promises or groups are left");
        return;
    }
    fry_log_line(&engine->log, FERRY_LOG_ERROR,
                 "shutdown timed out: %zu operations are not quiet, the oldest is %llu %s", count,
                 (unsigned long long)id, label);
}

ferry_status ferry_engine_shutdown(ferry_engine *engine, int64_t timeout_ns)
{
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (fry_is_in_callback(engine)) {
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "shutting an engine down in its own callback is refused");
        return FERRY_E_DEADLOCK;
    }
    if (!fry_baton_take(&engine->ending))
        return FERRY_E_BUSY;
    if (engine->ended)
        goto done;
    int64_t end_ns = fry_clock_end_ns(timeout_ns);
    fry_stats_socket_close(engine);
    fry_store_seq_cst(&engine->closing, 1);
    fry_wake(engine);
    bool stopped = engine->embedded ? fry_embedded_end(engine, end_ns, timeout_ns == 0)
                                    : fry_own_thread_end(engine, end_ns);
    stopped = stopped && (engine->attachment == NULL || fry_detach(engine, end_ns));
    if (!stopped) {
        log_what_is_left(engine);
        status = FERRY_E_DEADLINE;
        goto done;
    }
    /*
     * Nothing is issued any more. Copying threads only need a core to end, so they get some time
     * however short the timeout is; but one may be in a callback that came after the stop.
     */
    int64_t workers_end_ns = fry_clock_end_ns(WORKERS_GRACE_NS);
    workers_end_ns = end_ns > workers_end_ns ? end_ns : workers_end_ns;
    if (fry_host_stop(engine->host, workers_end_ns) != FERRY_OK) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "shutdown timed out: a thread is still copying");
        status = FERRY_E_DEADLINE;
        goto done;
    }
    if (!fry_backends_stop(engine, end_ns)) {
        status = FERRY_E_DEADLINE;
        goto done;
    }
    engine->ended = true;
done:
    fry_late_work(engine); /* what a late submit left while this thread had the baton */
    fry_baton_give(&engine->ending);
    return status;
}

/* Another thread has `baton` for some moments, unless it is in a user's callback. */
static bool take_until(fry_baton *baton, int64_t end_ns)
{
    for (unsigned tries = 0; !fry_baton_take(baton); tries++) {
        if (fry_clock_left_ns(end_ns) == 0)
            return false;
        fry_back_off(tries);
    }
    return true;
}

/* With the handle the right to post to its executor ends: waits for a thread that is posting. */
static bool forget_executor(ferry_engine *engine, int64_t end_ns)
{
    if (engine->executor == NULL)
        return true;
    fry_store_relaxed(&engine->executor, NULL);
    if (!take_until(&engine->role, end_ns)) /* the next holder sees the store */
        return false;
    fry_baton_give(&engine->role);
    fry_late_work(engine); /* work that came meanwhile */
    return true;
}

void ferry_engine_release(ferry_engine *engine)
{
    if (engine == NULL || fry_engine_check(engine) != FERRY_OK)
        return;
    int64_t end_ns = fry_clock_end_ns(RELEASE_TIMEOUT_NS);
    ferry_status status = ferry_engine_shutdown(engine, RELEASE_TIMEOUT_NS);
    if (status != FERRY_OK) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR, "an engine is leaked: it did not shut down");
        return;
    }
    if (!fry_writer_detach(engine, end_ns)) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "an engine is leaked: its records were not written to the trace file in time");
        return;
    }
    bool is_left = forget_executor(engine, end_ns);
    fry_writable_close(engine);
    /* A late submit that was refused may still have the baton. */
    if (!is_left || !take_until(&engine->baton, end_ns)) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "an engine is leaked: another thread is still working in it");
        return;
    }
    int64_t detached = engine->detached;
    engine->is_released = true;
    fry_baton_give(&engine->baton);
    fry_late_work(engine); /* what others could not do while this thread had the baton */
    fry_engine_unretain(engine, FRY_REFERENCE_BIAS - detached);
}
