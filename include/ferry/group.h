/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: the processes of one job, who meet through a store. */
#ifndef FERRY_GROUP_H
#define FERRY_GROUP_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_GROUP_SIZE_MAX 4096
#define FERRY_RANK_ANY (-1)

/* A member's state, as this one knows it. */
typedef enum ferry_member_state FERRY_INT_ENUM {
    FERRY_MEMBER_ABSENT = 0, /* not seen yet */
    FERRY_MEMBER_HERE,
    FERRY_MEMBER_LEFT, /* said so */
    FERRY_MEMBER_DEAD, /* its process has ended, or it was silent for its lease, in a store that was
                          there all that time: so it was agreed, and all members see the same */
} ferry_member_state;

typedef struct ferry_member_info {
    size_t struct_size; /* sizeof(ferry_member_info) */
    ferry_member_state state;
    ferry_peer rank;
    uint64_t incarnation;  /* of its newest start: grows by each; 0: never seen */
    int64_t last_seen_ns;  /* CLOCK_MONOTONIC of this process; 0: never. As the store shows it:
                              of who is here now, or when the store was lost; of others, when their
                              end was told, which is up to lease_ns and a second late */
    uint32_t device_count; /* that it named at join */
    uint32_t first_device; /* their ids in the group: first_device + index. The same for as long as
                              the group lives, also when the member restarts */
    bool is_on_this_host;
    char host[64];
    int64_t pid; /* on its host */
} ferry_member_info;

#define FERRY_MEMBER_INFO_INIT FERRY_SIZED_INIT(ferry_member_info)

/* Membership has changed. On the loop; not within a call of the user's. */
typedef void (*ferry_member_fn)(void *arg, ferry_group *group, const ferry_member_info *member);

/*
 * Make one with FERRY_GROUP_OPTIONS_INIT. Zero is the default of every number that can't be zero;
 * of a rank it is 0. Strings and secret are copied by the call.
 */
typedef struct ferry_group_options {
    size_t struct_size; /* sizeof(ferry_group_options) */
    const char *store;  /* where to meet: "mem:NAME", "file:DIR", "etcd://host:port[,host:port...]",
                           or "etcds://..." for TLS */
    const char *job;    /* who names the same job there meets: 1 to 64 of A-Z a-z 0-9 . _ - */
    uint32_t size;     /* members; 0: whoever is there by deadline_ns (of whoever has the first), at
                          least size_min; ranks are assigned then, and who comes late is refused */
    uint32_t size_min; /* size 0: at least 1, which is what 0 stands for */
    int32_t rank;      /* FERRY_RANK_ANY: assigned, by place, then host */
    uint32_t device_count; /* devices that this member names; 0: those the engine has now */
    const char *place; /* the same when this member is started anew, so that it gets its rank again:
                          "node7.gpu3", 1 to 64 of A-Z a-z 0-9 . _ -; NULL: a restart with
                          FERRY_RANK_ANY is a new member */
    const void *secret;  /* of the job: who has another is refused. NULL: none; anybody who reaches
                            this member's port or the store may join */
    size_t secret_bytes; /* 16 to 1024 */
    int64_t lease_ns;    /* who is not heard of so long is dead; 2 s to an hour; 0: 5 s. At least
                            four times what the store takes to answer */
    int64_t deadline_ns; /* of joining: absolute, on the engine's clock; 0 none */
    const char *network; /* address or interface on which members of other hosts reach this one;
                            NULL: "lo", this host alone. A trusted network: docs/security.md */
    const char *store_user, *store_password; /* etcd; NULL: none */
    const char *store_ca_path;               /* etcds: whom to trust; NULL: the system's */
    const char *store_certificate_path, *store_key_path; /* etcds: this client's; NULL: none */
    ferry_member_fn on_member;                           /* NULL: nobody is told */
    void *on_member_arg;
    /* Bounds of each pair of members; docs/limits.md has theirs. 0: the default */
    uint32_t window_messages; /* that may be under way and not yet received, each way */
    size_t window_bytes;      /* of data sent before its receive was there, each way */
    uint32_t unexpected_max;  /* messages that wait for their receive, or the other way round; past
                                 the other end's, if that is smaller, sends wait to be launched */
    size_t registration_cache_bytes; /* memory that UCX may keep registered */
    int64_t linger_ns; /* how long leaving waits for others to receive what was sent to them; 0: as
                          long as lease_ns; negative: for ever */
} ferry_group_options;

#ifdef __cplusplus
extern "C++" inline ferry_group_options ferry_group_options_init()
{
    ferry_group_options options = FERRY_SIZED_INIT(ferry_group_options);
    options.rank = FERRY_RANK_ANY;
    options.lease_ns = 5000000000;
    options.window_messages = 1024;
    options.window_bytes = 4194304;
    options.unexpected_max = 65536;
    options.registration_cache_bytes = static_cast<size_t>(1) << 32;
    return options;
}
#define FERRY_GROUP_OPTIONS_INIT ferry_group_options_init()
#else
#define FERRY_GROUP_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .struct_size = sizeof(ferry_group_options), .rank = FERRY_RANK_ANY,                        \
        .lease_ns = 5000000000, .window_messages = 1024, .window_bytes = 4194304,                  \
        .unexpected_max = 65536, .registration_cache_bytes = (size_t)1 << 32                       \
    }
#endif

/*
 * Functions that give a future give one reference, never NULL, as operations do (op.h): what can't
 * be begun is a future that has already failed. They may be called from any thread, also in a
 * callback, wait for nothing, and have deadlines of their own (absolute, on the engine's clock; 0
 * none; with a negative one they fail with FERRY_E_DEADLINE at once); cancelling one ends it here,
 * and what others see of it may have happened. Of a group that has not been joined they fail with
 * FERRY_E_INVALID, of one that was left or has ended with FERRY_E_DEAD, of one that lost its place
 * with FERRY_E_FENCED; with FERRY_E_AGAIN past 65536 that a group has under way.
 */

/*
 * Joins a group: registers this member and waits for the others. *group_p is set at once (NULL only
 * if the future failed at once), and is of use when the future is FERRY_OK; it is the caller's to
 * release either way. Fails with
 *   FERRY_E_INVALID      options that can't be, or that don't fit those of the members there are; a
 *                        lease that is too short for the store, with the one that would do
 *   FERRY_E_DEADLINE     the message names every absentee by rank and when it was last seen, or
 *                        says that the store did not answer, or who still holds the rank
 *   FERRY_E_FENCED       rank or place is another live member's; or this member has neither, and
 *                        came late: all ranks are taken by members that are alive
 *   FERRY_E_STORE, FERRY_E_UNSUPPORTED (no UCX, no libcurl, a network file system),
 *   FERRY_E_SYSTEM, FERRY_E_CANCELLED, FERRY_E_SHUTDOWN, FERRY_E_NO_MEMORY, FERRY_E_FORKED.
 *
 * A member started anew with its rank or place joins the group that still lives, and does not wait
 * for others that have died; members that live let it in. Where all have died or left, a new group
 * is formed, of as many as the size says. Either waits until the former start has left, or is known
 * to be dead: as the kernel says that its process on this host has ended; or since it has been
 * silent for its lease while this member, or one of the group, could reach the store. So a job that
 * was killed as a whole and is started anew on several hosts waits for a lease or two. Who finds
 * rank or place taken waits for the holder's lease and a second before it is refused; at once if
 * another process of this host has it. Who is late is told so at once. A start may name fewer
 * devices than its rank began with, not more.
 *
 * The store may be away, for any time, and come back with or without what it held: nobody is dead
 * for that. Members that live go on, keep their places, and register again when they can reach it;
 * those that did not live through it are found dead a lease or two later. docs/design.md has the
 * table of what happens when.
 */
FERRY_API ferry_future *ferry_group_join(ferry_engine *engine, const ferry_group_options *options,
                                         ferry_group **group_p);

/*
 * Leaves; others see it LEFT. No barrier is needed before:
 * - What was sent before, in program order, is delivered, also what still waits for what it depends
 *   on: leaving waits until each send has resolved, as its receive was there or came, or is known
 *   to have none, as the other member leaves too or is dead. After linger_ns the sends that are
 *   left fail with FERRY_E_CANCELLED, and their receives, if they come, with FERRY_E_DEAD (but one
 *   that comes at that very moment may still get its data).
 * - Receives that have not resolved fail with FERRY_E_CANCELLED at once, their sends with
 *   FERRY_E_DEAD. Who wants what they would bring waits for them before.
 * - What this member has received, others are told before it goes, so their send succeeds if and
 *   only if its receive did. On one host that takes none of their time; between hosts a round trip
 *   to each with whom there is a lane, for which it waits until linger_ns is over.
 * - Nothing new is taken: FERRY_E_DEAD. Barriers, values and the like that are under way when the
 *   rest is done fail with FERRY_E_CANCELLED.
 * So it takes some milliseconds where nothing is under way; else until others receive, or are dead;
 * and at most linger_ns and 0.2 s, whatever they do: also if one is stopped, or makes no progress.
 * After that the store is told, which takes as long as the store does, or its lease.
 * Resolves when all of that is quiet and the store knows, or its lease is left to run out.
 * Cancelling the future does not stop it, and leaving again, or giving the handle back, does not
 * cut it short. A shutdown does: it fails what is under way, and gives the others 0.2 s to hear of
 * what was received.
 */
FERRY_API ferry_future *ferry_group_leave(ferry_group *group);

/* Gives the handle back; a group not left leaves in the background, in that way. NULL: nothing. */
FERRY_API void ferry_group_release(ferry_group *group);

/* Of a group that was joined; else FERRY_RANK_ANY and 0. size: ranks are below it. */
FERRY_API int32_t ferry_group_rank(const ferry_group *group);
FERRY_API uint32_t ferry_group_size(const ferry_group *group);

/* What is known of a member. FERRY_E_NOT_FOUND: no such rank. Asks nobody. */
FERRY_API ferry_status ferry_group_member(const ferry_group *group, ferry_peer rank,
                                          ferry_member_info *info);

/* Whose device that is: the index counts from 0 in the member's. FERRY_E_NOT_FOUND. */
FERRY_API ferry_status ferry_group_device(const ferry_group *group, uint32_t device,
                                          ferry_peer *rank_p, uint32_t *index_p);

/*
 * What a future came with, beside its status: the value of a get, the ranks of an alive. Valid
 * until the future's last reference is released. FERRY_E_NOT_FOUND: none, or not resolved with
 * FERRY_OK.
 */
typedef struct ferry_value {
    const void *data; /* with a zero byte behind it, which size_bytes does not count */
    size_t size_bytes;
    uint64_t version; /* grows with every change of the key; 0: it is none. Of an alive: grows
                         with each round, and is the same for all that its round answers */
} ferry_value;

FERRY_API ferry_status ferry_future_value(const ferry_future *future, ferry_value *value);

/*
 * Which members are alive, agreed upon: all that take part get the same answer, as one of a series
 * of rounds. Value: an array of ferry_peer, ascending. Every live member has to ask; who does not
 * by `deadline_ns` (absolute; 0 none) has FERRY_E_DEADLINE name it, for all that asked. Who dies
 * meanwhile is left out. FERRY_E_STORE as a barrier's.
 */
FERRY_API ferry_future *ferry_group_alive(ferry_group *group, int64_t deadline_ns);

typedef struct ferry_barrier_options {
    size_t struct_size;        /* sizeof(ferry_barrier_options) */
    const ferry_peer *members; /* who meets; NULL: all of the group. Everybody names the same */
    uint32_t member_count;
    uint32_t reserved;   /* zero */
    int64_t deadline_ns; /* absolute; 0 none */
} ferry_barrier_options;

#define FERRY_BARRIER_OPTIONS_INIT FERRY_SIZED_INIT(ferry_barrier_options)

/*
 * Resolves when every member has come to the barrier of that name (as a job's). The same name can
 * be used again, any number of times: the k-th call of a member meets the k-th of the others; one
 * that was started anew since is told FERRY_E_CHANGED by its next call of each barrier that others
 * have passed meanwhile, and is then in step with them. Fails with FERRY_E_DEADLINE (the message
 * names the absentees by rank and when they were last seen), FERRY_E_DEAD (a member died or left
 * that the barrier waits for; the error's rank), FERRY_E_CANCELLED (by this member or by another
 * that had come; the error's rank), FERRY_E_INVALID (others named other members), FERRY_E_STORE
 * (the store was emptied or replaced while this member was in it: it ends so for all that had not
 * been told of its end, and the next call is in step again), FERRY_E_FENCED, FERRY_E_SHUTDOWN. All
 * that came have the same outcome, but for those of FERRY_E_STORE, for whom it is not known, and
 * for who is not answered by the store at its deadline, up to 0.15 s after it. Others' disagreement
 * about the members is found after about a second. A job remembers the last 512 names for each
 * lowest rank of a barrier's; of older ones a member started anew is told nothing.
 */
FERRY_API ferry_future *ferry_barrier(ferry_group *group, const char *name,
                                      const ferry_barrier_options *options);

/*
 * Values of the job that all members see: keys are 1 to 128 of A-Z a-z 0-9 . _ - /, values at most
 * 64 KiB. `get` waits until the key is there; `try_get` fails with FERRY_E_NOT_FOUND at once (one
 * store round trip); `watch` waits until the key has a version above `seen`, 0 being any. Deadlines
 * are absolute, 0 none. They go with the job's store, not with the member that set them: where it
 * is emptied they are gone, versions begin anew, and a `watch` that waits has the next value that
 * is set, or was restored.
 */
FERRY_API ferry_future *ferry_group_set(ferry_group *group, const char *key, const void *data,
                                        size_t size_bytes, int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_get(ferry_group *group, const char *key, int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_try_get(ferry_group *group, const char *key,
                                            int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_watch(ferry_group *group, const char *key, uint64_t seen,
                                          int64_t deadline_ns);

/*
 * Preemption. Any member that is told to go (a SIGTERM from its scheduler) gives notice; then all
 * agree on one step after which to stop, so that everybody saves the same state. Before each step a
 * member calls ferry_group_step with its number, which grows from 1: the future resolves at once
 * while there is no notice (and asks nobody), else when the members have agreed, which needs no
 * step of theirs, only that they live. Then ferry_group_stop_step says after which step to stop, or
 * UINT64_MAX: no notice. If that is below the step, the step must not be run. The step agreed upon
 * is the latest that any member had begun, so nobody has passed it; it stays for the group's life.
 * A step that was refused (FERRY_E_DEADLINE) must not be run either.
 */
FERRY_API ferry_future *ferry_group_give_notice(ferry_group *group);
FERRY_API ferry_future *ferry_group_step(ferry_group *group, uint64_t step, int64_t deadline_ns);
FERRY_API uint64_t ferry_group_stop_step(const ferry_group *group);

#ifdef __cplusplus
}
#endif
#endif
