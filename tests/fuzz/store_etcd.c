/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What etcd answers, of any bytes, as each sort of answer: nothing may come out that is larger than
 * it may be, or no key, or would steer a terminal; and nothing may be left allocated.
 */
#include "tests/fuzz/fuzz.h"

#include "net/store/etcd_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t live;

static void *take(void *arg, size_t size, size_t align)
{
    (void)arg;
    (void)align;
    live++;
    return malloc(size);
}

static void give(void *arg, void *pointer, size_t size)
{
    (void)arg;
    (void)size;
    live -= pointer != NULL;
    free(pointer);
}

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    (void)fprintf(stderr, "store_etcd: %s\n", what);
    abort();
}

static void expect_text(const char *text)
{
    const size_t bytes = strnlen(text, FRY_ETCD_TEXT_BYTES);

    expect(bytes < FRY_ETCD_TEXT_BYTES, "a text has no end");
    for (size_t i = 0; i < bytes; i++)
        expect(text[i] >= 0x20 && text[i] < 0x7f, "a control byte came through");
}

static void expect_kv(const fry_etcd_kv *kv)
{
    expect(fry_store_is_key(kv->entry.key), "no key");
    expect(kv->entry.version != 0, "no version");
    expect(kv->entry.value_bytes <= FRY_STORE_VALUE_BYTES, "a long value");
    expect(((const char *)kv->entry.value)[kv->entry.value_bytes] == '\0', "no end");
}

static void as_page(const fry_memory *memory, const char *text, size_t bytes)
{
    fry_etcd_page page;

    if (fry_etcd_read_page(memory, text, bytes, &page) != FRY_ETCD_READ)
        return;
    expect(!page.has_more || page.last_key_bytes > 0, "nowhere to go on");
    for (size_t i = 0; i < page.kvs.count; i++)
        expect_kv(&page.kvs.items[i]);
    fry_etcd_kvs_release(memory, &page.kvs);
}

static void as_verdict(const fry_memory *memory, const char *text, size_t bytes)
{
    fry_etcd_verdict verdict;

    if (fry_etcd_read_verdict(memory, text, bytes, &verdict) != FRY_ETCD_READ)
        return;
    expect(verdict.revision != 0, "no revision");
    if (verdict.found.entry.key != NULL)
        expect_kv(&verdict.found);
    fry_etcd_kv_release(memory, &verdict.found);
}

static void as_news(const fry_memory *memory, const char *text, size_t bytes)
{
    fry_etcd_news news;

    if (fry_etcd_read_news(memory, text, bytes, &news) != FRY_ETCD_READ)
        return;
    expect_text(news.text);
    for (size_t i = 0; i < news.kvs.count; i++)
        expect_kv(&news.kvs.items[i]);
    fry_etcd_kvs_release(memory, &news.kvs);
}

static void as_others(const char *text, size_t bytes)
{
    static char token[FRY_ETCD_TOKEN_BYTES];
    char message[FRY_ETCD_TEXT_BYTES];
    uint64_t id;
    int64_t ttl_s;
    int code;

    if (fry_etcd_read_lease(text, bytes, &id, &ttl_s) == FRY_ETCD_READ)
        expect(id != 0 && ttl_s >= 0, "no lease");
    if (fry_etcd_read_token(text, bytes, token) == FRY_ETCD_READ)
        expect(strlen(token) > 0 && strpbrk(token, "\r\n ") == NULL, "no token");
    if (fry_etcd_read_error(text, bytes, &code, message) == FRY_ETCD_READ) {
        expect(code > 0, "no code");
        expect_text(message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ferry_allocator allocator = {.alloc = take, .free = give};
    const char *text = (const char *)data;
    fry_memory memory;

    json_object_seed(1); /* the same each time */
    fry_memory_init(&memory, &allocator);
    as_page(&memory, text, size);
    as_verdict(&memory, text, size);
    as_news(&memory, text, size);
    as_others(text, size);
    expect(live == 0, "memory is left");
    return 0;
}
