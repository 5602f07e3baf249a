/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/group_rig.h"

#include "net/group/members.h"
#include "net/store/open.h"
#include "tests/support/faulty_space.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define TURNS_MAX 1000000

static void note_line(void *arg, ferry_log_level level, const char *line)
{
    group_rig *rig = arg;

    if (rig->log_word != NULL && strstr(line, rig->log_word) != NULL) {
        rig->log_count++;
        (void)snprintf(rig->log_line, sizeof rig->log_line, "%s", line);
    }
    if (getenv("GROUP_RIG_LOG") != NULL)
        (void)fprintf(stderr, "%d %s\n", (int)level, line);
}

uint64_t rig_random(group_rig *rig, uint64_t below)
{
    /* splitmix64 */
    uint64_t z = rig->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below > 0 ? (z ^ (z >> 31)) % below : 0;
}

typedef struct rig_corpse {
    struct rig_corpse *next;
    fry_reactor *reactor;
    fry_group *group;
} rig_corpse;

static fry_reactor *open_reactor(group_rig *rig)
{
    fry_reactor *reactor = calloc(1, sizeof *reactor);

    RIG_CHECK(reactor != NULL);
    RIG_CHECK(driven_reactor_open(reactor, &rig->memory, &rig->log, &rig->clock) == FERRY_OK);
    return reactor;
}

static void close_reactor(fry_reactor *reactor)
{
    RIG_CHECK(fry_reactor_next_ns(reactor) == INT64_MAX);
    driven_reactor_close(reactor);
    free(reactor);
}

static void open_with(group_rig *rig, size_t count, const ferry_clock *clock)
{
    static unsigned number;

    failing_allocator_init(&rig->allocator);
    const ferry_allocator allocator = failing_allocator_interface(&rig->allocator);
    fry_memory_init(&rig->memory, &allocator);
    fry_log_init(&rig->log, note_line, rig);
    fry_clock_init(&rig->clock, clock);
    if (rig->uri[0] == '\0')
        (void)snprintf(rig->uri, sizeof rig->uri, "mem:rig-%d-%u", (int)getpid(), ++number);
    rig->count = count;
    rig->members = calloc(count, sizeof *rig->members);
    RIG_CHECK(rig->members != NULL);
    fry_error *error = NULL;
    rig->keeper = open_reactor(rig);
    RIG_CHECK(fry_store_open(rig->keeper, rig->uri, NULL, &rig->store, &error) == FERRY_OK);
    for (size_t i = 0; i < count; i++) {
        rig->members[i].rig = rig;
        rig->members[i].reactor = open_reactor(rig);
    }
}

void rig_open(group_rig *rig, size_t count, uint64_t seed)
{
    *rig = (group_rig){.random = seed, .start_ids = 100};
    stepped_clock_init(&rig->stepped, 1000 * RIG_SECOND_NS);
    const ferry_clock clock = stepped_clock_interface(&rig->stepped);
    open_with(rig, count, &clock);
}

void rig_open_on(group_rig *rig, size_t count, const char *uri)
{
    *rig = (group_rig){.is_real = true, .start_ids = 100};
    (void)snprintf(rig->uri, sizeof rig->uri, "%s", uri);
    open_with(rig, count, NULL);
}

void rig_close(group_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++)
        rig_shut(rig, i);
    for (size_t i = 0; i < rig->count; i++)
        close_reactor(rig->members[i].reactor);
    while (rig->corpses != NULL) {
        rig_corpse *corpse = rig->corpses;

        rig->corpses = corpse->next;
        fry_group_close(corpse->group);
        close_reactor(corpse->reactor);
        free(corpse);
    }
    fry_store_close(rig->store);
    close_reactor(rig->keeper);
    free(rig->members);
    RIG_CHECK(failing_allocator_live_bytes(&rig->allocator) == 0);
}

fry_group_options rig_options(group_rig *rig, size_t index, uint32_t size, int32_t rank)
{
    return (fry_group_options){.reactor = rig->members[index].reactor,
                               .store = rig->uri,
                               .job = "job",
                               .size = size,
                               .rank = rank,
                               .device_count = 1,
                               .endpoint = "endpoint",
                               .lease_ns = RIG_LEASE_NS};
}

/* Notes whom it holds something of. */
static void hold(rig_member *member, uint32_t rank)
{
    const fry_group_member *info = fry_group_member_at(member->group, rank);

    if (rank >= RIG_OPEN_SIZE_MAX || (int32_t)rank == fry_group_rank(member->group))
        return;
    if (info->state == FERRY_MEMBER_HERE) {
        if (member->held[rank] == 0 || !fry_group_is_open(member->group))
            member->held[rank] = info->start;
    } else if (!member->keeps && member->held[rank] != 0) {
        fry_group_let_go(member->group, rank);
        member->held[rank] = 0;
    }
}

static void joined(void *arg, ferry_status status, fry_error *error)
{
    rig_member *member = arg;

    RIG_CHECK(!member->is_joined && !member->is_fenced);
    member->is_joined = true;
    member->status = status;
    if (error != NULL)
        (void)snprintf(member->message, sizeof member->message, "%s", error->public_.message);
    RIG_CHECK((status == FERRY_OK) == (error == NULL));
    for (uint32_t rank = 0; status == FERRY_OK && rank < fry_group_size(member->group); rank++) {
        if (fry_group_member_at(member->group, rank)->state == FERRY_MEMBER_HERE)
            hold(member, rank);
    }
}

void rig_let_go(group_rig *rig, size_t index)
{
    rig_member *member = &rig->members[index];

    for (uint32_t rank = 0; rank < RIG_OPEN_SIZE_MAX; rank++) {
        const fry_group_member *info = fry_group_member_at(member->group, rank);

        if (info == NULL || info->state == FERRY_MEMBER_HERE || member->held[rank] == 0)
            continue;
        fry_group_let_go(member->group, rank);
        member->held[rank] = 0;
    }
}

static void changed(void *arg, uint32_t rank)
{
    rig_member *member = arg;
    const fry_group_member *info = fry_group_member_at(member->group, rank);

    RIG_CHECK(member->is_joined && member->status == FERRY_OK && !member->is_fenced);
    RIG_CHECK(info != NULL && member->history_count < RIG_HISTORY_MAX);
    member->history[member->history_count++] =
        (rig_news){.rank = rank, .incarnation = info->incarnation, .state = info->state};
    hold(member, rank);
}

static void happened(void *arg, uint32_t rank, ferry_member_state what, uint64_t incarnation,
                     uint64_t number)
{
    rig_member *member = arg;

    RIG_CHECK(member->is_joined && member->status == FERRY_OK && !member->is_fenced);
    RIG_CHECK(member->event_count < RIG_HISTORY_MAX);
    member->events[member->event_count++] =
        (rig_event){.rank = rank, .what = what, .incarnation = incarnation, .number = number};
}

static void fenced(void *arg, fry_error *error)
{
    rig_member *member = arg;

    RIG_CHECK(member->is_joined && !member->is_fenced);
    RIG_CHECK(error->public_.status == FERRY_E_FENCED);
    member->is_fenced = true;
    (void)snprintf(member->message, sizeof member->message, "%s", error->public_.message);
}

static const fry_group_events events = {
    .joined = joined, .changed = changed, .happened = happened, .fenced = fenced};

/* In the order of joining, in place of what time and chance gave; nothing has been told of it yet.
 */
static void name_start(fry_group *group, uint64_t id)
{
    group->id = id;
    (void)snprintf(group->own_key, sizeof group->own_key, "%smember/" FRY_GROUP_ID_FORMAT,
                   group->prefix, id);
}

ferry_status rig_try_join(group_rig *rig, size_t index, const fry_group_options *options,
                          fry_error **error_p)
{
    rig_member *member = &rig->members[index];
    fry_group_options o = *options;

    RIG_CHECK(member->group == NULL);
    o.reactor = member->reactor;
    member->is_joined = member->is_fenced = member->has_left = member->is_stopped = false;
    member->history_count = member->event_count = 0;
    memset(member->held, 0, sizeof member->held);
    member->message[0] = '\0';
    const ferry_status status = fry_group_open(&o, &events, member, &member->group, error_p);
    if (status != FERRY_OK)
        return status;
    name_start(member->group, ++rig->start_ids);
    member->faulty = faulty_store_put(member->group->store);
    faulty_store_slow(member->faulty, rig->way_ns);
    faulty_store_cut(member->faulty, rig->is_store_stopped);
    return status;
}

void rig_join(group_rig *rig, size_t index, const fry_group_options *options)
{
    fry_error *error = NULL;
    const ferry_status status = rig_try_join(rig, index, options, &error);

    if (status != FERRY_OK)
        (void)fprintf(stderr, "%s\n", error->public_.message);
    RIG_CHECK(status == FERRY_OK);
}

static bool all_joined(void *arg)
{
    const group_rig *rig = arg;

    for (size_t i = 0; i < rig->count; i++) {
        if (rig->members[i].group != NULL && !rig->members[i].is_joined)
            return false;
    }
    return true;
}

void rig_join_all(group_rig *rig, size_t first, size_t end, bool is_any)
{
    for (size_t i = first; i < end; i++) {
        const fry_group_options options = rig_options(rig, i, (uint32_t)(end - first),
                                                      is_any ? FRY_RANK_ANY : (int32_t)(i - first));

        rig_join(rig, i, &options);
    }
    RIG_CHECK(rig_until(rig, all_joined, rig, 60 * RIG_SECOND_NS));
    for (size_t i = first; i < end; i++) {
        if (rig->members[i].status != FERRY_OK)
            (void)fprintf(stderr, "%zu: %s\n", i, rig->members[i].message);
        RIG_CHECK(rig->members[i].status == FERRY_OK);
    }
}

void rig_shut(group_rig *rig, size_t index)
{
    fry_group_close(rig->members[index].group);
    rig->members[index].group = NULL;
}

void rig_kill(group_rig *rig, size_t index)
{
    rig_member *member = &rig->members[index];
    rig_corpse *corpse = calloc(1, sizeof *corpse);

    RIG_CHECK(corpse != NULL);
    *corpse =
        (rig_corpse){.next = rig->corpses, .reactor = member->reactor, .group = member->group};
    rig->corpses = corpse;
    member->group = NULL;
    member->reactor = open_reactor(rig);
}

static void left(void *arg)
{
    rig_member *member = arg;

    RIG_CHECK(!member->has_left);
    member->has_left = true;
}

static bool has_left(void *arg)
{
    return ((rig_member *)arg)->has_left;
}

void rig_leave(group_rig *rig, size_t index)
{
    rig_member *member = &rig->members[index];

    fry_group_leave(member->group, left, member);
    RIG_CHECK(!member->has_left);
    RIG_CHECK(rig_until(rig, has_left, member, 10 * RIG_SECOND_NS));
    rig_shut(rig, index);
}

size_t rig_turn(group_rig *rig)
{
    size_t order[RIG_MEMBERS_MAX], ran = 0;

    for (size_t i = 0; i < rig->count; i++) {
        const size_t at = (size_t)rig_random(rig, i + 1);

        order[i] = order[at];
        order[at] = i;
    }
    for (size_t i = 0; i < rig->count; i++) {
        if (!rig->members[order[i]].is_stopped)
            ran += driven_reactor_run(rig->members[order[i]].reactor, 0);
    }
    return ran;
}

void rig_settle(group_rig *rig)
{
    size_t turns = 0;

    for (size_t quiet = 0; quiet < 3; quiet++) {
        if (rig_turn(rig) > 0)
            quiet = 0;
        RIG_CHECK(++turns < TURNS_MAX);
    }
}

static int64_t next_ns(const group_rig *rig)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < rig->count; i++) {
        const int64_t own = fry_reactor_next_ns(rig->members[i].reactor);

        if (!rig->members[i].is_stopped && own < next)
            next = own;
    }
    return next;
}

/* To the next timer, or the end. */
static void step_towards(group_rig *rig, int64_t end_ns)
{
    const int64_t now_ns = fry_clock_now_ns(&rig->clock);
    int64_t next = next_ns(rig);

    if (next > end_ns)
        next = end_ns;
    if (next > now_ns)
        stepped_clock_step(&rig->stepped, next - now_ns);
}

void rig_pass(group_rig *rig, int64_t ns)
{
    const int64_t end_ns = fry_clock_now_ns(&rig->clock) + ns;

    rig_settle(rig);
    while (fry_clock_now_ns(&rig->clock) < end_ns) {
        step_towards(rig, end_ns);
        rig_settle(rig);
    }
}

static void rest(group_rig *rig)
{
    struct pollfd fds[RIG_MEMBERS_MAX];

    for (size_t i = 0; i < rig->count; i++)
        fds[i] = (struct pollfd){.fd = rig->members[i].reactor->poller->epoll_fd, .events = POLLIN};
    (void)poll(fds, (nfds_t)rig->count, 100);
}

bool rig_until(group_rig *rig, bool (*is_so)(void *arg), void *arg, int64_t limit_ns)
{
    const int64_t end_ns = fry_clock_now_ns(&rig->clock) + limit_ns;
    size_t quiet = 0;

    while (!is_so(arg)) {
        quiet = rig_turn(rig) > 0 ? 0 : quiet + 1;
        if (quiet < 3)
            continue;
        if (fry_clock_now_ns(&rig->clock) >= end_ns)
            return false;
        if (rig->is_real)
            rest(rig);
        else
            step_towards(rig, end_ns);
    }
    return true;
}

/* ---- the store ---- */

static void cut_all(group_rig *rig, bool is_cut)
{
    for (size_t i = 0; i < rig->count; i++) {
        if (rig->members[i].group != NULL)
            faulty_store_cut(rig->members[i].faulty, is_cut);
    }
}

void rig_store_stop(group_rig *rig, rig_back back)
{
    rig->is_store_stopped = true;
    cut_all(rig, true);
    if (back == RIG_BACK_WITH_LEASES)
        faulty_space_freeze(rig->uri);
}

void rig_store_go_on(group_rig *rig, rig_back back)
{
    if (back == RIG_BACK_WITH_LEASES)
        faulty_space_thaw(rig->uri);
    if (back == RIG_BACK_EMPTIED)
        faulty_space_empty(rig->uri);
    rig->is_store_stopped = false;
    cut_all(rig, false);
}

static void stranger_is_done(fry_store_request *request, ferry_status status,
                             const fry_store_entry *entries, size_t count, const char *why)
{
    (void)entries, (void)count, (void)why;
    *(ferry_status *)request->arg = status;
}

ferry_status rig_ask_store(group_rig *rig, fry_store_request *request)
{
    ferry_status status = FERRY_PENDING;

    request->done = stranger_is_done;
    request->arg = &status;
    fry_store_submit(rig->store, request);
    while (status == FERRY_PENDING)
        (void)driven_reactor_run(rig->keeper, 0);
    return status;
}

/* ---- requests ---- */

static void done(fry_group_request *request, ferry_status status, fry_error *error,
                 const void *value, size_t value_bytes, uint64_t version)
{
    rig_ask *ask = request->arg;

    RIG_CHECK(!ask->is_done);
    ask->is_done = true;
    ask->status = status;
    ask->rank = error != NULL ? (int32_t)error->public_.rank : -1;
    if (error != NULL)
        (void)snprintf(ask->message, sizeof ask->message, "%s", error->public_.message);
    RIG_CHECK((status == FERRY_OK) == (error == NULL));
    RIG_CHECK(value_bytes < sizeof ask->value);
    if (value_bytes > 0)
        memcpy(ask->value, value, value_bytes);
    ask->value[value_bytes] = '\0';
    ask->value_bytes = value_bytes;
    ask->version = version;
}

void rig_ask_begin(group_rig *rig, size_t index, rig_ask *ask, fry_group_verb verb,
                   const char *name)
{
    (void)rig;
    (void)index;
    memset(ask, 0, sizeof *ask);
    ask->request.verb = verb;
    ask->request.name = name;
    ask->request.done = done;
    ask->request.arg = ask;
}

void rig_barrier(group_rig *rig, size_t index, rig_ask *ask, const char *name, int64_t within_ns)
{
    rig_ask_begin(rig, index, ask, FRY_GROUP_BARRIER, name);
    if (within_ns != 0)
        ask->request.deadline_ns = fry_clock_now_ns(&rig->clock) + within_ns;
    fry_group_submit(rig->members[index].group, &ask->request);
    RIG_CHECK(!ask->is_done);
}

bool rig_is_done(void *ask)
{
    return ((rig_ask *)ask)->is_done;
}

ferry_status rig_answer(group_rig *rig, rig_ask *ask)
{
    RIG_CHECK(rig_until(rig, rig_is_done, ask, 60 * RIG_SECOND_NS));
    return ask->status;
}
