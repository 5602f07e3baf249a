/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two peers whose messages go in pieces. The test is the engine: it answers what the peers ask for
 * at once or later, with memory of its own that is spoilt when the peers should be done with it.
 */
#ifndef FERRY_TESTS_PIECE_PAIR_H
#define FERRY_TESTS_PIECE_PAIR_H

#include "net/peer/ask.h"
#include "net/peer/serve.h"
#include "net/peer/wire.h"
#include "tests/unit/peer_pair.h"

enum { PIECE = 300, CHUNK_BYTES = 2000, CHUNKS = 512 };

typedef struct chunk {
    fry_slice *slice; /* NULL: its piece is over */
    void (*due)(struct chunk *);
    uint8_t bytes[CHUNK_BYTES];
} chunk;

static chunk chunks[CHUNKS];
static size_t chunk_count, chunks_open;
static bool is_slow; /* answers wait for answer_all */

static inline pair_op *op_of(const chunk *chunk_)
{
    return (pair_op *)chunk_->slice->message;
}

static inline void serve_now(chunk *chunk_)
{
    const fry_slice *slice = chunk_->slice;
    memcpy(chunk_->bytes, op_of(chunk_)->bytes + slice->offset, slice->size_bytes);
    fry_peer_served(chunk_->slice, chunk_->bytes, NULL);
}

static inline void place_now(chunk *chunk_)
{
    fry_peer_placed(chunk_->slice, chunk_->bytes, NULL);
}

static inline void store_now(chunk *chunk_)
{
    fry_slice *slice = chunk_->slice;
    memcpy(op_of(chunk_)->bytes + slice->offset, chunk_->bytes, slice->size_bytes);
    memset(chunk_->bytes, 0xdd, CHUNK_BYTES);
    chunk_->slice = NULL;
    chunks_open--;
    fry_peer_stored(slice, NULL);
}

static inline void due(chunk *chunk_, void (*fn)(chunk *))
{
    if (is_slow)
        chunk_->due = fn;
    else
        fn(chunk_);
}

static inline chunk *take(fry_slice *slice)
{
    cr_assert_lt(chunk_count, CHUNKS);
    cr_assert_null(slice->owner);
    cr_assert_leq(slice->size_bytes, CHUNK_BYTES);
    chunk *chunk_ = &chunks[chunk_count++];
    *chunk_ = (chunk){.slice = slice};
    slice->owner = chunk_;
    chunks_open++;
    return chunk_;
}

static inline void on_serve(void *turn, fry_slice *slice)
{
    (void)turn;
    cr_assert(slice->message->is_send);
    due(take(slice), serve_now);
}

static inline void on_wants_place(void *turn, fry_slice *slice)
{
    (void)turn;
    cr_assert_not(slice->message->is_send);
    due(take(slice), place_now);
}

static inline void on_landed(void *turn, fry_slice *slice)
{
    (void)turn;
    due(slice->owner, store_now);
}

static inline void on_over(void *turn, fry_slice *slice)
{
    (void)turn;
    chunk *chunk_ = slice->owner;
    cr_assert_eq(chunk_->slice, slice);
    chunk_->slice = NULL;
    chunk_->due = NULL;
    memset(chunk_->bytes, 0xdd, CHUNK_BYTES);
    chunks_open--;
}

/* Answers what is due up to now. Returns how much. */
static inline size_t answer_all(void)
{
    size_t count = 0, end = chunk_count;
    for (size_t i = 0; i < end; i++) {
        void (*fn)(chunk *) = chunks[i].due;
        chunks[i].due = NULL;
        if (fn != NULL) {
            fn(&chunks[i]);
            count++;
        }
    }
    return count;
}

static inline pair *pieces_init(void)
{
    static fry_peer_events events;
    events = pair_events;
    events.serve = on_serve;
    events.wants_place = on_wants_place;
    events.landed = on_landed;
    events.over = on_over;
    pair *p = pair_init();
    p->session.has_pieces = true;
    p->options.piece_bytes = PIECE;
    p->options.events = &events;
    p->wire_options.eager_bytes_max = 128;
    chunk_count = chunks_open = 0;
    is_slow = false;
    return p;
}

static inline void pieces_end(pair **p)
{
    pair_close(*p);
    cr_assert_eq(chunks_open, 0);
}

#define PIECES_INIT(p_) OWNED(pieces_end) pair *p_ = pieces_init()

static inline pair_op *enter(pair *p, int end, bool is_send, size_t size_bytes, bool is_staged)
{
    pair_op *op = pair_enter(p, end, is_send, 1, size_bytes);
    op->message.is_staged = is_staged && size_bytes > 0;
    if (op->message.is_staged)
        op->message.memory = NULL;
    return op;
}

static inline pair_op *begin(pair *p, int end, bool is_send, size_t size_bytes, bool is_staged)
{
    pair_op *op = enter(p, end, is_send, size_bytes, is_staged);
    fry_peer_ready(&op->message, NULL);
    return op;
}

/* The same, staged, with a tag; only begin_ makes it ready. */
static inline pair_op *enter_tagged(pair *p, int end, bool is_send, ferry_tag tag,
                                    size_t size_bytes)
{
    pair_op *op = pair_enter(p, end, is_send, tag, size_bytes);
    op->message.is_staged = true;
    op->message.memory = NULL;
    return op;
}

static inline pair_op *begin_tagged(pair *p, int end, bool is_send, ferry_tag tag,
                                    size_t size_bytes)
{
    pair_op *op = enter_tagged(p, end, is_send, tag, size_bytes);
    fry_peer_ready(&op->message, NULL);
    return op;
}

static inline void cancel(pair_op *op)
{
    const fry_fault fault = {.status = FERRY_E_CANCELLED, .rank = -1};
    fry_peer_withdraw(&op->message, &fault, NULL);
}

static inline void run(pair *p)
{
    do {
        pair_run(p);
    } while (answer_all() != 0);
}

static inline void inject(pair *p, int end, const fry_wire_header *header, size_t data_bytes,
                          bool is_pulled)
{
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t size = FRY_WIRE_MESSAGE_BYTES;
    if (header->kind == FRY_WIRE_HELD)
        fry_wire_pack_message(bytes, header);
    else
        size = fry_wire_pack(bytes, header);
    fake_wire_inject(p->wire, end, bytes, size, NULL, data_bytes, is_pulled);
    pair_turn(p, end);
}

#endif
