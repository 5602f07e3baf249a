/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/connection.h"

#include "base/lf.h"
#include "net/mac.h"
#include "net/peer/bundle.h"
#include "net/peer/fault.h"
#include "net/peer/match.h"
#include "net/peer/state.h"
#include "net/peer/untaken.h"
#include "net/peer/wire.h"
#include "net/transport.h"

#include <string.h>

#define SLOTS_MAX (1U << 24)
#define BATCH_MAX 64         /* answers */
#define RECORDS_MAX_FACTOR 3 /* a slot has at most a message and two recalls: recall() */
#define HEADERS_LATE_MIN 1024
#define NOTICE_ROOMS_BYTES (FRY_NOTICES_UNTAKEN * FRY_NOTICE_BYTES)
#define SLICES (FRY_CONNECTION_ASKED + FRY_CONNECTION_SERVED)

static uint32_t power_of_2_from(uint32_t value)
{
    uint32_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

/* ---- opening ---- */

static size_t headers_bytes(const fry_peer_connection *connection)
{
    return (size_t)(connection->headers_mask + 1) / 8;
}

static bool allocate(fry_peer_connection *connection, bool has_any)
{
    const fry_memory *memory = connection->memory;
    size_t ring = (size_t)connection->ring_mask + 1;
    /* Tables that are not zeroed are not touched before they are used. */
    connection->free_slots = fry_alloc_table(memory, ring * sizeof(uint32_t), false);
    connection->runs = fry_alloc_table(memory, ring * sizeof(fry_wire_run), false);
    connection->slots =
        fry_alloc_table(memory, connection->slot_count * sizeof(fry_connection_slot), false);
    connection->records =
        fry_alloc_table(memory, connection->record_count * sizeof(fry_record), false);
    connection->chunks =
        fry_alloc_table(memory, connection->chunk_count * sizeof(fry_chunk), false);
    connection->bundles =
        fry_alloc_table(memory, FRY_CONNECTION_BUNDLES * sizeof(fry_bundle), false);
    connection->slices = fry_alloc_table(memory, SLICES * sizeof(fry_slice), true);
    connection->wants = fry_alloc_table(memory, FRY_CONNECTION_WANTED * sizeof(fry_want), false);
    connection->stash =
        fry_alloc_table(memory, ((size_t)connection->stash_mask + 1) * sizeof(fry_record *), true);
    connection->by_slot =
        fry_alloc_table(memory, connection->slot_count * sizeof(fry_record *), true);
    if (connection->session.has_pairs)
        connection->joint = fry_alloc(memory, sizeof(fry_joint), _Alignof(fry_joint));
    if (connection->session.has_windows)
        connection->windows = fry_alloc_table(memory, sizeof(fry_finds), true);
    if (connection->session.has_windows)
        connection->notice_rooms = fry_alloc_table(memory, NOTICE_ROOMS_BYTES, false);
    if (connection->is_keyed)
        connection->headers_seen = fry_alloc_table(memory, headers_bytes(connection), true);
    if (has_any)
        connection->unmatched =
            fry_alloc_table(memory, connection->record_count * sizeof(fry_unmatched), false);
    return connection->free_slots != NULL && connection->runs != NULL &&
           connection->slots != NULL && connection->records != NULL && connection->chunks != NULL &&
           connection->bundles != NULL && connection->slices != NULL && connection->wants != NULL &&
           connection->stash != NULL && connection->by_slot != NULL &&
           (connection->joint != NULL || !connection->session.has_pairs) &&
           ((connection->windows != NULL && connection->notice_rooms != NULL) ||
            !connection->session.has_windows) &&
           (!connection->is_keyed || connection->headers_seen != NULL) &&
           (!has_any || connection->unmatched != NULL);
}

fry_peer_connection *fry_peer_connection_open(const fry_peer_options *options,
                                              const fry_connection_session *session)
{
    uint32_t slots = session->unexpected_max > 0 ? session->unexpected_max : 1;
    if (slots > SLOTS_MAX || session->window_bytes > SIZE_MAX / 4)
        return NULL;
    fry_peer_connection *connection =
        fry_alloc(options->memory, sizeof(*connection), FRY_CACHE_LINE);
    if (connection == NULL)
        return NULL;
    connection->memory = options->memory;
    connection->session = *session;
    connection->is_keyed = session->is_keyed;
    connection->slot_count = slots;
    connection->has_short = !connection->is_keyed && slots <= FRY_WIRE_SHORT_SLOTS_MAX;
    connection->ring_mask = power_of_2_from(slots) - 1;
    connection->stash_mask = power_of_2_from(slots) * 4 - 1;
    connection->record_count = RECORDS_MAX_FACTOR * slots + 1;
    connection->chunk_count = (size_t)session->window_bytes / sizeof(((fry_chunk *)0)->bytes) +
                              session->window_messages + 1;
    connection->headers_mask = (uint64_t)power_of_2_from(slots) * 4 + HEADERS_LATE_MIN;
    connection->headers_mask = (uint64_t)power_of_2_from((uint32_t)connection->headers_mask) - 1;
    uint32_t narrower = slots < session->window_messages ? slots : session->window_messages;
    connection->batch = narrower / 4 < 1 ? 1 : narrower / 4 > BATCH_MAX ? BATCH_MAX : narrower / 4;
    fry_list_init(&connection->ended);
    for (size_t i = 0; i < FRY_CONNECTION_CONTROLS; i++) {
        connection->controls[i].next = connection->controls_free;
        connection->controls_free = &connection->controls[i];
    }
    if (!allocate(connection, options->any != NULL)) {
        fry_peer_connection_close(connection);
        return NULL;
    }
    if (connection->joint != NULL)
        connection->joint->nudged = UINT32_MAX;
    if (connection->windows != NULL)
        TAILQ_INIT(&connection->windows->untold);
    fry_bundles_init(connection);
    for (size_t i = 0; i < SLICES; i++) {
        fry_slice *slice = &connection->slices[i];
        fry_slice **free =
            i < FRY_CONNECTION_ASKED ? &connection->asks_free : &connection->serves_free;
        slice->next = *free;
        *free = slice;
    }
    return connection;
}

void fry_peer_connection_close(fry_peer_connection *connection)
{
    if (connection == NULL)
        return;
    const fry_memory *memory = connection->memory;
    size_t ring = (size_t)connection->ring_mask + 1;
    if (connection->joint != NULL)
        fry_free(memory, connection->joint, sizeof(fry_joint));
    fry_free_table(memory, connection->notice_rooms, NOTICE_ROOMS_BYTES);
    fry_free_table(memory, connection->windows, sizeof(fry_finds));
    fry_free_table(memory, connection->unmatched, connection->record_count * sizeof(fry_unmatched));
    fry_free_table(memory, connection->headers_seen, headers_bytes(connection));
    fry_free_table(memory, connection->by_slot, connection->slot_count * sizeof(fry_record *));
    fry_free_table(memory, connection->stash,
                   ((size_t)connection->stash_mask + 1) * sizeof(fry_record *));
    fry_free_table(memory, connection->slices, SLICES * sizeof(fry_slice));
    fry_free_table(memory, connection->wants, FRY_CONNECTION_WANTED * sizeof(fry_want));
    fry_free_table(memory, connection->bundles, FRY_CONNECTION_BUNDLES * sizeof(fry_bundle));
    fry_free_table(memory, connection->chunks, connection->chunk_count * sizeof(fry_chunk));
    fry_free_table(memory, connection->records, connection->record_count * sizeof(fry_record));
    fry_free_table(memory, connection->slots, connection->slot_count * sizeof(fry_connection_slot));
    fry_free_table(memory, connection->runs, ring * sizeof(fry_wire_run));
    fry_free_table(memory, connection->free_slots, ring * sizeof(uint32_t));
    explicit_bzero(&connection->session, sizeof(connection->session));
    fry_free(memory, connection, sizeof(*connection));
}

/* ---- records and what they hold ---- */

fry_record *fry_connection_take_record(fry_peer_connection *connection)
{
    fry_record *record = connection->records_free;
    if (record != NULL)
        connection->records_free = record->next;
    else if (connection->records_fresh < connection->record_count)
        record = &connection->records[connection->records_fresh++];
    else
        return NULL;
    record->receive = NULL;
    record->is_notice = false;
    record->next = NULL;
    record->previous = NULL;
    record->token = NULL;
    record->data = NULL;
    return record;
}

void fry_connection_give_record(fry_peer_connection *connection, fry_record *record)
{
    if (fry_unlikely(record->is_notice) && record->notice != NULL)
        fry_untaken_give_room(connection, record->notice);
    while (record->data != NULL) {
        fry_chunk *chunk = record->data;
        record->data = chunk->next;
        chunk->next = connection->chunks_free;
        connection->chunks_free = chunk;
    }
    if (record->slot < connection->slot_count && connection->by_slot[record->slot] == record)
        connection->by_slot[record->slot] = NULL;
    record->next = connection->records_free;
    connection->records_free = record;
}

static fry_chunk *take_chunk(fry_peer_connection *connection)
{
    fry_chunk *chunk = connection->chunks_free;
    if (chunk != NULL) {
        connection->chunks_free = chunk->next;
        return chunk;
    }
    return connection->chunks_fresh < connection->chunk_count
               ? &connection->chunks[connection->chunks_fresh++]
               : NULL;
}

bool fry_connection_store(fry_peer_connection *connection, fry_record *record, const void *data,
                          size_t size_bytes)
{
    fry_chunk **end = &record->data;
    const uint8_t *from = data;
    if (size_bytes <= FRY_SMALL_BYTES) {
        if (size_bytes > 0)
            memcpy(record->small, from, size_bytes);
        return true;
    }
    while (size_bytes > 0) {
        fry_chunk *chunk = take_chunk(connection);
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

void fry_connection_load(const fry_record *record, size_t offset, void *memory, size_t size_bytes)
{
    uint8_t *to = memory;
    if (record->data == NULL) {
        if (size_bytes > 0)
            memcpy(to, record->small + offset, size_bytes);
        return;
    }
    const fry_chunk *chunk = record->data;
    for (; offset >= sizeof(chunk->bytes); offset -= sizeof(chunk->bytes))
        chunk = chunk->next;
    for (; size_bytes > 0; chunk = chunk->next, offset = 0) {
        size_t part = sizeof(chunk->bytes) - offset;
        part = size_bytes < part ? size_bytes : part;
        memcpy(to, chunk->bytes + offset, part);
        to += part;
        size_bytes -= part;
    }
}

bool fry_connection_store_fault(fry_peer_connection *connection, fry_record *record,
                                const fry_fault *fault)
{
    bool has_words = fault->message[0] != 0 || fault->domain != NULL;
    return fry_connection_store(connection, record, fault,
                                has_words ? sizeof(*fault) : FRY_FAULT_BARE_BYTES);
}

void fry_record_keep_fault(fry_record *record, const fry_fault *fault)
{
    memcpy(record->small, fault, FRY_FAULT_BARE_BYTES);
}

void fry_record_fault(const fry_record *record, fry_fault *fault)
{
    *fault = (fry_fault){0};
    fry_connection_load(record, 0, fault,
                        record->data != NULL ? sizeof(*fault) : FRY_FAULT_BARE_BYTES);
}

/* ---- headers out ---- */

size_t fry_connection_seal(fry_peer_connection *connection, uint8_t *header, size_t bytes)
{
    uint64_t count = connection->headers_sent++;
    fry_wire_put32(header + bytes, (uint32_t)count);
    fry_mac_write(connection->session.send_key, count, header, bytes, header + bytes + 4);
    return bytes + FRY_WIRE_TRAILER_BYTES;
}

static void give_control(fry_peer_connection *connection, fry_control *control)
{
    control->next = connection->controls_free;
    connection->controls_free = control;
    connection->controls_used--;
}

static void control_done(fry_post *post, ferry_status status, const fry_fault *fault)
{
    fry_peer_connection *connection = post->arg;
    give_control(connection, (fry_control *)post);
    if (status != FERRY_OK)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "a control message could not be sent");
}

bool fry_connection_send(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (!fry_connection_is_live(connection))
        return true; /* nobody hears it; the connection's end says everything */
    fry_control *control = connection->controls_free;
    if (control == NULL)
        return false;
    connection->controls_free = control->next;
    connection->controls_used++;
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    control->post = (fry_post){.done = control_done, .arg = connection};
    size_t size = fry_wire_pack(bytes, header);
    if (fry_connection_post(connection, &control->post, bytes, size) == FRY_POST_DONE)
        give_control(connection, control);
    return true;
}

/* ---- answers ---- */

void fry_connection_acknowledge(fry_peer_connection *connection, uint32_t slot)
{
#ifdef FRY_PLANT_LOSE_ANSWER
    /* A planted fault: tests/planted builds it and must see it. */
    static uint32_t planted;
    if (++planted % 64 == 0)
        return;
#endif
    connection->unsent++;
    if (connection->run_count > 0) {
        fry_wire_run *run = &connection->runs[(connection->run_first + connection->run_count - 1) &
                                              connection->ring_mask];
        if (run->first + run->count == slot && run->count < FRY_WIRE_RUN_COUNT_MAX) {
            run->count++;
            return;
        }
    } else {
        connection->run_first = 0; /* with few under way few cache lines are used */
    }
    /* There is room: at most as many answers are owed as there are slots. */
    connection->runs[(connection->run_first + connection->run_count) & connection->ring_mask] =
        (fry_wire_run){slot, 1};
    connection->run_count++;
}

void fry_connection_refuse(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (connection->refusals_first == NULL && fry_connection_send(connection, header)) {
        connection->owed--;
        connection->answers_posted++;
        return;
    }
    /* The refusal waits, without its fault's words. */
    fry_record *record = fry_connection_take_record(connection);
    if (record == NULL) {
        fry_connection_fail(connection, FERRY_E_PEER, NULL, "it sent more than its window allows");
        return;
    }
    record->kind = header->kind;
    record->slot = header->slot;
    record->op = header->op;
    record->size_bytes = header->size_bytes;
    if (header->kind == FRY_WIRE_NACK)
        fry_record_keep_fault(record, &header->fault);
    if (connection->refusals_last != NULL)
        connection->refusals_last->next = record;
    else
        connection->refusals_first = record;
    connection->refusals_last = record;
}

static bool send_refusal(fry_peer_connection *connection, const fry_record *record)
{
    fry_wire_header header = {.kind = record->kind, .slot = record->slot, .op = record->op};
    header.size_bytes = record->size_bytes;
    if (record->kind == FRY_WIRE_NACK)
        fry_record_fault(record, &header.fault);
    return fry_connection_send(connection, &header);
}

static bool send_runs(fry_peer_connection *connection)
{
    if (connection->controls_free == NULL)
        return false;
    fry_wire_header header;
    header.kind = FRY_WIRE_ACK;
    header.run_count = 0;
    while (connection->run_count > 0 && header.run_count < FRY_WIRE_RUNS_MAX)
        header.runs[header.run_count++] = fry_connection_take_run(connection);
    return fry_connection_send(connection, &header);
}

void fry_connection_answer(fry_peer_connection *connection)
{
    while (connection->refusals_first != NULL && fry_connection_is_live(connection)) {
        fry_record *record = connection->refusals_first;
        if (!send_refusal(connection, record))
            return;
        connection->refusals_first = record->next;
        if (record->next == NULL)
            connection->refusals_last = NULL;
        connection->owed--;
        connection->answers_posted++;
        fry_connection_give_record(connection, record);
    }
    while (connection->run_count > 0 && fry_connection_is_live(connection)) {
        if (!send_runs(connection))
            return;
    }
}

/* ---- keyed headers in ---- */

/*
 * Counts may come late, because channels may reorder: by about as many headers as may be under way
 * at once. A later header is refused, which only fails the connection.
 */
bool fry_connection_accept(fry_peer_connection *connection, const uint8_t *header, size_t *bytes,
                           uint64_t *count_p)
{
    if (*bytes < FRY_WIRE_TRAILER_BYTES)
        return false;
    size_t body = *bytes - FRY_WIRE_TRAILER_BYTES;
    int64_t ahead = (int32_t)(fry_wire_get32(header + body) - (uint32_t)connection->headers_end);
    if (ahead < 0 && (uint64_t)-ahead > connection->headers_end)
        return false;
    uint64_t count = connection->headers_end + (uint64_t)ahead;
    if (!fry_mac_check(connection->session.receive_key, count, header, body, header + body + 4))
        return false;
    uint64_t *word = &connection->headers_seen[(count & connection->headers_mask) / 64];
    uint64_t bit = UINT64_C(1) << (count & 63);
    if (ahead < 0) {
        if ((uint64_t)-ahead > connection->headers_mask || (*word & bit) != 0)
            return false;
    } else {
        uint64_t gap = (uint64_t)ahead;
        if (gap > connection->headers_mask)
            gap = connection->headers_mask;
        for (uint64_t i = 0; i < gap; i++) {
            uint64_t skipped = count - 1 - i;
            connection->headers_seen[(skipped & connection->headers_mask) / 64] &=
                ~(UINT64_C(1) << (skipped & 63));
        }
        connection->headers_end = count + 1;
    }
    *word |= bit;
    *bytes = body;
    *count_p = count;
    return true;
}
