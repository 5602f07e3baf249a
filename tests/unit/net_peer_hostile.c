/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that break the rules: the connection fails, FERRY_E_PEER, and nothing else happens. */
#include "net/mac.h"
#include "net/peer/connection.h"
#include "net/peer/wire.h"
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
    else if (header->kind == FRY_WIRE_SHORT)
        size = fry_wire_pack_short(bytes, header);
    else
        size = fry_wire_pack(bytes, header);
    fake_wire_inject(p->wire, 0, bytes, size, NULL, data_bytes, is_pulled);
    pair_turn(p, 0);
}

/* Closes it. */
static void expect_refused(pair *p, const char *what)
{
    pair_end *end = &p->ends[0];
    cr_expect_eq(end->failed, 1, "%s", what);
    cr_expect_eq(end->failure.status, FERRY_E_PEER, "%s", what);
    cr_expect_eq(end->failure.rank, 11);
    cr_expect(strncmp(end->failure.message, "the other end broke the protocol", 32) == 0 ||
                  strstr(end->failure.message, "than its window allows") != NULL,
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

/* A good message but for what is said here; 0: as it is in the good one. */
typedef struct fault {
    const char *what; /* why it is refused */
    bool is_first;    /* numbered as the one before it */
    uint32_t number, slot, size_bytes;
    fry_wire_run acked;
    bool is_other_kind; /* pulled in place of eager, or the other way round */
} fault;

static void expect_fault_refused(uint8_t kind, const fault *fault)
{
    pair *p = open_victim();
    fry_wire_header header = next_message(kind);
    header.number = fault->number != 0 || fault->is_first ? fault->number : header.number;
    header.slot = fault->slot != 0 ? fault->slot : header.slot;
    header.size_bytes = fault->size_bytes != 0 ? fault->size_bytes : header.size_bytes;
    header.acked = fault->acked;
    inject(p, &header, 16, (kind == FRY_WIRE_PULLED) != fault->is_other_kind);
    expect_refused(p, fault->what);
}

Test(net_peer_hostile, each_field_of_a_message)
{
    static const uint8_t kinds[] = {FRY_WIRE_EAGER, FRY_WIRE_PULLED};
    static const fault faults[] = {
        {"a number that was", .is_first = true},
        {"a number too far ahead", .number = 1 + 16},
        {"a number long ago", .number = UINT32_MAX},
        {"a slot out of bounds", .slot = 4},
        {"more than there is", .size_bytes = 17},
        {"less than there is", .size_bytes = 15},
        {"of the other kind", .is_other_kind = true},
        {"an answer to what was not sent", .acked = {1, 1}},
    };
    for (size_t i = 0; i < sizeof(kinds); i++) {
        for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++)
            expect_fault_refused(kinds[i], &faults[k]);
        pair *p = open_victim();
        fry_wire_header header = next_message(kinds[i]);
        header.ahead = UINT32_MAX; /* far off is no crime */
        inject(p, &header, 16, kinds[i] == FRY_WIRE_PULLED);
        expect_taken(p, "far ahead");
    }
}

Test(net_peer_hostile, each_field_of_a_short_one)
{
    static const fault faults[] = {
        {"a number that is not next", .is_first = true},
        {"a number that is not next", .number = 1 + 16},
        {"a number that is not next", .number = 0x7fffff},
        {"a number that is not next", .number = 0x800000},
        {"a number that is not next", .number = UINT32_MAX},
        {"a slot out of bounds", .slot = 4},
        {"to be pulled", .is_other_kind = true},
        {"an answer to what was not sent", .acked = {1, 1}},
    };
    pair *p = open_victim();
    fry_wire_header header = next_message(FRY_WIRE_SHORT);
    inject(p, &header, 16, false);
    expect_over(&p->ops[1], FERRY_OK);
    expect_taken(p, "good");
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        expect_fault_refused(FRY_WIRE_SHORT, &faults[i]);
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
        for (int is_pulled = 0; is_pulled < 2 && kind != FRY_WIRE_SHORT; is_pulled++) {
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
        pair_turn(p, 0);
        expect_refused(p, "of an unknown kind");
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
    PAIR(p);
    pair_op *send = pair_send(p, 0, 1, 4000);
    fry_wire_header header = {.kind = FRY_WIRE_ACK, .run_count = 1, .runs = {{0, 1}}};
    inject(p, &header, 0, false);
    cr_expect_eq(send->resolved, 1);
    cr_expect_eq(send->quiet, 0, "it may be pulled yet");
}

/* ---- bundles ---- */

/* Two receives of tag 1 for what comes, beside the victim's. */
static fry_wire_series next_series(void)
{
    return (fry_wire_series){.tag = 1, .op = 5, .slot = 1, .size_bytes = 16, .count = 1};
}

static void inject_bundle(pair *p, const fry_wire_series *series, uint32_t count,
                          size_t series_there, size_t data_bytes)
{
    uint8_t header_bytes[FRY_HEADER_BYTES_MAX];
    uint8_t data[8192] = {0};
    fry_wire_header header = {.kind = FRY_WIRE_BUNDLE, .number = 1, .series_count = count};
    size_t size = fry_wire_pack(header_bytes, &header);
    for (size_t i = 0; i < series_there; i++)
        fry_wire_pack_series(data + i * FRY_WIRE_SERIES_BYTES, &series[i]);
    memset(data + series_there * FRY_WIRE_SERIES_BYTES, 9, data_bytes);
    fake_wire_inject(p->wire, 0, header_bytes, size, data,
                     series_there * FRY_WIRE_SERIES_BYTES + data_bytes, false);
    pair_turn(p, 0);
}

Test(net_peer_hostile, a_good_bundle_is_taken)
{
    pair *p = open_victim();
    fry_wire_series series[] = {next_series(), next_series()};
    series[1].slot = 2;
    series[1].tag = 77;
    inject_bundle(p, series, 2, 2, 32);
    expect_over(&p->ops[1], FERRY_OK);
    cr_expect_eq(p->ops[1].bytes[15], 9);
    expect_taken(p, "a good bundle");
}

Test(net_peer_hostile, a_bundle_cut_anywhere)
{
    fry_wire_series series[] = {next_series(), next_series()};
    for (size_t there = 0; there < 2; there++) {
        pair *p = open_victim();
        inject_bundle(p, series, 2, there, 0);
        expect_refused(p, "a table cut short");
    }
    for (size_t bytes = 0; bytes < 40; bytes++) {
        pair *p = open_victim();
        series[1].slot = 2;
        series[1].tag = 77;
        inject_bundle(p, series, 2, 2, bytes);
        if (bytes == 32)
            expect_taken(p, "whole");
        else
            expect_refused(p, "data cut short, or too much");
    }
}

Test(net_peer_hostile, a_bundle_whose_table_lies)
{
    static const struct {
        uint32_t slot, count, size_bytes;
        size_t data_bytes;
        const char *what;
    } lies[] = {
        {4, 1, 16, 16, "a slot out of bounds"},
        {UINT32_MAX, 1, 16, 16, "a slot far out of bounds"},
        {3, 2, 16, 32, "a series that runs out of bounds"},
        {0, 4, 1, 4, "more messages than may be unanswered"},
        {1, UINT16_MAX, 0, 0, "very many, of no bytes"},
        {1, UINT16_MAX, UINT32_MAX, 64, "more bytes than there can be"},
        {1, 2, 0x80000000, 0, "bytes that overflow to none"},
        {1, 0, 16, 0, "no messages"},
        {1, 1, 15, 16, "less than there is"},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        pair *p = open_victim();
        fry_wire_series series = next_series();
        series.slot = lies[i].slot;
        series.count = lies[i].count;
        series.size_bytes = lies[i].size_bytes;
        inject_bundle(p, &series, 1, 1, lies[i].data_bytes);
        expect_refused(p, lies[i].what);
    }
}

Test(net_peer_hostile, a_bundle_of_too_much_data)
{
    pair *p = open_victim();
    const fry_wire_series series = {.tag = 50, .slot = 1, .size_bytes = 2100, .count = 3};
    inject_bundle(p, &series, 1, 1, 6300);
    expect_refused(p, "more data than the window");
}

Test(net_peer_hostile, an_answer_in_a_bundle_to_nothing)
{
    for (uint32_t first = 0; first < 2; first++) {
        pair *p = open_victim();
        uint8_t bytes[FRY_HEADER_BYTES_MAX];
        uint8_t data[FRY_WIRE_SERIES_BYTES + 16] = {0};
        fry_wire_series series = next_series();
        fry_wire_header header = {
            .kind = FRY_WIRE_BUNDLE, .number = 1, .series_count = 1, .acked = {first, 1}};
        fry_wire_pack_series(data, &series);
        fake_wire_inject(p->wire, 0, bytes, fry_wire_pack(bytes, &header), data, sizeof(data),
                         false);
        pair_turn(p, 0);
        if (first == 0) {
            expect_over(&p->ops[0], FERRY_OK);
            expect_over(&p->ops[1], FERRY_OK);
            expect_taken(p, "an answer to what waits for one");
        } else {
            expect_refused(p, "an answer to nothing");
        }
    }
}

/* ---- between hosts ---- */

static pair *open_keyed(void)
{
    pair *p = pair_init();
    p->session.is_keyed = true;
    return pair_open(p);
}

Test(net_peer_hostile, keyed_connections_work)
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
    pair_turn(p, end);
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

Test(net_peer_hostile, keyed_connections_have_no_short_ones)
{
    fry_wire_header header = next_message(FRY_WIRE_SHORT);
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t size = fry_wire_pack_short(bytes, &header);
    pair *p = open_keyed();
    fry_wire_put32(bytes + size, 0);
    fry_mac_write(p->ends[0].connection->session.receive_key, 0, bytes, size, bytes + size + 4);
    fake_wire_inject(p->wire, 0, bytes, size + FRY_WIRE_TRAILER_BYTES, NULL, 16, false);
    pair_turn(p, 0);
    cr_expect_eq(p->ends[0].failed, 1);
    cr_expect(strstr(p->ends[0].failure.message, "of an unknown kind") != NULL);
    pair_close(p);
}

static void send_bundle(pair *p)
{
    (void)pair_gather(p, 0, 1, 8);
    (void)pair_gather(p, 0, 2, 8);
    (void)pair_gather(p, 0, 2, 8);
    fry_peer_flush(p->ends[0].peer, NULL);
}

/* Header, hash and table; not the data, which is as that of any message. */
Test(net_peer_hostile, each_bit_of_a_bundle_is_sealed)
{
    enum { TABLE_BYTES = 2 * FRY_WIRE_SERIES_BYTES };
    enum { HEADER_BYTES = FRY_WIRE_BUNDLE_BYTES + FRY_MAC_BYTES + FRY_WIRE_TRAILER_BYTES };
    for (size_t bit = 0; bit < (HEADER_BYTES + TABLE_BYTES) * 8; bit++) {
        pair *p = open_keyed();
        send_bundle(p);
        fake_sight sight;
        cr_assert(fake_wire_look(p->wire, 1, 0, &sight));
        cr_assert_eq(*sight.header_bytes, HEADER_BYTES);
        cr_assert_eq(sight.size_bytes, TABLE_BYTES + 24);
        uint8_t *byte =
            bit / 8 < HEADER_BYTES ? &sight.header[bit / 8] : &sight.data[bit / 8 - HEADER_BYTES];
        *byte ^= (uint8_t)(1 << bit % 8);
        expect_forged(p, 1, "a bit");
    }
}

Test(net_peer_hostile, short_keyed_bundles_are_refused)
{
    for (size_t size = 0; size < 2 * FRY_WIRE_SERIES_BYTES; size++) {
        pair *p = open_keyed();
        send_bundle(p);
        fake_sight sight;
        cr_assert(fake_wire_look(p->wire, 1, 0, &sight));
        *sight.size_bytes_p = size;
        expect_forged(p, 1, "a short one");
    }
}

/* The table of another bundle, as genuine, is no table of this. */
Test(net_peer_hostile, tables_are_sealed_to_their_headers)
{
    pair *p = open_keyed();
    send_bundle(p);
    send_bundle(p);
    fake_sight first, second;
    cr_assert(fake_wire_look(p->wire, 1, 0, &first));
    cr_assert(fake_wire_look(p->wire, 1, 1, &second));
    memcpy(first.data, second.data, first.size_bytes);
    expect_forged(p, 1, "another's table");
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
        pair_turn(p, 1);
        pair_turn(p, 1);
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
    fry_peer_connection *connection = p->ends[1].connection;
    uint64_t kept = connection->headers_mask;
    static const uint64_t steps[] = {0, 5, 4, 1, 1000, 999, 6, 100000, 99999, 200000};
    uint8_t bytes[8 + FRY_WIRE_TRAILER_BYTES] = {FRY_WIRE_BYE};
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            uint64_t count = steps[i];
            size_t size = sizeof(bytes);
            fry_wire_put32(bytes + 8, (uint32_t)count);
            fry_mac_write(connection->session.receive_key, count, bytes, 8, bytes + 12);
            cr_expect_eq(fry_connection_accept(connection, bytes, &size, &count), again == 0, "%zu",
                         i);
            cr_expect_eq(size, again == 0 ? 8 : sizeof(bytes));
        }
    /* The oldest that may come, and what is older. */
    for (uint64_t back = kept + 1; back >= kept; back--) {
        uint64_t count = connection->headers_end - back;
        size_t size = sizeof(bytes);
        fry_wire_put32(bytes + 8, (uint32_t)count);
        fry_mac_write(connection->session.receive_key, count, bytes, 8, bytes + 12);
        cr_expect_eq(fry_connection_accept(connection, bytes, &size, &count), back == kept);
    }
    pair_close(p);
}

/* The count is of more bits than cross. */
Test(net_peer_hostile, counts_go_on_past_32_bits)
{
    pair *p = open_keyed();
    p->ends[0].connection->headers_sent = UINT32_MAX - 50;
    p->ends[1].connection->headers_end = UINT32_MAX - 50;
    p->ends[0].connection->send_number = p->ends[1].connection->receive_number = UINT32_MAX - 50;
    for (int i = 0; i < 100; i++) {
        (void)pair_receive(p, 1, 1, 8);
        pair_op *send = pair_send(p, 0, 1, 8);
        pair_run(p);
        expect_over(send, FERRY_OK);
    }
    cr_expect_gt(p->ends[1].connection->headers_end, UINT32_MAX);
    pair_close(p);
}
