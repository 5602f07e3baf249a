/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case as a sequence of steps, each of which does one thing on the scene or looks at it:
 *
 *     play("promise p; buffer a 100 of 1; buffer b 100 on 1;"
 *          "first = copy b <- a after p; expect first PENDING; keep p; expect first OK; bytes b
 * 1");
 *
 * Steps are split by semicolons or ends of lines, and their words by blanks. What is misspelt, or
 * names what is not there, fails the case as loudly as a look that is not so; the failure tells the
 * file, the line of the play, the number of the step and its words.
 *
 * A THING is made under a NAME, and the scene owns it (scene.h):
 *   buffer NAME SIZE [of BYTE] [on DEVICE]   filled with a byte, or with 0; on device 0
 *   promise NAME
 *   [NAME =] OPERATION [OPTION...]           without a name it is called "it"
 *
 * OPERATION is one of
 *   nop | call | call failing | copy SPAN <- SPAN | rows COUNT SPAN pitch N <- SPAN pitch N
 *   batch [each] OPERATION [OPTION...] , OPERATION [OPTION...] , with OPTION...
 *   all F... | any F... | issued F | quiet F | drain | writable        (these have no options)
 * a function of `call` counts its calls, and runs on the loop; a batch is one of nops, calls,
 * copies and rows, each set off by a comma between blanks, and `with` begins its own options; with
 * `each`, NAME0, NAME1 and so on are those of its operations. OPTION is one of
 *   after F... | reads SPAN | writes SPAN | changes SPAN | by hand | priority high|low | label WORD
 *   deadline N (nanoseconds after the scene's clock began)
 *
 * ACTS; each must answer FERRY_OK, or what stands behind a last word `gives`:
 *   keep P [STATUS]           resolves the promise and gives it back
 *   resolve P [STATUS [MESSAGE]]
 *   define SPAN [by F]
 *   cancel F...
 *   release NAME...           gives it back before the scene's end; a promise is broken
 *   step N                    the clock goes on by so many nanoseconds
 *   settle                    an embedded loop makes all the progress it can
 *   run [N]                   runs the oldest task that was posted `by hand`, or N of them; settled
 *                             before and after each
 *   fill SPAN BYTE
 *   waiter NAME on F [inline | by hand]   registers one that counts its calls
 *
 * LOOKS; but for `now` an embedded loop makes all the progress it can first:
 *   expect F... STATUS        a loop's thread is waited for, unless STATUS is PENDING
 *   now F... STATUS           as it is, with no progress made
 *   wait F... STATUS          the same, in ferry_future_wait
 *   cause F STATUS [of F]     of the error's cause, and which operation that is
 *   bytes SPAN BYTE           each of them; no progress is made
 *   healthy SPAN | poisoned SPAN
 *   posted N                  so many tasks wait to be run by hand
 *   calls N                   so many functions have run
 *   called NAME N             so often the waiter was; no progress is made
 *   timer N                   nanoseconds until the loop is due; -1 none; no progress is made
 *
 * F is the name of a future, or of a promise and stands for its future; P that of a promise; SPAN
 * the name of a buffer, for all of it, or name[BEGIN:END], in bytes; STATUS is without "FERRY_" and
 * "FERRY_E_". N may be negative.
 */
#ifndef FERRY_TESTS_PLAY_H
#define FERRY_TESTS_PLAY_H

#include "tests/support/scene.h"

/* Plays steps, which are made as by printf; the case fails where one of them does. */
#define play(...) play_at(__FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) void play_at(const char *file, int line, const char *format,
                                                   ...);

/* Plays steps for a test of this itself. NULL, or why they failed; until the next play. */
const char *play_try(const char *steps);

/* The span that such words name. */
__attribute__((format(printf, 1, 2))) ferry_span the_span(const char *format, ...);

#endif
