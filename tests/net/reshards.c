/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reshards between processes. Four of them go through the same random layouts, each with buffers
 * and plans of its own, and each compares every byte that it has in the end. Then they turn a
 * matrix again and again, and one of them is killed, or stopped: the posts of all others end, and
 * name a member; when they are quiet nobody writes their memory.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"
#include "tests/support/reshard_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, CASES = 60, ROUNDS = 2, BUSY = 3, SIDE = 1024 };

#define AFTER 0xaa
#define POST_NS INT64_C(10000000000)

/* What this process has in the two layouts, in the order of its positions. */
typedef struct part {
    ferry_span spans[2][RESHARD_POSITIONS];
    uint32_t positions[2][RESHARD_POSITIONS];
    size_t counts[2];
    ferry_plan *plan;
} part;

static void open_part(net_self *self, const ferry_reshard *reshard, part *own)
{
    memset(own, 0, sizeof *own);
    for (int side = 0; side < 2; side++) {
        ferry_reshard_part at = FERRY_RESHARD_PART_INIT;
        for (uint32_t p = 0;
             ferry_reshard_part_at(reshard, (ferry_reshard_side)side, p, &at) == FERRY_OK; p++) {
            if (at.rank != self->rank)
                continue;
            size_t i = own->counts[side]++;
            own->positions[side][i] = p;
            if (at.size_bytes == 0)
                continue;
            ferry_buffer *buffer = NULL;
            NET_SELF_CHECK(ferry_buffer_alloc(ferry_device_find(self->engine, "host:0"),
                                              at.size_bytes, &buffer) == FERRY_OK,
                           "no buffer");
            own->spans[side][i] = ferry_buffer_span(buffer);
        }
    }
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = own->spans[0];
    options.from_count = own->counts[0];
    options.to = own->spans[1];
    options.to_count = own->counts[1];
    options.tag = 3;
    ferry_error *error = NULL;
    if (ferry_reshard_plan(self->group, reshard, &options, &own->plan, &error) != FERRY_OK)
        net_self_fail("no plan: %s", error->message);
}

static void close_part(part *own)
{
    ferry_plan_release(own->plan);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < own->counts[side]; i++)
            ferry_buffer_release(own->spans[side][i].buffer);
    }
}

/* ---- random layouts ---- */

/* Fills the bytes of a part, or compares them. */
static bool pass_over(const reshard_case *of, const ferry_reshard *reshard, const part *own,
                      int side, size_t index, uint64_t round)
{
    ferry_reshard_part at = FERRY_RESHARD_PART_INIT;
    (void)ferry_reshard_part_at(reshard, (ferry_reshard_side)side, own->positions[side][index],
                                &at);
    unsigned char *bytes = ferry_buffer_data(own->spans[side][index].buffer);
    for (uint64_t i = 0; i < at.size_bytes; i++) {
        uint64_t element = reshard_case_element(of, at.offset, at.extent, i / of->element_bytes);
        unsigned char byte =
            (unsigned char)((element * 31 + i % of->element_bytes * 7 + round) * 2654435761u >> 16);
        if (side == 0)
            bytes[i] = byte;
        else if (bytes[i] != byte)
            return false;
    }
    return true;
}

static void run_case(net_self *self, uint64_t seed)
{
    reshard_case of;
    part own;
    reshard_case_make(&of, seed, MEMBERS, seed % 8 == 0 ? 400000 : 4000);
    ferry_reshard *reshard = reshard_case_create(&of);
    NET_SELF_CHECK(reshard != NULL, "no reshard of seed %llu", (unsigned long long)seed);
    open_part(self, reshard, &own);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < own.counts[0]; i++)
            (void)pass_over(&of, reshard, &own, 0, i, round);
        ferry_future *post = ferry_plan_post(own.plan, NULL, 0, NULL);
        NET_SELF_CHECK(ferry_future_wait(post, -1) == FERRY_OK, "seed %llu, round %llu: %s",
                       (unsigned long long)seed, (unsigned long long)round,
                       ferry_future_error(post)->message);
        ferry_future_release(post);
        for (size_t i = 0; i < own.counts[1]; i++)
            NET_SELF_CHECK(pass_over(&of, reshard, &own, 1, i, round),
                           "seed %llu, round %llu: bytes are wrong", (unsigned long long)seed,
                           (unsigned long long)round);
    }
    close_part(&own);
    ferry_reshard_release(reshard);
}

static int goes_through(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    for (uint64_t seed = 1; seed <= CASES; seed++)
        run_case(&self, seed);
    net_say("done");
    (void)net_await("end");
    net_self_end(&self);
    return 0;
}

/* ---- a matrix, again and again ---- */

static void tell_failure(const part *own, ferry_future *post)
{
    net_self_tell_failure(post);
    memset(ferry_buffer_data(own->spans[1][0].buffer), AFTER, own->spans[1][0].size_bytes);
    net_say("quiet");
}

static void post_until_failure(net_self *self, const part *own)
{
    for (uint64_t done = 0;; done++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.deadline_ns = ferry_engine_deadline_in(self->engine, POST_NS);
        ferry_future *post = ferry_plan_post(own->plan, NULL, 0, &options);
        bool is_over = ferry_future_wait(post, -1) != FERRY_OK;
        if (is_over)
            tell_failure(own, post);
        ferry_future_release(post);
        if (is_over)
            return;
        if (done == BUSY)
            net_say("busy");
    }
}

static int turns(int argc, char **argv)
{
    const uint64_t shape[] = {SIDE, SIDE};
    const ferry_mesh_axis axis = {"x", MEMBERS};
    const char *name = "x";
    const ferry_split rows[] = {{&name, 1}, {NULL, 0}}, columns[] = {{NULL, 0}, {&name, 1}};
    const ferry_layout from = {sizeof from, &axis, 1, NULL, 0, rows, 2};
    const ferry_layout to = {sizeof to, &axis, 1, NULL, 0, columns, 2};
    net_self self;
    part own;
    ferry_reshard *reshard = NULL;
    net_self_join(&self, argc, argv);
    NET_SELF_CHECK(ferry_reshard_create(shape, 2, 4, &from, &to, &reshard, NULL) == FERRY_OK,
                   "no reshard");
    open_part(&self, reshard, &own);
    ferry_reshard_release(reshard);
    post_until_failure(&self, &own);
    (void)net_await("end");
    const unsigned char *bytes = ferry_buffer_data(own.spans[1][0].buffer);
    NET_SELF_CHECK(bytes[0] == AFTER &&
                       memcmp(bytes, bytes + 1, own.spans[1][0].size_bytes - 1) == 0,
                   "memory was written after it was quiet");
    close_part(&own);
    net_self_end(&self);
    return 0;
}

/* ---- cases ---- */

static void begin(net_member *members[MEMBERS], const char *role, const char *lease)
{
    char store[4096], rank[32], size[32];
    (void)snprintf(store, sizeof store, "store=file:%s/meet", net_folder());
    (void)snprintf(size, sizeof size, "size=%d", MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        (void)snprintf(rank, sizeof rank, "rank=%d", i);
        members[i] = net_start(NET_HERE, role, store, size, rank, lease, NULL);
    }
    for (int i = 0; i < MEMBERS; i++)
        (void)net_hear(members[i], "joined");
}

static void end(net_member *const members[], int count)
{
    for (int i = 0; i < count; i++)
        net_tell(members[i], "end");
    for (int i = 0; i < count; i++)
        net_end(members[i]);
}

static void random_layouts(void)
{
    net_member *members[MEMBERS];
    begin(members, "goes_through", NULL);
    for (int i = 0; i < MEMBERS; i++)
        (void)net_hear(members[i], "done");
    end(members, MEMBERS);
}

static void one_is_killed(void)
{
    net_member *members[MEMBERS];
    begin(members, "turns", "lease_ms=10000");
    for (int i = 0; i < MEMBERS; i++)
        (void)net_hear(members[i], "busy");
    net_signal(members[MEMBERS - 1], SIGKILL);
    net_end_by(members[MEMBERS - 1], SIGKILL);
    bool is_named = false;
    for (int i = 0; i + 1 < MEMBERS; i++) {
        const char *failed = net_hear(members[i], "failed");
        NET_CHECK(strstr(failed, "FERRY_E_DEPENDENCY") != NULL, "%s", failed);
        is_named = is_named || net_number(failed, "rank") == MEMBERS - 1;
        (void)net_hear(members[i], "quiet");
    }
    NET_CHECK(is_named, "nobody names who was killed");
    end(members, MEMBERS - 1);
}

/* Those that wait for it end at their deadline, and so do all others. */
static void one_stands_still(void)
{
    net_member *members[MEMBERS];
    begin(members, "turns", "lease_ms=120000");
    for (int i = 0; i < MEMBERS; i++)
        (void)net_hear(members[i], "busy");
    net_signal(members[MEMBERS - 1], SIGSTOP);
    for (int i = 0; i + 1 < MEMBERS; i++) {
        const char *failed = net_hear(members[i], "failed");
        NET_CHECK(strstr(failed, "FERRY_E_DEADLINE") != NULL ||
                      strstr(failed, "FERRY_E_DEPENDENCY") != NULL,
                  "%s", failed);
    }
    net_signal(members[MEMBERS - 1], SIGCONT);
    for (int i = 0; i + 1 < MEMBERS; i++)
        (void)net_hear(members[i], "quiet");
    (void)net_hear(members[MEMBERS - 1], "failed");
    (void)net_hear(members[MEMBERS - 1], "quiet");
    end(members, MEMBERS);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"goes_through", goes_through}, {"turns", turns}};
    static const net_case cases[] = {
        {"random_layouts", random_layouts, 120},
        {"one_is_killed", one_is_killed, 60},
        {"one_stands_still", one_stands_still, 120},
    };
    return net_test_main(argc, argv, roles, 2, cases, sizeof cases / sizeof cases[0]);
}
