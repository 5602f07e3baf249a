/* SPDX-License-Identifier: Apache-2.0 */
/* What groups write, and what they make of what others wrote. */
#include "net/group/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fry_memory memory;

static void set_up(void)
{
    fry_memory_init(&memory, NULL);
}

static const fry_group_record sample = {
    .rank = 3,
    .size = 64,
    .size_min = 1,
    .device_count = 8,
    .lease_ns = 5000000000,
    .process = {.pid = 4711, .started = 123456, .kernel = 0xfedcba9876543210},
    .place = "node7.gpu3",
    .host = "node7",
    .endpoint = "host=00ff tcp=10.0.0.1:4000"};

Test(net_group_text, records, .init = set_up)
{
    char text[FRY_GROUP_MEMBER_TEXT_BYTES];
    fry_group_record record;
    const size_t bytes = fry_group_record_write(&sample, text);

    cr_assert(fry_group_record_read(text, bytes, &record));
    cr_assert(record.rank == 3 && record.size == 64 && record.process.pid == 4711);
    cr_assert_eq(record.state, FRY_RECORD_HERE);
    cr_assert_eq(record.process.kernel, sample.process.kernel);
    cr_assert_str_eq(record.place, "node7.gpu3");
    cr_assert_str_eq(record.endpoint, sample.endpoint);
    for (size_t cut = 0; cut < bytes; cut++)
        cr_assert(!fry_group_record_read(text, cut, &record), "cut at %zu", cut);
    for (size_t at = 0; at < bytes; at++) {
        const char was = text[at];

        /* No byte may be a control character, and none can be left out or added. */
        text[at] = '\1';
        cr_assert(!fry_group_record_read(text, bytes, &record), "at %zu", at);
        text[at] = was;
    }
    for (fry_record_state state = FRY_RECORD_HERE; state <= FRY_RECORD_LEFT; state++) {
        fry_group_record other = sample;

        other.state = state;
        cr_assert(fry_group_record_read(text, fry_group_record_write(&other, text), &record));
        cr_assert_eq(record.state, state);
    }
}

Test(net_group_text, numbers_are_as_they_would_be_written, .init = set_up)
{
    static const char *const bad[] = {"life 01 rank 0",
                                      "life +1 rank 0",
                                      "life  1 rank 0",
                                      "life 1 rank 4096",
                                      "life 99999999999999999999 rank 0",
                                      "life 1 rank 0 ",
                                      "life -1 rank 0",
                                      "life 1 rank"};
    uint64_t life;
    uint32_t rank;
    char text[128];

    (void)snprintf(text, sizeof text, "ferry notice 1\nlife 1 rank 4095\n");
    cr_assert(fry_group_notice_read(text, strlen(text), &life, &rank));
    cr_assert(life == 1 && rank == 4095);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, "ferry notice 1\n%s\n", bad[i]);
        cr_assert(!fry_group_notice_read(text, strlen(text), &life, &rank), "%s", bad[i]);
    }
}

Test(net_group_text, rosters, .init = set_up)
{
    enum { SIZE = 3 };
    fry_group_roster *roster = calloc(1, FRY_GROUP_ROSTER_BYTES(SIZE)), *read;
    char text[FRY_GROUP_ROSTER_TEXT_BYTES(SIZE)];
    bool is_text_bad;

    roster->life = 2;
    roster->starts = 7;
    roster->formed = 6;
    roster->size = SIZE;
    for (uint32_t rank = 0; rank < SIZE; rank++)
        roster->slots[rank] =
            (fry_group_slot){.id = 100 + rank,
                             .incarnation = 6,
                             .is_dead = rank == 1,
                             .place = rank,
                             .device_count = rank + 1,
                             .process = {.pid = 1000 + rank, .started = 77, .kernel = 5}};
    roster->lineage = 0x123456789abcdef0;
    roster->restores = 3;
    roster->lease_ns = 7000000000;
    const size_t bytes = fry_group_roster_write(roster, text);
    read = fry_group_roster_read(&memory, text, bytes, &is_text_bad);
    cr_assert(read != NULL && !is_text_bad);
    cr_assert(read->life == 2 && read->starts == 7 && read->formed == 6 && read->size == SIZE);
    cr_assert(read->slots[2].id == 102 && read->slots[2].first_device == 3);
    cr_assert(read->lineage == 0x123456789abcdef0 && read->lease_ns == 7000000000);
    cr_assert_eq(read->restores, 3);
    cr_assert(!read->slots[0].is_dead && read->slots[1].is_dead);
    cr_assert(read->slots[2].process.pid == 1002 && read->slots[2].process.kernel == 5);
    fry_free(&memory, read, FRY_GROUP_ROSTER_BYTES(SIZE));
    for (size_t cut = 0; cut < bytes; cut++) {
        cr_assert_null(fry_group_roster_read(&memory, text, cut, &is_text_bad));
        cr_assert(is_text_bad);
    }
    /* An incarnation that is above the newest. */
    roster->slots[1].incarnation = 8;
    cr_assert_null(
        fry_group_roster_read(&memory, text, fry_group_roster_write(roster, text), &is_text_bad));
    free(roster);
}

/* The largest that can be fits into a value of a store's, with its proof. */
Test(net_group_text, the_longest_roster, .init = set_up)
{
    const size_t bytes = FRY_GROUP_ROSTER_BYTES(FERRY_GROUP_SIZE_MAX);
    fry_group_roster *roster = calloc(1, bytes), *read;
    char *text = malloc(FRY_GROUP_ROSTER_TEXT_BYTES(FERRY_GROUP_SIZE_MAX));
    bool is_text_bad;

    roster->lineage = UINT64_MAX;
    roster->life = UINT64_MAX - 1;
    roster->starts = roster->formed = FRY_GROUP_STARTS_MAX;
    roster->lease_ns = FRY_GROUP_LEASE_MAX_NS;
    roster->size = FERRY_GROUP_SIZE_MAX;
    for (uint32_t rank = 0; rank < roster->size; rank++)
        roster->slots[rank] = (fry_group_slot){
            .id = UINT64_MAX,
            .incarnation = FRY_GROUP_STARTS_MAX,
            .place = UINT64_MAX,
            .device_count = FRY_GROUP_DEVICES_MAX,
            .process = {.pid = INT32_MAX, .started = UINT64_MAX, .kernel = UINT64_MAX}};
    const size_t text_bytes = fry_group_roster_write(roster, text);
    cr_assert_leq(text_bytes + 64, FRY_STORE_VALUE_BYTES);
    read = fry_group_roster_read(&memory, text, text_bytes, &is_text_bad);
    cr_assert(read != NULL && read->slots[4095].process.started == UINT64_MAX);
    fry_free(&memory, read, bytes);
    free(roster);
    free(text);
}

/* An open group's: as a group without a given size looks to who knows no open ones. */
static fry_group_roster *open_roster(void)
{
    fry_group_roster *roster = calloc(1, FRY_GROUP_ROSTER_BYTES(4));

    roster->life = 1;
    roster->starts = 9;
    roster->size = 4;
    roster->is_open = true;
    roster->slots[0] =
        (fry_group_slot){.id = 100, .incarnation = 1, .device_count = 2, .process = {.pid = 7}};
    roster->slots[1] = (fry_group_slot){
        .id = 101, .incarnation = 2, .is_dead = true, .has_left = true, .ended = 8};
    roster->slots[2] = (fry_group_slot){.id = 102, .incarnation = 3, .is_dead = true, .ended = 9};
    roster->slots[3] = (fry_group_slot){.is_dead = true};
    return roster;
}

Test(net_group_text, open_rosters, .init = set_up)
{
    fry_group_roster *roster = open_roster(), *read;
    char text[FRY_GROUP_ROSTER_TEXT_BYTES(4)];
    bool is_text_bad;
    const size_t bytes = fry_group_roster_write(roster, text);

    text[bytes] = '\0';
    cr_assert_not_null(strstr(text, "starts 9 0 "), "%s", text);
    cr_assert_not_null(strstr(text, "size open 4\n"), "%s", text);
    cr_assert_not_null(strstr(text, " 2 dead 0000000000000000 0 0 8 0000000000000001\n"), "%s",
                       text);
    read = fry_group_roster_read(&memory, text, bytes, &is_text_bad);
    cr_assert(read != NULL && read->is_open && !read->is_unsized);
    cr_assert(!read->slots[0].is_dead && read->slots[0].process.pid == 7);
    cr_assert(read->slots[1].is_dead && read->slots[1].has_left && read->slots[1].ended == 8);
    cr_assert(read->slots[2].is_dead && !read->slots[2].has_left && read->slots[2].ended == 9);
    cr_assert(read->slots[3].is_dead && read->slots[3].id == 0 && read->slots[3].ended == 0);
    cr_assert_eq(read->slots[2].first_device, 2 << 16);
    fry_free(&memory, read, FRY_GROUP_ROSTER_BYTES(4));
    for (size_t cut = 0; cut < bytes; cut++)
        cr_assert_null(fry_group_roster_read(&memory, text, cut, &is_text_bad));
    free(roster);
}

#define BAD_SLOT(rank_, field_, value_)                                                            \
    do {                                                                                           \
        fry_group_roster *roster_ = open_roster();                                                 \
        char text_[FRY_GROUP_ROSTER_TEXT_BYTES(4)];                                                \
        bool is_text_bad_;                                                                         \
        roster_->slots[rank_].field_ = (value_);                                                   \
        const size_t bytes_ = fry_group_roster_write(roster_, text_);                              \
        cr_assert_null(fry_group_roster_read(&memory, text_, bytes_, &is_text_bad_));              \
        cr_assert(is_text_bad_);                                                                   \
        free(roster_);                                                                             \
    } while (0)

Test(net_group_text, open_rosters_that_cant_be, .init = set_up)
{
    BAD_SLOT(0, id, 0);     /* somebody has it, and has no id */
    BAD_SLOT(1, ended, 10); /* above the newest number */
    BAD_SLOT(1, ended, 1);  /* before it began */
    BAD_SLOT(1, ended, 0);  /* it never ended */
    BAD_SLOT(1, device_count, 1);
    BAD_SLOT(3, incarnation, 1); /* nobody had it, and it began */
    BAD_SLOT(2, id, 0);
}

/* Of an open group only ends are taken, with a number that nobody can have acknowledged. */
Test(net_group_text, open_rosters_are_merged, .init = set_up)
{
    fry_group_roster *into = open_roster(), *from = open_roster();

    into->slots[1] = (fry_group_slot){.id = 101, .incarnation = 2};
    into->starts = 20;
    from->slots[0] = (fry_group_slot){.id = 200, .incarnation = 9};
    cr_assert(fry_group_roster_merge(into, from));
    cr_assert(into->slots[0].id == 100 && into->slots[1].is_dead && into->slots[1].has_left);
    cr_assert(into->slots[1].ended == 21 && into->starts == 21);
    cr_assert(!fry_group_roster_merge(into, from));
    free(into);
    free(from);
}

Test(net_group_text, acknowledgements, .init = set_up)
{
    static const char *const bad[] = {"seen 1\nheld", "seen 1\nheld \n", "seen -1\nheld -\n",
                                      "seen 140737488355328\nheld -\n", "seen 1\nheld -\n\n"};
    const fry_group_clear clear = {.seen = 12, .held = "0-2,7", .held_bytes = 5};
    fry_group_clear read;
    char text[FRY_GROUP_CLEAR_TEXT_BYTES(8)];
    const size_t bytes = fry_group_clear_write(&clear, text, sizeof text);

    cr_assert(fry_group_clear_read(text, bytes, &read));
    cr_assert(read.seen == 12 && read.held_bytes == 5 && memcmp(read.held, "0-2,7", 5) == 0);
    for (size_t cut = 0; cut < bytes; cut++)
        cr_assert(!fry_group_clear_read(text, cut, &read), "cut at %zu", cut);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, "ferry clear 1\n%s", bad[i]);
        cr_assert(!fry_group_clear_read(text, strlen(text), &read), "%s", bad[i]);
    }
    for (uint32_t rank = 0; rank < 10; rank++)
        cr_assert_eq(fry_group_set_has("0-2,7", 5, rank), rank < 3 || rank == 7);
    cr_assert(!fry_group_set_has("-", 1, 0));
    cr_assert(fry_group_set_has("x", 1, 5) && fry_group_set_has("", 0, 5)); /* careful */
}

static fry_group_slot slot_of(uint64_t id, uint64_t incarnation, bool is_dead)
{
    return (fry_group_slot){.id = id, .incarnation = incarnation, .is_dead = is_dead};
}

/* Of each rank the newer counts: a later start, and of one that it is dead. */
Test(net_group_text, rosters_are_merged, .init = set_up)
{
    enum { SIZE = 5 };
    fry_group_roster *into = calloc(1, FRY_GROUP_ROSTER_BYTES(SIZE));
    fry_group_roster *from = calloc(1, FRY_GROUP_ROSTER_BYTES(SIZE));

    into->size = from->size = SIZE;
    into->starts = 5;
    from->starts = 7;
    into->slots[0] = slot_of(10, 1, false), from->slots[0] = slot_of(10, 1, false);
    into->slots[1] = slot_of(11, 1, false), from->slots[1] = slot_of(21, 7, false);
    into->slots[2] = slot_of(22, 5, false), from->slots[2] = slot_of(12, 1, true);
    into->slots[3] = slot_of(13, 1, false), from->slots[3] = slot_of(13, 1, true);
    into->slots[4] = slot_of(14, 1, true), from->slots[4] = slot_of(14, 1, false);
    cr_assert(fry_group_roster_merge(into, from));
    cr_assert_eq(into->starts, 7);
    cr_assert(into->slots[0].id == 10 && !into->slots[0].is_dead);
    cr_assert(into->slots[1].id == 21 && into->slots[1].incarnation == 7);
    cr_assert(into->slots[2].id == 22 && !into->slots[2].is_dead);
    cr_assert(into->slots[3].id == 13 && into->slots[3].is_dead);
    cr_assert(into->slots[4].id == 14 && into->slots[4].is_dead);
    cr_assert(!fry_group_roster_merge(into, from));
    free(into);
    free(from);
}

Test(net_group_text, sets, .init = set_up)
{
    enum { SIZE = 70 };
    static const char *const bad[] = {"", "1,", ",1", "2-1", "1,1", "3,2", "70", "0-70", "a", "1 "};
    bool in[SIZE] = {false}, out[SIZE];
    char text[FRY_GROUP_SET_TEXT_BYTES(SIZE)];

    cr_assert(fry_group_set_write(in, SIZE, text, sizeof text));
    cr_assert_str_eq(text, "-");
    in[0] = in[1] = in[2] = in[5] = in[69] = true;
    cr_assert(fry_group_set_write(in, SIZE, text, sizeof text));
    cr_assert_str_eq(text, "0-2,5,69");
    cr_assert(fry_group_set_read(text, strlen(text), out, SIZE));
    cr_assert_arr_eq(in, out, sizeof in);
    for (int i = 0; i < SIZE; i++)
        in[i] = i % 2 == 0;
    cr_assert(fry_group_set_write(in, SIZE, text, sizeof text));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!fry_group_set_read(bad[i], strlen(bad[i]), out, SIZE), "%s", bad[i]);
}

Test(net_group_text, verdicts_and_arrivals, .init = set_up)
{
    const fry_group_verdict verdict = {.life = 1,
                                       .number = 9,
                                       .passed = 8,
                                       .status = FERRY_E_DEADLINE,
                                       .rank = 4,
                                       .set = 64,
                                       .value = 7,
                                       .ranks = "1-3",
                                       .ranks_bytes = 3};
    fry_group_verdict read;
    fry_group_arrival arrival = {.name = "b/x", .number = 9, .incarnation = 2, .set = 64}, arrived;
    char text[512];
    size_t bytes = fry_group_verdict_write(&verdict, text, sizeof text);

    cr_assert(fry_group_verdict_read(text, bytes, &read));
    cr_assert(read.number == 9 && read.passed == 8 && read.status == FERRY_E_DEADLINE);
    cr_assert(read.ranks_bytes == 3 && memcmp(read.ranks, "1-3", 3) == 0);
    for (size_t cut = 0; cut < bytes; cut++)
        cr_assert(!fry_group_verdict_read(text, cut, &read));
    bytes = fry_group_arrival_write(&arrival, text);
    arrival.number = 10;
    bytes += fry_group_arrival_write(&arrival, text + bytes);
    const char *at = text;
    cr_assert(fry_group_arrival_next(&at, text + bytes, &arrived) && arrived.number == 9);
    cr_assert(fry_group_arrival_next(&at, text + bytes, &arrived) && arrived.number == 10);
    cr_assert(!fry_group_arrival_next(&at, text + bytes, &arrived));
    at = text;
    cr_assert(!fry_group_arrival_next(&at, text + 5, &arrived));
}

/* Whatever the bytes, nothing is read beyond them (under the address sanitizer). */
Test(net_group_text, garbage, .init = set_up, .timeout = 60)
{
    uint64_t random = 1;
    char text[FRY_GROUP_MEMBER_TEXT_BYTES];
    const size_t bytes = fry_group_record_write(&sample, text);

    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(bytes);
        fry_group_record record;
        fry_group_verdict verdict;
        fry_group_arrival arrival;
        bool is_text_bad, in[16];
        const char *at = copy;

        memcpy(copy, text, bytes);
        for (int changes = 0; changes < 3; changes++) {
            random = random * UINT64_C(6364136223846793005) + 1;
            copy[(random >> 33) % bytes] = (char)(random >> 56);
        }
        (void)fry_group_record_read(copy, bytes, &record);
        (void)fry_group_verdict_read(copy, bytes, &verdict);
        (void)fry_group_set_read(copy, bytes, in, 16);
        (void)fry_group_set_has(copy, bytes, 3);
        fry_group_clear clear;
        (void)fry_group_clear_read(copy, bytes, &clear);
        while (fry_group_arrival_next(&at, copy + bytes, &arrival))
            continue;
        cr_assert_null(fry_group_roster_read(&memory, copy, bytes, &is_text_bad));
        free(copy);
    }
}
