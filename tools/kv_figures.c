/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_figures.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

void kv_times_add(kv_times *times, int64_t time_ns)
{
    double place = time_ns > 1000 ? log2((double)time_ns / 1000) * KV_STEPS : 0;
    times->counts[place < KV_BUCKETS - 1 ? (size_t)place : KV_BUCKETS - 1]++;
}

void kv_times_sum(kv_times *sum, const kv_times *times)
{
    for (size_t i = 0; i < KV_BUCKETS; i++)
        sum->counts[i] += times->counts[i];
}

double kv_times_quantile_us(const kv_times *times, double share)
{
    uint64_t count = 0;
    for (size_t i = 0; i < KV_BUCKETS; i++)
        count += times->counts[i];
    if (count == 0)
        return 0;
    double left = share * (double)count;
    size_t i = 0;
    for (; i < KV_BUCKETS - 1 && left > times->counts[i]; i++)
        left -= times->counts[i];
    return exp2(((double)i + 0.5) / KV_STEPS); /* the middle of its bucket */
}

uint64_t kv_resident_bytes(void)
{
    unsigned long long size = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    int count = file ? fscanf(file, "%llu %llu", &size, &resident) : 0;
    if (file)
        (void)fclose(file);
    return count == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
