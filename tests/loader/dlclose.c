/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that opens the library and closes it, again and again, while threads that have used it
 * live on and end later: their end must find the library's code, and the process must not run out
 * of what the loader or the C library has few of. Linked with nothing of ferry's; argument: the
 * path of libferry.so. Exit 0: everything held.
 */
#include <dlfcn.h>
#include <ferry/ferry.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 200
#define USERS 3
#define KEYS_MAX 4096

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define FIND(function) ((__typeof__(&(function)))find(#function))

static struct {
    void *library;
    ferry_engine *engine;
    pthread_barrier_t turn;
} run;

static void *find(const char *name)
{
    void *symbol = dlsym(run.library, name);
    CHECK(symbol != NULL);
    return symbol;
}

/* How many more thread-specific keys the process could make. */
static size_t keys_left(void)
{
    static pthread_key_t keys[KEYS_MAX];
    size_t count = 0;
    while (count < KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0)
        count++;
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_key_delete(keys[i]) == 0);
    return count;
}

/* Uses the engine, lets main close the library, and ends. */
static void *use(void *arg)
{
    (void)arg;
    ferry_future *nop = FIND(ferry_nop)(run.engine, NULL);
    CHECK(FIND(ferry_future_wait)(nop, -1) == FERRY_OK);
    FIND(ferry_future_release)(nop);
    (void)pthread_barrier_wait(&run.turn);
    (void)pthread_barrier_wait(&run.turn);
    return NULL;
}

static void go_round(const char *path, ferry_loop_mode loop)
{
    run.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (run.library == NULL)
        (void)fprintf(stderr, "%s\n", dlerror());
    CHECK(run.library != NULL);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    CHECK(FIND(ferry_engine_create)(&options, &run.engine, NULL) == FERRY_OK);
    pthread_t users[USERS];
    for (int i = 0; i < USERS; i++)
        CHECK(pthread_create(&users[i], NULL, use, NULL) == 0);
    (void)pthread_barrier_wait(&run.turn); /* all have used it */
    CHECK(FIND(ferry_engine_shutdown)(run.engine, -1) == FERRY_OK);
    FIND(ferry_engine_release)(run.engine);
    CHECK(dlclose(run.library) == 0);
    (void)pthread_barrier_wait(&run.turn); /* and end */
    for (int i = 0; i < USERS; i++)
        CHECK(pthread_join(users[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(pthread_barrier_init(&run.turn, NULL, USERS + 1) == 0);
    go_round(argv[1], FERRY_LOOP_THREAD); /* what is made once */
    size_t before = keys_left();
    CHECK(before > 0);
    for (int i = 0; i < ROUNDS; i++)
        go_round(argv[1], i % 2 == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED);
    CHECK(keys_left() == before);
    return 0;
}
