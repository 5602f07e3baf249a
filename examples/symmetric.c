/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four processes count words together. Each has a table of the same size, which all others have
 * mapped: a process adds what it has counted straight into the table of whoever the word belongs
 * to, with atomics and no message. A barrier says when all have done so. Where a member's memory is
 * not mapped, as on another host, ferry_put and ferry_get reach the same offsets.
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <ferry/ferry.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 4, WORDS = 1000, COUNTED = 100000 };

static ferry_engine *engine;
static ferry_group *group;

static void finish(ferry_future *future, const char *what)
{
    ferry_status status = ferry_future_wait(future, 20000000000);
    if (status != FERRY_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, ferry_status_name(status),
                      status < 0 ? ferry_future_error(future)->message : "it takes too long");
        exit(EXIT_FAILURE);
    }
    ferry_future_release(future);
}

static void count(const ferry_symmetric *tables, ferry_rank rank)
{
    for (unsigned i = 0; i < COUNTED; i++) {
        unsigned word = (i * 7919 + rank) % (WORDS * MEMBERS);
        atomic_uint *table = ferry_symmetric_address(tables, word % MEMBERS);
        (void)atomic_fetch_add(&table[word / MEMBERS], 1);
    }
}

static void check(const ferry_symmetric *tables, ferry_rank rank)
{
    const atomic_uint *own = ferry_buffer_data(ferry_symmetric_buffer(tables));
    unsigned long sum = 0;
    for (size_t i = 0; i < WORDS; i++)
        sum += own[i];
    /* The first word of the next one's table, by a get. */
    ferry_buffer *first = NULL;
    if (ferry_buffer_alloc(ferry_device_find(engine, "host:0"), sizeof(unsigned), &first) !=
        FERRY_OK)
        exit(EXIT_FAILURE);
    finish(ferry_get(ferry_symmetric_window(tables, (rank + 1) % MEMBERS), 0,
                     ferry_buffer_span(first), NULL),
           "getting");
    unsigned next = *(unsigned *)ferry_buffer_data(first);
    ferry_buffer_release(first);
    (void)printf("rank %u has %lu\n", rank, sum);
    if (sum != COUNTED || next != COUNTED / WORDS)
        exit(EXIT_FAILURE);
}

static void run(const char *store, ferry_rank rank)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "symmetric";
    options.size = MEMBERS;
    options.rank = rank;
    options.has_rank = true;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK)
        exit(EXIT_FAILURE);
    finish(ferry_group_join(engine, &options, &group), "joining");

    ferry_symmetric *tables;
    finish(ferry_symmetric_alloc(group, ferry_device_find(engine, "host:0"),
                                 WORDS * sizeof(atomic_uint), "tables", 0, &tables),
           "asking for tables");
    ferry_symmetric_info info = FERRY_SYMMETRIC_INFO_INIT;
    if (ferry_symmetric_describe(tables, &info) != FERRY_OK || info.mapped != MEMBERS)
        exit(EXIT_FAILURE);
    count(tables, rank);
    finish(ferry_barrier(group, "counted", NULL), "waiting for the others");
    check(tables, rank);
    finish(ferry_barrier(group, "checked", NULL), "waiting for the others");
    ferry_symmetric_release(tables); /* the others' stay theirs */

    finish(ferry_group_leave(group), "leaving");
    ferry_group_release(group);
    if (ferry_engine_shutdown(engine, -1) != FERRY_OK)
        exit(EXIT_FAILURE);
    ferry_engine_release(engine);
}

int main(void)
{
    char folder[] = "/tmp/ferry-symmetric-XXXXXX", store[64];
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof store, "file:%s", folder);
    for (ferry_rank rank = 1; rank < MEMBERS; rank++) {
        if (fork() == 0) { /* before the engine: a child has none of its parent's */
            run(store, rank);
            exit(EXIT_SUCCESS);
        }
    }
    run(store, 0);
    int result = EXIT_SUCCESS;
    for (int status; wait(&status) > 0;)
        result |= status != 0;
    (void)snprintf(store, sizeof store, "rm -r %s", folder);
    return system(store) != 0 ? EXIT_FAILURE : result;
}
