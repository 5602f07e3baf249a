/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching: the k-th send of a tag meets the k-th receive, whatever order they get ready in and
 * messages arrive in, with nothing kept of a tag of which nothing is open.
 *
 * The rule. The sender lists a tag's sends in program order until they are launched; a launch says
 * how many are `ahead` of it in that list. The receiver sees launches in the order in which they
 * were made (net/peer/receive.c), and gives each the ahead-th *place* of its tag, from 0, that no
 * message has yet: those of receives that were entered, and behind them those of receives still to
 * come, without end.
 *
 * Why it is right. Say that before a launch the receives that have a message are those whose
 * numbers within the tag are the numbers of the sends launched before. Let send k be launched now:
 * `ahead` is the count of j < k not launched, so by that assumption the count of places before the
 * k-th that have no message; and the k-th has none, as k was not launched before. So it gets the
 * k-th place, and the assumption holds again. It holds at first, when there is neither. When a
 * receive is entered does not matter, only how many were before it: a place that a message has
 * taken ahead of its receive is the receive's when it comes, as places are handed out in order.
 * What failed or was withdrawn keeps its place (a ghost, net/peer/state.h), and is launched, or has
 * its message, like any other.
 *
 * Why nothing stays. Places without end need no memory: those past the receives entered so far, of
 * which no message has taken one, are all alike. An unexpected message notes how many free ones are
 * between it and the one before it (`gap`). When no receive waits and no message is unexpected,
 * or no send is unlaunched, the tag's entry is as that of a tag never heard of, and goes. (One such
 * entry stays for a while, for who uses one tag again and again.)
 *
 * Tables are open-addressed, half full at most, and grow by doubling: so they allocate as long as
 * more tags are open at once than ever before, and then no more. The hash's factor is random, so
 * that nobody outside can choose tags that meet.
 */
#ifndef FRY_NET_PEER_MATCH_H
#define FRY_NET_PEER_MATCH_H

#include "base/lf.h"
#include "net/peer/peer.h"

#define FRY_SMALL_BYTES 32 /* bytes of data that fit into the record */

_Static_assert(FRY_FAULT_BARE_BYTES <= FRY_SMALL_BYTES, "a fault without words fits into it too");

typedef struct fry_chunk fry_chunk;
typedef struct fry_record fry_record;

/* A message that arrived, kept until its receive is there and ready. It belongs to the connection.
 */
struct fry_record {
    union {
        ferry_tag tag;
        uint64_t asked_bytes; /* once it comes in pieces: net/peer/ask.c */
    };
    uint64_t op;
    uint64_t size_bytes;
    uint32_t number, slot; /* from its header */
    uint32_t ahead;        /* until it is matched */
    uint32_t gap;          /* unexpected: free places between it and the message before it */
    uint8_t kind;          /* fry_wire_kind */
    bool is_asking;        /* in pieces: in the list of those with more to ask for */
    bool has_no_place;     /* in pieces: they can't be read where the sender has them */
    bool may_join;         /* HELD: its sender can launch it with others, in a lot */
    uint8_t join;          /* fry_join; joint.c */
    bool is_apart;         /* of a window */
    uint8_t pieces;        /* in pieces: how many are under way */
    bool is_notice;        /* is_apart too */
    union {
        fry_message *receive; /* the receive that has it; NULL: none yet */
        uint8_t *notice;      /* is_notice: its bytes; NULL: it has none */
    };
    fry_record *next, *previous; /* in the list of unexpected messages of its tag, or in the list
                                    that it waits in */
    void *token;                 /* must be pulled or dropped; or NULL */
    fry_chunk *data;             /* its data, or its fault; NULL: none, or it is here: */
    uint8_t small[FRY_SMALL_BYTES];
};

/* The entry of a tag. */
typedef struct fry_tag_entry {
    ferry_tag tag;
    fry_message *first, *last; /* sends not launched; or receives without a message */
    fry_record *unexpected_first, *unexpected_last;
    uint64_t gaps;  /* sum over the unexpected messages */
    uint32_t count; /* number from first to last; with any source 0: they hold no places */
    bool is_used;
} fry_tag_entry;

typedef struct fry_match {
    fry_tag_entry *entries;
    uint32_t mask;  /* capacity less one */
    uint32_t shift; /* of the hash */
    uint32_t used;
    uint32_t last;  /* the entry of the last lookup */
    uint32_t empty; /* an entry with nothing open; FRY_MATCH_NONE: none */
    uint64_t factor;
    const fry_memory *memory;
} fry_match;

#define FRY_MATCH_NONE UINT32_MAX

/* Opens a table. False: no memory. */
bool fry_match_open(fry_match *match, const fry_memory *memory);
void fry_match_close(fry_match *match);

/* Forgets everything; keeps its memory. */
void fry_match_clear(fry_match *match);

/*
 * Receives: enters a receive. If its place has a message that has come, returns that; else the
 * receive waits. False: no memory.
 */
bool fry_match_enter_receive(fry_match *receives, fry_message *message, fry_record **record_p);

/* Receives: fry_match_peek and fry_match_take. NULL: the caller keeps the message. */
fry_message *fry_match_find(fry_match *receives, ferry_tag tag, uint32_t ahead);

/* Receives: keeps a message, right after fry_match_find returned NULL for it. False: no memory. */
bool fry_match_keep(fry_match *receives, fry_record *record);

/*
 * Receives: returns all messages that wait for a receive, linked by `next`, and forgets everything.
 */
fry_record *fry_match_take_unexpected(fry_match *receives);

/* Either: puts another message in its place, with its tag. */
void fry_match_replace(fry_match *match, fry_message *message, fry_message *other);

/* ---- receives with any source (any.h) ---- */

/* Whether the message is the first of its tag: all that were sent before it are taken. */
static inline bool fry_match_is_first(const fry_record *record)
{
    return record->previous == NULL && record->gap == 0;
}

/* Enters a receive behind those of its tag; it takes no message here. False: no memory. */
bool fry_match_post(fry_match *receives, fry_message *message);

/* Takes out a receive that has no message. */
void fry_match_unpost(fry_match *receives, fry_message *message);

/* The first message of a tag, NULL if there is none; and the first receive that waits for one. */
fry_record *fry_match_first(fry_match *receives, ferry_tag tag, fry_message **receive_p);

/* Takes out a message: a receive has it, if it is first, or nobody ever will. */
void fry_match_unkeep(fry_match *receives, const fry_record *record);

/* ---- what every message passes, inlined ---- */

/*
 * For the functions below: the tag's entry, or the free entry for it; a new entry if
 * fry_match_entry found none, NULL without memory; the end of an entry that is still empty.
 */
uint32_t fry_match_look_up(const fry_match *match, ferry_tag tag);
fry_tag_entry *fry_match_add(fry_match *match, ferry_tag tag);
void fry_match_drop_entry(fry_match *match, uint32_t at);

/* The entry of a tag; NULL: nothing of the tag is open. */
static inline fry_tag_entry *fry_match_entry(fry_match *match, ferry_tag tag)
{
    fry_tag_entry *entry = &match->entries[match->last];
    if (fry_likely(entry->is_used && entry->tag == tag))
        return entry;
    match->last = fry_match_look_up(match, tag);
    entry = &match->entries[match->last];
    return entry->is_used ? entry : NULL;
}

static inline bool fry_match_is_empty(const fry_tag_entry *entry)
{
    return entry->first == NULL && entry->unexpected_first == NULL;
}

/* Notes an entry that became empty; it stays until the next one does. */
static inline void fry_match_note_empty(fry_match *match, const fry_tag_entry *entry)
{
    uint32_t old = match->empty;
    match->empty = (uint32_t)(entry - match->entries);
    if (fry_unlikely(old != match->empty && old != FRY_MATCH_NONE))
        fry_match_drop_entry(match, old);
}

/* The entry of a tag, added if missing; NULL: no memory. */
static inline fry_tag_entry *fry_match_find_or_add(fry_match *match, ferry_tag tag)
{
    fry_tag_entry *entry = fry_match_entry(match, tag);
    return fry_likely(entry != NULL) ? entry : fry_match_add(match, tag);
}

static inline void fry_match_append(fry_tag_entry *entry, fry_message *message)
{
    message->next = NULL;
    message->previous = entry->last;
    if (entry->last != NULL)
        entry->last->next = message;
    else
        entry->first = message;
    entry->last = message;
    entry->count++;
}

static inline void fry_match_take_out(fry_match *match, fry_tag_entry *entry, fry_message *message)
{
    if (message->previous != NULL)
        message->previous->next = message->next;
    else
        entry->first = message->next;
    if (message->next != NULL)
        message->next->previous = message->previous;
    else
        entry->last = message->previous;
    entry->count--;
    if (fry_match_is_empty(entry))
        fry_match_note_empty(match, entry);
}

/* Sends: enters a send at the end of its tag's list. False: no memory. */
static inline bool fry_match_enter_send(fry_match *sends, fry_message *message)
{
    fry_tag_entry *entry = fry_match_find_or_add(sends, message->tag);
    if (fry_unlikely(entry == NULL))
        return false;
    fry_match_append(entry, message);
    return true;
}

/* Sends: takes a send out of the list; returns how many are ahead of it. */
static inline uint32_t fry_match_launch(fry_match *sends, fry_message *message)
{
    fry_tag_entry *entry = fry_match_entry(sends, message->tag);
    uint32_t ahead = 0;
    for (const fry_message *other = message->previous; other != NULL; other = other->previous)
        ahead++;
    fry_match_take_out(sends, entry, message);
    return ahead;
}

/* Receives: the receive of a place; NULL: none yet. */
static inline fry_message *fry_match_peek(fry_match *receives, ferry_tag tag, uint32_t ahead)
{
    fry_tag_entry *entry = fry_match_entry(receives, tag);
    if (entry == NULL || ahead >= entry->count)
        return NULL;
    fry_message *message = entry->first;
    while (fry_unlikely(ahead > 0)) {
        message = message->next;
        ahead--;
    }
    return message;
}

/* Receives: right after fry_match_peek, gives the receive its message. */
static inline void fry_match_take(fry_match *receives, fry_message *message)
{
    fry_match_take_out(receives, &receives->entries[receives->last], message);
}

#endif
