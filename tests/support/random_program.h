/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of several processes (tests/net/random_processes.c): what each member does in
 * each round, and what is in everybody's memory when the round is over. All of it follows from the
 * seed, so each member makes the whole program for itself, and need not be told what others do.
 *
 * Rounds. Each is a list of acts for each member, made up one after the other; an act's effect on
 * the model is that of doing them in this order. Members do theirs all at once, and what orders
 * them (spans, messages, posts) must give the same bytes. That it can is seen to here: in a round
 * the others either only read the first part of a window or only write it, in one place once, or
 * its owner alone uses it.
 *
 * Loose acts are those whose end nobody can know: cancelled, late, on a window that is closed
 * meanwhile, or with a member that dies in this round. The memory that they write is theirs alone,
 * in the last part of each buffer, and nothing certain depends on them. Such a byte is that of
 * before or the one that should come. Once the act is quiet nobody may write it, and it is painted.
 */
#ifndef FERRY_TESTS_RANDOM_PROGRAM_H
#define FERRY_TESTS_RANDOM_PROGRAM_H

#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PROGRAM_MEMBERS_MAX = 5,
    PROGRAM_WINDOWS_MAX = 3,
    PROGRAM_BUFFERS = 1 + PROGRAM_WINDOWS_MAX, /* 0 is local, the others are the windows' */
    PROGRAM_FIRM_BYTES = 384 << 10,            /* what is certain, from the beginning on */
    PROGRAM_LOOSE_BYTES = 384 << 10,           /* behind that */
    PROGRAM_BYTES = PROGRAM_FIRM_BYTES + PROGRAM_LOOSE_BYTES,
    PROGRAM_ACTS_MAX = 96,
    PROGRAM_BLOCKS_MAX = 24,
    PROGRAM_POSTS_MAX = 3,
    PROGRAM_PAINT = 0xaa, /* no byte of a loose part before that */
};

/* How a window's first part is used in a round. */
typedef enum program_use {
    PROGRAM_READ,
    PROGRAM_WRITTEN,
    PROGRAM_OWN,    /* by its owner alone */
    PROGRAM_CLOSING /* not at all: it is closed in the midst, and all that others do is loose */
} program_use;

typedef struct program_window {
    ferry_window_rights rights;
    program_use use;
    uint32_t name;        /* a number */
    bool is_new;          /* opened anew before this round */
    bool is_name_fresh;   /* never used before: who looks for it early finds no other */
    uint32_t close_after; /* CLOSING: when its owner has submitted so many acts */
    uint32_t firm_used, loose_used;
} program_window;

/* How an act comes to its end. */
typedef enum program_end {
    PROGRAM_WELL,
    PROGRAM_GATED,      /* it waits for a promise that is resolved a few acts later */
    PROGRAM_GATE_FAILS, /* which fails */
    PROGRAM_CANCELLED,  /* a few acts later */
    PROGRAM_PAST,       /* with a deadline that has passed */
    PROGRAM_SOON,       /* that will, in soon_ns */
    PROGRAM_REFUSED,    /* it may not do that */
} program_end;

typedef enum program_fate {
    PROGRAM_FIRM,   /* it ends well */
    PROGRAM_LOOSE,  /* it, or its other end, may not */
    PROGRAM_BEREFT, /* with a member that dies in this round */
} program_fate;

typedef struct program_act {
    ferry_op_kind kind; /* FERRY_OP_CALL: changes bytes in their place */
    program_fate fate;
    program_end end;
    uint32_t later; /* GATED, GATE_FAILS, CANCELLED: after so many more acts */
    int64_t soon_ns;
    uint32_t block; /* of a plan's, this and the next of the same number; 0: none */
    uint32_t picks; /* bit p: in the block's post p; a bit for what is in none */
    uint32_t peer;  /* of a message, a notice; the window's owner */
    uint32_t window;
    uint64_t window_offset;
    uint32_t buffer, at, size; /* of this member's; a copy's target */
    uint32_t src_buffer, src_at;
    uint64_t tag;
    uint8_t salt;
    uint32_t told;           /* a notice: 1 + the put that it waits for and tells of; 0: none */
    bool is_order_known;     /* a notice: it is not in a plan and waits for nothing */
    unsigned char *expected; /* LOOSE, BEREFT, what writes: what should come there */
} program_act;

/* A plan of neighbouring acts, which is posted several times, by some of them each time. */
typedef struct program_block {
    uint32_t first, count, posts;
    bool is_picky; /* some acts are of no post */
    program_fate fate;
    program_end end;
    uint32_t later;
    int64_t soon_ns;
} program_block;

typedef struct program_member {
    unsigned char *memory[PROGRAM_BUFFERS]; /* the model: after the round's firm acts */
    program_window windows[PROGRAM_WINDOWS_MAX];
    uint32_t loose_used;
    program_act acts[PROGRAM_ACTS_MAX];
    uint32_t act_count;
    program_block blocks[PROGRAM_BLOCKS_MAX + 1]; /* from 1 on */
    uint32_t block_count, open_block;
    bool is_hasty; /* uses windows that it has yet to find */
    /* Windows of others that it closes in the midst, and finds again in the next round. */
    bool lets_go[PROGRAM_MEMBERS_MAX][PROGRAM_WINDOWS_MAX];
} program_member;

typedef enum program_fault { PROGRAM_NO_FAULT, PROGRAM_KILL, PROGRAM_STOP } program_fault;

typedef struct random_program {
    uint64_t seed, random;
    uint32_t member_count, window_count, round_count;
    uint32_t host_count, hosts[PROGRAM_MEMBERS_MAX]; /* where members are, if there are hosts */
    program_fault fault;
    uint32_t victim, fault_round, fault_after; /* when it has submitted so many acts */
    bool is_fault_exact;                       /* KILL: by itself, right there */
    uint32_t round, name_count;
    program_member members[PROGRAM_MEMBERS_MAX];
} random_program;

/* Before the first round. */
void random_program_open(random_program *program, uint64_t seed);

/* Begins the next round: says which windows are opened anew, and what is in memory now. */
void random_program_next(random_program *program);

/* Makes up its acts, and does them. */
void random_program_act(random_program *program);
void random_program_close(random_program *program);

/* Whether a member is killed in this round. */
bool random_program_dies(const random_program *program, uint32_t member);

/* Whether it lives up to the end of this round. */
bool random_program_lives(const random_program *program, uint32_t member);

/* What a call does to its bytes. */
void random_program_change(unsigned char *bytes, size_t size_bytes, uint8_t salt);

/* Whether another member's act writes there. */
bool program_writes_window(const program_act *act);

/* Whether it writes memory of the member that does it. */
bool program_writes_own(const program_act *act);

#endif
