/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/match.h"

#include <sodium.h>
#include <string.h>

#define CAPACITY_BITS_FIRST 6

static size_t table_bytes(const fry_match *match)
{
    return ((size_t)match->mask + 1) * sizeof(fry_tag_entry);
}

static bool set_table(fry_match *match, uint32_t bits)
{
    size_t bytes = ((size_t)1 << bits) * sizeof(fry_tag_entry);
    fry_tag_entry *entries = fry_alloc(match->memory, bytes, FRY_CACHE_LINE);
    if (entries == NULL)
        return false;
    match->entries = entries;
    match->mask = (uint32_t)(((uint64_t)1 << bits) - 1);
    match->shift = 64 - bits;
    match->used = 0;
    match->last = 0;
    match->empty = FRY_MATCH_NONE;
    return true;
}

bool fry_match_open(fry_match *match, const fry_memory *memory)
{
    *match = (fry_match){.memory = memory};
    randombytes_buf(&match->factor, sizeof(match->factor));
    match->factor |= 1;
    return set_table(match, CAPACITY_BITS_FIRST);
}

void fry_match_close(fry_match *match)
{
    fry_free(match->memory, match->entries, match->entries != NULL ? table_bytes(match) : 0);
    match->entries = NULL;
}

void fry_match_clear(fry_match *match)
{
    memset(match->entries, 0, table_bytes(match));
    match->used = 0;
    match->last = 0;
    match->empty = FRY_MATCH_NONE;
}

static uint32_t home_of(const fry_match *match, ferry_tag tag)
{
    return (uint32_t)((tag * match->factor) >> match->shift);
}

/* Returns the tag's entry, or the free entry where it belongs. */
uint32_t fry_match_look_up(const fry_match *match, ferry_tag tag)
{
    uint32_t at = home_of(match, tag);
    while (match->entries[at].is_used && match->entries[at].tag != tag)
        at = (at + 1) & match->mask;
    return at;
}

/* Removes an entry and closes the hole: each entry stays between its home and the next free one. */
static void remove_entry(fry_match *match, uint32_t hole)
{
    uint32_t at = hole;
    for (;;) {
        at = (at + 1) & match->mask;
        if (!match->entries[at].is_used)
            break;
        uint32_t from_home = (at - home_of(match, match->entries[at].tag)) & match->mask;
        if (from_home < ((at - hole) & match->mask))
            continue;
        match->entries[hole] = match->entries[at];
        if (match->empty == at)
            match->empty = hole;
        hole = at;
    }
    match->entries[hole] = (fry_tag_entry){.is_used = false};
    match->used--;
}

void fry_match_drop_entry(fry_match *match, uint32_t at)
{
    if (fry_match_is_empty(&match->entries[at]))
        remove_entry(match, at);
}

static bool grow(fry_match *match)
{
    fry_match old = *match;
    if (old.mask >= UINT32_MAX / 4 || !set_table(match, 65 - old.shift))
        return false;
    for (uint32_t i = 0; i <= old.mask; i++) {
        if (!old.entries[i].is_used || fry_match_is_empty(&old.entries[i]))
            continue;
        match->entries[fry_match_look_up(match, old.entries[i].tag)] = old.entries[i];
        match->used++;
    }
    fry_free(old.memory, old.entries, table_bytes(&old));
    return true;
}

fry_tag_entry *fry_match_add(fry_match *match, ferry_tag tag)
{
    if (match->used > match->mask / 2) {
        if (!grow(match))
            return NULL;
        match->last = fry_match_look_up(match, tag);
    }
    fry_tag_entry *entry = &match->entries[match->last];
    *entry = (fry_tag_entry){.tag = tag, .is_used = true};
    match->used++;
    return entry;
}

bool fry_match_enter_receive(fry_match *receives, fry_message *message, fry_record **record_p)
{
    fry_tag_entry *entry = fry_match_find_or_add(receives, message->tag);
    *record_p = NULL;
    if (fry_unlikely(entry == NULL))
        return false;
    fry_record *record = entry->unexpected_first;
    if (record == NULL) {
        fry_match_append(entry, message);
    } else if (record->gap > 0) {
        fry_match_append(entry, message);
#ifndef FRY_PLANT_KEEP_GAP /* a planted fault: tests/planted must see it */
        record->gap--;
        entry->gaps--;
#endif
    } else {
        entry->unexpected_first = record->next;
        if (record->next != NULL)
            record->next->previous = NULL;
        else
            entry->unexpected_last = NULL;
        if (fry_match_is_empty(entry))
            fry_match_note_empty(receives, entry);
        *record_p = record;
    }
    return true;
}

fry_message *fry_match_find(fry_match *receives, ferry_tag tag, uint32_t ahead)
{
    fry_message *message = fry_match_peek(receives, tag, ahead);
    if (message != NULL)
        fry_match_take(receives, message);
    return message;
}

bool fry_match_keep(fry_match *receives, fry_record *record)
{
    fry_tag_entry *entry = fry_match_find_or_add(receives, record->tag);
    if (entry == NULL)
        return false;
    /* Which free place to take, of those behind the receives entered so far. */
    uint64_t free_before = record->ahead - entry->count;
    fry_record *after = NULL;
    if (free_before >= entry->gaps) {
        free_before -= entry->gaps;
        entry->gaps += free_before;
    } else {
        after = entry->unexpected_first;
        while (free_before >= after->gap) {
            free_before -= after->gap;
            after = after->next;
        }
        after->gap -= (uint32_t)free_before + 1;
        entry->gaps--;
    }
    record->gap = (uint32_t)free_before;
    record->next = after;
    record->previous = after != NULL ? after->previous : entry->unexpected_last;
    if (record->previous != NULL)
        record->previous->next = record;
    else
        entry->unexpected_first = record;
    if (after != NULL)
        after->previous = record;
    else
        entry->unexpected_last = record;
    return true;
}

/* ---- receives with any source ---- */

bool fry_match_post(fry_match *receives, fry_message *message)
{
    fry_tag_entry *entry = fry_match_find_or_add(receives, message->tag);
    if (entry == NULL)
        return false;
    fry_match_append(entry, message);
    entry->count = 0; /* a message that names a place finds none */
    return true;
}

void fry_match_unpost(fry_match *receives, fry_message *message)
{
    fry_tag_entry *entry = fry_match_entry(receives, message->tag);
    entry->count = 1; /* 0 afterwards */
    fry_match_take_out(receives, entry, message);
}

fry_record *fry_match_first(fry_match *receives, ferry_tag tag, fry_message **receive_p)
{
    const fry_tag_entry *entry = fry_match_entry(receives, tag);
    *receive_p = entry != NULL ? entry->first : NULL;
    fry_record *record = entry != NULL ? entry->unexpected_first : NULL;
#ifdef FRY_PLANT_TAKE_EARLY /* a planted fault: tests/planted must see it */
    return record;
#endif
    return record != NULL && fry_match_is_first(record) ? record : NULL;
}

void fry_match_unkeep(fry_match *receives, const fry_record *record)
{
    fry_tag_entry *entry = fry_match_entry(receives, record->tag);
    if (record->previous != NULL)
        record->previous->next = record->next;
    else
        entry->unexpected_first = record->next;
    if (record->next != NULL) {
        record->next->previous = record->previous;
        record->next->gap += record->gap;
    } else {
        entry->unexpected_last = record->previous;
        entry->gaps -= record->gap;
    }
    if (fry_match_is_empty(entry))
        fry_match_note_empty(receives, entry);
}

/* ---- all ---- */

fry_record *fry_match_take_unexpected(fry_match *receives)
{
    fry_record *taken = NULL;
    for (uint32_t i = 0; i <= receives->mask; i++) {
        fry_tag_entry *entry = &receives->entries[i];
        if (!entry->is_used || entry->unexpected_last == NULL)
            continue;
        entry->unexpected_last->next = taken;
        taken = entry->unexpected_first;
    }
    fry_match_clear(receives);
    return taken;
}

void fry_match_replace(fry_match *match, fry_message *message, fry_message *other)
{
    fry_tag_entry *entry = fry_match_entry(match, message->tag);
    other->next = message->next;
    other->previous = message->previous;
    if (other->previous != NULL)
        other->previous->next = other;
    else
        entry->first = other;
    if (other->next != NULL)
        other->next->previous = other;
    else
        entry->last = other;
}
