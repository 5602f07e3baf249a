/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_plans [SEEDS [FIRST]]: one to four engines of this process, each with memory of its own
 * and a window, post plans of copies, functions, sends, receives, gets, puts and notices, as a
 * whole or in part, several times, among plain operations. A model does the same one after the
 * other, in the order in which it was all made up; whatever the engines do at the same time, their
 * memory must be the model's in the end. What the model can't order is left out: a window is only
 * read or only written in a round, and written in one place once.
 *
 * In some rounds posts are cancelled midway. When they are quiet their memory is written anew; who
 * touches it later is found by the rounds that follow.
 */
#include "tests/support/place.h"
#include "tests/support/stress.h"
#include "tests/support/thread_executor.h"

#if defined(__SANITIZE_THREAD__)
#define SEEDS 4
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 12
#else
#define SEEDS 60
#endif
#define HANG_S 180

enum {
    MEMBERS = 4,
    BYTES = 1 << 16,
    OPS = 120,
    POSTS = 3,
    ROUNDS = 12,
    LONGEST = 20000,
};

typedef struct change {
    uint8_t *bytes;
    size_t size_bytes;
    uint8_t salt;
} change;

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    ferry_buffer *local, *shared;
    ferry_window *own, *found[MEMBERS];
    uint8_t model[BYTES], shared_model[BYTES];

    /* Of a round. */
    ferry_op ops[OPS];
    ferry_op_options options[OPS];
    ferry_access accesses[OPS];
    change changes[OPS];
    bool is_picked[OPS];
    uint32_t count;
    size_t put_bytes; /* of the window, that are written */
    uint32_t posts_before;
    ferry_future *posts[POSTS];
} member;

/* An operation of the model. */
typedef struct deed {
    uint32_t who, index, other, other_index;
} deed;

static struct {
    uint64_t random;
    uint32_t member_count, deed_count, notice_count, cancelled, posted;
    member members[MEMBERS];
    deed deeds[MEMBERS * OPS];
    thread_executor executor;
    bool gets; /* windows are read in this round, else written */
    bool cancels;
} all;

static uint32_t pick(uint32_t bound)
{
    return below(&all.random, bound);
}

static ferry_status end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

/* ---- making operations up ---- */

static ferry_span some(ferry_buffer *buffer, uint32_t longest)
{
    size_t size = 1 + pick(pick(4) == 0 ? longest : 300);
    size_t offset = pick((uint32_t)(BYTES - size));
    if (pick(2) == 0)
        offset &= ~(size_t)63; /* so that some touch, or are the same */
    return (ferry_span){buffer, offset, size};
}

static ferry_op *add(uint32_t who, ferry_op_kind kind)
{
    member *m = &all.members[who];
    ferry_op *op = &m->ops[m->count];
    *op = (ferry_op){.kind = kind};
    m->options[m->count] = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    m->is_picked[m->count] = true;
    m->count++;
    return op;
}

static void note(uint32_t who, uint32_t other)
{
    all.deeds[all.deed_count++] =
        (deed){who, all.members[who].count - 1, other, all.members[other].count - 1};
}

static ferry_status run_change(void *arg)
{
    const change *self = arg;
    for (size_t i = 0; i < self->size_bytes; i++)
        self->bytes[i] = (uint8_t)(self->bytes[i] * 3u + self->salt + i);
    return FERRY_OK;
}

static void add_change(uint32_t who, ferry_span span)
{
    member *m = &all.members[who];
    uint32_t index = m->count;
    ferry_op *op = add(who, FERRY_OP_CALL);
    m->accesses[index] = (ferry_access){span, FERRY_READ_WRITE};
    m->options[index].accesses = &m->accesses[index];
    m->options[index].access_count = 1;
    m->changes[index] = (change){(uint8_t *)ferry_buffer_data(span.buffer) + span.offset_bytes,
                                 span.size_bytes, (uint8_t)pick(256)};
    op->options = &m->options[index];
    op->fn = run_change;
    op->arg = &m->changes[index];
    op->executor = pick(2) == 0 ? &all.executor.executor : NULL;
    note(who, who);
}

static void add_copy(uint32_t who)
{
    member *m = &all.members[who];
    ferry_span dst = some(m->local, LONGEST), src = dst;
    if (pick(3) == 0 && m->count > 0 && m->ops[m->count - 1].kind == FERRY_OP_COPY) {
        /* Behind the last one at both ends. */
        const ferry_op *last = &m->ops[m->count - 1];
        dst = last->dst;
        src = last->src;
        dst.offset_bytes += dst.size_bytes;
        src.offset_bytes += src.size_bytes;
        if (dst.offset_bytes + dst.size_bytes > BYTES || src.offset_bytes + src.size_bytes > BYTES)
            return;
    } else {
        src.offset_bytes = pick((uint32_t)(BYTES - src.size_bytes));
    }
    if (src.offset_bytes < dst.offset_bytes + dst.size_bytes &&
        dst.offset_bytes < src.offset_bytes + src.size_bytes)
        return;
    ferry_op *op = add(who, FERRY_OP_COPY);
    op->dst = dst;
    op->src = src;
    note(who, who);
}

static void add_reach(uint32_t who)
{
    member *m = &all.members[who];
    uint32_t owner = pick(all.member_count);
    ferry_span span = some(m->local, LONGEST);
    if (owner == who)
        return;
    member *theirs = &all.members[owner];
    if (!all.gets && theirs->put_bytes + span.size_bytes > BYTES)
        return;
    ferry_op *op = add(who, all.gets ? FERRY_OP_GET : FERRY_OP_PUT);
    op->window = m->found[owner];
    *(all.gets ? &op->dst : &op->src) = span;
    op->window_offset =
        all.gets ? pick((uint32_t)(BYTES - span.size_bytes)) : (uint32_t)theirs->put_bytes;
    theirs->put_bytes += all.gets ? 0 : span.size_bytes;
    note(who, owner);
}

static void add_message(uint32_t who)
{
    uint32_t other = pick(all.member_count);
    if (other == who || all.cancels)
        return;
    ferry_span from = some(all.members[who].local, LONGEST);
    ferry_span to = {all.members[other].local, pick((uint32_t)(BYTES - from.size_bytes)),
                     from.size_bytes};
    ferry_tag tag = pick(3);
    ferry_op *send = add(who, FERRY_OP_SEND), *receive = add(other, FERRY_OP_RECV);
    *send = (ferry_op){.kind = FERRY_OP_SEND,
                       .group = all.members[who].group,
                       .peer = other,
                       .tag = tag,
                       .src = from};
    *receive = (ferry_op){.kind = FERRY_OP_RECV,
                          .group = all.members[other].group,
                          .peer = who,
                          .tag = tag,
                          .dst = to};
    note(who, other);
}

static bool is_full(void)
{
    for (uint32_t i = 0; i < all.member_count; i++) {
        if (all.members[i].count + 4 > OPS)
            return true;
    }
    return false;
}

static void make_up(void)
{
    uint32_t wanted = 1 + pick(OPS / 2u) * all.member_count;
    all.deed_count = all.notice_count = 0;
    for (uint32_t i = 0; i < all.member_count; i++) {
        all.members[i].count = 0;
        all.members[i].put_bytes = 0;
        /* All posts of a member touch this, and so come one after the other. */
        add_change(i, (ferry_span){all.members[i].local, 0, 1});
    }
    for (uint32_t i = 0; i < wanted && !is_full(); i++) {
        uint32_t who = pick(all.member_count);
        switch (pick(4)) {
        case 0:
            add_change(who, some(all.members[who].local, 2000));
            break;
        case 1:
            add_copy(who);
            break;
        case 2:
            add_reach(who);
            break;
        default:
            add_message(who);
            break;
        }
    }
    for (uint32_t i = 0; i < all.member_count && !all.cancels; i++) {
        if (pick(2) == 0)
            continue;
        ferry_op *op = add(i, FERRY_OP_NOTICE);
        op->group = all.members[i].group;
        op->peer = 0;
        op->data = &all.member_count;
        op->data_bytes = sizeof all.member_count;
        all.notice_count++;
    }
}

/* Messages need both ends, and the first keeps posts apart. */
static void pick_some(void)
{
    for (uint32_t i = 0; i < all.member_count; i++) {
        member *m = &all.members[i];
        for (uint32_t j = 1; j < m->count; j++) {
            ferry_op_kind kind = m->ops[j].kind;
            m->is_picked[j] = kind == FERRY_OP_SEND || kind == FERRY_OP_RECV ||
                              kind == FERRY_OP_NOTICE || pick(2) == 0;
        }
    }
}

/* ---- the model ---- */

static uint8_t *at(uint8_t *model, ferry_span span)
{
    return model + span.offset_bytes;
}

static void do_deed(const deed *d)
{
    member *m = &all.members[d->who], *other = &all.members[d->other];
    const ferry_op *op = &m->ops[d->index];
    if (!m->is_picked[d->index])
        return;
    switch (op->kind) {
    case FERRY_OP_CALL: {
        change own = m->changes[d->index];
        own.bytes = at(m->model, m->accesses[d->index].span);
        (void)run_change(&own);
        break;
    }
    case FERRY_OP_COPY:
        memcpy(at(m->model, op->dst), at(m->model, op->src), op->dst.size_bytes);
        break;
    case FERRY_OP_GET:
        memcpy(at(m->model, op->dst), other->shared_model + op->window_offset, op->dst.size_bytes);
        break;
    case FERRY_OP_PUT:
        memcpy(other->shared_model + op->window_offset, at(m->model, op->src), op->src.size_bytes);
        break;
    default: /* a message */
        memcpy(at(other->model, other->ops[d->other_index].dst), at(m->model, op->src),
               op->src.size_bytes);
        break;
    }
}

static void compare(void)
{
    for (uint32_t i = 0; i < all.member_count; i++) {
        const member *m = &all.members[i];
        CHECK(memcmp(ferry_buffer_data(m->local), m->model, BYTES) == 0);
        CHECK(memcmp(ferry_buffer_data(m->shared), m->shared_model, BYTES) == 0);
    }
}

/* All is quiet: both start again from the same bytes. */
static void write_anew(void)
{
    for (uint32_t i = 0; i < all.member_count; i++) {
        member *m = &all.members[i];
        uint8_t *local = ferry_buffer_data(m->local), *shared = ferry_buffer_data(m->shared);
        for (size_t j = 0; j < BYTES; j++) {
            m->model[j] = local[j] = (uint8_t)(j * 7 + i + pick(3));
            m->shared_model[j] = shared[j] = (uint8_t)(j * 5 + i);
        }
        CHECK(ferry_buffer_define(ferry_buffer_span(m->local), NULL) == FERRY_OK);
    }
}

/* ---- rounds ---- */

static ferry_future *post_one(const member *m, ferry_plan *plan)
{
    uint32_t picks[OPS], count = 0;
    bool is_whole = true;
    for (uint32_t i = 0; i < m->count; i++) {
        is_whole = is_whole && m->is_picked[i];
        if (m->is_picked[i])
            picks[count++] = i;
    }
    for (uint32_t i = count; i > 1; i--) { /* their order means nothing */
        uint32_t j = pick(i), last = picks[i - 1];
        picks[i - 1] = picks[j];
        picks[j] = last;
    }
    all.posted++;
    return is_whole ? ferry_plan_post(plan, NULL, 0, NULL)
                    : ferry_plan_post(plan, picks, count, NULL);
}

static void finish_posts(member *m, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ferry_status status = ferry_future_wait(m->posts[i], -1);
        CHECK(status == FERRY_OK || all.cancels);
        if (status != FERRY_OK) {
            CHECK(status == FERRY_E_CANCELLED || status == FERRY_E_DEPENDENCY);
            all.cancelled++;
            CHECK(end(ferry_future_quiet(m->posts[i])) == FERRY_OK);
        }
        ferry_future_release(m->posts[i]);
    }
}

static void run_round(void)
{
    ferry_plan *plans[MEMBERS];
    uint32_t posts = 1 + pick(POSTS);
    all.gets = pick(2) == 0;
    all.cancels = pick(4) == 0;
    make_up();
    for (uint32_t i = 0; i < all.member_count; i++) {
        member *m = &all.members[i];
        CHECK(ferry_plan_create(m->engine, m->ops, sizeof m->ops[0], m->count, &plans[i], NULL) ==
              FERRY_OK);
    }
    if (pick(2) == 0)
        pick_some();
    for (uint32_t p = 0; p < posts; p++) {
        for (uint32_t i = 0; i < all.member_count; i++)
            all.members[i].posts[p] = post_one(&all.members[i], plans[i]);
        for (uint32_t i = 0; i < all.deed_count; i++)
            do_deed(&all.deeds[i]);
        for (uint32_t i = 0; i < all.member_count && all.cancels; i++) {
            if (pick(2) == 0)
                (void)ferry_future_cancel(all.members[i].posts[pick(p + 1)]);
        }
    }
    for (uint32_t i = 0; i < all.member_count; i++)
        ferry_plan_release(plans[i]); /* posts keep it */
    for (uint32_t i = 0; i < all.notice_count * posts; i++)
        CHECK(end(ferry_notice_next(all.members[0].group, 0)) == FERRY_OK);
    for (uint32_t i = 0; i < all.member_count; i++)
        finish_posts(&all.members[i], posts);
    if (all.cancels)
        write_anew();
    else
        compare();
}

/* ---- members ---- */

static ferry_buffer *allocate(ferry_engine *engine)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc(ferry_device_at(engine, 0), BYTES, &buffer) == FERRY_OK);
    return buffer;
}

static void open_members(void)
{
    ferry_future *joins[MEMBERS];
    for (uint32_t i = 0; i < all.member_count; i++) {
        member *m = &all.members[i];
        ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
        ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
        options.host_workers = 1;
        options.log = no_log;
        CHECK(ferry_engine_create(&options, &m->engine, NULL) == FERRY_OK);
        group.store = "mem:plans";
        group.job = "job";
        group.size = all.member_count;
        group.rank = i;
        group.has_rank = true;
        group.lease_ns = 100000000000;
        group.unexpected_max = 4096;
        joins[i] = ferry_group_join(m->engine, &group, &m->group);
        m->local = allocate(m->engine);
        m->shared = allocate(m->engine);
    }
    for (uint32_t i = 0; i < all.member_count; i++) {
        member *m = &all.members[i];
        CHECK(end(joins[i]) == FERRY_OK);
        CHECK(end(ferry_window_open(m->group, ferry_buffer_span(m->shared), "w",
                                    FERRY_WINDOW_GET_PUT, &m->own)) == FERRY_OK);
    }
    for (uint32_t i = 0; i < all.member_count; i++) {
        for (uint32_t j = 0; j < all.member_count; j++) {
            all.members[i].found[j] = NULL;
            if (i != j)
                CHECK(end(ferry_window_find(all.members[i].group, j, "w", 0,
                                            &all.members[i].found[j])) == FERRY_OK);
        }
    }
}

static void close_members(void)
{
    for (uint32_t i = 0; i < all.member_count; i++) {
        member *m = &all.members[i];
        for (uint32_t j = 0; j < all.member_count; j++)
            ferry_window_release(m->found[j]);
        ferry_window_release(m->own);
        ferry_buffer_release(m->local);
        ferry_buffer_release(m->shared);
    }
    for (uint32_t i = 0; i < all.member_count; i++)
        ferry_group_release(all.members[i].group);
    for (uint32_t i = 0; i < all.member_count; i++) {
        CHECK(ferry_engine_shutdown(all.members[i].engine, -1) == FERRY_OK);
        ferry_engine_release(all.members[i].engine);
    }
}

static void run_seed(uint64_t seed)
{
    all.random = seed;
    all.member_count = 1 + (uint32_t)(seed % MEMBERS);
    if (place_lacks_ucx() != NULL)
        all.member_count = 1;
    open_members();
    write_anew();
    for (int round = 0; round < ROUNDS; round++) {
        now_at("seed %llu, round %d", (unsigned long long)seed, round);
        run_round();
    }
    close_members();
}

int main(int argc, char **argv)
{
    uint64_t seeds = given_number(argc, argv, 1, SEEDS), first = given_number(argc, argv, 2, 1);
    spare_ucx_hooks();
    end_if_hung(HANG_S);
    CHECK(thread_executor_start(&all.executor));
    for (uint64_t seed = first; seed < first + seeds; seed++)
        run_seed(seed);
    thread_executor_stop(&all.executor);
    printf("%llu seeds: %u posts, %u of them cancelled\n", (unsigned long long)seeds, all.posted,
           all.cancelled);
    CHECK(all.cancelled != 0 || seeds < 4);
    return 0;
}
