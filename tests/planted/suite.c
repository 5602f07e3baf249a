/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that end in each of the ways that tests may. tests/planted/suite_says runs them one by one
 * and knows what the runner has to say of each. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(planted, .timeout = 0.1);

static void fail(void)
{
    cr_assert_eq(1, 2, "the planted assertion");
}

static void *fail_elsewhere(void *arg)
{
    fail();
    return arg;
}

Test(planted, passes)
{
    cr_assert_eq(1, 1);
}

Test(planted, skips)
{
    cr_skip_test("the reason is %d", 7);
}

Test(planted, fails)
{
    fail();
}

Test(planted, expects_in_vain)
{
    cr_expect_eq(1, 2, "the planted assertion");
}

Test(planted, fails_in_set_up, .init = fail)
{
    abort();
}

Test(planted, fails_in_take_down, .fini = fail)
{
}

Test(planted, fails_in_a_thread)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    (void)pthread_join(thread, NULL);
}

Test(planted, fails_in_a_child)
{
    pid_t child = fork();
    if (child == 0)
        fail();
    while (child > 0)
        (void)pause();
}

Test(planted, ends_early)
{
    exit(0);
}

Test(planted, ends_with_a_status)
{
    exit(3);
}

Test(planted, is_killed)
{
    (void)raise(SIGKILL);
}

Test(planted, hangs)
{
    for (;;)
        (void)pause();
}
