/* SPDX-License-Identifier: Apache-2.0 */
/* Modules are found where they should be, opened once, and refused with a reason. Each test is a
 * process of its own. */
#include "base/module.h"
#include "tests/support/fake_module.h"
#include "tests/support/patience.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, HANG_S = 60 };

TestSuite(base_module, .timeout = HANG_S);

static void assert_refused(const char *folder, const char *part)
{
    fake_module_choose(folder);
    const char *reason = NULL, *again = NULL;
    cr_assert_null(fry_module_find("cuda", &reason));
    cr_assert_not_null(reason);
    cr_assert_not_null(strstr(reason, part), "\"%s\" does not say \"%s\"", reason, part);
    cr_assert_not_null(strstr(reason, FAKE_MODULES), "\"%s\" does not say where", reason);
    cr_assert_null(fry_module_find("cuda", &again));
    cr_assert_eq(again, reason, "the answer stays");
    cr_assert_null(fry_module_find("cuda", NULL));
}

Test(base_module, one_that_is_not_there_is_told_with_the_places)
{
    assert_refused("nowhere", "/nowhere/ferry_cuda.so nor ");
}

/* The library is this program here. */
Test(base_module, without_a_path_it_is_looked_for_beside_the_library)
{
    if (!strchr(program_invocation_name, '/'))
        cr_skip_test("started by its bare name, which is the next test");
    (void)unsetenv("FERRY_MODULE_PATH");
    const char *reason = NULL;
    cr_assert_null(fry_module_find("cuda", &reason));
    cr_assert_not_null(strstr(reason, "/ferry/ferry_cuda.so is not there"), "%s", reason);
}

/* The loader then knows no path of it. */
Test(base_module, started_by_its_bare_name_it_has_no_folder)
{
    if (strchr(program_invocation_name, '/')) {
        pid_t child = fork();
        if (child == 0) {
            (void)execl("/proc/self/exe", "base_module", "-d",
                        "base_module/started_by_its_bare_name_it_has_no_folder", (char *)NULL);
            _exit(127);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
        return;
    }
    (void)unsetenv("FERRY_MODULE_PATH");
    const char *reason = NULL;
    cr_assert_null(fry_module_find("cuda", &reason));
    cr_assert_str_eq(reason, "no module: a folder ferry beside the library is not there");
}

Test(base_module, the_answer_stays_when_one_comes_later)
{
    assert_refused("nowhere", "neither");
    fake_module *fake = fake_module_load();
    cr_assert_null(fry_module_find("cuda", NULL));
    cr_assert_eq(fake->entries, 0);
}

Test(base_module, a_path_too_long_is_not_there)
{
    char path[4000];
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    (void)setenv("FERRY_MODULE_PATH", path, 1);
    const char *reason = NULL;
    cr_assert_null(fry_module_find("cuda", &reason));
    cr_assert_not_null(strstr(reason, "no module"), "%s", reason);
}

Test(base_module, one_for_another_version_says_so)
{
    assert_refused(FAKE_OTHER_VERSION, "made for another version of ferry");
}

Test(base_module, one_without_an_entry_is_none)
{
    assert_refused(FAKE_NO_ENTRY, "not a module of ferry");
}

Test(base_module, one_of_another_name_is_refused)
{
    assert_refused(FAKE_OTHER_NAME, "the module of \"other\"");
}

Test(base_module, what_is_no_library_is_refused_with_the_loaders_words)
{
    assert_refused(FAKE_NO_LIBRARY, "can't be loaded: ");
}

Test(base_module, a_name_from_outside_never_becomes_a_path)
{
    static const char *const names[] = {"", "sim", "../good/ferry_cuda", "cuda/", "CUDA"};
    fake_module *fake = fake_module_load();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *reason = NULL;
        cr_assert_null(fry_module_find(names[i], &reason));
        cr_assert_str_eq(reason, "ferry has no such module");
    }
    cr_assert_eq(fake->entries, 0);
}

static void *find_in_thread(void *found)
{
    *(const fry_module_ops **)found = fry_module_find("cuda", NULL);
    return NULL;
}

/* They all come while the first is at it. */
Test(base_module, threads_that_ask_at_once_share_one)
{
    fake_module *fake = fake_module_load();
    atomic_store(&fake->is_gated, true);
    pthread_t threads[THREADS];
    const fry_module_ops *found[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, find_in_thread, &found[i]), 0);
    while (atomic_load(&fake->at_gate) == 0)
        (void)sched_yield();
    atomic_store(&fake->is_gated, false);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert(found[i] != NULL && found[i] == found[0]);
    cr_assert_str_eq(found[0]->name, "cuda");
    cr_assert_eq(fake->entries, 1);
    const char *reason = "as it was";
    cr_assert_eq(fry_module_find("cuda", &reason), found[0]);
    cr_assert_str_eq(reason, "as it was");
}

/* ---- fork ---- */

/* What a child finds: 0 it can't be had, for the parent has it; 1 it can; 2 neither. */
static int in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(HANG_S / 2 * PATIENCE);
        const char *reason = "";
        bool is_here = fry_module_find("cuda", &reason) != NULL;
        _exit(is_here ? 1 : strstr(reason, "parent process") != NULL ? 0 : 2);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "the child died or hung");
    return WEXITSTATUS(status);
}

Test(base_module, a_child_can_open_what_its_parent_did_not)
{
    (void)fake_module_load();
    cr_assert_eq(in_child(), 1);
}

Test(base_module, a_child_has_none_of_its_parents)
{
    (void)fake_module_load();
    cr_assert_not_null(fry_module_find("cuda", NULL));
    cr_assert_eq(in_child(), 0);
    cr_assert_not_null(fry_module_find("cuda", NULL), "the parent keeps it");
}

Test(base_module, a_child_of_a_process_without_it_has_the_same_reason)
{
    assert_refused(FAKE_OTHER_VERSION, "made for another version of ferry");
    cr_assert_eq(in_child(), 2);
}

Test(base_module, a_child_forked_while_one_is_being_opened_does_not_hang)
{
    fake_module *fake = fake_module_load();
    atomic_store(&fake->is_gated, true);
    pthread_t thread;
    const fry_module_ops *found;
    cr_assert_eq(pthread_create(&thread, NULL, find_in_thread, &found), 0);
    while (atomic_load(&fake->at_gate) == 0)
        (void)sched_yield();
    cr_assert_eq(in_child(), 0);
    atomic_store(&fake->is_gated, false);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_not_null(found);
}
