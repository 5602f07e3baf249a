/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as a store, by its JSON gateway over HTTP. etcd.c opens and closes; _request, _watch
 * and _lease are what their names say; _list asks for pages, _auth gets tokens, _http makes calls,
 * _endpoint chooses their endpoint, _json reads and writes, _curl is the library. Each uses only
 * those named after it. Only the loop calls these functions.
 */
#ifndef FRY_NET_STORE_ETCD_STATE_H
#define FRY_NET_STORE_ETCD_STATE_H

#include "net/store/etcd_curl.h"
#include "net/store/etcd_json.h"
#include "net/store/store.h"

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

/*
 * Called when the call is over, and off; for a stream also whenever bytes came. May start and
 * cancel any call.
 */
typedef void (*fry_etcd_call_fn)(fry_etcd_call *call);

/*
 * One exchange, in the owner's memory until it is over or cancelled. Zeroed once, then used again
 * and again. The owner sets the fields down to patience_ms before the start.
 */
struct fry_etcd_call {
    fry_async async; /* private; libcurl keeps its time */
    fry_etcd_call_fn fn;
    void *arg;
    const char *path; /* a literal */
    bool is_stream, is_login;
    bool is_page;     /* its owner asks for less if the answer is too long */
    long patience_ms; /* 0: FRY_ETCD_PATIENCE_MS; for a stream: to connect */

    fry_etcd_outcome outcome;
    int code;                       /* with FRY_ETCD_REFUSED */
    char text[FRY_ETCD_TEXT_BYTES]; /* why the outcome is not FRY_ETCD_ANSWERED */
    char *answer;                   /* of a stream: what has not been taken yet */
    size_t answer_bytes, answer_room, taken_bytes, scanned_bytes;
    unsigned endpoint;

    fry_etcd *etcd; /* private, like all that follows */
    fry_timer news; /* on: a stream's bytes came, or it is blind */
    bool is_blind;  /* one of its sockets is not watched */
    char *body;
    size_t body_bytes, body_sent, head_bytes, answer_max;
    bool is_too_long, is_without_memory;
    uint64_t token_serial;
    CURL *easy; /* NULL, under way: the call waits for a token */
    struct curl_slist *headers;
    char curl_text[CURL_ERROR_SIZE];
};

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
    fry_timer curl_timer;
    fry_provider calls;
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

#endif
