/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisoned spans: a span whose last writer failed stays so until it is wholly overwritten or
 * defined anew, and a reader fails the same way whether it was submitted before or after.
 */
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(poison);

#define BUFFERS "buffer b 100 of 1; buffer other 100 of 2 on 1;"
#define POISON                                                                                     \
    BUFFERS "promise never; bad = copy b[40:60] <- other[0:20] after never; cancel bad;"           \
            "expect bad CANCELLED;"

/* ---- the same before and after ---- */

/* A write of all bytes that fails, and five readers: two before, one between, two after. */
static void readers_agree(const char *deadline, const char *fail, const char *writes,
                          const char *cause)
{
    play(BUFFERS "promise held; write = copy b <- other after held %s;"
                 "r0 = nop reads b[10:20]; r1 = nop changes b[30:40]; settle; %s;"
                 "r2 = nop reads b[50:60]; settle;" /* the failure has not been noticed */
                 "r3 = nop changes b[70:80]; r4 = nop reads b[50:60];"
                 "expect write %s; expect r0 r1 r2 r3 r4 DEPENDENCY; cause r0 %s",
         deadline, fail, writes, cause);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(ferry_future_error(the_future("r%d", i))->cause,
                     ferry_future_error(the_future("r0"))->cause, "reader %d", i);
}

Test(poison, readers_before_and_after_a_cancelled_write_agree)
{
    readers_agree("", "cancel write", "CANCELLED", "CANCELLED of write");
}

Test(poison, readers_before_and_after_a_late_write_agree)
{
    readers_agree("deadline 100", "step 100", "DEADLINE", "DEADLINE of write");
}

Test(poison, readers_before_and_after_a_failed_write_agree)
{
    readers_agree("", "resolve held FAILED root", "DEPENDENCY", "FAILED of held");
}

Test(poison, readers_before_and_after_a_failed_function_agree)
{
    play(BUFFERS "write = call failing writes b; before = nop reads b[0:10]; settle;"
                 "after = nop reads b[0:10]; expect before after DEPENDENCY;"
                 "cause before FAILED of write");
    cr_assert_eq(ferry_future_error(the_future("before"))->cause,
                 ferry_future_error(the_future("after"))->cause);
}

Test(poison, a_copy_out_of_poison_fails_and_poisons_its_destination)
{
    play(POISON "buffer last 100 of 3 on 2; copy last <- b; expect it DEPENDENCY; bytes last 3;"
                "copy other[0:10] <- last[0:10]; expect it DEPENDENCY; cause it CANCELLED");
}

/* ---- healing ---- */

Test(poison, stays_within_its_span)
{
    play(POISON "healthy b[0:40]; healthy b[60:100];"
                "poisoned b[40:41]; poisoned b[59:60]; poisoned b[0:100]");
}

Test(poison, wholly_overwritten_heals)
{
    play(POISON "copy b[40:60] <- other[0:20]; expect it OK; healthy b");
}

Test(poison, partly_overwritten_stays_poisoned_in_the_rest)
{
    play(POISON "nop writes b[45:50]; expect it OK; healthy b[45:50];"
                "poisoned b[40:45]; poisoned b[50:60]; poisoned b[44:46];"
                "nop writes b[30:45]; expect it OK; nop writes b[50:70]; expect it OK; healthy b");
}

Test(poison, read_write_does_not_heal)
{
    play(POISON "nop changes b[40:60]; expect it DEPENDENCY; poisoned b[40:60]");
}

/* A function that names the same bytes twice reads them, whichever it names first. */
Test(poison, read_and_write_named_apart_share_the_failure_in_either_order)
{
    static const char *const orders[][2] = {{"reads", "writes"}, {"writes", "reads"}};
    for (int i = 0; i < 2; i++) {
        const char *first = orders[i][0], *second = orders[i][1];
        play(POISON "write = copy b[0:30] <- other[0:30] after never;"
                    "nop %s b[40:60] %s b[40:60]; expect it DEPENDENCY;"
                    "behind = nop %s b[5:25] %s b[5:25]; cancel write; expect behind DEPENDENCY",
             first, second, first, second);
        scene_end();
    }
}

Test(poison, a_definition_heals)
{
    play(POISON "define b[40:60]; healthy b");
}

Test(poison, a_definition_by_a_future_heals_once_it_resolves)
{
    play(POISON "promise p; define b[40:60] by p; reader = nop reads b[45:50];"
                "expect reader PENDING; keep p; expect reader OK");
}

static void failed_definition(const char *first, const char *second)
{
    play(BUFFERS "promise p; %s; %s; reader = nop reads b[45:50]; expect reader DEPENDENCY", first,
         second);
    cr_assert_str_eq(ferry_future_error(the_future("reader"))->cause->message, "root");
    play("healthy b[0:40]");
}

Test(poison, a_definition_that_fails_poisons)
{
    failed_definition("define b[40:60] by p", "resolve p FAILED root");
}

Test(poison, a_definition_that_has_failed_poisons)
{
    failed_definition("resolve p FAILED root", "define b[40:60] by p");
}

Test(poison, a_definition_by_a_refused_future_poisons)
{
    play(BUFFERS "any; define b[40:60] by it; release it; poisoned b[40:60]; healthy b[60:100]");
}

Test(poison, a_write_behind_the_failed_one_is_not_touched_by_it)
{
    play(BUFFERS "promise held; first = copy b <- other after held; second = copy b <- other;"
                 "reader = nop reads b; settle; cancel first;"
                 "expect first CANCELLED; expect second reader OK; bytes b 2");
}

Test(poison, goes_with_its_buffer)
{
    play(BUFFERS "promise never");
    for (int i = 0; i < 50; i++)
        play("copy b[%d:%d] <- other[0:1] after never; cancel it; expect it CANCELLED; release it",
             i * 2, i * 2 + 1);
    scene_end(); /* no byte is left */
}

/* ---- refused for want of room ---- */

enum { FEW = 8 };

/* Whatever is submitted is refused, until nodes are given back. */
static void begin_without_nodes(void)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = FEW;
    play(BUFFERS);
    cr_assert_eq(take_all_nodes(), FEW);
}

Test(poison, a_refused_copy_poisons)
{
    begin_without_nodes();
    play("copy b[40:60] <- other[0:20]; now it AGAIN");
    give_all_nodes();
    play("nop reads b[45:50]; expect it DEPENDENCY; cause it AGAIN; release it;"
         "healthy b[0:40]; healthy b[60:100]; nop writes b[40:60]; expect it OK; healthy b");
}

Test(poison, refused_functions_nops_and_definitions_poison_what_they_write)
{
    begin_without_nodes();
    play("call failing writes b[0:10]; now it AGAIN; nop changes b[20:30]; now it AGAIN;"
         "nop reads b[40:50]; now it AGAIN; define b[60:70] gives AGAIN");
    give_all_nodes();
    play("poisoned b[0:10]; healthy b[10:20]; poisoned b[20:30]; healthy b[30:60];"
         "poisoned b[60:70]; healthy b[70:100]");
}

Test(poison, many_refused_writes_poison_at_least_what_they_name)
{
    begin_without_nodes();
    for (int i = 0; i < 100; i++)
        play("nop writes b[%d:%d]; now it AGAIN", i, i + 1);
    give_all_nodes();
    for (int i = 0; i < 100; i++)
        play("poisoned b[%d:%d]", i, i + 1);
    play("nop writes b; expect it OK; healthy b");
}

Test(poison, what_is_wrong_does_not_poison)
{
    play(BUFFERS "copy b[0:20] <- other[0:10]; now it INVALID; healthy b");
}

static void *submit_without_memory(void *arg)
{
    ferry_status *status = arg;
    *status = status_of(ferry_copy(engine(), the_span("b[40:60]"), the_span("other[0:20]"), NULL));
    return NULL;
}

Test(poison, a_thread_with_no_memory_at_all_poisons_what_it_could_not_write)
{
    play(BUFFERS);
    ferry_status status = FERRY_OK;
    failing_allocator_arm(&scene()->memory, 1, true);
    (void)in_thread(submit_without_memory, &status);
    failing_allocator_arm(&scene()->memory, 0, false);
    ASSERT_STATUS(status, FERRY_E_NO_MEMORY);
    play("poisoned b[40:60]; nop writes b; expect it OK; healthy b");
}
