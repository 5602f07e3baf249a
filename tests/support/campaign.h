/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the members of a campaign (tests/net/campaign.c) and its controller share: the board, on
 * which each rank counts what it did and what went wrong, in memory of all of them, so that it
 * outlives who is killed.
 */
#ifndef FERRY_TESTS_CAMPAIGN_H
#define FERRY_TESTS_CAMPAIGN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CAMPAIGN_MEMBERS_MAX 8

/* How a member exits that UCX has aborted: over TCP it does now and then when the other end goes as
 * they connect (docs/design.md, known limits). */
#define CAMPAIGN_UCX_STATUS 70

/* Name, text, and whether any of it fails the campaign. */
#define CAMPAIGN_COUNT_MAP(X)                                                                      \
    X(SENT, "sent", false)                                                                         \
    X(RECEIVED, "received", false)                                                                 \
    X(FAILED, "failed", false) /* operations, by faults, deadlines and cancels */                  \
    X(ASKED, "asked", false)   /* barriers, values, who lives: answered */                         \
    X(REFUSED_JOINS, "refused joins", false)                                                       \
    X(WRONG_PULLED, "wrong pulled", true) /* bytes of a message that is pulled */                  \
    X(WRONG_OTHERS, "wrong others", true) /* of one that is not */                                 \
    X(DISORDER, "out of order", true)     /* or twice */                                           \
    X(LATE_WRITES, "writes after quiet", true)                                                     \
    X(STRANGE, "strange statuses", true)                                                           \
    X(LATE, "late", true)           /* pending a second past the deadline, though the loop ran */  \
    X(UNQUIET, "unquiet", true)     /* resolved, and not quiet for long */                         \
    X(HANGS, "hangs", true)         /* the loop, a join, a leave, an end */                        \
    X(LEFTOVERS, "leftovers", true) /* in the dump, when nothing should be */

typedef enum campaign_count {
#define CAMPAIGN_COUNT(name, text, is_fault) CAMPAIGN_##name,
    CAMPAIGN_COUNT_MAP(CAMPAIGN_COUNT)
#undef CAMPAIGN_COUNT
        CAMPAIGN_COUNTS
} campaign_count;

typedef struct campaign_board {
    _Atomic uint64_t counts[CAMPAIGN_MEMBERS_MAX][CAMPAIGN_COUNTS];
} campaign_board;

/* The file's, made if need be; NULL: it can't be had. For as long as the process lives. */
campaign_board *campaign_board_open(const char *path);

static inline void campaign_note(campaign_board *board, uint32_t rank, campaign_count count)
{
    atomic_fetch_add_explicit(&board->counts[rank][count], 1, memory_order_relaxed);
}

/* xorshift: the next number below that. */
static inline uint64_t campaign_random(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) % below;
}

/* The role of a member; arguments as of net_self_begin, and rank, board, seed. */
int campaign_member(int argc, char **argv);

#endif
