/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in C++: ferry::error, and ferry::result for who does not want exceptions.
 * <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_ERROR_HPP
#define FERRY_CPP_ERROR_HPP

#include <ferry/status.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace ferry
{

/* What a ferry_error says, copied. */
class error : public std::exception
{
  public:
    explicit error(ferry_status status, std::string message = {})
        : status_(status),
          message_(message.empty() ? ferry_status_text(status) : std::move(message))
    {
        what_ = std::string(ferry_status_name(status_)) + ": " + message_;
    }

    explicit error(const ferry_error &from) : error(from.status, from.message)
    {
        rank_ = from.rank;
        domain_ = from.domain;
        native_code_ = from.native_code;
        op_ = from.op;
        label_ = from.label != nullptr ? from.label : "";
        if (from.cause != nullptr) {
            cause_status_ = from.cause->status;
            cause_message_ = from.cause->message;
            cause_op_ = from.cause->op;
            what_ += " (cause: " + cause_message_ + ")";
        }
    }

    const char *what() const noexcept override
    {
        return what_.c_str();
    }
    ferry_status status() const noexcept
    {
        return status_;
    }
    const std::string &message() const noexcept
    {
        return message_;
    }
    ferry_rank rank() const noexcept
    {
        return rank_;
    } /* FERRY_RANK_NONE: none */
    const std::string &domain() const noexcept
    {
        return domain_;
    }
    std::int64_t native_code() const noexcept
    {
        return native_code_;
    }
    std::uint64_t op() const noexcept
    {
        return op_;
    } /* 0: none */
    const std::string &label() const noexcept
    {
        return label_;
    }
    /* Of the first error that led to this one; FERRY_OK: there is none. */
    ferry_status cause_status() const noexcept
    {
        return cause_status_;
    }
    const std::string &cause_message() const noexcept
    {
        return cause_message_;
    }
    std::uint64_t cause_op() const noexcept
    {
        return cause_op_;
    }

  private:
    ferry_status status_;
    ferry_rank rank_ = FERRY_RANK_NONE;
    ferry_status cause_status_ = FERRY_OK;
    std::int64_t native_code_ = 0;
    std::uint64_t op_ = 0, cause_op_ = 0;
    std::string message_, domain_ = "ferry", label_, cause_message_, what_;
};

[[noreturn]] inline void raise(error failure)
{
#if defined(__cpp_exceptions)
    throw failure;
#else
    (void)std::fputs(failure.what(), stderr);
    std::abort();
#endif
}

/* A value or an error, as std::expected of C++23. */
template <typename T> class result
{
  public:
    result(T value) : value_(std::move(value))
    {
    }
    result(ferry::error failure) : failure_(std::move(failure))
    {
    }

    bool has_value() const noexcept
    {
        return value_.has_value();
    }
    explicit operator bool() const noexcept
    {
        return has_value();
    }
    /* The value; throws the error if there is none. */
    T &value() &
    {
        check();
        return *value_;
    }
    T &&value() &&
    {
        check();
        return std::move(*value_);
    }
    T &operator*() &
    {
        return *value_;
    }
    T *operator->()
    {
        return &*value_;
    }
    /* Only if there is no value. */
    const ferry::error &error() const
    {
        return *failure_;
    }

  private:
    void check() const
    {
        if (!has_value())
            raise(*failure_);
    }

    std::optional<T> value_;
    std::optional<ferry::error> failure_;
};

template <> class result<void>
{
  public:
    result() = default;
    result(ferry::error failure) : failure_(std::move(failure))
    {
    }

    bool has_value() const noexcept
    {
        return !failure_.has_value();
    }
    explicit operator bool() const noexcept
    {
        return has_value();
    }
    void value() const
    {
        if (failure_.has_value())
            raise(*failure_);
    }
    const ferry::error &error() const
    {
        return *failure_;
    }

  private:
    std::optional<ferry::error> failure_;
};

namespace detail
{

/* The error that a call of C has returned; releases it. */
inline ferry::error take(ferry_status status, ferry_error *given)
{
    if (given == nullptr)
        return ferry::error(status);
    ferry::error taken(*given);
    ferry_error_release(given);
    return taken;
}

} // namespace detail

} // namespace ferry

#endif
