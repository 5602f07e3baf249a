/* SPDX-License-Identifier: Apache-2.0 */
/* The cases that ask NCCL, in a build where its headers were not: rows that say so. */
#include "bench/probe.h"

#include <math.h>

static void tell_absent(const probe_case *which)
{
    probe_row(which->name, NAN, "", PROBE_NONE, "built without nccl.h");
}

void probe_nccl_make(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_self(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_stuck(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_unmatched(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_two_ranks(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_two_hosts(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_rank(const probe_case *which)
{
    tell_absent(which);
}

void probe_nccl_capture_group(const probe_case *which)
{
    tell_absent(which);
}
