/* SPDX-License-Identifier: Apache-2.0 */
/* All cases, in the order in which they are tried: what decides most comes first. */
#include "bench/probe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Never ends; for the test that ends it. */
static void hang(const probe_case *which)
{
    (void)which;
    for (;;)
        (void)pause();
}

const probe_case probe_cases[] = {
    {"room-1stream-8conn", "room", probe_room, 8, 8, 0, 1, false},
    {"room-4streams-8conn", "room", probe_room, 8, 8, 0, 4, false},
    {"room-1stream-32conn", "room", probe_room, 8, 32, 0, 1, false},
    {"room-4streams-32conn", "room", probe_room, 8, 32, 0, 4, false},
    {"hol-8conn", "hol", probe_head_of_line, 8, 8, 0, 0, false},
    {"hol-32conn", "hol", probe_head_of_line, 8, 32, 0, 0, false},
    {"hol-8conn-32copy", "hol", probe_head_of_line, 8, 8, 32, 0, false},
    {"hol-32conn-32copy", "hol", probe_head_of_line, 8, 32, 32, 0, false},
    {"free", "free", probe_free, 10, 0, 0, 0, false},
    {"exit-words", "exit", probe_exit, 6, 0, 0, 0, false},
    {"exit-query", "exit", probe_exit, 6, 0, 0, 1, false},
    {"exit-own", "exit", probe_exit, 6, 0, 0, 2, false},
    {"visible-same", "visible", probe_visible, 9, 0, 0, 0, false},
    {"visible-teller", "visible", probe_visible, 9, 0, 0, 1, false},
    {"late", "late", probe_late, 6, 0, 0, 0, false},
    {"teller-8conn", "teller", probe_teller, 8, 8, 0, 0, false},
    {"teller-32conn", "teller", probe_teller, 8, 32, 0, 0, false},
    {"gap", "gap", probe_gap, 6, 0, 0, 0, false},
    {"bubble-h2d", "bubble", probe_bubble, 10, 0, 0, PROBE_H2D, false},
    {"bubble-d2h", "bubble", probe_bubble, 10, 0, 0, PROBE_D2H, false},
    {"bubble-d2d", "bubble", probe_bubble, 10, 0, 0, PROBE_D2D, false},
    {"attributes", "memory", probe_attributes, 5, 0, 0, 0, false},
    {"pitch", "memory", probe_pitch, 8, 0, 0, 0, false},
    {"contexts", "memory", probe_contexts, 5, 0, 0, 0, false},
    {"capture", "capture", probe_capture, 5, 0, 0, 0, false},
    {"current", "current", probe_current, 5, 0, 0, 0, false},
    {"batch", "batch", probe_batch, 6, 0, 0, 0, false},
    {"calls-idle", "calls", probe_calls, 10, 0, 0, 0, false},
    {"calls-busy", "calls", probe_calls, 10, 0, 0, 1, false},
    {"ipc", "ipc", probe_ipc, 8, 0, 0, 0, false},
    {"share-order", "share", probe_share_order, 8, 0, 0, 0, false},
    {"share-free", "share", probe_share_free, 8, 0, 0, 0, false},
    {"share-die", "share", probe_share_die, 10, 0, 0, 0, false},
    {"share-die-reader", "share", probe_share_die_reader, 8, 0, 0, 0, false},
    {"share-pool", "share", probe_share_pool, 8, 0, 0, 0, false},
    {"share-close-busy", "share", probe_share_close_busy, 13, 0, 0, 0, false},
    {"share-open-dead", "share", probe_share_open_dead, 6, 0, 0, 0, false},
    {"share-reused", "share", probe_share_reused, 8, 0, 0, 0, false},
    {"share-event-dead", "share", probe_share_event_dead, 13, 0, 0, 0, false},
    {"share-open-time", "share", probe_share_open_time, 6, 0, 0, 0, false},
    {"share-turns", "share", probe_share_turns, 6, 0, 0, 0, false},
    {"nccl-make", "nccl", probe_nccl_make, 10, 0, 0, 0, false},
    {"nccl-self", "nccl", probe_nccl_self, 12, 0, 0, 0, false},
    {"nccl-stuck-abort", "nccl", probe_nccl_stuck, 10, 0, 0, 0, false},
    {"nccl-stuck-revoke", "nccl", probe_nccl_stuck, 10, 0, 0, 1, false},
    {"nccl-two-ranks", "nccl", probe_nccl_two_ranks, 10, 0, 0, 0, false},
    {"nccl-two-hosts", "nccl", probe_nccl_two_hosts, 15, 0, 0, 1, false},
    {"share-stop", "share", probe_share_stop, 6, 0, 0, 0, false},
    {"share-offset", "share", probe_share_offset, 6, 0, 0, 0, false},
    {"nccl-capture-group", "nccl", probe_nccl_capture_group, 8, 0, 0, 0, false},
    {"nccl-unmatched", "nccl", probe_nccl_unmatched, 8, 0, 0, 0, false},
    {"name", "name", probe_name, 20, 0, 0, 0, true},
    {"exit-body", "exit", probe_exit_body, 6, 0, 0, 0, true},
    {"exit-body-query", "exit", probe_exit_body, 6, 0, 0, 1, true},
    {"exit-body-own", "exit", probe_exit_body, 6, 0, 0, 2, true},
    {"ipc-peer", "ipc", probe_ipc_peer, 8, 0, 0, 0, true},
    {"share-owner", "share", probe_share_owner, 10, 0, 0, 0, true},
    {"share-closer", "share", probe_share_closer, 8, 0, 0, 0, true},
    {"share-waiter", "share", probe_share_waiter, 8, 0, 0, 0, true},
    {"share-pool-reader", "share", probe_share_pool_reader, 8, 0, 0, 0, true},
    {"nccl-rank", "nccl", probe_nccl_rank, 10, 0, 0, 0, true},
    {"nccl-rank-host", "nccl", probe_nccl_rank, 15, 0, 0, 1, true},
    {"hang", "hang", hang, 2, 0, 0, 0, true},
};

const size_t probe_case_count = sizeof probe_cases / sizeof probe_cases[0];

const probe_case *probe_case_find(const char *name)
{
    for (size_t i = 0; i < probe_case_count; i++) {
        if (strcmp(probe_cases[i].name, name) == 0)
            return &probe_cases[i];
    }
    return NULL;
}

bool probe_case_has_rows(const char *probe_name)
{
    for (size_t i = 0; i < probe_case_count; i++) {
        if (!probe_cases[i].is_hidden && strcmp(probe_cases[i].probe, probe_name) == 0)
            return true;
    }
    return false;
}
