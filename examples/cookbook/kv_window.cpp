/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The member that decodes takes a request's blocks out of the cache of the member that computed
 * them. The owner opens a window over its cache, says in a notice which blocks the request has, and
 * posts nothing for them; one batch gets them all. In C++; both members are in this process.
 */
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ferry/ferry.hpp>
#include <thread>
#include <tuple>
#include <vector>

namespace
{

constexpr std::size_t cache_blocks = 256, blocks = 64, block_bytes = 16384;
using list = std::array<std::uint64_t, blocks>; /* offsets in a cache */

struct member {
    ferry::engine engine = ferry::engine::try_make().value();
    ferry::buffer cache{engine.device("host:0"), cache_blocks *block_bytes};
    ferry::group group;
    list offsets;

    member(ferry_rank rank, std::size_t step, std::size_t first)
    {
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:kv-window";
        options.job = "kv-window";
        options.size = 2;
        options.rank = rank;
        options.has_rank = true;
        ferry::future joined;
        std::tie(group, joined) = engine.join(options);
        joined.get();
        for (std::size_t i = 0; i < blocks; i++)
            offsets[i] = (i * step + first) % cache_blocks * block_bytes;
    }
    char *block(std::size_t i) const
    {
        return static_cast<char *>(cache.data()) + offsets[i];
    }
};

void prefill()
{
    member self(0, 97, 3);
    for (std::size_t i = 0; i < blocks; i++)
        std::memset(self.block(i), static_cast<int>(i), block_bytes);
    auto [window, opened] = self.group.open_window(self.cache, "kv/blocks", FERRY_WINDOW_GET);
    opened.get();
    self.group
        .send_notice(1, {reinterpret_cast<const char *>(self.offsets.data()), sizeof self.offsets})
        .get();
    self.group.next_notice().get(); /* it has them: the blocks may be written again */
    window.close().get();           /* and from now on nobody reads the cache through the window */
}

std::size_t decode()
{
    member self(1, 61, 200);
    auto [window, found] = self.group.find_window(0, "kv/blocks");
    found.get();
    ferry::future told = self.group.next_notice();
    told.get();
    list theirs;
    if (told.value()->size() != sizeof theirs)
        return 0;
    std::memcpy(theirs.data(), told.value()->data(), sizeof theirs);

    std::vector<ferry_op> gets;
    for (std::size_t i = 0; i < blocks; i++)
        gets.push_back(window.get_op(theirs[i], self.cache.span(self.offsets[i], block_bytes)));
    ferry::future got = self.engine.batch(gets);
    self.group.send_notice(0, "done", ferry::options().after(got)).get();
    std::size_t right = 0;
    for (std::size_t i = 0; i < blocks; i++)
        right += self.block(i)[block_bytes - 1] == static_cast<char>(i);
    return right;
}

} // namespace

int main()
{
    std::size_t right = 0;
    std::thread other([&right] { right = decode(); });
    prefill();
    other.join();
    std::printf("%zu of %zu blocks are right\n", right, blocks);
    return right == blocks ? 0 : 1;
}
