/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_bare.h"

#include "tools/demo_measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *run_layers(void *arg)
{
    const demo_plan *plan = arg;
    for (size_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == DEMO_STEP_LAYER)
            demo_step_run(&plan->steps[i]);
    }
    return NULL;
}

static void *run_copies(void *arg)
{
    const demo_plan *plan = arg;
    for (size_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind != DEMO_STEP_LAYER)
            demo_step_run(&plan->steps[i]);
    }
    return NULL;
}

int demo_bare_compute(demo_plan *plan, double *seconds_p)
{
    double begin_s = demo_now_s();
    run_layers(plan);
    *seconds_p = demo_now_s() - begin_s;
    return 0;
}

int demo_bare_copy(demo_plan *plan, double *seconds_p)
{
    double begin_s = demo_now_s();
    run_copies(plan);
    *seconds_p = demo_now_s() - begin_s;
    return 0;
}

int demo_bare_serial(demo_plan *plan, double *seconds_p)
{
    double begin_s = demo_now_s();
    for (size_t i = 0; i < plan->step_count; i++)
        demo_step_run(&plan->steps[i]);
    *seconds_p = demo_now_s() - begin_s;
    return 0;
}

/*
 * The two threads race on the double buffers on purpose: nobody reads the result. With separate
 * buffers no lines would move from the copying core to the computing one. That takes a good part of
 * the time, and no pipeline can avoid it.
 */
int demo_bare_control(demo_plan *plan, double *seconds_p)
{
    pthread_t copying;
    pthread_t computing;
    double begin_s = demo_now_s();
    int error = pthread_create(&copying, NULL, run_copies, plan);
    if (!error) {
        error = pthread_create(&computing, NULL, run_layers, plan);
        if (!error)
            pthread_join(computing, NULL);
        pthread_join(copying, NULL);
    }
    *seconds_p = demo_now_s() - begin_s;
    if (!error)
        return 0;
    fprintf(stderr, "ferry: creating a thread: %s\n", strerror(error));
    return EXIT_FAILURE;
}
