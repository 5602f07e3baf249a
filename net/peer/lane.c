/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/lane.h"

#include "base/lf.h"
#include "net/mac.h"
#include "net/peer/bundle.h"
#include "net/peer/fault.h"
#include "net/peer/match.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"
#include "net/transport.h"

#include <string.h>

#define SLOTS_MAX (1U << 24)
#define BATCH_MAX 64         /* answers */
#define RECORDS_MAX_FACTOR 3 /* a slot has at most a message and two recalls: recall() */
#define HEADERS_LATE_MIN 1024

static uint32_t power_of_2_from(uint32_t value)
{
    uint32_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

/* ---- opening ---- */

static size_t headers_bytes(const fry_peer_lane *lane)
{
    return (size_t)(lane->headers_mask + 1) / 8;
}

static bool allocate(fry_peer_lane *lane)
{
    const fry_memory *memory = lane->memory;
    size_t ring = (size_t)lane->ring_mask + 1;
    /* Tables that are not zeroed are not touched before they are used. */
    lane->free_slots = fry_alloc_table(memory, ring * sizeof(uint32_t), false);
    lane->runs = fry_alloc_table(memory, ring * sizeof(fry_wire_run), false);
    lane->slots = fry_alloc_table(memory, lane->slot_count * sizeof(fry_lane_slot), false);
    lane->records = fry_alloc_table(memory, lane->record_count * sizeof(fry_record), false);
    lane->chunks = fry_alloc_table(memory, lane->chunk_count * sizeof(fry_chunk), false);
    lane->bundles = fry_alloc_table(memory, FRY_LANE_BUNDLES * sizeof(fry_bundle), false);
    lane->stash =
        fry_alloc_table(memory, ((size_t)lane->stash_mask + 1) * sizeof(fry_record *), true);
    lane->by_slot = fry_alloc_table(memory, lane->slot_count * sizeof(fry_record *), true);
    if (lane->is_keyed)
        lane->headers_seen = fry_alloc_table(memory, headers_bytes(lane), true);
    return lane->free_slots != NULL && lane->runs != NULL && lane->slots != NULL &&
           lane->records != NULL && lane->chunks != NULL && lane->bundles != NULL &&
           lane->stash != NULL && lane->by_slot != NULL &&
           (!lane->is_keyed || lane->headers_seen != NULL);
}

fry_peer_lane *fry_peer_lane_open(const fry_peer_options *options, const fry_lane_session *session)
{
    uint32_t slots = session->unexpected_max > 0 ? session->unexpected_max : 1;
    if (slots > SLOTS_MAX || session->window_bytes > SIZE_MAX / 4)
        return NULL;
    fry_peer_lane *lane = fry_alloc(options->memory, sizeof(*lane), FRY_CACHE_LINE);
    if (lane == NULL)
        return NULL;
    lane->memory = options->memory;
    lane->session = *session;
    lane->is_keyed = session->is_keyed;
    lane->slot_count = slots;
    lane->has_short = !lane->is_keyed && slots <= FRY_WIRE_SHORT_SLOTS_MAX;
    lane->ring_mask = power_of_2_from(slots) - 1;
    lane->stash_mask = power_of_2_from(slots) * 4 - 1;
    lane->record_count = RECORDS_MAX_FACTOR * slots + 1;
    lane->chunk_count = (size_t)session->window_bytes / sizeof(((fry_chunk *)0)->bytes) +
                        session->window_messages + 1;
    lane->headers_mask = (uint64_t)power_of_2_from(slots) * 4 + HEADERS_LATE_MIN;
    lane->headers_mask = (uint64_t)power_of_2_from((uint32_t)lane->headers_mask) - 1;
    uint32_t narrower = slots < session->window_messages ? slots : session->window_messages;
    lane->batch = narrower / 4 < 1 ? 1 : narrower / 4 > BATCH_MAX ? BATCH_MAX : narrower / 4;
    fry_list_init(&lane->ended);
    for (size_t i = 0; i < FRY_LANE_CONTROLS; i++) {
        lane->controls[i].next = lane->controls_free;
        lane->controls_free = &lane->controls[i];
    }
    if (!allocate(lane)) {
        fry_peer_lane_close(lane);
        return NULL;
    }
    fry_bundles_init(lane);
    return lane;
}

void fry_peer_lane_close(fry_peer_lane *lane)
{
    if (lane == NULL)
        return;
    const fry_memory *memory = lane->memory;
    size_t ring = (size_t)lane->ring_mask + 1;
    fry_free_table(memory, lane->headers_seen, headers_bytes(lane));
    fry_free_table(memory, lane->by_slot, lane->slot_count * sizeof(fry_record *));
    fry_free_table(memory, lane->stash, ((size_t)lane->stash_mask + 1) * sizeof(fry_record *));
    fry_free_table(memory, lane->bundles, FRY_LANE_BUNDLES * sizeof(fry_bundle));
    fry_free_table(memory, lane->chunks, lane->chunk_count * sizeof(fry_chunk));
    fry_free_table(memory, lane->records, lane->record_count * sizeof(fry_record));
    fry_free_table(memory, lane->slots, lane->slot_count * sizeof(fry_lane_slot));
    fry_free_table(memory, lane->runs, ring * sizeof(fry_wire_run));
    fry_free_table(memory, lane->free_slots, ring * sizeof(uint32_t));
    explicit_bzero(&lane->session, sizeof(lane->session));
    fry_free(memory, lane, sizeof(*lane));
}

/* ---- records and what they hold ---- */

fry_record *fry_lane_take_record(fry_peer_lane *lane)
{
    fry_record *record = lane->records_free;
    if (record != NULL)
        lane->records_free = record->next;
    else if (lane->records_fresh < lane->record_count)
        record = &lane->records[lane->records_fresh++];
    else
        return NULL;
    record->receive = NULL;
    record->next = NULL;
    record->previous = NULL;
    record->token = NULL;
    record->data = NULL;
    return record;
}

void fry_lane_give_record(fry_peer_lane *lane, fry_record *record)
{
    while (record->data != NULL) {
        fry_chunk *chunk = record->data;
        record->data = chunk->next;
        chunk->next = lane->chunks_free;
        lane->chunks_free = chunk;
    }
    if (record->slot < lane->slot_count && lane->by_slot[record->slot] == record)
        lane->by_slot[record->slot] = NULL;
    record->next = lane->records_free;
    lane->records_free = record;
}

static fry_chunk *take_chunk(fry_peer_lane *lane)
{
    fry_chunk *chunk = lane->chunks_free;
    if (chunk != NULL) {
        lane->chunks_free = chunk->next;
        return chunk;
    }
    return lane->chunks_fresh < lane->chunk_count ? &lane->chunks[lane->chunks_fresh++] : NULL;
}

bool fry_lane_store(fry_peer_lane *lane, fry_record *record, const void *data, size_t size_bytes)
{
    fry_chunk **end = &record->data;
    const uint8_t *from = data;
    if (size_bytes <= FRY_SMALL_BYTES) {
        if (size_bytes > 0)
            memcpy(record->small, from, size_bytes);
        return true;
    }
    while (size_bytes > 0) {
        fry_chunk *chunk = take_chunk(lane);
        if (chunk == NULL)
            return false;
        chunk->next = NULL;
        *end = chunk;
        end = &chunk->next;
        size_t part = size_bytes < sizeof(chunk->bytes) ? size_bytes : sizeof(chunk->bytes);
        memcpy(chunk->bytes, from, part);
        from += part;
        size_bytes -= part;
    }
    return true;
}

void fry_lane_load(const fry_record *record, void *memory, size_t size_bytes)
{
    uint8_t *to = memory;
    if (record->data == NULL) {
        if (size_bytes > 0)
            memcpy(to, record->small, size_bytes);
        return;
    }
    for (const fry_chunk *chunk = record->data; size_bytes > 0; chunk = chunk->next) {
        size_t part = size_bytes < sizeof(chunk->bytes) ? size_bytes : sizeof(chunk->bytes);
        memcpy(to, chunk->bytes, part);
        to += part;
        size_bytes -= part;
    }
}

bool fry_lane_store_fault(fry_peer_lane *lane, fry_record *record, const fry_fault *fault)
{
    bool has_words = fault->message[0] != 0 || fault->domain != NULL;
    return fry_lane_store(lane, record, fault, has_words ? sizeof(*fault) : FRY_FAULT_BARE_BYTES);
}

void fry_record_keep_fault(fry_record *record, const fry_fault *fault)
{
    memcpy(record->small, fault, FRY_FAULT_BARE_BYTES);
}

void fry_record_fault(const fry_record *record, fry_fault *fault)
{
    *fault = (fry_fault){0};
    fry_lane_load(record, fault, record->data != NULL ? sizeof(*fault) : FRY_FAULT_BARE_BYTES);
}

/* ---- headers out ---- */

size_t fry_lane_seal(fry_peer_lane *lane, uint8_t *header, size_t bytes)
{
    uint64_t count = lane->headers_sent++;
    fry_wire_put32(header + bytes, (uint32_t)count);
    fry_mac_write(lane->session.send_key, count, header, bytes, header + bytes + 4);
    return bytes + FRY_WIRE_TRAILER_BYTES;
}

static void give_control(fry_peer_lane *lane, fry_control *control)
{
    control->next = lane->controls_free;
    lane->controls_free = control;
    lane->controls_used--;
}

static void control_done(fry_post *post, ferry_status status, const fry_fault *fault)
{
    fry_peer_lane *lane = post->arg;
    give_control(lane, (fry_control *)post);
    if (status != FERRY_OK)
        fry_lane_fail(lane, FERRY_E_PEER, fault, "a control message could not be sent");
}

bool fry_lane_send(fry_peer_lane *lane, const fry_wire_header *header)
{
    if (!fry_lane_is_live(lane))
        return true; /* nobody hears it; the lane's end says everything */
    fry_control *control = lane->controls_free;
    if (control == NULL)
        return false;
    lane->controls_free = control->next;
    lane->controls_used++;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    control->post = (fry_post){.done = control_done, .arg = lane};
    size_t size = fry_wire_pack(bytes, header);
    if (fry_lane_post(lane, &control->post, bytes, size) == FRY_POST_DONE)
        give_control(lane, control);
    return true;
}

/* ---- answers ---- */

void fry_lane_acknowledge(fry_peer_lane *lane, uint32_t slot)
{
#ifdef FRY_PLANT_LOSE_ANSWER
    /* A planted fault: tests/planted builds it and must see it. */
    static uint32_t planted;
    if (++planted % 64 == 0)
        return;
#endif
    lane->unsent++;
    if (lane->run_count > 0) {
        fry_wire_run *run = &lane->runs[(lane->run_first + lane->run_count - 1) & lane->ring_mask];
        if (run->first + run->count == slot && run->count < FRY_WIRE_RUN_COUNT_MAX) {
            run->count++;
            return;
        }
    } else {
        lane->run_first = 0; /* with few under way few cache lines are used */
    }
    /* There is room: at most as many answers are owed as there are slots. */
    lane->runs[(lane->run_first + lane->run_count) & lane->ring_mask] = (fry_wire_run){slot, 1};
    lane->run_count++;
}

void fry_lane_refuse(fry_peer_lane *lane, const fry_wire_header *header)
{
    if (lane->refusals_first == NULL && fry_lane_send(lane, header)) {
        lane->owed--;
        lane->answers_posted++;
        return;
    }
    /* The refusal waits, without its fault's words. */
    fry_record *record = fry_lane_take_record(lane);
    if (record == NULL) {
        fry_lane_fail(lane, FERRY_E_PEER, NULL, "it sent more than its window allows");
        return;
    }
    record->kind = header->kind;
    record->slot = header->slot;
    record->op = header->op;
    record->size_bytes = header->size_bytes;
    if (header->kind == FRY_WIRE_NACK)
        fry_record_keep_fault(record, &header->fault);
    if (lane->refusals_last != NULL)
        lane->refusals_last->next = record;
    else
        lane->refusals_first = record;
    lane->refusals_last = record;
}

static bool send_refusal(fry_peer_lane *lane, const fry_record *record)
{
    fry_wire_header header = {.kind = record->kind, .slot = record->slot, .op = record->op};
    header.size_bytes = record->size_bytes;
    if (record->kind == FRY_WIRE_NACK)
        fry_record_fault(record, &header.fault);
    return fry_lane_send(lane, &header);
}

static bool send_runs(fry_peer_lane *lane)
{
    if (lane->controls_free == NULL)
        return false;
    fry_wire_header header;
    header.kind = FRY_WIRE_ACK;
    header.run_count = 0;
    while (lane->run_count > 0 && header.run_count < FRY_WIRE_RUNS_MAX)
        header.runs[header.run_count++] = fry_lane_take_run(lane);
    return fry_lane_send(lane, &header);
}

void fry_lane_answer(fry_peer_lane *lane)
{
    while (lane->refusals_first != NULL && fry_lane_is_live(lane)) {
        fry_record *record = lane->refusals_first;
        if (!send_refusal(lane, record))
            return;
        lane->refusals_first = record->next;
        if (record->next == NULL)
            lane->refusals_last = NULL;
        lane->owed--;
        lane->answers_posted++;
        fry_lane_give_record(lane, record);
    }
    while (lane->run_count > 0 && fry_lane_is_live(lane)) {
        if (!send_runs(lane))
            return;
    }
}

/* ---- keyed headers in ---- */

/*
 * Counts may come late, because channels may reorder: by about as many headers as may be under way
 * at once. A later header is refused, which only fails the lane.
 */
bool fry_lane_accept(fry_peer_lane *lane, const uint8_t *header, size_t *bytes, uint64_t *count_p)
{
    if (*bytes < FRY_WIRE_TRAILER_BYTES)
        return false;
    size_t body = *bytes - FRY_WIRE_TRAILER_BYTES;
    int64_t ahead = (int32_t)(fry_wire_get32(header + body) - (uint32_t)lane->headers_end);
    if (ahead < 0 && (uint64_t)-ahead > lane->headers_end)
        return false;
    uint64_t count = lane->headers_end + (uint64_t)ahead;
    if (!fry_mac_check(lane->session.receive_key, count, header, body, header + body + 4))
        return false;
    uint64_t *word = &lane->headers_seen[(count & lane->headers_mask) / 64];
    uint64_t bit = UINT64_C(1) << (count & 63);
    if (ahead < 0) {
        if ((uint64_t)-ahead > lane->headers_mask || (*word & bit) != 0)
            return false;
    } else {
        uint64_t gap = (uint64_t)ahead;
        if (gap > lane->headers_mask)
            gap = lane->headers_mask;
        for (uint64_t i = 0; i < gap; i++) {
            uint64_t skipped = count - 1 - i;
            lane->headers_seen[(skipped & lane->headers_mask) / 64] &=
                ~(UINT64_C(1) << (skipped & 63));
        }
        lane->headers_end = count + 1;
    }
    *word |= bit;
    *bytes = body;
    *count_p = count;
    return true;
}
