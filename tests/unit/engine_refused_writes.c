/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that are refused when no node is left to stand for them: they poison their buffer for
 * those who come later in program order, and for nobody before. The test holds the baton as a loop
 * that does not come by, and takes the nodes that would stand for them.
 */
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/graph/refused_mark.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "tests/unit/inner_play.h"

enum { STAND_INS = 64, NODES = 40 };

static fry_node *stand_ins[STAND_INS];
static void *slots[NODES + 1]; /* so that there is no node */
static size_t slot_count;

static void take_stand_ins(void)
{
    fry_context *context = fry_context_get(engine());
    for (size_t i = 0; i < STAND_INS; i++) {
        stand_ins[i] = fry_node_create_reserve(engine(), context);
        cr_assert_not_null(stand_ins[i], "%zu", i);
    }
    cr_assert_null(fry_node_create_reserve(engine(), context));
}

static void give_stand_ins(void)
{
    fry_context *context = fry_context_get(engine());
    for (size_t i = 0; i < STAND_INS; i++)
        fry_node_discard(engine(), context, stand_ins[i]);
}

/* ---- steps ---- */

/* "room none": from now on whoever wants a node is refused; "room some": nobody is. */
static bool do_room(void)
{
    fry_pool *pool = &engine()->nodes;
    fry_pool_cache *cache = &fry_context_get(engine())->nodes;
    if (play_skip("some")) {
        while (slot_count != 0)
            fry_pool_give(pool, cache, slots[--slot_count]);
        return true;
    }
    while ((slots[slot_count] = fry_pool_take(pool, cache)) != NULL)
        slot_count++;
    return play_must("none");
}

static bool is_for(const ferry_error *error, fry_refusal why)
{
    return error == &fry_refusal_error(why)->public_ ||
           play_complain("\"%s\"", error != NULL ? error->message : "it is well");
}

/* "refused REASON": the newest was. */
static bool do_refused(void)
{
    fry_refusal why = play_skip("barred")       ? FRY_REFUSED_BARRED
                      : play_skip("for_memory") ? FRY_REFUSED_NO_MEMORY
                                                : FRY_REFUSED_MAX_NODES;
    ferry_future *future = the_future("it");
    ASSERT_STATUS(ferry_future_poll(future), fry_refusal_status(why));
    return (why != FRY_REFUSED_MAX_NODES || play_must("for_nodes")) &&
           is_for(ferry_future_error(future), why);
}

/* "tainted BUFFER...": it was to be written by one that was refused, as who reads it finds. */
static bool do_tainted(void)
{
    ferry_span span;
    do {
        if (!play_take_span(&span))
            return false;
        ferry_future *reader = ferry_copy(engine(), ferry_buffer_span(the_buffer("s")), span, NULL);
        scene_settle();
        WAIT(reader, E_DEPENDENCY);
        bool is_right = is_for(ferry_future_error(reader)->cause, FRY_REFUSED_MAX_NODES);
        ferry_future_release(reader);
        if (!is_right)
            return false;
    } while (!play_is_read());
    return true;
}

/* "let in": all that stands in the inbox. */
static bool do_let(void)
{
    fry_baton_give(&engine()->baton);
    fry_wake(engine());
    scene_settle();
    return play_must("in");
}

static void begin_barred(void)
{
    static const play_act acts[] = {
        {"room", do_room}, {"refused", do_refused}, {"tainted", do_tainted}, {"let", do_let}};
    inner_begin();
    play_add(acts, sizeof acts / sizeof *acts);
}

/* With its three buffers: what is written, another, and where all is read to. */
static void begin_in(ferry_loop_mode loop)
{
    scene_options(loop)->max_nodes = NODES;
    play("buffer b 64 of 1; buffer o 64 of 2 on 1; buffer s 64 of 3 on 2");
    take_stand_ins();
}

static void end_barred(void)
{
    give_stand_ins();
    scene_end();
}

TestSuite(engine_refused_writes, .init = begin_barred, .timeout = HANG_S);

#define BAR "baton taken; room none; copy b <- s; refused for_nodes;"

/* ---- in program order ---- */

Test(engine_refused_writes, come_between_who_is_before_and_who_is_after)
{
    begin_in(FERRY_LOOP_EMBEDDED);
    play("baton taken; before = copy s <- b; room none; copy b <- s; refused for_nodes; room some;"
         "copy s <- b; refused barred;" /* there is room, but not for it */
         "copy s <- o; refused barred;" /* that one was to write the sink */
         "aside = call reads o; let in; wait before aside OK; tainted b; define b; define s;"
         "settle; late = copy s <- b; settle; wait late OK");
    end_barred();
}

/* Of each sort of submit. */
Test(engine_refused_writes, bar_their_buffer_to_every_submit)
{
    begin_in(FERRY_LOOP_EMBEDDED);
    play(BAR "room some;"
             "copy b[0:8] <- o[0:8]; refused barred;"
             "rows 2 b[0:8] pitch 16 <- o[0:8] pitch 16; refused barred;"
             "rows 2 o[0:8] pitch 16 <- b[0:8] pitch 16; refused barred;"
             "nop reads b[0:8]; refused barred; call reads b[0:8]; refused barred;"
             "define b[0:8] gives AGAIN; both = batch each copy o[0:8] <- b[0:8] , nop");
    cr_assert_eq(ferry_future_error(the_future("both0")),
                 &fry_refusal_error(FRY_REFUSED_BARRED)->public_);
    ASSERT_STATUS(ferry_future_poll(the_future("both0")), fry_refusal_status(FRY_REFUSED_BARRED));
    play("let in; wait both1 OK");
    cr_assert_eq(ferry_future_error(the_future("both"))->cause,
                 &fry_refusal_error(FRY_REFUSED_BARRED)->public_);
    play("calls 0; tainted b; late = copy s <- o; settle; wait late DEPENDENCY");
    end_barred();
}

/* Many of one buffer and of several, some of them healed between; one after the other, and with the
 * mark on its way. */
Test(engine_refused_writes, take_their_places_one_after_the_other)
{
    begin_in(FERRY_LOOP_EMBEDDED);
    for (int round = 0; round < 20; round++) {
        play("baton taken; before = copy s <- b; room none");
        for (int i = 0; i < 100; i++)
            play("copy %s <- s; refused %s; release it", i % 3 == 0 ? "o" : "b",
                 i < 3 && i != 2 ? "for_nodes" : "barred");
        play("%s; let in; room some; settle; wait before OK; tainted b o; define b; define o;"
             "define s; settle; late = copy s <- b; settle; wait late OK; release before late",
             round % 2 == 0 ? "room some" : "");
        cr_assert_eq(engine()->mark_is_pushed, 0);
    }
    end_barred();
}

/* The mark has had its first turn, and another buffer is barred while it stands there again. */
Test(engine_refused_writes, of_buffers_that_are_barred_while_the_mark_is_on_its_way)
{
    begin_in(FERRY_LOOP_EMBEDDED);
    play(BAR);
    fry_turn turn = {.engine = engine(), .context = fry_context_get(engine())};
    fry_link *item = fry_stack_take_all(&engine()->inbox);
    cr_assert_eq(item, &engine()->mark.link);
    fry_kind_mark.arrive(&turn, &engine()->mark); /* it notes the buffer, and goes on */
    play("room some; before = copy s <- o; room none; copy o <- s; refused for_nodes; room some;"
         "let in; wait before OK; tainted b o");
    end_barred();
}

/* ---- who waits for room ---- */

Test(engine_refused_writes, room_comes_with_the_marks_turn)
{
    begin_in(FERRY_LOOP_EMBEDDED);
    play(BAR "room some; writable; now it OK;" /* nodes there are */
             "copy s <- b; refused barred; room_comes = writable; now room_comes PENDING; let in;"
             "wait room_comes OK; reader = copy s <- b; settle; now reader DEPENDENCY");
    end_barred();
}

/* ---- ends ---- */

/* Nobody has a handle to the buffer any more; its memory stays as long as it is barred. */
Test(engine_refused_writes, of_a_buffer_that_is_released)
{
    begin_in(FERRY_LOOP_EMBEDDED);
    play("buffer lost 64 of 1; baton taken; room none; copy lost <- s; refused for_nodes;"
         "release lost; room some; let in");
    end_barred();
}

static void is_shut_down(ferry_loop_mode loop)
{
    begin_in(loop);
    play(BAR);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    fry_baton_give(&engine()->baton);
    fry_wake(engine());
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(engine()->mark_is_pushed, 0);
    play("room some");
    end_barred();
}

Test(engine_refused_writes, are_placed_by_a_shutdown)
{
    is_shut_down(FERRY_LOOP_EMBEDDED);
    is_shut_down(FERRY_LOOP_THREAD);
}

/* ---- threads without memory ---- */

static void *write_as_a_stranger(void *arg)
{
    (void)arg;
    play("copy b <- s; refused for_memory; nop writes o; refused for_memory;"
         "define s gives NO_MEMORY");
    return NULL;
}

/* With nodes to stand for them and without. */
Test(engine_refused_writes, of_a_thread_that_can_have_no_context)
{
    for (int with_stand_ins = 0; with_stand_ins < 2; with_stand_ins++) {
        begin_in(FERRY_LOOP_EMBEDDED);
        if (with_stand_ins)
            give_stand_ins();
        play("buffer target 64 of 4 on 3");
        failing_allocator_arm(&scene()->memory, 1, true);
        (void)in_thread(write_as_a_stranger, NULL);
        failing_allocator_arm(&scene()->memory, 0, false);
        play("settle; x = copy target <- b; y = copy target <- o; z = copy target <- s; settle;"
             "now x y z DEPENDENCY");
        if (with_stand_ins)
            take_stand_ins();
        end_barred();
    }
}
