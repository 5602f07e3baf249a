/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that meet in a folder and exchange numbers. Rank 0 sends blocks as its function
 * makes them, and receives what rank 1 has made of them. ferry finds the order from the memory that
 * each operation touches, on both sides. Between hosts only the store ("etcd://host:2379"), the
 * network and a secret in the options change.
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 16
#define NUMBERS ((size_t)4096)
#define BLOCK_BYTES (NUMBERS * sizeof(uint32_t))

typedef struct block {
    ferry_buffer *memory;
    uint32_t index;
} block;

static ferry_span span_of(const block *of)
{
    return (ferry_span){of->memory, of->index * BLOCK_BYTES, BLOCK_BYTES};
}

static uint32_t *numbers_of(const block *of)
{
    return (uint32_t *)ferry_buffer_data(of->memory) + of->index * NUMBERS;
}

static ferry_status make(void *arg)
{
    const block *of = arg;
    for (size_t i = 0; i < NUMBERS; i++)
        numbers_of(of)[i] = of->index + (uint32_t)i;
    return FERRY_OK;
}

static ferry_status triple(void *arg)
{
    const block *of = arg;
    for (size_t i = 0; i < NUMBERS; i++)
        numbers_of(of)[i] *= 3;
    return FERRY_OK;
}

/* Submits a function that touches the block: ferry orders it with all that names the block. */
static void call(ferry_engine *engine, ferry_status (*fn)(void *), block *of)
{
    ferry_access touched = {span_of(of), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &touched;
    options.access_count = 1;
    ferry_future_release(ferry_call(engine, NULL, fn, of, &options));
}

/* Submits everything at once. The future resolves when the last block is back or done. */
static ferry_future *submit(ferry_engine *engine, ferry_group *group, block *blocks)
{
    ferry_future *ends[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) {
        ferry_span span = span_of(&blocks[i]);
        if (ferry_group_rank(group) == 0) {
            call(engine, make, &blocks[i]);
            ferry_future_release(ferry_send(group, 1, i, span, NULL));
            ends[i] = ferry_recv(group, 1, i, span, NULL);
        } else {
            ferry_future_release(ferry_recv(group, 0, i, span, NULL));
            call(engine, triple, &blocks[i]);
            ends[i] = ferry_send(group, 0, i, span, NULL);
        }
    }
    ferry_future *all = ferry_future_all(engine, ends, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++)
        ferry_future_release(ends[i]);
    return all;
}

static int wrong_numbers(const block *blocks)
{
    int wrong = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        for (uint32_t k = 0; k < NUMBERS; k++)
            wrong += numbers_of(&blocks[i])[k] != 3 * (i + k);
    }
    return wrong;
}

/* True: success. A failure is reported with its cause and the member where it began. */
static bool wait_for(ferry_future *future, const char *what)
{
    ferry_status status = ferry_future_wait(future, 20000000000);
    if (status != FERRY_OK)
        (void)fprintf(stderr, "%s: %s: %s\n", what, ferry_status_name(status),
                      status < 0 ? ferry_future_error(future)->message : "it takes too long");
    ferry_future_release(future);
    return status == FERRY_OK;
}

static int member(const char *store, int32_t rank)
{
    ferry_engine *engine = NULL;
    ferry_group *group = NULL;
    block blocks[BLOCKS] = {{NULL, 0}};
    bool is_well = ferry_engine_create(NULL, &engine, NULL) == FERRY_OK &&
                   ferry_buffer_alloc(ferry_device_at(engine, 0), BLOCKS * BLOCK_BYTES,
                                      &blocks[0].memory) == FERRY_OK;
    for (uint32_t i = 0; is_well && i < BLOCKS; i++)
        blocks[i] = (block){blocks[0].memory, i};

    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "two-members";
    options.size = 2;
    options.rank = (ferry_rank)rank;
    options.has_rank = true;
    is_well = is_well && wait_for(ferry_group_join(engine, &options, &group), "joining") &&
              wait_for(submit(engine, group, blocks), "passing blocks");
    if (is_well && rank == 0 && wrong_numbers(blocks) != 0)
        is_well = false;
    if (is_well && rank == 0)
        (void)printf("%d blocks went there and back\n", BLOCKS);
    if (group != NULL)
        (void)wait_for(ferry_group_leave(group), "leaving");
    ferry_group_release(group);
    ferry_buffer_release(blocks[0].memory);
    ferry_engine_release(engine);
    return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
    char folder[] = "/tmp/two-members-XXXXXX", store[64];
    int status = 0;
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof store, "file:%s/store", folder);
    pid_t other = fork(); /* before the engine: a child has none of its parent's */
    int failed = other < 0 ? EXIT_FAILURE : member(store, other == 0 ? 1 : 0);
    if (other == 0)
        return failed;
    if (other < 0 || waitpid(other, &status, 0) < 0 || status != 0)
        failed = EXIT_FAILURE;
    (void)snprintf(store, sizeof store, "rm -r %s", folder);
    return system(store) != 0 ? EXIT_FAILURE : failed;
}
