/* SPDX-License-Identifier: Apache-2.0 */
/* The engine in C++. <ferry/ferry.hpp>
 * includes this. */
#ifndef FERRY_CPP_ENGINE_HPP
#define FERRY_CPP_ENGINE_HPP

#include <ferry/cpp/call.hpp>
#include <ferry/cpp/group.hpp>
#include <ferry/cpp/options.hpp>
#include <ferry/cpp/plan.hpp>
#include <ferry/engine.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace ferry
{

namespace detail
{

/* Shuts it down first, as ferry_engine_release does. */
inline void end_engine(ferry_engine *engine)
{
    bool is_over = ferry_engine_shutdown(engine, 5000000000) == FERRY_OK;
    ferry_engine_release(engine);
    if (is_over)
        delete_kept(engine);
}

} // namespace detail

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

    /* Operations that are checked and ordered once, to be posted many times. The error names the
     * one that is refused. */
    ferry::plan plan(const operations &of) const
    {
        return try_plan(of).value();
    }
    result<ferry::plan> try_plan(const operations &of) const
    {
        return ferry::plan::try_make(native_, of);
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
        using call_type = detail::call<detail::until_quiet, std::decay_t<Function>>;
        call_type *made = new call_type(std::forward<Function>(function), native_);
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
        using call_type =
            detail::call_async<detail::until_quiet, std::decay_t<Begin>, std::decay_t<Cancel>>;
        call_type *made =
            new call_type(std::forward<Begin>(begin), std::forward<Cancel>(cancel), native_);
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
