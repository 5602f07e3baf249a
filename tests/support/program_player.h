/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a random program (random_program.h): does its acts of a round, and looks at what
 * becomes of them. Threads: the member's main one submits and waits; the loop calls `calm`, when an
 * act is quiet; the taker takes notices.
 *
 * As soon as a loose act is quiet its memory is looked at, and painted: its own, and that of the
 * window that it puts into. For that members have each other's memory mapped; so no engine hears of
 * it, and none has the time to end what it should have ended before. Nobody may write it from then
 * on, which its owner looks at when all members have ended the round.
 */
#ifndef FERRY_TESTS_PROGRAM_PLAYER_H
#define FERRY_TESTS_PROGRAM_PLAYER_H

#include "tests/support/net_self.h"
#include "tests/support/random_program.h"

enum { PLAYER_JOBS_MAX = PROGRAM_ACTS_MAX + PROGRAM_BLOCKS_MAX * PROGRAM_POSTS_MAX };

struct player;

/* An act that is in no block, or a post of one. */
typedef struct player_job {
    struct player *player;
    uint32_t first, count; /* its acts */
    uint32_t post;
    program_fate fate;
    program_end end;
    uint32_t due; /* when so many acts are submitted, its gate or its cancel */
    bool is_due_done;
    ferry_future *future, *quiet;
    ferry_promise *gate;
    ferry_waiter ended, calmed;
    uint32_t ended_times, calmed_times;
    ferry_status ended_with;
} player_job;

/* What a call changes. */
typedef struct player_change {
    unsigned char *bytes;
    size_t size_bytes;
    uint8_t salt;
} player_change;

/* What a member knows of a window of another's. */
typedef struct player_found {
    ferry_window *window;
    ferry_future *future; /* in the round in which it was looked for */
    ferry_future *closing;
} player_found;

typedef struct player {
    net_self self;
    const char *again;       /* how to do the same once more */
    unsigned char *memories; /* all members' */
    random_program program;
    ferry_buffer *buffers[PROGRAM_BUFFERS];
    unsigned char *bytes[PROGRAM_BUFFERS];
    ferry_window *own[PROGRAM_WINDOWS_MAX];
    player_found found[PROGRAM_MEMBERS_MAX][PROGRAM_WINDOWS_MAX];
    uint32_t meetings;
    bool has_met_fault;
    pthread_t taker, driver;
    bool is_embedded;
    int driver_end_fd;

    player_job jobs[PLAYER_JOBS_MAX];
    uint32_t job_count;
    player_change changes[PROGRAM_ACTS_MAX];
    ferry_future *closing[PROGRAM_WINDOWS_MAX];
    ferry_waiter closed[PROGRAM_WINDOWS_MAX];

    pthread_mutex_t mutex; /* for what follows, the program's round, and loose memory */
    pthread_cond_t changed;
    bool has_begun;                    /* it looks for the windows of the round */
    uint64_t waiters, calls;           /* that were registered, that came */
    bool is_painted[PROGRAM_ACTS_MAX]; /* its own memory of an act */
    bool is_window_painted[PROGRAM_WINDOWS_MAX];
    uint32_t ended[PROGRAM_MEMBERS_MAX]; /* rounds whose last notice has come */
    uint32_t taken[PROGRAM_MEMBERS_MAX][PROGRAM_ACTS_MAX];
    uint32_t next_index[PROGRAM_MEMBERS_MAX]; /* notices of a known order come from there on */
    uint64_t firm_count, loose_well, loose_failed, notices;
} player;

/* Ends the process, and says where in which program. */
_Noreturn void player_fail(const player *player, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define PLAYER_CHECK(player, condition, ...)                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            player_fail(player, __VA_ARGS__);                                                      \
    } while (0)

/* ---- program_player.c ---- */

/* Submits the round's acts; `at` is told before each how many were, and once more behind the last.
 */
void player_submit(player *player, void (*at)(struct player *player, uint32_t submitted));

/* Closes a window of its own in the midst of a round; it is painted when it is closed. */
void player_close(player *player, uint32_t window);

/* Closes one of another's, for this member. */
void player_let_go(player *player, uint32_t owner, uint32_t window);

/* Waits for all of them, also until they are quiet, and looks at how each ended. */
void player_collect(player *player);

/* Maps the memory of all members, a file's. */
void player_map(player *player, const char *path);
#define PLAYER_MEMORY_BYTES ((size_t)PROGRAM_MEMBERS_MAX * PROGRAM_BUFFERS * PROGRAM_BYTES)

/* A buffer of a member's. */
unsigned char *player_memory(const player *player, uint32_t member, uint32_t buffer);

/* Looks at what a loose put has left in a window. status: FERRY_PENDING, if that is not known. */
void player_check_put(const player *player, const program_act *put, ferry_status status);

/* Whether what was painted in this round is as it was. */
void player_check_paint(const player *player);

/* ---- program_taker.c ---- */

typedef enum note_kind { NOTE_ACT, NOTE_END, NOTE_STOP } note_kind;

/* The beginning of a notice. */
typedef struct player_note {
    uint32_t kind;  /* note_kind */
    uint32_t round; /* of its sender */
    uint32_t index; /* ACT: of the notice */
} player_note;

/* The bytes of an act's notice; returns how many. */
size_t player_note_make(const player *player, uint32_t sender, uint32_t index,
                        unsigned char bytes[FERRY_NOTICE_BYTES_MAX]);

/* One without more than its beginning. */
ferry_future *player_note_send(player *player, uint32_t to, player_note note,
                               const ferry_op_options *options);

void player_taker_start(player *player);
void player_taker_stop(player *player);

/* Waits for the last notice of this round of each member that lives, and looks at what has come. */
void player_taker_await(player *player);

#endif
