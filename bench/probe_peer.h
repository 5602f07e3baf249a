/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process that does as it is told: a case starts it, sends orders to its stdin and hears
 * answers from its stdout. It prints no rows: what it finds out is in its answers. Each answer is
 * waited for with a limit, so that a process that hangs is a row.
 */
#ifndef FRY_BENCH_PROBE_PEER_H
#define FRY_BENCH_PROBE_PEER_H

#include "bench/probe.h"

#define PROBE_ANSWER_NS INT64_C(3000000000)
#define PROBE_ID_BYTES 128

/* An order and its answer; what an order does not need is zero. */
typedef struct probe_message {
    uint32_t mark;  /* set as it is sent: other bytes are a row, of a process that failed */
    int32_t order;  /* one of the case's own */
    int32_t result; /* a CUresult or an ncclResult_t */
    int32_t file;   /* a descriptor that the other process inherited */
    uint32_t word;
    uint32_t count;
    int64_t took_ns;
    uint64_t size_bytes;
    CUdeviceptr address;
    CUipcMemHandle memory;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
    char id[PROBE_ID_BYTES]; /* of a communicator */
} probe_message;

/* The hidden case of that name. Before probe_gpu_open, so that both start at the same time. */
probe_child probe_peer_start(const char *name);

void probe_tell(const probe_child *peer, const probe_message *message);

/* False: no answer in that time. A process that ended instead ends this one too, with its row. */
bool probe_hear(const probe_child *peer, probe_message *answer, int64_t limit_ns);

/* Tells and hears; no answer in PROBE_ANSWER_NS ends this process with a row that says to what. */
probe_message probe_ask(const probe_child *peer, const probe_message *message, const char *what);

/* Kills it. Returns how long it took to be gone; INT64_MAX: it still is there after the limit. */
int64_t probe_peer_kill(probe_child *peer);

/* In the other process: the next order; false: there is none any more. And the answer to it. */
bool probe_listen(probe_message *message);
void probe_reply(probe_message *message);

#endif
