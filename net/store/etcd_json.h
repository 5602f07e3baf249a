/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to etcd's JSON gateway, and its answers. In JSON numbers of 64 bits are strings, keys
 * and values base64, and zero, false and empty fields are left out. No answer is trusted: a field
 * of the wrong type, out of range or too large is FRY_ETCD_GARBLED. No state; any thread.
 */
#ifndef FRY_NET_STORE_ETCD_JSON_H
#define FRY_NET_STORE_ETCD_JSON_H

#include "net/store/store.h"

#define FRY_ETCD_TEXT_BYTES 160
#define FRY_ETCD_TOKEN_BYTES 4096   /* with the ending zero; JSON web tokens are long */
#define FRY_ETCD_RAW_KEY_BYTES 4096 /* for a key of other programs, to go on after it */
#define FRY_ETCD_KVS_MAX 65536      /* in a page, or a line of a watch */

/* gRPC's codes in etcd's errors. */
typedef enum fry_etcd_code {
    FRY_ETCD_CODE_CANCELED = 1,
    FRY_ETCD_CODE_UNKNOWN = 2,
    FRY_ETCD_CODE_INVALID = 3,
    FRY_ETCD_CODE_DEADLINE = 4,
    FRY_ETCD_CODE_NOT_FOUND = 5,
    FRY_ETCD_CODE_EXHAUSTED = 8,
    FRY_ETCD_CODE_PRECONDITION = 9,
    FRY_ETCD_CODE_OUT_OF_RANGE = 11, /* the revision has been compacted */
    FRY_ETCD_CODE_INTERNAL = 13,
    FRY_ETCD_CODE_UNAVAILABLE = 14,
    FRY_ETCD_CODE_UNAUTHENTICATED = 16,
} fry_etcd_code;

typedef enum fry_etcd_read {
    FRY_ETCD_READ,
    FRY_ETCD_GARBLED,   /* not what etcd answers */
    FRY_ETCD_FOREIGN,   /* a key or value that ferry's stores don't take */
    FRY_ETCD_NO_MEMORY, /* nothing is left allocated */
} fry_etcd_read;

/* One key; its key and value are one block of memory. */
typedef struct fry_etcd_kv {
    fry_store_entry entry; /* key NULL: no entry; its version is etcd's mod_revision */
    uint64_t create_revision, lease;
    size_t block_bytes;
    bool is_deletion; /* in a watch's line */
} fry_etcd_kv;

typedef struct fry_etcd_kvs {
    fry_etcd_kv *items;
    size_t count, room;
    size_t foreign; /* how many others were left out */
} fry_etcd_kvs;

typedef struct fry_etcd_page {
    uint64_t revision;
    bool has_more;
    fry_etcd_kvs kvs;
    uint8_t last_key[FRY_ETCD_RAW_KEY_BYTES]; /* of all entries of the page; a zero byte follows */
    size_t last_key_bytes;                    /* with has_more: the next page begins after it */
} fry_etcd_page;

typedef struct fry_etcd_verdict {
    uint64_t revision;
    bool has_succeeded;
    uint64_t deleted; /* by the first response */
    fry_etcd_kv found;
    uint64_t guard_lease; /* lease of a refused change's guard key; 0: none, or the key is gone */
} fry_etcd_verdict;

/* A line of a watch. */
typedef struct fry_etcd_news {
    uint64_t revision;
    bool is_created, is_canceled;
    uint64_t compact_revision; /* if the watch was cancelled because of a compaction; else 0 */
    int code;                  /* of an error instead of news; 0: none */
    char text[FRY_ETCD_TEXT_BYTES];
    fry_etcd_kvs kvs;
} fry_etcd_news;

/* ---- answers ---- */

/* The caller releases its kvs. */
fry_etcd_read fry_etcd_read_page(const fry_memory *memory, const char *text, size_t bytes,
                                 fry_etcd_page *page);

/* Of a txn; `found` is the entry in the first response. */
fry_etcd_read fry_etcd_read_verdict(const fry_memory *memory, const char *text, size_t bytes,
                                    fry_etcd_verdict *verdict);

/* The caller releases its kvs. */
fry_etcd_read fry_etcd_read_news(const fry_memory *memory, const char *text, size_t bytes,
                                 fry_etcd_news *news);

void fry_etcd_kv_release(const fry_memory *memory, fry_etcd_kv *kv);
void fry_etcd_kvs_release(const fry_memory *memory, fry_etcd_kvs *kvs);

/* Makes room for `more` entries. False: no memory. */
bool fry_etcd_kvs_grow(const fry_memory *memory, fry_etcd_kvs *kvs, size_t more);

/* Of grant and keepalive. ttl_s 0: the lease is gone. */
fry_etcd_read fry_etcd_read_lease(const char *text, size_t bytes, uint64_t *id_p, int64_t *ttl_s_p);

/* `token` has room for FRY_ETCD_TOKEN_BYTES. */
fry_etcd_read fry_etcd_read_token(const char *text, size_t bytes, char *token);

/* Reads the error in a refusal's body. FRY_ETCD_GARBLED: not etcd's. */
fry_etcd_read fry_etcd_read_error(const char *text, size_t bytes, int *code_p,
                                  char message[FRY_ETCD_TEXT_BYTES]);

/* ---- requests: the caller frees the texts by free(); NULL: no memory ---- */

typedef struct fry_etcd_range {
    const void *key;
    size_t key_bytes;
    const char *prefix; /* not NULL: all keys that begin with it, from `key` (NULL: the first) on */
    uint64_t revision;  /* 0: now */
    uint64_t limit;     /* 0: none */
    bool is_count_only;
} fry_etcd_range;

char *fry_etcd_write_range(const fry_etcd_range *range);

/* What a change depends on. For a key that does not exist both revisions are 0. */
typedef enum fry_etcd_condition {
    FRY_ETCD_IF_CREATED_AT,
    FRY_ETCD_IF_CHANGED_AT,
    FRY_ETCD_IF_NOT_CHANGED_AFTER,
} fry_etcd_condition;

typedef struct fry_etcd_change {
    const char *key;
    const void *value; /* NULL with is_deletion */
    size_t value_bytes;
    uint64_t lease; /* 0: none */
    bool is_deletion;
    fry_etcd_condition condition;
    uint64_t revision;
    const char *guard_key; /* NULL: none. The change also needs this key to be in guard_lease */
    uint64_t guard_lease;
} fry_etcd_change;

/* Writes a kv/txn: the change if its conditions hold, else a read of what is there. */
char *fry_etcd_write_txn(const fry_etcd_change *change);

char *fry_etcd_write_watch(const char *prefix, uint64_t from_revision);
char *fry_etcd_write_lease(uint64_t id, int64_t ttl_s); /* ttl_s 0: without one */
char *fry_etcd_write_login(const char *user, const char *password);

#endif
