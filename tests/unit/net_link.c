/* SPDX-License-Identifier: Apache-2.0 */
/* Links between members in one process over real sockets: who calls, what comes of it, what ends.
 */
#include "net/connect/link_hear.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/place.h"
#include "tests/unit/link_rig.h"

TestSuite(net_link, .fini = rig_close_all);

static void close_both(void)
{
    rig_close(&low);
    rig_close(&high);
}

static bool are_connected(void)
{
    return low.channel != NULL && high.channel != NULL;
}

static void assert_one_connection(void)
{
    cr_assert_eq(low.channel->id, high.channel->other);
    cr_assert_eq(high.channel->id, low.channel->other);
    cr_assert_arr_eq(low.channel->session.send_key, high.channel->session.receive_key, 16);
    cr_assert_arr_eq(low.channel->session.receive_key, high.channel->session.send_key, 16);
    cr_assert_eq(low.open_channels, 1);
    cr_assert_eq(high.open_channels, 1);
}

Test(net_link, from_either_side)
{
    PLACE_NEEDS(place_lacks_this_host);
    const size_t before = rig_count_descriptors();

    rig_open_both();
    for (int i = 0; i < 20; i++) {
        rig_member *caller = i % 2 == 0 ? &low : &high, *other = i % 2 == 0 ? &high : &low;
        rig_member *ender = i % 4 < 2 ? caller : other, *told = i % 4 < 2 ? other : caller;
        const int ended = told->ended;
        fry_link_want(caller->link, 0);
        RIG_UNTIL(are_connected());
        assert_one_connection();
        cr_assert_eq(low.channel->channel.path, FRY_PATH_SHARED);
        cr_assert_not(low.channel->session.is_keyed);
        cr_assert(fry_link_is_local(low.link));
        rig_end_connection(ender);
        rig_rest();
        cr_assert_eq(told->ended, ended, "the channel's own word comes first");
        rig_step_ns(INT64_C(200000000));
        RIG_UNTIL(told->ended == ended + 1);
        cr_assert_eq(told->fault.status, FERRY_E_PEER);
        cr_assert_eq(told->fault.rank, (int)ender->rank);
        rig_end_connection(told);
    }
    cr_assert_eq(low.connected, 20);
    cr_assert_eq(low.opened, 20, "no channel was opened in vain");
    cr_assert_eq(high.opened, 20);
    cr_assert_eq(low.failed + high.failed + low.died + high.died, 0);
    close_both();
    cr_assert_eq(rig_count_descriptors(), before);
    cr_assert_eq(low.lines_length + high.lines_length, 0, "%s%s", low.lines, high.lines);
}

Test(net_link, both_at_once)
{
    PLACE_NEEDS(place_lacks_this_host);
    uint64_t random = 7;

    rig_open_both();
    for (int i = 0; i < 1000; i++) {
        /* Each begins some steps after the other, or at the same. */
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        rig_member *first = (random >> 40) % 2 != 0 ? &low : &high;
        rig_member *second = first == &low ? &high : &low;
        fry_link_want(first->link, 0);
        for (uint64_t turns = (random >> 50) % 12; turns > 0; turns--)
            (void)driven_reactor_run(&((turns % 3) != 0 ? first : second)->reactor, 0);
        if (second->channel == NULL)
            fry_link_want(second->link, 0);
        const int64_t begun_ns = rig_now_ns();
        for (int idle = 0; !are_connected();) {
            idle = rig_turn() == 0 ? idle + 1 : 0;
            if (idle == 2) {
                rig_step_ns(INT64_C(5000000)); /* who lost tries again */
                idle = 0;
            }
            cr_assert_lt(rig_now_ns() - begun_ns, INT64_C(5000000000));
        }
        assert_one_connection();
        rig_end_connection(&low);
        if (high.channel != NULL)
            rig_end_connection(&high);
        rig_rest();
        cr_assert(!are_connected());
        rig_step_ns(INT64_C(200000000));
        rig_rest();
        if (low.channel != NULL)
            rig_end_connection(&low);
        if (high.channel != NULL)
            rig_end_connection(&high);
    }
    cr_assert_eq(low.failed + high.failed, 0);
    cr_assert_lt(low.opened, 1100, "%d for 1000", low.opened);
    cr_assert_lt(high.opened, 1100, "%d for 1000", high.opened);
    close_both();
    cr_assert_eq(low.lines_length + high.lines_length, 0, "%s%s", low.lines, high.lines);
}

Test(net_link, with_itself)
{
    rig_open(&low, 2, 10, &rig_usual);
    rig_meet(&low, &low);
    fry_link_want(low.link, 0);
    RIG_UNTIL(low.connected == 1);
    cr_assert_eq(low.channel->channel.path, FRY_PATH_SELF);
    cr_assert_eq(low.channel->other, low.channel->id);
    rig_end_connection(&low);
    low.fails_to_open = 1;
    fry_link_want(low.link, 0);
    RIG_UNTIL(low.failed == 1);
    cr_assert_str_eq(low.fault.domain, "rig");
    cr_assert_eq(low.fault.native_code, 7);
}

Test(net_link, over_the_network)
{
    rig_options options = rig_usual;

    options.is_net_only = true;
    rig_open_two(&options, &rig_usual);
    fry_link_want(low.link, 0);
    RIG_UNTIL(are_connected());
    cr_assert_eq(low.channel->channel.path, FRY_PATH_NET);
    cr_assert_eq(high.channel->channel.path, FRY_PATH_NET);
    cr_assert(low.channel->session.is_keyed);
    assert_one_connection();
}

/* The store may tell later of a member than the member itself does. */
Test(net_link, news_that_come_late)
{
    rig_open(&low, 2, 10, &rig_usual);
    rig_init(&high, &rig_usual);
    high.rank = 5;
    high.incarnation = 20;
    rig_meet(&low, &high);
    fry_link_want(low.link, 0);
    rig_rest();
    cr_assert_eq(high.links->stranger_count, 1, "it waits until that one knows who it is");
    fry_links_set_own(high.links, 5, 20);
    rig_rest();
    cr_assert_eq(high.links->stranger_count, 1, "and until it has heard of this one");
    rig_step_ns(INT64_C(2900000000));
    rig_rest();
    rig_meet(&high, &low);
    RIG_UNTIL(are_connected());
    assert_one_connection();
    cr_assert_eq(high.links->stranger_count, 0);
}

Test(net_link, channels_that_fail)
{
    rig_open_both();
    for (int i = 0; i < 8; i++) {
        rig_member *caller = i % 2 == 0 ? &low : &high;
        rig_member *victim = i % 4 < 2 ? &low : &high;
        const int connected = low.connected;
        victim->fails_to_open = i < 4 ? 2 : 0;
        victim->fails_to_connect = i < 4 ? 0 : 2;
        fry_link_want(caller->link, 0);
        RIG_STEP_UNTIL(are_connected(), INT64_C(1000000000), 100);
        cr_assert_eq(low.connected, connected + 1,
                     "neither has a connection that the other has not");
        assert_one_connection();
        rig_end_connection(&low);
        rig_end_connection(&high);
        rig_rest();
    }
    cr_assert_eq(low.ended + high.ended + low.failed + high.failed, 0);
    /* Without time for another try. */
    low.fails_to_open = 1000;
    fry_link_want(low.link, rig_now_ns() + INT64_C(2000000000));
    RIG_STEP_UNTIL(low.failed > 0, INT64_C(100000000), 100);
    cr_assert_eq(low.fault.status, FERRY_E_PEER);
    cr_assert(strstr(low.fault.message, "it does not open") != NULL, "%s", low.fault.message);
    rig_rest();
    cr_assert_eq(high.open_channels, 0);
}

Test(net_link, nobody_there)
{
    rig_open_both();
    rig_close(&high);
    fry_link_want(low.link, rig_now_ns() + INT64_C(3000000000));
    RIG_STEP_UNTIL(low.failed > 0, INT64_C(50000000), 100);
    cr_assert(strstr(low.fault.message, "refused") != NULL, "%s", low.fault.message);
    cr_assert_eq(low.fault.rank, 5);

    fry_link_remove(low.link);
    static const char *const bad[] = {
        "",
        "tcp=1.2.3.4:5",
        "host=00112233445566778899aabbccddeeff",
        "host=00112233445566778899aabbccddeeff tcp=",
        "host=00112233445566778899aabbccddeeff tcp=localhost:1",
        "host=00112233445566778899aabbccddeeff tcp=1.2.3.4",
        "host=00112233445566778899aabbccddeeff tcp=1.2.3.4:0",
        "host=00112233445566778899aabbccddeeff tcp=1.2.3.4:65536",
        "host=00112233445566778899aabbccddeeff tcp=1.2.3.4:+5",
        "host=00112233445566778899aabbccddeeff tcp=1.2.3.4:5 ",
        "host=00112233445566778899aabbccddeeff tcp=[::1:5",
        "host=00112233445566778899aabbccddeeff tcp=::1:5",
        "host=00112233445566778899aabbccddee tcp=1.2.3.4:5",
        "host=0011223344556677889zaabbccddeeff tcp=1.2.3.4:5",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const int failed = low.failed;
        low.link = fry_link_add(low.links, 5, 20, bad[i], &low);
        cr_assert_not(fry_link_is_local(low.link));
        fry_link_want(low.link, 0);
        cr_assert_eq(low.failed, failed, "not from within the call");
        RIG_UNTIL(low.failed == failed + 1);
        cr_assert_eq(low.fault.status, FERRY_E_PEER);
        fry_link_remove(low.link);
    }
}

Test(net_link, networks)
{
    static const char *const good[] = {NULL, "lo", "127.0.0.1", "127.0.0.2", "::1"};
    static const char *const bad[] = {"no such",      "0.0.0.0", "::",       "fe80::1",
                                      "198.51.100.7", "",        "256.1.1.1"};
    fry_error *error = NULL;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        rig_options options = rig_usual;
        options.network = good[i];
        if (options.network != NULL && options.network[0] == ':' &&
            access("/proc/net/if_inet6", F_OK) != 0)
            continue; /* a kernel without it */
        rig_open_two(&options, &rig_usual);
        fry_link_want(high.link, 0);
        RIG_UNTIL(are_connected());
        close_both();
    }
    rig_open(&low, 2, 10, &rig_usual);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fry_links_options options = {.reactor = &low.reactor, .network = bad[i], .job = "job"};
        fry_links *links = NULL;
        char endpoint[FRY_ENDPOINT_BYTES];
        cr_assert_eq(fry_links_open(&options, &rig_events, &links, endpoint, &error),
                     FERRY_E_INVALID, "%s", bad[i]);
        cr_assert_null(links);
        fry_error_release(error);
    }
}

/*
 * What the line says once the engine knows that the connection is lost, and has yet to detach it,
 * as a loop that waits for the baton: no other connection comes in the way of that one.
 */
Test(net_link, a_line_that_speaks_after_the_end_was_told)
{
    const fry_fault fault = {.status = FERRY_E_PEER, .rank = 5, .message = "it is cut"};

    for (int i = 0; i < 2; i++) {
        rig_open_both();
        fry_link_want(low.link, 0);
        RIG_UNTIL(are_connected());
        fry_link_lost(low.link, &fault);
        rig_step_ns(INT64_C(200000000));
        RIG_UNTIL(low.ended == 1);
        cr_assert_str_eq(low.fault.message, fault.message);
        if (i == 0)
            rig_end_connection(&high); /* says so */
        else
            rig_close(&high); /* hangs up */
        if (i == 0)
            fry_link_want(high.link, 0);
        rig_rest();
        rig_step_ns(INT64_C(1000000000));
        rig_rest();
        cr_assert_eq(low.connected, 1);
        cr_assert_eq(low.ended, 1, "once");
        rig_end_connection(&low);
        if (i == 0)
            RIG_STEP_UNTIL(are_connected(), INT64_C(100000000), 100);
        rig_close_all();
    }
}

Test(net_link, leaving)
{
    rig_open_both();
    fry_link_want(low.link, 0);
    RIG_UNTIL(are_connected());
    fry_links_leave(low.links);
    rig_end_connection(&low);
    rig_rest();
    rig_step_ns(INT64_C(200000000));
    RIG_UNTIL(high.ended == 1);
    cr_assert_eq(high.fault.status, FERRY_E_DEAD);
    rig_end_connection(&high);
    fry_link_want(high.link, 0);
    RIG_UNTIL(high.failed == 1);
    cr_assert_eq(high.fault.status, FERRY_E_DEAD);
    fry_link_want(low.link, 0);
    RIG_UNTIL(low.failed == 1);
}

Test(net_link, forgotten_at_any_moment)
{
    for (int turns = 0; turns < 40; turns++) {
        rig_open_both();
        fry_link_want(low.link, 0);
        if (turns % 3 == 0)
            fry_link_want(high.link, 0);
        for (int i = 0; i < turns / 2; i++)
            (void)driven_reactor_run(i % 2 == 0 ? &low.reactor : &high.reactor, 0);
        rig_member *victim = turns % 2 == 0 ? &low : &high, *other = turns % 2 == 0 ? &high : &low;
        if (victim->channel != NULL)
            rig_end_connection(victim);
        fry_link_remove(victim->link);
        rig_rest();
        rig_step_ns(INT64_C(6000000000));
        rig_rest();
        if (other->channel != NULL) {
            cr_assert_eq(other->ended, 1);
            rig_end_connection(other);
        }
        cr_assert_eq(low.open_channels + high.open_channels, 0);
        close_both();
    }
}

/*
 * On a machine that is busy with other things a member may stand still at any moment of a hello.
 * Its lease says for how long it may; and a hello in which each step takes its time may take longer
 * than any of them. No end gives up what the other one has taken for a connection.
 */
static void run_slowly(int turns, int64_t each_ns, int64_t then_ns, int64_t lease_ns)
{
    rig_open_both();
    low.links->lease_ns = high.links->lease_ns = lease_ns;
    fry_link_want(turns % 2 == 0 ? low.link : high.link, 0);
    for (int i = 0; i < turns; i++) {
        (void)driven_reactor_run(i % 3 == 0 ? &low.reactor : &high.reactor, 0);
        rig_step_ns(each_ns);
    }
    rig_step_ns(then_ns);
    RIG_STEP_UNTIL(are_connected(), INT64_C(10000000), 1000);
    rig_rest();
    rig_step_ns(INT64_C(300000000));
    rig_rest();
    assert_one_connection();
    cr_assert_eq(low.ended + high.ended, 0, "%d turns: %s", turns, low.fault.message);
    cr_assert_eq(low.connected + high.connected, 2);
    rig_end_connection(&low);
    rig_end_connection(&high);
    close_both();
}

Test(net_link, a_slow_machine)
{
    PLACE_NEEDS(place_lacks_this_host);
    for (int turns = 1; turns < 60; turns++) {
        run_slowly(turns, 0, FRY_LINK_HELLO_NS + 1, INT64_C(60000000000));
        run_slowly(turns, FRY_LINK_HELLO_NS - 1, 0, FRY_LINK_HELLO_NS);
    }
}

/* Two groups of one engine share its reactor. */
Test(net_link, on_one_reactor)
{
    rig_options options = rig_usual;

    rig_open(&low, 2, 10, &rig_usual);
    options.with = &low;
    rig_open(&high, 5, 20, &options);
    rig_meet(&low, &high);
    rig_meet(&high, &low);
    for (int i = 0; i < 20; i++) {
        fry_link_want(low.link, 0);
        if (i % 2 != 0)
            fry_link_want(high.link, 0);
        RIG_UNTIL(are_connected());
        assert_one_connection();
        rig_end_connection(&low);
        rig_end_connection(&high);
    }
}

/* Whichever allocation fails once: a connection comes all the same, for it is tried again. */
Test(net_link, memory_that_fails_once)
{
    failing_allocator failing;
    uint64_t failures = 1;

    for (uint64_t nth = 1; failures > 0; nth++) {
        rig_options options = rig_usual;
        failing_allocator_init(&failing);
        const ferry_allocator allocator = failing_allocator_interface(&failing);
        options.allocator = &allocator;
        rig_open_two(&options, &rig_usual);
        failing_allocator_arm(&failing, nth, false);
        for (int i = 0; i < 4; i++) {
            fry_link_want(i % 2 == 0 ? low.link : high.link, 0);
            RIG_STEP_UNTIL(are_connected(), INT64_C(10000000), 1000);
            rig_end_connection(&low);
            rig_end_connection(&high);
        }
        failures = failing_allocator_failures(&failing);
        close_both();
        cr_assert_eq(failing_allocator_live_bytes(&failing), 0);
    }
    /* And at the start. */
    fry_error *error = NULL;
    fry_links *links = NULL;
    char endpoint[FRY_ENDPOINT_BYTES];
    rig_options options = rig_usual;
    failing_allocator_init(&failing);
    const ferry_allocator allocator = failing_allocator_interface(&failing);
    options.allocator = &allocator;
    rig_open(&low, 2, 10, &options);
    failing_allocator_arm(&failing, 1, true);
    const fry_links_options plain = {.reactor = &low.reactor, .job = "job"};
    cr_assert_eq(fry_links_open(&plain, &rig_events, &links, endpoint, &error), FERRY_E_NO_MEMORY);
    fry_error_release(error);
    cr_assert_null(fry_link_add(low.links, 3, 1, low.endpoint, &low));
    rig_close(&low); /* its allocator is this function's */
}

/* More than there is room for strangers, all at the same moment: each gets its connection. */
Test(net_link, many_members_at_once)
{
    PLACE_NEEDS(place_lacks_this_host);
    enum { MANY = 200 };
    static rig_member many[MANY], ears[MANY];
    int connected = 0;

    rig_open(&low, 0, 10, &rig_usual);
    for (uint32_t i = 0; i < MANY; i++) {
        rig_open(&many[i], 1 + i, 20, &rig_usual);
        rig_meet(&many[i], &low);
        ears[i].link = fry_link_add(low.links, 1 + i, 20, many[i].endpoint, &ears[i]);
        cr_assert_not_null(ears[i].link);
        fry_link_want(many[i].link, 0);
    }
    for (int idle = 0; connected < MANY;) {
        idle = rig_turn() == 0 ? idle + 1 : 0;
        if (idle == 2) {
            rig_step_ns(INT64_C(5000000)); /* for those who were sent away */
            idle = 0;
        }
        cr_assert_leq(low.links->stranger_count, FRY_LINK_STRANGERS_MAX);
        connected = 0;
        for (int i = 0; i < MANY; i++)
            connected += many[i].connected > 0 && ears[i].connected > 0;
    }
    cr_assert_lt(rig_now_ns(), INT64_C(10000000000), "they have waited for more than that");
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(many[i].channel->id, ears[i].channel->other);
        rig_end_connection(&ears[i]);
        rig_close(&many[i]);
    }
    rig_close(&low);
    cr_assert_eq(low.lines_length, 0, "%s", low.lines);
}
