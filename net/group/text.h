/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that groups write into a store: one item a line, in a fixed order, with one space between
 * fields. Anybody may have written what is read: every number has bounds, every text a length and
 * an alphabet, and a text that differs from how it would be written is refused as a whole.
 */
#ifndef FRY_NET_GROUP_TEXT_H
#define FRY_NET_GROUP_TEXT_H

#include "base/memory.h"
#include "net/group/group.h"

#include <inttypes.h>

#define FRY_GROUP_JOB_BYTES 64
#define FRY_GROUP_PLACE_BYTES 64
#define FRY_GROUP_NAME_BYTES 64 /* of a barrier */
#define FRY_GROUP_KEY_BYTES 128 /* of a value */
#define FRY_GROUP_VALUE_BYTES ((size_t)64 * 1024)
#define FRY_GROUP_DEVICES_MAX 65535
#define FRY_GROUP_SEAT_DEVICES_BITS 16 /* of a device's id in an open group; above: the rank */
#define FRY_GROUP_STARTS_MAX (((uint64_t)1 << 47) - 1)
#define FRY_GROUP_MEMBER_TEXT_BYTES 2048 /* a member's record with its proof, at most */
#define FRY_GROUP_ROSTER_TEXT_BYTES(size) (256 + (size_t)(size)*120) /* likewise */
#define FRY_GROUP_SET_TEXT_BYTES(size) (2 + (size_t)(size)*6)        /* ranks as "0-3,7" */
#define FRY_GROUP_LINE_TEXT_BYTES 192                                /* of an arrival */

/* How the kernel identifies a process. */
typedef struct fry_group_process {
    int64_t pid;
    uint64_t started; /* by the kernel's clock; 0: unknown */
    uint64_t kernel;  /* the kernel that its pid belongs to */
} fry_group_process;

/* Purpose of a member's record. */
typedef enum fry_record_state {
    FRY_RECORD_HERE, /* it wants a rank, or has it */
    FRY_RECORD_BACK, /* it had a rank when its first record was lost: never treat it as one that
                        wants a rank */
    FRY_RECORD_BUSY, /* likewise; and it has yet to restore what the store has lost */
    FRY_RECORD_LEFT, /* it has left */
} fry_record_state;

/* A member's record of itself. */
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

/* Writes the record, with an ending zero; returns the length without it. */
size_t fry_group_record_write(const fry_group_record *record, char *text);
bool fry_group_record_read(const char *text, size_t text_bytes, fry_group_record *record);

/* The holder of a rank. */
typedef struct fry_group_slot {
    uint64_t id; /* id of the member's start; 0: nobody has had the rank (open groups) */
    uint64_t incarnation;
    bool is_dead;   /* agreed dead, for good; in an open group also: has left, or never was */
    bool has_left;  /* open groups: is_dead because it has left */
    uint64_t ended; /* open groups: the number of the change that said is_dead */
    uint64_t place; /* hash of its place; 0: none */
    uint32_t device_count, first_device;
    fry_group_process process;
} fry_group_slot;

/* The roster: the holders of all ranks, in one key. */
typedef struct fry_group_roster {
    uint64_t version;
    uint64_t
        lineage;   /* common to all lives that know of one another; chosen at random by the first */
    uint64_t life; /* grows each time a group is formed anew */
    uint64_t starts;   /* the newest incarnation; of an open group: of an end, too (seats.c) */
    uint64_t formed;   /* the incarnation of the members that formed this life; 0: is_open */
    uint64_t restores; /* how often it was restored after the store had lost it */
    int64_t lease_ns;  /* the longest lease of any holder */
    uint32_t size;
    bool is_unsized; /* formed of all that had come, without a given size */
    bool is_open;    /* members come and go; the size is the greatest number of them */
    fry_group_slot slots[];
} fry_group_roster;

#define FRY_GROUP_ROSTER_BYTES(size)                                                               \
    (sizeof(fry_group_roster) + (size_t)(size) * sizeof(fry_group_slot))

/* Writes the roster, at most FRY_GROUP_ROSTER_TEXT_BYTES(size). */
size_t fry_group_roster_write(const fry_group_roster *roster, char *text);

/*
 * Reads a roster, which the caller frees: FRY_GROUP_ROSTER_BYTES(size). NULL: the text is no roster
 * (*is_text_bad), or there is no memory.
 */
fry_group_roster *fry_group_roster_read(const fry_memory *memory, const char *text,
                                        size_t text_bytes, bool *is_text_bad);

/*
 * Knowledge of a rank only grows: incarnations, and that one is dead. So of two rosters of one
 * lineage the later life counts, and within one life the newer knowledge of each rank. `into`,
 * which has the same lineage, life and size, takes that from `from`. True: it took something. Of an
 * open group only ends are taken: whom `into` does not name has lost its place (seats.c).
 */
bool fry_group_roster_merge(fry_group_roster *into, const fry_group_roster *from);

/* The end of a round: of a barrier, of the living, or of the agreement on a step. */
typedef struct fry_group_verdict {
    uint64_t life;
    uint64_t number; /* number of the round; 0: none has ended yet */
    uint64_t passed; /* number of the newest round that ended with FERRY_OK */
    ferry_status status;
    uint32_t rank; /* the rank that ended it, or whose death did */
    bool has_left; /* FERRY_E_DEAD: that rank left */
    uint64_t set;  /* hash of its members; 0: the living */
    uint64_t value;
    const char *ranks; /* borrowed: absentees for FERRY_E_DEADLINE, those that came for FERRY_OK;
                          "-": none */
    size_t ranks_bytes;
} fry_group_verdict;

size_t fry_group_verdict_write(const fry_group_verdict *verdict, char *text, size_t text_bytes);
bool fry_group_verdict_read(const char *text, size_t text_bytes, fry_group_verdict *verdict);

/* An arrival at a round. */
typedef struct fry_group_arrival {
    char name[FRY_GROUP_NAME_BYTES + 3]; /* with the kind: "b/NAME" */
    uint64_t number, incarnation, set, value;
} fry_group_arrival;

size_t fry_group_arrival_write(const fry_group_arrival *arrival, char *text);

/* Reads the line at *text_p and moves on. False: the end, or an invalid line. */
bool fry_group_arrival_next(const char **text_p, const char *end, fry_group_arrival *arrival);

/*
 * Writes ranks, ascending, as "0-3,7"; "-" for none. False: there was no room, and the text is cut
 * after a rank.
 */
bool fry_group_set_write(const bool *is_in, uint32_t size, char *text, size_t text_bytes);

/*
 * Reads ranks into is_in, of `size` entries, which are all set. False: the text is invalid, or has
 * ranks not below size.
 */
bool fry_group_set_read(const char *text, size_t text_bytes, bool *is_in, uint32_t size);

/* Whether a set as written has the rank; true if the text is invalid. */
bool fry_group_set_has(const char *text, size_t text_bytes, uint32_t rank);

/*
 * What a member of an open group acknowledges: it has been told of all ends up to number `seen`,
 * and of those that ended by then it still holds something of the ranks in `held`.
 */
typedef struct fry_group_clear {
    uint64_t seen;
    const char *held; /* a set, borrowed; "-": none */
    size_t held_bytes;
} fry_group_clear;

#define FRY_GROUP_CLEAR_TEXT_BYTES(size) (128 + FRY_GROUP_SET_TEXT_BYTES(size))

size_t fry_group_clear_write(const fry_group_clear *clear, char *text, size_t text_bytes);
bool fry_group_clear_read(const char *text, size_t text_bytes, fry_group_clear *clear);

/* Writes a notice that life `life` must end. */
size_t fry_group_notice_write(uint64_t life, uint32_t rank, char *text, size_t text_bytes);
bool fry_group_notice_read(const char *text, size_t text_bytes, uint64_t *life_p, uint32_t *rank_p);

/* A 64-bit hash of some bytes; never 0. */
uint64_t fry_group_hash(const void *bytes, size_t size_bytes);

/*
 * Whether a text is a name: 1 to bytes_max of A-Z a-z 0-9 . _ - and, for keys, slashes; not only
 * dots.
 */
bool fry_group_is_name(const char *text, size_t bytes_max, bool may_have_slashes);

/* An id as in keys: 16 hex digits. */
#define FRY_GROUP_ID_FORMAT "%016" PRIx64
bool fry_group_id_read(const char *text, uint64_t *id_p);

#endif
