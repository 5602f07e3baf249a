/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/any.h"

#include "net/peer/state.h"

fry_any *fry_any_open(const fry_memory *memory, const fry_peer_events *events, uint32_t waiting_max)
{
    fry_any *any = fry_alloc(memory, sizeof(*any), _Alignof(fry_any));
    if (any == NULL)
        return NULL;
    *any = (fry_any){.memory = memory, .events = events, .waiting_max = waiting_max};
    TAILQ_INIT(&any->waiting);
    TAILQ_INIT(&any->unmatched);
    return any;
}

void fry_any_close(fry_any *any)
{
    if (any != NULL)
        fry_free(any->memory, any, sizeof(*any));
}

/* ---- those that wait ---- */

void fry_any_add(fry_any *any, fry_message *message)
{
    TAILQ_INSERT_TAIL(&any->waiting, message, seek.entry);
    any->waiting_count++;
}

void fry_any_leave(fry_any *any, fry_message *message)
{
    TAILQ_REMOVE(&any->waiting, message, seek.entry);
    any->waiting_count--;
}

static bool suits(const fry_seek *seek, ferry_tag wanted, int32_t rank, ferry_tag tag)
{
    return (seek->rank < 0 || seek->rank == rank) && (seek->takes_any_tag || wanted == tag);
}

fry_message *fry_any_find(const fry_any *any, int32_t rank, ferry_tag tag, uint64_t before)
{
    fry_message *message;
    TAILQ_FOREACH(message, &any->waiting, seek.entry) {
        if (message->seek.place >= before)
            return NULL;
        if (suits(&message->seek, message->tag, rank, tag))
            return message;
    }
    return NULL;
}

static bool is_one_of(const fry_message *message, fry_any_whose whose, int32_t rank)
{
    if (whose == FRY_ANY_OF_ALL)
        return true;
    return whose == FRY_ANY_OF_NONE ? message->seek.rank < 0 : message->seek.rank == rank;
}

/* An event may take others out of the list, or add some. */
void fry_any_fail(fry_any *any, fry_any_whose whose, int32_t rank, ferry_status status,
                  const fry_fault *fault, void *turn)
{
    for (;;) {
        fry_message *message = TAILQ_FIRST(&any->waiting);
        while (message != NULL && !is_one_of(message, whose, rank))
            message = TAILQ_NEXT(message, seek.entry);
        if (message == NULL)
            return;
        fry_any_leave(any, message);
        message->state = FRY_MESSAGE_ENDED;
        any->events->resolved(turn, message, status, fault);
        message->state = FRY_MESSAGE_QUIET;
        any->events->quiet(turn, message);
    }
}

/* ---- kept messages ---- */

static fry_unmatched *entry_of(fry_peer_connection *connection, const fry_record *record)
{
    return &connection->unmatched[record - connection->records];
}

void fry_any_keep(fry_peer_connection *connection, fry_record *record)
{
    fry_any *any = connection->peer->options.any;
    fry_unmatched *kept = entry_of(connection, record);
    kept->connection = connection;
    kept->record = record;
    TAILQ_INSERT_TAIL(&any->unmatched, kept, entry);
    connection->unmatched_count++;
}

void fry_any_take(fry_peer_connection *connection, const fry_record *record)
{
    fry_any *any = connection->peer->options.any;
    TAILQ_REMOVE(&any->unmatched, entry_of(connection, record), entry);
    connection->unmatched_count--;
}

bool fry_any_is_stuck(const fry_peer_connection *connection)
{
    const fry_any *any = connection->peer->options.any;
    const fry_unmatched *kept;
    if (connection->unmatched_count < connection->slot_count)
        return false;
    TAILQ_FOREACH(kept, &any->unmatched, entry) {
        if (kept->connection == connection && fry_match_is_first(kept->record))
            return false;
    }
    return true;
}

fry_unmatched *fry_any_look(const fry_any *any, const fry_seek *seek, ferry_tag tag)
{
    fry_unmatched *kept;
    TAILQ_FOREACH(kept, &any->unmatched, entry) {
        if (fry_match_is_first(kept->record) &&
            suits(seek, tag, kept->connection->peer->options.rank, kept->record->tag))
            return kept;
    }
    return NULL;
}

void fry_any_forget(fry_any *any, const fry_peer_connection *connection)
{
    fry_unmatched *kept, *next;
    TAILQ_FOREACH_SAFE(kept, &any->unmatched, entry, next) {
        if (kept->connection == connection)
            TAILQ_REMOVE(&any->unmatched, kept, entry);
    }
}
