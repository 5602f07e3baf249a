/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many members of a group in one process, each with a reactor of its own, run in an order that a
 * seed shuffles, on a clock that is stepped. A member may be stopped (its reactor is not run), and
 * killed (closed without a word).
 */
#ifndef FERRY_TESTS_GROUP_RIG_H
#define FERRY_TESTS_GROUP_RIG_H

#include "net/group/seats.h"
#include "net/group/state.h"
#include "tests/support/driven_reactor.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_store.h"
#include "tests/support/owned.h"
#include "tests/support/stepped_clock.h"

#include <stdio.h>
#include <stdlib.h>

#define RIG_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define RIG_SECOND_NS INT64_C(1000000000)
#define RIG_LEASE_NS (5 * RIG_SECOND_NS)
#define RIG_MEMBERS_MAX 80
#define RIG_HISTORY_MAX 4096
#define RIG_OPEN_SIZE_MAX 16 /* ranks of an open group that the rig looks at */

typedef struct group_rig group_rig;

/* What was told of a rank. */
typedef struct rig_news {
    uint32_t rank;
    uint64_t incarnation;
    ferry_member_state state;
} rig_news;

/* What happened, as a member was told. */
typedef struct rig_event {
    uint32_t rank;
    ferry_member_state what;
    uint64_t incarnation, number;
} rig_event;

typedef struct rig_member {
    group_rig *rig;
    fry_reactor *reactor;
    fry_group *group; /* NULL: not open */
    faulty_store *faulty;
    bool is_stopped;
    bool is_joined, is_fenced, has_left; /* told */
    ferry_status status;                 /* of the join */
    char message[FRY_ERROR_MESSAGE_BYTES];
    rig_news history[RIG_HISTORY_MAX];
    size_t history_count;
    rig_event events[RIG_HISTORY_MAX];
    size_t event_count;
    bool keeps;                       /* does not let go of who has ended */
    uint64_t held[RIG_OPEN_SIZE_MAX]; /* by rank: the first start that it has yet to let go of */
} rig_member;

struct group_rig {
    failing_allocator allocator;
    fry_memory memory;
    fry_log log;
    stepped_clock stepped;
    fry_clock clock;
    uint64_t random;
    uint64_t start_ids; /* given to each, in the order of joining */
    char uri[256];
    rig_member *members;
    size_t count;
    bool is_real; /* the clock is; time is not stepped */
    bool is_store_stopped;
    int64_t way_ns;       /* to the store and back, of those that join from now on */
    const char *log_word; /* lines of the log with this are counted */
    size_t log_count;
    char log_line[512]; /* the last of them */
    struct rig_corpse *corpses;
    fry_reactor *keeper; /* has the store open all the time */
    fry_store *store;
};

void rig_open(group_rig *rig, size_t count, uint64_t seed);

/* On a real clock and some store. */
void rig_open_on(group_rig *rig, size_t count, const char *uri);

/* Closes what is open; nothing may be left. */
void rig_close(group_rig *rig);

/* A rig that is open to the end of the block. */
#define GROUP_RIG(name_, count_, seed_)                                                            \
    OWNED(rig_close) group_rig name_;                                                              \
    rig_open(&(name_), count_, seed_)

uint64_t rig_random(group_rig *rig, uint64_t below);

/* Options of a member of a group of `size`. */
fry_group_options rig_options(group_rig *rig, size_t index, uint32_t size, int32_t rank);

/* Begins to join; the member must not be open. */
void rig_join(group_rig *rig, size_t index, const fry_group_options *options);

/* Without insisting that it begins. */
ferry_status rig_try_join(group_rig *rig, size_t index, const fry_group_options *options,
                          fry_error **error_p);

/* The same, for those in [first, end), of ranks that are their indices (or any), and waits. */
void rig_join_all(group_rig *rig, size_t first, size_t end, bool is_any);

/* Never runs it again: what it has in the store ends with its lease. */
void rig_kill(group_rig *rig, size_t index);

/* Closes it without a word. */
void rig_shut(group_rig *rig, size_t index);

/* Leaves, waits until that is known, closes. */
void rig_leave(group_rig *rig, size_t index);

/* Lets go of all that has ended, which `keeps` had held. */
void rig_let_go(group_rig *rig, size_t index);

/* Runs all that are not stopped, once each; how much ran. */
size_t rig_turn(group_rig *rig);

/* Until nothing happens any more, without time going by. */
void rig_settle(group_rig *rig);

/* Time goes by, timer by timer. */
void rig_pass(group_rig *rig, int64_t ns);

/* Until it says true; lets time go by where nothing else happens, up to limit_ns. False: it did
 * not. */
bool rig_until(group_rig *rig, bool (*is_so)(void *arg), void *arg, int64_t limit_ns);

/* What a store has still got when it is back. */
typedef enum rig_back {
    RIG_BACK_WITH_LEASES,    /* all of it, and leases begin anew */
    RIG_BACK_WITHOUT_LEASES, /* they ran out while nobody could renew them, if there was time */
    RIG_BACK_EMPTIED,
    RIG_BACKS
} rig_back;

/* The store stands still for all that are open; and goes on. */
void rig_store_stop(group_rig *rig, rig_back back);
void rig_store_go_on(group_rig *rig, rig_back back);

/* Something that a stranger asks of the store, at once. */
ferry_status rig_ask_store(group_rig *rig, fry_store_request *request);

/* A request and its answer. */
typedef struct rig_ask {
    fry_group_request request;
    bool is_done;
    ferry_status status;
    int32_t rank;
    char message[FRY_ERROR_MESSAGE_BYTES];
    char value[4096];
    size_t value_bytes;
    uint64_t version;
} rig_ask;

/* Zeroes it and fills in. */
void rig_ask_begin(group_rig *rig, size_t index, rig_ask *ask, fry_group_verb verb,
                   const char *name);
void rig_barrier(group_rig *rig, size_t index, rig_ask *ask, const char *name, int64_t within_ns);
bool rig_is_done(void *ask);

/* Waits for it, a minute of the clock's at most. */
ferry_status rig_answer(group_rig *rig, rig_ask *ask);

#endif
