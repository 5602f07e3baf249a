/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefill process fills a cache of pages and opens a window over it; two decode processes find
 * it, get the pages of their requests, wherever they lie, and put their answers into another
 * window. No message is posted for any page. What says that pages are there is the window itself,
 * opened when they are; what says that an answer is there is a notice, sent when the put has ended.
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DECODERS = 2, PAGES = 64, PAGE_BYTES = 16384, WANTED = 16, ANSWER_BYTES = 64 };

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
    if (ferry_buffer_alloc(ferry_device_find(engine, "host:0"), size_bytes, &buffer) != FERRY_OK)
        exit(EXIT_FAILURE);
    return buffer;
}

/* ---- prefill ---- */

static void prefill(void)
{
    ferry_buffer *cache = allocate((size_t)PAGES * PAGE_BYTES), *answers = allocate(4096);
    unsigned char *pages = ferry_buffer_data(cache);
    for (size_t page = 0; page < PAGES; page++)
        memset(pages + page * PAGE_BYTES, (int)page, PAGE_BYTES);

    ferry_window *cache_window, *answer_window;
    finish(ferry_window_open(group, ferry_buffer_span(cache), "kv/pages", FERRY_WINDOW_GET,
                             &cache_window),
           "opening the cache");
    finish(ferry_window_open(group, ferry_buffer_span(answers), "answers", FERRY_WINDOW_PUT,
                             &answer_window),
           "opening the answers");
    for (int i = 0; i < DECODERS; i++) {
        ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
        ferry_value where = FERRY_VALUE_INIT;
        ferry_future *next = ferry_notice_next(group, 0);
        finish(ferry_future_retain(next), "waiting for an answer");
        (void)ferry_message_describe(next, &info); /* whose it is */
        (void)ferry_future_value(next, &where);    /* what it says */
        if (where.size_bytes != sizeof(size_t))
            exit(EXIT_FAILURE);
        size_t offset;
        memcpy(&offset, where.data, sizeof offset);
        if (offset >
            4096 - ANSWER_BYTES) /* what comes from others is looked at before it is used */
            exit(EXIT_FAILURE);
        (void)printf("rank %u: %s\n", info.rank, (char *)ferry_buffer_data(answers) + offset);
        ferry_future_release(next);
    }
    /* When this has resolved nobody reads or writes the memory through the windows any more. */
    finish(ferry_window_close(cache_window), "closing the cache");
    finish(ferry_window_close(answer_window), "closing the answers");
    ferry_window_release(cache_window);
    ferry_window_release(answer_window);
    ferry_buffer_release(cache);
    ferry_buffer_release(answers);
}

/* ---- decode ---- */

static ferry_window *find(const char *name)
{
    ferry_window *window = NULL;
    finish(ferry_window_find(group, 0, name, 0, &window), name); /* also before it is opened */
    return window;
}

/* Pages that lie anywhere in the other one's cache come behind each other here: one batch. */
static void get_pages(ferry_window *window, ferry_buffer *buffer, const size_t wanted[WANTED])
{
    ferry_op ops[WANTED];
    for (size_t i = 0; i < WANTED; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_GET,
                            .window = window,
                            .window_offset = wanted[i] * PAGE_BYTES,
                            .dst = {buffer, i * PAGE_BYTES, PAGE_BYTES}};
    finish(ferry_batch(engine, ops, sizeof ops[0], WANTED, NULL, NULL), "getting pages");
}

static void decode(ferry_rank rank)
{
    ferry_buffer *buffer = allocate((size_t)WANTED * PAGE_BYTES), *answer = allocate(ANSWER_BYTES);
    const unsigned char *bytes = ferry_buffer_data(buffer);
    ferry_window *pages = find("kv/pages"), *answers = find("answers");
    size_t wanted[WANTED], wrong = 0;
    for (size_t i = 0; i < WANTED; i++)
        wanted[i] = (i * 13 + rank * 7) % PAGES;
    get_pages(pages, buffer, wanted);
    for (size_t i = 0; i < WANTED * (size_t)PAGE_BYTES; i++)
        wrong += bytes[i] != wanted[i / PAGE_BYTES];

    (void)snprintf(ferry_buffer_data(answer), ANSWER_BYTES, "%d pages, %zu bytes of them wrong",
                   WANTED, wrong);
    const size_t offset = rank * ANSWER_BYTES;
    ferry_future *put = ferry_put(answers, offset, ferry_buffer_span(answer), NULL);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &put; /* and after a failure nothing is said */
    options.after_count = 1;
    finish(ferry_notice_send(group, 0, &offset, sizeof offset, &options), "saying so");
    finish(put, "answering");
    ferry_window_release(pages);
    ferry_window_release(answers);
    ferry_buffer_release(buffer);
    ferry_buffer_release(answer);
    if (wrong != 0)
        exit(EXIT_FAILURE);
}

/* ---- a member ---- */

static void run(const char *store, ferry_rank rank)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "windows";
    options.size = 1 + DECODERS;
    options.rank = rank;
    options.has_rank = true;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK)
        exit(EXIT_FAILURE);
    finish(ferry_group_join(engine, &options, &group), "joining");
    if (rank == 0)
        prefill();
    else
        decode(rank);
    ferry_group_release(group);
    if (ferry_engine_shutdown(engine, -1) != FERRY_OK)
        exit(EXIT_FAILURE);
    ferry_engine_release(engine);
}

int main(void)
{
    char folder[] = "/tmp/ferry-windows-XXXXXX", store[64];
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof store, "file:%s", folder);
    for (ferry_rank rank = 1; rank <= DECODERS; rank++) {
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
