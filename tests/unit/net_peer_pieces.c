/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in pieces. */
#include "net/peer/wire.h"
#include "tests/unit/piece_pair.h"

#include <stdlib.h>

TestSuite(net_peer_pieces, .timeout = 60);

static const size_t lengths[] = {0, 1, 32, 100, 128, 129, 299, 300, 301, 1200, 1500, 4999};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/* Which ends are staged: bit 0 the sender, bit 1 the receiver; bit 2: the receive comes first. */
static void meet(pair *p, size_t size, unsigned how)
{
    pair_op *receive = (how & 4) != 0 ? begin(p, 1, false, size, (how & 2) != 0) : NULL;
    pair_op *send = begin(p, 0, true, size, (how & 1) != 0);
    run(p);
    if (receive == NULL)
        receive = begin(p, 1, false, size, (how & 2) != 0);
    run(p);
    expect_met(send, receive);
    cr_expect_eq(receive->message.other_op, send->message.op);
    cr_expect_eq(chunks_open, 0);
}

Test(net_peer_pieces, every_mix_of_ends_and_sizes)
{
    for (unsigned round = 0; round < 12; round++) {
        PIECES_INIT(p);
        p->wire_options.seed = round / 4;
        p->wire_options.is_late = round >= 4;
        p->wire_options.reorder = round >= 8 ? 5 : 0;
        p->session.is_keyed = round % 2 == 1;
        pair_open(p);
        is_slow = round % 4 >= 2;
        for (size_t i = 0; i < LENGTHS; i++) {
            chunk_count = 0;
            for (unsigned how = 0; how < 8; how++)
                meet(p, lengths[i], how);
        }
    }
}

Test(net_peer_pieces, to_itself)
{
    PIECES_INIT(p);
    p->end_count = 1;
    p->wire_options.is_self = true;
    pair_open(p);
    for (size_t i = 0; i < LENGTHS; i++) {
        pair_op *send = begin(p, 0, true, lengths[i], true);
        pair_op *receive = begin(p, 0, false, lengths[i], true);
        run(p);
        expect_met(send, receive);
    }
}

/* More messages at once than pieces and controls; all take turns. */
Test(net_peer_pieces, many_at_once)
{
    enum { COUNT = 40 };
    PIECES_INIT(p);
    p->wire_options =
        (fake_wire_options){.eager_bytes_max = 128, .seed = 5, .is_late = true, .reorder = 3};
    pair_open(p);
    pair_op *ops[2][COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        for (int is_receive = 0; is_receive < 2; is_receive++)
            ops[is_receive][i] = begin_tagged(p, is_receive, !is_receive, i, 1000 + i);
    }
    run(p);
    for (size_t i = 0; i < COUNT; i++)
        expect_met(ops[0][i], ops[1][i]);
}

/* A copy of all the bytes lets a small one go with its message. */
Test(net_peer_pieces, a_copy_goes_with_the_message)
{
    PIECES_INIT(p);
    pair_open(p);
    for (size_t size = 100; size <= 200; size += 100) {
        pair_op *receive = begin(p, 1, false, size, false);
        pair_op *send = enter(p, 0, true, size, true);
        send->message.memory = send->bytes;
        uint64_t posts = fake_wire_count(p->wire).posts;
        fry_peer_ready(&send->message, NULL);
        run(p);
        expect_met(send, receive);
        cr_expect_eq(fake_wire_count(p->wire).posts - posts, size == 100 ? 2 : 4);
    }
}

Test(net_peer_pieces, lengths_that_differ)
{
    for (unsigned how = 0; how < 4; how++) {
        PIECES_INIT(p);
        pair_open(p);
        pair_op *receive = begin(p, 1, false, 999, (how & 1) != 0);
        pair_op *send = begin(p, 0, true, 1000, (how & 2) != 0);
        run(p);
        expect_over(send, FERRY_E_LENGTH);
        expect_over(receive, FERRY_E_LENGTH);
    }
}

/* ---- a member that does not know pieces ---- */

Test(net_peer_pieces, an_old_member_refuses_what_only_pieces_can_do)
{
    for (unsigned how = 1; how < 4; how++) {
        PIECES_INIT(p);
        p->session.has_pieces = false;
        pair_open(p);
        pair_op *receive = begin(p, 1, false, 1000, (how & 2) != 0);
        pair_op *send = begin(p, 0, true, 1000, (how & 1) != 0);
        run(p);
        pair_op *at_fault = (how & 1) != 0 ? send : receive;
        pair_op *told = (how & 1) != 0 ? receive : send;
        expect_over(at_fault, FERRY_E_UNSUPPORTED);
        expect_over(told, FERRY_E_DEPENDENCY);
        cr_expect_eq(told->fault.status, FERRY_E_UNSUPPORTED);
        cr_expect_not_null(strstr(told->fault.message, "in pieces"));
        meet(p, 200, 2);
        meet(p, 1000, 0);
    }
}

/* ---- withdrawing and detaching, at each moment ---- */

/* One step of the whole: a turn of an end, or an answer. */
static void step(pair *p, unsigned n)
{
    if (n % 3 == 2)
        (void)answer_all();
    else
        pair_turn(p, (int)(n % 3));
}

static void check_end(const pair_op *op, const pair_op *other, ferry_status status)
{
    if (op->status == FERRY_OK)
        return; /* it was done before, or its bytes had all come */
    cr_expect(op->status == status || op->status == FERRY_E_DEPENDENCY, "%d", op->status);
    (void)other;
}

static void withdraw_at(unsigned when, unsigned how, bool is_send, uint64_t seed)
{
    PIECES_INIT(p);
    p->wire_options.seed = seed;
    p->wire_options.is_late = seed != 0;
    p->wire_options.reorder = seed != 0 ? 4 : 0;
    pair_open(p);
    is_slow = true;
    pair_op *receive = begin(p, 1, false, 2000, (how & 2) != 0);
    pair_op *send = begin(p, 0, true, 2000, (how & 1) != 0);
    for (unsigned n = 0; n < when; n++)
        step(p, n);
    pair_op *op = is_send ? send : receive, *other = is_send ? receive : send;
    bool was_open = op->resolved == 0;
    if (was_open) {
        pair_withdraw(op);
        op->resolved = 1;
        op->status = FERRY_E_DEADLINE;
    }
    /* Its slot is used again while pieces of it may be on the way. */
    pair_op *after[2][20];
    for (size_t i = 0; i < 20; i++) {
        after[0][i] = begin(p, 0, true, 700, true);
        after[1][i] = begin(p, 1, false, 700, true);
    }
    run(p);
    expect_over(op, op->status);
    cr_expect_eq(other->resolved, 1);
    cr_expect_eq(other->quiet, 1);
    check_end(op, other, FERRY_E_DEADLINE);
    check_end(other, op, FERRY_E_DEPENDENCY);
    for (size_t i = 0; i < 20; i++)
        expect_met(after[0][i], after[1][i]);
    cr_expect_eq(p->ends[0].failed, 0);
    cr_expect_eq(p->ends[1].failed, 0);
}

Test(net_peer_pieces, withdrawn_at_each_step)
{
    for (unsigned how = 1; how < 4; how++)
        for (unsigned when = 0; when < 40; when++)
            for (int is_send = 0; is_send < 2; is_send++)
                for (uint64_t seed = 0; seed < 4; seed++)
                    withdraw_at(when, how, is_send, seed);
}

/* Memory is used by nobody once its message is quiet. */
static void detach_at(unsigned when, unsigned how, int end, bool cuts)
{
    PIECES_INIT(p);
    p->wire_options.seed = when + 1;
    p->wire_options.is_late = true;
    pair_open(p);
    is_slow = true;
    pair_op *ops[] = {begin(p, 1, false, 2000, (how & 2) != 0),
                      begin(p, 0, true, 2000, (how & 1) != 0)};
    for (unsigned n = 0; n < when; n++)
        step(p, n);
    if (cuts) {
        fake_wire_cut(p->wire);
        for (unsigned n = 0; n < 6; n++)
            step(p, n);
    }
    pair_detach(p, end, FERRY_E_PEER);
    for (int i = 0; i < 2; i++)
        cr_expect(i == end || ops[i]->resolved <= 1);
    cr_expect_eq(ops[1 - end]->resolved, 1);
    (void)answer_all();
    pair_destroy(p, end);
    cr_expect_eq(ops[1 - end]->quiet, 1);
    pair_turn(p, 1 - end);
    (void)answer_all();
}

Test(net_peer_pieces, detached_at_each_step)
{
    for (unsigned how = 1; how < 4; how++)
        for (unsigned when = 0; when < 40; when++)
            for (int end = 0; end < 2; end++)
                for (int cuts = 0; cuts < 2; cuts++)
                    detach_at(when, how, end, cuts);
}

Test(net_peer_pieces, stopped_and_parted_at_each_step)
{
    const fry_fault fault = {.status = FERRY_E_SHUTDOWN, .rank = -1};
    for (unsigned how = 1; how < 4; how++)
        for (unsigned when = 0; when < 30; when++)
            for (int end = 0; end < 2; end++) {
                PIECES_INIT(p);
                pair_open(p);
                is_slow = true;
                pair_op *receive = begin(p, 1, false, 2000, (how & 2) != 0);
                pair_op *send = begin(p, 0, true, 2000, (how & 1) != 0);
                for (unsigned n = 0; n < when; n++)
                    step(p, n);
                fry_peer_stop(p->ends[end].peer, true, FERRY_E_SHUTDOWN, &fault, NULL);
                (void)fry_peer_part(p->ends[end].peer, NULL);
                run(p);
                if (p->ends[1 - end].failed != 0) /* it has heard that the other one left */
                    pair_detach(p, 1 - end, FERRY_E_DEAD);
                cr_expect_eq(send->resolved, 1);
                cr_expect_eq(receive->resolved, 1);
                (void)answer_all();
            }
}

Test(net_peer_pieces, steady_state_allocates_nothing)
{
    PIECES_INIT(p);
    pair_open(p);
    uint64_t calls = failing_allocator_calls(&p->allocator);
    for (unsigned i = 0; i < 16; i++)
        meet(p, 1500, i % 8);
    cr_expect_eq(failing_allocator_calls(&p->allocator), calls);
}

/* ---- hostile ---- */

/* End 0 has a HELD send in slot 0 with number 0 and an EAGER one in slot 1; end 1 has asked for the
 * first pieces of the first. */
static void expect_hostile(int end, fry_wire_header header, size_t data_bytes, bool is_pulled,
                           bool is_refused)
{
    PIECES_INIT(p);
    pair_open(p);
    is_slow = true;
    (void)begin(p, 1, false, 2000, true);
    (void)begin(p, 0, true, 2000, true);
    (void)begin(p, 0, true, 8, false);
    pair_turn(p, 1);
    (void)answer_all(); /* places: the wants are on their way */
    fake_wire_hold(p->wire, FAKE_HOLD_ARRIVALS);
    fake_wire_hold(p->wire, 0);
    inject(p, end, &header, data_bytes, is_pulled);
    cr_expect_eq(p->ends[end].failed, is_refused, "kind %d slot %u number %u %u@%lu", header.kind,
                 header.slot, header.number, (unsigned)header.size_bytes,
                 (unsigned long)header.offset);
    if (is_refused)
        cr_expect_eq(p->ends[end].failure.status, FERRY_E_PEER);
}

#define WANT(slot_, number_, size_, offset_)                                                       \
    (fry_wire_header)                                                                              \
    {                                                                                              \
        .kind = FRY_WIRE_WANT, .slot = (slot_), .number = (number_), .size_bytes = (size_),        \
        .offset = (offset_)                                                                        \
    }
#define BRING(slot_, number_, size_, offset_)                                                      \
    (fry_wire_header)                                                                              \
    {                                                                                              \
        .kind = FRY_WIRE_PIECE, .slot = (slot_), .number = (number_), .size_bytes = (size_),       \
        .offset = (offset_)                                                                        \
    }

Test(net_peer_pieces, hostile_wants)
{
    expect_hostile(0, WANT(0, 0, 300, 0), 0, false, false);
    expect_hostile(0, WANT(0, 0, 2000, 0), 0, false, false);
    expect_hostile(0, WANT(0, 0, 2001, 0), 0, false, true);
    expect_hostile(0, WANT(0, 0, 1, 2000), 0, false, true);
    expect_hostile(0, WANT(0, 0, 2, UINT64_MAX), 0, false, true);
    expect_hostile(0, WANT(0, 0, 0, 0), 0, false, true);
    expect_hostile(0, WANT(0, 0, 2000, 0), 8, false, true);
    expect_hostile(0, WANT(0, 0, UINT32_MAX, 0), 0, false, true);
    expect_hostile(0, WANT(1, 1, 8, 0), 0, false, true); /* went with its data */
    expect_hostile(0, WANT(2, 2, 8, 0), 0, false, true); /* never launched */
    expect_hostile(0, WANT(0, 2, 8, 0), 0, false, true);
    expect_hostile(0, WANT(UINT32_MAX, 0, 8, 0), 0, false, true);
    expect_hostile(0, WANT(0, UINT32_MAX, 8, 0), 0, false, false); /* a launch long ago */
}

Test(net_peer_pieces, hostile_pieces)
{
    expect_hostile(1, BRING(0, 0, 300, 300), 300, false, false);
    expect_hostile(1, BRING(0, 0, 300, 300), 300, true, false);
    expect_hostile(1, BRING(0, 0, 300, 300), 299, false, true);
    expect_hostile(1, BRING(0, 0, 300, 1), 300, false, true);
    expect_hostile(1, BRING(0, 0, 299, 300), 299, false, true);
    expect_hostile(1, BRING(0, 0, 300, 1200), 300, false, true); /* not asked for yet */
    expect_hostile(1, BRING(0, 0, 300, UINT64_MAX), 300, false, true);
    expect_hostile(1, BRING(0, 5, 300, 300), 300, false, true);
    expect_hostile(1, BRING(UINT32_MAX, 0, 300, 300), 300, false, true);
    expect_hostile(1, BRING(1, 0, 300, 300), 300, true, false); /* a launch that has ended */
    expect_hostile(1, BRING(0, UINT32_MAX, 300, 300), 300, false, false);
}

Test(net_peer_pieces, a_piece_comes_once)
{
    PIECES_INIT(p);
    pair_open(p);
    pair_op *receive = begin(p, 1, false, 2000, false);
    (void)begin(p, 0, true, 2000, true);
    pair_turn(p, 1); /* asks */
    is_slow = true;
    pair_turn(p, 0);
    const fry_wire_header piece = BRING(0, 0, 300, 0);
    inject(p, 1, &piece, 300, false);
    cr_expect_eq(p->ends[1].failed, 0);
    cr_expect_eq(receive->resolved, 0);
    inject(p, 1, &piece, 300, false);
    cr_expect_eq(p->ends[1].failed, 1);
}

Test(net_peer_pieces, too_many_wants)
{
    PIECES_INIT(p);
    pair_open(p);
    is_slow = true;
    (void)begin(p, 0, true, 2000, true);
    const fry_wire_header want = WANT(0, 0, 1, 0);
    for (int i = 0; i < FRY_CONNECTION_SERVED + FRY_CONNECTION_WANTED; i++)
        inject(p, 0, &want, 0, false);
    cr_expect_eq(p->ends[0].failed, 0);
    inject(p, 0, &want, 0, false);
    cr_expect_eq(p->ends[0].failed, 1);
}

Test(net_peer_pieces, unknown_where_not_agreed)
{
    const fry_wire_header headers[] = {
        WANT(0, 0, 1, 0), BRING(0, 0, 1, 0), {.kind = FRY_WIRE_HELD, .size_bytes = 8}};
    for (size_t i = 0; i < 3; i++) {
        PIECES_INIT(p);
        p->session.has_pieces = false;
        pair_open(p);
        inject(p, 0, &headers[i], headers[i].kind == FRY_WIRE_PIECE, false);
        cr_expect_eq(p->ends[0].failed, 1);
    }
}

/* ---- pieces that are free again ---- */

/* Two receives have all pieces that can be asked for, and are over; the third gets them. */
static void hand_on(bool is_by_sender)
{
    PIECES_INIT(p);
    pair_open(p);
    is_slow = true;
    pair_op *sends[3], *receives[3];
    for (int i = 0; i < 3; i++) {
        receives[i] = begin_tagged(p, 1, false, (ferry_tag)i, 2000);
        sends[i] = begin_tagged(p, 0, true, (ferry_tag)i, 2000);
    }
    pair_run(p);
    for (int i = 0; i < 2; i++)
        cancel(is_by_sender ? sends[i] : receives[i]);
    run(p);
    expect_met(sends[2], receives[2]);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(sends[i]->quiet, 1);
        cr_expect_eq(receives[i]->quiet, 1);
    }
}

Test(net_peer_pieces, go_to_others_when_a_receive_is_withdrawn)
{
    hand_on(false);
}

Test(net_peer_pieces, go_to_others_when_a_send_is_withdrawn)
{
    hand_on(true);
}

/* The receiver withdraws again and again, and never hears of the pieces that have been posted. */
Test(net_peer_pieces, that_are_given_up_are_no_offence)
{
    enum { MESSAGES = 20 };
    PIECES_INIT(p);
    pair_open(p);
    is_slow = true;
    pair_op *sends[MESSAGES], *receives[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        sends[i] = begin_tagged(p, 0, true, (ferry_tag)i, 2000);
    pair_run(p);
    for (int i = 0; i < MESSAGES; i += 2) {
        for (int k = i; k < i + 2; k++)
            receives[k] = begin_tagged(p, 1, false, (ferry_tag)k, 2000);
        do {
            (void)fry_peer_progress(p->ends[0].peer, NULL);
        } while (answer_all() != 0);
        for (int k = i; k < i + 2 && i + 2 < MESSAGES; k++)
            cancel(receives[k]);
    }
    run(p);
    for (int end = 0; end < 2; end++)
        cr_expect_eq(p->ends[end].failed, 0);
    for (int i = MESSAGES - 2; i < MESSAGES; i++)
        expect_met(sends[i], receives[i]);
}
