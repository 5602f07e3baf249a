/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member mirrors another one's cache, step by step, by one plan: a get for each block, and a
 * notice at its end. Each step's post picks the blocks that have changed, and the notice. In C++;
 * both members are in this process.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ferry/ferry.hpp>
#include <thread>
#include <tuple>
#include <vector>

namespace
{

constexpr std::size_t blocks = 64, block_bytes = 16384;
constexpr std::uint32_t steps = 8;

struct member {
    ferry::engine engine = ferry::engine::try_make().value();
    ferry::buffer cache{engine.device("host:0"), blocks *block_bytes};
    ferry::group group;

    explicit member(ferry_rank rank)
    {
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:kv-plan";
        options.job = "kv-plan";
        options.size = 2;
        options.rank = rank;
        options.has_rank = true;
        ferry::future joined;
        std::tie(group, joined) = engine.join(options);
        joined.get();
        std::memset(cache.data(), 0, blocks * block_bytes);
    }
    char *block(std::size_t i) const
    {
        return static_cast<char *>(cache.data()) + i * block_bytes;
    }
};

void own()
{
    member self(0);
    auto [window, opened] = self.group.open_window(self.cache, "kv/blocks", FERRY_WINDOW_GET);
    opened.get();
    for (std::uint32_t step = 0; step < steps; step++) {
        std::vector<std::uint32_t> changed;
        for (std::uint32_t i = step; i < blocks; i += step + 1) {
            std::memset(self.block(i), static_cast<int>(step) + 1, block_bytes);
            changed.push_back(i);
        }
        self.group
            .send_notice(1, {reinterpret_cast<const char *>(changed.data()),
                             changed.size() * sizeof changed[0]})
            .get();
        self.group.next_notice().get(); /* it has them: they may be written again */
    }
    window.close().get();
}

/* How many blocks are right at the end. */
std::size_t mirror()
{
    member self(1);
    auto [window, found] = self.group.find_window(0, "kv/blocks");
    found.get();
    ferry::operations list;
    for (std::size_t i = 0; i < blocks; i++)
        list.get(window, i * block_bytes, self.cache.span(i * block_bytes, block_bytes));
    list.send_notice(self.group, 0, "taken"); /* after all gets that are picked */
    ferry::plan plan = self.engine.plan(list);
    for (std::uint32_t step = 0; step < steps; step++) {
        ferry::future told = self.group.next_notice();
        told.get();
        std::vector<std::uint32_t> picks(told.value()->size() / sizeof(std::uint32_t));
        std::memcpy(picks.data(), told.value()->data(), told.value()->size());
        picks.push_back(blocks);
        plan.post(picks, ferry::options().deadline_ns(self.engine.deadline_in(10000000000))).get();
    }
    std::size_t right = 0;
    for (std::uint32_t i = 0; i < blocks; i++) {
        std::uint32_t last = 0; /* the last step that has changed it */
        for (std::uint32_t step = 0; step < steps; step++)
            last = i >= step && (i - step) % (step + 1) == 0 ? step : last;
        right += self.block(i)[block_bytes - 1] == static_cast<char>(last + 1);
    }
    return right;
}

} // namespace

int main()
{
    std::size_t right = 0;
    std::thread other([&right] { right = mirror(); });
    own();
    other.join();
    std::printf("%zu of %zu blocks are right\n", right, blocks);
    return right == blocks ? 0 : 1;
}
