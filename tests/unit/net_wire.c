/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of peers: what is packed is unpacked again, and what is not a header is refused. */
#include "net/peer/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(net_wire, .timeout = 60);

/* Packed by either function. */
static size_t pack(uint8_t *to, const fry_wire_header *header)
{
    if (header->kind != FRY_WIRE_EAGER && header->kind != FRY_WIRE_PULLED)
        return fry_wire_pack(to, header);
    fry_wire_pack_message(to, header);
    return FRY_WIRE_MESSAGE_BYTES;
}

static fry_wire_header make(uint8_t kind)
{
    fry_wire_header header = {
        .kind = kind,
        .number = 0xfffffffe,
        .slot = 0x89abcdef,
        .ahead = 0x1234567,
        .tag = UINT64_C(0xfedcba9876543210),
        .op = UINT64_C(0x0123456789abcdef),
        .size_bytes = kind == FRY_WIRE_POISON ? 0 : UINT64_C(0x1122334455667788),
        .offset = UINT64_C(0x8877665544332211),
        .is_yes = kind == FRY_WIRE_SHOW || kind == FRY_WIRE_VIEWED || kind == FRY_WIRE_HELD,
        .place = {{1, 2, 3, [FRY_PLACE_BYTES - 1] = 0xff}},
        .acked = {7, 65535},
        .series_count = FRY_WIRE_SERIES_MAX,
        .run_count = 3,
        .runs = {{0, 1}, {UINT32_MAX, 65535}, {5, 6}},
        .fault = {.status = FERRY_E_DEADLINE,
                  .rank = 12,
                  .op = UINT64_C(0xa0b0c0d0e0f00010),
                  .native_code = -5,
                  .domain = "cuda",
                  .message = "too late"},
    };
    if (kind == FRY_WIRE_OFFER)
        header.number = 0;
    if (kind == FRY_WIRE_OFFER || kind == FRY_WIRE_LOT) {
        header.joint[0] = (fry_wire_joint){UINT32_MAX, 7, 255, kind == FRY_WIRE_LOT};
        header.joint[1] = (fry_wire_joint){1, UINT32_MAX, 1, false};
        header.joint[2] = header.joint[0];
    }
    if (kind == FRY_WIRE_FIND)
        (void)snprintf(header.name, sizeof header.name, "kv/layer.0");
    header.is_apart = kind == FRY_WIRE_PULLED || kind == FRY_WIRE_POISON || kind == FRY_WIRE_HELD;
    header.rights = 3;
    header.address = UINT64_C(0x1020304050607080);
    if (kind == FRY_WIRE_PAIR)
        memset(header.token, 0x5a, sizeof(header.token));
    return header;
}

static void expect_same_lot(const fry_wire_header *a, const fry_wire_header *b)
{
    cr_assert_eq(a->run_count, b->run_count);
    for (uint32_t i = 0; i < a->run_count; i++) {
        cr_expect_eq(a->joint[i].slot, b->joint[i].slot);
        cr_expect_eq(a->joint[i].number, b->joint[i].number);
        cr_expect_eq(a->joint[i].count, b->joint[i].count);
        cr_expect_eq(a->joint[i].is_send, b->joint[i].is_send);
    }
}

/* Fills what it does not set with something else. */
static bool unpack(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    memset(header, 0x77, sizeof(*header));
    /* A copy of the exact size, so that reading behind it is seen. */
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    memcpy(copy, from, bytes);
    bool is_good = fry_wire_unpack(copy, bytes, header);
    free(copy);
    return is_good;
}

static void expect_same_fault(const fry_fault *a, const fry_fault *b)
{
    cr_expect_eq(a->status, b->status);
    cr_expect_eq(a->rank, b->rank);
    cr_expect_eq(a->op, b->op);
    cr_expect_eq(a->native_code, b->native_code);
    cr_expect_str_eq(a->domain, b->domain);
    cr_expect_str_eq(a->message, b->message);
}

Test(net_wire, messages_come_back_as_they_were)
{
    static const uint8_t kinds[] = {FRY_WIRE_EAGER, FRY_WIRE_PULLED, FRY_WIRE_POISON,
                                    FRY_WIRE_HELD};
    for (size_t i = 0; i < sizeof(kinds); i++) {
        fry_wire_header header = make(kinds[i]);
        fry_wire_header other;
        uint8_t bytes[FRY_HEADER_BYTES_MAX];
        cr_assert(unpack(bytes, pack(bytes, &header), &other));
        cr_expect_eq(other.kind, header.kind);
        cr_expect_eq(other.number, header.number);
        cr_expect_eq(other.slot, header.slot);
        cr_expect_eq(other.ahead, header.ahead);
        cr_expect_eq(other.tag, header.tag);
        cr_expect_eq(other.op, header.op);
        cr_expect_eq(other.size_bytes, header.size_bytes);
        cr_expect_eq(other.acked.first, 7);
        cr_expect_eq(other.acked.count, 65535);
        cr_expect_eq(other.is_apart, header.is_apart);
        if (kinds[i] == FRY_WIRE_HELD)
            cr_expect(other.is_yes);
        if (kinds[i] == FRY_WIRE_POISON)
            expect_same_fault(&other.fault, &header.fault);
    }
}

Test(net_wire, control_comes_back_as_it_was)
{
    for (uint8_t kind = FRY_WIRE_RECALL; kind < FRY_WIRE_KINDS; kind++) {
        if (kind == FRY_WIRE_SHORT || kind == FRY_WIRE_HELD)
            continue;
        fry_wire_header header = make(kind);
        fry_wire_header other;
        uint8_t bytes[FRY_HEADER_BYTES_MAX];
        cr_assert(unpack(bytes, pack(bytes, &header), &other), "kind %d", kind);
        cr_expect_eq(other.kind, kind);
        if (kind == FRY_WIRE_RECALL || kind == FRY_WIRE_BYE || kind == FRY_WIRE_BUNDLE)
            cr_expect_eq(other.number, header.number);
        if (kind == FRY_WIRE_BYE)
            cr_expect_eq(other.answers, header.answers);
        if (kind == FRY_WIRE_RECALL || kind == FRY_WIRE_NACK || kind == FRY_WIRE_LENGTH)
            cr_expect_eq(other.slot, header.slot);
        if (kind == FRY_WIRE_NACK || kind == FRY_WIRE_LENGTH)
            cr_expect_eq(other.op, header.op);
        if (kind == FRY_WIRE_RECALL || kind == FRY_WIRE_NACK)
            expect_same_fault(&other.fault, &header.fault);
        if (kind == FRY_WIRE_HIDE || (kind >= FRY_WIRE_PAIR && kind < FRY_WIRE_ALONE))
            cr_expect_eq(other.op, header.op);
        if ((kind >= FRY_WIRE_OFFER && kind <= FRY_WIRE_UNPAIR) || kind >= FRY_WIRE_FLOWN)
            cr_expect_eq(other.number, header.number);
        if (kind == FRY_WIRE_FIND)
            cr_expect_str_eq(other.name, header.name);
        if (kind == FRY_WIRE_FOUND)
            cr_expect(other.rights == header.rights && other.size_bytes == header.size_bytes &&
                      other.address == header.address);
        if (kind == FRY_WIRE_GET || kind == FRY_WIRE_PUT)
            cr_expect(other.tag == header.tag && other.offset == header.offset &&
                      other.size_bytes == header.size_bytes);
        if (kind == FRY_WIRE_GO)
            cr_expect_eq(other.offset, header.offset);
        if (kind == FRY_WIRE_OFFER || kind == FRY_WIRE_LOT)
            expect_same_lot(&other, &header);
        if (kind == FRY_WIRE_PAIR)
            cr_expect_arr_eq(other.token, header.token, FRY_PAIR_TOKEN_BYTES);
        if (kind >= FRY_WIRE_VIEW && kind <= FRY_WIRE_HOLDS) {
            cr_expect_eq(other.number, header.number);
            cr_expect_eq(other.slot, header.slot);
            cr_expect_eq(other.is_yes, header.is_yes);
        }
        if (kind == FRY_WIRE_SHOW)
            cr_expect_arr_eq(other.place.bytes, header.place.bytes, FRY_PLACE_BYTES);
        if (kind == FRY_WIRE_WANT || kind == FRY_WIRE_PIECE) {
            cr_expect_eq(other.number, header.number);
            cr_expect_eq(other.slot, header.slot);
            cr_expect_eq(other.size_bytes, (uint32_t)header.size_bytes);
            cr_expect_eq(other.offset, header.offset);
        }
        if (kind == FRY_WIRE_LENGTH)
            cr_expect_eq(other.size_bytes, header.size_bytes);
        if (kind == FRY_WIRE_BUNDLE) {
            cr_expect_eq(other.series_count, FRY_WIRE_SERIES_MAX);
            cr_expect_eq(other.acked.first, 7);
            cr_expect_eq(other.acked.count, 65535);
        }
        if (kind == FRY_WIRE_ACK) {
            cr_expect_eq(other.run_count, 3);
            for (size_t i = 0; i < 3; i++) {
                cr_expect_eq(other.runs[i].first, header.runs[i].first);
                cr_expect_eq(other.runs[i].count, header.runs[i].count);
            }
        }
    }
}

Test(net_wire, little_endian_as_documented)
{
    fry_wire_header header = make(FRY_WIRE_EAGER);
    uint8_t bytes[FRY_WIRE_MESSAGE_BYTES];
    static const uint8_t expected[FRY_WIRE_MESSAGE_BYTES] = {
        1,    0,    0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc,
        0xfe, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
        0x22, 0x11, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 7,    0,    0,    0};
    fry_wire_pack_message(bytes, &header);
    cr_assert_arr_eq(bytes, expected, sizeof(expected));
}

/* Packs and unpacks it as one who expects that number next, and whose last op was `op_before`. */
static bool pass_short(const fry_wire_header *header, uint32_t next_number, uint64_t op_before,
                       fry_wire_header *other)
{
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t size = fry_wire_pack_short(bytes, header);
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    memset(other, 0x77, sizeof(*other));
    bool is_good = fry_wire_unpack_short(copy, size, next_number, op_before, other);
    free(copy);
    return is_good;
}

Test(net_wire, short_ones_come_back_as_they_were)
{
    static const uint32_t numbers[][2] = {{0, 0},
                                          {5, 0xfffffff0},
                                          {0xfffffff0, 5},
                                          {0x1000000, 0x1000000 - 0x7fffff},
                                          {77, 0x800000}};
    static const uint64_t ops[][2] = {{1, 0},
                                      {0, 1},
                                      {UINT64_C(0x1ffffffff), UINT64_C(0x200000010)},
                                      {UINT64_C(0x200000010), UINT64_C(0x1ffffffff)},
                                      {FRY_WIRE_SHORT_OP_AWAY - 1, 0}};
    static const ferry_tag tags[] = {
        0, 1, 255, 256, UINT64_C(0xff00000000), UINT64_C(0xfedcba9876543210), UINT64_MAX};
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        const uint32_t *number = numbers[i % 5];
        const uint64_t *op = ops[i % 5];
        fry_wire_header header = {.kind = FRY_WIRE_EAGER,
                                  .number = number[0],
                                  .slot = i % 2 ? UINT16_MAX : 3,
                                  .tag = tags[i],
                                  .op = op[0],
                                  .acked = {i % 2 ? 4 : UINT16_MAX, i % 2 ? UINT8_MAX : 0}};
        fry_wire_header other;
        cr_assert(fry_wire_can_be_short(&header, op[1]));
        cr_assert(pass_short(&header, number[1], op[1], &other));
        cr_expect_eq(other.kind, FRY_WIRE_EAGER);
        cr_expect_eq(other.number, header.number, "%zu: %#x", i, other.number);
        cr_expect_eq(other.slot, header.slot);
        cr_expect_eq(other.ahead, 0);
        cr_expect_eq(other.tag, header.tag);
        cr_expect_eq(other.op, header.op);
        cr_expect_eq(other.acked.first, header.acked.first);
        cr_expect_eq(other.acked.count, header.acked.count);
    }
}

Test(net_wire, what_does_not_fit_is_not_short)
{
    const fry_wire_header good = {.kind = FRY_WIRE_EAGER, .op = 7};
    cr_expect(fry_wire_can_be_short(&good, 7));
    cr_expect_not(fry_wire_can_be_short(&good, 7 + FRY_WIRE_SHORT_OP_AWAY + 1));
    fry_wire_header header = good;
    header.op = 7 + FRY_WIRE_SHORT_OP_AWAY;
    cr_expect_not(fry_wire_can_be_short(&header, 7));
    header = good;
    header.ahead = 1;
    cr_expect_not(fry_wire_can_be_short(&header, 7));
    header = good;
    header.acked.count = UINT8_MAX + 1;
    cr_expect_not(fry_wire_can_be_short(&header, 7));
    header = good;
    header.kind = FRY_WIRE_PULLED;
    cr_expect_not(fry_wire_can_be_short(&header, 7));
    uint8_t bytes[FRY_HEADER_BYTES_MAX] = {FRY_WIRE_SHORT};
    for (size_t size = 0; size < FRY_WIRE_SHORT_BYTES; size++)
        cr_expect_not(fry_wire_unpack_short(bytes, size, 0, 0, &header));
    cr_expect(fry_wire_unpack_short(bytes, FRY_WIRE_SHORT_BYTES + 8, 0, 0, &header));
    cr_expect_not(fry_wire_unpack_short(bytes, FRY_WIRE_SHORT_BYTES + 9, 0, 0, &header));
    cr_expect_not(fry_wire_unpack(bytes, FRY_WIRE_SHORT_BYTES, &header), "without its connection");
}

Test(net_wire, any_other_length_is_refused)
{
    for (uint8_t kind = FRY_WIRE_EAGER; kind < FRY_WIRE_KINDS; kind++) {
        if (kind == FRY_WIRE_SHORT)
            continue;
        fry_wire_header header = make(kind);
        fry_wire_header other;
        uint8_t bytes[FRY_HEADER_BYTES_MAX + 1] = {0};
        size_t right = pack(bytes, &header);
        for (size_t size = 0; size <= FRY_HEADER_BYTES_MAX; size++)
            cr_expect_eq(unpack(bytes, size, &other), size == right, "kind %d of %zu", kind, size);
    }
}

Test(net_wire, what_must_be_zero_is)
{
    for (unsigned kind = 0; kind < 256; kind++) {
        fry_wire_header header = make((uint8_t)kind);
        fry_wire_header other;
        uint8_t bytes[FRY_HEADER_BYTES_MAX] = {0};
        if (kind < FRY_WIRE_EAGER || kind >= FRY_WIRE_KINDS || kind == FRY_WIRE_SHORT) {
            bytes[0] = (uint8_t)kind;
            for (size_t size = 0; size < 64; size++)
                cr_expect_not(unpack(bytes, size, &other));
            continue;
        }
        size_t size = pack(bytes, &header);
        if (kind != FRY_WIRE_ACK && kind != FRY_WIRE_BUNDLE && kind != FRY_WIRE_OFFER &&
            kind != FRY_WIRE_LOT && kind != FRY_WIRE_FOUND) {
            bool may_be_1 =
                kind == FRY_WIRE_SHOW || kind == FRY_WIRE_VIEWED || kind == FRY_WIRE_HELD;
            uint8_t right = bytes[1];
            bytes[1] = kind == FRY_WIRE_HELD ? 4 : may_be_1 ? 2 : 1;
            cr_expect_not(unpack(bytes, size, &other), "kind %u", kind);
            bytes[1] = right;
        }
        if (kind > FRY_WIRE_POISON && kind != FRY_WIRE_BUNDLE && kind != FRY_WIRE_HELD) {
            bytes[3] = 1;
            cr_expect_not(unpack(bytes, size, &other), "kind %u", kind);
        }
    }
}

Test(net_wire, a_window_is_found_with_a_place_or_without)
{
    fry_wire_header header = make(FRY_WIRE_FOUND), other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX] = {0};
    header.mapped.place = (fry_shared_place){.pid = 4000000,
                                             .descriptor = 70000,
                                             .key = {UINT64_MAX - 5, 77},
                                             .size_bytes = (uint64_t)1 << 40,
                                             .mark = 300,
                                             .number = (uint64_t)1 << 33};
    header.mapped.offset = (uint64_t)1 << 39;
    const size_t size = pack(bytes, &header);
    cr_assert(unpack(bytes, size, &other));
    cr_expect_eq(other.rights, header.rights);
    cr_expect_eq(other.address, header.address);
    cr_expect_eq(other.mapped.offset, header.mapped.offset);
    cr_expect_eq(other.mapped.place.pid, header.mapped.place.pid);
    cr_expect_eq(other.mapped.place.descriptor, header.mapped.place.descriptor);
    cr_expect_arr_eq(other.mapped.place.key, header.mapped.place.key, 16);
    cr_expect_eq(other.mapped.place.size_bytes, header.mapped.place.size_bytes);
    cr_expect_eq(other.mapped.place.mark, header.mapped.place.mark);
    cr_expect_eq(other.mapped.place.number, header.mapped.place.number);
    cr_expect_not(unpack(bytes, size - 1, &other));
    cr_expect_not(unpack(bytes, size + 1, &other));
    bytes[76] = 1; /* the mark has 32 bits */
    cr_expect_not(unpack(bytes, size, &other));
    bytes[76] = 0;
    memset(bytes + 64, 0, 8); /* no number: it would be the shorter one */
    cr_expect_not(unpack(bytes, size, &other));
    header.mapped.place.number = 0;
    cr_assert(unpack(bytes, pack(bytes, &header), &other));
    cr_expect_eq(other.mapped.place.number, 0);
}

Test(net_wire, a_place_is_there_if_it_is_said_to_be)
{
    fry_wire_header header = make(FRY_WIRE_SHOW);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t with = pack(bytes, &header);
    bytes[1] = 0;
    cr_expect_not(unpack(bytes, with, &other));
    header.is_yes = false;
    size_t without = pack(bytes, &header);
    cr_expect_eq(with - without, FRY_PLACE_BYTES);
    cr_assert(unpack(bytes, without, &other));
    cr_expect_not(other.is_yes);
    bytes[1] = 1;
    cr_expect_not(unpack(bytes, without, &other));
}

Test(net_wire, a_bundle_has_as_many_series_as_it_may)
{
    fry_wire_header header = make(FRY_WIRE_BUNDLE);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t size = pack(bytes, &header);
    bytes[1] = FRY_WIRE_SERIES_MAX + 1;
    cr_expect_not(unpack(bytes, size, &other));
    bytes[1] = 0;
    cr_expect_not(unpack(bytes, size, &other));
}

Test(net_wire, series_come_back_as_they_were)
{
    const fry_wire_series series = {.tag = UINT64_C(0xfedcba9876543210),
                                    .op = UINT64_C(0x0123456789abcdef),
                                    .slot = 0x89abcdef,
                                    .ahead = 0x1234567,
                                    .size_bytes = 0xfffffff1,
                                    .count = FRY_WIRE_SERIES_COUNT_MAX};
    fry_wire_series other;
    uint8_t bytes[FRY_WIRE_SERIES_BYTES];
    fry_wire_pack_series(bytes, &series);
    cr_assert(fry_wire_unpack_series(bytes, &other));
    cr_expect_eq(other.tag, series.tag);
    cr_expect_eq(other.op, series.op);
    cr_expect_eq(other.slot, series.slot);
    cr_expect_eq(other.ahead, series.ahead);
    cr_expect_eq(other.size_bytes, series.size_bytes);
    cr_expect_eq(other.count, series.count);
    bytes[31] = 1;
    cr_expect_not(fry_wire_unpack_series(bytes, &other), "what must be zero");
    bytes[31] = 0;
    bytes[28] = bytes[29] = 0;
    cr_expect_not(fry_wire_unpack_series(bytes, &other), "of no messages");
}

Test(net_wire, runs_are_whole)
{
    fry_wire_header header = make(FRY_WIRE_ACK);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    header.run_count = FRY_WIRE_RUNS_MAX;
    for (size_t i = 0; i < FRY_WIRE_RUNS_MAX; i++)
        header.runs[i] = (fry_wire_run){(uint32_t)i, 1};
    size_t size = pack(bytes, &header);
    cr_assert_leq(size, FRY_WIRE_BODY_BYTES_MAX);
    cr_assert(unpack(bytes, size, &other));
    cr_expect_eq(other.runs[FRY_WIRE_RUNS_MAX - 1].first, FRY_WIRE_RUNS_MAX - 1);
    bytes[1] = FRY_WIRE_RUNS_MAX + 1;
    cr_expect_not(unpack(bytes, size, &other));
    bytes[1] = 0;
    cr_expect_not(unpack(bytes, 8, &other), "no runs");
    header.run_count = 1;
    header.runs[0].count = 0;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other), "an empty run");
}

Test(net_wire, long_texts_are_cut_and_end)
{
    static const uint8_t kinds[] = {FRY_WIRE_POISON, FRY_WIRE_RECALL, FRY_WIRE_NACK};
    static const size_t texts_at[] = {44 + 26, 12 + 26, 16 + 26};
    for (size_t i = 0; i < sizeof(kinds); i++) {
        fry_wire_header header = make(kinds[i]);
        fry_wire_header other;
        uint8_t bytes[FRY_HEADER_BYTES_MAX];
        memset(header.fault.message, 'm', sizeof(header.fault.message)); /* without an end */
        header.fault.domain = "dddddddddddddddd";
        size_t size = pack(bytes, &header);
        cr_assert_leq(size, FRY_WIRE_BODY_BYTES_MAX);
        cr_expect_eq(bytes[texts_at[i] - 2], 15);
        cr_expect_arr_eq(bytes + texts_at[i], "dddddddddddddddm", 16);
        cr_assert(unpack(bytes, size, &other));
        cr_expect_geq(strlen(other.fault.message), 140);
        cr_expect_lt(strlen(other.fault.message), sizeof(other.fault.message));
    }
}

/* An error keeps the address of its domain. */
Test(net_wire, domains_of_others_become_known_ones)
{
    static const char *const known[] = {"user", "ucx", "errno", "cuda", "store", "hello"};
    static const char *const unknown[] = {"users", "cud", "\x1b[31m", "a longer domain"};
    fry_wire_header header = make(FRY_WIRE_NACK);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        header.fault.domain = known[i];
        cr_assert(unpack(bytes, pack(bytes, &header), &other));
        cr_expect_str_eq(other.fault.domain, known[i]);
        cr_expect_null(other.fault.label);
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        header.fault.domain = unknown[i];
        cr_assert(unpack(bytes, pack(bytes, &header), &other));
        cr_expect_str_eq(other.fault.domain, "member");
    }
    header.fault.domain = NULL;
    cr_assert(unpack(bytes, pack(bytes, &header), &other));
    cr_expect_null(other.fault.domain);
    header.fault.domain = "";
    cr_assert(unpack(bytes, pack(bytes, &header), &other));
    cr_expect_null(other.fault.domain);
}

Test(net_wire, faults_are_errors_of_somebody_in_printable_words)
{
    fry_wire_header header = make(FRY_WIRE_NACK);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    header.fault.status = FERRY_OK;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other), "a success");
    header.fault.status = FERRY_PENDING;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other), "not an error");
    header = make(FRY_WIRE_NACK);
    header.fault.rank = -1;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other), "of nobody");
    header = make(FRY_WIRE_NACK);
    strcpy(header.fault.message, "a\x1b[31m\n\x80z");
    cr_assert(unpack(bytes, pack(bytes, &header), &other));
    cr_expect_str_eq(other.fault.message, "a?[31m??z");
}

Test(net_wire, a_poison_has_no_data)
{
    fry_wire_header header = make(FRY_WIRE_POISON);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    header.size_bytes = 1;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other));
}

Test(net_wire, an_offer_names_receives)
{
    fry_wire_header header = make(FRY_WIRE_OFFER);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    header.number = 1;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other));
    header.number = 0;
    header.joint[2].is_send = true;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other));
}

Test(net_wire, a_lot_names_launches)
{
    fry_wire_header header = make(FRY_WIRE_LOT);
    fry_wire_header other;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    header.joint[1].count = 0;
    cr_expect_not(unpack(bytes, pack(bytes, &header), &other));
    header = make(FRY_WIRE_LOT);
    size_t size = pack(bytes, &header);
    bytes[size - 1] = 2;
    cr_expect_not(unpack(bytes, size, &other));
    header.run_count = FRY_WIRE_JOINTS_MAX;
    for (uint32_t i = 0; i < FRY_WIRE_JOINTS_MAX; i++)
        header.joint[i] = (fry_wire_joint){i, i, 1, true};
    size = pack(bytes, &header);
    cr_expect_leq(size, FRY_WIRE_BODY_BYTES_MAX);
    cr_expect(unpack(bytes, size, &other));
    bytes[1] = FRY_WIRE_JOINTS_MAX + 1;
    cr_expect_not(unpack(bytes, size, &other));
}
