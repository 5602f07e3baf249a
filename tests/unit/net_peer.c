/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that keep the rules: what their messages end with, when, and by how many headers. */
#include "net/peer/arrive.h"
#include "net/peer/connection.h"
#include "net/peer/state.h"
#include "tests/unit/peer_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(net_peer, .timeout = 60);

static const size_t sizes[] = {0, 1, 8, 32, 33, 1016, 1017, 1024, 1025, 5000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

Test(net_peer, receive_first)
{
    PAIR(p);
    for (size_t i = 0; i < SIZES; i++) {
        pair_op *receive = pair_receive(p, 1, i, sizes[i]);
        pair_op *send = pair_send(p, 0, i, sizes[i]);
        pair_run(p);
        expect_met(send, receive);
        cr_expect_eq(receive->message.other_op, send->message.op);
    }
}

Test(net_peer, send_first)
{
    PAIR(p);
    for (size_t i = 0; i < SIZES; i++) {
        pair_op *send = pair_send(p, 0, i, sizes[i]);
        pair_run(p);
        cr_expect_eq(send->resolved, 0);
        pair_op *receive = pair_receive(p, 1, i, sizes[i]);
        pair_run(p);
        expect_met(send, receive);
    }
}

Test(net_peer, receive_that_is_not_ready)
{
    PAIR(p);
    for (size_t i = 0; i < SIZES; i++) {
        pair_op *receive = pair_enter(p, 1, false, i, sizes[i]);
        pair_op *send = pair_send(p, 0, i, sizes[i]);
        pair_run(p);
        cr_expect_eq(receive->resolved, 0);
        cr_expect_eq(receive->bytes[0], 0);
        fry_peer_ready(&receive->message, NULL);
        pair_run(p);
        expect_met(send, receive);
    }
}

Test(net_peer, to_itself)
{
    PAIR_INIT(p);
    p->end_count = 1;
    p->wire_options.is_self = true;
    pair_open(p);
    for (size_t i = 0; i < SIZES; i++) {
        pair_op *first = pair_send(p, 0, 3, sizes[i]);
        pair_op *receive = pair_receive(p, 0, 3, sizes[i]);
        pair_run(p);
        expect_met(first, receive);
    }
}

/* Sends of one tag that get ready from the last to the first. */
Test(net_peer, any_order_of_readiness)
{
    enum { COUNT = 50 };
    PAIR(p);
    pair_op *sends[COUNT], *receives[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        sends[i] = pair_enter(p, 0, true, 1, i * 97);
    for (size_t i = 0; i < COUNT / 2; i++)
        receives[i] = pair_receive(p, 1, 1, i * 97);
    for (size_t i = COUNT; i > 0; i--)
        fry_peer_ready(&sends[i - 1]->message, NULL);
    pair_run(p);
    for (size_t i = COUNT / 2; i < COUNT; i++)
        receives[i] = pair_receive(p, 1, 1, i * 97);
    pair_run(p);
    for (size_t i = 0; i < COUNT; i++)
        expect_met(sends[i], receives[i]);
}

/* Both send first, whatever the window. */
Test(net_peer, no_window_holds_anything_up)
{
    static const uint32_t windows[] = {0, 1, 2, 1000};
    enum { COUNT = 100 };
    for (size_t w = 0; w < 4; w++) {
        PAIR_INIT(p);
        p->session.window_messages = windows[w];
        p->session.window_bytes = w == 3 ? 100 : 1 << 20;
        pair_open(p);
        pair_op *sends[2][COUNT];
        for (size_t i = 0; i < COUNT; i++)
            for (int end = 0; end < 2; end++)
                sends[end][i] = pair_send(p, end, i, 8 + i);
        pair_run(p);
        for (size_t i = COUNT; i > 0; i--)
            for (int end = 0; end < 2; end++) {
                pair_op *receive = pair_receive(p, end, i - 1, 7 + i);
                pair_run(p);
                expect_met(sends[1 - end][i - 1], receive);
            }
    }
}

Test(net_peer, waits_for_a_connection)
{
    PAIR_INIT(p);
    pair_open_peers(p);
    pair_op *send = pair_send(p, 0, 1, 8);
    pair_op *second = pair_send(p, 0, 1, 4000);
    cr_expect_eq(p->ends[0].wanted, 1);
    pair_op *receive = pair_receive(p, 1, 1, 8);
    cr_expect_eq(p->ends[1].wanted, 1);
    cr_expect(p->ends[0].peer->open_count > 0);
    cr_expect_not(fry_peer_is_busy(p->ends[0].peer));
    cr_expect(fry_peer_arm(p->ends[0].peer, NULL));
    pair_attach(p);
    pair_run(p);
    expect_over(send, FERRY_OK);
    expect_over(receive, FERRY_OK);
    cr_expect_eq(second->resolved, 0);
    cr_expect_eq(p->ends[0].wanted, 1);
}

Test(net_peer, bounds_of_what_is_entered)
{
    PAIR_INIT(p);
    p->options.unexpected_max = 3;
    p->session.unexpected_max = 3;
    pair_open(p);
    for (int i = 0; i < 3; i++) {
        cr_assert_not_null(pair_send(p, 0, 1, 8));
        cr_assert_not_null(pair_receive(p, 0, 1, 8));
    }
    cr_assert_null(pair_enter(p, 0, true, 1, 8));
    cr_assert_null(pair_enter(p, 0, false, 1, 8));
    pair_run(p);
    cr_assert_null(pair_enter(p, 0, true, 1, 8));
    pair_op *receive = pair_receive(p, 1, 1, 8);
    pair_run(p);
    expect_over(receive, FERRY_OK);
    cr_assert_not_null(pair_send(p, 0, 1, 8));
}

/* ---- how many headers it takes ---- */

Test(net_peer, an_answer_takes_no_header_where_there_is_one)
{
    PAIR(p);
    pair_op *sends[2] = {NULL, NULL};
    for (int round = 0; round < 100; round++)
        for (int end = 0; end < 2; end++) {
            pair_op *receive = pair_receive(p, 1 - end, 1, 8);
            sends[end] = pair_send(p, end, 1, 8);
            pair_turn(p, 1 - end);
            cr_assert_eq(receive->status, FERRY_OK);
            cr_assert_eq(receive->resolved, 1);
            if (sends[1 - end] != NULL)
                cr_assert_eq(sends[1 - end]->resolved, 1);
        }
    cr_expect_eq(fake_wire_count(p->wire).posts, 200);
    pair_run(p);
    cr_expect_eq(fake_wire_count(p->wire).posts, 201);
}

Test(net_peer, answers_go_together)
{
    PAIR_WITH(p, session.window_messages = 256);
    for (int i = 0; i < 256; i++)
        (void)pair_receive(p, 1, (ferry_tag)i, 8);
    for (int i = 0; i < 256; i++)
        (void)pair_send(p, 0, (ferry_tag)i, 8);
    pair_run(p);
    cr_expect_eq(fake_wire_count(p->wire).posts, 257);
    for (size_t i = 0; i < p->op_count; i++)
        expect_over(&p->ops[i], FERRY_OK);
}

/* Alone it is answered by the second turn, or when it is armed. */
Test(net_peer, answers_do_not_wait_for_company)
{
    PAIR(p);
    (void)pair_receive(p, 1, 1, 8);
    pair_op *send = pair_send(p, 0, 1, 8);
    pair_turn(p, 1);
    cr_expect(fry_peer_is_busy(p->ends[1].peer));
    pair_turn(p, 1);
    cr_expect_not(fry_peer_is_busy(p->ends[1].peer));
    pair_turn(p, 0);
    expect_over(send, FERRY_OK);
    (void)pair_receive(p, 1, 1, 8);
    send = pair_send(p, 0, 1, 8);
    pair_turn(p, 1);
    cr_expect(fry_peer_arm(p->ends[1].peer, NULL));
    cr_expect_not(fry_peer_is_busy(p->ends[1].peer));
    pair_turn(p, 0);
    expect_over(send, FERRY_OK);
}

/* A stream is answered in batches, though each turn finds one message alone. */
Test(net_peer, answers_gather_while_messages_come)
{
    PAIR_WITH(p, session.window_messages = 256);
    pair_op *sends[160];
    for (int i = 0; i < 160; i++) {
        (void)pair_receive(p, 1, 1, 8);
        sends[i] = pair_send(p, 0, 1, 8);
        pair_turn(p, 1);
    }
    cr_expect_leq(fake_wire_count(p->wire).posts, 160 + 160 / 8);
    pair_turn(p, 1);
    pair_turn(p, 0);
    for (int i = 0; i < 160; i++)
        expect_over(sends[i], FERRY_OK);
}

Test(net_peer, steady_state_allocates_nothing)
{
    PAIR(p);
    uint64_t calls = failing_allocator_calls(&p->allocator);
    for (int i = 0; i < 250; i++) {
        pair_op *send = pair_send(p, 0, (ferry_tag)(i % 20), (size_t)i * 10);
        if (i % 2)
            pair_run(p);
        pair_op *receive = pair_receive(p, 1, (ferry_tag)(i % 20), (size_t)i * 10);
        pair_run(p);
        expect_over(send, FERRY_OK);
        expect_over(receive, FERRY_OK);
    }
    cr_expect_eq(failing_allocator_calls(&p->allocator), calls);
}

/* ---- failures of one message ---- */

Test(net_peer, lengths_that_differ)
{
    PAIR(p);
    static const size_t lengths[][2] = {{8, 9}, {0, 1}, {1, 0}, {4000, 8}, {8, 4000}};
    for (size_t i = 0; i < 5; i++)
        for (int is_first = 0; is_first < 2; is_first++) {
            pair_op *receive = is_first ? pair_receive(p, 1, 1, lengths[i][1]) : NULL;
            pair_op *send = pair_send(p, 0, 1, lengths[i][0]);
            pair_run(p);
            if (!is_first)
                receive = pair_receive(p, 1, 1, lengths[i][1]);
            pair_run(p);
            char text[100];
            snprintf(text, sizeof(text), "the send has %zu bytes, its receive %zu", lengths[i][0],
                     lengths[i][1]);
            expect_over(send, FERRY_E_LENGTH);
            expect_over(receive, FERRY_E_LENGTH);
            cr_expect_str_eq(send->fault.message, text);
            cr_expect_str_eq(receive->fault.message, text);
            cr_expect_eq(send->fault.rank, 11);
            cr_expect_eq(receive->fault.rank, 10);
            cr_expect_eq(send->fault.op, receive->message.op);
            cr_expect_eq(receive->bytes[0], 0);
        }
}

static void expect_cause(const pair_op *op, const pair_op *of, int32_t rank, bool has_text)
{
    expect_over(op, FERRY_E_DEPENDENCY);
    cr_expect_eq(op->fault.status, FERRY_E_DEADLINE);
    cr_expect_eq(op->fault.rank, rank);
    cr_expect_eq(op->fault.op, of->message.op);
    cr_expect_str_eq(op->fault.message, has_text ? "it took too long" : "");
    cr_expect_str_eq(op->fault.domain != NULL ? op->fault.domain : "", has_text ? "user" : "");
}

Test(net_peer, send_withdrawn_before_it_is_launched)
{
    for (int when = 0; when < 3; when++) { /* without a connection, with one, the receive first */
        PAIR_INIT(p);
        pair_open_peers(p);
        if (when > 0)
            pair_attach(p);
        pair_op *receive = when == 2 ? pair_receive(p, 1, 1, 8) : NULL;
        pair_op *send = pair_enter(p, 0, true, 1, 8);
        pair_op *next = pair_send(p, 0, 1, 8);
        pair_withdraw(send);
        cr_expect_eq(send->quiet, 1);
        if (when == 0)
            pair_attach(p);
        pair_run(p);
        if (when < 2)
            receive = pair_receive(p, 1, 1, 8);
        pair_op *after = pair_receive(p, 1, 1, 8);
        pair_run(p);
        expect_cause(receive, send, 10, true);
        expect_over(after, FERRY_OK);
        expect_bytes(next, after);
    }
}

/* A poison's text takes part of the window, and is left out where there is none. */
Test(net_peer, poisons_without_end)
{
    PAIR_WITH(p, session.window_messages = 4);
    pair_op *sends[100];
    for (int i = 0; i < 100; i++) {
        sends[i] = pair_enter(p, 0, true, 1, 8);
        pair_withdraw(sends[i]);
        pair_run(p);
    }
    for (int i = 0; i < 100; i++) {
        pair_op *receive = pair_receive(p, 1, 1, 8);
        pair_run(p);
        expect_cause(receive, sends[i], 10, i < 4);
    }
}

Test(net_peer, receive_withdrawn_before_its_message)
{
    for (int is_pulled = 0; is_pulled < 2; is_pulled++) {
        size_t size = is_pulled ? 4000 : 8;
        PAIR(p);
        pair_op *receive = pair_enter(p, 1, false, 1, size);
        pair_op *after = pair_receive(p, 1, 1, size);
        pair_withdraw(receive);
        cr_expect_eq(receive->quiet, 1);
        pair_op *send = pair_send(p, 0, 1, size);
        pair_op *next = pair_send(p, 0, 1, size);
        pair_run(p);
        expect_cause(send, receive, 11, true);
        cr_expect_eq(send->message.other_op, receive->message.op);
        expect_over(next, FERRY_OK);
        expect_bytes(next, after);
    }
}

Test(net_peer, receive_withdrawn_with_its_message)
{
    for (int is_pulled = 0; is_pulled < 2; is_pulled++) {
        size_t size = is_pulled ? 4000 : 8;
        PAIR(p);
        pair_op *receive = pair_enter(p, 1, false, 1, size);
        pair_op *send = pair_send(p, 0, 1, size);
        pair_run(p);
        pair_withdraw(receive);
        cr_expect_eq(receive->quiet, 1);
        pair_run(p);
        expect_cause(send, receive, 11, true);
        cr_expect_eq(receive->bytes[0], 0);
        cr_expect_eq(fake_wire_count(p->wire).drops, (uint64_t)is_pulled);
    }
}

/* The pull goes on, so quiet is when it is done; the send is told at once. */
Test(net_peer, receive_withdrawn_while_it_is_pulled)
{
    int seen = 0;
    for (uint64_t seed = 1; seed < 50; seed++) {
        PAIR_LATE(p, seed);
        pair_op *receive = pair_receive(p, 1, 1, 4000);
        pair_op *send = pair_send(p, 0, 1, 4000);
        while (receive->message.state == FRY_MESSAGE_READY)
            pair_turn(p, 1);
        if (receive->message.state == FRY_MESSAGE_UNDER_WAY) {
            seen++;
            pair_withdraw(receive);
            cr_expect_eq(receive->quiet, 0);
            pair_run(p);
            expect_cause(send, receive, 11, true);
            cr_expect_eq(receive->quiet, 1);
            cr_expect_eq(receive->resolved, 0);
        }
    }
    cr_expect_gt(seen, 5);
}

Test(net_peer, send_withdrawn_that_waits_to_be_pulled)
{
    for (int is_there = 0; is_there < 2; is_there++) {
        PAIR(p);
        pair_op *receive = is_there ? pair_enter(p, 1, false, 1, 4000) : NULL;
        pair_op *send = pair_send(p, 0, 1, 4000);
        pair_run(p);
        pair_withdraw(send);
        cr_expect_eq(send->quiet, 0, "it may be pulled yet");
        pair_run(p);
        cr_expect_eq(send->quiet, 1, "it was recalled");
        if (receive == NULL)
            receive = pair_receive(p, 1, 1, 4000);
        pair_run(p);
        expect_cause(receive, send, 10, false);
    }
}

/* The other end does not answer: the memory is free all the same, the slot is not. */
Test(net_peer, send_withdrawn_that_has_left)
{
    PAIR_WITH(p, session.unexpected_max = 2);
    for (int i = 0; i < 2; i++) {
        pair_op *send = pair_send(p, 0, 1, 8);
        pair_withdraw(send);
        cr_expect_eq(send->quiet, 1);
    }
    pair_op *waiting = pair_send(p, 0, 1, 8);
    pair_run(p);
    cr_expect_eq(waiting->message.state, FRY_MESSAGE_READY);
    pair_op *receives[3];
    for (int i = 0; i < 3; i++)
        receives[i] = pair_receive(p, 1, 1, 8);
    pair_run(p);
    for (int i = 0; i < 3; i++)
        expect_over(receives[i], FERRY_OK);
    expect_over(waiting, FERRY_OK);
}

/* More refusals than controls. */
Test(net_peer, refusals_wait_for_their_turn)
{
    enum { COUNT = 200 };
    for (uint64_t seed = 1; seed < 10; seed++) {
        PAIR_LATE(p, seed);
        pair_op *sends[COUNT], *receives[COUNT];
        for (int i = 0; i < COUNT; i++) {
            receives[i] = pair_enter(p, 1, false, 1, 8);
            sends[i] = pair_send(p, 0, 1, 8);
        }
        for (int i = 0; i < 2000; i++)
            (void)p->ends[1].channel->ops->progress(p->ends[1].channel);
        for (int i = 0; i < COUNT; i++)
            pair_withdraw(receives[i]);
        pair_run(p);
        for (int i = 0; i < COUNT; i++) {
            expect_over(sends[i], FERRY_E_DEPENDENCY);
            cr_expect_eq(sends[i]->fault.status, FERRY_E_DEADLINE);
            cr_expect_eq(sends[i]->fault.op, receives[i]->message.op);
        }
    }
}

static fry_message *untouched[4];
static size_t untouched_count;

static void note_untouched(void *turn, fry_message *message)
{
    (void)turn;
    cr_assert_lt(untouched_count, 4);
    cr_assert_eq(((pair_op *)message)->quiet, 0);
    untouched[untouched_count++] = message;
}

/* What a withdrawal has to say may have to wait for room: then nothing but progress sends it. */
Test(net_peer, who_cannot_say_it_yet_is_busy)
{
    PAIR(p);
    (void)pair_send(p, 1, 1, 8);
    pair_op *receive = pair_enter(p, 0, false, 1, 8);
    pair_op *send = pair_send(p, 0, 2, 4000);
    pair_run(p);
    for (int i = 0; i < 2; i++) {
        cr_expect_not(fry_peer_is_busy(p->ends[0].peer));
        fake_wire_hold(p->wire, FAKE_HOLD_POSTS);
        pair_withdraw(i == 0 ? receive : send); /* a refusal, a recall */
        cr_expect(fry_peer_is_busy(p->ends[0].peer));
        fake_wire_hold(p->wire, 0);
        pair_run(p);
    }
    cr_expect_eq(receive->quiet + send->quiet, 2);
}

/* Without memory for a ghost its message stands for itself, and the memory it names is free. */
Test(net_peer, withdrawn_without_memory)
{
    PAIR_INIT(p);
    fry_peer_events events = pair_events;
    events.untouched = note_untouched;
    pair_open_peers(p);
    for (int i = 0; i < 2; i++)
        p->ends[i].peer->options.events = &events;
    pair_op *send = pair_send(p, 0, 1, 8);
    pair_op *other = pair_receive(p, 1, 2, 8);
    failing_allocator_arm(&p->allocator, 1, true);
    pair_withdraw(send);
    pair_withdraw(other);
    failing_allocator_arm(&p->allocator, 0, false);
    cr_expect_eq(send->quiet, 0);
    cr_expect_eq(other->quiet, 0);
    cr_assert_eq(untouched_count, 2);
    cr_expect_eq(untouched[0], &send->message);
    cr_expect_eq(untouched[1], &other->message);
    pair_op *receive = pair_receive(p, 1, 1, 8);
    pair_op *refused = pair_send(p, 0, 2, 8);
    pair_attach(p);
    pair_run(p);
    expect_cause(receive, send, 10, false);
    expect_cause(refused, other, 11, false);
    cr_expect_eq(send->quiet, 1);
    cr_expect_eq(other->quiet, 1);
}

/* ---- the connection's end ---- */

Test(net_peer, detached_with_everything_open)
{
    PAIR(p);
    pair_op *ops[] = {
        pair_send(p, 0, 1, 8),
        pair_enter(p, 0, true, 1, 8),
        pair_receive(p, 0, 2, 8),
        pair_enter(p, 0, false, 2, 8),
    };
    pair_op *pulled = pair_send(p, 0, 1, 4000);
    pair_run(p);
    pair_detach(p, 0, FERRY_E_DEAD);
    for (size_t i = 0; i < 4; i++)
        expect_over(ops[i], FERRY_E_DEAD);
    cr_expect_eq(pulled->resolved, 1);
    cr_expect_eq(pulled->quiet, 0, "it may be pulled until the channel is destroyed");
    cr_expect_str_eq(pulled->fault.message, "it is over");
    pair_destroy(p, 0);
    cr_expect_eq(pulled->quiet, 1);
    pair_turn(p, 1);
    p->ends[0].wanted = 0;
    pair_op *next = pair_send(p, 0, 1, 8);
    cr_expect_eq(p->ends[0].wanted, 1, "a new connection is wanted");
    cr_expect_eq(next->resolved, 0);
}

Test(net_peer, bye_is_heard_after_what_was_before_it)
{
    for (int is_early = 0; is_early < 2; is_early++) {
        PAIR(p);
        pair_op *receive = pair_receive(p, 1, 1, 8);
        pair_op *open = pair_receive(p, 1, 1, 8);
        pair_op *send = pair_send(p, 1, 1, 8);
        pair_op *answered = pair_receive(p, 0, 1, 8);
        pair_turn(p, 0);
        expect_over(answered, FERRY_OK);
        (void)pair_send(p, 0, 1, 8);
        if (is_early)
            cr_expect(fry_peer_part(p->ends[0].peer, NULL));
        else
            pair_detach(p, 0, FERRY_E_SHUTDOWN);
        while (p->ends[1].failed == 0)
            pair_turn(p, 1);
        expect_over(receive, FERRY_OK);
        expect_over(send, FERRY_OK);
        cr_expect_eq(open->resolved, 0);
        cr_expect_eq(p->ends[1].failure.status, FERRY_E_DEAD);
        cr_expect_eq(p->ends[1].failure.rank, 10);
    }
}

Test(net_peer, channel_that_fails)
{
    PAIR(p);
    pair_op *send = pair_send(p, 0, 1, 8);
    fake_wire_cut(p->wire);
    pair_turn(p, 0);
    cr_expect_eq(p->ends[0].failed, 1);
    cr_expect_eq(p->ends[0].failure.status, FERRY_E_PEER);
    cr_expect_eq(p->ends[0].failure.rank, 11);
    cr_expect_eq(p->ends[0].failure.native_code, -7);
    cr_expect_str_eq(p->ends[0].failure.domain, "fake");
    cr_expect_str_eq(p->ends[0].failure.message, "the connection is lost: cut");
    cr_expect_eq(send->resolved, 0);
    pair_op *late = pair_send(p, 0, 1, 8);
    cr_expect_eq(fry_peer_progress(p->ends[0].peer, NULL), 0);
    cr_expect_not(fry_peer_is_busy(p->ends[0].peer));
    pair_detach(p, 0, FERRY_E_PEER);
    expect_over(send, FERRY_E_PEER);
    expect_over(late, FERRY_E_PEER);
}

Test(net_peer, connection_that_failed_before_it_was_attached)
{
    PAIR_INIT(p);
    pair_open_peers(p);
    pair_op *send = pair_send(p, 0, 1, 8);
    p->wire = fake_wire_open(&p->wire_options);
    for (int i = 0; i < 2; i++) {
        pair_end *end = &p->ends[i];
        end->connection = fry_peer_connection_open(&p->options, &p->session);
        end->channel = fake_wire_end(p->wire, i, &fry_peer_channel_events,
                                     fry_peer_channel_arg(end->connection));
    }
    fake_wire_cut(p->wire);
    (void)p->ends[0].channel->ops->progress(p->ends[0].channel);
    for (int i = 0; i < 2; i++)
        fry_peer_attach(p->ends[i].peer, p->ends[i].connection, p->ends[i].channel, NULL);
    cr_expect_eq(p->ends[0].failed, 1);
    cr_expect_eq(p->ends[0].failure.rank, 11);
    pair_detach(p, 0, FERRY_E_PEER);
    expect_over(send, FERRY_E_PEER);
}

Test(net_peer, no_connection_can_be_had)
{
    PAIR_INIT(p);
    pair_open_peers(p);
    pair_op *send = pair_send(p, 0, 1, 8);
    pair_op *receive = pair_enter(p, 0, false, 1, 8);
    pair_op *withdrawn = pair_enter(p, 0, false, 1, 8);
    pair_withdraw(withdrawn);
    pair_detach(p, 0, FERRY_E_PEER);
    expect_over(send, FERRY_E_PEER);
    expect_over(receive, FERRY_E_PEER);
    cr_expect_eq(withdrawn->quiet, 1);
    cr_expect_eq(withdrawn->resolved, 0);
    (void)pair_send(p, 0, 1, 8);
    cr_expect_eq(p->ends[0].wanted, 2);
}

Test(net_peer, opening_without_memory)
{
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    ferry_allocator interface = failing_allocator_interface(&allocator);
    fry_memory memory;
    fry_memory_init(&memory, &interface);
    fry_peer_options options = {.memory = &memory, .unexpected_max = 4, .events = &pair_events};
    fry_connection_session session = {
        .is_keyed = true, .window_messages = 4, .window_bytes = 4, .unexpected_max = 4};
    for (uint64_t nth = 1; nth < 20; nth++) {
        failing_allocator_arm(&allocator, nth, false);
        fry_peer_close(fry_peer_open(&options));
        failing_allocator_arm(&allocator, nth, false);
        fry_peer_connection_close(fry_peer_connection_open(&options, &session));
        cr_assert_eq(failing_allocator_live_bytes(&allocator), 0);
    }
    cr_expect_geq(failing_allocator_failures(&allocator), 10);
}

/* AddressSanitizer keeps what is freed for a while, ThreadSanitizer has its shadow beside. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Of the program's own pages. Counted page by page: the counters of /proc/self/statm are late by
 * what each processor keeps to itself, and code that is run for the first time is resident too. */
static long resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    cr_assert_not_null(file);
    while (kib < 0 && fgets(line, sizeof line, file) != NULL)
        (void)sscanf(line, "Anonymous: %ld kB", &kib);
    (void)fclose(file);
    cr_assert_geq(kib, 0);
    return kib;
}

/* A connection has room for the most that may ever come. Members come and go: what a connection
 * that is open has not used takes no memory, nor does one that has gone. */
Test(net_peer, connections_take_the_memory_that_they_use)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    fry_peer_options options = {.memory = &memory, .unexpected_max = 65536, .events = &pair_events};
    fry_connection_session session = {.is_keyed = true,
                                      .window_messages = 1024,
                                      .window_bytes = (size_t)4 << 20,
                                      .unexpected_max = 65536};
    /* From here on malloc keeps blocks of up to that size for later. */
    free(malloc((size_t)28 << 20));
    long before_kib = resident_kib();
    for (int i = 0; i < 10; i++) {
        fry_peer_connection *connection = fry_peer_connection_open(&options, &session);
        cr_assert_not_null(connection);
        cr_expect_lt(resident_kib() - before_kib, 256, "%ld KiB, unused",
                     resident_kib() - before_kib);
        /* A few messages at a time, for long. */
        for (uint32_t message = 0; message < 200000; message++) {
            connection->owed++;
            fry_connection_acknowledge(connection, fry_connection_take_slot(connection));
            fry_connection_give_slot(connection, fry_connection_take_run(connection).first);
        }
        cr_expect_lt(resident_kib() - before_kib, 256, "%ld KiB, used by few at a time",
                     resident_kib() - before_kib);
        memset(connection->records, 1, connection->record_count * sizeof(fry_record));
        memset(connection->chunks, 1, connection->chunk_count * sizeof(fry_chunk));
        memset(connection->stash, 1, ((size_t)connection->stash_mask + 1) * sizeof(fry_record *));
        fry_peer_connection_close(connection);
        cr_expect_lt(resident_kib() - before_kib, 256, "%ld KiB, closed",
                     resident_kib() - before_kib);
    }
}
#endif
