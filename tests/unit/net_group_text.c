/* SPDX-License-Identifier: Apache-2.0 */
/* What groups write, and what they make of what others wrote. */
#include "net/group_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fry_memory memory;

static void set_up(void)
{
    fry_memory_init(&memory, NULL);
}

static const fry_group_record sample = {.rank = 3,
                                        .size = 64,
                                        .size_min = 1,
                                        .device_count = 8,
                                        .lease_ns = 5000000000,
                                        .pid = 4711,
                                        .pid_started = 123456,
                                        .kernel = 0xfedcba9876543210,
                                        .place = "node7.gpu3",
                                        .host = "node7",
                                        .endpoint = "host=00ff tcp=10.0.0.1:4000"};

Test(net_group_text, records, .init = set_up)
{
    char text[FRY_GROUP_MEMBER_TEXT_BYTES];
    fry_group_record record;
    const size_t bytes = fry_group_record_write(&sample, text);

    cr_assert(fry_group_record_read(text, bytes, &record));
    cr_assert(record.rank == 3 && record.size == 64 && record.pid == 4711 && !record.has_left);
    cr_assert_eq(record.kernel, sample.kernel);
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
        roster->slots[rank] = (fry_group_slot){
            .id = 100 + rank, .incarnation = 6, .place = rank, .device_count = rank + 1};
    const size_t bytes = fry_group_roster_write(roster, text);
    read = fry_group_roster_read(&memory, text, bytes, &is_text_bad);
    cr_assert(read != NULL && !is_text_bad);
    cr_assert(read->life == 2 && read->starts == 7 && read->formed == 6 && read->size == SIZE);
    cr_assert(read->slots[2].id == 102 && read->slots[2].first_device == 3);
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
        while (fry_group_arrival_next(&at, copy + bytes, &arrival))
            continue;
        cr_assert_null(fry_group_roster_read(&memory, copy, bytes, &is_text_bad));
        free(copy);
    }
}
