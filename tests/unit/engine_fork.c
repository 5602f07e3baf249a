/* SPDX-License-Identifier: Apache-2.0 */
/* A lock of ferry's that another thread holds at the fork is free in the child. */
#include "engine/context.h"
#include "engine/engine.h"
#include "tests/support/patience.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_S 60
#define FORKS 50

TestSuite(engine_fork, .timeout = HANG_S);

static _Atomic bool going_on;

/* Two of these find the list's lock taken more often than not. */
static void *register_on_and_on(void *arg)
{
    ferry_engine *engine = arg;
    while (atomic_load(&going_on)) {
        fry_engine_register(engine);
        fry_engine_unregister(engine);
    }
    return NULL;
}

Test(engine_fork, the_list_of_engines_can_be_had_in_the_child)
{
    static ferry_engine listed[2], own;
    ferry_engine *real = NULL;
    cr_assert_eq(ferry_engine_create(NULL, &real, NULL),
                 FERRY_OK); /* from now on it hears of forks */
    pthread_t threads[2];
    atomic_store(&going_on, true);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, register_on_and_on, &listed[i]), 0);
    int hung = 0;
    for (int i = 0; i < FORKS && hung == 0; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)alarm(HANG_S / 3 * PATIENCE);
            fry_engine_register(&own);
            _exit(own.next_alive == NULL ? 0 : 1); /* the parent's are not in it */
        }
        int status = 0;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        hung += status != 0;
    }
    atomic_store(&going_on, false);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    ferry_engine_release(real);
    cr_assert_eq(hung, 0);
}
