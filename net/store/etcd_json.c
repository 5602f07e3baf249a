/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/etcd_json.h"

#include "net/store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE64 sodium_base64_VARIANT_ORIGINAL
#define NUMBER_BYTES 24

/* ---- parsing ---- */

/* jansson bounds the depth and refuses text that is not UTF-8. NULL: no JSON object. */
static json_t *parse(const char *text, size_t bytes)
{
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);

    if (root != NULL && !json_is_object(root)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

/* Reads a number, written as a string or as a number; 0 if it is left out. */
static bool read_number(const json_t *object, const char *name, uint64_t *number_p)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    uint64_t number = 0;

    *number_p = 0;
    if (value == NULL)
        return true;
    if (json_is_integer(value)) {
        *number_p = (uint64_t)json_integer_value(value);
        return json_integer_value(value) >= 0;
    }
    if (text == NULL || *text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *number_p = number;
    return true;
}

static bool read_flag(const json_t *object, const char *name, bool *flag_p)
{
    const json_t *value = json_object_get(object, name);

    *flag_p = json_is_true(value);
    return value == NULL || json_is_boolean(value);
}

/* Reads an object, which may be left out: then true and NULL. */
static bool read_object(const json_t *object, const char *name, const json_t **part_p)
{
    *part_p = json_object_get(object, name);
    return *part_p == NULL || json_is_object(*part_p);
}

static bool read_array(const json_t *object, const char *name, const json_t **array_p)
{
    *array_p = json_object_get(object, name);
    return *array_p == NULL || json_is_array(*array_p);
}

static bool read_header(const json_t *object, uint64_t *revision_p)
{
    const json_t *header;

    *revision_p = 0;
    if (!read_object(object, "header", &header))
        return false;
    return header == NULL || read_number(header, "revision", revision_p);
}

/* Makes an outside text fit for a line of the log: cuts it, and removes terminal controls. */
static void copy_text(char *to, const char *from)
{
    size_t i = 0;

    for (; from[i] != '\0' && i < FRY_ETCD_TEXT_BYTES - 1; i++)
        to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
    to[i] = '\0';
}

void fry_etcd_kv_release(const fry_memory *memory, fry_etcd_kv *kv)
{
    fry_free(memory, (void *)(uintptr_t)kv->entry.key, kv->block_bytes);
    *kv = (fry_etcd_kv){0};
}

/* The key goes first, so the block's address is the key's. Zero bytes follow key and value. */
static fry_etcd_read decode(const fry_memory *memory, const json_t *key, const json_t *value,
                            fry_etcd_kv *kv)
{
    const size_t text_bytes = json_string_length(value);
    const size_t value_room = text_bytes / 4 * 3;
    char name[FRY_STORE_KEY_BYTES + 1];
    size_t key_bytes, value_bytes = 0;

    /* The key is too long for us, or garbled: it does not matter which. */
    if (sodium_base642bin((unsigned char *)name, sizeof name - 1, json_string_value(key),
                          json_string_length(key), NULL, &key_bytes, NULL, BASE64) != 0)
        return FRY_ETCD_FOREIGN;
    name[key_bytes] = '\0';
    if (strlen(name) != key_bytes || !fry_store_is_key(name) ||
        value_room > FRY_STORE_VALUE_BYTES + 2)
        return FRY_ETCD_FOREIGN;
    const size_t block_bytes = key_bytes + 1 + value_room + 1;
    char *block = fry_alloc_raw(memory, block_bytes, 1);
    if (block == NULL)
        return FRY_ETCD_NO_MEMORY;
    memcpy(block, name, key_bytes + 1);
    char *bytes = block + key_bytes + 1;
    if (value != NULL &&
        sodium_base642bin((unsigned char *)bytes, value_room, json_string_value(value), text_bytes,
                          NULL, &value_bytes, NULL, BASE64) != 0) {
        fry_free(memory, block, block_bytes);
        return FRY_ETCD_GARBLED;
    }
    if (value_bytes > FRY_STORE_VALUE_BYTES) {
        fry_free(memory, block, block_bytes);
        return FRY_ETCD_FOREIGN;
    }
    bytes[value_bytes] = '\0';
    kv->entry.key = block;
    kv->entry.value = bytes;
    kv->entry.value_bytes = value_bytes;
    kv->block_bytes = block_bytes;
    return FRY_ETCD_READ;
}

static fry_etcd_read read_kv(const fry_memory *memory, const json_t *object, fry_etcd_kv *kv)
{
    const json_t *key = json_object_get(object, "key");
    const json_t *value = json_object_get(object, "value");

    *kv = (fry_etcd_kv){0};
    if (!json_is_object(object) || !json_is_string(key) ||
        (value != NULL && !json_is_string(value)) ||
        !read_number(object, "mod_revision", &kv->entry.version) || kv->entry.version == 0 ||
        !read_number(object, "create_revision", &kv->create_revision) ||
        !read_number(object, "lease", &kv->lease))
        return FRY_ETCD_GARBLED;
    return decode(memory, key, value, kv);
}

void fry_etcd_kvs_release(const fry_memory *memory, fry_etcd_kvs *kvs)
{
    for (size_t i = 0; i < kvs->count; i++)
        fry_etcd_kv_release(memory, &kvs->items[i]);
    fry_free(memory, kvs->items, kvs->room * sizeof *kvs->items);
    *kvs = (fry_etcd_kvs){0};
}

bool fry_etcd_kvs_grow(const fry_memory *memory, fry_etcd_kvs *kvs, size_t more)
{
    const size_t needed = kvs->count + more;
    const size_t room = needed > 2 * kvs->room ? needed : 2 * kvs->room;

    if (needed <= kvs->room)
        return true;
    fry_etcd_kv *larger = fry_alloc_raw(memory, room * sizeof *larger, _Alignof(fry_etcd_kv));
    if (larger == NULL)
        return false;
    if (kvs->count > 0)
        memcpy(larger, kvs->items, kvs->count * sizeof *larger);
    fry_free(memory, kvs->items, kvs->room * sizeof *larger);
    kvs->items = larger;
    kvs->room = room;
    return true;
}

static fry_etcd_read read_event(const fry_memory *memory, const json_t *object, fry_etcd_kv *kv)
{
    const json_t *type = json_object_get(object, "type");
    const char *name = json_string_value(type);
    const bool is_deletion = name != NULL && strcmp(name, "DELETE") == 0;

    if (!json_is_object(object) || (type != NULL && name == NULL) ||
        (name != NULL && !is_deletion && strcmp(name, "PUT") != 0))
        return FRY_ETCD_GARBLED;
    const fry_etcd_read read = read_kv(memory, json_object_get(object, "kv"), kv);
    kv->is_deletion = is_deletion;
    return read;
}

/* Reads an array of kvs or events by read_one. */
static fry_etcd_read read_all(const fry_memory *memory, const json_t *array,
                              fry_etcd_read (*read_one)(const fry_memory *, const json_t *,
                                                        fry_etcd_kv *),
                              fry_etcd_kvs *kvs)
{
    const size_t count = json_array_size(array);

    if (count > FRY_ETCD_KVS_MAX)
        return FRY_ETCD_GARBLED;
    if (!fry_etcd_kvs_grow(memory, kvs, count))
        return FRY_ETCD_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const fry_etcd_read read =
            read_one(memory, json_array_get(array, i), &kvs->items[kvs->count]);

        if (read == FRY_ETCD_READ)
            kvs->count++;
        else if (read == FRY_ETCD_FOREIGN)
            kvs->foreign++;
        else
            return read;
    }
    return FRY_ETCD_READ;
}

/* ---- ranges ---- */

static fry_etcd_read read_last_key(const json_t *kv, fry_etcd_page *page)
{
    const json_t *key = json_object_get(kv, "key");

    if (sodium_base642bin(page->last_key, sizeof page->last_key - 1, json_string_value(key),
                          json_string_length(key), NULL, &page->last_key_bytes, NULL,
                          BASE64) != 0 ||
        page->last_key_bytes == 0)
        return FRY_ETCD_GARBLED;
    page->last_key[page->last_key_bytes] = 0;
    return FRY_ETCD_READ;
}

static fry_etcd_read read_kvs(const fry_memory *memory, const json_t *kvs, fry_etcd_page *page)
{
    const size_t count = json_array_size(kvs);
    const fry_etcd_read read = read_all(memory, kvs, read_kv, &page->kvs);

    if (read != FRY_ETCD_READ || !page->has_more)
        return read;
    return count > 0 ? read_last_key(json_array_get(kvs, count - 1), page) : FRY_ETCD_GARBLED;
}

fry_etcd_read fry_etcd_read_page(const fry_memory *memory, const char *text, size_t bytes,
                                 fry_etcd_page *page)
{
    fry_etcd_read read = FRY_ETCD_GARBLED;
    const json_t *kvs;
    json_t *root = parse(text, bytes);

    *page = (fry_etcd_page){0};
    if (root != NULL && read_header(root, &page->revision) && page->revision != 0 &&
        read_flag(root, "more", &page->has_more) && read_array(root, "kvs", &kvs))
        read = read_kvs(memory, kvs, page);
    json_decref(root);
    if (read != FRY_ETCD_READ)
        fry_etcd_kvs_release(memory, &page->kvs);
    return read;
}

/* ---- changes ---- */

static fry_etcd_read read_response(const fry_memory *memory, const json_t *response,
                                   fry_etcd_verdict *verdict)
{
    const json_t *range, *deletion, *kvs;

    if (!read_object(response, "response_range", &range) || !read_array(range, "kvs", &kvs) ||
        !read_object(response, "response_delete_range", &deletion) ||
        (deletion != NULL && !read_number(deletion, "deleted", &verdict->deleted)))
        return FRY_ETCD_GARBLED;
    const json_t *kv = json_array_get(kvs, 0);
    return kv != NULL ? read_kv(memory, kv, &verdict->found) : FRY_ETCD_READ;
}

static bool read_guard(const json_t *response, uint64_t *lease_p)
{
    const json_t *range, *kvs;

    if (response == NULL)
        return true;
    if (!json_is_object(response) || !read_object(response, "response_range", &range) ||
        !read_array(range, "kvs", &kvs))
        return false;
    const json_t *kv = json_array_get(kvs, 0);
    return kv == NULL || (json_is_object(kv) && read_number(kv, "lease", lease_p));
}

fry_etcd_read fry_etcd_read_verdict(const fry_memory *memory, const char *text, size_t bytes,
                                    fry_etcd_verdict *verdict)
{
    fry_etcd_read read = FRY_ETCD_GARBLED;
    const json_t *responses;
    json_t *root = parse(text, bytes);

    *verdict = (fry_etcd_verdict){0};
    /* A txn of ours has a header and one response, or two if it has a guard. */
    if (root != NULL && read_header(root, &verdict->revision) && verdict->revision != 0 &&
        read_flag(root, "succeeded", &verdict->has_succeeded) &&
        read_array(root, "responses", &responses) && json_array_size(responses) >= 1 &&
        json_array_size(responses) <= 2 && json_is_object(json_array_get(responses, 0)) &&
        read_guard(json_array_get(responses, 1), &verdict->guard_lease))
        read = read_response(memory, json_array_get(responses, 0), verdict);
    json_decref(root);
    return read;
}

/* ---- watches ---- */

/* Within a stream etcd 3.4 and 3.5 say grpc_code, elsewhere code; 3.6 says code everywhere. */
static bool read_code(const json_t *object, int *code_p, char *message)
{
    const json_t *text = json_object_get(object, "message");
    uint64_t code;

    if (!read_number(object, json_object_get(object, "code") != NULL ? "code" : "grpc_code", &code))
        return false;
    if (code == 0 || code > 16)
        return false;
    *code_p = (int)code;
    copy_text(message, json_is_string(text) ? json_string_value(text) : "no message");
    return true;
}

static fry_etcd_read read_result(const fry_memory *memory, const json_t *result,
                                 fry_etcd_news *news)
{
    const json_t *events, *reason = json_object_get(result, "cancel_reason");

    if (!read_header(result, &news->revision) || !read_flag(result, "created", &news->is_created) ||
        !read_flag(result, "canceled", &news->is_canceled) ||
        !read_number(result, "compact_revision", &news->compact_revision) ||
        !read_array(result, "events", &events))
        return FRY_ETCD_GARBLED;
    copy_text(news->text, json_is_string(reason) ? json_string_value(reason) : "");
    return read_all(memory, events, read_event, &news->kvs);
}

fry_etcd_read fry_etcd_read_news(const fry_memory *memory, const char *text, size_t bytes,
                                 fry_etcd_news *news)
{
    fry_etcd_read read = FRY_ETCD_GARBLED;
    const json_t *result, *error;
    json_t *root = parse(text, bytes);

    *news = (fry_etcd_news){0};
    if (root != NULL && read_object(root, "error", &error) &&
        read_object(root, "result", &result)) {
        if (error != NULL && read_code(error, &news->code, news->text))
            read = FRY_ETCD_READ;
        else if (error == NULL && result != NULL)
            read = read_result(memory, result, news);
    }
    json_decref(root);
    if (read != FRY_ETCD_READ)
        fry_etcd_kvs_release(memory, &news->kvs);
    return read;
}

/* ---- the rest ---- */

fry_etcd_read fry_etcd_read_lease(const char *text, size_t bytes, uint64_t *id_p, int64_t *ttl_s_p)
{
    fry_etcd_read read = FRY_ETCD_GARBLED;
    const json_t *result;
    json_t *root = parse(text, bytes);
    uint64_t revision, ttl_s = 0;

    if (root != NULL && read_object(root, "result", &result)) {
        if (result == NULL)
            result = root;
        /* Without a header it might be somebody else's empty object, not a gone lease. */
        if (read_header(result, &revision) && revision != 0 && read_number(result, "ID", id_p) &&
            *id_p != 0 && read_number(result, "TTL", &ttl_s) && ttl_s <= INT32_MAX)
            read = FRY_ETCD_READ;
    }
    *ttl_s_p = (int64_t)ttl_s;
    json_decref(root);
    return read;
}

fry_etcd_read fry_etcd_read_token(const char *text, size_t bytes, char *token)
{
    json_t *root = parse(text, bytes);
    const json_t *value = root != NULL ? json_object_get(root, "token") : NULL;
    const char *from = json_string_value(value);
    fry_etcd_read read = FRY_ETCD_GARBLED;

    /* The token becomes a header line, so it must not contain an end of line. */
    if (from != NULL && *from != '\0' && strlen(from) < FRY_ETCD_TOKEN_BYTES) {
        read = FRY_ETCD_READ;
        for (size_t i = 0; from[i] != '\0'; i++)
            if (from[i] <= 0x20 || from[i] >= 0x7f)
                read = FRY_ETCD_GARBLED;
    }
    if (read == FRY_ETCD_READ)
        (void)snprintf(token, FRY_ETCD_TOKEN_BYTES, "%s", from);
    json_decref(root);
    return read;
}

fry_etcd_read fry_etcd_read_error(const char *text, size_t bytes, int *code_p,
                                  char message[FRY_ETCD_TEXT_BYTES])
{
    json_t *root = parse(text, bytes);
    /* A stream puts the error's fields into "error", where other answers repeat the message. */
    const json_t *inner = root != NULL ? json_object_get(root, "error") : NULL;
    const json_t *object = json_is_object(inner) ? inner : root;
    const fry_etcd_read read =
        object != NULL && read_code(object, code_p, message) ? FRY_ETCD_READ : FRY_ETCD_GARBLED;

    json_decref(root);
    return read;
}

/* ---- writing ---- */

static char *dump(json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    return text;
}

/* Makes a string of base64. NULL: no memory; json_pack then gives NULL as well. */
static json_t *base64(const void *bytes, size_t count)
{
    const size_t size = sodium_base64_encoded_len(count, BASE64);
    char *text = malloc(size);
    json_t *string = NULL;

    if (text != NULL) {
        (void)sodium_bin2base64(text, size, bytes, count, BASE64);
        string = json_stringn_nocheck(text, size - 1);
    }
    free(text);
    return string;
}

static json_t *number(uint64_t value)
{
    return json_sprintf("%" PRIu64, value);
}

/* Takes over the value, also if it can't be set. */
static bool set(json_t *object, const char *name, json_t *value)
{
    return value != NULL && json_object_set_new_nocheck(object, name, value) == 0;
}

/* Writes the first key after all that begin with a prefix; "\0": there is none. */
static size_t prefix_end(const char *prefix, uint8_t end[FRY_STORE_KEY_BYTES + 1])
{
    size_t bytes = strnlen(prefix, FRY_STORE_KEY_BYTES);

    memcpy(end, prefix, bytes);
    while (bytes > 0 && end[bytes - 1] == 0xff)
        bytes--;
    if (bytes == 0) {
        end[0] = 0;
        return 1;
    }
    end[bytes - 1]++;
    return bytes;
}

/* Sets key and range_end. etcd takes an empty key for none, so all keys begin with "\0". */
static bool set_prefix(json_t *object, const char *prefix, const void *key, size_t key_bytes)
{
    uint8_t end[FRY_STORE_KEY_BYTES + 1];
    const size_t end_bytes = prefix_end(prefix, end);

    if (key == NULL) {
        key = prefix;
        key_bytes = *prefix != '\0' ? strnlen(prefix, FRY_STORE_KEY_BYTES) : 1;
    }
    return set(object, "key", base64(key, key_bytes)) &&
           set(object, "range_end", base64(end, end_bytes));
}

char *fry_etcd_write_range(const fry_etcd_range *range)
{
    json_t *root = json_object();
    bool is_good = root != NULL;

    if (range->prefix != NULL)
        is_good = is_good && set_prefix(root, range->prefix, range->key, range->key_bytes);
    else
        is_good = is_good && set(root, "key", base64(range->key, range->key_bytes));
    if (range->revision != 0)
        is_good = is_good && set(root, "revision", number(range->revision));
    if (range->limit != 0)
        is_good = is_good && set(root, "limit", number(range->limit));
    if (range->is_count_only)
        is_good = is_good && set(root, "count_only", json_true());
    if (is_good)
        return dump(root);
    json_decref(root);
    return NULL;
}

static json_t *make_change(const fry_etcd_change *change)
{
    json_t *root = json_object();
    bool is_good = root != NULL && set(root, "key", base64(change->key, strlen(change->key)));

    if (!change->is_deletion)
        is_good = is_good && set(root, "value", base64(change->value, change->value_bytes));
    if (change->lease != 0)
        is_good = is_good && set(root, "lease", number(change->lease));
    if (is_good)
        return root;
    json_decref(root);
    return NULL;
}

/* Takes over the transaction; NULL: no memory. */
static json_t *with_guard(json_t *root, const fry_etcd_change *change)
{
    if (root == NULL || change->guard_key == NULL)
        return root;
    const size_t key_bytes = strlen(change->guard_key);
    json_t *compare =
        json_pack("{s:o,s:s,s:s,s:o}", "key", base64(change->guard_key, key_bytes), "target",
                  "LEASE", "result", "EQUAL", "lease", number(change->guard_lease));
    json_t *look = json_pack("{s:{s:o,s:b}}", "request_range", "key",
                             base64(change->guard_key, key_bytes), "keys_only", 1);

    if (json_array_append_new(json_object_get(root, "compare"), compare) == 0 &&
        json_array_append_new(json_object_get(root, "failure"), look) == 0)
        return root;
    json_decref(root);
    return NULL;
}

char *fry_etcd_write_txn(const fry_etcd_change *change)
{
    static const struct {
        const char *target, *result, *field;
        uint64_t more;
    } conditions[] = {
        [FRY_ETCD_IF_CREATED_AT] = {"CREATE", "EQUAL", "create_revision", 0},
        [FRY_ETCD_IF_CHANGED_AT] = {"MOD", "EQUAL", "mod_revision", 0},
        [FRY_ETCD_IF_NOT_CHANGED_AFTER] = {"MOD", "LESS", "mod_revision", 1},
    };
    const __typeof__(conditions[0]) *is = &conditions[change->condition];
    const size_t key_bytes = strlen(change->key);

    /* If an object could not be made it is NULL, and json_pack then gives NULL as well. */
    return dump(with_guard(
        json_pack("{s:[{s:o,s:s,s:s,s:o}],s:[{s:o}],s:[{s:{s:o}}]}", "compare", "key",
                  base64(change->key, key_bytes), "target", is->target, "result", is->result,
                  is->field, number(change->revision + is->more), "success",
                  change->is_deletion ? "request_delete_range" : "request_put", make_change(change),
                  "failure", "request_range", "key", base64(change->key, key_bytes)),
        change));
}

char *fry_etcd_write_watch(const char *prefix, uint64_t from_revision)
{
    json_t *request = json_object();

    if (request != NULL && set_prefix(request, prefix, NULL, 0) &&
        set(request, "start_revision", number(from_revision)) &&
        set(request, "progress_notify", json_true()) && set(request, "fragment", json_true()))
        return dump(json_pack("{s:o}", "create_request", request));
    json_decref(request);
    return NULL;
}

char *fry_etcd_write_lease(uint64_t id, int64_t ttl_s)
{
    return dump(ttl_s != 0
                    ? json_pack("{s:o,s:o}", "ID", number(id), "TTL", number((uint64_t)ttl_s))
                    : json_pack("{s:o}", "ID", number(id)));
}

char *fry_etcd_write_login(const char *user, const char *password)
{
    return dump(json_pack("{s:s,s:s}", "name", user, "password", password));
}
