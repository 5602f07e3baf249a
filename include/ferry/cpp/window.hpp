/* SPDX-License-Identifier: Apache-2.0 */
/* Windows in C++. <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_WINDOW_HPP
#define FERRY_CPP_WINDOW_HPP

#include <ferry/cpp/options.hpp>
#include <ferry/window.h>

#include <cstdint>

namespace ferry
{

/*
 * Memory that group::open_window has announced, or group::find_window has found or is looking for.
 * The handle's end closes it, and nobody is told when its operations are over: close() tells.
 */
class window : public detail::unique_handle<ferry_window, ferry_window_release>
{
  public:
    using unique_handle::unique_handle;

    /* Copies bytes of the owner's, from an offset on, into a local span. */
    future get(std::uint64_t offset, ferry_span into, const options &with = {}) const
    {
        return future(ferry_get(native_, offset, into, with.native()));
    }
    /* Copies a local span into the owner's bytes, from an offset on. */
    future put(std::uint64_t offset, ferry_span from, const options &with = {}) const
    {
        return future(ferry_put(native_, offset, from, with.native()));
    }
    /* The same as parts of a batch: engine::batch. */
    ferry_op get_op(std::uint64_t offset, ferry_span into) const noexcept
    {
        ferry_op op = op_at(FERRY_OP_GET, offset);
        op.dst = into;
        return op;
    }
    ferry_op put_op(std::uint64_t offset, ferry_span from) const noexcept
    {
        ferry_op op = op_at(FERRY_OP_PUT, offset);
        op.src = from;
        return op;
    }

    /* No operation begins any more. Resolves when none is under way: of its owner's, when no other
     * member touches the memory. It is closed once. */
    future close() const
    {
        return future(ferry_window_close(native_));
    }

    /* Of an empty handle: that it is closed. */
    ferry_window_info describe() const noexcept
    {
        ferry_window_info info = FERRY_WINDOW_INFO_INIT;
        if (ferry_window_describe(native_, &info) != FERRY_OK)
            info.state = FERRY_WINDOW_IS_CLOSED;
        return info;
    }
    bool is_open() const noexcept
    {
        return describe().state == FERRY_WINDOW_IS_OPEN;
    }

  private:
    ferry_op op_at(ferry_op_kind kind, std::uint64_t offset) const noexcept
    {
        ferry_op op = {};
        op.kind = kind;
        op.window = native_;
        op.window_offset = offset;
        return op;
    }
};

} // namespace ferry

#endif
