/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/await.h"

#include <exception>
#include <ferry/ferry.hpp>

namespace
{

/* Begins at once, and is gone when it has ended. */
struct detached {
    struct promise_type {
        detached get_return_object() noexcept
        {
            return {};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void() noexcept
        {
        }
        void unhandled_exception() noexcept
        {
            std::terminate();
        }
    };
};

detached await_all(bench_await_run *run)
{
    for (; run->left > 0; run->left--) {
        if (ferry_promise_create(run->engine, &run->promise) != FERRY_OK)
            std::terminate();
        co_await ferry::future(ferry_promise_future(run->promise));
    }
}

} // namespace

void bench_await_in_coroutine(bench_await_run *run)
{
    await_all(run);
}
