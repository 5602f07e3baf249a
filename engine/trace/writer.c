/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who touches what.
 *   the thread    the file, sources, cursors; takes engines off the list while it runs
 *   `lock`        the list's head, is_running, seats; held for moments, never over a write
 *   `opening`     one opening or closing at a time; held for long
 * An engine that is released asks the thread to drain it and waits on `changed`, so its memory
 * exists as long as the thread looks at it. `lock` is taken before an engine's `cold`.
 *
 * The order of records. Each ring is in order, and all records but SUBMITTED are written with the
 * baton. So the times order the records of an engine's rings, if the thread takes no record while
 * an earlier one is not yet visible to it. So the thread reads the engine's clock first, then the
 * heads, and takes only records up to that time: what happened before such a record was in its ring
 * before the clock was read. Later records wait for the next round.
 */
#include "engine/trace/writer.h"

#include "base/environment.h"
#include "base/futex.h"
#include "base/trace_lines.h"
#include "engine/engine.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/ring.h"
#include "engine/trace/bell.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINGER_NS 4000000
#define RECORDS_A_ROUND ((size_t)16384)
#define RECORDS_A_RING_MIN ((size_t)16)
#define RUNS_MAX (RECORDS_A_ROUND / RECORDS_A_RING_MIN)

/* What the thread keeps of an engine's records. */
typedef struct fry_writer_source {
    fry_trace_lines *lines;
    uint64_t unrecorded; /* the engine's count when the thread began or last looked */
    uint32_t held_back;  /* successive rounds that found only records later than the round */
} fry_writer_source;

/* The records of one ring that are left, in order. */
typedef struct run {
    const ferry_trace_record *next, *end;
    fry_context *context;
} run;

typedef struct trace_writer {
    pthread_mutex_t opening;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an engine was taken off the list, or the thread has ended */
    ferry_engine *engines;
    bool is_running; /* a file is open */
    pthread_t thread;
    uint32_t asked;   /* futex: there is another reason to look than records */
    uint32_t closing; /* that reason: this is the last round */
    uint32_t has_looked_at_environment;

    /* The thread's own. */
    fry_trace_file file;
    int32_t process;
    bool has_failed; /* and this was logged */
    uint64_t records, dropped, unwritten;
    uint64_t flushed;           /* of the records: how many are surely in the file */
    ferry_trace_record *buffer; /* RECORDS_A_ROUND */
    run runs[RUNS_MAX];
} trace_writer;

static trace_writer the = {.opening = PTHREAD_MUTEX_INITIALIZER,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER,
                           .file = {.fd = -1}};

bool fry_test_no_membarrier;
int64_t fry_test_linger_ns;

static void say(ferry_log_level level, const char *what, int why)
{
    fry_log log;
    fry_log_init(&log, NULL, NULL);
    fry_log_line(&log, level, "the trace file %s: %s", what, strerror(why));
}

/* ---- sources ---- */

static const char *device_name(void *arg, uint16_t device)
{
    const ferry_engine *engine = arg;
    return device < fry_engine_device_count(engine) ? engine->devices[device].device->name : "?";
}

static ferry_status give_rings(ferry_engine *engine)
{
    ferry_status status = FERRY_OK;
    (void)pthread_mutex_lock(&engine->cold);
    for (fry_context *context = engine->contexts; context != NULL && status == FERRY_OK;
         context = context->next) {
        status = fry_ring_add(engine, context, FRY_SINK_FILE);
        if (status == FERRY_OK)
            context->file_cursor = fry_load_acquire(&fry_load_acquire(&context->ring)->head);
    }
    if (status == FERRY_OK)
        fry_sink_set(engine, FRY_SINK_FILE, true);
    (void)pthread_mutex_unlock(&engine->cold);
    return status;
}

/* With `lock`. */
static ferry_status start_source(ferry_engine *engine)
{
    fry_writer_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return FERRY_E_NO_MEMORY;
    ferry_status status = FERRY_E_NO_MEMORY;
    source->unrecorded = fry_load_relaxed(&engine->unrecorded);
    source->lines = fry_trace_lines_create(engine->id, the.process, device_name, engine);
    if (source->lines != NULL)
        status = give_rings(engine);
    if (status == FERRY_OK) {
        engine->file_seat.source = source;
        return FERRY_OK;
    }
    fry_trace_lines_destroy(source->lines);
    free(source);
    return status;
}

/* With `lock`, or before the thread exists. */
static void stop_source(ferry_engine *engine)
{
    fry_writer_source *source = engine->file_seat.source;
    if (source == NULL)
        return;
    (void)pthread_mutex_lock(&engine->cold);
    fry_sink_set(engine, FRY_SINK_FILE, false);
    (void)pthread_mutex_unlock(&engine->cold);
    engine->file_seat.source = NULL;
    fry_trace_lines_destroy(source->lines);
    free(source);
}

/* ---- reading ---- */

static fry_context *first_context(ferry_engine *engine)
{
    (void)pthread_mutex_lock(&engine->cold);
    fry_context *context = engine->contexts; /* new ones are added in front, none is removed */
    (void)pthread_mutex_unlock(&engine->cold);
    return context;
}

static void drop(fry_writer_source *source, uint64_t count)
{
    the.dropped += count;
    fry_trace_lines_lose(source->lines, count);
}

/*
 * Records how far to read each ring. Returns how many rings have records; sets *crowded_p if a ring
 * is filling up.
 */
static size_t look_at_heads(fry_context *first, bool *crowded_p)
{
    size_t count = 0;
    for (fry_context *context = first; context != NULL; context = context->next) {
        const fry_trace_ring *ring = fry_load_acquire(&context->ring);
        context->file_end = ring != NULL ? fry_load_acquire(&ring->head) : 0;
        uint64_t waiting = context->file_end - context->file_cursor;
        count += waiting != 0;
        if (ring != NULL && waiting > ring->mask >> 3)
            *crowded_p = true;
    }
    return count;
}

/*
 * Copies the first records of each ring. Lowers *until_ns_p to the time where a ring's copy was
 * cut.
 */
static size_t read_runs(fry_writer_source *source, fry_context *first, size_t rings,
                        int64_t *until_ns_p)
{
    size_t quota = RECORDS_A_ROUND / rings, count = 0;
    if (quota < RECORDS_A_RING_MIN)
        quota = RECORDS_A_RING_MIN;
    ferry_trace_record *to = the.buffer;
    for (fry_context *context = first; context != NULL && count < RUNS_MAX;
         context = context->next) {
        if (context->file_cursor >= context->file_end)
            continue;
        uint64_t left = context->file_end - context->file_cursor, cursor = context->file_cursor;
        uint64_t lost = 0;
        size_t got = fry_trace_ring_read(fry_load_acquire(&context->ring), &cursor, to,
                                         left < quota ? left : quota, &lost);
        context->file_cursor = cursor - got;
        if (lost != 0)
            drop(source, lost);
        if (got == 0)
            continue;
        if (cursor < context->file_end && to[got - 1].when_ns < *until_ns_p)
            *until_ns_p = to[got - 1].when_ns;
        the.runs[count++] = (run){.next = to, .end = to + got, .context = context};
        to += got;
    }
    return count;
}

static bool comes_before(const ferry_trace_record *left, const ferry_trace_record *right)
{
    if (left->when_ns != right->when_ns)
        return left->when_ns < right->when_ns;
    return left->what < right->what;
}

/* Takes the runs' records up to a time, in order. Returns how many. */
static size_t merge_runs(fry_writer_source *source, size_t count, int64_t until_ns)
{
    size_t taken = 0;
    while (count != 0) {
        run *least = &the.runs[0], *second = NULL;
        for (size_t i = 1; i < count; i++) {
            run *other = &the.runs[i];
            if (comes_before(other->next, least->next)) {
                second = least;
                least = other;
            } else if (second == NULL || comes_before(other->next, second->next)) {
                second = other;
            }
        }
        if (least->next->when_ns > until_ns)
            break;
        /* A thread's records follow each other as long as it has the baton. */
        do {
            fry_trace_lines_take(source->lines, &the.file, least->next++);
            least->context->file_cursor++;
            taken++;
        } while (least->next != least->end && least->next->when_ns <= until_ns &&
                 (second == NULL || !comes_before(second->next, least->next)));
        if (least->next == least->end)
            *least = the.runs[--count];
    }
    the.records += taken;
    return taken;
}

/* The file takes no more: new records are only counted. */
static void drop_all(fry_writer_source *source, fry_context *first)
{
    bool crowded = false;
    (void)look_at_heads(first, &crowded);
    for (fry_context *context = first; context != NULL; context = context->next) {
        drop(source, context->file_end - context->file_cursor);
        context->file_cursor = context->file_end;
    }
}

/* One round over an engine's rings. Returns how many records were taken. */
static size_t drain(ferry_engine *engine, bool is_last, bool *crowded_p)
{
    fry_writer_source *source = engine->file_seat.source;
    if (source == NULL)
        return 0;
    /* After two such rounds the clock has passed the records, unless a user's clock went back. */
    int64_t time_ns =
        is_last || source->held_back >= 2 ? INT64_MAX : fry_clock_now_ns(&engine->clock);
    fry_context *first = first_context(engine);
    uint64_t unrecorded = fry_load_relaxed(&engine->unrecorded);
    drop(source, unrecorded - source->unrecorded);
    source->unrecorded = unrecorded;
    if (the.file.error != 0) {
        drop_all(source, first);
        return 0;
    }
    size_t rings = look_at_heads(first, crowded_p), taken = 0;
    bool is_held_back = false;
    while (rings != 0) {
        int64_t until_ns = time_ns;
        size_t runs = read_runs(source, first, rings, &until_ns);
        size_t some = merge_runs(source, runs, until_ns);
        taken += some;
        is_held_back = runs != 0 && taken == 0;
        if (some == 0)
            break;
    }
    source->held_back = is_held_back ? source->held_back + 1 : 0;
    return taken;
}

/* ---- the thread ---- */

static void finish_source(ferry_engine *engine)
{
    const fry_writer_source *source = engine->file_seat.source;
    if (source == NULL)
        return;
    /* A user's clock may be gone when the process exits. */
    int64_t now_ns =
        engine->clock.is_real ? fry_clock_monotonic_ns() : fry_trace_lines_latest_ns(source->lines);
    the.unwritten += fry_trace_lines_finish(source->lines, &the.file, now_ns);
}

static void flush(void)
{
    fry_trace_file_flush(&the.file);
    if (the.file.error != 0 && !the.has_failed) {
        the.has_failed = true;
        say(FERRY_LOG_ERROR, "can't be written any more and ends here", the.file.error);
    }
    if (the.file.error == 0)
        the.flushed = the.records;
}

/* With `lock`. */
static void unlist(ferry_engine *engine)
{
    ferry_engine **at = &the.engines;
    while (*at != engine)
        at = &(*at)->file_seat.next;
    *at = engine->file_seat.next;
    engine->file_seat.is_listed = false;
}

static void let_go(ferry_engine *engine)
{
    finish_source(engine);
    flush();
    (void)pthread_mutex_lock(&the.lock);
    stop_source(engine);
    unlist(engine);
    (void)pthread_cond_broadcast(&the.changed);
    (void)pthread_mutex_unlock(&the.lock);
}

static ferry_engine *first_engine(void)
{
    (void)pthread_mutex_lock(&the.lock);
    ferry_engine *engine = the.engines; /* new ones go in front; this thread removes them */
    (void)pthread_mutex_unlock(&the.lock);
    return engine;
}

/* Goes once over all engines' rings. Returns how many records were taken. */
static size_t go_round(bool is_last, bool *crowded_p)
{
    size_t taken = 0;
    for (ferry_engine *engine = first_engine(), *next; engine != NULL; engine = next) {
        next = engine->file_seat.next;
        bool is_leaving = fry_load_acquire(&engine->file_seat.is_leaving) != 0;
        taken += drain(engine, is_last || is_leaving, crowded_p);
        if (is_leaving)
            let_go(engine);
    }
    return taken;
}

static bool is_anything_new(void)
{
    for (ferry_engine *engine = first_engine(); engine != NULL; engine = engine->file_seat.next) {
        if (engine->file_seat.source == NULL)
            continue;
        for (fry_context *context = first_context(engine); context != NULL;
             context = context->next) {
            const fry_trace_ring *ring = fry_load_acquire(&context->ring);
            if (ring != NULL && fry_load_acquire(&ring->head) != context->file_cursor)
                return true;
        }
    }
    return false;
}

/* Nobody wakes the thread for records that can't be written. */
static void rest_for_good(void)
{
    while (fry_load_seq_cst(&the.asked) == 0)
        fry_futex_wait(&the.asked, 0, -1);
}

static void rest(bool may_sleep)
{
    fry_bell *bell = &fry_bell_of_process;
    uint32_t state = may_sleep ? FRY_BELL_ASLEEP : FRY_BELL_LINGERING;
    (void)fry_exchange(&bell->state, state);
    if (may_sleep && fry_load_relaxed(&bell->needs_fence) != 0)
        fry_fence(); /* pairs with the fence in fry_bell_tell */
    else if (may_sleep)
        fry_membarrier();
    /*
     * A thread that asks stores `asked`, then swaps the bell: it sees this state, or is seen here.
     */
    bool has_reason = fry_load_seq_cst(&the.asked) != 0 || (may_sleep && is_anything_new());
    int64_t linger_ns = fry_test_linger_ns != 0 ? fry_test_linger_ns : LINGER_NS;
    if (!has_reason)
        fry_futex_wait(&bell->state, state, may_sleep ? -1 : linger_ns);
    fry_store_relaxed(&bell->state, FRY_BELL_AWAKE);
}

/* Makes the thread begin a new round, however it rests. */
static void ask(void)
{
    (void)fry_exchange(&the.asked, 1);
    fry_futex_wake(&the.asked, 1);
    if (fry_exchange(&fry_bell_of_process.state, FRY_BELL_AWAKE) != FRY_BELL_AWAKE)
        fry_futex_wake(&fry_bell_of_process.state, 1);
}

static void say_what_is_lacking(void)
{
    fry_log log;
    fry_log_init(&log, NULL, NULL);
    fry_log_line(&log, FERRY_LOG_ERROR,
                 "the trace file is incomplete: of %llu records up to %llu are lacking",
                 (unsigned long long)(the.records + the.dropped),
                 (unsigned long long)(the.records + the.dropped - the.flushed));
}

static void end_file(void)
{
    for (ferry_engine *engine = first_engine(); engine != NULL; engine = engine->file_seat.next)
        finish_source(engine);
    fry_trace_lines_close(&the.file, the.process, the.records, the.dropped, the.unwritten);
    flush();
    (void)fry_trace_file_close(&the.file);
    flush();
    if (the.has_failed)
        say_what_is_lacking();
    (void)pthread_mutex_lock(&the.lock);
    for (ferry_engine *engine = the.engines; engine != NULL; engine = engine->file_seat.next)
        stop_source(engine);
    the.is_running = false;
    (void)pthread_cond_broadcast(&the.changed);
    (void)pthread_mutex_unlock(&the.lock);
}

static void *writer_thread(void *arg)
{
    (void)arg;
    bool has_found = true; /* so that the first rest has a timeout: see writer.h */
    for (;;) {
        (void)fry_exchange(&the.asked, 0);
        bool is_last = fry_load_seq_cst(&the.closing) != 0;
        bool is_crowded = false;
        if (go_round(is_last, &is_crowded) != 0)
            has_found = true;
        if (is_last)
            break;
        if (is_crowded && the.file.error == 0)
            continue;
        flush();
        if (the.file.error != 0)
            rest_for_good();
        else
            rest(!has_found);
        has_found = false;
    }
    end_file();
    return NULL;
}

/* ---- opening and closing ---- */

static ferry_status start_thread(void)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int refused = pthread_create(&the.thread, NULL, writer_thread, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refused != 0) {
        say(FERRY_LOG_WARNING, "has no thread", refused);
        return FERRY_E_SYSTEM;
    }
    (void)pthread_setname_np(the.thread, "ferry-trace");
    return FERRY_OK;
}

/* With `lock`, which the thread will wait for: starts all engines' sources, then the thread. */
static ferry_status start_all(void)
{
    ferry_status status = FERRY_OK;
    for (ferry_engine *engine = the.engines; engine != NULL && status == FERRY_OK;
         engine = engine->file_seat.next)
        status = start_source(engine);
    if (status == FERRY_OK)
        status = start_thread();
    for (ferry_engine *engine = the.engines; engine != NULL && status != FERRY_OK;
         engine = engine->file_seat.next)
        stop_source(engine);
    the.is_running = status == FERRY_OK;
    return status;
}

/* With `opening`; no file is open. */
static ferry_status open_file(const char *path)
{
    ferry_status status = fry_trace_file_open(&the.file, path);
    if (status != FERRY_OK) {
        if (status == FERRY_E_SYSTEM)
            say(FERRY_LOG_WARNING, path, errno);
        return status;
    }
    the.buffer = malloc(RECORDS_A_ROUND * sizeof *the.buffer);
    status = the.buffer != NULL ? FERRY_OK : FERRY_E_NO_MEMORY;
    the.process = (int32_t)getpid();
    the.records = the.dropped = the.unwritten = the.flushed = 0;
    the.has_failed = false;
    the.asked = the.closing = 0;
    bool needs_fence = fry_test_no_membarrier || !fry_membarrier_register();
    fry_store_relaxed(&fry_bell_of_process.needs_fence, needs_fence);
    fry_trace_lines_open(&the.file, the.process);
    if (status == FERRY_OK) {
        (void)pthread_mutex_lock(&the.lock);
        status = start_all();
        (void)pthread_mutex_unlock(&the.lock);
    }
    if (status != FERRY_OK) {
        (void)fry_trace_file_close(&the.file);
        free(the.buffer);
    }
    return status;
}

/* Only the holder of `opening` changes it. */
static bool is_open(void)
{
    (void)pthread_mutex_lock(&the.lock);
    bool is_running = the.is_running;
    (void)pthread_mutex_unlock(&the.lock);
    return is_running;
}

static void forked_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_condition = PTHREAD_COND_INITIALIZER;
    the.opening = the.lock = fresh;
    the.changed = fresh_condition;
    the.engines = NULL;
    the.is_running = false;
    fry_store_relaxed(&fry_bell_of_process.state, FRY_BELL_AWAKE);
    fry_trace_file_forget(&the.file);
}

static void register_fork(void)
{
    (void)pthread_atfork(NULL, NULL, forked_in_child);
}

/* In a child of fork the file is the parent's. */
static void watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, register_fork);
    fry_watch_forks();
}

ferry_status ferry_trace_open(const char *path)
{
    if (path == NULL || path[0] == '\0')
        return FERRY_E_INVALID;
    watch_forks();
    if (fry_load_relaxed(&fry_fork_generation) != 0)
        return FERRY_E_FORKED;
    (void)pthread_mutex_lock(&the.opening);
    ferry_status status = is_open() ? FERRY_E_BUSY : open_file(path);
    (void)pthread_mutex_unlock(&the.opening);
    return status;
}

ferry_status ferry_trace_close(void)
{
    if (fry_load_relaxed(&fry_fork_generation) != 0)
        return FERRY_E_FORKED;
    (void)pthread_mutex_lock(&the.opening);
    ferry_status status = FERRY_E_INVALID;
    if (is_open()) {
        fry_store_seq_cst(&the.closing, 1);
        ask();
        (void)pthread_join(the.thread, NULL);
        free(the.buffer);
        status = the.file.error == 0 ? FERRY_OK : FERRY_E_SYSTEM;
    }
    (void)pthread_mutex_unlock(&the.opening);
    return status;
}

/* Replaces %p by the process id. False: there is no room. */
static bool expand_path(char path[PATH_MAX], const char *given)
{
    size_t used = 0;
    for (const char *from = given; *from != '\0'; from++) {
        char piece[16] = {*from, '\0'};
        if (from[0] == '%' && from[1] == 'p') {
            (void)snprintf(piece, sizeof piece, "%d", (int)getpid());
            from++;
        }
        size_t length = strlen(piece);
        if (length >= PATH_MAX - used)
            return false;
        memcpy(path + used, piece, length + 1);
        used += length;
    }
    return true;
}

static void open_by_environment(void)
{
    char path[PATH_MAX];
    const char *given = fry_environment(FRY_ENV_FERRY_TRACE);
    if (given == NULL || fry_exchange(&the.has_looked_at_environment, 1) != 0 ||
        fry_load_relaxed(&fry_fork_generation) != 0)
        return;
    if (!expand_path(path, given))
        say(FERRY_LOG_WARNING, "named by FERRY_TRACE is not opened", ENAMETOOLONG);
    else if (ferry_trace_open(path) == FERRY_E_BUSY)
        say(FERRY_LOG_WARNING, "named by FERRY_TRACE is not opened: another trace file is open",
            EBUSY);
}

/* Runs as the process exits, but not in a child of a fork that was not seen. */
static __attribute__((destructor)) void close_at_exit(void)
{
    if (the.file.fd >= 0 && the.process == (int32_t)getpid())
        (void)ferry_trace_close();
}

/* ---- engines come and go ---- */

void fry_writer_attach(ferry_engine *engine)
{
    watch_forks(); /* another thread may hold `lock` when the process forks */
    open_by_environment();
    (void)pthread_mutex_lock(&the.lock);
    if (the.is_running && start_source(engine) != FERRY_OK)
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "no memory to trace this engine");
    engine->file_seat.is_listed = true;
    engine->file_seat.next = the.engines;
    the.engines = engine;
    (void)pthread_mutex_unlock(&the.lock);
}

bool fry_writer_detach(ferry_engine *engine, int64_t end_ns)
{
    struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    int failed = 0;
    (void)pthread_mutex_lock(&the.lock);
    fry_store_release(&engine->file_seat.is_leaving, 1);
    if (the.is_running)
        ask();
    while (the.is_running && engine->file_seat.is_listed && failed != ETIMEDOUT)
        failed = pthread_cond_clockwait(&the.changed, &the.lock, CLOCK_MONOTONIC, &end);
    bool is_out = !(the.is_running && engine->file_seat.is_listed);
    if (is_out && engine->file_seat.is_listed)
        unlist(engine);
    (void)pthread_mutex_unlock(&the.lock);
    return is_out;
}
