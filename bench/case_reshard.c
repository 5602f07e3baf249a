/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reshard: what it takes to compute one on paper, of a thousand members to as many, and how long
 * the bytes of one take among four processes, beside gathering and scattering them.
 */
#include "bench/bench.h"
#include "bench/member.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define SIDE ((uint64_t)65536)

/* A mesh of 32 by 32, or of 1,024, and what of it splits the two dimensions of a matrix. */
typedef struct shape {
    const char *name;
    const char *from[2], *to[2]; /* an axis each, or NULL */
    ferry_rank first_to;         /* whose is the first position of the mesh `to` */
} shape;

static const shape shapes[] = {
    {"rows-columns", {"all", NULL}, {NULL, "all"}, 0},
    {"transposed", {"data", "model"}, {"model", "data"}, 0},
    {"replicated-split", {"data", NULL}, {"model", "data"}, 0},
    {"split-replicated", {"model", "data"}, {NULL, "data"}, 0},
    {"others", {"data", "model"}, {"data", "model"}, 1024},
};

static ferry_layout layout_of(const char *const names[2], ferry_split splits[2],
                              ferry_rank ranks[1024], ferry_rank first)
{
    static const ferry_mesh_axis one[] = {{"all", 1024}}, two[] = {{"data", 32}, {"model", 32}};
    bool is_one = names[0] != NULL ? *names[0] == 'a' : *names[1] == 'a';
    for (uint32_t i = 0; i < 1024; i++)
        ranks[i] = first + i;
    for (size_t d = 0; d < 2; d++)
        splits[d] = (ferry_split){&names[d], names[d] != NULL};
    return (ferry_layout){
        sizeof(ferry_layout), is_one ? one : two, is_one ? 1 : 2, ranks, 1024, splits, 2};
}

static double bytes_in_use(void)
{
    struct mallinfo2 now = mallinfo2();
    return (double)now.uordblks + (double)now.hblkhd;
}

static void plan_on_paper(const shape *of, bool is_quick)
{
    static ferry_rank ranks[2][1024];
    ferry_split splits[2][2];
    const ferry_layout from = layout_of(of->from, splits[0], ranks[0], 0);
    const ferry_layout to = layout_of(of->to, splits[1], ranks[1], of->first_to);
    const uint64_t sides[] = {SIDE, SIDE};
    bench_samples duration = {0};
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    double bytes = 0;
    for (int i = 0; i < (is_quick ? 3 : 11); i++) {
        ferry_reshard *reshard = NULL;
        double before = bytes_in_use();
        int64_t begin_ns = bench_now_ns();
        bench_check(ferry_reshard_create(sides, 2, 4, &from, &to, &reshard, NULL), "a reshard");
        bench_samples_add(&duration, (double)(bench_now_ns() - begin_ns));
        bytes = bytes_in_use() - before;
        bench_check(ferry_reshard_describe(reshard, &info), "a reshard's figures");
        ferry_reshard_release(reshard);
    }
    double moves = (double)info.move_count;
    bench_report((bench_key){"reshard", of->name, "duration_ns", ""}, &duration);
    bench_report_value((bench_key){"reshard", of->name, "ns_per_node", ""},
                       bench_samples_quantile(&duration, 0.5) / moves);
    bench_report_value((bench_key){"reshard", of->name, "bytes_per_node", ""}, bytes / moves);
    bench_report_value((bench_key){"reshard", of->name, "ratio", "bound"},
                       (double)info.busiest_bytes / (double)info.bound_bytes);
    bench_samples_free(&duration);
}

enum { MEMBERS = 4 };

/* What four processes took to move so many MiB, in microseconds, by the slowest. */
typedef struct took {
    double plan_us, gather_us, mesh_us; /* mesh: raw UCX; 0: it is not here */
} took;

static double most(double left, double right)
{
    return left > right ? left : right;
}

static took move_once(bench_process members[MEMBERS], size_t mebibytes, bool has_runs)
{
    took all = {0};
    char line[64], path[4096];
    (void)snprintf(line, sizeof line, "reshard %zu 5 %d", mebibytes, has_runs);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        bench_process_tell(&members[rank], line);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        const char *text = bench_process_line(&members[rank]);
        all.plan_us = most(all.plan_us, bench_text_number(text, "plan_us"));
        all.gather_us = most(all.gather_us, bench_text_number(text, "gather_us"));
    }
    bench_find_program(path, sizeof path, "bench_ucx_mesh");
    if (*path == '\0')
        return all;
    (void)snprintf(line, sizeof line, "%zu", mebibytes);
    bench_command command = BENCH_COMMAND_INIT;
    command.arguments[0] = path;
    command.arguments[1] = line;
    command.set = "UCX_TLS=self,posix,sysv,cma";
    bench_process rival = bench_process_start(&command);
    all.mesh_us = bench_text_number(bench_process_end(&rival), "mesh_us");
    return all;
}

/* Four processes of this machine have all of it by rows, and then by columns: of elements, which
 * are packed, or of blocks that lie in one run. */
static void move_bytes(bool is_quick, bool has_runs)
{
    char folder[BENCH_FOLDER_BYTES], uri[BENCH_FOLDER_BYTES + 8], name[32];
    bench_process members[MEMBERS];
    bench_samples plan = {0}, gather = {0}, mesh = {0};
    bench_samples by_gather = {.larger_is_better = true}, by_mesh = {.larger_is_better = true};
    size_t mebibytes = is_quick ? 64 : 1024;
    bench_folder_make(folder);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        members[rank] = bench_member_start(uri, MEMBERS, rank, 1024, -1);
    (void)bench_members_join(members, MEMBERS);
    for (int i = 0; i < (is_quick ? 1 : 5); i++) {
        took all = move_once(members, mebibytes, has_runs);
        bench_samples_add(&plan, all.plan_us * 1e3);
        bench_samples_add(&gather, all.gather_us * 1e3);
        bench_samples_add(&by_gather, all.gather_us / all.plan_us);
        bench_samples_add(&mesh, all.mesh_us * 1e3);
        bench_samples_add(&by_mesh, all.mesh_us / all.plan_us);
    }
    bench_members_end(members, MEMBERS);
    bench_folder_remove(folder);
    bench_size_name(name, sizeof name, mebibytes << 20);
    (void)strcat(name, has_runs ? "-runs" : "-packed");
    bench_report((bench_key){"reshard", name, "duration_ns", ""}, &plan);
    bench_report((bench_key){"reshard", name, "duration_ns", "gather and scatter"}, &gather);
    bench_report((bench_key){"reshard", name, "ratio", "gather and scatter"}, &by_gather);
    if (bench_samples_quantile(&mesh, 0.5) > 0) {
        bench_report((bench_key){"reshard", name, "duration_ns", "raw UCX"}, &mesh);
        bench_report((bench_key){"reshard", name, "ratio", "raw UCX"}, &by_mesh);
    }
    bench_samples_free(&plan);
    bench_samples_free(&gather);
    bench_samples_free(&mesh);
    bench_samples_free(&by_gather);
    bench_samples_free(&by_mesh);
}

void bench_reshard(bool is_quick)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        plan_on_paper(&shapes[i], is_quick);
    move_bytes(is_quick, false);
    move_bytes(is_quick, true);
}
