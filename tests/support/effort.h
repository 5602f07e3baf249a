/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the same a test does. */
#ifndef TESTS_SUPPORT_EFFORT_H
#define TESTS_SUPPORT_EFFORT_H

/* Of a group's options. A connection's tables are 28 MB for what is there by default, 65,536, and
 * tests' allocators fill all they give out; who is not about that many asks for so few. */
#define UNEXPECTED_FEW 4096

/* Of seeds that say all that happens, so that a build does what another does: a sanitizer, which
 * makes each several times as slow, looks for what it alone sees in the first of them. */
#if defined(__SANITIZE_THREAD__)
#define SEEDS_OF(count) (((count) + 9) / 10)
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS_OF(count) (((count) + 2) / 3)
#else
#define SEEDS_OF(count) (count)
#endif

#endif
