/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that break the rules: the lane fails, FERRY_E_PEER, and nothing else happens. */
#include "net/mac.h"
#include "tests/unit/peer_pair.h"

TestSuite(net_peer_hostile, .timeout = 60);

/* End 0 is the victim. It has a send that was launched (slot 0) and a receive of each of tags 1 and
 * 2, and has been given message number 0 in slot 0, of tag 9, which nobody receives. */
static pair *open_victim(void)
{
    pair *p = pair_init();
    p->session.unexpected_max = 4;
    p->session.window_messages = 2;
    p->session.window_bytes = 4096;
    pair_open(p);
    (void)pair_send(p, 0, 3, 8);
    (void)pair_receive(p, 0, 1, 16);
    (void)pair_enter(p, 0, false, 2, 16);
    (void)pair_send(p, 1, 9, 8);
    pair_run(p);
    return p;
}

static fry_wire_header next_message(uint8_t kind)
{
    return (fry_wire_header){
        .kind = kind, .number = 1, .slot = 1, .tag = 1, .op = 5, .size_bytes = 16};
}

static void inject(pair *p, const fry_wire_header *header, size_t data_bytes, bool is_pulled)
{
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t size = FRY_WIRE_MESSAGE_BYTES;
    if (header->kind == FRY_WIRE_EAGER || header->kind == FRY_WIRE_PULLED)
        fry_wire_pack_message(bytes, header);
    else
        size = fry_wire_pack(bytes, header);
    fake_wire_inject(p->wire, 0, bytes, size, NULL, data_bytes, is_pulled);
    (void)fry_peer_progress(p->ends[0].peer);
}

/* Closes it. */
static void expect_refused(pair *p, const char *what)
{
    pair_end *end = &p->ends[0];
    cr_expect_eq(end->failed, 1, "%s", what);
    cr_expect_eq(end->failure.status, FERRY_E_PEER, "%s", what);
    cr_expect_eq(end->failure.rank, 11);
    cr_expect(strncmp(end->failure.message, "what came from it can't be", 26) == 0 ||
                  strstr(end->failure.message, "than was agreed") != NULL,
              "%s: %s", what, end->failure.message);
    for (size_t i = 0; i < p->op_count; i++) {
        cr_expect_eq(p->ops[i].resolved, 0, "%s: op %zu", what, i);
        cr_expect(p->ops[i].message.is_send || p->ops[i].bytes[0] == 0);
    }
    pair_detach(p, 0, FERRY_E_PEER);
    for (size_t i = 0; i < 3; i++)
        expect_over(&p->ops[i], FERRY_E_PEER);
    pair_close(p);
}

static void expect_taken(pair *p, const char *what)
{
    cr_expect_eq(p->ends[0].failed, 0, "%s: %s", what, p->ends[0].failure.message);
    pair_close(p);
}

Test(net_peer_hostile, a_good_one_is_taken)
{
    pair *p = open_victim();
    fry_wire_header header = next_message(FRY_WIRE_EAGER);
    inject(p, &header, 16, false);
    expect_over(&p->ops[1], FERRY_OK);
    expect_taken(p, "good");
}

Test(net_peer_hostile, each_field_of_a_message)
{
    static const uint8_t kinds[] = {FRY_WIRE_EAGER, FRY_WIRE_PULLED};
    for (size_t i = 0; i < sizeof(kinds); i++) {
        bool is_pulled = kinds[i] == FRY_WIRE_PULLED;
        pair *p = open_victim();
        fry_wire_header header = next_message(kinds[i]);
        header.number = 0;
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "a number that was");

        p = open_victim();
        header = next_message(kinds[i]);
        header.number = 1 + 16;
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "a number too far ahead");

        p = open_victim();
        header = next_message(kinds[i]);
        header.number = UINT32_MAX;
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "a number long ago");

        p = open_victim();
        header = next_message(kinds[i]);
        header.slot = 4;
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "a slot out of bounds");

        p = open_victim();
        header = next_message(kinds[i]);
        header.size_bytes = 17;
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "more than there is");

        p = open_victim();
        header = next_message(kinds[i]);
        header.size_bytes = 15;
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "less than there is");

        p = open_victim();
        header = next_message(kinds[i]);
        inject(p, &header, 16, !is_pulled);
        expect_refused(p, "of the other kind");

        p = open_victim();
        header = next_message(kinds[i]);
        header.acked = (fry_wire_run){1, 1};
        inject(p, &header, 16, is_pulled);
        expect_refused(p, "an answer to what was not sent");

        p = open_victim();
        header = next_message(kinds[i]);
        header.ahead = UINT32_MAX; /* far off is no crime */
        inject(p, &header, 16, is_pulled);
        expect_taken(p, "far ahead");
    }
}

Test(net_peer_hostile, an_empty_message_is_not_pulled)
{
    pair *p = open_victim();
    fry_wire_header header = next_message(FRY_WIRE_PULLED);
    header.size_bytes = 0;
    inject(p, &header, 0, true);
    expect_refused(p, "nothing to pull");
}

Test(net_peer_hostile, a_number_twice_in_the_stash)
{
    pair *p = open_victim();
    fry_wire_header header = next_message(FRY_WIRE_EAGER);
    header.number = 3;
    inject(p, &header, 16, false);
    cr_expect_eq(p->ends[0].failed, 0);
    header.slot = 2;
    inject(p, &header, 16, false);
    expect_refused(p, "a number twice");
}

Test(net_peer_hostile, answers_to_nothing)
{
    static const struct {
        uint8_t kind;
        uint32_t slot, count;
    } answers[] = {
        {FRY_WIRE_ACK, 1, 1},    {FRY_WIRE_ACK, 4, 1},    {FRY_WIRE_ACK, UINT32_MAX, 2},
        {FRY_WIRE_NACK, 1, 0},   {FRY_WIRE_NACK, 4, 0},   {FRY_WIRE_NACK, UINT32_MAX, 0},
        {FRY_WIRE_LENGTH, 1, 0}, {FRY_WIRE_RECALL, 4, 0}, {FRY_WIRE_RECALL, UINT32_MAX, 0},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        pair *p = open_victim();
        fry_wire_header header = {.kind = answers[i].kind,
                                  .number = 1,
                                  .slot = answers[i].slot,
                                  .run_count = 1,
                                  .runs = {{answers[i].slot, answers[i].count}},
                                  .fault = {.status = FERRY_E_FAILED}};
        inject(p, &header, 0, false);
        expect_refused(p, "an answer to nothing");
    }
}

Test(net_peer_hostile, an_answer_twice)
{
    for (uint8_t kind = FRY_WIRE_ACK; kind <= FRY_WIRE_LENGTH; kind++) {
        pair *p = open_victim();
        fry_wire_header header = {
            .kind = kind, .run_count = 1, .runs = {{0, 1}}, .fault = {.status = FERRY_E_FAILED}};
        inject(p, &header, 0, false);
        cr_expect_eq(p->ops[0].resolved, 1);
        cr_expect_eq(p->ends[0].failed, 0);
        inject(p, &header, 0, false);
        cr_expect_eq(p->ends[0].failed, 1);
        cr_expect_eq(p->ops[0].resolved, 1);
        pair_close(p);
    }
}

Test(net_peer_hostile, control_with_data)
{
    for (uint8_t kind = FRY_WIRE_POISON; kind < FRY_WIRE_KINDS; kind++)
        for (int is_pulled = 0; is_pulled < 2; is_pulled++) {
            pair *p = open_victim();
            fry_wire_header header = {.kind = kind,
                                      .number = 1,
                                      .slot = 0,
                                      .run_count = 1,
                                      .runs = {{0, 1}},
                                      .fault = {.status = FERRY_E_FAILED}};
            inject(p, &header, 16, is_pulled);
            expect_refused(p, "control with data");
        }
}

Test(net_peer_hostile, headers_of_no_kind)
{
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    uint64_t random = 1;
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        for (size_t i = 0; i < size; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[i] = (uint8_t)(random >> 33);
        }
        if (size > 0)
            bytes[0] |= 0x80;
        pair *p = open_victim();
        fake_wire_inject(p->wire, 0, bytes, size, NULL, 0, false);
        (void)fry_peer_progress(p->ends[0].peer);
        expect_refused(p, "of no kind");
    }
}

/* One more message than slots, each of a kind that is kept. */
Test(net_peer_hostile, more_messages_than_agreed)
{
    pair *p = open_victim();
    for (uint32_t i = 1; i < 4; i++) {
        fry_wire_header header = {.kind = FRY_WIRE_EAGER, .number = i, .slot = i, .tag = 77};
        inject(p, &header, 0, false);
        cr_expect_eq(p->ends[0].failed, 0);
    }
    fry_wire_header header = {.kind = FRY_WIRE_EAGER, .number = 4, .slot = 0, .tag = 77};
    inject(p, &header, 0, false);
    expect_refused(p, "a fifth");
}

Test(net_peer_hostile, more_data_than_agreed)
{
    pair *p = open_victim();
    for (uint32_t i = 1; i < 4 && p->ends[0].failed == 0; i++) {
        fry_wire_header header = {
            .kind = FRY_WIRE_EAGER, .number = i, .slot = i, .tag = 77, .size_bytes = 5000};
        inject(p, &header, 5000, false);
    }
    expect_refused(p, "more than the window");
}

Test(net_peer_hostile, recalls_without_end)
{
    pair *p = open_victim();
    for (uint32_t i = 0; i < 100 && p->ends[0].failed == 0; i++) {
        /* Never in its turn, so each is kept. */
        fry_wire_header header = {
            .kind = FRY_WIRE_RECALL, .number = 2 + i, .fault = {.status = FERRY_E_FAILED}};
        inject(p, &header, 0, false);
    }
    expect_refused(p, "recalls");
}

/* What it may do: have its own messages fail, and answer what it was not given. */
Test(net_peer_hostile, an_early_answer_frees_nothing_too_early)
{
    pair *p = pair_open(pair_init());
    pair_op *send = pair_send(p, 0, 1, 4000);
    fry_wire_header header = {.kind = FRY_WIRE_ACK, .run_count = 1, .runs = {{0, 1}}};
    inject(p, &header, 0, false);
    cr_expect_eq(send->resolved, 1);
    cr_expect_eq(send->quiet, 0, "it may be pulled yet");
    pair_close(p);
}

/* ---- between hosts ---- */

static pair *open_keyed(void)
{
    pair *p = pair_init();
    p->session.is_keyed = true;
    return pair_open(p);
}

Test(net_peer_hostile, keyed_lanes_work)
{
    pair *p = open_keyed();
    for (int i = 0; i < 100; i++) {
        pair_op *receive = pair_receive(p, 1, 1, (size_t)i * 40);
        pair_op *send = pair_send(p, 0, 1, (size_t)i * 40);
        if (i % 7 == 0)
            pair_withdraw(receive);
        pair_run(p);
        expect_over(send, i % 7 == 0 ? FERRY_E_DEPENDENCY : FERRY_OK);
    }
    pair_close(p);
}

static void expect_forged(pair *p, int end, const char *what)
{
    (void)fry_peer_progress(p->ends[end].peer);
    cr_expect_eq(p->ends[end].failed, 1, "%s", what);
    cr_expect(strstr(p->ends[end].failure.message, "forged or repeated") != NULL, "%s", what);
    pair_close(p);
}

Test(net_peer_hostile, each_bit_is_sealed)
{
    for (size_t bit = 0; bit < (FRY_WIRE_MESSAGE_BYTES + FRY_WIRE_TRAILER_BYTES) * 8; bit++) {
        pair *p = open_keyed();
        (void)pair_send(p, 0, 1, 8);
        fake_sight sight;
        cr_assert(fake_wire_look(p->wire, 1, 0, &sight));
        cr_assert_eq(*sight.header_bytes, FRY_WIRE_MESSAGE_BYTES + FRY_WIRE_TRAILER_BYTES);
        sight.header[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect_forged(p, 1, "a bit");
    }
}

Test(net_peer_hostile, short_and_unkeyed_ones_are_refused)
{
    for (size_t size = 0; size < FRY_WIRE_MESSAGE_BYTES + FRY_WIRE_TRAILER_BYTES; size++) {
        pair *p = open_keyed();
        (void)pair_send(p, 0, 1, 8);
        fake_sight sight;
        cr_assert(fake_wire_look(p->wire, 1, 0, &sight));
        *sight.header_bytes = size;
        expect_forged(p, 1, "a short one");
    }
}

Test(net_peer_hostile, nothing_arrives_twice)
{
    for (int is_answer = 0; is_answer < 2; is_answer++) {
        pair *p = open_keyed();
        (void)pair_receive(p, 1, 1, 8);
        (void)pair_send(p, 0, 1, 8);
        if (!is_answer) {
            cr_assert(fake_wire_repeat(p->wire, 1, 0));
            expect_forged(p, 1, "a message");
            continue;
        }
        (void)fry_peer_progress(p->ends[1].peer);
        (void)fry_peer_progress(p->ends[1].peer);
        cr_assert(fake_wire_repeat(p->wire, 0, 0));
        expect_forged(p, 0, "an answer");
    }
}

/* Sent back to where it came from. */
Test(net_peer_hostile, directions_have_keys_of_their_own)
{
    pair *p = open_keyed();
    (void)pair_send(p, 0, 1, 8);
    fake_sight sight;
    cr_assert(fake_wire_look(p->wire, 1, 0, &sight));
    uint8_t data[8] = {0};
    fake_wire_inject(p->wire, 0, sight.header, *sight.header_bytes, data, 8, false);
    expect_forged(p, 0, "its own");
}

Test(net_peer_hostile, counts_may_come_late_but_once)
{
    pair *p = open_keyed();
    fry_peer_lane *lane = p->ends[1].lane;
    uint64_t kept = lane->headers_mask;
    static const uint64_t steps[] = {0, 5, 4, 1, 1000, 999, 6, 100000, 99999, 200000};
    uint8_t bytes[8 + FRY_WIRE_TRAILER_BYTES] = {FRY_WIRE_BYE};
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            uint64_t count = steps[i];
            size_t size = sizeof(bytes);
            fry_wire_put32(bytes + 8, (uint32_t)count);
            fry_mac_write(lane->session.receive_key, count, bytes, 8, bytes + 12);
            cr_expect_eq(fry_lane_accept(lane, bytes, &size, &count), again == 0, "%zu", i);
            cr_expect_eq(size, again == 0 ? 8 : sizeof(bytes));
        }
    /* The oldest that may come, and what is older. */
    for (uint64_t back = kept + 1; back >= kept; back--) {
        uint64_t count = lane->headers_end - back;
        size_t size = sizeof(bytes);
        fry_wire_put32(bytes + 8, (uint32_t)count);
        fry_mac_write(lane->session.receive_key, count, bytes, 8, bytes + 12);
        cr_expect_eq(fry_lane_accept(lane, bytes, &size, &count), back == kept);
    }
    pair_close(p);
}

/* The count is of more bits than cross. */
Test(net_peer_hostile, counts_go_on_past_32_bits)
{
    pair *p = open_keyed();
    p->ends[0].lane->headers_sent = UINT32_MAX - 50;
    p->ends[1].lane->headers_end = UINT32_MAX - 50;
    p->ends[0].lane->send_number = p->ends[1].lane->receive_number = UINT32_MAX - 50;
    for (int i = 0; i < 100; i++) {
        (void)pair_receive(p, 1, 1, 8);
        pair_op *send = pair_send(p, 0, 1, 8);
        pair_run(p);
        expect_over(send, FERRY_OK);
    }
    cr_expect_gt(p->ends[1].lane->headers_end, UINT32_MAX);
    pair_close(p);
}
