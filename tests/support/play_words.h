/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of one step of a play (play.h): each function takes what comes next, or complains and
 * returns false, and then the step has failed. The first complaint stays.
 */
#ifndef FERRY_TESTS_PLAY_WORDS_H
#define FERRY_TESTS_PLAY_WORDS_H

#include "tests/support/scene.h"

/* Cuts the step into words. */
bool play_begin_step(const char *begin, size_t size_bytes);

/* All of its words must have been read; what it has borrowed is given back. */
bool play_end_step(void);

/* False. */
__attribute__((format(printf, 1, 2))) bool play_complain(const char *format, ...);

/* Of the step, or "". */
const char *play_complaint(void);

/* ---- words ---- */

/* The next word, or "". */
const char *play_peek(void);

/* Whether all words were taken, and whether all but one. */
bool play_is_read(void);
bool play_is_last(void);

const char *play_last_word(void);

/* The next word, of which there must be one; "" if there is none. */
const char *play_take(const char *what);

/* Takes the word if it comes next. */
bool play_skip(const char *word);

bool play_must(const char *word);
bool play_take_number(int64_t *number);
bool play_take_size(size_t *size);
bool play_find_status(const char *word, ferry_status *status);
bool play_take_status(ferry_status *status);

/* ---- things of the scene ---- */

bool play_is_future(const char *name);

/* A future, or that of a promise, until the end of the step; NULL: there is none. */
ferry_future *play_borrow_future(const char *name);
bool play_take_future(ferry_future **future);
bool play_take_promise(ferry_promise **promise, const char **name);

/* "name" or "name[begin:end]". */
bool play_parse_span(const char *word, ferry_span *span);
bool play_take_span(ferry_span *span);

/* Gives the thing to the scene. */
bool play_keep_as(scene_kind kind, void *thing, const char *name);

/* Whether a call has answered FERRY_OK, or what stands behind a last word `gives`. */
bool play_answered(ferry_status status);

#endif
