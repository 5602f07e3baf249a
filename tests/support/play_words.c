/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/play_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 4096, WORDS = 96 };

/* The step that is being played. */
static struct {
    char text[TEXT_BYTES]; /* its words, cut apart */
    char *words[WORDS];
    size_t count, next;            /* next: the first that was not read */
    ferry_future *borrowed[WORDS]; /* of promises, for as long as the step */
    size_t borrowed_count;
    char complaint[1024];
} step;

/* False, for the step to fail with; the first complaint stays. */
bool play_complain(const char *format, ...)
{
    va_list arguments;
    if (step.complaint[0] != '\0')
        return false;
    va_start(arguments, format);
    (void)vsnprintf(step.complaint, sizeof step.complaint, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- words ---- */

const char *play_peek(void)
{
    return step.next < step.count ? step.words[step.next] : "";
}

const char *play_take(const char *what)
{
    if (step.next == step.count)
        (void)play_complain("there is no %s", what);
    return step.next < step.count ? step.words[step.next++] : "";
}

bool play_skip(const char *word)
{
    if (strcmp(play_peek(), word) != 0)
        return false;
    step.next++;
    return true;
}

bool play_must(const char *word)
{
    return play_skip(word) || play_complain("\"%s\" should be \"%s\"", play_peek(), word);
}

static bool is_number(const char *word)
{
    char *end;
    (void)strtoll(word, &end, 0);
    return *word != '\0' && *end == '\0';
}

bool play_take_number(int64_t *number)
{
    const char *word = play_take("number");
    if (!is_number(word))
        return play_complain("\"%s\" is no number", word);
    *number = strtoll(word, NULL, 0);
    return true;
}

bool play_take_size(size_t *size)
{
    int64_t number = 0;
    if (!play_take_number(&number))
        return false;
    *size = (size_t)number;
    return true;
}

bool play_find_status(const char *word, ferry_status *status)
{
    static const struct {
        const char *name;
        ferry_status status;
    } statuses[] = {
#define ROW(name, number, text) {#name, number},
        FERRY_STATUS_MAP(ROW)
#undef ROW
    };
    static const char *const prefixes[] = {"FERRY_E_", "FERRY_"};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        for (size_t k = 0; k < 2; k++) {
            size_t length = strlen(prefixes[k]);
            if (strncmp(statuses[i].name, prefixes[k], length) == 0 &&
                strcmp(statuses[i].name + length, word) == 0) {
                *status = statuses[i].status;
                return true;
            }
        }
    }
    return false;
}

bool play_take_status(ferry_status *status)
{
    const char *word = play_take("status");
    return play_find_status(word, status) || play_complain("\"%s\" is no status", word);
}

/* ---- things ---- */

bool play_is_future(const char *name)
{
    return scene_find(SCENE_FUTURE, name) != NULL || scene_find(SCENE_PROMISE, name) != NULL;
}

/* Until the end of the step; NULL: there is none. */
ferry_future *play_borrow_future(const char *name)
{
    ferry_future *future = scene_find(SCENE_FUTURE, name);
    ferry_promise *promise = scene_find(SCENE_PROMISE, name);
    if (future == NULL && promise != NULL)
        future = step.borrowed[step.borrowed_count++] = ferry_promise_future(promise);
    return future;
}

bool play_take_future(ferry_future **future)
{
    const char *name = play_take("future");
    *future = play_borrow_future(name);
    return *future != NULL || play_complain("\"%s\" is no future", name);
}

bool play_take_promise(ferry_promise **promise, const char **name)
{
    *name = play_take("promise");
    *promise = scene_find(SCENE_PROMISE, *name);
    return *promise != NULL || play_complain("\"%s\" is no promise", *name);
}

/* "name" or "name[begin:end]". */
bool play_parse_span(const char *word, ferry_span *span)
{
    char name[SCENE_NAME_BYTES];
    size_t begin = 0, end = 0, length = strcspn(word, "[");
    int read = 0;
    if (length >= sizeof name)
        return play_complain("\"%s\" is no span", word);
    memcpy(name, word, length);
    name[length] = '\0';
    ferry_buffer *buffer = scene_find(SCENE_BUFFER, name);
    if (buffer == NULL)
        return play_complain("\"%s\" is no buffer", name);
    *span = ferry_buffer_span(buffer);
    if (word[length] == '\0')
        return true;
    if (sscanf(word + length, "[%zu:%zu]%n", &begin, &end, &read) != 2 ||
        word[length + (size_t)read] != '\0' || begin > end)
        return play_complain("\"%s\" is no span", word);
    *span = span_of(buffer, begin, end - begin);
    return true;
}

bool play_take_span(ferry_span *span)
{
    return play_parse_span(play_take("span"), span);
}

bool play_keep_as(scene_kind kind, void *thing, const char *name)
{
    return scene_own_as(kind, thing, name) ||
           play_complain("\"%s\" is too long, or there already", name);
}

/* What an act has answered is what it should. */
bool play_answered(ferry_status status)
{
    ferry_status expected = FERRY_OK;
    if (play_skip("gives") && !play_take_status(&expected))
        return false;
    return status == expected || play_complain("it gives %s, not %s", ferry_status_name(status),
                                               ferry_status_name(expected));
}

/* ---- the step ---- */

static bool cut_apart(const char *begin, size_t size_bytes)
{
    char *rest = NULL;
    if (size_bytes >= TEXT_BYTES)
        return play_complain("it is too long");
    memcpy(step.text, begin, size_bytes);
    step.text[size_bytes] = '\0';
    for (char *word = strtok_r(step.text, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest)) {
        if (step.count == WORDS)
            return play_complain("too many words");
        step.words[step.count++] = word;
    }
    return true;
}

bool play_begin_step(const char *begin, size_t size_bytes)
{
    step.count = step.next = 0;
    step.complaint[0] = '\0';
    return cut_apart(begin, size_bytes);
}

bool play_is_read(void)
{
    return step.next == step.count;
}

bool play_end_step(void)
{
    while (step.borrowed_count > 0)
        ferry_future_release(step.borrowed[--step.borrowed_count]);
    return play_is_read() || play_complain("\"%s\" is too much", play_peek());
}

const char *play_last_word(void)
{
    return step.words[step.count - 1];
}

bool play_is_last(void)
{
    return step.next + 1 >= step.count;
}

const char *play_complaint(void)
{
    return step.complaint;
}
