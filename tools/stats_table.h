/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as a table for people. */
#ifndef STATS_TABLE_H
#define STATS_TABLE_H

#include "tools/stats_model.h"

#include <stdio.h>

void stats_table_print(const stats_model *model, FILE *to);

#endif
