/* SPDX-License-Identifier: Apache-2.0 */
/* Two members of this process, for the programs that need a group. */
#ifndef FERRY_TESTS_CXX_MEMBERS_HPP
#define FERRY_TESTS_CXX_MEMBERS_HPP

#include "support.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <unistd.h>
#include <utility>

/* Two members that have met, each with an engine. */
struct members {
    std::array<ferry::engine, 2> engines;
    std::array<ferry::group, 2> groups; /* ends first */

    explicit members(const char *job, ferry_loop_mode loop = FERRY_LOOP_THREAD)
    {
        std::array<ferry::future, 2> joined;
        for (std::size_t i = 0; i < 2; i++) {
            engines[i] = make_engine(loop);
            ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
            options.store = "mem:members";
            options.job = job;
            options.size = 2;
            options.rank = static_cast<ferry_rank>(i);
            options.has_rank = true;
            std::tie(groups[i], joined[i]) = engines[i].join(options);
        }
        for (const ferry::future &each : joined)
            finish(each);
    }

    static bool can_meet(const char *program)
    {
        bool can = access("/proc/sys/kernel/random/boot_id", R_OK) == 0;
        if (!can)
            (void)std::printf("%s: skipped: no /proc, where UCX reads the boot's id\n", program);
        return can;
    }

    /* Without threads both engines run in here. */
    ferry_status finish(const ferry::future &future)
    {
        while (!future.is_ready()) {
            (void)engines[0].progress();
            (void)engines[1].progress();
        }
        return future.poll();
    }

    ferry::buffer buffer(std::size_t of, std::size_t size_bytes, int fill) const
    {
        ferry::buffer made(engines[of].device("host:0"), size_bytes);
        std::memset(made.data(), fill, size_bytes);
        return made;
    }
    ferry::window opened(ferry_span span, const char *name,
                         ferry_window_rights rights = FERRY_WINDOW_GET_PUT) const
    {
        auto [window, open] = groups[0].open_window(span, name, rights);
        open.get();
        return std::move(window);
    }
    ferry::window found(const char *name) const
    {
        auto [window, find] = groups[1].find_window(0, name);
        find.get();
        return std::move(window);
    }
};

inline bool is_filled(const ferry::buffer &buffer, std::size_t from, std::size_t to, char with)
{
    const char *bytes = static_cast<const char *>(buffer.data());
    while (from < to && bytes[from] == with)
        from++;
    return from == to;
}

#endif
