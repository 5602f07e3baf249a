/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ferry/ferry.hpp>: windows and notices between two members of this process; as C++17 without
 * coroutines. All memory is counted by the engines' allocator. Exit 0: everything held.
 */
#include "members.hpp"

#include <ferry/ferry.hpp>

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/* ---- windows ---- */

static void check_gets_and_puts()
{
    members both("gets-and-puts");
    ferry::buffer memory = both.buffer(0, 8192, 7), local = both.buffer(1, 8192, 0);
    ferry::window theirs = both.opened(memory.span(1024, 4096), "kv/layer.0");
    ferry::window window = both.found("kv/layer.0");
    CHECK(window.is_open() && theirs.is_open());
    ferry_window_info info = window.describe();
    CHECK(info.owner == 0 && info.size_bytes == 4096 && info.rights == FERRY_WINDOW_GET_PUT);
    CHECK(std::string(info.name) == "kv/layer.0");

    window.get(4000, local.span(0, 96)).get();
    CHECK(is_filled(local, 0, 96, 7) && is_filled(local, 96, 8192, 0));
    std::memset(local.data(), 9, 64);
    ferry::future put = window.put(64, local.span(0, 64), ferry::options().label("answer"));
    ferry::future told = both.groups[1].send_notice(0, "done", ferry::options().after(put));
    ferry::future taken = both.groups[0].next_notice();
    taken.get();
    CHECK(*taken.value() == "done" && taken.message()->rank == 1);
    CHECK(is_filled(memory, 0, 1088, 7) && is_filled(memory, 1088, 1152, 9));
    told.get();
    CHECK(put.poll() == FERRY_OK);

    /* A local span is ordered like any other, and the options are those of any operation. */
    ferry::promise promise = both.engines[1].promise();
    ferry::buffer copy = both.buffer(1, 64, 0);
    ferry::future late = window.get(0, local.span(0, 64), ferry::options().after(promise.future()));
    ferry::future behind = both.engines[1].copy(copy, local.span(0, 64));
    CHECK(late.poll() == FERRY_PENDING && behind.poll() == FERRY_PENDING);
    CHECK(promise.resolve() == FERRY_OK);
    behind.get();
    CHECK(is_filled(copy, 0, 64, 7));
    ferry::scope scope = both.engines[1].scope();
    ferry::promise never = both.engines[1].promise();
    ferry::future cut =
        window.get(0, copy, ferry::options().after(never.future()).in(scope).label("cut"));
    scope.cancel().get();
    CHECK(cut.poll() == FERRY_E_CANCELLED && cut.quiet().wait() == FERRY_OK);
    CHECK(window.get(0, copy, ferry::options().deadline_ns(1)).wait() == FERRY_E_DEADLINE);
}

static void check_batches()
{
    members both("batches");
    ferry::buffer memory = both.buffer(0, 64, 0), local = both.buffer(1, 64, 0);
    for (int i = 0; i < 64; i++)
        static_cast<char *>(memory.data())[i] = static_cast<char>(i / 8);
    ferry::window theirs = both.opened(memory, "pages");
    ferry::window window = both.found("pages");
    std::vector<ferry_op> gets;
    for (std::size_t i = 0; i < 8; i++)
        gets.push_back(window.get_op((7 - i) * 8, local.span(i * 8, 8)));
    both.engines[1].batch(gets).get();
    for (std::size_t i = 0; i < 8; i++)
        CHECK(is_filled(local, i * 8, i * 8 + 8, static_cast<char>(7 - i)));
    std::vector<ferry_op> puts = {window.put_op(0, local.span(0, 8)),
                                  window.put_op(60, local.span(0, 8))};
    ferry::result<void> outcome = both.engines[1].batch(puts).outcome();
    CHECK(!outcome && outcome.error().status() == FERRY_E_DEPENDENCY);
    CHECK(outcome.error().cause_status() == FERRY_E_INVALID);
    CHECK(both.engines[1].batch({}).wait() == FERRY_OK);
}

/* Sought before it is open, and used by what waits for that. */
static void check_finds()
{
    members both("finds");
    ferry::buffer memory = both.buffer(0, 64, 7), local = both.buffer(1, 64, 0);
    auto [early, find] = both.groups[1].find_window(0, "late");
    CHECK(early.describe().state == FERRY_WINDOW_PENDING && !early.is_open());
    ferry::future get = early.get(0, local, ferry::options().after(find));
    CHECK(get.poll() == FERRY_PENDING);
    ferry::window theirs = both.opened(memory, "late", FERRY_WINDOW_GET);
    get.get();
    CHECK(early.is_open() && is_filled(local, 0, 64, 7));

    auto [none, late] = both.groups[1].find_window(0, "none", both.engines[1].deadline_in(1000000));
    CHECK(late.wait() == FERRY_E_DEADLINE);
    CHECK(none.get(0, local).wait() == FERRY_E_NOT_FOUND);
    auto [never, cut] = both.groups[1].find_window(0, "none");
    CHECK(cut.cancel() == FERRY_OK && cut.wait() == FERRY_E_CANCELLED);
    auto [given_up, ended] = both.groups[1].find_window(0, "none");
    given_up = ferry::window(); /* its end ends the search */
    CHECK(ended.wait() == FERRY_E_NOT_FOUND);
}

static void check_wrong_arguments()
{
    members both("wrong-arguments");
    ferry::buffer memory = both.buffer(0, 64, 7), local = both.buffer(1, 64, 8);
    const ferry::group &owner = both.groups[0], &other = both.groups[1];
    static const char constant[8] = "source";
    ferry::buffer source =
        ferry::buffer::wrap_source(both.engines[0].device("host:0"), constant, sizeof constant);
    auto refused = [](const std::pair<ferry::window, ferry::future> &made) {
        return !made.first ? made.second.poll() : FERRY_OK;
    };
    CHECK(refused(owner.open_window(memory, "a//b", FERRY_WINDOW_GET)) == FERRY_E_INVALID);
    CHECK(refused(owner.open_window(memory, nullptr, FERRY_WINDOW_GET)) == FERRY_E_INVALID);
    CHECK(refused(owner.open_window(memory, "a", ferry_window_rights{})) == FERRY_E_INVALID);
    CHECK(refused(owner.open_window(memory.span(8, 0), "a", FERRY_WINDOW_GET)) == FERRY_E_INVALID);
    CHECK(refused(owner.open_window(local, "a", FERRY_WINDOW_GET)) == FERRY_E_INVALID);
    CHECK(refused(owner.open_window(source, "a", FERRY_WINDOW_PUT)) == FERRY_E_INVALID);
    CHECK(refused(ferry::group().open_window(memory, "a", FERRY_WINDOW_GET)) == FERRY_E_INVALID);
    CHECK(refused(other.find_window(1, "a")) == FERRY_E_INVALID);
    CHECK(refused(other.find_window(2, "a")) == FERRY_E_NOT_FOUND);
    CHECK(refused(other.find_window(0, "")) == FERRY_E_INVALID);

    ferry::window readable = both.opened(source, "readable", FERRY_WINDOW_GET);
    ferry::window theirs = both.opened(memory, "writable", FERRY_WINDOW_PUT);
    ferry::window gets = both.found("readable"), puts = both.found("writable");
    CHECK(gets.put(0, local.span(0, 8)).wait() == FERRY_E_INVALID);
    CHECK(puts.get(0, local).wait() == FERRY_E_INVALID);
    CHECK(puts.put(1, local).wait() == FERRY_E_INVALID);
    CHECK(puts.put(~std::uint64_t{0}, local).wait() == FERRY_E_INVALID);
    CHECK(puts.put(0, memory).wait() == FERRY_E_INVALID); /* the other engine's */
    CHECK(theirs.put(0, memory).wait() == FERRY_E_INVALID);
    CHECK(is_filled(memory, 0, 64, 7));
    CHECK(puts.put(64, local.span(0, 0)).wait() == FERRY_OK);
    auto [second, again] = owner.open_window(memory, "writable", FERRY_WINDOW_GET);
    CHECK(again.wait() == FERRY_E_CHANGED && !second.is_open());

    ferry::window none, moved = std::move(gets);
    CHECK(!gets && moved.is_open());
    CHECK(none.describe().state == FERRY_WINDOW_IS_CLOSED);
    CHECK(none.get(0, local).poll() == FERRY_E_INVALID && none.close().poll() == FERRY_E_INVALID);
    none = std::move(moved);
    CHECK(none.get(0, local.span(0, 8)).wait() == FERRY_OK);
    CHECK(std::memcmp(local.data(), constant, sizeof constant) == 0);
}

static void check_closes()
{
    members both("closes");
    ferry::buffer memory = both.buffer(0, 64, 7), local = both.buffer(1, 64, 0);
    ferry::window theirs = both.opened(memory, "w"), window = both.found("w");
    theirs.close().get(); /* from now on nobody touches the memory */
    CHECK(theirs.describe().state == FERRY_WINDOW_IS_CLOSED);
    ferry::result<void> outcome = window.get(0, local).outcome();
    CHECK(!outcome && outcome.error().status() == FERRY_E_NOT_FOUND);
    CHECK(outcome.error().rank() == 0 && !outcome.error().message().empty());
    CHECK(!window.is_open());
    CHECK(theirs.close().wait() == FERRY_E_INVALID);

    theirs = both.opened(memory, "w"); /* the name is free */
    window = both.found("w");
    CHECK(window.close().wait() == FERRY_OK && theirs.is_open());
    local = both.buffer(1, 64, 5); /* the last one is poisoned */
    CHECK(window.put(0, local).wait() == FERRY_E_NOT_FOUND);
    window = both.found("w");
    window.put(0, local).get();
    window = ferry::window(); /* closes it too */
    CHECK(is_filled(memory, 0, 64, 5));
    memory = ferry::buffer(); /* the window keeps it */
    window = both.found("w");
    window.get(0, local).get();
    theirs.close().get();
}

/* An owner that leaves, and one that ends without that. Handles outlive their engines. */
static void check_owner_that_goes()
{
    for (bool leaves : {true, false}) {
        ferry::window theirs, window, never;
        ferry::future find, next;
        members both(leaves ? "leaves" : "ends");
        ferry::buffer memory = both.buffer(0, 64, 7), local = both.buffer(1, 64, 0);
        theirs = both.opened(memory, "w");
        window = both.found("w");
        std::tie(never, find) = both.groups[1].find_window(0, "never");
        next = both.groups[0].next_notice();
        if (leaves) {
            both.groups[0].leave().get();
            CHECK(next.wait() == FERRY_E_DEAD);
        } else {
            ferry::future untaken = both.groups[0].send_notice(1, "nobody takes it");
            CHECK(both.engines[0].shutdown() == FERRY_OK);
            CHECK(next.poll() == FERRY_E_SHUTDOWN && untaken.poll() < 0);
        }
        CHECK(theirs.describe().state == FERRY_WINDOW_IS_CLOSED);
        ferry_status ended = find.wait();
        CHECK(ended == FERRY_E_DEAD || ended == FERRY_E_PEER);
        ferry::result<void> outcome = window.get(0, local).outcome();
        CHECK(!outcome && outcome.error().rank() == 0);
        CHECK(outcome.error().status() == FERRY_E_DEAD || outcome.error().status() == FERRY_E_PEER);
        CHECK(window.close().wait() == FERRY_OK);
    }
}

/* ---- notices ---- */

static void check_notices()
{
    members both("notices", FERRY_LOOP_EMBEDDED);
    const ferry::group &first = both.groups[0], &second = both.groups[1];
    const std::string largest(FERRY_NOTICE_BYTES_MAX, 'x');
    CHECK(first.send_notice(1, largest + "x").poll() == FERRY_E_INVALID);
    CHECK(first.send_notice(2, "").poll() == FERRY_E_NOT_FOUND);
    CHECK(ferry::group().send_notice(0, "").poll() == FERRY_E_INVALID);
    CHECK(ferry::group().next_notice().poll() == FERRY_E_INVALID);

    ferry::future next = second.next_notice();
    CHECK(next.poll() == FERRY_PENDING && !next.message() && !next.value());
    {
        std::string words = "copied in the call";
        ferry::future sent = first.send_notice(1, words);
        words.assign(words.size(), '-');
        CHECK(both.finish(sent) == FERRY_OK);
    }
    CHECK(both.finish(next) == FERRY_OK && *next.value() == "copied in the call");
    CHECK(next.message()->rank == 0 && next.message()->size_bytes == 18);
    for (std::string_view words :
         {std::string_view(), std::string_view("\0\xff", 2), std::string_view(largest)}) {
        (void)first.send_notice(1, words);
        (void)second.send_notice(1, words); /* to itself */
        for (int i = 0; i < 2; i++) {
            next = second.next_notice();
            CHECK(both.finish(next) == FERRY_OK && *next.value() == words);
        }
    }

    /* One that is cancelled, or late, takes none. */
    next = second.next_notice();
    CHECK(next.cancel() == FERRY_OK && both.finish(next) == FERRY_E_CANCELLED);
    CHECK(both.finish(second.next_notice(1)) == FERRY_E_DEADLINE);
    ferry::promise promise = both.engines[0].promise();
    ferry::future behind = first.send_notice(1, "no", ferry::options().after(promise.future()));
    ferry::future sent = first.send_notice(1, "yes");
    CHECK(promise.resolve(FERRY_E_FAILED) == FERRY_OK);
    CHECK(both.finish(behind) == FERRY_E_DEPENDENCY);
    next = second.next_notice();
    CHECK(both.finish(next) == FERRY_OK && *next.value() == "yes");
    CHECK(both.finish(sent) == FERRY_OK && !sent.message());
    CHECK(!ferry::future().message());
}

/* ---- threads ---- */

static void check_threads()
{
    constexpr std::size_t threads = 4, rounds = 64, part = 64;
    members both("threads");
    ferry::buffer memory = both.buffer(0, threads * part, 0);
    ferry::window theirs = both.opened(memory, "parts"), window = both.found("parts");
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < threads; i++)
        writers.emplace_back([&, i] {
            ferry::buffer own = both.buffer(1, part, 0), back = both.buffer(1, part, 0);
            for (std::size_t round = 1; round <= rounds; round++) {
                std::memset(own.data(), static_cast<int>(round), part);
                ferry::future put = window.put(i * part, own);
                char words[2] = {static_cast<char>(i), static_cast<char>(round)};
                ferry::future told = both.groups[1].send_notice(0, std::string_view(words, 2),
                                                                ferry::options().after(put));
                window.get(i * part, back, ferry::options().after(put)).get();
                CHECK(is_filled(back, 0, part, static_cast<char>(round)));
                told.get();
            }
        });
    std::array<char, threads> seen = {};
    for (std::size_t i = 0; i < threads * rounds; i++) {
        ferry::future next = both.groups[0].next_notice();
        next.get();
        std::size_t who = static_cast<std::size_t>((*next.value())[0]);
        CHECK((*next.value())[1] == ++seen[who]); /* of one thread, in its order */
    }
    for (std::thread &writer : writers)
        writer.join();
    CHECK(is_filled(memory, 0, threads * part, static_cast<char>(rounds)));
}

/* ---- coroutines ---- */

#if defined(FERRY_CPP_COROUTINES)

static detached fetch(const members &both, ferry::buffer into, ferry::promise done)
{
    auto [window, found] = both.groups[1].find_window(0, "pages");
    co_await found;
    co_await window.get(0, into);
    ferry::result<void> outcome = co_await window.put(0, into).outcomes();
    CHECK(!outcome && outcome.error().status() == FERRY_E_INVALID);
    ferry::future next = both.groups[1].next_notice();
    co_await next;
    CHECK(*next.value() == "enough");
    co_await window.close();
    (void)done.resolve();
}

static void check_coroutines()
{
    members both("coroutines");
    ferry::buffer memory = both.buffer(0, 64, 7), local = both.buffer(1, 64, 0);
    ferry::promise done = both.engines[1].promise();
    ferry::future fetched = done.future();
    fetch(both, local, std::move(done));
    CHECK(fetched.poll() == FERRY_PENDING);
    ferry::window theirs = both.opened(memory, "pages", FERRY_WINDOW_GET);
    both.groups[0].send_notice(1, "enough").get();
    fetched.get();
    CHECK(is_filled(local, 0, 64, 7));
}

#endif

int main()
{
    if (!members::can_meet("windows.cpp"))
        return 0;
    check_gets_and_puts();
    check_batches();
    check_finds();
    check_wrong_arguments();
    check_closes();
    check_owner_that_goes();
    check_notices();
    check_threads();
#if defined(FERRY_CPP_COROUTINES)
    check_coroutines();
#endif
    CHECK(live_bytes == 0);
    return 0;
}
