/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process sees of an engine with GPUs as a whole:
 *   idle      with nothing in flight none of its threads wakes; behind a kernel of the program's
 *             that takes long the loop looks at most about a thousand times a second
 *   engines   made and ended on the same GPUs by several threads: each ends alone, and nothing of
 *             the driver's is left
 *   fork      with copies in flight: in the child every call says so and none reaches the driver,
 *             and it exits like any process; the parent's copies come to their end
 *   exit      with copies in flight and no shutdown: the process ends all the same (emulator)
 */
#include "tests/gpu/program.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#define SIZE ((size_t)256 << 10)
#define LOOK_MS 200
#define LOOKS 50            /* until nothing wakes */
#define LOOKS_A_SECOND 1100 /* once a millisecond, and what else may come */
#define MAKERS 3
#define ENGINES 6 /* of each maker */
#define COPIES 40

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHILD_MAY_EXIT false /* they look about in it, and may hang */
#else
#define CHILD_MAY_EXIT true
#endif

typedef struct scene {
    gpu_engine ge;
    ferry_device *host, *gpu;
    ferry_buffer *pinned, *pageable, *on_gpu, *plain;
} scene;

static void no_log(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void open_scene(scene *self, const char *name)
{
    ferry_engine_options options = gpu_engine_options(&self->ge);
    options.log = no_log;
    CHECK_STATUS(ferry_engine_create(&options, &self->ge.engine, NULL), FERRY_OK);
    self->gpu = gpu_device(&self->ge, name);
    self->host = ferry_device_find(self->ge.engine, "host:0");
    self->pinned = gpu_buffer(self->host, SIZE, FERRY_MEMORY_PINNED);
    self->pageable = gpu_buffer(self->host, SIZE, FERRY_MEMORY_DEFAULT);
    self->on_gpu = gpu_buffer(self->gpu, SIZE, FERRY_MEMORY_DEFAULT);
    self->plain = gpu_buffer(self->gpu, SIZE, FERRY_MEMORY_PLAIN);
}

static void close_scene(scene *self)
{
    ferry_buffer_release(self->pinned);
    ferry_buffer_release(self->pageable);
    ferry_buffer_release(self->on_gpu);
    ferry_buffer_release(self->plain);
    gpu_engine_close(&self->ge);
}

/* There and back, through all sorts of memory. Gives the last copy. */
static ferry_future *copy_about(scene *self)
{
    ferry_future_release(gpu_copy(&self->ge, self->on_gpu, self->pageable, NULL));
    ferry_future_release(gpu_copy(&self->ge, self->plain, self->on_gpu, NULL));
    ferry_future_release(gpu_copy(&self->ge, self->pinned, self->plain, NULL));
    ferry_future_release(gpu_copy(&self->ge, self->on_gpu, self->pinned, NULL));
    return gpu_copy(&self->ge, self->pageable, self->on_gpu, NULL);
}

/* ---- idle ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How often a thread of ferry's went to sleep; 0: it is none of ferry's. */
static unsigned long sleeps_of(const char *task)
{
    char path[320], line[128];
    unsigned long sleeps = 0;
    bool is_ferrys = false;
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        is_ferrys |= strncmp(line, "Name:\tferry-", 12) == 0;
        (void)sscanf(line, "voluntary_ctxt_switches: %lu", &sleeps);
    }
    if (file != NULL)
        (void)fclose(file);
    return is_ferrys ? sleeps : 0;
}

static unsigned long sleeps_of_ferry(size_t *threads)
{
    unsigned long sum = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    *threads = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        unsigned long sleeps = sleeps_of(entry->d_name);
        sum += sleeps;
        *threads += sleeps != 0;
    }
    (void)closedir(folder);
    return sum;
}

static void test_idle(void)
{
    scene self;
    size_t threads;
    gpu_watch("being idle", 60);
    open_scene(&self, "cuda:0");
    CHECK_STATUS(gpu_end(copy_about(&self)), FERRY_OK);
    unsigned long before = sleeps_of_ferry(&threads), after = 0;
    int looks = 0;
    for (; looks < LOOKS; looks++) {
        (void)usleep(LOOK_MS * 1000);
        after = sleeps_of_ferry(&threads);
        if (after == before)
            break; /* whoever wakes now and then would do so each time */
        before = after;
    }
    CHECK(after == before && threads >= 3);
    (void)printf("idle: %zu threads slept for %d ms, after %d ms\n", threads, LOOK_MS,
                 looks * LOOK_MS);
    close_scene(&self);
}

static void test_held(void)
{
    scene self;
    size_t threads;
    gpu_watch("waiting for a kernel", 60);
    open_scene(&self, "cuda:0");
    user_gpu *user = user_gpu_open(0);
    uint32_t *flag = user_gpu_alloc_pinned(user, sizeof *flag);
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    CHECK_STATUS(gpu_end(ferry_event_record(self.gpu, user_gpu_stream(user, 0))), FERRY_OK);
    CHECK_STATUS(gpu_end(copy_about(&self)), FERRY_OK);
    user_gpu_wait_flag(user, 0, flag, 1);
    ferry_future *event = ferry_event_record(self.gpu, user_gpu_stream(user, 0));
    ferry_future *device = gpu_copy(&self.ge, self.on_gpu, self.pinned, event);
    ferry_future *staged = gpu_copy(&self.ge, self.plain, self.pageable, event);
    (void)usleep(LOOK_MS * 1000);
    int64_t start_ns = now_ns();
    unsigned long before = sleeps_of_ferry(&threads);
    (void)usleep(3 * LOOK_MS * 1000);
    unsigned long sleeps = sleeps_of_ferry(&threads) - before;
    int64_t passed_ns = now_ns() - start_ns;
    CHECK(ferry_future_poll(event) == FERRY_PENDING && ferry_future_poll(staged) == FERRY_PENDING);
    CHECK((int64_t)sleeps * 1000000000 <= passed_ns * LOOKS_A_SECOND);
    (void)printf("held: %.0f sleeps a second\n", (double)sleeps * 1e9 / (double)passed_ns);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK_STATUS(gpu_end(event), FERRY_OK);
    CHECK_STATUS(gpu_end(device), FERRY_OK);
    CHECK_STATUS(gpu_end(staged), FERRY_OK);
    user_gpu_finish(user);
    user_gpu_free_pinned(user, flag);
    user_gpu_close(user);
    close_scene(&self);
}

/* ---- engines ---- */

static void *make_engines(void *arg)
{
    const char *name = arg;
    for (int i = 0; i < ENGINES; i++) {
        scene self;
        open_scene(&self, name);
        ferry_future *copied = copy_about(&self);
        ferry_future *event = ferry_event_record(self.gpu, NULL);
        if (i % 2 == 0) {
            CHECK_STATUS(gpu_end(copied), FERRY_OK);
            CHECK_STATUS(gpu_end(event), FERRY_OK);
            close_scene(&self);
            continue;
        }
        /* In the midst of it, with everything released after the engine. */
        CHECK_STATUS(ferry_engine_shutdown(self.ge.engine, -1), FERRY_OK);
        gpu_settle();
        ferry_engine_release(self.ge.engine);
        CHECK(ferry_future_poll(copied) != FERRY_PENDING);
        ferry_future_release(copied);
        ferry_future_release(event);
        ferry_buffer_release(self.pinned);
        ferry_buffer_release(self.pageable);
        ferry_buffer_release(self.on_gpu);
        ferry_buffer_release(self.plain);
        CHECK(failing_allocator_live_bytes(&self.ge.memory) == 0);
    }
    return NULL;
}

static void check_nothing_is_left(void)
{
    if (EMU(emu_get_counters) == NULL)
        return;
    emu_counters counters;
    EMU(emu_get_counters)(&counters);
    CHECK(counters.live_streams == 0 && counters.live_events == 0 && counters.live_pools == 0);
    CHECK(counters.live_device_ranges == 0);
    CHECK(counters.live_pinned_ranges == 0 || gpu_is_late);
    CHECK(counters.live_contexts == 0 && counters.caught == 0 && counters.blocked == 0);
}

static void test_engines(void)
{
    static char *const names[MAKERS] = {"cuda:0", "cuda:0/1", "cuda:0"};
    pthread_t threads[MAKERS];
    gpu_watch("making engines", 100);
    for (size_t i = 0; i < MAKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, make_engines, names[i]) == 0);
    for (size_t i = 0; i < MAKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_nothing_is_left();
}

/* ---- fork ---- */

static uint64_t calls_to_driver(void)
{
    static const char *const names[] = {"cuCtxPushCurrent", "cuEventQuery",   "cuEventRecord",
                                        "cuMemcpyAsync",    "cuMemAlloc",     "cuMemFree",
                                        "cuMemFreeAsync",   "cuMemHostAlloc", "cuMemFreeHost"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && EMU(emu_call_count) != NULL; i++)
        sum += EMU(emu_call_count)(names[i]);
    return sum;
}

static void be_the_child(scene *self, ferry_future *copied, ferry_future *event)
{
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    ferry_buffer *buffer = NULL;
    ferry_device *device = NULL;
    gpu_watch("a fork's child", 60);
    uint64_t calls = calls_to_driver();
    CHECK_STATUS(ferry_future_poll(event), FERRY_PENDING);
    CHECK_STATUS(ferry_future_wait(event, -1), FERRY_E_FORKED);
    CHECK_STATUS(ferry_future_cancel(event), FERRY_E_FORKED);
    CHECK_STATUS(ferry_future_stream_wait(event, self->gpu, NULL), FERRY_E_FORKED);
    CHECK_STATUS(ferry_future_poll(ferry_event_record(self->gpu, NULL)), FERRY_E_FORKED);
    CHECK_STATUS(ferry_future_poll(ferry_event_wrap(self->gpu, self, NULL)), FERRY_E_FORKED);
    CHECK_STATUS(ferry_future_poll(copy_about(self)), FERRY_E_FORKED);
    CHECK_STATUS(ferry_buffer_alloc(self->gpu, SIZE, &buffer), FERRY_E_FORKED);
    CHECK_STATUS(ferry_buffer_alloc_kind(self->host, SIZE, FERRY_MEMORY_PINNED, &buffer),
                 FERRY_E_FORKED);
    CHECK_STATUS(ferry_buffer_wrap(self->gpu, self, 1, NULL, NULL, &buffer), FERRY_E_FORKED);
    CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(self->on_gpu), event), FERRY_E_FORKED);
    CHECK_STATUS(ferry_device_describe(self->gpu, &info), FERRY_E_FORKED);
    CHECK(ferry_device_lacks(self->gpu, FERRY_CAN_COPY_INLINE) == NULL);
    CHECK(ferry_device_find(self->ge.engine, "cuda:0/1") == NULL);
    CHECK_STATUS(ferry_device_open(self->ge.engine, "cuda:0/1", NULL, &device, NULL),
                 FERRY_E_FORKED);
    ferry_buffer_release(self->on_gpu);
    ferry_buffer_release(self->pinned);
    ferry_future_release(copied);
    ferry_future_release(event);
    CHECK_STATUS(ferry_engine_shutdown(self->ge.engine, -1), FERRY_E_FORKED);
    ferry_engine_release(self->ge.engine);
    CHECK(calls_to_driver() == calls);
    if (CHILD_MAY_EXIT)
        exit(EXIT_SUCCESS);
    _exit(EXIT_SUCCESS);
}

static void expect_success(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
        (void)fprintf(stderr, "the child's wait status is %d\n", status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void test_fork(void)
{
    scene self;
    gpu_watch("a fork", 60);
    open_scene(&self, "cuda:0");
    memset(ferry_buffer_data(self.pageable), 3, SIZE);
    CHECK_STATUS(gpu_end(copy_about(&self)), FERRY_OK);
    user_gpu *user = user_gpu_open(0);
    uint32_t *flag = user_gpu_alloc_pinned(user, sizeof *flag);
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    CHECK_STATUS(gpu_end(ferry_event_record(self.gpu, user_gpu_stream(user, 0))), FERRY_OK);
    user_gpu_wait_flag(user, 0, flag, 1);
    ferry_future *event = ferry_event_record(self.gpu, user_gpu_stream(user, 0));
    ferry_future *copied = copy_about(&self);
    (void)fflush(stdout); /* the child's exit would write it again */
    pid_t child = fork();
    if (child == 0)
        be_the_child(&self, copied, event);
    expect_success(child);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK_STATUS(gpu_end(copied), FERRY_OK);
    CHECK_STATUS(gpu_end(event), FERRY_OK);
    const unsigned char *bytes = ferry_buffer_data(self.pinned);
    CHECK(bytes[0] == 3 && memcmp(bytes, bytes + 1, SIZE - 1) == 0);
    user_gpu_finish(user);
    user_gpu_free_pinned(user, flag);
    user_gpu_close(user);
    close_scene(&self);
    check_nothing_is_left();
}

/* ---- exit ---- */

/* The program's end finds ferry at work. */
static int exit_at_work(void)
{
    static scene self;
    open_scene(&self, "cuda:0");
    for (int i = 0; i < COPIES; i++)
        ferry_future_release(copy_about(&self));
    (void)ferry_event_record(self.gpu, NULL);
    return EXIT_SUCCESS;
}

/* What a driver does as the process exits is its own; the emulator's answers nobody any more. */
static void test_exit(void)
{
    if (EMU(emu_get_counters) == NULL || !CHILD_MAY_EXIT)
        return;
    for (int i = 0; i < 10; i++) {
        gpu_watch("an exit at work", 60);
        pid_t child = fork();
        if (child == 0) {
            (void)execl("/proc/self/exe", "processes", "exit", (char *)NULL);
            _exit(2);
        }
        expect_success(child);
    }
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "exit") == 0)
        return exit_at_work();
    test_idle();
    test_held();
    test_engines();
    test_fork();
    test_exit();
    return EXIT_SUCCESS;
}
