/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs share: checks, engines whose memory is counted, and a coroutine of its own. */
#ifndef FERRY_TESTS_CXX_SUPPORT_HPP
#define FERRY_TESTS_CXX_SUPPORT_HPP

#include <ferry/ferry.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

inline std::atomic<long> live_bytes{0};

inline void *allocate(void *, std::size_t size_bytes, std::size_t align_bytes)
{
    live_bytes += static_cast<long>(size_bytes);
    void *memory = nullptr;
    std::size_t least = align_bytes < sizeof(void *) ? sizeof(void *) : align_bytes;
    return posix_memalign(&memory, least, size_bytes) == 0 ? memory : nullptr;
}

inline void release(void *, void *memory, std::size_t size_bytes)
{
    live_bytes -= static_cast<long>(size_bytes);
    std::free(memory);
}

inline void no_log(void *, ferry_log_level, const char *)
{
}

inline ferry::engine make_engine(ferry_loop_mode loop)
{
    static ferry_allocator memory = {allocate, release, nullptr};
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.host_workers = 1;
    options.allocator = &memory;
    options.log = no_log;
    return ferry::engine(options);
}

#if defined(FERRY_CPP_COROUTINES)

/* Runs by itself from its call on. */
struct detached {
    struct promise_type {
        detached get_return_object()
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
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::abort();
        }
    };
};

#endif

#endif
