/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members and the blocks that they own fall into islands which have nothing to do with each other.
 * Where each member has one block, all of an island has the same one, and equal shares are best.
 * Meshes in which members stand several times may tie blocks together; equal shares are best there,
 * too, if they happen to load all alike. Otherwise they are where a flow begins: shares past a
 * bound are taken back and led to other owners along shortest paths, as long as there are any. When
 * there are none, the blocks and members that were reached have more to send than the bound allows
 * them; what they must send at least is the next bound. So the last bound is met, and none below it
 * can be: the least maximum, exactly.
 */
#include "engine/reshard/share.h"

#include <stdalign.h>

#define NOBODY UINT32_MAX

typedef struct island {
    uint64_t wanted;
    uint64_t most; /* of a member's load */
    uint64_t members;
} island;

typedef struct work {
    const fry_memory *memory;
    const fry_reshard_layout *layout;
    const uint64_t *wanted;
    uint64_t *shares;
    uint64_t *loads;       /* of each rank */
    uint64_t *missing;     /* of each block: what nobody sends yet */
    uint32_t *block_of;    /* each owner's */
    uint32_t *by_rank;     /* owners, by rank */
    uint32_t *rank_begins; /* where a rank's begin there; one more: the end */
    uint32_t *leaders;     /* of each rank: one of its island, which all of it come to */
    island *islands;       /* by leader */
    uint32_t *queue;       /* nodes: blocks, and ranks behind them */
    uint32_t *came_by;     /* each node: the owner by which it was reached */
    uint32_t *seen;        /* each node: the search that reached it */
    uint32_t search;
} work;

static uint32_t node_count(const work *self)
{
    return self->layout->block_count + self->layout->rank_count;
}

/* ---- memory ---- */

#define TABLES(X)                                                                                  \
    X(loads, self->layout->rank_count)                                                             \
    X(missing, self->layout->block_count)                                                          \
    X(block_of, self->layout->position_count)                                                      \
    X(by_rank, self->layout->position_count)                                                       \
    X(rank_begins, (size_t)self->layout->rank_count + 1)                                           \
    X(leaders, self->layout->rank_count)                                                           \
    X(islands, self->layout->rank_count)                                                           \
    X(queue, node_count(self))                                                                     \
    X(came_by, node_count(self))                                                                   \
    X(seen, node_count(self))

static bool make_tables(work *self)
{
    bool has_all = true;
#define MAKE(table, count)                                                                         \
    self->table = fry_alloc(self->memory, (count) * sizeof *self->table, alignof(uint64_t));       \
    has_all = has_all && self->table != NULL;
    TABLES(MAKE)
#undef MAKE
    return has_all;
}

static void free_tables(work *self)
{
#define FREE(table, count) fry_free(self->memory, self->table, (count) * sizeof *self->table);
    TABLES(FREE)
#undef FREE
}

/* ---- equal shares ---- */

static void share_equally(work *self)
{
    const fry_reshard_layout *layout = self->layout;
    uint32_t turn = 0; /* so that the odd elements of many blocks fall on different owners */
    for (uint32_t block = 0; block < layout->block_count; block++) {
        uint32_t begin = layout->block_owners[block];
        uint32_t count = layout->block_owners[block + 1] - begin;
        uint64_t each = self->wanted[block] / count, odd = self->wanted[block] % count;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t owner = begin + (turn + i) % count;
            self->shares[owner] = each + (i < odd);
            self->loads[layout->owners[owner].rank] += self->shares[owner];
            self->block_of[owner] = block;
        }
        turn += (uint32_t)odd;
    }
}

static void list_by_rank(work *self)
{
    const fry_reshard_layout *layout = self->layout;
    uint32_t count = layout->block_owners[layout->block_count];
    uint32_t *begins = self->rank_begins;
    for (uint32_t i = 0; i < count; i++)
        begins[layout->owners[i].rank + 1]++;
    for (uint32_t i = 0; i < layout->rank_count; i++)
        begins[i + 1] += begins[i];
    for (uint32_t i = 0; i < count; i++)
        self->by_rank[begins[layout->owners[i].rank]++] = i;
    for (uint32_t i = layout->rank_count; i > 0; i--)
        begins[i] = begins[i - 1];
    begins[0] = 0;
}

/* ---- islands ---- */

static uint32_t leader_of(work *self, uint32_t rank)
{
    while (self->leaders[rank] != rank) {
        self->leaders[rank] = self->leaders[self->leaders[rank]];
        rank = self->leaders[rank];
    }
    return rank;
}

static void find_islands(work *self)
{
    const fry_reshard_layout *layout = self->layout;
    for (uint32_t i = 0; i < layout->rank_count; i++)
        self->leaders[i] = i;
    for (uint32_t block = 0; block < layout->block_count; block++) {
        uint32_t begin = layout->block_owners[block], end = layout->block_owners[block + 1];
        uint32_t first = leader_of(self, layout->owners[begin].rank);
        for (uint32_t i = begin + 1; i < end; i++)
            self->leaders[leader_of(self, layout->owners[i].rank)] = first;
        /* `first` leads still. */
    }
    for (uint32_t block = 0; block < layout->block_count; block++) {
        ferry_rank rank = layout->owners[layout->block_owners[block]].rank;
        self->islands[leader_of(self, rank)].wanted += self->wanted[block];
    }
    for (uint32_t rank = 0; rank < layout->rank_count; rank++) {
        island *of = &self->islands[leader_of(self, rank)];
        of->members += self->rank_begins[rank] != self->rank_begins[rank + 1];
        if (self->loads[rank] > of->most)
            of->most = self->loads[rank];
    }
}

static uint64_t rounded_up(uint64_t number, uint64_t by)
{
    return number / by + (number % by != 0);
}

/* ---- the flow on an island ---- */

/* Takes back what members would send past the bound. */
static void clip(work *self, uint32_t leader, uint64_t bound)
{
    const fry_reshard_layout *layout = self->layout;
    for (uint32_t rank = 0; rank < layout->rank_count; rank++) {
        if (self->loads[rank] <= bound || leader_of(self, rank) != leader)
            continue;
        uint64_t excess = self->loads[rank] - bound;
        for (uint32_t i = self->rank_begins[rank]; excess != 0; i++) {
            uint32_t owner = self->by_rank[i];
            uint64_t taken = self->shares[owner] < excess ? self->shares[owner] : excess;
            self->shares[owner] -= taken;
            self->missing[self->block_of[owner]] += taken;
            excess -= taken;
        }
        self->loads[rank] = bound;
    }
}

typedef struct search {
    uint32_t begin, end; /* of the queue */
    uint64_t wanted;     /* of the blocks that were reached */
    uint64_t members;    /* that were reached */
} search;

static void reach(work *self, search *look, uint32_t node, uint32_t owner)
{
    if (self->seen[node] == self->search)
        return;
    self->seen[node] = self->search;
    self->came_by[node] = owner;
    self->queue[look->end++] = node;
    if (node < self->layout->block_count)
        look->wanted += self->wanted[node];
    else
        look->members++;
}

/* From a block to all who own it, and from a member to the blocks that it now sends. */
static void reach_from(work *self, search *look, uint32_t node)
{
    const fry_reshard_layout *layout = self->layout;
    if (node < layout->block_count) {
        for (uint32_t i = layout->block_owners[node]; i < layout->block_owners[node + 1]; i++)
            reach(self, look, layout->block_count + layout->owners[i].rank, i);
        return;
    }
    uint32_t rank = node - layout->block_count;
    for (uint32_t i = self->rank_begins[rank]; i < self->rank_begins[rank + 1]; i++) {
        uint32_t owner = self->by_rank[i];
        if (self->shares[owner] != 0)
            reach(self, look, self->block_of[owner], owner);
    }
}

/* The nearest member with a load below the bound that what is missing may be led to; or NOBODY. */
static uint32_t find_room(work *self, uint32_t leader, uint64_t bound, search *look)
{
    const fry_reshard_layout *layout = self->layout;
    *look = (search){0};
    self->search++;
    for (uint32_t block = 0; block < layout->block_count; block++) {
        uint32_t rank = layout->owners[layout->block_owners[block]].rank;
        if (self->missing[block] != 0 && leader_of(self, rank) == leader)
            reach(self, look, block, NOBODY);
    }
    while (look->begin < look->end) {
        uint32_t node = self->queue[look->begin++];
        if (node >= layout->block_count && self->loads[node - layout->block_count] < bound)
            return node - layout->block_count;
        reach_from(self, look, node);
    }
    return NOBODY;
}

/* Leads as much as can be along the path to a member: each on it takes over from the next. */
static void lead(work *self, uint32_t rank, uint64_t bound)
{
    const fry_reshard_layout *layout = self->layout;
    uint64_t amount = bound - self->loads[rank];
    uint32_t blocks = layout->block_count;
    uint32_t block = self->block_of[self->came_by[blocks + rank]];
    for (uint32_t back; (back = self->came_by[block]) != NOBODY;) {
        if (self->shares[back] < amount)
            amount = self->shares[back];
        block = self->block_of[self->came_by[blocks + layout->owners[back].rank]];
    }
    if (self->missing[block] < amount)
        amount = self->missing[block];
    self->missing[block] -= amount;
    self->loads[rank] += amount;
    for (uint32_t to = rank;;) {
        uint32_t forth = self->came_by[blocks + to];
        self->shares[forth] += amount;
        uint32_t back = self->came_by[self->block_of[forth]];
        if (back == NOBODY)
            break;
        self->shares[back] -= amount;
        to = layout->owners[back].rank;
    }
}

static uint64_t share_exactly(work *self, uint32_t leader)
{
    const island *of = &self->islands[leader];
    uint64_t bound = rounded_up(of->wanted, of->members);
    search look;
    clip(self, leader, bound);
    for (;;) {
        uint32_t rank = find_room(self, leader, bound, &look);
        if (rank != NOBODY)
            lead(self, rank, bound);
        else if (look.end == 0)
            return bound; /* nothing is missing */
        else
            bound = rounded_up(look.wanted, look.members);
    }
}

bool fry_reshard_share(const fry_memory *memory, const fry_reshard_layout *layout,
                       const uint64_t *wanted, uint64_t *shares, uint64_t *busiest_p)
{
    work self = {.memory = memory, .layout = layout, .wanted = wanted, .shares = shares};
    bool is_made = make_tables(&self);
    *busiest_p = 0;
    if (is_made) {
        share_equally(&self);
        list_by_rank(&self);
        find_islands(&self);
        for (uint32_t rank = 0; rank < layout->rank_count; rank++) {
            const island *of = &self.islands[rank];
            if (of->members == 0)
                continue;
            bool is_best = of->most <= rounded_up(of->wanted, of->members);
            uint64_t most = is_best ? of->most : share_exactly(&self, rank);
            *busiest_p = most > *busiest_p ? most : *busiest_p;
        }
    }
    free_tables(&self);
    return is_made;
}
