/* SPDX-License-Identifier: Apache-2.0 */
/* A runner for Criterion's tests: the macros, assertions and their texts are Criterion's, the
 * processes are not.
 *
 * Why not Criterion's own runner. Suites were seen to hang on loaded machines, mostly under
 * AddressSanitizer, with nothing of ferry's at work. That runner has three threads beside its main
 * one (nanomsg's, one that waits for tests' ends, one for time-outs), talks with the tests by a
 * protocol, and forks each test's process out of all that. In version 2.4.1, which Debian 12 has,
 * its code can stop for ever in three ways; which of them it was nobody has caught in the act (some
 * 2,500 runs beside 8 to 16 busy processes passed):
 * - between fork and exec the child calls malloc, getenv and opendir. glibc's allocator bears that,
 *   AddressSanitizer's of GCC 12 does not (LLVM mended it in version 18): if another thread was
 *   inside at that moment, the child waits for a lock whose holder it does not have, and the runner
 *   waits for the child;
 * - the main thread waits for the end of a test that was never heard of as begun, while the thread
 *   that tells that end waits for an answer of the main thread (mended in 2.4.2: "core: fix
 * deadlock in overloaded scenarios");
 * - a time-out comes while its test ends: the thread for time-outs holds their lock and waits for
 * the test's, the one that tells the end holds that and waits for the main thread's answer, and the
 *   main thread, which starts the next test, waits for the lock of the time-outs.
 *
 * So this runner has one thread, and a test is a plain fork of it. Nothing passes between the two
 * but the test's exit status and a note in shared memory. What a test's process prints goes out at
 * once. A test that takes too long has its threads' stacks shown before it is killed. */
#ifndef TESTS_SUPPORT_SUITE_H
#define TESTS_SUPPORT_SUITE_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdbool.h>
#include <stdint.h>

/* How far a test's process has come. Only forwards; it alone writes it. */
typedef enum suite_stage {
    SUITE_BEGUN,
    SUITE_SKIPPED, /* it has said why */
    SUITE_ENDED,   /* its last line was reached, or an assertion has ended it */
} suite_stage;

/* In memory that the runner and the test's process share. */
typedef struct suite_note {
    _Atomic uint32_t stage; /* suite_stage */
    _Atomic uint32_t failed_asserts;
    char reason[256]; /* if it was skipped */
} suite_note;

typedef struct suite_case {
    const struct criterion_test *test;
    const struct criterion_suite *suite; /* NULL: no TestSuite names it */
    void *parameter;                     /* of a parameterized test */
    char name[160];                      /* suite/test, with [i] for the i-th parameter */
    double timeout_s;                    /* on a machine with nothing else to do */
} suite_case;

/* In a test's process, with its set-up and take-down: whether an assertion has failed. */
bool suite_has_failed(void);

/* Runs a test in the calling process, which it ends. */
_Noreturn void suite_case_run(const suite_case *chosen, suite_note *note);

#endif
