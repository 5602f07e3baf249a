/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of `ferry kv`, a member that hears notices and hears when others are gone.
 *
 * Functions return 0, or the exit status after a message on stderr, if nothing else is said.
 */
#ifndef KV_END_H
#define KV_END_H

#include "tools/kv_options.h"
#include "tools/member.h"

#define KV_VERSION 1
#define KV_PREFILL 0 /* its rank */
#define KV_WINDOW_NAME "kv"

/* What the two sides tell each other. */
typedef enum kv_kind {
    KV_SHAPE = 1, /* prefill: what there will be (kv_shape) */
    KV_READY = 2, /* decode: everything is prepared */
    KV_BEGIN = 3, /* prefill: to all, when all are ready */
    KV_ASK = 4,   /* decode: for `count` pages in each layer */
    KV_LAYER = 5, /* prefill: a layer's pages are there; of layer 0 with their places (uint32_t) */
    KV_FREE = 6,  /* decode: a request's pages may be overwritten */
    KV_DONE = 7,  /* decode: no further requests */
    KV_RAW = 8,   /* prefill: to all, when all are done */
    KV_FIGURES = 9, /* decode: what was measured (kv_figures) */
    KV_DRAW = 10,   /* prefill: one more request, with a trace */
    KV_END = 11,    /* prefill: that is all */
} kv_kind;

/* A notice. Its body comes behind it. */
typedef struct kv_notice {
    uint32_t version;
    uint32_t kind;
    uint64_t request;
    uint32_t layer;
    uint32_t count;
} kv_notice;

typedef struct kv_heard {
    ferry_rank rank; /* who says so */
    kv_notice notice;
    size_t body_bytes;
    _Alignas(8) unsigned char body[FERRY_NOTICE_BYTES_MAX];
} kv_heard;

typedef struct kv_end {
    member member;
    const kv_options *options;
    const char *folder;    /* for trace files; NULL: none */
    kv_heard heard;        /* the last one */
    pthread_mutex_t mutex; /* for the next two */
    ferry_future *next;    /* of the notices; NULL: none is waited for */
    bool has_news;         /* a member's state has changed */
} kv_end;

/* What kv_end_hear may return besides. */
#define KV_HEARD_NEWS (-1)
#define KV_HEARD_NOTHING (-2)

/* SIGINT and SIGTERM are to be blocked. The end is to be closed either way. */
int kv_end_open(kv_end *end, const kv_options *options, int rank, const char *folder);
int kv_end_close(kv_end *end, int result);

/*
 * Waits for a notice, and puts it into end->heard. Returns KV_HEARD_NEWS if a member's state has
 * changed, KV_HEARD_NOTHING after the time.
 *  deadline_ns  on the engine's clock; 0: none
 */
int kv_end_hear(kv_end *end, int64_t deadline_ns);

/* Tells a member something. after: NULL, or what comes before. Returns a future, which ends in time
 * however slow the other one is. */
ferry_future *kv_end_tell(kv_end *end, ferry_rank rank, const kv_notice *notice, const void *body,
                          size_t body_bytes, ferry_future *after, int64_t within_ns);

/* A name for a notice, a get or a call. */
#define KV_LABEL_BYTES 48
void kv_label_layer(char label[KV_LABEL_BYTES], const char *what, uint32_t layer);

/* Whether a member is gone; says so, with these words about it. */
bool kv_end_is_gone(kv_end *end, ferry_rank rank, const char *name);

/* Opens this process's trace file in the folder, and closes it. */
int kv_end_trace_open(kv_end *end);
int kv_end_trace_close(kv_end *end);
void kv_end_trace_path(char *path, size_t size_bytes, const char *folder, int rank);

int64_t kv_end_now_ns(const kv_end *end);

#endif
