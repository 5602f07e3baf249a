/* SPDX-License-Identifier: Apache-2.0 */
/* Two peers, or one that talks to itself, over a fake channel, and what they tell. */
#ifndef FERRY_TESTS_PEER_PAIR_H
#define FERRY_TESTS_PEER_PAIR_H

#include "net/peer/arrive.h"
#include "net/peer/connection.h"
#include "net/peer/state.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fake_channel.h"
#include "tests/support/owned.h"

#include <criterion/criterion.h>

enum { PAIR_OPS = 600, PAIR_OP_BYTES = 5000 };

typedef struct pair_op {
    fry_message message; /* first */
    int resolved, quiet;
    ferry_status status;
    fry_fault fault;
    uint8_t bytes[PAIR_OP_BYTES];
} pair_op;

typedef struct pair_end {
    fry_peer *peer;
    fry_peer_connection *connection;
    fry_channel *channel;
    int wanted, failed, parted;
    fry_fault failure;
} pair_end;

typedef struct pair {
    failing_allocator allocator;
    fry_memory memory;
    fry_log log;
    fake_wire *wire;
    fake_wire_options wire_options;
    fry_connection_session session;
    fry_peer_options options;
    pair_end ends[2];
    int end_count;
    pair_op *ops;
    size_t op_count;
} pair;

static pair the_pair;

static inline void pair_resolved(void *turn, fry_message *message, ferry_status status,
                                 const fry_fault *fault)
{
    (void)turn;
    pair_op *op = (pair_op *)message;
    cr_assert_eq(op->resolved++, 0);
    cr_assert_eq(op->quiet, 0);
    op->status = status;
    if (fault != NULL)
        op->fault = *fault;
}

static inline void pair_quiet(void *turn, fry_message *message)
{
    (void)turn;
    cr_assert_eq(((pair_op *)message)->quiet++, 0);
}

static inline void pair_wants_connection(void *turn, fry_peer *peer)
{
    (void)turn;
    ((pair_end *)fry_peer_arg(peer))->wanted++;
}

static inline void pair_connection_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    (void)turn;
    pair_end *end = fry_peer_arg(peer);
    end->failed++;
    end->failure = *fault;
}

static inline void pair_parted(void *turn, fry_peer *peer)
{
    (void)turn;
    ((pair_end *)fry_peer_arg(peer))->parted++;
}

static const fry_peer_events pair_events = {
    .parted = pair_parted,
    .resolved = pair_resolved,
    .quiet = pair_quiet,
    .wants_connection = pair_wants_connection,
    .connection_failed = pair_connection_failed,
};

/* Change the session, the options and the wire's before pair_open. */
static inline pair *pair_init(void)
{
    pair *p = &the_pair;
    *p = (pair){.end_count = 2};
    p->session = (fry_connection_session){
        .window_messages = 16, .window_bytes = 65536, .unexpected_max = 512};
    p->options.unexpected_max = 512;
    p->wire_options.eager_bytes_max = 1024;
    return p;
}

static inline void pair_attach(pair *p)
{
    p->wire = fake_wire_open(&p->wire_options);
    for (int i = 0; i < p->end_count; i++) {
        fry_connection_session session = p->session;
        memset(session.send_key, 1 + i, sizeof(session.send_key));
        memset(session.receive_key, p->end_count == 1 ? 1 : 2 - i, sizeof(session.receive_key));
        pair_end *end = &p->ends[i];
        end->connection = fry_peer_connection_open(&p->options, &session);
        cr_assert_not_null(end->connection);
        end->channel = fake_wire_end(p->wire, i, &fry_peer_channel_events,
                                     fry_peer_channel_arg(end->connection));
        fry_peer_attach(end->peer, end->connection, end->channel, NULL);
    }
}

static inline void pair_open_peers(pair *p)
{
    failing_allocator_init(&p->allocator);
    ferry_allocator interface = failing_allocator_interface(&p->allocator);
    fry_memory_init(&p->memory, &interface);
    fry_log_init(&p->log, NULL, NULL);
    p->log.max_level = FERRY_LOG_ERROR;
    p->options.memory = &p->memory;
    p->options.log = &p->log;
    if (p->options.events == NULL)
        p->options.events = &pair_events;
    for (int i = 0; i < p->end_count; i++) {
        fry_peer_options options = p->options;
        options.rank = p->end_count == 1 ? 10 : 11 - i;
        options.own_rank = 10 + i;
        options.arg = &p->ends[i];
        p->ends[i].peer = fry_peer_open(&options);
        cr_assert_not_null(p->ends[i].peer);
    }
    p->ops = calloc(PAIR_OPS, sizeof(*p->ops));
    cr_assert_not_null(p->ops);
}

static inline pair *pair_open(pair *p)
{
    pair_open_peers(p);
    pair_attach(p);
    return p;
}

static inline void pair_detach(pair *p, int i, ferry_status status)
{
    fry_channel *channel = NULL;
    pair_end *end = &p->ends[i];
    const fry_fault fault = {.status = status, .rank = 11 - i, .message = "it is over"};
    fry_peer_connection *connection = fry_peer_detach(end->peer, status, &fault, &channel, NULL);
    cr_assert_eq(connection, end->connection);
    cr_assert_eq(channel, end->channel);
    end->channel = NULL;
}

static inline void pair_destroy(pair *p, int i)
{
    pair_end *end = &p->ends[i];
    if (end->connection == NULL)
        return;
    fry_channel *channel = end->connection->channel;
    channel->ops->destroy(channel);
    fry_peer_destroyed(end->peer, end->connection, NULL);
    fry_peer_connection_close(end->connection);
    end->connection = NULL;
}

/* All is over in the end, and no memory is lost. */
static inline void pair_close(pair *p)
{
    for (int i = 0; i < p->end_count; i++)
        if (p->ends[i].channel != NULL || p->ends[i].connection == NULL)
            pair_detach(p, i, FERRY_E_SHUTDOWN);
    for (int i = 0; i < p->end_count; i++) {
        pair_destroy(p, i);
        cr_assert_eq(p->ends[i].peer->open_count, 0);
        fry_peer_close(p->ends[i].peer);
    }
    for (size_t i = 0; i < p->op_count; i++)
        cr_assert_eq(p->ops[i].quiet, 1, "op %zu", i);
    if (p->wire != NULL)
        fake_wire_close(p->wire);
    free(p->ops);
    cr_assert_eq(failing_allocator_live_bytes(&p->allocator), 0);
}

static inline void pair_end_scope(pair **p)
{
    pair_close(*p);
}

/* Open to the end of the block; of one that is to be opened yet PAIR_INIT leaves that to the test.
 */
#define PAIR_INIT(p_) OWNED(pair_end_scope) pair *p_ = pair_init()
#define PAIR(p_) OWNED(pair_end_scope) pair *p_ = pair_open(pair_init())

/* With a member of it set before. */
#define PAIR_WITH(p_, assignment_)                                                                 \
    PAIR_INIT(p_);                                                                                 \
    p_->assignment_;                                                                               \
    pair_open(p_)

/* Whose wire is late, as the seed decides. */
#define PAIR_LATE(p_, seed_)                                                                       \
    PAIR_INIT(p_);                                                                                 \
    p_->wire_options.seed = (seed_);                                                               \
    p_->wire_options.is_late = true;                                                               \
    pair_open(p_)

/* Entered, not ready. */
static inline pair_op *pair_enter(pair *p, int end, bool is_send, ferry_tag tag, size_t size_bytes)
{
    pair_op *op = &p->ops[p->op_count];
    cr_assert_lt(p->op_count, PAIR_OPS);
    op->message = (fry_message){.memory = size_bytes > 0 ? op->bytes : NULL,
                                .size_bytes = size_bytes,
                                .tag = tag,
                                .op = 1000 + p->op_count,
                                .is_send = is_send};
    memset(op->bytes, is_send ? (int)(p->op_count % 200 + 1) : 0, size_bytes);
    if (!fry_peer_enter(p->ends[end].peer, &op->message, NULL))
        return NULL;
    p->op_count++;
    return op;
}

static inline pair_op *pair_send(pair *p, int end, ferry_tag tag, size_t size_bytes)
{
    pair_op *op = pair_enter(p, end, true, tag, size_bytes);
    fry_peer_ready(&op->message, NULL);
    return op;
}

static inline pair_op *pair_receive(pair *p, int end, ferry_tag tag, size_t size_bytes)
{
    pair_op *op = pair_enter(p, end, false, tag, size_bytes);
    fry_peer_ready(&op->message, NULL);
    return op;
}

/* Gathered, until it is flushed or progress is made. */
static inline pair_op *pair_gather(pair *p, int end, ferry_tag tag, size_t size_bytes)
{
    pair_op *op = pair_enter(p, end, true, tag, size_bytes);
    cr_expect(fry_peer_gather(&op->message, NULL));
    return op;
}

static inline void pair_withdraw(pair_op *op)
{
    const fry_fault fault = {.status = FERRY_E_DEADLINE,
                             .rank = -1,
                             .op = op->message.op,
                             .native_code = 42,
                             .domain = "user",
                             .message = "it took too long"};
    fry_peer_withdraw(&op->message, &fault, NULL);
}

static inline void pair_turn(pair *p, int end)
{
    (void)fry_peer_progress(p->ends[end].peer, NULL);
}

/* Until nothing happens any more. */
static inline void pair_run(pair *p)
{
    for (int idle = 0, turn = 0; idle < 8; turn++) {
        bool is_at_rest = true;
        cr_assert_lt(turn, 100000);
        for (int i = 0; i < p->end_count; i++) {
            if (fry_peer_progress(p->ends[i].peer, NULL) > 0 || fry_peer_is_busy(p->ends[i].peer) ||
                !fry_peer_arm(p->ends[i].peer, NULL))
                is_at_rest = false;
        }
        idle = is_at_rest ? idle + 1 : 0;
    }
}

static inline void expect_over(const pair_op *op, ferry_status status)
{
    cr_expect_eq(op->resolved, 1);
    cr_expect_eq(op->quiet, 1);
    cr_expect_eq(op->status, status, "%d, not %d", op->status, status);
}

static inline void expect_bytes(const pair_op *send, const pair_op *receive)
{
    cr_assert_eq(send->message.size_bytes, receive->message.size_bytes);
    cr_expect(memcmp(send->bytes, receive->bytes, PAIR_OP_BYTES) == 0);
}

/* Both ended well, and with the same bytes. */
static inline void expect_met(const pair_op *send, const pair_op *receive)
{
    expect_over(send, FERRY_OK);
    expect_over(receive, FERRY_OK);
    expect_bytes(send, receive);
}

#endif
