/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of other members' processes. */
#include "net/group/kernel.h"
#include "net/group/state.h"
#include "tests/support/place.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that says what it would say of itself, and waits. */
static pid_t start_child(fry_group_record *record)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        fry_group_record own = {.rank = 1};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        fry_group_own_process(&own);
        if (write(ends[1], &own, sizeof own) != (ssize_t)sizeof own)
            _exit(1);
        for (;;)
            (void)pause();
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(read(ends[0], record, sizeof *record), (ssize_t)sizeof *record);
    (void)close(ends[0]);
    (void)close(ends[1]);
    cr_assert_eq(record->process.pid, pid);
    return pid;
}

Test(net_group_kernel, processes_that_run_and_that_have_ended, .timeout = 60)
{
    PLACE_NEEDS(place_lacks_processes);
    static fry_group group;
    static fry_group_process other;
    fry_group_record record;
    const pid_t pid = start_child(&record);

    fry_group_own_process(&group.record);
    cr_assert_neq(group.record.process.kernel, 0);
    other.kernel = record.process.kernel;
    other.started = record.process.started;
    other.pid = record.process.pid;
    cr_expect_eq(fry_group_process_of(&group, &other), FRY_PROCESS_RUNS);
    /* A number that is used again. */
    other.started++;
    cr_expect_eq(fry_group_process_of(&group, &other), FRY_PROCESS_ENDED);
    other.started--;
    /* Another host's. */
    other.kernel++;
    cr_expect_eq(fry_group_process_of(&group, &other), FRY_PROCESS_UNKNOWN);
    other.kernel--;
    (void)kill(pid, SIGKILL);
    siginfo_t info;
    cr_expect_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_expect_eq(fry_group_process_of(&group, &other), FRY_PROCESS_ENDED); /* not buried yet */
    (void)waitpid(pid, NULL, 0);
    cr_expect_eq(fry_group_process_of(&group, &other), FRY_PROCESS_ENDED);
    /* This very process says nothing of a group that was in it. */
    other.pid = group.record.process.pid;
    other.started = group.record.process.started;
    cr_expect_eq(fry_group_process_of(&group, &other), FRY_PROCESS_UNKNOWN);
}
