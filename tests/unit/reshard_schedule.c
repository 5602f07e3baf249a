/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of random reshards against an oracle that knows of each element who has it and who
 * wants it: every element comes once, from where it is, and nothing crosses that need not. How
 * evenly the members send is measured against a flow over classes of elements that the same members
 * have, which knows nothing of blocks, boxes or cuts.
 */
#include "tests/support/effort.h"
#include "tests/support/reshard_case.h"
#include "tests/support/suite.h"

#include <ferry/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES SEEDS_OF(10000)
#define ELEMENTS 3000

TestSuite(reshard_schedule, .timeout = 120);

typedef struct oracle {
    const reshard_case *of;
    const ferry_reshard *reshard;
    uint64_t seed;
    uint32_t *has[2]; /* of each element: the members that have it, and that want it: bits */
    uint8_t *came;    /* of each target position and element: whether it has come */
    uint8_t *crossed; /* of each member and element */
    uint64_t out[RESHARD_MEMBERS], in[RESHARD_MEMBERS], local[RESHARD_MEMBERS];
} oracle;

#define EXPECT(condition, ...)                                                                     \
    cr_assert(condition, "seed %llu: " #condition, (unsigned long long)(self)->seed)

static ferry_reshard *reshard_of(const reshard_case *of)
{
    ferry_reshard *reshard = reshard_case_create(of);
    cr_assert_not_null(reshard);
    return reshard;
}

static void *zeroed(uint64_t count, size_t size)
{
    void *memory = calloc(count, size);
    cr_assert_not_null(memory);
    return memory;
}

static void open_oracle(oracle *self, const reshard_case *of, uint64_t seed)
{
    *self = (oracle){.of = of, .reshard = reshard_of(of), .seed = seed};
    for (int side = 0; side < 2; side++) {
        self->has[side] = zeroed(of->element_count, sizeof(uint32_t));
        for (uint32_t p = 0; p < of->sides[side].position_count; p++) {
            for (uint64_t e = 0; e < of->element_count; e++) {
                if (reshard_case_has(of, side, p, e))
                    self->has[side][e] |= 1u << reshard_case_rank(of, side, p);
            }
        }
    }
    self->came = zeroed(of->sides[1].position_count * of->element_count, 1);
    self->crossed = zeroed(of->member_count * of->element_count, 1);
}

static void close_oracle(oracle *self)
{
    ferry_reshard_release((ferry_reshard *)(uintptr_t)self->reshard);
    free(self->has[0]);
    free(self->has[1]);
    free(self->came);
    free(self->crossed);
}

/* ---- the bytes ---- */

static void check_move(oracle *self, const ferry_reshard_move *move)
{
    const reshard_case *of = self->of;
    uint64_t count = move->size_bytes / of->element_bytes, product = 1;
    for (size_t d = 0; d < FERRY_RESHARD_DIMENSIONS_MAX; d++) {
        EXPECT(move->extent[d] > 0);
        EXPECT(d < of->dimension_count || (move->extent[d] == 1 && move->offset[d] == 0));
        product *= move->extent[d];
    }
    EXPECT(product == count);
    EXPECT(move->source_rank == reshard_case_rank(of, (int)move->side, move->source_position));
    EXPECT(move->target_rank == reshard_case_rank(of, 1, move->target_position));
    bool is_local = move->source_rank == move->target_rank;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t e = reshard_case_element(of, move->offset, move->extent, i);
        uint8_t *came = &self->came[move->target_position * of->element_count + e];
        EXPECT(reshard_case_has(of, 1, move->target_position, e));
        EXPECT(*came == 0);
        *came = 1;
        if (move->side == FERRY_RESHARD_FROM)
            EXPECT(reshard_case_has(of, 0, move->source_position, e));
        else
            EXPECT(self->came[move->source_position * of->element_count + e] == 1);
        if (is_local)
            continue;
        EXPECT(move->side == FERRY_RESHARD_FROM);
        EXPECT((self->has[0][e] >> move->target_rank & 1) == 0);
        uint8_t *crossed = &self->crossed[move->target_rank * of->element_count + e];
        EXPECT(*crossed == 0);
        *crossed = 1;
    }
    self->out[move->source_rank] += is_local ? 0 : count;
    self->in[move->target_rank] += is_local ? 0 : count;
    self->local[move->target_rank] += is_local ? count : 0;
}

static void check_all_came(const oracle *self)
{
    const reshard_case *of = self->of;
    for (uint32_t p = 0; p < of->sides[1].position_count; p++) {
        for (uint64_t e = 0; e < of->element_count; e++)
            EXPECT(self->came[p * of->element_count + e] == reshard_case_has(of, 1, p, e));
    }
}

static void check_parts(const oracle *self)
{
    const reshard_case *of = self->of;
    for (int side = 0; side < 2; side++) {
        uint32_t counts[RESHARD_MEMBERS] = {0};
        for (uint32_t p = 0; p < of->sides[side].position_count; p++) {
            ferry_reshard_part part = FERRY_RESHARD_PART_INIT;
            cr_assert_eq(ferry_reshard_part_at(self->reshard, (ferry_reshard_side)side, p, &part),
                         FERRY_OK);
            uint64_t has = 0, count = part.size_bytes / of->element_bytes;
            for (uint64_t e = 0; e < of->element_count; e++)
                has += reshard_case_has(of, side, p, e);
            EXPECT(has == count);
            for (uint64_t i = 0; i < count; i++)
                EXPECT(reshard_case_has(of, side, p,
                                        reshard_case_element(of, part.offset, part.extent, i)));
            EXPECT(part.rank == reshard_case_rank(of, side, p));
            EXPECT(part.index == counts[part.rank]++);
        }
    }
}

static void check_members(const oracle *self)
{
    const reshard_case *of = self->of;
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    cr_assert_eq(ferry_reshard_describe(self->reshard, &info), FERRY_OK);
    uint64_t crossing = 0, local = 0, busiest = 0;
    for (ferry_rank rank = 0; rank < of->member_count; rank++) {
        ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
        cr_assert_eq(ferry_reshard_member_at(self->reshard, rank, &member), FERRY_OK);
        EXPECT(member.out_bytes == self->out[rank] * of->element_bytes);
        EXPECT(member.in_bytes == self->in[rank] * of->element_bytes);
        EXPECT(member.local_bytes == self->local[rank] * of->element_bytes);
        crossing += member.out_bytes;
        local += member.local_bytes;
        busiest = member.out_bytes > busiest ? member.out_bytes : busiest;
        busiest = member.in_bytes > busiest ? member.in_bytes : busiest;
    }
    EXPECT(info.crossing_bytes == crossing && info.local_bytes == local);
    EXPECT(info.busiest_bytes == busiest);
    EXPECT(info.array_bytes == of->element_count * of->element_bytes);
}

/* ---- the balance ---- */

/* Elements that the same members have, and how often they are wanted by others. */
typedef struct classes {
    uint32_t owners[512];
    uint64_t wanted[512];
    size_t count;
} classes;

static void sort_elements(const oracle *self, classes *of)
{
    of->count = 0;
    for (uint64_t e = 0; e < self->of->element_count; e++) {
        uint32_t owners = self->has[0][e];
        size_t i = 0;
        while (i < of->count && of->owners[i] != owners)
            i++;
        cr_assert_lt(i, sizeof of->owners / sizeof of->owners[0]);
        if (i == of->count)
            of->wanted[of->count++] = 0;
        of->owners[i] = owners;
        of->wanted[i] += (uint64_t)__builtin_popcount(self->has[1][e] & ~owners);
    }
}

/* Whether nobody need send more than that: a flow by depth-first search, a unit path at a time. */
typedef struct flow {
    const classes *of;
    uint64_t sent[512][RESHARD_MEMBERS];
    uint64_t loads[RESHARD_MEMBERS];
    uint64_t most;
    uint32_t tried; /* members in this search */
} flow;

static uint64_t push(flow *self, size_t class, uint64_t amount, int depth)
{
    for (uint32_t m = 0; m < RESHARD_MEMBERS; m++) {
        if ((self->of->owners[class] >> m & 1) == 0 || (self->tried >> m & 1) != 0)
            continue;
        self->tried |= 1u << m;
        uint64_t room = self->most - self->loads[m];
        if (room != 0) {
            room = room < amount ? room : amount;
            self->loads[m] += room;
            self->sent[class][m] += room;
            return room;
        }
        for (size_t other = 0; other < self->of->count && depth < RESHARD_MEMBERS; other++) {
            if (other == class || self->sent[other][m] == 0)
                continue;
            uint64_t part = self->sent[other][m] < amount ? self->sent[other][m] : amount;
            uint64_t moved = push(self, other, part, depth + 1);
            self->sent[other][m] -= moved;
            self->sent[class][m] += moved;
            if (moved != 0)
                return moved;
        }
    }
    return 0;
}

static bool suffices(const classes *of, uint64_t most)
{
    static flow self;
    memset(&self, 0, sizeof self);
    self.of = of;
    self.most = most;
    for (size_t i = 0; i < of->count; i++) {
        for (uint64_t left = of->wanted[i]; left != 0;) {
            self.tried = 0;
            uint64_t moved = push(&self, i, left, 0);
            if (moved == 0)
                return false;
            left -= moved;
        }
    }
    return true;
}

static void check_balance(const oracle *self)
{
    static classes of;
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    (void)ferry_reshard_describe(self->reshard, &info);
    sort_elements(self, &of);
    uint64_t low = 0, high = self->of->element_count * RESHARD_MEMBERS;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (suffices(&of, middle))
            high = middle;
        else
            low = middle + 1;
    }
    for (uint32_t m = 0; m < RESHARD_MEMBERS; m++)
        low = self->in[m] > low ? self->in[m] : low;
    uint64_t best = low * self->of->element_bytes;
    EXPECT(info.bound_bytes == best);
    EXPECT(info.busiest_bytes >= best);
    EXPECT(info.busiest_bytes * 10 <= best * 11);
}

/* ---- the cases ---- */

static void check_case(uint64_t seed, uint64_t elements)
{
    reshard_case of;
    oracle self;
    reshard_case_make(&of, seed, RESHARD_MEMBERS, elements);
    open_oracle(&self, &of, seed);
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    uint64_t count = 0;
    bool is_copying = false;
    for (; ferry_reshard_move_at(self.reshard, count, &move) == FERRY_OK; count++) {
        cr_assert(!is_copying || move.side == FERRY_RESHARD_TO, "seed %llu",
                  (unsigned long long)seed);
        is_copying = move.side == FERRY_RESHARD_TO;
        check_move(&self, &move);
    }
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    (void)ferry_reshard_describe(self.reshard, &info);
    cr_assert_eq(info.move_count, count);
    check_all_came(&self);
    check_parts(&self);
    check_members(&self);
    check_balance(&self);
    close_oracle(&self);
}

Test(reshard_schedule, random_layouts_against_an_oracle)
{
    for (uint64_t seed = 1; seed <= CASES; seed++)
        check_case(seed, seed % 10 == 0 ? ELEMENTS : ELEMENTS / 10);
}
