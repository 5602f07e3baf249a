/* SPDX-License-Identifier: Apache-2.0 */
/* A member's part in `reshard`: a matrix that lies by rows comes to lie by columns. */
#ifndef FRY_BENCH_MEMBER_RESHARD_H
#define FRY_BENCH_MEMBER_RESHARD_H

#include <ferry/ferry.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Moves a matrix of so many MiB, by a plan and by gathering it at rank 0 and scattering it, in
 * turns, and prints "plan_us=U gather_us=U": medians. All members call it at once.
 *  has_runs  it is one of blocks, as many each way as there are members, each in one run: nothing
 *            has to be packed
 */
void bench_member_reshard(ferry_group *group, size_t mebibytes, size_t rounds, bool has_runs);

#endif
