/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What groups write into a store, as text: one item a line, in a fixed order, one space between.
 * What is read was written by anybody: every number has bounds, every text a length and an
 * alphabet, and what is not exactly as it would be written is refused as a whole.
 */
#ifndef FRY_NET_GROUP_TEXT_H
#define FRY_NET_GROUP_TEXT_H

#include "base/memory.h"
#include "net/group.h"

#include <inttypes.h>

#define FRY_GROUP_JOB_BYTES 64
#define FRY_GROUP_PLACE_BYTES 64
#define FRY_GROUP_NAME_BYTES 64 /* of a barrier */
#define FRY_GROUP_DEVICES_MAX 65535
#define FRY_GROUP_STARTS_MAX (((uint64_t)1 << 47) - 1)
#define FRY_GROUP_MEMBER_TEXT_BYTES 2048 /* at most, of a member's record with its proof */
#define FRY_GROUP_ROSTER_TEXT_BYTES(size) (256 + (size_t)(size)*120) /* likewise */
#define FRY_GROUP_SET_TEXT_BYTES(size) (2 + (size_t)(size)*6)        /* ranks as "0-3,7" */
#define FRY_GROUP_LINE_TEXT_BYTES 192                                /* of an arrival */

/* By which the kernel knows a process. */
typedef struct fry_group_process {
    int64_t pid;
    uint64_t started; /* as the kernel counts; 0: not known */
    uint64_t kernel;  /* whose processes its pid is among */
} fry_group_process;

/* What a member's record is there for. */
typedef enum fry_record_state {
    FRY_RECORD_HERE, /* it wants a rank, or has it */
    FRY_RECORD_BACK, /* it had a rank when its first record was lost: never to be taken for one that
                        wants a rank */
    FRY_RECORD_BUSY, /* likewise; and it has yet to write again what the store has lost */
    FRY_RECORD_LEFT, /* it said goodbye */
} fry_record_state;

/* What a member says of itself. */
typedef struct fry_group_record {
    fry_record_state state;
    int32_t rank; /* it asked for */
    uint32_t size, size_min;
    uint32_t device_count;
    int64_t lease_ns;
    fry_group_process process;
    char place[FRY_GROUP_PLACE_BYTES + 1];
    char host[64];
    char endpoint[FRY_GROUP_RECORD_BYTES];
} fry_group_record;

/* Writes it, with an ending zero; the length without that. */
size_t fry_group_record_write(const fry_group_record *record, char *text);
bool fry_group_record_read(const char *text, size_t text_bytes, fry_group_record *record);

/* Who has a rank. */
typedef struct fry_group_slot {
    uint64_t id; /* of the member's start */
    uint64_t incarnation;
    bool is_dead;   /* it was agreed that it is, and so it is for good */
    uint64_t place; /* its hash; 0: none */
    uint32_t device_count, first_device;
    fry_group_process process;
} fry_group_slot;

/* Who has which rank: the one key that says so. */
typedef struct fry_group_roster {
    uint64_t version;
    uint64_t lineage;  /* of all lives that know of one another: chosen at random by the first */
    uint64_t life;     /* counts up whenever a group is formed of new */
    uint64_t starts;   /* the newest incarnation there is */
    uint64_t formed;   /* the incarnation of those who formed this life */
    uint64_t restores; /* how often it was written again, as the store had lost it */
    int64_t lease_ns;  /* the longest that a holder had */
    uint32_t size;
    bool is_open; /* formed of whoever was there */
    fry_group_slot slots[];
} fry_group_roster;

#define FRY_GROUP_ROSTER_BYTES(size)                                                               \
    (sizeof(fry_group_roster) + (size_t)(size) * sizeof(fry_group_slot))

/* Writes FRY_GROUP_ROSTER_TEXT_BYTES(size) at most. */
size_t fry_group_roster_write(const fry_group_roster *roster, char *text);

/* The caller's to free, FRY_GROUP_ROSTER_BYTES(size). NULL: it is none (*is_text_bad), or there is
 * no memory. */
fry_group_roster *fry_group_roster_read(const fry_memory *memory, const char *text,
                                        size_t text_bytes, bool *is_text_bad);

/*
 * What is to be said of a rank only grows: incarnations, and that one is dead. So of two rosters of
 * one lineage the later life counts, and of one life of each rank what is newer; `into`, which is
 * of the same lineage, life and size, takes that from `from`. True: it had something to take.
 */
bool fry_group_roster_merge(fry_group_roster *into, const fry_group_roster *from);

/* How a round of a barrier, or of the living, or the agreement on a step, ended. */
typedef struct fry_group_verdict {
    uint64_t life;
    uint64_t number; /* of the round; 0: none has ended yet */
    uint64_t passed; /* the newest that ended with FERRY_OK */
    ferry_status status;
    uint32_t rank; /* who ended it, or whose death did */
    bool has_left; /* FERRY_E_DEAD: that one left */
    uint64_t set;  /* hash of the members it was between; 0: the living */
    uint64_t value;
    const char *ranks; /* borrowed: absentees of FERRY_E_DEADLINE, who came of FERRY_OK; "-" none */
    size_t ranks_bytes;
} fry_group_verdict;

size_t fry_group_verdict_write(const fry_group_verdict *verdict, char *text, size_t text_bytes);
bool fry_group_verdict_read(const char *text, size_t text_bytes, fry_group_verdict *verdict);

/* One who has come to a round. */
typedef struct fry_group_arrival {
    char name[FRY_GROUP_NAME_BYTES + 3]; /* with its kind: "b/NAME" */
    uint64_t number, incarnation, set, value;
} fry_group_arrival;

size_t fry_group_arrival_write(const fry_group_arrival *arrival, char *text);

/* Reads the line that *text_p stands on and moves on. False: the end, or not a line. */
bool fry_group_arrival_next(const char **text_p, const char *end, fry_group_arrival *arrival);

/* Ranks, ascending, as "0-3,7"; "-" for none. False: there was no room, cut at a rank. */
bool fry_group_set_write(const bool *is_in, uint32_t size, char *text, size_t text_bytes);

/* False: it is none, or of ranks that are not below size. is_in: size, all set. */
bool fry_group_set_read(const char *text, size_t text_bytes, bool *is_in, uint32_t size);

/* A notice that life `life` is to end. */
size_t fry_group_notice_write(uint64_t life, uint32_t rank, char *text, size_t text_bytes);
bool fry_group_notice_read(const char *text, size_t text_bytes, uint64_t *life_p, uint32_t *rank_p);

/* 64 bits that stand for some bytes; never 0. */
uint64_t fry_group_hash(const void *bytes, size_t size_bytes);

/* 1 to bytes_max of A-Z a-z 0-9 . _ - and, if slashes may be, of keys; not of dots alone. */
bool fry_group_is_name(const char *text, size_t bytes_max, bool may_have_slashes);

/* An id as in keys: 16 hex digits. */
#define FRY_GROUP_ID_FORMAT "%016" PRIx64
bool fry_group_id_read(const char *text, uint64_t *id_p);

#endif
