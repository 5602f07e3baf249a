/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tellers, which there are where the program has asked for 32 hardware queues: behind many bytes
 * they write the words of marks, and the streams write the others, into words of their own.
 */
#include "tests/module/rig.h"

#include <stdlib.h>

#define KIB ((size_t)1024)
#define MS ((int64_t)1000000)
#define LARGE (256 * KIB)

typedef struct place {
    rig rig;
    fry_stream *in;
    fry_cuda_stream *inner;
    char *host, *gpu;
} place;

static void place_open(place *self, uint64_t first)
{
    rig_open(&self->rig);
    fry_device *device = rig_device(&self->rig, "cuda:0", FERRY_COMPLETION_WORDS);
    self->in = rig_main(device, FRY_CUDA_FROM_HOST);
    CHECK(fry_cuda_stream_of(rig_main(device, FRY_CUDA_TO_HOST))->teller != NULL);
    CHECK(fry_cuda_stream_of(rig_main(device, FRY_CUDA_ON_DEVICE))->teller == NULL);
    self->inner = fry_cuda_stream_of(self->in);
    CHECK(self->inner->teller != NULL && self->inner->is_telling);
    fry_cuda_stream_start_at(self->inner, first);
    self->host = rig_pinned(LARGE, 1);
    self->gpu = rig_on_gpu(0, 64 * LARGE, 0);
}

static void place_close(place *self)
{
    CHECK(self->rig.logged[0] == '\0');
    rig_free_pinned(self->host);
    rig_free_on_gpu(self->gpu);
    rig_close(&self->rig);
}

static fry_event copy(place *self, uint64_t at, size_t size_bytes)
{
    fry_event event = rig_copy(&self->rig, self->in, self->gpu + at % 64 * LARGE, self->host,
                               size_bytes, NULL, 0);
    rig_flush(self->in);
    return event;
}

/* Whether the copy's word is the teller's, by the wait for the copy's event. */
static bool is_told(place *self, size_t size_bytes)
{
    uint64_t waits = rig_calls("cuStreamWaitEvent"), words = rig_calls("cuStreamWriteValue32");
    fry_event event = copy(self, 0, size_bytes);
    (void)emu_settle(); /* or its event is believed first */
    GIVES(rig_fired(&self->rig, self->in), event.sequence);
    GIVES(rig_calls("cuStreamWriteValue32"), words + 1);
    return rig_calls("cuStreamWaitEvent") == waits + 1;
}

/* Large and small in turn, in groups; the numbers' low halves begin anew on the way. */
static void test_mixed(void)
{
    place self;
    const uint64_t first = ((uint64_t)1 << 32) - 300;
    place_open(&self, first);
    uint64_t queries = rig_calls("cuEventQuery"), fired = first - 1;
    emu_hold();
    for (uint64_t i = 0; i < 600; i++) {
        bool is_large = i / 7 % 2 == 0 || i % 5 == 0;
        fry_event event = copy(&self, i, is_large ? LARGE : KIB);
        GIVES(event.sequence, first + i);
        GIVES(rig_fired(&self.rig, self.in), fired);
        if (i % 50 != 49)
            continue;
        emu_release();
        (void)emu_settle();
        fired = event.sequence;
        GIVES(rig_fired(&self.rig, self.in), fired);
        emu_hold();
    }
    emu_release();
    GIVES(rig_calls("cuEventQuery"), queries);
    CHECK(rig_is_all(self.gpu, 1, KIB));
    place_close(&self);
}

static void test_who(void)
{
    place self;
    place_open(&self, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(is_told(&self, LARGE));
        CHECK(!is_told(&self, LARGE - 1));
        CHECK(!is_told(&self, 1));
    }
    place_close(&self);
}

/* Whoever has not written for long writes, so that no word is older than its low half can tell. */
static void test_age(void)
{
    place self;
    place_open(&self, (uint64_t)1 << 40);
    fry_cuda_stream *inner = self.inner;
    const uint64_t long_ago = self.in->issued - FRY_CUDA_WORD_AGE_MOST;
    inner->worded = long_ago;
    inner->words[0] = (uint32_t)long_ago;
    CHECK(!is_told(&self, LARGE));
    CHECK(is_told(&self, LARGE));
    inner->told = long_ago;
    inner->words[1] = (uint32_t)long_ago;
    CHECK(is_told(&self, 1));
    CHECK(!is_told(&self, 1));
    place_close(&self);
}

/* A word that nobody writes to looks like one that is ahead, as its low half was met again. */
static void test_stale(void)
{
    place self;
    place_open(&self, 1);
    (void)copy(&self, 0, KIB);
    (void)emu_settle();
    uint64_t fired = rig_fired(&self.rig, self.in);
    uint32_t kept = self.inner->words[0];
    emu_hold();
    for (uint64_t i = 0; i < 8; i++)
        (void)copy(&self, i, LARGE);
    for (uint32_t ahead = 1; ahead <= 8; ahead++) {
        self.inner->words[0] = (uint32_t)fired + ahead;
        GIVES(rig_fired(&self.rig, self.in), fired);
    }
    self.inner->words[0] = kept;
    emu_release();
    rig_await(&self.rig, (fry_event){self.in, self.in->issued});
    place_close(&self);
}

/*
 * The teller's words are late, as when something in its queue holds it up: the events are right,
 * and when that has been so for eight times in a row, the stream does without.
 */
static void test_late(void)
{
    place self;
    place_open(&self, 1);
    uint32_t *words = self.inner->words;
    for (int round = 0; round < 2; round++) {
        uint32_t elsewhere[2] = {words[0], words[1]};
        CHECK(self.inner->is_telling);
        self.inner->words = elsewhere;
        for (int i = 0; i < 7 + round; i++) {
            fry_event event = copy(&self, 0, LARGE);
            (void)emu_settle();
            GIVES(rig_fired(&self.rig, self.in), event.sequence - 1);
            stepped_clock_step(&self.rig.stepped, MS);
            GIVES(rig_fired(&self.rig, self.in), event.sequence);
        }
        GIVES(self.rig.ops->stop(self.rig.backend), FERRY_E_BUSY); /* it may yet come */
        self.inner->words = words;
        GIVES(is_told(&self, LARGE), round == 0);
    }
    CHECK(!self.inner->is_telling && !is_told(&self, 1));
    place_close(&self);
}

/* The teller is refused: the stream writes the word itself, and nothing fails. */
static void test_refused(void)
{
    static const char *const calls[] = {"cuStreamWaitEvent", "cuStreamWriteValue32"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        place self;
        place_open(&self, 1);
        CHECK(is_told(&self, LARGE));
        OK(emu_fail_call(calls[i], 1, CUDA_ERROR_NOT_SUPPORTED));
        rig_await(&self.rig, copy(&self, 0, LARGE));
        CHECK(!self.inner->is_telling && self.inner->is_worded != 0);
        CHECK(!is_told(&self, LARGE));
        place_close(&self);
    }
}

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"mixed", test_mixed}, {"who", test_who},   {"age", test_age},
        {"stale", test_stale}, {"late", test_late}, {"refused", test_refused},
    };
    if (setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) != 0)
        return 1;
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof *tests);
}
