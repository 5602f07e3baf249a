/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_decode.h"

#include "tools/demo_executor.h"
#include "tools/kv_figures.h"
#include "tools/kv_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kv_decode kv_decode;

/* A layer whose pages are to be compared. */
typedef struct kv_check {
    kv_decode *decode;
    uint32_t layer;
} kv_check;

struct kv_decode {
    kv_end *end;
    kv_shape shape;
    demo_executor executor; /* compares pages, while others come */
    bool has_executor;
    ferry_window *window; /* the prefill process's cache */
    ferry_buffer *buffer; /* the pages of a request, layer by layer */
    /* Of a layer: a get of each place of the cache, and at the end a call that compares. */
    ferry_plan *plans[KV_LAYERS_MAX];
    kv_check checks[KV_LAYERS_MAX];
    uint32_t picks[KV_PAGES_MAX + 1]; /* of the plans: places of the pages, and the call */
    uint64_t request;                 /* the last one */
    int64_t asked_ns;                 /* when it was asked for */
    kv_figures figures;
};

static int fail(const kv_decode *decode, const char *doing, const char *why)
{
    return member_fail(&decode->end->member, doing, why);
}

/* ---- hearing and telling ---- */

/*
 * Waits for what the prefill process says next, and that it is this.
 *  within_ns  0: as long as it is there; it does not wait for others for ever itself
 */
static int hear(kv_decode *decode, kv_kind kind, size_t body_bytes, int64_t within_ns)
{
    kv_end *end = decode->end;
    int64_t deadline_ns = within_ns > 0 ? kv_end_now_ns(end) + within_ns : 0;
    for (;;) {
        int result = kv_end_hear(end, deadline_ns);
        if (result == KV_HEARD_NOTHING)
            return fail(decode, "waiting", "the prefill process has not answered in time");
        if (result == KV_HEARD_NEWS && kv_end_is_gone(end, KV_PREFILL, "prefill"))
            return EXIT_FAILURE;
        if (result == KV_HEARD_NEWS)
            continue;
        if (result)
            return result;
        if (end->heard.rank == KV_PREFILL && end->heard.notice.kind == (uint32_t)kind &&
            end->heard.body_bytes == body_bytes)
            return 0;
        return fail(decode, "waiting", "a notice says what can't be");
    }
}

static ferry_future *tell(kv_decode *decode, kv_kind kind, uint32_t count)
{
    kv_notice notice = {.kind = kind, .request = decode->request, .count = count};
    return kv_end_tell(decode->end, KV_PREFILL, &notice, NULL, 0, NULL, decode->shape.answer_ns);
}

static int finish(kv_decode *decode, ferry_future *future, const char *doing)
{
    return member_finish(&decode->end->member, future, doing);
}

/* ---- preparing ---- */

static int learn_shape(kv_decode *decode)
{
    int result = hear(decode, KV_SHAPE, sizeof(kv_shape), decode->shape.answer_ns);
    if (result)
        return result;
    memcpy(&decode->shape, decode->end->heard.body, sizeof(decode->shape));
    return kv_shape_is_possible(&decode->shape)
               ? 0
               : fail(decode, "preparing", "the prefill process wants a cache that can't be");
}

static int find_window(kv_decode *decode)
{
    kv_end *end = decode->end;
    int64_t deadline_ns = kv_end_now_ns(end) + decode->shape.answer_ns;
    int result = finish(decode,
                        ferry_window_find(end->member.group, KV_PREFILL, KV_WINDOW_NAME,
                                          deadline_ns, &decode->window),
                        "finding the cache");
    ferry_window_info info = FERRY_WINDOW_INFO_INIT;
    if (!result && (ferry_window_describe(decode->window, &info) != FERRY_OK ||
                    info.size_bytes != kv_shape_cache_bytes(&decode->shape)))
        result = fail(decode, "preparing", "the cache is not as large as it should be");
    return result;
}

/* By the executor. Calls of one request run one after the other, and none when the next begins. */
static ferry_status compare_layer(void *arg)
{
    const kv_check *check = arg;
    kv_decode *decode = check->decode;
    const kv_shape *shape = &decode->shape;
    size_t page_bytes = (size_t)shape->page_bytes;
    const unsigned char *bytes = ferry_buffer_data(decode->buffer);
    for (uint32_t i = 0; i < shape->pages; i++) {
        kv_page page = {.rank = (uint32_t)decode->end->member.rank,
                        .layer = check->layer,
                        .index = i,
                        .request = decode->request};
        size_t index = (size_t)check->layer * shape->pages + i;
        decode->figures.pages++;
        decode->figures.verified += kv_page_is_right(&page, bytes + index * page_bytes, page_bytes);
    }
    if (check->layer == 0)
        kv_times_add(&decode->figures.ttft, kv_end_now_ns(decode->end) - decode->asked_ns);
    return FERRY_OK;
}

/* It reads what the gets write, so it comes after them. */
static ferry_op make_call(kv_decode *decode, uint32_t layer, ferry_access *access,
                          ferry_op_options *options)
{
    size_t layer_bytes = (size_t)decode->shape.page_bytes * decode->shape.pages;
    decode->checks[layer] = (kv_check){decode, layer};
    *access = (ferry_access){{decode->buffer, layer * layer_bytes, layer_bytes}, FERRY_READ};
    options->accesses = access;
    options->access_count = 1;
    return (ferry_op){.kind = FERRY_OP_CALL,
                      .executor = &decode->executor.base,
                      .fn = compare_layer,
                      .arg = &decode->checks[layer],
                      .options = options};
}

static int make_plan(kv_decode *decode, uint32_t layer, ferry_op *ops)
{
    const kv_shape *shape = &decode->shape;
    uint32_t places = kv_shape_places(shape);
    size_t page_bytes = (size_t)shape->page_bytes;
    char label[KV_LABEL_BYTES];
    kv_label_layer(label, "page of", layer);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = label;
    options.flags = FERRY_OP_LABEL_COPIED;
    for (uint32_t place = 0; place < places; place++) {
        size_t index = (size_t)layer * shape->pages + place % shape->pages;
        ops[place] = (ferry_op){.kind = FERRY_OP_GET,
                                .window = decode->window,
                                .window_offset = ((uint64_t)layer * places + place) * page_bytes,
                                .dst = {decode->buffer, index * page_bytes, page_bytes},
                                .options = &options};
    }
    char call_label[KV_LABEL_BYTES];
    kv_label_layer(call_label, "compare", layer);
    ferry_op_options call = FERRY_OP_OPTIONS_INIT;
    call.label = call_label;
    call.flags = FERRY_OP_LABEL_COPIED;
    ferry_access access;
    ops[places] = make_call(decode, layer, &access, &call);
    ferry_error *error = NULL;
    ferry_status status = ferry_plan_create(decode->end->member.engine, ops, sizeof(*ops),
                                            places + 1, &decode->plans[layer], &error);
    int result = status == FERRY_OK
                     ? 0
                     : member_fail_error(&decode->end->member, "making a plan", status, error);
    ferry_error_release(error);
    return result;
}

static int prepare(kv_decode *decode)
{
    int result = learn_shape(decode);
    if (!result)
        result = find_window(decode);
    if (result)
        return result;
    const kv_shape *shape = &decode->shape;
    ferry_status status = ferry_buffer_alloc(
        decode->end->member.device, (size_t)shape->page_bytes * shape->layers * shape->pages,
        &decode->buffer);
    if (status != FERRY_OK)
        return member_fail_error(&decode->end->member, "allocating memory for pages", status, NULL);
    int error = demo_executor_start(&decode->executor, shape->layers);
    if (error)
        return fail(decode, "starting a thread", strerror(error));
    decode->has_executor = true;
    ferry_op *ops = calloc((size_t)kv_shape_places(shape) + 1, sizeof(*ops));
    if (!ops)
        return fail(decode, "preparing", "out of memory");
    for (uint32_t layer = 0; layer < shape->layers && !result; layer++)
        result = make_plan(decode, layer, ops);
    free(ops);
    return result ? result : finish(decode, tell(decode, KV_READY, 0), "saying that all is ready");
}

/* ---- requests ---- */

/* Gets the pages, and compares them or not. */
static ferry_future *post(kv_decode *decode, uint32_t layer, bool is_compared)
{
    uint32_t pages = decode->shape.pages;
    decode->picks[pages] = kv_shape_places(&decode->shape);
    char label[KV_LABEL_BYTES];
    kv_label_layer(label, "get", layer);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.label = label;
    options.flags = FERRY_OP_LABEL_COPIED;
    options.deadline_ns = kv_end_now_ns(decode->end) + decode->shape.answer_ns;
    return ferry_plan_post(decode->plans[layer], decode->picks, is_compared ? pages + 1 : pages,
                           &options);
}

/* Where the pages are is the other one's word: each of them must be one that its plan knows, for
 * the page that it is. */
static int take_places(kv_decode *decode)
{
    const kv_shape *shape = &decode->shape;
    memcpy(decode->picks, decode->end->heard.body, shape->pages * sizeof(decode->picks[0]));
    for (uint32_t i = 0; i < shape->pages; i++) {
        if (decode->picks[i] >= kv_shape_places(shape) || decode->picks[i] % shape->pages != i)
            return fail(decode, "getting pages", "they are said to be where they can't be");
    }
    return 0;
}

/* Waits for a layer, and begins to get it. */
static int take_layer(kv_decode *decode, uint32_t layer, ferry_future **post_p)
{
    const kv_shape *shape = &decode->shape;
    size_t table_bytes = layer == 0 ? shape->pages * sizeof(decode->picks[0]) : 0;
    int result = hear(decode, KV_LAYER, table_bytes, shape->answer_ns);
    const kv_notice *notice = &decode->end->heard.notice;
    if (!result && (notice->request != decode->request || notice->layer != layer ||
                    notice->count != shape->pages))
        result = fail(decode, "getting pages", "they are another request's");
    if (!result && layer == 0)
        result = take_places(decode);
    if (!result)
        *post_p = post(decode, layer, true);
    return result;
}

static int finish_posts(kv_decode *decode, ferry_future **posts, int result)
{
    for (uint32_t layer = 0; layer < decode->shape.layers; layer++) {
        if (result)
            ferry_future_release(posts[layer]);
        else
            result = finish(decode, posts[layer], "getting pages");
    }
    return result;
}

/* Layers are fetched and compared while the ones behind them are still being filled. */
static int run_request(kv_decode *decode)
{
    const kv_shape *shape = &decode->shape;
    ferry_future *posts[KV_LAYERS_MAX] = {NULL};
    decode->request++;
    decode->asked_ns = kv_end_now_ns(decode->end);
    ferry_future *asked = tell(decode, KV_ASK, shape->pages);
    int result = 0;
    for (uint32_t layer = 0; layer < shape->layers && !result; layer++)
        result = take_layer(decode, layer, &posts[layer]);
    result = finish_posts(decode, posts, result);
    if (result) {
        ferry_future_release(asked);
        return result;
    }
    result = finish(decode, asked, "asking for pages");
    return result ? result : finish(decode, tell(decode, KV_FREE, 0), "freeing pages");
}

static bool is_over(const kv_decode *decode, int64_t elapsed_ns, uint32_t share)
{
    const kv_shape *shape = &decode->shape;
    return shape->requests > 0 ? decode->request >= (shape->requests + share - 1) / share
                               : elapsed_ns >= shape->time_ns / share;
}

static int run_requests(kv_decode *decode)
{
    kv_figures *figures = &decode->figures;
    int result = hear(decode, KV_BEGIN, 0, 0);
    int64_t begun_ns = kv_end_now_ns(decode->end);
    int64_t elapsed_ns = 0;
    while (!result && !is_over(decode, elapsed_ns, 1)) {
        result = run_request(decode);
        elapsed_ns = kv_end_now_ns(decode->end) - begun_ns;
        if (figures->third_resident == 0 && is_over(decode, elapsed_ns, 3))
            figures->third_resident = kv_resident_bytes();
    }
    const kv_shape *shape = &decode->shape;
    figures->requests = decode->request;
    figures->bytes = decode->request * shape->pages * shape->layers * shape->page_bytes;
    figures->duration_ns = elapsed_ns;
    figures->end_resident = kv_resident_bytes();
    return result ? result : finish(decode, tell(decode, KV_DONE, 0), "saying that all is done");
}

/* ---- what is possible ---- */

/*
 * As many pages again and again, all layers at once, from one part of the cache after the other, so
 * that a CPU's own cache helps no more than with requests. Nobody writes them now.
 */
static int run_raw(kv_decode *decode)
{
    const kv_shape *shape = &decode->shape;
    kv_figures *figures = &decode->figures;
    int result = hear(decode, KV_RAW, 0, 0);
    int64_t begun_ns = kv_end_now_ns(decode->end);
    for (uint32_t row = 0; !result && figures->raw_ns < shape->raw_ns; row++) {
        ferry_future *posts[KV_LAYERS_MAX];
        for (uint32_t i = 0; i < shape->pages; i++)
            decode->picks[i] = row % shape->room * shape->pages + i;
        for (uint32_t layer = 0; layer < shape->layers; layer++)
            posts[layer] = post(decode, layer, false);
        result = finish_posts(decode, posts, result);
        figures->raw_bytes += (uint64_t)shape->pages * shape->layers * shape->page_bytes;
        figures->raw_ns = kv_end_now_ns(decode->end) - begun_ns;
    }
    return result;
}

static int tell_figures(kv_decode *decode)
{
    kv_notice notice = {.kind = KV_FIGURES};
    return finish(decode,
                  kv_end_tell(decode->end, KV_PREFILL, &notice, &decode->figures,
                              sizeof(decode->figures), NULL, decode->shape.answer_ns),
                  "saying what was measured");
}

static int run_drawn(kv_decode *decode)
{
    int result = hear(decode, KV_DRAW, 0, 0);
    if (!result)
        result = kv_end_trace_open(decode->end);
    if (!result)
        result = run_request(decode);
    if (!result)
        result = kv_end_trace_close(decode->end);
    return result ? result : finish(decode, tell(decode, KV_DONE, 0), "saying that all is done");
}

int kv_decode_run(kv_end *end)
{
    kv_decode decode = {.end = end, .shape = end->options->shape};
    int result = prepare(&decode);
    if (!result)
        result = run_requests(&decode);
    if (!result)
        result = run_raw(&decode);
    if (!result)
        result = tell_figures(&decode);
    if (!result && end->options->svg && end->member.rank == 1)
        result = run_drawn(&decode);
    if (!result)
        result = hear(&decode, KV_END, 0, 0);
    for (uint32_t layer = 0; layer < KV_LAYERS_MAX; layer++)
        ferry_plan_release(decode.plans[layer]);
    ferry_window_release(decode.window);
    ferry_buffer_release(decode.buffer);
    result = kv_end_close(end, result); /* calls that are under way still need what follows */
    if (decode.has_executor)
        demo_executor_stop(&decode.executor);
    return result;
}
