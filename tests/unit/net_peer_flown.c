/* SPDX-License-Identifier: Apache-2.0 */
/* What was received in a lot has its bytes if the sender's pair was in order after that: joint.c.
 */
#include "tests/unit/joint_pair.h"

TestSuite(net_peer_flown, .timeout = 60);

/*
 * The sender gives up and ends its pair while the receiver's GPU is at it, whose kernel ends as if
 * all were well. What the sender says of that is late.
 */
Test(net_peer_flown, who_ended_its_pair_is_not_believed)
{
    for (int from = 0; from < 2; from++) {
        JOINT(p);
        pair_op *send = begin_one(p, from, true, 1), *receive = begin_one(p, !from, false, 1);
        run(p);
        cr_assert(gpus[0].launched == 1 && gpus[1].launched == 1);
        fry_peer_pair_ready(p->ends[from].peer, false, NULL);
        gpus[from].has_ended = true;
        cr_assert(do_next() && land_next(p, !from));
        cr_expect_eq(gpus[!from].slots_used, 0, "the GPU has room");
        run(p);
        cr_expect_eq(receive->resolved, 0, "there is no answer");
        lose_all(p->ends[from].peer);
        end_pair(p->ends[!from].peer);
        run(p);
        cr_expect(receive->resolved == 1 && receive->status != FERRY_OK);
        cr_expect(send->resolved == 1 && send->quiet == 1 && receive->quiet == 1);
    }
}

/* It answers for what it has, also when that is still on its own GPU. */
Test(net_peer_flown, who_has_not_ended_its_pair_answers)
{
    JOINT(p);
    for (int from = 0; from < 2; from++) {
        pair_op *send = begin_one(p, from, true, 1), *receive = begin_one(p, !from, false, 1);
        run(p);
        cr_assert(do_next() && land_next(p, !from));
        cr_expect_eq(receive->resolved, 0);
        run(p);
        cr_expect(receive->resolved == 1 && receive->status == FERRY_OK);
        cr_expect_eq(*held_of(&send->message), 1, "its GPU is at it");
        run_all(p);
        expect_joint(send, receive);
    }
}

/* Until `lend_back` an end has no control. None is under way. */
static fry_control *borrow_controls(const pair *p, int end)
{
    fry_peer_connection *connection = p->ends[end].peer->connection;
    fry_control *all = connection->controls_free;
    connection->controls_free = NULL;
    return all;
}

static void lend_back(const pair *p, int end, fry_control *all)
{
    cr_assert_null(p->ends[end].peer->connection->controls_free);
    p->ends[end].peer->connection->controls_free = all;
}

Test(net_peer_flown, words_wait_for_a_control)
{
    JOINT(p);
    pair_op *send = begin_one(p, 0, true, 1), *receive = begin_one(p, 1, false, 1);
    run(p);
    for (int end = 2; end-- > 0;) {
        fry_control *all = borrow_controls(p, end);
        if (end == 1)
            cr_assert(do_next() && land_next(p, 1));
        for (int i = 0; i < 6; i++)
            pair_turn(p, i % 2);
        cr_expect_eq(receive->resolved, 0, "end %d", end);
        lend_back(p, end, all);
        if (end == 1) /* which asks, and has no answer yet */
            pair_turn(p, 1);
    }
    run_all(p);
    expect_joint(send, receive);
}

/* What has left with a lot is not over until the other end has answered it, or has given up. */
Test(net_peer_flown, what_has_left_awaits_an_answer)
{
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        JOINT(p);
        pair_op *send = begin_one(p, 0, true, 1), *receive = begin_one(p, 1, false, 1);
        const fry_peer *sender = p->ends[0].peer;
        run(p);
        cr_expect(fry_peer_joint_is_busy(sender) && fry_peer_joint_is_answered(sender));
        cr_assert(do_next() && land_next(p, 0));
        run(p);
        cr_expect(!fry_peer_joint_is_busy(sender) && !fry_peer_joint_is_answered(sender));
        if (is_cancelled)
            cancel(receive);
        run_all(p);
        cr_expect(fry_peer_joint_is_answered(sender));
        cr_expect_eq(send->status == FERRY_OK, !is_cancelled);
    }
}

/* It answers for a lot that this end's GPU has yet, or that it was not asked for. */
Test(net_peer_flown, who_answers_unasked_breaks_the_rules)
{
    for (int has_flown = 0; has_flown < 2; has_flown++) {
        JOINT(p);
        (void)begin_one(p, 0, true, 1);
        pair_op *receive = begin_one(p, 1, false, 1);
        run(p);
        fry_control *all = borrow_controls(p, 1);
        cr_assert(do_next() && (!has_flown || land_next(p, 1)));
        const fry_wire_header whole = {.kind = FRY_WIRE_WHOLE, .number = gpus[1].lots[0]->number};
        inject(p, 1, &whole, 0, false);
        cr_expect_eq(p->ends[1].failed, 1);
        cr_expect_eq(receive->resolved, 0);
        lend_back(p, 1, all);
        for (int end = 0; end < 2; end++) {
            pair_detach(p, end, FERRY_E_PEER);
            lose_all(p->ends[end].peer);
        }
    }
}

/* It asks for more lots than there can be, and can't be told of any. */
Test(net_peer_flown, who_asks_for_too_many_breaks_the_rules)
{
    JOINT(p);
    (void)begin_one(p, 0, true, 1);
    (void)begin_one(p, 1, false, 1);
    run(p);
    fry_control *all = borrow_controls(p, 0);
    const fry_wire_header flown = {.kind = FRY_WIRE_FLOWN, .number = gpus[0].lots[0]->number};
    for (size_t i = 0; i <= FRY_JOINT_PLACES; i++) {
        cr_expect_eq(p->ends[0].failed, 0, "%zu", i);
        inject(p, 0, &flown, 0, false);
    }
    cr_expect_eq(p->ends[0].failed, 1);
    lend_back(p, 0, all);
    for (int end = 0; end < 2; end++) {
        pair_detach(p, end, FERRY_E_PEER);
        lose_all(p->ends[end].peer);
    }
}
