/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ferry/ferry.hpp>: handles, failures, functions, queues, spans and coroutines; as C++17 without
 * the last two. All memory is counted by the engine's allocator. Exit 0: everything held.
 */
#include "support.hpp"

#include <ferry/ferry.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

/* ---- failures ---- */

static void check_failures()
{
    ferry_engine_options wrong = FERRY_ENGINE_OPTIONS_INIT;
    wrong.host_devices = 1000;
    ferry::result<ferry::engine> refused = ferry::engine::try_make(&wrong);
    CHECK(!refused && refused.error().status() == FERRY_E_INVALID);
    CHECK(!refused.error().message().empty());
    ferry::engine engine = make_engine(FERRY_LOOP_THREAD);
#if defined(__cpp_exceptions)
    bool was_thrown = false;
    try {
        (void)ferry::buffer(engine.device("host:0"), 0);
    } catch (const ferry::error &failure) {
        was_thrown = failure.status() == FERRY_E_INVALID && std::strlen(failure.what()) > 10;
    }
    CHECK(was_thrown);
    was_thrown = false;
    ferry::promise promise = engine.promise();
    ferry::future after = engine.nop(ferry::options().after(promise.future()).label("behind"));
    CHECK(promise.resolve(static_cast<ferry_status>(-4711), "the disk is on fire") == FERRY_OK);
    try {
        after.get();
    } catch (const ferry::error &failure) {
        was_thrown = true;
        CHECK(failure.status() == FERRY_E_DEPENDENCY && failure.label() == "behind");
        CHECK(failure.cause_status() == static_cast<ferry_status>(-4711));
        CHECK(failure.cause_message() == "the disk is on fire" && failure.op() == after.id());
        CHECK(std::string(failure.what()).find("fire") != std::string::npos);
    }
    CHECK(was_thrown);
#endif
    ferry::result<void> outcome = engine.nop().outcome();
    CHECK(outcome.has_value());
    CHECK(!engine.try_device("no:such"));
    ferry::future none;
    CHECK(none.outcome().error().status() == FERRY_E_INVALID && !none);
}

/* ---- memory and operations ---- */

static void check_copies()
{
    ferry::engine engine = make_engine(FERRY_LOOP_THREAD);
    ferry::buffer source(engine.device("host:0"), 4000), target(engine.device("host:1"), 4000);
    ferry::future filled =
        engine.call([source] { std::memset(source.data(), 7, source.size_bytes()); },
                    ferry::options().writes(source));
    ferry::future copied = engine.copy(target, source);
    source = ferry::buffer(); /* the operations keep it */
    copied.get();
    CHECK(static_cast<char *>(target.data())[3999] == 7);
    static const int constant[4] = {1, 2, 3, 4};
    int changed[4] = {};
    {
        ferry::buffer from =
            ferry::buffer::wrap_source(engine.device("host:0"), constant, sizeof constant);
        ferry::buffer to = ferry::buffer::wrap(engine.device("host:0"), changed, sizeof changed);
        ferry::buffer again = to, moved = std::move(again);
        CHECK(moved.native() == to.native() && !again);
        engine.copy(to.span(0, 8), from.span(8, 8)).get();
        CHECK(changed[0] == 3 && changed[1] == 4 && changed[2] == 0);
        CHECK(engine.copy(from, to).outcome().error().status() == FERRY_E_INVALID);
    }
#if defined(FERRY_CPP_SPAN)
    std::vector<double> numbers(100, 1.5);
    ferry::buffer wrapped = ferry::buffer::wrap(engine.device("host:0"), std::span(numbers));
    ferry::buffer result(engine.device("host:1"), numbers.size() * sizeof(double));
    engine.copy(result, wrapped).get();
    CHECK(result.as<double>().size() == 100 && result.as<double>()[99] == 1.5);
    CHECK(target.as().size() == 4000);
#endif
}

/* ---- functions ---- */

static void check_calls()
{
    auto counted = std::make_shared<int>(0);
    {
        ferry::engine engine = make_engine(FERRY_LOOP_THREAD);
        std::vector<ferry::future> calls;
        for (int i = 0; i < 100; i++)
            calls.push_back(engine.call([counted] { ++*counted; }));
        engine.all(calls).get();
        CHECK(*counted == 100);
        CHECK(engine.call([counted]() -> ferry_status { return FERRY_E_NOT_FOUND; })
                  .outcome()
                  .error()
                  .status() == FERRY_E_NOT_FOUND);
#if defined(__cpp_exceptions)
        CHECK(engine.call([counted] { throw ferry::error(FERRY_E_PEER); })
                  .outcome()
                  .error()
                  .status() == FERRY_E_PEER);
        CHECK(engine.call([counted] { throw 17; }).outcome().error().status() == FERRY_E_FAILED);
#endif
        /* Cancelled before it runs: it goes without having run. */
        ferry::promise promise = engine.promise();
        ferry::future held =
            engine.call([counted] { *counted = -1; }, ferry::options().after(promise.future()));
        CHECK(held.cancel() == FERRY_OK);
        CHECK(held.wait() == FERRY_E_CANCELLED);
        held.quiet().get();
        /* And one that the shutdown ends. */
        (void)engine.call([counted] { *counted = -1; }, ferry::options().after(promise.future()));
        CHECK(engine.shutdown() == FERRY_OK);
        CHECK(engine.call([counted] { *counted = -1; }).wait(0) == FERRY_E_SHUTDOWN);
    }
    CHECK(*counted == 100 && counted.use_count() == 1);
}

/* Cancelled while it runs, in another thread than the loop's: it goes when it has returned. */
static void check_cancelled_while_it_runs()
{
    auto counted = std::make_shared<int>(0);
    std::atomic<bool> has_begun{false}, may_go{false};
    {
        ferry::engine engine = make_engine(FERRY_LOOP_THREAD);
        ferry_executor threads = {sizeof(ferry_executor),
                                  [](ferry_executor *, ferry_task *task) {
                                      std::thread([task] { ferry_task_run(task); }).detach();
                                  },
                                  nullptr};
        ferry::future running = engine.call(
            [counted, &has_begun, &may_go] {
                has_begun = true;
                while (!may_go)
                    std::this_thread::yield();
                ++*counted;
            },
            {}, &threads);
        while (!has_begun)
            std::this_thread::yield();
        CHECK(running.cancel() == FERRY_OK);
        CHECK(running.wait() == FERRY_E_CANCELLED);
        CHECK(*counted == 0 && counted.use_count() == 2);
        may_go = true;
        running.quiet().get();
    }
    CHECK(*counted == 1 && counted.use_count() == 1);
}

/* Cancelled where there is no room to ask whether it is quiet: it goes with the engine. */
static void check_cancelled_without_room()
{
    auto counted = std::make_shared<int>(0);
    {
        ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
        options.max_nodes = 16;
        options.log = no_log;
        ferry::engine engine(options);
        ferry::promise promise = engine.promise();
        ferry::options behind;
        behind.after(promise.future());
        ferry::future held = engine.call([counted] { ++*counted; }, behind);
        std::vector<ferry::future> others;
        do {
            others.push_back(engine.nop(behind));
        } while (others.back().poll() == FERRY_PENDING);
        CHECK(others.back().poll() == FERRY_E_AGAIN);
        CHECK(held.quiet().poll() == FERRY_E_AGAIN);
        CHECK(held.cancel() == FERRY_OK && held.wait() == FERRY_E_CANCELLED);
    }
    CHECK(*counted == 0 && counted.use_count() == 1);
}

static void check_calls_that_end_later()
{
    auto counted = std::make_shared<int>(0);
    {
        ferry::engine engine = make_engine(FERRY_LOOP_EMBEDDED);
        ferry::promise ends;
        auto nothing = [counted] { ++*counted; };
        ferry::future later = engine.call_async(
            [&ends, counted](ferry::promise given) { ends = std::move(given); }, nothing);
        while (engine.progress() > 0)
            continue;
        CHECK(later.poll() == FERRY_PENDING && ends.native() != nullptr);
        CHECK(ends.resolve_value("it") == FERRY_OK);
        while (engine.progress() > 0)
            continue;
        CHECK(later.poll() == FERRY_OK && *later.value() == "it" && *counted == 0);
        ends = ferry::promise();
        ferry::future cut = engine.call_async(
            [&ends, counted](ferry::promise given) { ends = std::move(given); }, nothing);
        while (engine.progress() > 0)
            continue;
        CHECK(cut.cancel() == FERRY_OK);
        while (engine.progress() > 0)
            continue;
        CHECK(cut.poll() == FERRY_E_CANCELLED && *counted == 1 && counted.use_count() > 1);
        ferry::future quiet = cut.quiet();
        CHECK(quiet.poll() == FERRY_PENDING && ends.resolve() == FERRY_OK);
        while (engine.progress() > 0)
            continue;
        CHECK(quiet.poll() == FERRY_OK);
        ferry::future dropped = engine.call_async([](ferry::promise) {}, nothing);
#if defined(__cpp_exceptions)
        ferry::future thrown = engine.call_async(
            [counted](ferry::promise &&) { throw ferry::error(FERRY_E_PEER); }, nothing);
#endif
        while (engine.progress() > 0)
            continue;
        CHECK(dropped.poll() == FERRY_E_BROKEN_PROMISE);
#if defined(__cpp_exceptions)
        CHECK(thrown.poll() == FERRY_E_PEER);
#endif
    }
    CHECK(counted.use_count() == 1);
}

/* ---- promises, queues, groups ---- */

static void check_scope()
{
    ferry::engine engine = make_engine(FERRY_LOOP_EMBEDDED);
    ferry::promise promise = engine.promise();
    ferry::scope scope = engine.scope();
    ferry::future waits = engine.nop(ferry::options().after(promise.future()).in(scope));
    ferry::future end = scope.close();
    CHECK(end.poll() == FERRY_PENDING);
    CHECK(engine.nop(ferry::options().in(scope)).poll() == FERRY_E_INVALID);
    CHECK(scope.cancel().wait() == FERRY_OK);
    CHECK(waits.poll() == FERRY_E_CANCELLED && end.poll() == FERRY_OK);
}

static void check_queue()
{
    ferry::engine engine = make_engine(FERRY_LOOP_EMBEDDED);
    ferry::queue queue = engine.queue(8);
    for (std::uint64_t i = 0; i < 8; i++)
        (void)engine.nop(ferry::options().into(queue).untracked().user_data(i));
    CHECK(engine.nop(ferry::options().into(queue)).poll() == FERRY_E_AGAIN);
    ferry_queue_record records[9];
    CHECK(queue.take(records, 9) == 8 && records[7].user_data == 7);
    CHECK(queue.fd() >= 0 && queue.arm() == FERRY_OK);
    ferry::promise promise = engine.promise();
    ferry::future future = promise.future();
    CHECK(!future.value());
    CHECK(promise.resolve_value("what it gave") == FERRY_OK);
    CHECK(*future.value() == "what it gave");
}

static void check_group()
{
    ferry::engine engine = make_engine(FERRY_LOOP_THREAD);
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:handles";
    options.job = "handles";
    options.size = 1;
    options.has_rank = true;
    auto [group, joined] = engine.join(options);
    joined.get();
    CHECK(group.rank() == 0 && group.size() == 1);
    group.set("key", "value").get();
    ferry::future got = group.get("key");
    got.get();
    CHECK(*got.value() == "value");
    group.leave().get();
}

/* ---- coroutines ---- */

#if defined(FERRY_CPP_COROUTINES)

static detached copy_twice(ferry::engine &engine, ferry::buffer from, ferry::buffer to, int &steps)
{
    co_await engine.copy(to, from);
    steps++;
    co_await engine.copy(from, to);
    steps++;
    ferry::promise promise = engine.promise();
    ferry::future broken = promise.future();
    promise = ferry::promise();
    ferry::result<void> outcome = co_await broken.outcomes();
    CHECK(!outcome && outcome.error().status() == FERRY_E_BROKEN_PROMISE);
    steps++;
#if defined(__cpp_exceptions)
    try {
        co_await broken;
    } catch (const ferry::error &failure) {
        steps += failure.status() == FERRY_E_BROKEN_PROMISE;
    }
#else
    steps++;
#endif
}

static detached count_after(ferry::future awaited, int &steps)
{
    co_await awaited;
    steps++;
}

static void check_coroutines()
{
    int steps = 0;
    ferry::engine engine = make_engine(FERRY_LOOP_EMBEDDED);
    ferry::buffer from(engine.device(std::size_t{0}), 64), to(engine.device(std::size_t{1}), 64);
    copy_twice(engine, from, to, steps);
    for (int i = 0; steps < 4 && i < 100000; i++)
        (void)engine.progress();
    CHECK(steps == 4);
    ferry::promise promise = engine.promise();
    for (int i = 0; i < 100; i++)
        count_after(promise.future(), steps);
    CHECK(steps == 4);
    CHECK(promise.resolve() == FERRY_OK);
    while (engine.progress() > 0)
        continue;
    CHECK(steps == 104);
}

#endif

int main()
{
    check_failures();
    check_copies();
    check_calls();
    check_cancelled_while_it_runs();
    check_cancelled_without_room();
    check_calls_that_end_later();
    check_queue();
    check_scope();
    check_group();
#if defined(FERRY_CPP_COROUTINES)
    check_coroutines();
#endif
    CHECK(live_bytes == 0);
    return 0;
}
