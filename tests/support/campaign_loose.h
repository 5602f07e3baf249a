/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A campaign member's loose operations: sends, receives, copies, functions and nops on spans of one
 * buffer that overlap by chance, some after others, all with deadlines, many at once. Nobody looks
 * at their bytes. They are for what holds operations together: one of them that never became quiet
 * would hold all that come after it. The thread that opened it calls all of this.
 */
#ifndef FERRY_TESTS_CAMPAIGN_LOOSE_H
#define FERRY_TESTS_CAMPAIGN_LOOSE_H

#include "tests/support/campaign_traffic.h"

typedef struct campaign_loose campaign_loose;

campaign_loose *campaign_loose_open(ferry_engine *engine, campaign_board *board, uint32_t rank,
                                    uint32_t size, uint64_t seed);
void campaign_loose_close(campaign_loose *loose);

/* Looks at all, takes what has ended. */
void campaign_loose_look(campaign_loose *loose, const campaign_clock *clock);
void campaign_loose_submit(campaign_loose *loose, ferry_group *group, const campaign_clock *clock);
void campaign_loose_cancel(campaign_loose *loose);
bool campaign_loose_is_quiet(const campaign_loose *loose);

/* When all is quiet: what is poisoned of the buffer is so no more, so that the pieces of it that
 * the engine keeps apart are no more than one spell of faults leaves. */
void campaign_loose_heal(campaign_loose *loose);

/* As campaign_traffic_any. */
ferry_future *campaign_loose_any(campaign_loose *loose);
void campaign_loose_show(const campaign_loose *loose);

#endif
