/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reshards: an array that lies over the devices of a group in one way is laid over them in another.
 * ferry computes who sends what to whom, on paper, and makes a plan of each member's part in it.
 */
#ifndef FERRY_RESHARD_H
#define FERRY_RESHARD_H

#include <ferry/group.h>
#include <ferry/op.h>
#include <ferry/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_RESHARD_DIMENSIONS_MAX 8
#define FERRY_RESHARD_AXES_MAX 16
#define FERRY_RESHARD_POSITIONS_MAX (1u << 16) /* of a mesh */
#define FERRY_RESHARD_MOVES_MAX (1u << 24)

/* What is moved in pieces of at most so many bytes, or one element: what is packed for it. */
#define FERRY_RESHARD_PACKED_BYTES_MAX ((uint64_t)4 << 20)

/* An axis of a mesh, for example {"data", 4}. */
typedef struct ferry_mesh_axis {
    const char *name; /* not empty; no two axes of a mesh have one */
    uint64_t size;    /* at least 1 */
} ferry_mesh_axis;

/* The axes that split a dimension of an array; the first is the outermost. */
typedef struct ferry_split {
    const char *const *axes; /* names of axes; NULL if there are none */
    size_t axis_count;       /* 0: the dimension is whole everywhere */
} ferry_split;

/*
 * How an array lies. A mesh has a position for each combination of places on its axes, numbered in
 * row-major order: the last axis counts fastest. A position is a device of a member.
 *
 * A dimension that is split by axes has as many blocks as their sizes multiplied. All blocks have
 * ceil(size / blocks) indices, but the last of those that have any may have fewer, and those behind
 * it none: 10 in 4 blocks is 3, 3, 3, 1, and 5 in 4 is 2, 2, 1, 0. A position has the block of its
 * place on these axes. An axis that splits nothing replicates: positions that differ only there
 * have the same part of the array. A position's part lies in its buffer in row-major order, without
 * gaps.
 *
 * Initialise it with FERRY_LAYOUT_INIT. The layout is borrowed during a call, with all it points
 * to.
 */
typedef struct ferry_layout {
    size_t struct_size;          /* sizeof(ferry_layout) */
    const ferry_mesh_axis *axes; /* NULL if there are none: a mesh of one position */
    size_t axis_count;           /* at most FERRY_RESHARD_AXES_MAX */
    const ferry_rank *ranks;   /* whose device each position is, one for each; a member with several
                                  devices stands as often, and its buffers are named in this order.
                                  A member keeps its rank when it restarts. NULL: position i is of
                                  rank i */
    size_t rank_count;         /* 0 if ranks is NULL */
    const ferry_split *splits; /* one for each dimension; NULL: nothing is split */
    size_t split_count;        /* 0 if splits is NULL */
} ferry_layout;

#define FERRY_LAYOUT_INIT FERRY_SIZED_INIT(ferry_layout)

/* Which of a reshard's two layouts. */
typedef enum ferry_reshard_side FERRY_INT_ENUM {
    FERRY_RESHARD_FROM = 0,
    FERRY_RESHARD_TO = 1,
} ferry_reshard_side;

typedef struct ferry_reshard ferry_reshard; /* the schedule of a reshard */

/*
 * Computes a reshard: a list of moves, each of a box of the array from one position to another.
 * Everybody who computes it from the same arguments gets the same, so the members need not talk.
 * It needs no engine and touches no memory of the array: it is as good for planning as for doing.
 *
 * - What a position needs and its member has does not leave the member. All else comes to the
 *   member once, from a member that has it; further positions of the member that need it get a
 *   copy there.
 * - What several members have is divided between them so that the one that sends most sends as
 *   little as is possible. Where that would cut boxes into thin strips, it may be up to 1/32 more.
 * - Bytes come straight from a member that has them in the layout `from`: none hands on what it has
 *   just received.
 *
 *  shape            indices of each dimension, each at least 1
 *  dimension_count  1 to FERRY_RESHARD_DIMENSIONS_MAX
 *  element_bytes    at least 1. The whole array has less than 2^63 bytes
 *  from, to         ranks are below FERRY_GROUP_SIZE_MAX; the meshes may be of different members,
 *                   shapes and sizes
 *  reshard_p        receives the reshard, which the caller ends with ferry_reshard_release. Set
 *                   only on success
 *  error_p          NULL, or receives an error that names what is wrong, and where; the caller
 *                   releases it with ferry_error_release. Set only on failure
 * Any thread, any context. Takes time and memory in proportion to positions and moves. Returns
 * FERRY_OK; FERRY_E_INVALID for a NULL, for a shape, layout or element out of its limits or that
 * do not match, for an axis that is named twice or that the mesh does not have, and for more than
 * FERRY_RESHARD_MOVES_MAX moves; FERRY_E_NO_MEMORY.
 */
FERRY_API ferry_status ferry_reshard_create(const uint64_t *shape, size_t dimension_count,
                                            uint64_t element_bytes, const ferry_layout *from,
                                            const ferry_layout *to, ferry_reshard **reshard_p,
                                            ferry_error **error_p);

/* Releases a reshard; NULL is allowed. Plans that were made of it stay. Any thread, any context. */
FERRY_API void ferry_reshard_release(ferry_reshard *reshard);

/* What a reshard comes to. Initialise it with FERRY_RESHARD_INFO_INIT. */
typedef struct ferry_reshard_info {
    size_t struct_size;      /* sizeof(ferry_reshard_info) */
    uint64_t array_bytes;    /* of the array, once */
    uint64_t crossing_bytes; /* that go from one member to another */
    uint64_t local_bytes;    /* that are copied within a member */
    uint64_t busiest_bytes;  /* the most that goes out of a member, or into one */
    uint64_t bound_bytes;    /* the least that this could be, if who has bytes sends them */
    uint64_t move_count;
    uint64_t message_count; /* moves that go from one member to another */
    uint32_t from_positions, to_positions;
    uint32_t rank_count; /* all ranks of both layouts are below it */
    uint32_t reserved;   /* zero */
} ferry_reshard_info;

#define FERRY_RESHARD_INFO_INIT FERRY_SIZED_INIT(ferry_reshard_info)

/*
 * Describes a reshard.
 *  info  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_INVALID for a NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_reshard_describe(const ferry_reshard *reshard,
                                              ferry_reshard_info *info);

/* The part of the array that a position has. Initialise it with FERRY_RESHARD_PART_INIT. */
typedef struct ferry_reshard_part {
    size_t struct_size; /* sizeof(ferry_reshard_part) */
    ferry_rank rank;    /* whose position it is */
    uint32_t index;     /* among the positions of that member: which of its buffers */
    uint64_t size_bytes;
    uint64_t offset[FERRY_RESHARD_DIMENSIONS_MAX]; /* where it begins in each dimension */
    uint64_t extent[FERRY_RESHARD_DIMENSIONS_MAX]; /* its indices there, perhaps 0; past the array's
                                                      dimensions 1 */
} ferry_reshard_part;

#define FERRY_RESHARD_PART_INIT FERRY_SIZED_INIT(ferry_reshard_part)

/*
 * Tells what a position has.
 *  part  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_NOT_FOUND if the layout has no such position;
 * FERRY_E_INVALID for a NULL, an invalid side or an invalid struct_size.
 */
FERRY_API ferry_status ferry_reshard_part_at(const ferry_reshard *reshard, ferry_reshard_side side,
                                             uint32_t position, ferry_reshard_part *part);

/* A box that goes from a position to a position. Initialise it with FERRY_RESHARD_MOVE_INIT. */
typedef struct ferry_reshard_move {
    size_t struct_size;       /* sizeof(ferry_reshard_move) */
    ferry_reshard_side side;  /* whose positions source_position counts. TO: what came to a
                                 position is copied to another one of the same member */
    uint32_t source_position; /* whence */
    uint32_t target_position; /* whither, in the layout `to` */
    ferry_rank source_rank, target_rank; /* the same: it is local */
    bool is_packed;                      /* at the source it is strided, and sent from scratch */
    bool is_unpacked;                    /* likewise at the target */
    uint8_t reserved[2];                 /* zero */
    uint64_t size_bytes;
    uint64_t offset[FERRY_RESHARD_DIMENSIONS_MAX];
    uint64_t extent[FERRY_RESHARD_DIMENSIONS_MAX];
} ferry_reshard_move;

#define FERRY_RESHARD_MOVE_INIT FERRY_SIZED_INIT(ferry_reshard_move)

/*
 * Tells a move. Those from one member to another are sent in the order of their indices.
 *  move  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_NOT_FOUND past the last; FERRY_E_INVALID for a
 * NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_reshard_move_at(const ferry_reshard *reshard, uint64_t index,
                                             ferry_reshard_move *move);

/* A member's part in a reshard. Initialise it with FERRY_RESHARD_MEMBER_INIT. */
typedef struct ferry_reshard_member {
    size_t struct_size;     /* sizeof(ferry_reshard_member) */
    uint32_t from_count;    /* its positions in the layout `from` */
    uint32_t to_count;      /* and in `to` */
    uint64_t out_bytes;     /* that it sends */
    uint64_t in_bytes;      /* that it receives */
    uint64_t local_bytes;   /* that it copies */
    uint64_t send_count;    /* messages */
    uint64_t receive_count; /* likewise */
    uint64_t scratch_bytes; /* of strided moves that are packed or unpacked: a plan holds so much
                               scratch, or its scratch_bytes_max */
} ferry_reshard_member;

#define FERRY_RESHARD_MEMBER_INIT FERRY_SIZED_INIT(ferry_reshard_member)

/*
 * Tells a member's part.
 *  rank    one that stands in no layout has no part: all zero
 *  member  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_INVALID for a NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_reshard_member_at(const ferry_reshard *reshard, ferry_rank rank,
                                               ferry_reshard_member *member);

/* Options of a plan. Initialise them with FERRY_RESHARD_OPTIONS_INIT. Borrowed during the call. */
typedef struct ferry_reshard_options {
    size_t struct_size;     /* sizeof(ferry_reshard_options) */
    const ferry_span *from; /* this member's parts in the layout `from`, one for each of its
                               positions in their order, each of just the part's size; the span of
                               an empty part is ignored. Any devices of the engine */
    size_t from_count;
    const ferry_span *to; /* likewise in `to`. None may overlap another span here */
    size_t to_count;
    ferry_tag tag;              /* of all messages; the members' own are alike */
    uint64_t scratch_bytes_max; /* scratch that the plan may hold; 0: 256 MiB. At least the largest
                                   strided move out of each device and the largest into each; with
                                   less than ferry_reshard_member.scratch_bytes, moves wait for
                                   each other */
    ferry_priority priority;    /* of all operations of the plan */
    uint32_t reserved;          /* zero */
} ferry_reshard_options;

#define FERRY_RESHARD_OPTIONS_INIT FERRY_SIZED_INIT(ferry_reshard_options)

/*
 * Makes the plan of this member's part in a reshard. Every member that has a part in it makes its
 * own, and posts it as often as the others post theirs (ferry_plan_post of the whole plan). A post
 * waits for what defines the `from` spans and holds them as read, and the `to` spans as written.
 * After it has failed, what it was to write is poisoned. The others' posts fail if they have
 * messages with it that began; if it failed before, for example because a `from` span was poisoned,
 * they wait for these until their deadline or a cancel. Then the members' messages of that tag may
 * be out of step: go on with plans of another tag.
 *
 * A move that lies in one run at an end is sent from there, or received there. One that is strided
 * is copied by rows into scratch of the same device, and sent from there, or received into scratch
 * and copied from there. The scratch is allocated now, and lives as long as the plan and its posts.
 * Moves are in an order in which all members send to different ones at a time.
 *
 *  group    joined. Ranks of the layouts are this group's
 *  reshard  borrowed during the call; computed from the same arguments by all members
 *  options  NULL: of a member that has no part, whose plan does nothing
 *  plan_p   receives the plan, which the caller ends with ferry_plan_release. Set only on success
 *  error_p  NULL, or receives an error that names what is wrong; the caller releases it with
 *           ferry_error_release. Set only on failure
 * Any thread. Allocates scratch, which may block. Returns FERRY_OK; FERRY_E_INVALID for a NULL,
 * invalid options, a group that has not been joined, a layout that names a rank which the group
 * does not have, spans that are not one for each position, of another size, or that overlap,
 * scratch_bytes_max below what is needed, more than FERRY_PLAN_OPS_MAX operations, or more spans
 * than a post may touch (an eighth of max_accesses or a quarter of max_edges); the status that
 * ferry_plan_create or ferry_buffer_alloc gives; FERRY_E_NO_MEMORY; FERRY_E_SHUTDOWN;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_reshard_plan(ferry_group *group, const ferry_reshard *reshard,
                                          const ferry_reshard_options *options, ferry_plan **plan_p,
                                          ferry_error **error_p);

#ifdef __cplusplus
}
#endif
#endif
