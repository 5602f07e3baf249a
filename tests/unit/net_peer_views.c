/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: receives that read their message where the sender has it, and the memory that is closed
 * again. The test is the engine: it reads at once or when it is told to.
 */
#include "net/peer/hide.h"
#include "tests/unit/piece_pair.h"

TestSuite(net_peer_views, .timeout = 60);

enum { SIZE = 2000 };

static fry_slice *viewed[64]; /* shown, and not read yet */
static size_t viewed_count;
static bool reads_later, shows_nothing, cannot_read;
static uint64_t closed_generation;
static int closings;

static bool on_show(void *turn, fry_message *message, fry_place *place_p)
{
    (void)turn;
    const uint8_t *bytes = ((pair_op *)message)->bytes;
    cr_assert_eq(((pair_op *)message)->quiet, 0);
    memcpy(place_p->bytes, &bytes, sizeof(bytes));
    return !shows_nothing;
}

static void read_now(fry_slice *view)
{
    pair_op *op = (pair_op *)view->message;
    if (op != NULL && !cannot_read)
        memcpy(op->bytes, view->memory, op->message.size_bytes);
    fry_peer_viewed(view, op != NULL && !cannot_read, NULL);
}

static void on_shown(void *turn, fry_slice *view, const fry_place *place)
{
    (void)turn;
    memcpy(&view->memory, place->bytes, sizeof(view->memory));
    if (!reads_later) {
        read_now(view);
        return;
    }
    cr_assert_lt(viewed_count, 64);
    viewed[viewed_count++] = view;
}

static void on_view_over(void *turn, fry_slice *slice)
{
    if (!slice->is_view) {
        on_over(turn, slice);
        return;
    }
    for (size_t i = 0; i < viewed_count; i++) {
        if (viewed[i] == slice)
            viewed[i] = NULL;
    }
}

static void read_all(void)
{
    for (size_t i = 0; i < viewed_count; i++) {
        if (viewed[i] != NULL)
            read_now(viewed[i]);
    }
    viewed_count = 0;
}

static void on_hide(void *turn, fry_peer *peer, uint64_t generation)
{
    closed_generation = generation;
    if (!reads_later)
        fry_peer_has_closed(peer, turn);
}

static void on_hidden(void *turn, fry_peer *peer)
{
    (void)turn, (void)peer;
    closings++;
}

static pair *views_init(void)
{
    static fry_peer_events events;
    pair *p = pieces_init();
    events = *p->options.events;
    events.show = on_show;
    events.shown = on_shown;
    events.over = on_view_over;
    events.hide = on_hide;
    events.hidden = on_hidden;
    p->options.events = &events;
    p->session.has_views = true;
    viewed_count = 0;
    reads_later = shows_nothing = cannot_read = false;
    closed_generation = 0;
    closings = 0;
    return p;
}

#define VIEWS_INIT(p_) OWNED(pieces_end) pair *p_ = views_init()

static pair_op *begin_send(pair *p, ferry_tag tag)
{
    return begin_tagged(p, 0, true, tag, SIZE);
}

static pair_op *begin_receive(pair *p, ferry_tag tag)
{
    pair_op *op = enter_tagged(p, 1, false, tag, SIZE);
    op->message.may_view = true;
    fry_peer_ready(&op->message, NULL);
    return op;
}

/* ---- as it should be ---- */

Test(net_peer_views, every_order_and_wire)
{
    for (unsigned round = 0; round < 16; round++) {
        VIEWS_INIT(p);
        p->wire_options.seed = round / 4;
        p->wire_options.is_late = round >= 4;
        p->wire_options.reorder = round >= 8 ? 5 : 0;
        pair_open(p);
        reads_later = round % 4 >= 2;
        pair_op *sends[12], *receives[12];
        for (size_t i = 0; i < 12; i++) {
            if (round % 2 == 0)
                receives[i] = begin_receive(p, i);
            sends[i] = begin_send(p, i);
            if (round % 2 != 0)
                receives[i] = begin_receive(p, i);
        }
        for (int i = 0; i < 8; i++) {
            run(p);
            read_all();
        }
        run(p);
        for (size_t i = 0; i < 12; i++)
            expect_met(sends[i], receives[i]);
        for (size_t i = 0; i < 12; i++)
            cr_expect(sends[i]->message.was_viewed && receives[i]->message.was_viewed);
        cr_expect_eq(chunk_count, 0, "none came in pieces");
    }
}

Test(net_peer_views, in_pieces_if_there_is_no_place)
{
    VIEWS_INIT(p);
    pair_open(p);
    shows_nothing = true;
    pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
    run(p);
    expect_met(send, receive);
    cr_expect(!send->message.was_viewed && !receive->message.was_viewed);
    cr_expect_gt(chunk_count, 0);
}

Test(net_peer_views, in_pieces_if_it_cannot_be_read)
{
    for (int late = 0; late < 2; late++) {
        VIEWS_INIT(p);
        pair_open(p);
        cannot_read = true;
        reads_later = late != 0;
        pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
        run(p);
        read_all();
        run(p);
        expect_met(send, receive);
        cr_expect(!send->message.was_viewed && !receive->message.was_viewed);
        cr_expect_gt(chunk_count, 0);
    }
}

Test(net_peer_views, not_where_it_is_not_agreed)
{
    VIEWS_INIT(p);
    p->session.has_views = false;
    pair_open(p);
    pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
    run(p);
    expect_met(send, receive);
    cr_expect(!send->message.was_viewed && !receive->message.was_viewed);
    cr_expect_gt(chunk_count, 0);
}

/* ---- withdrawn ---- */

/* The send is quiet when the reader says that it reads no more. */
Test(net_peer_views, a_withdrawn_send_is_read_to_the_end)
{
    VIEWS_INIT(p);
    pair_open(p);
    reads_later = true;
    pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
    run(p);
    cr_assert_eq(viewed_count, 1);
    cancel(send);
    run(p);
    cr_expect_eq(send->quiet, 0);
    cr_expect_eq(receive->resolved, 1);
    cr_expect_eq(receive->status, FERRY_E_DEPENDENCY);
    read_all();
    run(p);
    cr_expect_eq(send->quiet, 1);
    cr_expect_eq(receive->quiet, 1);
}

Test(net_peer_views, a_withdrawn_receive_leaves_its_view)
{
    VIEWS_INIT(p);
    pair_open(p);
    reads_later = true;
    pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
    run(p);
    cancel(receive);
    run(p);
    cr_expect_eq(send->resolved, 1);
    cr_expect_eq(send->status, FERRY_E_DEPENDENCY);
    cr_expect_eq(send->quiet, 0);
    read_all();
    run(p);
    cr_expect_eq(send->quiet, 1);
}

/* All was read, but by then the send was withdrawn: the bytes may have been others. */
Test(net_peer_views, what_was_withdrawn_meanwhile_is_not_taken)
{
    VIEWS_INIT(p);
    pair_open(p);
    reads_later = true;
    pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
    run(p);
    cancel(send);
    read_all(); /* before the recall has come */
    run(p);
    cr_expect_eq(receive->resolved, 1);
    cr_expect_neq(receive->status, FERRY_OK);
    cr_expect_eq(send->quiet, 1);
    cr_expect_eq(receive->quiet, 1);
}

/* At each moment, and the slot is used again. */
Test(net_peer_views, withdrawn_at_any_time)
{
    for (unsigned when = 0; when < 24; when++) {
        for (int how = 0; how < 4; how++) {
            VIEWS_INIT(p);
            p->wire_options.is_late = how >= 2;
            pair_open(p);
            reads_later = true;
            pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
            for (unsigned n = 0; n < when; n++) {
                if (n % 3 == 2)
                    read_all();
                else
                    pair_turn(p, (int)(n % 3));
            }
            pair_op *op = how % 2 == 0 ? send : receive;
            if (op->resolved == 0)
                cancel(op);
            pair_op *next = begin_send(p, 2), *last = begin_receive(p, 2);
            for (int i = 0; i < 4; i++) {
                run(p);
                read_all();
            }
            run(p);
            cr_expect_eq(send->quiet, 1);
            cr_expect_eq(receive->quiet, 1);
            expect_met(next, last);
        }
    }
}

/* The connection ends at each moment. */
Test(net_peer_views, detached_at_any_time)
{
    for (unsigned when = 0; when < 16; when++) {
        for (int reads = 0; reads < 2; reads++) {
            VIEWS_INIT(p);
            pair_open(p);
            reads_later = true;
            pair_op *send = begin_send(p, 1), *receive = begin_receive(p, 1);
            for (unsigned n = 0; n < when; n++) {
                if (n % 5 == 4)
                    read_all();
                else
                    pair_turn(p, (int)(n % 2));
            }
            for (int end = 0; end < 2; end++) {
                pair_detach(p, end, FERRY_E_DEAD);
                if (reads != 0 && end == 1)
                    read_all();
                pair_destroy(p, end);
            }
            cr_expect_eq(send->quiet, 1);
            cr_expect_eq(receive->quiet, 1);
        }
    }
}

/* ---- closing ---- */

Test(net_peer_views, memory_is_closed_when_it_is_asked_for)
{
    VIEWS_INIT(p);
    pair_open(p);
    fry_peer_hide(p->ends[0].peer, 77, NULL);
    run(p);
    cr_expect_eq(closed_generation, 77);
    cr_expect_eq(closings, 1);
    reads_later = true; /* and closes later */
    fry_peer_hide(p->ends[0].peer, 78, NULL);
    run(p);
    cr_expect_eq(closed_generation, 78);
    cr_expect_eq(closings, 1);
    fry_peer_has_closed(p->ends[1].peer, NULL);
    run(p);
    cr_expect_eq(closings, 2);
}

/* ---- hostile ---- */

/* End 0 has a HELD send in slot 0 with number 0, which end 1 has asked about, and been shown, and
 * one that went with its data in slot 1. */
static void expect_hostile(int end, fry_wire_header header, size_t data_bytes, bool is_refused)
{
    VIEWS_INIT(p);
    pair_open(p);
    reads_later = true;
    (void)begin_receive(p, 1);
    (void)begin_send(p, 1);
    (void)pair_send(p, 0, 3, 8);
    run(p);
    cr_assert_eq(viewed_count, 1);
    fake_wire_hold(p->wire, FAKE_HOLD_ARRIVALS);
    fake_wire_hold(p->wire, 0);
    inject(p, end, &header, data_bytes, false);
    cr_expect_eq(p->ends[end].failed, is_refused, "kind %d slot %u number %u yes %d", header.kind,
                 header.slot, header.number, header.is_yes);
    if (is_refused)
        cr_expect_eq(p->ends[end].failure.status, FERRY_E_PEER);
    for (int i = 0; i < 2; i++)
        pair_detach(p, i, FERRY_E_PEER);
}

#define OF(kind_, slot_, number_, is_yes_)                                                         \
    (fry_wire_header)                                                                              \
    {                                                                                              \
        .kind = (kind_), .slot = (slot_), .number = (number_), .is_yes = (is_yes_)                 \
    }

Test(net_peer_views, hostile_to_the_sender)
{
    expect_hostile(0, OF(FRY_WIRE_VIEW, 0, 0, false), 0, false); /* once more */
    expect_hostile(0, OF(FRY_WIRE_VIEW, 0, 0, false), 8, true);
    expect_hostile(0, OF(FRY_WIRE_VIEW, 1, 1, false), 0, true); /* went with its data */
    expect_hostile(0, OF(FRY_WIRE_VIEW, 2, 2, false), 0, true); /* never launched */
    expect_hostile(0, OF(FRY_WIRE_VIEW, UINT32_MAX, 0, false), 0, true);
    expect_hostile(0, OF(FRY_WIRE_VIEWED, 0, 0, true), 0, false);
    expect_hostile(0, OF(FRY_WIRE_VIEWED, 0, 0, false), 0, false);
    expect_hostile(0, OF(FRY_WIRE_VIEWED, 0, 1, true), 0, true);
    expect_hostile(0, OF(FRY_WIRE_VIEWED, 1, 1, true), 0, true); /* was not shown */
    expect_hostile(0, OF(FRY_WIRE_VIEWED, UINT32_MAX, 0, true), 0, true);
    expect_hostile(0, OF(FRY_WIRE_HIDDEN, 0, 0, false), 0, true);
}

Test(net_peer_views, hostile_to_the_receiver)
{
    expect_hostile(1, OF(FRY_WIRE_SHOW, 0, 0, true), 0, true); /* twice */
    expect_hostile(1, OF(FRY_WIRE_SHOW, 0, 0, false), 0, true);
    expect_hostile(1, OF(FRY_WIRE_SHOW, 1, 1, true), 0, true);
    expect_hostile(1, OF(FRY_WIRE_SHOW, UINT32_MAX, 0, true), 0, true);
    expect_hostile(1, OF(FRY_WIRE_HOLDS, 0, 0, false), 0, true);  /* nothing was read yet */
    expect_hostile(1, OF(FRY_WIRE_HOLDS, 1, 1, false), 0, false); /* a launch that has ended */
    expect_hostile(1, OF(FRY_WIRE_HOLDS, 1, 9, false), 0, true);
    expect_hostile(1, OF(FRY_WIRE_HIDE, 0, 0, false), 0, false);
}

Test(net_peer_views, asked_to_close_twice_at_once)
{
    VIEWS_INIT(p);
    pair_open(p);
    reads_later = true;
    const fry_wire_header hide = {.kind = FRY_WIRE_HIDE, .op = 5};
    inject(p, 1, &hide, 0, false);
    cr_expect_eq(p->ends[1].failed, 0);
    inject(p, 1, &hide, 0, false);
    cr_expect_eq(p->ends[1].failed, 1);
}

Test(net_peer_views, too_many_views)
{
    VIEWS_INIT(p);
    pair_open(p);
    (void)begin_send(p, 1);
    const fry_wire_header view = OF(FRY_WIRE_VIEW, 0, 0, false);
    for (int i = 0; i < FRY_CONNECTION_SERVED + FRY_CONNECTION_WANTED; i++)
        inject(p, 0, &view, 0, false);
    cr_expect_eq(p->ends[0].failed, 0);
    for (int i = 0; i < 8 && p->ends[0].failed == 0; i++)
        inject(p, 0, &view, 0, false);
    cr_expect_eq(p->ends[0].failed, 1);
}

Test(net_peer_views, unknown_where_not_agreed)
{
    for (uint8_t kind = FRY_WIRE_VIEW; kind < FRY_WIRE_KINDS; kind++) {
        VIEWS_INIT(p);
        p->session.has_views = false;
        pair_open(p);
        const fry_wire_header header = {.kind = kind};
        inject(p, 0, &header, 0, false);
        cr_expect_eq(p->ends[0].failed, 1, "kind %d", kind);
    }
}
