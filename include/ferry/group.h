/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: the processes of one job, which meet through a store. */
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

/* A member's state, as far as this member knows. */
typedef enum ferry_member_state FERRY_INT_ENUM {
    FERRY_MEMBER_ABSENT = 0, /* not seen yet */
    FERRY_MEMBER_HERE,
    FERRY_MEMBER_LEFT, /* it has left the group */
    FERRY_MEMBER_DEAD, /* its process has ended, or it was silent for its lease while the store was
                          reachable. The members agree on a death: all of them see it */
} ferry_member_state;

typedef struct ferry_member_info {
    size_t struct_size; /* sizeof(ferry_member_info) */
    ferry_member_state state;
    ferry_rank rank;
    uint64_t incarnation;  /* of its newest start; each start has a larger one; 0: never seen */
    int64_t last_seen_ns;  /* when the store last showed it, by this process's CLOCK_MONOTONIC;
                              0: never. For a member that is here: now, or when the store was
                              lost. For another: when its end became known, up to lease_ns and a
                              second late */
    uint32_t device_count; /* devices that it named at join */
    uint32_t first_device; /* its devices' ids in the group are first_device + index. They stay the
                              same while the group lives, also when the member restarts */
    bool is_on_this_host;
    char host[64];
    int64_t pid; /* on its host */
    /* Of GPU memory of this process, sent to the member or received from it and ended FERRY_OK,
     * since this process joined: bytes that the receiver read where the sender had them, and bytes
     * that went through host memory. ferry_group_member says how much it is now; in on_member they
     * are 0 */
    uint64_t ipc_bytes;
    uint64_t staged_bytes;
    uint64_t nccl_bytes;  /* and bytes that went over NCCL */
    uint64_t nccl_groups; /* in so many groups of sends and receives, both ways together */
} ferry_member_info;

#define FERRY_MEMBER_INFO_INIT FERRY_SIZED_INIT(ferry_member_info)

/* Who can be a member. */
typedef enum ferry_group_kind FERRY_INT_ENUM {
    FERRY_GROUP_CLOSED = 0, /* those that formed the group, and restarts of those that ended */
    FERRY_GROUP_OPEN = 1,   /* members come and go while the group lives */
} ferry_group_kind;

/* Called when a member's state has changed; on the loop, never inside a call of the user. */
typedef void (*ferry_member_fn)(void *arg, ferry_group *group, const ferry_member_info *member);

/*
 * The ways on which GPU memory goes to another member, or comes from one. The two ends of a
 * connection use those that both allow, and each message the best of them that it can take:
 * ferry/message.h. Through host memory it can always go. CUDA IPC is for processes of one host.
 *
 * NCCL is used only between two members that both name it, or ALL, and where libnccl.so.2 (2.27 or
 * later) is found; no way but this one and host memory is used then. ANY does not name it, because
 * it is not free of deadlock beside a program's own collectives (below). With ALL at both ends
 * members of one host use CUDA IPC, others NCCL. A message that can't go over NCCL goes through
 * host memory: if the two GPUs are one, if the two NCCLs are of different versions, or if its
 * memory is on another GPU than the first message between the two members here used. A log line
 * says so, but for the GPU. An engine has `nccl_pairs` communicators at most; when another member's
 * is wanted, one that was not used for long makes room.
 *
 * Messages that are ready at both ends are launched together, up to 64 of them and 256 MiB. If one
 * of them is cancelled, or reaches its deadline, while they go, the communicator is aborted, and
 * all that go with it fail with FERRY_E_PEER; the next message makes a new communicator. Beside a
 * program's own NCCL collectives on the same GPUs, the two can wait for each other for ever, which
 * ferry does not see: ferry_group_nccl_pause.
 */
typedef enum ferry_gpu_way FERRY_INT_ENUM {
    FERRY_GPU_WAY_ANY = 0,
    FERRY_GPU_WAY_STAGING = 1, /* through host memory */
    FERRY_GPU_WAY_IPC = 2,     /* CUDA IPC: a copy from GPU memory to GPU memory */
    FERRY_GPU_WAY_NCCL = 3,    /* NCCL, which both ends must name: both GPUs launch the transfer */
    FERRY_GPU_WAY_ALL = 4, /* CUDA IPC on one host, NCCL between hosts, as the other end allows */
} ferry_gpu_way;

/*
 * Options of a group. Initialise them with FERRY_GROUP_OPTIONS_INIT. Zero means the default. The
 * call copies the strings and the secret.
 */
typedef struct ferry_group_options {
    size_t struct_size; /* sizeof(ferry_group_options) */
    const char *store;  /* where to meet: "mem:NAME", "file:DIR", "etcd://host:port[,host:port...]",
                           or "etcds://..." for TLS */
    const char *job;    /* members of one job name the same: 1 to 64 of A-Z a-z 0-9 . _ -, and
                           not dots alone */
    uint32_t size;      /* number of members. 0: all that have come by the earliest deadline_ns
                           of any of them, at least size_min; ranks are assigned at that time,
                           and later members are refused */
    uint32_t size_min;  /* for size 0: the least number of members; 0: 1 */
    ferry_rank rank;    /* this member's, if has_rank says so */
    bool has_rank;      /* false: the rank is assigned, by place, then by host */
    uint8_t reserved[3];   /* zero */
    uint32_t device_count; /* devices that this member names; 0: those that the engine has now */
    const char *place;     /* this member's place in the job, for example "node7.gpu3": a restart
                              with the same place gets the same rank. 1 to 64 of
                              A-Z a-z 0-9 . _ -, and not "-" or dots alone; NULL: a restart
                              without has_rank is a new member */
    const void *secret;    /* the job's secret: members with another secret are refused. NULL: none;
                              whoever reaches this member's port or the store may join */
    size_t secret_bytes;   /* 16 to 1024 */
    int64_t lease_ns; /* a member that is silent for this long is dead; 2 s to an hour; 0: 5 s. At
                         least four times what the store takes to answer */
    int64_t deadline_ns; /* of joining: absolute, on the engine's clock; 0: none */
    const char *network; /* address or interface on which members on other hosts reach this one;
                            NULL: "lo", this host alone. It must be a trusted network:
                            docs/security.md */
    const char *store_user, *store_password; /* etcd; NULL: none */
    const char *store_ca_path;               /* etcds: authorities to trust; NULL: the system's */
    const char *store_certificate_path, *store_key_path; /* etcds: this client's; NULL: none */
    ferry_member_fn on_member;                           /* NULL: none */
    void *on_member_arg;
    /* Bounds for each pair of members: docs/limits.md */
    uint32_t window_messages; /* messages under way and not yet received, each way; 0: 1024 */
    size_t window_bytes;      /* bytes sent before their receive was there, each way; 0: 4 MiB */
    uint32_t unexpected_max;  /* messages that wait for their receive, and receives that wait for
                                 their message; 0: 65536. If the other end's bound is smaller, sends
                                 past that bound wait to be launched */
    size_t registration_cache_bytes; /* memory that UCX may keep registered; 0: 4 GiB */
    int64_t linger_ns; /* how long leaving waits until others have received what was sent to them;
                          0: lease_ns; negative: for ever */
    ferry_gpu_way gpu_way;   /* allowed besides FERRY_GPU_WAY_STAGING; ANY: CUDA IPC */
    uint32_t any_source_max; /* this member's receives without a certain member or tag, and its
                                probes, that may wait at once; up to 2^24. 0: there are none.
                                Otherwise all its receives work another way: message.h; and gpu_way
                                can't be NCCL or ALL */
    ferry_group_kind kind;   /* the same for all members of a job. FERRY_GROUP_OPEN: `size` is the
                                greatest number of members and not 0, and size_min is 0 or 1 */
    uint32_t events_max; /* events that wait for ferry_group_event_next, at most 65536; 0: twice the
                            group's size, and at least 64 */
} ferry_group_options;

#define FERRY_GROUP_OPTIONS_INIT FERRY_SIZED_INIT(ferry_group_options)

/*
 * Rules for all functions below that return a future. Any thread may call them, also in a callback.
 * They wait for nothing. They return one reference, never NULL, that the caller releases; a request
 * that cannot begin returns a future that has already failed. Deadlines are absolute, on the
 * engine's clock; 0: none; with a negative one the future fails with FERRY_E_DEADLINE at once.
 * Cancelling a future ends the request for this member; other members may already have seen its
 * effect. The future fails with FERRY_E_INVALID if the group has not been joined, with FERRY_E_DEAD
 * if it was left or has ended, with FERRY_E_FENCED if this member lost its place, and with
 * FERRY_E_AGAIN if the group has 65536 requests under way.
 */

/*
 * Joins a group: registers this member and waits for the others. *group_p is set at once (to NULL
 * only if the future failed at once). The caller may use the group when the future is FERRY_OK, and
 * releases it in any case. Fails with
 *   FERRY_E_INVALID      invalid options; options that contradict those of other members; or a
 *                        lease too short for the store (the message has one that suffices)
 *   FERRY_E_DEADLINE     the message names every absentee by rank and when it was last seen, or
 *                        says that the store did not answer, or which process still holds the rank
 *   FERRY_E_FENCED       the rank or place belongs to another live member; or this member has
 *                        neither, and live members hold all ranks
 *   FERRY_E_STORE, FERRY_E_UNSUPPORTED (no UCX, no libcurl, a network file system),
 *   FERRY_E_SYSTEM, FERRY_E_CANCELLED, FERRY_E_SHUTDOWN, FERRY_E_NO_MEMORY, FERRY_E_FORKED.
 *
 * A member that restarts with its rank or place joins the group if the group still lives, and does
 * not wait for members that have died. If all members have died or left, a new group is formed,
 * with `size` members. (All of this is of closed groups; open ones are below.) In both cases the
 * restart waits until its former start has left or is known to be dead: the kernel reports that its
 * process on this host has ended, or it has been silent for its lease while this member or another
 * one could reach the store. So if a whole job is killed and restarted on several hosts, it waits
 * for a lease or two. A member whose rank or place is taken is refused after the holder's lease and
 * a second, or at once if another process of this host is the holder. A group that has been formed
 * is closed: a further member, with neither rank nor place, is refused at once (FERRY_E_FENCED),
 * and so is one that asks for another size (FERRY_E_INVALID). A restart may name fewer devices than
 * its rank first did, not more.
 *
 * The store may be lost for any time, and may come back with or without its contents. No member
 * counts as dead because of that. Live members go on, keep their places, and register again when
 * they can reach the store. Members that died meanwhile are found dead a lease or two later.
 * docs/design.md has a table of all cases.
 */
FERRY_API ferry_future *ferry_group_join(ferry_engine *engine, const ferry_group_options *options,
                                         ferry_group **group_p);

/*
 * Open groups (FERRY_GROUP_OPEN). The first member forms the group, with `size` ranks of which it
 * has one; the others are free. Further members join at any time: each join resolves as soon as the
 * process is a member, with the rank that it names, or the one of its place, or else any free one.
 * Windows, messages and notices to and from a new member need nothing else. When all members have
 * ended, the next join forms a new group.
 *
 * A member that leaves or dies gives its rank back. The rank is free again when every member that
 * is present has been told of the end and holds nothing more of the old member: no connection, no
 * operation, and no handle of a window that was found there (ferry_window_release). So nothing that
 * was meant for the old one ever reaches the next. A join that finds all free ranks held so waits;
 * past its deadline the message says by whom. If live members have all ranks the join fails with
 * FERRY_E_FENCED at once; if the job has a closed group or one of another size, with
 * FERRY_E_INVALID, and so does a member of a closed group where the group is open.
 *
 * Until somebody has a rank, its state is FERRY_MEMBER_ABSENT, and operations that name it fail
 * with FERRY_E_DEAD. A device's id in the group is its member's rank times 65536 and its index
 * there. A barrier names its members; ferry_group_alive says who can be named.
 */

/*
 * What has happened to a member of a group: the value of ferry_group_event_next. A later version
 * may add fields; the value's size_bytes says how many bytes there are.
 */
typedef struct ferry_group_event {
    ferry_member_state what; /* FERRY_MEMBER_HERE: it has joined; LEFT or DEAD: it has ended */
    ferry_rank rank;
    uint64_t incarnation; /* the member's */
    uint64_t lost;        /* events that were dropped right before this one, as events_max had not
                             been taken: ferry_group_member says how things stand now */
} ferry_group_event;

/*
 * Takes the next event of a group: that another member has joined, left or died since this member
 * was let in. If there is none the future waits for one. Several that wait get theirs in the order
 * of the calls. The future's value (ferry_future_value) is a ferry_group_event.
 *
 * In an open group all members are told the same events in the same order, and the value's version
 * is the event's number there, which grows and is the same for all members. No event is left out:
 * also a member that came and went while this one was busy is told of with both. (If the store is
 * lost with its contents, what happened meanwhile may be told with other numbers, or not at all.)
 * In a closed group, which tells of ends and restarts, only the events of one rank have an order,
 * and the version is 0. deadline_ns  absolute, on the engine's clock; 0: none A future that fails
 * has taken no event. It fails with FERRY_E_DEADLINE, FERRY_E_CANCELLED, FERRY_E_DEAD or
 * FERRY_E_FENCED when this member's membership ends, FERRY_E_INVALID, FERRY_E_NO_MEMORY,
 * FERRY_E_SHUTDOWN or FERRY_E_FORKED.
 */
FERRY_API ferry_future *ferry_group_event_next(ferry_group *group, int64_t deadline_ns);

/*
 * Leaves the group; other members then see this member as LEFT. No barrier is needed before:
 * - Sends submitted before, in program order, are delivered, also those that still wait for their
 *   dependencies. Leaving waits until each of them has resolved: its receive was there or came, or
 *   the other member leaves too or is dead. After linger_ns the remaining sends fail with
 *   FERRY_E_CANCELLED, and their receives with FERRY_E_DEAD (a receive that comes at that very
 *   moment may still get its data).
 * - Receives that have not resolved fail with FERRY_E_CANCELLED at once, and their sends with
 *   FERRY_E_DEAD. A member that needs their data waits for them before it leaves.
 * - The member tells the others which of their messages it has received before it goes, so a send
 *   succeeds if and only if its receive did. On one host this takes none of the other members'
 *   time. Between hosts it takes a round trip to each member with a connection, for at most
 *   linger_ns.
 * - New operations and requests fail with FERRY_E_DEAD. Barriers, values and other requests still
 *   under way when the rest is done fail with FERRY_E_CANCELLED.
 * Leaving takes some milliseconds if nothing is under way; otherwise until the other members have
 * received or are dead. It takes at most linger_ns and 0.2 s whatever they do, also if one is
 * stopped or makes no progress. Then the member tells the store; that takes as long as the store
 * needs, at most the lease.
 * The future resolves when all of that is quiet, and the store knows or the lease is left to
 * expire; on_member is not called any more then. Cancelling the future does not stop the leaving;
 * leaving again or releasing the group does not shorten it. A shutdown does: it fails what is under
 * way, and gives other members 0.2 s to hear what was received.
 */
FERRY_API ferry_future *ferry_group_leave(ferry_group *group);

/*
 * Releases the caller's handle; NULL is allowed. If the member has not left, it leaves in the
 * background, as by ferry_group_leave.
 */
FERRY_API void ferry_group_release(ferry_group *group);

/*
 * This member's rank, and the group's size; ranks are below the size. FERRY_RANK_NONE and 0 if the
 * group has not been joined.
 */
FERRY_API ferry_rank ferry_group_rank(const ferry_group *group);
FERRY_API uint32_t ferry_group_size(const ferry_group *group);

/*
 * The group's engine, which may be used until its ferry_engine_release; NULL for NULL. Any thread,
 * any context.
 */
FERRY_API ferry_engine *ferry_group_engine(const ferry_group *group);

/*
 * Fills `info` with what this member knows of a member; asks nobody. Returns FERRY_OK;
 * FERRY_E_NOT_FOUND if there is no such rank or the group has not been joined; FERRY_E_INVALID for
 * a NULL or an invalid struct_size; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_group_member(const ferry_group *group, ferry_rank rank,
                                          ferry_member_info *info);

/*
 * Finds the member of a device by the device's id in the group, and the device's index among that
 * member's devices. Returns FERRY_OK; FERRY_E_NOT_FOUND if there is no such device or the group has
 * not been joined; FERRY_E_INVALID for a NULL; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_group_device(const ferry_group *group, uint32_t device,
                                          ferry_rank *rank_p, uint32_t *index_p);

/*
 * The live members, as agreed by all of them. The future's value is an array of ferry_rank in
 * ascending order. Each call takes part in one of a series of rounds, and all members that take
 * part in a round get the same answer. Every live member must call; if one has not called by
 * `deadline_ns` (absolute; 0: none), all that called fail with FERRY_E_DEADLINE, and the message
 * names that member. Members that die during the round are left out. FERRY_E_STORE: as for
 * ferry_barrier.
 */
FERRY_API ferry_future *ferry_group_alive(ferry_group *group, int64_t deadline_ns);

typedef struct ferry_barrier_options {
    size_t struct_size;        /* sizeof(ferry_barrier_options) */
    const ferry_rank *members; /* those that meet, the same for each of them; NULL: all, in a
                                  closed group; in an open one they are named */
    uint32_t member_count;
    uint32_t reserved;   /* zero */
    int64_t deadline_ns; /* absolute; 0: none */
} ferry_barrier_options;

#define FERRY_BARRIER_OPTIONS_INIT FERRY_SIZED_INIT(ferry_barrier_options)

/*
 * A barrier: the future resolves when every member of the barrier has called it with the same name
 * (letters as in a job's name). A name may be used any number of times: the k-th call of a member
 * meets the k-th calls of the others. If a member restarts, its next call of each barrier that
 * others have passed meanwhile fails with FERRY_E_CHANGED; after that it is in step with them. The
 * future fails with
 *   FERRY_E_DEADLINE     the message names the absentees by rank and when they were last seen
 *   FERRY_E_DEAD         a member that the barrier waits for died or left: the error's rank
 *   FERRY_E_CANCELLED    this member, or another one that had come, cancelled: the error's rank
 *   FERRY_E_INVALID      another member named other members; found after about a second
 *   FERRY_E_STORE        the store was emptied or replaced during the barrier. All members that had
 *                        not yet heard of the barrier's end fail so; the next call is in step again
 *   FERRY_E_CHANGED, FERRY_E_FENCED, FERRY_E_SHUTDOWN.
 *
 * All members that came have the same outcome, with two exceptions: for members that fail with
 * FERRY_E_STORE the outcome is unknown, and a member that the store does not answer within 0.15 s
 * after its deadline fails alone. A job remembers the last 512 names for each lowest rank of a
 * barrier; a restarted member is told nothing of older names.
 */
FERRY_API ferry_future *ferry_barrier(ferry_group *group, const char *name,
                                      const ferry_barrier_options *options);

/*
 * Values that all members of a job see. Keys are 1 to 128 of A-Z a-z 0-9 . _ - /, and no part
 * between slashes is empty or dots alone; values are at most 64 KiB. `get` waits until the key
 * exists. `try_get` takes one round trip to the store, and fails with FERRY_E_NOT_FOUND if the key
 * does not exist. `watch` waits until the key has a version above `seen`; 0: any version. Deadlines
 * are absolute; 0: none. Values belong to the job's store, not to the member that set them. If the
 * store is emptied, the values are gone and versions begin anew; a waiting `watch` then gets the
 * next value that is set or restored.
 */
FERRY_API ferry_future *ferry_group_set(ferry_group *group, const char *key, const void *data,
                                        size_t size_bytes, int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_get(ferry_group *group, const char *key, int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_try_get(ferry_group *group, const char *key,
                                            int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_watch(ferry_group *group, const char *key, uint64_t seen,
                                          int64_t deadline_ns);

/*
 * Preemption: a member that must go (SIGTERM from its scheduler) gives notice. Then all members
 * agree on one step after which to stop, so that all save the same state. Before each step a member
 * calls ferry_group_step with the step's number; numbers grow from 1. While there is no notice, the
 * future resolves at once and asks nobody. After a notice it resolves when the live members have
 * agreed; they need not call ferry_group_step for that. Then ferry_group_stop_step returns the step
 * after which to stop, or UINT64_MAX if there is no notice. If that step is below the member's next
 * step, the member must not run the next step. The agreed step is the latest that any member had
 * begun, so no member is past it; it stays the same for the group's life. A member must not run a
 * step whose future failed either (FERRY_E_DEADLINE).
 */
FERRY_API ferry_future *ferry_group_give_notice(ferry_group *group);
FERRY_API ferry_future *ferry_group_step(ferry_group *group, uint64_t step, int64_t deadline_ns);
FERRY_API uint64_t ferry_group_stop_step(const ferry_group *group);

/*
 * NCCL beside the program's own (groups with FERRY_GPU_WAY_NCCL or FERRY_GPU_WAY_ALL; for others
 * both do nothing, and succeed). A kernel of NCCL stands on its GPU until its other ends are there.
 * If a GPU has no room for both, a collective of the program and a message of ferry's can wait for
 * each other for ever, also through third members. So each member of the collective pauses before
 * it launches its part, waits for the future, and resumes when that part has ended on its GPU:
 *
 *   ferry_future *pause = ferry_group_nccl_pause(group, 0);
 *   if (ferry_future_wait(pause, -1) == FERRY_OK) {
 *       ncclAllReduce(..., stream);
 *       cudaStreamSynchronize(stream);
 *   }
 *   ferry_future_release(pause);
 *   ferry_future_release(ferry_group_nccl_resume(group));
 *
 * Once a pause has resolved, nothing that ferry launched with NCCL for this group is on this
 * member's GPUs, nothing will be before the resume, and no communicator is being made; one may
 * still be ended. What went before is over at the other ends, too, so they get by without this
 * member's progress. What stands on a lost GPU does not count. Other members need not pause for
 * that, and what they send each other goes on. Messages to or from this member that are to go by
 * NCCL wait; their deadlines and cancels count as ever. So no member waits for one of them before
 * it joins the collective. Messages that go another way don't wait. Members may pause and resume in
 * any order, and at any time.
 *
 * A pause that fails leaves no pause behind, unless an earlier one has succeeded. To pause again
 * while paused resolves at once; one resume ends all pauses. A pause that has yet to resolve fails
 * with FERRY_E_CANCELLED then. A member that leaves takes part again in what it has yet to send.
 *  deadline_ns  absolute, on the engine's clock; 0: none
 * The futures fail with FERRY_E_DEADLINE (the error names a member with which something still
 * goes, if there is one), FERRY_E_CANCELLED, FERRY_E_DEAD, FERRY_E_FENCED, FERRY_E_INVALID,
 * FERRY_E_NO_MEMORY, FERRY_E_SHUTDOWN or FERRY_E_FORKED.
 */
FERRY_API ferry_future *ferry_group_nccl_pause(ferry_group *group, int64_t deadline_ns);
FERRY_API ferry_future *ferry_group_nccl_resume(ferry_group *group);

#ifdef __cplusplus
}
#endif
#endif
