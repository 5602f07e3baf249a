/* SPDX-License-Identifier: Apache-2.0 */
/* Taking dumps and looking into them. For Criterion programs that are linked with jansson. */
#ifndef FERRY_TESTS_DUMP_TEST_H
#define FERRY_TESTS_DUMP_TEST_H

#include <criterion/criterion.h>
#include <ferry/ferry.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Text that grows; zero it first. */
typedef struct dump_text {
    char *bytes; /* ends with a zero */
    size_t size_bytes;
    size_t room_bytes;
    size_t pieces;
} dump_text;

static inline void dump_take(void *arg, const char *bytes, size_t size_bytes)
{
    dump_text *text = arg;
    if (text->size_bytes + size_bytes + 1 > text->room_bytes) {
        text->room_bytes = (text->size_bytes + size_bytes + 1) * 2;
        text->bytes = realloc(text->bytes, text->room_bytes);
        cr_assert_not_null(text->bytes);
    }
    memcpy(text->bytes + text->size_bytes, bytes, size_bytes);
    text->size_bytes += size_bytes;
    text->bytes[text->size_bytes] = '\0';
    text->pieces++;
}

static inline void dump_free(dump_text *text)
{
    free(text->bytes);
    *text = (dump_text){0};
}

/* What the text says; the caller gives it back with json_decref. */
static inline json_t *dump_parse(const dump_text *text)
{
    json_error_t error;
    json_t *whole = json_loadb(text->bytes, text->size_bytes, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(whole, "line %d: %s\n%s", error.line, error.text, text->bytes);
    return whole;
}

static inline json_t *dump_json(ferry_engine *engine)
{
    dump_text text = {0};
    ferry_status status = ferry_engine_dump(engine, FERRY_DUMP_JSON, dump_take, &text);
    cr_assert_eq(status, FERRY_OK, "%s", ferry_status_name(status));
    json_t *whole = dump_parse(&text);
    dump_free(&text);
    return whole;
}

/* The same, which stays until the next call. */
static inline const json_t *dump_now(ferry_engine *engine)
{
    static json_t *whole;
    json_decref(whole);
    whole = dump_json(engine);
    return whole;
}

/* How many there are in a list of the whole. */
static inline size_t dump_count(const json_t *whole, const char *list)
{
    return json_array_size(json_object_get(whole, list));
}

/* The operation or promise of a number, or NULL; borrowed. */
static inline json_t *dump_find(const json_t *whole, uint64_t id)
{
    static const char *const lists[] = {"nodes", "promises"};
    for (size_t i = 0; i < 2; i++) {
        size_t at;
        json_t *node;
        json_array_foreach(json_object_get(whole, lists[i]), at, node)
        {
            if ((uint64_t)json_integer_value(json_object_get(node, "id")) == id)
                return node;
        }
    }
    return NULL;
}

static inline json_t *dump_of(const json_t *whole, const ferry_future *future)
{
    json_t *node = dump_find(whole, ferry_future_id(future));
    cr_assert_not_null(node, "operation %llu is not there",
                       (unsigned long long)ferry_future_id(future));
    return node;
}

/* A member that is a string, or "". */
static inline const char *dump_word(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value != NULL ? value : "";
}

static inline json_int_t dump_number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static inline json_int_t dump_total(const json_t *whole, const char *name)
{
    return dump_number(json_object_get(whole, "totals"), name);
}

/* Whether the operation waits for the other by such an edge: "read/device". */
static inline bool dump_waits(const json_t *node, const ferry_future *other, const char *how)
{
    size_t at;
    json_t *wait;
    json_array_foreach(json_object_get(node, "waits"), at, wait)
    {
        char found[64];
        (void)snprintf(found, sizeof found, "%s/%s", dump_word(wait, "nature"),
                       dump_word(wait, "where"));
        if ((uint64_t)dump_number(wait, "op") == ferry_future_id(other) && strcmp(found, how) == 0)
            return true;
    }
    return false;
}

static inline bool dump_has_flag(const json_t *node, const char *name)
{
    size_t at;
    json_t *flag;
    json_array_foreach(json_object_get(node, "flags"), at, flag)
    {
        if (strcmp(json_string_value(flag), name) == 0)
            return true;
    }
    return false;
}

/* A member as text, or "". */
static inline const char *dump_text_of(const json_t *object, const char *name, char text[32])
{
    const json_t *member = json_object_get(object, name);
    if (json_is_boolean(member))
        return json_is_true(member) ? "true" : "false";
    if (!json_is_integer(member))
        return dump_word(object, name);
    (void)snprintf(text, 32, "%lld", (long long)json_integer_value(member));
    return text;
}

/* The object has these members: "state=issued in_flight=1 starved=true". */
static inline void dump_says(const json_t *object, const char *members)
{
    char copy[256], text[32], *rest = copy;
    cr_assert_lt((size_t)snprintf(copy, sizeof copy, "%s", members), sizeof copy);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        char *expected = strchr(name, '=');
        cr_assert_not_null(expected, "\"%s\" has no value", name);
        *expected++ = '\0';
        cr_assert_str_eq(dump_text_of(object, name, text), expected, "%s: %s", name,
                         json_dumps(object, 0));
    }
}

#define ASSERT_WORD(object, name, expected)                                                        \
    cr_assert_str_eq(dump_word(object, name), expected, "%s", json_dumps(object, 0))

#endif
