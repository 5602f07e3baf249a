/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as operations of the graph, over fake lanes: every end that one can have, in every state
 * that it can be in. Two engines that move, and whose time passes, only as the test has it; the
 * wire between them can be held and cut.
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/route.h"
#include "net/connect/link_state.h"
#include "net/peer/arrive.h"
#include "net/peer/connection.h"
#include "tests/support/fake_channel.h"
#include "tests/support/member_test.h"
#include "tests/support/owned.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

TestSuite(engine_messages, .timeout = HANG_S);

enum { SMALL = 64, LARGE = 65536, EAGER_MAX = 4096, WIRES_MAX = 8, STILL = 64, FUTURES_MAX = 64 };

#define DEADLINE_NS INT64_C(5000000000)

/* ---- lanes ---- */

typedef struct rig {
    test_member members[2];
    pthread_mutex_t mutex;       /* two loops may open their ends: of what is below */
    fake_wire *wires[WIRES_MAX]; /* the last is the one in use */
    size_t wire_count;
    bool is_half_open; /* one end of the last is */
    bool starves;      /* engine 0 has no memory for what it needs after it opened its end */
    fake_wire_options options;
    fry_connection_opener opener;
    ferry_buffer *own, *other;
    ferry_future *futures[FUTURES_MAX]; /* of messages and batches */
    size_t future_count;
} rig;

/* Both ends of a lane are opened one after the other: a test has one hello at a time. */
static ferry_status open_connection(void *arg, fry_channel_path path,
                                    const fry_peer_options *options,
                                    const fry_connection_session *session,
                                    fry_peer_connection **connection_p, fry_channel **channel_p,
                                    void *address, size_t *address_bytes, fry_fault *fault)
{
    rig *r = arg;
    (void)path, (void)fault;
    *connection_p = fry_peer_connection_open(options, session);
    if (*connection_p == NULL)
        return FERRY_E_NO_MEMORY;
    (void)pthread_mutex_lock(&r->mutex);
    if (!r->is_half_open) {
        cr_assert_lt(r->wire_count, WIRES_MAX);
        r->wires[r->wire_count++] = fake_wire_open(&r->options);
    }
    *channel_p = fake_wire_end(r->wires[r->wire_count - 1], r->is_half_open,
                               &fry_peer_channel_events, fry_peer_channel_arg(*connection_p));
    r->is_half_open = !r->is_half_open;
    if (r->starves && options->own_rank == 0)
        failing_allocator_arm(&r->members[0].te.memory, 1, true);
    (void)pthread_mutex_unlock(&r->mutex);
    memset(address, 0, 8);
    *address_bytes = 8;
    return FERRY_OK;
}

static ferry_status connect_connection(void *arg, fry_channel *channel, const void *address,
                                       size_t address_bytes, fry_fault *fault)
{
    (void)arg, (void)channel, (void)address, (void)address_bytes, (void)fault;
    return FERRY_OK;
}

static void close_connection(void *arg, fry_peer_connection *lane)
{
    (void)arg;
    fry_peer_connection_close(lane);
}

static fake_wire *wire_of(rig *r)
{
    (void)pthread_mutex_lock(&r->mutex);
    cr_assert_gt(r->wire_count, 0);
    fake_wire *wire = r->wires[r->wire_count - 1];
    (void)pthread_mutex_unlock(&r->mutex);
    return wire;
}

/* ---- two engines ---- */

/* Each once; time passes as long as neither has anything to do, if it is the test's. */
static void turn(rig *r)
{
    int64_t done = r->members[0].loop == FERRY_LOOP_THREAD;
    for (size_t i = 0; i < 2; i++) {
        if (r->members[i].loop == FERRY_LOOP_EMBEDDED)
            done += ferry_engine_progress(r->members[i].te.engine, 0);
    }
    if (done == 0) {
        for (size_t i = 0; i < 2; i++)
            stepped_clock_step(&r->members[i].te.time, 1000000);
    }
}

/* Until what can happen without the test has: nothing but these turns moves either engine, and a
 * message takes fewer. */
static void run_still(rig *r)
{
    cr_assert_eq(r->members[0].loop, FERRY_LOOP_EMBEDDED, "a thread moves as it likes");
    cr_assert_eq(r->members[1].loop, FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < STILL; i++)
        turn(r);
}

static ferry_status end_of(rig *r, ferry_future *future)
{
    while (ferry_future_poll(future) == FERRY_PENDING)
        turn(r);
    return ferry_future_poll(future);
}

static void assert_quiet(rig *r, ferry_future *future)
{
    ferry_future *quiet = ferry_future_quiet(future);
    ASSERT_STATUS(end_of(r, quiet), FERRY_OK);
    ferry_future_release(quiet);
}

static void rig_open(rig *r, ferry_loop_mode own_loop, uint32_t nodes_max, uint32_t unexpected_max)
{
    ferry_future *joins[2];
    (void)pthread_mutex_init(&r->mutex, NULL);
    r->options.eager_bytes_max = EAGER_MAX;
    r->opener = (fry_connection_opener){.arg = r,
                                        .open = open_connection,
                                        .connect = connect_connection,
                                        .close_connection = close_connection};
    for (uint32_t i = 0; i < 2; i++) {
        test_member *member = &r->members[i];
        member->loop = i == 0 ? own_loop : FERRY_LOOP_EMBEDDED;
        ferry_engine_options options = test_engine_options(&member->te, member->loop);
        options.max_nodes = i == 0 ? nodes_max : 0;
        options.wait_spin_ns = INT64_C(1000000000) * HANG_S;
        test_engine_create(&member->te, &options);
        member->te.engine->connection_opener = &r->opener;
        ferry_group_options group = test_group_options(2, (ferry_rank)i);
        group.deadline_ns = 0;
        if (unexpected_max != 0)
            group.unexpected_max = unexpected_max;
        joins[i] = ferry_group_join(member->te.engine, &group, &member->group);
    }
    for (size_t i = 0; i < 2; i++) {
        ASSERT_STATUS(end_of(r, joins[i]), FERRY_OK);
        ferry_future_release(joins[i]);
    }
    r->own = test_buffer(&r->members[0].te, 0, LARGE, 1);
    r->other = test_buffer(&r->members[1].te, 0, LARGE, 2);
}

static void rig_close(rig *r)
{
    (void)pthread_mutex_lock(&r->mutex);
    for (size_t i = 0; i < r->wire_count; i++)
        fake_wire_hold(r->wires[i], 0);
    (void)pthread_mutex_unlock(&r->mutex);
    while (r->future_count > 0)
        ferry_future_release(r->futures[--r->future_count]);
    ferry_buffer_release(r->own);
    ferry_buffer_release(r->other);
    test_members_close(r->members, 2);
    for (size_t i = 0; i < r->wire_count; i++)
        fake_wire_close(r->wires[i]);
}

/* The rig gives it back in the end. */
static ferry_future *keep_until_the_end(rig *r, ferry_future *future)
{
    cr_assert_lt(r->future_count, FUTURES_MAX);
    return r->futures[r->future_count++] = future;
}

#define RIG(name_, ...)                                                                            \
    OWNED(rig_close) rig name_ = {0};                                                              \
    rig_open(&(name_), __VA_ARGS__)

static ferry_future *message(rig *r, size_t at, bool is_send, size_t size_bytes,
                             const ferry_op_options *options)
{
    ferry_span span = span_of(at == 0 ? r->own : r->other, 0, size_bytes);
    return keep_until_the_end(r, (is_send ? ferry_send : ferry_recv)(
                                     r->members[at].group, (ferry_rank)(1 - at), 7, span, options));
}

/* A lane is there from now on, over which everything has been said. */
static void make_lane(rig *r)
{
    ferry_future *send = message(r, 0, true, SMALL, NULL);
    run_still(r);
    ferry_future *recv = message(r, 1, false, SMALL, NULL);
    ASSERT_STATUS(end_of(r, recv), FERRY_OK);
    ASSERT_STATUS(end_of(r, send), FERRY_OK);
    cr_assert(is_filled(r->other, 0, SMALL, 1));
    memset(ferry_buffer_data(r->other), 2, LARGE);
    run_still(r);
}

/* ---- states and ends ---- */

typedef enum state {
    SEND_HELD,      /* waits for a promise */
    SEND_LANELESS,  /* ready, and there is no lane yet */
    SEND_POSTED,    /* its memory is being read */
    SEND_ANNOUNCED, /* is to be pulled */
    SEND_PULLED,    /* is being pulled */
    SEND_DELIVERED, /* has left; there is no receive yet */
    RECV_HELD,
    RECV_LANELESS,
    RECV_POSTED,     /* waits for a message */
    RECV_TAKEN_HELD, /* its message is there; waits for a promise */
    RECV_PULLING,    /* its memory is being written */
    STATES,
} state;

typedef enum end {
    CANCEL,
    CANCEL_BATCH, /* that it is in */
    DEADLINE,
    POISON,    /* what it depends on fails */
    LANE_LOST, /* */
    OTHER_LEAVES,
    OWN_LEAVES,
    SHUTDOWN,
    ENDS,
} end;

static bool is_send(state state)
{
    return state < RECV_HELD;
}

static bool is_held(state state)
{
    return state == SEND_HELD || state == RECV_HELD || state == RECV_TAKEN_HELD;
}

typedef struct reached {
    ferry_future *own, *other; /* other: NULL, it has yet to be submitted */
    ferry_promise *promise;    /* is_held */
    ferry_future *batch;       /* CANCEL_BATCH */
} reached;

static size_t size_of(state state)
{
    bool is_large = state == SEND_ANNOUNCED || state == SEND_PULLED || state == RECV_PULLING;
    return is_large ? LARGE : SMALL;
}

/* The same, in a batch. */
static ferry_future *message_in_batch(rig *r, state state, const ferry_op_options *options,
                                      ferry_future **own_p)
{
    ferry_op op = {.kind = is_send(state) ? FERRY_OP_SEND : FERRY_OP_RECV,
                   .options = options,
                   .group = r->members[0].group,
                   .peer = 1,
                   .tag = 7};
    *(is_send(state) ? &op.src : &op.dst) = span_of(r->own, 0, size_of(state));
    ferry_future *batch = ferry_batch(r->members[0].te.engine, &op, sizeof op, 1, own_p, NULL);
    (void)keep_until_the_end(r, *own_p);
    return keep_until_the_end(r, batch);
}

/* Brings a message of engine 0's into the state. */
static reached reach(rig *r, state state, end end)
{
    reached at = {NULL, NULL, NULL, NULL};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *after = NULL;
    if (is_held(state)) {
        at.promise = test_promise(&r->members[0].te);
        after = ferry_promise_future(at.promise);
        options.after = &after;
        options.after_count = 1;
    }
    bool is_laneless = state == SEND_LANELESS || state == RECV_LANELESS;
    if (!is_laneless)
        make_lane(r);
    if (state == SEND_POSTED)
        fake_wire_hold(wire_of(r), FAKE_HOLD_POSTS);
    if (state == SEND_PULLED || state == RECV_PULLING)
        fake_wire_hold(wire_of(r), FAKE_HOLD_PULLS);
    if (end == DEADLINE)
        options.deadline_ns = r->members[0].te.time.now_ns + DEADLINE_NS;
    if (end == CANCEL_BATCH)
        at.batch = message_in_batch(r, state, &options, &at.own);
    else
        at.own = message(r, 0, is_send(state), size_of(state), &options);
    ferry_future_release(after);
    if (state == SEND_PULLED || state == RECV_PULLING || state == RECV_TAKEN_HELD)
        at.other = message(r, 1, !is_send(state), size_of(state), NULL);
    if (!is_laneless)
        run_still(r);
    cr_assert_eq(ferry_future_poll(at.own), FERRY_PENDING);
    return at;
}

static void make_end(rig *r, const reached *at, end end)
{
    ferry_future *left = NULL;
    switch (end) {
    case CANCEL:
        ASSERT_STATUS(ferry_future_cancel(at->own), FERRY_OK);
        break;
    case CANCEL_BATCH:
        ASSERT_STATUS(ferry_future_cancel(at->batch), FERRY_OK);
        break;
    case DEADLINE:
        stepped_clock_step(&r->members[0].te.time, DEADLINE_NS);
        break;
    case POISON:
        ASSERT_STATUS(ferry_promise_resolve(at->promise, FERRY_E_FAILED, NULL), FERRY_OK);
        break;
    case LANE_LOST:
        fake_wire_cut(wire_of(r));
        break;
    case OTHER_LEAVES:
    case OWN_LEAVES:
        left = ferry_group_leave(r->members[end == OTHER_LEAVES].group);
        run_still(r);
        while (ferry_future_poll(left) == FERRY_PENDING) { /* it lingers, and then parts */
            stepped_clock_step(&r->members[end == OTHER_LEAVES].te.time, DEADLINE_NS);
            run_still(r);
        }
        ASSERT_STATUS(ferry_future_poll(left), FERRY_OK);
        ferry_future_release(left);
        break;
    default:
        ASSERT_STATUS(ferry_engine_shutdown(r->members[0].te.engine, -1), FERRY_OK);
    }
}

/* What both ends come to. */
typedef struct outcome {
    ferry_status own, own_cause, other, other_cause;
} outcome;

static outcome expected(state state, end end)
{
    /* Its data has gone, or is being fetched and can't be called back. */
    bool is_sent = state == SEND_POSTED || state == SEND_PULLED || state == SEND_DELIVERED;
    ferry_status own = end == DEADLINE ? FERRY_E_DEADLINE : FERRY_E_CANCELLED;
    ferry_status cause = end == CANCEL_BATCH ? FERRY_E_CANCELLED : FERRY_OK;
    switch (end) {
    case CANCEL:
    case CANCEL_BATCH:
    case DEADLINE:
        if (is_sent)
            return (outcome){own, cause, FERRY_OK, FERRY_OK};
        return (outcome){own, cause, FERRY_E_DEPENDENCY, own};
    case POISON:
        return (outcome){FERRY_E_DEPENDENCY, FERRY_E_FAILED, FERRY_E_DEPENDENCY, FERRY_E_FAILED};
    case LANE_LOST:
        return (outcome){FERRY_E_PEER, FERRY_OK, FERRY_E_PEER, FERRY_OK};
    case OTHER_LEAVES:
        return (outcome){FERRY_E_DEAD, FERRY_OK, FERRY_E_CANCELLED, FERRY_OK};
    case OWN_LEAVES:
        return (outcome){FERRY_E_CANCELLED, FERRY_OK, FERRY_E_DEAD, FERRY_OK};
    default:
        return (outcome){FERRY_E_SHUTDOWN, FERRY_OK, FERRY_E_DEAD, FERRY_OK};
    }
}

static const ferry_error *cause_of(ferry_future *future)
{
    const ferry_error *error = ferry_future_error(future);
    return error != NULL ? error->cause : NULL;
}

static void assert_outcome(ferry_future *future, ferry_status status, ferry_status cause,
                           ferry_rank cause_rank)
{
    ASSERT_STATUS(ferry_future_poll(future), status);
    const ferry_error *found = cause_of(future);
    ASSERT_STATUS(found != NULL ? found->status : FERRY_OK, cause);
    if (found != NULL)
        cr_assert_eq(found->rank, cause_rank, "rank %u", found->rank);
}

/* Memory of a receive that did not come about: nothing is written once it is quiet. */
static void assert_untouched_from_now(rig *r)
{
    memset(ferry_buffer_data(r->own), 9, LARGE);
    run_still(r);
    cr_assert(is_filled(r->own, 0, LARGE, 9));
}

static void end_other(rig *r, const reached *at, state state, const outcome *outcome)
{
    (void)end_of(r, at->other);
    assert_outcome(at->other, outcome->other, outcome->other_cause, 0);
    if (outcome->other == FERRY_OK && is_send(state))
        cr_assert(is_filled(r->other, 0, size_of(state), 1));
    assert_quiet(r, at->other);
}

static void try_end(state state, end end)
{
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
    reached at = reach(&r, state, end);
    outcome outcome = expected(state, end);
    make_end(&r, &at, end);
    (void)end_of(&r, at.own);
    assert_outcome(at.own, outcome.own, outcome.own_cause, FERRY_RANK_NONE);
    bool is_of_lane = end == LANE_LOST || end == OTHER_LEAVES;
    cr_assert(!is_of_lane || ferry_future_error(at.own)->rank == 1);
    if (r.wire_count != 0)
        fake_wire_hold(wire_of(&r), 0);
    if (end != SHUTDOWN) {
        assert_quiet(&r, at.batch != NULL ? at.batch : at.own);
        if (!is_send(state))
            assert_untouched_from_now(&r);
    }
    /* Who comes later is told too, while there is somebody who has not forgotten. */
    if (at.other == NULL && end <= POISON)
        at.other = message(&r, 1, !is_send(state), size_of(state), NULL);
    if (at.other != NULL)
        end_other(&r, &at, state, &outcome);
    if (at.promise != NULL && end != POISON)
        (void)ferry_promise_resolve(at.promise, FERRY_OK, NULL);
    ferry_promise_release(at.promise);
    if (at.batch != NULL)
        ASSERT_STATUS(ferry_future_poll(at.batch), FERRY_E_CANCELLED);
}

static void try_ends(end end)
{
    for (state state = 0; state < STATES; state++) {
        bool is_laneless = state == SEND_LANELESS || state == RECV_LANELESS;
        if ((end == POISON && !is_held(state)) || (end == LANE_LOST && is_laneless))
            continue;
        try_end(state, end);
    }
}

/* Left by the other end: the word that it leaves was under way over the lane, and is lost with it.
 */
#define ENDS_IN_EVERY_STATE(X)                                                                     \
    X(are_cancelled_in_every_state, CANCEL)                                                        \
    X(are_cancelled_with_their_batch_in_every_state, CANCEL_BATCH)                                 \
    X(have_deadlines_in_every_state, DEADLINE)                                                     \
    X(are_poisoned_while_they_are_held, POISON)                                                    \
    X(lose_their_lane_in_every_state, LANE_LOST)                                                   \
    X(are_left_by_the_other_end_in_every_state, OTHER_LEAVES)                                      \
    X(are_left_by_this_end_in_every_state, OWN_LEAVES)                                             \
    X(are_shut_down_in_every_state, SHUTDOWN)

#define TEST_ENDS(name_, end_)                                                                     \
    Test(engine_messages, name_)                                                                   \
    {                                                                                              \
        try_ends(end_);                                                                            \
    }
ENDS_IN_EVERY_STATE(TEST_ENDS)

/* ---- no room ---- */

Test(engine_messages, past_what_may_be_unexpected_are_refused)
{
    ferry_future *futures[3];
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 2);
    make_lane(&r);
    for (int is_send = 1; is_send >= 0; is_send--) { /* a refused receive poisons its span */
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.label = "one too many";
        for (size_t i = 0; i < 3; i++)
            futures[i] = message(&r, 0, is_send, SMALL, &options);
        ferry_future *behind = keep_until_the_end(&r, nop_after(&r.members[0].te, futures[2]));
        ASSERT_STATUS(end_of(&r, futures[2]), FERRY_E_AGAIN);
        const ferry_error *error = ferry_future_error(futures[2]);
        ASSERT_STATUS(error->status, FERRY_E_AGAIN);
        cr_assert_eq(error->op, ferry_future_id(futures[2]));
        cr_assert_str_eq(error->label, "one too many");
        cr_assert_not_null(strstr(error->message, "unexpected_max"), "%s", error->message);
        ASSERT_STATUS(end_of(&r, behind), FERRY_E_DEPENDENCY);
        cr_assert_eq(ferry_future_error(behind)->cause, error);
        assert_quiet(&r, futures[2]);
        for (size_t i = 0; i < 2; i++) {
            ferry_future *other = message(&r, 1, !is_send, SMALL, NULL);
            ASSERT_STATUS(end_of(&r, other), FERRY_OK);
            ASSERT_STATUS(end_of(&r, futures[i]), FERRY_OK);
        }
    }
}

Test(engine_messages, past_the_engines_nodes_are_refused)
{
    enum { NODES = 32 };
    ferry_future *futures[NODES + 1];
    RIG(r, FERRY_LOOP_EMBEDDED, NODES, 0);
    make_lane(&r);
    size_t count = 0;
    do {
        cr_assert_leq(count, NODES);
        futures[count] = message(&r, 0, false, SMALL, NULL);
    } while (ferry_future_poll(futures[count++]) == FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(futures[count - 1]), FERRY_E_AGAIN);
    for (size_t i = 0; i < count; i++) {
        (void)ferry_future_cancel(futures[i]);
        (void)end_of(&r, futures[i]);
    }
    run_still(&r);
}

/* ---- ends that are seen by who is not the loop ---- */

/* A message of another length is there already: the submitter finds that out, with the baton. */
static void submit_wrong_length(rig *r, ferry_future **own_p, ferry_future **other_p)
{
    make_lane(r);
    *other_p = message(r, 1, true, SMALL, NULL);
    run_still(r);
    *own_p = message(r, 0, false, 2 * SMALL, NULL);
    ASSERT_STATUS(ferry_future_poll(*own_p), FERRY_PENDING);
    cr_assert_not_null(r->members[0].te.engine->members->faulted.first);
}

static void end_wrong_length(rig *r, ferry_future *own, ferry_future *other, ferry_status status)
{
    ASSERT_STATUS(end_of(r, own), status);
    assert_quiet(r, own);
    ASSERT_STATUS(end_of(r, other), FERRY_E_LENGTH);
    cr_assert_not_null(strstr(ferry_future_error(other)->message, "64"));
    cr_assert_not_null(strstr(ferry_future_error(other)->message, "128"));
}

Test(engine_messages, that_a_submitter_finds_failed_are_failed_by_the_loop)
{
    ferry_future *own, *other;
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
    submit_wrong_length(&r, &own, &other);
    end_wrong_length(&r, own, other, FERRY_E_LENGTH);
}

Test(engine_messages, that_are_cancelled_before_the_loop_could_fail_them)
{
    ferry_future *own, *other;
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
    submit_wrong_length(&r, &own, &other);
    ASSERT_STATUS(ferry_future_cancel(own), FERRY_OK);
    end_wrong_length(&r, own, other, FERRY_E_CANCELLED);
}

Test(engine_messages, that_lose_their_lane_before_the_loop_could_fail_them)
{
    ferry_future *own, *other;
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
    submit_wrong_length(&r, &own, &other);
    fake_wire_cut(wire_of(&r));
    ASSERT_STATUS(end_of(&r, own), FERRY_E_LENGTH);
    assert_quiet(&r, own);
    ASSERT_STATUS(end_of(&r, other), FERRY_E_PEER);
}

/* ---- a thread that looks ---- */

static void *wait_for(void *arg)
{
    return ferry_future_wait(arg, -1) == FERRY_OK ? arg : NULL;
}

static bool is_polled(rig *r)
{
    return fry_load_seq_cst(&r->members[0].te.engine->members->has_polled) != 0;
}

/*
 * The channel is armed and the loop asleep. A waiting thread takes what comes, before the loop's
 * poller has seen the descriptor, which then tells nothing; and goes its way. What it took is
 * answered, by the loop.
 */
Test(engine_messages, taken_by_a_waiting_thread_from_an_armed_channel_are_answered)
{
    OWNED(rig_close) rig r = {.options = {.has_event = true}};
    rig_open(&r, FERRY_LOOP_THREAD, 0, 0);
    for (int i = 0; i < 8; i++) { /* the first makes the lane */
        ferry_future *recv = message(&r, 0, false, SMALL, NULL);
        while (is_polled(&r))
            (void)sched_yield();
        pthread_t thread;
        void *waited = NULL;
        cr_assert_eq(pthread_create(&thread, NULL, wait_for, recv), 0);
        ferry_future *send = message(&r, 1, true, SMALL, NULL);
        while (ferry_future_poll(recv) == FERRY_PENDING)
            turn(&r);
        cr_assert_eq(pthread_join(thread, &waited), 0);
        cr_assert_eq(waited, recv);
        ASSERT_STATUS(end_of(&r, send), FERRY_OK);
    }
}

/* The other end called: here is nothing yet of that member's, and no memory for it. */
Test(engine_messages, end_clearly_when_the_lane_finds_no_memory_for_its_peer)
{
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
    failing_allocator *memory = &r.members[0].te.memory;
    uint64_t failures = failing_allocator_failures(memory);
    r.starves = true;
    ferry_future *send = message(&r, 1, true, SMALL, NULL);
    ASSERT_STATUS(end_of(&r, send), FERRY_E_PEER);
    assert_quiet(&r, send);
    cr_assert_gt(failing_allocator_failures(memory), failures);
    run_still(&r);
    cr_assert_null(r.members[0].group->routes[1].peer);
    r.starves = false;
    failing_allocator_arm(memory, 0, false);
    make_lane(&r);
}

/* ---- a channel that sleeps ---- */

/* The loop sleeps, and all there is of the lane is armed, or looked at in a moment. */
static fry_route *rest(rig *r)
{
    make_lane(r);
    run_still(r);
    while (ferry_engine_arm(r->members[0].te.engine) != FERRY_OK)
        turn(r);
    return &r->members[0].group->routes[1];
}

/* A launch that has left at once sets the time, and nothing else tells the loop of it. */
Test(engine_messages, a_channel_is_looked_at_when_it_wants_to_be)
{
    OWNED(rig_close) rig r = {.options = {.has_event = true}};
    rig_open(&r, FERRY_LOOP_EMBEDDED, 0, 0);
    ferry_engine *engine = r.members[0].te.engine;
    fry_route *route = rest(&r);
    cr_assert_not(route->is_polled);
    cr_assert_eq(engine->poller.timer_ns, 0);

    fry_turn turn_;
    route->link->channel->look_ns = fry_clock_monotonic_ns() + 10000000;
    cr_assert(fry_turn_begin(&turn_, engine, fry_context_get(engine), false));
    fry_route_launched(&turn_, route);
    (void)fry_turn_end(&turn_, 0);
    cr_assert_eq(engine->asleep, FRY_AWAKE);
    while (ferry_engine_arm(engine) != FERRY_OK)
        (void)ferry_engine_progress(engine, 0);
    cr_assert_not(route->is_polled);
    cr_assert_eq(engine->poller.timer_ns, route->link->channel->look_ns);

    struct pollfd readable = {.fd = ferry_engine_fd(engine), .events = POLLIN};
    cr_assert_eq(poll(&readable, 1, -1), 1);
    route->link->channel->look_ns = 0; /* as the look does */
    cr_assert_geq(ferry_engine_progress(engine, 0), 0);
    cr_assert(route->is_polled);
    while (ferry_engine_arm(engine) != FERRY_OK)
        (void)ferry_engine_progress(engine, 0);
    cr_assert_not(route->is_polled);
    cr_assert_null(engine->members->look_times.first);
}

/* As one whose descriptor the kernel refuses to watch. */
Test(engine_messages, a_channel_that_is_stuck_is_looked_at_in_a_moment)
{
    OWNED(rig_close) rig r = {.options = {.has_event = true}};
    rig_open(&r, FERRY_LOOP_EMBEDDED, 0, 0);
    ferry_engine *engine = r.members[0].te.engine;
    fry_route *route = rest(&r);
    fry_turn turn_;
    fry_poller_remove(&engine->poller, &route->watch);
    route->is_watched = false;
    cr_assert(fry_turn_begin(&turn_, engine, fry_context_get(engine), false));
    fry_route_poll(route);
    (void)fry_turn_end(&turn_, 0);
    ferry_future *send = message(&r, 1, true, SMALL, NULL);
    ferry_future *recv = message(&r, 0, false, SMALL, NULL);
    ASSERT_STATUS(end_of(&r, recv), FERRY_OK);
    ASSERT_STATUS(end_of(&r, send), FERRY_OK);
    cr_assert(route->is_polled);
    for (int i = 0; i < 3; i++) {
        int64_t start_ns = fry_clock_monotonic_ns();
        while (ferry_engine_arm(engine) != FERRY_OK)
            (void)ferry_engine_progress(engine, 0);
        cr_assert(route->is_polled);
        cr_assert_geq(engine->poller.timer_ns, start_ns + 1000000);
        cr_assert_leq(engine->poller.timer_ns, fry_clock_monotonic_ns() + 1000000);
        struct pollfd readable = {.fd = ferry_engine_fd(engine), .events = POLLIN};
        cr_assert_eq(poll(&readable, 1, -1), 1);
        cr_assert_geq(ferry_engine_progress(engine, 0), 0);
    }
}

/* As a loop that sleeps: what is due by the test's clock, and what the poller has. No time passes.
 */
static void run_awake(rig *r, int turns)
{
    for (int i = 0; i < turns; i++) {
        for (size_t k = 0; k < 2; k++) {
            (void)fry_poller_wait(&r->members[k].te.engine->poller, 0);
            (void)ferry_engine_progress(r->members[k].te.engine, 0);
        }
    }
}

/* The hello that it needs is due at once. */
Test(engine_messages, without_a_lane_wait_for_no_time_to_pass)
{
    RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
    run_awake(&r, 10);
    (void)message(&r, 0, true, SMALL, NULL);
    run_awake(&r, 100);
    cr_assert_eq(r.wire_count, 1);
}

/*
 * The lane of a message that is under way is lost, and the other end calls again at once. Whoever
 * has the baton keeps it meanwhile, as a thread may that is not scheduled: so the loop has
 * destroyed the channel and could not tell the peer so yet. The next lane must not come in the way
 * of that.
 */
Test(engine_messages, become_quiet_though_the_next_lane_is_there_at_once)
{
    for (state state = SEND_PULLED; state <= RECV_PULLING; state += RECV_PULLING - SEND_PULLED) {
        RIG(r, FERRY_LOOP_EMBEDDED, 0, 0);
        reached at = reach(&r, state, false);
        fry_route *route = &r.members[0].group->routes[1];
        ferry_engine *engine = r.members[0].te.engine;
        fake_wire_cut(wire_of(&r));
        while (route->link->state != FRY_LINK_DESTROYED)
            turn(&r);

        fry_turn held;
        cr_assert(fry_turn_begin(&held, engine, fry_context_get(engine), false));
        ferry_future *next = message(&r, 1, true, 0, NULL);
        /* The other end waits 0.2 s, then calls. */
        for (int i = 0; i < 20; i++) {
            run_awake(&r, 50);
            for (size_t k = 0; k < 2; k++)
                stepped_clock_step(&r.members[k].te.time, 20000000);
        }
        cr_assert_eq(route->link->state, FRY_LINK_DESTROYED);
        (void)fry_turn_end(&held, 0);

        ferry_future *came = message(&r, 0, false, 0, NULL);
        ASSERT_STATUS(end_of(&r, came), FERRY_OK);
        ASSERT_STATUS(end_of(&r, next), FERRY_OK);
        ASSERT_STATUS(end_of(&r, at.own), FERRY_E_PEER);
        assert_quiet(&r, at.own);
        ASSERT_STATUS(end_of(&r, at.other), FERRY_E_PEER);
        assert_quiet(&r, at.other);
    }
}
