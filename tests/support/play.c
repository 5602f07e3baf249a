/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/play.h"
#include "tests/support/play_make.h"
#include "tests/support/play_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLAY_SPANS = 16 /* of one step */ };

/* ---- things ---- */

static bool do_buffer(void)
{
    const char *name = play_take("name");
    size_t size_bytes = 0, device = 0;
    int64_t fill = 0;
    if (!play_take_size(&size_bytes) || (play_skip("of") && !play_take_number(&fill)) ||
        (play_skip("on") && !play_take_size(&device)))
        return false;
    return play_keep_as(SCENE_BUFFER, test_buffer(scene(), device, size_bytes, (int)fill), name);
}

static bool do_promise(void)
{
    const char *name = play_take("name");
    ferry_promise *promise = NULL;
    ferry_status status = ferry_promise_create(engine(), &promise);
    return play_answered(status) && (promise == NULL || play_keep_as(SCENE_PROMISE, promise, name));
}

/* ---- acts ---- */

static bool take_outcome(ferry_status *status, const char **message)
{
    *status = FERRY_OK;
    *message = NULL;
    if (play_is_read() || strcmp(play_peek(), "gives") == 0)
        return true;
    if (!play_take_status(status))
        return false;
    if (!play_is_read() && strcmp(play_peek(), "gives") != 0)
        *message = play_take("message");
    return true;
}

static bool do_resolve(void)
{
    ferry_promise *promise;
    const char *name, *message;
    ferry_status status;
    if (!play_take_promise(&promise, &name) || !take_outcome(&status, &message))
        return false;
    return play_answered(ferry_promise_resolve(promise, status, message));
}

/* What its name stood for after that is its future. */
static bool do_keep(void)
{
    const char *name = play_peek();
    ferry_future *future = play_borrow_future(name);
    if (!do_resolve() || !scene_release(name))
        return false;
    return play_keep_as(SCENE_FUTURE, ferry_future_retain(future), name);
}

static bool do_define(void)
{
    ferry_span span;
    ferry_future *future = NULL;
    if (!play_take_span(&span) || (play_skip("by") && !play_take_future(&future)))
        return false;
    return play_answered(ferry_buffer_define(span, future));
}

static bool do_cancel(void)
{
    ferry_future *future;
    do {
        if (!play_take_future(&future))
            return false;
        ferry_status status = ferry_future_cancel(future);
        if (status != FERRY_OK || strcmp(play_peek(), "gives") == 0)
            return play_answered(status);
    } while (!play_is_read());
    return true;
}

static bool do_release(void)
{
    do {
        const char *name = play_take("name");
        if (!scene_release(name))
            return play_complain("nothing is called \"%s\"", name);
    } while (!play_is_read());
    return true;
}

static bool do_step(void)
{
    int64_t ns;
    if (!play_take_number(&ns))
        return false;
    stepped_clock_step(&scene()->time, ns);
    return true;
}

static bool do_waiter(void)
{
    const char *name = play_take("name");
    ferry_future *future;
    if (!play_must("on") || !play_take_future(&future))
        return false;
    counted_waiter *waiter = malloc(sizeof *waiter);
    cr_assert_not_null(waiter);
    counted_waiter_init(waiter, NULL);
    if (play_skip("inline"))
        waiter->waiter.executor = ferry_executor_inline();
    if (play_skip("by"))
        waiter->waiter.executor = play_must("hand") ? &by_hand()->executor : NULL;
    return play_keep_as(SCENE_WAITER, waiter, name) &&
           play_answered(ferry_future_on_ready(future, &waiter->waiter));
}

static bool do_settle(void)
{
    scene_settle();
    return true;
}

static bool do_run(void)
{
    size_t count = 1;
    if (!play_is_read() && !play_take_size(&count))
        return false;
    scene_settle();
    for (size_t i = 0; i < count; i++) {
        if (manual_waiting(by_hand()) == 0)
            return play_complain("nothing was posted");
        manual_run_one(by_hand());
        scene_settle();
    }
    return true;
}

static bool do_fill(void)
{
    ferry_span span;
    int64_t byte;
    if (!play_take_span(&span) || !play_take_number(&byte))
        return false;
    memset((char *)ferry_buffer_data(span.buffer) + span.offset_bytes, (int)byte, span.size_bytes);
    return true;
}

/* ---- looks ---- */

static bool is_status(const char *name, ferry_status found, ferry_status expected)
{
    return found == expected || play_complain("%s is %s, not %s", name, ferry_status_name(found),
                                              ferry_status_name(expected));
}

static bool look(ferry_status (*status_of_it)(ferry_future *, ferry_status))
{
    ferry_status expected;
    if (play_is_last() || !play_find_status(play_last_word(), &expected))
        return play_complain("\"%s\" is no status", play_last_word());
    while (!play_is_last()) {
        const char *name = play_peek();
        ferry_future *future;
        if (!play_take_future(&future) ||
            !is_status(name, status_of_it(future, expected), expected))
            return false;
    }
    return play_take_status(&expected);
}

static bool do_expect(void)
{
    return look(scene_status);
}

static bool do_now(void)
{
    return look(scene_status_now);
}

static ferry_status wait_for_ever(ferry_future *future, ferry_status expected)
{
    (void)expected;
    return ferry_future_wait(future, -1);
}

static bool do_wait(void)
{
    return look(wait_for_ever);
}

static bool do_cause(void)
{
    const char *name = play_peek();
    ferry_future *future, *of = NULL;
    ferry_status expected;
    if (!play_take_future(&future) || !play_take_status(&expected) ||
        (play_skip("of") && !play_take_future(&of)))
        return false;
    (void)scene_status(future, expected);
    const ferry_error *error = ferry_future_error(future);
    if (error == NULL || error->cause == NULL)
        return play_complain("%s has no cause", name);
    if (of != NULL && error->cause->op != ferry_future_id(of))
        return play_complain("its cause is operation %llu, not %llu",
                             (unsigned long long)error->cause->op,
                             (unsigned long long)ferry_future_id(of));
    return is_status("its cause", error->cause->status, expected);
}

static bool has_bytes(const char *name, ferry_span span, int byte)
{
    const unsigned char *bytes = ferry_buffer_data(span.buffer);
    for (size_t i = 0; i < span.size_bytes; i++) {
        size_t at = span.offset_bytes + i;
        if (bytes[at] != (unsigned char)byte)
            return play_complain("%s: byte %zu is %d", name, at, bytes[at]);
    }
    return true;
}

static bool do_bytes(void)
{
    ferry_span spans[PLAY_SPANS];
    const char *names[PLAY_SPANS];
    size_t count = 0;
    int64_t byte;
    do {
        if (count == PLAY_SPANS)
            return play_complain("too many spans");
        names[count] = play_peek();
        if (!play_take_span(&spans[count++]))
            return false;
    } while (!play_is_read() && !play_is_last());
    if (!play_take_number(&byte))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!has_bytes(names[i], spans[i], (int)byte))
            return false;
    }
    return true;
}

/* Whether the span can be read. */
static bool reads(ferry_status expected)
{
    ferry_access access = {.mode = FERRY_READ};
    if (!play_take_span(&access.span))
        return false;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_future *reader = ferry_nop(engine(), &options);
    ferry_status status = scene_status(reader, expected);
    ferry_future_release(reader);
    return is_status("a reader", status, expected);
}

static bool do_healthy(void)
{
    return reads(FERRY_OK);
}

static bool do_poisoned(void)
{
    return reads(FERRY_E_DEPENDENCY);
}

static bool is_count(int64_t found)
{
    int64_t expected;
    if (!play_take_number(&expected))
        return false;
    return found == expected || play_complain("there are %lld", (long long)found);
}

static bool do_posted(void)
{
    scene_settle();
    return is_count((int64_t)manual_waiting(by_hand()));
}

static bool do_calls(void)
{
    scene_settle();
    return is_count(atomic_load(scene_calls()));
}

/* With no progress made, so that a call in the midst of another would show. */
static bool do_called(void)
{
    int64_t expected;
    const char *name = play_take("waiter");
    counted_waiter *waiter = scene_find(SCENE_WAITER, name);
    if (waiter == NULL)
        return play_complain("\"%s\" is no waiter", name);
    if (!play_take_number(&expected))
        return false;
    int calls = atomic_load(&waiter->calls);
    return calls == expected || play_complain("it was called %d times", calls);
}

static bool do_timer(void)
{
    int64_t expected, found = ferry_engine_timeout_ns(engine());
    if (!play_take_number(&expected))
        return false;
    return found == expected || play_complain("it is %lld", (long long)found);
}

/* ---- steps ---- */

static const play_act acts[] = {
    {"buffer", do_buffer},   {"promise", do_promise}, {"keep", do_keep},
    {"resolve", do_resolve}, {"define", do_define},   {"cancel", do_cancel},
    {"release", do_release}, {"step", do_step},       {"settle", do_settle},
    {"run", do_run},         {"fill", do_fill},       {"expect", do_expect},
    {"now", do_now},         {"wait", do_wait},       {"cause", do_cause},
    {"bytes", do_bytes},     {"healthy", do_healthy}, {"poisoned", do_poisoned},
    {"posted", do_posted},   {"calls", do_calls},     {"timer", do_timer},
    {"waiter", do_waiter},   {"called", do_called},
};

enum { LISTS = 4 };

static struct {
    const play_act *acts;
    size_t count;
} lists[LISTS] = {{acts, sizeof acts / sizeof *acts}}; /* the others are the suite's */

void play_add(const play_act *of_suite, size_t count)
{
    size_t i = 1;
    while (i < LISTS && lists[i].acts != NULL && lists[i].acts != of_suite)
        i++;
    cr_assert_lt(i, LISTS, "too many lists of steps");
    lists[i].acts = of_suite;
    lists[i].count = count;
}

static const play_act *find_act(const char *word)
{
    for (size_t i = 0; i < LISTS; i++) {
        for (size_t k = 0; k < lists[i].count; k++) {
            if (strcmp(lists[i].acts[k].word, word) == 0)
                return &lists[i].acts[k];
        }
    }
    return NULL;
}

static bool perform_words(void)
{
    const char *word = play_take("step");
    if (play_skip("="))
        return play_make(word, play_take("operation"));
    if (play_makes(word))
        return play_make("it", word);
    const play_act *act = find_act(word);
    return act != NULL ? act->perform() : play_complain("\"%s\" is no step", word);
}

static bool perform(const char *begin, size_t size_bytes)
{
    bool is_done = play_begin_step(begin, size_bytes) && (play_is_read() || perform_words());
    return play_end_step() && is_done;
}

static const char *play_steps(const char *steps)
{
    static char why[2048];
    unsigned number = 0;
    for (const char *at = steps; *at != '\0'; number++) {
        size_t size_bytes = strcspn(at, ";\n");
        if (!perform(at, size_bytes)) {
            (void)snprintf(why, sizeof why, "step %u, \"%.*s\": %s", number + 1, (int)size_bytes,
                           at + strspn(at, " \t"), play_complaint());
            return why;
        }
        at += size_bytes + (at[size_bytes] != '\0');
    }
    return NULL;
}

/* A callback that plays within a step would take that step's words. */
static bool is_playing;

const char *play_try(const char *steps)
{
    if (is_playing)
        return "it is played within a step of another play";
    is_playing = true;
    const char *why = play_steps(steps);
    is_playing = false;
    return why;
}

void play_at(const char *file, int line, const char *format, ...)
{
    char steps[8192];
    va_list arguments;
    va_start(arguments, format);
    int size_bytes = vsnprintf(steps, sizeof steps, format, arguments);
    va_end(arguments);
    cr_assert(size_bytes >= 0 && (size_t)size_bytes < sizeof steps, "%s:%d: too long", file, line);
    const char *why = play_try(steps);
    cr_assert_null(why, "%s:%d: %s", file, line, why);
}

ferry_span the_span(const char *format, ...)
{
    char word[2 * SCENE_NAME_BYTES];
    ferry_span span = {0};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(word, sizeof word, format, arguments);
    va_end(arguments);
    cr_assert_not(is_playing, "a step takes its spans from its words");
    (void)play_begin_step("", 0);
    (void)scene();
    cr_assert(play_parse_span(word, &span), "%s", play_complaint());
    return span;
}
