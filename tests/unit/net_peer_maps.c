/* SPDX-License-Identifier: Apache-2.0 */
/* Windows in memory that the other end maps: end 0 has one, end 1 gets out of it. */
#include "base/shared.h"
#include "net/peer/find.h"
#include "net/peer/reach.h"
#include "net/peer/wire.h"
#include "tests/unit/peer_pair.h"

TestSuite(net_peer_maps, .timeout = 60);

enum { SIZE = 200000, OFFSET = 5000, WINDOW = SIZE - OFFSET };

/* What the engines would have. */
static struct {
    unsigned char *memory;
    bool is_shared;
    int found, closing, lost, left, reached;
    fry_found window;
    fry_reach asked;
} scene;

static void window_found(void *turn, fry_found *found)
{
    (void)turn;
    cr_assert_eq(found, &scene.window);
    scene.found++;
}

static void window_closing(void *turn, fry_found *found)
{
    (void)turn, (void)found;
    scene.closing++;
}

static void window_lost(void *turn, fry_found *found, ferry_status status, const fry_fault *fault)
{
    (void)turn, (void)found, (void)status, (void)fault;
    scene.lost++;
}

static bool window_sought(void *turn, fry_peer *peer, const char *name, fry_grant *grant)
{
    (void)turn, (void)peer;
    cr_assert_str_eq(name, "w");
    *grant = (fry_grant){.window = &scene,
                         .rights = FRY_WINDOW_GET,
                         .size_bytes = WINDOW,
                         .address = (uintptr_t)scene.memory + OFFSET,
                         .shared = scene.is_shared ? scene.memory : NULL,
                         .shared_offset = OFFSET};
    return true;
}

static void window_left(void *turn, fry_peer *peer, void *window, uint32_t told)
{
    (void)turn, (void)peer, (void)told;
    cr_assert_eq(window, &scene);
    scene.left++;
}

static void reached(void *turn, fry_peer *peer, void *window, const fry_reach *reach)
{
    const fry_fault fault = {.status = FERRY_E_NOT_FOUND, .rank = -1, .message = "not by words"};
    cr_assert_eq(window, &scene);
    scene.reached++;
    scene.asked = *reach;
    fry_peer_refuse_reach(peer, reach, &fault, turn);
}

static pair *open_pair(bool has_maps, bool is_shared)
{
    static fry_peer_events events;
    memset(&scene, 0, sizeof scene);
    scene.is_shared = is_shared;
    scene.memory = fry_shared_alloc(SIZE);
    cr_assert_not_null(scene.memory);
    for (size_t i = 0; i < SIZE; i++)
        scene.memory[i] = (unsigned char)(i % 251);
    events = pair_events;
    events.window_found = window_found;
    events.window_closing = window_closing;
    events.window_lost = window_lost;
    events.window_sought = window_sought;
    events.window_left = window_left;
    events.reached = reached;
    pair *p = pair_init();
    p->session.has_windows = true;
    p->session.has_maps = has_maps;
    p->options.events = &events;
    return pair_open(p);
}

static void find(pair *p)
{
    scene.window = (fry_found){.owner = &scene, .name = "w"};
    fry_peer_find(p->ends[1].peer, &scene.window, NULL);
    pair_run(p);
    cr_assert_eq(scene.found, 1);
}

static void end(pair *p)
{
    pair_close(p);
    cr_assert_eq(scene.left, 1);
    fry_shared_free(scene.memory);
}

/* Of up to PAIR_OP_BYTES. */
static pair_op *get(pair *p, uint64_t offset, size_t size_bytes)
{
    pair_op *op = &p->ops[p->op_count++];
    op->message = (fry_message){.memory = op->bytes, .size_bytes = size_bytes, .op = 1};
    cr_assert(fry_peer_reach(&op->message, &scene.window, offset, false, NULL));
    return op;
}

static void expect_got(const pair_op *op, uint64_t offset)
{
    expect_over(op, FERRY_OK);
    cr_expect(memcmp(op->bytes, scene.memory + OFFSET + offset, op->message.size_bytes) == 0);
}

Test(net_peer_maps, a_get_is_over_before_it_has_returned)
{
    pair *p = open_pair(true, true);
    find(p);
    expect_got(get(p, 0, 1), 0);
    expect_got(get(p, WINDOW - PAIR_OP_BYTES, PAIR_OP_BYTES), WINDOW - PAIR_OP_BYTES);
    cr_expect_eq(scene.reached, 0);
    fry_peer_leave_window(&scene.window, NULL);
    cr_expect_null(scene.window.map);
    pair_run(p);
    cr_expect_eq(scene.left, 1);
    end(p);
}

/* The rest waits for the next progress; here there is no other way but to ask. */
Test(net_peer_maps, gets_copy_so_much_in_a_turn)
{
    pair *p = open_pair(true, true);
    find(p);
    size_t copied = 0;
    for (; scene.reached == 0 && copied < 2 * FRY_REACH_COPIES_BYTES; copied += PAIR_OP_BYTES) {
        pair_op *op = get(p, 0, PAIR_OP_BYTES);
        if (op->resolved == 0)
            break;
        expect_got(op, 0);
    }
    cr_expect_leq(copied, FRY_REACH_COPIES_BYTES);
    cr_expect_gt(copied, FRY_REACH_COPIES_BYTES - PAIR_OP_BYTES);
    pair_run(p);
    cr_expect_eq(scene.reached, 1);
    expect_got(get(p, 7, PAIR_OP_BYTES), 7);
    end(p);
}

static void expect_asked(bool has_maps, bool is_shared)
{
    pair *p = open_pair(has_maps, is_shared);
    find(p);
    cr_expect_null(scene.window.map);
    pair_op *op = get(p, 3, 100);
    pair_run(p);
    cr_expect_eq(scene.reached, 1);
    cr_expect_eq(scene.asked.offset, 3);
    cr_expect_eq(scene.asked.size_bytes, 100);
    expect_over(op, FERRY_E_DEPENDENCY); /* of what the owner said */
    end(p);
}

Test(net_peer_maps, other_memory_and_other_ends_are_asked)
{
    expect_asked(false, true);
    expect_asked(true, false);
}

/* The owner has given this end up, which was not told. */
Test(net_peer_maps, nothing_is_got_once_the_owner_has_given_up)
{
    pair *p = open_pair(true, true);
    find(p);
    expect_got(get(p, 0, 8), 0);
    pair_detach(p, 0, FERRY_E_DEADLINE);
    expect_got(get(p, 0, 8), 0); /* the memory is not quiet before the channel is gone */
    cr_expect_eq(scene.left, 0);
    pair_destroy(p, 0);
    cr_expect_eq(scene.left, 1);
    memset(scene.memory, 255, SIZE);
    pair_op *op = get(p, 0, 8);
    cr_expect_eq(op->resolved, 0);
    cr_expect_eq(p->ends[1].failed, 1);
    cr_expect_eq(p->ends[1].failure.status, FERRY_E_PEER);
    cr_expect_str_eq(p->ends[1].failure.message, "data that its owner had given up");
    pair_detach(p, 1, FERRY_E_PEER);
    expect_over(op, FERRY_E_PEER);
    cr_expect_eq(scene.lost, 1);
    end(p);
}

/* Reads may be in flight when a connection is detached: its maps go with the channel. */
Test(net_peer_maps, a_map_stays_until_the_channel_is_destroyed)
{
    pair *p = open_pair(true, true);
    find(p);
    const fry_shared_map *map = scene.window.map;
    cr_assert_not_null(map);
    pair_detach(p, 1, FERRY_E_SHUTDOWN);
    cr_expect_eq(scene.lost, 1);
    cr_expect_null(scene.window.map);
    unsigned char got[8];
    cr_expect(fry_shared_read(map, got, OFFSET, sizeof got));
    end(p);
}

Test(net_peer_maps, each_of_those_that_find_it_has_a_mark)
{
    pair *p = open_pair(true, true);
    find(p);
    fry_shared_place place;
    cr_assert(fry_shared_grant(scene.memory, &place));
    cr_expect_eq(place.mark, 1);
    fry_shared_withdraw(scene.memory, place.mark);
    fry_peer_leave_window(&scene.window, NULL);
    pair_run(p);
    cr_assert(fry_shared_grant(scene.memory, &place));
    cr_expect_eq(place.mark, 0);
    end(p);
}

/* ---- an owner that breaks the rules, or whose place is none ---- */

static void hear(pair *p, bool is_refused, uint64_t offset, fry_shared_place place)
{
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    scene.window = (fry_found){.owner = &scene, .name = "other"};
    fry_peer_find(p->ends[1].peer, &scene.window, NULL);
    fry_wire_header header = {.kind = FRY_WIRE_FOUND,
                              .number = scene.window.number,
                              .rights = FRY_WINDOW_GET,
                              .size_bytes = WINDOW,
                              .address = 4096};
    header.mapped.place = place;
    header.mapped.offset = offset;
    fake_wire_inject(p->wire, 1, bytes, fry_wire_pack(bytes, &header), NULL, 0, false);
    pair_turn(p, 1);
    cr_expect_eq(p->ends[1].failed, is_refused);
    cr_expect_eq(scene.found, !is_refused);
    if (is_refused)
        cr_expect(strncmp(p->ends[1].failure.message, "the other end broke the protocol", 32) == 0);
    cr_expect_null(scene.window.map);
    pair_close(p);
    fry_shared_free(scene.memory);
}

static fry_shared_place place_of_scene(void)
{
    fry_shared_place place;
    cr_assert(fry_shared_grant(scene.memory, &place));
    return place;
}

Test(net_peer_maps, an_owner_keeps_to_the_rules)
{
    pair *p = open_pair(false, true);
    hear(p, true, OFFSET, place_of_scene());
    p = open_pair(true, true);
    hear(p, true, OFFSET + 1, place_of_scene());
    p = open_pair(true, true);
    hear(p, true, UINT64_MAX, place_of_scene());
    p = open_pair(true, true);
    fry_shared_place place = place_of_scene();
    place.size_bytes = WINDOW - 1;
    hear(p, true, 0, place);
}

Test(net_peer_maps, a_place_that_is_none_is_no_mistake)
{
    pair *p = open_pair(true, true);
    fry_shared_place place = place_of_scene();
    place.key[1]++;
    hear(p, false, OFFSET, place);
    p = open_pair(true, true);
    place = place_of_scene();
    place.descriptor = -1;
    hear(p, false, OFFSET, place);
}
