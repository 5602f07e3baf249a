/* SPDX-License-Identifier: Apache-2.0 */
/* A page of `ferry top`. */
#ifndef TOP_PAGE_H
#define TOP_PAGE_H

#include "tools/stats_model.h"

#include <stdio.h>

typedef struct top_view {
    const stats_model *before; /* of the same engine; NULL: there are no rates */
    const stats_model *now;
    json_t *dump; /* NULL: `no_dump` says why */
    const char *no_dump;
    size_t columns; /* lines are cut there; 0: they are not */
    size_t rows;    /* lines at most; 0: as many as there are, with some of the operations */
    bool is_live;   /* on a terminal: each page replaces the one before */
} top_view;

/* False: no memory for it. */
bool top_page_print(const top_view *view, FILE *to);

#endif
