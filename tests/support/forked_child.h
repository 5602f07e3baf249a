/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FORKED_CHILD_H
#define TESTS_SUPPORT_FORKED_CHILD_H

/*
 * malloc sees to its locks at a fork; AddressSanitizer does not (GCC 12; LLVM does since 18), and a
 * lock that another thread of the parent held is never given back in the child. So under it the
 * child of a process with threads may neither allocate nor load a library nor start a thread,
 * unless it calls exec; forked_child.c ends one that does, each time and not once in thousands.
 * ThreadSanitizer has the same locks, and ends such a child if it starts a thread.
 * stress/fork_own_engine.c does all of it where no other thread is left.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHILD_MAY_ALLOCATE false
#else
#define CHILD_MAY_ALLOCATE true
#endif

void forked_child_watch(void);

#endif
