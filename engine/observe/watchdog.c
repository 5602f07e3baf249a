/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog: when the oldest operation has lived longer than the bound, it reports the live
 * operations, at most once in that time.
 *
 * It needs no timer of its own. The loop's timer is set to when the oldest operation reaches the
 * bound, and an operation that comes while that timer is off wakes the loop to set it
 * (fry_live_stamp). So nothing wakes while no operation lives, and short-lived operations cost at
 * most one wake in the bound's time.
 */
#include "engine/observe/watchdog.h"

#include "engine/engine.h"
#include "engine/graph/look.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/observe/dump.h"
#include "engine/observe/dump_json.h"
#include "engine/observe/dump_names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_PROMISES 1024 /* a file shows at most 4096 in all */
#define FILE_NODES 3072
#define LOG_LINES 16
#define LOG_WAITS 4

/* ---- when ---- */

static int64_t later_ns(int64_t from_ns, int64_t by_ns)
{
    return from_ns > INT64_MAX - by_ns ? INT64_MAX : from_ns + by_ns;
}

static int64_t bark_ns(const ferry_engine *engine)
{
    if (fry_likely(engine->watchdog_ns == 0))
        return INT64_MAX;
    const fry_node *oldest = TAILQ_FIRST(&engine->live);
    const fry_node *promise = TAILQ_FIRST(&engine->promises);
    if (oldest == NULL || (promise != NULL && promise->entered_ns < oldest->entered_ns))
        oldest = promise;
    if (oldest == NULL)
        return INT64_MAX;
    int64_t due_ns = later_ns(oldest->entered_ns, engine->watchdog_ns);
    if (engine->watchdog_has_barked) {
        int64_t again_ns = later_ns(engine->watchdog_barked_ns, engine->watchdog_ns);
        due_ns = due_ns > again_ns ? due_ns : again_ns;
    }
    return due_ns;
}

int64_t fry_watchdog_next_ns(ferry_engine *engine)
{
    int64_t next_ns = bark_ns(engine);
    engine->watchdog_wants_timer = engine->watchdog_ns != 0 && next_ns == INT64_MAX;
    return next_ns;
}

int64_t fry_watchdog_again_ns(ferry_engine *engine, bool has_looked)
{
    if (has_looked || engine->watchdog_ns == 0 || engine->poller.timer_ns != 0)
        return INT64_MAX;
    return fry_clock_monotonic_ns() + FRY_LOOK_STEP_MAX_NS;
}

bool fry_watchdog_is_due(ferry_engine *engine)
{
    int64_t due_ns = bark_ns(engine);
    if (fry_likely(due_ns == INT64_MAX))
        return false;
    int64_t now_ns = fry_clock_now_ns(&engine->clock);
    if (now_ns < due_ns)
        return false;
    engine->watchdog_has_barked = true;
    engine->watchdog_barked_ns = now_ns;
    if (fry_baton_take(&engine->dumping))
        return true;
    engine->watchdog_barked_ns -= engine->watchdog_ns / 8 * 7; /* the user dumps: retries soon */
    return false;
}

/* ---- to the log ---- */

/* "op 7 (after), op 9 (read) and 3 more", or "the executor". */
static void name_waits(const fry_dump_node *node, char *words, size_t size_bytes)
{
    if (node->wait_count == 0) {
        (void)snprintf(words, size_bytes, "the %s", fry_dump_reason_name(node->reason));
        return;
    }
    size_t used = 0;
    uint8_t named = node->wait_count < LOG_WAITS ? node->wait_count : LOG_WAITS;
    for (uint8_t i = 0; i < named && used < size_bytes; i++)
        used += (size_t)snprintf(words + used, size_bytes - used, "%sop %" PRIu64 " (%s%s)",
                                 i == 0 ? "" : ", ", node->waits[i].op,
                                 fry_dump_nature_name(node->waits[i].nature),
                                 node->waits[i].is_on_device ? ", on the device" : "");
    uint64_t others = node->more + (uint64_t)(node->wait_count - named);
    if (others != 0 && used < size_bytes)
        (void)snprintf(words + used, size_bytes - used, " and %" PRIu64 " more", others);
}

static void log_node(ferry_engine *engine, const fry_dump_node *node)
{
    char words[256];
    name_waits(node, words, sizeof words);
    int64_t tenths = node->age_ns / 100000000;
    const char *quote = node->has_label ? "\"" : "";
    fry_log_line(&engine->log, FERRY_LOG_WARNING,
                 "watchdog: op %" PRIu64 " %s%s%s%s%s has lived %" PRId64 ".%d s, %s, waits for %s",
                 node->id, ferry_op_kind_name((ferry_op_kind)node->kind),
                 node->has_label ? " " : "", quote, node->has_label ? node->label : "", quote,
                 tenths / 10, (int)(tenths % 10), fry_dump_state_name(node->state), words);
}

/* Promises and operations by age, from two lists in that order. */
static void bark_to_log(fry_dump *dump)
{
    ferry_engine *engine = dump->engine;
    fry_dump_node *nodes = dump->slice.nodes;
    size_t promise_count = fry_dump_oldest(dump, true, LOG_LINES);
    memmove(nodes + LOG_LINES, nodes, promise_count * sizeof *nodes);
    const fry_dump_node *promise = nodes + LOG_LINES, *promise_end = promise + promise_count;
    const fry_dump_node *node = nodes, *node_end = nodes + fry_dump_oldest(dump, false, LOG_LINES);
    for (int line = 0; line < LOG_LINES; line++) {
        const fry_dump_node *next = NULL;
        if (promise < promise_end && (node == node_end || promise->age_ns >= node->age_ns))
            next = promise++;
        else if (node < node_end)
            next = node++;
        if (next == NULL || next->age_ns < engine->watchdog_ns)
            return;
        log_node(engine, next);
    }
}

/* ---- to a file ---- */

typedef struct file_sink {
    int fd;
    int error; /* errno of the first write that failed */
} file_sink;

static void write_to_file(void *arg, const char *text, size_t size_bytes)
{
    file_sink *sink = arg;
    while (size_bytes != 0 && sink->error == 0) {
        ssize_t written = write(sink->fd, text, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            sink->error = written < 0 ? errno : EIO;
            return;
        }
        text += written;
        size_bytes -= (size_t)written;
    }
}

/*
 * Creates a file of a name that nobody else uses; -1: errno. A file left by an earlier process of
 * that name is replaced.
 */
static int create_beside(const char *name)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = open(name, flags, 0666);
    if (fd < 0 && errno == EEXIST && unlink(name) == 0)
        fd = open(name, flags, 0666);
    return fd;
}

/* A reader of the path finds a whole dump, this one or the one before. Returns 0 or errno. */
static int dump_to_file(fry_dump *dump, const char *name)
{
    const char *path = dump->engine->watchdog_path;
    file_sink sink = {.fd = create_beside(name)};
    if (sink.fd < 0)
        return errno;
    fry_dump_print(dump, &fry_dump_json, write_to_file, &sink);
    if (close(sink.fd) != 0 && sink.error == 0)
        sink.error = errno;
    if (sink.error == 0 && rename(name, path) != 0)
        sink.error = errno;
    if (sink.error != 0)
        (void)unlink(name);
    return sink.error;
}

#define NAME_EXTRA_BYTES 64 /* besides the path: ".", process, "-", engine, ".tmp" */

static void bark_to_file(fry_dump *dump)
{
    ferry_engine *engine = dump->engine;
    size_t name_bytes = strlen(engine->watchdog_path) + NAME_EXTRA_BYTES;
    char *name = fry_alloc_raw(&engine->memory, name_bytes, 1);
    int error = ENOMEM;
    if (name != NULL) {
        (void)snprintf(name, name_bytes, "%s.%ld-%" PRIu64 ".tmp", engine->watchdog_path,
                       (long)getpid(), engine->id);
        error = dump_to_file(dump, name);
        fry_free(&engine->memory, name, name_bytes);
    }
    if (error != 0)
        fry_log_line(&engine->log, FERRY_LOG_ERROR, "watchdog: cannot write %s: %s",
                     engine->watchdog_path, strerrordesc_np(error));
    else
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "watchdog: %" PRIu64 " promises and %" PRIu64
                     " operations live, the oldest too long; see %s",
                     dump->totals.promises, dump->totals.nodes, engine->watchdog_path);
}

void fry_watchdog_bark(ferry_engine *engine)
{
    fry_context *context = fry_context_get(engine);
    if (context == NULL)
        context = &engine->role_context;
    fry_dump *dump = fry_dump_open(engine, context, FILE_PROMISES, FILE_NODES);
    if (dump == NULL) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "watchdog: no memory to report operations that have lived too long");
    } else {
        dump->start_ns = engine->watchdog_barked_ns; /* the coarse clock may be behind */
        if (engine->watchdog_path != NULL)
            bark_to_file(dump);
        else
            bark_to_log(dump);
        fry_dump_close(dump);
    }
    fry_baton_give(&engine->dumping);
}

/* ---- its path ---- */

ferry_status fry_watchdog_open(ferry_engine *engine, const char *path)
{
    if (path == NULL)
        return FERRY_OK;
    size_t size_bytes = strlen(path) + 1;
    engine->watchdog_path = fry_alloc_raw(&engine->memory, size_bytes, 1);
    if (engine->watchdog_path == NULL)
        return FERRY_E_NO_MEMORY;
    memcpy(engine->watchdog_path, path, size_bytes);
    return FERRY_OK;
}

void fry_watchdog_close(ferry_engine *engine)
{
    if (engine->watchdog_path != NULL)
        fry_free(&engine->memory, engine->watchdog_path, strlen(engine->watchdog_path) + 1);
    engine->watchdog_path = NULL;
}
