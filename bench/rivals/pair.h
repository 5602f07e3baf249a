/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that run as a pair of processes share: arguments, time, and a channel to agree on.
 */
#ifndef FRY_BENCH_RIVALS_PAIR_H
#define FRY_BENCH_RIVALS_PAIR_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAIR_LINK_FD 3 /* a socket to the other end */

static inline double pair_now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

_Noreturn static inline void pair_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    _Exit(1);
}

/* "name=value" among the arguments; NULL: not there. */
static inline const char *pair_text(int argc, char **argv, const char *name)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    }
    return NULL;
}

static inline size_t pair_number(int argc, char **argv, const char *name, size_t otherwise)
{
    const char *text = pair_text(argc, argv, name);
    return text ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

/* All of it, over the socket. */
static inline void pair_tell(const void *bytes, size_t size)
{
    if (write(PAIR_LINK_FD, bytes, size) != (ssize_t)size)
        pair_fail("telling the other end", "it is gone");
}

static inline void pair_hear(void *bytes, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t more = read(PAIR_LINK_FD, (char *)bytes + got, size - got);
        if (more <= 0)
            pair_fail("hearing the other end", "it is gone");
        got += (size_t)more;
    }
}

/* Whether the other end has told something that was not heard yet. */
static inline bool pair_has_news(void)
{
    struct pollfd link = {.fd = PAIR_LINK_FD, .events = POLLIN};
    return poll(&link, 1, 0) != 0;
}

static inline void pair_meet(void)
{
    char byte = 0;
    pair_tell(&byte, 1);
    pair_hear(&byte, 1);
}

static inline int pair_compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static inline double pair_median(double *values, size_t count)
{
    qsort(values, count, sizeof(double), pair_compare);
    return values[count / 2];
}

/* Work that touches little memory. The sum goes where the compiler can't see, so it is made. */
static inline void pair_compute(size_t loops)
{
    double sum = 0;
    double factor = 1.0000001;
    for (size_t i = 0; i < loops; i++) {
        sum += factor;
        factor *= 0.99999999;
    }
    __asm__ volatile("" : : "g"(&sum) : "memory");
}

#endif
