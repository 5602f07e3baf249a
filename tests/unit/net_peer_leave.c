/* SPDX-License-Identifier: Apache-2.0 */
/* Ends that leave: what they sent and received is known at the other end when they have gone. */
#include "net/peer/state.h"
#include "tests/support/effort.h"
#include "tests/unit/peer_pair.h"

TestSuite(net_peer_leave, .timeout = 60);

static const fry_fault leaving = {
    .status = FERRY_E_CANCELLED, .rank = 10, .message = "this member leaves"};

/* ---- stopping ---- */

Test(net_peer_leave, receives_are_stopped_and_sends_are_not)
{
    PAIR(p);
    pair_op *sends[] = {pair_send(p, 0, 1, 8), pair_send(p, 0, 2, 4000),
                        pair_enter(p, 0, true, 3, 8)};
    pair_op *receives[] = {pair_receive(p, 0, 4, 8), pair_enter(p, 0, false, 5, 8)};
    pair_op *refused[] = {pair_send(p, 1, 4, 8), pair_send(p, 1, 5, 8)};
    fry_peer_stop(p->ends[0].peer, false, FERRY_E_CANCELLED, &leaving, NULL);
    pair_run(p);
    for (int i = 0; i < 2; i++) {
        expect_over(receives[i], FERRY_E_CANCELLED);
        cr_expect_str_eq(receives[i]->fault.message, "this member leaves");
        expect_over(refused[i], FERRY_E_DEAD);
        cr_expect_str_eq(refused[i]->fault.message, "the member left");
    }
    pair_op *got[] = {pair_receive(p, 1, 1, 8), pair_receive(p, 1, 2, 4000),
                      pair_receive(p, 1, 3, 8)};
    fry_peer_ready(&sends[2]->message, NULL);
    pair_run(p);
    for (int i = 0; i < 3; i++)
        expect_met(sends[i], got[i]);
}

Test(net_peer_leave, all_is_stopped_in_every_state)
{
    PAIR(p);
    pair_op *pulling = pair_receive(p, 0, 1, 4000);
    (void)pair_send(p, 1, 1, 4000);
    fake_wire_hold(p->wire, FAKE_HOLD_PULLS);
    for (int i = 0; i < 3; i++)
        pair_turn(p, 0);
    pair_op *ops[] = {
        pair_send(p, 0, 2, 8), /* has left */
        pair_enter(p, 0, true, 2, 8),
        pair_receive(p, 0, 3, 8),
        pair_enter(p, 0, false, 3, 8),
    };
    pair_op *pulled = pair_send(p, 0, 2, 4000);
    fry_peer_stop(p->ends[0].peer, true, FERRY_E_CANCELLED, &leaving, NULL);
    for (int i = 0; i < 4; i++)
        expect_over(ops[i], FERRY_E_CANCELLED);
    cr_expect_eq(pulling->resolved + pulled->resolved, 2);
    cr_expect_eq(pulling->quiet + pulled->quiet, 0, "their memory may be in use");
    fake_wire_hold(p->wire, 0);
    pair_run(p);
    expect_over(pulling, FERRY_E_CANCELLED);
    expect_over(pulled, FERRY_E_CANCELLED);
    /* What was recalled, and what never left. */
    pair_op *got[] = {pair_receive(p, 1, 2, 8), pair_receive(p, 1, 2, 8),
                      pair_receive(p, 1, 2, 4000)};
    pair_run(p);
    expect_over(got[0], FERRY_OK);
    expect_over(got[1], FERRY_E_DEAD);
    expect_over(got[2], FERRY_E_DEAD);
}

static pair_op *couple[2];

/* What fails with the first, the graph's way: as what depends on it. */
static void resolve_couple(void *turn, fry_message *message, ferry_status status,
                           const fry_fault *fault)
{
    pair_resolved(turn, message, status, fault);
    pair_op *other = couple[(pair_op *)message == couple[0]];
    if (other->resolved > 0)
        return;
    other->resolved++;
    other->status = FERRY_E_DEPENDENCY;
    fry_peer_withdraw(&other->message, &leaving, turn);
}

/* Also where there is no memory to remember that by but the message's own. */
Test(net_peer_leave, an_event_may_end_another)
{
    for (int has_memory = 0; has_memory < 2; has_memory++) {
        PAIR(p);
        fry_peer_events events = pair_events;
        events.resolved = resolve_couple;
        p->ends[0].peer->options.events = &events;
        for (int i = 0; i < 2; i++)
            couple[i] = pair_enter(p, 0, false, 1, 8);
        failing_allocator_arm(&p->allocator, has_memory ? 0 : 1, true);
        fry_peer_stop(p->ends[0].peer, false, FERRY_E_CANCELLED, &leaving, NULL);
        failing_allocator_arm(&p->allocator, 0, false);
        pair_run(p);
        for (int i = 0; i < 2; i++)
            cr_expect_eq(couple[i]->resolved, 1);
        cr_expect_eq((int)couple[0]->status + (int)couple[1]->status,
                     (int)FERRY_E_DEPENDENCY + (int)FERRY_E_CANCELLED);
    }
}

/*
 * A receive that was withdrawn keeps its place for the message that may come, if only by itself
 * where there is no memory for more. Nothing comes any more after the stop: who leaves does not
 * wait for it. Withdrawn before, by the stop, or from within it, with a connection or none, also to
 * oneself.
 */
static void stop_with_withdrawn(int end_count, bool has_connection, bool has_memory)
{
    PAIR_INIT(p);
    p->end_count = end_count;
    pair_open_peers(p);
    if (has_connection)
        pair_attach(p);
    fry_peer *peer = p->ends[0].peer;
    fry_peer_events events = pair_events;
    events.resolved = resolve_couple;
    pair_op *before[] = {pair_enter(p, 0, false, 1, 8), pair_receive(p, 0, 1, 8)};
    failing_allocator_arm(&p->allocator, has_memory ? 0 : 1, true);
    for (int i = 0; i < 2; i++)
        pair_withdraw(before[i]);
    failing_allocator_arm(&p->allocator, 0, false);
    pair_op *by_it = pair_receive(p, 0, 1, 8);
    for (int i = 0; i < 2; i++)
        couple[i] = pair_receive(p, 0, 2, 8);
    peer->options.events = &events;
    failing_allocator_arm(&p->allocator, has_memory ? 0 : 1, true);
    fry_peer_stop(peer, end_count == 1, FERRY_E_CANCELLED, &leaving, NULL);
    failing_allocator_arm(&p->allocator, 0, false);
    pair_op *stopped[] = {before[0], before[1], by_it, couple[0], couple[1]};
    for (int i = 0; i < 5; i++)
        cr_expect_eq(stopped[i]->quiet, 1, "%d of %d ends, connection %d, memory %d", i, end_count,
                     has_connection, has_memory);
    cr_expect_eq(peer->open_count, 0);
    cr_expect_eq(peer->receive_count, 0);
    cr_expect_eq(peer->open.open_next, &peer->open, "a ghost is left");
    peer->options.events = &pair_events;
}

Test(net_peer_leave, what_kept_a_place_is_over)
{
    for (int how = 0; how < 8; how++)
        stop_with_withdrawn(1 + how % 2, how & 2, how & 4);
}

/* ---- parting ---- */

static bool part(pair *p, int end)
{
    return fry_peer_part(p->ends[end].peer, NULL);
}

static void destroy(pair *p, int end)
{
    pair_detach(p, end, FERRY_E_CANCELLED);
    pair_destroy(p, end);
}

static void hear_of_the_end(pair *p, int end)
{
    for (int i = 0; i < 1000 && p->ends[end].failed == 0; i++)
        pair_turn(p, end);
    cr_expect_eq(p->ends[end].failed, 1);
}

/* On one host what was posted is enough; between hosts the other end has to have heard it. */
Test(net_peer_leave, a_farewell_is_awaited_between_hosts)
{
    for (int is_net = 0; is_net < 2; is_net++) {
        PAIR_WITH(p, wire_options.is_net = is_net);
        pair_op *send = pair_send(p, 1, 1, 8);
        pair_op *receive = pair_receive(p, 0, 1, 8);
        pair_op *lost = pair_send(p, 1, 1, 8);
        while (receive->resolved == 0)
            pair_turn(p, 0);
        cr_expect_eq(send->resolved, 0);
        cr_expect_eq(part(p, 0), !is_net);
        if (is_net) {
            pair_turn(p, 0);
            cr_expect_not(part(p, 0));
            hear_of_the_end(p, 1);
            while (p->ends[0].parted == 0)
                pair_turn(p, 0);
            cr_expect(part(p, 0));
        }
        destroy(p, 0);
        if (!is_net)
            hear_of_the_end(p, 1);
        cr_expect_eq(p->ends[1].failure.status, FERRY_E_DEAD);
        expect_over(send, FERRY_OK);
        cr_expect_eq(lost->resolved, 0);
        pair_detach(p, 1, FERRY_E_DEAD);
        expect_over(lost, FERRY_E_DEAD);
    }
}

/* Posts that are under way may be lost with the channel; so it is kept for them. */
Test(net_peer_leave, what_is_under_way_is_awaited)
{
    PAIR(p);
    pair_op *send = pair_send(p, 1, 1, 8);
    pair_op *receive = pair_receive(p, 0, 1, 8);
    while (receive->resolved == 0)
        pair_turn(p, 0);
    fake_wire_hold(p->wire, FAKE_HOLD_POSTS);
    for (int i = 0; i < 5; i++) {
        cr_expect_not(part(p, 0));
        pair_turn(p, 0);
    }
    fake_wire_hold(p->wire, 0);
    while (p->ends[0].parted == 0)
        pair_turn(p, 0);
    cr_expect(part(p, 0));
    destroy(p, 0);
    hear_of_the_end(p, 1);
    expect_over(send, FERRY_OK);
}

/* Answers may stand in the header of an offer, of which no post tells whether it has left. */
Test(net_peer_leave, headers_that_have_yet_to_leave_are_awaited)
{
    PAIR(p);
    p->ends[0].channel->leaving = 1;
    cr_expect_not(part(p, 0));
    pair_turn(p, 0);
    cr_expect_not(part(p, 0));
    p->ends[0].channel->leaving = 0;
    cr_expect(part(p, 0));
}

/* BYE comes first, and the answers that it tells of later. */
Test(net_peer_leave, a_bye_waits_for_answers)
{
    PAIR(p);
    pair_op *send = pair_send(p, 1, 1, 8);
    pair_op *receive = pair_receive(p, 0, 1, 8);
    while (receive->resolved == 0)
        pair_turn(p, 0);
    cr_expect(part(p, 0));
    fake_sight first;
    fake_sight second;
    cr_assert(fake_wire_look(p->wire, 1, 0, &first) && fake_wire_look(p->wire, 1, 1, &second));
    cr_assert_eq(first.header[0], FRY_WIRE_ACK);
    cr_assert_eq(second.header[0], FRY_WIRE_BYE);
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    const size_t size = *first.header_bytes;
    memcpy(bytes, first.header, sizeof(bytes));
    memcpy(first.header, second.header, sizeof(bytes));
    *first.header_bytes = *second.header_bytes;
    memcpy(second.header, bytes, sizeof(bytes));
    *second.header_bytes = size;
    hear_of_the_end(p, 1);
    expect_over(send, FERRY_OK);
    cr_expect_eq(p->ends[1].failure.status, FERRY_E_DEAD);
}

Test(net_peer_leave, a_connection_that_ends_has_parted)
{
    PAIR_WITH(p, wire_options.is_net = true);
    cr_expect_not(part(p, 0));
    fake_wire_cut(p->wire);
    pair_turn(p, 0);
    cr_expect(part(p, 0));
    pair_detach(p, 0, FERRY_E_PEER);
    cr_expect(part(p, 0), "without a connection too");
}

Test(net_peer_leave, farewells_that_nobody_said_bye_for)
{
    PAIR_WITH(p, wire_options.is_net = true);
    static const uint8_t farewell[8] = {FRY_WIRE_FAREWELL};
    fake_wire_inject(p->wire, 0, farewell, sizeof(farewell), NULL, 0, false);
    hear_of_the_end(p, 0);
    cr_expect_eq(p->ends[0].failure.status, FERRY_E_PEER);
}

/* ---- at random ---- */

static uint64_t random_state;

static uint64_t pick(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

enum { TAGS = 2, PAIRS_MAX = 40 };

typedef struct matched {
    pair_op *send, *receive; /* in the order of their tag: they meet */
} matched;

/* Submits halves of pairs in any order, each end's in the order of its tag. */
static size_t submit_some(pair *p, matched *pairs)
{
    static const size_t sizes[] = {0, 8, 500, 1024, 5000};
    size_t count = 0;
    for (int from = 0; from < 2; from++) {
        for (ferry_tag tag = 1; tag <= TAGS; tag++) {
            size_t wanted = pick(8);
            size_t size = sizes[pick(5)];
            size_t first = count, sent = 0, received = 0;
            while (sent < wanted || received < wanted) {
                if (received >= wanted || (sent < wanted && pick(2) == 0))
                    pairs[first + sent++].send = pair_send(p, from, tag, size);
                else
                    pairs[first + received++].receive = pair_receive(p, 1 - from, tag, size);
                if (pick(3) == 0)
                    pair_turn(p, (int)pick(2));
            }
            count += wanted;
        }
    }
    return count;
}

static bool has_open_sends(const pair *p, int end)
{
    for (const fry_message *message = p->ends[end].peer->open.open_next;
         message != &p->ends[end].peer->open; message = message->open_next)
        if (message->is_send && message->state < FRY_MESSAGE_ENDED)
            return true;
    return false;
}

/* One end's leaving, a step a call. True: it has gone. */
typedef enum stage { STAYS, LINGERS, PARTS, GONE } stage;

static stage step(pair *p, int end, stage at, bool is_impatient)
{
    switch (at) {
    case STAYS:
        fry_peer_stop(p->ends[end].peer, false, FERRY_E_CANCELLED, &leaving, NULL);
        return LINGERS;
    case LINGERS:
        if (has_open_sends(p, end) && !is_impatient)
            return LINGERS;
        fry_peer_stop(p->ends[end].peer, true, FERRY_E_CANCELLED, &leaving, NULL);
        return PARTS;
    case PARTS:
        if (!part(p, end))
            return PARTS;
        destroy(p, end);
        return GONE;
    default:
        return GONE;
    }
}

/* As the engine does when its connection fails; the end that leaves goes on with that. */
static void see_to_failure(pair *p, int end)
{
    if (p->ends[end].failed == 0 || p->ends[end].channel == NULL)
        return;
    pair_detach(p, end, p->ends[end].failure.status);
    pair_destroy(p, end);
}

static void leave_at_random(uint64_t seed)
{
    matched pairs[PAIRS_MAX];
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    PAIR_INIT(p);
    p->wire_options.seed = seed;
    p->wire_options.is_late = pick(2);
    p->wire_options.reorder = pick(2) ? 8 : 0;
    p->wire_options.is_net = pick(2);
    p->session.is_keyed = pick(2);
    pair_open(p);
    size_t count = submit_some(p, pairs);
    stage stages[2] = {STAYS, STAYS};
    bool leaves[2] = {true, pick(2) == 0};
    int leave_at[2] = {(int)pick(20), (int)pick(20)};
    bool is_impatient = pick(4) == 0;
    for (int turn = 0; turn < 2000; turn++) {
        for (int end = 0; end < 2; end++) {
            if (p->ends[end].channel != NULL)
                pair_turn(p, end);
            see_to_failure(p, end);
            if (leaves[end] && turn >= leave_at[end] && p->ends[end].channel != NULL)
                stages[end] = step(p, end, stages[end], is_impatient);
        }
    }
    for (int end = 0; end < 2; end++)
        cr_assert(!leaves[end] || p->ends[end].channel == NULL, "seed %lu: it has not left",
                  (unsigned long)seed);
    for (size_t i = 0; i < count; i++) {
        const pair_op *send = pairs[i].send, *receive = pairs[i].receive;
        bool is_sent = send->resolved == 1 && send->status == FERRY_OK;
        bool is_received = receive->resolved == 1 && receive->status == FERRY_OK;
        /* A send that was stopped may have left. */
        cr_assert(is_sent == is_received ||
                      (is_received && is_impatient && send->status == FERRY_E_CANCELLED),
                  "seed %lu, message %zu: send %d, receive %d", (unsigned long)seed, i,
                  send->status, receive->status);
        if (is_received)
            expect_bytes(send, receive);
    }
}

/* Whoever leaves, whenever: both ends of a message say the same. */
Test(net_peer_leave, both_ends_know_the_same)
{
    for (uint64_t seed = 1; seed <= SEEDS_OF(3000); seed++)
        leave_at_random(seed);
}
