/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of `ferry perf`: an engine that has joined, and memory to send from and receive into.
 *
 * Functions return 0, or the exit status after a message on stderr.
 */
#ifndef PERF_END_H
#define PERF_END_H

#include "tools/member.h"
#include "tools/perf_options.h"

#include <ferry/ferry.h>

/* What the two ends tell each other, and what they measure with. */
#define PERF_TAG_STEP 1
#define PERF_TAG_READY 2
#define PERF_TAG_DATA 3

typedef struct perf_area {
    ferry_buffer *buffer;
    ferry_buffer *mirror; /* page-locked, as large, where the CPU can't use the buffer's memory */
    unsigned char *bytes; /* of the mirror, if there is one */
    size_t capacity_bytes;
    bool is_shared;
} perf_area;

typedef struct perf_end {
    const perf_options *options;
    member member;
    ferry_rank other;
    ferry_device *place;    /* the one of the areas; of the options, then of the steps */
    ferry_future **futures; /* two rings of PERF_WINDOW_MAX: sends, receives */
    perf_area out, in;
    ferry_window *window; /* get, put: of the step; rank 1's own, or what rank 0 has found */
} perf_end;

/* SIGINT and SIGTERM are to be blocked. The end is to be closed either way. */
int perf_end_open(perf_end *end, const perf_options *options, int rank);

/* Leaves the group, so that the other end hears of it. Returns the result, or what now failed. */
int perf_end_close(perf_end *end, int result);

/* Moves what perf_end_room gives to a device, by name. */
int perf_end_place(perf_end *end, const char *device);

/* False: the CPU can't use the memory of that device. */
bool perf_end_is_on_host(const perf_end *end);

/* Of GPU memory, exchanged with the other end until now. */
typedef struct perf_ways {
    uint64_t bytes[PERF_WAY_COUNT]; /* of AUTO none */
} perf_ways;

perf_ways perf_end_ways(const perf_end *end);

/*
 * Memory of at least so many bytes, with its pages there; what was in it may be gone. is_shared:
 * processes of this host can map it, if it is the host's.
 */
int perf_end_room(perf_end *end, perf_area *area, size_t size_bytes, bool is_shared);

ferry_span perf_end_span(const perf_area *area, size_t offset_bytes, size_t size_bytes);

/* Copies a part of an area from its mirror, or to it. */
ferry_future *perf_end_upload(perf_end *end, const perf_area *area, size_t offset_bytes,
                              size_t size_bytes);
ferry_future *perf_end_download(perf_end *end, const perf_area *area, size_t offset_bytes,
                                size_t size_bytes);

ferry_future *perf_end_send(perf_end *end, ferry_tag tag, ferry_span span);
ferry_future *perf_end_recv(perf_end *end, ferry_tag tag, ferry_span span);

/* For get and put: rank 1 opens a window over the area, which rank 0 finds by the number. */
int perf_end_open_window(perf_end *end, const perf_area *area, uint32_t number);
int perf_end_find_window(perf_end *end, uint32_t number);
int perf_end_close_window(perf_end *end);

/* Waits for a future as the options say, and gives it back. `doing`: for the message. */
int perf_end_finish(perf_end *end, ferry_future *future, const char *doing);

#endif
