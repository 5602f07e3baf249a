/* SPDX-License-Identifier: Apache-2.0 */
/* Notices between two peers, and peers that break the rules of them. */
#include "net/peer/connection.h"
#include "net/peer/match.h"
#include "net/peer/notice.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"
#include "tests/unit/peer_pair.h"

#include <stdio.h>

TestSuite(net_notice, .timeout = 60);

static int noticed;

static void count_noticed(void *turn, fry_peer *peer)
{
    (void)turn, (void)peer;
    noticed++;
}

/* With slots for so many unanswered messages. */
static pair *open_pair(uint32_t slots)
{
    static fry_peer_events events;
    pair *p = pair_init();
    events = pair_events;
    events.noticed = count_noticed;
    noticed = 0;
    p->options.events = &events;
    p->session.has_windows = true;
    p->session.unexpected_max = p->options.unexpected_max = slots;
    p->wire_options.eager_bytes_max = 8192;
    return pair_open(p);
}

static pair_op *notify(pair *p, size_t size_bytes, bool gathers)
{
    pair_op *op = &p->ops[p->op_count];
    cr_assert_lt(p->op_count, PAIR_OPS);
    op->message = (fry_message){.memory = size_bytes > 0 ? op->bytes : NULL,
                                .size_bytes = size_bytes,
                                .op = 1000 + p->op_count,
                                .is_send = true};
    memset(op->bytes, (int)(p->op_count % 200 + 1), size_bytes);
    cr_assert(fry_peer_notify(p->ends[0].peer, &op->message, gathers, NULL));
    p->op_count++;
    return op;
}

/* The next that end 1 has is that one. */
static void expect_next(pair *p, const pair_op *sent)
{
    char bytes[FRY_NOTICE_BYTES] = {0};
    size_t size_bytes = 0;
    cr_assert(fry_peer_has_notice(p->ends[1].peer, &size_bytes));
    cr_assert_eq(size_bytes, sent->message.size_bytes);
    cr_assert_eq(p->ends[1].connection->windows->notice_first->op, sent->message.op);
    cr_assert_eq(fry_peer_take_notice(p->ends[1].peer, bytes, NULL), sent->message.op);
    cr_assert_eq(memcmp(bytes, sent->bytes, size_bytes), 0);
}

static void expect_none(pair *p)
{
    size_t size_bytes;
    cr_assert_not(fry_peer_has_notice(p->ends[1].peer, &size_bytes));
}

Test(net_notice, is_answered_when_it_is_taken)
{
    static const size_t sizes[] = {0, 1, 33, 1024, FRY_NOTICE_BYTES};
    OWNED(pair_end_scope) pair *p = open_pair(512);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pair_op *op = notify(p, sizes[i], false);
        pair_run(p);
        cr_assert_eq(op->resolved, 0);
        cr_assert_eq(noticed, (int)i + 1);
        expect_next(p, op);
        expect_none(p);
        pair_run(p);
        expect_over(op, FERRY_OK);
    }
}

/* Some go together, some have to wait, some are withdrawn. */
static void go_in_order(uint32_t slots, bool gathers)
{
    enum { COUNT = 500 };
    OWNED(pair_end_scope) pair *p = open_pair(slots);
    pair_op *ops[COUNT];
    size_t count = slots < COUNT ? slots : COUNT;
    for (size_t i = 0; i < count; i++)
        ops[i] = notify(p, i % 3 * 20, gathers);
    fry_peer_flush(p->ends[0].peer, NULL);
    pair_op *sent = NULL;
    if (count < slots) /* there is a slot for it, whoever takes none */
        sent = pair_send(p, 0, 5, 8);
    pair_run(p);
    size_t out = slots / 2 + 1 < 256 ? slots / 2 + 1 : 256;
    cr_assert_eq(noticed, count < out ? (int)count : (int)out);
    if (sent != NULL) {
        pair_op *receive = pair_receive(p, 1, 5, 8);
        pair_run(p);
        expect_met(sent, receive);
    }
    for (size_t i = 0; i < count; i++) {
        bool has_left = i < out;
        if (!has_left && i % 5 == 0)
            pair_withdraw(ops[i]);
        if (ops[i]->quiet != 0) {
            cr_assert_eq(ops[i]->resolved, 0);
            continue;
        }
        expect_next(p, ops[i]);
        out++;
        pair_run(p);
        expect_over(ops[i], FERRY_OK);
    }
    expect_none(p);
}

Test(net_notice, goes_in_order)
{
    go_in_order(4096, false);
    go_in_order(4096, true);
    go_in_order(601, true);
    go_in_order(8, true);
    go_in_order(1, false);
}

Test(net_notice, that_has_left_may_be_heard)
{
    OWNED(pair_end_scope) pair *p = open_pair(512);
    pair_op *op = notify(p, 8, false), *next = notify(p, 8, false);
    pair_run(p);
    pair_withdraw(op);
    cr_assert_eq(op->quiet, 1);
    expect_next(p, op);
    expect_next(p, next);
    pair_run(p);
    cr_assert_eq(op->resolved, 0);
    expect_over(next, FERRY_OK);
}

Test(net_notice, ends_with_its_connection)
{
    OWNED(pair_end_scope) pair *p = open_pair(512);
    pair_op *ops[300];
    for (size_t i = 0; i < 300; i++)
        ops[i] = notify(p, 8, false);
    pair_run(p);
    pair_detach(p, 1, FERRY_E_PEER);
    expect_none(p);
    pair_detach(p, 0, FERRY_E_PEER);
    for (size_t i = 0; i < 300; i++)
        cr_assert_eq(ops[i]->resolved, 1);
    pair_destroy(p, 0);
    pair_destroy(p, 1);
}

/* Who takes no more answers those that it has. */
Test(net_notice, is_refused_by_who_leaves)
{
    OWNED(pair_end_scope) pair *p = open_pair(512);
    pair_op *op = notify(p, 8, false);
    pair_run(p);
    const fry_fault fault = {.status = FERRY_E_CANCELLED, .rank = 11, .message = "it leaves"};
    fry_peer_stop(p->ends[1].peer, false, FERRY_E_CANCELLED, &fault, NULL);
    expect_none(p);
    pair_run(p);
    expect_over(op, FERRY_E_DEAD);
    pair_op *late = notify(p, 8, false);
    pair_run(p);
    expect_over(late, FERRY_E_DEAD);
}

Test(net_notice, needs_one_who_knows_it)
{
    PAIR(p);
    pair_op *op = notify(p, 8, false);
    pair_run(p);
    expect_over(op, FERRY_E_UNSUPPORTED);
}

/* ---- rules that are broken ---- */

static void inject(pair *p, uint8_t kind, uint32_t number, size_t size_bytes, uint8_t second)
{
    static uint8_t data[FRY_NOTICE_BYTES + 1];
    fry_wire_header header = {.kind = kind, .number = number, .slot = number};
    header.size_bytes = size_bytes;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    fry_wire_pack_message(bytes, &header);
    bytes[1] = second;
    fake_wire_inject(p->wire, 0, bytes, FRY_WIRE_MESSAGE_BYTES, data, size_bytes, false);
    pair_turn(p, 0);
}

static void inject_series(pair *p, uint32_t ahead, uint16_t what)
{
    uint8_t header_bytes[FRY_HEADER_BYTES_MAX], data[FRY_WIRE_SERIES_BYTES + 16] = {0};
    fry_wire_header header = {.kind = FRY_WIRE_BUNDLE, .series_count = 1};
    fry_wire_series series = {.ahead = ahead, .size_bytes = 8, .count = 2};
    size_t size = fry_wire_pack(header_bytes, &header);
    fry_wire_pack_series(data, &series);
    fry_wire_put16(data + 30, what);
    fake_wire_inject(p->wire, 0, header_bytes, size, data, sizeof data, false);
    pair_turn(p, 0);
}

static void expect_refused(pair *p, bool is_refused, const char *what)
{
    cr_expect_eq(p->ends[0].failed, is_refused, "%s", what);
    if (is_refused)
        pair_detach(p, 0, FERRY_E_PEER);
    pair_close(p);
}

Test(net_notice, that_breaks_the_rules_is_refused)
{
    static const struct {
        uint8_t kind, second;
        size_t size_bytes;
        bool is_known, is_refused;
    } cases[] = {
        {FRY_WIRE_EAGER, 6, 8, true, false},
        {FRY_WIRE_EAGER, 6, 8, false, true},
        {FRY_WIRE_EAGER, 6, FRY_NOTICE_BYTES, true, false},
        {FRY_WIRE_EAGER, 6, FRY_NOTICE_BYTES + 1, true, true},
        {FRY_WIRE_EAGER, 4, 8, true, true},
        {FRY_WIRE_EAGER, 14, 8, true, true},
        {FRY_WIRE_PULLED, 6, 8, true, true},
        {FRY_WIRE_HELD, 6, 8, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pair *p = cases[i].is_known ? open_pair(512) : pair_open(pair_init());
        inject(p, cases[i].kind, 0, cases[i].size_bytes, cases[i].second);
        char what[16];
        (void)snprintf(what, sizeof what, "case %zu", i);
        expect_refused(p, cases[i].is_refused, what);
    }
}

Test(net_notice, that_is_one_too_many_is_refused)
{
    pair *p = open_pair(512);
    for (uint32_t i = 0; i < FRY_NOTICES_UNTAKEN; i++)
        inject(p, FRY_WIRE_EAGER, i, 8, 6);
    cr_assert_eq(noticed, FRY_NOTICES_UNTAKEN);
    cr_assert_eq(p->ends[0].failed, 0);
    inject(p, FRY_WIRE_EAGER, FRY_NOTICES_UNTAKEN, 8, 6);
    expect_refused(p, true, "the 257th");
}

Test(net_notice, that_breaks_the_rules_in_a_bundle_is_refused)
{
    static const struct {
        uint32_t ahead;
        uint16_t what;
        bool is_known, is_refused;
    } cases[] = {
        {0, 6, true, false}, {0, 6, false, true}, {1, 6, true, true},
        {0, 2, true, true},  {0, 4, true, true},  {0, 0x0600, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pair *p = cases[i].is_known ? open_pair(512) : pair_open(pair_init());
        inject_series(p, cases[i].ahead, cases[i].what);
        char what[16];
        (void)snprintf(what, sizeof what, "bundle %zu", i);
        expect_refused(p, cases[i].is_refused, what);
    }
}
