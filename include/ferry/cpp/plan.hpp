/* SPDX-License-Identifier: Apache-2.0 */
/* Plans in C++. <ferry/ferry.hpp> includes this. */
#ifndef FERRY_CPP_PLAN_HPP
#define FERRY_CPP_PLAN_HPP

#include <ferry/cpp/call.hpp>
#include <ferry/cpp/group.hpp>
#include <ferry/cpp/options.hpp>
#include <ferry/cpp/window.hpp>
#include <ferry/plan.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ferry
{

namespace detail
{

/* A callable of a plan's, which its plan and its posts share. */
struct planned {
    virtual ~planned() = default;
};

using callables = std::vector<std::unique_ptr<planned>>;

/* Keeps the callables of a plan until a post of it is quiet. */
class post_keeper : public until_quiet
{
  public:
    post_keeper(ferry_engine *on, std::shared_ptr<callables> used)
        : until_quiet(on), used_(std::move(used))
    {
    }

  private:
    std::shared_ptr<callables> used_;
};

} // namespace detail

/*
 * A list of operations, of which engine::plan makes a plan:
 * `operations().get(window, 0, block).call(add, options().reads(block)).send_notice(group, 0, "")`.
 * An operation's index, which a post may pick, is the number of those before it. Of an operation's
 * options the label, priority, untracked() and accesses count; the others belong to a post. The
 * list keeps the text of its notices, and its callables; buffers, windows and groups are to stay
 * until the plan is made. For one thread.
 */
class operations
{
  public:
    operations() = default;
    /* Operations of C, such as those of window::get_op. */
    operations(std::vector<ferry_op> ops) : ops_(std::move(ops))
    {
    }
    operations(operations &&) = default;
    operations &operator=(operations &&) = default;

    operations &copy(ferry_span dst, ferry_span src, options with = {})
    {
        ferry_op op = {};
        op.kind = FERRY_OP_COPY;
        op.dst = dst;
        op.src = src;
        return add(op, std::move(with));
    }
    operations &nop(options with = {})
    {
        ferry_op op = {};
        op.kind = FERRY_OP_NOP;
        return add(op, std::move(with));
    }
    operations &get(const window &from, std::uint64_t offset, ferry_span into, options with = {})
    {
        return add(from.get_op(offset, into), std::move(with));
    }
    operations &put(const window &into, std::uint64_t offset, ferry_span from, options with = {})
    {
        return add(into.put_op(offset, from), std::move(with));
    }
    operations &send(const group &to, ferry_rank peer, ferry_tag tag, ferry_span span,
                     options with = {})
    {
        ferry_op op = message(FERRY_OP_SEND, to, peer, tag);
        op.src = span;
        return add(op, std::move(with));
    }
    operations &recv(const group &from, ferry_rank peer, ferry_tag tag, ferry_span span,
                     options with = {})
    {
        ferry_op op = message(FERRY_OP_RECV, from, peer, tag);
        op.dst = span;
        return add(op, std::move(with));
    }
    /* Each post sends the bytes that are given here. */
    operations &send_notice(const group &to, ferry_rank peer, std::string_view data,
                            options with = {})
    {
        ferry_op op = message(FERRY_OP_NOTICE, to, peer, 0);
        texts_.emplace_back(data);
        op.data = texts_.back().data();
        op.data_bytes = data.size();
        return add(op, std::move(with));
    }

    /*
     * A callable, as of engine::call, that each post with this operation calls once. It goes when
     * its list and plan have gone and all posts are quiet. Posts that nothing orders call it at the
     * same time.
     */
    template <typename Function>
    operations &call(Function &&function, options with = {}, ferry_executor *executor = nullptr)
    {
        using call_type = detail::call<detail::planned, std::decay_t<Function>>;
        auto made = std::make_unique<call_type>(std::forward<Function>(function));
        ferry_op op = {};
        op.kind = FERRY_OP_CALL;
        op.fn = call_type::run;
        op.arg = made.get();
        op.executor = executor;
        keep(std::move(made));
        return add(op, std::move(with));
    }
    /* The same as of engine::call_async. */
    template <typename Begin, typename Cancel>
    operations &call_async(Begin &&begin, Cancel &&cancel, options with = {},
                           ferry_executor *executor = nullptr)
    {
        using call_type =
            detail::call_async<detail::planned, std::decay_t<Begin>, std::decay_t<Cancel>>;
        auto made =
            std::make_unique<call_type>(std::forward<Begin>(begin), std::forward<Cancel>(cancel));
        ferry_op op = {};
        op.kind = FERRY_OP_ASYNC;
        op.begin = call_type::begin;
        op.cancel = call_type::cancel;
        op.arg = made.get();
        op.executor = executor;
        keep(std::move(made));
        return add(op, std::move(with));
    }

    /* An operation of C. What it points to is the caller's. */
    operations &add(ferry_op op)
    {
        ops_.push_back(op);
        return *this;
    }
    std::size_t size() const noexcept
    {
        return ops_.size();
    }

  private:
    friend class plan;

    static ferry_op message(ferry_op_kind kind, const group &in, ferry_rank peer, ferry_tag tag)
    {
        ferry_op op = {};
        op.kind = kind;
        op.group = in.native();
        op.peer = peer;
        op.tag = tag;
        return op;
    }
    operations &add(ferry_op op, options with)
    {
        if (!with.is_plain()) { /* a plan may be of a million operations without any */
            options_.push_back(std::move(with));
            op.options = options_.back().native();
        }
        return add(op);
    }

    void keep(std::unique_ptr<detail::planned> callable)
    {
        if (callables_ == nullptr)
            callables_ = std::make_shared<detail::callables>();
        callables_->push_back(std::move(callable));
    }

    std::vector<ferry_op> ops_;
    std::deque<options> options_; /* deques: the operations point to what is in them */
    std::deque<std::string> texts_;
    std::shared_ptr<detail::callables> callables_; /* NULL: none */
};

/*
 * Operations that engine::plan has checked and ordered, to be posted many times. Its end does not
 * end its posts. It keeps the buffers that it names; but the end of a window's handle closes the
 * window, and that of a group's leaves the group, and then operations on them fail.
 */
class plan : public detail::unique_handle<ferry_plan, ferry_plan_release>
{
  public:
    using unique_handle::unique_handle;
    plan() = default;
    plan(plan &&) noexcept = default;
    plan &operator=(plan &&other) noexcept
    {
        std::swap(native_, other.native_);
        std::swap(engine_, other.engine_);
        std::swap(callables_, other.callables_); /* they stay with the plan that calls them */
        return *this;
    }
    ~plan() = default;

    static result<plan> try_make(ferry_engine *engine, const operations &of)
    {
        plan made;
        ferry_error *why = nullptr;
        ferry_status status = ferry_plan_create(engine, of.ops_.data(), sizeof(ferry_op),
                                                of.ops_.size(), &made.native_, &why);
        if (status != FERRY_OK)
            return detail::take(status, why);
        made.engine_ = engine;
        made.callables_ = of.callables_;
        return made;
    }

    /* All operations, as one. Its future is all of them. */
    future post(const options &with = {}) const
    {
        return posted(nullptr, 0, with);
    }
    /* Those with these indices. */
    future post(const std::vector<std::uint32_t> &picks, const options &with = {}) const
    {
        static const std::uint32_t none = 0; /* NULL would be all */
        return posted(picks.empty() ? &none : picks.data(), picks.size(), with);
    }

    /* Puts the copies on a stream of the program's, past the engine's order: ferry_plan_enqueue. */
    result<void> enqueue(ferry_device *device, void *native_stream) const
    {
        ferry_error *why = nullptr;
        ferry_status status = ferry_plan_enqueue(native_, device, native_stream, &why);
        if (status != FERRY_OK)
            return detail::take(status, why);
        return {};
    }

    /* Zeros of an empty handle. */
    ferry_plan_info describe() const noexcept
    {
        ferry_plan_info info = FERRY_PLAN_INFO_INIT;
        (void)ferry_plan_describe(native_, &info);
        return info;
    }

  private:
    future posted(const std::uint32_t *picks, std::size_t count, const options &with) const
    {
        if (callables_ == nullptr)
            return future(ferry_plan_post(native_, picks, count, with.native()));
        auto *keeper = new detail::post_keeper(engine_, callables_);
        return keeper->watch(ferry_plan_post(native_, picks, count, with.native()));
    }

    ferry_engine *engine_ = nullptr;
    std::shared_ptr<detail::callables> callables_;
};

} // namespace ferry

#endif
