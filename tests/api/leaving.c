/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that leave their group and end, all at the same time. */
#include "tests/support/member_test.h"
#include "tests/support/temporary_folder.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(leaving, .timeout = HANG_S);

enum { COUNT = 16, ROUNDS = 4, FAILED_JOIN = 1, FAILED_MESSAGE, FAILED_SHUTDOWN };

static int exchange(ferry_engine *engine, ferry_group *group, int32_t rank)
{
    ferry_buffer *buffer = NULL;
    if (ferry_buffer_alloc(ferry_device_find(engine, "host:0"), 16, &buffer) != FERRY_OK)
        return FAILED_MESSAGE;
    ferry_rank next = (ferry_rank)(rank + 1) % COUNT, last = (ferry_rank)(rank + COUNT - 1) % COUNT;
    ferry_future *ends[] = {
        ferry_recv(group, last, 1, (ferry_span){buffer, 0, 8}, NULL),
        ferry_send(group, next, 1, (ferry_span){buffer, 8, 8}, NULL),
        ferry_barrier(group, "all", NULL),
    };
    int failure = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (ferry_future_wait(ends[i], -1) != FERRY_OK) {
            failure = FAILED_MESSAGE;
            (void)fprintf(stderr, "rank %d: %s\n", rank, ferry_future_error(ends[i])->message);
        }
        ferry_future_release(ends[i]);
    }
    ferry_buffer_release(buffer);
    return failure;
}

/* Others' processes end at each moment of this one's leaving. */
static int live(const char *store, int32_t rank)
{
    ferry_engine *engine = NULL;
    ferry_group *group = NULL;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK)
        return FAILED_JOIN;
    ferry_group_options options = test_group_options(COUNT, (ferry_rank)rank);
    options.store = store;
    ferry_future *joined = ferry_group_join(engine, &options, &group);
    if (ferry_future_wait(joined, -1) != FERRY_OK)
        return FAILED_JOIN;
    ferry_future_release(joined);
    int failure = exchange(engine, group, rank);
    ferry_group_release(group);
    if (ferry_engine_shutdown(engine, -1) != FERRY_OK && failure == 0)
        failure = FAILED_SHUTDOWN;
    ferry_engine_release(engine);
    return failure;
}

Test(leaving, all_at_once)
{
    char folder[TEMPORARY_FOLDER_BYTES], store[TEMPORARY_FOLDER_BYTES + 8];
    temporary_folder_make(folder);
    (void)snprintf(store, sizeof store, "file:%s", folder);
    for (int round = 0; round < ROUNDS; round++) {
        for (int32_t rank = 0; rank < COUNT; rank++) {
            pid_t pid = fork();
            cr_assert_geq(pid, 0);
            if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                _exit(live(store, rank));
            }
        }
        for (int i = 0; i < COUNT; i++) {
            int status = -1;
            cr_assert_gt(wait(&status), 0);
            cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
        }
    }
    temporary_folder_remove(folder);
}
