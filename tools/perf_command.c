/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_command.h"

#include "tools/child_process.h"
#include "tools/perf_run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_end(const perf_options *options, int rank)
{
    perf_end end;
    int result = perf_end_open(&end, options, rank);
    if (!result)
        result = rank == 0 ? perf_run_driver(&end) : perf_run_follower(&end);
    return perf_end_close(&end, result);
}

typedef struct local_end {
    perf_options options;
    int rank;
} local_end;

static int run_child(void *arg)
{
    const local_end *end = arg;
    return run_end(&end->options, end->rank);
}

/* Runs both ends as processes; this process watches. */
static int run_local(const perf_options *options)
{
    char folder[CHILD_FOLDER_BYTES];
    char store[CHILD_FOLDER_BYTES + 8];
    if (child_folder_make(folder) != 0)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof(store), "file:%s", folder);
    local_end ends[2];
    child_process children[2];
    for (int rank = 0; rank < 2; rank++) {
        ends[rank] = (local_end){.options = *options, .rank = rank};
        ends[rank].options.meeting.store = store;
        children[rank] = (child_process){.run = run_child, .arg = &ends[rank]};
        (void)snprintf(children[rank].name, sizeof(children[rank].name), "rank %d", rank);
    }
    int result = children_run(children, 2);
    child_folder_remove(folder);
    return result;
}

int perf_command_run(int argc, char **argv)
{
    perf_options options;
    perf_options_parse(&options, argc, argv);
    /* A thread of each process takes these signals. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return options.meeting.is_local ? run_local(&options) : run_end(&options, options.meeting.rank);
}
