/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same transfers over raw UCX: `bench_ucx rank=0|1 test=lat|bw|rate|overlap|get ...`, two
 * processes with a socket between them; messages by tag matching, gets by RMA. UCX_TLS and the like
 * are the caller's. Rank 0 prints "seconds=S median_us=U".
 *
 *  size, n, window  of the messages
 *  loops            overlap: of computing, in rounds of n
 */
#include "bench/rivals/pair.h"

#include <pthread.h>
#include <ucp/api/ucp.h>

#define TAG_DATA 1
#define TAG_ACK 2
#define SAMPLES_MAX 100000

typedef struct pair {
    size_t rank, size, n, window, loops;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h endpoint;
    unsigned char *out, *in;
    ucs_status_ptr_t *requests; /* of the window */
} pair;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK)
        pair_fail(what, ucs_status_string(status));
}

static void connect_pair(pair *pair)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config = NULL;
    check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    check(ucp_init(&params, config, &pair->context), "ucp_init");
    ucp_config_release(config);
    check(ucp_worker_create(pair->context, &worker, &pair->worker), "ucp_worker_create");
    ucp_address_t *own = NULL;
    size_t own_bytes = 0;
    size_t other_bytes = 0;
    check(ucp_worker_get_address(pair->worker, &own, &own_bytes), "ucp_worker_get_address");
    pair_tell(&own_bytes, sizeof(own_bytes));
    pair_tell(own, own_bytes);
    pair_hear(&other_bytes, sizeof(other_bytes));
    ucp_address_t *other = malloc(other_bytes);
    if (other == NULL)
        pair_fail("connecting", "out of memory");
    pair_hear(other, other_bytes);
    ucp_ep_params_t endpoint = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = other};
    check(ucp_ep_create(pair->worker, &endpoint, &pair->endpoint), "ucp_ep_create");
    ucp_worker_release_address(pair->worker, own);
    free(other);
}

static ucs_status_ptr_t begin_send(const pair *pair, const void *bytes, size_t size, ucp_tag_t tag)
{
    static const ucp_request_param_t plain = {0};
    ucs_status_ptr_t request = ucp_tag_send_nbx(pair->endpoint, bytes, size, tag, &plain);
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "ucp_tag_send_nbx");
    return request;
}

static ucs_status_ptr_t begin_recv(const pair *pair, void *bytes, size_t size, ucp_tag_t tag)
{
    static const ucp_request_param_t plain = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucs_status_ptr_t request = ucp_tag_recv_nbx(pair->worker, bytes, size, tag, UINT64_MAX, &plain);
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "ucp_tag_recv_nbx");
    return request;
}

static void finish(const pair *pair, ucs_status_ptr_t request)
{
    if (request == NULL)
        return;
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        (void)ucp_worker_progress(pair->worker);
    check(status, "a request");
    ucp_request_free(request);
}

/* ---- lat ---- */

static double run_turns(const pair *pair, size_t n, double *samples, size_t *count_p)
{
    double begin_s = pair_now_s();
    for (size_t i = 0; i < n; i++) {
        double before_s = pair_now_s();
        if (pair->rank == 0) { /* its receive is there while the message is on the way */
            ucs_status_ptr_t sent = begin_send(pair, pair->out, pair->size, TAG_DATA);
            ucs_status_ptr_t received = begin_recv(pair, pair->in, pair->size, TAG_DATA);
            finish(pair, sent);
            finish(pair, received);
        } else {
            finish(pair, begin_recv(pair, pair->in, pair->size, TAG_DATA));
            finish(pair, begin_send(pair, pair->out, pair->size, TAG_DATA));
        }
        if (*count_p < SAMPLES_MAX)
            samples[(*count_p)++] = (pair_now_s() - before_s) / 2;
    }
    return pair_now_s() - begin_s;
}

/* ---- bw, rate ---- */

/* From the first send to the other end's word that it has the last. */
static double run_stream(const pair *pair, size_t n)
{
    char ack = 0;
    double begin_s = pair_now_s();
    for (size_t i = 0; i < n + pair->window; i++) {
        size_t slot = i % pair->window;
        size_t offset = slot * pair->size;
        if (i >= pair->window)
            finish(pair, pair->requests[slot]);
        if (i >= n)
            pair->requests[slot] = NULL;
        else if (pair->rank == 0)
            pair->requests[slot] = begin_send(pair, pair->out + offset, pair->size, TAG_DATA);
        else
            pair->requests[slot] = begin_recv(pair, pair->in + offset, pair->size, TAG_DATA);
    }
    finish(pair, pair->rank == 0 ? begin_recv(pair, &ack, 1, TAG_ACK)
                                 : begin_send(pair, &ack, 1, TAG_ACK));
    return pair_now_s() - begin_s;
}

/* ---- get: rank 0 reads rank 1's memory, which is registered once ---- */

#define LOOK_EVERY 64 /* rounds of progress between two looks at the link */

typedef struct remote {
    uint64_t address;
    ucp_rkey_h key;
} remote;

static void serve_gets(const pair *pair)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = pair->out,
                                   .length = pair->size * pair->window};
    ucp_mem_h memory;
    void *key = NULL;
    size_t key_bytes = 0;
    uint64_t address = (uintptr_t)pair->out;
    check(ucp_mem_map(pair->context, &params, &memory), "ucp_mem_map");
    check(ucp_rkey_pack(pair->context, memory, &key, &key_bytes), "ucp_rkey_pack");
    pair_tell(&address, sizeof(address));
    pair_tell(&key_bytes, sizeof(key_bytes));
    pair_tell(key, key_bytes);
    ucp_rkey_buffer_release(key);
    for (unsigned i = 0; i % LOOK_EVERY != 0 || !pair_has_news(); i++)
        (void)ucp_worker_progress(pair->worker);
}

static remote find_remote(const pair *pair)
{
    remote found = {0};
    size_t key_bytes = 0;
    pair_hear(&found.address, sizeof(found.address));
    pair_hear(&key_bytes, sizeof(key_bytes));
    void *key = malloc(key_bytes);
    if (key == NULL)
        pair_fail("get", "out of memory");
    pair_hear(key, key_bytes);
    check(ucp_ep_rkey_unpack(pair->endpoint, key, &found.key), "ucp_ep_rkey_unpack");
    free(key);
    return found;
}

static ucs_status_ptr_t begin_get(const pair *pair, const remote *from, size_t offset)
{
    static const ucp_request_param_t plain = {0};
    ucs_status_ptr_t request = ucp_get_nbx(pair->endpoint, pair->in + offset, pair->size,
                                           from->address + offset, from->key, &plain);
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "ucp_get_nbx");
    return request;
}

static double run_gets(const pair *pair, const remote *from, size_t n, double *samples,
                       size_t *count_p)
{
    double begin_s = pair_now_s();
    for (size_t i = 0; i < n + pair->window; i++) {
        size_t slot = i % pair->window;
        double before_s = pair->window == 1 ? pair_now_s() : 0;
        if (i >= pair->window)
            finish(pair, pair->requests[slot]);
        pair->requests[slot] = i < n ? begin_get(pair, from, slot * pair->size) : NULL;
        if (pair->window == 1 && i < n && *count_p < SAMPLES_MAX) {
            finish(pair, pair->requests[slot]);
            pair->requests[slot] = NULL;
            samples[(*count_p)++] = pair_now_s() - before_s;
        }
    }
    return pair_now_s() - begin_s;
}

static double run_all_gets(const pair *pair, double *samples, size_t *count_p)
{
    if (pair->rank != 0) {
        serve_gets(pair);
        return 0;
    }
    const remote from = find_remote(pair);
    (void)run_gets(pair, &from, pair->n / 10 + 1, samples, count_p);
    *count_p = 0;
    return run_gets(pair, &from, pair->n, samples, count_p);
}

/* ---- overlap: a thread computes, another moves a message out and one in ---- */

static void *run_compute(void *arg)
{
    const pair *pair = arg;
    pair_compute(pair->loops);
    return NULL;
}

static double run_round(pair *pair)
{
    pthread_t computing;
    pair_meet();
    double begin_s = pair_now_s();
    if (pthread_create(&computing, NULL, run_compute, pair) != 0)
        pair_fail("overlap", "no thread");
    ucs_status_ptr_t received = begin_recv(pair, pair->in, pair->size, TAG_DATA);
    ucs_status_ptr_t sent = begin_send(pair, pair->out, pair->size, TAG_DATA);
    finish(pair, received);
    finish(pair, sent);
    (void)pthread_join(computing, NULL);
    return pair_now_s() - begin_s;
}

/* ---- all of it ---- */

static void run(pair *pair, const char *test)
{
    double *samples = calloc(SAMPLES_MAX, sizeof(double));
    size_t count = 0;
    double seconds = 0;
    if (samples == NULL)
        pair_fail(test, "out of memory");
    if (strcmp(test, "lat") == 0) {
        (void)run_turns(pair, pair->n / 10 + 1, samples, &count);
        count = 0;
        seconds = run_turns(pair, pair->n, samples, &count);
    } else if (strcmp(test, "get") == 0) {
        seconds = run_all_gets(pair, samples, &count);
    } else if (strcmp(test, "overlap") == 0) {
        for (size_t i = 0; i <= pair->n && count < SAMPLES_MAX; i++) {
            double round_s = run_round(pair);
            if (i > 0) /* the first warms up */
                samples[count++] = round_s;
        }
        seconds = samples[0];
    } else {
        (void)run_stream(pair, pair->n / 10 + 1);
        pair_meet();
        seconds = run_stream(pair, pair->n);
    }
    pair_meet();
    if (pair->rank == 0)
        printf("seconds=%.9f median_us=%.4f\n", seconds,
               count > 0 ? pair_median(samples, count) * 1e6 : 0);
    free(samples);
}

int main(int argc, char **argv)
{
    const char *test = pair_text(argc, argv, "test");
    pair pair = {.rank = pair_number(argc, argv, "rank", 0),
                 .size = pair_number(argc, argv, "size", 8),
                 .n = pair_number(argc, argv, "n", 1000),
                 .window = pair_number(argc, argv, "window", 1),
                 .loops = pair_number(argc, argv, "loops", 0)};
    if (test == NULL || pair.window == 0 || pair.size == 0)
        pair_fail("arguments", "test=, size= and window= are wanted");
    size_t bytes = pair.size * pair.window;
    pair.out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    pair.in = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    pair.requests = calloc(pair.window, sizeof(ucs_status_ptr_t));
    if (pair.out == NULL || pair.in == NULL || pair.requests == NULL)
        pair_fail("starting", "out of memory");
    memset(pair.out, 1, bytes);
    memset(pair.in, 2, bytes);
    connect_pair(&pair);
    run(&pair, test);
    /* The other end may still be at its last words. */
    pair_meet();
    if (fflush(stdout) != 0)
        pair_fail("writing", "a full disk");
    _Exit(0);
}
