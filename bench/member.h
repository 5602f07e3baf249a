/* SPDX-License-Identifier: Apache-2.0 */
/* Ferry's end of what takes several processes: this program, started again as `ferry_bench member`.
 */
#ifndef FRY_BENCH_MEMBER_H
#define FRY_BENCH_MEMBER_H

#include "bench/processes.h"

#include <stdint.h>

/* The word that makes this program a member. */
#define BENCH_MEMBER "member"

/*
 * main() of a member. Arguments "name=value": store, size, rank, window. It prints "ready", and
 * joins when told "join"; prints "joined at=NS". Then it takes lines and answers each with one:
 *
 *  barrier N         N in a row: "median_us=U"
 *  set N             as many times a value of its own: "median_us=U"
 *  touch             a message each way with the other of two: "touched"
 *  idle SECONDS      "cpu_s=S", that it used meanwhile
 *  overlap N BYTES LOOPS   N rounds (a message out, one in, computing): "median_us=U"
 *  order N BYTES     of two: N tags, received in order and not: "in_order_us=U random_us=U"
 *  reshard MIB N R   a matrix by rows comes to lie by columns: "plan_us=U gather_us=U"; with R of
 *                    blocks that are runs
 *  end               leaves
 */
int bench_member_main(int argc, char **argv);

/* Starts one. Its link is for two that run overlap or order; -1: none. */
bench_process bench_member_start(const char *store, uint32_t size, uint32_t rank, uint32_t window,
                                 int link_fd);

/* Tells all to join; returns the nanoseconds until the last has. */
int64_t bench_members_join(bench_process *members, uint32_t count);

/* Tells all a line; the number of a name in what the slowest answers. */
double bench_members_do(bench_process *members, uint32_t count, const char *line, const char *name);

void bench_members_end(bench_process *members, uint32_t count);

/* Two with a link between them, joined. */
void bench_members_pair(bench_process members[2], const char *store, uint32_t window);

#endif
