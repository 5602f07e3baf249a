/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as a store, by its JSON gateway over HTTP. store_etcd.c opens and closes; _request, _watch
 * and _lease are what their names say; _list asks for pages, _auth gets tokens, _http makes calls,
 * _endpoint chooses their endpoint, _json reads and writes, _curl is the library. Each uses only
 * those named after it. Only the loop calls these functions.
 */
#ifndef FRY_NET_STORE_ETCD_H
#define FRY_NET_STORE_ETCD_H

#include "net/store.h"
#include "net/store_etcd_curl.h"
#include "net/store_etcd_json.h"

#define FRY_ETCD_ENDPOINTS_MAX 16
#define FRY_ETCD_ENDPOINT_BYTES 288
#define FRY_ETCD_ANSWER_BYTES ((size_t)1 << 20)      /* of most answers */
#define FRY_ETCD_PAGE_ANSWER_BYTES ((size_t)4 << 20) /* of a page of a list, or a watch's line */
#define FRY_ETCD_PATIENCE_MS 3000                    /* for an attempt */

typedef struct fry_etcd fry_etcd;
typedef struct fry_etcd_call fry_etcd_call;

/* How a call has ended. */
typedef enum fry_etcd_outcome {
    FRY_ETCD_ANSWERED, /* the answer is there; a stream has ended */
    FRY_ETCD_REFUSED,  /* etcd refused it, with `code`: nothing has happened */
    FRY_ETCD_UNSENT,   /* nothing has happened */
    FRY_ETCD_UNKNOWN,  /* it may have happened, or may happen yet */
    FRY_ETCD_STRANGE, /* the other end is no etcd, or not trusted: trying again soon is of no use */
} fry_etcd_outcome;

typedef enum fry_etcd_call_state {
    FRY_ETCD_CALL_OFF,
    FRY_ETCD_CALL_WAITS,   /* for a token */
    FRY_ETCD_CALL_RUNS,    /* libcurl has it */
    FRY_ETCD_CALL_IS_OVER, /* fn will be called, or was */
} fry_etcd_call_state;

/* Called when the call is over; for a stream whenever bytes came. May start and cancel any call. */
typedef void (*fry_etcd_call_fn)(fry_etcd_call *call);

/*
 * One exchange, in the owner's memory until it is over or cancelled. Zeroed once, then used again
 * and again. The owner sets the fields down to patience_ms before the start.
 */
struct fry_etcd_call {
    fry_etcd_call_fn fn;
    void *arg;
    const char *path; /* a literal */
    bool is_stream, is_login;
    bool is_page;     /* its owner asks for less if the answer is too long */
    long patience_ms; /* 0: FRY_ETCD_PATIENCE_MS; for a stream: to connect */

    fry_etcd_call_state state;
    fry_etcd_outcome outcome;
    int code;                       /* with FRY_ETCD_REFUSED */
    char text[FRY_ETCD_TEXT_BYTES]; /* why the outcome is not FRY_ETCD_ANSWERED */
    char *answer;                   /* of a stream: what has not been taken yet */
    size_t answer_bytes, answer_room, taken_bytes, scanned_bytes;
    unsigned endpoint;

    fry_etcd *etcd; /* private, like all that follows */
    TAILQ_ENTRY(fry_etcd_call) entry;
    bool is_ready, is_blind; /* blind: one of its sockets is not watched */
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
    bool is_down, is_told; /* told: logged */
    int64_t told_ns;       /* when it was last told */
} fry_etcd_endpoint;

typedef enum fry_etcd_login {
    FRY_ETCD_LOGIN_NONE, /* no user, or etcd asks for none */
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
    uint64_t revision;     /* the highest known one, in this life of the store */
    uint64_t life;         /* counts how often the store was found to have lost its past */
    uint64_t random_state; /* of delays; never 0 */
    char *ca_path, *certificate_path, *key_path;

    /* Functions of upper files for lower ones. An endpoint failed, and another is used now: */
    void (*left_endpoint)(fry_etcd *etcd, unsigned endpoint);
    /* Whether calls may run now. If not, asks for a token; waiting calls go on then. */
    bool (*login_allows)(fry_etcd *etcd);
    /* etcd did not accept a call's token: a new one is asked for. False: that would not help. */
    bool (*login_again)(fry_etcd_call *call);

    CURLM *multi;
    fry_timer curl_timer, ready_timer;
    fry_etcd_calls ready;   /* whose owners must be told */
    fry_etcd_calls waiting; /* for a token */
    TAILQ_HEAD(, fry_etcd_socket) sockets;

    fry_etcd_login login;
    char *user, *password;
    char token[FRY_ETCD_TOKEN_BYTES];
    uint64_t token_serial;
    fry_etcd_call login_call;

    unsigned running_requests;
    fry_timer watch_timer;               /* while a watch lacks memory */
    TAILQ_HEAD(, fry_etcd_lease) leases; /* including those being revoked */

    fry_etcd_call probe;
    uint64_t probe_revision; /* the highest known before it was asked */
    fry_timer probe_timer;   /* while there are watches */
    int64_t heard_ns;        /* when `endpoint` last answered */
};

/* ---- store_etcd_http.c ---- */

/* FERRY_OK, or FERRY_E_NO_MEMORY. */
ferry_status fry_etcd_http_open(fry_etcd *etcd);
/* Every call must be off or over. */
void fry_etcd_http_close(fry_etcd *etcd);

/*
 * Posts `body` to the current endpoint and takes it over (malloc's; NULL: there was no memory for
 * it). fn is called later in any case.
 */
void fry_etcd_call_start(fry_etcd *etcd, fry_etcd_call *call, char *body);

/* Cancels a call: fn will not be called, and the answer is freed. Does nothing if it is off. */
void fry_etcd_call_cancel(fry_etcd_call *call);

/* Frees the answer of a call that is over. */
void fry_etcd_call_release(fry_etcd_call *call);

/* A stream's next whole line, without its end; NULL: there is none. Valid until the next call. */
const char *fry_etcd_call_line(fry_etcd_call *call, size_t *bytes_p);

/* Ends a call that has not run, for lack of memory or a token. For _auth. */
void fry_etcd_call_fail(fry_etcd_call *call, fry_etcd_outcome outcome, int code, const char *text);

/* Hands a waiting call to libcurl, as a new one. For _auth. */
void fry_etcd_call_run(fry_etcd_call *call);

/* ---- store_etcd_auth.c ---- */

void fry_etcd_login_open(fry_etcd *etcd);

/* ---- store_etcd.c ---- */

ferry_status fry_etcd_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                           fry_store **store_p, fry_error **error_p);

/* ---- store_etcd_endpoint.c ---- */

/* A call did not reach etcd at an endpoint: other endpoints are tried next. */
void fry_etcd_endpoint_failed(fry_etcd *etcd, unsigned endpoint, const char *why);
void fry_etcd_endpoint_answered(fry_etcd *etcd, unsigned endpoint);

/* How long to wait before the next attempt, after so many failures in a row. */
int64_t fry_etcd_delay_ns(fry_etcd *etcd, unsigned failures);

/* Notes the store's revision from an answer. */
void fry_etcd_revision_is(fry_etcd *etcd, uint64_t revision);

/*
 * Notes that the store has lost its past and is at `revision` now. Signs of that: an answer with a
 * lower revision than was known before the request, which can't be as long as a quorum remembers;
 * or a key with an older version than was told, or with the same version and another value.
 */
void fry_etcd_is_another(fry_etcd *etcd, uint64_t revision);

/* Notes an answer that can't be read: STRANGE. */
void fry_etcd_call_was_garbled(fry_etcd_call *call);

uint64_t fry_etcd_random(fry_etcd *etcd);

/* ---- store_etcd_request.c ---- */

void fry_etcd_submit(fry_store *store, fry_store_request *request);
void fry_etcd_cancel(fry_store_request *request);

/* ---- store_etcd_list.c: the pages of all keys with a prefix, of one revision ---- */

typedef struct fry_etcd_list fry_etcd_list;

/*
 * Called with each page, from which fn may take entries; the last has has_more false. NULL: failed,
 * as the call says. False: the list was cancelled, started anew or freed.
 */
typedef bool (*fry_etcd_list_fn)(fry_etcd_list *list, fry_etcd_page *page);

struct fry_etcd_list {
    fry_etcd_list_fn fn;
    void *arg;
    const char *prefix;
    uint64_t revision;             /* of all pages; 0 until the first */
    uint64_t heard_revision, life; /* known before the list was asked for */
    uint64_t limit;
    uint8_t last_key[FRY_ETCD_RAW_KEY_BYTES]; /* the next page begins after it */
    size_t last_key_bytes;
    fry_etcd_call call;
};

/* Starts a list. Its call may be cancelled like any other. */
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
