/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_end.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1e9
#define SPIN_NS 1000000000 /* an engine's maximum */
#define LEAVE_NS INT64_C(5000000000)
#define SECRET_LEAST_BYTES 16
#define SECRET_MOST_BYTES 1024
#define PASSWORD_BYTES 256

static int fail(const perf_end *end, const char *doing, const char *why)
{
    fprintf(stderr, "ferry: rank %d: %s: %s\n", end->rank, doing, why);
    return EXIT_FAILURE;
}

static int fail_error(const perf_end *end, const char *doing, ferry_status status,
                      const ferry_error *error)
{
    fprintf(stderr, "ferry: rank %d: %s: %s (%s)\n", end->rank, doing,
            error ? error->message : ferry_status_text(status), ferry_status_name(status));
    if (error && error->cause)
        fprintf(stderr, "ferry: because of: %s (%s)\n", error->cause->message,
                ferry_status_name(error->cause->status));
    return EXIT_FAILURE;
}

/* ---- interrupts ---- */

/* Fails all operations under way, so that the thread that waits for them returns. */
static void *watch_signals(void *arg)
{
    perf_end *end = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2); /* the end itself stops this thread */
    for (;;) {
        int number = 0;
        if (sigwait(&set, &number) != 0 || number == SIGUSR2)
            return NULL;
        pthread_mutex_lock(&end->mutex);
        end->interrupt = number;
        if (end->joining)
            (void)ferry_future_cancel(end->joining);
        else if (end->group)
            ferry_future_release(ferry_group_leave(end->group));
        pthread_mutex_unlock(&end->mutex);
    }
}

static int start_signals(perf_end *end)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int error = pthread_create(&end->signals, NULL, watch_signals, end);
    if (error)
        return fail(end, "starting a thread", strerror(error));
    end->has_signals = true;
    return 0;
}

static int interrupted(perf_end *end)
{
    pthread_mutex_lock(&end->mutex);
    int number = end->interrupt;
    pthread_mutex_unlock(&end->mutex);
    return number;
}

/* ---- waiting ---- */

static int fail_future(perf_end *end, ferry_future *future, const char *doing)
{
    ferry_status status = ferry_future_poll(future);
    int number = interrupted(end);
    if (number) {
        fprintf(stderr, "ferry: rank %d: interrupted\n", end->rank);
        return 128 + number;
    }
    ferry_member_info member = FERRY_MEMBER_INFO_INIT;
    if ((status == FERRY_E_DEAD || status == FERRY_E_PEER) && end->group &&
        ferry_group_member(end->group, end->other, &member) == FERRY_OK)
        fprintf(stderr, "ferry: rank %d: the other end, rank %u (process %lld on %s), %s\n",
                end->rank, (unsigned)end->other, (long long)member.pid, member.host,
                status == FERRY_E_DEAD ? "has died or left" : "can't be reached any more");
    return fail_error(end, doing, status, ferry_future_error(future));
}

int perf_end_finish(perf_end *end, ferry_future *future, const char *doing)
{
    ferry_status status = ferry_future_poll(future);
    if (status == FERRY_PENDING)
        status = ferry_future_wait(future, -1);
    int result = status == FERRY_OK ? 0 : fail_future(end, future, doing);
    ferry_future_release(future);
    return result;
}

/* ---- opening ---- */

static int read_secret(perf_end *end, unsigned char *secret, size_t *size_p)
{
    const char *path = end->options->secret_path;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return fail(end, path, strerror(errno));
    *size_p = fread(secret, 1, SECRET_MOST_BYTES + 1, file);
    int error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error)
        return fail(end, path, strerror(error));
    if (*size_p < SECRET_LEAST_BYTES || *size_p > SECRET_MOST_BYTES)
        return fail(end, path, "a secret is 16 to 1024 bytes");
    return 0;
}

/* Reads the first line of the file. */
static int read_password(perf_end *end, char password[PASSWORD_BYTES])
{
    const char *path = end->options->password_path;
    FILE *file = fopen(path, "re");
    if (!file)
        return fail(end, path, strerror(errno));
    password[0] = '\0';
    bool is_read = fgets(password, PASSWORD_BYTES, file) != NULL;
    int error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error)
        return fail(end, path, strerror(error));
    size_t length = strcspn(password, "\r\n");
    if (!is_read || length == 0 || length == PASSWORD_BYTES - 1)
        return fail(end, path, "a password is a line of 1 to 254 bytes");
    password[length] = '\0';
    return 0;
}

/* Sets what the store's URI must not hold: everybody can read a command line. */
static int set_store(perf_end *end, ferry_group_options *group, char password[PASSWORD_BYTES])
{
    const perf_options *options = end->options;
    group->store = options->store;
    group->store_user = options->user;
    group->store_ca_path = options->ca_path;
    group->store_certificate_path = options->certificate_path;
    group->store_key_path = options->key_path;
    if (!options->password_path)
        return 0;
    group->store_password = password;
    return read_password(end, password);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const ferry_gpu_way group_ways[] = {[PERF_WAY_AUTO] = FERRY_GPU_WAY_ANY,
                                           [PERF_WAY_STAGING] = FERRY_GPU_WAY_STAGING,
                                           [PERF_WAY_IPC] = FERRY_GPU_WAY_IPC,
                                           [PERF_WAY_NCCL] = FERRY_GPU_WAY_NCCL};

static int join(perf_end *end)
{
    const perf_options *options = end->options;
    unsigned char secret[SECRET_MOST_BYTES + 1];
    char password[PASSWORD_BYTES];
    ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
    int result = set_store(end, &group, password);
    if (result)
        return result;
    group.job = options->job;
    group.size = 2;
    group.rank = (ferry_rank)end->rank;
    group.has_rank = true;
    group.device_count = 1;
    group.network = options->network;
    group.lease_ns = (int64_t)(options->lease_s * SECOND_NS);
    group.gpu_way = group_ways[options->way];
    group.deadline_ns = now_ns() + (int64_t)(options->join_s * SECOND_NS);
    if (options->secret_path) {
        result = read_secret(end, secret, &group.secret_bytes);
        if (result)
            return result;
        group.secret = secret;
    }
    ferry_group *joined = NULL;
    ferry_future *future = ferry_group_join(end->engine, &group, &joined);
    explicit_bzero(password, sizeof(password)); /* ferry has its own copy */
    explicit_bzero(secret, sizeof(secret));
    pthread_mutex_lock(&end->mutex);
    end->joining = future;
    bool is_late = end->interrupt != 0;
    pthread_mutex_unlock(&end->mutex);
    if (is_late)
        (void)ferry_future_cancel(future);
    (void)ferry_future_wait(future, -1);
    pthread_mutex_lock(&end->mutex);
    end->joining = NULL;
    end->group = joined;
    pthread_mutex_unlock(&end->mutex);
    return perf_end_finish(end, future, "joining");
}

static int pin(const perf_end *end)
{
    int cpu = end->options->cpus[end->rank];
    if (cpu < 0)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : fail(end, "--cpus", strerror(errno));
}

static int make_engine(perf_end *end)
{
    const perf_options *options = end->options;
    ferry_engine_options engine = FERRY_ENGINE_OPTIONS_INIT;
    engine.loop = options->has_thread ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED;
    engine.host_devices = 1;
    engine.host_workers = 1;
    if (options->wait == PERF_WAIT_POLL)
        engine.wait_spin_ns = SPIN_NS;
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(&engine, &end->engine, &error);
    int result = status == FERRY_OK ? 0 : fail_error(end, "creating an engine", status, error);
    ferry_error_release(error);
    if (result)
        return result;
    end->device = ferry_device_at(end->engine, 0);
    return perf_end_place(end, options->devices[end->rank]);
}

int perf_end_open(perf_end *end, const perf_options *options, int rank)
{
    *end = (perf_end){.options = options, .rank = rank, .other = rank == 0};
    pthread_mutex_init(&end->mutex, NULL);
    end->futures = calloc(2 * (size_t)PERF_WINDOW_MAX, sizeof(ferry_future *));
    int result = end->futures ? 0 : fail(end, "starting", "out of memory");
    if (!result)
        result = start_signals(end);
    if (!result)
        result = make_engine(end);
    if (!result) /* after the engine, whose threads may run on any CPU */
        result = pin(end);
    if (!result)
        result = join(end);
    return result;
}

static void release(perf_area *area)
{
    ferry_buffer_release(area->buffer);
    ferry_buffer_release(area->mirror);
    *area = (perf_area){0};
}

static void leave(perf_end *end)
{
    ferry_future *left = ferry_group_leave(end->group);
    (void)ferry_future_wait(left, LEAVE_NS);
    ferry_future_release(left);
    ferry_group_release(end->group);
}

int perf_end_close(perf_end *end, int result)
{
    if (end->has_signals) {
        pthread_kill(end->signals, SIGUSR2);
        pthread_join(end->signals, NULL);
    }
    if (end->group)
        leave(end);
    for (size_t i = 0; end->futures && i < 2 * (size_t)PERF_WINDOW_MAX; i++)
        ferry_future_release(end->futures[i]);
    release(&end->out);
    release(&end->in);
    if (end->engine) {
        ferry_status status = ferry_engine_shutdown(end->engine, LEAVE_NS);
        if (status != FERRY_OK && !result)
            result = fail_error(end, "shutting down", status, NULL);
    }
    ferry_engine_release(end->engine);
    free(end->futures);
    pthread_mutex_destroy(&end->mutex);
    return result;
}

/* ---- messages ---- */

int perf_end_place(perf_end *end, const char *device)
{
    ferry_error *error = NULL;
    ferry_device *place = NULL;
    ferry_status status = ferry_device_open(end->engine, device, NULL, &place, &error);
    if (status != FERRY_OK) {
        (void)fail_error(end, "opening a device", status, error);
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
    (void)ferry_group_member(end->group, end->other, &member);
    return (perf_ways){{[PERF_WAY_STAGING] = member.staged_bytes,
                        [PERF_WAY_IPC] = member.ipc_bytes,
                        [PERF_WAY_NCCL] = member.nccl_bytes}};
}

int perf_end_room(perf_end *end, perf_area *area, size_t size_bytes)
{
    if (area->capacity_bytes >= size_bytes)
        return 0;
    release(area);
    bool is_shared = !perf_end_is_on_host(end) &&
                     (end->options->way == PERF_WAY_AUTO || end->options->way == PERF_WAY_IPC);
    ferry_status status = ferry_buffer_alloc_kind(
        end->place, size_bytes, is_shared ? FERRY_MEMORY_PLAIN : FERRY_MEMORY_DEFAULT,
        &area->buffer);
    if (status == FERRY_OK && !perf_end_is_on_host(end))
        status =
            ferry_buffer_alloc_kind(end->device, size_bytes, FERRY_MEMORY_PINNED, &area->mirror);
    if (status != FERRY_OK)
        return fail_error(end, "allocating memory for messages", status, NULL);
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
    return ferry_copy(end->engine, perf_end_span(area, offset_bytes, size_bytes),
                      (ferry_span){area->mirror, offset_bytes, size_bytes}, NULL);
}

ferry_future *perf_end_download(perf_end *end, const perf_area *area, size_t offset_bytes,
                                size_t size_bytes)
{
    return ferry_copy(end->engine, (ferry_span){area->mirror, offset_bytes, size_bytes},
                      perf_end_span(area, offset_bytes, size_bytes), NULL);
}

ferry_future *perf_end_send(perf_end *end, ferry_tag tag, ferry_span span)
{
    return ferry_send(end->group, end->other, tag, span, NULL);
}

ferry_future *perf_end_recv(perf_end *end, ferry_tag tag, ferry_span span)
{
    return ferry_recv(end->group, end->other, tag, span, NULL);
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
        end, ferry_window_open(end->group, all, name, FERRY_WINDOW_GET_PUT, &end->window),
        "opening a window");
}

int perf_end_find_window(perf_end *end, uint32_t number)
{
    char name[WINDOW_NAME_BYTES];
    name_window(name, number);
    return perf_end_finish(end, ferry_window_find(end->group, end->other, name, 0, &end->window),
                           "finding the other end's window");
}

int perf_end_close_window(perf_end *end)
{
    ferry_future *closed = ferry_window_close(end->window);
    ferry_window_release(end->window);
    end->window = NULL;
    return perf_end_finish(end, closed, "closing a window");
}
