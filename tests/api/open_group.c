/* SPDX-License-Identifier: Apache-2.0 */
/* Open groups: members come and go, others are told, and ranks are given away again. */
#include "tests/support/member_test.h"
#include "tests/support/place.h"

MEMBER_SUITE(open_group);

#define SHORT_NS (INT64_C(1000000000) * PATIENCE)

static ferry_group_options open_options(uint32_t size, ferry_rank rank)
{
    ferry_group_options options = test_group_options(size, rank);
    options.kind = FERRY_GROUP_OPEN;
    return options;
}

/* One more member, with an engine of its own; its index. */
static size_t join_open_on(ferry_loop_mode loop, uint32_t size, ferry_rank rank)
{
    (void)begin_member(loop);
    ferry_group_options options = open_options(size, rank);
    AWAIT(join_group(member_count - 1, &options), OK);
    return member_count - 1;
}

static size_t join_open(uint32_t size, ferry_rank rank)
{
    return join_open_on(FERRY_LOOP_THREAD, size, rank);
}

static ferry_rank rank_of(size_t member)
{
    return ferry_group_rank(members[member].group);
}

static ferry_group_event event_of(ferry_future *future, uint64_t *number_p)
{
    ferry_value value = FERRY_VALUE_INIT;
    ferry_group_event event;
    ferry_status status;
    while ((status = ferry_future_wait(future, 1000000)) == FERRY_PENDING)
        test_members_move(members, member_count);
    ASSERT_STATUS(status, FERRY_OK);
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_OK);
    cr_assert_eq(value.size_bytes, sizeof event);
    memcpy(&event, value.data, sizeof event);
    *number_p = value.version;
    ferry_future_release(future);
    return event;
}

/* The next event of a member; returns its number. */
static uint64_t assert_event(size_t member, ferry_rank rank, ferry_member_state what)
{
    uint64_t number;
    ferry_group_event event = event_of(ferry_group_event_next(members[member].group, 0), &number);
    cr_assert(event.rank == rank && event.what == what, "member %zu: rank %u is %d", member,
              event.rank, (int)event.what);
    cr_assert_neq(event.incarnation, 0);
    cr_assert_eq(event.lost, 0);
    return number;
}

static void leave(size_t member)
{
    AWAIT(ferry_group_leave(members[member].group), OK);
    ferry_group_release(members[member].group);
    members[member].group = NULL;
}

static ferry_member_state state_of(size_t member, ferry_rank rank)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    ASSERT_STATUS(ferry_group_member(members[member].group, rank, &info), FERRY_OK);
    return info.state;
}

static void pass(size_t from, size_t to, int fill)
{
    ferry_buffer *source = buffer_of(from, 0, 64, fill), *sink = buffer_of(to, 0, 64, 0);
    ferry_future *sent =
        ferry_send(members[from].group, rank_of(to), 1, ferry_buffer_span(source), NULL);
    AWAIT(ferry_recv(members[to].group, rank_of(from), 1, ferry_buffer_span(sink), NULL), OK);
    AWAIT(sent, OK);
    cr_assert_eq(((const char *)ferry_buffer_data(sink))[63], (char)fill);
}

Test(open_group, grows_one_by_one)
{
    PLACE_NEEDS(place_lacks_this_host);
    for (ferry_rank rank = 0; rank < 4; rank++) {
        cr_assert_eq(join_open(4, FERRY_RANK_NONE), rank);
        cr_assert_eq(rank_of(rank), rank);
        cr_assert_eq(ferry_group_size(members[rank].group), 4);
        for (ferry_rank other = 0; other < rank; other++) {
            (void)assert_event(other, rank, FERRY_MEMBER_HERE);
            cr_assert_eq(state_of(other, rank), FERRY_MEMBER_HERE);
            cr_assert_eq(state_of(rank, other), FERRY_MEMBER_HERE);
            pass(other, rank, 'a' + (int)rank);
            pass(rank, other, 'A' + (int)rank);
        }
        for (ferry_rank none = rank + 1; none < 4; none++)
            cr_assert_eq(state_of(rank, none), FERRY_MEMBER_ABSENT);
    }
    ferry_rank owner;
    uint32_t index;
    ASSERT_STATUS(ferry_group_device(members[0].group, 3 << 16 | 1, &owner, &index), FERRY_OK);
    cr_assert(owner == 3 && index == 1);
}

Test(open_group, a_new_member_is_reached_by_windows_and_notices)
{
    PLACE_NEEDS(place_lacks_this_host);
    (void)join_open(3, FERRY_RANK_NONE);
    ferry_buffer *memory = buffer_of(0, 0, 64, 'w');
    ferry_window *window, *found;
    AWAIT(ferry_window_open(members[0].group, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET,
                            &window),
          OK);
    ferry_future *next = ferry_notice_next(members[0].group, 0);
    (void)join_open(3, 2);
    AWAIT(ferry_window_find(members[1].group, 0, "w", 0, &found), OK);
    ferry_buffer *sink = buffer_of(1, 0, 64, 0);
    AWAIT(ferry_get(found, 0, ferry_buffer_span(sink), NULL), OK);
    AWAIT(ferry_notice_send(members[1].group, 0, "hello", 5, NULL), OK);
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ASSERT_STATUS(ferry_future_wait(next, -1), FERRY_OK);
    ASSERT_STATUS(ferry_message_describe(next, &info), FERRY_OK);
    cr_assert_eq(info.rank, 2);
    ferry_future_release(next);
    ferry_window_release(found);
    ferry_window_release(window);
}

Test(open_group, a_rank_that_nobody_has_is_dead)
{
    (void)join_open(3, 1);
    ferry_buffer *buffer = buffer_of(0, 0, 8, 0);
    ferry_future *received = ferry_recv(members[0].group, 2, 1, ferry_buffer_span(buffer), NULL);
    ASSERT_STATUS(ferry_future_wait(received, -1), FERRY_E_DEAD);
    cr_assert_not_null(strstr(ferry_future_error(received)->message, "nobody has that rank"));
    ferry_future_release(received);
    AWAIT(ferry_send(members[0].group, 3, 1, ferry_buffer_span(buffer), NULL), E_NOT_FOUND);
}

Test(open_group, all_hear_the_same)
{
    uint64_t numbers[3];
    for (int i = 0; i < 3; i++)
        (void)join_open(3, (ferry_rank)i);
    (void)assert_event(0, 1, FERRY_MEMBER_HERE);
    (void)assert_event(0, 2, FERRY_MEMBER_HERE);
    (void)assert_event(1, 2, FERRY_MEMBER_HERE);
    for (uint64_t again = 0; again < 3; again++) {
        leave(2 + again);
        cr_assert_eq(join_open(3, FERRY_RANK_NONE), 3 + again);
        cr_assert_eq(rank_of(3 + again), 2);
        for (size_t i = 0; i < 2; i++) {
            uint64_t left = assert_event(i, 2, FERRY_MEMBER_LEFT);
            uint64_t joined = assert_event(i, 2, FERRY_MEMBER_HERE);
            cr_assert_lt(left, joined);
            cr_assert(i == 0 || (numbers[0] == left && numbers[1] == joined));
            numbers[0] = left;
            numbers[1] = joined;
        }
    }
    /* Who joined last has heard of nothing: nothing has happened since. */
    ferry_future *next = ferry_group_event_next(members[5].group, test_in_ns(20000000));
    AWAIT(next, E_DEADLINE);
}

Test(open_group, is_full)
{
    for (ferry_rank i = 0; i < 2; i++)
        (void)join_open(2, i);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = open_options(2, FERRY_RANK_NONE);
    ferry_future *join = join_group(2, &options);
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_FENCED);
    cr_assert_not_null(strstr(ferry_future_error(join)->message, "full"));
    ferry_future_release(join);
    ferry_group_release(members[2].group);
    leave(0);
    AWAIT(join_group(2, &options), OK);
    cr_assert_eq(rank_of(2), 0);
}

Test(open_group, is_not_joined_as_a_closed_one)
{
    (void)join_open(2, 0);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(2, FERRY_RANK_NONE);
    ferry_future *join = join_group(1, &options);
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_INVALID);
    cr_assert_not_null(strstr(ferry_future_error(join)->message, "is an open group"));
    ferry_future_release(join);
    ferry_group_release(members[1].group);
    options = open_options(3, FERRY_RANK_NONE);
    AWAIT(join_group(1, &options), E_INVALID);
}

Test(open_group, a_closed_one_says_so)
{
    begin_members(1, FERRY_LOOP_THREAD);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = open_options(1, FERRY_RANK_NONE);
    ferry_future *join = join_group(1, &options);
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_INVALID);
    cr_assert_not_null(strstr(ferry_future_error(join)->message, "closed"));
    ferry_future_release(join);
}

/* ---- ranks that are held back ---- */

/* The join waits past its deadline, as that member holds the rank. Gives the group back. */
static void assert_held(uint32_t size, ferry_rank rank, const char *by)
{
    const size_t last = member_count - 1;
    char words[64];
    ferry_group_options options = open_options(size, FERRY_RANK_NONE);
    options.deadline_ns = test_in_ns(SHORT_NS);
    ferry_future *join = join_group(last, &options);
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_DEADLINE);
    const char *message = ferry_future_error(join)->message;
    (void)snprintf(words, sizeof words, "rank %u is not free yet", rank);
    cr_assert_not_null(strstr(message, words), "%s", message);
    cr_assert_not_null(strstr(message, by), "%s", message);
    ferry_future_release(join);
    ferry_group_release(members[last].group);
    members[last].group = NULL;
}

Test(open_group, a_found_window_holds_its_owners_rank)
{
    PLACE_NEEDS(place_lacks_this_host);
    for (ferry_rank i = 0; i < 3; i++)
        (void)join_open(3, i);
    (void)assert_event(1, 2, FERRY_MEMBER_HERE);
    ferry_buffer *memory = buffer_of(2, 0, 64, 'w'), *sink = buffer_of(1, 0, 64, 0);
    ferry_window *window, *found;
    AWAIT(ferry_window_open(members[2].group, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET,
                            &window),
          OK);
    AWAIT(ferry_window_find(members[1].group, 2, "w", 0, &found), OK);
    ferry_window_release(window);
    leave(2);
    (void)begin_member(FERRY_LOOP_THREAD);
    assert_held(3, 2, "by member 1");
    AWAIT(ferry_get(found, 0, ferry_buffer_span(sink), NULL), E_NOT_FOUND);
    ferry_group_options options = open_options(3, FERRY_RANK_NONE);
    ferry_future *join = join_group(3, &options);
    ferry_window_release(found);
    AWAIT(join, OK);
    cr_assert_eq(rank_of(3), 2);
    (void)assert_event(1, 2, FERRY_MEMBER_LEFT);
    (void)assert_event(1, 2, FERRY_MEMBER_HERE);
    pass(1, 3, 'x');
}

/* It is pending until its engine moves, which then fails it: before that the rank is not free. */
Test(open_group, a_pending_receive_holds_its_senders_rank)
{
    PLACE_NEEDS(place_lacks_this_host);
    (void)join_open(3, 0);
    (void)join_open_on(FERRY_LOOP_EMBEDDED, 3, 1);
    (void)join_open(3, 2);
    (void)assert_event(1, 2, FERRY_MEMBER_HERE); /* before that nobody has the rank for it */
    pass(2, 1, 'p');
    ferry_buffer *sink = buffer_of(1, 0, 64, 0);
    ferry_future *received = ferry_recv(members[1].group, 2, 9, ferry_buffer_span(sink), NULL);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_future *left = ferry_group_leave(members[2].group);
    ASSERT_STATUS(ferry_future_wait(left, -1), FERRY_OK); /* and member 1 does not move */
    ferry_future_release(left);
    assert_held(3, 2, "1");
    ASSERT_STATUS(ferry_future_poll(received), FERRY_PENDING);
    ferry_group_options options = open_options(3, FERRY_RANK_NONE);
    ferry_future *join = join_group(3, &options);
    AWAIT(join, OK);
    ASSERT_STATUS(ferry_future_poll(received), FERRY_E_DEAD);
    ferry_future_release(received);
    cr_assert_eq(rank_of(3), 2);
}

/* Its handle is given back when the group is long gone: nothing is left to be done. */
Test(open_group, a_found_window_outlives_its_group)
{
    PLACE_NEEDS(place_lacks_this_host);
    (void)join_open(2, 0);
    (void)join_open_on(FERRY_LOOP_EMBEDDED, 2, 1);
    ferry_buffer *memory = buffer_of(0, 0, 64, 'w');
    ferry_window *window, *found;
    AWAIT(ferry_window_open(members[0].group, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET,
                            &window),
          OK);
    AWAIT(ferry_window_find(members[1].group, 0, "w", 0, &found), OK);
    leave(1);
    ferry_engine *engine = members[1].te.engine;
    while (ferry_engine_progress(engine, 0) != 0)
        continue;
    ferry_window_release(found);
    ferry_window_release(window);
    int turns = 0;
    while (ferry_engine_arm(engine) == FERRY_E_BUSY && turns++ < 1000)
        (void)ferry_engine_progress(engine, 0);
    cr_assert_lt(turns, 1000, "the engine does not come to rest");
}

/* Others may yet come: who receives from any member waits for them. */
Test(open_group, receives_from_who_has_yet_to_come)
{
    PLACE_NEEDS(place_lacks_this_host);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = open_options(2, 0);
    options.any_source_max = 4;
    AWAIT(join_group(0, &options), OK);
    ferry_buffer *sink = buffer_of(0, 0, 64, 0);
    ferry_future *received =
        ferry_recv(members[0].group, FERRY_RANK_ANY, 1, ferry_buffer_span(sink), NULL);
    for (int i = 0; i < 2; i++) {
        const size_t other = join_open(2, 1);
        (void)assert_event(0, 1, FERRY_MEMBER_HERE);
        if (i == 0) {
            leave(other);
            (void)assert_event(0, 1, FERRY_MEMBER_LEFT);
            ASSERT_STATUS(ferry_future_poll(received), FERRY_PENDING);
        }
    }
    ferry_buffer *source = buffer_of(2, 0, 64, 's');
    AWAIT(ferry_send(members[2].group, 0, 1, ferry_buffer_span(source), NULL), OK);
    AWAIT(received, OK);
}

/* ---- events ---- */

/* Of the oldest only the number is left. */
Test(open_group, events_that_nobody_takes_are_counted)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = open_options(4, 0);
    options.events_max = 2;
    AWAIT(join_group(0, &options), OK);
    const size_t witness = join_open(4, 1);
    for (int i = 0; i < 3; i++) {
        const size_t other = join_open(4, 2);
        (void)assert_event(witness, 2, FERRY_MEMBER_HERE);
        leave(other);
        (void)assert_event(witness, 2, FERRY_MEMBER_LEFT);
    }
    /* It has heard of all of that once it has acknowledged the last end. */
    const size_t last = join_open(4, 2);
    cr_assert_eq(rank_of(last), 2);
    uint64_t total = 0, number;
    for (ferry_rank seen = 0; seen != 3;) {
        ferry_group_event event = event_of(ferry_group_event_next(members[0].group, 0), &number);
        total += 1 + event.lost;
        if (total == 8)
            break;
    }
    cr_assert_eq(total, 8);
}

Test(open_group, who_does_not_get_an_event_takes_none)
{
    (void)join_open(3, 0);
    ferry_group *group = members[0].group;
    ferry_future *cancelled = ferry_group_event_next(group, 0);
    ferry_future *first = ferry_group_event_next(group, 0);
    ferry_future *second = ferry_group_event_next(group, 0);
    AWAIT(ferry_group_event_next(group, test_in_ns(5000000)), E_DEADLINE);
    ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    AWAIT(cancelled, E_CANCELLED);
    (void)join_open(3, 1);
    (void)join_open(3, 2);
    uint64_t number;
    cr_assert_eq(event_of(first, &number).rank, 1);
    cr_assert_eq(event_of(second, &number).rank, 2);
    ferry_future *waiting = ferry_group_event_next(group, 0);
    AWAIT(ferry_group_leave(group), OK);
    AWAIT(waiting, E_DEAD);
    AWAIT(ferry_group_event_next(group, 0), E_DEAD);
    AWAIT(ferry_group_event_next(NULL, 0), E_INVALID);
}

Test(open_group, a_closed_group_has_events_too)
{
    begin_members(2, FERRY_LOOP_THREAD);
    leave(1);
    (void)assert_event(0, 1, FERRY_MEMBER_LEFT);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(2, 1);
    AWAIT(join_group(2, &options), OK);
    (void)assert_event(0, 1, FERRY_MEMBER_HERE);
}

/* ---- rounds ---- */

Test(open_group, rounds_are_of_who_is_there)
{
    for (ferry_rank i = 0; i < 2; i++)
        (void)join_open(4, 2 * i);
    (void)assert_event(0, 2, FERRY_MEMBER_HERE);
    ferry_future *alive[2], *met[2];
    for (int i = 0; i < 2; i++)
        alive[i] = ferry_group_alive(members[i].group, 0);
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(ferry_future_wait(alive[i], -1), FERRY_OK);
        ferry_value value = FERRY_VALUE_INIT;
        ASSERT_STATUS(ferry_future_value(alive[i], &value), FERRY_OK);
        const ferry_rank *ranks = value.data;
        cr_assert_eq(value.size_bytes, 2 * sizeof *ranks);
        cr_assert(ranks[0] == 0 && ranks[1] == 2);
    }
    ferry_barrier_options barrier = FERRY_BARRIER_OPTIONS_INIT;
    AWAIT(ferry_barrier(members[0].group, "all", &barrier), E_INVALID);
    ferry_value value = FERRY_VALUE_INIT;
    (void)ferry_future_value(alive[0], &value);
    barrier.members = value.data;
    barrier.member_count = 2;
    for (int i = 0; i < 2; i++)
        met[i] = ferry_barrier(members[i].group, "all", &barrier);
    for (int i = 0; i < 2; i++) {
        AWAIT(met[i], OK);
        ferry_future_release(alive[i]);
    }
}

Test(open_group, refuses_options_that_cant_be)
{
    (void)begin_member(FERRY_LOOP_THREAD);
#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        ferry_group_options options_ = open_options(2, FERRY_RANK_NONE);                           \
        options_.field = (value);                                                                  \
        AWAIT(join_group(0, &options_), E_INVALID);                                                \
    } while (0)
    REFUSED(kind, (ferry_group_kind)2);
    REFUSED(size, 0);
    REFUSED(size_min, 2);
    REFUSED(events_max, 65537);
#undef REFUSED
}
