/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks behind many bytes that are copied within the GPU have no word: the driver is asked about
 * their events, now and then. All others have one.
 */
#include "tests/module/rig.h"

#define KIB ((size_t)1024)
#define US ((int64_t)1000)
#define LARGE FRY_CUDA_ASKED_BYTES

typedef struct place {
    rig rig;
    fry_device *device;
    fry_stream *within;
    fry_cuda_stream *inner;
    char *from, *into;
} place;

static void place_open(place *self, uint64_t first)
{
    rig_open(&self->rig);
    self->device = rig_device(&self->rig, "cuda:0", FERRY_COMPLETION_WORDS);
    self->within = rig_main(self->device, FRY_CUDA_ON_DEVICE);
    self->inner = fry_cuda_stream_of(self->within);
    fry_cuda_stream_start_at(self->inner, first);
    self->from = rig_on_gpu(0, LARGE, 1);
    self->into = rig_on_gpu(0, LARGE, 0);
}

static void place_close(place *self)
{
    CHECK(self->rig.logged[0] == '\0');
    rig_free_on_gpu(self->from);
    rig_free_on_gpu(self->into);
    rig_close(&self->rig);
}

static fry_event copy(place *self, size_t size_bytes)
{
    fry_event event =
        rig_copy(&self->rig, self->within, self->into, self->from, size_bytes, NULL, 0);
    rig_flush(self->within);
    return event;
}

/* Whether the copy's end is found without a word. */
static bool is_asked(place *self, size_t size_bytes)
{
    uint64_t words = rig_calls("cuStreamWriteValue32"), queries = rig_calls("cuEventQuery");
    fry_event event = copy(self, size_bytes);
    (void)emu_settle();
    GIVES(rig_fired(&self->rig, self->within), event.sequence);
    bool has_word = rig_calls("cuStreamWriteValue32") == words + 1;
    GIVES(rig_calls("cuStreamWriteValue32"), words + (has_word ? 1 : 0));
    GIVES(rig_calls("cuEventQuery"), queries + (has_word ? 0 : 1));
    return !has_word;
}

static void test_which(void)
{
    place self;
    place_open(&self, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(is_asked(&self, LARGE));
        CHECK(!is_asked(&self, LARGE - 1));
        CHECK(!is_asked(&self, 1));
    }
    CHECK(rig_is_all(self.into, 1, LARGE));

    /* What comes from the host has words, however much it is. */
    char *host = rig_pinned(LARGE, 2);
    fry_stream *in = rig_main(self.device, FRY_CUDA_FROM_HOST);
    uint64_t words = rig_calls("cuStreamWriteValue32"), queries = rig_calls("cuEventQuery");
    (void)rig_copy(&self.rig, in, self.into, host, LARGE, NULL, 0);
    rig_flush(in);
    (void)emu_settle();
    GIVES(rig_fired(&self.rig, in), 1);
    GIVES(rig_calls("cuStreamWriteValue32"), words + 1);
    GIVES(rig_calls("cuEventQuery"), queries);
    rig_free_pinned(host);
    place_close(&self);
}

/* A head that stays is asked about at the first look, and then by time or by looks. */
static void test_how_often(void)
{
    place self;
    place_open(&self, 1);
    emu_hold();
    (void)copy(&self, LARGE);
    uint64_t queries = rig_calls("cuEventQuery");
    for (int i = 0; i < 10; i++)
        GIVES(rig_fired(&self.rig, self.within), 0);
    GIVES(rig_calls("cuEventQuery"), queries + 1);
    for (uint64_t i = 1; i <= 20; i++) {
        stepped_clock_step(&self.rig.stepped, 1 * US);
        GIVES(rig_fired(&self.rig, self.within), 0);
        GIVES(rig_calls("cuEventQuery"), queries + 1 + i / 2);
    }
    queries = rig_calls("cuEventQuery");
    for (int i = 0; i < 640; i++)
        GIVES(rig_fired(&self.rig, self.within), 0);
    uint64_t by_looks = rig_calls("cuEventQuery") - queries;
    CHECK(by_looks >= 9 && by_looks <= 11);
    emu_release();
    rig_await(&self.rig, (fry_event){self.within, 1});
    place_close(&self);
}

/* The word of a small one behind speaks for those before; the numbers' low halves begin anew. */
static void test_mixed(void)
{
    place self;
    const uint64_t first = ((uint64_t)1 << 32) - 20;
    place_open(&self, first);
    uint64_t queries = rig_calls("cuEventQuery"), fired = first - 1;
    for (int round = 0; round < 10; round++) {
        emu_hold();
        for (int i = 0; i < 3; i++)
            (void)copy(&self, LARGE);
        fry_event small = copy(&self, KIB);
        (void)copy(&self, LARGE);
        fry_event last = copy(&self, LARGE);
        GIVES(rig_fired(&self.rig, self.within), fired);
        GIVES(rig_calls("cuEventQuery"), ++queries);
        emu_release();
        (void)emu_settle();
        GIVES(rig_fired(&self.rig, self.within), small.sequence);
        GIVES(rig_calls("cuEventQuery"), queries);
        GIVES(rig_fired(&self.rig, self.within), last.sequence - 1);
        GIVES(rig_fired(&self.rig, self.within), last.sequence);
        queries = rig_calls("cuEventQuery");
        fired = last.sequence;
    }
    CHECK(self.inner->words[0] == (uint32_t)(fired - 2));
    place_close(&self);
}

/* A word is written all the same before the last one is older than its low half can tell. */
static void test_age(void)
{
    place self;
    place_open(&self, (uint64_t)1 << 40);
    const uint64_t long_ago = self.within->issued - FRY_CUDA_WORD_AGE_MOST;
    self.inner->worded = long_ago;
    self.inner->words[0] = (uint32_t)long_ago;
    CHECK(!is_asked(&self, LARGE));
    CHECK(is_asked(&self, LARGE));
    place_close(&self);
}

/* A question that fails is no end: the device is lost. */
static void test_lost(void)
{
    place self;
    ferry_status status;
    place_open(&self, 1);
    (void)copy(&self, LARGE);
    (void)emu_settle();
    OK(emu_fail_call("cuEventQuery", 1, CUDA_ERROR_ECC_UNCORRECTABLE));
    GIVES(rig_try_fired(&self.rig, self.within, &status), 0);
    GIVES(status, FERRY_E_DEVICE);
    CHECK(strstr(self.rig.fault.message, "cuEventQuery") != NULL);
}

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"which", test_which}, {"how_often", test_how_often}, {"mixed", test_mixed},
        {"age", test_age},     {"lost", test_lost},
    };
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
