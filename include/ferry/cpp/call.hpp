/* SPDX-License-Identifier: Apache-2.0 */
/* Any callable as a function of an operation, and how long it lives. <ferry/ferry.hpp>
 * includes this. */
#ifndef FERRY_CPP_CALL_HPP
#define FERRY_CPP_CALL_HPP

#include <ferry/cpp/error.hpp>
#include <ferry/cpp/future.hpp>
#include <ferry/op.h>

#include <mutex>
#include <type_traits>
#include <utility>

namespace ferry
{

namespace detail
{

/* What can't be deleted before its engine has shut down. */
struct kept {
    virtual ~kept() = default;
    kept *next = nullptr;
    ferry_engine *engine = nullptr;
};

inline std::mutex kept_lock;
inline kept *all_kept;

inline void keep(kept *one)
{
    std::lock_guard<std::mutex> lock(kept_lock);
    one->next = std::exchange(all_kept, one);
}

/* The engine has shut down, so nothing of it runs any more. */
inline void delete_kept(const ferry_engine *engine)
{
    kept *ended = nullptr; /* deleted without the lock: a callable may own anything */
    {
        std::lock_guard<std::mutex> lock(kept_lock);
        for (kept **at = &all_kept; *at != nullptr;) {
            kept *one = *at;
            if (one->engine != engine) {
                at = &one->next;
                continue;
            }
            *at = one->next;
            one->next = std::exchange(ended, one);
        }
    }
    while (ended != nullptr)
        delete std::exchange(ended, ended->next);
}

/*
 * Callables of an operation, and the waiter that deletes them. An operation that has succeeded is
 * over. One that has failed may run yet, until it is quiet. If there is no room to ask for that, it
 * stays until the engine goes.
 */
class until_quiet : protected kept
{
  public:
    explicit until_quiet(ferry_engine *on)
    {
        engine = on;
    }

    /* Returns the future, which it was given; it may be deleted in here. */
    future watch(ferry_future *submitted)
    {
        future given(submitted);
        wait_for(submitted, ended);
        return given;
    }

  private:
    void wait_for(ferry_future *future, ferry_ready_fn fn)
    {
        waiter_ = FERRY_WAITER_INIT(fn, this);
        waiter_.executor = ferry_executor_inline();
        if (ferry_future_on_ready(future, &waiter_) != FERRY_OK)
            delete this; /* a fork's child, where nothing runs */
    }

    static void ended(ferry_waiter *waiter, ferry_future *future, ferry_status status)
    {
        until_quiet *self = static_cast<until_quiet *>(waiter->arg);
        if (status == FERRY_OK || ferry_future_id(future) == 0) { /* 0: it was refused */
            delete self;
            return;
        }
        ferry::future quiet(ferry_future_quiet(future));
        if (quiet.poll() == FERRY_PENDING)
            self->wait_for(quiet.native(), became_quiet);
        else if (quiet.poll() == FERRY_OK)
            delete self;
        else
            keep(self);
    }

    static void became_quiet(ferry_waiter *waiter, ferry_future *, ferry_status status)
    {
        until_quiet *self = static_cast<until_quiet *>(waiter->arg);
        if (status == FERRY_OK)
            delete self;
        else
            keep(self); /* the engine shuts down meanwhile */
    }

    ferry_waiter waiter_ = {};
};

/* What a callable returns, or throws, as a status. */
template <typename Callable> ferry_status status_of(Callable &&callable)
{
#if defined(__cpp_exceptions)
    try {
#endif
        if constexpr (std::is_void_v<decltype(callable())>) {
            callable();
            return FERRY_OK;
        } else {
            return callable();
        }
#if defined(__cpp_exceptions)
    } catch (const ferry::error &failure) {
        return failure.status();
    } catch (...) {
        return FERRY_E_FAILED;
    }
#endif
}

/*
 * A callable as a function of an operation. The owner, which it is derived from, decides how long
 * it lives: until_quiet, or whoever deletes it.
 */
template <typename Owner, typename Function> class call : public Owner
{
  public:
    template <typename... Arguments>
    explicit call(Function function, Arguments... owner)
        : Owner(owner...), function_(std::move(function))
    {
    }

    static ferry_status run(void *arg)
    {
        return status_of(static_cast<call *>(arg)->function_);
    }

  private:
    Function function_;
};

template <typename Owner, typename Begin, typename Cancel> class call_async : public Owner
{
  public:
    template <typename... Arguments>
    call_async(Begin begin, Cancel cancel, Arguments... owner)
        : Owner(owner...), begin_(std::move(begin)), cancel_(std::move(cancel))
    {
    }

    /* What begin throws ends the operation, unless the promise was moved on: then that ends it. */
    static void begin(void *arg, ferry_promise *given)
    {
        promise ends(given);
        ferry_status status =
            status_of([&] { static_cast<call_async *>(arg)->begin_(std::move(ends)); });
        if (status != FERRY_OK && ends.native() != nullptr)
            (void)ends.resolve(status);
    }

    static void cancel(void *arg)
    {
        (void)status_of(static_cast<call_async *>(arg)->cancel_);
    }

  private:
    Begin begin_;
    Cancel cancel_;
};

} // namespace detail

} // namespace ferry

#endif
