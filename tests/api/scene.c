/* SPDX-License-Identifier: Apache-2.0 */
/* What cases are played with (tests/support/play.h): a step that is misspelt, names what is not
 * there, or sees what is not so fails, and says where. */
#include "tests/support/play.h"

#include <stdio.h>

SCENE_SUITE(scene);

#define STAGE "buffer a 10; buffer b 10 of 2 on 1; promise p; x = nop; y = nop after p;"

typedef struct bad_play {
    const char *steps; /* behind those of STAGE, which are five */
    const char *why;
} bad_play;

static void assert_all_fail(const bad_play *plays, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char steps[512];
        (void)snprintf(steps, sizeof steps, STAGE "%s", plays[i].steps);
        const char *why = play_try(steps);
        cr_assert_not_null(why, "\"%s\" passes", plays[i].steps);
        cr_assert_not_null(strstr(why, plays[i].why), "\"%s\": %s", plays[i].steps, why);
        scene_end();
    }
}

#define ASSERT_ALL_FAIL(plays) assert_all_fail((plays), sizeof(plays) / sizeof(plays)[0])

Test(scene, steps_that_cannot_be_read_fail)
{
    static const bad_play plays[] = {
        {"expct x OK", "step 6, \"expct x OK\": \"expct\" is no step"},
        {"\n settle\n\nexpct x OK", "step 9, \"expct x OK\""},
        {"z = nap", "\"nap\" is no operation"},
        {"= nop", "\"=\" is no step"},
        {"expect x ok", "\"ok\" is no status"},
        {"expect x", "\"x\" is no status"},
        {"expect OK", "\"OK\" is no status"},
        {"expect", "is no status"},
        {"expect x OK y", "\"y\" is no status"},
        {"settle x", "\"x\" is too much"},
        {"step", "there is no number"},
        {"step 1s", "\"1s\" is no number"},
        {"keep p FINE", "\"FINE\" is no status"},
        {"keep p OK done much", "\"much\" is too much"},
        {"nop affter p", "\"affter\" should be \"deadline\""},
        {"nop by foot", "\"foot\" should be \"hand\""},
        {"nop priority middle", "\"middle\" should be \"low\""},
        {"copy a b", "\"b\" should be \"<-\""},
        {"copy a[0:1 <- b", "\"a[0:1\" is no span"},
        {"copy a[0-1] <- b", "\"a[0-1]\" is no span"},
        {"copy a[2:1] <- b", "\"a[2:1]\" is no span"},
        {"bytes a[0:1]x 0", "\"a[0:1]x\" is no span"},
        {"rows 2 a pitch 5 <- b", "\"\" should be \"pitch\""},
        {"buffer c 10 off 3", "\"off\" is too much"},
        {"batch nop copy a <- b", "\"copy\" should be \"deadline\""},
        {"batch nop , drain", "\"drain\" is no operation of a batch"},
        {"batch nop , nop with after p", "\"with\" should be \"deadline\""},
        {"waiter w x", "\"x\" should be \"on\""},
        {"run p", "\"p\" is no number"},
        {"nop label a_label_that_is_longer_than_any_is", "too long"},
    };
    ASSERT_ALL_FAIL(plays);
}

Test(scene, names_of_what_is_not_there_fail)
{
    static const bad_play plays[] = {
        {"expect z OK", "\"z\" is no future"},
        {"expect x z OK", "\"z\" is no future"},
        {"expect a OK", "\"a\" is no future"},
        {"keep x", "\"x\" is no promise"},
        {"keep p; keep p", "\"p\" is no promise"},
        {"z = nop after x z", "\"z\" should be \"deadline\""},
        {"z = all x z", "\"z\" is no future"},
        {"cancel x z", "\"z\" is no future"},
        {"copy a <- z", "\"z\" is no buffer"},
        {"copy x <- a", "\"x\" is no buffer"},
        {"define a by b", "\"b\" is no future"},
        {"called x 0", "\"x\" is no waiter"},
        {"release z", "nothing is called \"z\""},
        {"release x x", "nothing is called \"x\""},
        {"release x; expect x OK", "step 7, \"expect x OK\": \"x\" is no future"},
        {"x = nop", "\"x\" is too long, or there already"},
        {"buffer p 10", "\"p\" is too long, or there already"},
    };
    ASSERT_ALL_FAIL(plays);
}

Test(scene, looks_that_are_not_so_fail)
{
    static const bad_play plays[] = {
        {"expect x PENDING", "x is FERRY_OK, not FERRY_PENDING"},
        {"expect x y OK", "y is FERRY_PENDING, not FERRY_OK"},
        {"now y OK", "y is FERRY_PENDING"},
        {"keep p FAILED; expect y FAILED", "y is FERRY_E_DEPENDENCY, not FERRY_E_FAILED"},
        {"cause x FAILED", "x has no cause"},
        {"keep p FAILED; cause y CANCELLED", "its cause is FERRY_E_FAILED"},
        {"keep p FAILED; cause y FAILED of x", "its cause is operation"},
        {"bytes b 1", "byte 0 is 2"},
        {"fill a[3:4] 7; bytes a[2:10] 0", "byte 3 is 7"},
        {"poisoned a", "a reader is FERRY_OK"},
        {"z = copy a <- b after p; cancel z; healthy a", "a reader is FERRY_E_DEPENDENCY"},
        {"posted 1", "there are 0"},
        {"call failing; calls 1", "there are 0"},
        {"waiter w on y; called w 1", "it was called 0 times"},
        {"run", "nothing was posted"},
        {"timer 5", "it is -1"},
        {"resolve p PENDING", "it gives FERRY_E_INVALID, not FERRY_OK"},
        {"resolve p OK gives INVALID", "it gives FERRY_OK, not FERRY_E_INVALID"},
        {"define a[0:11]", "it gives FERRY_E_INVALID"},
    };
    ASSERT_ALL_FAIL(plays);
}

static void play_in_callback(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    waiter->arg = (void *)(uintptr_t)play_try("settle"); /* NOLINT */
}

Test(scene, a_play_within_a_step_fails)
{
    ferry_waiter waiter = FERRY_WAITER_INIT(play_in_callback, NULL);
    play("n = nop");
    ASSERT_STATUS(ferry_future_on_ready(the_future("n"), &waiter), FERRY_OK);
    play("expect n OK");
    cr_assert_not_null(waiter.arg, "it passes");
}

/* One of each, and what they say when they are right. */
Test(scene, each_step_does_what_its_page_says)
{
    play(STAGE
         "z = copy a <- b[0:10] after p deadline 1000 label first priority high;"
         "timer 1000; now z PENDING; step 999; expect z PENDING; timer 1; keep p; expect z OK;"
         "bytes a 2; call; call failing; expect it FAILED; calls 1; expect p x y OK");
    play("h = call by hand changes a; i = issued h; q = quiet h; w = copy b <- a[0:10];"
         "posted 1; expect i OK; expect q w PENDING; run; expect h q w OK; calls 2;"
         "waiter now on x inline; waiter later on x by hand; called now 0; settle; called now 1;"
         "called later 0; run; called later 1; batch each nop , copy b <- a[0:10] , call failing , "
         "with label l; expect it0 it1 OK; expect it2 FAILED; expect it DEPENDENCY;"
         "cause it FAILED of it2; wait x OK");
    play("promise s; promise bad; t = nop after s; u = all s t; v = any s t bad;"
         "keep bad FAILED on_purpose; expect u PENDING; expect v DEPENDENCY; cause v FAILED of bad;"
         "define a[0:5] by s; healthy a[5:10]; release s; cause t BROKEN_PROMISE; poisoned a[0:5];"
         "rows 2 a[0:1] pitch 2 <- b[0:1] pitch 3; expect it OK; fill b 9; define a;"
         "rows 2 a[0:1] pitch 2 <- b[0:1] pitch 3; bytes a[2:3] 9; bytes a[3:10] 2");
}

Test(scene, gives_back_what_it_owns_and_begins_anew)
{
    play(STAGE "promise kept");
    (void)own(ferry_nop(engine(), NULL));
    (void)own(test_promise(scene()));
    ferry_buffer *buffer = the_buffer("a");
    cr_assert_eq(the_span("a[2:5]").buffer, buffer);
    cr_assert_eq(the_span("a[2:5]").offset_bytes, 2);
    cr_assert_eq(the_span("%s", "a[2:5]").size_bytes, 3);
    scene_end();
    scene_options(FERRY_LOOP_THREAD)->max_nodes = 8;
    play(STAGE "expect y PENDING; keep p; expect y OK; step 0; drain; expect it OK");
    for (int i = 0; i < 4; i++)
        play("promise q%d", i);
    play("promise z gives AGAIN; define a gives AGAIN; it = nop; expect it AGAIN; release q3");
    play("writable; expect it OK; resolve q2 FAILED; resolve q2 gives INVALID");
    scene_leave();
    play("now y OK; now q0 SHUTDOWN; nop; now it SHUTDOWN");
}
