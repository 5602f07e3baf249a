/* SPDX-License-Identifier: Apache-2.0 */
/* join, barrier, members-idle: groups of many processes on this machine, over file: and etcd. */
#include "bench/bench.h"
#include "bench/member.h"

#include <stdio.h>
#include <string.h>

#define MEMBERS_MAX 64
#define WINDOW 1024

typedef struct meeting {
    const char *name; /* of the sort of store, for rows */
    const char *uri;
    bool is_quick;
} meeting;

/* Each group has a store of its own, so that nothing of the one before is there. */
static void each_store(bool is_quick, void (*run)(const meeting *meeting))
{
    char folder[BENCH_FOLDER_BYTES];
    char uri[BENCH_FOLDER_BYTES + 8];
    bench_folder_make(folder);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
    run(&(meeting){"file", uri, is_quick});
    bench_folder_remove(folder);
    bench_etcd etcd;
    if (bench_etcd_start(&etcd)) {
        run(&(meeting){"etcd", etcd.uri, is_quick});
        bench_etcd_stop(&etcd);
    } else {
        (void)fprintf(stderr, "ferry_bench: etcd is not here\n");
    }
}

static void open_members(bench_process *members, const meeting *meeting, uint32_t count,
                         bench_samples *join_ns)
{
    for (uint32_t rank = 0; rank < count; rank++)
        members[rank] = bench_member_start(meeting->uri, count, rank, WINDOW, -1);
    bench_samples_add(join_ns, (double)bench_members_join(members, count));
}

static void run_joins(const meeting *meeting)
{
    static const uint32_t counts[] = {2, 64};
    for (size_t i = 0; i < 2; i++) {
        bench_process members[MEMBERS_MAX];
        bench_samples join_ns = {0};
        char shape[32];
        for (int run = 0; run < (meeting->is_quick ? 1 : 3); run++) {
            open_members(members, meeting, counts[i], &join_ns);
            bench_members_end(members, counts[i]);
        }
        (void)snprintf(shape, sizeof shape, "%s-%u", meeting->name, (unsigned)counts[i]);
        bench_report((bench_key){"join", shape, "duration_ns", ""}, &join_ns);
        bench_samples_free(&join_ns);
    }
}

/*
 * A barrier beside what it is made of: all members set a value of their own at the same time, which
 * is one round trip to the store for each.
 */
static void run_barriers(const meeting *meeting)
{
    static const uint32_t counts[] = {2, 8, 64};
    for (size_t i = 0; i < 3; i++) {
        bench_process members[MEMBERS_MAX];
        bench_samples join_ns = {0};
        bench_samples barrier_ns = {0};
        bench_samples set_ns = {0};
        char shape[32];
        const char *barrier = counts[i] == 64 ? "barrier 5" : "barrier 50";
        const char *set = counts[i] == 64 ? "set 5" : "set 50";
        open_members(members, meeting, counts[i], &join_ns);
        (void)bench_members_do(members, counts[i], barrier, "median_us");
        for (int run = 0; run < (meeting->is_quick ? 1 : 3); run++) {
            bench_samples_add(&barrier_ns,
                              bench_members_do(members, counts[i], barrier, "median_us") * 1e3);
            bench_samples_add(&set_ns,
                              bench_members_do(members, counts[i], set, "median_us") * 1e3);
        }
        bench_members_end(members, counts[i]);
        (void)snprintf(shape, sizeof shape, "%s-%u", meeting->name, (unsigned)counts[i]);
        bench_report((bench_key){"barrier", shape, "latency_ns", ""}, &barrier_ns);
        bench_report((bench_key){"barrier", shape, "latency_ns", "round trip"}, &set_ns);
        bench_report_value((bench_key){"barrier", shape, "ratio", "round trip"},
                           bench_samples_quantile(&barrier_ns, 0.5) /
                               bench_samples_quantile(&set_ns, 0.5));
        bench_samples_free(&join_ns);
        bench_samples_free(&barrier_ns);
        bench_samples_free(&set_ns);
    }
}

/* Two members whose connection is there, and who then do nothing. */
static void run_idle(const meeting *meeting)
{
    bench_process members[2];
    char line[32];
    int seconds = meeting->is_quick ? 3 : 60;
    bench_members_pair(members, meeting->uri, WINDOW);
    (void)bench_members_do(members, 2, "touch", "took_us");
    (void)snprintf(line, sizeof line, "idle %d", seconds);
    double most_s = bench_members_do(members, 2, line, "cpu_s");
    bench_members_end(members, 2);
    bench_report_value((bench_key){"members-idle", meeting->name, "cpu_share", ""},
                       most_s / seconds);
}

void bench_join(bool is_quick)
{
    each_store(is_quick, run_joins);
}

void bench_barrier(bool is_quick)
{
    each_store(is_quick, run_barriers);
}

void bench_members_idle(bool is_quick)
{
    each_store(is_quick, run_idle);
}
