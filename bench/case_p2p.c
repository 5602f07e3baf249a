/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p-*: messages between two processes, through shared memory and over TCP between two network
 * namespaces, beside raw UCX with tag matching in the same run, by turns. Ferry's ends are `ferry
 * perf`, and members for what that does not measure.
 */
#include "bench/bench.h"
#include "bench/member.h"
#include "bench/rivals/pair.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WINDOW 1024
#define SLOTS_BYTES ((size_t)64 << 20) /* as ferry perf's */
#define OVERLAP_BYTES ((size_t)64 << 20)

typedef enum path { PATH_SHM, PATH_TCP } path;

static const char *const path_names[] = {"shm", "tcp"};

/* One measurement, for each of those that make it. */
typedef struct task {
    const char *test; /* lat, bw, rate, get, put, notice, plan */
    path path;
    size_t size_bytes;
    size_t n;
    size_t window;
    bool is_batch;
    bool has_thread; /* ferry's loop is a thread beside the one that waits */
    bool is_mapped;  /* the window is in memory that the other end maps */
} task;

static char ucx_path[PATH_MAX];
static char tool_path[PATH_MAX + 32];

static void find_programs(void)
{
    bench_find_tool(tool_path, sizeof tool_path);
    bench_find_program(ucx_path, sizeof ucx_path, "bench_ucx");
}

/* False: there are no hosts of our own for TCP. */
static bool place(bench_command commands[2], path path)
{
    int fds[2];
    bool is_there = path == PATH_SHM || bench_hosts_open(fds);
    for (int rank = 0; rank < 2; rank++) {
        commands[rank].cpu = rank;
        if (path == PATH_TCP && is_there)
            commands[rank].network_fd = fds[rank];
    }
    return is_there;
}

static bool is_path_here(path path)
{
    bench_command commands[2] = {BENCH_COMMAND_INIT, BENCH_COMMAND_INIT};
    if (place(commands, path))
        return true;
    (void)fprintf(stderr, "ferry_bench: no network namespaces here, so nothing over TCP\n");
    return false;
}

/* What rank 0 prints. */
static const char *run_two(const bench_command commands[2])
{
    bench_process first = bench_process_start(&commands[0]);
    bench_process second = bench_process_start(&commands[1]);
    const char *text = bench_process_end(&first);
    static char kept[4096];
    (void)snprintf(kept, sizeof kept, "%s", text);
    (void)bench_process_end(&second);
    return kept;
}

static const char *run_ferry(const task *task)
{
    char folder[BENCH_FOLDER_BYTES];
    char store[BENCH_FOLDER_BYTES + 8];
    char numbers[3][24];
    bench_command commands[2] = {BENCH_COMMAND_INIT, BENCH_COMMAND_INIT};
    (void)place(commands, task->path);
    bench_folder_make(folder);
    (void)snprintf(store, sizeof store, "file:%s", folder);
    (void)snprintf(numbers[0], sizeof numbers[0], "%zu", task->size_bytes);
    (void)snprintf(numbers[1], sizeof numbers[1], "%zu", task->n);
    (void)snprintf(numbers[2], sizeof numbers[2], "%zu", task->window);
    for (int rank = 0; rank < 2; rank++) {
        /* One thread a process, as UCX has; with two, each may be anywhere. */
        if (task->has_thread)
            commands[rank].cpu = -1;
        const char *arguments[] = {tool_path,
                                   "perf",
                                   "--json",
                                   "--store",
                                   store,
                                   "--network",
                                   task->path == PATH_TCP ? "eth0" : "lo",
                                   "--rank",
                                   rank == 0 ? "0" : "1",
                                   "-t",
                                   task->test,
                                   "-s",
                                   numbers[0],
                                   "-n",
                                   numbers[1],
                                   "-O",
                                   numbers[2],
                                   "--loop",
                                   task->has_thread ? "thread" : "embedded",
                                   task->is_batch    ? "--batch"
                                   : task->is_mapped ? "--shared"
                                                     : NULL};
        memcpy(commands[rank].arguments, arguments, sizeof arguments);
    }
    const char *text = run_two(commands);
    bench_folder_remove(folder);
    return text;
}

static const char *run_ucx(const task *task, size_t loops)
{
    int links[2];
    char numbers[5][32];
    bench_command commands[2] = {BENCH_COMMAND_INIT, BENCH_COMMAND_INIT};
    (void)place(commands, task->path);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, links) != 0)
        bench_fail("cannot make a socket");
    (void)snprintf(numbers[0], sizeof numbers[0], "test=%s",
                   strcmp(task->test, "notice") == 0 ? "rate"
                   : strcmp(task->test, "plan") == 0 ? "get"
                                                     : task->test);
    (void)snprintf(numbers[1], sizeof numbers[1], "size=%zu", task->size_bytes);
    (void)snprintf(numbers[2], sizeof numbers[2], "n=%zu", task->n);
    (void)snprintf(numbers[3], sizeof numbers[3], "window=%zu", task->window);
    (void)snprintf(numbers[4], sizeof numbers[4], "loops=%zu", loops);
    for (int rank = 0; rank < 2; rank++) {
        const char *arguments[] = {ucx_path,   rank == 0 ? "rank=0" : "rank=1",
                                   numbers[0], numbers[1],
                                   numbers[2], numbers[3],
                                   numbers[4]};
        memcpy(commands[rank].arguments, arguments, sizeof arguments);
        commands[rank].link_fd = links[rank];
        commands[rank].set = task->path == PATH_TCP ? "UCX_TLS=tcp" : "UCX_TLS=self,posix,sysv,cma";
        if (strcmp(task->test, "overlap") == 0)
            commands[rank].cpu = -1; /* it has two threads */
    }
    const char *text = run_two(commands);
    (void)close(links[0]);
    (void)close(links[1]);
    return text;
}

/* ---- lat, bw, rate ---- */

typedef struct figures {
    bench_samples ferry, ucx, share; /* share: of each turn, ferry's over UCX's */
} figures;

static void free_figures(figures *figures)
{
    bench_samples_free(&figures->ferry);
    bench_samples_free(&figures->ucx);
    bench_samples_free(&figures->share);
}

/* By turns, as whatever else the machine does strikes both alike. */
static void measure(const task *task, const char *name, double scale, int turns, figures *figures)
{
    for (int i = 0; i < turns; i++) {
        double ferry = bench_text_number(run_ferry(task), name) * scale;
        bench_samples_add(&figures->ferry, ferry);
        if (ucx_path[0] == '\0')
            continue;
        const char *text = run_ucx(task, 0);
        double ucx = strcmp(task->test, "lat") == 0
                         ? bench_text_number(text, "median_us") * 1e3
                         : (double)task->n / bench_text_number(text, "seconds");
        if (strcmp(task->test, "bw") == 0)
            ucx *= (double)task->size_bytes;
        bench_samples_add(&figures->ucx, ucx);
        bench_samples_add(&figures->share, ferry / ucx);
    }
}

static void report(const char *bench, const char *shape, const char *metric, const figures *figures)
{
    bench_report((bench_key){bench, shape, metric, ""}, &figures->ferry);
    if (figures->ucx.count == 0)
        return;
    bench_report((bench_key){bench, shape, metric, "raw UCX"}, &figures->ucx);
    bench_report((bench_key){bench, shape, "ratio", "raw UCX"}, &figures->share);
}

static void measure_lat(path path, bool has_thread, bool is_quick)
{
    if (!is_path_here(path))
        return;
    char shape[32];
    figures figures = {0};
    task task = {
        .test = "lat", .path = path, .size_bytes = 8, .window = 1, .has_thread = has_thread};
    task.n = path == PATH_SHM ? 200000 : 50000;
    measure(&task, "latency_median_us", 1e3, is_quick ? 2 : 5, &figures);
    (void)snprintf(shape, sizeof shape, "8B-%s%s", path_names[path], has_thread ? "-thread" : "");
    report("p2p-lat", shape, "latency_ns", &figures);
    if (path == PATH_SHM && figures.ucx.count > 0) {
        bench_samples over = {0};
        for (size_t i = 0; i < figures.ucx.count; i++)
            bench_samples_add(&over, figures.ferry.values[i] - figures.ucx.values[i]);
        bench_report((bench_key){"p2p-lat", "8B-shm-over", "latency_ns", ""}, &over);
        bench_samples_free(&over);
    }
    free_figures(&figures);
}

void bench_p2p_lat(bool is_quick)
{
    find_programs();
    measure_lat(PATH_SHM, false, is_quick);
    measure_lat(PATH_TCP, false, is_quick);
    measure_lat(PATH_TCP, true, is_quick);
}

void bench_p2p_bw(bool is_quick)
{
    static const size_t sizes[] = {65536, 1048576, 8388608, 67108864};
    find_programs();
    for (int path = PATH_SHM; path <= PATH_TCP; path++) {
        if (!is_path_here((enum path)path))
            continue;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i += is_quick ? 3 : 1) {
            char size[16];
            char shape[32];
            figures figures = {.ferry.larger_is_better = true,
                               .ucx.larger_is_better = true,
                               .share.larger_is_better = true};
            size_t window = SLOTS_BYTES / sizes[i] < 2 ? 2 : SLOTS_BYTES / sizes[i];
            task task = {.test = "bw",
                         .path = (enum path)path,
                         .size_bytes = sizes[i],
                         .n = ((size_t)1 << 30) / sizes[i],
                         .window = window > 64 ? 64 : window};
            measure(&task, "bytes_per_s", 1, is_quick ? 2 : 3, &figures);
            bench_size_name(size, sizeof size, sizes[i]);
            (void)snprintf(shape, sizeof shape, "%s-%s", size, path_names[path]);
            report("p2p-bw", shape, "bandwidth_bytes_per_s", &figures);
            free_figures(&figures);
        }
    }
}

void bench_p2p_rate(bool is_quick)
{
    find_programs();
    for (int is_batch = 0; is_batch < 2; is_batch++) {
        figures figures = {.ferry.larger_is_better = true,
                           .ucx.larger_is_better = true,
                           .share.larger_is_better = true};
        task task = {.test = "rate",
                     .size_bytes = 8,
                     .n = 1000000,
                     .window = 256,
                     .is_batch = is_batch != 0};
        measure(&task, "messages_per_s", 1, is_quick ? 2 : 5, &figures);
        report("p2p-rate", is_batch ? "8B-batch" : "8B-each", "records_per_s", &figures);
        free_figures(&figures);
    }
}

/* Beside messages of raw UCX, which need a receive and are not answered. */
void bench_p2p_notice(bool is_quick)
{
    find_programs();
    figures figures = {.ferry.larger_is_better = true,
                       .ucx.larger_is_better = true,
                       .share.larger_is_better = true};
    task task = {.test = "notice", .size_bytes = 64, .n = 1000000, .window = 256};
    measure(&task, "messages_per_s", 1, is_quick ? 2 : 5, &figures);
    report("p2p-notice", "64B", "records_per_s", &figures);
    free_figures(&figures);
}

/* ---- plans ---- */

/* A plan of one get beside a get. */
static void measure_plan_of_one(bool is_mapped, bool is_quick)
{
    bench_samples plan = {0}, get = {0}, over = {0};
    task task = {
        .path = PATH_SHM, .is_mapped = is_mapped, .size_bytes = 8, .n = 200000, .window = 1};
    for (int i = 0; i < (is_quick ? 2 : 7); i++) {
        task.test = "plan";
        bench_samples_add(&plan, bench_text_number(run_ferry(&task), "latency_median_us") * 1e3);
        task.test = "get";
        bench_samples_add(&get, bench_text_number(run_ferry(&task), "latency_median_us") * 1e3);
        bench_samples_add(&over, plan.values[i] - get.values[i]);
    }
    const char *shape = is_mapped ? "8B-mapped" : "8B";
    bench_report((bench_key){"p2p-plan", shape, "latency_ns", ""}, &plan);
    bench_report((bench_key){"p2p-plan", shape, "latency_ns", "get"}, &get);
    bench_report(
        (bench_key){"p2p-plan", is_mapped ? "8B-mapped-over" : "8B-over", "latency_ns", ""}, &over);
    bench_samples_free(&plan);
    bench_samples_free(&get);
    bench_samples_free(&over);
}

/* Scattered blocks by two plans of 2048, beside gets of raw UCX with as many under way. */
static void measure_plan_of_many(bool is_mapped, bool is_quick)
{
    figures figures = {.ferry.larger_is_better = true,
                       .ucx.larger_is_better = true,
                       .share.larger_is_better = true};
    task task = {
        .test = "plan", .is_mapped = is_mapped, .size_bytes = 16384, .n = 200000, .window = 4096};
    measure(&task, "bytes_per_s", 1.0 / 16384, is_quick ? 2 : 7, &figures);
    report("p2p-plan", is_mapped ? "16KiB-4096-mapped" : "16KiB-4096", "records_per_s", &figures);
    free_figures(&figures);
}

void bench_p2p_plan(bool is_quick)
{
    find_programs();
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        measure_plan_of_many(is_mapped != 0, is_quick);
        measure_plan_of_one(is_mapped != 0, is_quick);
    }
}

/* ---- windows ---- */

static const size_t window_sizes[] = {8, 16384, 1048576, 67108864};

typedef struct place_of_window {
    path path;
    bool is_mapped;
    const char *name;
} place_of_window;

static const place_of_window window_places[] = {
    {PATH_SHM, false, "shm"},
    {PATH_SHM, true, "mapped"},
    {PATH_TCP, false, "tcp"},
};

/* How many of a size are under way: one, which is timed, or many. The ratio is of speeds. */
static void measure_gets(const place_of_window *at, size_t size_bytes, bool is_latency,
                         bool is_quick)
{
    char size[16], shape[32];
    figures figures = {0};
    size_t window = is_latency ? 1 : SLOTS_BYTES / size_bytes < 2 ? 2 : SLOTS_BYTES / size_bytes;
    size_t n = ((size_t)1 << (is_latency ? 28 : 30)) / size_bytes;
    task task = {.test = "get",
                 .path = at->path,
                 .is_mapped = at->is_mapped,
                 .size_bytes = size_bytes,
                 .n = n > 100000 ? 100000
                      : n < 10   ? 10
                                 : n,
                 .window = window > 64 ? 64 : window};
    figures.ferry.larger_is_better = figures.ucx.larger_is_better = !is_latency;
    figures.share.larger_is_better = true;
    for (int i = 0; i < (is_quick ? 2 : 5); i++) {
        const char *text = run_ferry(&task);
        double ferry = is_latency ? bench_text_number(text, "latency_median_us") * 1e3
                                  : bench_text_number(text, "bytes_per_s");
        bench_samples_add(&figures.ferry, ferry);
        if (ucx_path[0] == '\0')
            continue;
        text = run_ucx(&task, 0);
        double ucx = is_latency
                         ? bench_text_number(text, "median_us") * 1e3
                         : (double)(task.n * size_bytes) / bench_text_number(text, "seconds");
        bench_samples_add(&figures.ucx, ucx);
        bench_samples_add(&figures.share, is_latency ? ucx / ferry : ferry / ucx);
    }
    bench_size_name(size, sizeof size, size_bytes);
    (void)snprintf(shape, sizeof shape, "%s-%s", size, at->name);
    report("p2p-get", shape, is_latency ? "latency_ns" : "bandwidth_bytes_per_s", &figures);
    if (is_latency && figures.ucx.count > 0) {
        bench_samples over = {0};
        for (size_t i = 0; i < figures.ucx.count; i++)
            bench_samples_add(&over, figures.ferry.values[i] - figures.ucx.values[i]);
        (void)snprintf(shape, sizeof shape, "%s-%s-over", size, at->name);
        bench_report((bench_key){"p2p-get", shape, "latency_ns", ""}, &over);
        bench_samples_free(&over);
    }
    free_figures(&figures);
}

/* A put beside a get of the same size and a message there: one control message more. */
static void measure_put(path path, bool is_quick)
{
    static const char *const tests[] = {"put", "get", "lat"};
    bench_samples samples[3] = {{0}}, share = {0};
    char shape[32];
    for (int i = 0; i < (is_quick ? 2 : 5); i++) {
        double us[3];
        for (size_t k = 0; k < 3; k++) {
            task task = {.test = tests[k],
                         .path = path,
                         .size_bytes = k == 2 ? 8 : 16384,
                         .n = path == PATH_SHM ? 50000 : 10000,
                         .window = 1};
            us[k] = bench_text_number(run_ferry(&task), "latency_median_us");
            bench_samples_add(&samples[k], us[k] * 1e3);
        }
        bench_samples_add(&share, us[0] / (us[1] + us[2]));
    }
    (void)snprintf(shape, sizeof shape, "16KiB-%s", path_names[path]);
    bench_report((bench_key){"p2p-put", shape, "latency_ns", ""}, &samples[0]);
    bench_report((bench_key){"p2p-put", shape, "latency_ns", "get"}, &samples[1]);
    bench_report((bench_key){"p2p-put", shape, "latency_ns", "8 bytes there"}, &samples[2]);
    bench_report((bench_key){"p2p-put", shape, "ratio", "get and 8 bytes there"}, &share);
    for (size_t k = 0; k < 3; k++)
        bench_samples_free(&samples[k]);
    bench_samples_free(&share);
}

void bench_p2p_get(bool is_quick)
{
    find_programs();
    for (size_t k = 0; k < sizeof window_places / sizeof window_places[0]; k++) {
        const place_of_window *at = &window_places[k];
        if (!is_path_here(at->path))
            continue;
        for (size_t i = 0; i < sizeof window_sizes / sizeof window_sizes[0]; i++) {
            measure_gets(at, window_sizes[i], true, is_quick);
            if (window_sizes[i] >= 16384)
                measure_gets(at, window_sizes[i], false, is_quick);
        }
        if (!at->is_mapped)
            measure_put(at->path, is_quick);
    }
}

/* ---- overlap, order ---- */

/* Loops of computing that take about 20 ms, as a message there and one back do. */
static size_t find_loops(void)
{
    static const size_t tried = 5000000;
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t begin_ns = bench_now_ns();
        pair_compute(tried);
        int64_t took_ns = bench_now_ns() - begin_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    return (size_t)(20e6 * (double)tried / (double)least_ns);
}

static double run_mpi(const char *path, size_t rounds, size_t loops)
{
    char numbers[3][32];
    bench_command command = BENCH_COMMAND_INIT;
    (void)snprintf(numbers[0], sizeof numbers[0], "size=%zu", OVERLAP_BYTES);
    (void)snprintf(numbers[1], sizeof numbers[1], "n=%zu", rounds);
    (void)snprintf(numbers[2], sizeof numbers[2], "loops=%zu", loops);
    const char *arguments[] = {"/usr/bin/mpirun",
                               "--allow-run-as-root",
                               "--oversubscribe",
                               "-n",
                               "2",
                               path,
                               numbers[0],
                               numbers[1],
                               numbers[2]};
    memcpy(command.arguments, arguments, sizeof arguments);
    bench_process process = bench_process_start(&command);
    return bench_text_number(bench_process_end(&process), "median_us");
}

void bench_p2p_overlap(bool is_quick)
{
    char mpi_path[PATH_MAX];
    char folder[BENCH_FOLDER_BYTES];
    char store[BENCH_FOLDER_BYTES + 8];
    char line[64];
    bench_process members[2];
    bench_samples ferry = {0}, control = {0}, ratio = {0}, mpi = {0};
    size_t rounds = is_quick ? 5 : 15;
    size_t loops = find_loops();
    find_programs();
    bench_find_program(mpi_path, sizeof mpi_path, "bench_mpi");
    bench_folder_make(folder);
    (void)snprintf(store, sizeof store, "file:%s", folder);
    (void)snprintf(line, sizeof line, "overlap %zu %zu %zu", rounds, OVERLAP_BYTES, loops);
    bench_members_pair(members, store, WINDOW);
    task task = {.test = "overlap", .size_bytes = OVERLAP_BYTES, .n = rounds, .window = 1};
    for (int i = 0; i < (is_quick ? 2 : 5); i++) {
        bench_samples_add(&ferry, bench_members_do(members, 2, line, "median_us") * 1e3);
        if (ucx_path[0] != '\0') {
            bench_samples_add(&control,
                              bench_text_number(run_ucx(&task, loops), "median_us") * 1e3);
            bench_samples_add(&ratio, ferry.values[i] / control.values[i]);
        }
        if (mpi_path[0] != '\0' && access("/usr/bin/mpirun", X_OK) == 0)
            bench_samples_add(&mpi, run_mpi(mpi_path, rounds, loops) * 1e3);
    }
    bench_members_end(members, 2);
    bench_folder_remove(folder);
    bench_report((bench_key){"p2p-overlap", "64MiB", "duration_ns", ""}, &ferry);
    if (control.count > 0) {
        bench_report((bench_key){"p2p-overlap", "64MiB", "duration_ns", "control"}, &control);
        bench_report((bench_key){"p2p-overlap", "64MiB", "ratio", "control"}, &ratio);
    }
    if (mpi.count > 0) {
        bench_report((bench_key){"p2p-overlap", "64MiB", "duration_ns", "Open MPI"}, &mpi);
        bench_report_value((bench_key){"p2p-overlap", "64MiB", "ratio", "Open MPI"},
                           bench_samples_quantile(&ferry, 0.5) / bench_samples_quantile(&mpi, 0.5));
    }
    bench_samples_free(&ferry);
    bench_samples_free(&control);
    bench_samples_free(&ratio);
    bench_samples_free(&mpi);
}

void bench_p2p_order(bool is_quick)
{
    static const uint32_t windows[] = {1, 16, 1024};
    for (size_t i = 0; i < 3; i++) {
        bench_process members[2];
        char folder[BENCH_FOLDER_BYTES];
        char store[BENCH_FOLDER_BYTES + 8];
        char shape[32];
        bench_samples in_order = {0}, random = {0}, ratio = {0};
        bench_folder_make(folder);
        (void)snprintf(store, sizeof store, "file:%s", folder);
        bench_members_pair(members, store, windows[i]);
        for (int turn = 0; turn < (is_quick ? 2 : 5); turn++) {
            for (int rank = 0; rank < 2; rank++)
                bench_process_tell(&members[rank], "order 1000 1024");
            (void)bench_process_line(&members[0]);
            const char *text = bench_process_line(&members[1]);
            bench_samples_add(&in_order, bench_text_number(text, "in_order_us") * 1e3);
            bench_samples_add(&random, bench_text_number(text, "random_us") * 1e3);
            bench_samples_add(&ratio, random.values[turn] / in_order.values[turn]);
        }
        bench_members_end(members, 2);
        bench_folder_remove(folder);
        (void)snprintf(shape, sizeof shape, "window-%u", (unsigned)windows[i]);
        bench_report((bench_key){"p2p-order", shape, "duration_ns", ""}, &random);
        bench_report((bench_key){"p2p-order", shape, "duration_ns", "in order"}, &in_order);
        bench_report((bench_key){"p2p-order", shape, "ratio", "in order"}, &ratio);
        bench_samples_free(&in_order);
        bench_samples_free(&random);
        bench_samples_free(&ratio);
    }
}
