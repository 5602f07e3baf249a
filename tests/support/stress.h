/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plain programs of tests/stress share: a check that ends the program, its end when it
 * hangs, threads, random numbers that a seed decides, and seeds on the command line.
 */
#ifndef TESTS_SUPPORT_STRESS_H
#define TESTS_SUPPORT_STRESS_H

#include "tests/support/patience.h"

#include <errno.h>
#include <ferry/ferry.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the program is at, for example a seed: a check that fails says it, and so does a hang. */
static char stress_place[128] = "the beginning";

__attribute__((format(printf, 1, 2))) static inline void now_at(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(stress_place, sizeof stress_place, format, arguments);
    va_end(arguments);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: at %s: not so: %s\n", __FILE__, __LINE__, stress_place,  \
                          #condition);                                                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline void stress_hung(int signal)
{
    char line[256];
    (void)signal;
    int length = snprintf(line, sizeof line, "%s: hung at %s\n", program_invocation_short_name,
                          stress_place);
    (void)!write(STDERR_FILENO, line, (size_t)length);
    abort();
}

/* The program says that it hangs and ends, after so long from now and much PATIENCE. */
static inline void end_if_hung(unsigned seconds)
{
    CHECK(signal(SIGALRM, stress_hung) != SIG_ERR);
    (void)alarm(seconds * PATIENCE);
}

/* Before the first engine. UCX's hooks in madvise take locks in threads that ThreadSanitizer has
 * taken leave of. */
static inline void spare_ucx_hooks(void)
{
#if defined(__SANITIZE_THREAD__)
    (void)setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
    (void)setenv("UCX_MEM_EVENTS", "n", 1);
#endif
}

static inline void no_log(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static inline pthread_t start_thread(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fn, arg) == 0);
    return thread;
}

static inline void join_thread(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

/* So long from now, by the clock of deadlines. */
static inline int64_t in_ns(int64_t left_ns)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + left_ns;
}

/* A number below the bound; *random decides it, and the next ones. It is never 0. */
static inline uint32_t below(uint64_t *random, uint32_t bound)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)((*random >> 32) * bound >> 32);
}

/* The nth number that the program was given. */
static inline uint64_t given_number(int argc, char **argv, int nth, uint64_t otherwise)
{
    return argc > nth ? strtoull(argv[nth], NULL, 10) : otherwise;
}

typedef struct seeds {
    uint64_t count, first, times;
    unsigned hang_s; /* of one */
} seeds;

/* PROGRAM [COUNT [FIRST [TIMES]]]: so many seeds, each so often, in place of *s, which becomes what
 * was run. A seed that fails or hangs is named. */
static inline void run_seeds(int argc, char **argv, seeds *s, void (*run)(uint64_t seed))
{
    s->count = given_number(argc, argv, 1, s->count);
    s->first = given_number(argc, argv, 2, s->first);
    s->times = given_number(argc, argv, 3, s->times > 0 ? s->times : 1);
    for (uint64_t i = 0; i < s->count * s->times; i++) {
        uint64_t seed = s->first + i / s->times;
        now_at("seed %llu", (unsigned long long)seed);
        end_if_hung(s->hang_s);
        run(seed);
    }
    (void)alarm(0);
}

#endif
