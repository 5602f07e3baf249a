/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is a member of a group: an engine that joins by the options, takes interrupts, and
 * leaves in order, so that the others hear of it.
 *
 * Functions return 0, or the exit status after a message on stderr.
 */
#ifndef MEMBER_H
#define MEMBER_H

#include "tools/member_options.h"

#include <ferry/ferry.h>
#include <pthread.h>

typedef struct member {
    const member_options *options;
    int rank;
    ferry_rank other; /* whom it depends on, for messages; FERRY_RANK_NONE: as errors say */
    ferry_engine *engine;
    ferry_device *device; /* the host's */
    ferry_group *group;
    pthread_t signals; /* waits for SIGINT and SIGTERM */
    bool has_signals;
    pthread_mutex_t mutex; /* for the next two */
    ferry_future *joining; /* what an interrupt cancels; NULL: it leaves the group */
    int interrupt;         /* the signal; 0: none */
} member;

/* Says what failed, and why. Both return EXIT_FAILURE. */
int member_fail(const member *member, const char *doing, const char *why);
int member_fail_error(const member *member, const char *doing, ferry_status status,
                      const ferry_error *error);

/* Makes the engine. SIGINT and SIGTERM are to be blocked. It is to be ended either way. */
int member_begin(member *member, const member_options *options, int rank, ferry_rank other,
                 const ferry_engine_options *engine);

/*
 * Joins.
 *  group  what the options don't say: gpu_way, on_member
 */
int member_join(member *member, const ferry_group_options *group);

/* Leaves the group, so that others hear of it. From now on an interrupt ends the process. */
void member_leave(member *member);

/* Shuts the engine down, after member_leave. Returns the result, or what now failed. */
int member_end(member *member, int result);

/* The signal that has asked this process to end; 0: none. */
int member_interrupt(member *member);

/* Waits for a future and gives it back. `doing`: for the message. */
int member_finish(member *member, ferry_future *future, const char *doing);

/* Says what has failed in a future that is over, or that an interrupt came. */
int member_fail_future(member *member, ferry_future *future, const char *doing);

#endif
