/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A future's status and its error never differ, whichever way it failed and whatever else happened
 * to it meanwhile; and what the error said once it says to everybody, for ever: also if there was
 * no memory for it when it was asked for first, and there is now.
 */
#include "tests/support/play.h"

#include <stdio.h>

SCENE_SUITE(error_agrees);

#define USERS_NUMBER ((ferry_status)-777)

/* ---- looking at an error ---- */

static void *ask(void *future)
{
    return (void *)(uintptr_t)ferry_future_error(future);
}

/* As another thread sees it. */
static const ferry_error *error_elsewhere(ferry_future *future)
{
    void *error = in_thread(ask, future);
    return error;
}

typedef struct said {
    ferry_error error;
    char message[512];
    ferry_status cause;
} said;

static said said_by(const ferry_error *error)
{
    said what = {.error = *error, .cause = FERRY_OK};
    (void)strncpy(what.message, error->message, sizeof what.message - 1);
    if (error->cause != NULL)
        what.cause = error->cause->status;
    return what;
}

static void assert_unchanged(const ferry_error *error, const said *before)
{
    cr_assert_eq(memcmp(error, &before->error, sizeof *error), 0);
    cr_assert_str_eq(error->message, before->message);
    if (error->cause != NULL)
        ASSERT_STATUS(error->cause->status, before->cause);
}

/* Gives the future back. `name` says how it failed. */
static void assert_agrees(ferry_future *future, const char *name)
{
    ferry_status status = ferry_future_poll(future);
    const ferry_error *error = ferry_future_error(future);
    if (status == FERRY_OK) {
        cr_assert_null(error, "%s: it is well, and says an error", name);
        ferry_future_release(future);
        return;
    }
    cr_assert_lt(status, 0, "%s: %s", name, ferry_status_name(status));
    cr_assert_not_null(error, "%s: it says nothing", name);
    cr_assert_eq(error->status, status, "%s: it is %s, and says %s (%d): %s", name,
                 ferry_status_name(status), ferry_status_name(error->status), error->status,
                 error->message);
    cr_assert_str_not_empty(error->message, "%s", name);
    cr_assert_not_null(error->domain, "%s", name);
    cr_assert(error->op == 0 || error->op == ferry_future_id(future), "%s", name);
    if (error->cause != NULL) {
        cr_assert_lt(error->cause->status, 0, "%s", name);
        cr_assert_null(error->cause->cause, "%s: its cause is no root", name);
    }
    said before = said_by(error);
    cr_assert_eq(error_elsewhere(future), error, "%s: another thread is told another", name);
    failing_allocator_arm(&scene()->memory, 0, false);
    cr_assert_eq(ferry_future_error(future), error, "%s: it says another later", name);
    cr_assert_eq(ferry_future_poll(future), status, "%s", name);
    assert_unchanged(error, &before);
    ferry_future_release(future);
}

/* ---- every way to fail ---- */

/* When there is no memory. */
enum shortage {
    NEVER,
    AT_THE_END, /* from when it fails on */
    FIRST_ASKED /* when its error is asked for the first time */
};

typedef struct way {
    enum shortage shortage;
    ferry_future *after;    /* of the promise "p", which they wait for */
    ferry_op_options waits; /* with a label */
    ferry_span src, dst;
    ferry_access access;
    const char *name;
} way;

static void way_open(way *w, enum shortage shortage)
{
    play("promise p; buffer src 64 of 1; buffer dst 64 of 2 on 1");
    *w = (way){.shortage = shortage, .src = the_span("src"), .dst = the_span("dst")};
    w->after = own(ferry_promise_future(the_promise("p")));
    w->access = (ferry_access){w->dst, FERRY_READ_WRITE};
    w->waits = behind(&w->after, 1);
    w->waits.label = "label";
}

static void resolve(ferry_status status, const char *message)
{
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), status, message), FERRY_OK);
}

/* From here on it fails. */
static void begin_end(way *w)
{
    if (w->shortage == AT_THE_END)
        failing_allocator_arm(&scene()->memory, 1, true);
}

static void end(way *w, ferry_future *future)
{
    scene_settle();
    if (ferry_future_poll(future) == FERRY_PENDING) { /* that is no end of this kind */
        resolve(FERRY_E_FAILED, NULL);
        scene_settle();
    }
    if (w->shortage == FIRST_ASKED)
        failing_allocator_arm(&scene()->memory, 1, true);
    assert_agrees(future, w->name);
    failing_allocator_arm(&scene()->memory, 0, false);
}

static void way_close(void)
{
    failing_allocator_arm(&scene()->memory, 0, false);
    scene_end();
}

/* Operations of every kind that wait for the promise. */
enum { KINDS = 10 };

static ferry_future *make(way *w, int kind)
{
    ferry_op op = {.kind = FERRY_OP_NOP, .options = &w->waits};
    ferry_future *each[1], *nop, *future;
    switch (kind) {
    case 0:
        return ferry_nop(engine(), &w->waits);
    case 1:
        return ferry_copy(engine(), w->dst, w->src, &w->waits);
    case 2:
        return ferry_copy_rows(engine(), the_span("dst[0:4]"), 16, the_span("src[0:4]"), 16, 4,
                               &w->waits);
    case 3:
        return ferry_call(engine(), NULL, fail_call, NULL, &w->waits);
    case 4:
        return ferry_batch(engine(), &op, sizeof op, 1, NULL, NULL);
    case 5: /* one of a batch */
        future = ferry_batch(engine(), &op, sizeof op, 1, each, NULL);
        ferry_future_release(future);
        return each[0];
    case 6:
        return ferry_future_all(engine(), &w->after, 1);
    case 7:
        return ferry_future_any(engine(), &w->after, 1);
    default: /* of another moment of one */
        nop = ferry_nop(engine(), &w->waits);
        future = kind == 8 ? ferry_future_issued(nop) : ferry_future_quiet(nop);
        ferry_future_release(nop);
        return future;
    }
}

static void fail_by_cancel(way *w, int kind)
{
    ferry_future *future = make(w, kind);
    begin_end(w);
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    end(w, future);
}

static void fail_by_deadline(way *w, int kind)
{
    w->waits.deadline_ns = START_NS + 100;
    ferry_future *future = make(w, kind);
    begin_end(w);
    stepped_clock_step(&scene()->time, 200);
    end(w, future);
}

static void fail_by_dependency(way *w, int kind)
{
    ferry_future *future = make(w, kind);
    begin_end(w);
    resolve(FERRY_E_DEVICE, "told");
    end(w, future);
}

/* It has failed before. */
static void fail_by_dependency_before(way *w, int kind)
{
    resolve(USERS_NUMBER, "told");
    ferry_future *future = make(w, kind);
    begin_end(w);
    end(w, future);
}

static void fail_by_broken_promise(way *w, int kind)
{
    ferry_future *future = make(w, kind);
    begin_end(w);
    play("release p");
    end(w, future);
}

static void fail_by_refused(way *w, int kind)
{
    w->after = own(ferry_future_any(engine(), NULL, 0));
    ferry_future *future = make(w, kind);
    begin_end(w);
    end(w, future);
}

/* All of it in one tick. */
static void fail_by_all(way *w, int kind)
{
    w->waits.deadline_ns = START_NS + 100;
    ferry_future *future = make(w, kind);
    begin_end(w);
    resolve(USERS_NUMBER, NULL);
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    stepped_clock_step(&scene()->time, 200);
    end(w, future);
}

static void fail_by_poison(way *w, int kind)
{
    ferry_future_release(ferry_copy(engine(), w->dst, w->src, &w->waits));
    w->waits.accesses = &w->access;
    w->waits.access_count = 1;
    ferry_future *future = make(w, kind);
    begin_end(w);
    resolve(FERRY_E_FAILED, NULL);
    end(w, future);
}

static void fail_by_shutdown(way *w, int kind)
{
    ferry_future *future = make(w, kind);
    begin_end(w);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    end(w, future);
    end(w, make(w, kind)); /* refused from now on */
}

static const struct {
    const char *name;
    void (*fail)(way *w, int kind);
} ways[] = {
    {"cancel", fail_by_cancel},
    {"deadline", fail_by_deadline},
    {"dependency", fail_by_dependency},
    {"dependency before", fail_by_dependency_before},
    {"broken promise", fail_by_broken_promise},
    {"refused", fail_by_refused},
    {"all at once", fail_by_all},
    {"poison", fail_by_poison},
    {"shutdown", fail_by_shutdown},
};

Test(error_agrees, however_it_failed)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (int at = NEVER; at <= FIRST_ASKED; at++) {
                way w;
                char name[100];
                way_open(&w, (enum shortage)at);
                (void)snprintf(name, sizeof name, "%s of kind %d, shortage %d", ways[i].name, kind,
                               at);
                w.name = name;
                ways[i].fail(&w, kind);
                way_close();
            }
        }
    }
}

/* ---- statuses and numbers ---- */

#define STATUS_(name, value, text) (value),
static const int statuses[] = {
    FERRY_STATUS_MAP(STATUS_) USERS_NUMBER, -1000, INT16_MIN, INT16_MIN - 1, -70000, INT32_MIN};
enum { STATUSES = sizeof statuses / sizeof statuses[0] };

static ferry_status return_number(void *arg)
{
    return (ferry_status) * (const int *)arg;
}

/* A promise fails with any number; so does a function, if it is no less than INT16_MIN. */
Test(error_agrees, whatever_number_it_failed_with)
{
    for (size_t i = 0; i < STATUSES; i++) {
        for (int at = NEVER; at <= FIRST_ASKED; at++) {
            way w;
            way_open(&w, (enum shortage)at);
            w.name = "a number";
            int number = statuses[i];
            ferry_future *call = ferry_call(engine(), NULL, return_number, &number, NULL);
            ferry_future *behind = nop_after(scene(), w.after),
                         *behind_call = nop_after(scene(), call);
            begin_end(&w);
            scene_settle();
            if (number <= 0) {
                ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), (ferry_status)number, NULL),
                              FERRY_OK);
                ASSERT_STATUS(ferry_future_poll(w.after), (ferry_status)number);
            }
            bool is_status = number <= 0 && number >= INT16_MIN;
            ASSERT_STATUS(ferry_future_poll(call),
                          is_status ? (ferry_status)number : FERRY_E_FAILED);
            scene_settle();
            if (number < 0) {
                ASSERT_STATUS(ferry_future_error(behind)->status, FERRY_E_DEPENDENCY);
                end(&w, ferry_future_retain(w.after));
                end(&w, behind);
            } else {
                ferry_future_release(behind);
            }
            end(&w, call);
            end(&w, behind_call);
            way_close();
        }
    }
}

/* The cause names the number, too, if there was memory for who names it. */
Test(error_agrees, a_users_number_is_the_cause_without_memory)
{
    way w;
    way_open(&w, NEVER);
    ferry_future *behind = nop_after(scene(), w.after);
    failing_allocator_arm(&scene()->memory, 1, true);
    ASSERT_STATUS(ferry_promise_resolve(the_promise("p"), USERS_NUMBER, "not to be had"), FERRY_OK);
    scene_settle();
    const ferry_error *error = ferry_future_error(w.after);
    ASSERT_STATUS(error->status, USERS_NUMBER);
    cr_assert_str_eq(error->domain, "user");
    failing_allocator_arm(&scene()->memory, 0, false);
    ASSERT_STATUS(ferry_future_error(behind)->cause->status, USERS_NUMBER);
    ferry_future_release(behind);
    way_close();
}

/* ---- no room ---- */

static ferry_status nap(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

/* What finds no room as it enters is told so, by number and label; so is who fails for its sake. */
static void finds_no_room(uint64_t max_accesses, bool is_cancelled, size_t *refused_p)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_accesses = max_accesses;
    ferry_buffer *buffer = own(test_buffer(scene(), 0, 158, 1));
    ferry_access accesses[2] = {{ferry_buffer_span(buffer), FERRY_READ_WRITE},
                                {ferry_buffer_span(buffer), FERRY_WRITE}};
    ferry_op_options with = touching(accesses, 2);
    with.label = "wide";
    enum { SMALL = 40, LAST = SMALL + 1, BEHIND, COUNT };
    ferry_future *futures[COUNT];
    size_t count = 0;
    futures[count++] = ferry_call(engine(), NULL, nap, NULL, &with);
    for (size_t i = 0; i < SMALL; i++)
        futures[count++] =
            ferry_copy(engine(), span_of(buffer, i, 1), span_of(buffer, 60 + i, 1), NULL);
    futures[count++] =
        ferry_copy(engine(), span_of(buffer, 100, 12), span_of(buffer, 130, 12), &with);
    futures[count++] = nop_after(scene(), futures[LAST]);
    if (is_cancelled)
        ASSERT_STATUS(ferry_future_cancel(futures[LAST]), FERRY_OK);
    scene_settle();
    for (size_t i = 0; i < count; i++) {
        const ferry_error *error = ferry_future_error(futures[i]);
        if (error != NULL && error->status == FERRY_E_AGAIN && error->op != 0) {
            (*refused_p)++;
            cr_assert_eq(error->op, ferry_future_id(futures[i]));
            cr_assert_not_null(strstr(error->message, "max_accesses"), "%s", error->message);
            cr_assert(error->label == NULL || strcmp(error->label, "wide") == 0);
        }
    }
    const ferry_error *behind = ferry_future_error(futures[BEHIND]);
    if (behind != NULL && behind->cause->status == FERRY_E_AGAIN &&
        ferry_future_id(futures[LAST])) {
        cr_assert_eq(behind->cause->op, ferry_future_id(futures[LAST]));
        cr_assert_str_eq(behind->cause->label, "wide");
    }
    for (size_t i = 0; i < count; i++)
        assert_agrees(futures[i], "no room");
    scene_end();
}

Test(error_agrees, where_there_is_no_room_and_it_is_cancelled_meanwhile)
{
    size_t refused[2] = {0, 0};
    for (uint64_t max_accesses = 16; max_accesses < 200; max_accesses++) {
        finds_no_room(max_accesses, false, &refused[0]);
        finds_no_room(max_accesses, true, &refused[1]);
    }
    cr_assert_gt(refused[0], 20, "%zu were refused as they entered", refused[0]);
}

/* A definition has no future to say so: who reads what it would have made valid says it. */
Test(error_agrees, a_definition_may_find_no_room_later)
{
    enum { COPIES = 12 };
    size_t late = 0;
    for (uint64_t max_accesses = 16; max_accesses < 60; max_accesses++) {
        scene_options(FERRY_LOOP_EMBEDDED)->max_accesses = max_accesses;
        play("buffer b 158 of 1; buffer other 158 of 2 on 1; promise p");
        for (int i = 0; i < COPIES; i++)
            play("copy other[%d:%d] <- b[%d:%d] after p", i * 4, i * 4 + 3, i * 5, i * 5 + 3);
        ferry_status status = ferry_buffer_define(the_span("b[0:100]"), NULL);
        cr_assert(status == FERRY_OK || status == FERRY_E_AGAIN);
        play("settle; keep p; release p; settle; reader = copy other[0:150] <- b[0:150]; settle");
        const ferry_error *error = ferry_future_error(the_future("reader"));
        if (status == FERRY_OK && error != NULL && error->cause != NULL) {
            late++;
            ASSERT_STATUS(error->cause->status, FERRY_E_AGAIN);
            cr_assert_neq(error->cause->op, 0);
            cr_assert_not_null(strstr(error->cause->message, "max_accesses"));
        }
        scene_end();
    }
    cr_assert_gt(late, 0, "no definition failed after it was FERRY_OK");
}

/* Refused at once, for want of nodes and of memory. */
Test(error_agrees, where_it_is_refused_at_once)
{
    for (int kind = 0; kind < KINDS; kind++) {
        way w;
        way_open(&w, NEVER);
        w.name = "no memory";
        failing_allocator_arm(&scene()->memory, 1, true);
        for (int i = 0; i < 500; i++) /* what the pools still have */
            ferry_future_release(make(&w, kind));
        assert_agrees(make(&w, kind), "no memory");
        failing_allocator_arm(&scene()->memory, 0, false);
        way_close();
    }
}
