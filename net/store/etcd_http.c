/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by libcurl's multi interface on the reactor. libcurl must not be called within its own
 * callbacks, so these only note things, and owners are told when libcurl has returned.
 *
 * libcurl itself repeats a request when a connection that it had kept turns out to be closed. That
 * is right only as long as nothing of the body has been sent. So bodies are read through a
 * function, and libcurl gets none that winds back. Then it fails a request that it can't know to be
 * harmless, and the owner decides.
 */
#include "net/store/etcd_http.h"

#include "net/reactor.h"
#include "net/store/etcd_curl.h"
#include "net/store/etcd_endpoint.h"
#include "net/store/etcd_json.h"
#include "net/store/etcd_state.h"
#include "net/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_US INT64_C(1000)
#define CONNECT_MS 1500L
#define HEAD_BYTES_MAX ((size_t)64 * 1024)
#define FIRST_ROOM ((size_t)1024)
#define HTTP_OK 200
#define HTTP_UNAUTHORIZED 401
#define HTTP_SERVER 500

typedef struct fry_etcd_socket {
    fry_watch watch;
    fry_etcd *etcd;
    TAILQ_ENTRY(fry_etcd_socket) entry;
} fry_etcd_socket;

/* ---- the end of a call ---- */

/* Gives back what a call holds while it is under way. Its answer stays. */
static void give_back(fry_async *async)
{
    fry_etcd_call *call = (fry_etcd_call *)(void *)async;

    if (call->easy != NULL) {
        (void)fry_curl.curl_multi_remove_handle(call->etcd->multi, call->easy);
        fry_curl.curl_easy_cleanup(call->easy);
    }
    call->easy = NULL;
    fry_curl.curl_slist_free_all(call->headers);
    call->headers = NULL;
    if (call->body != NULL)
        explicit_bzero(call->body, call->body_bytes); /* it may have been a password */
    free(call->body);
    call->body = NULL;
    fry_timer_stop(call->etcd->reactor, &call->news);
}

static void tell(fry_async *async, ferry_status verdict, const char *why)
{
    fry_etcd_call *call = (fry_etcd_call *)(void *)async;

    (void)verdict, (void)why; /* its outcome and text say more */
    call->fn(call);
}

void fry_etcd_call_release(fry_etcd_call *call)
{
    fry_free(call->etcd->memory, call->answer, call->answer_room);
    call->answer = NULL;
    call->answer_bytes = call->answer_room = call->taken_bytes = call->scanned_bytes = 0;
}

void fry_etcd_call_cancel(fry_etcd_call *call)
{
    fry_async_cancel(&call->async);
    if (call->etcd != NULL)
        fry_etcd_call_release(call);
}

void fry_etcd_call_fail(fry_etcd_call *call, fry_etcd_outcome outcome, int code, const char *text)
{
    call->outcome = outcome;
    call->code = code;
    (void)snprintf(call->text, sizeof call->text, "%s", text);
    fry_async_abort(&call->async, FERRY_E_STORE, NULL);
}

static void news_are_due(fry_timer *timer)
{
    fry_etcd_call *call = timer->arg;

    /* A blind call would get no event any more. */
    if (call->is_blind)
        fry_etcd_call_fail(call, call->body_sent > 0 ? FRY_ETCD_UNKNOWN : FRY_ETCD_UNSENT, 0,
                           "no memory to watch a connection");
    else
        call->fn(call);
}

/* Judges a failure of libcurl. STRANGE: the next attempt would not be better. */
static fry_etcd_outcome judge_failure(fry_etcd_call *call, CURLcode code)
{
    const char *text =
        call->curl_text[0] != '\0' ? call->curl_text : fry_curl.curl_easy_strerror(code);

    if (call->is_without_memory) {
        (void)snprintf(call->text, sizeof call->text, "no memory for the answer");
        return FRY_ETCD_UNKNOWN;
    }
    if (call->is_too_long) {
        (void)snprintf(call->text, sizeof call->text, "the answer is longer than %zu bytes",
                       call->answer_max);
        return FRY_ETCD_STRANGE;
    }
    (void)snprintf(call->text, sizeof call->text, "%.*s", FRY_ETCD_TEXT_BYTES - 1, text);
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return FRY_ETCD_STRANGE;
    case CURLE_RECV_ERROR:
        /*
         * TLS 1.3 refuses a client's certificate only after the client has sent it and all that
         * follows.
         */
        if (call->head_bytes == 0 && strstr(text, " alert ") != NULL)
            return FRY_ETCD_STRANGE;
        break;
    default:
        break;
    }
    return call->body_sent > 0 ? FRY_ETCD_UNKNOWN : FRY_ETCD_UNSENT;
}

static fry_etcd_outcome judge_refusal(fry_etcd_call *call, long status)
{
    if (fry_etcd_read_error(call->answer, call->answer_bytes, &call->code, call->text) !=
        FRY_ETCD_READ) {
        (void)snprintf(call->text, sizeof call->text, "HTTP status %ld, and no word of etcd's",
                       status);
        return status >= HTTP_SERVER ? FRY_ETCD_UNKNOWN : FRY_ETCD_STRANGE;
    }
    switch (call->code) {
    case FRY_ETCD_CODE_CANCELED: /* the gateway's words if etcd ends or has no leader */
    case FRY_ETCD_CODE_UNKNOWN:
    case FRY_ETCD_CODE_DEADLINE:
    case FRY_ETCD_CODE_INTERNAL:
    case FRY_ETCD_CODE_UNAVAILABLE:
        return FRY_ETCD_UNKNOWN;
    default:
        return FRY_ETCD_REFUSED;
    }
}

static void judge(fry_etcd_call *call, CURLcode code)
{
    long status = 0;

    (void)fry_curl.curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    call->code = 0;
    if (code != CURLE_OK) {
        call->outcome = judge_failure(call, code);
    } else if (status == HTTP_OK) {
        call->outcome = FRY_ETCD_ANSWERED;
    } else {
        call->outcome = judge_refusal(call, status);
    }
    if (call->outcome == FRY_ETCD_REFUSED && call->etcd->login_again(call))
        call->outcome = FRY_ETCD_UNSENT;
}

/* Notes the time that etcd and the network take, without making or awaiting a connection. */
static void note_round_trip(const fry_etcd_call *call)
{
    curl_off_t before_us = 0, all_us = 0;

    if (call->is_stream || call->is_login ||
        fry_curl.curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &before_us) !=
            CURLE_OK ||
        fry_curl.curl_easy_getinfo(call->easy, CURLINFO_TOTAL_TIME_T, &all_us) != CURLE_OK ||
        all_us <= before_us)
        return;
    fry_store_answered_in(&call->etcd->base, (int64_t)(all_us - before_us) * NS_PER_US);
}

/* An endpoint that fails takes streams with it, so the call is taken off libcurl first. */
static void end(fry_etcd_call *call, CURLcode code)
{
    judge(call, code);
    if (call->outcome == FRY_ETCD_ANSWERED || call->outcome == FRY_ETCD_REFUSED)
        note_round_trip(call);
    fry_async_abort(&call->async, FERRY_OK, NULL);
    if (call->outcome == FRY_ETCD_ANSWERED || call->outcome == FRY_ETCD_REFUSED)
        fry_etcd_endpoint_answered(call->etcd, call->endpoint);
    if (call->outcome == FRY_ETCD_UNKNOWN || call->outcome == FRY_ETCD_STRANGE ||
        (call->outcome == FRY_ETCD_UNSENT && call->code == 0)) {
        if (!call->is_without_memory && !(call->is_too_long && call->is_page))
            fry_etcd_endpoint_failed(call->etcd, call->endpoint, call->text);
    }
    fry_async_tell(&call->async);
}

static void collect(fry_etcd *etcd)
{
    CURLMsg *message;
    int left;

    while ((message = fry_curl.curl_multi_info_read(etcd->multi, &left)) != NULL) {
        const CURLcode code = message->data.result;
        char *owner = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)fry_curl.curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
        end((fry_etcd_call *)(void *)owner, code);
    }
}

static void act(fry_etcd *etcd, curl_socket_t fd, int events)
{
    int running;

    (void)fry_curl.curl_multi_socket_action(etcd->multi, fd, events, &running);
    collect(etcd);
}

/* ---- what libcurl calls ---- */

static size_t take_answer(char *bytes, size_t one, size_t count, void *arg)
{
    fry_etcd_call *call = arg;
    const size_t needed = call->answer_bytes + count + 1;

    (void)one;
    if (needed - 1 > call->answer_max) {
        call->is_too_long = true;
        return 0;
    }
    if (needed > call->answer_room) {
        size_t room = call->answer_room > 0 ? call->answer_room : FIRST_ROOM;

        while (room < needed)
            room *= 2;
        char *larger = fry_alloc_raw(call->etcd->memory, room, 1);
        if (larger == NULL) {
            call->is_without_memory = true;
            return 0;
        }
        if (call->answer_bytes > 0)
            memcpy(larger, call->answer, call->answer_bytes);
        fry_free(call->etcd->memory, call->answer, call->answer_room);
        call->answer = larger;
        call->answer_room = room;
    }
    memcpy(call->answer + call->answer_bytes, bytes, count);
    call->answer_bytes += count;
    call->answer[call->answer_bytes] = '\0';
    if (call->is_stream)
        fry_timer_set_soon(call->etcd->reactor, &call->news);
    return count;
}

/* Only counts, because libcurl would keep in memory a head that never ends. */
static size_t take_head(char *bytes, size_t one, size_t count, void *arg)
{
    fry_etcd_call *call = arg;

    (void)bytes;
    (void)one;
    call->head_bytes += count;
    call->is_too_long = call->head_bytes > HEAD_BYTES_MAX;
    return call->is_too_long ? 0 : count;
}

static size_t give_body(char *bytes, size_t one, size_t count, void *arg)
{
    fry_etcd_call *call = arg;
    const size_t left = call->body_bytes - call->body_sent;
    const size_t room = one * count;
    const size_t size = left < room ? left : room;

    memcpy(bytes, call->body + call->body_sent, size);
    call->body_sent += size;
    return size;
}

static int refuse_to_wind_back(void *arg, curl_off_t offset, int origin)
{
    (void)arg;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

static void socket_is_ready(fry_watch *watch, uint32_t events)
{
    const fry_etcd_socket *socket = watch->arg;
    int mask = 0;

    if ((events & EPOLLIN) != 0)
        mask |= CURL_CSELECT_IN;
    if ((events & EPOLLOUT) != 0)
        mask |= CURL_CSELECT_OUT;
    if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        mask |= CURL_CSELECT_ERR;
    act(socket->etcd, watch->fd, mask);
}

static void forget_socket(fry_etcd_socket *socket)
{
    fry_etcd *etcd = socket->etcd;

    fry_poller_remove(etcd->reactor->poller, &socket->watch);
    TAILQ_REMOVE(&etcd->sockets, socket, entry);
    fry_free(etcd->memory, socket, sizeof *socket);
}

static void is_blind(const fry_etcd *etcd, CURL *easy)
{
    char *owner = NULL;

    (void)fry_curl.curl_easy_getinfo(easy, CURLINFO_PRIVATE, &owner);
    if (owner == NULL)
        return;
    fry_etcd_call *call = (fry_etcd_call *)(void *)owner;
    call->is_blind = true;
    fry_timer_set_soon(etcd->reactor, &call->news);
}

/*
 * Always 0: another answer ends all of libcurl's work for good. If a socket can't be watched, for
 * lack of memory or descriptors, its call is ended here, soon.
 */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *mine)
{
    fry_etcd *etcd = arg;
    fry_etcd_socket *socket = mine;
    uint32_t events = 0;

    if (what == CURL_POLL_REMOVE) {
        if (socket != NULL)
            forget_socket(socket);
        return 0;
    }
    if (socket != NULL) {
        fry_poller_remove(etcd->reactor->poller, &socket->watch);
    } else {
        socket = fry_alloc(etcd->memory, sizeof *socket, _Alignof(fry_etcd_socket));
        if (socket == NULL) {
            is_blind(etcd, easy);
            return 0;
        }
        *socket = (fry_etcd_socket){.watch = {.fd = fd, .fn = socket_is_ready, .arg = socket},
                                    .etcd = etcd};
        TAILQ_INSERT_TAIL(&etcd->sockets, socket, entry);
        (void)fry_curl.curl_multi_assign(etcd->multi, fd, socket);
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= EPOLLOUT;
    if (fry_poller_add(etcd->reactor->poller, &socket->watch, events) != FERRY_OK) {
        (void)fry_curl.curl_multi_assign(etcd->multi, fd, NULL);
        forget_socket(socket);
        is_blind(etcd, easy);
    }
    return 0;
}

/* A program that this process executes would inherit libcurl's own sockets. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)arg;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    fry_etcd *etcd = arg;

    (void)multi;
    if (timeout_ms < 0)
        fry_timer_stop(etcd->reactor, &etcd->curl_timer);
    else if (timeout_ms == 0)
        fry_timer_set_soon(etcd->reactor, &etcd->curl_timer);
    else
        fry_timer_set(etcd->reactor, &etcd->curl_timer,
                      fry_reactor_now_ns(etcd->reactor) + timeout_ms * NS_PER_MS);
    return 0;
}

static void timer_is_due(fry_timer *timer)
{
    act(timer->arg, CURL_SOCKET_TIMEOUT, 0);
}

/* ---- starting ---- */

static bool add_header(fry_etcd_call *call, const char *line)
{
    struct curl_slist *longer = fry_curl.curl_slist_append(call->headers, line);

    if (longer != NULL)
        call->headers = longer;
    return longer != NULL;
}

/* hasleader, as etcd's own client sends it: an etcd without a leader answers at once. */
static bool make_headers(fry_etcd_call *call)
{
    const fry_etcd *etcd = call->etcd;
    char line[FRY_ETCD_TOKEN_BYTES + 32];

    if (!add_header(call, "Content-Type: application/json") || !add_header(call, "Expect:") ||
        !add_header(call, "Grpc-Metadata-hasleader: true"))
        return false;
    if (call->is_login || etcd->login != FRY_ETCD_LOGIN_DONE)
        return true;
    (void)snprintf(line, sizeof line, "Authorization: %s", etcd->token);
    return add_header(call, line);
}

static bool set_tls(const fry_etcd *etcd, CURL *easy)
{
    __typeof__(&curl_easy_setopt) set = fry_curl.curl_easy_setopt;

    return (etcd->ca_path == NULL || set(easy, CURLOPT_CAINFO, etcd->ca_path) == CURLE_OK) &&
           (etcd->certificate_path == NULL ||
            (set(easy, CURLOPT_SSLCERT, etcd->certificate_path) == CURLE_OK &&
             set(easy, CURLOPT_SSLKEY, etcd->key_path) == CURLE_OK));
}

/* Sets options. Only those fail that need memory, or that this libcurl was built without. */
static bool set_options(fry_etcd_call *call)
{
    __typeof__(&curl_easy_setopt) set = fry_curl.curl_easy_setopt;
    const fry_etcd *etcd = call->etcd;
    char url[FRY_ETCD_ENDPOINT_BYTES + 64];
    CURL *easy = call->easy;
    const long patience_ms = call->patience_ms != 0 ? call->patience_ms : FRY_ETCD_PATIENCE_MS;

    (void)snprintf(url, sizeof url, "%s%s", etcd->endpoints[call->endpoint].url, call->path);
    (void)set(easy, CURLOPT_NOSIGNAL, 1L);
    (void)set(easy, CURLOPT_QUICK_EXIT, 1L); /* never waits for a name server */
    (void)set(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)set(easy, CURLOPT_CONNECTTIMEOUT_MS, patience_ms < CONNECT_MS ? patience_ms : CONNECT_MS);
    (void)set(easy, CURLOPT_TIMEOUT_MS, call->is_stream ? 0L : patience_ms);
    (void)set(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)set(easy, CURLOPT_TCP_KEEPIDLE, 10L);
    (void)set(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    (void)set(easy, CURLOPT_POST, 1L);
    (void)set(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_bytes);
    (void)set(easy, CURLOPT_READFUNCTION, give_body);
    (void)set(easy, CURLOPT_READDATA, call);
    (void)set(easy, CURLOPT_SEEKFUNCTION, refuse_to_wind_back);
    (void)set(easy, CURLOPT_WRITEFUNCTION, take_answer);
    (void)set(easy, CURLOPT_WRITEDATA, call);
    (void)set(easy, CURLOPT_HEADERFUNCTION, take_head);
    (void)set(easy, CURLOPT_HEADERDATA, call);
    (void)set(easy, CURLOPT_PRIVATE, call);
    (void)set(easy, CURLOPT_ERRORBUFFER, call->curl_text);
    (void)set(easy, CURLOPT_HTTPHEADER, call->headers);
    return set(easy, CURLOPT_PROXY, "") == CURLE_OK && set(easy, CURLOPT_URL, url) == CURLE_OK &&
           set_tls(etcd, easy);
}

void fry_etcd_call_run(fry_etcd_call *call)
{
    fry_etcd *etcd = call->etcd;

    call->endpoint = etcd->endpoint;
    call->token_serial = etcd->token_serial;
    call->easy = fry_curl.curl_easy_init();
    if (call->easy == NULL || !make_headers(call) || !set_options(call) ||
        fry_curl.curl_multi_add_handle(etcd->multi, call->easy) != CURLM_OK)
        fry_etcd_call_fail(call, FRY_ETCD_UNSENT, 0, "no memory for a call");
}

void fry_etcd_call_start(fry_etcd *etcd, fry_etcd_call *call, char *body)
{
    call->etcd = etcd;
    fry_etcd_call_cancel(call);
    call->news = (fry_timer){.fn = news_are_due, .arg = call};
    call->body = body;
    call->body_bytes = body != NULL ? strlen(body) : 0;
    call->body_sent = call->head_bytes = 0;
    call->answer_max =
        call->is_page || call->is_stream ? FRY_ETCD_PAGE_ANSWER_BYTES : FRY_ETCD_ANSWER_BYTES;
    call->is_too_long = call->is_without_memory = call->is_blind = false;
    call->text[0] = call->curl_text[0] = '\0';
    fry_async_begin(&call->async, &etcd->calls);
    if (body == NULL)
        fry_etcd_call_fail(call, FRY_ETCD_UNSENT, 0, "no memory for a request");
    else if (call->is_login || etcd->login_allows(etcd))
        fry_etcd_call_run(call);
}

const char *fry_etcd_call_line(fry_etcd_call *call, size_t *bytes_p)
{
    const char *end = NULL;

    if (call->answer_bytes > call->scanned_bytes)
        end = memchr(call->answer + call->scanned_bytes, '\n',
                     call->answer_bytes - call->scanned_bytes);
    if (end != NULL) {
        const char *line = call->answer + call->taken_bytes;

        *bytes_p = (size_t)(end - line);
        call->taken_bytes += *bytes_p + 1;
        call->scanned_bytes = call->taken_bytes;
        return line;
    }
    /* The rest moves to the front once for all lines that were taken. */
    call->answer_bytes -= call->taken_bytes;
    if (call->taken_bytes > 0 && call->answer_bytes > 0)
        memmove(call->answer, call->answer + call->taken_bytes, call->answer_bytes);
    call->taken_bytes = 0;
    call->scanned_bytes = call->answer_bytes;
    return NULL;
}

/* ---- opening and closing ---- */

ferry_status fry_etcd_http_open(fry_etcd *etcd)
{
    static const fry_provider_ops of_calls = {.drop = give_back, .tell = tell};
    __typeof__(&curl_multi_setopt) set = fry_curl.curl_multi_setopt;

    fry_provider_init(&etcd->calls, etcd->reactor, &of_calls);
    TAILQ_INIT(&etcd->sockets);
    etcd->curl_timer = (fry_timer){.fn = timer_is_due, .arg = etcd};
    etcd->multi = fry_curl.curl_multi_init();
    if (etcd->multi == NULL)
        return FERRY_E_NO_MEMORY;
    (void)set(etcd->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    (void)set(etcd->multi, CURLMOPT_SOCKETDATA, etcd);
    (void)set(etcd->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)set(etcd->multi, CURLMOPT_TIMERDATA, etcd);
    return FERRY_OK;
}

void fry_etcd_http_close(fry_etcd *etcd)
{
    fry_etcd_socket *socket;

    (void)fry_curl.curl_multi_cleanup(etcd->multi);
    /* libcurl has reported each socket that it closed; the others are forgotten here. */
    while ((socket = TAILQ_FIRST(&etcd->sockets)) != NULL)
        forget_socket(socket);
    fry_timer_stop(etcd->reactor, &etcd->curl_timer);
}
