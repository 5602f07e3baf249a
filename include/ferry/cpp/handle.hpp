/* SPDX-License-Identifier: Apache-2.0 */
/* What all handles in C++ are made of. <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_HANDLE_HPP
#define FERRY_CPP_HANDLE_HPP

#include <utility>

namespace ferry
{

namespace detail
{

/* A handle of C with one owner, which releases it. NULL: none. */
template <typename Native, void (*release)(Native *)> class unique_handle
{
  public:
    unique_handle() = default;
    /* Takes the reference that a call of C has returned. */
    explicit unique_handle(Native *owned) noexcept : native_(owned)
    {
    }
    unique_handle(unique_handle &&other) noexcept : native_(std::exchange(other.native_, nullptr))
    {
    }
    unique_handle &operator=(unique_handle &&other) noexcept
    {
        std::swap(native_, other.native_);
        return *this;
    }
    ~unique_handle()
    {
        release(native_);
    }

    Native *native() const noexcept
    {
        return native_;
    }
    explicit operator bool() const noexcept
    {
        return native_ != nullptr;
    }

  protected:
    Native *native_ = nullptr;
};

/* The same with as many owners as there are copies, each of which is a reference. */
template <typename Native, Native *(*retain)(Native *), void (*release)(Native *)>
class shared_handle : public unique_handle<Native, release>
{
  public:
    shared_handle() = default;
    explicit shared_handle(Native *owned) noexcept : unique_handle<Native, release>(owned)
    {
    }
    shared_handle(const shared_handle &other) noexcept
        : unique_handle<Native, release>(retain(other.native_))
    {
    }
    shared_handle(shared_handle &&other) noexcept = default;
    shared_handle &operator=(shared_handle other) noexcept
    {
        std::swap(this->native_, other.native_);
        return *this;
    }
    ~shared_handle() = default;
};

} // namespace detail

} // namespace ferry

#endif
