/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/progress_bar.h"

#include <stdio.h>
#include <unistd.h>

#define CELLS 32

void progress_bar_begin(progress_bar *bar, size_t total)
{
    *bar = (progress_bar){.total = total, .shown = isatty(STDERR_FILENO) == 1};
}

void progress_bar_show(const progress_bar *bar, const char *what)
{
    if (!bar->shown)
        return;
    char cells[CELLS + 1];
    size_t full = bar->done * CELLS / bar->total;
    for (size_t i = 0; i < CELLS; i++)
        cells[i] = i < full ? '#' : '.';
    cells[CELLS] = '\0';
    fprintf(stderr, "\r[%s] %3zu%%  %-24.24s", cells, bar->done * 100 / bar->total, what);
    fflush(stderr);
}

void progress_bar_advance(progress_bar *bar)
{
    if (bar->done < bar->total)
        bar->done++;
}

void progress_bar_end(progress_bar *bar)
{
    if (bar->shown)
        fputs("\r\033[K", stderr);
    bar->shown = false;
}
