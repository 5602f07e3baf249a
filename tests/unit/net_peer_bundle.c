/* SPDX-License-Identifier: Apache-2.0 */
/* Sends that are gathered: they cross as one, and each ends as if it had crossed alone. */
#include "net/peer/wire.h"
#include "tests/unit/peer_pair.h"

TestSuite(net_peer_bundle, .timeout = 60);

static uint32_t posts_of(const pair *p)
{
    return (uint32_t)fake_wire_count(p->wire).posts;
}

/* Of several tags and sizes, some received before and some after. */
Test(net_peer_bundle, gathered_sends_go_as_one)
{
    enum { COUNT = 40 };
    static const size_t small[] = {8, 8, 8, 0, 1, 512, 33, 8};
    for (int is_keyed = 0; is_keyed < 2; is_keyed++) {
        PAIR_INIT(p);
        p->session.is_keyed = is_keyed;
        p->session.window_messages = 64;
        p->wire_options.eager_bytes_max = 16384;
        pair_open(p);
        pair_op *sends[COUNT], *receives[COUNT];
        for (int i = 0; i < COUNT; i += 2)
            receives[i] = pair_receive(p, 1, (ferry_tag)(i % 5 + 10 * (i % 2)), small[i % 8]);
        for (int i = 0; i < COUNT; i++)
            sends[i] = pair_gather(p, 0, (ferry_tag)(i % 5 + 10 * (i % 2)), small[i % 8]);
        cr_expect_eq(posts_of(p), 0);
        fry_peer_flush(p->ends[0].peer, NULL);
        cr_expect_eq(posts_of(p), 1);
        fry_peer_flush(p->ends[0].peer, NULL);
        cr_expect_eq(posts_of(p), 1, "there is nothing more");
        for (int i = 0; i < COUNT; i++)
            memset(sends[i]->bytes, 0xee, PAIR_OP_BYTES); /* its memory is not looked at again */
        pair_run(p);
        for (int i = 1; i < COUNT; i += 2)
            receives[i] = pair_receive(p, 1, (ferry_tag)(i % 5 + 10 * (i % 2)), small[i % 8]);
        pair_run(p);
        for (int i = 0; i < COUNT; i++) {
            expect_over(sends[i], FERRY_OK);
            expect_over(receives[i], FERRY_OK);
            cr_expect_eq(receives[i]->message.other_op, sends[i]->message.op);
            uint8_t first = (uint8_t)((size_t)(sends[i] - p->ops) % 200 + 1);
            for (size_t at = 0; at < small[i % 8]; at++)
                cr_assert_eq(receives[i]->bytes[at], first, "op %d", i);
        }
    }
}

Test(net_peer_bundle, one_gathered_goes_as_any_other)
{
    PAIR(p);
    pair_op *receive = pair_receive(p, 1, 1, 8);
    pair_op *send = pair_gather(p, 0, 1, 8);
    fry_peer_flush(p->ends[0].peer, NULL);
    fake_sight sight;
    cr_assert(fake_wire_look(p->wire, 1, 0, &sight));
    cr_expect_eq(sight.header[0], FRY_WIRE_EAGER);
    cr_expect_eq(*sight.header_bytes, FRY_WIRE_MESSAGE_BYTES);
    pair_run(p);
    expect_met(send, receive);
}

/* What can't join goes in its turn: large, past the window, or of a full bundle. */
Test(net_peer_bundle, what_is_not_gathered)
{
    enum { COUNT = 60 };
    for (uint32_t window = 1; window < 64; window += 9) {
        PAIR_WITH(p, session.window_messages = window);
        pair_op *sends[COUNT], *receives[COUNT];
        for (int i = 0; i < COUNT; i++) {
            size_t size = i % 11 == 10 ? 600 : i % 17 == 16 ? 5000 : i % 3 ? 8 : 300;
            receives[i] = pair_receive(p, 1, 1, size);
            sends[i] = pair_enter(p, 0, true, 1, size);
            (void)fry_peer_gather(&sends[i]->message, NULL);
        }
        pair_run(p);
        for (int i = 0; i < COUNT; i++)
            expect_met(sends[i], receives[i]);
    }
}

Test(net_peer_bundle, sends_that_waited_for_a_connection_go_together)
{
    PAIR_INIT(p);
    pair_open_peers(p);
    pair_op *sends[10];
    for (int i = 0; i < 10; i++)
        sends[i] = pair_send(p, 0, 1, 8);
    pair_attach(p);
    cr_expect_eq(posts_of(p), 1);
    for (int i = 0; i < 10; i++)
        (void)pair_receive(p, 1, 1, 8);
    pair_run(p);
    for (int i = 0; i < 10; i++)
        expect_over(sends[i], FERRY_OK);
}

/* Of many in a bundle one has another length, one is refused, one was poisoned before. */
Test(net_peer_bundle, one_of_a_bundle_fails_alone)
{
    enum { COUNT = 12, WRONG = 3, REFUSED = 5, POISONED = 8 };
    PAIR(p);
    pair_op *sends[COUNT], *receives[COUNT];
    for (int i = 0; i < COUNT; i++)
        receives[i] = pair_receive(p, 1, 1, i == WRONG ? 9 : 8);
    pair_withdraw(receives[REFUSED]);
    for (int i = 0; i < COUNT; i++) {
        sends[i] = pair_enter(p, 0, true, 1, 8);
        if (i == POISONED)
            pair_withdraw(sends[i]);
        else
            (void)fry_peer_gather(&sends[i]->message, NULL);
    }
    pair_run(p);
    for (int i = 0; i < COUNT; i++) {
        if (i == WRONG) {
            expect_over(sends[i], FERRY_E_LENGTH);
            expect_over(receives[i], FERRY_E_LENGTH);
        } else if (i == REFUSED) {
            expect_over(sends[i], FERRY_E_DEPENDENCY);
        } else if (i == POISONED) {
            expect_over(receives[i], FERRY_E_DEPENDENCY);
        } else {
            expect_met(sends[i], receives[i]);
        }
    }
}

/* It is quiet at once, and its bytes arrive as if nothing had been. */
Test(net_peer_bundle, withdrawn_while_it_is_gathered)
{
    PAIR(p);
    pair_op *receives[3], *sends[3];
    for (int i = 0; i < 3; i++)
        receives[i] = pair_receive(p, 1, 1, 8);
    for (int i = 0; i < 3; i++)
        sends[i] = pair_gather(p, 0, 1, 8);
    pair_withdraw(sends[1]);
    cr_expect_eq(sends[1]->quiet, 1);
    memset(sends[1]->bytes, 0, 8);
    pair_run(p);
    cr_expect_eq(sends[1]->resolved, 0);
    expect_over(sends[0], FERRY_OK);
    expect_over(sends[2], FERRY_OK);
    for (int i = 0; i < 3; i++)
        expect_over(receives[i], FERRY_OK);
    cr_expect_eq(receives[1]->bytes[7], 5);
}

Test(net_peer_bundle, the_connection_fails_with_a_bundle_gathered)
{
    for (int how = 0; how < 3; how++) {
        PAIR(p);
        pair_op *sends[4];
        for (int i = 0; i < 3; i++)
            sends[i] = pair_gather(p, 0, 1, 8);
        if (how == 0) { /* its post fails */
            fake_wire_cut_at_post(p->wire, 1);
            fry_peer_flush(p->ends[0].peer, NULL);
        } else if (how == 1) { /* the post that another send brings about */
            fake_wire_cut_at_post(p->wire, 1);
        } else {
            fake_wire_cut(p->wire);
        }
        sends[3] = pair_send(p, 0, 1, how == 1 ? 1000 : 8);
        pair_turn(p, 0);
        cr_expect_eq(p->ends[0].failed, 1);
        pair_detach(p, 0, FERRY_E_PEER);
        for (int i = 0; i < 4; i++)
            expect_over(sends[i], FERRY_E_PEER);
    }
}

Test(net_peer_bundle, bye_comes_after_what_was_gathered)
{
    for (int is_early = 0; is_early < 2; is_early++) {
        PAIR(p);
        pair_op *receives[3];
        for (int i = 0; i < 3; i++)
            receives[i] = pair_receive(p, 1, 1, 8);
        for (int i = 0; i < 3; i++)
            (void)pair_gather(p, 0, 1, 8);
        if (is_early)
            cr_expect(fry_peer_part(p->ends[0].peer, NULL));
        else
            pair_detach(p, 0, FERRY_E_SHUTDOWN);
        while (p->ends[1].failed == 0)
            pair_turn(p, 1);
        for (int i = 0; i < 3; i++)
            expect_over(receives[i], FERRY_OK);
        cr_expect_eq(p->ends[1].failure.status, FERRY_E_DEAD);
    }
}

/* More bundles than there are buffers, none of which comes back for a while. */
Test(net_peer_bundle, bundles_without_buffers)
{
    enum { ROUNDS = 20, EACH = 5 };
    for (uint64_t seed = 1; seed < 10; seed++) {
        PAIR_INIT(p);
        p->wire_options.seed = seed;
        p->wire_options.is_late = true;
        p->wire_options.reorder = 8;
        p->session.window_messages = 200;
        pair_open(p);
        pair_op *sends[ROUNDS * EACH], *receives[ROUNDS * EACH];
        for (int i = 0; i < ROUNDS * EACH; i++) {
            sends[i] = pair_enter(p, 0, true, (ferry_tag)(i % 3), 8);
            (void)fry_peer_gather(&sends[i]->message, NULL);
            if (i % EACH == EACH - 1)
                fry_peer_flush(p->ends[0].peer, NULL);
        }
        for (int i = 0; i < ROUNDS * EACH; i++)
            receives[i] = pair_receive(p, 1, (ferry_tag)(i % 3), 8);
        pair_run(p);
        for (int i = 0; i < ROUNDS * EACH; i++)
            expect_met(sends[i], receives[i]);
    }
}
