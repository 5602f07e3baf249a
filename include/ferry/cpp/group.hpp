/* SPDX-License-Identifier: Apache-2.0 */
/* Groups in C++. <ferry/ferry.hpp>
 * includes this. */
#ifndef FERRY_CPP_GROUP_HPP
#define FERRY_CPP_GROUP_HPP

#include <ferry/cpp/options.hpp>
#include <ferry/cpp/window.hpp>
#include <ferry/group.h>
#include <ferry/message.h>
#include <ferry/notice.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry
{

class group : public detail::unique_handle<ferry_group, ferry_group_release>
{
  public:
    using unique_handle::unique_handle;

    ferry_rank rank() const noexcept
    {
        return ferry_group_rank(native_);
    }
    std::uint32_t size() const noexcept
    {
        return ferry_group_size(native_);
    }

    future send(ferry_rank peer, ferry_tag tag, ferry_span span, const options &with = {}) const
    {
        return future(ferry_send(native_, peer, tag, span, with.native()));
    }
    future recv(ferry_rank peer, ferry_tag tag, ferry_span span, const options &with = {}) const
    {
        return future(ferry_recv(native_, peer, tag, span, with.native()));
    }

    /* The window, which the other members can find once the future is FERRY_OK. */
    std::pair<window, future> open_window(ferry_span span, const char *name,
                                          ferry_window_rights rights) const
    {
        ferry_window *made = nullptr;
        ferry_future *opened = ferry_window_open(native_, span, name, rights, &made);
        return {window(made), future(opened)};
    }
    /* A window of another member's, which may be used once the future is FERRY_OK, and before that
     * by operations that name the future in after(). */
    std::pair<window, future> find_window(ferry_rank owner, const char *name,
                                          std::int64_t deadline_ns = 0) const
    {
        ferry_window *made = nullptr;
        ferry_future *found = ferry_window_find(native_, owner, name, deadline_ns, &made);
        return {window(made), future(found)};
    }

    /* The bytes are copied in the call. FERRY_OK: the other program has taken the notice. */
    future send_notice(ferry_rank peer, std::string_view data, const options &with = {}) const
    {
        return future(ferry_notice_send(native_, peer, data.data(), data.size(), with.native()));
    }
    /* Takes a notice: future::value is its bytes, future::message says whose it is. */
    future next_notice(std::int64_t deadline_ns = 0) const
    {
        return future(ferry_notice_next(native_, deadline_ns));
    }

    /* Takes the next event of the group: future::event says what has happened to whom. */
    future next_event(std::int64_t deadline_ns = 0) const
    {
        return future(ferry_group_event_next(native_, deadline_ns));
    }
    /* What this member knows of another; none if there is no such rank. Asks nobody. */
    std::optional<ferry_member_info> member(ferry_rank rank) const noexcept
    {
        ferry_member_info found = FERRY_MEMBER_INFO_INIT;
        if (ferry_group_member(native_, rank, &found) != FERRY_OK)
            return std::nullopt;
        return found;
    }

    /* Of all members of a closed group. */
    future barrier(const char *name, std::int64_t deadline_ns = 0) const
    {
        ferry_barrier_options with = FERRY_BARRIER_OPTIONS_INIT;
        with.deadline_ns = deadline_ns;
        return future(ferry_barrier(native_, name, &with));
    }
    /* Of those that are named: an open group has no other barriers. */
    future barrier_of(const std::vector<ferry_rank> &members, const char *name,
                      std::int64_t deadline_ns = 0) const
    {
        static const ferry_rank none = 0; /* NULL would be all */
        ferry_barrier_options with = FERRY_BARRIER_OPTIONS_INIT;
        with.members = members.empty() ? &none : members.data();
        with.member_count = static_cast<std::uint32_t>(members.size());
        with.deadline_ns = deadline_ns;
        return future(ferry_barrier(native_, name, &with));
    }
    future set(const char *key, std::string_view value, std::int64_t deadline_ns = 0) const
    {
        return future(ferry_group_set(native_, key, value.data(), value.size(), deadline_ns));
    }
    future get(const char *key, std::int64_t deadline_ns = 0) const
    {
        return future(ferry_group_get(native_, key, deadline_ns));
    }
    future leave() const
    {
        return future(ferry_group_leave(native_));
    }
};

} // namespace ferry

#endif
