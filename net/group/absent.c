/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says who is missing, in words: "rank 3 was last seen 12.3 s ago, ranks 5-7 never".
 *
 * "Last seen" is what the store shows. A member whose record exists is seen now; its lease says for
 * how long it may have been silent. A member whose record is gone was last seen when the deletion
 * was told: at its death, or up to a lease and a second later.
 */
#include "net/group/absent.h"

#include "net/group/group.h"
#include "net/group/members.h"
#include "net/group/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEADLINES_APART_NS INT64_C(100000000)

/* The newest start of a rank; NULL: never seen. */
static const fry_presence *newest_of(const fry_group *group, uint32_t rank)
{
    const fry_presence *newest = NULL;

    if (rank < group->view_count && group->views[rank].presence != NULL)
        return group->views[rank].presence;
    for (fry_presence *p = fry_group_presence_first(group); p != NULL;
         p = fry_group_presence_next(group, p)) {
        if (p->rank == (int32_t)rank && p->info.last_seen_ns != 0)
            newest = p;
    }
    if (newest == NULL && group->roster != NULL && rank < group->roster->size)
        newest = fry_group_presence(group, group->roster->slots[rank].id);
    return newest;
}

static void say_seen(const fry_group *group, const fry_presence *presence, char *text,
                     size_t text_bytes)
{
    const int64_t now_ns = fry_group_now_ns(group);
    int64_t seen_ns = presence != NULL ? presence->info.last_seen_ns : 0;

    if (presence != NULL && presence->state == FRY_PRESENCE_LEFT) {
        (void)snprintf(text, text_bytes, "left");
        return;
    }
    if (seen_ns == 0) {
        (void)snprintf(text, text_bytes, "never");
        return;
    }
    if (presence->state == FRY_PRESENCE_HERE)
        seen_ns = group->is_lost ? group->lost_since_ns : now_ns;
    const int64_t tenths = (now_ns - seen_ns) / 100000000;
    (void)snprintf(text, text_bytes, "%" PRId64 ".%" PRId64 " s ago", tenths / 10, tenths % 10);
}

typedef struct list {
    char *text;
    size_t bytes, room_bytes;
    uint32_t more;  /* ranks for which there was no room */
    bool is_second; /* of a sentence: the words "was last seen" are left out */
} list;

static void add(list *l, uint32_t first, uint32_t last, const char *seen)
{
    char piece[96], ranks[32];
    int length;

    if (last > first)
        (void)snprintf(ranks, sizeof ranks, "ranks %" PRIu32 "-%" PRIu32, first, last);
    else
        (void)snprintf(ranks, sizeof ranks, "rank %" PRIu32, first);
    if (strcmp(seen, "never") == 0 || strcmp(seen, "left") == 0)
        length = snprintf(piece, sizeof piece, "%s%s %s", l->bytes > 0 ? ", " : "", ranks, seen);
    else
        length = snprintf(piece, sizeof piece, "%s%s %s%s", l->bytes > 0 ? ", " : "", ranks,
                          l->is_second   ? ""
                          : last > first ? "were last seen "
                                         : "was last seen ",
                          seen);
    if (l->more > 0 || l->bytes + (size_t)length >= l->room_bytes) {
        l->more += last - first + 1;
        return;
    }
    l->is_second |= strstr(seen, "ago") != NULL;
    memcpy(l->text + l->bytes, piece, (size_t)length + 1);
    l->bytes += (size_t)length;
}

void fry_group_name_absentees(const fry_group *group, const bool *is_absent, uint32_t size,
                              char *text, size_t text_bytes)
{
    list l = {.text = text, .room_bytes = text_bytes - sizeof " and 4096 more"};
    char seen[40], run_seen[40] = "";
    uint32_t run = 0, next = 0;

    text[0] = '\0';
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!is_absent[rank])
            continue;
        say_seen(group, newest_of(group, rank), seen, sizeof seen);
        if (run_seen[0] != '\0' && rank == next && strcmp(seen, run_seen) == 0) {
            next++;
            continue;
        }
        if (run_seen[0] != '\0')
            add(&l, run, next - 1, run_seen);
        run = rank;
        next = rank + 1;
        memcpy(run_seen, seen, sizeof seen);
    }
    if (run_seen[0] != '\0')
        add(&l, run, next - 1, run_seen);
    if (l.more > 0)
        (void)snprintf(text + l.bytes, text_bytes - l.bytes, " and %" PRIu32 " more", l.more);
}

/* Others have the same deadline: a start that has just given up counts. */
static bool was_there(const fry_group *group, const fry_presence *presence)
{
    return presence->state == FRY_PRESENCE_HERE ||
           (presence->state == FRY_PRESENCE_MISSING && group->deadline_ns != 0 &&
            presence->info.last_seen_ns >= group->deadline_ns - DEADLINES_APART_NS);
}

/* Names the processes that came without a rank and went again. */
static void name_gone(const fry_group *group, char *text, size_t text_bytes)
{
    size_t at = 0;

    text[0] = '\0';
    for (fry_presence *p = fry_group_presence_first(group); p != NULL;
         p = fry_group_presence_next(group, p)) {
        char seen[40], piece[160];

        if (was_there(group, p) || p->rank >= 0 || p->size != group->record.size ||
            p->info.last_seen_ns == 0 || fry_group_is_named(group, p->id))
            continue;
        say_seen(group, p, seen, sizeof seen);
        const int length =
            snprintf(piece, sizeof piece, "; process %" PRId64 " on %s%s%s was last seen %s",
                     p->info.pid, p->info.host, p->place[0] != '\0' ? " at " : "", p->place, seen);
        if (at + (size_t)length >= text_bytes)
            return;
        memcpy(text + at, piece, (size_t)length + 1);
        at += (size_t)length;
    }
}

/* Finds ranks that nobody has asked for; counts starts that take any rank. */
static uint32_t find_absent(fry_group *group, bool *is_absent, uint32_t *unranked_p)
{
    uint32_t count = 0;

    *unranked_p = 0;
    for (uint32_t rank = 0; rank < group->record.size; rank++)
        is_absent[rank] = true;
    for (fry_presence *p = fry_group_presence_first(group); p != NULL;
         p = fry_group_presence_next(group, p)) {
        if (!was_there(group, p) || p->is_bad || p->size != group->record.size ||
            fry_group_is_named(group, p->id))
            continue;
        if (p->rank < 0)
            ++*unranked_p;
        else if (p->rank < (int32_t)group->record.size)
            is_absent[p->rank] = false;
    }
    for (uint32_t rank = 0; rank < group->record.size; rank++)
        count += is_absent[rank];
    return count;
}

void fry_group_name_join_absentees(fry_group *group, char *text, size_t text_bytes)
{
    const uint32_t size = group->record.size;
    char names[FRY_ERROR_MESSAGE_BYTES - 128] = "";
    uint32_t unranked = 0;
    bool *is_absent = fry_alloc(group->memory, size, 1);

    if (size == 0 || is_absent == NULL) {
        uint32_t count = 0;

        for (fry_presence *p = fry_group_presence_first(group); p != NULL;
             p = fry_group_presence_next(group, p))
            count += was_there(group, p) && p->size == size;
        name_gone(group, names, sizeof names);
        (void)snprintf(text, text_bytes,
                       size == 0 ? "only %" PRIu32 " came of at least %" PRIu32 "%s"
                                 : "%" PRIu32 " of %" PRIu32 " came%s",
                       count, size == 0 ? group->record.size_min : size, names);
        fry_free(group->memory, is_absent, size);
        return;
    }
    const uint32_t absent = find_absent(group, is_absent, &unranked);
    if (unranked == 0)
        fry_group_name_absentees(group, is_absent, size, names, sizeof names);
    else
        name_gone(group, names, sizeof names);
    if (absent <= unranked)
        (void)snprintf(text, text_bytes,
                       "all have come, but no live member let this one in, and no new group was "
                       "formed in time");
    else
        (void)snprintf(text, text_bytes, "%" PRIu32 " of %" PRIu32 " did not come%s%s",
                       absent - unranked, size, unranked == 0 ? ": " : "", names);
    fry_free(group->memory, is_absent, size);
}
