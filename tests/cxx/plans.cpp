/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ferry/ferry.hpp>: plans, in one engine and between two members of this process; as C++17 without
 * coroutines. All memory is counted by the engines' allocator. Exit 0: everything held.
 */
#include "members.hpp"

#include <ferry/ferry.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

static ferry::engine one_engine()
{
    return make_engine(FERRY_LOOP_THREAD);
}

static ferry::buffer filled(const ferry::engine &engine, std::size_t size_bytes, int with)
{
    ferry::buffer made(engine.device("host:0"), size_bytes);
    std::memset(made.data(), with, size_bytes);
    return made;
}

/* ---- what a post does ---- */

static void check_posts()
{
    ferry::engine engine = one_engine();
    ferry::buffer from = filled(engine, 64, 7), between = filled(engine, 64, 0),
                  to = filled(engine, 64, 0);
    ferry::plan plan = engine.plan(ferry::operations()
                                       .copy(between.span(0, 32), from.span(0, 32))
                                       .copy(to.span(0, 32), between.span(0, 32))
                                       .copy(to.span(40, 8), from.span(32, 8))
                                       .nop());
    ferry_plan_info info = plan.describe();
    CHECK(info.op_count == 4 && info.wait_count > 0 && info.size_bytes == 72);
    plan.post().get();
    CHECK(is_filled(to, 0, 32, 7) && is_filled(to, 32, 40, 0) && is_filled(to, 40, 48, 7));

    /* Some of them: what a picked one would have waited for is not done. */
    std::memset(from.data(), 8, 64);
    plan.post({2, 1}).get();
    CHECK(is_filled(to, 0, 32, 7) && is_filled(to, 40, 48, 8));
    std::memset(from.data(), 9, 64);
    plan.post(std::vector<std::uint32_t>()).get(); /* none, not all */
    CHECK(is_filled(to, 0, 32, 7) && is_filled(to, 40, 48, 8));

    /* A post is an operation like any other. */
    ferry::promise promise = engine.promise();
    ferry::future late = plan.post(ferry::options().after(promise.future()).label("late"));
    ferry::buffer copy = filled(engine, 32, 0);
    ferry::future behind = engine.copy(copy, to.span(0, 32));
    CHECK(late.poll() == FERRY_PENDING && behind.poll() == FERRY_PENDING);
    CHECK(promise.resolve() == FERRY_OK);
    behind.get();
    CHECK(is_filled(copy, 0, 32, 9) && late.wait() == FERRY_OK);
    CHECK(plan.post({2}, ferry::options().deadline_ns(1)).wait() == FERRY_E_DEADLINE);

    CHECK(info.graph_count == 0); /* nothing of it is on a GPU */
    ferry::result<void> put = plan.enqueue(engine.device("host:0"), nullptr);
    CHECK(!put && put.error().status() != FERRY_OK);
    CHECK(ferry::plan().enqueue(nullptr, nullptr).error().status() == FERRY_E_INVALID);

    ferry::plan moved = std::move(plan);
    CHECK(!plan && plan.post().poll() == FERRY_E_INVALID && plan.describe().op_count == 0);
    plan = std::move(moved);
    plan.post().get();
    CHECK(engine.plan({}).post().wait() == FERRY_OK);
}

/* The plan keeps its buffers, and its posts keep the plan. */
static void check_lifetimes()
{
    ferry::engine engine = one_engine();
    ferry::buffer to = filled(engine, 64, 0);
    ferry::promise promise = engine.promise();
    ferry::future posted;
    {
        ferry::plan plan;
        {
            ferry::buffer from = filled(engine, 64, 5);
            plan = engine.plan(ferry::operations().copy(to, from));
        }
        plan.post().get();
        CHECK(is_filled(to, 0, 64, 5));
        std::memset(to.data(), 0, 64);
        posted = plan.post(ferry::options().after(promise.future()));
    }
    CHECK(promise.resolve() == FERRY_OK);
    posted.get();
    CHECK(is_filled(to, 0, 64, 5));

    ferry::plan outlives = engine.plan(ferry::operations().nop());
    CHECK(engine.shutdown() == FERRY_OK);
    CHECK(outlives.post().poll() == FERRY_E_SHUTDOWN);
    to = ferry::buffer();
    posted = ferry::future();
    promise = ferry::promise();
    engine = ferry::engine();
    CHECK(outlives.post().poll() == FERRY_E_SHUTDOWN);
    CHECK(!ferry::engine().try_plan(ferry::operations().nop()));
}

static void check_wrong_arguments()
{
    ferry::engine engine = one_engine(), other = one_engine();
    ferry::buffer from = filled(engine, 64, 7), to = filled(engine, 64, 0);
    static const char constant[8] = "source";
    ferry::buffer source = ferry::buffer::wrap_source(engine.device("host:0"), constant, 8);
    auto refused = [](const ferry::result<ferry::plan> &made, const char *why) {
        if (made || made.error().status() != FERRY_E_INVALID)
            return false;
        return made.error().message().find(why) != std::string::npos;
    };
    ferry::operations short_one;
    short_one.copy(to, from).copy(to.span(0, 8), from.span(0, 4));
    CHECK(refused(engine.try_plan(short_one), "operation 1"));
    CHECK(refused(engine.try_plan(ferry::operations().copy(source, from.span(0, 8))), "0"));
    CHECK(refused(other.try_plan(ferry::operations().copy(to, from)), "0"));
    for (const ferry::options &with :
         {ferry::options().after(engine.nop()), ferry::options().deadline_ns(1),
          ferry::options().user_data(1), ferry::options().in(engine.scope())})
        CHECK(refused(engine.try_plan(ferry::operations().copy(to, from, with)), "0"));
    CHECK(refused(engine.try_plan(ferry::operations().get(ferry::window(), 0, to)), "0"));
    CHECK(refused(engine.try_plan(ferry::operations().send(ferry::group(), 0, 1, to)), "0"));
    CHECK(refused(engine.try_plan(ferry::operations().send_notice(ferry::group(), 0, "")), "0"));
    ferry_op plan_in_plan = {};
    plan_in_plan.kind = FERRY_OP_PLAN;
    CHECK(refused(engine.try_plan({{plan_in_plan}}), "0"));

    ferry::plan plan = engine.plan(
        ferry::operations().copy(to, from, ferry::options().label("move").untracked()).nop());
    CHECK(plan.post({2}).poll() == FERRY_E_INVALID);
    CHECK(plan.post({0, ~std::uint32_t{0}}).poll() == FERRY_E_INVALID);
    CHECK(plan.post({1, 1}).poll() == FERRY_E_INVALID);
    CHECK(plan.post({1}, ferry::options().after(other.nop())).poll() == FERRY_E_INVALID);
    CHECK(is_filled(to, 0, 64, 0));
    plan.post().get();
    CHECK(is_filled(to, 0, 64, 7));
}

/* ---- functions ---- */

struct counted {
    explicit counted(std::atomic<int> &live) : live_(&live)
    {
        ++*live_;
    }
    counted(const counted &other) : live_(other.live_)
    {
        ++*live_;
    }
    counted &operator=(const counted &) = delete;
    ~counted()
    {
        --*live_;
    }
    std::atomic<int> *live_;
};

static void wait_until(const std::atomic<int> &count, int is)
{
    while (count.load() != is)
        std::this_thread::yield();
}

static void check_functions()
{
    std::atomic<int> live{0}, calls{0};
    ferry::engine engine = one_engine();
    ferry::buffer block = filled(engine, 8, 3);
    ferry::promise promise = engine.promise();
    ferry::future last;
    std::unique_ptr<int> only_moved = std::make_unique<int>(3);
    {
        ferry::plan plan =
            engine.plan(ferry::operations()
                            .call([&calls, guard = counted(live), owned = std::move(only_moved)] {
                                calls += *owned;
                                return guard.live_ != nullptr ? FERRY_OK : FERRY_E_FAILED;
                            })
                            .call_async(
                                [&calls, guard = counted(live)](ferry::promise ends) {
                                    calls++;
                                    (void)ends.resolve();
                                },
                                [] {}, ferry::options().changes(block)));
        for (int i = 1; i <= 3; i++) {
            plan.post().get();
            CHECK(calls == 4 * i);
        }
        plan.post({1}).get();
        CHECK(calls == 13 && live == 2);
        CHECK(plan.post({7}).poll() == FERRY_E_INVALID);
        last = plan.post(ferry::options().after(promise.future()));
        plan = ferry::plan(); /* the post keeps them */
        CHECK(live == 2);
    }
    CHECK(promise.resolve() == FERRY_OK);
    last.get();
    CHECK(calls == 17);
    wait_until(live, 0);

    /* One that fails stops those behind it. */
    ferry::plan plan =
        engine.plan(ferry::operations()
                        .call([guard = counted(live)] { return FERRY_E_FAILED; },
                              ferry::options().writes(block).label("fails"))
                        .call([&calls] { calls = 0; }, ferry::options().reads(block)));
    ferry::result<void> outcome = plan.post().outcome();
    CHECK(!outcome && outcome.error().status() == FERRY_E_DEPENDENCY);
    CHECK(outcome.error().cause_status() == FERRY_E_FAILED && calls == 17);
    plan = ferry::plan();
    wait_until(live, 0);

    /* A plan that takes the place of another one, which still has a post. */
    promise = engine.promise();
    plan = engine.plan(ferry::operations().call([&calls, guard = counted(live)] { calls = 1; }));
    last = plan.post(ferry::options().after(promise.future()));
    plan = engine.plan(ferry::operations().nop());
    CHECK(live == 1 && promise.resolve() == FERRY_OK && last.wait() == FERRY_OK && calls == 1);
    wait_until(live, 0);

    /* What is cut off by the engine's end goes with it. */
    plan = engine.plan(ferry::operations().call_async(
        [&promise](ferry::promise ends) { promise = std::move(ends); },
        [&promise, guard = counted(live)] { (void)promise.resolve(); }));
    last = plan.post();
    plan = ferry::plan();
    block = ferry::buffer();
    CHECK(engine.shutdown() == FERRY_OK && last.poll() < 0);
    last = ferry::future();
    promise = ferry::promise();
    engine = ferry::engine();
    CHECK(live == 0);
}

/* Many threads post one plan. */
static void check_threads()
{
    constexpr int threads = 4, rounds = 200;
    std::atomic<int> calls{0}, live{0};
    ferry::engine engine = one_engine();
    ferry::buffer from = filled(engine, 256, 7), to = filled(engine, 256, 0);
    {
        ferry::operations list;
        for (std::size_t i = 0; i < 4; i++)
            list.copy(to.span(i * 64, 64), from.span(i * 64, 64));
        list.call([&calls, guard = counted(live)] { calls++; });
        ferry::plan plan = engine.plan(list);
        std::vector<std::thread> posters;
        for (int i = 0; i < threads; i++)
            posters.emplace_back([&plan, i] {
                std::vector<std::uint32_t> picks = {static_cast<std::uint32_t>(i), 4};
                for (int round = 0; round < rounds; round++)
                    CHECK((round % 2 == 0 ? plan.post(picks) : plan.post()).wait() == FERRY_OK);
            });
        for (std::thread &poster : posters)
            poster.join();
    }
    CHECK(calls == threads * rounds && is_filled(to, 0, 256, 7));
    wait_until(live, 0);
}

/* ---- between members ---- */

static void check_members()
{
    members both("plans");
    ferry::buffer memory = both.buffer(0, 4096, 7), local = both.buffer(1, 4096, 0);
    ferry::window theirs = both.opened(memory, "pages");
    ferry::buffer sent = both.buffer(1, 64, 4), received = both.buffer(0, 64, 0);
    ferry::plan receives =
        both.engines[0].plan(ferry::operations().recv(both.groups[0], 1, 5, received));
    ferry::plan plan;
    ferry::window window = both.found("pages");
    {
        ferry::operations list;
        {
            std::string text = "taken";
            list.get(window, 1024, local.span(0, 64))
                .put(window, 0, sent)
                .send(both.groups[1], 0, 5, sent)
                .send_notice(both.groups[1], 0, text);
            text.assign(text.size(), '-');
        }
        ferry::operations moved = std::move(list);
        plan = both.engines[1].plan(moved);
    }
    for (int round = 0; round < 3; round++) {
        std::memset(local.data(), 0, 64);
        ferry::future there = receives.post(), here = plan.post();
        ferry::future told = both.groups[0].next_notice();
        told.get();
        CHECK(*told.value() == "taken");
        here.get();
        there.get();
        CHECK(is_filled(local, 0, 64, 7) && is_filled(memory, 0, 64, 4));
        CHECK(is_filled(received, 0, 64, 4));
    }

    /* Blocks, of which each post picks some. */
    std::vector<ferry_op> gets;
    for (std::size_t i = 0; i < 64; i++)
        gets.push_back(window.get_op(i * 64, local.span((63 - i) * 64, 64)));
    ferry::plan blocks = both.engines[1].plan(gets);
    std::memset(memory.data(), 9, 4096);
    std::memset(local.data(), 0, 4096);
    blocks.post({0, 1, 62}).get();
    CHECK(is_filled(local, 0, 64, 0) && is_filled(local, 64, 128, 9));
    CHECK(is_filled(local, 128, 62 * 64, 0) && is_filled(local, 62 * 64, 4096, 9));
    theirs.close().get();
    ferry::result<void> outcome = blocks.post().outcome();
    CHECK(!outcome && outcome.error().cause_status() == FERRY_E_NOT_FOUND);
}

#if defined(FERRY_CPP_COROUTINES)

static detached repeat(const ferry::plan &plan, int rounds, ferry::promise done)
{
    for (int i = 0; i < rounds; i++)
        co_await plan.post();
    const std::vector<std::uint32_t> picks = {9}; /* g++ 12 has no list in such an expression */
    ferry::result<void> outcome = co_await plan.post(picks).outcomes();
    CHECK(!outcome && outcome.error().status() == FERRY_E_INVALID);
    (void)done.resolve();
}

static void check_coroutines()
{
    ferry::engine engine = one_engine();
    int sum = 0;
    ferry::plan plan = engine.plan(ferry::operations().call([&sum] { sum += 2; }));
    ferry::promise done = engine.promise();
    ferry::future repeated = done.future();
    repeat(plan, 5, std::move(done));
    repeated.get();
    CHECK(sum == 10);
}

#endif

int main()
{
    check_posts();
    check_lifetimes();
    check_wrong_arguments();
    check_functions();
    check_threads();
    if (members::can_meet("plans.cpp"))
        check_members();
#if defined(FERRY_CPP_COROUTINES)
    check_coroutines();
#endif
    CHECK(live_bytes == 0);
    return 0;
}
