/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/reach.h"

#include <fnmatch.h>
#include <string.h>

const bench_reach *bench_reach_find(const bench_key *key)
{
    for (size_t i = 0; i < bench_reach_count; i++) {
        const bench_key *wanted = &bench_reaches[i].key;
        if (strcmp(wanted->bench, key->bench) == 0 && strcmp(wanted->metric, key->metric) == 0 &&
            fnmatch(wanted->shape, key->shape, 0) == 0 &&
            fnmatch(wanted->rival, key->rival, 0) == 0)
            return &bench_reaches[i];
    }
    return NULL;
}

bool bench_reach_is_met(const bench_reach *reach, double value)
{
    return reach->is_least ? value >= reach->limit : value <= reach->limit;
}
