/* SPDX-License-Identifier: Apache-2.0 */
/* The engine and groups in C++, and any callable as a function of an operation. <ferry/ferry.hpp>
 * includes this. */
#ifndef FERRY_CPP_ENGINE_HPP
#define FERRY_CPP_ENGINE_HPP

#include <ferry/cpp/options.hpp>
#include <ferry/cpp/window.hpp>
#include <ferry/engine.h>
#include <ferry/message.h>
#include <ferry/notice.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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

/* Shuts it down first, as ferry_engine_release does. */
inline void end_engine(ferry_engine *engine)
{
    bool is_over = ferry_engine_shutdown(engine, 5000000000) == FERRY_OK;
    ferry_engine_release(engine);
    if (is_over)
        delete_kept(engine);
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

template <typename Function> class call : public until_quiet
{
  public:
    call(ferry_engine *on, Function function) : until_quiet(on), function_(std::move(function))
    {
    }

    static ferry_status run(void *arg)
    {
        return status_of(static_cast<call *>(arg)->function_);
    }

  private:
    Function function_;
};

template <typename Begin, typename Cancel> class call_async : public until_quiet
{
  public:
    call_async(ferry_engine *on, Begin begin, Cancel cancel)
        : until_quiet(on), begin_(std::move(begin)), cancel_(std::move(cancel))
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

    future barrier(const char *name, std::int64_t deadline_ns = 0) const
    {
        ferry_barrier_options with = FERRY_BARRIER_OPTIONS_INIT;
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

class engine : public detail::unique_handle<ferry_engine, detail::end_engine>
{
  public:
    using unique_handle::unique_handle;
    explicit engine(const ferry_engine_options &options)
    {
        *this = try_make(&options).value();
    }

    /* NULL: all defaults. */
    static result<engine> try_make(const ferry_engine_options *options = nullptr)
    {
        ferry_engine *made = nullptr;
        ferry_error *why = nullptr;
        ferry_status status = ferry_engine_create(options, &made, &why);
        if (status != FERRY_OK)
            return detail::take(status, why);
        return engine(made);
    }

    ferry_status shutdown(std::int64_t timeout_ns = -1) noexcept
    {
        return ferry_engine_shutdown(native_, timeout_ns);
    }
    std::int64_t deadline_in(std::int64_t from_now_ns) const noexcept
    {
        return ferry_engine_deadline_in(native_, from_now_ns);
    }
    int fd() const noexcept
    {
        return ferry_engine_fd(native_);
    }
    std::int64_t progress(std::size_t budget = 0) noexcept
    {
        return ferry_engine_progress(native_, budget);
    }
    ferry_status arm() noexcept
    {
        return ferry_engine_arm(native_);
    }

    /* Opens it if need be. */
    ferry_device *device(const char *name) const
    {
        return try_device(name).value();
    }
    result<ferry_device *> try_device(const char *name) const
    {
        ferry_device *found = nullptr;
        ferry_error *why = nullptr;
        ferry_status status = ferry_device_open(native_, name, nullptr, &found, &why);
        if (status != FERRY_OK)
            return detail::take(status, why);
        return found;
    }
    ferry_device *device(std::size_t index) const noexcept
    {
        return ferry_device_at(native_, index);
    }

    ferry::promise promise() const
    {
        return try_promise().value();
    }
    result<ferry::promise> try_promise() const
    {
        ferry_promise *made = nullptr;
        ferry_status status = ferry_promise_create(native_, &made);
        if (status != FERRY_OK)
            return ferry::error(status);
        return ferry::promise(made);
    }
    ferry::queue queue(std::size_t depth) const
    {
        return ferry::queue::try_make(native_, depth).value();
    }

    ferry::scope scope(const ferry_scope_options &limits = FERRY_SCOPE_OPTIONS_INIT) const
    {
        return ferry::scope::try_make(native_, limits).value();
    }

    future copy(ferry_span dst, ferry_span src, const options &with = {}) const
    {
        return future(ferry_copy(native_, dst, src, with.native()));
    }
    future nop(const options &with = {}) const
    {
        return future(ferry_nop(native_, with.native()));
    }
    /* Operations of C, such as those of window::get_op, by one call. Its future is all of them. */
    future batch(const std::vector<ferry_op> &ops, const options &with = {}) const
    {
        return future(
            ferry_batch(native_, ops.data(), sizeof(ferry_op), ops.size(), nullptr, with.native()));
    }

    /*
     * Runs a callable once, as ferry_call does; the engine keeps it until it has run or never will.
     * It returns nothing, or a ferry_status. If it throws ferry::error, the call fails with that
     * status; after anything else that it throws, with FERRY_E_FAILED.
     */
    template <typename Function>
    future call(Function &&function, const options &with = {},
                ferry_executor *executor = nullptr) const
    {
        using call_type = detail::call<std::decay_t<Function>>;
        call_type *made = new call_type(native_, std::forward<Function>(function));
        return made->watch(ferry_call(native_, executor, call_type::run, made, with.native()));
    }

    /*
     * Runs begin(ferry::promise) once, as ferry_call_async does: whoever has the promise ends the
     * operation. cancel() is called if it fails before; it must not throw. The engine keeps both
     * until the operation is quiet.
     */
    template <typename Begin, typename Cancel>
    future call_async(Begin &&begin, Cancel &&cancel, const options &with = {},
                      ferry_executor *executor = nullptr) const
    {
        using call_type = detail::call_async<std::decay_t<Begin>, std::decay_t<Cancel>>;
        call_type *made =
            new call_type(native_, std::forward<Begin>(begin), std::forward<Cancel>(cancel));
        return made->watch(ferry_call_async(native_, executor, call_type::begin, call_type::cancel,
                                            made, with.native()));
    }

    future all(const std::vector<future> &futures) const
    {
        return combine(ferry_future_all, futures);
    }
    future any(const std::vector<future> &futures) const
    {
        return combine(ferry_future_any, futures);
    }
    future drain() const
    {
        return future(ferry_engine_drain(native_));
    }
    future writable() const
    {
        return future(ferry_engine_writable(native_));
    }

    /* The group, which may be used once the future is FERRY_OK. */
    std::pair<group, future> join(const ferry_group_options &options) const
    {
        ferry_group *made = nullptr;
        ferry_future *joined = ferry_group_join(native_, &options, &made);
        return {group(made), future(joined)};
    }

  private:
    future combine(ferry_future *(*function)(ferry_engine *, ferry_future *const *, size_t),
                   const std::vector<future> &futures) const
    {
        std::vector<ferry_future *> handles;
        handles.reserve(futures.size());
        for (const future &each : futures)
            handles.push_back(each.native());
        return future(function(native_, handles.data(), handles.size()));
    }
};

} // namespace ferry

#endif
