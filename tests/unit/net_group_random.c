/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random lives of a group from a seed: members die, are stopped, leave and come again, lose the
 * store, call barriers, cancel; the store stands still, and comes back with or without leases, or
 * emptied; reactors run in any order and requests take their time.
 * What must hold however it goes is checked as it goes, and at the end all are brought together
 * again and must agree.
 */
#include "net/group/members.h"
#include "net/group/outcomes.h"
#include "tests/support/group_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#define SIZE 5
#define SEEDS 80
#define ACTIONS 400
#define CALLS_MAX 4000
#define ROUNDS_MAX 2000
#define LIVES_MAX 64
#define HOLDERS_MAX 4096

typedef struct life_rounds {
    uint64_t lineage, life, restores;
    uint8_t outcome[2][ROUNDS_MAX]; /* 0: nobody knows; 1: passed; 2: failed */
} life_rounds;

typedef struct world world;

typedef struct call {
    fry_group_request request;
    world *world;
    size_t index;
    uint64_t incarnation;
    int name;
    bool is_done;
} call;

struct world {
    group_rig rig;
    uint64_t seed;
    call *calls;
    size_t call_count;
    life_rounds *lives;
    struct {
        uint32_t rank;
        uint64_t name, start;
    } holders[HOLDERS_MAX]; /* who had a rank under what name, by start */
    size_t holder_count;
    uint64_t starts[SIZE]; /* of who is open */
    rig_back back;         /* the store is stopped: how it will be back */
    uint64_t start_count;
    size_t outcome_count[2];
};

static const char *const names[] = {"x", "y"};

static life_rounds *rounds_of(world *w, const fry_group_roster *roster)
{
    life_rounds *rounds = w->lives;

    /* In an emptied store rounds begin anew if all who knew of them are gone by then. */
    while (rounds->lineage != 0 &&
           (rounds->lineage != roster->lineage || rounds->life != roster->life ||
            rounds->restores != roster->restores))
        cr_assert(++rounds < w->lives + LIVES_MAX);
    rounds->lineage = roster->lineage;
    rounds->life = roster->life;
    rounds->restores = roster->restores;
    return rounds;
}

static void call_done(fry_group_request *request, ferry_status status, fry_error *error,
                      const void *value, size_t value_bytes, uint64_t version)
{
    call *c = request->arg;
    world *w = c->world;
    fry_group *group = w->rig.members[c->index].group;

    (void)value, (void)value_bytes, (void)version;
    cr_assert(!c->is_done);
    c->is_done = true;
    if (status != FERRY_OK && status != FERRY_E_DEADLINE && status != FERRY_E_DEAD &&
        status != FERRY_E_CANCELLED)
        return;
    if (fry_group_is_over(group) ||
        (error != NULL && (strstr(error->public_.message, "does not answer") != NULL ||
                           strstr(error->public_.message, "behind an earlier") != NULL)))
        return; /* not the round's outcome */
    const fry_round *round = fry_round_find(group, c->name == 0 ? "b/x" : "b/y");
    cr_assert(round != NULL && round->own < ROUNDS_MAX);
    uint8_t *outcome = &rounds_of(w, group->roster)->outcome[c->name][round->own];
    const uint8_t own = status == FERRY_OK ? 1 : 2;
    w->outcome_count[own - 1]++;
    cr_assert(*outcome == 0 || *outcome == own, "seed %d: %s %d ended in two ways", (int)w->seed,
              names[c->name], (int)round->own);
    *outcome = own;
}

/* No two starts have one rank in one incarnation. */
static void check_holders(world *w)
{
    for (size_t i = 0; i < SIZE; i++) {
        rig_member *m = &w->rig.members[i];

        if (m->group == NULL || m->group->rank < 0)
            continue;
        const uint64_t name = fry_group_start(m->group);
        size_t at = 0;

        while (at < w->holder_count &&
               (w->holders[at].rank != (uint32_t)m->group->rank || w->holders[at].name != name))
            at++;
        cr_assert(at == w->holder_count || w->holders[at].start == w->starts[i],
                  "seed %d: two are rank %d", (int)w->seed, (int)i);
        cr_assert(at < HOLDERS_MAX && fry_group_incarnation(m->group) > 0);
        w->holders[at].rank = (uint32_t)m->group->rank;
        w->holders[at].name = name;
        w->holders[at].start = w->starts[i];
        w->holder_count += at == w->holder_count;
    }
}

/* What a member was told of each rank: ends before beginnings, incarnations that grow. */
static void check_history(const world *w, const rig_member *m)
{
    uint64_t incarnation[SIZE] = {0};
    ferry_member_state state[SIZE] = {FERRY_MEMBER_ABSENT};

    for (size_t i = 0; i < m->history_count; i++) {
        const rig_news *news = &m->history[i];
        const uint32_t rank = news->rank;

        if (news->state == FERRY_MEMBER_HERE) {
            cr_assert(news->incarnation > incarnation[rank]);
            cr_assert_neq(state[rank], FERRY_MEMBER_HERE, "seed %d", (int)w->seed);
        } else {
            /* The first may be of one that it was told of as it joined; a start that came and went
             * unseen is told as an end alone. */
            cr_assert(news->incarnation >= incarnation[rank]);
        }
        incarnation[rank] = news->incarnation;
        state[rank] = news->state;
    }
}

static void start(world *w, size_t index)
{
    fry_group_options options = rig_options(&w->rig, index, SIZE, (int32_t)index);

    w->starts[index] = ++w->start_count;
    rig_join(&w->rig, index, &options);
    if (rig_random(&w->rig, 4) == 0)
        faulty_store_delay(w->rig.members[index].faulty, RIG_SECOND_NS / 20,
                           rig_random(&w->rig, 1U << 30));
}

static void begin_call(world *w, size_t index, int name)
{
    if (w->call_count == CALLS_MAX)
        return;
    call *c = &w->calls[w->call_count++];

    *c = (call){.world = w, .index = index, .name = name};
    c->request.verb = FRY_GROUP_BARRIER;
    c->request.name = names[c->name];
    c->request.done = call_done;
    c->request.arg = c;
    if (rig_random(&w->rig, 6) == 0)
        c->request.deadline_ns =
            fry_clock_now_ns(&w->rig.clock) + (int64_t)rig_random(&w->rig, 4) * RIG_SECOND_NS + 1;
    fry_group_submit(w->rig.members[index].group, &c->request);
}

static void call_all(world *w, int name)
{
    for (size_t i = 0; i < SIZE; i++) {
        const rig_member *m = &w->rig.members[i];

        if (m->group != NULL && m->is_joined && m->status == FERRY_OK && !m->is_fenced &&
            !m->is_stopped && m->group->requests.count < 3 && rig_random(&w->rig, 40) != 0)
            begin_call(w, i, name);
    }
    if (rig_random(&w->rig, 2) == 0)
        rig_settle(&w->rig);
}

static void stop_or_go_on(world *w)
{
    if (!w->rig.is_store_stopped) {
        w->back = (rig_back)rig_random(&w->rig, RIG_BACKS);
        rig_store_stop(&w->rig, w->back);
    } else {
        rig_store_go_on(&w->rig, w->back);
    }
}

static void act(world *w)
{
    group_rig *rig = &w->rig;
    const size_t i = (size_t)rig_random(rig, SIZE);
    rig_member *m = &rig->members[i];
    const bool is_in = m->group != NULL && m->is_joined && m->status == FERRY_OK && !m->is_fenced;

    if (m->group == NULL) {
        start(w, i);
        return;
    }
    if (!is_in && m->is_joined) {
        rig_shut(rig, i);
        return;
    }
    if (rig_random(rig, rig->is_store_stopped ? 10 : 60) == 0)
        stop_or_go_on(w);
    switch (rig_random(rig, 80)) {
    case 0:
        rig_kill(rig, i);
        break;
    case 1:
        rig_shut(rig, i);
        break;
    case 2:
        if (is_in && !m->is_stopped) {
            faulty_store_lose(m->faulty, false);
            rig_leave(rig, i);
        }
        break;
    case 3:
        m->is_stopped = !m->is_stopped;
        break;
    case 4:
        if (!m->is_stopped)
            faulty_store_lose(m->faulty, rig_random(rig, 2) == 0);
        break;
    case 5:
        if (w->call_count > 0) {
            call *c =
                &w->calls[w->call_count - 1 - rig_random(rig, w->call_count) % 8 % w->call_count];
            if (!c->is_done && c->request.group == rig->members[c->index].group)
                fry_group_cancel(&c->request);
        }
        break;
    case 6:
    case 7:
        rig_pass(rig, (int64_t)rig_random(rig, 2000) * (RIG_SECOND_NS / 1000));
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        if (is_in && !m->is_stopped)
            begin_call(w, i, (int)rig_random(rig, 2));
        break;
    default:
        call_all(w, (int)rig_random(rig, 2));
        break;
    }
}

static bool all_are_in(void *arg)
{
    world *w = arg;
    bool are_joined = true;

    for (size_t i = 0; i < SIZE; i++) {
        rig_member *m = &w->rig.members[i];

        if (m->group == NULL || (m->is_joined && (m->status != FERRY_OK || m->is_fenced))) {
            rig_shut(&w->rig, i);
            start(w, i);
            faulty_store_delay(m->faulty, 0, 0);
        }
        are_joined &= m->is_joined && m->status == FERRY_OK;
    }
    if (!are_joined)
        return false;
    for (size_t i = 0; i < SIZE; i++) {
        for (uint32_t rank = 0; rank < SIZE; rank++) {
            const fry_group_member *info = fry_group_member_at(w->rig.members[i].group, rank);

            if (info->state != FERRY_MEMBER_HERE ||
                info->incarnation != fry_group_incarnation(w->rig.members[rank].group))
                return false;
        }
    }
    return true;
}

static void describe(world *w, size_t index)
{
    const rig_member *m = &w->rig.members[index];

    (void)fprintf(stderr, "%zu: start %d joined %d status %d fenced %d: %s\n", index,
                  (int)w->starts[index], m->is_joined, (int)m->status, m->is_fenced, m->message);
    if (m->group == NULL)
        return;
    (void)fprintf(stderr, "   state %d rank %d incarnation %d\n", (int)m->group->state,
                  (int)m->group->rank, (int)m->group->incarnation);
    for (fry_presence *p = fry_group_presence_first(m->group); p != NULL;
         p = fry_group_presence_next(m->group, p))
        (void)fprintf(stderr, "   start %d rank %d state %d\n", (int)p->id, (int)p->rank,
                      (int)p->state);
    for (uint32_t rank = 0; rank < SIZE && m->group->view_count > 0; rank++) {
        const fry_group_member *info = fry_group_member_at(m->group, rank);

        (void)fprintf(stderr, "   rank %d: state %d incarnation %d\n", (int)rank, (int)info->state,
                      (int)info->incarnation);
    }
}

/* How many rounds' outcomes of either sort calls had are added to `outcomes`. */
static void live(uint64_t seed, size_t outcomes[2])
{
    world *w = calloc(1, sizeof *w);
    rig_ask asks[SIZE];

    w->seed = seed;
    w->calls = calloc(CALLS_MAX, sizeof *w->calls);
    w->lives = calloc(LIVES_MAX, sizeof *w->lives);
    rig_open(&w->rig, SIZE, seed);
    for (size_t i = 0; i < SIZE; i++)
        start(w, i);
    for (int n = 0; n < ACTIONS; n++) {
        act(w);
        for (uint64_t turns = rig_random(&w->rig, 4); turns > 0; turns--)
            (void)rig_turn(&w->rig);
        check_holders(w);
    }
    for (size_t i = 0; i < SIZE; i++) {
        rig_member *m = &w->rig.members[i];

        m->is_stopped = false;
        if (m->group != NULL)
            faulty_store_lose(m->faulty, false);
    }
    if (w->rig.is_store_stopped)
        stop_or_go_on(w);
    const bool have_met = rig_until(&w->rig, all_are_in, w, 100 * RIG_SECOND_NS);
    for (size_t i = 0; i < SIZE && !have_met; i++)
        describe(w, i);
    cr_assert(have_met, "seed %d: they don't meet", (int)seed);
    check_holders(w);
    for (size_t i = 0; i < SIZE; i++) {
        check_history(w, &w->rig.members[i]);
        rig_barrier(&w->rig, i, &asks[i], "the-end", 0);
    }
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(rig_answer(&w->rig, &asks[i]), FERRY_OK, "seed %d: %s", (int)seed,
                     asks[i].message);
    rig_close(&w->rig);
    outcomes[0] += w->outcome_count[0];
    outcomes[1] += w->outcome_count[1];
    free(w->calls);
    free(w->lives);
    free(w);
}

Test(net_group_random, lives, .timeout = 120)
{
    const char *one = getenv("GROUP_SEED");
    size_t outcomes[2] = {0, 0};

    if (one != NULL) {
        live(strtoull(one, NULL, 10), outcomes);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        live(seed, outcomes);
    /* It is worth something only if rounds end in both ways. */
    cr_assert(outcomes[0] > 10 * SEEDS && outcomes[1] > 10 * SEEDS, "%zu passed, %zu failed",
              outcomes[0], outcomes[1]);
}
