/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ferry/ferry.hpp>: open groups, and the events of groups; as C++17 without coroutines. Exit 0:
 * everything held.
 */
#include "members.hpp"

#include <ferry/ferry.hpp>

#include <string>
#include <utility>

/* A member of an open group of three at most, with an engine of its own. */
struct comer {
    ferry::engine engine = make_engine(FERRY_LOOP_THREAD);
    ferry::group group; /* ends first */
    ferry::future joined;

    explicit comer(const char *job, std::uint32_t events_max = 0,
                   ferry_group_kind kind = FERRY_GROUP_OPEN)
    {
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:events";
        options.job = job;
        options.kind = kind;
        options.size = 3;
        options.events_max = events_max;
        options.deadline_ns = engine.deadline_in(60000000000);
        std::tie(group, joined) = engine.join(options);
        (void)joined.wait();
    }
};

static bool is_event(const ferry::future &next, ferry_member_state what, ferry_rank rank)
{
    if (next.wait() != FERRY_OK)
        return false;
    std::optional<ferry_group_event> event = next.event();
    return event && event->what == what && event->rank == rank && event->incarnation > 0 &&
           event->lost == 0;
}

static void check_coming_and_going()
{
    comer first("coming");
    CHECK(first.joined.poll() == FERRY_OK);
    CHECK(first.group.rank() == 0 && first.group.size() == 3);
    CHECK(first.group.member(1)->state == FERRY_MEMBER_ABSENT && !first.group.member(3));
    ferry::future next = first.group.next_event();
    CHECK(next.poll() == FERRY_PENDING && !next.event() && next.version() == 0);
    std::uint64_t number = 0;
    for (int round = 0; round < 3; round++) { /* more of them than ranks */
        comer second("coming");
        CHECK(second.joined.poll() == FERRY_OK);
        ferry_rank rank = second.group.rank();
        CHECK(is_event(next, FERRY_MEMBER_HERE, rank) && next.version() > number);
        number = next.version();
        CHECK(first.group.member(rank)->state == FERRY_MEMBER_HERE);
        const std::string name = "met-" + std::to_string(round);
        ferry::future here = first.group.barrier_of({0, rank}, name.c_str());
        CHECK(second.group.barrier_of({0, rank}, name.c_str()).wait() == FERRY_OK);
        CHECK(here.wait() == FERRY_OK);
        CHECK(second.group.barrier("all").wait() == FERRY_E_INVALID);
        CHECK(second.group.barrier_of({}, "none").wait() == FERRY_E_INVALID);
        CHECK(second.group.send_notice(0, "here").poll() != FERRY_E_INVALID);
        first.group.next_notice().get();
        second.group.leave().get();
        next = first.group.next_event();
        CHECK(is_event(next, FERRY_MEMBER_LEFT, rank) && next.version() > number);
        number = next.version();
        next = first.group.next_event();
    }
    CHECK(next.cancel() == FERRY_OK && next.wait() == FERRY_E_CANCELLED && !next.event());
    CHECK(first.group.next_event(first.engine.deadline_in(1000000)).wait() == FERRY_E_DEADLINE);
    next = first.group.next_event();
    first.group.leave().get();
    CHECK(next.wait() == FERRY_E_DEAD);
}

static void check_wrong_arguments()
{
    CHECK(ferry::group().next_event().poll() == FERRY_E_INVALID);
    CHECK(!ferry::group().member(0) && !ferry::future().event());
    comer first("wrong");
    comer closed("wrong", 0, FERRY_GROUP_CLOSED);
    CHECK(closed.joined.poll() == FERRY_E_INVALID);
    comer wrong_kind("kind", 0, static_cast<ferry_group_kind>(7));
    CHECK(wrong_kind.joined.poll() == FERRY_E_INVALID);
    comer too_many("events", 65537);
    CHECK(too_many.joined.poll() == FERRY_E_INVALID);
    CHECK(first.engine.nop().event() == std::nullopt);
}

/* Those that nobody takes are dropped, and counted. */
static void check_lost_events()
{
    comer first("lost", 1);
    ferry_rank rank = 0;
    for (int round = 0; round < 2; round++) {
        comer second("lost");
        rank = second.group.rank();
        CHECK(second.joined.poll() == FERRY_OK);
        second.group.leave().get();
        while (first.group.member(rank)->state != FERRY_MEMBER_LEFT)
            CHECK(first.engine.nop().wait() == FERRY_OK);
    }
    std::uint64_t heard = 0;
    while (heard < 4) {
        ferry::future next = first.group.next_event();
        next.get();
        heard += 1 + next.event()->lost;
        CHECK(next.version() != 0);
    }
    CHECK(heard == 4);
}

/* A closed group tells of ends. */
static void check_closed_group()
{
    members both("closed-events");
    ferry::future next = both.groups[0].next_event();
    CHECK(next.poll() == FERRY_PENDING);
    both.groups[1].leave().get();
    CHECK(is_event(next, FERRY_MEMBER_LEFT, 1) && next.version() == 0);
}

#if defined(FERRY_CPP_COROUTINES)

static detached hear(const ferry::group &group, std::size_t count, ferry::promise done)
{
    for (std::size_t i = 0; i < count; i++) {
        ferry::future next = group.next_event();
        co_await next;
        CHECK(next.event()->what == (i % 2 == 0 ? FERRY_MEMBER_HERE : FERRY_MEMBER_LEFT));
    }
    (void)done.resolve();
}

static void check_coroutines()
{
    comer first("coroutines");
    ferry::promise done = first.engine.promise();
    ferry::future heard = done.future();
    hear(first.group, 4, std::move(done));
    for (int round = 0; round < 2; round++) {
        comer second("coroutines");
        second.group.leave().get();
    }
    heard.get();
}

#endif

int main()
{
    if (!members::can_meet("events.cpp"))
        return 0;
    check_coming_and_going();
    check_wrong_arguments();
    check_lost_events();
    check_closed_group();
#if defined(FERRY_CPP_COROUTINES)
    check_coroutines();
#endif
    CHECK(live_bytes == 0);
    return 0;
}
