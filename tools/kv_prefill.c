/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_prefill.h"

#include "tools/demo_executor.h"
#include "tools/kv_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kv_prefill kv_prefill;
typedef struct kv_held kv_held;

/* Where a decode process stands. Later ones are greater. */
typedef enum seat_state {
    SEAT_NEW = 0,
    SEAT_READY,
    SEAT_IDLE,    /* it may ask */
    SEAT_WAITING, /* its request waits for room */
    SEAT_HELD,    /* its request is in the cache */
    SEAT_DONE,
    SEAT_RAW,
    SEAT_OVER, /* its figures are here */
} seat_state;

/* A decode process. It has one request at a time, so those that wait have a bound. */
typedef struct kv_seat {
    seat_state state;
    uint64_t request;
    uint32_t count;
    kv_held *held;
} kv_seat;

/* A layer of a request that is to be filled. */
typedef struct kv_fill {
    const kv_prefill *prefill;
    const kv_held *held;
    uint32_t layer;
} kv_fill;

/* Room for a request in the cache. */
struct kv_held {
    ferry_rank rank; /* KV_PREFILL: free */
    uint64_t request;
    uint32_t count;
    int64_t deadline_ns;               /* of its pages being freed again */
    uint32_t places[KV_PAGES_MAX];     /* of its pages, the same in each layer */
    kv_fill fills[KV_LAYERS_MAX];      /* what the calls that fill its layers get */
    ferry_future *sent[KV_LAYERS_MAX]; /* notices of the layers */
};

struct kv_prefill {
    kv_end *end;
    const kv_shape *shape;
    kv_outcome *outcome;
    demo_executor executor; /* fills pages, as a GPU would */
    bool has_executor;
    ferry_buffer *cache; /* layer by layer, pages in places */
    ferry_window *window;
    kv_held *held;                 /* shape->room */
    kv_seat *seats;                /* by rank - 1 */
    ferry_rank *waiting;           /* a ring of all seats, in the order in which they have asked */
    uint32_t first, waiting_count; /* where the ring begins, and how many wait */
    uint64_t free[KV_PAGES_MAX]; /* rows of places, a bit each, that page i of a request may have */
    uint64_t random;
    uint64_t served;
    int64_t begun_ns;
};

static int fail(const kv_prefill *prefill, const char *doing, const char *why)
{
    return member_fail(&prefill->end->member, doing, why);
}

/* ---- the cache ---- */

static ferry_status fill_layer(void *arg)
{
    const kv_fill *fill = arg;
    const kv_prefill *prefill = fill->prefill;
    const kv_held *held = fill->held;
    size_t page_bytes = (size_t)prefill->shape->page_bytes;
    size_t first = (size_t)fill->layer * kv_shape_places(prefill->shape);
    unsigned char *bytes = ferry_buffer_data(prefill->cache);
    for (uint32_t i = 0; i < held->count; i++) {
        kv_page page = {
            .rank = held->rank, .layer = fill->layer, .index = i, .request = held->request};
        kv_page_fill(&page, bytes + (first + held->places[i]) * page_bytes, page_bytes);
    }
    return FERRY_OK;
}

/*
 * Chooses places. Page i of a request may be in place i, i + pages, i + 2 * pages...: so a decode
 * process, whose plans name where the bytes of each place go, needs memory for one request alone.
 */
static void choose_places(kv_prefill *prefill, kv_held *held)
{
    for (uint32_t i = 0; i < held->count; i++) {
        prefill->random = prefill->random * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned turn = (unsigned)(prefill->random >> 58);
        uint64_t rows = prefill->free[i];
        uint64_t turned = turn ? rows >> turn | rows << (64 - turn) : rows;
        unsigned row = ((unsigned)__builtin_ctzll(turned) + turn) % 64;
        prefill->free[i] &= ~(UINT64_C(1) << row);
        held->places[i] = row * prefill->shape->pages + i;
    }
}

static void free_places(kv_prefill *prefill, const kv_held *held)
{
    for (uint32_t i = 0; i < held->count; i++)
        prefill->free[i] |= UINT64_C(1) << held->places[i] / prefill->shape->pages;
}

/* Has all layers filled, one after the other, and each of them told when it is. */
static void submit_layers(kv_prefill *prefill, kv_held *held)
{
    kv_end *end = prefill->end;
    /* It keeps the cache until the call is over; who writes where is known without the order. */
    ferry_access access = {ferry_buffer_span(prefill->cache), FERRY_WRITE};
    for (uint32_t layer = 0; layer < prefill->shape->layers; layer++) {
        char label[KV_LABEL_BYTES];
        kv_label_layer(label, "fill", layer);
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.label = label;
        options.flags = FERRY_OP_LABEL_COPIED | FERRY_OP_UNTRACKED;
        options.accesses = &access;
        options.access_count = 1;
        held->fills[layer] = (kv_fill){prefill, held, layer};
        ferry_future *filled = ferry_call(end->member.engine, &prefill->executor.base, fill_layer,
                                          &held->fills[layer], &options);
        kv_notice notice = {
            .kind = KV_LAYER, .request = held->request, .layer = layer, .count = held->count};
        size_t table_bytes = layer == 0 ? held->count * sizeof(held->places[0]) : 0;
        held->sent[layer] = kv_end_tell(end, held->rank, &notice, held->places, table_bytes, filled,
                                        prefill->shape->answer_ns);
        ferry_future_release(filled);
    }
}

/* Takes the requests that find room, those first that came first. */
static void admit(kv_prefill *prefill)
{
    uint32_t decoders = prefill->outcome->decoders;
    for (uint32_t i = 0; i < prefill->shape->room && prefill->waiting_count > 0; i++) {
        kv_held *held = &prefill->held[i];
        if (held->rank != KV_PREFILL)
            continue;
        ferry_rank rank = prefill->waiting[prefill->first];
        prefill->first = (prefill->first + 1) % decoders;
        prefill->waiting_count--;
        kv_seat *seat = &prefill->seats[rank - 1];
        seat->state = SEAT_HELD;
        seat->held = held;
        held->rank = rank;
        held->request = seat->request;
        held->count = seat->count;
        held->deadline_ns = kv_end_now_ns(prefill->end) + prefill->shape->answer_ns;
        choose_places(prefill, held);
        submit_layers(prefill, held);
    }
}

/* The pages were freed, so all notices of them were taken, and this thread hardly waits. */
static int take_back(kv_prefill *prefill, kv_seat *seat)
{
    kv_held *held = seat->held;
    int result = 0;
    for (uint32_t layer = 0; layer < prefill->shape->layers; layer++) {
        ferry_future *sent = held->sent[layer];
        held->sent[layer] = NULL;
        if (result)
            ferry_future_release(sent);
        else
            result = member_finish(&prefill->end->member, sent, "telling of a layer");
    }
    free_places(prefill, held);
    held->rank = KV_PREFILL;
    seat->held = NULL;
    seat->state = SEAT_IDLE;
    prefill->served++;
    return result;
}

/* ---- what the decode processes say ---- */

static int take_request(kv_prefill *prefill, kv_seat *seat, const kv_heard *heard)
{
    seat->request = heard->notice.request;
    seat->count = heard->notice.count;
    seat->state = SEAT_WAITING;
    uint32_t last = (prefill->first + prefill->waiting_count) % prefill->outcome->decoders;
    prefill->waiting[last] = heard->rank;
    prefill->waiting_count++;
    return 0;
}

static int take_figures(kv_prefill *prefill, kv_seat *seat, const kv_heard *heard)
{
    kv_figures *figures = &prefill->outcome->figures[heard->rank - 1];
    memcpy(figures, heard->body, sizeof(*figures));
    seat->state = SEAT_OVER;
    return 0;
}

/* Anyone of the group can send anything: what does not fit where its sender stands ends the run. */
static int handle(kv_prefill *prefill)
{
    const kv_heard *heard = &prefill->end->heard;
    const kv_notice *notice = &heard->notice;
    bool is_known = heard->rank >= 1 && heard->rank <= prefill->outcome->decoders;
    kv_seat *seat = is_known ? &prefill->seats[heard->rank - 1] : NULL;
    bool is_bare = heard->body_bytes == 0;
    if (is_known && is_bare && notice->kind == KV_READY && seat->state == SEAT_NEW) {
        seat->state = SEAT_READY;
        return 0;
    }
    if (is_known && is_bare && notice->kind == KV_ASK && seat->state == SEAT_IDLE &&
        notice->count >= 1 && notice->count <= prefill->shape->pages)
        return take_request(prefill, seat, heard);
    if (is_known && is_bare && notice->kind == KV_FREE && seat->state == SEAT_HELD &&
        notice->request == seat->request)
        return take_back(prefill, seat);
    if (is_known && is_bare && notice->kind == KV_DONE && seat->state == SEAT_IDLE) {
        seat->state = SEAT_DONE;
        return 0;
    }
    if (is_known && notice->kind == KV_FIGURES && seat->state == SEAT_RAW &&
        heard->body_bytes == sizeof(kv_figures))
        return take_figures(prefill, seat, heard);
    fprintf(stderr, "ferry: rank 0: rank %u says what can't be (%u, for %u pages)\n",
            (unsigned)heard->rank, (unsigned)notice->kind, (unsigned)notice->count);
    return EXIT_FAILURE;
}

/* One that has said everything may go. */
static int look_for_gone(kv_prefill *prefill)
{
    for (ferry_rank rank = 1; rank <= prefill->outcome->decoders; rank++) {
        if (prefill->seats[rank - 1].state != SEAT_OVER &&
            kv_end_is_gone(prefill->end, rank, "decode"))
            return EXIT_FAILURE;
    }
    return 0;
}

/* The request that has been in the cache for the longest time; NULL: there is none. */
static kv_held *oldest(const kv_prefill *prefill)
{
    kv_held *found = NULL;
    for (uint32_t i = 0; i < prefill->shape->room; i++) {
        kv_held *held = &prefill->held[i];
        if (held->rank != KV_PREFILL && (!found || held->deadline_ns < found->deadline_ns))
            found = held;
    }
    return found;
}

static int fail_late(kv_prefill *prefill)
{
    const kv_held *held = oldest(prefill);
    if (!held)
        return fail(prefill, "waiting", "no decode process has said anything for too long");
    for (uint32_t layer = 0; layer < prefill->shape->layers; layer++) {
        if (ferry_future_poll(held->sent[layer]) < 0)
            return member_fail_future(&prefill->end->member, held->sent[layer],
                                      "telling of a layer");
    }
    fprintf(stderr, "ferry: rank 0: rank %u has not freed the pages of its request in time\n",
            (unsigned)held->rank);
    return EXIT_FAILURE;
}

static void look_at_memory(kv_prefill *prefill)
{
    const kv_shape *shape = prefill->shape;
    kv_outcome *outcome = prefill->outcome;
    bool is_third = shape->requests > 0
                        ? prefill->served >= (shape->requests * outcome->decoders + 2) / 3
                        : kv_end_now_ns(prefill->end) - prefill->begun_ns >= shape->time_ns / 3;
    if (prefill->begun_ns > 0 && outcome->third_resident == 0 && is_third)
        outcome->third_resident = kv_resident_bytes();
}

static bool is_there(const kv_prefill *prefill, seat_state state)
{
    for (uint32_t i = 0; i < prefill->outcome->decoders; i++) {
        if (prefill->seats[i].state < state)
            return false;
    }
    return true;
}

/* Serves until all have come so far. */
static int serve(kv_prefill *prefill, seat_state state)
{
    int result = 0;
    while (!result && !is_there(prefill, state)) {
        const kv_held *held = oldest(prefill);
        int64_t most_ns = prefill->shape->answer_ns + prefill->shape->raw_ns;
        result = kv_end_hear(prefill->end,
                             held ? held->deadline_ns : kv_end_now_ns(prefill->end) + most_ns);
        if (result == KV_HEARD_NEWS)
            result = look_for_gone(prefill);
        else if (result == KV_HEARD_NOTHING)
            result = fail_late(prefill);
        else if (!result)
            result = handle(prefill);
        if (!result)
            admit(prefill);
        look_at_memory(prefill);
    }
    return result;
}

/* ---- a run ---- */

/* Tells it from the first to the last rank, and waits until all have heard it. */
static int tell(kv_prefill *prefill, kv_kind kind, ferry_rank first, ferry_rank last,
                seat_state state)
{
    kv_end *end = prefill->end;
    ferry_future *sent[KV_DECODERS_MAX];
    kv_notice notice = {.kind = kind};
    size_t body_bytes = kind == KV_SHAPE ? sizeof(*prefill->shape) : 0;
    for (ferry_rank rank = first; rank <= last; rank++) {
        prefill->seats[rank - 1].state = state;
        sent[rank - first] = kv_end_tell(end, rank, &notice, prefill->shape, body_bytes, NULL,
                                         prefill->shape->answer_ns);
    }
    int result = 0;
    for (ferry_rank rank = first; rank <= last; rank++) {
        if (result)
            ferry_future_release(sent[rank - first]);
        else
            result = member_finish(&end->member, sent[rank - first], "telling a decode process");
    }
    return result;
}

static int draw(kv_prefill *prefill)
{
    int result = kv_end_trace_open(prefill->end);
    if (!result)
        result = tell(prefill, KV_DRAW, 1, 1, SEAT_IDLE);
    if (!result)
        result = serve(prefill, SEAT_DONE);
    return result ? result : kv_end_trace_close(prefill->end);
}

static int run(kv_prefill *prefill)
{
    kv_outcome *outcome = prefill->outcome;
    ferry_rank last = outcome->decoders;
    int result = tell(prefill, KV_SHAPE, 1, last, SEAT_NEW);
    if (!result)
        result = serve(prefill, SEAT_READY);
    prefill->begun_ns = kv_end_now_ns(prefill->end);
    if (!result)
        result = tell(prefill, KV_BEGIN, 1, last, SEAT_IDLE);
    if (!result)
        result = serve(prefill, SEAT_DONE);
    outcome->duration_ns = kv_end_now_ns(prefill->end) - prefill->begun_ns;
    outcome->end_resident = kv_resident_bytes();
    if (!result)
        result = tell(prefill, KV_RAW, 1, last, SEAT_RAW);
    if (!result)
        result = serve(prefill, SEAT_OVER);
    if (!result && prefill->end->options->svg)
        result = draw(prefill);
    return result ? result : tell(prefill, KV_END, 1, last, SEAT_OVER);
}

static int open_cache(kv_prefill *prefill)
{
    kv_end *end = prefill->end;
    const kv_shape *shape = prefill->shape;
    size_t size_bytes = kv_shape_cache_bytes(shape);
    ferry_status status = ferry_buffer_alloc_kind(end->member.device, size_bytes,
                                                  FERRY_MEMORY_SHARED, &prefill->cache);
    if (status != FERRY_OK)
        return member_fail_error(&end->member, "allocating the cache", status, NULL);
    memset(ferry_buffer_data(prefill->cache), 0, size_bytes); /* its memory is there from now on */
    for (uint32_t i = 0; i < shape->pages; i++)
        prefill->free[i] = shape->room == 64 ? UINT64_MAX : (UINT64_C(1) << shape->room) - 1;
    return member_finish(&end->member,
                         ferry_window_open(end->member.group, ferry_buffer_span(prefill->cache),
                                           KV_WINDOW_NAME, FERRY_WINDOW_GET, &prefill->window),
                         "opening the window");
}

static int open_prefill(kv_prefill *prefill)
{
    const kv_shape *shape = prefill->shape;
    uint32_t decoders = prefill->outcome->decoders;
    prefill->held = calloc(shape->room, sizeof(*prefill->held));
    prefill->seats = calloc(decoders, sizeof(*prefill->seats));
    prefill->waiting = calloc(decoders, sizeof(*prefill->waiting));
    if (!prefill->held || !prefill->seats || !prefill->waiting)
        return fail(prefill, "starting", "out of memory");
    int error = demo_executor_start(&prefill->executor, (size_t)shape->room * shape->layers);
    if (error)
        return fail(prefill, "starting a thread", strerror(error));
    prefill->has_executor = true;
    return open_cache(prefill);
}

int kv_prefill_run(kv_end *end, kv_outcome *outcome)
{
    kv_prefill prefill = {.end = end, .shape = &end->options->shape, .outcome = outcome};
    int result = open_prefill(&prefill);
    if (!result)
        result = run(&prefill);
    for (uint32_t i = 0; prefill.held && i < prefill.shape->room; i++) {
        for (uint32_t layer = 0; layer < prefill.shape->layers; layer++)
            ferry_future_release(prefill.held[i].sent[layer]);
    }
    ferry_window_release(prefill.window);
    ferry_buffer_release(prefill.cache);
    result = kv_end_close(end, result); /* calls that are under way still need what follows */
    if (prefill.has_executor)
        demo_executor_stop(&prefill.executor);
    free(prefill.held);
    free(prefill.seats);
    free(prefill.waiting);
    return result;
}
