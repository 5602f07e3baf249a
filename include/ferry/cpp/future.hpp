/* SPDX-License-Identifier: Apache-2.0 */
/* Futures and promises in C++, and co_await. <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_FUTURE_HPP
#define FERRY_CPP_FUTURE_HPP

#include <ferry/cpp/error.hpp>
#include <ferry/cpp/handle.hpp>
#include <ferry/future.h>
#include <ferry/group.h>
#include <ferry/message.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#if defined(__cpp_impl_coroutine)
#include <coroutine>
#define FERRY_CPP_COROUTINES 1
#endif

namespace ferry
{

namespace detail
{

/* What became of a future, as its status, or as a call that was refused, says. */
inline result<void> outcome_of(ferry_future *future, ferry_status status)
{
    if (status == FERRY_OK)
        return {};
    const ferry_error *why =
        status == ferry_future_poll(future) ? ferry_future_error(future) : nullptr;
    return why != nullptr ? ferry::error(*why) : ferry::error(status);
}

} // namespace detail

#if defined(FERRY_CPP_COROUTINES)
template <bool throws> class awaiter;
#endif

class future : public detail::shared_handle<ferry_future, ferry_future_retain, ferry_future_release>
{
  public:
    using shared_handle::shared_handle;

    ferry_status poll() const noexcept
    {
        return ferry_future_poll(native_);
    }
    bool is_ready() const noexcept
    {
        return poll() != FERRY_PENDING;
    }
    ferry_status wait(std::int64_t timeout_ns = -1) const noexcept
    {
        return ferry_future_wait(native_, timeout_ns);
    }
    ferry_status cancel() const noexcept
    {
        return ferry_future_cancel(native_);
    }
    std::uint64_t id() const noexcept
    {
        return ferry_future_id(native_);
    }

    /* Waits, and throws if the future failed, or can't be waited for here. */
    void get() const
    {
        outcome().value();
    }
    /* Waits, and returns what became of it. */
    result<void> outcome() const
    {
        return detail::outcome_of(native_, wait());
    }

    /* Of a future that has resolved FERRY_OK and has a value; lives as long as the future. */
    std::optional<std::string_view> value() const noexcept
    {
        ferry_value found = FERRY_VALUE_INIT;
        if (ferry_future_value(native_, &found) != FERRY_OK)
            return std::nullopt;
        return std::string_view(static_cast<const char *>(found.data), found.size_bytes);
    }

    /* The value's version: of a key, which grows; of an event of an open group, its number. */
    std::uint64_t version() const noexcept
    {
        ferry_value found = FERRY_VALUE_INIT;
        return ferry_future_value(native_, &found) == FERRY_OK ? found.version : 0;
    }

    /* Of group::next_event: what has happened, and to whom. */
    std::optional<ferry_group_event> event() const noexcept
    {
        ferry_value found = FERRY_VALUE_INIT;
        ferry_group_event event = {};
        if (ferry_future_value(native_, &found) != FERRY_OK || found.size_bytes < sizeof event)
            return std::nullopt;
        std::memcpy(&event, found.data, sizeof event);
        return event;
    }

    /* Whose message or notice it was, and how large: ferry_message_describe. */
    std::optional<ferry_message_info> message() const noexcept
    {
        ferry_message_info found = FERRY_MESSAGE_INFO_INIT;
        if (ferry_message_describe(native_, &found) != FERRY_OK)
            return std::nullopt;
        return found;
    }

    future quiet() const
    {
        return future(ferry_future_quiet(native_));
    }
    future issued() const
    {
        return future(ferry_future_issued(native_));
    }

#if defined(FERRY_CPP_COROUTINES)
    awaiter<true> operator co_await() const noexcept;
    awaiter<false> outcomes() const noexcept;
#endif
};

#if defined(FERRY_CPP_COROUTINES)

/*
 * `co_await future`: resumes on the loop, as a waiter's callback, or at once if the future has
 * resolved. `co_await future.outcomes()` gives a result<void> instead of throwing. The waiter is
 * part of the coroutine's frame, so waiting takes no memory, and the future is the expression's:
 * await it in the expression that makes it, or keep it until then. While the coroutine waits, ferry
 * keeps the future. Don't destroy a coroutine that waits.
 */
template <bool throws> class [[nodiscard]] awaiter
{
  public:
    explicit awaiter(ferry_future *awaited) noexcept : awaited_(awaited)
    {
    }

    bool await_ready() noexcept
    {
        status_ = ferry_future_poll(awaited_);
        return status_ != FERRY_PENDING;
    }
    bool await_suspend(std::coroutine_handle<> waiting) noexcept
    {
        waiting_ = waiting;
        waiter_ = FERRY_WAITER_INIT(resume, this);
        ferry_status refused = ferry_future_on_ready(awaited_, &waiter_);
        if (refused == FERRY_OK)
            return true; /* it may have been resumed, and this may be gone */
        status_ = refused;
        return false;
    }
    auto await_resume() const
    {
        if constexpr (throws) {
            if (status_ != FERRY_OK)
                detail::outcome_of(awaited_, status_).value();
        } else {
            return detail::outcome_of(awaited_, status_);
        }
    }

  private:
    static void resume(ferry_waiter *waiter, ferry_future *, ferry_status status)
    {
        awaiter *self = static_cast<awaiter *>(waiter->arg);
        self->status_ = status;
        self->waiting_.resume();
    }

    ferry_future *awaited_;
    ferry_waiter waiter_ = {};
    std::coroutine_handle<> waiting_;
    ferry_status status_ = FERRY_PENDING;
};

inline awaiter<true> future::operator co_await() const noexcept
{
    return awaiter<true>(native_);
}

inline awaiter<false> future::outcomes() const noexcept
{
    return awaiter<false>(native_);
}

#endif

class promise : public detail::unique_handle<ferry_promise, ferry_promise_release>
{
  public:
    using unique_handle::unique_handle;

    ferry::future future() const
    {
        return ferry::future(ferry_promise_future(native_));
    }
    ferry_status resolve(ferry_status status = FERRY_OK, const char *message = nullptr) noexcept
    {
        return ferry_promise_resolve(native_, status, message);
    }
    ferry_status resolve_value(std::string_view value) noexcept
    {
        return ferry_promise_resolve_value(native_, value.data(), value.size());
    }
};

} // namespace ferry

#endif
