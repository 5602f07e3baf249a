/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/campaign_traffic.h"

#include "tests/support/net_self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MILLISECOND_NS INT64_C(1000000)
#define SECOND_NS (1000 * MILLISECOND_NS)
#define DEPTH 3                     /* of a stream, at most */
#define LARGE_BYTES 1000000         /* one of these at a time */
#define BATCH 12                    /* operations, at most */
#define SUBMITS 20                  /* streams that a turn looks at */
#define LATE_NS SECOND_NS           /* past a deadline */
#define UNQUIET_NS (25 * SECOND_NS) /* from resolved to quiet: a lease, a hello, and some */
#define PROBE_NS (20 * SECOND_NS)
#define SHOWN_MAX 20
#define PROBES_SHOWN 2
#define UNTOUCHED 0xEE

/* In bundles, at once, with their data, in windows, pulled; what is said of it stands in the tag.
 */
static const size_t sizes[] = {0,     1,     8,     48,    512,    513,    2000,   8000,
                               16384, 16385, 66000, 66001, 131073, 300000, 2000000};
#define TAGS (sizeof sizes / sizeof sizes[0])
#define PULLED_BYTES 16385 /* at least: on one host never with its header */

/* Ahead of the bytes of a message of at least so much. */
typedef struct stamp {
    uint64_t from; /* rank and tag */
    uint64_t incarnation, sequence;
    uint64_t hash; /* of the rest, and of what stands above */
} stamp;

typedef enum slot_state {
    SLOT_FREE = 0,
    SLOT_PENDING,
    SLOT_ENDED, /* resolved */
    SLOT_QUIET, /* to be taken when those before it are */
} slot_state;

typedef struct slot {
    slot_state state;
    ferry_future *future, *quiet;
    ferry_promise *hold; /* NULL: none, or resolved */
    ferry_status status;
    size_t offset;
    int64_t deadline_ns;                /* 0: none */
    int64_t cancel_run_ns, hold_run_ns; /* 0: not to be */
    campaign_overdue late, unquiet;
    uint64_t hash; /* has_hash: of the memory, when it was quiet after a failure */
    bool has_hash, is_probe, is_cancelled;
} slot;

typedef struct stream {
    uint32_t peer, tag;
    bool is_send;
    uint32_t depth;
    uint32_t first, count; /* of slots, a ring in the order of submitting */
    uint64_t sequence;     /* of the last that was sent, or came */
    uint64_t incarnation;  /* that it came from */
    slot slots[DEPTH];
} stream;

struct campaign_traffic {
    ferry_engine *engine;
    ferry_group *group;
    campaign_board *board;
    uint32_t rank, size;
    uint64_t random, incarnation;
    ferry_buffer *buffer;
    unsigned char *memory;
    stream *streams;
    size_t stream_count;
    size_t probes_failed;
};

/* ---- overdue ---- */

bool campaign_is_overdue(campaign_overdue *overdue, const campaign_clock *clock, int64_t bound_ns)
{
    overdue->run_ns += clock->beat_ns;
    if (overdue->is_told || overdue->run_ns < bound_ns)
        return false;
    overdue->is_told = true;
    return true;
}

static void note(campaign_traffic *traffic, campaign_count count)
{
    campaign_note(traffic->board, traffic->rank, count);
}

static const char *name_of(const slot *slot)
{
    return slot->state == SLOT_PENDING ? "pending" : ferry_status_name(slot->status);
}

static void tell(const campaign_traffic *traffic, const stream *stream, const slot *slot,
                 const char *what)
{
    fprintf(stderr,
            "campaign: rank %u, incarnation %llu: %s %s %u, tag %u, %zu B, number %llu (%s): %s, "
            "overdue %lld ms, deadline %lld ms ago\n",
            (unsigned)traffic->rank, (unsigned long long)traffic->incarnation,
            slot->is_probe ? "probe" : "message", stream->is_send ? "to" : "from",
            (unsigned)stream->peer, (unsigned)stream->tag, sizes[stream->tag],
            (unsigned long long)ferry_future_id(slot->future), name_of(slot), what,
            (long long)((slot->late.run_ns + slot->unquiet.run_ns) / MILLISECOND_NS),
            slot->deadline_ns != 0
                ? (long long)((net_now_ns() - slot->deadline_ns) / MILLISECOND_NS)
                : 0LL);
}

/* ---- bytes ---- */

static uint64_t hash_of(const stamp *stamp, const unsigned char *bytes, size_t size_bytes)
{
    uint64_t rest = XXH3_64bits(bytes + sizeof *stamp, size_bytes - sizeof *stamp);
    uint64_t all[] = {stamp->from, stamp->incarnation, stamp->sequence, rest};
    return XXH3_64bits(all, sizeof all);
}

static uint64_t mark_of(uint32_t sender, uint32_t tag)
{
    return (uint64_t)(sender + 1) << 32 | (tag + 1);
}

/* 32 bits of each are enough for what a small one holds. */
static uint64_t number_of(uint64_t incarnation, uint64_t sequence)
{
    return incarnation << 32 | (sequence & UINT32_MAX);
}

static void fill(const campaign_traffic *traffic, const stream *stream, const slot *slot)
{
    unsigned char *bytes = traffic->memory + slot->offset;
    size_t size_bytes = sizes[stream->tag];
    uint64_t mark = mark_of(traffic->rank, stream->tag);
    if (size_bytes == 8) {
        uint64_t number = number_of(traffic->incarnation, stream->sequence);
        memcpy(bytes, &number, sizeof number);
    } else if (size_bytes < sizeof(stamp)) {
        memset(bytes, (int)(mark % 251), size_bytes);
    } else {
        stamp stamp = {mark, traffic->incarnation, stream->sequence, 0};
        uint64_t word = stream->sequence * UINT64_C(0x9e3779b97f4a7c15) ^ traffic->incarnation;
        for (size_t at = sizeof stamp; at < size_bytes; at += sizeof word, word += mark) {
            size_t rest = size_bytes - at;
            memcpy(bytes + at, &word, rest < sizeof word ? rest : sizeof word);
        }
        stamp.hash = hash_of(&stamp, bytes, size_bytes);
        memcpy(bytes, &stamp, sizeof stamp);
    }
}

/* Behind the one before of its tag. A probe has a tag of its own. */
static void check_order(campaign_traffic *traffic, stream *stream, const slot *slot,
                        uint64_t incarnation, uint64_t sequence)
{
    if (slot->is_probe)
        return;
    if (number_of(incarnation, sequence) <= number_of(stream->incarnation, stream->sequence)) {
        note(traffic, CAMPAIGN_DISORDER);
        tell(traffic, stream, slot, "out of order, or twice");
    }
    stream->incarnation = incarnation;
    stream->sequence = sequence;
}

static void check(campaign_traffic *traffic, stream *stream, const slot *slot)
{
    const unsigned char *bytes = traffic->memory + slot->offset;
    size_t size_bytes = sizes[stream->tag];
    uint64_t mark = mark_of(stream->peer, stream->tag);
    bool is_right = true;
    if (size_bytes == 8) {
        uint64_t number;
        memcpy(&number, bytes, sizeof number);
        check_order(traffic, stream, slot, number >> 32, number & UINT32_MAX);
    } else if (size_bytes < sizeof(stamp)) {
        for (size_t i = 0; i < size_bytes; i++)
            is_right = is_right && bytes[i] == mark % 251;
    } else {
        stamp stamp;
        memcpy(&stamp, bytes, sizeof stamp);
        is_right = stamp.from == mark && stamp.hash == hash_of(&stamp, bytes, size_bytes);
        if (is_right)
            check_order(traffic, stream, slot, stamp.incarnation, stamp.sequence);
    }
    if (is_right)
        return;
    note(traffic, size_bytes >= PULLED_BYTES ? CAMPAIGN_WRONG_PULLED : CAMPAIGN_WRONG_OTHERS);
    tell(traffic, stream, slot, "wrong bytes");
}

/* ---- opening ---- */

static size_t room_of(size_t tag)
{
    return (sizes[tag] + 63) / 64 * 64;
}

static void open_stream(stream *stream, size_t *offset)
{
    stream->depth = sizes[stream->tag] < LARGE_BYTES ? DEPTH : 1;
    for (size_t i = 0; i < stream->depth; i++) {
        stream->slots[i].offset = *offset;
        *offset += room_of(stream->tag);
    }
}

campaign_traffic *campaign_traffic_open(ferry_engine *engine, campaign_board *board, uint32_t rank,
                                        uint32_t size, uint64_t seed)
{
    size_t bytes = 0;
    campaign_traffic *traffic = calloc(1, sizeof *traffic);
    NET_SELF_CHECK(traffic, "no memory");
    *traffic = (campaign_traffic){
        .engine = engine, .board = board, .rank = rank, .size = size, .random = seed | 1};
    traffic->stream_count = (size_t)2 * (size - 1) * TAGS;
    traffic->streams = calloc(traffic->stream_count, sizeof *traffic->streams);
    NET_SELF_CHECK(traffic->streams, "no memory");
    stream *stream = traffic->streams;
    for (uint32_t peer = 0; peer < size; peer++) {
        for (uint32_t i = 0; i < 2 * TAGS && peer != rank; i++, stream++) {
            stream->peer = peer;
            stream->tag = i / 2;
            stream->is_send = i % 2 == 0;
            open_stream(stream, &bytes);
        }
    }
    NET_SELF_CHECK(ferry_buffer_alloc(ferry_device_at(engine, 0), bytes, &traffic->buffer) ==
                       FERRY_OK,
                   "no memory for %zu bytes", bytes);
    traffic->memory = ferry_buffer_data(traffic->buffer);
    memset(traffic->memory, UNTOUCHED, bytes);
    return traffic;
}

void campaign_traffic_close(campaign_traffic *traffic)
{
    ferry_buffer_release(traffic->buffer);
    free(traffic->streams);
    free(traffic);
}

void campaign_traffic_begin(campaign_traffic *traffic, ferry_group *group, uint64_t incarnation)
{
    traffic->group = group;
    traffic->incarnation = incarnation;
}

/* ---- looking at what was submitted ---- */

static bool is_expected(const slot *slot)
{
    switch (slot->status) {
    case FERRY_E_DEADLINE:
    case FERRY_E_CANCELLED:
    case FERRY_E_DEPENDENCY:
    case FERRY_E_DEAD:
    case FERRY_E_PEER:
    case FERRY_E_FENCED:
    case FERRY_E_AGAIN: /* unexpected_max is small in some */
        return true;
    default:
        return false;
    }
}

static void let_go(slot *slot, ferry_status status)
{
    if (slot->hold == NULL)
        return;
    (void)ferry_promise_resolve(slot->hold, status, "the campaign's");
    ferry_promise_release(slot->hold);
    slot->hold = NULL;
}

static void look_at_pending(campaign_traffic *traffic, stream *stream, slot *slot,
                            const campaign_clock *clock)
{
    slot->status = ferry_future_poll(slot->future);
    if (slot->status != FERRY_PENDING) {
        let_go(slot, FERRY_OK);
        slot->state = SLOT_QUIET;
        if (slot->status != FERRY_OK || campaign_random(&traffic->random, 8) == 0) {
            slot->quiet = ferry_future_quiet(slot->future);
            slot->state = SLOT_ENDED;
        }
        return;
    }
    if (slot->hold_run_ns != 0 && clock->run_ns >= slot->hold_run_ns) {
        slot->hold_run_ns = 0;
        let_go(slot, campaign_random(&traffic->random, 5) == 0 ? -777 : FERRY_OK);
    }
    if (slot->cancel_run_ns != 0 && clock->run_ns >= slot->cancel_run_ns) {
        slot->cancel_run_ns = 0;
        slot->is_cancelled = true;
        (void)ferry_future_cancel(slot->future);
    }
    bool is_due =
        slot->is_cancelled || (slot->deadline_ns != 0 && clock->now_ns > slot->deadline_ns);
    if (is_due && campaign_is_overdue(&slot->late, clock, LATE_NS)) {
        note(traffic, CAMPAIGN_LATE);
        tell(traffic, stream, slot, slot->is_cancelled ? "cancelled, and late" : "late");
    }
}

static void look_at_ended(campaign_traffic *traffic, stream *stream, slot *slot,
                          const campaign_clock *clock)
{
    ferry_status status = ferry_future_poll(slot->quiet);
    if (status != FERRY_PENDING) {
        if (status != FERRY_OK) {
            note(traffic, CAMPAIGN_STRANGE);
            tell(traffic, stream, slot, ferry_status_name(status));
        }
        slot->state = SLOT_QUIET;
    } else if (campaign_is_overdue(&slot->unquiet, clock, UNQUIET_NS)) {
        note(traffic, CAMPAIGN_UNQUIET);
        tell(traffic, stream, slot, "not quiet");
    }
}

/* The first of its stream. */
static void take(campaign_traffic *traffic, stream *stream, slot *slot)
{
    if (slot->status == FERRY_OK) {
        note(traffic, stream->is_send ? CAMPAIGN_SENT : CAMPAIGN_RECEIVED);
        if (!stream->is_send)
            check(traffic, stream, slot);
    } else {
        note(traffic, CAMPAIGN_FAILED);
        if (!is_expected(slot)) {
            note(traffic, CAMPAIGN_STRANGE);
            tell(traffic, stream, slot, "a strange status");
        }
        if (slot->is_probe && traffic->probes_failed++ < PROBES_SHOWN) {
            const ferry_error *error = ferry_future_error(slot->future);
            tell(traffic, stream, slot, error != NULL ? error->message : "a probe that failed");
        }
        /* Nobody touches it from now on, until it is used again. */
        slot->has_hash = true;
        slot->hash = XXH3_64bits(traffic->memory + slot->offset, sizes[stream->tag]);
    }
    ferry_future_release(slot->future);
    ferry_future_release(slot->quiet);
    slot->future = slot->quiet = NULL;
    slot->state = SLOT_FREE;
    stream->first = (stream->first + 1) % stream->depth;
    stream->count--;
}

bool campaign_traffic_look(campaign_traffic *traffic, const campaign_clock *clock)
{
    bool is_fenced = false;
    for (stream *stream = traffic->streams; stream < traffic->streams + traffic->stream_count;
         stream++) {
        for (uint32_t i = 0; i < stream->count; i++) {
            slot *slot = &stream->slots[(stream->first + i) % stream->depth];
            if (slot->state == SLOT_PENDING)
                look_at_pending(traffic, stream, slot, clock);
            if (slot->state == SLOT_ENDED)
                look_at_ended(traffic, stream, slot, clock);
            is_fenced =
                is_fenced || (slot->state != SLOT_PENDING && slot->status == FERRY_E_FENCED);
        }
        while (stream->count > 0 && stream->slots[stream->first].state == SLOT_QUIET)
            take(traffic, stream, &stream->slots[stream->first]);
    }
    return is_fenced;
}

void campaign_traffic_cancel(campaign_traffic *traffic)
{
    for (stream *stream = traffic->streams; stream < traffic->streams + traffic->stream_count;
         stream++) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            slot *slot = &stream->slots[i];
            if (slot->state != SLOT_PENDING || slot->is_cancelled)
                continue;
            (void)ferry_future_cancel(slot->future);
            let_go(slot, FERRY_OK);
            slot->is_cancelled = true;
        }
    }
}

ferry_future *campaign_traffic_any(campaign_traffic *traffic)
{
    const stream *stream =
        &traffic->streams[campaign_random(&traffic->random, traffic->stream_count)];
    for (uint32_t i = 0; i < DEPTH; i++) {
        const slot *slot = &stream->slots[i];
        if (slot->state == SLOT_PENDING)
            return slot->future;
        if (slot->state == SLOT_ENDED)
            return slot->quiet;
    }
    return NULL;
}

size_t campaign_traffic_probes_failed(const campaign_traffic *traffic)
{
    return traffic->probes_failed;
}

bool campaign_traffic_is_quiet(const campaign_traffic *traffic)
{
    for (size_t i = 0; i < traffic->stream_count; i++) {
        if (traffic->streams[i].count > 0)
            return false;
    }
    return true;
}

void campaign_traffic_show(const campaign_traffic *traffic)
{
    size_t shown = 0;
    for (const stream *stream = traffic->streams; stream < traffic->streams + traffic->stream_count;
         stream++) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            if (stream->slots[i].state != SLOT_FREE && shown++ < SHOWN_MAX)
                tell(traffic, stream, &stream->slots[i], "is not over");
        }
    }
    fprintf(stderr, "campaign: rank %u: %zu are not over\n", (unsigned)traffic->rank, shown);
}

/* ---- submitting ---- */

/* The next slot of a stream that has one, its memory made ready. */
static slot *begin(campaign_traffic *traffic, stream *stream)
{
    slot *slot = &stream->slots[(stream->first + stream->count++) % stream->depth];
    unsigned char *bytes = traffic->memory + slot->offset;
    size_t size_bytes = sizes[stream->tag];
    if (slot->has_hash && XXH3_64bits(bytes, size_bytes) != slot->hash) {
        note(traffic, CAMPAIGN_LATE_WRITES);
        tell(traffic, stream, slot, "its memory was written to after it was quiet");
    }
    size_t offset = slot->offset;
    *slot = (struct slot){.state = SLOT_PENDING, .offset = offset};
    if (stream->is_send) {
        stream->sequence++;
        fill(traffic, stream, slot);
    } else {
        memset(bytes, UNTOUCHED, size_bytes < 4096 ? size_bytes : 4096);
    }
    return slot;
}

static ferry_op make_op(campaign_traffic *traffic, stream *stream, const slot *slot,
                        const ferry_op_options *options, uint64_t tag_above)
{
    ferry_span span = {traffic->buffer, slot->offset, sizes[stream->tag]};
    return (ferry_op){.kind = stream->is_send ? FERRY_OP_SEND : FERRY_OP_RECV,
                      .src = stream->is_send ? span : (ferry_span){0},
                      .dst = stream->is_send ? (ferry_span){0} : span,
                      .group = traffic->group,
                      .peer = stream->peer,
                      .tag = tag_above << 32 | stream->tag,
                      .options = options};
}

static void choose_end(campaign_traffic *traffic, slot *slot, ferry_op_options *options,
                       const campaign_clock *clock)
{
    if (campaign_random(&traffic->random, 10) < 6) {
        slot->deadline_ns =
            clock->now_ns + (int64_t)campaign_random(&traffic->random, 4000) * MILLISECOND_NS;
        options->deadline_ns = slot->deadline_ns;
    }
    if (campaign_random(&traffic->random, 20) == 0)
        slot->cancel_run_ns =
            clock->run_ns + 1 + (int64_t)campaign_random(&traffic->random, 50) * MILLISECOND_NS;
}

/* *held_p: what it waits for, to be released. */
static void choose_hold(campaign_traffic *traffic, slot *slot, ferry_op_options *options,
                        ferry_future **held_p, const campaign_clock *clock)
{
    *held_p = NULL;
    if (campaign_random(&traffic->random, 20) != 0 ||
        ferry_promise_create(traffic->engine, &slot->hold) != FERRY_OK)
        return;
    slot->hold_run_ns =
        clock->run_ns + 1 + (int64_t)campaign_random(&traffic->random, 30) * MILLISECOND_NS;
    *held_p = ferry_promise_future(slot->hold);
    options->after = held_p;
    options->after_count = 1;
}

void campaign_traffic_submit(campaign_traffic *traffic, const campaign_clock *clock)
{
    ferry_op ops[BATCH];
    ferry_op_options options[BATCH];
    ferry_future *held[BATCH], *each[BATCH];
    slot *slots[BATCH];
    size_t count = 0;
    bool is_batch = campaign_random(&traffic->random, 3) == 0;
    for (size_t i = 0; i < SUBMITS && count < BATCH; i++) {
        stream *stream =
            &traffic->streams[campaign_random(&traffic->random, traffic->stream_count)];
        if (stream->count == stream->depth)
            continue;
        slot *slot = begin(traffic, stream);
        slots[count] = slot;
        options[count] = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
        choose_end(traffic, slot, &options[count], clock);
        choose_hold(traffic, slot, &options[count], &held[count], clock);
        ops[count] = make_op(traffic, stream, slot, &options[count], 0);
        count++;
    }
    if (is_batch) {
        ferry_future_release(ferry_batch(traffic->engine, ops, sizeof ops[0], count, each, NULL));
    }
    for (size_t i = 0; i < count; i++) {
        const ferry_op *op = &ops[i];
        if (!is_batch && op->kind == FERRY_OP_SEND)
            each[i] = ferry_send(op->group, op->peer, op->tag, op->src, op->options);
        else if (!is_batch)
            each[i] = ferry_recv(op->group, op->peer, op->tag, op->dst, op->options);
        slots[i]->future = each[i];
        ferry_future_release(held[i]);
    }
}

void campaign_traffic_probe(campaign_traffic *traffic, uint64_t number, const campaign_clock *clock)
{
    traffic->probes_failed = 0;
    for (stream *stream = traffic->streams; stream < traffic->streams + traffic->stream_count;
         stream++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        slot *slot = begin(traffic, stream);
        slot->is_probe = true;
        slot->deadline_ns = options.deadline_ns = clock->now_ns + PROBE_NS;
        ferry_op op = make_op(traffic, stream, slot, &options, number);
        slot->future = stream->is_send ? ferry_send(op.group, op.peer, op.tag, op.src, op.options)
                                       : ferry_recv(op.group, op.peer, op.tag, op.dst, op.options);
    }
}
