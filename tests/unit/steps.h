/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences in words, on an engine with two fake devices (fake_engine.h): one that is played names
 * the step that fails. What a step makes gets a name, and is released under it by a later step that
 * makes the same name, or in the end.
 *
 * Steps are parted by `;`. A device is `0`, `1` or `host`; `0.3` is the program's stream 3 of
 * device 0; `0.p1` is its parked stream 1, `0.w` that within the device, `outside` any that stands
 * for the program's. A status is named without FERRY_ and FERRY_E_.
 *
 *   buffer DEVICE NAME BYTE [NAME BYTE]...     record NAME 0.3
 *   copy NAME DST SRC [after FUTURE...] [until NS]      since the beginning
 *   nop NAME [after FUTURE...]                 drain NAME
 *   promise NAME (and its future)              keep PROMISE STATUS
 *   define BUFFER FUTURE...                    cancel FUTURE...
 *   drop NAME...
 *
 *   fire 0.3 [0.3]...      the stream of the program comes to its next event
 *   settle                 the engine
 *   devices [N]            the devices, which run N operations
 *   run                    both, to the end
 *   pass NS                time passes, and the engine settles
 *   hold DEVICE            its stream `w`; free DEVICE lets it go
 *   refuse DEVICE N        the copy after N others; strike DEVICE N likewise
 *   lose DEVICE            find DEVICE
 *   shutdown NS STATUS     ferry_engine_shutdown, and what it answers
 *   wait 0.3 FUTURE STATUS      ferry_future_stream_wait, the same
 *   write BUFFER BYTE      as a kernel of the program's does
 *
 *   expect FUTURE... STATUS [by STATUS]    the second is its cause's
 *   fails FUTURE WORDS...      by itself on the device, whose message those are
 *   shares FUTURE... with FUTURE           the second failed on the device, and is the cause
 *   issued | unissued | quiet | unquiet FUTURE...
 *   filled BUFFER BYTE [BUFFER BYTE]...
 *   stands STREAM N        so many have been issued to it
 *   waits STREAM N COUNT [STREAM [M]]      the N-th there waits for so many: first for M of STREAM
 */
#ifndef FERRY_TESTS_STEPS_H
#define FERRY_TESTS_STEPS_H

#include "tests/support/owned.h"
#include "tests/unit/fake_engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP_WORDS = 20, STEP_BYTES = 160, STEP_NAMES = 48 };

typedef struct step_thing {
    char name[16];
    ferry_buffer *buffer; /* or */
    ferry_promise *promise;
    ferry_future *future;
} step_thing;

typedef struct steps {
    fake_engine f;
    step_thing things[STEP_NAMES];
    size_t count;
    char step[STEP_BYTES]; /* that is being played */
    char *words[STEP_WORDS];
    size_t word_count;
} steps;

#define STEP_ASSERT(s_, condition_, format_, ...)                                                  \
    cr_assert(condition_, "\"%s\": " format_, (s_)->step, __VA_ARGS__)

/* ---- names ---- */

static inline step_thing *step_find(steps *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->things[i].name, name) == 0)
            return &s->things[i];
    }
    return NULL;
}

static inline void step_release(step_thing *thing)
{
    ferry_future_release(thing->future);
    ferry_promise_release(thing->promise);
    ferry_buffer_release(thing->buffer);
    thing->future = NULL, thing->promise = NULL, thing->buffer = NULL;
}

static inline step_thing *step_name(steps *s, const char *name)
{
    step_thing *thing = step_find(s, name);
    if (thing == NULL) {
        STEP_ASSERT(s, s->count < STEP_NAMES && strlen(name) < sizeof thing->name, "no room for %s",
                    name);
        thing = &s->things[s->count++];
        *thing = (step_thing){.future = NULL};
        (void)snprintf(thing->name, sizeof thing->name, "%s", name);
    }
    step_release(thing);
    return thing;
}

static inline ferry_buffer *buffer_of(steps *s, const char *name)
{
    step_thing *thing = step_find(s, name);
    STEP_ASSERT(s, thing != NULL && thing->buffer != NULL, "no buffer is called %s", name);
    return thing->buffer;
}

static inline ferry_future *future_of(steps *s, const char *name)
{
    step_thing *thing = step_find(s, name);
    STEP_ASSERT(s, thing != NULL && thing->future != NULL, "no future is called %s", name);
    return thing->future;
}

/* Has the sequence own a future of the caller's under that name. */
static inline ferry_future *name_future(steps *s, const char *name, ferry_future *future)
{
    return step_name(s, name)->future = future;
}

static inline long long step_number(steps *s, const char *word)
{
    char *end;
    long long number = strtoll(word, &end, 10);
    STEP_ASSERT(s, end != word && *end == '\0', "%s is no number", word);
    return number;
}

/* The device that a word names, or begins with. */
static inline size_t step_gpu(steps *s, const char *word)
{
    STEP_ASSERT(s, (word[0] == '0' || word[0] == '1') && (word[1] == '\0' || word[1] == '.'),
                "%s is no device", word);
    return (size_t)(word[0] - '0');
}

static inline size_t step_user(steps *s, const char *word)
{
    STEP_ASSERT(s, word[1] == '.' && word[2] >= '0' && word[2] <= '9' && word[3] == '\0',
                "%s is no stream of the program", word);
    return (size_t)(word[2] - '0');
}

static inline fry_stream *step_stream(steps *s, const char *word)
{
    size_t gpu = step_gpu(s, word);
    if (strcmp(word + 1, ".w") == 0)
        return fake_stream(s->f.gpus[gpu], FAKE_WITHIN);
    STEP_ASSERT(s, strncmp(word + 1, ".p", 2) == 0, "%s is no stream", word);
    return parked(&s->f, gpu, (size_t)step_number(s, word + 3));
}

/* False: the word is no status. */
static inline bool step_is_status(const char *word, ferry_status *status_p)
{
    for (int status = FERRY_PENDING; status > -256; status--) {
        const char *name = ferry_status_name((ferry_status)status) + strlen("FERRY_");
        *status_p = (ferry_status)status;
        if (strcmp(name, word) == 0 || (strncmp(name, "E_", 2) == 0 && strcmp(name + 2, word) == 0))
            return true;
    }
    return false;
}

static inline ferry_status step_status(steps *s, const char *word)
{
    ferry_status status;
    STEP_ASSERT(s, step_is_status(word, &status), "%s is no status", word);
    return status;
}

static inline void step_same(steps *s, const char *what, ferry_status found, ferry_status expected)
{
    STEP_ASSERT(s, found == expected, "%s is %s, not %s", what, ferry_status_name(found),
                ferry_status_name(expected));
}

/* ---- steps that make something ---- */

static inline void step_buffer(steps *s)
{
    for (size_t i = 2; i + 1 < s->word_count; i += 2) {
        int fill = (int)step_number(s, s->words[i + 1]);
        step_name(s, s->words[i])->buffer = strcmp(s->words[1], "host") == 0
                                                ? test_buffer(&s->f.te, 0, GPU_SIZE, fill)
                                                : gpu_buffer(&s->f, step_gpu(s, s->words[1]), fill);
    }
}

static inline void step_record(steps *s)
{
    size_t gpu = step_gpu(s, s->words[2]), user = step_user(s, s->words[2]);
    (void)name_future(s, s->words[1], record(&s->f, gpu, user));
}

/* What stands behind `after` and `until`, from that word on. */
static inline ferry_op_options step_options(steps *s, size_t i, ferry_future **after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    if (i < s->word_count && strcmp(s->words[i], "after") == 0) {
        options.after = after;
        for (i++; i < s->word_count && strcmp(s->words[i], "until") != 0; i++)
            after[options.after_count++] = future_of(s, s->words[i]);
    }
    if (i + 1 < s->word_count)
        options.deadline_ns = START_NS + step_number(s, s->words[i + 1]);
    return options;
}

static inline void step_copy(steps *s)
{
    ferry_future *after[STEP_WORDS];
    ferry_op_options options = step_options(s, 4, after);
    ferry_span dst = ferry_buffer_span(buffer_of(s, s->words[2]));
    ferry_span src = ferry_buffer_span(buffer_of(s, s->words[3]));
    ferry_future *copy = ferry_copy(s->f.te.engine, dst, src, &options);
    (void)name_future(s, s->words[1], copy);
}

static inline void step_nop(steps *s)
{
    ferry_future *after[STEP_WORDS];
    ferry_op_options options = step_options(s, 2, after);
    (void)name_future(s, s->words[1], ferry_nop(s->f.te.engine, &options));
}

static inline void step_drain(steps *s)
{
    (void)name_future(s, s->words[1], ferry_engine_drain(s->f.te.engine));
}

static inline void step_promise(steps *s)
{
    step_thing *thing = step_name(s, s->words[1]);
    thing->promise = test_promise(&s->f.te);
    thing->future = ferry_promise_future(thing->promise);
}

static inline void step_keep(steps *s)
{
    step_thing *thing = step_find(s, s->words[1]);
    STEP_ASSERT(s, thing != NULL && thing->promise != NULL, "no promise is called %s", s->words[1]);
    keep_promise(thing->promise, step_status(s, s->words[2]));
    thing->promise = NULL;
}

static inline void step_define(steps *s)
{
    ferry_span span = ferry_buffer_span(buffer_of(s, s->words[1]));
    for (size_t i = 2; i < s->word_count; i++)
        step_same(s, "it", ferry_buffer_define(span, future_of(s, s->words[i])), FERRY_OK);
}

static inline void step_cancel(steps *s)
{
    for (size_t i = 1; i < s->word_count; i++)
        step_same(s, "it", ferry_future_cancel(future_of(s, s->words[i])), FERRY_OK);
}

static inline void step_drop(steps *s)
{
    for (size_t i = 1; i < s->word_count; i++) {
        STEP_ASSERT(s, step_find(s, s->words[i]) != NULL, "there is no %s", s->words[i]);
        step_release(step_find(s, s->words[i]));
    }
}

/* ---- steps that bring it on ---- */

static inline void step_fire(steps *s)
{
    for (size_t i = 1; i < s->word_count; i++)
        user_goes(&s->f, step_gpu(s, s->words[i]), step_user(s, s->words[i]));
}

static inline void step_settle(steps *s)
{
    settle(&s->f.te);
}

static inline void step_devices(steps *s)
{
    size_t ran = fake_run(s->f.world);
    if (s->word_count > 1)
        STEP_ASSERT(s, ran == (size_t)step_number(s, s->words[1]), "it was %zu", ran);
}

static inline void step_run(steps *s)
{
    run_all(&s->f);
}

static inline void step_pass(steps *s)
{
    stepped_clock_step(&s->f.te.time, step_number(s, s->words[1]));
    settle(&s->f.te);
}

static inline void step_hold(steps *s)
{
    fry_stream *within = fake_stream(s->f.gpus[step_gpu(s, s->words[1])], FAKE_WITHIN);
    fake_hold(within, strcmp(s->words[0], "hold") == 0);
}

static inline void step_refuse(steps *s)
{
    fake_device *gpu = s->f.gpus[step_gpu(s, s->words[1])];
    uint64_t after = (uint64_t)step_number(s, s->words[2]);
    if (strcmp(s->words[0], "refuse") == 0)
        fake_refuse_copy(gpu, after);
    else
        fake_strike_copy(gpu, after);
}

static inline void step_lose(steps *s)
{
    fake_lose(s->f.gpus[step_gpu(s, s->words[1])], strcmp(s->words[0], "lose") == 0);
}

static inline void step_shutdown(steps *s)
{
    ferry_status status = ferry_engine_shutdown(s->f.te.engine, step_number(s, s->words[1]));
    step_same(s, "it", status, step_status(s, s->words[2]));
}

static inline void step_wait(steps *s)
{
    size_t gpu = step_gpu(s, s->words[1]);
    void *stream = fake_user_stream(s->f.gpus[gpu], step_user(s, s->words[1]));
    ferry_status status =
        ferry_future_stream_wait(future_of(s, s->words[2]), s->f.devices[gpu], stream);
    step_same(s, "it", status, step_status(s, s->words[3]));
}

static inline void step_write(steps *s)
{
    void *data = ferry_buffer_data(buffer_of(s, s->words[1]));
    memset(data, (int)step_number(s, s->words[2]), GPU_SIZE);
}

/* ---- steps that check ---- */

static inline void step_expect(steps *s)
{
    bool has_cause = s->word_count > 4 && strcmp(s->words[s->word_count - 2], "by") == 0;
    size_t last = has_cause ? s->word_count - 3 : s->word_count - 1;
    for (size_t i = 1; i < last; i++) {
        ferry_future *future = future_of(s, s->words[i]);
        step_same(s, s->words[i], ferry_future_poll(future), step_status(s, s->words[last]));
        if (!has_cause)
            continue;
        const ferry_error *cause = ferry_future_error(future)->cause;
        STEP_ASSERT(s, cause != NULL, "%s has no cause", s->words[i]);
        step_same(s, "its cause", cause->status, step_status(s, s->words[s->word_count - 1]));
    }
}

static inline void step_fails(steps *s)
{
    ferry_future *future = future_of(s, s->words[1]);
    step_same(s, s->words[1], ferry_future_poll(future), FERRY_E_DEVICE);
    const ferry_error *error = ferry_future_error(future);
    step_same(s, "its error", error->status, FERRY_E_DEVICE);
    STEP_ASSERT(s, strcmp(error->domain, "fake") == 0, "its domain is %s", error->domain);
    STEP_ASSERT(s, error->native_code == FAKE_ERROR_CODE, "its code is %lld",
                (long long)error->native_code);
    STEP_ASSERT(s, error->op == ferry_future_id(future), "%s is not its operation", s->words[1]);
    STEP_ASSERT(s, error->cause == NULL, "%s has a cause", s->words[1]);
    char message[STEP_BYTES] = "";
    for (size_t i = 2, end = 0; i < s->word_count; i++)
        end += (size_t)snprintf(message + end, sizeof message - end, "%s%s", i == 2 ? "" : " ",
                                s->words[i]);
    STEP_ASSERT(s, strcmp(error->message, message) == 0, "it says \"%s\"", error->message);
}

static inline void step_shares(steps *s)
{
    const ferry_future *of = future_of(s, s->words[s->word_count - 1]);
    for (size_t i = 1; i + 2 < s->word_count; i++) {
        ferry_future *future = future_of(s, s->words[i]);
        step_same(s, s->words[i], ferry_future_poll(future), FERRY_E_DEPENDENCY);
        const ferry_error *cause = ferry_future_error(future)->cause;
        step_same(s, "its cause", cause->status, FERRY_E_DEVICE);
        STEP_ASSERT(s, cause->native_code == FAKE_ERROR_CODE, "its cause's code is %lld",
                    (long long)cause->native_code);
        STEP_ASSERT(s, cause->op == ferry_future_id(of), "another is the cause of %s", s->words[i]);
    }
}

/* issued, unissued, quiet, unquiet */
static inline void step_is(steps *s)
{
    bool is_not = strncmp(s->words[0], "un", 2) == 0;
    bool (*is)(ferry_future *) = strstr(s->words[0], "issued") != NULL ? is_issued : is_quiet;
    for (size_t i = 1; i < s->word_count; i++)
        STEP_ASSERT(s, is(future_of(s, s->words[i])) != is_not, "not so: %s", s->words[i]);
}

static inline void step_filled(steps *s)
{
    for (size_t i = 1; i + 1 < s->word_count; i += 2) {
        const ferry_buffer *buffer = buffer_of(s, s->words[i]);
        STEP_ASSERT(s, is_filled(buffer, 0, GPU_SIZE, (int)step_number(s, s->words[i + 1])),
                    "%s begins with %d", s->words[i], *(const char *)ferry_buffer_data(buffer));
    }
}

static inline void step_stands(steps *s)
{
    uint64_t issued = issued_to(step_stream(s, s->words[1]));
    STEP_ASSERT(s, issued == (uint64_t)step_number(s, s->words[2]), "it is %llu",
                (unsigned long long)issued);
}

static inline void step_waits(steps *s)
{
    fry_event waits[FRY_STREAM_WAITS];
    size_t found =
        fake_waits(step_stream(s, s->words[1]), (uint64_t)step_number(s, s->words[2]), waits);
    STEP_ASSERT(s, found == (size_t)step_number(s, s->words[3]), "it is %zu", found);
    if (s->word_count > 4 && strcmp(s->words[4], "outside") == 0)
        STEP_ASSERT(s, waits[0].stream->kind == FRY_STREAM_OUTSIDE, "not for %s", s->words[4]);
    else if (s->word_count > 4)
        STEP_ASSERT(s, waits[0].stream == step_stream(s, s->words[4]), "not for %s", s->words[4]);
    if (s->word_count > 5)
        STEP_ASSERT(s, waits[0].sequence == (uint64_t)step_number(s, s->words[5]), "not for %s",
                    s->words[5]);
}

/* ---- playing ---- */

static const struct {
    const char *name;
    size_t words_min;
    void (*play)(steps *s);
} step_verbs[] = {
    {"buffer", 4, step_buffer},     {"record", 3, step_record}, {"copy", 4, step_copy},
    {"nop", 2, step_nop},           {"drain", 2, step_drain},   {"promise", 2, step_promise},
    {"keep", 3, step_keep},         {"define", 3, step_define}, {"cancel", 2, step_cancel},
    {"drop", 2, step_drop},         {"fire", 2, step_fire},     {"settle", 1, step_settle},
    {"devices", 1, step_devices},   {"run", 1, step_run},       {"pass", 2, step_pass},
    {"hold", 2, step_hold},         {"free", 2, step_hold},     {"refuse", 3, step_refuse},
    {"strike", 3, step_refuse},     {"lose", 2, step_lose},     {"find", 2, step_lose},
    {"shutdown", 3, step_shutdown}, {"wait", 4, step_wait},     {"write", 3, step_write},
    {"expect", 3, step_expect},     {"fails", 3, step_fails},   {"shares", 4, step_shares},
    {"issued", 2, step_is},         {"unissued", 2, step_is},   {"quiet", 2, step_is},
    {"unquiet", 2, step_is},        {"filled", 3, step_filled}, {"stands", 3, step_stands},
    {"waits", 4, step_waits}};

#define STEP_VERBS (sizeof step_verbs / sizeof *step_verbs)

static inline void step_one(steps *s, const char *text, size_t length)
{
    char line[STEP_BYTES], *rest = line;
    size_t verb = 0;
    cr_assert_lt(length, sizeof line, "a step is too long: %.*s", (int)length, text);
    (void)snprintf(line, sizeof line, "%.*s", (int)length, text);
    memcpy(s->step, line, sizeof line);
    s->word_count = 0;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL; s->words[s->word_count++] = word)
        STEP_ASSERT(s, s->word_count < STEP_WORDS, "more than %d words", STEP_WORDS);
    if (s->word_count == 0)
        return;
    while (verb < STEP_VERBS && strcmp(step_verbs[verb].name, s->words[0]) != 0)
        verb++;
    STEP_ASSERT(s, verb < STEP_VERBS, "no such step: %s", s->words[0]);
    STEP_ASSERT(s, s->word_count >= step_verbs[verb].words_min, "%s wants more words", s->words[0]);
    step_verbs[verb].play(s);
}

static inline void steps_play(steps *s, const char *script)
{
    while (*script != '\0') {
        script += strspn(script, " ;");
        size_t length = strcspn(script, ";");
        step_one(s, script, length);
        script += length;
    }
}

static inline void steps_open(steps *s)
{
    s->count = 0;
    fake_engine_open(&s->f, FERRY_LOOP_EMBEDDED);
}

/* Releases what has a name; then nothing may be left. */
static inline void steps_close(steps *s)
{
    for (size_t i = 0; i < s->count; i++)
        step_release(&s->things[i]);
    fake_engine_close(&s->f);
}

/* A sequence from the beginning to the end. */
static inline void play(const char *script)
{
    OPENED(steps, s);
    steps_play(&s, script);
}

#endif
