/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a rank. A member writes a record of its start, in its lease, and is a *candidate* from
 * then on. It has a rank when the roster names it. Members change the roster as follows.
 *
 * Forming. If there is no roster, or every holder of the newest one has ended, one write forms a
 * new *life* of the group and names all its members: once there are as many candidates as it has
 * members or, without a size, once a candidate's deadline has come. Usually the candidate that
 * began first writes, so 64 members cost one write and not 64. But any may, and the roster's SWAP
 * lets one of them win. The others read what it wrote.
 *
 * Admitting. While holders of the newest roster are here, the lowest rank among them lets
 * candidates in, in the places of holders that have ended. Candidates don't let themselves in:
 * after a crash of the whole job the leases of its dead last some seconds more, and a candidate
 * can't tell the dead from the living. But a life whose members are all dead admits nobody. So its
 * records run out one by one, and then a new life is formed of all that wait. Old and new never
 * mix. (On one host this is quick: the kernel says that those processes have ended, and the
 * candidates delete the records.)
 *
 * Why this is safe. A SWAP of the roster names the version from which the new one was made. To
 * replace a holder is to mark it dead, unless it was already (roster.c) or had said that it
 * left. Both are for good. So two starts that have not been told otherwise never have one rank. And
 * two lives are never both alive: a new life names the old roster's version, which any admission
 * since has changed.
 *
 * Refusing. A candidate whose rank or place a start that is here has waits: that start may be its
 * own former one, whose lease has yet to run out. After that lease and a second the candidate gives
 * up, fenced; at once if the kernel says that the other process runs. Of two candidates for one
 * rank the one that began first gets it. Nobody else writes for that: each candidate refuses
 * itself. A candidate that wants any rank, with no place that the roster knows, has no former start
 * here: if all members are here it is late, and is told so at once.
 *
 * Incarnations are numbers of the roster: each change that names new holders takes the next number.
 * They go on from life to life.
 *
 * Without a past. In a store that was emptied a candidate finds no roster. It may form a group all
 * the same, of candidates alone: members of the life before say in their new records that they are
 * back, and are none. If they write their roster first, it counts.
 */
#include "net/group/join.h"

#include "net/connect/process.h"
#include "net/group/absent.h"
#include "net/group/group.h"
#include "net/group/kernel.h"
#include "net/group/members.h"
#include "net/group/roster.h"
#include "net/group/seats.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define WORDS_PER_CHANGE 16

typedef struct plan {
    fry_presence **chosen; /* by rank; NULL: not yet */
    fry_presence **any;    /* candidates without a rank of their own */
    uint32_t any_count, count;
} plan;

/* Whether a start is here, and not in the roster. */
static bool is_candidate(const fry_group *group, const fry_presence *presence)
{
    if (presence->state != FRY_PRESENCE_HERE || presence->is_bad || presence->is_back ||
        presence->has_ended)
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
 * Deletes the records of starts that left and whose ranks others have now. In a life that goes on
 * only records from before the last change, some at a time: by now everybody has been told that
 * these starts left, not just that they are gone.
 */
void fry_group_clear_words(fry_group *group)
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
        (void)fry_group_op_start(group, &(fry_store_request){.verb = FRY_STORE_DELETE, .key = key},
                                 cleared, NULL);
    }
    group->words_news = group->news;
}

static void fill_slot(fry_group_slot *slot, const fry_presence *presence, uint64_t incarnation)
{
    slot->id = presence->id;
    slot->incarnation = incarnation;
    slot->is_dead = slot->has_left = false;
    slot->ended = 0;
    slot->place = place_of(presence);
    slot->process = presence->process;
}

/* ---- starts in the way of one another ---- */

/* Whether the wait is over. While the store is away it does not count: leases may get more time. */
static bool is_wait_over(fry_group *group, fry_presence *holder)
{
    const int64_t now_ns = fry_group_now_ns(group);
    const int64_t since_ns = group->is_leased && !group->is_lost
                                 ? fry_store_lease_steady_ns(&group->lease, false)
                                 : INT64_MAX;

    if (group->blocked_by != holder->id || since_ns > group->blocked_ns ||
        group->healthy_ns > group->blocked_ns) {
        group->blocked_by = holder->id;
        group->blocked_ns = now_ns;
        group->is_block_over = false;
        fry_timer_set(group->reactor, &group->block_timer,
                      now_ns + holder->lease_ns + FRY_GROUP_SLACK_NS);
    }
    return group->is_block_over && !group->is_lost;
}

/* Waits for the end of a holder in this member's way, or gives up. */
static void wait_for_end(fry_group *group, fry_presence *holder, const char *what)
{
    switch (fry_group_process_of(group, &holder->process)) {
    case FRY_PROCESS_ENDED:
        fry_group_delete_presence(group, holder);
        return;
    case FRY_PROCESS_RUNS:
        fry_group_join_failed(
            group, fry_group_error(group, FERRY_E_FENCED, -1,
                                   "%s of job %s is another live member's: process %" PRId64
                                   " of this host",
                                   what, group->job, holder->info.pid));
        return;
    case FRY_PROCESS_UNKNOWN:
    case FRY_PROCESS_ENDING:
        break;
    }
    if (is_wait_over(group, holder))
        fry_group_join_failed(
            group, fry_group_error(group, FERRY_E_FENCED, -1,
                                   "%s of job %s is another live member's: process "
                                   "%" PRId64 " on %s",
                                   what, group->job, holder->info.pid, holder->info.host));
}

static void not_blocked(fry_group *group)
{
    group->blocked_by = 0;
    group->is_block_over = false;
    fry_timer_stop(group->reactor, &group->block_timer);
}

/* ---- forming ---- */

static bool is_for_open(const fry_presence *presence)
{
    return fry_seat_is_wanted(presence->size, presence->size_min);
}

static bool is_compatible(const fry_group *group, const fry_presence *presence)
{
    return is_candidate(group, presence) && presence->size == group->record.size &&
           is_for_open(presence) == fry_seat_is_wanted(group->record.size, group->record.size_min);
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

/* Chooses the members of a group of at most `size`: first come, first served. */
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
        p->any_count = room; /* leaves out those who came last */
    p->count += p->any_count;
}

/* Finds a candidate that began earlier and wants the same rank or place. */
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

static uint64_t new_lineage(void)
{
    uint64_t lineage = 0;

    (void)getrandom(&lineage, sizeof lineage, GRND_NONBLOCK);
    return lineage;
}

static void form(fry_group *group, plan *p, uint32_t size)
{
    fry_group_roster *roster = fry_group_roster_make(group, size);
    uint32_t next = 0;

    if (roster == NULL)
        return;
    qsort(p->any, p->any_count, sizeof *p->any, by_place);
    for (uint32_t rank = 0; rank < size && next < p->any_count; rank++) {
        if (p->chosen[rank] == NULL)
            p->chosen[rank] = p->any[next++];
    }
    roster->lineage = group->roster != NULL ? group->roster->lineage : new_lineage();
    roster->life = group->roster != NULL ? group->roster->life + 1 : 1;
    roster->starts = group->roster != NULL ? group->roster->starts + 1 : 1;
    roster->is_unsized = group->record.size == 0;
    roster->is_open = fry_seat_is_wanted(group->record.size, group->record.size_min);
    roster->formed = roster->is_open ? 0 : roster->starts;
    for (uint32_t rank = 0; rank < size; rank++) {
        roster->slots[rank].is_dead = true; /* in an open group: nobody has it yet */
        if (p->chosen[rank] == NULL)
            continue;
        fill_slot(&roster->slots[rank], p->chosen[rank], roster->starts);
        roster->slots[rank].device_count = p->chosen[rank]->info.device_count;
        if (p->chosen[rank]->lease_ns > roster->lease_ns)
            roster->lease_ns = p->chosen[rank]->lease_ns;
    }
    fry_group_write_roster(group, roster);
}

/* How many candidates began before this one; UINT32_MAX: it is none. */
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

/* Says for whose end this member waited. It may be its own former start. */
static bool say_who_blocks(const fry_group *group, char *text, size_t text_bytes)
{
    const fry_presence *holder =
        group->blocked_by != 0 ? fry_group_presence(group, group->blocked_by) : NULL;

    if (holder == NULL)
        return false;
    (void)snprintf(text, text_bytes,
                   "its %s is still held by process %" PRId64
                   " on %s, whose lease of %.1f s has not run out",
                   group->record.rank >= 0 ? "rank" : "place", holder->info.pid, holder->info.host,
                   (double)holder->lease_ns / 1e9);
    return true;
}

static void join_deadline(fry_group *group)
{
    const char *trouble = fry_store_trouble(group->store);
    char absent[FRY_ERROR_MESSAGE_BYTES];

    if (!group->is_registered || group->is_lost || !group->is_listed)
        (void)snprintf(absent, sizeof absent, "%s did not answer in time%s%s",
                       fry_store_name(group->store), trouble != NULL ? ": " : "",
                       trouble != NULL ? trouble : "");
    else if (!say_who_blocks(group, absent, sizeof absent) &&
             !fry_seats_name_holders(group, absent, sizeof absent))
        fry_group_name_join_absentees(group, absent, sizeof absent);
    fry_group_join_failed(group, fry_group_error(group, FERRY_E_DEADLINE, -1, "joining job %s: %s",
                                                 group->job, absent));
}

/*
 * Forms a group of up to size_max, if there are size_min. Two that want the same count as one. An
 * open group has size_max ranks whoever is there.
 */
static void form_of(fry_group *group, uint32_t size_max, uint32_t size_min)
{
    const size_t bytes = size_max * sizeof(fry_presence *);
    plan p = {.chosen = fry_alloc(group->memory, bytes, _Alignof(fry_presence *)),
              .any = fry_alloc(group->memory, bytes, _Alignof(fry_presence *))};

    if (p.chosen != NULL && p.any != NULL) {
        draw_up(group, &p, size_max);
        if (p.count >= size_min)
            form(group, &p,
                 fry_seat_is_wanted(size_max, group->record.size_min) ? size_max : p.count);
    } else {
        fry_group_lacks_memory(group);
    }
    fry_free(group->memory, p.chosen, bytes);
    fry_free(group->memory, p.any, bytes);
}

/* The deadline of a group without a size has come: all who are there are its members. */
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
    /* Others' deadlines are usually the same, so the first to come writes for all. */
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
    const uint32_t needed = fry_seat_is_wanted(size, group->record.size_min) ? 1 : size;
    fry_presence *rival = own_rival(group);

    if (turn == 0 && count >= needed && group->roster_op == NULL)
        form_of(group, size, needed);
    if (rival == NULL)
        not_blocked(group);
    else
        wait_for_end(group, rival, group->record.rank >= 0 ? "the rank" : "the place");
}

static void consider_forming(fry_group *group)
{
    uint32_t count, size_min;
    const uint32_t turn = own_turn(group, &count, &size_min);

    if (turn == UINT32_MAX)
        return; /* this member's own record has not been told yet */
    if (group->record.size != 0)
        form_if_complete(group, turn, count);
    else if (group->is_deadline_over)
        close_door(group, turn, count, size_min);
}

/* ---- a group that lives ---- */

/* The slot that a candidate would have; NULL: none is free. */
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
            (!roster->is_open && slot->device_count < candidate->info.device_count))
            continue;
        /* Prefers a slot that is not kept for a place. */
        if (free_slot == NULL || (free_slot->place != 0 && slot->place == 0))
            free_slot = slot;
    }
    return free_slot;
}

static const char *fault_with(const fry_group *group, const fry_group_slot *slot)
{
    const fry_group_roster *roster = group->roster;
    const bool wants_open = fry_seat_is_wanted(group->record.size, group->record.size_min);

    if (wants_open != roster->is_open)
        return wants_open ? "asks for an open group" : "does not ask for an open group";
    if (group->record.size != 0 && (roster->is_unsized || group->record.size != roster->size))
        return "has another size";
    if (slot == NULL)
        return NULL;
    if (group->record.rank >= 0 && group->record.rank != slot - roster->slots)
        return "has a place that belongs to another rank";
    if (!roster->is_open && slot->device_count < group->record.device_count)
        return "names more devices than its rank began with";
    return NULL;
}

/*
 * Deletes records whose processes have ended: the kernel may know more than the store. Processes
 * that are about to end are looked at again, and so are those of each new roster: a start that has
 * ended before it was let in may be let in.
 */
static void look_at_processes(fry_group *group)
{
    group->looked_version = group->roster->version;
    for (uint32_t rank = 0; rank < group->roster->size; rank++) {
        fry_presence *holder = fry_group_presence(group, group->roster->slots[rank].id);

        if (holder == NULL || holder->state != FRY_PRESENCE_HERE)
            continue;
        switch (fry_group_process_of(group, &holder->process)) {
        case FRY_PROCESS_ENDED:
            fry_group_delete_presence(group, holder);
            break;
        case FRY_PROCESS_ENDING:
            group->looked_version = 0;
            fry_group_again_at(group, fry_group_now_ns(group) + FRY_GROUP_LOOK_AFTER_NS);
            break;
        case FRY_PROCESS_RUNS:
        case FRY_PROCESS_UNKNOWN:
            break;
        }
    }
}

/* Whether the slot's holder has ended, and a store with leases has yet to say so. */
static bool is_about_to_go(fry_group *group, const fry_group_slot *slot)
{
    const fry_presence *holder = fry_group_presence(group, slot->id);

    return holder != NULL && holder->is_being_deleted;
}

static fry_error *error_of_no_rank(const fry_group *group, bool has_ended)
{
    const uint32_t size = group->roster->size;

    if (group->roster->is_open)
        return fry_group_error(group, FERRY_E_FENCED, -1,
                               "the open group of job %s is full: live members have all of its "
                               "%" PRIu32 " ranks",
                               group->job, size);
    if (has_ended)
        return fry_group_error(group, FERRY_E_INVALID, -1,
                               "job %s is a closed group of %" PRIu32 " members: this one names "
                               "more devices than the ranks began with that are free",
                               group->job, size);
    return fry_group_error(group, FERRY_E_FENCED, -1,
                           "this member came late: the group of job %s is closed, formed with "
                           "%" PRIu32 " members before, and all of them are alive; a start with "
                           "the rank or place of one that ends is let in",
                           group->job, size);
}

/* The roster has no free rank that this member could have. */
static void find_no_rank(fry_group *group)
{
    uint32_t ended = 0;

    if (group->looked_version == 0)
        return; /* a process is about to end */
    for (uint32_t rank = 0; rank < group->roster->size; rank++) {
        switch (fry_group_holder_of(group, &group->roster->slots[rank])) {
        case FRY_HOLDER_UNKNOWN:
            fry_group_want_list(group, false);
            return;
        case FRY_HOLDER_MISSING:
            return; /* its rank may yet become free */
        case FRY_HOLDER_HERE:
            if (is_about_to_go(group, &group->roster->slots[rank]))
                return;
            break;
        case FRY_HOLDER_ENDED:
            ended++;
            break;
        }
    }
    fry_group_join_failed(group, error_of_no_rank(group, ended > 0));
}

static void refuse_for(fry_group *group, const char *fault)
{
    fry_group_join_failed(
        group, fry_group_error(group, FERRY_E_INVALID, -1,
                               "job %s is %s group of %" PRIu32 " members: this one %s", group->job,
                               group->roster->is_open ? "an open" : "a closed", group->roster->size,
                               fault));
}

static void consider_joining_life(fry_group *group, uint64_t first_id)
{
    fry_presence *own = fry_group_presence(group, group->id);

    if (own == NULL)
        return;
    fry_group_slot *slot = slot_for(group, group->roster, own);
    const char *fault = fault_with(group, slot);
    if (fault != NULL) {
        refuse_for(group, fault);
        return;
    }
    if ((first_id == group->id || slot == NULL) &&
        group->looked_version != group->roster->version)
        look_at_processes(group);
    if (slot == NULL) {
        not_blocked(group);
        find_no_rank(group);
        return;
    }
    fry_presence *holder = fry_group_presence(group, slot->id);
    if (holder == NULL || fry_group_holder_of(group, slot) != FRY_HOLDER_HERE)
        not_blocked(group); /* a member of that life will let this one in */
    else
        wait_for_end(group, holder, group->record.rank >= 0 ? "the rank" : "the place");
}

static void place_own(fry_group *group, uint32_t rank)
{
    const fry_group_roster *roster = group->roster;
    const char *fault = fault_with(group, NULL);

    if (fault != NULL) { /* a ferry that knows no open groups has formed one of it */
        refuse_for(group, fault);
        return;
    }
    group->views =
        fry_alloc(group->memory, roster->size * sizeof *group->views, _Alignof(fry_group_view));
    if (group->views == NULL) {
        fry_group_join_failed(group, fry_error_static(FERRY_E_NO_MEMORY));
        return;
    }
    group->view_count = roster->size;
    group->rank = (int32_t)rank;
    group->incarnation = roster->slots[rank].incarnation;
    group->lineage = roster->lineage;
    group->state = FRY_GROUP_PLACED;
    not_blocked(group);
    fry_timer_stop(group->reactor, &group->join_timer);
    if (group->deadline_ns != 0)
        fry_timer_set(group->reactor, &group->join_timer, group->deadline_ns + FRY_GROUP_SLACK_NS);
    group->is_deadline_over = false;
}

/* Whether a holder of the newest roster is here. ENDED: that life is over. */
static fry_group_holder life_of(fry_group *group)
{
    fry_group_holder newest = FRY_HOLDER_ENDED;

    for (uint32_t rank = 0; group->roster != NULL && rank < group->roster->size; rank++) {
        const fry_group_holder holder = fry_group_holder_of(group, &group->roster->slots[rank]);

        if (holder == FRY_HOLDER_HERE)
            return holder;
        if (holder == FRY_HOLDER_UNKNOWN || newest == FRY_HOLDER_ENDED)
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
            if (fry_group_is_over(group))
                return;
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
        case FRY_HOLDER_MISSING:
            break; /* its holders may come back */
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

static bool is_compatible_with_life(const fry_group *group, const fry_presence *candidate)
{
    const fry_group_roster *roster = group->roster;

    if (!is_candidate(group, candidate) || is_for_open(candidate) != roster->is_open)
        return false;
    return roster->is_open
               ? candidate->size == roster->size
               : candidate->size == 0 || (candidate->size == roster->size && !roster->is_unsized);
}

bool fry_group_has_candidates(const fry_group *group)
{
    for (fry_presence *c = fry_group_presence_first(group); c != NULL;
         c = fry_group_presence_next(group, c)) {
        if (is_compatible_with_life(group, c))
            return true;
    }
    return false;
}

/* A slot is free once a dead start's record is gone, which could be taken for a candidate's. */
static bool is_free(fry_group *group, const fry_group_slot *slot)
{
    const fry_presence *holder = fry_group_presence(group, slot->id);

    return fry_group_holder_of(group, slot) == FRY_HOLDER_ENDED &&
           (holder == NULL || holder->state != FRY_PRESENCE_HERE);
}

/* The slot that a candidate gets now; NULL: none. */
static fry_group_slot *free_slot_for(fry_group *group, fry_group_roster *roster,
                                     const fry_presence *candidate)
{
    /* A slot that this very change has given away is not free: its holder is here. */
    fry_group_slot *slot = roster->is_open
                               ? fry_seat_for(group, roster, candidate, place_of(candidate))
                               : slot_for(group, roster, candidate);

    if (slot == NULL || (candidate->rank >= 0 && candidate->rank != slot - roster->slots))
        return NULL;
    if (!roster->is_open &&
        (slot->device_count < candidate->info.device_count || !is_free(group, slot)))
        return NULL;
    return slot;
}

bool fry_group_admit(fry_group *group, fry_group_roster *roster)
{
    const uint64_t starts = roster->starts;

    for (fry_presence *c = fry_group_presence_first(group); c != NULL;
         c = fry_group_presence_next(group, c)) {
        fry_group_slot *slot =
            is_compatible_with_life(group, c) ? free_slot_for(group, roster, c) : NULL;
        if (slot == NULL)
            continue;
        const uint64_t place = slot->place;
        /* Those let in together have one number, but in an open group. */
        roster->starts = (roster->is_open ? roster->starts : starts) + 1;
        fill_slot(slot, c, roster->starts);
        if (roster->is_open)
            slot->device_count = c->info.device_count;
        else if (slot->place == 0)
            slot->place = place;
        if (c->lease_ns > roster->lease_ns)
            roster->lease_ns = c->lease_ns;
    }
    return roster->starts > starts;
}

/* ---- refusals by the store ---- */

void fry_group_join_refused(fry_group *group, ferry_status status, const char *why)
{
    fry_group_tell_later(group);
    if (status == FERRY_E_DEADLINE) {
        group->is_deadline_over = true;
        return;
    }
    group->refusal =
        status == FERRY_E_NO_MEMORY || status == FERRY_E_INVALID ? status : FERRY_E_STORE;
    (void)snprintf(group->why, sizeof group->why, "%s",
                   why != NULL ? why : ferry_status_text(status));
}
