/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/graph_oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES_MAX 200000
#define ANY_OP UINT64_MAX        /* of a root: an op without a future, so it is not known which */
#define ANY_STATUS FERRY_PENDING /* of a root: it is one of several */

bool graph_oracle_init(graph_oracle *oracle)
{
    memset(oracle, 0, sizeof *oracle);
    bool complete = true;
    for (int i = 0; i < PLAN_BUFFERS_MAX; i++) {
        oracle->memory[i] = malloc(BUFFER_BYTES_MAX);
        oracle->known[i] = malloc(BUFFER_BYTES_MAX);
        oracle->poison[i] = malloc(BUFFER_BYTES_MAX * sizeof *oracle->poison[i]);
        complete = complete && oracle->memory[i] && oracle->known[i] && oracle->poison[i];
    }
    return complete;
}

void graph_oracle_destroy(graph_oracle *oracle)
{
    for (int i = 0; i < PLAN_BUFFERS_MAX; i++) {
        free(oracle->memory[i]);
        free(oracle->known[i]);
        free(oracle->poison[i]);
    }
}

static bool wrong(graph_oracle *oracle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool wrong(graph_oracle *oracle, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(oracle->why, sizeof oracle->why, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- failures an op shares ---- */

static void add_candidate(graph_oracle *oracle, oracle_root root)
{
    for (uint32_t i = 0; i < oracle->candidate_count; i++) {
        if (oracle->candidates[i].op == root.op && oracle->candidates[i].status == root.status)
            return;
    }
    oracle->candidates[oracle->candidate_count++] = root;
}

static void add_candidates_of_span(graph_oracle *oracle, plan_span span)
{
    uint16_t last = 0;
    for (uint32_t at = span.offset; at < span.offset + span.size; at++) {
        uint16_t writer = oracle->poison[span.buffer][at];
        if (writer != 0 && writer != last)
            add_candidate(oracle, oracle->roots[writer - 1]);
        last = writer;
    }
}

static void add_candidate_of_op(graph_oracle *oracle, uint32_t earlier)
{
    if (!oracle->outcomes[earlier].is_absent && oracle->statuses[earlier] != FERRY_OK)
        add_candidate(oracle, oracle->roots[earlier]);
}

static void collect_candidates(graph_oracle *oracle, const plan_op *op)
{
    plan_access accesses[PLAN_TOUCHED_MAX];
    uint32_t count = plan_op_accesses(op, accesses);
    oracle->candidate_count = 0;
    for (uint32_t i = oracle->op - op->member_count; i < oracle->op; i++)
        add_candidate_of_op(oracle, i);
    for (uint32_t i = 0; op->member_count == 0 && i < op->after_count; i++)
        add_candidate_of_op(oracle, op->after[i]);
    for (uint32_t i = 0; i < count; i++) {
        if ((accesses[i].mode & FERRY_READ) != 0)
            add_candidates_of_span(oracle, accesses[i].span);
    }
}

/* ---- statuses ---- */

static bool is_racy(const graph_oracle *oracle, const plan_op *op, ferry_status status)
{
    return (status == FERRY_E_CANCELLED && op->is_cancelled) ||
           (status == FERRY_E_DEADLINE && op->deadline != PLAN_NO_DEADLINE) ||
           (status == FERRY_E_DEVICE && op->kind == PLAN_COPY && oracle->plan->copies_may_fail) ||
           (status == FERRY_E_SHUTDOWN && oracle->plan->is_cut_short);
}

static ferry_status own_status(const plan_op *op)
{
    if (op->kind == PLAN_PROMISE && op->is_dropped)
        return FERRY_E_BROKEN_PROMISE;
    return op->kind == PLAN_PROMISE || op->kind == PLAN_CALL ? op->result : FERRY_OK;
}

/* Then its error's cause is the cancel of that. */
static bool is_cancelled_by_batch(const graph_oracle *oracle, const plan_outcome *seen)
{
    const plan_op *op = &oracle->plan->ops[oracle->op];
    return op->batch != 0 && oracle->plan->ops[op->batch].is_cancelled &&
           seen->status == FERRY_E_CANCELLED && seen->cause_status == FERRY_E_CANCELLED &&
           seen->cause_op == oracle->outcomes[op->batch].id;
}

/* It failed by itself: the error is its own and has no cause. */
static bool check_own_failure(graph_oracle *oracle, const plan_outcome *seen)
{
    if (seen->error_status != seen->status || seen->error_op != seen->id)
        return wrong(oracle, "its error says %s of op %llu, not %s of %llu",
                     ferry_status_name(seen->error_status), (unsigned long long)seen->error_op,
                     ferry_status_name(seen->status), (unsigned long long)seen->id);
    if (is_cancelled_by_batch(oracle, seen)) {
        oracle->roots[oracle->op] = (oracle_root){seen->cause_status, seen->cause_op};
        return true;
    }
    if (seen->cause_status != FERRY_OK)
        return wrong(oracle, "it failed by itself, but its error names a cause");
    oracle->roots[oracle->op] = (oracle_root){seen->status, seen->id};
    return true;
}

/* What the shutdown refuses as it enters has no error of its own that others could name. */
static bool is_same_root(oracle_root root, const plan_outcome *seen)
{
    if (root.status == ANY_STATUS)
        return seen->cause_status != FERRY_OK;
    return root.status == seen->cause_status &&
           (root.op == seen->cause_op || root.op == ANY_OP ||
            (root.status == FERRY_E_SHUTDOWN && seen->cause_op == 0));
}

/* It shares another's failure. */
static bool check_cause(graph_oracle *oracle, const plan_outcome *seen)
{
    if (seen->error_status != seen->status || seen->error_op != seen->id)
        return wrong(oracle, "its error is another's");
    for (uint32_t i = 0; i < oracle->candidate_count; i++) {
        if (is_same_root(oracle->candidates[i], seen)) {
            oracle->roots[oracle->op] = oracle->candidates[i];
            if (oracle->candidates[i].op == ANY_OP)
                oracle->roots[oracle->op] = (oracle_root){seen->cause_status, seen->cause_op};
            return true;
        }
    }
    return wrong(oracle, "its cause is %s of op %llu, which is none of %u failures it shares",
                 ferry_status_name(seen->cause_status), (unsigned long long)seen->cause_op,
                 oracle->candidate_count);
}

static bool check_dependency(graph_oracle *oracle, const plan_outcome *seen)
{
    if (seen->status != FERRY_E_DEPENDENCY)
        return wrong(oracle, "it is %s, but what it depends on failed",
                     ferry_status_name(seen->status));
    return check_cause(oracle, seen);
}

static bool check_exact(graph_oracle *oracle, const plan_outcome *seen, ferry_status expected)
{
    if (seen->status != expected)
        return wrong(oracle, "it is %s, but should be %s", ferry_status_name(seen->status),
                     ferry_status_name(expected));
    if (expected != FERRY_OK)
        return check_own_failure(oracle, seen);
    if (seen->error_status != FERRY_OK)
        return wrong(oracle, "it succeeded, but has an error");
    return true;
}

/* any: as the one that came first, which is up to the race. */
static bool check_any(graph_oracle *oracle, const plan_op *op, const plan_outcome *seen)
{
    uint32_t succeeded = 0;
    for (uint32_t i = 0; i < op->after_count; i++)
        succeeded +=
            !oracle->outcomes[op->after[i]].is_absent && oracle->statuses[op->after[i]] == FERRY_OK;
    if (seen->status == FERRY_OK && succeeded != 0)
        return check_exact(oracle, seen, FERRY_OK);
    if (oracle->candidate_count == 0)
        return check_exact(oracle, seen, FERRY_OK);
    return check_dependency(oracle, seen);
}

/* issued: whether an op that failed had got that far. */
static bool check_issued(graph_oracle *oracle, const plan_op *op, const plan_outcome *seen)
{
    uint32_t of = op->after[0];
    const plan_op *viewed = &oracle->plan->ops[of];
    ferry_status status = oracle->statuses[of];
    bool is_copy = viewed->kind == PLAN_COPY && viewed->dst.size != 0;
    bool ran_and_failed = viewed->kind == PLAN_CALL && status == own_status(viewed);
    bool is_open = !oracle->outcomes[of].is_refused &&
                   (is_racy(oracle, viewed, status) || (status == FERRY_E_DEPENDENCY && is_copy));
    if (status == FERRY_OK || ran_and_failed || (is_open && seen->status == FERRY_OK))
        return check_exact(oracle, seen, FERRY_OK);
    return check_dependency(oracle, seen);
}

static bool check_status(graph_oracle *oracle, const plan_op *op, const plan_outcome *seen)
{
    if (seen->is_refused) {
        oracle->roots[oracle->op] = (oracle_root){FERRY_E_AGAIN, 0};
        return oracle->plan->max_nodes != 0 ||
               wrong(oracle, "it was refused, but there is room for a million");
    }
    collect_candidates(oracle, op);
    if (is_racy(oracle, op, FERRY_E_SHUTDOWN) && seen->status == FERRY_E_SHUTDOWN &&
        seen->cause_status != FERRY_OK)
        return check_cause(oracle, seen);
    if (is_racy(oracle, op, seen->status))
        return check_own_failure(oracle, seen);
    if (op->kind == PLAN_QUIET || op->kind == PLAN_DRAIN)
        return check_exact(oracle, seen, FERRY_OK);
    if (op->kind == PLAN_ANY)
        return check_any(oracle, op, seen);
    if (op->kind == PLAN_ISSUED)
        return check_issued(oracle, op, seen);
    if (oracle->candidate_count != 0)
        return check_dependency(oracle, seen);
    return check_exact(oracle, seen, own_status(op));
}

static bool check_runs(graph_oracle *oracle, const plan_op *op, const plan_outcome *seen)
{
    bool is_racing = is_racy(oracle, op, seen->status) || (op->is_blind && op->is_cancelled);
    if (op->kind != PLAN_CALL || (is_racing && seen->runs <= 1))
        return true;
    uint32_t expected = !seen->is_refused && seen->status != FERRY_E_DEPENDENCY;
    return seen->runs == expected || wrong(oracle, "its function ran %u times", seen->runs);
}

/* ---- effects ---- */

static void set_known(graph_oracle *oracle, plan_span span, bool known)
{
    memset(oracle->known[span.buffer] + span.offset, known, span.size);
}

static void set_poison(graph_oracle *oracle, plan_span span, uint16_t poison)
{
    for (uint32_t at = span.offset; at < span.offset + span.size; at++)
        oracle->poison[span.buffer][at] = poison;
}

static void do_copy_row(graph_oracle *oracle, plan_span dst, plan_span src)
{
    /* The spans don't overlap. */
    memcpy(oracle->memory[dst.buffer] + dst.offset, oracle->memory[src.buffer] + src.offset,
           dst.size);
    memcpy(oracle->known[dst.buffer] + dst.offset, oracle->known[src.buffer] + src.offset,
           dst.size);
}

static void do_copy(graph_oracle *oracle, const plan_op *op, bool succeeded)
{
    for (uint32_t row = 0; row < op->row_count; row++) {
        if (succeeded)
            do_copy_row(oracle, plan_dst_row(op, row), plan_src_row(op, row));
        else
            set_known(oracle, plan_dst_row(op, row), false);
    }
}

static bool is_all_known(const graph_oracle *oracle, plan_span span)
{
    return memchr(oracle->known[span.buffer] + span.offset, 0, span.size) == NULL;
}

/* A function that began does its work, whatever becomes of its op. */
static void do_call(graph_oracle *oracle, const plan_op *op)
{
    bool known = true;
    for (uint32_t i = 0; i < op->access_count; i++) {
        if ((op->accesses[i].mode & FERRY_READ) != 0)
            known = known && is_all_known(oracle, op->accesses[i].span);
    }
    random_plan_transform(oracle->plan, oracle->op, oracle->memory);
    for (uint32_t i = 0; i < op->access_count; i++) {
        if ((op->accesses[i].mode & FERRY_WRITE) != 0)
            set_known(oracle, op->accesses[i].span, known);
    }
}

static void do_outside_write(graph_oracle *oracle, const plan_op *op, bool succeeded)
{
    for (uint32_t at = 0; at < op->dst.size; at++)
        oracle->memory[op->dst.buffer][op->dst.offset + at] =
            random_plan_outside(oracle->plan, oracle->op, at);
    set_known(oracle, op->dst, succeeded);
}

static bool check_outside_read(graph_oracle *oracle, const plan_op *op, const plan_outcome *seen)
{
    for (uint32_t at = 0; at < op->dst.size; at++) {
        uint32_t from = op->dst.offset + at;
        if (!oracle->known[op->dst.buffer][from])
            continue;
        oracle->bytes_compared++;
        if (seen->read_bytes[at] != oracle->memory[op->dst.buffer][from])
            return wrong(oracle, "it read %u at byte %u of buffer %u, but should %u",
                         seen->read_bytes[at], from, op->dst.buffer,
                         oracle->memory[op->dst.buffer][from]);
    }
    return true;
}

static void apply(graph_oracle *oracle, const plan_op *op, const plan_outcome *seen)
{
    bool succeeded = seen->status == FERRY_OK;
    if (op->kind == PLAN_OUTSIDE_WRITE)
        do_outside_write(oracle, op, succeeded);
    if (op->kind == PLAN_COPY && !seen->is_refused)
        do_copy(oracle, op, succeeded);
    if (op->kind == PLAN_CALL && seen->runs != 0)
        do_call(oracle, op);
    plan_access accesses[PLAN_TOUCHED_MAX];
    uint32_t count = plan_op_accesses(op, accesses);
    for (uint32_t i = 0; i < count; i++) {
        if ((accesses[i].mode & FERRY_WRITE) != 0)
            set_poison(oracle, accesses[i].span, succeeded ? 0 : (uint16_t)(oracle->op + 1));
    }
}

static void start(graph_oracle *oracle, const random_plan *plan, const plan_outcome *outcomes)
{
    oracle->plan = plan;
    oracle->outcomes = outcomes;
    for (uint32_t i = 0; i < plan->buffer_count + plan->private_count; i++) {
        uint32_t size = plan->buffers[i].size_bytes;
        for (uint32_t at = 0; at < size; at++)
            oracle->memory[i][at] = random_plan_initial(plan, i, at);
        memset(oracle->known[i], 1, size);
        memset(oracle->poison[i], 0, size * sizeof *oracle->poison[i]);
    }
}

/* A definition has no future: what became of it follows, and shows in its readers. */
static plan_outcome outcome_of_definition(graph_oracle *oracle, const plan_op *op,
                                          const plan_outcome *seen)
{
    plan_outcome outcome = *seen;
    collect_candidates(oracle, op);
    if (!seen->is_refused && oracle->candidate_count != 0) {
        outcome.status = FERRY_E_DEPENDENCY;
        oracle->roots[oracle->op] = oracle->candidates[0];
    }
    return outcome;
}

/* Nor has an op of a batch without each[]; nothing about it is up to a race, unless the batch is
 * cancelled, and then nobody reads what it writes. */
static plan_outcome outcome_of_blind(graph_oracle *oracle, const plan_op *op,
                                     const plan_outcome *seen)
{
    plan_outcome outcome = *seen;
    collect_candidates(oracle, op);
    outcome.status = oracle->candidate_count != 0 ? FERRY_E_DEPENDENCY : own_status(op);
    if (oracle->candidate_count == 1)
        oracle->roots[oracle->op] = oracle->candidates[0];
    else if (oracle->candidate_count > 1)
        oracle->roots[oracle->op] = (oracle_root){ANY_STATUS, ANY_OP};
    else
        oracle->roots[oracle->op] = (oracle_root){outcome.status, ANY_OP};
    return outcome;
}

static bool check_op(graph_oracle *oracle, const plan_op *op, plan_outcome *seen)
{
    if (op->kind == PLAN_DEFINE && !seen->is_refused) {
        *seen = outcome_of_definition(oracle, op, seen);
        return true;
    }
    if (op->kind == PLAN_OUTSIDE_READ && !check_outside_read(oracle, op, seen))
        return false;
    if (op->is_blind)
        *seen = outcome_of_blind(oracle, op, seen);
    else if (!check_status(oracle, op, seen))
        return false;
    return check_runs(oracle, op, seen);
}

bool graph_oracle_check_outcomes(graph_oracle *oracle, const random_plan *plan,
                                 const plan_outcome *outcomes)
{
    start(oracle, plan, outcomes);
    for (oracle->op = 0; oracle->op < plan->op_count; oracle->op++) {
        const plan_op *op = &plan->ops[oracle->op];
        plan_outcome seen = outcomes[oracle->op];
        if (seen.is_absent)
            continue;
        oracle->roots[oracle->op] = (oracle_root){FERRY_OK, 0};
        if (!check_op(oracle, op, &seen))
            return false;
        oracle->statuses[oracle->op] = seen.status;
        apply(oracle, op, &seen);
    }
    return true;
}

bool graph_oracle_check_bytes(graph_oracle *oracle, uint32_t buffer, const unsigned char *bytes)
{
    for (uint32_t at = 0; at < oracle->plan->buffers[buffer].size_bytes; at++) {
        if (!oracle->known[buffer][at])
            continue;
        oracle->bytes_compared++;
        if (bytes[at] != oracle->memory[buffer][at])
            return wrong(oracle, "byte %u of buffer %u is %u, but should be %u", at, buffer,
                         bytes[at], oracle->memory[buffer][at]);
    }
    return true;
}
