/* SPDX-License-Identifier: Apache-2.0 */
/* Windows, gets and puts: several engines of one process. */
#include "tests/support/dump_test.h"
#include "tests/support/member_test.h"
#include "tests/support/no_reading.h"
#include "tests/support/place.h"

#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(windows, .init = need_channels);

enum { SIZE = 1 << 20 };

/* The scene's buffers end before the windows' handles are given back: those are the case's. */
static ferry_window *opened(size_t owner, ferry_span span, const char *name,
                            ferry_window_rights rights)
{
    ferry_window *window = NULL;
    AWAIT(ferry_window_open(members[owner].group, span, name, rights, &window), OK);
    cr_assert_not_null(window);
    return window;
}

static ferry_window *found(size_t by, ferry_rank owner, const char *name)
{
    ferry_window *window = NULL;
    AWAIT(ferry_window_find(members[by].group, owner, name, 0, &window), OK);
    cr_assert_not_null(window);
    return window;
}

static ferry_promise *new_promise(ferry_engine *engine)
{
    ferry_promise *promise = NULL;
    ASSERT_STATUS(ferry_promise_create(engine, &promise), FERRY_OK);
    return own(promise);
}

static ferry_window_info info_of(const ferry_window *window)
{
    ferry_window_info info = FERRY_WINDOW_INFO_INIT;
    ASSERT_STATUS(ferry_window_describe(window, &info), FERRY_OK);
    return info;
}

static void close_window(ferry_window *window)
{
    AWAIT(ferry_window_close(window), OK);
    cr_assert_eq(info_of(window).state, FERRY_WINDOW_IS_CLOSED);
    ferry_window_release(window);
}

/* Fails with that status at this end, and with that cause at the other. */
static void expect_failure(ferry_future *future, ferry_status status, ferry_status cause,
                           const char *words)
{
    ASSERT_STATUS(await(ferry_future_retain(future)), status);
    const ferry_error *error = ferry_future_error(future);
    if (cause != FERRY_OK) {
        cr_assert_not_null(error->cause);
        error = error->cause;
        ASSERT_STATUS(error->status, cause);
    }
    cr_assert(strstr(error->message, words) != NULL, "%s", error->message);
    ferry_future_release(future);
}

static const size_t sizes[] = {1, 8, 33, 4096, 8193, 65536, SIZE};

static ferry_buffer *shared_buffer_of(size_t rank, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_alloc_kind(ferry_device_at(members[rank].te.engine, 0), size_bytes,
                                          FERRY_MEMORY_SHARED, &buffer),
                  FERRY_OK);
    return own(buffer);
}

static void of_many_sizes(ferry_loop_mode loop, bool is_shared)
{
    begin_members(2, loop);
    ferry_buffer *memory = is_shared ? shared_buffer_of(0, SIZE) : buffer_of(0, 0, SIZE, 7),
                 *local = buffer_of(1, 0, SIZE, 0);
    ferry_window *own = opened(0, ferry_buffer_span(memory), "all", FERRY_WINDOW_GET_PUT);
    ferry_window *window = found(1, 0, "all");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size_bytes = sizes[i], offset = SIZE - size_bytes;
        memset(ferry_buffer_data(local), 0, SIZE);
        memset(ferry_buffer_data(memory), 7, SIZE);
        AWAIT(ferry_get(window, offset, span_of(local, 0, size_bytes), NULL), OK);
        cr_assert(is_filled(local, 0, size_bytes, 7));
        cr_assert(is_filled(local, size_bytes, SIZE - size_bytes, 0));
        memset(ferry_buffer_data(local), 9, SIZE);
        AWAIT(ferry_put(window, offset, span_of(local, 0, size_bytes), NULL), OK);
        cr_assert(is_filled(memory, offset, size_bytes, 9));
        cr_assert(is_filled(memory, 0, offset, 7));
    }
    close_window(window);
    close_window(own);
}

Test(windows, take_and_give_bytes_of_any_size)
{
    of_many_sizes(FERRY_LOOP_THREAD, false);
}

Test(windows, do_so_in_embedded_engines)
{
    of_many_sizes(FERRY_LOOP_EMBEDDED, false);
}

Test(windows, do_so_in_shared_memory)
{
    of_many_sizes(FERRY_LOOP_THREAD, true);
}

Test(windows, do_so_in_shared_memory_of_embedded_engines)
{
    of_many_sizes(FERRY_LOOP_EMBEDDED, true);
}

/* Nobody may read the other's memory: a get is asked for. */
Test(windows, do_so_where_no_process_reads_another)
{
    if (!forbid_reading())
        cr_skip_test("no seccomp");
    of_many_sizes(FERRY_LOOP_THREAD, false);
}

/* There gets out of shared memory read nothing that the kernel would forbid. */
Test(windows, do_so_in_shared_memory_where_no_process_reads_another)
{
    if (!forbid_reading())
        cr_skip_test("no seccomp");
    of_many_sizes(FERRY_LOOP_THREAD, true);
}

/* ---- finding ---- */

Test(windows, are_found_before_they_are_open)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *local = buffer_of(1, 0, 64, 0);
    ferry_window *early[2];
    ferry_future *finds[2];
    for (size_t i = 0; i < 2; i++)
        finds[i] = ferry_window_find(members[i + 1].group, 0, "kv/layer.0", 0, &early[i]);
    cr_assert_eq(info_of(early[0]).state, FERRY_WINDOW_PENDING);

    /* It waits for the find alone. */
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &finds[0];
    options.after_count = 1;
    ferry_future *get = ferry_get(early[0], 0, ferry_buffer_span(local), &options);
    ASSERT_STATUS(ferry_future_poll(get), FERRY_PENDING);
    ferry_window *own = opened(0, ferry_buffer_span(memory), "kv/layer.0", FERRY_WINDOW_GET);
    AWAIT(get, OK);
    cr_assert(is_filled(local, 0, 64, 7));
    for (size_t i = 0; i < 2; i++) {
        AWAIT(finds[i], OK);
        ferry_window_info info = info_of(early[i]);
        cr_assert_eq(info.state, FERRY_WINDOW_IS_OPEN);
        cr_assert_eq(info.size_bytes, 64);
        cr_assert_eq(info.owner, 0);
        cr_assert_eq(info.rights, FERRY_WINDOW_GET);
        cr_assert_str_eq(info.name, "kv/layer.0");
        ferry_window_release(early[i]);
    }
    close_window(own);
}

Test(windows, are_sought_no_longer_than_wanted)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_window *window[3], *late;
    AWAIT(ferry_window_find(members[1].group, 0, "none", test_in_ns(1000000), &window[0]),
          E_DEADLINE);
    ferry_future *find = ferry_window_find(members[1].group, 0, "none", 0, &window[1]);
    ferry_future_cancel(find);
    AWAIT(find, E_CANCELLED);
    find = ferry_window_find(members[1].group, 0, "none", 0, &window[2]);
    AWAIT(ferry_window_close(window[2]), OK);
    AWAIT(find, E_NOT_FOUND);

    /* What was sought before has nothing of what is opened now. */
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *local = buffer_of(1, 0, 64, 0);
    ferry_window *own = opened(0, ferry_buffer_span(memory), "none", FERRY_WINDOW_GET);
    late = found(1, 0, "none");
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(info_of(window[i]).state, FERRY_WINDOW_IS_CLOSED);
        AWAIT(ferry_get(window[i], 0, ferry_buffer_span(local), NULL), E_NOT_FOUND);
        ferry_window_release(window[i]);
    }
    AWAIT(ferry_get(late, 0, ferry_buffer_span(local), NULL), OK);
    ferry_window_release(late);
    close_window(own);
}

Test(windows, have_names_of_their_owner)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_buffer *memory[2] = {buffer_of(0, 0, 64, 3), buffer_of(1, 0, 64, 4)};
    ferry_buffer *local = buffer_of(2, 0, 64, 0);
    ferry_window *own[2], *second, *window[2];
    for (size_t i = 0; i < 2; i++)
        own[i] = opened(i, ferry_buffer_span(memory[i]), "same", FERRY_WINDOW_GET);
    AWAIT(ferry_window_open(members[0].group, ferry_buffer_span(memory[0]), "same",
                            FERRY_WINDOW_GET, &second),
          E_CHANGED);
    cr_assert_eq(info_of(second).state, FERRY_WINDOW_IS_CLOSED);
    ferry_window_release(second);
    for (size_t i = 0; i < 2; i++) {
        window[i] = found(2, (ferry_rank)i, "same");
        AWAIT(ferry_get(window[i], 0, ferry_buffer_span(local), NULL), OK);
        cr_assert(is_filled(local, 0, 64, 3 + (int)i));
        ferry_window_release(window[i]);
    }
    close_window(own[0]);
    own[0] = opened(0, ferry_buffer_span(memory[0]), "same", FERRY_WINDOW_GET); /* free again */
    close_window(own[0]);
    close_window(own[1]);
}

/* ---- rights and bounds ---- */

Test(windows, allow_what_their_rights_say)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *local = buffer_of(1, 0, 64, 8);
    ferry_span span = ferry_buffer_span(local);
    ferry_window *early, *gets = opened(0, ferry_buffer_span(memory), "gets", FERRY_WINDOW_GET);
    ferry_window *puts = opened(0, ferry_buffer_span(memory), "puts", FERRY_WINDOW_PUT);
    ferry_window *window[] = {found(1, 0, "gets"), found(1, 0, "puts")};
    expect_failure(ferry_put(window[0], 0, span, NULL), FERRY_E_INVALID, FERRY_OK, "rights");
    expect_failure(ferry_get(window[1], 0, span, NULL), FERRY_E_INVALID, FERRY_OK, "rights");
    cr_assert(is_filled(memory, 0, 64, 7));
    AWAIT(ferry_put(window[1], 0, span, NULL), OK);
    cr_assert(is_filled(memory, 0, 64, 8));

    ferry_future *find = ferry_window_find(members[1].group, 0, "gets", 0, &early);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &find;
    options.after_count = 1;
    expect_failure(ferry_put(early, 0, span, &options), FERRY_E_INVALID, FERRY_OK, "rights");
    AWAIT(find, OK);
    ferry_window_release(early);
    for (size_t i = 0; i < 2; i++)
        ferry_window_release(window[i]);
    close_window(gets);
    close_window(puts);
}

Test(windows, end_where_their_span_ends)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 256, 7), *local = buffer_of(1, 0, 128, 0);
    ferry_window *early;
    ferry_window *own = opened(0, span_of(memory, 64, 128), "part", FERRY_WINDOW_GET_PUT);
    ferry_window *window = found(1, 0, "part");
    static const uint64_t wrong[] = {1, 127, 129, UINT64_C(1) << 33, UINT64_MAX - 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ferry_span span = ferry_buffer_span(local);
        expect_failure(ferry_get(window, wrong[i], span, NULL), FERRY_E_INVALID, FERRY_OK, "end");
        expect_failure(ferry_put(window, wrong[i], span, NULL), FERRY_E_INVALID, FERRY_OK, "end");
    }
    ferry_future *find = ferry_window_find(members[1].group, 0, "part", 0, &early);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &find;
    options.after_count = 1;
    expect_failure(ferry_get(early, 1, ferry_buffer_span(local), &options), FERRY_E_INVALID,
                   FERRY_OK, "end");
    AWAIT(find, OK);
    AWAIT(ferry_get(window, 0, ferry_buffer_span(local), NULL), OK); /* else it stays poisoned */
    memset(ferry_buffer_data(local), 0, 128);
    AWAIT(ferry_put(window, 0, ferry_buffer_span(local), NULL), OK);
    cr_assert(is_filled(memory, 0, 64, 7) && is_filled(memory, 64, 128, 0) &&
              is_filled(memory, 192, 64, 7));
    AWAIT(ferry_get(window, 128, span_of(local, 0, 0), NULL), OK); /* nothing, at its end */
    AWAIT(ferry_put(window, 128, (ferry_span){0}, NULL), OK);
    ferry_window_release(early);
    ferry_window_release(window);
    close_window(own);
}

Test(windows, refuse_what_makes_no_sense)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_group *group = members[0].group;
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *other = buffer_of(1, 0, 64, 0);
    ferry_span span = ferry_buffer_span(memory);
    ferry_window *window = (ferry_window *)(uintptr_t)1;
    AWAIT(ferry_window_open(NULL, span, "a", FERRY_WINDOW_GET, &window), E_INVALID);
    cr_assert_null(window);
    AWAIT(ferry_window_open(group, span, "a", FERRY_WINDOW_GET, NULL), E_INVALID);
    AWAIT(ferry_window_open(group, span, NULL, FERRY_WINDOW_GET, &window), E_INVALID);
    AWAIT(ferry_window_open(group, span, "a//b", FERRY_WINDOW_GET, &window), E_INVALID);
    AWAIT(ferry_window_open(group, span, "a", (ferry_window_rights)0, &window), E_INVALID);
    AWAIT(ferry_window_open(group, span, "a", (ferry_window_rights)4, &window), E_INVALID);
    AWAIT(ferry_window_open(group, span_of(memory, 0, 0), "a", FERRY_WINDOW_GET, &window),
          E_INVALID);
    AWAIT(ferry_window_open(group, span_of(memory, 1, 64), "a", FERRY_WINDOW_GET, &window),
          E_INVALID);
    AWAIT(ferry_window_open(group, ferry_buffer_span(other), "a", FERRY_WINDOW_GET, &window),
          E_INVALID);
    AWAIT(ferry_window_find(group, 0, "a", 0, &window), E_INVALID);
    AWAIT(ferry_window_find(group, 2, "a", 0, &window), E_NOT_FOUND);
    AWAIT(ferry_window_find(group, 1, "", 0, &window), E_INVALID);
    AWAIT(ferry_window_find(group, 1, "a", -1, &window), E_DEADLINE);
    AWAIT(ferry_window_find(group, 1, "a", 0, NULL), E_INVALID);
    AWAIT(ferry_window_close(NULL), E_INVALID);
    AWAIT(ferry_get(NULL, 0, span, NULL), E_INVALID);
    ferry_window_release(NULL);
    ASSERT_STATUS(ferry_window_describe(NULL, NULL), FERRY_E_INVALID);
    ferry_window *own = opened(0, span, "a", FERRY_WINDOW_GET_PUT);
    AWAIT(ferry_get(own, 0, span, NULL), E_INVALID);
    AWAIT(ferry_put(own, 0, span, NULL), E_INVALID);
    ferry_window *theirs = found(1, 0, "a");
    AWAIT(ferry_get(theirs, 0, span, NULL), E_INVALID); /* a span of the other engine */
    ferry_window_release(theirs);
    AWAIT(ferry_window_close(own), OK);
    AWAIT(ferry_window_close(own), E_INVALID);
    ferry_window_release(own);
}

/* ---- as operations ---- */

/* Whatever becomes of a put, its owner's engine writes nothing more once the put is quiet. */
Test(windows, are_written_no_more_when_a_cancelled_put_is_quiet)
{
    enum { ROUNDS = 1000, LONGEST = 1 << 15 };
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, LONGEST, 0), *local = buffer_of(1, 0, LONGEST, 2);
    ferry_buffer *seen = buffer_of(1, 0, 1, 0);
    ferry_window *theirs = opened(0, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET_PUT);
    ferry_window *window = found(1, 0, "w");
    for (int round = 0, cancelled = 0; round < ROUNDS || cancelled == 0; round++) {
        size_t size_bytes = round % 3 == 0 ? LONGEST : round % 3 == 1 ? 9000 : 100;
        ferry_future *put = ferry_put(window, 0, span_of(local, 0, size_bytes), NULL);
        for (int i = round % 7; i > 0; i--) /* so that it is further on */
            AWAIT(ferry_get(window, LONGEST - 1, ferry_buffer_span(seen), NULL), OK);
        ferry_future_cancel(put);
        ferry_status status = await(ferry_future_retain(put));
        AWAIT(ferry_future_quiet(put), OK);
        ferry_future_release(put);
        if (status == FERRY_OK)
            continue;
        cancelled++;
        memset(ferry_buffer_data(memory), 3, LONGEST);
        AWAIT(ferry_put(window, LONGEST - 1, span_of(local, 0, 1), NULL), OK);
        cr_assert(is_filled(memory, 0, LONGEST - 1, 3), "round %d", round);
    }
    close_window(window);
    close_window(theirs);
}

Test(windows, order_local_spans_alone)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *local = buffer_of(1, 0, 64, 0);
    ferry_buffer *next = buffer_of(1, 0, 64, 0);
    ferry_window *theirs = opened(0, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET_PUT);
    ferry_window *window = found(1, 0, "w");
    ferry_promise *promise = new_promise(members[1].te.engine);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(local), own(ferry_promise_future(promise))),
                  FERRY_OK);
    ferry_future *put = ferry_put(window, 0, ferry_buffer_span(local), NULL);
    ferry_future *get = ferry_get(window, 0, ferry_buffer_span(local), NULL);
    ferry_future *copy =
        ferry_copy(members[1].te.engine, ferry_buffer_span(next), ferry_buffer_span(local), NULL);
    ASSERT_STATUS(ferry_future_poll(put), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(copy), FERRY_PENDING);
    memset(ferry_buffer_data(local), 5, 64);
    ferry_promise_resolve(promise, FERRY_OK, NULL);
    AWAIT(put, OK);
    AWAIT(get, OK);
    AWAIT(copy, OK);
    cr_assert(is_filled(memory, 0, 64, 5) && is_filled(next, 0, 64, 5));

    ferry_op ops[] = {
        {.kind = FERRY_OP_PUT, .window = window, .src = span_of(next, 0, 32)},
        {.kind = FERRY_OP_GET, .window = window, .window_offset = 32, .dst = span_of(local, 0, 8)},
        {.kind = FERRY_OP_GET, .window = theirs, .dst = span_of(local, 8, 8)},
    };
    ferry_future *each[3];
    AWAIT(ferry_batch(members[1].te.engine, ops, sizeof ops[0], 3, each, NULL), E_DEPENDENCY);
    AWAIT(each[0], OK);
    AWAIT(each[1], OK);
    AWAIT(each[2], E_INVALID); /* another engine's */
    ferry_window_release(window);
    close_window(theirs);
}

/* What did not begin writes nothing, and poisons its span. */
Test(windows, poison_what_they_could_not_get)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_engine *engine = members[1].te.engine;
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *local = buffer_of(1, 0, 64, 1);
    ferry_buffer *next = buffer_of(1, 0, 64, 0);
    ferry_window *theirs = opened(0, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET);
    ferry_window *window = found(1, 0, "w");
    ferry_promise *promise = new_promise(engine);
    ferry_future *start = own(ferry_promise_future(promise));
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &start;
    options.after_count = 1;
    ferry_future *get = ferry_get(window, 0, ferry_buffer_span(local), &options);
    ferry_future *cancelled = ferry_get(window, 0, ferry_buffer_span(next), &options);
    ferry_future_cancel(cancelled);
    AWAIT(cancelled, E_CANCELLED);
    close_window(theirs);
    ferry_promise_resolve(promise, FERRY_OK, NULL);
    expect_failure(get, FERRY_E_NOT_FOUND, FERRY_OK, "owner has closed it");
    cr_assert(is_filled(local, 0, 64, 1));
    AWAIT(ferry_copy(engine, ferry_buffer_span(next), ferry_buffer_span(local), NULL),
          E_DEPENDENCY);
    cr_assert_eq(info_of(window).state, FERRY_WINDOW_IS_CLOSED);
    AWAIT(ferry_get(window, 0, ferry_buffer_span(local), NULL), E_NOT_FOUND);
    ferry_window_release(window);
}

/* ---- the end ---- */

/* Its owner waits for each member that has found it. */
Test(windows, are_closed_when_all_have_left)
{
    begin_members(4, FERRY_LOOP_EMBEDDED);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7);
    ferry_window *theirs = opened(0, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET);
    ferry_window *window[3];
    for (size_t i = 0; i < 3; i++)
        window[i] = found(i + 1, 0, "w");
    AWAIT(ferry_window_close(window[0]), OK); /* by itself */
    ferry_future *closed = ferry_window_close(theirs);
    for (int i = 0; i < 200; i++)
        test_members_move(members, 3); /* the last does nothing */
    ASSERT_STATUS(ferry_future_poll(closed), FERRY_PENDING);
    cr_assert_eq(info_of(window[1]).state, FERRY_WINDOW_IS_CLOSED);
    cr_assert_eq(info_of(window[2]).state, FERRY_WINDOW_IS_OPEN);
    AWAIT(closed, OK);
    for (size_t i = 0; i < 3; i++)
        ferry_window_release(window[i]);
    ferry_window_release(theirs);
}

/* A handle that is given back closes the window, after what was asked of it before. */
Test(windows, are_closed_by_their_release)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7);
    ferry_window *theirs, *window;
    ferry_future *open = ferry_window_open(members[0].group, ferry_buffer_span(memory), "w",
                                           FERRY_WINDOW_GET, &theirs);
    ferry_window_release(theirs);
    ASSERT_STATUS(await(open), FERRY_OK);
    ferry_future *find = ferry_window_find(members[1].group, 0, "w", 0, &window);
    ferry_window_release(window);
    ferry_status status = await(find); /* it comes after or before the owner's end of it */
    cr_assert(status == FERRY_OK || status == FERRY_E_NOT_FOUND, "%d", status);
    close_window(opened(0, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET));
}

/* The loop may hear of the handle's end before the operation that was submitted ahead of it. */
Test(windows, end_their_operations_when_they_are_released)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7);
    for (int i = 0; i < 200; i++) {
        ferry_window *theirs, *window;
        ferry_future *find = ferry_window_find(members[1].group, 0, "none", 0, &window);
        ferry_window_release(window);
        ferry_future *open = ferry_window_open(members[0].group, ferry_buffer_span(memory), "w",
                                               FERRY_WINDOW_GET, &theirs);
        ferry_window_release(theirs);
        AWAIT(find, E_NOT_FOUND);
        AWAIT(open, OK);
    }
}

/* The same, and something else fails the operation before the loop has begun it. */
Test(windows, are_not_begun_by_operations_that_have_failed_after_their_release)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7);
    for (int i = 0; i < 2000; i++) {
        ferry_window *theirs, *window;
        ferry_future *find = ferry_window_find(members[1].group, 0, "none", 0, &window);
        ferry_window_release(window);
        ferry_future_cancel(find);
        ferry_future *open = ferry_window_open(members[0].group, ferry_buffer_span(memory), "w",
                                               FERRY_WINDOW_GET, &theirs);
        ferry_window_release(theirs);
        ferry_future_cancel(open);
        (void)ferry_future_wait(find, -1);
        (void)ferry_future_wait(open, -1);
        ferry_future_release(find);
        ferry_future_release(open);
    }
}

Test(windows, are_lost_with_their_owner)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, 64, 7), *local = buffer_of(1, 0, 64, 0);
    ferry_window *theirs = opened(0, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET);
    ferry_window *window = found(1, 0, "w"), *never;
    ferry_future *find = ferry_window_find(members[1].group, 0, "never", 0, &never);
    AWAIT(ferry_group_leave(members[0].group), OK);
    AWAIT(find, E_DEAD);
    cr_assert_eq(info_of(theirs).state, FERRY_WINDOW_IS_CLOSED);
    ferry_future *get = ferry_get(window, 0, ferry_buffer_span(local), NULL);
    ASSERT_STATUS(await(ferry_future_retain(get)), FERRY_E_DEAD);
    cr_assert_eq(ferry_future_error(get)->rank, 0);
    cr_assert_eq(ferry_future_error(get)->op, ferry_future_id(get));
    ferry_future_release(get);
    ferry_window_release(window);
    AWAIT(ferry_window_find(members[1].group, 0, "w", 0, &window), E_DEAD);
    ferry_window_release(window);
    AWAIT(ferry_window_open(members[0].group, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET,
                            &window),
          E_DEAD);
    ferry_window_release(never);
    close_window(theirs);
}

/* ---- without memory ---- */

/* Whatever fails, all of it ends. Returns whether nothing has failed. */
static bool use_without(size_t who, uint64_t nth, bool is_for_ever)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, SIZE, 7), *local = buffer_of(1, 0, SIZE, 8);
    ferry_window *theirs = NULL, *window = NULL;
    ferry_window *first = opened(0, ferry_buffer_span(memory), "first", FERRY_WINDOW_GET);
    ferry_window_release(found(1, 0, "first")); /* there is a connection: it may wait for long */
    ferry_window_release(first);
    failing_allocator *allocator = &members[who].te.memory;
    uint64_t before = failing_allocator_failures(allocator);
    failing_allocator_arm(allocator, nth, is_for_ever);
    ferry_status open = await(ferry_window_open(members[0].group, ferry_buffer_span(memory), "w",
                                                FERRY_WINDOW_GET_PUT, &theirs));
    ferry_future *find =
        open == FERRY_OK ? ferry_window_find(members[1].group, 0, "w", 0, &window) : NULL;
    if (find != NULL && await(find) == FERRY_OK) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            ferry_span span = span_of(local, 0, sizes[i]);
            ferry_future *put = ferry_put(window, 0, span, NULL);
            ferry_future *get = ferry_get(window, 0, span, NULL);
            (void)await(put);
            bool has_got = await(get) == FERRY_OK;
            const char *bytes = ferry_buffer_data(local);
            for (size_t k = 0; has_got && k < sizes[i]; k++) /* of a put that failed, some */
                cr_assert(bytes[k] == 7 || bytes[k] == 8);
        }
    }
    if (theirs != NULL)
        (void)await(ferry_window_close(theirs));
    failing_allocator_arm(allocator, 0, false);
    ferry_window_release(window);
    ferry_window_release(theirs);
    bool is_whole = failing_allocator_failures(allocator) == before;
    end_members();
    return is_whole;
}

static void sweep(bool is_for_ever)
{
    for (size_t who = 0; who < 2; who++) {
        uint64_t nth = 1;
        while (!use_without(who, nth, is_for_ever))
            cr_assert_lt(++nth, 2000);
        cr_assert_gt(nth, 1);
    }
}

Test(windows, end_without_memory_once)
{
    sweep(false);
}

Test(windows, end_without_memory_for_ever)
{
    sweep(true);
}
