/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a play that make an operation (play.h). */
#ifndef FERRY_TESTS_PLAY_MAKE_H
#define FERRY_TESTS_PLAY_MAKE_H

#include <stdbool.h>

/* Whether the word begins one. */
bool play_makes(const char *word);

/* Takes the words behind that word, and has the scene own the future under that name. */
bool play_make(const char *name, const char *word);

#endif
