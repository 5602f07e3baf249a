/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A campaign member's messages: to and from each peer, of each size, a few at once, some with a
 * deadline, some held by a promise, some cancelled, some in batches. What comes is looked at: the
 * bytes by their hash, the order by sender's start and sequence. What ends is looked at: that it is
 * not late, that it becomes quiet, and that its memory stays as it was then.
 *
 * Time is the member's own: how long this thread has run, turn by turn, where a turn that took long
 * counts as a short one; so a member that is stopped, or starved, has not run meanwhile. And late
 * is only what the loop has not ended although it ran: `beats` counts functions that it has called.
 */
#ifndef FERRY_TESTS_CAMPAIGN_TRAFFIC_H
#define FERRY_TESTS_CAMPAIGN_TRAFFIC_H

#include "tests/support/campaign.h"

#include <ferry/ferry.h>

typedef struct campaign_traffic campaign_traffic;

typedef struct campaign_clock {
    int64_t now_ns;  /* CLOCK_MONOTONIC, for deadlines */
    int64_t turn_ns; /* that this thread ran since the last turn */
    int64_t run_ns;  /* and since it began */
    int64_t beat_ns; /* turn_ns, or 0: the loop has not called a function since */
    uint64_t beats;
} campaign_clock;

/* How long something has been overdue, in the member's own time. */
typedef struct campaign_overdue {
    int64_t run_ns;
    bool is_told;
} campaign_overdue;

/* Once: it has been overdue for that long, in which the loop ran. */
bool campaign_is_overdue(campaign_overdue *overdue, const campaign_clock *clock, int64_t bound_ns);

/* Memory for all, touched. The engine has one host device. Fails the process without it. */
campaign_traffic *campaign_traffic_open(ferry_engine *engine, campaign_board *board, uint32_t rank,
                                        uint32_t size, uint64_t seed);
void campaign_traffic_close(campaign_traffic *traffic);

/* Of the group that was joined just now; its own incarnation there. */
void campaign_traffic_begin(campaign_traffic *traffic, ferry_group *group, uint64_t incarnation);

/* Looks at all that was submitted, and takes what has ended. True: something said that this member
 * lost its place. */
bool campaign_traffic_look(campaign_traffic *traffic, const campaign_clock *clock);

/* Submits more, at random. */
void campaign_traffic_submit(campaign_traffic *traffic, const campaign_clock *clock);

/* Cancels all that has not resolved, and resolves promises. */
void campaign_traffic_cancel(campaign_traffic *traffic);

/* Nothing is pending, or not quiet. */
bool campaign_traffic_is_quiet(const campaign_traffic *traffic);

/* When all is quiet: one message of each size to and from each peer. How many of them failed is
 * known when all is quiet again. */
void campaign_traffic_probe(campaign_traffic *traffic, uint64_t number,
                            const campaign_clock *clock);

size_t campaign_traffic_probes_failed(const campaign_traffic *traffic);

/* One that is pending, or becoming quiet, by chance; NULL: there is none there. For a wait. */
ferry_future *campaign_traffic_any(campaign_traffic *traffic);

/* Writes a line to stderr for each that is pending or not quiet, at most 20. */
void campaign_traffic_show(const campaign_traffic *traffic);

#endif
