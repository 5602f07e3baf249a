/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry for C++: handles that release themselves, spans of std::span, functions of any callable,
 * and co_await. Header only, over the functions of <ferry/ferry.h>, which say what each does, with
 * what statuses, and on which thread. C++17; std::span, and coroutines where the compiler has them,
 * from C++20 on.
 *
 * Failures. What fails as it is made (an engine, a buffer, a promise, a queue, a plan) throws
 * ferry::error; the try_ form beside it returns ferry::result instead, which holds the value or the
 * error. Operations never throw: they return futures. future::get and `co_await future` throw if
 * the future failed; future::outcome and `co_await future.outcomes()` return a result.
 * -fno-exceptions: what would throw ends the program, and all else works.
 *
 * Ownership. engine, promise, queue, scope, group, window and plan are moved only; future and
 * buffer are copied, each copy a reference. An empty handle (default-made, or moved from) is NULL
 * to the functions of C. native() lends the handle of C.
 */
#ifndef FERRY_FERRY_HPP
#define FERRY_FERRY_HPP

#include <ferry/cpp/buffer.hpp>
#include <ferry/cpp/call.hpp>
#include <ferry/cpp/engine.hpp>
#include <ferry/cpp/error.hpp>
#include <ferry/cpp/future.hpp>
#include <ferry/cpp/group.hpp>
#include <ferry/cpp/options.hpp>
#include <ferry/cpp/plan.hpp>
#include <ferry/cpp/window.hpp>
#include <ferry/ferry.h>

#endif
