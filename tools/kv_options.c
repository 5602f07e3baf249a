/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIMITS(least, most) "(" TEXT(least) " to " TEXT(most) "; default "
#define SECOND_NS 1e9

static const char documentation[] =
    "Serves a paged cache as disaggregated inference does. A prefill process, rank 0, fills the "
    "pages of a request layer by layer, at scattered places of a window, and says by a notice when "
    "those of a layer are there. The decode processes ask by notice, get the pages of each layer "
    "by "
    "a plan, compare each byte, and free the pages by a notice. Requests are served in the order "
    "in which they are asked for. --local starts all here.\v"
    "Rank 0's options of the cache and of measuring count; the others follow.\n\n"
    "ttft: from asking to when the pages of the first layer have been verified. raw: at the end "
    "all "
    "decode processes at once get the pages of their last request again and again, by the same "
    "plans, without notices, filling and verifying. efficiency: bytes/s of the requests and of "
    "this.\n\n"
    "Exit status: 0 done and verified, 1 something failed or bytes differ, 2 bad options, 128 and "
    "the signal's number when interrupted.";

enum {
    KEY_PAGE = 0x100,
    KEY_LAYERS,
    KEY_PAGES,
    KEY_ROOM,
    KEY_TIME,
    KEY_RAW,
    KEY_ANSWER,
    KEY_SVG,
};

static const struct argp_option kv_list[] = {
    {"size", 's', "N", 0, "Processes, with rank 0: in the place of --decoders", 2},
    {0},
};

static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "Cache:", 2},
    {"decoders", 'd', "N", 0, "Decode processes " LIMITS(1, KV_DECODERS_MAX) "2)", 2},
    {"page", KEY_PAGE, "SIZE", 0, "Bytes of a page, 16K to 2M (default 64K)", 2},
    {"layers", KEY_LAYERS, "N", 0, "Layers " LIMITS(1, KV_LAYERS_MAX) "4)", 2},
    {"pages", KEY_PAGES, "N", 0, "Pages of a request in each layer " LIMITS(1, KV_PAGES_MAX) "16)",
     2},
    {"room", KEY_ROOM, "N", 0, "Requests that the cache holds " LIMITS(1, KV_ROOM_MAX) "8)", 2},
    {NULL, 0, NULL, 0, "Measuring:", 3},
    {"requests", 'n', "N", 0, "Requests of each decode process (default: as many as fit the time)",
     3},
    {"time", KEY_TIME, "SECONDS", 0, "Time of the requests together (default 10; the demo's 2)", 3},
    {"raw-time", KEY_RAW, "SECONDS", 0,
     "Time of measuring what is possible (default 1; the demo's 0.5)", 3},
    {"answer-time", KEY_ANSWER, "SECONDS", 0,
     "An answer that takes longer ends the run (default 60)", 3},
    {"svg", KEY_SVG, "FILE", 0,
     "Draw one more request of the first decode process, both ends. Only with --local", 3},
    {"json", 'j', NULL, 0, "Print one JSON object", 3},
    {0},
};

static size_t parse_page(const struct argp_state *state, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long size = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 0;
    end += shift > 0;
    bool is_right = isdigit((unsigned char)*text) && *end == '\0' && errno == 0 &&
                    size <= KV_PAGE_MAX_BYTES >> shift && size << shift >= KV_PAGE_MIN_BYTES &&
                    (size << shift) % sizeof(uint64_t) == 0;
    if (!is_right)
        argp_error(state, "--page is '%s'; it must be like 64K, from 16K to 2M, a multiple of 8",
                   text);
    return (size_t)size << shift;
}

static int64_t parse_time(const struct argp_state *state, const char *name, const char *text)
{
    return (int64_t)(member_options_seconds(state, name, text) * SECOND_NS);
}

static uint32_t parse_count(const struct argp_state *state, const char *name, const char *text,
                            uint32_t most)
{
    return (uint32_t)member_options_number(state, name, text, 1, most);
}

static error_t parse_measure(int key, char *argument, struct argp_state *state)
{
    kv_options *options = state->input;
    switch (key) {
    case 'n':
        options->shape.requests =
            member_options_number(state, "requests", argument, 1, KV_REQUESTS_MAX);
        return 0;
    case KEY_TIME:
        options->shape.time_ns = parse_time(state, "time", argument);
        return 0;
    case KEY_RAW:
        options->shape.raw_ns = parse_time(state, "raw-time", argument);
        return 0;
    case KEY_ANSWER:
        options->shape.answer_ns = parse_time(state, "answer-time", argument);
        return 0;
    case KEY_SVG:
        options->svg = argument;
        return 0;
    case 'j':
        options->is_json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check(const kv_options *options, const struct argp_state *state)
{
    member_options_check(&options->meeting, state);
    if (!kv_shape_is_possible(&options->shape))
        argp_error(state, "such a cache has %zu MiB; the limit is %zu MiB",
                   kv_shape_cache_bytes(&options->shape) >> 20, KV_CACHE_MAX_BYTES >> 20);
    if (options->svg && !options->meeting.is_local)
        argp_error(state, "--svg goes with --local");
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    kv_options *options = state->input;
    switch (key) {
    case 'd':
        options->meeting.size = 1 + parse_count(state, "decoders", argument, KV_DECODERS_MAX);
        return 0;
    case KEY_PAGE:
        options->shape.page_bytes = parse_page(state, argument);
        return 0;
    case KEY_LAYERS:
        options->shape.layers = parse_count(state, "layers", argument, KV_LAYERS_MAX);
        return 0;
    case KEY_PAGES:
        options->shape.pages = parse_count(state, "pages", argument, KV_PAGES_MAX);
        return 0;
    case KEY_ROOM:
        options->shape.room = parse_count(state, "room", argument, KV_ROOM_MAX);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", argument);
        return EINVAL;
    case ARGP_KEY_SUCCESS:
        check(options, state);
        return 0;
    default:
        return parse_measure(key, argument, state);
    }
}

/* The demo has no options of meeting; the command has them and all of the demo's. */
static error_t parse_kv(int key, char *argument, struct argp_state *state)
{
    kv_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->meeting;
        state->child_inputs[1] = options;
        return 0;
    case 's':
        options->meeting.size =
            (uint32_t)member_options_number(state, "size", argument, 2, 1 + KV_DECODERS_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp demo_parser = {
    .options = option_list, .parser = parse_option, .doc = documentation};

static void parse(kv_options *options, const struct argp *parser, int argc, char **argv)
{
    argp_err_exit_status = KV_EXIT_USAGE;
    if (argp_parse(parser, argc, argv, 0, NULL, options) != 0)
        exit(KV_EXIT_USAGE);
}

static const kv_options defaults = {
    .meeting = MEMBER_OPTIONS_INIT,
    .shape = {.page_bytes = (size_t)64 << 10,
              .layers = 4,
              .pages = 16,
              .room = 8,
              .time_ns = INT64_C(10000000000),
              .raw_ns = INT64_C(1000000000),
              .answer_ns = INT64_C(60000000000)},
};

void kv_options_parse(kv_options *options, int argc, char **argv)
{
    static const struct argp rest = {.options = option_list, .parser = parse_option};
    static const struct argp_child children[] = {
        {&member_options_parser, 0, "Meeting:", 1}, {&rest, 0, NULL, 0}, {0}};
    static const struct argp parser = {
        .options = kv_list, .parser = parse_kv, .doc = documentation, .children = children};
    *options = defaults;
    options->meeting.job = "kv";
    options->meeting.size = 3;
    parse(options, &parser, argc, argv);
}

void kv_options_parse_demo(kv_options *options, int argc, char **argv)
{
    *options = defaults;
    options->meeting.job = "kv";
    options->meeting.size = 3;
    options->meeting.is_local = true;
    options->shape.time_ns = INT64_C(2000000000);
    options->shape.raw_ns = INT64_C(500000000);
    parse(options, &demo_parser, argc, argv);
}

uint32_t kv_shape_places(const kv_shape *shape)
{
    return shape->pages * shape->room;
}

size_t kv_shape_cache_bytes(const kv_shape *shape)
{
    return (size_t)shape->page_bytes * shape->layers * kv_shape_places(shape);
}

bool kv_shape_is_possible(const kv_shape *shape)
{
    return shape->page_bytes >= KV_PAGE_MIN_BYTES && shape->page_bytes <= KV_PAGE_MAX_BYTES &&
           shape->page_bytes % sizeof(uint64_t) == 0 && shape->layers >= 1 &&
           shape->layers <= KV_LAYERS_MAX && shape->pages >= 1 && shape->pages <= KV_PAGES_MAX &&
           shape->room >= 1 && shape->room <= KV_ROOM_MAX && shape->requests <= KV_REQUESTS_MAX &&
           shape->time_ns > 0 && shape->raw_ns > 0 && shape->answer_ns > 0 &&
           kv_shape_cache_bytes(shape) <= KV_CACHE_MAX_BYTES;
}
