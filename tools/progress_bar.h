/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on stderr, drawn only when stderr is a terminal. One thread. */
#ifndef PROGRESS_BAR_H
#define PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct progress_bar {
    size_t done;
    size_t total; /* at least 1 */
    bool shown;
} progress_bar;

void progress_bar_begin(progress_bar *bar, size_t total);

/* Draws the bar with what is being done now (a few words). */
void progress_bar_show(const progress_bar *bar, const char *what);

/* One more is done. */
void progress_bar_advance(progress_bar *bar);

/* Takes the bar off the terminal again. */
void progress_bar_end(progress_bar *bar);

#endif
