/* SPDX-License-Identifier: Apache-2.0 */
/* Executors: where functions and callbacks run. */
#include "engine/tasks/executor.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/ground/refusal.h"

ferry_executor fry_inline_executor = {.struct_size = sizeof fry_inline_executor};
ferry_executor fry_executor_of_loop = {.struct_size = sizeof fry_executor_of_loop};

ferry_executor *ferry_executor_inline(void)
{
    return &fry_inline_executor;
}

ferry_executor *ferry_executor_loop(void)
{
    return &fry_executor_of_loop;
}

bool fry_executor_is_whole(const ferry_executor *executor)
{
    if (executor == NULL || executor == &fry_inline_executor || executor == &fry_executor_of_loop)
        return true;
    if (fry_likely(executor->struct_size == sizeof *executor))
        return executor->post != NULL;
    ferry_executor whole; /* the caller's is of another version's size, perhaps without post */
    return fry_options_read(&whole, sizeof whole, executor) == FERRY_OK && whole.post != NULL;
}

fry_refusal fry_executor_check(ferry_engine *engine, const ferry_executor *executor)
{
    if (fry_likely(fry_executor_is_whole(executor)))
        return FRY_TAKEN;
    return fry_refuse(engine, FRY_REFUSED_EXECUTOR);
}
