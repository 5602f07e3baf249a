/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of a group. The keys, all below "ferry/JOB/":
 *
 *   group/roster        the holders of all ranks; changed by SWAP only (text.h)
 *   group/member/ID     the record of a member's start, with its own ID: in its lease while the
 *                       member lives; without a lease and "left" after it has left. A live member
 *                       whose lease expired writes it again, in a new lease (stand.c)
 *   group/clear/ID      in an open group: which ends that member has been told of, and of which it
 *                       still holds something; in its lease (seats.c)
 *   group/notice        a member was told to go
 *   group/round/NAME    the end of the newest round of a barrier ("b/..."), of "alive", or of the
 *                       agreement on the step to stop at ("stop"); changed by SWAP only
 *   meet/RANK/RANK      the rounds coordinated by the first rank to which the second has come; in
 *                       the second's lease, one key for any number of rounds
 *   value/KEY           the users' values
 *
 * Every member follows group/ by one watch; the coordinator of an open round also follows its
 * meet/.
 *
 * The watch's news is only noted. `work` draws the conclusions, run soon by a timer that is due at
 * once, from everything known by then. So a burst of news costs one pass, and the result of a pass
 * does not depend on the order in which keys were reported (only each key's own order is promised).
 * `work`, or an answer of the store, calls the users' callbacks.
 */
#ifndef FRY_NET_GROUP_STATE_H
#define FRY_NET_GROUP_STATE_H

#include "net/group/group.h"
#include "net/group/seal.h"
#include "net/group/text.h"

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#define FRY_GROUP_PRESENCES_MAX (4 * FERRY_GROUP_SIZE_MAX)
#define FRY_GROUP_REQUESTS_MAX 65536
#define FRY_GROUP_ROUNDS_KEPT                                                                      \
    512 /* names of barriers in the store, for each coordinator of rounds */

/* Extra time for one more message of the store. */
#define FRY_GROUP_SLACK_NS INT64_C(1000000000)
#define FRY_GROUP_STEP_ASIDE_NS INT64_C(1000000) /* for each member that acts first */
#define FRY_GROUP_STEP_ASIDE_MAX_NS INT64_C(50000000)
#define FRY_GROUP_LATE_NS INT64_C(150000000)       /* after a deadline, for the store's answer */
#define FRY_GROUP_LOOK_AFTER_NS INT64_C(100000000) /* before a missing record is asked for */

typedef struct fry_presence fry_presence;
typedef struct fry_round fry_round;
typedef struct fry_round_call fry_round_call;
typedef struct fry_round_coordinator fry_round_coordinator;

typedef enum fry_group_state {
    FRY_GROUP_OPENING = 0, /* the lease is being taken, the record written */
    FRY_GROUP_WAITING,     /* registered; has no rank yet */
    FRY_GROUP_PLACED,      /* has a rank; does not know all others yet */
    FRY_GROUP_JOINED,
    FRY_GROUP_LEAVING,
    FRY_GROUP_OVER,   /* left, or the join failed */
    FRY_GROUP_FENCED, /* */
    FRY_GROUP_CLOSED,
} fry_group_state;

typedef enum fry_presence_state {
    FRY_PRESENCE_MISSING = 0, /* its key is missing: it has ended, or will be back */
    FRY_PRESENCE_HERE,
    FRY_PRESENCE_LEFT, /* for good */
} fry_presence_state;

/* A start of a member, as its record describes it. */
struct fry_presence {
    RB_ENTRY(fry_presence) entry;
    uint64_t id;
    uint64_t version;
    fry_presence_state state;
    bool is_bad;           /* the record is invalid */
    bool is_back, is_busy; /* its record says that it had a rank before; and that it must restore */
    bool is_being_deleted; /* its process has ended */
    bool is_listed;        /* was in the newest list */
    bool has_ended;        /* the kernel reported its end, which is final */
    bool has_looked;       /* the kernel was asked since it went missing */
    bool was_here;         /* MISSING: its key was seen to disappear */
    int64_t missing_ns;    /* MISSING: since when, as reported */
    int32_t rank;          /* that it asked for */
    uint32_t size, size_min; /* size_min 0, with a size: it wants an open group */
    int64_t lease_ns;
    uint64_t clear_seen; /* in an open group: the ends that it acknowledges, and */
    char *clear_held;    /* those of which it holds something; NULL: of none */
    size_t clear_held_bytes;
    uint64_t news; /* a number that grows with each new start heard of */
    fry_group_process process;
    char place[FRY_GROUP_PLACE_BYTES + 1];
    fry_group_member info;
};

typedef struct fry_presences {
    fry_presence *rbh_root;
} fry_presences;

/* The reported state of a rank. */
typedef struct fry_group_view {
    uint64_t id;
    uint64_t incarnation;
    fry_presence *presence;  /* NULL: not known */
    ferry_member_state told; /* ABSENT: nothing of this id was reported */
    /* In an open group. */
    bool is_held;            /* reported HERE, and the caller has yet to let go of it */
    bool is_said_to_be_held; /* the store has that from this member */
    bool has_joined_been_told, has_end_been_told; /* as events, or before this member joined */
} fry_group_view;

/* A request of the group itself to the store. */
struct fry_group_op {
    fry_store_request request; /* first */
    fry_group *group;
    fry_group_op_fn fn;
    void *arg;
    size_t bytes;  /* of the whole block */
    uint64_t past; /* the store's `past` when it began */
    char key[FRY_STORE_KEY_BYTES + 1];
    _Alignas(uint64_t) char value[];
};

/* Kinds of rounds. */
typedef enum fry_round_kind {
    FRY_ROUND_BARRIER,
    FRY_ROUND_ALIVE, /* the set of the living */
    FRY_ROUND_STOP,  /* the step to stop at */
} fry_round_kind;

/*
 * A call of this member that waits, or one that nobody waits for any more but that must still end
 * its round.
 */
struct fry_round_call {
    fry_round_call *next;
    fry_round *round;
    fry_group_request *request; /* NULL: nobody waits, or the group itself waits ("stop") */
    ferry_status status;        /* in that case: the status to end the round with */
    uint64_t value;             /* the step */
    uint64_t set;               /* hash of the members */
    uint32_t member_count;      /* 0: all, or all that live */
    uint32_t members[];         /* ascending */
};

/* The rounds of one name: of a barrier, or of one of the other two kinds. */
struct fry_round {
    RB_ENTRY(fry_round) entry;
    LIST_ENTRY(fry_round) active; /* in the list of rounds with calls */
    fry_group *group;
    fry_round_kind kind;
    char name[FRY_GROUP_NAME_BYTES + 3]; /* the end of its key: "b/NAME", "alive", "stop" */
    /* As the store has it. */
    uint64_t version; /* 0: no record */
    uint64_t version_seen;
    fry_group_verdict verdict; /* its ranks are in `ranks` */
    char *ranks;
    size_t ranks_room_bytes;
    bool is_own;  /* this member wrote it, or is responsible for its end */
    bool is_lost; /* the store has lost it, and this member's knowledge of it must be restored */
    /* As this member has seen it. */
    uint64_t own; /* rounds of the barrier that it has come to or was told of */
    bool has_called;
    fry_round_call *first, *last;
    /* Of the first call. */
    bool is_open;
    uint64_t number; /* number of its round */
    uint32_t coordinator;
    int64_t act_ns; /* when to act in place of others; 0: never */
    fry_timer timer;
    fry_group_op *op; /* the request that ends the round or asks who has come */
};

typedef struct fry_rounds {
    fry_round *rbh_root;
} fry_rounds;

/* A coordinator of rounds, for whom arrivals are written. */
struct fry_round_coordinator {
    fry_round_coordinator *next;
    fry_group *group;
    uint32_t rank;
    bool is_due, is_failed;
    fry_group_op *op;
};

struct fry_group {
    fry_reactor *reactor;
    const fry_memory *memory;
    fry_store *store;
    fry_group_events events;
    void *arg;

    fry_group_state state;
    unsigned store_depth; /* depth of the store's callbacks, in which the store can't be closed */
    bool is_working;      /* in `work`, where the group can't be freed */
    bool is_joined_told;
    fry_timer work;

    char job[FRY_GROUP_JOB_BYTES + 1];
    char prefix[FRY_GROUP_JOB_BYTES + 16]; /* "ferry/JOB/group/" */
    fry_group_record record;               /* this member's own record */
    fry_group_seal seal;
    int64_t lease_ns, deadline_ns;
    uint64_t id;
    char own_key[FRY_STORE_KEY_BYTES + 1]; /* key of its record */
    uint64_t own_version;
    fry_store_lease lease;
    fry_store_watch watch;
    fry_group_op *own_op;      /* the request that writes or reads the record */
    unsigned round_trips;      /* round trips measured for the lease's check */
    bool is_leased;            /* it has a lease or is taking one */
    bool is_registered;        /* the record is in the lease, as far as is known */
    bool has_registered;       /* it was registered once */
    bool has_been_refused;     /* the first record was refused */
    bool is_standing_in_doubt; /* its standing must be checked */
    bool is_watched, is_listed, is_lost;
    int64_t lost_since_ns;
    int64_t healthy_ns; /* since when the watch knows the store's contents */
    int64_t unwell_ns;  /* when the store last refused something wrongly */
    uint64_t past;      /* counts how often the store has lost its past */
    bool is_settled;    /* everything that the store had lost is restored */
    fry_group_op *settle_op;
    char *record_text; /* as it was written */
    size_t record_text_bytes;
    void (*left)(void *arg);
    void *left_arg;

    /* Members. */
    fry_presences presences;
    uint32_t presence_count;
    uint64_t news;
    fry_group_roster *roster; /* as the store has or had it; NULL: none */
    uint64_t roster_version;  /* 0: the key does not exist, as far as is known */
    bool is_roster_behind;    /* the store's roster is older than this member's knowledge */
    int32_t rank;
    uint64_t incarnation, lineage;
    uint32_t view_count;
    fry_group_view *views;
    fry_group_op *roster_op, *list_op;
    fry_group_op *clear_op; /* the request that writes what this member acknowledges */
    uint64_t clear_seen;    /* the newest end that was told */
    uint64_t clear_written; /* the one that the store has from this member */
    bool is_clear_lost;     /* what the store has of it must be written again */
    bool is_list_wanted, has_lost_news;
    uint64_t listed_roster_version; /* the roster's version when the newest finished list began */
    fry_timer join_timer, block_timer, look_timer, retry_timer;
    fry_timer again_timer, aside_timer;
    int64_t again_ns;     /* when this pass wants `work` to run again; 0: not */
    int64_t aside_end_ns; /* until then others may change the roster first; 0: no wait */
    int64_t retry_ns;     /* time of the next attempt after the store's refusal */
    bool is_deadline_over;
    uint64_t blocked_by; /* id; 0: none */
    int64_t blocked_ns;  /* since when */
    bool is_block_over;
    uint64_t looked_version; /* the roster's, whose members' processes join.c looked at; 0: none */
    uint64_t words_news;  /* `news` of those who had left at the roster's last change, and before */
    ferry_status refusal; /* the store's refusal of the lease or the record */
    char why[160];

    /* Rounds. */
    fry_rounds rounds; /* of all known names */
    uint32_t round_count, own_round_count, lost_round_count;
    LIST_HEAD(, fry_round) active_rounds;
    fry_round_coordinator *coordinators;
    fry_timer meet_timer;
    fry_group_op *meet_op; /* the request that compares all arrivals */
    fry_store_watch meet_watch;
    char meet_prefix[FRY_GROUP_JOB_BYTES + 32];
    bool is_coordinating, has_lost_arrivals;
    char **arrivals; /* by rank, the arrivals' texts in the store; NULL: not a coordinator yet */
    uint64_t notice_life; /* 0: no notice */
    uint32_t notice_rank;
    bool is_notice_lost, is_restoring_notice; /* the store lost the notice; it is being restored */
    uint64_t stop_step, step_begun;

    fry_provider requests;
};

/* Makes an error about `rank` (-1: none), which the caller owns. */
#define fry_group_error(group, status_, rank_, ...)                                                \
    fry_error_create((group)->memory, &(fry_fault){.status = (status_), .rank = (rank_)}, NULL,    \
                     __VA_ARGS__)

#endif
