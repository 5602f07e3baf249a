/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from and into GPU memory, between two members of one process and of a member to itself.
 *
 * - mixes: every mix of ends, in either order, of sizes around a chunk's; every byte is looked at.
 * - open: receives of any member, larger than their messages; and all mixes in such a group.
 * - embedded: to itself, where the waiting thread is the loop.
 * - crowd: more messages at once than chunks, both ways at once, with one chunk for each way.
 * - steady: messages take no memory from the system.
 * - waiting: small sends that nobody receives, past the window, with one chunk.
 * - bare: a small send is cancelled while it is copied out, with no memory left (emulator).
 * - behind: a send that waits for the program's own stream.
 * - storm: cancels and deadlines at random on either side; what ends well is whole, what does not
 * is poisoned, and in the end everything is quiet.
 * - shown: a dump shows the copies of pieces (emulator).
 * - starved: no page-locked memory: the messages fail and say so.
 * - shutdown: of an engine in the midst of it, while the other one has its messages failed.
 * - refused, lost: copies that the driver refuses, and a GPU that is lost (emulator).
 * - dried_up: a GPU that is lost with all chunks of a way (emulator).
 */
#include "tests/gpu/members.h"

#include <sched.h>
#include <sys/wait.h>

#define SIZE_MOST (40 * MIB)
#define CROWD 24
#define STORM 60
#define STEADY_WINDOWS 40
#define SMALL_MOST ((size_t)8192)
#define STORM_BYTES (5 * MIB + 17)

/* What the copies of pieces look like: like copies. */
static void read_dump(void *arg, const char *text, size_t bytes)
{
    bool *has_copy = arg;
    *has_copy |= memmem(text, bytes, "\"copy\"", 6) != NULL;
}

/* ---- mixes ---- */

static void exchange(member members[MEMBERS], uint32_t to, size_t places, size_t size_bytes)
{
    static uint64_t seed;
    member *sender = &members[0], *receiver = &members[to];
    size_t from_place = places % PLACES, to_place = places / PLACES % PLACES;
    bool sends_first = places / PLACES / PLACES != 0;
    seed++;
    OWN_BUFFER *from =
        gpu_buffer(place_of(sender, from_place), size_bytes + 64, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into =
        gpu_buffer(place_of(receiver, to_place), size_bytes + 64, FERRY_MEMORY_DEFAULT);
    ferry_span source = {from, 32, size_bytes}, target = {into, 16, size_bytes};
    if (size_bytes != 0)
        write_to(sender, source, seed);
    write_to(receiver, ferry_buffer_span(into), 99);
    ferry_future *receive = NULL;
    if (!sends_first)
        receive = ferry_recv(receiver->group, 0, 7, target, NULL);
    ferry_future *send = ferry_send(sender->group, to, 7, source, NULL);
    if (sends_first)
        receive = ferry_recv(receiver->group, 0, 7, target, NULL);
    CHECK_STATUS(gpu_end(send), FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
    bool is_right = true;
    if (size_bytes != 0)
        CHECK_STATUS(read_from(receiver, target, seed, &is_right), FERRY_OK);
    CHECK(is_right);
    OWN_BUFFER *host = gpu_buffer(receiver->at.host, size_bytes + 64, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(gpu_end(gpu_copy(&receiver->at.ge, host, into, NULL)), FERRY_OK);
    unsigned char *all = ferry_buffer_data(host), edge[64];
    fill(edge, sizeof edge, 99);
    CHECK(memcmp(all, edge, 16) == 0); /* nothing beside it was written */
    CHECK(size_bytes < 4095 || is_filled(all + 16, size_bytes, seed));
}

static void test_mixes(void)
{
    static const size_t sizes[] = {0, 1, 4095, 64 * KIB, MIB - 1, MIB, MIB + 1, 5 * MIB + 17};
    member members[MEMBERS];
    gpu_watch("exchanging every mix", 100);
    open_members(members, 0);
    for (size_t places = 0; places < 2 * PLACES * PLACES; places++)
        for (uint32_t to = 0; to < MEMBERS; to++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                bool is_large_ones_turn = (places / 2 + to) % 2 == 0;
                if (sizes[i] < MIB || is_large_ones_turn)
                    exchange(members, to, places, sizes[i]);
            }
    for (uint32_t to = 0; to < MEMBERS; to++)
        exchange(members, to, 1 + PLACES * 2, SIZE_MOST);
    close_members(members);
}

/* ---- open ---- */

/* A receive of any member, larger than its message: what is behind that stays. */
static void exchange_open(member members[MEMBERS], size_t from_place, size_t to_place,
                          size_t size_bytes, bool sends_first)
{
    static uint64_t seed = 1000;
    member *sender = &members[0], *receiver = &members[1];
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    bool is_right = true;
    seed++;
    OWN_BUFFER *from = gpu_buffer(place_of(sender, from_place), size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into =
        gpu_buffer(place_of(receiver, to_place), size_bytes + 4096, FERRY_MEMORY_DEFAULT);
    write_to(sender, ferry_buffer_span(from), seed);
    write_to(receiver, (ferry_span){into, size_bytes, 4096}, 99);
    ferry_future *receive = NULL, *send = NULL;
    for (int i = 0; i < 2; i++) {
        if (sends_first == (i == 0))
            send = ferry_send(sender->group, 1, 3, ferry_buffer_span(from), NULL);
        else
            receive = ferry_recv(receiver->group, FERRY_RANK_ANY, FERRY_TAG_ANY,
                                 ferry_buffer_span(into), NULL);
    }
    CHECK_STATUS(gpu_end(send), FERRY_OK);
    CHECK_STATUS(gpu_end(ferry_future_retain(receive)), FERRY_OK);
    CHECK_STATUS(ferry_message_describe(receive, &info), FERRY_OK);
    CHECK(info.rank == 0 && info.tag == 3 && info.size_bytes == size_bytes);
    ferry_future_release(receive);
    CHECK_STATUS(read_from(receiver, (ferry_span){into, 0, size_bytes}, seed, &is_right), FERRY_OK);
    CHECK(is_right);
    CHECK_STATUS(read_from(receiver, (ferry_span){into, size_bytes, 4096}, 99, &is_right),
                 FERRY_OK);
    CHECK(is_right);
}

static void test_open(void)
{
    static const size_t sizes[] = {1, 4095, 64 * KIB, MIB, 3 * MIB + 17};
    member members[MEMBERS];
    gpu_watch("receiving from any member", 100);
    any_source_max = 4;
    open_members(members, 0);
    for (size_t places = 0; places < 2 * PLACES * PLACES; places++) {
        exchange(members, 1, places, places % 3 == 0 ? 0 : 5000);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            exchange_open(members, places % PLACES, places / PLACES % PLACES, sizes[i],
                          places / PLACES / PLACES != 0);
    }
    close_members(members);
    any_source_max = 0;
}

/* ---- embedded ---- */

/* The waiting thread is the loop, and the member alone. */
static void test_embedded(void)
{
    member alone[MEMBERS];
    gpu_watch("messages to itself in a loop of the program's", 60);
    loop_mode = FERRY_LOOP_EMBEDDED;
    open_some(alone, 1, 1);
    for (size_t places = 0; places < 2 * PLACES * PLACES; places++) {
        exchange(alone, 0, places, 3000);
        exchange(alone, 0, places, 3 * MIB + 1);
    }
    close_some(alone, 1);
    loop_mode = FERRY_LOOP_THREAD;
}

/* ---- crowd ---- */

/* Both statuses are there. */
static void check_talk(talk *self, member *receiver)
{
    bool is_right;
    ferry_status got = ferry_future_poll(self->receive);
    ferry_status read = read_from(receiver, ferry_buffer_span(self->into), self->seed, &is_right);
    if (got == FERRY_OK)
        CHECK(read == FERRY_OK && is_right);
    else
        CHECK_STATUS(read, FERRY_E_DEPENDENCY); /* it is poisoned */
}

static void test_crowd(void)
{
    talk talks[CROWD];
    member members[MEMBERS];
    gpu_watch("a crowd with a chunk each way", 100);
    open_members(members, 1);
    for (uint32_t i = 0; i < CROWD; i++)
        begin_talk(&talks[i], members, i % 2, i % 3 == 0 ? i % 2 : 1 - i % 2, i,
                   i % 4 == 3 ? 100 + i : 3 * MIB + i, NULL, NULL);
    for (uint32_t i = 0; i < CROWD; i++) {
        CHECK_STATUS(ferry_future_wait(talks[i].send, -1), FERRY_OK);
        CHECK_STATUS(ferry_future_wait(talks[i].receive, -1), FERRY_OK);
        check_talk(&talks[i], &members[i % 3 == 0 ? i % 2 : 1 - i % 2]);
        release_talk(&talks[i]);
    }
    close_members(members);
}

/* ---- steady ---- */

static void exchange_again(member members[MEMBERS], const ferry_span *from, const ferry_span *into,
                           int count)
{
    for (int i = 0; i < count; i++) {
        ferry_future *receive = ferry_recv(members[1].group, 0, 1, *into, NULL);
        CHECK_STATUS(gpu_end(ferry_send(members[0].group, 1, 1, *from, NULL)), FERRY_OK);
        CHECK_STATUS(gpu_end(receive), FERRY_OK);
    }
}

/* Whether that many exchanges took memory from the system. */
static bool has_taken(member members[MEMBERS], const ferry_span *from, const ferry_span *into,
                      int count)
{
    uint64_t calls[MEMBERS];
    for (int i = 0; i < MEMBERS; i++)
        calls[i] = failing_allocator_calls(&members[i].at.ge.memory);
    exchange_again(members, from, into, count);
    for (int i = 0; i < MEMBERS; i++) {
        if (failing_allocator_calls(&members[i].at.ge.memory) != calls[i])
            return true;
    }
    return false;
}

/*
 * Each thread keeps two magazines of free nodes, and a thread that gives back few fills its own
 * slowly: that takes memory a few times, and then no more. So three windows in a row must take
 * none, within as many windows as threads could fill magazines in.
 */
static void exchange_steadily(member members[MEMBERS], size_t size_bytes, int window)
{
    OWN_BUFFER *from = gpu_buffer(members[0].at.gpus[0], size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into = gpu_buffer(members[1].at.gpus[1], size_bytes, FERRY_MEMORY_DEFAULT);
    ferry_span source = ferry_buffer_span(from), target = ferry_buffer_span(into);
    write_to(&members[0], source, 1);
    int in_a_row = 0;
    for (int i = 0; i < STEADY_WINDOWS && in_a_row < 3; i++)
        in_a_row = has_taken(members, &source, &target, window) ? 0 : in_a_row + 1;
    CHECK(in_a_row == 3);
}

/* Once chunks are there, messages take no memory from the system. */
static void test_steady(void)
{
    member members[MEMBERS];
    gpu_watch("many messages, and no memory for them", 60);
    open_members(members, 4 * MIB);
    exchange_steadily(members, 100, 100);
    exchange_steadily(members, 3 * MIB, 5);
    close_members(members);
}

/* ---- waiting ---- */

/* Small sends that nobody receives keep no chunk, also where the window has no room for them. */
static void test_waiting(void)
{
    talk talks[CROWD];
    member members[MEMBERS];
    gpu_watch("small sends that wait", 60);
    window_messages = 2;
    open_members(members, 1);
    window_messages = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        talks[i] = (talk){.seed = i};
        talks[i].from = gpu_buffer(members[0].at.gpus[i % 2], 1000 + i, FERRY_MEMORY_DEFAULT);
        talks[i].into = gpu_buffer(place_of(&members[1], i % 3), 1000 + i, FERRY_MEMORY_DEFAULT);
        write_to(&members[0], ferry_buffer_span(talks[i].from), i);
        talks[i].send =
            ferry_send(members[0].group, 1, 100 + i, ferry_buffer_span(talks[i].from), NULL);
    }
    exchange(members, 1, 1 + PLACES * 2, 3 * MIB);
    for (uint32_t i = CROWD; i-- > 0;) {
        CHECK_STATUS(ferry_future_poll(talks[i].send), FERRY_PENDING);
        talks[i].receive =
            ferry_recv(members[1].group, 0, 100 + i, ferry_buffer_span(talks[i].into), NULL);
        CHECK_STATUS(ferry_future_wait(talks[i].receive, -1), FERRY_OK);
        CHECK_STATUS(ferry_future_wait(talks[i].send, -1), FERRY_OK);
        check_talk(&talks[i], &members[1]);
        release_talk(&talks[i]);
    }
    close_members(members);
}

/* ---- bare ---- */

static bool has_copy(member *of)
{
    bool has = false;
    CHECK_STATUS(ferry_engine_dump(engine_of(of), FERRY_DUMP_JSON, read_dump, &has), FERRY_OK);
    return has;
}

/* A small send is cancelled while it is copied out, without a connection and without memory. */
static void cancel_bare(member members[MEMBERS])
{
    member *sender = &members[0];
    OWN_BUFFER *from = gpu_buffer(sender->at.gpus[0], 100, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into = gpu_buffer(members[1].at.host, 100, FERRY_MEMORY_DEFAULT);
    write_to(sender, ferry_buffer_span(from), 2);
    EMU(emu_hold)();
    ferry_future *send = ferry_send(sender->group, 1, 2, ferry_buffer_span(from), NULL);
    ferry_future *quiet = ferry_future_quiet(send);
    while (!has_copy(sender))
        ;
    failing_allocator_arm(&sender->at.ge.memory, 1, true);
    CHECK_STATUS(ferry_future_cancel(send), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(send, -1), FERRY_E_CANCELLED);
    CHECK_STATUS(gpu_end(ferry_nop(engine_of(sender), NULL)), FERRY_OK); /* after that turn */
    failing_allocator_arm(&sender->at.ge.memory, 0, false);
    CHECK(failing_allocator_failures(&sender->at.ge.memory) != 0);
    CHECK_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    EMU(emu_release)();
    CHECK_STATUS(gpu_end(quiet), FERRY_OK);
    CHECK(gpu_end(ferry_recv(members[1].group, 0, 2, ferry_buffer_span(into), NULL)) != FERRY_OK);
    ferry_future_release(send);
}

/* The other member's loop stands still until it is waited for, so there is no connection to it. */
static void test_bare(void)
{
    member members[MEMBERS];
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("a send that is cancelled with no memory left", 60);
    open_engine(&members[0], 0);
    loop_mode = FERRY_LOOP_EMBEDDED;
    open_engine(&members[1], 0);
    loop_mode = FERRY_LOOP_THREAD;
    join_all(members, MEMBERS);
    exchange(members, 0, 1 + PLACES * 2, 100); /* makes the chunks */
    cancel_bare(members);
    close_members(members);
}

/* ---- behind ---- */

static void send_behind(member members[MEMBERS])
{
    member *sender = &members[0];
    gpu_gate gate = gpu_gate_open(0, sender->at.gpus[0]);
    OWN_BUFFER *from = gpu_buffer(sender->at.gpus[0], 2 * MIB + 5, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into = gpu_buffer(members[1].at.gpus[1], 2 * MIB + 5, FERRY_MEMORY_DEFAULT);
    write_to(sender, ferry_buffer_span(from), 3);
    gpu_gate_hold(&gate);
    ferry_future *event = ferry_event_record(sender->at.gpus[0], gpu_gate_stream(&gate));
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &event;
    options.after_count = 1;
    ferry_future *send = ferry_send(sender->group, 1, 1, ferry_buffer_span(from), &options);
    ferry_future *receive = ferry_recv(members[1].group, 0, 1, ferry_buffer_span(into), NULL);
    CHECK_STATUS(ferry_future_wait(receive, 50000000), FERRY_PENDING);
    CHECK_STATUS(ferry_future_poll(send), FERRY_PENDING);
    gpu_gate_let_go(&gate);
    CHECK_STATUS(gpu_end(send), FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
    CHECK_STATUS(gpu_end(event), FERRY_OK);
    bool is_right;
    CHECK_STATUS(read_from(&members[1], ferry_buffer_span(into), 3, &is_right), FERRY_OK);
    CHECK(is_right);
    gpu_gate_close(&gate);
}

static void test_behind(void)
{
    member members[MEMBERS];
    gpu_watch("a send behind the program's stream", 60);
    open_members(members, 0);
    send_behind(members);
    close_members(members);
}

/* ---- storm ---- */

static ferry_op_options random_deadline(void)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    if (below(4) == 0)
        options.deadline_ns = in_ns((int64_t)below(20000000));
    return options;
}

static void end_quietly(ferry_future *future)
{
    (void)ferry_future_wait(future, -1);
    ferry_status status = gpu_end(ferry_future_quiet(future));
    CHECK(status == FERRY_OK || status == FERRY_E_SHUTDOWN); /* of an engine that is over */
}

static void storm_once(member members[MEMBERS], size_t count)
{
    static const size_t sizes[] = {SMALL_MOST, SMALL_MOST, MIB, STORM_BYTES};
    talk talks[STORM];
    for (uint32_t i = 0; i < count; i++) {
        ferry_op_options send = random_deadline(), receive = random_deadline();
        begin_talk(&talks[i], members, i % 2, i % 5 == 0 ? i % 2 : 1 - i % 2, i / 4,
                   1 + below(sizes[below(4)]), &send, &receive);
    }
    bool has_copy = false;
    for (int i = 0; i < 20; i++)
        CHECK_STATUS(
            ferry_engine_dump(engine_of(&members[i % 2]), FERRY_DUMP_JSON, read_dump, &has_copy),
            FERRY_OK);
    (void)usleep((useconds_t)below(3000));
    for (uint32_t i = 0; i < count; i++) {
        ferry_future *futures[] = {talks[i].send, talks[i].receive};
        if (below(3) == 0)
            (void)ferry_future_cancel(futures[below(2)]);
    }
    for (uint32_t i = 0; i < count; i++) {
        end_quietly(talks[i].send);
        end_quietly(talks[i].receive);
    }
    for (uint32_t i = 0; i < count; i++)
        release_talk(&talks[i]);
}

/* As above, one message at a time, and its outcome is looked at. */
static void storm_slowly(member members[MEMBERS])
{
    talk one;
    ferry_op_options send = random_deadline(), receive = random_deadline();
    uint32_t from = (uint32_t)below(2), to = (uint32_t)below(2);
    begin_talk(&one, members, from, to, 77, 1 + below(below(2) == 0 ? SMALL_MOST : STORM_BYTES),
               &send, &receive);
    (void)usleep((useconds_t)below(4000));
    if (below(2) == 0)
        (void)ferry_future_cancel(below(2) == 0 ? one.send : one.receive);
    end_quietly(one.send);
    end_quietly(one.receive);
    check_talk(&one, &members[to]);
    release_talk(&one);
}

static void test_storm(void)
{
    static const size_t staging[] = {1, 4 * MIB, 0};
    for (size_t i = 0; i < 3; i++) {
        member members[MEMBERS];
        gpu_watch("a storm", 100);
        open_members(members, staging[i]);
        for (int round = 0; round < ROUNDS; round += 3)
            storm_once(members, STORM);
        for (int round = 0; round < 10 * ROUNDS; round++)
            storm_slowly(members);
        close_members(members);
    }
}

/* ---- shown ---- */

/* The emulator keeps the copies from ending, until a dump shows one. */
static void send_shown(member members[MEMBERS], bool is_held)
{
    OWN_BUFFER *from = gpu_buffer(members[0].at.gpus[0], 2 * MIB, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *into = gpu_buffer(members[1].at.host, 2 * MIB, FERRY_MEMORY_DEFAULT);
    bool has_copy = !is_held;
    write_to(&members[0], ferry_buffer_span(from), 5);
    if (is_held)
        EMU(emu_hold)();
    ferry_future *send = ferry_send(members[0].group, 1, 1, ferry_buffer_span(from), NULL);
    ferry_future *receive = ferry_recv(members[1].group, 0, 1, ferry_buffer_span(into), NULL);
    while (!has_copy)
        CHECK_STATUS(
            ferry_engine_dump(engine_of(&members[0]), FERRY_DUMP_JSON, read_dump, &has_copy),
            FERRY_OK);
    if (is_held)
        EMU(emu_release)();
    CHECK_STATUS(gpu_end(send), FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
}

static void test_shown(void)
{
    member members[MEMBERS];
    if (EMU(emu_hold) == NULL)
        return;
    gpu_watch("a dump of copies of pieces", 60);
    open_members(members, 0);
    send_shown(members, false); /* makes the chunks */
    send_shown(members, true);
    close_members(members);
}

/* ---- starved ---- */

static void starve(member members[MEMBERS])
{
    talk one;
    begin_talk(&one, members, 0, 1, 1, 2 * MIB, NULL, NULL);
    ferry_status sent = ferry_future_wait(one.send, -1), got = ferry_future_wait(one.receive, -1);
    CHECK(sent == FERRY_E_NO_MEMORY || got == FERRY_E_NO_MEMORY);
    CHECK(sent == FERRY_E_NO_MEMORY || sent == FERRY_E_DEPENDENCY);
    CHECK(got == FERRY_E_NO_MEMORY || got == FERRY_E_DEPENDENCY);
    const ferry_error *error =
        ferry_future_error(sent == FERRY_E_NO_MEMORY ? one.send : one.receive);
    CHECK(strstr(error->message, "staging_bytes") != NULL);
    check_talk(&one, &members[1]);
    release_talk(&one);
}

static void exchange_on_hosts(member members[MEMBERS])
{
    OWN_BUFFER *host = gpu_buffer(members[0].at.host, 2 * MIB, FERRY_MEMORY_DEFAULT);
    ferry_future *receive = ferry_recv(members[0].group, 1, 1, ferry_buffer_span(host), NULL);
    OWN_BUFFER *from = gpu_buffer(members[1].at.host, 2 * MIB, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(gpu_end(ferry_send(members[1].group, 0, 1, ferry_buffer_span(from), NULL)),
                 FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
}

static void test_starved(void)
{
    member members[MEMBERS];
    gpu_watch("messages without page-locked memory", 60);
    open_members(members, (size_t)1 << 40);
    for (int i = 0; i < 2; i++)
        starve(members);
    exchange_on_hosts(members);
    close_members(members);
}

/* ---- shutdown ---- */

static void test_shutdown(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        talk talks[CROWD];
        member members[MEMBERS];
        gpu_watch("shutting down in the midst of it", 60);
        open_members(members, round % 2 == 0 ? 1 : 0);
        for (uint32_t i = 0; i < CROWD; i++)
            begin_talk(&talks[i], members, i % 2, i % 3 == 0 ? i % 2 : 1 - i % 2, i, 2 * MIB + i,
                       NULL, NULL);
        (void)usleep((useconds_t)below(3000));
        CHECK_STATUS(ferry_engine_shutdown(engine_of(&members[0]), -1), FERRY_OK);
        for (uint32_t i = 0; i < CROWD; i++) {
            end_quietly(talks[i].send);
            end_quietly(talks[i].receive);
            release_talk(&talks[i]);
        }
        close_members(members);
    }
}

/* ---- refused, lost ---- */

/* The driver refuses one copy: that message fails, with the reason, and no other. */
static void refuse_one(member members[MEMBERS], unsigned nth, unsigned *failed)
{
    static const char *const calls[] = {"cuMemcpyAsync", "cuMemcpyBatchAsync"};
    talk talks[4];
    for (uint32_t i = 0; i < 4; i++)
        begin_talk(&talks[i], members, i % 2, 1 - i % 2, i, 2 * MIB + i, NULL, NULL);
    for (size_t i = 0; i < 2; i++)
        CHECK(EMU(emu_fail_call)(calls[i], nth, CUDA_ERROR_OUT_OF_MEMORY) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < 4; i++) {
        ferry_status sent = ferry_future_wait(talks[i].send, -1);
        ferry_status got = ferry_future_wait(talks[i].receive, -1);
        CHECK((sent == FERRY_OK) == (got == FERRY_OK));
        *failed += sent != FERRY_OK;
        end_quietly(talks[i].send);
        end_quietly(talks[i].receive);
    }
    for (size_t i = 0; i < 2; i++)
        CHECK(EMU(emu_fail_call)(calls[i], 0, CUDA_SUCCESS) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < 4; i++) {
        check_talk(&talks[i], &members[1 - i % 2]);
        release_talk(&talks[i]);
    }
}

static void test_refused(void)
{
    member members[MEMBERS];
    if (EMU(emu_fail_call) == NULL)
        return;
    gpu_watch("copies that the driver refuses", 100);
    open_members(members, 4 * MIB);
    unsigned failed = 0;
    for (unsigned nth = 1; nth < 16; nth++)
        refuse_one(members, nth, &failed);
    CHECK(failed != 0);
    close_members(members);
}

static void count_copies(void *arg, const char *text, size_t bytes)
{
    static const char issued[] = "\"kind\":\"copy\",\"state\":\"issued\"";
    const char *end = text + bytes;
    while ((text = memmem(text, (size_t)(end - text), issued, sizeof issued - 1)) != NULL) {
        ++*(size_t *)arg;
        text += sizeof issued - 1;
    }
}

static size_t copies_of(member *of)
{
    size_t count = 0;
    CHECK_STATUS(ferry_engine_dump(engine_of(of), FERRY_DUMP_JSON, count_copies, &count), FERRY_OK);
    return count;
}

/* A message out of the host's memory. Buffers of a GPU are made while it still does something. */
static talk make_from_host(member members[MEMBERS], size_t place, size_t size_bytes)
{
    return (talk){.from = gpu_buffer(members[0].at.host, size_bytes, FERRY_MEMORY_DEFAULT),
                  .into =
                      gpu_buffer(place_of(&members[1], place), size_bytes, FERRY_MEMORY_DEFAULT)};
}

static void begin_made(talk *self, member members[MEMBERS], ferry_tag tag)
{
    self->receive = ferry_recv(members[1].group, 0, tag, ferry_buffer_span(self->into), NULL);
    self->send = ferry_send(members[0].group, 1, tag, ferry_buffer_span(self->from), NULL);
}

/* A receive that was cancelled has all chunks, in copies to a GPU that is lost then: they never
 * come back, and who waits for one must not wait for ever. */
static void dry_up(void)
{
    member members[MEMBERS];
    gpu_watch("messages that wait for chunks that a lost GPU has", 60);
    open_members(members, 4 * MIB);
    enum { FIRST, HOLDER, WAITER, WORD, LATE, COUNT };
    static const size_t places[COUNT] = {2, 1, 2, 0, 2};
    talk talks[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        talks[i] = make_from_host(members, places[i], i == WORD ? 8 : 5 * MIB);
    begin_made(&talks[FIRST], members, FIRST); /* everything is done once before */
    CHECK_STATUS(ferry_future_wait(talks[FIRST].receive, -1), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(talks[FIRST].send, -1), FERRY_OK);
    EMU(emu_hold)();
    begin_made(&talks[HOLDER], members, HOLDER);
    while (copies_of(&members[1]) < 2)
        (void)sched_yield();
    CHECK_STATUS(ferry_future_cancel(talks[HOLDER].receive), FERRY_OK);
    CHECK_STATUS(ferry_future_wait(talks[HOLDER].receive, -1), FERRY_E_CANCELLED);
    begin_made(&talks[WAITER], members, WAITER);
    begin_made(&talks[WORD], members, WORD);
    CHECK_STATUS(ferry_future_wait(talks[WORD].receive, -1), FERRY_OK); /* WAITER's came before */
    CHECK(EMU(emu_lose_device)(0, CUDA_ERROR_ECC_UNCORRECTABLE) == CUDA_SUCCESS);
    EMU(emu_release)();
    CHECK_STATUS(ferry_future_wait(talks[WAITER].receive, -1), FERRY_E_DEVICE);
    CHECK(ferry_future_error(talks[WAITER].receive)->native_code == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK_STATUS(ferry_future_wait(talks[WAITER].send, -1), FERRY_E_DEPENDENCY);
    begin_made(&talks[LATE], members, LATE);
    CHECK_STATUS(ferry_future_wait(talks[LATE].receive, -1), FERRY_E_DEVICE);
    for (size_t i = 0; i < COUNT; i++)
        release_talk(&talks[i]);
    close_after_loss(members);
}

/* A GPU is lost for all of the process: in one of its own. */
static void test_dried_up(void)
{
    if (EMU(emu_lose_device) == NULL)
        return;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        (void)execl("/proc/self/exe", "messages", "dry_up", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Every message ends; what the lost device may touch stays. The last test of the process. */
static void test_lost(void)
{
    talk talks[CROWD];
    member members[MEMBERS];
    if (EMU(emu_lose_device) == NULL)
        return;
    gpu_watch("messages of a GPU that is lost", 100);
    open_members(members, 4 * MIB);
    for (uint32_t i = 0; i < CROWD; i++)
        begin_talk(&talks[i], members, i % 2, i % 3 == 0 ? i % 2 : 1 - i % 2, i, 5 * MIB + i, NULL,
                   NULL);
    CHECK(EMU(emu_lose_device)(0, CUDA_ERROR_ECC_UNCORRECTABLE) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < CROWD; i++) {
        (void)ferry_future_wait(talks[i].send, -1);
        (void)ferry_future_wait(talks[i].receive, -1);
        release_talk(&talks[i]);
    }
    close_after_loss(members);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "dry_up") == 0) {
        dry_up();
        return 0;
    }
    static const named_test tests[] = {
        {"mixes", test_mixes},     {"open", test_open},         {"embedded", test_embedded},
        {"crowd", test_crowd},     {"steady", test_steady},     {"waiting", test_waiting},
        {"bare", test_bare},       {"behind", test_behind},     {"storm", test_storm},
        {"shown", test_shown},     {"starved", test_starved},   {"shutdown", test_shutdown},
        {"refused", test_refused}, {"dried_up", test_dried_up}, {"lost", test_lost}};
    run_named(argc, argv, tests, sizeof tests / sizeof tests[0]);
    return 0;
}
