/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/campaign_loose.h"

#include "tests/support/net_self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLISECOND_NS INT64_C(1000000)
#define SECOND_NS (1000 * MILLISECOND_NS)
#define OPS 160
#define SUBMITS 3 /* a turn, at most */
#define BUFFER_BYTES ((size_t)1 << 20)
#define TAG_BASE (UINT64_C(1) << 48) /* what is added to it says the size */
#define LATE_NS SECOND_NS
#define UNQUIET_NS (25 * SECOND_NS)

static const size_t sizes[] = {0, 64, 3000, 20000, 150000};
#define SIZES (sizeof sizes / sizeof sizes[0])

typedef enum kind { KIND_SEND, KIND_RECEIVE, KIND_COPY, KIND_CALL, KIND_NOP, KINDS } kind;

static const char *const names[] = {"send", "receive", "copy", "call", "nop"};

typedef struct op {
    ferry_future *future, *quiet; /* NULL: free; not resolved yet */
    kind kind;
    uint32_t peer;
    size_t size;
    int64_t deadline_ns;
    campaign_overdue late, unquiet;
} op;

struct campaign_loose {
    ferry_engine *engine;
    campaign_board *board;
    uint32_t rank, size;
    uint64_t random;
    ferry_buffer *buffer;
    op ops[OPS];
    bool is_under_way[2][CAMPAIGN_MEMBERS_MAX][SIZES]; /* a send, a receive */
};

static void tell(const campaign_loose *loose, const op *op, const char *what)
{
    fprintf(stderr,
            "campaign: rank %u: loose %s, member %u, %zu B, number %llu (%s): %s, %lld ms past its "
            "deadline\n",
            (unsigned)loose->rank, names[op->kind], (unsigned)op->peer, sizes[op->size],
            (unsigned long long)ferry_future_id(op->future),
            ferry_status_name(ferry_future_poll(op->future)), what,
            (long long)((net_now_ns() - op->deadline_ns) / MILLISECOND_NS));
}

campaign_loose *campaign_loose_open(ferry_engine *engine, campaign_board *board, uint32_t rank,
                                    uint32_t size, uint64_t seed)
{
    campaign_loose *loose = calloc(1, sizeof *loose);
    NET_SELF_CHECK(loose, "no memory");
    *loose = (campaign_loose){
        .engine = engine, .board = board, .rank = rank, .size = size, .random = seed | 1};
    NET_SELF_CHECK(ferry_buffer_alloc(ferry_device_at(engine, 0), BUFFER_BYTES, &loose->buffer) ==
                       FERRY_OK,
                   "no memory");
    memset(ferry_buffer_data(loose->buffer), 0x5a, BUFFER_BYTES);
    return loose;
}

void campaign_loose_close(campaign_loose *loose)
{
    ferry_buffer_release(loose->buffer);
    free(loose);
}

/* ---- looking ---- */

static void look(campaign_loose *loose, op *op, const campaign_clock *clock)
{
    if (ferry_future_poll(op->future) == FERRY_PENDING) {
        if (clock->now_ns > op->deadline_ns && campaign_is_overdue(&op->late, clock, LATE_NS)) {
            campaign_note(loose->board, loose->rank, CAMPAIGN_LATE);
            tell(loose, op, "late");
        }
        return;
    }
    if (op->quiet == NULL)
        op->quiet = ferry_future_quiet(op->future);
    if (ferry_future_poll(op->quiet) == FERRY_PENDING) {
        if (campaign_is_overdue(&op->unquiet, clock, UNQUIET_NS)) {
            campaign_note(loose->board, loose->rank, CAMPAIGN_UNQUIET);
            tell(loose, op, "not quiet");
        }
        return;
    }
    ferry_future_release(op->future);
    ferry_future_release(op->quiet);
    if (op->kind <= KIND_RECEIVE)
        loose->is_under_way[op->kind][op->peer][op->size] = false;
    *op = (struct op){0};
}

void campaign_loose_look(campaign_loose *loose, const campaign_clock *clock)
{
    for (op *op = loose->ops; op < loose->ops + OPS; op++) {
        if (op->future != NULL)
            look(loose, op, clock);
    }
}

bool campaign_loose_is_quiet(const campaign_loose *loose)
{
    for (size_t i = 0; i < OPS; i++) {
        if (loose->ops[i].future != NULL)
            return false;
    }
    return true;
}

void campaign_loose_cancel(campaign_loose *loose)
{
    for (size_t i = 0; i < OPS; i++) {
        if (loose->ops[i].future != NULL)
            (void)ferry_future_cancel(loose->ops[i].future);
    }
}

void campaign_loose_heal(campaign_loose *loose)
{
    NET_SELF_CHECK(ferry_buffer_define(ferry_buffer_span(loose->buffer), NULL) == FERRY_OK,
                   "a buffer that nobody is at can't be defined");
}

ferry_future *campaign_loose_any(campaign_loose *loose)
{
    op *op = &loose->ops[campaign_random(&loose->random, OPS)];
    return op->quiet != NULL ? op->quiet : op->future;
}

void campaign_loose_show(const campaign_loose *loose)
{
    for (const op *op = loose->ops; op < loose->ops + OPS; op++) {
        if (op->future != NULL)
            tell(loose, op, "is not over");
    }
}

/* ---- submitting ---- */

static ferry_status work(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static ferry_span choose_span(campaign_loose *loose, size_t size_bytes)
{
    return (ferry_span){loose->buffer, campaign_random(&loose->random, BUFFER_BYTES - size_bytes),
                        size_bytes};
}

/* Of the two halves, so that they don't meet. */
static ferry_future *copy(campaign_loose *loose, size_t size_bytes, const ferry_op_options *options)
{
    ferry_span from = choose_span(loose, size_bytes), to = choose_span(loose, size_bytes);
    size_t half = BUFFER_BYTES / 2;
    from.offset_bytes %= half - size_bytes;
    to.offset_bytes = half + to.offset_bytes % (half - size_bytes);
    return ferry_copy(loose->engine, to, from, options);
}

static ferry_future *call(campaign_loose *loose, size_t size_bytes, ferry_op_options *options)
{
    ferry_access access = {choose_span(loose, size_bytes),
                           1 + (ferry_access_mode)campaign_random(&loose->random, 3)};
    options->accesses = &access;
    options->access_count = 1;
    return ferry_call(loose->engine, NULL, work, NULL, options);
}

/* One send and one receive of each size and peer at a time, and a receive first: so as many are
 * received as are sent. */
static void choose(campaign_loose *loose, op *op)
{
    op->kind = (kind)campaign_random(&loose->random, KINDS);
    op->peer = (uint32_t)campaign_random(&loose->random, loose->size);
    op->size = campaign_random(&loose->random, SIZES);
    if (!loose->is_under_way[KIND_RECEIVE][op->peer][op->size])
        op->kind = KIND_RECEIVE;
    else if (op->kind == KIND_RECEIVE ||
             (op->kind == KIND_SEND && loose->is_under_way[KIND_SEND][op->peer][op->size]))
        op->kind = KIND_NOP;
    if (op->kind <= KIND_RECEIVE)
        loose->is_under_way[op->kind][op->peer][op->size] = true;
}

static void submit(campaign_loose *loose, op *op, ferry_group *group, const campaign_clock *clock)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *after = campaign_loose_any(loose);
    choose(loose, op);
    op->deadline_ns =
        clock->now_ns + (int64_t)campaign_random(&loose->random, 4000) * MILLISECOND_NS;
    options.deadline_ns = op->deadline_ns;
    if (after != NULL && campaign_random(&loose->random, 8) == 0) {
        options.after = &after;
        options.after_count = 1;
    }
    size_t size_bytes = sizes[op->size];
    ferry_span span = choose_span(loose, size_bytes);
    switch (op->kind) {
    case KIND_SEND:
        op->future = ferry_send(group, op->peer, TAG_BASE + op->size, span, &options);
        break;
    case KIND_RECEIVE:
        op->future = ferry_recv(group, op->peer, TAG_BASE + op->size, span, &options);
        break;
    case KIND_COPY:
        op->future = copy(loose, size_bytes, &options);
        break;
    case KIND_CALL:
        op->future = call(loose, size_bytes, &options);
        break;
    default:
        op->future = ferry_nop(loose->engine, &options);
        break;
    }
}

void campaign_loose_submit(campaign_loose *loose, ferry_group *group, const campaign_clock *clock)
{
    uint64_t count = campaign_random(&loose->random, SUBMITS + 1);
    for (size_t i = 0; i < OPS && count > 0; i++) {
        if (loose->ops[i].future != NULL)
            continue;
        submit(loose, &loose->ops[i], group, clock);
        count--;
    }
}
