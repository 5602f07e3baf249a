/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives in stream order: what comes behind a receive into a GPU's memory waits for it on the
 * device, copies and the program's own streams alike.
 *
 * - ordered: both are queued while no copy has ended yet, and see the bytes (emulator).
 * - cut: the receive is cancelled then: what was queued behind it fails, and is quiet when it has
 *   run (emulator).
 * - narrow: with one chunk a way the bytes are queued one piece after the other, so the receive is
 *   issued last (emulator).
 * - storm: copies behind receives at random places, cancels and deadlines at random: whatever ends
 *   well is whole.
 */
#include "tests/gpu/members.h"

#define BYTES (3 * MIB + 5) /* four pieces */
#define STORM 40

typedef struct scene {
    member members[MEMBERS];
    user_gpu *user; /* on the receiver's GPU */
    ferry_buffer *from, *into, *out;
    unsigned char *seen; /* page-locked: the program's stream copies into it */
    ferry_future *send, *receive, *copy;
} scene;

static ferry_device *gpu_of(const scene *self)
{
    return self->members[1].at.gpus[0];
}

static void receive(scene *self)
{
    self->receive = ferry_recv(self->members[1].group, 0, 1, ferry_buffer_span(self->into), NULL);
    self->copy = gpu_copy(&self->members[1].at.ge, self->out, self->into, NULL);
}

static void send(scene *self)
{
    self->send = ferry_send(self->members[0].group, 1, 1, ferry_buffer_span(self->from), NULL);
}

static void end_all(scene *self)
{
    CHECK_STATUS(gpu_end(self->send), FERRY_OK);
    CHECK_STATUS(gpu_end(self->receive), FERRY_OK);
    CHECK_STATUS(gpu_end(self->copy), FERRY_OK);
    CHECK(is_filled(ferry_buffer_data(self->out), BYTES, 3));
}

/* All has been done once: nothing is made or loaded any more. */
static void open_scene(scene *self, size_t staging_bytes)
{
    memset(self, 0, sizeof *self);
    open_members(self->members, staging_bytes);
    self->user = user_gpu_open(self->members[1].at.ordinals[0]);
    self->seen = user_gpu_alloc_pinned(self->user, BYTES);
    self->from = gpu_buffer(self->members[0].at.host, BYTES, FERRY_MEMORY_DEFAULT);
    self->into = gpu_buffer(gpu_of(self), BYTES, FERRY_MEMORY_DEFAULT);
    self->out = gpu_buffer(self->members[1].at.host, BYTES, FERRY_MEMORY_PINNED);
    write_to(&self->members[0], ferry_buffer_span(self->from), 3);
    receive(self);
    send(self);
    end_all(self);
    memset(ferry_buffer_data(self->out), 0, BYTES);
}

static void close_scene(scene *self)
{
    user_gpu_finish(self->user);
    user_gpu_free_pinned(self->user, self->seen);
    user_gpu_close(self->user);
    ferry_buffer_release(self->from);
    ferry_buffer_release(self->into);
    ferry_buffer_release(self->out);
    close_members(self->members);
}

static ferry_status wait_on_stream(scene *self)
{
    return ferry_future_stream_wait(self->receive, gpu_of(self), user_gpu_stream(self->user, 0));
}

/* ---- ordered ---- */

/* What a dump says of a receive: each operation is a line. */
static void read_dump(void *arg, const char *text, size_t bytes)
{
    static const char receive[] = "\"kind\":\"recv\"", waits[] = "\"waits_for\":\"device\"";
    bool *waits_for_device = arg;
    const char *line = memmem(text, bytes, receive, sizeof receive - 1);
    const char *end = line != NULL ? memchr(line, '\n', bytes - (size_t)(line - text)) : NULL;
    if (end != NULL)
        *waits_for_device = memmem(line, (size_t)(end - line), waits, sizeof waits - 1) != NULL;
}

static bool waits_for_device(const scene *self)
{
    bool waits = false;
    CHECK_STATUS(
        ferry_engine_dump(engine_of(&self->members[1]), FERRY_DUMP_JSON, read_dump, &waits),
        FERRY_OK);
    return waits;
}

static void test_ordered(void)
{
    scene self;
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("a receive in stream order", 60);
    open_scene(&self, 0);
    ferry_buffer *again = gpu_buffer(self.members[1].at.host, BYTES, FERRY_MEMORY_PINNED);
    EMU(emu_hold)();
    receive(&self);
    ferry_future *landed = ferry_future_issued(self.receive);
    ferry_future *queued = ferry_future_issued(self.copy);
    CHECK_STATUS(wait_on_stream(&self), FERRY_E_NOT_ISSUED);
    CHECK_STATUS(ferry_future_poll(landed), FERRY_PENDING);
    CHECK(!waits_for_device(&self));
    send(&self);
    CHECK_STATUS(gpu_end(landed), FERRY_OK);
    CHECK(waits_for_device(&self));
    CHECK_STATUS(gpu_end(queued), FERRY_OK);
    CHECK_STATUS(wait_on_stream(&self), FERRY_OK);
    user_gpu_copy(self.user, 0, self.seen, ferry_buffer_data(self.into), BYTES);
    ferry_future *later = gpu_copy(&self.members[1].at.ge, again, self.into, NULL);
    queued = ferry_future_issued(later); /* one that comes after it has landed */
    CHECK_STATUS(gpu_end(queued), FERRY_OK);
    CHECK_STATUS(ferry_future_poll(self.receive), FERRY_PENDING);
    CHECK_STATUS(ferry_future_poll(self.copy), FERRY_PENDING);
    EMU(emu_release)();
    end_all(&self);
    CHECK_STATUS(gpu_end(later), FERRY_OK);
    CHECK(is_filled(ferry_buffer_data(again), BYTES, 3));
    ferry_buffer_release(again);
    user_gpu_finish(self.user);
    CHECK(is_filled(self.seen, BYTES, 3));
    close_scene(&self);
}

/* ---- cut ---- */

static void test_cut(void)
{
    scene self;
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("a receive that is cancelled as it lands", 60);
    open_scene(&self, 0);
    EMU(emu_hold)();
    receive(&self);
    send(&self);
    CHECK_STATUS(gpu_end(ferry_future_issued(self.copy)), FERRY_OK);
    CHECK_STATUS(ferry_future_cancel(self.receive), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(self.receive, -1), FERRY_E_CANCELLED);
    CHECK_STATUS(ferry_future_wait(self.copy, -1), FERRY_E_DEPENDENCY);
    CHECK_STATUS(wait_on_stream(&self), FERRY_OK); /* for what its device does yet */
    ferry_future *quiet[] = {ferry_future_quiet(self.receive), ferry_future_quiet(self.copy)};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(ferry_future_poll(quiet[i]), FERRY_PENDING);
    EMU(emu_release)();
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(gpu_end(quiet[i]), FERRY_OK);
    CHECK(gpu_end(self.send) != FERRY_OK);
    ferry_future_release(self.receive);
    ferry_future_release(self.copy);

    /* The memory is poisoned, and sound again when another message has come. */
    CHECK_STATUS(gpu_end(gpu_copy(&self.members[1].at.ge, self.out, self.into, NULL)),
                 FERRY_E_DEPENDENCY);
    receive(&self);
    send(&self);
    end_all(&self);
    close_scene(&self);
}

/* ---- narrow ---- */

static void test_narrow(void)
{
    scene self;
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("a receive through one chunk", 60);
    open_scene(&self, 1);
    EMU(emu_hold)();
    receive(&self);
    send(&self);
    ferry_future *landed = ferry_future_issued(self.receive);
    CHECK_STATUS(ferry_future_wait(landed, 20000000), FERRY_PENDING);
    CHECK_STATUS(wait_on_stream(&self), FERRY_E_NOT_ISSUED);
    EMU(emu_release)();
    CHECK_STATUS(gpu_end(landed), FERRY_OK);
    end_all(&self);
    CHECK_STATUS(ferry_future_stream_wait(NULL, gpu_of(&self), user_gpu_stream(self.user, 0)),
                 FERRY_E_INVALID);
    close_scene(&self);
}

/* ---- storm ---- */

/* What is done with a message: it goes on to another place, and from there to the host. */
typedef struct chain {
    talk talk;
    ferry_buffer *on, *out;
    ferry_future *both, *moved, *read;
} chain;

static void begin_chain(chain *self, member members[MEMBERS], uint32_t index)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT, after = FERRY_OP_OPTIONS_INIT;
    uint32_t from = index % 2, to = index % 3 == 0 ? from : 1 - from;
    size_t size_bytes = 1 + below(below(2) == 0 ? 8192 : BYTES);
    member *receiver = &members[to];
    gpu_engine *ge = &receiver->at.ge;
    if (below(4) == 0)
        options.deadline_ns = in_ns((int64_t)below(20000000));
    begin_talk(&self->talk, members, from, to, index / 4, size_bytes, NULL, &options);
    self->on = gpu_buffer(place_of(receiver, below(PLACES)), size_bytes, FERRY_MEMORY_DEFAULT);
    self->out = gpu_buffer(receiver->at.host, size_bytes,
                           below(2) == 0 ? FERRY_MEMORY_PINNED : FERRY_MEMORY_DEFAULT);
    self->both = ferry_future_all(ge->engine, &self->talk.receive, 1);
    after.after = &self->both;
    after.after_count = below(2) == 0;
    self->moved = ferry_copy(ge->engine, ferry_buffer_span(self->on),
                             ferry_buffer_span(self->talk.into), &after);
    self->read = gpu_copy(ge, self->out, self->on, NULL);
}

static void end_chain(chain *self)
{
    ferry_future *const futures[] = {self->talk.send, self->talk.receive, self->moved, self->read};
    for (size_t i = 0; i < sizeof futures / sizeof futures[0]; i++) {
        (void)ferry_future_wait(futures[i], -1);
        CHECK_STATUS(gpu_end(ferry_future_quiet(futures[i])), FERRY_OK);
    }
    ferry_status got = ferry_future_poll(self->talk.receive);
    if (ferry_future_poll(self->read) == FERRY_OK)
        CHECK(got == FERRY_OK && is_filled(ferry_buffer_data(self->out),
                                           ferry_buffer_size_bytes(self->out), self->talk.seed));
    else if (got == FERRY_OK)
        CHECK_STATUS(ferry_future_poll(self->moved), FERRY_E_CANCELLED);
    ferry_future_release(self->both);
    ferry_future_release(self->moved);
    ferry_future_release(self->read);
    ferry_buffer_release(self->on);
    ferry_buffer_release(self->out);
    release_talk(&self->talk);
}

static void storm_once(member members[MEMBERS])
{
    static chain chains[STORM];
    for (uint32_t i = 0; i < STORM; i++)
        begin_chain(&chains[i], members, i);
    (void)usleep((useconds_t)below(3000));
    for (uint32_t i = 0; i < STORM; i++) {
        ferry_future *const futures[] = {chains[i].talk.send, chains[i].talk.receive,
                                         chains[i].moved};
        if (below(3) == 0)
            (void)ferry_future_cancel(futures[below(3)]);
    }
    for (uint32_t i = 0; i < STORM; i++)
        end_chain(&chains[i]);
}

static void test_storm(void)
{
    static const size_t staging[] = {1, 4 * MIB, 0};
    for (size_t i = 0; i < 3; i++) {
        member members[MEMBERS];
        gpu_watch("a storm of what comes behind receives", 100);
        open_members(members, staging[i]);
        for (int round = 0; round < ROUNDS; round++)
            storm_once(members);
        close_members(members);
    }
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {{"ordered", test_ordered},
                                       {"cut", test_cut},
                                       {"narrow", test_narrow},
                                       {"storm", test_storm}};
    run_named(argc, argv, tests, sizeof tests / sizeof tests[0]);
    return 0;
}
