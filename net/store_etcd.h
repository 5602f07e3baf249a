/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as a store, by its JSON gateway over HTTP. store_etcd.c opens and closes, _request, _watch
 * and _lease are what they are named for, _list asks for pages, _auth gets tokens, _http makes
 * calls, _endpoint knows whom they go to, _json reads and writes, _curl is the library: each uses
 * those behind it alone. The loop alone.
 */
#ifndef FRY_NET_STORE_ETCD_H
#define FRY_NET_STORE_ETCD_H

#include "net/store.h"
#include "net/store_etcd_curl.h"
#include "net/store_etcd_json.h"

#define FRY_ETCD_ENDPOINTS_MAX 16
#define FRY_ETCD_ENDPOINT_BYTES 288
#define FRY_ETCD_ANSWER_BYTES ((size_t)1 << 20)      /* of most answers */
#define FRY_ETCD_PAGE_ANSWER_BYTES ((size_t)4 << 20) /* of a page of a list, and a watch's line */
#define FRY_ETCD_PATIENCE_MS 3000                    /* with an attempt */

typedef struct fry_etcd fry_etcd;
typedef struct fry_etcd_call fry_etcd_call;

/* What became of a call. */
typedef enum fry_etcd_outcome {
    FRY_ETCD_ANSWERED, /* the answer is there; of a stream: it ended */
    FRY_ETCD_REFUSED,  /* etcd said no, with `code`: nothing has happened */
    FRY_ETCD_UNSENT,   /* nothing has happened */
    FRY_ETCD_UNKNOWN,  /* it may have happened, or happen yet */
    FRY_ETCD_STRANGE,  /* that was no etcd, or none we trust: nothing changes that soon */
} fry_etcd_outcome;

typedef enum fry_etcd_call_state {
    FRY_ETCD_CALL_OFF,
    FRY_ETCD_CALL_WAITS,   /* for a token */
    FRY_ETCD_CALL_RUNS,    /* libcurl has it */
    FRY_ETCD_CALL_IS_OVER, /* fn is to be called, or has been */
} fry_etcd_call_state;

/* When it is over, and of a stream whenever bytes came; may start and cancel any call. */
typedef void (*fry_etcd_call_fn)(fry_etcd_call *call);

/*
 * One exchange, in the owner's memory until it is over or cancelled; zeroed once, then used again
 * and again. Fields down to patience_ms are the owner's, to be set before the start.
 */
struct fry_etcd_call {
    fry_etcd_call_fn fn;
    void *arg;
    const char *path; /* a literal */
    bool is_stream, is_login;
    bool is_page;     /* its owner asks for less if the answer is too long */
    long patience_ms; /* 0: FRY_ETCD_PATIENCE_MS; of a stream: to connect */

    fry_etcd_call_state state;
    fry_etcd_outcome outcome;
    int code;                       /* with FRY_ETCD_REFUSED */
    char text[FRY_ETCD_TEXT_BYTES]; /* why it isn't FRY_ETCD_ANSWERED */
    char *answer;                   /* of a stream: what has not been taken */
    size_t answer_bytes, answer_room, taken_bytes, scanned_bytes;
    unsigned endpoint;

    fry_etcd *etcd; /* private, as what follows */
    TAILQ_ENTRY(fry_etcd_call) entry;
    bool is_ready, is_blind; /* blind: a socket of its is not watched */
    char *body;
    size_t body_bytes, body_sent, head_bytes, answer_max;
    bool is_too_long, is_without_memory;
    uint64_t token_serial;
    CURL *easy;
    struct curl_slist *headers;
    char curl_text[CURL_ERROR_SIZE];
};

typedef TAILQ_HEAD(fry_etcd_calls, fry_etcd_call) fry_etcd_calls;

typedef struct fry_etcd_endpoint {
    char url[FRY_ETCD_ENDPOINT_BYTES];
    bool is_down, is_told; /* told: in the log */
    int64_t told_ns;       /* when, at last */
} fry_etcd_endpoint;

typedef enum fry_etcd_login {
    FRY_ETCD_LOGIN_NONE, /* no user, or etcd wants none */
    FRY_ETCD_LOGIN_WANTED,
    FRY_ETCD_LOGIN_ASKED,
    FRY_ETCD_LOGIN_DONE,
} fry_etcd_login;

typedef struct fry_etcd_lease fry_etcd_lease;

struct fry_etcd {
    fry_store base;
    fry_reactor *reactor;
    const fry_memory *memory;
    fry_etcd_endpoint endpoints[FRY_ETCD_ENDPOINTS_MAX];
    unsigned endpoint_count, endpoint;
    uint64_t revision;     /* the highest heard of, in this life of the store */
    uint64_t life;         /* counts how often the store was found to have lost its past */
    uint64_t random_state; /* of delays; never 0 */
    char *ca_path, *certificate_path, *key_path;

    /* What is to be known below of above. An endpoint failed, and another is the one now: */
    void (*left_endpoint)(fry_etcd *etcd, unsigned endpoint);
    /* Whether calls may run now; if not a token is asked for, and those that wait are seen to. */
    bool (*login_allows)(fry_etcd *etcd);
    /* etcd took a call's token for none: a new one is asked for. False: it would not help. */
    bool (*login_again)(fry_etcd_call *call);

    CURLM *multi;
    fry_timer curl_timer, ready_timer;
    fry_etcd_calls ready;   /* to be told of */
    fry_etcd_calls waiting; /* for a token */
    TAILQ_HEAD(, fry_etcd_socket) sockets;

    fry_etcd_login login;
    char *user, *password;
    char token[FRY_ETCD_TOKEN_BYTES];
    uint64_t token_serial;
    fry_etcd_call login_call;

    unsigned running_requests;
    fry_timer watch_timer;               /* while a watch lacks memory */
    TAILQ_HEAD(, fry_etcd_lease) leases; /* those being given up too */

    fry_etcd_call probe;
    uint64_t probe_revision; /* heard of before it was asked */
    fry_timer probe_timer;   /* while there are watches */
    int64_t heard_ns;        /* when `endpoint` last answered */
};

/* ---- store_etcd_http.c ---- */

/* FERRY_OK, or FERRY_E_NO_MEMORY. */
ferry_status fry_etcd_http_open(fry_etcd *etcd);
/* Every call must be off or over. */
void fry_etcd_http_close(fry_etcd *etcd);

/*
 * Posts `body` (of malloc, taken over; NULL: there was no memory for it) to the current endpoint.
 * fn is called later in any case.
 */
void fry_etcd_call_start(fry_etcd *etcd, fry_etcd_call *call, char *body);

/* fn will not be called. The answer is freed. Nothing if it is off. */
void fry_etcd_call_cancel(fry_etcd_call *call);

/* Frees the answer of one that is over. */
void fry_etcd_call_release(fry_etcd_call *call);

/* The next whole line of a stream, without its end; NULL: there is none. Until the next call. */
const char *fry_etcd_call_line(fry_etcd_call *call, size_t *bytes_p);

/* Ends a call that has not run, as of no memory or for want of a token. For _auth. */
void fry_etcd_call_fail(fry_etcd_call *call, fry_etcd_outcome outcome, int code, const char *text);

/* Hands a call that waited to libcurl, as a new one. For _auth. */
void fry_etcd_call_run(fry_etcd_call *call);

/* ---- store_etcd_auth.c ---- */

void fry_etcd_login_open(fry_etcd *etcd);

/* ---- store_etcd.c ---- */

ferry_status fry_etcd_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                           fry_store **store_p, fry_error **error_p);

/* ---- store_etcd_endpoint.c ---- */

/* A call did not reach etcd at an endpoint: others are tried next. */
void fry_etcd_endpoint_failed(fry_etcd *etcd, unsigned endpoint, const char *why);
void fry_etcd_endpoint_answered(fry_etcd *etcd, unsigned endpoint);

/* How long to wait before the next attempt, after so many that failed one after the other. */
int64_t fry_etcd_delay_ns(fry_etcd *etcd, unsigned failures);

/* Notes the store's revision as an answer has it. */
void fry_etcd_revision_is(fry_etcd *etcd, uint64_t revision);

/*
 * The store has lost its past: it is at `revision` now. That is found by an answer of a lower
 * revision than was heard of before it was asked for, which can't be as long as a quorum remembers;
 * or by a key that is of an older version than was told, or of the same with another value.
 */
void fry_etcd_is_another(fry_etcd *etcd, uint64_t revision);

/* An answer that can't be read: counts as STRANGE. */
void fry_etcd_call_was_garbled(fry_etcd_call *call);

uint64_t fry_etcd_random(fry_etcd *etcd);

/* ---- store_etcd_request.c ---- */

void fry_etcd_submit(fry_store *store, fry_store_request *request);
void fry_etcd_cancel(fry_store_request *request);

/* ---- store_etcd_list.c: the pages of all keys with a prefix, of one revision ---- */

typedef struct fry_etcd_list fry_etcd_list;

/*
 * A page, which fn may take things out of; the last has no more. NULL: the call says why there is
 * none. False: the list has been cancelled, started anew or freed.
 */
typedef bool (*fry_etcd_list_fn)(fry_etcd_list *list, fry_etcd_page *page);

struct fry_etcd_list {
    fry_etcd_list_fn fn;
    void *arg;
    const char *prefix;
    uint64_t revision;             /* of all pages; 0 until the first */
    uint64_t heard_revision, life; /* before it was asked for */
    uint64_t limit;
    uint8_t last_key[FRY_ETCD_RAW_KEY_BYTES]; /* the next page begins behind it */
    size_t last_key_bytes;
    fry_etcd_call call;
};

/* Its call may be cancelled as any other. */
void fry_etcd_list_start(fry_etcd *etcd, fry_etcd_list *list, const char *prefix);

/* ---- store_etcd_watch.c ---- */

void fry_etcd_watch_start(fry_store *store, fry_store_watch *watch);
void fry_etcd_watch_stop(fry_store_watch *watch);

void fry_etcd_watches_open(fry_etcd *etcd);
void fry_etcd_watches_close(fry_etcd *etcd);

/* ---- store_etcd_lease.c ---- */

void fry_etcd_lease_open(fry_store *store, fry_store_lease *lease);
void fry_etcd_lease_close(fry_store_lease *lease);
void fry_etcd_leases_drop(fry_etcd *etcd);

#endif
