/* SPDX-License-Identifier: Apache-2.0 */
/* Executors: where functions and callbacks run. */
#ifndef FRY_ENGINE_TASKS_EXECUTOR_H
#define FRY_ENGINE_TASKS_EXECUTOR_H

#include "engine/engine.h"

/*
 * Whether an executor is NULL, one of the two marks, or valid to post to. The second function also
 * logs.
 */
bool fry_executor_is_whole(const ferry_executor *executor);
fry_refusal fry_executor_check(ferry_engine *engine, const ferry_executor *executor);

/* Marks for the loop's thread; never posted to. */
extern ferry_executor fry_inline_executor, fry_executor_of_loop;

/* The executor for code that names this one (NULL: none). NULL: the loop. */
static inline ferry_executor *fry_executor_for(const ferry_engine *engine, ferry_executor *executor)
{
    if (executor == NULL)
        executor = fry_load_relaxed(&engine->executor);
    return executor != &fry_executor_of_loop ? executor : NULL;
}

#endif
