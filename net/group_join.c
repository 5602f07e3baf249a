/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a rank. A member writes a record of its start, in its lease, and is a *candidate* from
 * then on. It has a rank when the roster names it. Who changes the roster:
 *
 * Forming. Where there is no roster, or every holder of the newest one has ended, a new *life* of
 * the group is formed: once there are as many candidates as it has members (or, where the size is
 * not given, once one candidate's deadline has come), by one write that names them all. Usually the
 * candidate that began first does it, so 64 members cost one such write and not 64; but any may,
 * and the roster's SWAP makes one of them the one who did. All others read what it wrote.
 *
 * Admitting. While a holder of the newest roster is here, candidates are let in by a member of that
 * life, the lowest rank that is here, in the places of holders that have ended. Not by themselves:
 * after a crash of the whole job the leases of its dead last some seconds more, and a candidate
 * can't tell those from the living, but a life whose members are all dead admits nobody; so its
 * records run out one by one, and then a new life is formed of all that wait. Old and new never
 * mix. (On one host it goes at once: the kernel says that the processes of those records have
 * ended, and the candidates delete them.)
 *
 * Why this is safe. A SWAP of the roster names the version it was drawn up from. Whoever it puts
 * in place of a holder saw that the holder had ended, which is for good (group_members.c). So no
 * two starts that are here have one rank, and two lives are never both alive: a new one names the
 * version of the old roster, and whoever was admitted to the old one since has changed that.
 *
 * Refusing. Who wants a rank or a place of one who is here waits: that one may be its own former
 * start, whose lease has yet to run out. After that lease and a second it gives up, fenced; at once
 * if the kernel says that the other's process runs. Of two candidates for one rank the one that
 * began first has it. Nobody else needs to write for that: everybody refuses itself.
 *
 * Incarnations are numbers of the roster: each change that names new holders takes the next. The
 * roster is never deleted, so they never go back, also between lives.
 */
#include "net/group_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_PER_CHANGE 16

typedef struct plan {
    fry_presence **chosen; /* by rank; NULL: not yet */
    fry_presence **any;    /* those without a rank of their own */
    uint32_t any_count, count;
} plan;

/* Neither gone nor in the roster. */
static bool is_candidate(const fry_group *group, const fry_presence *presence)
{
    if (presence->state != FRY_PRESENCE_HERE || presence->is_bad)
        return false;
    for (uint32_t rank = 0; group->roster != NULL && rank < group->roster->size; rank++) {
        if (group->roster->slots[rank].id == presence->id)
            return false;
    }
    return true;
}

static uint64_t place_of(const fry_presence *presence)
{
    return presence->place[0] != '\0' ? fry_group_hash(presence->place, strlen(presence->place))
                                      : 0;
}

/* ---- writing the roster ---- */

static void cleared(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    (void)op, (void)status, (void)entries, (void)count, (void)why;
}

/*
 * Clears away the words of those who left and whose ranks others have now. In a life that goes on
 * only such as were there at the change before this one, some at a time: by now everybody has been
 * told that they left, not just that they are gone.
 */
static void clear_words(fry_group *group)
{
    const bool is_new_life = group->roster->formed == group->roster->starts;
    char key[FRY_STORE_KEY_BYTES + 1];
    int count = 0;

    for (fry_presence *p = fry_group_presence_first(group); p != NULL;
         p = fry_group_presence_next(group, p)) {
        if (p->state != FRY_PRESENCE_LEFT || fry_group_is_named(group, p->id) ||
            (!is_new_life && (p->news > group->words_news || ++count > WORDS_PER_CHANGE)))
            continue;
        (void)snprintf(key, sizeof key, "%smember/" FRY_GROUP_ID_FORMAT, group->prefix, p->id);
        (void)fry_group_op_start(group, FRY_STORE_DELETE, key, NULL, 0, 0, NULL, 0, cleared, NULL);
    }
    group->words_news = group->news;
}

static void roster_written(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                           size_t count, const char *why)
{
    fry_group *group = op->group;

    group->roster_op = NULL;
    fry_group_tell_later(group);
    if (status == FERRY_OK && count == 1) {
        fry_group_note_roster(group, op->request.value, op->request.value_bytes,
                              entries[0].version);
        if (group->roster != NULL)
            clear_words(group);
    } else if (status == FERRY_E_CHANGED && count == 1)
        fry_group_note_roster(group, entries[0].value, entries[0].value_bytes, entries[0].version);
    else if (status == FERRY_E_NOT_FOUND)
        fry_group_note_roster(group, NULL, 0, 0);
    else
        fry_group_refused(group, op, status, why);
}

static void write_roster(fry_group *group, fry_group_roster *roster)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    const size_t bytes_max = FRY_GROUP_ROSTER_TEXT_BYTES(roster->size);
    char *text = fry_group_may_ask(group) ? fry_alloc_raw(group->memory, bytes_max, 1) : NULL;

    if (text != NULL) {
        size_t bytes = fry_group_roster_write(roster, text);

        (void)snprintf(key, sizeof key, "%sroster", group->prefix);
        bytes = fry_group_seal_close(&group->seal, key, text, bytes);
        group->roster_op = fry_group_op_start(
            group, group->roster_version == 0 ? FRY_STORE_CREATE : FRY_STORE_SWAP, key, text, bytes,
            group->roster_version, NULL, 0, roster_written, NULL);
        fry_free(group->memory, text, bytes_max);
    }
    if (group->roster_op == NULL && fry_group_may_ask(group))
        fry_group_lacks_memory(group);
    fry_free(group->memory, roster, FRY_GROUP_ROSTER_BYTES(roster->size));
}

static fry_group_roster *roster_make(fry_group *group, uint32_t size)
{
    fry_group_roster *roster =
        fry_alloc(group->memory, FRY_GROUP_ROSTER_BYTES(size), _Alignof(fry_group_roster));

    if (roster != NULL)
        roster->size = size;
    else
        fry_group_lacks_memory(group);
    return roster;
}

static void fill_slot(fry_group_slot *slot, const fry_presence *presence, uint64_t incarnation)
{
    slot->id = presence->id;
    slot->incarnation = incarnation;
    slot->place = place_of(presence);
}

/* ---- being in the way of one another ---- */

/*
 * Somebody has what this member wants: `holder`, or everybody (NULL). True: it has given up, or is
 * over.
 */
static bool wait_for_end(fry_group *group, fry_presence *holder, int64_t lease_ns, const char *what)
{
    const uint64_t id = holder != NULL ? holder->id : UINT64_MAX;

    switch (holder != NULL ? fry_group_process_of(group, holder) : FRY_PROCESS_UNKNOWN) {
    case FRY_PROCESS_ENDED:
        fry_group_delete_presence(group, holder);
        return false;
    case FRY_PROCESS_RUNS:
        fry_group_join_failed(
            group, fry_group_error(group, FERRY_E_FENCED, -1,
                                   "%s of job %s is another live member's: process %" PRId64
                                   " of this host",
                                   what, group->job, holder->info.pid));
        return true;
    case FRY_PROCESS_UNKNOWN:
    case FRY_PROCESS_ENDING:
        break;
    }
    if (group->blocked_by != id) {
        group->blocked_by = id;
        group->is_block_over = false;
        fry_timer_set(group->reactor, &group->block_timer,
                      fry_group_now_ns(group) + lease_ns + FRY_GROUP_SLACK_NS);
    }
    if (!group->is_block_over || group->is_lost)
        return false;
    if (holder != NULL)
        fry_group_join_failed(
            group, fry_group_error(group, FERRY_E_FENCED, -1,
                                   "%s of job %s is another live member's: process "
                                   "%" PRId64 " on %s",
                                   what, group->job, holder->info.pid, holder->info.host));
    else
        fry_group_join_failed(group, fry_group_error(group, FERRY_E_FENCED, -1,
                                                     "job %s is complete: all its %" PRIu32
                                                     " members are alive, and this one came late",
                                                     group->job, group->roster->size));
    return true;
}

static void not_blocked(fry_group *group)
{
    group->blocked_by = 0;
    group->is_block_over = false;
    fry_timer_stop(group->reactor, &group->block_timer);
}

/* ---- forming ---- */

static bool is_compatible(const fry_group *group, const fry_presence *presence)
{
    return is_candidate(group, presence) && presence->size == group->record.size;
}

static int by_place(const void *left, const void *right)
{
    const fry_presence *a = *(fry_presence *const *)left;
    const fry_presence *b = *(fry_presence *const *)right;
    int order = strcmp(a->place[0] != '\0' ? "" : "-", b->place[0] != '\0' ? "" : "-");

    if (order == 0)
        order = strverscmp(a->place, b->place);
    if (order == 0)
        order = strverscmp(a->info.host, b->info.host);
    if (order == 0)
        order = a->id < b->id ? -1 : a->id > b->id;
    return order;
}

static bool has_place(const fry_presence *presence, const char *place)
{
    return place[0] != '\0' && strcmp(presence->place, place) == 0;
}

static bool has_rival(const plan *p, uint32_t size, const fry_presence *presence)
{
    if (presence->rank >= 0 && p->chosen[presence->rank] != NULL)
        return true;
    for (uint32_t rank = 0; presence->place[0] != '\0' && rank < size; rank++) {
        if (p->chosen[rank] != NULL && has_place(p->chosen[rank], presence->place))
            return true;
    }
    for (uint32_t i = 0; presence->place[0] != '\0' && i < p->any_count; i++) {
        if (has_place(p->any[i], presence->place))
            return true;
    }
    return false;
}

/* Who would be in a group of at most `size`, first come first served. */
static void draw_up(fry_group *group, plan *p, uint32_t size)
{
    for (fry_presence *c = fry_group_presence_first(group); c != NULL;
         c = fry_group_presence_next(group, c)) {
        if (!is_compatible(group, c) || (c->rank >= 0 && (uint32_t)c->rank >= size) ||
            has_rival(p, size, c))
            continue;
        if (c->rank >= 0) {
            p->chosen[c->rank] = c;
            p->count++;
        } else if (p->any_count < size) {
            p->any[p->any_count++] = c;
        }
    }
    const uint32_t room = size - p->count;
    if (p->any_count > room)
        p->any_count = room; /* without the last to come */
    p->count += p->any_count;
}

/* Who began earlier and wants the same. */
static fry_presence *own_rival(fry_group *group)
{
    for (fry_presence *c = fry_group_presence_first(group); c != NULL && c->id != group->id;
         c = fry_group_presence_next(group, c)) {
        if (is_compatible(group, c) &&
            ((c->rank >= 0 && c->rank == group->record.rank) || has_place(c, group->record.place)))
            return c;
    }
    return NULL;
}

static void form(fry_group *group, plan *p, uint32_t size)
{
    fry_group_roster *roster = roster_make(group, size);
    uint32_t next = 0;

    if (roster == NULL)
        return;
    qsort(p->any, p->any_count, sizeof *p->any, by_place);
    for (uint32_t rank = 0; rank < size && next < p->any_count; rank++) {
        if (p->chosen[rank] == NULL)
            p->chosen[rank] = p->any[next++];
    }
    roster->life = group->roster != NULL ? group->roster->life + 1 : 1;
    roster->starts = group->roster != NULL ? group->roster->starts + 1 : 1;
    roster->formed = roster->starts;
    roster->is_open = group->record.size == 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        fill_slot(&roster->slots[rank], p->chosen[rank], roster->starts);
        roster->slots[rank].device_count = p->chosen[rank]->info.device_count;
    }
    write_roster(group, roster);
}

/* How many candidates stand before this one; UINT32_MAX: it is none. */
static uint32_t own_turn(const fry_group *group, uint32_t *count_p, uint32_t *size_min_p)
{
    uint32_t turn = UINT32_MAX;

    *count_p = 0;
    *size_min_p = 1;
    for (fry_presence *c = fry_group_presence_first(group); c != NULL;
         c = fry_group_presence_next(group, c)) {
        if (!is_compatible(group, c))
            continue;
        if (c->id == group->id)
            turn = *count_p;
        ++*count_p;
        if (c->size_min > *size_min_p)
            *size_min_p = c->size_min;
    }
    return turn;
}

static void join_deadline(fry_group *group)
{
    const char *trouble = fry_store_trouble(group->store);
    char absent[FRY_ERROR_MESSAGE_BYTES];

    if (!group->is_registered || group->is_lost || !group->is_listed)
        (void)snprintf(absent, sizeof absent, "%s did not answer in time%s%s",
                       fry_store_name(group->store), trouble != NULL ? ": " : "",
                       trouble != NULL ? trouble : "");
    else
        fry_group_name_join_absentees(group, absent, sizeof absent);
    fry_group_join_failed(group, fry_group_error(group, FERRY_E_DEADLINE, -1, "joining job %s: %s",
                                                 group->job, absent));
}

/* Forms a group of up to size_max, if there are size_min: fewer than came if two want the same. */
static void form_of(fry_group *group, uint32_t size_max, uint32_t size_min)
{
    const size_t bytes = size_max * sizeof(fry_presence *);
    plan p = {.chosen = fry_alloc(group->memory, bytes, _Alignof(fry_presence *)),
              .any = fry_alloc(group->memory, bytes, _Alignof(fry_presence *))};

    if (p.chosen != NULL && p.any != NULL) {
        draw_up(group, &p, size_max);
        if (p.count >= size_min)
            form(group, &p, p.count);
    } else {
        fry_group_lacks_memory(group);
    }
    fry_free(group->memory, p.chosen, bytes);
    fry_free(group->memory, p.any, bytes);
}

/* Where everybody who is there by the deadline is in: it has come. */
static void close_door(fry_group *group, uint32_t turn, uint32_t count, uint32_t size_min)
{
    const int64_t now_ns = fry_group_now_ns(group);
    int64_t aside_ns = (int64_t)turn * FRY_GROUP_STEP_ASIDE_NS;

    if (aside_ns > FRY_GROUP_STEP_ASIDE_MAX_NS)
        aside_ns = FRY_GROUP_STEP_ASIDE_MAX_NS;
    if (count < size_min || now_ns >= group->deadline_ns + FRY_GROUP_SLACK_NS) {
        join_deadline(group);
        return;
    }
    /* Others' deadlines are most often the same; the first to come writes for all. */
    if (now_ns < group->deadline_ns + aside_ns) {
        fry_timer_set(group->reactor, &group->join_timer, group->deadline_ns + aside_ns);
        return;
    }
    fry_timer_set(group->reactor, &group->join_timer, group->deadline_ns + FRY_GROUP_SLACK_NS);
    if (group->roster_op != NULL)
        return;
    form_of(group, count, size_min);
}

static void form_if_complete(fry_group *group, uint32_t turn, uint32_t count)
{
    const uint32_t size = group->record.size;
    fry_presence *rival = own_rival(group);

    if (turn == 0 && count >= size && group->roster_op == NULL)
        form_of(group, size, size);
    if (rival == NULL)
        not_blocked(group);
    else
        (void)wait_for_end(group, rival, rival->lease_ns,
                           group->record.rank >= 0 ? "the rank" : "the place");
}

static void consider_forming(fry_group *group)
{
    uint32_t count, size_min;
    const uint32_t turn = own_turn(group, &count, &size_min);

    if (turn == UINT32_MAX)
        return; /* the own record has not been told yet */
    if (group->record.size != 0)
        form_if_complete(group, turn, count);
    else if (group->is_deadline_over)
        close_door(group, turn, count, size_min);
}

/* ---- a group that lives ---- */

/* Which slot a candidate would have; NULL: none is free. */
static fry_group_slot *slot_for(fry_group *group, fry_group_roster *roster,
                                const fry_presence *candidate)
{
    const uint64_t place = place_of(candidate);
    fry_group_slot *free_slot = NULL;

    for (uint32_t rank = 0; place != 0 && rank < roster->size; rank++) {
        if (roster->slots[rank].place == place)
            return &roster->slots[rank];
    }
    if (candidate->rank >= 0)
        return (uint32_t)candidate->rank < roster->size ? &roster->slots[candidate->rank] : NULL;
    for (uint32_t rank = 0; rank < roster->size; rank++) {
        fry_group_slot *slot = &roster->slots[rank];

        if (fry_group_holder_of(group, slot) != FRY_HOLDER_ENDED ||
            slot->device_count < candidate->info.device_count)
            continue;
        /* One that no place is kept for, if there is. */
        if (free_slot == NULL || (free_slot->place != 0 && slot->place == 0))
            free_slot = slot;
    }
    return free_slot;
}

static const char *fault_with(const fry_group *group, const fry_group_slot *slot)
{
    const fry_group_roster *roster = group->roster;

    if (group->record.size != 0 && (roster->is_open || group->record.size != roster->size))
        return "names another size";
    if (slot == NULL)
        return NULL;
    if (group->record.rank >= 0 && group->record.rank != slot - roster->slots)
        return "names a place that has another rank";
    if (slot->device_count < group->record.device_count)
        return "names more devices than that rank began with";
    return NULL;
}

static int64_t longest_lease_ns(const fry_group *group)
{
    int64_t lease_ns = group->lease_ns;

    for (uint32_t rank = 0; rank < group->roster->size; rank++) {
        const fry_presence *holder = fry_group_presence(group, group->roster->slots[rank].id);

        if (holder != NULL && holder->lease_ns > lease_ns)
            lease_ns = holder->lease_ns;
    }
    return lease_ns;
}

/* The kernel may know more than the store of those who are said to be here. */
static void look_at_processes(fry_group *group)
{
    for (uint32_t rank = 0; rank < group->roster->size; rank++) {
        fry_presence *holder = fry_group_presence(group, group->roster->slots[rank].id);

        if (holder != NULL && holder->state == FRY_PRESENCE_HERE &&
            fry_group_process_of(group, holder) == FRY_PROCESS_ENDED)
            fry_group_delete_presence(group, holder);
    }
}

static void consider_joining_life(fry_group *group, uint64_t first_id)
{
    fry_presence *own = fry_group_presence(group, group->id);

    if (own == NULL)
        return;
    fry_group_slot *slot = slot_for(group, group->roster, own);
    const char *fault = fault_with(group, slot);
    if (fault != NULL) {
        fry_group_join_failed(group, fry_group_error(group, FERRY_E_INVALID, -1,
                                                     "job %s is a group of %" PRIu32
                                                     " members already: this one %s",
                                                     group->job, group->roster->size, fault));
        return;
    }
    if (first_id == group->id && !group->has_looked) {
        group->has_looked = true;
        look_at_processes(group);
    }
    if (slot == NULL) {
        (void)wait_for_end(group, NULL, longest_lease_ns(group), "");
        return;
    }
    fry_presence *holder = fry_group_presence(group, slot->id);
    if (fry_group_holder_of(group, slot) != FRY_HOLDER_HERE || holder == NULL)
        not_blocked(group); /* a member of that life will see */
    else
        (void)wait_for_end(group, holder, holder->lease_ns,
                           group->record.rank >= 0 ? "the rank" : "the place");
}

static void place_own(fry_group *group, uint32_t rank)
{
    const fry_group_roster *roster = group->roster;

    group->views =
        fry_alloc(group->memory, roster->size * sizeof *group->views, _Alignof(fry_group_view));
    if (group->views == NULL) {
        fry_group_join_failed(group, fry_error_static(FERRY_E_NO_MEMORY));
        return;
    }
    group->view_count = roster->size;
    group->rank = (int32_t)rank;
    group->incarnation = roster->slots[rank].incarnation;
    group->state = FRY_GROUP_PLACED;
    not_blocked(group);
    fry_timer_stop(group->reactor, &group->join_timer);
    if (group->deadline_ns != 0)
        fry_timer_set(group->reactor, &group->join_timer, group->deadline_ns + FRY_GROUP_SLACK_NS);
    group->is_deadline_over = false;
}

/* Whether the newest life is over, as far as is known; and the candidate who began first. */
static fry_group_holder life_of(fry_group *group)
{
    fry_group_holder newest = FRY_HOLDER_ENDED;

    for (uint32_t rank = 0; group->roster != NULL && rank < group->roster->size; rank++) {
        const fry_group_holder holder = fry_group_holder_of(group, &group->roster->slots[rank]);

        if (holder == FRY_HOLDER_HERE)
            return holder;
        if (holder == FRY_HOLDER_UNKNOWN)
            newest = holder;
    }
    return newest;
}

void fry_group_consider_join(fry_group *group)
{
    if (group->state == FRY_GROUP_WAITING && group->is_listed && group->roster != NULL) {
        for (uint32_t rank = 0; rank < group->roster->size; rank++) {
            if (group->roster->slots[rank].id == group->id)
                place_own(group, rank);
        }
    }
    if (group->state == FRY_GROUP_WAITING && group->is_listed) {
        uint64_t first_id = 0;

        for (fry_presence *c = fry_group_presence_first(group); c != NULL && first_id == 0;
             c = fry_group_presence_next(group, c)) {
            if (is_compatible(group, c))
                first_id = c->id;
        }
        switch (life_of(group)) {
        case FRY_HOLDER_UNKNOWN:
            fry_group_want_list(group, first_id == group->id);
            break;
        case FRY_HOLDER_HERE:
            consider_joining_life(group, first_id);
            break;
        case FRY_HOLDER_ENDED:
            consider_forming(group);
            break;
        }
    }
    if (group->is_deadline_over && group->state < FRY_GROUP_JOINED &&
        !(group->join_timer.is_on && group->record.size == 0))
        join_deadline(group);
}

/* ---- letting others in ---- */

static bool is_admitter(const fry_group *group)
{
    if (group->state != FRY_GROUP_JOINED || group->roster == NULL || group->is_lost ||
        group->roster_op != NULL)
        return false;
    for (uint32_t rank = 0; rank < (uint32_t)group->rank; rank++) {
        if (fry_group_holder_of(group, &group->roster->slots[rank]) == FRY_HOLDER_HERE)
            return false;
    }
    return true;
}

/* A change of the roster that lets in who can be; NULL: nobody can. */
static fry_group_roster *with_candidates(fry_group *group)
{
    fry_group_roster *roster = NULL;

    for (fry_presence *c = fry_group_presence_first(group); c != NULL;
         c = fry_group_presence_next(group, c)) {
        if (!is_candidate(group, c) ||
            (c->size != 0 && (c->size != group->roster->size || group->roster->is_open)))
            continue;
        if (roster == NULL) {
            roster = roster_make(group, group->roster->size);
            if (roster == NULL)
                return NULL;
            memcpy(roster, group->roster, FRY_GROUP_ROSTER_BYTES(roster->size));
        }
        /* A slot that this very change has given away has a holder who is here. */
        fry_group_slot *slot = slot_for(group, roster, c);
        if (slot == NULL || slot->device_count < c->info.device_count ||
            fry_group_holder_of(group, slot) != FRY_HOLDER_ENDED ||
            (c->rank >= 0 && c->rank != slot - roster->slots))
            continue;
        const uint64_t place = slot->place;
        fill_slot(slot, c, group->roster->starts + 1);
        if (slot->place == 0)
            slot->place = place;
        roster->starts = group->roster->starts + 1;
    }
    if (roster == NULL || roster->starts > group->roster->starts)
        return roster;
    fry_free(group->memory, roster, FRY_GROUP_ROSTER_BYTES(roster->size));
    return NULL;
}

void fry_group_admit(fry_group *group)
{
    if (!is_admitter(group))
        return;
    fry_group_roster *roster = with_candidates(group);
    if (roster != NULL)
        write_roster(group, roster);
}
