/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only issues is issued whatever context the thread has: with none, with another GPU's, with
 * one that is not what it was a call before, and where the driver refuses what it has. The rig sees
 * that the thread's context and capture mode stay as they were.
 */
#include "tests/module/rig.h"

#define KIB ((size_t)1024)

typedef struct place {
    rig rig;
    fry_device *device;
    CUstream user;
    char *host, *gpu;
    int fill;
} place;

static void place_open(place *self)
{
    rig_open(&self->rig);
    self->device = rig_device(&self->rig, "cuda:0", FERRY_COMPLETION_WORDS);
    OK(cuStreamCreate(&self->user, CU_STREAM_NON_BLOCKING));
    self->host = rig_pinned(256 * KIB, 1);
    self->gpu = rig_on_gpu(0, 256 * KIB, 2);
    self->fill = 2;
}

static void place_close(place *self)
{
    (void)emu_settle();
    OK(cuStreamDestroy(self->user));
    rig_free_pinned(self->host);
    rig_free_on_gpu(self->gpu);
    rig_close(&self->rig);
}

/* An event, copies behind it of each form that a call issues, the program's stream behind them. */
static void go_round(place *self)
{
    rig *one = &self->rig;
    const fry_copy rows = {.dst = self->gpu + 128 * KIB,
                           .src = self->host + 128 * KIB,
                           .size_bytes = 2 * KIB,
                           .row_count = 2,
                           .dst_pitch_bytes = 4 * KIB,
                           .src_pitch_bytes = 4 * KIB};
    fry_stream *in = rig_main(self->device, FRY_CUDA_FROM_HOST);
    fry_event recorded = {0}, row;
    memset(self->host, ++self->fill, 256 * KIB);
    OK(rig_record(one, self->device, self->user, &recorded));
    rig_entered(recorded);
    fry_event behind =
        rig_copy(one, rig_parked(self->device, 0), self->gpu, self->host, 64 * KIB, &recorded, 1);
    rig_flush(behind.stream);
    OK(rig_try_copy(one, in, &rows, NULL, 0, &row));
    (void)rig_copy(one, in, self->gpu + 64 * KIB, self->host, 4 * KIB, NULL, 0);
    fry_event last = rig_copy(one, in, self->gpu + 72 * KIB, self->host, 4 * KIB, NULL, 0);
    rig_flush(in);
    OK(rig_stream_wait(one, self->device, self->user, last));
    rig_await(one, behind);
    rig_await(one, last);
    rig_await(one, recorded);
    OK(rig_outcome(one, behind));
    OK(rig_outcome(one, row));
    OK(rig_outcome(one, last));
    CHECK(rig_is_all(self->gpu, self->fill, 68 * KIB));
    CHECK(rig_is_all(self->gpu + 72 * KIB, self->fill, 4 * KIB));
    CHECK(rig_is_all(self->gpu + 128 * KIB, self->fill, KIB));
    CHECK(rig_is_all(self->gpu + 132 * KIB, self->fill, KIB));
}

/* The thread's context changes between two rounds. */
static void test_changes(void)
{
    place self;
    place_open(&self);
    CUcontext own, other;
    OK(cuCtxGetCurrent(&own));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    CUcontext contexts[] = {own, NULL, other, NULL, own, other, own, NULL, NULL, other, other};
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        OK(cuCtxSetCurrent(contexts[i]));
        go_round(&self);
    }
    OK(cuCtxSetCurrent(own));
    OK(cuDevicePrimaryCtxRelease(1));
    place_close(&self);
}

/* Two small copies in one call; none is made singly. */
static void copy_pair(place *self)
{
    fry_stream *in = rig_main(self->device, FRY_CUDA_FROM_HOST);
    uint64_t batches = rig_calls("cuMemcpyBatchAsync"), singles = rig_calls("cuMemcpyAsync");
    (void)rig_copy(&self->rig, in, self->gpu, self->host, 4 * KIB, NULL, 0);
    fry_event last = rig_copy(&self->rig, in, self->gpu + 8 * KIB, self->host, 4 * KIB, NULL, 0);
    rig_flush(in);
    rig_await(&self->rig, last);
    CHECK(rig_calls("cuMemcpyBatchAsync") > batches);
    GIVES(rig_calls("cuMemcpyAsync"), singles);
}

/* A copy behind another direction's that is still kept back: scopes nest. */
static void copy_behind(place *self)
{
    fry_stream *in = rig_main(self->device, FRY_CUDA_FROM_HOST);
    fry_stream *out = rig_main(self->device, FRY_CUDA_TO_HOST);
    emu_hold();
    fry_event first = rig_copy(&self->rig, in, self->gpu, self->host, 4 * KIB, NULL, 0);
    fry_event second =
        rig_copy(&self->rig, out, self->host + 8 * KIB, self->gpu, 4 * KIB, &first, 1);
    rig_flush(out);
    emu_release();
    rig_await(&self->rig, second);
}

/*
 * cuMemcpyBatchAsync refuses a thread that has no context, with an answer that says nothing of
 * contexts. The batch is made all the same: in a thread whose context went, and in one that has
 * only ever had what ferry's own scopes entered.
 */
static void test_batch(void)
{
    place self;
    place_open(&self);
    CUcontext own;
    OK(cuCtxGetCurrent(&own));
    for (int i = 0; i < 3; i++) {
        copy_pair(&self);
        OK(cuCtxSetCurrent(NULL));
        copy_pair(&self);
        copy_behind(&self);
        copy_pair(&self);
        OK(cuCtxSetCurrent(own));
    }
    CHECK(self.rig.logged[0] == '\0');
    place_close(&self);
}

/* A driver that wants the stream's own context, whichever of the calls says so, and how. */
static void test_refused(void)
{
    static const char *const calls[] = {
        "cuStreamIsCapturing", "cuStreamGetId",     "cuStreamGetCtx",
        "cuEventRecord",       "cuStreamWaitEvent", "cuMemcpyAsync",
        "cuMemcpyBatchAsync",  "cuMemcpy2DAsync",   "cuStreamWriteValue32"};
    static const CUresult answers[] = {
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD};
    place self;
    place_open(&self);
    for (int i = 0; i <= FRY_STREAM_DEPTH; i++)
        go_round(&self); /* until no more events are made */
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (size_t k = 0; k < sizeof answers / sizeof *answers; k++) {
            uint64_t before = rig_calls("cuCtxPushCurrent");
            go_round(&self); /* it is seen again that there is a context */
            GIVES(rig_calls("cuCtxPushCurrent"), before);
            OK(emu_fail_call(calls[i], 1, answers[k]));
            go_round(&self);
            OK(emu_fail_call(calls[i], 1, CUDA_SUCCESS));
        }
    }
    CHECK(self.rig.logged[0] == '\0');
    place_close(&self);
}

/* An event that is made in the middle of a round is made in the device's context. */
static void test_event_made(void)
{
    place self;
    place_open(&self);
    CUcontext own, other;
    OK(cuCtxGetCurrent(&own));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    for (int i = 0; i < 2 * FRY_CUDA_EVENTS_AHEAD; i++)
        go_round(&self); /* each has a new slot of the program's stream's */
    OK(cuCtxSetCurrent(own));
    OK(cuDevicePrimaryCtxRelease(1));
    place_close(&self);
}

/* The context can't be entered either: the operation says so, and no more than it is lost. */
static void test_refused_twice(void)
{
    place self;
    place_open(&self);
    go_round(&self);
    OK(emu_fail_call("cuMemcpyAsync", 0, CUDA_ERROR_INVALID_HANDLE));
    fry_copy plain = {.dst = self.gpu, .src = self.host, .size_bytes = 128 * KIB, .row_count = 1};
    fry_event event;
    fry_stream *in = rig_main(self.device, FRY_CUDA_FROM_HOST);
    GIVES(rig_try_copy(&self.rig, in, &plain, NULL, 0, &event), FERRY_E_DEVICE);
    GIVES(self.rig.fault.native_code, CUDA_ERROR_INVALID_HANDLE);
    OK(emu_fail_call("cuMemcpyAsync", 0, CUDA_SUCCESS));
    go_round(&self);
    place_close(&self);
}

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"changes", test_changes},
        {"batch", test_batch},
        {"refused", test_refused},
        {"event_made", test_event_made},
        {"refused_twice", test_refused_twice},
    };
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
