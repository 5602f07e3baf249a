/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A master hands out work to whoever is idle, as an MPI program does with MPI_ANY_SOURCE: workers
 * ask, and get the bounds of a part of a sum, or an end. Their results have any size; the master
 * finds one (MPI_Probe), sees whose it is and how large, and receives it. Only the master's group
 * option says that it takes from anybody.
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, PARTS = 24, NUMBERS = 1000 };
enum { ASK = 1, WORK, RESULT }; /* tags */

typedef struct part {
    uint32_t index, first, count; /* count 0: there is no more */
} part;

static ferry_engine *engine;
static ferry_group *group;
static ferry_buffer *memory; /* a part at its start, a result behind that */

static ferry_span span_of(size_t offset_bytes, size_t size_bytes)
{
    return (ferry_span){memory, offset_bytes, size_bytes};
}

/* Waits for it, ends the program if it fails, and says of a message what is known of it. */
static ferry_message_info finish(ferry_future *future, const char *what)
{
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_status status = ferry_future_wait(future, 20000000000);
    if (status != FERRY_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, ferry_status_name(status),
                      status < 0 ? ferry_future_error(future)->message : "it takes too long");
        exit(EXIT_FAILURE);
    }
    (void)ferry_message_describe(future, &info); /* of other operations nothing */
    ferry_future_release(future);
    return info;
}

static void work(void)
{
    part *job = ferry_buffer_data(memory);
    uint64_t *squares = (uint64_t *)(void *)(job + 2);
    for (;;) {
        finish(ferry_send(group, 0, ASK, span_of(0, 0), NULL), "asking");
        finish(ferry_recv(group, 0, WORK, span_of(0, sizeof *job), NULL), "getting work");
        if (job->count == 0)
            return;
        squares[0] = job->index;
        for (uint32_t i = 0; i < job->count; i++)
            squares[1 + i] = (uint64_t)(job->first + i) * (job->first + i);
        size_t size_bytes = (1 + job->count) * sizeof *squares;
        finish(ferry_send(group, 0, RESULT, span_of(2 * sizeof *job, size_bytes), NULL),
               "answering");
    }
}

/* Returns the number of results that came, or 0 if the sum is wrong. */
static uint32_t lead(void)
{
    part *job = ferry_buffer_data(memory);
    uint64_t *squares = (uint64_t *)(void *)(job + 2), sum = 0, expected = 0;
    uint32_t next = 0, idle = 0, results = 0;
    while (results < PARTS || idle < WORKERS) {
        ferry_message_info found =
            finish(ferry_message_probe(group, FERRY_RANK_ANY, FERRY_TAG_ANY, NULL), "looking");
        ferry_span room = span_of(2 * sizeof *job, found.size_bytes);
        finish(ferry_recv(group, found.rank, found.tag, room, NULL), "receiving");
        if (found.tag == RESULT) {
            for (size_t i = 1; i < found.size_bytes / sizeof *squares; i++)
                sum += squares[i];
            results++;
            continue;
        }
        uint32_t count = next < PARTS ? 1 + next % 7 * 50 : 0;
        *job = (part){next, next * NUMBERS, count};
        idle += count == 0;
        for (uint32_t i = 0; i < count; i++)
            expected += (uint64_t)(job->first + i) * (job->first + i);
        next += count != 0;
        finish(ferry_send(group, found.rank, WORK, span_of(0, sizeof *job), NULL), "handing out");
    }
    return sum == expected ? results : 0;
}

static int member(const char *store, ferry_rank rank)
{
    uint32_t results = 1;
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "any-source";
    options.size = 1 + WORKERS;
    options.rank = rank;
    options.has_rank = true;
    options.any_source_max = rank == 0 ? 8 : 0;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), 65536, &memory) != FERRY_OK)
        return EXIT_FAILURE;
    finish(ferry_group_join(engine, &options, &group), "joining");
    if (rank == 0)
        results = lead();
    else
        work();
    if (rank == 0)
        (void)printf("%u results of %d workers\n", results, WORKERS);
    finish(ferry_group_leave(group), "leaving");
    ferry_group_release(group);
    ferry_buffer_release(memory);
    ferry_engine_release(engine);
    return results != 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
    char folder[] = "/tmp/any-source-XXXXXX", text[64];
    int failed = EXIT_SUCCESS;
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    (void)snprintf(text, sizeof text, "file:%s/store", folder);
    for (ferry_rank rank = 1; rank <= WORKERS; rank++) {
        pid_t worker = fork(); /* before the engine: a child has none of its parent's */
        if (worker == 0)
            return member(text, rank);
        if (worker < 0)
            return EXIT_FAILURE;
    }
    failed = member(text, 0);
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    (void)snprintf(text, sizeof text, "rm -r %s", folder);
    return system(text) != 0 ? EXIT_FAILURE : failed;
}
