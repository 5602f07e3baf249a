/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for Prometheus, in its text format 0.0.4. */
#ifndef STATS_PROMETHEUS_H
#define STATS_PROMETHEUS_H

#include "tools/stats_model.h"

#include <stdio.h>

void stats_prometheus_print(const stats_model *model, FILE *to);

#endif
