/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case written as a sequence of steps. Each step does one thing on the scene, or looks at it:
 *
 *     play("promise p; buffer a 100 of 1; buffer b 100; c = copy b <- a after p;"
 *          "expect c PENDING; keep p; expect c OK; bytes b 1");
 *
 * Semicolons or ends of lines separate steps, blanks separate words. A step that is misspelt, that
 * names what does not exist, or that looks for what is not so, fails the case. The failure says the
 * file, the line of the play, the number of the step and its words.
 *
 * THINGS are made under a NAME, and belong to the scene (scene.h):
 *   buffer NAME SIZE [of BYTE] [on DEVICE]   its bytes are 0 and its device is 0, if none is said
 *   promise NAME
 *   [NAME =] OPERATION [OPTION...]           its name is "it", if none is said
 *
 * An OPERATION is one of:
 *   nop
 *   call [failing]                counts its calls, or returns FERRY_E_FAILED; runs on the loop
 *   copy SPAN <- SPAN
 *   rows COUNT SPAN pitch N <- SPAN pitch N
 *   batch [each] OPERATION [OPTION...] , OPERATION [OPTION...] , with OPTION...
 *                                 of the four above; a comma stands between blanks. The options
 *                                 behind `with` are the batch's. With `each` the futures of its
 *                                 operations are NAME0, NAME1 and so on
 *   all F... | any F... | issued F | quiet F | drain | writable       these take no options
 *
 * An OPTION is one of:
 *   after F... | reads SPAN | writes SPAN | changes SPAN | label WORD | priority high|low
 *   untracked
 *   by hand                       a call runs when a step `run` says so
 *   deadline N                    in nanoseconds after START_NS, where an embedded scene's clock
 *                                 begins
 *
 * ACTS. Each must answer FERRY_OK, unless the step ends in `gives STATUS`:
 *   keep P [STATUS]               resolves the promise and releases it; P then names its future
 *   resolve P [STATUS [MESSAGE]]
 *   define SPAN [by F]
 *   cancel F...
 *   release NAME...               before the end of the scene; a promise is broken by it
 *   step N                        moves the clock on by N nanoseconds
 *   settle                        makes all the progress that an embedded loop can
 *   run [N]                       runs the oldest posted task, or N of them, and settles before and
 *                                 after each
 *   fill SPAN BYTE
 *   waiter NAME on F [WHERE]      registers a waiter that counts its calls; WHERE is `inline` or
 *                                 `by hand`
 *
 * LOOKS. Those marked * make all the progress that an embedded loop can first:
 *   expect F... STATUS       *    with a loop's own thread: waits, unless STATUS is PENDING
 *   now F... STATUS
 *   wait F... STATUS              by ferry_future_wait, without a time-out
 *   cause F STATUS [of F]    *    the cause of F's error has that status, and is of that operation
 *   bytes SPAN... BYTE            each byte of them
 *   healthy SPAN             *    a reader of it succeeds
 *   poisoned SPAN            *    a reader of it fails with FERRY_E_DEPENDENCY
 *   posted N                 *    so many tasks wait for `run`
 *   calls N                  *    so many functions have run
 *   called NAME N                 the waiter was called so often
 *   timer N                       ferry_engine_timeout_ns
 *
 * F names a future, or a promise, whose future it then is. P names a promise. A SPAN is the name of
 * a buffer, for the whole of it, or name[BEGIN:END] in bytes. A STATUS is a name without "FERRY_E_"
 * or "FERRY_". N may be negative.
 */
#ifndef FERRY_TESTS_PLAY_H
#define FERRY_TESTS_PLAY_H

#include "tests/support/scene.h"

/* Plays steps, which are made as by printf; the case fails where one of them does. Not within a
 * step of another play, that is in a callback which that step calls. */
#define play(...) play_at(__FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) void play_at(const char *file, int line, const char *format,
                                                   ...);

/* Plays steps for a test of this itself. NULL, or why they failed; until the next play. */
const char *play_try(const char *steps);

/* A step of a suite's own, by its first word; it takes the others as play_words.h says. */
typedef struct play_act {
    const char *word;
    bool (*perform)(void);
} play_act;

/* Plays know these steps too from now on; the array is borrowed. */
void play_add(const play_act *of_suite, size_t count);

/* The span that such words name. */
__attribute__((format(printf, 1, 2))) ferry_span the_span(const char *format, ...);

#endif
