/* SPDX-License-Identifier: Apache-2.0 */
/* What a plain program checks: it says where something is not so, and ends. */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK_OR(condition, end)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            end;                                                                                   \
        }                                                                                          \
    } while (0)

#define CHECK(condition) CHECK_OR(condition, exit(EXIT_FAILURE))

/* In any thread, and where it stands is to be seen. */
#define MUST(condition) CHECK_OR(condition, abort())

/* The call gives that number. */
#define GIVES(call, expected)                                                                      \
    do {                                                                                           \
        long long given_ = (long long)(call);                                                      \
        if (given_ != (long long)(expected)) {                                                     \
            (void)fprintf(stderr, "%s:%d: %s gives %lld, not %lld\n", __FILE__, __LINE__, #call,   \
                          given_, (long long)(expected));                                          \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

#define OK(call) GIVES(call, 0)

#endif
