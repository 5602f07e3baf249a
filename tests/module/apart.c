/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parked streams hold up main ones is tried as a device is opened: with few hardware queues,
 * with a driver that refuses any call of the trial, and beside threads that free memory meanwhile.
 * Each test is a process of its own, as the emulator reads its environment once.
 */
#include "tests/module/rig.h"

#include <pthread.h>
#include <sched.h>

#define KIB ((size_t)1024)
#define PARKED 8
#define TRIES 100 /* a machine that is busy may cost a stream its use, hardly so often */

typedef struct place {
    rig rig;
    fry_cuda_device *device;
    char *host, *gpu; /* 64 KiB each */
} place;

static ferry_status try_open(place *self, uint32_t completion)
{
    ferry_status status;
    fry_device_request request = {
        .name = "cuda:0", .completion = completion, .parked_count = PARKED};
    self->device = (fry_cuda_device *)(void *)rig_try_device(&self->rig, &request, &status);
    return status;
}

static void open_with(place *self, const char *queues, uint32_t completion)
{
    CHECK(setenv("FERRY_EMU_QUEUES", queues, 1) == 0);
    rig_open(&self->rig);
    OK(try_open(self, completion));
    self->host = rig_pinned(64 * KIB, 5);
    self->gpu = rig_on_gpu(0, 64 * KIB, 0);
}

static void close_place(place *self)
{
    rig_free_pinned(self->host);
    rig_free_on_gpu(self->gpu);
    rig_close(&self->rig);
}

static bool can_park(place *self)
{
    fry_device_facts facts = {0};
    self->device->device.ops->describe(&self->device->device, &facts);
    bool can = (facts.capabilities & FERRY_CAN_PARK_COPIES) != 0;
    CHECK(can == (facts.lacks[__builtin_ctz(FERRY_CAN_PARK_COPIES)] == NULL));
    CHECK(can == (rig_parked(&self->device->device, 0) != NULL));
    return can;
}

static CUstream native_of(fry_stream *stream)
{
    return fry_cuda_stream_of(stream)->native;
}

/* Copies of the direction, a KiB, to the at-th place. */
static void copy_on(place *self, CUstream stream, int direction, size_t at)
{
    CUdeviceptr host = (CUdeviceptr)(uintptr_t)self->host + at * KIB;
    CUdeviceptr gpu = (CUdeviceptr)(uintptr_t)self->gpu + at * KIB;
    CUdeviceptr dst = direction == FRY_CUDA_FROM_HOST ? gpu
                      : direction == FRY_CUDA_TO_HOST ? host
                                                      : gpu + 32 * KIB;
    OK(cuMemcpyAsync(dst, direction == FRY_CUDA_FROM_HOST ? host : gpu, KIB, stream));
}

/* Whether a copy of a direction on the main stream waits for one that the parked one can't begin.
 */
static bool holds_up(place *self, CUstream parked, int direction)
{
    CUstream main = native_of(rig_main(&self->device->device, (fry_cuda_direction)direction));
    emu_hold_stream(parked);
    copy_on(self, parked, direction, 0);
    copy_on(self, main, direction, 1);
    (void)emu_settle();
    CUresult result = cuStreamQuery(main);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
    emu_release_stream(parked);
    OK(cuStreamSynchronize(parked));
    OK(cuStreamSynchronize(main));
    return result != CUDA_SUCCESS;
}

static bool holds_up_any(place *self, CUstream parked)
{
    for (int direction = 0; direction < FRY_CUDA_DIRECTIONS; direction++) {
        if (holds_up(self, parked, direction))
            return true;
    }
    return false;
}

/*
 * Where streams share nothing all are used. A machine that is busy with other work may cost a
 * stream its use, so it is tried until it was not.
 */
static void with_queues_of_their_own(void)
{
    place self;
    for (int tries = 1;; close_place(&self), tries++) {
        CHECK(tries <= TRIES);
        open_with(&self, "0", FERRY_COMPLETION_WORDS);
        CHECK(can_park(&self));
        if (self.device->parked_apart == PARKED)
            break;
    }
    CHECK(rig_parked(&self.device->device, PARKED - 1) != NULL);
    CHECK(self.rig.logged[0] == '\0');
    close_place(&self);
}

/* Those that are used hold up no main stream. Whether all others would. */
static bool is_all_found(place *self)
{
    uint32_t count = self->device->parked_apart;
    bool are_held = true;
    CHECK(rig_parked(&self->device->device, count) == NULL);
    for (uint32_t i = 0; i < PARKED; i++) {
        bool is_held = holds_up_any(self, fry_cuda_parked(self->device)[i].native);
        CHECK(i >= count || !is_held);
        are_held = are_held && (i < count || is_held);
    }
    return are_held;
}

static void with_few_queues(uint32_t completion)
{
    place self;
    for (int tries = 1;; close_place(&self), tries++) {
        CHECK(tries <= TRIES);
        open_with(&self, "8", completion);
        if (is_all_found(&self))
            break;
    }
    CHECK(can_park(&self));
    CHECK(self.device->parked_apart > 0 && self.device->parked_apart < PARKED);
    CHECK(strstr(self.rig.logged, "are not used") != NULL);
    close_place(&self);
}

static void with_few_queues_by_words(void)
{
    with_few_queues(FERRY_COMPLETION_WORDS);
}

static void with_few_queues_by_events(void)
{
    with_few_queues(FERRY_COMPLETION_EVENTS);
}

/* With one none is used, and what a device does besides it still does. */
static void with_one_queue(void)
{
    place self;
    open_with(&self, "1", FERRY_COMPLETION_WORDS);
    CHECK(!can_park(&self));
    CHECK(strstr(self.rig.logged, "wait on the host") != NULL);
    CHECK(is_all_found(&self));
    fry_event event = rig_copy(&self.rig, rig_main(&self.device->device, FRY_CUDA_FROM_HOST),
                               self.gpu, self.host, KIB, NULL, 0);
    rig_flush(event.stream);
    rig_await(&self.rig, event);
    CHECK(rig_is_all(self.gpu, 5, KIB));
    close_place(&self);
}

/* --- calls fail --- */

static const char *const calls[] = {
    "cuStreamWaitValue32",       "cuMemcpyAsync",       "cuStreamWriteValue32",
    "cuMemAllocFromPoolAsync",   "cuStreamSynchronize", "cuMemHostRegister",
    "cuMemHostGetDevicePointer",
};

/*
 * How often each is called before the trial as a device is opened: there a refusal is another
 * test's, or of a copy that only has the driver load what it needs.
 */
static unsigned calls_before(const char *name)
{
    if (strcmp(name, "cuMemcpyAsync") == 0)
        return FRY_CUDA_DIRECTIONS;
    return strcmp(name, "cuStreamWriteValue32") == 0 || strcmp(name, "cuStreamSynchronize") == 0 ||
                   strcmp(name, "cuMemHostRegister") == 0 ||
                   strcmp(name, "cuMemHostGetDevicePointer") == 0
               ? 1
               : 0;
}

/* One of its calls is refused: the device opens, parks nothing, says so, and copies. */
static void calls_are_refused(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool is_called = true;
        for (unsigned nth = calls_before(calls[i]) + 1; is_called; nth++) {
            place self;
            rig_open(&self.rig);
            uint64_t before = rig_calls(calls[i]);
            OK(emu_fail_call(calls[i], nth, CUDA_ERROR_INVALID_VALUE));
            OK(try_open(&self, FERRY_COMPLETION_WORDS));
            is_called = rig_calls(calls[i]) >= before + nth;
            OK(emu_fail_call(calls[i], nth, CUDA_SUCCESS));
            /* Memory that the driver does not pin is asked of the driver itself. */
            bool is_refused = is_called && strcmp(calls[i], "cuMemHostRegister") != 0;
            CHECK(can_park(&self) == !is_refused);
            CHECK((strstr(self.rig.logged, "could not find which streams") != NULL) == is_refused);
            CHECK(!is_refused || strstr(self.rig.logged, "INVALID_VALUE") != NULL);
            self.host = rig_pinned(KIB, 5);
            self.gpu = rig_on_gpu(0, KIB, 0);
            fry_event event =
                rig_copy(&self.rig, rig_main(&self.device->device, FRY_CUDA_FROM_HOST), self.gpu,
                         self.host, KIB, NULL, 0);
            rig_flush(event.stream);
            rig_await(&self.rig, event);
            CHECK(rig_is_all(self.gpu, 5, KIB));
            rig_free_pinned(self.host);
            rig_free_on_gpu(self.gpu);
            rig_close(&self.rig);
        }
    }
}

/* One of its calls finds the context broken: the device does not open, and leaves nothing. */
static void calls_find_it_broken(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        place self;
        rig_open(&self.rig);
        OK(emu_fail_call(calls[i], calls_before(calls[i]) + 1, CUDA_ERROR_ILLEGAL_ADDRESS));
        GIVES(try_open(&self, FERRY_COMPLETION_WORDS), FERRY_E_DEVICE);
        CHECK(strstr(self.rig.fault.message, "ILLEGAL_ADDRESS") != NULL);
        OK(emu_fail_call(calls[i], 1, CUDA_SUCCESS));
        rig_close(&self.rig);
    }
}

/* --- others in the driver --- */

static uint32_t is_over;

static void *free_again_and_again(void *context)
{
    OK(cuCtxSetCurrent(context));
    while (__atomic_load_n(&is_over, __ATOMIC_ACQUIRE) == 0) {
        void *memory;
        OK(cuMemHostAlloc(&memory, KIB, 0));
        OK(cuMemFreeHost(memory));
    }
    return NULL;
}

/*
 * Who frees waits for the trial's gate with the context's lock, and the trial's next call for him:
 * the gate is opened all the same, and the device opens, whatever the trial has found.
 */
static void others_wait_for_the_gate(void)
{
    place self;
    pthread_t thread;
    CUcontext context;
    CHECK(setenv("FERRY_EMU_LOCKS", "1", 1) == 0);
    rig_open(&self.rig);
    OK(cuCtxGetCurrent(&context));
    CHECK(pthread_create(&thread, NULL, free_again_and_again, context) == 0);
    while (rig_calls("cuMemFreeHost") == 0)
        (void)sched_yield();
    OK(try_open(&self, FERRY_COMPLETION_WORDS));
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(can_park(&self) == (strstr(self.rig.logged, "wait on the host") == NULL));
    rig_close(&self.rig);
}

/* --- a machine that is slow to run the streams --- */

/* No number comes while the trial looks for them. Then it waits for its streams, which go on. */
static void numbers_come_late(void)
{
    place self;
    rig_open(&self.rig);
    OK(emu_hold_between("cuStreamWaitValue32", "cuStreamSynchronize"));
    OK(try_open(&self, FERRY_COMPLETION_WORDS));
    CHECK(can_park(&self));
    rig_close(&self.rig); /* and the trial's memory is free again */
}

/* --- what is loaded at its first use --- */

/*
 * With a driver that waits for all that runs when a form of copy is used for the first time: beside
 * work of the program's that waits for the program ferry's copies go on.
 */
static void forms_are_loaded(void)
{
    place self;
    CUstream user;
    CHECK(setenv("FERRY_EMU_LAZY", "1", 1) == 0);
    open_with(&self, "0", FERRY_COMPLETION_WORDS);
    uint32_t *flag = (uint32_t *)(void *)rig_pinned(sizeof *flag, 0);
    OK(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(user, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 0; i < FRY_CUDA_DIRECTIONS; i++) {
        fry_stream *stream = rig_main(&self.device->device, (fry_cuda_direction)i);
        char *dst = i == FRY_CUDA_TO_HOST ? self.host : self.gpu;
        char *src = i == FRY_CUDA_FROM_HOST ? self.host + 32 * KIB : self.gpu + 32 * KIB;
        fry_event event = rig_copy(&self.rig, stream, dst, src, KIB, NULL, 0);
        for (size_t k = 1; k < 3; k++) /* a batch */
            event = rig_copy(&self.rig, stream, dst + k * KIB, src + k * KIB, KIB, NULL, 0);
        fry_copy rows = {.dst = dst + 4 * KIB,
                         .src = src + 4 * KIB,
                         .size_bytes = 8,
                         .row_count = 2,
                         .dst_pitch_bytes = 64,
                         .src_pitch_bytes = 64};
        OK(rig_try_copy(&self.rig, stream, &rows, NULL, 0, &event));
        (void)rig_copy(&self.rig, stream, dst + 8 * KIB, src + 8 * KIB, KIB, NULL, 0);
        rig_flush(stream);
        rig_await(&self.rig, (fry_event){stream, stream->issued});
    }
    CHECK(*flag == 0);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(user));
    OK(cuStreamDestroy(user));
    rig_free_pinned((char *)flag);
    close_place(&self);
}

int main(int argc, char **argv)
{
    static const rig_test tests[] = {
        {"forms_are_loaded", forms_are_loaded},
        {"with_queues_of_their_own", with_queues_of_their_own},
        {"with_few_queues_by_words", with_few_queues_by_words},
        {"with_few_queues_by_events", with_few_queues_by_events},
        {"with_one_queue", with_one_queue},
        {"calls_are_refused", calls_are_refused},
        {"calls_find_it_broken", calls_find_it_broken},
        {"others_wait_for_the_gate", others_wait_for_the_gate},
        {"numbers_come_late", numbers_come_late},
    };
    return rig_run_apart(argc, argv, tests, sizeof tests / sizeof *tests);
}
