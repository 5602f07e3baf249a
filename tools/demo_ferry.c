/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_ferry.h"

#include "tools/demo_measure.h"

#include <stdio.h>
#include <stdlib.h>

static ferry_status call_step(void *arg)
{
    demo_step_run(arg);
    return FERRY_OK;
}

ferry_future *demo_ferry_move(demo_plan *plan, const demo_step *step,
                              const ferry_op_options *options)
{
    const demo_part *part = &plan->part;
    if (step->kind == DEMO_STEP_SEND)
        return ferry_send(part->group, (ferry_rank)part->rank + 1, DEMO_TAG, step->in, options);
    if (step->kind == DEMO_STEP_RECV)
        return ferry_recv(part->group, (ferry_rank)part->rank - 1, DEMO_TAG, step->out, options);
    return ferry_copy(plan->engine, step->out, step->in, options);
}

static ferry_future *submit_step(demo_plan *plan, demo_executor *executor, demo_step *step)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = step->label;
    if (step->kind != DEMO_STEP_LAYER)
        return demo_ferry_move(plan, step, &options);
    const ferry_access accesses[] = {
        {step->weights, FERRY_READ},
        {step->in, FERRY_READ},
        {step->out, FERRY_WRITE},
    };
    options.accesses = accesses;
    options.access_count = sizeof(accesses) / sizeof(accesses[0]);
    return ferry_call(plan->engine, &executor->base, call_step, step, &options);
}

/*
 * Waits for as few steps as possible, because a wait that parks costs a switch of threads; so the
 * last step first. All outcomes are read later, and the first failure in the program is reported.
 */
static void submit_all(demo_plan *plan, demo_executor *executor, ferry_future **futures)
{
    size_t behind = 0; /* the first step that is not DEMO_LOOKAHEAD_TICKS behind */
    for (size_t i = 0; i < plan->step_count; i++) {
        demo_step *step = &plan->steps[i];
        size_t before = behind;
        while (plan->steps[behind].tick + DEMO_LOOKAHEAD_TICKS <= step->tick)
            behind++;
        if (behind > before)
            (void)ferry_future_wait(futures[behind - 1], -1);
        futures[i] = submit_step(plan, executor, step);
    }
    for (size_t i = plan->step_count; i > 0; i--)
        (void)ferry_future_wait(futures[i - 1], -1);
}

static void tell_failure(ferry_future *future, const char *label)
{
    const ferry_error *error = ferry_future_error(future);
    ferry_status status = ferry_future_poll(future);
    fprintf(stderr, "ferry: '%s' failed: %s (%s)\n", error && error->label ? error->label : label,
            error ? error->message : ferry_status_text(status), ferry_status_name(status));
    if (error && error->cause)
        fprintf(stderr, "ferry: because of '%s': %s (%s)\n",
                error->cause->label ? error->cause->label : "an operation", error->cause->message,
                ferry_status_name(error->cause->status));
}

int demo_ferry_check(ferry_future *future, const char *label)
{
    if (ferry_future_poll(future) == FERRY_OK)
        return 0;
    tell_failure(future, label);
    return EXIT_FAILURE;
}

int demo_ferry_wait_quiet(demo_plan *plan)
{
    ferry_future *drained = ferry_engine_drain(plan->engine);
    int result = 0;
    if (ferry_future_wait(drained, -1) != FERRY_OK) {
        tell_failure(drained, "drain");
        result = EXIT_FAILURE;
    }
    ferry_future_release(drained);
    return result;
}

int demo_ferry_run(demo_plan *plan, demo_executor *executor, double *seconds_p)
{
    ferry_future **futures = calloc(plan->step_count, sizeof(ferry_future *));
    if (!futures) {
        fputs("ferry: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    double begin_s = demo_now_s();
    submit_all(plan, executor, futures);
    *seconds_p = demo_now_s() - begin_s;

    int result = 0;
    for (size_t i = 0; i < plan->step_count && !result; i++)
        result = demo_ferry_check(futures[i], plan->steps[i].label);
    if (!result)
        result = demo_ferry_wait_quiet(plan);
    if (result) /* no limit: steps end by themselves, and the executor must outlive them */
        (void)ferry_engine_shutdown(plan->engine, -1);
    for (size_t i = 0; i < plan->step_count; i++)
        ferry_future_release(futures[i]);
    free(futures);
    return result;
}
