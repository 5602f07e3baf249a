/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that goes with the test, also if that is killed. */
#ifndef FERRY_TESTS_TEMPORARY_FOLDER_H
#define FERRY_TESTS_TEMPORARY_FOLDER_H

#define TEMPORARY_FOLDER_BYTES 64

/*
 * Makes a folder below /tmp and a process that removes it, whatever is in it then, once the caller
 * and all children that it has forked since are gone. Call it before threads are made.
 */
void temporary_folder_make(char path[TEMPORARY_FOLDER_BYTES]);

/* Removes a folder and what is in it, now. */
void temporary_folder_remove(const char *path);

#endif
