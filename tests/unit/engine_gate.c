/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that are stopped midway: edges that take effect at issue, resolved against quiet, and
 * cancels and deadlines of what stands in a stream.
 */
#include "tests/unit/inner_play.h"

INNER_SUITE(engine_gate);

enum { SMALL = 8192 /* above the inline limit */, CHUNK = 4 << 20, LARGE = 2 * CHUNK + 100 };

/* ---- at issue ---- */

Test(engine_gate, a_chain_over_four_devices_is_queued_at_once_and_needs_no_progress)
{
    play("buffer a 8192 of 1; buffer b 8192 of 2; buffer c 8192 of 3 on 1;"
         "buffer d 8192 of 4 on 2; buffer e 8192 of 5 on 3; hold b;"
         "c0 = copy b <- a; c1 = copy c <- b; c2 = copy d <- c; c3 = copy e <- d;"
         "i0 = issued c0; i1 = issued c1; i2 = issued c2; i3 = issued c3;"
         "now i0 i1 i2 i3 OK; now c0 c1 c2 c3 PENDING;"
         "await held; begun 1;" /* the others wait for it on their devices */
         "go; await e; bytes b c d e 1; now c3 PENDING; wait c0 c1 c2 c3 OK");
}

Test(engine_gate, double_buffering_is_queued_at_once)
{
    enum { BATCHES = 8 };
    play("buffer src 65536; buffer s0 8192 on 1; buffer s1 8192 on 1; buffer dst 65536 on 2;"
         "hold s0");
    for (int i = 0; i < BATCHES; i++)
        play("fill src[%d:%d] %d; in%d = copy s%d <- src[%d:%d]; out%d = copy dst[%d:%d] <- s%d;"
             "issued%d = issued in%d; issued out%d; now issued%d it OK",
             i * SMALL, (i + 1) * SMALL, i + 1, i, i % 2, i * SMALL, (i + 1) * SMALL, i, i * SMALL,
             (i + 1) * SMALL, i % 2, i, i, i, i);
    play("go; await dst[57344:65536]");
    for (int i = 0; i < BATCHES; i++)
        play("bytes dst[%d:%d] %d", i * SMALL, (i + 1) * SMALL, i + 1);
    for (int i = 0; i < BATCHES; i++)
        play("wait in%d out%d OK", i, i);
}

Test(engine_gate, a_copy_that_ran_ahead_fails_with_what_it_overtook)
{
    play("buffer a 8192 of 1; buffer b 8192 of 2 on 1; buffer c 8192 of 3 on 2; hold b;"
         "first = copy b <- a; second = copy c <- b; await held; cancel first; settle;"
         "now second DEPENDENCY; cause second CANCELLED of first;"
         "end = quiet second; now end PENDING;"
         "reader = call failing reads c[0:10]; settle; now reader DEPENDENCY;"
         "go; wait end OK; bytes c 3"); /* it was skipped */
}

/* ---- resolved is not quiet ---- */

/* How an operation is stopped: with an option, by a step, to such a status. */
typedef struct stop {
    const char *option, *step, *status;
} stop;

static const stop by_cancel = {"", "cancel stopped", "CANCELLED"};
static const stop by_deadline = {"deadline 1000", "step 1000", "DEADLINE"};

static void stopped_midway(const stop *by)
{
    play("buffer src %d of 1; buffer dst %d of 2 on 1; buffer other 8192 of 3 on 2;"
         "hold dst at %d; stopped = copy dst <- src %s; end = quiet stopped; await held;"
         "%s; settle; now stopped %s; now end PENDING",
         LARGE, LARGE, CHUNK, by->option, by->step, by->status);
    /* A writer of what it writes, one of what it reads, and a copy over what it writes. */
    play("w0 = call by hand writes dst[%d:%d]; w1 = call by hand writes src[%d:%d];"
         "w2 = copy dst[%d:%d] <- other; posted 0; begun 1; now w0 w1 w2 PENDING",
         LARGE - 10, LARGE, LARGE - 10, LARGE, CHUNK, CHUNK + SMALL);
    play("go; wait end w2 OK; posted 2; run 2; now w0 w1 w2 OK; now stopped %s;"
         "bytes dst[0:%d] 1;" /* what was copied before */
         "bytes dst[%d:%d] 3;"
         "bytes dst[%d:%d] 2", /* and nothing after */
         by->status, CHUNK, CHUNK, CHUNK + SMALL, CHUNK + SMALL, LARGE);
}

Test(engine_gate, a_copy_cancelled_midway_is_resolved_and_not_quiet)
{
    stopped_midway(&by_cancel);
}

Test(engine_gate, a_copy_late_midway_is_resolved_and_not_quiet)
{
    stopped_midway(&by_deadline);
}

#define HELD "buffer src 8192 of 1; buffer dst 8192 of 2 on 1; hold dst; held = copy dst <- src;"

Test(engine_gate, a_drain_waits_for_a_cancelled_copy_to_be_quiet)
{
    play(HELD "all = drain; await held; cancel held; settle; now held CANCELLED;"
              "now all PENDING; go; wait all OK");
}

static int frees;

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)memory, (void)size_bytes;
    frees++;
}

Test(engine_gate, released_memory_is_not_freed_under_a_copy)
{
    static char memory[SMALL];
    ferry_buffer *dst = NULL;
    ferry_device *device = ferry_device_at(engine(), 1);
    ASSERT_STATUS(ferry_buffer_wrap(device, memory, SMALL, count_free, NULL, &dst), FERRY_OK);
    cr_assert(scene_own_as(SCENE_BUFFER, dst, "dst"));
    play("buffer src 8192 of 1; hold dst; held = copy dst <- src; release src dst;"
         "await held; cancel held; settle; now held CANCELLED");
    cr_assert_eq(frees, 0);
    play("end = quiet held; go; wait end OK; settle");
    cr_assert_eq(frees, 1);
}

/* ---- in a full stream ---- */

enum { COPIES = 300, ISSUED = 100, READY = 280 };

static void stopped_in_a_full_stream(const stop *by)
{
    play("buffer src 8192 of 1; buffer dst %d on 1; hold dst", COPIES * SMALL);
    for (int i = 0; i < COPIES; i++) {
        bool is_stopped = i == ISSUED || i == READY;
        play("c%d = copy dst[%d:%d] <- src %s", i, i * SMALL, (i + 1) * SMALL,
             is_stopped ? by->option : "");
    }
    play("await held");
    for (int i = 0; i < COPIES; i++)
        play("i%d = issued c%d; now i%d %s", i, i, i, i < FRY_STREAM_DEPTH ? "OK" : "PENDING");
    if (by == &by_cancel)
        play("cancel c%d; settle; cancel c%d; settle", ISSUED, READY);
    else
        play("%s; settle", by->step);
    play("q0 = quiet c%d; q1 = quiet c%d; now c%d c%d %s; now q0 PENDING; now q1 OK; go", ISSUED,
         READY, ISSUED, READY, by->status);
    for (int i = 0; i < COPIES; i++) {
        bool is_stopped = i == ISSUED || i == READY;
        play("wait c%d %s; bytes dst[%d:%d] %d", i, is_stopped ? by->status : "OK", i * SMALL,
             (i + 1) * SMALL, !is_stopped);
    }
    play("wait q0 OK");
}

Test(engine_gate, cancels_reach_what_stands_in_a_full_stream_and_behind_it)
{
    stopped_in_a_full_stream(&by_cancel);
}

Test(engine_gate, deadlines_reach_what_stands_in_a_full_stream_and_behind_it)
{
    stopped_in_a_full_stream(&by_deadline);
}

Test(engine_gate, a_cancel_after_the_last_byte_may_come_too_late)
{
    play("buffer src 8192 of 1; buffer dst 8192 of 2 on 1; c = copy dst <- src; wait c OK;"
         "cancel c; settle; now c OK; bytes dst 1");
}

/* ---- shutdown ---- */

static void shutdown_with_a_held_copy(ferry_loop_mode loop)
{
    scene_begin(loop);
    play(HELD "await held");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 1000000), FERRY_E_DEADLINE);
    cr_assert_gt(scene()->log_lines, 0);
    play("wait held SHUTDOWN; late = nop; now late SHUTDOWN; go");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_OK);
    play("bytes dst 2");
}

Test(engine_gate, shutdown_gives_up_on_a_held_copy_and_ends_once_it_goes_on)
{
    shutdown_with_a_held_copy(FERRY_LOOP_THREAD);
}

Test(engine_gate, shutdown_gives_up_on_a_held_copy_and_ends_once_it_goes_on_embedded)
{
    shutdown_with_a_held_copy(FERRY_LOOP_EMBEDDED);
}

static void *shut_down(void *arg)
{
    ferry_status status;
    while ((status = ferry_engine_shutdown(arg, -1)) == FERRY_E_BUSY)
        sched_yield();
    return status == FERRY_OK ? arg : NULL;
}

static void shutdown_by_two(ferry_loop_mode loop)
{
    scene_begin(loop);
    play(HELD "await held");
    pthread_t thread = begin_thread(shut_down, engine());
    ferry_status status;
    while ((status = ferry_engine_shutdown(engine(), 0)) != FERRY_E_BUSY) {
        ASSERT_STATUS(status, FERRY_E_DEADLINE);
        sched_yield();
    }
    play("go");
    cr_assert_eq(end_thread(thread), engine());
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_OK);
}

Test(engine_gate, a_second_shutdown_at_once_is_busy)
{
    shutdown_by_two(FERRY_LOOP_THREAD);
}

Test(engine_gate, a_second_shutdown_at_once_is_busy_embedded)
{
    shutdown_by_two(FERRY_LOOP_EMBEDDED);
}

/* ---- very many ---- */

/* It names one predecessor so often that a count of 16 bits would begin anew. */
static ferry_future *copy_behind_often(const char *named)
{
    enum { NAMED = 1 << 16 };
    static ferry_future *after[NAMED];
    for (size_t i = 0; i < NAMED; i++)
        after[i] = the_future("%s", named);
    ferry_op_options options = behind(after, NAMED);
    return own(ferry_copy(engine(), the_span("other"), the_span("src"), &options));
}

Test(engine_gate, a_copy_behind_a_copy_that_it_names_65536_times)
{
    play(HELD "buffer other 8192 on 1; await held");
    ferry_future *often = copy_behind_often("held");
    play("cancel held; settle; now held CANCELLED");
    ASSERT_STATUS(ferry_future_wait(often, 0), FERRY_E_DEPENDENCY);
    play("end = quiet held; go; wait end OK; hold dst; again = copy dst <- src; await held");
    often = copy_behind_often("again");
    play("go");
    WAIT(often, OK);
    play("now again OK");
}
