/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     notices [ROUNDS [SEED]]
 *
 * Three members in a process; of each, two threads send notices to all, a third one sends them at
 * the end of batches, and one takes those that come. Some operations are cancelled at once, some
 * are late. At a random moment one member leaves, or all notices are through. What must hold, round
 * after round:
 *
 *  - a notice is taken once at most, and once if its sender was told so;
 *  - who was told that it was cancelled or late may have been heard; who was told anything else
 *    has a reason;
 *  - those of a thread are taken in the order of its calls; of a batch, each was taken after the
 * one before it, and none after a failure;
 *  - each operation ends.
 *
 * A plain program, so that it runs under ThreadSanitizer.
 */
#include "tests/support/effort.h"
#include "tests/support/stress.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 20
#else
#define ROUNDS 100
#endif

enum { MEMBERS = 3, SENDERS = 3, BATCHER = 2, MOST = 700, BATCH = 6, TAKERS_AHEAD = 8 };

typedef struct note {
    uint32_t member, sender, number;
} note;

typedef struct sender {
    struct member *member;
    uint64_t random;
    uint32_t number, count;
    ferry_future *futures[MOST];
    uint32_t taken[MOST]; /* how often; atomic */
    ferry_rank to[MOST];
    bool is_behind[MOST]; /* the one before it, in its batch */
} sender;

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    uint32_t rank;
    uint64_t random;
    sender senders[SENDERS];
    uint32_t last[MEMBERS][SENDERS]; /* number, plus 1, of the last that was taken */
} member;

static member members[MEMBERS];

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- sending ---- */

static ferry_status nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

/* The next ones, behind nops and functions. Returns how many. */
static uint32_t send_batch(sender *sender, uint32_t first)
{
    note notes[BATCH];
    ferry_op ops[2 * BATCH] = {{0}};
    ferry_op_options options[BATCH];
    ferry_future *each[2 * BATCH] = {NULL};
    uint32_t ahead = below(&sender->random, BATCH), count = 1 + below(&sender->random, BATCH);
    if (count > sender->count - first)
        count = sender->count - first;
    for (uint32_t i = 0; i < ahead; i++)
        ops[i] = below(&sender->random, 2) == 0 ? (ferry_op){.kind = FERRY_OP_NOP}
                                                : (ferry_op){.kind = FERRY_OP_CALL, .fn = nothing};
    for (uint32_t i = 0; i < count; i++) {
        notes[i] = (note){sender->member->rank, sender->number, first + i};
        options[i] = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
        if (below(&sender->random, 32) == 0)
            options[i].deadline_ns = now_ns() + below(&sender->random, 300000);
        sender->to[first + i] = below(&sender->random, MEMBERS);
        sender->is_behind[first + i] = i != 0;
        ops[ahead + i] = (ferry_op){.kind = FERRY_OP_NOTICE,
                                    .group = sender->member->group,
                                    .peer = sender->to[first + i],
                                    .data = &notes[i],
                                    .data_bytes = sizeof notes[i],
                                    .options = &options[i]};
    }
    ferry_future *all =
        ferry_batch(sender->member->engine, ops, sizeof ops[0], ahead + count, each, NULL);
    for (uint32_t i = 0; i < ahead; i++)
        ferry_future_release(each[i]);
    memcpy(sender->futures + first, each + ahead, count * sizeof each[0]);
    uint32_t chance = below(&sender->random, 16);
    if (chance < 2)
        ferry_future_cancel(chance == 0 ? all : each[ahead + below(&sender->random, count)]);
    ferry_future_release(all);
    return count;
}

static void *send_batches(void *arg)
{
    sender *sender = arg;
    for (uint32_t next = 0; next < sender->count;)
        next += send_batch(sender, next);
    return NULL;
}

static void *send_all(void *arg)
{
    sender *sender = arg;
    char data[256] = {0};
    for (uint32_t i = 0; i < sender->count; i++) {
        note note = {sender->member->rank, sender->number, i};
        memcpy(data, &note, sizeof note);
        size_t size_bytes = sizeof note + below(&sender->random, sizeof data - sizeof note);
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        if (below(&sender->random, 16) == 0)
            options.deadline_ns = now_ns() + below(&sender->random, 300000);
        sender->to[i] = below(&sender->random, MEMBERS);
        sender->futures[i] =
            ferry_notice_send(sender->member->group, sender->to[i], data, size_bytes, &options);
        if (below(&sender->random, 16) == 0)
            ferry_future_cancel(sender->futures[i]);
    }
    return NULL;
}

/* ---- taking ---- */

static void take(member *member, const ferry_future *future)
{
    ferry_value value = FERRY_VALUE_INIT;
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    note note;
    CHECK(ferry_future_value(future, &value) == FERRY_OK);
    CHECK(ferry_message_describe(future, &info) == FERRY_OK);
    CHECK(value.size_bytes >= sizeof note && value.size_bytes == info.size_bytes);
    memcpy(&note, value.data, sizeof note);
    CHECK(note.member == info.rank && note.member < MEMBERS && note.sender < SENDERS);
    sender *sender = &members[note.member].senders[note.sender];
    CHECK(note.number < sender->count);
    uint32_t *last = &member->last[note.member][note.sender];
    /* In order, and so none twice; batches may overtake one another. */
    CHECK(note.number >= *last || note.sender == BATCHER);
    *last = note.number + 1;
    __atomic_fetch_add(&sender->taken[note.number], 1, __ATOMIC_RELAXED);
}

/* Ends when its member has left. */
static void *take_all(void *arg)
{
    member *member = arg;
    ferry_future *ahead[TAKERS_AHEAD];
    bool is_over = false;
    for (size_t i = 0; i < TAKERS_AHEAD; i++)
        ahead[i] = ferry_notice_next(member->group, 0);
    for (size_t at = 0; !is_over; at = (at + 1) % TAKERS_AHEAD) {
        if (below(&member->random, 16) == 0)
            ferry_future_cancel(ahead[at]);
        ferry_status status = ferry_future_wait(ahead[at], -1);
        if (status == FERRY_OK)
            take(member, ahead[at]);
        is_over = status == FERRY_E_DEAD;
        CHECK(is_over || status == FERRY_OK || status == FERRY_E_CANCELLED ||
              status == FERRY_E_DEADLINE);
        ferry_future_release(ahead[at]);
        bool has_deadline = below(&member->random, 16) == 0;
        ahead[at] = ferry_notice_next(member->group,
                                      has_deadline ? now_ns() + below(&member->random, 300000) : 0);
    }
    for (size_t i = 0; i < TAKERS_AHEAD; i++) {
        if (ferry_future_wait(ahead[i], -1) == FERRY_OK)
            take(member, ahead[i]);
        ferry_future_release(ahead[i]);
    }
    return NULL;
}

/* ---- rounds ---- */

static void join(uint64_t round)
{
    ferry_future *joins[MEMBERS];
    char job[32];
    (void)snprintf(job, sizeof job, "job%lu", (unsigned long)round);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:notices";
        options.job = job;
        options.size = MEMBERS;
        options.unexpected_max = UNEXPECTED_FEW;
        options.rank = i;
        options.has_rank = true;
        options.lease_ns = INT64_C(60000000000);
        options.linger_ns = INT64_C(60000000000);
        options.deadline_ns = now_ns() + INT64_C(60000000000);
        joins[i] = ferry_group_join(members[i].engine, &options, &members[i].group);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        CHECK(ferry_future_wait(joins[i], -1) == FERRY_OK);
        ferry_future_release(joins[i]);
    }
}

static void leave(member *member)
{
    ferry_future *left = ferry_group_leave(member->group);
    CHECK(ferry_future_wait(left, -1) == FERRY_OK);
    ferry_future_release(left);
}

/* Those of who left early, and to that member, may fail in its ways. */
static void judge(const sender *sender, uint32_t i, bool one_left)
{
    ferry_status status = ferry_future_wait(sender->futures[i], -1);
    uint32_t taken = __atomic_load_n(&sender->taken[i], __ATOMIC_RELAXED);
    CHECK(taken <= 1);
    if (status == FERRY_OK) {
        CHECK(taken == 1);
    } else if (status != FERRY_E_CANCELLED && status != FERRY_E_DEADLINE) {
        bool may_depend = sender->number == BATCHER && status == FERRY_E_DEPENDENCY;
        CHECK(one_left || may_depend);
        CHECK(status == FERRY_E_DEAD || status == FERRY_E_DEPENDENCY || status == FERRY_E_PEER);
    }
    if (sender->is_behind[i] && taken == 1)
        CHECK(ferry_future_poll(sender->futures[i - 1]) == FERRY_OK);
}

static void run(uint64_t round, uint64_t *random)
{
    pthread_t takers[MEMBERS], senders[MEMBERS][SENDERS];
    bool one_leaves = below(random, 3) == 0;
    uint32_t leaver = below(random, MEMBERS);
    join(round);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *member = &members[i];
        member->rank = i;
        member->random = *random ^ (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        memset(member->last, 0, sizeof member->last);
        for (uint32_t k = 0; k < SENDERS; k++)
            member->senders[k] = (sender){.member = member,
                                          .number = k,
                                          .random = member->random * (k + 3) + 1,
                                          .count = below(random, MOST)};
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        takers[i] = start_thread(take_all, &members[i]);
        for (uint32_t k = 0; k < SENDERS; k++)
            senders[i][k] =
                start_thread(k == BATCHER ? send_batches : send_all, &members[i].senders[k]);
    }
    if (one_leaves)
        leave(&members[leaver]);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        for (uint32_t k = 0; k < SENDERS; k++) {
            (void)pthread_join(senders[i][k], NULL);
            for (uint32_t n = 0; n < members[i].senders[k].count; n++)
                (void)ferry_future_wait(members[i].senders[k].futures[n], -1);
        }
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (!one_leaves || i != leaver)
            leave(&members[i]);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        (void)pthread_join(takers[i], NULL);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        for (uint32_t k = 0; k < SENDERS; k++) {
            for (uint32_t n = 0; n < members[i].senders[k].count; n++)
                judge(&members[i].senders[k], n, one_leaves);
            for (uint32_t n = 0; n < members[i].senders[k].count; n++)
                ferry_future_release(members[i].senders[k].futures[n]);
        }
        ferry_group_release(members[i].group);
    }
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : ROUNDS;
    uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    random = random * 2 + 1;
    spare_ucx_hooks();
    end_if_hung(170);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
        options.host_devices = 1;
        options.host_workers = 1;
        CHECK(ferry_engine_create(&options, &members[i].engine, NULL) == FERRY_OK);
    }
    for (uint64_t round = 0; round < rounds; round++) {
        now_at("round %lu", (unsigned long)round);
        run(round, &random);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        CHECK(ferry_engine_shutdown(members[i].engine, -1) == FERRY_OK);
        ferry_engine_release(members[i].engine);
    }
    return 0;
}
