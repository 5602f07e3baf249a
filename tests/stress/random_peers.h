/* SPDX-License-Identifier: Apache-2.0 */
/* What random_peers.c knows of a run: its members, their operations, and chance. */
#ifndef FERRY_TESTS_RANDOM_PEERS_H
#define FERRY_TESTS_RANDOM_PEERS_H

#include "net/peer/connection.h"
#include "net/peer/hide.h"
#include "net/peer/send.h"
#include "net/peer/state.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fake_channel.h"
#include "tests/support/lent_place.h"
#include "tests/support/stress.h"

#include <stdarg.h>

#if defined(__SANITIZE_THREAD__)
#define SEEDS 500 /* there is one thread */
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 2000
#else
#define SEEDS 10000
#endif

enum { OPS_MAX = 64, TAGS = 3, GENERATIONS_MAX = 4, TURNS_MAX = 200000, HANG_S = 60 };
#define GUARD_BYTES 16
#define UNTOUCHED 0xa5
#define AFTER_QUIET 0x5a

typedef struct side side;

typedef struct op {
    fry_message message; /* first */
    side *side_;
    uint8_t *room; /* with guards */
    uint8_t *copy; /* a staged send's, or NULL */
    uint8_t fill;  /* a send's bytes begin with it */
    int generation;
    uint32_t order; /* among those of its side, direction, tag and generation */
    bool is_entered, is_ready, is_withdrawn, was_launched;
    int resolved, quiet;
    ferry_status status, cause;
    uint64_t cause_op;
    int viewers; /* a send: where its bytes are read */
} op;

struct side {
    struct run *run;
    int index;
    fry_peer *peer;
    fry_peer_connection *connection, *dead_connection;
    fry_channel *channel, *dead_channel;
    int generation;
    op *ops[2 * OPS_MAX];
    size_t op_count, entered;
    bool is_to_detach, wants_connection;
    bool is_to_close, is_hiding;
    uint64_t hides; /* what it has asked the other to close */
};

typedef struct run {
    lent *lent;
    uint64_t seed, random, turn;
    failing_allocator allocator;
    fry_memory memory;
    fry_log log;
    fake_wire *wire;
    side sides[2];
    int side_count;
    bool may_fail, may_withdraw, is_short, calls_back;
    int failed_generations;
    fry_connection_session session;
    fry_peer_options options;
    fake_wire_options wire_options;
} run;

static run the_run;

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void complain(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "random_peers: seed %llu: ", (unsigned long long)the_run.seed);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

#define expect(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            complain(__VA_ARGS__);                                                                 \
    } while (0)

static uint32_t pick(uint32_t below)
{
    run *r = &the_run;
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return (uint32_t)((r->random >> 20) % below);
}

/* As one holding of the baton; what events bring about is of the same. */
static void *this_turn(void)
{
    static char turns[64];
    return &turns[the_run.turn % sizeof(turns)];
}

/* In some runs, one time in so many, the next allocation fails; 0: it does not. */
static void run_short(uint32_t one_in)
{
    if (the_run.is_short)
        failing_allocator_arm(&the_run.allocator, one_in > 0 && pick(one_in) == 0, false);
}

#endif
