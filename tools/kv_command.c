/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_command.h"

#include "tools/child_process.h"
#include "tools/kv_decode.h"
#include "tools/kv_picture.h"
#include "tools/kv_prefill.h"
#include "tools/kv_report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int run_prefill(kv_end *end)
{
    const kv_options *options = end->options;
    kv_outcome outcome = {.decoders = options->meeting.size - 1};
    outcome.figures = calloc(outcome.decoders, sizeof(*outcome.figures));
    int result = 0;
    if (!outcome.figures)
        result = kv_end_close(end, member_fail(&end->member, "starting", "out of memory"));
    else
        result = kv_prefill_run(end, &outcome);
    if (!result && options->svg)
        result = kv_picture_draw(end->folder, options->svg);
    if (!result)
        result = kv_report_print(options, &outcome);
    free(outcome.figures);
    return result;
}

static int run_end(const kv_options *options, int rank, const char *folder)
{
    kv_end end;
    int result = kv_end_open(&end, options, rank, folder);
    if (result)
        return kv_end_close(&end, result);
    return rank == KV_PREFILL ? run_prefill(&end) : kv_decode_run(&end);
}

typedef struct local_end {
    const kv_options *options;
    const char *folder;
    int rank;
} local_end;

static int run_child(void *arg)
{
    const local_end *end = arg;
    return run_end(end->options, end->rank, end->folder);
}

/* Runs all of them as processes; this process watches. */
static int run_local(const kv_options *options)
{
    static local_end ends[1 + KV_DECODERS_MAX];
    static child_process children[1 + KV_DECODERS_MAX];
    char folder[CHILD_FOLDER_BYTES];
    char store[CHILD_FOLDER_BYTES + 16];
    if (child_folder_make(folder) != 0)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof(store), "file:%s/store", folder);
    kv_options all = *options;
    all.meeting.store = store;
    int count = (int)options->meeting.size;
    for (int rank = 0; rank < count; rank++) {
        child_process *child = &children[rank];
        ends[rank] = (local_end){.options = &all, .folder = folder, .rank = rank};
        *child = (child_process){.run = run_child, .arg = &ends[rank]};
        if (rank == KV_PREFILL)
            (void)snprintf(child->name, sizeof(child->name), "the prefill process");
        else
            (void)snprintf(child->name, sizeof(child->name), "the decode process of rank %d", rank);
    }
    int result = children_run(children, count);
    child_folder_remove(folder);
    return result;
}

static int run(const kv_options *options)
{
    /* A thread of each process takes these signals. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return options->meeting.is_local ? run_local(options)
                                     : run_end(options, options->meeting.rank, NULL);
}

int kv_command_run(int argc, char **argv)
{
    kv_options options;
    kv_options_parse(&options, argc, argv);
    return run(&options);
}

int kv_command_run_demo(int argc, char **argv)
{
    kv_options options;
    kv_options_parse_demo(&options, argc, argv);
    return run(&options);
}
