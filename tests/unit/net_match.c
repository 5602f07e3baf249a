/* SPDX-License-Identifier: Apache-2.0 */
/* Matching: against the numbers of sends and receives within their tag, which it never sees. */
#include "net/peer/match.h"
#include "tests/support/failing_allocator.h"

#include <criterion/criterion.h>

TestSuite(net_match, .timeout = 60);

enum { EACH_MAX = 40, TAGS_MAX = 300 };

typedef struct fixture {
    failing_allocator allocator;
    fry_memory memory;
    fry_match sends, receives;
    uint64_t random;
    /* Of each tag. */
    fry_message send[TAGS_MAX][EACH_MAX], receive[TAGS_MAX][EACH_MAX];
    fry_record record[TAGS_MAX][EACH_MAX];
    int entered_sends[TAGS_MAX], entered_receives[TAGS_MAX];
    bool launched[TAGS_MAX][EACH_MAX];
    int matched;
} fixture;

static fixture f;

static void open_fixture(uint64_t seed)
{
    f = (fixture){.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
    failing_allocator_init(&f.allocator);
    ferry_allocator interface = failing_allocator_interface(&f.allocator);
    fry_memory_init(&f.memory, &interface);
    cr_assert(fry_match_open(&f.sends, &f.memory));
    cr_assert(fry_match_open(&f.receives, &f.memory));
}

static void close_fixture(void)
{
    fry_match_close(&f.sends);
    fry_match_close(&f.receives);
    cr_assert_eq(failing_allocator_live_bytes(&f.allocator), 0);
}

static size_t pick(size_t below)
{
    f.random ^= f.random << 13;
    f.random ^= f.random >> 7;
    f.random ^= f.random << 17;
    return (size_t)((f.random >> 16) % below);
}

/* A send's number, as its op. */
static void expect_pair(const fry_message *receive, ferry_tag tag, uint64_t send)
{
    cr_assert_eq(receive->tag, tag);
    cr_assert_eq(receive->op, send, "tag %lu: send %lu met receive %lu", (unsigned long)tag,
                 (unsigned long)send, (unsigned long)receive->op);
    f.matched++;
}

static void enter_send(size_t tag)
{
    int k = f.entered_sends[tag]++;
    f.send[tag][k] = (fry_message){.tag = tag, .op = (uint64_t)k, .is_send = true};
    cr_assert(fry_match_enter_send(&f.sends, &f.send[tag][k]));
}

static void enter_receive(size_t tag)
{
    int k = f.entered_receives[tag]++;
    fry_record *record = NULL;
    f.receive[tag][k] = (fry_message){.tag = tag, .op = (uint64_t)k};
    cr_assert(fry_match_enter_receive(&f.receives, &f.receive[tag][k], &record));
    if (record != NULL)
        expect_pair(&f.receive[tag][k], record->tag, record->op);
}

static void launch(size_t tag, int k)
{
    f.launched[tag][k] = true;
    uint32_t ahead = fry_match_launch(&f.sends, &f.send[tag][k]);
    fry_message *receive = fry_match_find(&f.receives, tag, ahead);
    if (receive != NULL) {
        expect_pair(receive, tag, (uint64_t)k);
        return;
    }
    fry_record *record = &f.record[tag][k];
    *record = (fry_record){.tag = tag, .op = (uint64_t)k, .ahead = ahead};
    cr_assert(fry_match_keep(&f.receives, record));
}

static void launch_any(size_t tag)
{
    int found[EACH_MAX];
    size_t count = 0;
    for (int k = 0; k < f.entered_sends[tag]; k++)
        if (!f.launched[tag][k])
            found[count++] = k;
    if (count > 0)
        launch(tag, found[pick(count)]);
}

/* All that can be done is, in an order of the seed's. */
static void run_tags(size_t tags, int each)
{
    size_t total = tags * (size_t)each;
    for (size_t steps = 0; (size_t)f.matched < total; steps++) {
        size_t tag = pick(tags);
        cr_assert_lt(steps, total * 10000);
        switch (pick(3)) {
        case 0:
            if (f.entered_sends[tag] < each)
                enter_send(tag);
            break;
        case 1:
            if (f.entered_receives[tag] < each)
                enter_receive(tag);
            break;
        default:
            launch_any(tag);
            break;
        }
    }
    cr_assert_leq(f.sends.used, 1);
    cr_assert_leq(f.receives.used, 1);
}

Test(net_match, any_order_of_one_tag)
{
    for (uint64_t seed = 0; seed < 2000; seed++) {
        open_fixture(seed);
        run_tags(1, 1 + (int)(seed % EACH_MAX));
        close_fixture();
    }
}

Test(net_match, any_order_of_many_tags)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        open_fixture(seed);
        run_tags(TAGS_MAX, 4);
        close_fixture();
    }
}

Test(net_match, steady_state_allocates_nothing)
{
    open_fixture(1);
    run_tags(TAGS_MAX, EACH_MAX / 4);
    uint64_t calls = failing_allocator_calls(&f.allocator);
    for (int round = 0; round < 50; round++) {
        f.matched = 0;
        memset(f.entered_sends, 0, sizeof(f.entered_sends));
        memset(f.entered_receives, 0, sizeof(f.entered_receives));
        memset(f.launched, 0, sizeof(f.launched));
        run_tags(TAGS_MAX / 4, 2);
    }
    cr_assert_eq(failing_allocator_calls(&f.allocator), calls);
    close_fixture();
}

Test(net_match, last_of_many_launched_first)
{
    open_fixture(1);
    for (int k = 0; k < EACH_MAX; k++)
        enter_send(0);
    for (int k = EACH_MAX; k > 0; k--)
        launch(0, k - 1);
    for (int k = 0; k < EACH_MAX; k++)
        enter_receive(0);
    cr_assert_eq(f.matched, EACH_MAX);
    close_fixture();
}

Test(net_match, far_ahead_costs_no_memory)
{
    open_fixture(1);
    uint64_t calls = failing_allocator_calls(&f.allocator);
    f.record[0][0] = (fry_record){.tag = 5, .op = 1, .ahead = UINT32_MAX};
    f.record[0][1] = (fry_record){.tag = 5, .op = 2, .ahead = UINT32_MAX - 1};
    f.record[0][2] = (fry_record){.tag = 5, .op = 3, .ahead = 1};
    f.record[0][3] = (fry_record){.tag = 5, .op = 4, .ahead = UINT32_MAX};
    for (int i = 0; i < 4; i++) {
        cr_assert_null(fry_match_find(&f.receives, 5, f.record[0][i].ahead));
        cr_assert(fry_match_keep(&f.receives, &f.record[0][i]));
    }
    cr_assert_eq(failing_allocator_calls(&f.allocator), calls);
    fry_record *record = NULL;
    cr_assert(fry_match_enter_receive(&f.receives, &f.receive[0][0], &record));
    cr_assert_null(record);
    f.receive[0][1].tag = f.receive[0][0].tag = 5;
    close_fixture();
}

Test(net_match, without_memory_nothing_changes)
{
    open_fixture(1);
    size_t tag = 0;
    failing_allocator_arm(&f.allocator, 1, true);
    for (;; tag++) {
        f.send[tag][0] = (fry_message){.tag = tag, .is_send = true};
        if (!fry_match_enter_send(&f.sends, &f.send[tag][0]))
            break;
        cr_assert_lt(tag, TAGS_MAX - 1);
    }
    failing_allocator_arm(&f.allocator, 0, false);
    cr_assert_gt(tag, 16);
    cr_assert(fry_match_enter_send(&f.sends, &f.send[tag][0]));
    for (size_t i = 0; i <= tag; i++)
        cr_assert_eq(fry_match_launch(&f.sends, &f.send[i][0]), 0);
    cr_assert_leq(f.sends.used, 1);
    close_fixture();
}

Test(net_match, another_stands_for_it)
{
    open_fixture(1);
    for (int k = 0; k < 3; k++)
        enter_send(0);
    for (int k = 0; k < 3; k++) {
        fry_message ghost = {.tag = 0, .is_send = true};
        fry_match_replace(&f.sends, &f.send[0][k], &ghost);
        fry_match_replace(&f.sends, &ghost, &f.send[0][k]);
    }
    for (int k = 0; k < 3; k++)
        enter_receive(0);
    launch(0, 1);
    launch(0, 2);
    launch(0, 0);
    cr_assert_eq(f.matched, 3);
    close_fixture();
}
