/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that run as several processes: the parent starts and watches them, and has no engine and
 * no other thread. Children have the signal mask that the parent came with.
 */
#ifndef CHILD_PROCESS_H
#define CHILD_PROCESS_H

#include <sys/types.h>

#define CHILD_FOLDER_BYTES 4096

typedef struct child_process {
    int (*run)(void *arg); /* in the child; its exit status */
    void *arg;
    char name[64]; /* for messages */
    pid_t pid;     /* out; 0: not running */
    int result;    /* out: exit status, or 128 and the signal that ended it */
} child_process;

/*
 * Runs them all and waits for their ends. When one fails, or a signal comes, the others have some
 * seconds to see it by themselves, then are ended. They die with the parent. Returns 0, or the exit
 * status of the first that failed, after a message on stderr if a signal ended it; if others failed
 * because a signal ended one, that one's.
 */
int children_run(child_process *children, int count);

/* A folder of its own for a store, and its end with all that is in it. */
int child_folder_make(char folder[CHILD_FOLDER_BYTES]);
void child_folder_remove(const char *folder);

#endif
