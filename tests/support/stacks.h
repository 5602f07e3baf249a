/* SPDX-License-Identifier: Apache-2.0 */
/* Where the threads of processes stand, for tests that wait in vain. */
#ifndef TESTS_SUPPORT_STACKS_H
#define TESTS_SUPPORT_STACKS_H

#include <sys/types.h>

/* Writes to stderr where each thread of a process stands: with a debugger its stack, else what the
 * kernel says. Then the same of the process's children, theirs, and so on. Any process may be asked
 * for that the caller may trace; it goes on afterwards. */
void stacks_show(pid_t pid);

#endif
