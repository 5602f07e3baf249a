/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order over buffers without after[]: read after write, write after read, write after write.
 * Functions on an executor that the test runs by hand stand for work that takes as long as it
 * likes.
 */
#include "tests/support/play.h"

SCENE_SUITE(hazards);

#define BUFFERS "buffer b 100 of 1; buffer other 100 of 2 on 1;"

/* Two functions that name the buffer so, the second of which waits for the first or does not. */
static void assert_order(const char *first, const char *second, int posted)
{
    play(BUFFERS "one = call by hand %s b; two = call by hand %s b; posted %d;"
                 "run; expect one OK; expect two PENDING; posted 1; run; expect two OK",
         first, second, posted);
}

Test(hazards, a_read_comes_after_the_write)
{
    assert_order("writes", "reads", 1);
}

Test(hazards, a_write_comes_after_the_read)
{
    assert_order("reads", "writes", 1);
}

Test(hazards, a_write_comes_after_the_write)
{
    assert_order("writes", "writes", 1);
}

Test(hazards, reads_go_together)
{
    assert_order("reads", "reads", 2);
}

Test(hazards, a_read_write_comes_after_a_read)
{
    assert_order("reads", "changes", 1);
}

Test(hazards, a_read_comes_after_a_read_write)
{
    assert_order("changes", "reads", 1);
}

Test(hazards, read_writes_come_one_after_another)
{
    assert_order("changes", "changes", 1);
}

Test(hazards, copies_form_a_chain_by_their_buffers)
{
    play(BUFFERS "buffer last 100 of 3 on 2; promise p; first = copy other <- b after p;"
                 "second = copy last <- other; expect second PENDING; bytes last 3; keep p;"
                 "expect first second OK; bytes last 1");
}

Test(hazards, a_copy_does_not_overwrite_what_is_still_read)
{
    play(BUFFERS "reader = call by hand reads b; c = copy b <- other; settle; bytes b 1;"
                 "expect c PENDING; run; expect reader c OK; bytes b 2");
}

Test(hazards, a_write_waits_for_each_of_many_readers)
{
    play(BUFFERS);
    for (int i = 0; i < 20; i++)
        play("r%d = call by hand reads b[%d:%d]", i, i, 100 - i);
    play("writer = call by hand writes b; posted 20");
    for (int i = 0; i < 20; i++)
        play("expect writer PENDING; run; release r%d", i);
    play("posted 1; run; expect writer OK"); /* after the last */
}

Test(hazards, disjoint_slices_are_independent)
{
    play(BUFFERS);
    for (int i = 0; i < 100; i++)
        play("call by hand %s b[%d:%d]", i % 2 == 0 ? "writes" : "changes", i, i + 1);
    play("posted 100; whole = call by hand reads b; posted 100");
    for (int i = 0; i < 100; i++)
        manual_run_one(by_hand());
    play("posted 1; run; expect whole OK");
}

Test(hazards, ten_thousand_slices_outstanding_are_independent)
{
    enum { SLICES = 10000 };
    static ferry_future *copies[SLICES];
    play("buffer src 80000 of 5; buffer dst 80000 on 1; promise p; promise one");
    ferry_buffer *src = the_buffer("src"), *dst = the_buffer("dst");
    for (size_t i = 0; i < SLICES; i++)
        copies[i] = own(copy_after_promise(scene(), span_of(dst, i * 8, 8), span_of(src, i * 8, 8),
                                           the_promise(i == SLICES / 2 ? "one" : "p")));
    play("keep one; settle");
    for (size_t i = 0; i < SLICES; i++)
        ASSERT_STATUS(ferry_future_poll(copies[i]), i == SLICES / 2 ? FERRY_OK : FERRY_PENDING);
    play("keep p; settle");
    for (size_t i = 0; i < SLICES; i++)
        EXPECT_NOW(copies[i], OK);
    play("bytes dst 5");
}

/* Every way in which [20, 60) and another range can lie. */
Test(hazards, partial_overlaps_are_ordered_and_neighbours_are_not)
{
    static const struct {
        int begin, end, posted;
    } ranges[] = {{0, 10, 2},  {0, 20, 2},   {0, 21, 1},  {0, 60, 1},  {0, 100, 1}, {20, 30, 1},
                  {20, 60, 1}, {20, 70, 1},  {30, 40, 1}, {30, 60, 1}, {59, 60, 1}, {59, 61, 1},
                  {60, 61, 2}, {60, 100, 2}, {19, 20, 2}, {19, 21, 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (int k = 0; k < 2; k++) {
            play(BUFFERS "first = call by hand %s b[20:60]; second = call by hand %s b[%d:%d];"
                         "posted %d; run 2; expect first second OK",
                 k == 0 ? "writes" : "reads", k == 0 ? "reads" : "writes", ranges[i].begin,
                 ranges[i].end, ranges[i].posted);
            scene_end();
        }
    }
}

Test(hazards, a_middle_write_leaves_both_ends_to_the_first_writer)
{
    play(BUFFERS "whole = call by hand writes b; middle = call by hand writes b[40:60];"
                 "left = call by hand reads b[0:10]; right = call by hand reads b[90:100];"
                 "inner = call by hand reads b[45:55]; run; expect whole OK;"
                 "posted 3; run 3; expect middle left right OK; expect inner PENDING;"
                 "run; expect inner OK");
}

Test(hazards, one_operation_may_name_overlapping_spans)
{
    play(BUFFERS "before = call by hand reads b;"
                 "n = nop reads b[0:60] writes b[40:100] changes b[50:55] reads b;"
                 "after = call by hand reads b[70:80]; expect n PENDING; posted 1;"
                 "run; expect n OK; run; expect before after OK");
}

Test(hazards, no_bytes_wait_for_nobody)
{
    play(BUFFERS "writer = call by hand writes b; settle; copy b[50:50] <- other[0:0]; now it OK;"
                 "c = call by hand writes b[100:100]; posted 2; run 2; expect c writer OK");
}

Test(hazards, a_definition_is_waited_for)
{
    play(BUFFERS "promise p; define b[0:50] by p; reader = call by hand reads b[0:10];"
                 "elsewhere = call by hand reads b[50:60]; posted 1; keep p; posted 2; run 2;"
                 "expect reader elsewhere OK");
}

Test(hazards, cancelling_a_reader_does_not_fail_the_next_writer)
{
    play(BUFFERS "promise p; reader = copy other <- b after p; writer = call by hand writes b;"
                 "posted 0; cancel reader; expect reader CANCELLED; posted 1; run;"
                 "expect writer OK; keep p");
}

/* One writes, or has and is read; the second, behind it, is cancelled; the third is listed behind
 * the second alone. */
static void cancelled_middle_writer(const char *reader)
{
    play(BUFFERS "first = call by hand writes b; settle; %s;"
                 "second = call by hand writes b; third = call by hand writes b; q = quiet second;"
                 "cancel second; expect second CANCELLED; expect q OK;"
                 "posted 1; run; posted 1; run; expect third first OK",
         reader);
}

Test(hazards, a_cancelled_middle_writer_does_not_let_the_next_pass_a_writer)
{
    cancelled_middle_writer("");
}

Test(hazards, a_cancelled_middle_writer_does_not_let_the_next_pass_a_reader)
{
    cancelled_middle_writer("run; reader = call by hand reads b[20:30]; settle");
}

Test(hazards, memory_wrapped_and_released_early_is_used_to_the_end)
{
    play("buffer src 64 of 9; buffer dst 64 on 1; buffer result 64 on 2; promise p;"
         "first = copy dst <- src after p; second = copy result <- dst; release src dst; settle;"
         "keep p; expect first second OK; bytes result 9");
}
