/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and opening devices: every refusal, and what it says. The GPUs are a fake module's. */
#include "tests/support/device_test.h"
#include "tests/support/forked_child.h"
#include "tests/support/patience.h"

#include <sys/wait.h>
#include <unistd.h>

DEVICE_SUITE(devices);

/* Why the device is refused so; the caller's. */
static ferry_error *refusal_of(const char *name, const ferry_device_options *options,
                               ferry_status expected)
{
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_device_open(engine(), name, options, &device, &error), expected);
    cr_assert_null(device);
    cr_assert_not_null(error);
    ASSERT_STATUS(error->status, expected);
    return error;
}

/* The device is refused so, with an error that says `part`. */
static void assert_refused(const char *name, const ferry_device_options *options,
                           ferry_status expected, const char *part)
{
    ferry_device *device = NULL;
    ferry_error *error = refusal_of(name, options, expected);
    cr_assert_str_eq(error->domain, "ferry");
    ASSERT_SAYS(error->message, part);
    ferry_error_release(error);
    ASSERT_STATUS(ferry_device_open(engine(), name, options, &device, NULL), expected);
}

/* ---- where there is none ---- */

Test(devices, without_a_module_it_is_told_why)
{
    begin_from(FERRY_LOOP_EMBEDDED, FAKE_NO_LIBRARY);
    assert_refused("cuda:0", NULL, FERRY_E_NOT_FOUND, "cuda:0: the module can't be loaded: /");
    assert_refused("cuda:0", NULL, FERRY_E_NOT_FOUND,
                   FAKE_MODULES "/" FAKE_NO_LIBRARY "/ferry_cuda.so");
}

Test(devices, a_module_of_another_version_is_no_backend)
{
    begin_from(FERRY_LOOP_EMBEDDED, FAKE_OTHER_VERSION);
    assert_refused("cuda:0", NULL, FERRY_E_NOT_FOUND, "made for another version of ferry");
}

Test(devices, a_module_without_a_driver_says_so_and_is_asked_again)
{
    begin(FERRY_LOOP_EMBEDDED);
    fake->gpus = 0;
    assert_refused("cuda:0", NULL, FERRY_E_NOT_FOUND, "cuda:0: no driver: it is a fake");
    cr_assert_eq(fake->opens, 0);
    fake->gpus = 1;
    (void)open_gpu("cuda:0");
}

Test(devices, a_backend_that_does_not_open_says_why)
{
    begin(FERRY_LOOP_EMBEDDED);
    fake->open_status = FERRY_E_NO_MEMORY;
    assert_refused("cuda:0", NULL, FERRY_E_NO_MEMORY, "no memory for its backend");
    fake->open_status = FERRY_E_SYSTEM;
    assert_refused("cuda:0", NULL, FERRY_E_SYSTEM, "its backend can't be opened");
}

Test(devices, each_status_of_a_driver_comes_with_its_number)
{
    static const ferry_status statuses[] = {FERRY_E_INVALID, FERRY_E_NOT_FOUND, FERRY_E_NO_MEMORY,
                                            FERRY_E_DEVICE, FERRY_E_SYSTEM};
    begin(FERRY_LOOP_EMBEDDED);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        fake->device_open_status = statuses[i];
        ferry_error *error = refusal_of("cuda:0", NULL, statuses[i]);
        cr_assert_str_eq(error->domain, "fake");
        cr_assert_eq(error->native_code, FAKE_DRIVER_CODE);
        cr_assert_str_eq(error->message, "cuda:0: it was told to fail");
        ferry_error_release(error);
    }
    cr_assert_eq(ferry_device_count(engine()), 4);
    fake->device_open_status = FERRY_OK;
    (void)open_gpu("cuda:0");
    cr_assert_eq(fake->opens, 1);
}

Test(devices, names_and_arguments_that_cannot_be_are_refused)
{
    static const char *const names[] = {
        "", "cuda", ":", ":0", "cuda:", "gpu 0", "cuda:0000000000000000000000000000"};
    begin(FERRY_LOOP_EMBEDDED);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_refused(names[i], NULL, FERRY_E_INVALID, ": ");
    assert_refused(NULL, NULL, FERRY_E_INVALID, "name or device_p is null");
    assert_refused("rocm:0", NULL, FERRY_E_NOT_FOUND, "rocm:0: ferry has no backend");
    assert_refused("cud:0", NULL, FERRY_E_NOT_FOUND, "ferry has no backend");
    assert_refused("cudas:0", NULL, FERRY_E_NOT_FOUND, "ferry has no backend");
    assert_refused("host:4", NULL, FERRY_E_NOT_FOUND, "fewer host devices");
    ASSERT_STATUS(ferry_device_open(engine(), "cuda:0", NULL, NULL, NULL), FERRY_E_INVALID);
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_device_open(NULL, "cuda:0", NULL, &device, &error), FERRY_E_INVALID);
    ASSERT_STATUS(error->status, FERRY_E_INVALID);
    ferry_error_release(error);
    cr_assert_null(ferry_device_find(engine(), NULL));
    cr_assert_null(ferry_device_find(NULL, "cuda:0"));
    cr_assert_eq(fake->device_opens, 0);
}

/* ---- options ---- */

Test(devices, options_out_of_their_limits_are_refused_for_any_device)
{
    static const char *const names[] = {"cuda:0", "host:0"};
    begin(FERRY_LOOP_EMBEDDED);
    for (size_t i = 0; i < 2; i++) {
        ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
        options.completion = (ferry_completion)3;
        assert_refused(names[i], &options, FERRY_E_INVALID, "completion is no");
        options.completion = FERRY_COMPLETION_DEFAULT;
        options.parked_streams = 65;
        assert_refused(names[i], &options, FERRY_E_INVALID, "parked_streams is at most 64");
        options.parked_streams = 0;
        options.staging_bytes = 65535;
        assert_refused(names[i], &options, FERRY_E_INVALID, "64 KiB to 1 GiB");
        options.staging_bytes = ((size_t)1 << 30) + 1;
        assert_refused(names[i], &options, FERRY_E_INVALID, "64 KiB to 1 GiB");
        options.staging_bytes = 0;
        options.struct_size = 1;
        assert_refused(names[i], &options, FERRY_E_INVALID, "struct_size");
        struct {
            ferry_device_options options;
            char later[8];
        } larger = {.options = {.struct_size = sizeof larger}, .later = {1}};
        assert_refused(names[i], &larger.options, FERRY_E_INVALID, "struct_size");
    }
    cr_assert_eq(fake->device_opens, 0);
}

Test(devices, options_reach_the_backend_and_zeros_are_defaults)
{
    begin(FERRY_LOOP_EMBEDDED);
    (void)open_gpu("cuda:0");
    cr_assert_eq(fake->parked_count, 4);
    cr_assert_eq(fake->staging_bytes, (size_t)16 << 20);
    cr_assert_null(fake->native_context);
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.native_context = &options;
    options.parked_streams = 64;
    options.staging_bytes = 65536;
    options.completion = FERRY_COMPLETION_EVENTS;
    ferry_device *device = NULL;
    ASSERT_STATUS(ferry_device_open(engine(), "cuda:0/1", &options, &device, NULL), FERRY_OK);
    cr_assert_eq(fake->parked_count, 64);
    cr_assert_eq(fake->staging_bytes, 65536);
    cr_assert_eq(fake->native_context, (void *)&options);
}

Test(devices, one_that_is_open_is_found_but_not_with_other_options)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *device = open_gpu("cuda:0"), *again = NULL;
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    ASSERT_STATUS(ferry_device_open(engine(), "cuda:0", &options, &again, NULL), FERRY_OK);
    cr_assert_eq(again, device, "zeros ask for nothing");
    options.parked_streams = 4;
    options.staging_bytes = (size_t)16 << 20;
    ASSERT_STATUS(ferry_device_open(engine(), "cuda:0", &options, &again, NULL), FERRY_OK);
    cr_assert_eq(ferry_device_find(engine(), "cuda:0"), device);

    const char *const part = "cuda:0: the device is open with other options";
    options.parked_streams = 9;
    assert_refused("cuda:0", &options, FERRY_E_BUSY, part);
    options = (ferry_device_options)FERRY_DEVICE_OPTIONS_INIT;
    options.staging_bytes = (size_t)32 << 20;
    assert_refused("cuda:0", &options, FERRY_E_BUSY, part);
    options.staging_bytes = 0;
    options.native_context = &options;
    assert_refused("cuda:0", &options, FERRY_E_BUSY, part);
    options.native_context = NULL;
    options.completion = FERRY_COMPLETION_WORDS;
    assert_refused("cuda:0", &options, FERRY_E_BUSY, part);
    cr_assert_eq(fake->device_opens, 1);

    ASSERT_STATUS(ferry_device_open(engine(), "cuda:1", &options, &again, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_device_open(engine(), "cuda:1", NULL, &again, NULL), FERRY_OK);
    options.completion = FERRY_COMPLETION_EVENTS;
    assert_refused("cuda:1", &options, FERRY_E_BUSY, "cuda:1: the device is open");
}

Test(devices, a_hosts_is_opened_by_finding_it)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *device = NULL;
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.parked_streams = 3; /* of no meaning here */
    ASSERT_STATUS(ferry_device_open(engine(), "host:3", &options, &device, NULL), FERRY_OK);
    cr_assert_eq(device, ferry_device_at(engine(), 3));
    cr_assert_eq(fake->entries, 0, "nobody asked for a GPU");
    cr_assert_null(ferry_device_find(engine(), "host:4"));
    ASSERT_SAYS(scene_warning(-1), "fewer host devices");
}

/* ---- the table ---- */

Test(devices, finding_only_looks)
{
    begin(FERRY_LOOP_THREAD);
    cr_assert_null(ferry_device_find(engine(), "cuda:0"));
    ASSERT_SAYS(scene_warning(-1), "there is no device \"cuda:0\": it is not open");
    cr_assert_null(ferry_device_find(engine(), "rocm:0"));
    ASSERT_SAYS(scene_warning(-1), "ferry has no backend");
    cr_assert_eq(fake->entries, 0);
    cr_assert_eq(ferry_device_count(engine()), 4);
    cr_assert_eq(ferry_device_find(engine(), "cuda:0"), NULL);
    ferry_device *device = open_gpu("cuda:0");
    cr_assert_eq(ferry_device_find(engine(), "cuda:0"), device);
    cr_assert_eq(fake->device_opens, 1);
}

Test(devices, they_are_opened_lazily_and_once)
{
    begin(FERRY_LOOP_THREAD);
    cr_assert_eq(ferry_device_count(engine()), 4);
    cr_assert_eq(fake->entries, 0);
    ferry_device *second = open_gpu("cuda:1");
    ferry_device *first = open_gpu("cuda:0");
    cr_assert(first != NULL && second != NULL && first != second);
    cr_assert_eq(ferry_device_find(engine(), "cuda:1"), second);
    (void)open_gpu("cuda:1");
    cr_assert_eq(ferry_device_count(engine()), 6);
    cr_assert_eq(ferry_device_at(engine(), 4), second);
    cr_assert_eq(ferry_device_at(engine(), 5), first);
    cr_assert_null(ferry_device_at(engine(), 6));
    cr_assert_eq(fake->device_opens, 2);
    cr_assert_eq(fake->opens, 1, "a backend for all of them");
    cr_assert_eq(scene_warnings(), 0);
    end();
    cr_assert_eq(fake->stops, 1);
}

Test(devices, two_engines_have_their_own)
{
    begin(FERRY_LOOP_THREAD);
    test_engine other;
    test_engine_open(&other, FERRY_LOOP_EMBEDDED);
    ferry_device *mine = open_gpu("cuda:0");
    ferry_device *others = NULL;
    ASSERT_STATUS(ferry_device_open(other.engine, "cuda:0", NULL, &others, NULL), FERRY_OK);
    cr_assert(others != NULL && others != mine);
    cr_assert_eq(fake->entries, 1);
    cr_assert_eq(fake->opens, 2);
    test_engine_close(&other);
    cr_assert_eq(fake->destroys, 1);
    scene_end();
    cr_assert_eq(fake->destroys, 2);
    fake = NULL; /* end() knows of one engine */
}

Test(devices, past_64_they_are_refused_for_now)
{
    begin(FERRY_LOOP_EMBEDDED);
    char name[32];
    for (int i = 0; i < 64; i++) {
        (void)snprintf(name, sizeof name, "cuda:%d/%d", i / 16, i % 16);
        (void)open_gpu(name);
    }
    assert_refused("cuda:9", NULL, FERRY_E_AGAIN, "cuda:9: 64 devices are open");
    (void)open_gpu("cuda:3/15");
    cr_assert_eq(ferry_device_count(engine()), 68);
    cr_assert_eq(fake->device_opens, 64);
}

/* ---- threads ---- */

typedef struct opener {
    const char *name;
    ferry_device *device;
    ferry_status status;
} opener;

static void *open_in_thread(void *arg)
{
    opener *self = arg;
    self->status = ferry_device_open(engine(), self->name, NULL, &self->device, NULL);
    return NULL;
}

Test(devices, threads_that_open_one_at_once_get_the_same)
{
    enum { OPENERS = 6 };
    begin(FERRY_LOOP_THREAD);
    (void)open_gpu("cuda:7"); /* the module's own gate is behind us */
    atomic_store(&fake->is_gated, true);
    opener openers[OPENERS];
    pthread_t threads[OPENERS];
    for (int i = 0; i < OPENERS; i++) {
        openers[i] = (opener){.name = i % 2 == 0 ? "cuda:0" : "cuda:1"};
        threads[i] = begin_thread(open_in_thread, &openers[i]);
    }
    while (atomic_load(&fake->device_opens) < 2)
        (void)sched_yield();
    /* What is open is found meanwhile, and work goes on. */
    cr_assert_not_null(ferry_device_find(engine(), "cuda:7"));
    cr_assert_eq(ferry_device_count(engine()), 5);
    play("nop; wait it OK");
    atomic_store(&fake->is_gated, false);
    for (int i = 0; i < OPENERS; i++) {
        (void)end_thread(threads[i]);
        ASSERT_STATUS(openers[i].status, FERRY_OK);
        cr_assert_eq(openers[i].device, openers[i % 2].device);
    }
    cr_assert_eq(fake->device_opens, 3);
}

typedef struct caller {
    ferry_status opened;
    ferry_device *found, *found_open;
} caller;

static ferry_status open_in_callback(void *arg)
{
    caller *self = arg;
    ferry_device *device = NULL;
    self->opened = ferry_device_open(engine(), "cuda:0", NULL, &device, NULL);
    self->found = ferry_device_find(engine(), "cuda:1");
    self->found_open = ferry_device_find(engine(), "cuda:0");
    return FERRY_OK;
}

Test(devices, a_callback_finds_only_what_is_open)
{
    begin(FERRY_LOOP_THREAD);
    ferry_device *device = open_gpu("cuda:0");
    caller self = {0};
    WAIT(own(ferry_call(engine(), NULL, open_in_callback, &self, NULL)), OK);
    ASSERT_STATUS(self.opened, FERRY_E_DEADLOCK);
    cr_assert_null(self.found);
    cr_assert_eq(self.found_open, device);
    ASSERT_SAYS(scene_warning(-1), "\"cuda:1\": it is not open");
}

/* ---- ending ---- */

Test(devices, after_the_shutdown_none_is_opened)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *device = open_gpu("cuda:0");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    assert_refused("cuda:1", NULL, FERRY_E_SHUTDOWN, "shut down");
    assert_refused("cuda:0", NULL, FERRY_E_SHUTDOWN, "shut down");
    cr_assert_null(ferry_device_find(engine(), "cuda:1"));
    cr_assert_eq(ferry_device_find(engine(), "cuda:0"), device);
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_alloc(device, 1, &buffer), FERRY_E_SHUTDOWN);
}

/* A look finds the loop still about to stop now and then. */
static void shut_down_until_it_says(const char *part)
{
    do {
        ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    } while (strstr(scene_warning(-1), part) == NULL);
}

Test(devices, a_shutdown_does_not_wait_longer_than_told_for_one_being_opened)
{
    begin(FERRY_LOOP_THREAD);
    (void)open_gpu("cuda:7");
    atomic_store(&fake->is_gated, true);
    opener self = {.name = "cuda:0"};
    pthread_t thread = begin_thread(open_in_thread, &self);
    while (atomic_load(&fake->device_opens) < 2)
        (void)sched_yield();
    shut_down_until_it_says("a device is still being opened");
    cr_assert_eq(fake->stops, 0);
    atomic_store(&fake->is_gated, false);
    (void)end_thread(thread);
    ASSERT_STATUS(self.status, FERRY_OK);
}

static void stop_when_not_quiet(ferry_loop_mode loop)
{
    begin(loop);
    (void)open_gpu("cuda:0");
    atomic_store(&fake->busy_stops, 1000000);
    shut_down_until_it_says("shutdown timed out: the devices of cuda are not quiet");
    int stops = fake->stops;
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 2000000), FERRY_E_DEADLINE);
    cr_assert_gt(fake->stops, stops);
    cr_assert_eq(fake->destroys, 0, "it is leaked as long as it may be at memory");
    atomic_store(&fake->busy_stops, 3);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    stops = fake->stops;
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(fake->stops, stops, "it is over");
}

Test(devices, a_backend_that_is_not_quiet_keeps_the_shutdown_from_succeeding)
{
    stop_when_not_quiet(FERRY_LOOP_THREAD);
}

Test(devices, nor_does_it_in_embedded_mode)
{
    stop_when_not_quiet(FERRY_LOOP_EMBEDDED);
}

/* ---- fork ---- */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__ % 255 + 1;                                                             \
    } while (0)

static int child_of(void)
{
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    (void)alarm(HANG_S / 2 * PATIENCE);
    CHECK(ferry_device_open(engine(), "cuda:0", NULL, &device, &error) == FERRY_E_FORKED);
    CHECK(device == NULL && error != NULL && error->status == FERRY_E_FORKED);
    ferry_error_release(error);
    CHECK(ferry_device_find(engine(), "cuda:0") == NULL);
    /* It loads what the parent has not. */
    for (size_t i = 0; CHILD_MAY_ALLOCATE && i < ferry_backend_count(); i++) {
        ferry_backend_info backend = FERRY_BACKEND_INFO_INIT;
        CHECK(ferry_backend_at(i, &backend) == FERRY_OK);
        if (strcmp(backend.name, "cuda") == 0)
            CHECK(!backend.is_here && strstr(backend.reason, "parent process") != NULL);
    }
    return 0;
}

Test(devices, a_forks_child_has_none_of_them)
{
    begin(FERRY_LOOP_EMBEDDED);
    (void)open_gpu("cuda:0");
    pid_t child = fork();
    if (child == 0)
        _exit(child_of());
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "the child died");
    cr_assert_eq(WEXITSTATUS(status), 0, "line %d or so", WEXITSTATUS(status) - 1);
}

/* ---- want of memory ---- */

/* Each allocation fails in turn; what was left half-way is taken up by the next call. */
Test(devices, each_allocation_of_opening_one_may_fail)
{
    bool is_over = false;
    int refused = 0;
    for (uint64_t nth = 1; !is_over; nth++) {
        begin(FERRY_LOOP_EMBEDDED);
        atomic_store(&fake->opens, 0);
        atomic_store(&fake->destroys, 0);
        ferry_device *device = NULL;
        ferry_error *error = NULL;
        failing_allocator_arm(&scene()->memory, nth, false);
        ferry_status status = ferry_device_open(engine(), "cuda:0", NULL, &device, &error);
        failing_allocator_arm(&scene()->memory, 0, false);
        is_over = failing_allocator_failures(&scene()->memory) == 0;
        cr_assert_eq(status, is_over ? FERRY_OK : FERRY_E_NO_MEMORY);
        cr_assert_eq(error != NULL, !is_over);
        ferry_error_release(error);
        refused += !is_over;
        ferry_device *again = open_gpu("cuda:0");
        cr_assert(device == NULL || device == again);
        cr_assert_eq(ferry_device_count(engine()), 5);
        end();
    }
    cr_assert_eq(refused, 4, "the table, the backend, the device, its lanes");
}

Test(devices, a_refusal_without_memory_has_a_plain_error)
{
    begin(FERRY_LOOP_EMBEDDED);
    failing_allocator_arm(&scene()->memory, 1, true);
    ferry_error *error = refusal_of("cuda:0", NULL, FERRY_E_NO_MEMORY);
    failing_allocator_arm(&scene()->memory, 0, false);
    cr_assert_str_eq(error->message, ferry_status_text(FERRY_E_NO_MEMORY));
    ferry_error_release(error);
}

/* ---- what they are ---- */

Test(devices, a_gpu_is_described_and_says_what_it_lacks)
{
    begin(FERRY_LOOP_EMBEDDED);
    ferry_device *gpu = open_gpu("cuda:1");
    ferry_device_info info = FERRY_DEVICE_INFO_INIT;
    ASSERT_STATUS(ferry_device_describe(gpu, &info), FERRY_OK);
    cr_assert_str_eq(info.name, "cuda:1");
    cr_assert_str_eq(info.backend, "cuda");
    cr_assert_eq(info.index, 4);
    cr_assert_eq(info.stream_count, FAKE_STREAMS);
    cr_assert_str_eq(info.model, "fake GPU");
    cr_assert_str_eq(info.driver, "fake 1.0");
    cr_assert_eq(info.peers, 2);
    cr_assert_eq(info.lowest_priority, 0);
    cr_assert_eq(info.highest_priority, -5);
    cr_assert_null(ferry_device_lacks(gpu, FERRY_CAN_COPY_TO_PEERS));
    cr_assert_str_eq(ferry_device_lacks(gpu, FERRY_CAN_BATCH_COPIES), "its driver is too old");
    cr_assert_str_eq(ferry_device_lacks(gpu, FERRY_CAN_POOL_MEMORY),
                     "its backend does not support it");
    ferry_device *host = ferry_device_at(engine(), 0);
    ASSERT_STATUS(ferry_device_describe(host, &info), FERRY_OK);
    cr_assert(info.model == NULL && info.driver == NULL && info.peers == 0);
    cr_assert_null(ferry_device_lacks(host, FERRY_CAN_COPY_ROWS));
    cr_assert_not_null(ferry_device_lacks(host, FERRY_CAN_RECORD_EVENTS));
    cr_assert_null(ferry_device_lacks(host, (ferry_capability)3));
    cr_assert_null(ferry_device_lacks(host, (ferry_capability)0));
    cr_assert_null(ferry_device_lacks(NULL, FERRY_CAN_COPY_ROWS));
}

static ferry_backend_info cuda_backend(void)
{
    ferry_backend_info info = FERRY_BACKEND_INFO_INIT;
    for (size_t i = 0; ferry_backend_at(i, &info) == FERRY_OK && strcmp(info.name, "cuda") != 0;)
        i++;
    return info;
}

Test(devices, the_backend_says_how_many_there_are)
{
    fake_module *fake = fake_module_load();
    fake->gpus = 3;
    ferry_backend_info cuda = cuda_backend();
    cr_assert(cuda.is_here);
    cr_assert_eq(cuda.device_count, 3);
    cr_assert_str_eq(cuda.reason, "fake GPUs");
    fake->gpus = 0;
    cuda = cuda_backend();
    cr_assert_not(cuda.is_here);
    cr_assert_eq(cuda.device_count, 0);
    cr_assert_str_eq(cuda.reason, "no driver: it is a fake");
    cr_assert_eq(fake->opens, 0, "no context is made for that");
}

Test(devices, a_backend_whose_module_is_wrong_says_so)
{
    fake_module_choose(FAKE_OTHER_VERSION);
    ferry_backend_info cuda = cuda_backend();
    cr_assert_not(cuda.is_here);
    ASSERT_SAYS(cuda.reason, "made for another version");
}
