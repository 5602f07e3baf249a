/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same step again and again, prepared once. A process keeps blocks in a window and changes them
 * from round to round; another one has a plan that gets the blocks that it needs, wherever they
 * lie, adds them up, and tells the first that it has them. Each round is one post: one operation,
 * one future, with one deadline. At the end it picks two operations of the plan alone.
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <ferry/ferry.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 64, WANTED = 16, BLOCK_BYTES = 4096, ROUNDS = 3, OPS = WANTED + 2 };

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

static ferry_buffer *allocate(size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    if (ferry_buffer_alloc(ferry_device_at(engine, 0), size_bytes, &buffer) != FERRY_OK)
        exit(EXIT_FAILURE);
    return buffer;
}

static void hear(const char *what)
{
    finish(ferry_notice_next(group, 0), what);
}

/* ---- whose blocks they are ---- */

static void serve(void)
{
    ferry_buffer *blocks = allocate((size_t)BLOCKS * BLOCK_BYTES);
    ferry_window *window;
    finish(ferry_window_open(group, ferry_buffer_span(blocks), "blocks", FERRY_WINDOW_GET, &window),
           "opening the window");
    for (int round = 0; round < ROUNDS; round++) {
        memset(ferry_buffer_data(blocks), round + 1, (size_t)BLOCKS * BLOCK_BYTES);
        finish(ferry_notice_send(group, 1, "new", 3, NULL), "saying that there are new ones");
        hear("waiting until the other one has them"); /* until then nothing may be changed */
    }
    finish(ferry_window_close(window), "closing the window");
    ferry_window_release(window);
    ferry_buffer_release(blocks);
}

/* ---- who needs some ---- */

typedef struct sum {
    const unsigned char *bytes;
    uint64_t value;
} sum;

static ferry_status add_up(void *arg)
{
    sum *self = arg;
    self->value = 0;
    for (size_t i = 0; i < (size_t)WANTED * BLOCK_BYTES; i++)
        self->value += self->bytes[i];
    return FERRY_OK;
}

static ferry_plan *prepare(ferry_window *window, ferry_buffer *into, sum *total)
{
    ferry_op ops[OPS];
    for (size_t i = 0; i < WANTED; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_GET,
                            .window = window,
                            .window_offset = i * 37 % BLOCKS * BLOCK_BYTES,
                            .dst = {into, i * BLOCK_BYTES, BLOCK_BYTES}};
    /* It reads what the gets write, so it comes after them. */
    ferry_access reads = {ferry_buffer_span(into), FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &reads;
    options.access_count = 1;
    ops[WANTED] =
        (ferry_op){.kind = FERRY_OP_CALL, .fn = add_up, .arg = total, .options = &options};
    /* A notice comes after all before it. */
    ops[WANTED + 1] = (ferry_op){
        .kind = FERRY_OP_NOTICE, .group = group, .peer = 0, .data = "taken", .data_bytes = 5};
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    if (ferry_plan_create(engine, ops, sizeof ops[0], OPS, &plan, &error) != FERRY_OK) {
        (void)fprintf(stderr, "the plan: %s\n", error->message);
        exit(EXIT_FAILURE);
    }
    return plan;
}

static int use(void)
{
    ferry_buffer *into = allocate((size_t)WANTED * BLOCK_BYTES);
    ferry_window *window;
    finish(ferry_window_find(group, 0, "blocks", 0, &window), "finding the window");
    sum total = {.bytes = ferry_buffer_data(into)};
    ferry_plan *plan = prepare(window, into, &total);
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    if (ferry_plan_describe(plan, &info) != FERRY_OK)
        exit(EXIT_FAILURE);
    (void)printf("a plan of %d operations, %llu bytes\n", OPS, (unsigned long long)info.size_bytes);

    int result = EXIT_SUCCESS;
    for (int round = 0; round < ROUNDS; round++) {
        hear("waiting for new blocks");
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.deadline_ns = ferry_engine_deadline_in(engine, 10000000000);
        if (round == ROUNDS - 1) { /* two blocks alone, while they are still there */
            static const uint32_t picks[] = {3, 7};
            finish(ferry_plan_post(plan, picks, 2, &options), "posting two");
        }
        finish(ferry_plan_post(plan, NULL, 0, &options), "posting all");
        (void)printf("round %d: %llu\n", round, (unsigned long long)total.value);
        if (total.value != (uint64_t)(round + 1) * WANTED * BLOCK_BYTES)
            result = EXIT_FAILURE;
    }
    ferry_plan_release(plan);
    ferry_window_release(window);
    ferry_buffer_release(into);
    return result;
}

/* ---- a member ---- */

static int run(const char *store, ferry_rank rank)
{
    int result = EXIT_SUCCESS;
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "plans";
    options.size = 2;
    options.rank = rank;
    options.has_rank = true;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK)
        exit(EXIT_FAILURE);
    finish(ferry_group_join(engine, &options, &group), "joining");
    if (rank == 0)
        serve();
    else
        result = use();
    ferry_group_release(group);
    if (ferry_engine_shutdown(engine, -1) != FERRY_OK)
        exit(EXIT_FAILURE);
    ferry_engine_release(engine);
    return result;
}

int main(void)
{
    char folder[] = "/tmp/ferry-plans-XXXXXX", store[64];
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof store, "file:%s", folder);
    if (fork() == 0) /* before the engine: a child has none of its parent's */
        exit(run(store, 0));
    int result = run(store, 1);
    for (int status; wait(&status) > 0;)
        result |= status != 0;
    (void)snprintf(store, sizeof store, "rm -r %s", folder);
    return system(store) != 0 ? EXIT_FAILURE : result;
}
