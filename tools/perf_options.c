/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_options.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <ferry/notice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const perf_way_names[PERF_WAY_COUNT] = {"auto", "staging", "ipc", "nccl"};
const char *const perf_test_names[PERF_TEST_COUNT] = {"lat", "bw",  "rate",   "bi",
                                                      "get", "put", "notice", "plan"};

static const char documentation[] =
    "Measures messages between two members: latency, bandwidth, message rate, and bandwidth both "
    "ways at once. Rank 0 chooses what is measured and prints it; rank 1 follows, and takes only "
    "the options of the group and of waiting. --local starts both here.\v"
    "SIZES are sizes or ranges, with commas: 8,4K or 8:1G, which goes up by powers of two, or "
    "8:1G:4 by powers of four. K, M and G are powers of 1024.\n\n"
    "lat: half a round trip of one message. bw: one direction, from the first send to when the "
    "other end has acknowledged the last. rate: the same, in messages. bi: the sum of both "
    "directions. A message counts when its future is FERRY_OK, which means that it was "
    "received. get, put: rank 0 gets them out of a window of rank 1's, or puts them into it, which "
    "rank 1's program does nothing for; with -O 1 each is timed. notice: rate, of notices, which "
    "have 4096 bytes at most. plan: get, with two plans of half the outstanding messages each, "
    "which are posted by turns.\n\n"
    "With the memory of a GPU, --device cuda:0, a line also tells which way its bytes went: by "
    "staging, through host memory; by ipc, which copies from one end's GPU memory to the other's; "
    "by nccl; or mixed. Each line is checked once before it is measured. Beside bw of 1M and more "
    "stand its "
    "limits. Of staging they are the same messages between host memory, and copies between the GPU "
    "and page-locked memory, d2h and h2d. Of ipc it is copies within the GPU, d2d. Of nccl there "
    "is "
    "none. ratio: of its "
    "bandwidth and the lowest of these limits.\n\n"
    "Figures with --check are lower: they include the time to make and check the bytes.\n\n"
    "Exit status: 0 done, 1 something failed or bytes differ, 2 bad options, 128 and the signal's "
    "number when interrupted.";

enum {
    KEY_TIME = 0x100,
    KEY_BATCH,
    KEY_CHECK,
    KEY_LOOP,
    KEY_DEVICE,
    KEY_SHARED,
    KEY_WAY,
};

/* Short names are ucx_perftest's; nixlbench's long names are aliases. */
static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "Measuring:", 2},
    {"test", 't', "TESTS", 0,
     "lat, bw, rate, bi, get, put, notice, plan, or several with commas (default: the first four)",
     2},
    {"size", 's', "SIZES", 0,
     "Sizes of messages (default 8:1G:8; lat 8:2M:8; rate 8,64,512; get, put, plan 8:64M:8; notice "
     "8:4K:8)",
     2},
    {"device", KEY_DEVICE, "NAME[,NAME]", 0,
     "Device whose memory both ends use, of the host or a GPU, or rank 0's and, after a comma, "
     "rank "
     "1's: cuda:0,cuda:1 (default host:0)",
     2},
    {"way", KEY_WAY, "auto|staging|ipc|nccl", 0,
     "The way that this end allows for GPU memory, besides staging (default auto: staging and ipc; "
     "nccl needs a GPU for each end)",
     2},
    {"iterations", 'n', "N", 0, "Messages for each line (default: as many as fit the time)", 2},
    {"num_iter", 0, NULL, OPTION_ALIAS, NULL, 2},
    {"warmup", 'w', "N", 0, "Messages before the measured ones (default: some)", 2},
    {"warmup_iter", 0, NULL, OPTION_ALIAS, NULL, 2},
    {"outstanding", 'O', "N", 0,
     "Messages under way at once (default 64, rate 256; fewer of large ones)", 2},
    {"time", KEY_TIME, "SECONDS", 0, "Time of all measurements together (default 15)", 2},
    {"batch", KEY_BATCH, NULL, 0,
     "Submit as many messages as may be under way as two batches, one future each", 2},
    {"check", KEY_CHECK, NULL, 0, "Send known bytes, and check each byte that comes", 2},
    {"check_consistency", 0, NULL, OPTION_ALIAS, NULL, 2},
    {"shared", KEY_SHARED, NULL, 0,
     "Windows of the host lie in memory that processes of this host map (get, put, plan)", 2},
    {NULL, 0, NULL, 0, "How:", 3},
    {"wait", 'E', "poll|sleep", 0, "Whether a waiting thread polls or sleeps (default poll)", 3},
    {"loop", KEY_LOOP, "thread|embedded", 0,
     "Whether the engine has its own thread (default), or the waiting thread does its work", 3},
    {"cpus", 'c', "CPU[,CPU]", 0, "CPU of rank 0's main thread, and of rank 1's (default: any)", 3},
    {"json", 'j', NULL, 0, "Print one JSON object on each line", 3},
    {0},
};

/* Reads a size at *text and moves *text behind it; 0: not a size. */
static size_t take_size(const char **text)
{
    char *end = NULL;
    errno = 0;
    if (!isdigit((unsigned char)**text))
        return 0;
    unsigned long long size = strtoull(*text, &end, 10);
    unsigned shift = 0;
    switch (*end) {
    case 'G':
    case 'g':
        shift += 10;
        /* fall through */
    case 'M':
    case 'm':
        shift += 10;
        /* fall through */
    case 'K':
    case 'k':
        shift += 10;
        end++;
        break;
    default:
        break;
    }
    *text = end;
    if (errno || size > PERF_SIZE_MAX_BYTES >> shift)
        return 0;
    return (size_t)size << shift;
}

static void add_size(perf_options *options, const struct argp_state *state, size_t size)
{
    if (options->size_count == PERF_SIZES_MAX)
        argp_error(state, "--size names more than %d sizes", PERF_SIZES_MAX);
    else
        options->sizes[options->size_count++] = size;
}

static void parse_sizes(perf_options *options, const struct argp_state *state, const char *text)
{
    const char *at = text;
    bool is_right = true;
    options->size_count = 0;
    do {
        size_t first = take_size(&at);
        size_t last = first;
        size_t factor = 2;
        if (*at == ':') {
            at++;
            last = take_size(&at);
        }
        if (*at == ':') {
            at++;
            factor = take_size(&at);
        }
        is_right = first > 0 && last >= first && factor >= 2 && (*at == ',' || *at == '\0');
        for (size_t size = first; is_right && size <= last; size *= factor) {
            add_size(options, state, size);
            if (size > last / factor)
                break;
        }
    } while (is_right && *at++ == ',');
    if (!is_right)
        argp_error(state, "--size is '%s'; it must be like 8,64K or 8:1G or 8:1G:4, up to 16G",
                   text);
}

static void parse_tests(perf_options *options, const struct argp_state *state, const char *text)
{
    memset(options->tests, 0, sizeof(options->tests));
    while (*text) {
        size_t length = strcspn(text, ",");
        size_t i = 0;
        while (i < PERF_TEST_COUNT && (strlen(perf_test_names[i]) != length ||
                                       strncmp(perf_test_names[i], text, length) != 0))
            i++;
        if (i == PERF_TEST_COUNT) {
            argp_error(state,
                       "there is no test '%.*s'; there are: lat, bw, rate, bi, get, put, notice, "
                       "plan",
                       (int)length, text);
            return;
        }
        options->tests[i] = true;
        text += length + (text[length] == ',');
    }
}

/* One name is for both ends. */
static void parse_device(perf_options *options, const struct argp_state *state, const char *text)
{
    const char *comma = strchr(text, ',');
    const char *names[2] = {text, comma != NULL ? comma + 1 : text};
    size_t bytes[2] = {comma != NULL ? (size_t)(comma - text) : strlen(text), strlen(names[1])};
    for (int rank = 0; rank < 2; rank++) {
        if (bytes[rank] == 0 || bytes[rank] >= PERF_DEVICE_BYTES)
            argp_error(state, "--device is '%s'; it must be like host:0, cuda:0 or cuda:0,cuda:1",
                       text);
        (void)snprintf(options->devices[rank], PERF_DEVICE_BYTES, "%.*s", (int)bytes[rank],
                       names[rank]);
    }
}

static perf_way parse_way(const struct argp_state *state, const char *text)
{
    for (int way = 0; way < PERF_WAY_COUNT; way++) {
        if (strcmp(text, perf_way_names[way]) == 0)
            return (perf_way)way;
    }
    argp_error(state, "--way is '%s'; it must be auto, staging, ipc or nccl", text);
    return PERF_WAY_AUTO;
}

static void parse_cpus(perf_options *options, const struct argp_state *state, const char *text)
{
    char *end = NULL;
    long first = strtol(text, &end, 10);
    long second = -1;
    if (end != text && *end == ',') {
        text = end + 1;
        second = strtol(text, &end, 10);
    }
    if (end == text || *end != '\0' || first < 0 || first > 4095 || second > 4095)
        argp_error(state, "--cpus must be one CPU's number, or two with a comma");
    options->cpus[0] = (int)first;
    options->cpus[1] = (int)second;
}

static bool choose(const struct argp_state *state, const char *name, const char *text,
                   const char *yes, const char *no)
{
    if (strcmp(text, yes) != 0 && strcmp(text, no) != 0)
        argp_error(state, "--%s is '%s'; it must be %s or %s", name, text, yes, no);
    return strcmp(text, yes) == 0;
}

static error_t parse_measure(int key, char *argument, struct argp_state *state)
{
    perf_options *options = state->input;
    switch (key) {
    case 't':
        parse_tests(options, state, argument);
        return 0;
    case 's':
        parse_sizes(options, state, argument);
        return 0;
    case 'n':
        options->iterations =
            member_options_number(state, "iterations", argument, 1, PERF_COUNT_MAX);
        return 0;
    case 'w':
        options->warmup = member_options_number(state, "warmup", argument, 0, PERF_COUNT_MAX);
        return 0;
    case 'O':
        options->window =
            (uint32_t)member_options_number(state, "outstanding", argument, 1, PERF_WINDOW_MAX);
        return 0;
    case KEY_DEVICE:
        parse_device(options, state, argument);
        return 0;
    case KEY_WAY:
        options->way = parse_way(state, argument);
        return 0;
    case KEY_TIME:
        options->time_s = member_options_seconds(state, "time", argument);
        return 0;
    case KEY_BATCH:
        options->is_batch = true;
        return 0;
    case KEY_SHARED:
        options->is_shared = true;
        return 0;
    case KEY_CHECK:
        options->is_checked = true;
        return 0;
    case 'E':
        options->wait =
            choose(state, "wait", argument, "poll", "sleep") ? PERF_WAIT_POLL : PERF_WAIT_SLEEP;
        return 0;
    case KEY_LOOP:
        options->has_thread = choose(state, "loop", argument, "thread", "embedded");
        return 0;
    case 'c':
        parse_cpus(options, state, argument);
        return 0;
    case 'j':
        options->is_json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check(const perf_options *options, const struct argp_state *state)
{
    member_options_check(&options->meeting, state);
    for (size_t i = 0; options->tests[PERF_NOTICE] && i < options->size_count; i++) {
        if (options->sizes[i] > FERRY_NOTICE_BYTES_MAX)
            argp_error(state, "a notice has at most %d bytes", FERRY_NOTICE_BYTES_MAX);
    }
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    perf_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->meeting;
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

void perf_options_parse(perf_options *options, int argc, char **argv)
{
    static const struct argp_child meeting[] = {{&member_options_parser, 0, "Meeting:", 1}, {0}};
    static const struct argp parser = {
        .options = option_list, .parser = parse_option, .doc = documentation, .children = meeting};
    *options = (perf_options){
        .meeting = MEMBER_OPTIONS_INIT,
        .devices = {PERF_DEVICE_HOST, PERF_DEVICE_HOST},
        .tests = {true, true, true, true},
        .warmup = UINT64_MAX,
        .time_s = 15,
        .has_thread = true,
        .cpus = {-1, -1},
    };
    options->meeting.job = "perf";
    options->meeting.size = 2;
    argp_err_exit_status = PERF_EXIT_USAGE;
    if (argp_parse(&parser, argc, argv, 0, NULL, options) != 0)
        exit(PERF_EXIT_USAGE);
}
