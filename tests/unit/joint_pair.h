/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two peers whose messages are joint. The test is both engines and both GPUs: a lot that was
 * launched at one end stands there until the other end has launched the same one, and each GPU does
 * its lots in order. An end that ends its pair while a lot stands at the other one leaves wrong
 * bytes there.
 */
#ifndef FERRY_TESTS_JOINT_PAIR_H
#define FERRY_TESTS_JOINT_PAIR_H

#include "net/peer/joint.h"
#include "net/peer/state.h"
#include "tests/unit/piece_pair.h"

enum { SIZE = 2000, LOTS = 1000, MOST = 64, FEW = 12 };

typedef struct gpu {
    fry_joint_lot *lots[LOTS]; /* launched, in order: GOING, FLOWN, FREE */
    size_t launched, done, landed;
    uint32_t slots_used, slots; /* of admission, this pair's */
    bool is_waiting;            /* it was not admitted */
    bool has_ended;             /* its pair */
    int wanted, heard[FRY_PAIR_WORDS];
    fry_pair_note note;
} gpu;

static gpu gpus[2];
static fry_joint_lot pool[2 * LOTS];
static size_t pool_count;
static int held[PAIR_OPS];
static bool makes_later; /* pairs are made when the test says so */
static bool loses_lots;  /* with the pair */

static inline int end_of(const fry_peer *peer)
{
    return (int)((pair_end *)fry_peer_arg(peer) - the_pair.ends);
}

static inline int *held_of(const fry_message *message)
{
    return &held[(const pair_op *)(const void *)message - the_pair.ops];
}

static inline void make_pair(void)
{
    fry_peer_pair_ready(the_pair.ends[1].peer, true, NULL);
    fry_peer_pair_ready(the_pair.ends[0].peer, true, NULL);
}

static inline void on_wants_pair(void *turn, fry_peer *peer)
{
    int end = end_of(peer);
    cr_assert_eq(end, 0, "the lower rank leads");
    gpus[end].wanted++;
    fry_pair_note note = {.generation = 7, .version = 22803};
    memset(note.token, 0x5a, sizeof note.token);
    fry_peer_pair_say(peer, FRY_PAIR_MAKE, &note, turn);
}

static inline void on_pair_heard(void *turn, fry_peer *peer, fry_pair_word word,
                                 const fry_pair_note *note)
{
    (void)turn;
    gpu *at = &gpus[end_of(peer)];
    at->heard[word]++;
    at->note = *note;
    if (word == FRY_PAIR_MAKE && !makes_later)
        make_pair();
}

static inline bool on_admit(void *turn, fry_peer *peer)
{
    (void)turn;
    gpu *at = &gpus[end_of(peer)];
    at->is_waiting = at->slots_used == at->slots;
    at->slots_used += !at->is_waiting;
    return !at->is_waiting;
}

static inline void on_dismiss(void *turn, fry_peer *peer)
{
    (void)turn;
    cr_assert_gt(gpus[end_of(peer)].slots_used--, 0);
}

static inline void on_hold(void *turn, fry_message *message)
{
    (void)turn;
    cr_assert_eq((*held_of(message))++, 0);
    cr_assert_eq(((pair_op *)message)->quiet, 0);
}

static inline void on_release(void *turn, fry_message *message)
{
    (void)turn;
    cr_assert_eq((*held_of(message))--, 1);
}

static inline void release_all(fry_joint_lot *lot)
{
    lot->state = FRY_JOINT_FREE;
    for (uint32_t i = 0; i < lot->count; i++)
        on_release(NULL, lot->items[i].message);
}

static inline void on_whole(void *turn, fry_peer *peer, uint32_t number)
{
    (void)turn;
    gpu *at = &gpus[end_of(peer)];
    for (size_t i = 0; i < at->landed; i++) {
        if (at->lots[i]->number == number && at->lots[i]->state == FRY_JOINT_FLOWN) {
            release_all(at->lots[i]);
            return;
        }
    }
    cr_assert(false, "lot %u has not flown", number);
}

/* The pair of an end has ended: nothing comes of its lots, and what they received fails. */
static inline void lose_all(fry_peer *peer)
{
    gpu *at = &gpus[end_of(peer)];
    at->has_ended = true;
    for (size_t i = 0; i < at->launched; i++) {
        fry_joint_lot *lot = at->lots[i];
        if (lot->state == FRY_JOINT_FREE)
            continue;
        at->slots_used -= lot->state == FRY_JOINT_GOING;
        for (uint32_t k = 0; k < lot->count; k++) {
            pair_op *op = (pair_op *)lot->items[k].message;
            bool has_left = lot->state == FRY_JOINT_FLOWN && lot->items[k].is_send;
            if (has_left || op->resolved != 0 || op->quiet != 0)
                continue;
            op->resolved = 1;
            op->status = FERRY_E_PEER;
            cancel(op);
        }
        release_all(lot);
        fry_peer_joint_lost(peer, lot->number, NULL);
    }
    at->done = at->landed = at->launched;
}

static inline void on_unpaired(void *turn, fry_peer *peer)
{
    (void)turn;
    if (loses_lots)
        lose_all(peer);
}

static inline void on_launch(void *turn, fry_peer *peer, const fry_joint_lot *lot)
{
    (void)turn;
    gpu *at = &gpus[end_of(peer)];
    cr_assert_gt(lot->count, 0);
    cr_assert_lt(at->launched, LOTS);
    cr_assert(!at->has_ended, "nothing is launched without a pair");
    fry_joint_lot *copy = &pool[pool_count++];
    *copy = *lot;
    copy->state = FRY_JOINT_GOING;
    at->lots[at->launched++] = copy;
}

static inline pair *joint_init(void)
{
    static fry_peer_events events;
    pair *p = pieces_init();
    events = *p->options.events;
    events.wants_pair = on_wants_pair;
    events.pair_heard = on_pair_heard;
    events.admit = on_admit;
    events.dismiss = on_dismiss;
    events.hold = on_hold;
    events.release = on_release;
    events.launch = on_launch;
    events.whole = on_whole;
    events.unpaired = on_unpaired;
    p->options.events = &events;
    p->session.has_pairs = true;
    memset(gpus, 0, sizeof gpus);
    memset(held, 0, sizeof held);
    gpus[0].slots = gpus[1].slots = UINT32_MAX;
    pool_count = 0;
    makes_later = loses_lots = false;
    return p;
}

/* ---- the GPUs ---- */

static inline void move(const fry_joint_item *from, const fry_joint_item *to)
{
    pair_op *src = (pair_op *)from->message, *dst = (pair_op *)to->message;
    cr_assert(from->is_send && !to->is_send);
    cr_assert_eq(from->slot, to->slot);
    cr_assert_eq(from->number, to->number);
    cr_assert_eq(src->message.size_bytes, dst->message.size_bytes);
    cr_assert(*held_of(&src->message) == 1 && *held_of(&dst->message) == 1);
    memcpy(dst->bytes, src->bytes, src->message.size_bytes);
}

/* The other end has ended its pair: its kernel has posted what it did not copy. */
static inline bool spoil_next(gpu *at)
{
    if (at->done == at->launched)
        return false;
    const fry_joint_lot *lot = at->lots[at->done++];
    for (uint32_t i = 0; i < lot->count; i++) {
        pair_op *op = (pair_op *)lot->items[i].message;
        if (!op->message.is_send)
            memset(op->bytes, 0xdb, op->message.size_bytes);
    }
    return true;
}

/* The next lot that both have launched. */
static inline bool do_next(void)
{
    gpu *a = &gpus[0], *b = &gpus[1];
    if (a->has_ended || b->has_ended)
        return spoil_next(a->has_ended ? b : a);
    if (a->done == a->launched || b->done == b->launched)
        return false;
    const fry_joint_lot *left = a->lots[a->done++], *right = b->lots[b->done++];
    cr_assert_eq(left->number, right->number);
    cr_assert_eq(left->count, right->count);
    for (uint32_t i = 0; i < left->count; i++) {
        bool is_sent = left->items[i].is_send;
        move(is_sent ? &left->items[i] : &right->items[i],
             is_sent ? &right->items[i] : &left->items[i]);
    }
    return true;
}

/* The end sees that its next lot is over. */
static inline bool land_next(pair *p, int end)
{
    gpu *at = &gpus[end];
    if (at->landed == at->done)
        return false;
    fry_joint_lot *lot = at->lots[at->landed++];
    at->slots_used--;
    lot->state = FRY_JOINT_FLOWN;
    if (fry_peer_joint_flown(p->ends[end].peer, lot->number, NULL))
        release_all(lot);
    if (at->is_waiting && at->slots_used < at->slots) {
        at->is_waiting = false;
        fry_peer_joint_go_on(p->ends[end].peer, NULL);
    }
    return true;
}

static inline bool land_all(pair *p)
{
    bool has_some = false;
    while (do_next())
        has_some = true;
    for (int end = 0; end < 2; end++) {
        while (land_next(p, end))
            has_some = true;
    }
    return has_some;
}

static inline void run_all(pair *p)
{
    do {
        run(p);
    } while (land_all(p));
    for (int end = 0; end < 2; end++)
        cr_expect_eq(gpus[end].launched, gpus[end].landed, "a lot stands alone");
}

static inline void end_pair(fry_peer *peer)
{
    fry_peer_pair_ready(peer, false, NULL);
    lose_all(peer);
}

static inline void joint_end(pair **p)
{
    pieces_end(p);
    for (size_t i = 0; i < PAIR_OPS; i++)
        cr_assert_eq(held[i], 0);
    cr_assert_eq(gpus[0].slots_used, 0);
    cr_assert_eq(gpus[1].slots_used, 0);
}

#define JOINT_INIT(p_) OWNED(joint_end) pair *p_ = joint_init()
#define JOINT(p_) OWNED(joint_end) pair *p_ = pair_open(joint_init())

static inline pair_op *enter_one(pair *p, int end, bool is_send, ferry_tag tag)
{
    pair_op *op = pair_enter(p, end, is_send, tag, SIZE);
    if (op == NULL) /* too many are open */
        return NULL;
    op->message.is_staged = op->message.may_join = true;
    op->message.memory = NULL;
    return op;
}

static inline pair_op *begin_one(pair *p, int end, bool is_send, ferry_tag tag)
{
    pair_op *op = enter_one(p, end, is_send, tag);
    fry_peer_ready(&op->message, NULL);
    return op;
}

static inline void expect_joint(const pair_op *send, const pair_op *receive)
{
    expect_met(send, receive);
    cr_expect(send->message.was_joint && receive->message.was_joint);
}

#endif
