/* SPDX-License-Identifier: Apache-2.0 */
/* Joint messages: in lots, or another way; as it should be, withdrawn, ended, and against the
 * rules. */
#include "tests/support/effort.h"
#include "tests/unit/joint_pair.h"

TestSuite(net_peer_joint, .timeout = 60);

/* ---- as it should be ---- */

Test(net_peer_joint, every_order_and_wire)
{
    for (unsigned round = 0; round < 16; round++) {
        JOINT_INIT(p);
        p->wire_options.seed = round / 4;
        p->wire_options.is_late = round >= 4;
        p->wire_options.reorder = round >= 8 ? 5 : 0;
        pair_open(p);
        pair_op *sends[FEW], *receives[FEW];
        for (size_t i = 0; i < FEW; i++) {
            int from = i % 3 == 0;
            if (round % 2 == 0)
                receives[i] = begin_one(p, !from, false, i);
            sends[i] = begin_one(p, from, true, i);
            if (round % 2 != 0)
                receives[i] = begin_one(p, !from, false, i);
        }
        run_all(p);
        for (size_t i = 0; i < FEW; i++)
            expect_joint(sends[i], receives[i]);
        cr_expect_eq(chunk_count, 0, "none came in pieces");
        cr_expect_eq(gpus[0].wanted, 1);
        cr_expect_eq(gpus[1].heard[FRY_PAIR_MAKE], 1);
        cr_expect(gpus[1].note.generation == 7 && gpus[1].note.version == 22803);
        cr_expect_eq(gpus[1].note.token[FRY_PAIR_TOKEN_BYTES - 1], 0x5a);
    }
}

/* What is ready at once goes at once, both ways. */
Test(net_peer_joint, many_go_in_few_lots)
{
    JOINT(p);
    makes_later = true;
    pair_op *sends[100], *receives[100];
    for (size_t i = 0; i < 100; i++) {
        receives[i] = begin_one(p, i < 50, false, i);
        sends[i] = begin_one(p, i >= 50, true, i);
    }
    run_all(p);
    cr_expect_eq(gpus[0].launched, 0);
    make_pair();
    run_all(p);
    for (size_t i = 0; i < 100; i++)
        expect_joint(sends[i], receives[i]);
    cr_expect_leq(gpus[0].launched, 2);
}

/* A large one does not wait for small ones, nor they for it. */
Test(net_peer_joint, sizes_have_lots_of_their_own)
{
    JOINT(p);
    makes_later = true;
    pair_op *small[2], *large[2];
    for (int end = 0; end < 2; end++) {
        small[end] = begin_one(p, end, end == 0, 1);
        large[end] = enter_one(p, end, end == 0, 2);
        large[end]->message.size_bytes = FRY_JOINT_SMALL_BYTES + 1;
        fry_peer_ready(&large[end]->message, NULL);
    }
    run(p);
    make_pair();
    run(p);
    cr_expect_eq(gpus[0].launched, 2);
    for (int end = 0; end < 2; end++) {
        large[end]->message.size_bytes = SIZE;
        cr_expect(gpus[end].lots[0]->count == 1 && gpus[end].lots[1]->count == 1);
    }
    run_all(p);
    expect_joint(small[0], small[1]);
    expect_joint(large[0], large[1]);
}

/* ---- another way ---- */

Test(net_peer_joint, in_pieces_where_one_cannot)
{
    for (int which = 0; which < 3; which++) {
        JOINT_INIT(p);
        p->session.has_pairs = which != 2;
        pair_open(p);
        pair_op *send = enter_one(p, 0, true, 1), *receive = enter_one(p, 1, false, 1);
        send->message.may_join = which != 0;
        receive->message.may_join = which != 1;
        fry_peer_ready(&send->message, NULL);
        fry_peer_ready(&receive->message, NULL);
        run_all(p);
        expect_met(send, receive);
        cr_expect(!send->message.was_joint && chunk_count > 0);
        cr_expect_eq(gpus[0].wanted, 0);
    }
}

/* One end finds that it can make no pair, at any time. */
Test(net_peer_joint, in_pieces_without_a_pair)
{
    for (unsigned round = 0; round < 32; round++) {
        JOINT_INIT(p);
        p->wire_options.seed = round / 8;
        p->wire_options.is_late = round >= 8;
        pair_open(p);
        makes_later = true;
        pair_op *sends[FEW], *receives[FEW];
        for (size_t i = 0; i < FEW; i++) {
            sends[i] = begin_one(p, i % 2 == 0, true, i);
            receives[i] = begin_one(p, i % 2 != 0, false, i);
            if (round % 4 == i % 4)
                pair_turn(p, (int)(i / 4 % 2));
            if (i == FEW / 2)
                fry_peer_pair_off(p->ends[round / 4 % 2].peer, NULL);
        }
        run_all(p);
        for (size_t i = 0; i < FEW; i++) {
            expect_met(sends[i], receives[i]);
            cr_expect_not(sends[i]->message.was_joint);
        }
    }
}

/* ---- admission ---- */

/* The follower is busy with something else: the leader takes its lot back, and holds nothing. */
Test(net_peer_joint, a_busy_end_is_asked_again)
{
    JOINT(p);
    gpus[1].slots = 0;
    pair_op *sends[FEW], *receives[FEW];
    for (size_t i = 0; i < FEW; i++) {
        sends[i] = begin_one(p, i % 2 == 0, true, i);
        receives[i] = begin_one(p, i % 2 != 0, false, i);
    }
    run_all(p);
    cr_expect(gpus[0].launched == 0 && gpus[0].slots_used == 0 && gpus[1].is_waiting);
    gpus[1].slots = 1;
    gpus[1].is_waiting = false;
    fry_peer_joint_go_on(p->ends[1].peer, NULL);
    run_all(p);
    for (size_t i = 0; i < FEW; i++)
        expect_joint(sends[i], receives[i]);
}

Test(net_peer_joint, a_busy_leader_waits_for_itself)
{
    JOINT(p);
    gpus[0].slots = 0;
    pair_op *send = begin_one(p, 0, true, 1), *receive = begin_one(p, 1, false, 1);
    run_all(p);
    cr_expect(gpus[0].is_waiting && gpus[1].slots_used == 0);
    gpus[0].slots = 1;
    gpus[0].is_waiting = false;
    fry_peer_joint_go_on(p->ends[0].peer, NULL);
    run_all(p);
    expect_joint(send, receive);
}

/* The pair ended while the lot was proposed, and the other end says GO nevertheless. */
Test(net_peer_joint, what_is_agreed_without_a_pair_waits)
{
    JOINT(p);
    makes_later = true;
    (void)begin_one(p, 0, true, 1);
    (void)begin_one(p, 1, false, 1);
    run(p);
    fake_wire_hold(p->wire, FAKE_HOLD_ARRIVALS);
    fry_peer_pair_ready(p->ends[0].peer, true, NULL);
    cr_assert_eq(gpus[0].slots_used, 1, "proposed");
    fry_peer_pair_ready(p->ends[0].peer, false, NULL);
    fake_wire_hold(p->wire, 0);
    const fry_wire_header go = {.kind = FRY_WIRE_GO, .number = 0, .offset = 1};
    inject(p, 0, &go, 0, false);
    cr_expect(p->ends[0].failed == 0 && gpus[0].launched == 0);
    cr_expect(held[0] == 0 && gpus[0].slots_used == 0);
}

/* ---- withdrawn ---- */

/* A lot that both ends have agreed on goes, with what was withdrawn since. */
Test(net_peer_joint, what_is_agreed_goes)
{
    for (int which = 0; which < 2; which++) {
        JOINT(p);
        pair_op *send = begin_one(p, 0, true, 1), *receive = begin_one(p, 1, false, 1);
        run(p);
        cr_assert_eq(gpus[0].launched, 1);
        cancel(which == 0 ? send : receive);
        run(p);
        cr_expect_eq(held[0] + held[1], 2, "both are kept");
        cr_expect(do_next());
        run_all(p);
        const pair_op *other = which == 0 ? receive : send;
        cr_expect_eq(other->resolved, 1);
        cr_expect_neq(other->status, FERRY_OK);
        pair_op *next = begin_one(p, 1, true, 2), *to = begin_one(p, 0, false, 2);
        run_all(p);
        expect_joint(next, to);
    }
}

/* Steps of the random run. */
static void some_step(pair *p, unsigned *seed)
{
    switch (rand_r(seed) % 8) {
    case 0:
    case 1:
    case 2:
        pair_turn(p, rand_r(seed) % 2);
        break;
    case 3:
        (void)do_next();
        break;
    case 4:
    case 5:
        (void)land_next(p, rand_r(seed) % 2);
        break;
    default:
        (void)answer_all();
    }
}

/* At any time something is withdrawn, a slot comes or goes, or the pair is not to be. */
Test(net_peer_joint, any_step_at_any_time)
{
    enum { PAIRS = 60 };
    for (unsigned seed_ = 1; seed_ <= SEEDS_OF(400); seed_++) {
        unsigned seed = seed_;
        JOINT_INIT(p);
        p->wire_options.seed = seed_;
        p->wire_options.is_late = seed_ % 2 == 0;
        p->wire_options.reorder = seed_ % 4 == 0 ? 5 : 0;
        p->session.unexpected_max = seed_ % 3 == 0 ? 16 : 512;
        p->options.unexpected_max = p->session.unexpected_max;
        p->options.piece_bytes = SIZE;
        pair_open(p);
        bool goes_off = loses_lots = seed_ % 5 == 0;
        gpus[0].slots = 1 + seed_ % 3;
        gpus[1].slots = 1 + seed_ / 3 % 3;
        pair_op *ops[2 * PAIRS];
        size_t count = 0;
        while (count < 2 * PAIRS) {
            size_t i = count / 2;
            bool is_send = (rand_r(&seed) % 2 == 0) == (count % 2 == 0);
            if (count % 2 != 0)
                is_send = !ops[count - 1]->message.is_send;
            int end = (i % 2 == 0) == is_send;
            pair_op *op = enter_one(p, end, is_send, i % 7);
            if (op != NULL) {
                fry_peer_ready(&op->message, NULL);
                ops[count++] = op;
            }
            for (int steps = rand_r(&seed) % 6; steps > 0; steps--)
                some_step(p, &seed);
            pair_op *victim = ops[(unsigned)rand_r(&seed) % count];
            if (rand_r(&seed) % 8 == 0 && victim->resolved == 0 && victim->quiet == 0) {
                victim->resolved = 1;
                victim->status = FERRY_E_CANCELLED;
                cancel(victim);
            }
            if (goes_off && count == PAIRS) {
                fry_peer_pair_off(p->ends[seed_ % 2].peer, NULL);
                lose_all(p->ends[seed_ % 2].peer);
            }
        }
        run_all(p);
        for (size_t i = 0; i < 2 * PAIRS; i++) {
            cr_assert_eq(ops[i]->resolved, 1, "seed %u, op %zu: %d", seed_, i, ops[i]->resolved);
            cr_assert_eq(ops[i]->quiet, 1, "seed %u, op %zu", seed_, i);
        }
        for (size_t i = 0; i < PAIRS; i++) {
            const pair_op *a = ops[2 * i], *b = ops[2 * i + 1];
            const pair_op *receive = a->message.is_send ? b : a;
            if (receive->status == FERRY_OK)
                expect_bytes(a, b);
        }
    }
}

/* ---- the connection's end ---- */

/* What is only proposed is let go, and what goes is the engine's. */
Test(net_peer_joint, an_end_in_between)
{
    for (int steps = 0; steps < 12; steps++) {
        for (int which = 0; which < 2; which++) {
            JOINT(p);
            (void)begin_one(p, 0, true, 1);
            (void)begin_one(p, 1, false, 1);
            (void)begin_one(p, 1, true, 2);
            (void)begin_one(p, 0, false, 2);
            for (int i = 0; i < steps; i++)
                pair_turn(p, i % 2);
            pair_detach(p, which, FERRY_E_PEER);
            pair_detach(p, !which, FERRY_E_PEER);
            for (int end = 0; end < 2; end++) {
                gpu *at = &gpus[end];
                at->done = at->launched;
                while (land_next(p, end))
                    ;
            }
        }
    }
}

Test(net_peer_joint, a_leaving_end_waits_for_lots)
{
    JOINT(p);
    pair_op *send = begin_one(p, 0, true, 1), *receive = begin_one(p, 1, false, 1);
    run(p);
    cr_assert_eq(gpus[1].launched, 1);
    cr_expect_not(fry_peer_part(p->ends[1].peer, NULL));
    run_all(p);
    cr_expect_gt(p->ends[1].parted, 0);
    expect_joint(send, receive);
    (void)fry_peer_part(p->ends[1].peer, NULL);
    run_all(p);
    cr_expect(fry_peer_part(p->ends[1].peer, NULL));
}

/* ---- who breaks the rules ---- */

static void expect_broken(const fry_wire_header *header, int end)
{
    JOINT(p);
    makes_later = true;
    (void)begin_one(p, 0, true, 1);
    (void)begin_one(p, 1, false, 1);
    (void)begin_one(p, 1, true, 2);
    (void)begin_one(p, 0, false, 2);
    run(p);
    inject(p, end, header, 0, false);
    cr_expect_eq(p->ends[end].failed, 1, "kind %d", header->kind);
    cr_expect_not_null(strstr(p->ends[end].failure.message, "broke"), "%s",
                       p->ends[end].failure.message);
}

Test(net_peer_joint, who_breaks_the_rules)
{
    static const fry_wire_header for_leader[] = {
        {.kind = FRY_WIRE_LOT, .run_count = 1, .joint = {{0, 0, 1, false}}},
        {.kind = FRY_WIRE_PAIR, .op = 1},
        {.kind = FRY_WIRE_GO, .number = 0, .offset = 1},
        {.kind = FRY_WIRE_BUSY, .number = 0},
        {.kind = FRY_WIRE_NUDGE, .number = 0},
        {.kind = FRY_WIRE_FLOWN, .number = 0},
        {.kind = FRY_WIRE_WHOLE, .number = 0},
        {.kind = FRY_WIRE_OFFER, .slot = 0, .number = 0}, /* twice */
        {.kind = FRY_WIRE_OFFER, .slot = 9, .number = 0},
        {.kind = FRY_WIRE_OFFER, .slot = 0, .number = 1},
    };
    static const fry_wire_header for_follower[] = {
        {.kind = FRY_WIRE_OFFER, .slot = 0, .number = 0},
        {.kind = FRY_WIRE_GO, .number = 0},
        {.kind = FRY_WIRE_BUSY, .number = 0},
        {.kind = FRY_WIRE_NUDGE, .number = 0},
        {.kind = FRY_WIRE_FLOWN, .number = 0},
        {.kind = FRY_WIRE_WHOLE, .number = 0},
        {.kind = FRY_WIRE_LOT, .number = 9, .run_count = 1, .joint = {{0, 0, 1, true}}},
        {.kind = FRY_WIRE_LOT, .run_count = 1, .joint = {{512, 0, 1, true}}},
        {.kind = FRY_WIRE_LOT, .run_count = 1, .joint = {{500, 0, 20, true}}},
        {.kind = FRY_WIRE_LOT, .run_count = 1, .joint = {{1, 0, 1, false}}},
        {.kind = FRY_WIRE_LOT, .run_count = 1, .joint = {{0, 0, 65, true}}},
        {.kind = FRY_WIRE_LOT, .run_count = 2, .joint = {{0, 0, 60, true}, {100, 0, 5, true}}},
    };
    for (size_t i = 0; i < sizeof for_leader / sizeof for_leader[0]; i++)
        expect_broken(&for_leader[i], 0);
    for (size_t i = 0; i < sizeof for_follower / sizeof for_follower[0]; i++)
        expect_broken(&for_follower[i], 1);
}

/* It names launches that have no such message here, or one twice: these do not go. */
Test(net_peer_joint, a_lot_of_what_is_not_there)
{
    JOINT(p);
    makes_later = true;
    pair_op *receive = begin_one(p, 1, false, 1);
    (void)begin_one(p, 0, true, 1);
    run(p);
    fry_peer_pair_ready(p->ends[1].peer, true, NULL);
    const fry_wire_header header = {.kind = FRY_WIRE_LOT,
                                    .run_count = 3,
                                    .joint = {{0, 0, 1, true}, {0, 0, 1, true}, {7, 7, 3, true}}};
    inject(p, 1, &header, 0, false);
    cr_expect_eq(p->ends[1].failed, 0);
    cr_assert_eq(gpus[1].launched, 1);
    cr_expect_eq(gpus[1].lots[0]->count, 1);
    cr_expect_eq(gpus[1].lots[0]->items[0].message, &receive->message);
    gpus[1].done = 1;
    cancel(receive);
    while (land_next(p, 1))
        ;
    end_pair(p->ends[1].peer);
}
