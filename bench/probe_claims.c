/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list "Not tried on hardware" of docs/design.md, in its order, each taken apart into what can
 * be true or false; behind it what else ferry is built on.
 */
#include "bench/probe_claims.h"

const probe_claim probe_claims[] = {
    {"A stream takes 512 copies before a call waits", "room/copy*-1stream-*conn", PROBE_RULE_LEAST,
     512},
    {"A stream takes 512 waits, records, words or batches before a call waits",
     "room/wait-1stream-*conn room/record-1stream-*conn room/write-1stream-*conn "
     "room/batch-1stream-*conn",
     PROBE_RULE_LEAST, 512},
    {"Four parked streams take 512 operations together before a call waits",
     "room/*-4streams-*conn", PROBE_RULE_LEAST, 512},
    {"A call that waits for room holds up no other thread's", "room/*-other", PROBE_RULE_NO, 0},
    {"Freeing memory beside a kernel holds up no other thread's call",
     "free/cuMemFree-other free/cuMemFreeHost-other free/cuMemFreeAsync-other", PROBE_RULE_NO, 0},
    {"Pinned memory, streams and pageable copies beside a kernel hold up no other thread's call",
     "free/cuMemHostAlloc-other free/cuStream*-other free/cuMemcpyAsync-pageable-other",
     PROBE_RULE_NO, 0},
    {"Parked copies hold up no ready copy of another priority", "hol/*-other-*", PROBE_RULE_YES, 0},
    {"Parked copies hold up no ready copy of the same priority", "hol/*-same-*", PROBE_RULE_YES, 0},
    {"A word comes at most 1 ms after its event", "late/*", PROBE_RULE_YES, 0},
    {"cuMemcpy2DAsync takes any pitch on one GPU", "memory/pitch-*", PROBE_RULE_YES, 0},
    {"Memory of two contexts on one GPU can't be copied as one context's",
     "memory/copy-between-contexts", PROBE_RULE_NO, 0},
    {"A pool whose peers have no access is copied from to another GPU", NULL, PROBE_RULE_YES, 0},
    {"Green contexts, MIG, MPS and several processes on one GPU work", NULL, PROBE_RULE_YES, 0},
    {"Other GPUs go on when one is lost by hardware", NULL, PROBE_RULE_YES, 0},
    {"A stream that waits for an event of a lost GPU goes on", NULL, PROBE_RULE_YES, 0},
    {"Memory that the driver pins can be read until the process is gone", "exit/own-words",
     PROBE_RULE_YES, 0},
    {"The driver's pinned memory can be read until the process is gone", "exit/words",
     PROBE_RULE_YES, 0},
    {"Events can be asked until the process is gone", "exit/words-and-query", PROBE_RULE_YES, 0},
    {"The bytes of a copy to the host are there when its word is", "visible/*", PROBE_RULE_YES, 0},
    {"A word behind each copy of 1 MiB or more costs at most 5 %", "bubble/*MiB-event-word-ratio",
     PROBE_RULE_MOST, 1.05},
    {"A word of a second stream behind each costs at most 5 %", "bubble/*MiB-event-teller-ratio",
     PROBE_RULE_MOST, 1.05},
    {"Copies, events and words are taken beside a capture of the same thread", "capture/*",
     PROBE_RULE_YES, 0},
    {"Copies, events and words are taken whatever context is current", "current/*", PROBE_RULE_YES,
     0},
    {"The driver knows nothing of memory of malloc and of the stack", "memory/malloc* memory/stack",
     PROBE_RULE_YES, 0},
    {"Memory and events are shared between processes by cuIpc", "ipc/*", PROBE_RULE_YES, 0},
    {"Events order the work of two processes on the device", "share/ordered", PROBE_RULE_YES, 0},
    {"A copy out of another process's memory takes the device at most 10 % more than a local one",
     "share/copy-*MiB-device-ratio", PROBE_RULE_MOST, 1.1},
    {"Memory that its owner freed stays what it was until who opened it closes it",
     "share/free-returns share/freed-old-read share/freed-new-* share/freed-close "
     "share/freed-healthy",
     PROBE_RULE_YES, 0},
    {"Who has a dead process's memory open goes on, reads and closes it",
     "share/die-copies-end share/die-copies-right share/die-reads-on share/die-close "
     "share/die-healthy*",
     PROBE_RULE_YES, 0},
    {"Who is read from goes on when the reader is killed", "share/reader-*", PROBE_RULE_YES, 0},
    {"Who has a stopped process's memory open goes on", "share/stop-*", PROBE_RULE_YES, 0},
    {"Memory of a pool is shared between processes",
     "share/pool-make share/pool-export* share/pool-import* share/pool-read", PROBE_RULE_YES, 0},
    {"A pool's memory that its owner freed stays what it was until the reader frees it",
     "share/pool-owner-* share/pool-freed-* share/pool-reader-frees", PROBE_RULE_YES, 0},
    {"A handle of memory shows no more than what it was made for",
     "share/middle-* share/small-neighbour-hidden", PROBE_RULE_YES, 0},
};

const size_t probe_claim_count = sizeof probe_claims / sizeof probe_claims[0];
