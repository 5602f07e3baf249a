/* SPDX-License-Identifier: Apache-2.0 */
/* A lock of ferry's that another thread holds at the fork is free in the child. */
#include "engine/engine.h"
#include "engine/ground/context.h"
#include "engine/trace/writer.h"
#include "tests/support/patience.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_S 60
#define FORKS 50

TestSuite(engine_fork, .timeout = HANG_S);

static _Atomic bool going_on;
static ferry_engine listed[2], own;

/* Two of these find a list's lock taken more often than not. */
static void *register_on_and_on(void *arg)
{
    ferry_engine *engine = arg;
    while (atomic_load(&going_on)) {
        fry_engine_register(engine);
        fry_engine_unregister(engine);
    }
    return NULL;
}

static void *attach_on_and_on(void *arg)
{
    ferry_engine *engine = arg;
    while (atomic_load(&going_on)) {
        fry_writer_attach(engine);
        (void)fry_writer_detach(engine, 0); /* no file is open, so there is no wait */
    }
    return NULL;
}

/* In the child: whether the list is there to be had, and the parent's are not in it. */
static bool registers(void)
{
    fry_engine_register(&own);
    return own.next_alive == NULL;
}

static bool attaches(void)
{
    fry_writer_attach(&own);
    return own.file_seat.next == NULL;
}

static int children_that_fail(void *(*on_and_on)(void *), bool (*in_child)(void))
{
    pthread_t threads[2];
    atomic_store(&going_on, true);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, on_and_on, &listed[i]), 0);
    int failed = 0;
    for (int i = 0; i < FORKS && failed == 0; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)alarm(HANG_S / 3 * PATIENCE);
            _exit(in_child() ? 0 : 1);
        }
        int status = 0;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        failed += status != 0;
    }
    atomic_store(&going_on, false);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    return failed;
}

Test(engine_fork, the_list_of_engines_can_be_had_in_the_child)
{
    ferry_engine *real = NULL;
    cr_assert_eq(ferry_engine_create(NULL, &real, NULL),
                 FERRY_OK); /* from now on it hears of forks */
    int failed = children_that_fail(register_on_and_on, registers);
    ferry_engine_release(real);
    cr_assert_eq(failed, 0);
}

/* Of a process that never opened a trace file, too. */
Test(engine_fork, the_list_of_traced_engines_can_be_had_in_the_child)
{
    ferry_engine *real = NULL;
    cr_assert_eq(ferry_engine_create(NULL, &real, NULL), FERRY_OK);
    int failed = children_that_fail(attach_on_and_on, attaches);
    ferry_engine_release(real);
    cr_assert_eq(failed, 0);
}
