/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead: the first bytes of a send are copied out behind what it waits for, on the device.
 *
 * - behind: the program's stream writes the bytes, and its event is all that a send waits for. The
 *   copy is queued while the stream stands, and what comes is what the stream wrote.
 * - chained: the same behind copies of ferry's.
 * - cut: the send is cancelled while the copy waits: it is quiet when the stream has gone on.
 * - apart: it waits for two streams, which no copy waits for on its device. If it is cancelled it
 *   is quiet at once, for nothing of it is queued.
 * - many: more such sends than chunks, while other messages pass.
 * - unasked: more than chunks whose bytes are in one, and that nobody receives yet: others pass.
 * - refused: the driver refuses the copy: the send fails, with the reason (emulator).
 * - storm: events, cancels and deadlines at random.
 */
#include "tests/gpu/members.h"

#include <sched.h>

#define BYTES_MOST (3 * MIB + 5)
#define MANY 24
#define STORM 30

typedef struct scene {
    member members[MEMBERS];
    gpu_gate gate;          /* on the sender's GPU */
    unsigned char *written; /* page-locked: the program's stream copies from it */
} scene;

static gpu_engine *sender(scene *self)
{
    return &self->members[0].at.ge;
}

/* Everything is done once before. */
static void open_scene(scene *self, size_t staging_bytes)
{
    open_members(self->members, staging_bytes);
    self->gate = gpu_gate_open(0, self->members[0].at.gpus[0]);
    self->written = user_gpu_alloc_pinned(self->gate.user, BYTES_MOST);
    for (uint32_t from = 0; from < MEMBERS; from++) {
        talk talk;
        begin_talk(&talk, self->members, from, 1 - from, 99, 2 * MIB, NULL, NULL);
        CHECK_STATUS(ferry_future_wait(talk.send, -1), FERRY_OK);
        CHECK_STATUS(ferry_future_wait(talk.receive, -1), FERRY_OK);
        release_talk(&talk);
    }
}

static void close_scene(scene *self)
{
    user_gpu_finish(self->gate.user);
    user_gpu_free_pinned(self->gate.user, self->written);
    gpu_gate_close(&self->gate);
    close_members(self->members);
}

/* ---- a message behind the program's stream ---- */

typedef struct letter {
    ferry_buffer *from, *into;
    ferry_future *event, *send, *receive;
    uint64_t seed;
} letter;

/* With other bytes in it. Before the stream stands: it may share a queue with ferry's copies. */
static void make_letter(letter *self, scene *scene, size_t size_bytes)
{
    self->from = gpu_buffer(scene->members[0].at.gpus[0], size_bytes, FERRY_MEMORY_DEFAULT);
    self->into = gpu_buffer(scene->members[1].at.host, size_bytes, FERRY_MEMORY_DEFAULT);
    write_to(&scene->members[0], ferry_buffer_span(self->from), 500);
}

/* The stream will write the bytes. */
static void write_letter(letter *self, scene *scene, uint64_t seed)
{
    size_t size_bytes = ferry_buffer_size_bytes(self->from);
    self->seed = seed;
    fill(scene->written, size_bytes, seed);
    user_gpu_copy(scene->gate.user, 0, ferry_buffer_data(self->from), scene->written, size_bytes);
    self->event = ferry_event_record(scene->members[0].at.gpus[0], gpu_gate_stream(&scene->gate));
    CHECK_STATUS(ferry_buffer_define(ferry_buffer_span(self->from), self->event), FERRY_OK);
}

static void send_letter(letter *self, scene *scene, ferry_tag tag, const ferry_op_options *given)
{
    ferry_op_options options = given != NULL ? *given : (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.after = &self->event;
    options.after_count = 1;
    self->send =
        ferry_send(scene->members[0].group, 1, tag, ferry_buffer_span(self->from), &options);
}

static void begin_letter(letter *self, scene *scene, ferry_tag tag, const ferry_op_options *options)
{
    write_letter(self, scene, tag + 1);
    send_letter(self, scene, tag, options);
}

static void receive_letter(letter *self, scene *scene, ferry_tag tag)
{
    self->receive =
        ferry_recv(scene->members[1].group, 0, tag, ferry_buffer_span(self->into), NULL);
}

static void release_letter(letter *self)
{
    ferry_future_release(self->event);
    ferry_future_release(self->send);
    ferry_future_release(self->receive);
    ferry_buffer_release(self->from);
    ferry_buffer_release(self->into);
}

static void end_letter(letter *self)
{
    CHECK_STATUS(ferry_future_wait(self->send, -1), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(self->receive, -1), FERRY_OK);
    CHECK(
        is_filled(ferry_buffer_data(self->into), ferry_buffer_size_bytes(self->into), self->seed));
    release_letter(self);
}

static void read_dump(void *arg, const char *text, size_t bytes)
{
    bool *has_copy = arg;
    static const char issued[] = "\"kind\":\"copy\",\"state\":\"issued\"";
    *has_copy |= memmem(text, bytes, issued, sizeof issued - 1) != NULL;
}

/* Whether a copy of ferry's is in a stream on the sender's side. */
static bool has_copy(scene *self)
{
    bool has = false;
    CHECK_STATUS(ferry_engine_dump(sender(self)->engine, FERRY_DUMP_JSON, read_dump, &has),
                 FERRY_OK);
    return has;
}

static const size_t sizes[] = {100, 8192, 8193, MIB, BYTES_MOST};

/* ---- behind ---- */

static void test_behind(void)
{
    scene self;
    gpu_watch("sends behind the program's stream", 100);
    open_scene(&self, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int is_early = 0; is_early < 2; is_early++) {
            letter letter;
            make_letter(&letter, &self, sizes[i]);
            gpu_gate_hold(&self.gate);
            begin_letter(&letter, &self, i, NULL);
            if (is_early)
                receive_letter(&letter, &self, i);
            CHECK(has_copy(&self));
            CHECK_STATUS(ferry_future_poll(letter.event), FERRY_PENDING);
            gpu_gate_let_go(&self.gate);
            CHECK_STATUS(ferry_future_wait(letter.event, -1), FERRY_OK);
            if (!is_early)
                receive_letter(&letter, &self, i);
            end_letter(&letter);
        }
    }
    close_scene(&self);
}

/* ---- chained ---- */

/* The send waits for copies that have been queued behind the gate. */
static void test_chained(void)
{
    scene self;
    gpu_watch("sends behind copies", 60);
    open_scene(&self, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        letter letter;
        make_letter(&letter, &self, sizes[i]);
        gpu_gate_hold(&self.gate);
        begin_letter(&letter, &self, 2 * i, NULL);
        OWN_BUFFER *next = gpu_buffer(self.members[0].at.gpus[1], sizes[i], FERRY_MEMORY_DEFAULT);
        OWN_BUFFER *into = gpu_buffer(self.members[1].at.host, sizes[i], FERRY_MEMORY_DEFAULT);
        ferry_future *copy = gpu_copy(sender(&self), next, letter.from, NULL);
        ferry_future *send =
            ferry_send(self.members[0].group, 1, 2 * i + 1, ferry_buffer_span(next), NULL);
        receive_letter(&letter, &self, 2 * i);
        ferry_future *receive =
            ferry_recv(self.members[1].group, 0, 2 * i + 1, ferry_buffer_span(into), NULL);
        gpu_gate_let_go(&self.gate);
        CHECK_STATUS(gpu_end(copy), FERRY_OK);
        CHECK_STATUS(gpu_end(send), FERRY_OK);
        CHECK_STATUS(gpu_end(receive), FERRY_OK);
        CHECK(is_filled(ferry_buffer_data(into), sizes[i], letter.seed));
        end_letter(&letter);
    }
    close_scene(&self);
}

/* ---- cut ---- */

static void test_cut(void)
{
    scene self;
    gpu_watch("sends that are cancelled as they are read ahead", 60);
    open_scene(&self, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        letter letter;
        make_letter(&letter, &self, sizes[i]);
        gpu_gate_hold(&self.gate);
        begin_letter(&letter, &self, i, NULL);
        receive_letter(&letter, &self, i);
        CHECK(has_copy(&self));
        ferry_future *quiet = ferry_future_quiet(letter.send);
        CHECK_STATUS(ferry_future_cancel(letter.send), FERRY_OK);
        CHECK_STATUS(ferry_future_wait(letter.send, -1), FERRY_E_CANCELLED);
        CHECK(ferry_future_wait(letter.receive, -1) != FERRY_OK);
        (void)has_copy(&self); /* the turn in which it was cancelled is over */
        CHECK_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
        gpu_gate_let_go(&self.gate);
        CHECK_STATUS(gpu_end(quiet), FERRY_OK);
        release_letter(&letter);
    }
    close_scene(&self);
}

/* ---- apart ---- */

static void send_after_both(letter *letter, scene *scene, ferry_tag tag, ferry_future *other)
{
    ferry_future *after[] = {letter->event, other};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = 2;
    letter->send =
        ferry_send(scene->members[0].group, 1, tag, ferry_buffer_span(letter->from), &options);
}

static void test_apart(void)
{
    scene self;
    gpu_watch("sends behind two streams", 60);
    open_scene(&self, 0);
    gpu_gate other = gpu_gate_open(0, self.members[0].at.gpus[0]);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        bool is_cut = i % 2 != 0;
        letter letter;
        make_letter(&letter, &self, sizes[i / 2]);
        gpu_gate_hold(&self.gate);
        gpu_gate_hold(&other);
        write_letter(&letter, &self, i);
        ferry_future *event =
            ferry_event_record(self.members[0].at.gpus[0], gpu_gate_stream(&other));
        send_after_both(&letter, &self, i, event);
        receive_letter(&letter, &self, i);
        if (is_cut) {
            CHECK_STATUS(ferry_future_cancel(letter.send), FERRY_OK);
            CHECK_STATUS(gpu_end(ferry_future_quiet(letter.send)), FERRY_OK);
            CHECK_STATUS(ferry_future_poll(letter.event), FERRY_PENDING);
            CHECK(ferry_future_wait(letter.receive, -1) != FERRY_OK);
        }
        gpu_gate_let_go(&self.gate);
        CHECK_STATUS(ferry_future_wait(letter.event, -1), FERRY_OK);
        CHECK_STATUS(ferry_future_poll(event), FERRY_PENDING);
        gpu_gate_let_go(&other);
        CHECK_STATUS(gpu_end(event), FERRY_OK);
        if (is_cut)
            release_letter(&letter);
        else
            end_letter(&letter);
    }
    gpu_gate_close(&other);
    close_scene(&self);
}

/* ---- many ---- */

static void test_many(void)
{
    static letter letters[MANY];
    static const size_t staging[] = {1, 4 * MIB, 16 * MIB};
    if (getenv("FERRY_EMU_QUEUES") != NULL)
        return; /* where the two engines' streams share queues, nothing passes one that stands */
    for (size_t k = 0; k < sizeof staging / sizeof *staging; k++) {
        scene self;
        gpu_watch("many sends behind the program's stream", 100);
        open_scene(&self, staging[k]);
        for (uint32_t i = 0; i < MANY; i++)
            make_letter(&letters[i], &self, i % 2 == 0 ? 100 : 2 * MIB);
        gpu_gate_hold(&self.gate);
        for (uint32_t i = 0; i < MANY; i++) {
            begin_letter(&letters[i], &self, i, NULL);
            receive_letter(&letters[i], &self, i);
            letters[i].seed = MANY; /* the last one fills what all streams' copies read */
        }
        fill(self.written, 2 * MIB, letters[0].seed);
        for (uint32_t i = 0; i < 8; i++) { /* others pass */
            talk talk;
            begin_talk(&talk, self.members, i % 2, 1 - i % 2, 200, 3 * MIB, NULL, NULL);
            CHECK_STATUS(ferry_future_wait(talk.send, -1), FERRY_OK);
            CHECK_STATUS(ferry_future_wait(talk.receive, -1), FERRY_OK);
            release_talk(&talk);
        }
        gpu_gate_let_go(&self.gate);
        for (uint32_t i = 0; i < MANY; i++)
            end_letter(&letters[i]);
        close_scene(&self);
    }
}

/* ---- unasked ---- */

/* Its kernel is over, and so is every copy that was issued behind that. */
static void let_write(scene *self, letter *letter)
{
    gpu_gate_let_go(&self->gate);
    CHECK_STATUS(ferry_future_wait(letter->event, -1), FERRY_OK);
    while (has_copy(self))
        (void)sched_yield();
}

static void test_unasked(void)
{
    static letter letters[MANY];
    static const size_t staging[] = {4 * MIB, 16 * MIB, 0};
    for (size_t k = 0; k < sizeof staging / sizeof *staging; k++) {
        scene self;
        gpu_watch("messages beside sends that nobody receives", 60);
        open_scene(&self, staging[k]);
        for (uint32_t i = 0; i < MANY; i++) {
            make_letter(&letters[i], &self, 70000);
            gpu_gate_hold(&self.gate);
            begin_letter(&letters[i], &self, i, NULL);
            let_write(&self, &letters[i]);
        }
        for (uint32_t i = 0; i < 4; i++) {
            talk talk;
            begin_talk(&talk, self.members, i % 2, 1 - i % 2, 200, 3 * MIB, NULL, NULL);
            CHECK_STATUS(ferry_future_wait(talk.send, -1), FERRY_OK);
            CHECK_STATUS(ferry_future_wait(talk.receive, -1), FERRY_OK);
            release_talk(&talk);
        }
        for (uint32_t i = MANY; i-- > 0;) {
            receive_letter(&letters[i], &self, i);
            end_letter(&letters[i]);
        }
        close_scene(&self);
    }
}

/* ---- refused ---- */

static void test_refused(void)
{
    static const char *const calls[] = {"cuMemcpyAsync", "cuMemcpyBatchAsync"};
    scene self;
    if (EMU(emu_fail_call) == NULL)
        return;
    gpu_watch("copies ahead that the driver refuses", 60);
    open_scene(&self, 0);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        letter letter;
        make_letter(&letter, &self, sizes[i / 2]);
        gpu_gate_hold(&self.gate);
        write_letter(&letter, &self, i);
        for (size_t k = 0; k < 2; k++)
            CHECK(EMU(emu_fail_call)(calls[k], 1, CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS);
        uint64_t made = EMU(emu_call_count)(calls[0]) + EMU(emu_call_count)(calls[1]);
        send_letter(&letter, &self, i, NULL);
        (void)has_copy(&self); /* its turn is over */
        CHECK(EMU(emu_call_count)(calls[0]) + EMU(emu_call_count)(calls[1]) != made);
        for (size_t k = 0; k < 2; k++)
            CHECK(EMU(emu_fail_call)(calls[k], 0, CUDA_SUCCESS) == CUDA_SUCCESS);
        receive_letter(&letter, &self, i);
        gpu_gate_let_go(&self.gate); /* the copy has its turn in its stream, refused or not */
        CHECK_STATUS(ferry_future_wait(letter.send, -1), FERRY_E_DEVICE);
        CHECK_STATUS(ferry_future_wait(letter.receive, -1), FERRY_E_DEPENDENCY);
        CHECK_STATUS(gpu_end(ferry_future_quiet(letter.send)), FERRY_OK);
        release_letter(&letter);
    }
    close_scene(&self);
}

/* ---- storm ---- */

static void storm_once(scene *self)
{
    static letter letters[STORM];
    for (uint32_t i = 0; i < STORM; i++)
        make_letter(&letters[i], self, 1 + below(below(2) == 0 ? 9000 : BYTES_MOST));
    gpu_gate_hold(&self->gate);
    for (uint32_t i = 0; i < STORM; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        if (below(4) == 0)
            options.deadline_ns = in_ns((int64_t)below(20000000));
        begin_letter(&letters[i], self, i, &options);
        receive_letter(&letters[i], self, i);
        letters[i].seed = STORM;
        if (below(4) == 0)
            (void)ferry_future_cancel(below(2) == 0 ? letters[i].send : letters[i].receive);
    }
    fill(self->written, BYTES_MOST, STORM);
    (void)usleep((useconds_t)below(3000));
    gpu_gate_let_go(&self->gate);
    for (uint32_t i = 0; i < STORM; i++) {
        letter *letter = &letters[i];
        if (below(6) == 0)
            (void)ferry_future_cancel(below(2) == 0 ? letter->send : letter->receive);
        (void)ferry_future_wait(letter->send, -1);
        if (ferry_future_wait(letter->receive, -1) == FERRY_OK)
            CHECK(is_filled(ferry_buffer_data(letter->into), ferry_buffer_size_bytes(letter->into),
                            STORM));
        CHECK_STATUS(gpu_end(ferry_future_quiet(letter->send)), FERRY_OK);
        CHECK_STATUS(gpu_end(ferry_future_quiet(letter->receive)), FERRY_OK);
        release_letter(letter);
    }
}

static void test_storm(void)
{
    static const size_t staging[] = {1, 4 * MIB, 0};
    for (size_t i = 0; i < 3; i++) {
        scene self;
        gpu_watch("a storm behind the program's stream", 100);
        open_scene(&self, staging[i]);
        for (int round = 0; round < ROUNDS; round++)
            storm_once(&self);
        close_scene(&self);
    }
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {{"behind", test_behind},   {"chained", test_chained},
                                       {"cut", test_cut},         {"apart", test_apart},
                                       {"many", test_many},       {"unasked", test_unasked},
                                       {"refused", test_refused}, {"storm", test_storm}};
    run_named(argc, argv, tests, sizeof tests / sizeof tests[0]);
    return 0;
}
