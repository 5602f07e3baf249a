/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and scopes in C++, and options of operations. <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_OPTIONS_HPP
#define FERRY_CPP_OPTIONS_HPP

#include <ferry/cpp/buffer.hpp>
#include <ferry/cpp/future.hpp>
#include <ferry/op.h>
#include <ferry/queue.h>
#include <ferry/scope.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ferry
{

class queue : public detail::unique_handle<ferry_queue, ferry_queue_release>
{
  public:
    queue() = default;

    static result<queue> try_make(ferry_engine *engine, std::size_t depth)
    {
        queue made;
        ferry_status status = ferry_queue_create(engine, depth, &made.native_, &made.fd_);
        if (status != FERRY_OK)
            return ferry::error(status);
        return made;
    }

    /* For epoll and poll: arm. -1: none. */
    int fd() const noexcept
    {
        return native_ != nullptr ? fd_ : -1;
    }
    ferry_status arm() const noexcept
    {
        return ferry_queue_arm(native_);
    }
    std::size_t take(ferry_queue_record *records, std::size_t count) const noexcept
    {
        return ferry_queue_take(native_, records, sizeof *records, count);
    }

  private:
    int fd_ = -1;
};

/* Ends with its last handle; the operations go on. */
class scope : public detail::unique_handle<ferry_scope, ferry_scope_release>
{
  public:
    scope() = default;

    static result<scope> try_make(ferry_engine *engine, const ferry_scope_options &limits)
    {
        scope made;
        ferry_status status = ferry_scope_create(engine, &limits, &made.native_);
        if (status != FERRY_OK)
            return ferry::error(status);
        return made;
    }

    /* Both resolve when all operations have resolved and are quiet. */
    future close() const
    {
        return future(ferry_scope_close(native_));
    }
    future cancel() const
    {
        return future(ferry_scope_cancel(native_));
    }
};

/*
 * Options of an operation, in a chain: `options().after(a).writes(buffer).label("fill")`. It owns
 * what it names, but for the label's text, and for queues, scopes and executors. For one thread.
 */
class options
{
  public:
    options &after(future before)
    {
        after_.push_back(std::move(before));
        return *this;
    }
    options &access(ferry_access access)
    {
        accesses_.push_back(access);
        return *this;
    }
    options &reads(ferry_span span)
    {
        return access(ferry::reads(span));
    }
    options &writes(ferry_span span)
    {
        return access(ferry::writes(span));
    }
    options &changes(ferry_span span)
    {
        return access(ferry::changes(span));
    }
    options &deadline_ns(std::int64_t absolute_ns) noexcept
    {
        native_.deadline_ns = absolute_ns;
        return *this;
    }
    /* A literal, or text that lives as long as ferry_op_options.label says. */
    options &label(const char *text) noexcept
    {
        native_.label = text;
        return *this;
    }
    options &priority(ferry_priority priority) noexcept
    {
        native_.priority = priority;
        return *this;
    }
    /* Its spans take no part in the order of their buffers: FERRY_OP_UNTRACKED. */
    options &untracked() noexcept
    {
        native_.flags |= FERRY_OP_UNTRACKED;
        return *this;
    }
    options &user_data(std::uint64_t number) noexcept
    {
        native_.user_data = number;
        return *this;
    }
    options &into(const queue &completions) noexcept
    {
        native_.queue = completions.native();
        return *this;
    }
    options &in(const scope &joined) noexcept
    {
        native_.scope = joined.native();
        return *this;
    }

    /* Whether nothing was set. */
    bool is_plain() const noexcept
    {
        return after_.empty() && accesses_.empty() && native_.deadline_ns == 0 &&
               native_.label == nullptr && native_.priority == FERRY_PRIORITY_NORMAL &&
               native_.flags == 0 && native_.user_data == 0 && native_.queue == nullptr &&
               native_.scope == nullptr;
    }

    /* For a call of C; valid until this changes or goes. */
    const ferry_op_options *native() const
    {
        handles_.clear();
        for (const future &each : after_)
            handles_.push_back(each.native());
        native_.after = handles_.data();
        native_.after_count = handles_.size();
        native_.accesses = accesses_.data();
        native_.access_count = accesses_.size();
        return &native_;
    }

  private:
    std::vector<future> after_;
    std::vector<ferry_access> accesses_;
    mutable std::vector<ferry_future *> handles_;
    mutable ferry_op_options native_ = FERRY_OP_OPTIONS_INIT;
};

} // namespace ferry

#endif
