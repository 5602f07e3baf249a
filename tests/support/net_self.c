/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/net_self.h"

#include "tests/support/patience.h"

#include <ev.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define END_NS (INT64_C(20000000000) * PATIENCE)
#define MILLISECOND_NS INT64_C(1000000)
#define PROBE_NS (1000 * MILLISECOND_NS)
#define PROBES_MAX 60

_Noreturn void net_self_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "a member (process %d): ", (int)getpid());
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

int64_t net_self_deadline(int64_t from_now_ns)
{
    return net_now_ns() + from_now_ns;
}

/* ---- joining ---- */

static void note_member(void *arg, ferry_group *group, const ferry_member_info *member)
{
    (void)group;
    net_self *self = arg;
    if (member->rank >= sizeof(self->members) / sizeof(self->members[0]))
        return;
    pthread_mutex_lock(&self->mutex);
    self->members[member->rank] = *member;
    self->news++;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

ferry_member_info net_self_await_member(net_self *self, uint32_t rank, ferry_member_state state,
                                        uint64_t above)
{
    pthread_mutex_lock(&self->mutex);
    while (self->members[rank].state != state || self->members[rank].incarnation <= above)
        pthread_cond_wait(&self->changed, &self->mutex);
    ferry_member_info member = self->members[rank];
    pthread_mutex_unlock(&self->mutex);
    return member;
}

static void note_line(void *arg, ferry_log_level level, const char *line)
{
    net_self *self = arg;
    /* The kernel must take the loops that the tests have, also over TCP. */
    NET_SELF_CHECK(strstr(line, "nested too deep") == NULL, "%s", line);
    if (level > FERRY_LOG_WARNING)
        return;
    if (!self->is_silent)
        fprintf(stderr, "  ferry in process %d: %s\n", (int)getpid(), line);
    pthread_mutex_lock(&self->mutex);
    self->warnings++;
    self->slow_lines += strstr(line, " is slow: ") != NULL;
    pthread_mutex_unlock(&self->mutex);
}

size_t net_self_warnings(net_self *self)
{
    pthread_mutex_lock(&self->mutex);
    size_t warnings = self->warnings;
    pthread_mutex_unlock(&self->mutex);
    return warnings;
}

size_t net_self_slow_lines(net_self *self)
{
    pthread_mutex_lock(&self->mutex);
    size_t slow_lines = self->slow_lines;
    pthread_mutex_unlock(&self->mutex);
    return slow_lines;
}

size_t net_self_news(net_self *self)
{
    pthread_mutex_lock(&self->mutex);
    size_t news = self->news;
    pthread_mutex_unlock(&self->mutex);
    return news;
}

static ferry_loop_mode loop_of(net_self *self, const char *name)
{
    if (name && strcmp(name, "embedded") == 0)
        return FERRY_LOOP_EMBEDDED;
    if (!name || strcmp(name, "attached") != 0)
        return FERRY_LOOP_THREAD;
    self->ev_loop = ev_loop_new(EVFLAG_AUTO);
    NET_SELF_CHECK(self->ev_loop, "no libev loop");
    return FERRY_LOOP_ATTACHED;
}

void net_self_open(net_self *self, int argc, char **argv)
{
    *self = (net_self){.is_silent = net_argument(argc, argv, "silent") != NULL};
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = 1;
    options.host_workers = 1;
    options.log = note_line;
    options.log_arg = self;
    options.loop = loop_of(self, net_argument(argc, argv, "loop"));
    options.ev_loop = self->ev_loop;
    options.wait_spin_ns = net_argument_number(argc, argv, "wait_spin_us", 0) * 1000;
    ferry_error *error = NULL;
    if (ferry_engine_create(&options, &self->engine, &error) != FERRY_OK)
        net_self_fail("no engine: %s", error->message);
}

ferry_future *net_self_begin(net_self *self, int argc, char **argv)
{
    net_self_open(self, argc, argv);
    return net_self_begin_join(self, argc, argv);
}

ferry_future *net_self_begin_join(net_self *self, int argc, char **argv)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = net_argument(argc, argv, "store");
    options.job = net_argument(argc, argv, "job");
    if (!options.job)
        options.job = "job";
    options.size = (uint32_t)net_argument_number(argc, argv, "size", 2);
    int64_t rank = net_argument_number(argc, argv, "rank", -1);
    options.has_rank = rank >= 0;
    options.rank = options.has_rank ? (ferry_rank)rank : 0;
    options.device_count = 1;
    options.lease_ns = net_argument_number(argc, argv, "lease_ms", 10000) * MILLISECOND_NS;
    options.network = net_argument(argc, argv, "network");
    options.place = net_argument(argc, argv, "place");
    options.secret = net_argument(argc, argv, "secret");
    options.secret_bytes = options.secret ? strlen(options.secret) : 0;
    options.window_bytes =
        (size_t)net_argument_number(argc, argv, "window_bytes", (int64_t)options.window_bytes);
    options.linger_ns = net_argument_number(argc, argv, "linger_ms", 0) * MILLISECOND_NS;
    options.window_messages =
        (uint32_t)net_argument_number(argc, argv, "window_messages", options.window_messages);
    options.unexpected_max =
        (uint32_t)net_argument_number(argc, argv, "unexpected_max", options.unexpected_max);
    if (net_argument_number(argc, argv, "open", 0) != 0)
        options.kind = FERRY_GROUP_OPEN;
    options.any_source_max = (uint32_t)net_argument_number(argc, argv, "any_source_max", 0);
    options.gpu_way = (ferry_gpu_way)net_argument_number(argc, argv, "gpu_way", FERRY_GPU_WAY_ANY);
    options.deadline_ns =
        net_self_deadline(net_argument_number(argc, argv, "deadline_ms", 30000) * MILLISECOND_NS);
    options.on_member = note_member;
    options.on_member_arg = self;
    return ferry_group_join(self->engine, &options, &self->group);
}

static const char *describe(ferry_future *future, char *text, size_t text_bytes)
{
    const ferry_error *error = ferry_future_error(future);
    (void)snprintf(text, text_bytes, "%s rank=%d at=%lld %s%s%s",
                   ferry_status_name(ferry_future_poll(future)), error ? (int)error->rank : -1,
                   (long long)net_now_ns(), error ? error->message : "",
                   error && error->cause ? " because of: " : "",
                   error && error->cause ? error->cause->message : "");
    return text;
}

void net_self_join(net_self *self, int argc, char **argv)
{
    char text[1024];
    ferry_future *future = net_self_begin(self, argc, argv);
    if (ferry_future_wait(future, -1) != FERRY_OK)
        net_self_fail("joining: %s", describe(future, text, sizeof(text)));
    ferry_future_release(future);
    self->rank = (uint32_t)ferry_group_rank(self->group);
    ferry_member_info member = FERRY_MEMBER_INFO_INIT;
    if (ferry_group_member(self->group, self->rank, &member) != FERRY_OK)
        net_self_fail("the group does not know its own rank %u", (unsigned)self->rank);
    net_say("joined rank=%u incarnation=%llu", (unsigned)self->rank,
            (unsigned long long)member.incarnation);
}

ferry_status net_self_tell(net_self *self, const char *word, ferry_future *future)
{
    (void)self;
    char text[1024];
    ferry_status status = ferry_future_wait(future, -1);
    net_say("%s %s", word, describe(future, text, sizeof(text)));
    ferry_future_release(future);
    return status;
}

void net_self_tell_failure(ferry_future *future)
{
    const ferry_error *error = ferry_future_error(future);
    const ferry_error *root = error->cause != NULL ? error->cause : error;
    net_say("failed %s cause=%s rank=%d: %s", ferry_status_name(error->status),
            ferry_status_name(root->status), (int)root->rank, root->message);
    ferry_future *quiet = ferry_future_quiet(future);
    NET_SELF_CHECK(ferry_future_wait(quiet, -1) == FERRY_OK, "it is never quiet");
    ferry_future_release(quiet);
}

void net_self_end(net_self *self)
{
    if (self->group) {
        ferry_future *left = ferry_group_leave(self->group);
        ferry_status status = ferry_future_wait(left, END_NS);
        NET_SELF_CHECK(status != FERRY_PENDING, "leaving does not end");
        ferry_future_release(left);
        ferry_group_release(self->group);
    }
    ferry_status status = ferry_engine_shutdown(self->engine, END_NS);
    NET_SELF_CHECK(status == FERRY_OK, "shutting down: %s", ferry_status_name(status));
    ferry_engine_release(self->engine);
    if (self->ev_loop)
        ev_loop_destroy(self->ev_loop);
}

/* ---- traffic ---- */

static uint64_t word_of(const net_traffic *traffic, size_t message, size_t at)
{
    uint64_t word = ((uint64_t)traffic->seed << 40) + ((uint64_t)message << 24) + at;
    return word * UINT64_C(0x9e3779b97f4a7c15) ^ word >> 29;
}

static unsigned char *slot(const net_traffic *traffic, size_t message)
{
    return (unsigned char *)ferry_buffer_data(traffic->buffer) + message * traffic->size_bytes;
}

static void make_bytes(const net_traffic *traffic, size_t message, unsigned char *bytes)
{
    for (size_t at = 0; at < traffic->size_bytes; at += sizeof(uint64_t)) {
        uint64_t word = word_of(traffic, message, at);
        size_t rest = traffic->size_bytes - at;
        memcpy(bytes + at, &word, rest < sizeof(word) ? rest : sizeof(word));
    }
}

void net_traffic_open(net_traffic *traffic)
{
    size_t bytes = traffic->count * traffic->size_bytes;
    ferry_device *device = ferry_device_at(traffic->self->engine, 0);
    traffic->futures = calloc(traffic->count, sizeof(ferry_future *));
    if (!traffic->futures || ferry_buffer_alloc(device, bytes, &traffic->buffer) != FERRY_OK)
        net_self_fail("no memory for %zu bytes", bytes);
    memset(ferry_buffer_data(traffic->buffer), 0xa5, bytes);
    for (size_t i = 0; i < traffic->count && traffic->is_send; i++)
        make_bytes(traffic, i, slot(traffic, i));
}

void net_traffic_submit(net_traffic *traffic, size_t first, size_t end)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = traffic->deadline_ns;
    for (size_t i = first; i < end; i++) {
        ferry_span span = {traffic->buffer, i * traffic->size_bytes, traffic->size_bytes};
        traffic->futures[i] = (traffic->is_send ? ferry_send : ferry_recv)(
            traffic->self->group, traffic->peer, traffic->tag, span, &options);
    }
}

void net_traffic_await(net_traffic *traffic, size_t first, size_t end)
{
    char text[1024];
    for (size_t i = first; i < end; i++) {
        if (ferry_future_wait(traffic->futures[i], -1) != FERRY_OK)
            net_self_fail("%s message %zu: %s", traffic->is_send ? "sending" : "receiving", i,
                          describe(traffic->futures[i], text, sizeof(text)));
    }
}

/* Whether an error is about the peer, and says so. */
static bool is_named(const net_traffic *traffic, const ferry_error *error)
{
    if (!error)
        return false;
    if (error->status == FERRY_E_DEPENDENCY && error->cause)
        error = error->cause;
    char rank[16];
    (void)snprintf(rank, sizeof(rank), "%u", (unsigned)traffic->peer);
    return error->rank == traffic->peer && strstr(error->message, rank);
}

void net_traffic_tally(net_traffic *traffic, net_tally *tally)
{
    for (size_t i = 0; i < traffic->count; i++) {
        ferry_future *future = traffic->futures[i];
        ferry_status status = ferry_future_wait(future, -1);
        tally->last_ns = net_now_ns();
        if (status == FERRY_OK) {
            tally->good++;
            tally->good_first += tally->failed == 0;
            continue;
        }
        const ferry_error *error = ferry_future_error(future);
        if (tally->failed++ == 0) {
            tally->status = status;
            (void)snprintf(tally->message, sizeof(tally->message), "%s",
                           error ? error->message : ferry_status_text(status));
        }
        tally->unnamed += !is_named(traffic, error);
    }
}

const char *net_tally_text(const net_tally *tally)
{
    static char text[512];
    (void)snprintf(text, sizeof(text),
                   "good=%zu failed=%zu first=%zu unnamed=%zu at=%lld status=%s %s", tally->good,
                   tally->failed, tally->good_first, tally->unnamed, (long long)tally->last_ns,
                   ferry_status_name(tally->status), tally->message);
    return text;
}

void net_traffic_quiet(net_traffic *traffic)
{
    for (size_t i = 0; i < traffic->count; i++) {
        ferry_future *quiet = ferry_future_quiet(traffic->futures[i]);
        ferry_status status = ferry_future_wait(quiet, -1);
        NET_SELF_CHECK(status == FERRY_OK, "the quiet of message %zu: %s", i,
                       ferry_status_name(status));
        ferry_future_release(quiet);
    }
    size_t bytes = traffic->count * traffic->size_bytes;
    traffic->before = malloc(bytes);
    NET_SELF_CHECK(traffic->before, "no memory for %zu bytes", bytes);
    memcpy(traffic->before, ferry_buffer_data(traffic->buffer), bytes);
}

void net_traffic_check(const net_traffic *traffic)
{
    unsigned char *expected = malloc(traffic->size_bytes);
    NET_SELF_CHECK(expected, "no memory");
    for (size_t i = 0; i < traffic->count; i++) {
        bool is_good = ferry_future_poll(traffic->futures[i]) == FERRY_OK;
        const unsigned char *wanted = expected;
        if (is_good && !traffic->is_send)
            make_bytes(traffic, i, expected);
        else if (traffic->before)
            wanted = traffic->before + i * traffic->size_bytes;
        else
            continue;
        NET_SELF_CHECK(memcmp(slot(traffic, i), wanted, traffic->size_bytes) == 0,
                       "message %zu: %s", i,
                       is_good ? "other bytes than were sent" : "memory written after quiet");
    }
    free(expected);
}

void net_traffic_close(net_traffic *traffic)
{
    for (size_t i = 0; i < traffic->count; i++)
        ferry_future_release(traffic->futures[i]);
    ferry_buffer_release(traffic->buffer);
    free(traffic->futures);
    free(traffic->before);
    traffic->futures = NULL;
    traffic->buffer = NULL;
    traffic->before = NULL;
}

void net_self_exchange(net_self *self, ferry_tag tag, size_t count, size_t size_bytes)
{
    net_traffic ways[2];
    for (uint32_t i = 0; i < 2; i++) {
        ways[i] = (net_traffic){.self = self,
                                .peer = self->rank == 0,
                                .tag = tag + i,
                                .is_send = i == self->rank,
                                .count = count,
                                .size_bytes = size_bytes,
                                .seed = (uint32_t)(tag + i)};
        net_traffic_open(&ways[i]);
        net_traffic_submit(&ways[i], 0, count);
    }
    for (size_t i = 0; i < 2; i++) {
        net_traffic_await(&ways[i], 0, count);
        net_traffic_check(&ways[i]);
        net_traffic_close(&ways[i]);
    }
}

void net_self_probe(net_self *self, uint32_t peer, ferry_tag tag)
{
    net_tally tally = {0};
    for (int attempt = 0; attempt < PROBES_MAX; attempt++) {
        net_traffic probe = {.self = self,
                             .peer = peer,
                             .tag = tag,
                             .is_send = self->rank < peer,
                             .count = 1,
                             .size_bytes = 4096,
                             .seed = (uint32_t)tag,
                             .deadline_ns = net_self_deadline(PROBE_NS)};
        tally = (net_tally){0};
        net_traffic_open(&probe);
        net_traffic_submit(&probe, 0, 1);
        net_traffic_tally(&probe, &tally);
        net_traffic_quiet(&probe);
        net_traffic_check(&probe);
        net_traffic_close(&probe);
        if (tally.good == 1)
            return;
        /* One that fails at once is not tried again at once. */
        const struct timespec rest = {.tv_nsec = 50 * MILLISECOND_NS};
        (void)nanosleep(&rest, NULL);
    }
    net_self_fail("nothing comes through to rank %u: %s", (unsigned)peer, tally.message);
}
