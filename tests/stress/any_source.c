/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives of any member, of several threads that cancel some of them at any moment, beside threads
 * that send and one that probes. A plain program, so that it runs under ThreadSanitizer.
 *
 *     any_source [ROUNDS [SEED]]
 *
 * Each message goes to one receive or stays: what is received is counted, a message of each sender
 * and number once. A receive that was cancelled before it met a message took none; one that had met
 * one failed that message's send, and both ends say so.
 */
#include "tests/support/effort.h"
#include "tests/support/stress.h"

#define HANG_S 190
#define SECOND_NS INT64_C(1000000000)

#if defined(__SANITIZE_THREAD__)
enum { ROUNDS = 6 };
#else
enum { ROUNDS = 20 };
#endif

enum { SENDERS = 2, TAKERS = 2, MESSAGES = 200, TAGS = 3, LARGE_BYTES = 70000, OPEN = 4 };

static struct {
    ferry_engine *engines[1 + SENDERS];
    ferry_group *groups[1 + SENDERS];
    uint32_t seen[SENDERS][MESSAGES]; /* atomic: how often it was received */
    uint32_t received, lost, failed;  /* atomic */
    uint64_t round;
} all;

typedef struct thread {
    int index;
    uint64_t random;
} thread;

static uint32_t load(uint32_t *of)
{
    return __atomic_load_n(of, __ATOMIC_RELAXED);
}

static void add(uint32_t *to)
{
    (void)__atomic_fetch_add(to, 1, __ATOMIC_RELAXED);
}

static bool is_all_over(void)
{
    return load(&all.received) + load(&all.lost) == SENDERS * MESSAGES;
}

static ferry_buffer *make_buffer(ferry_engine *engine, size_t bytes)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc(ferry_device_at(engine, 0), bytes, &buffer) == FERRY_OK);
    return buffer;
}

static void *send_all(void *arg)
{
    thread *self = arg;
    ferry_engine *engine = all.engines[self->index];
    ferry_buffer *buffer = make_buffer(engine, LARGE_BYTES + 8 * MESSAGES);
    ferry_future *sends[MESSAGES];
    uint64_t *numbers = ferry_buffer_data(buffer);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        numbers[i] = i; /* a message begins with its number */
        size_t size_bytes = below(&self->random, 8) == 0 ? LARGE_BYTES : 8;
        sends[i] = ferry_send(all.groups[self->index], 0, below(&self->random, TAGS),
                              (ferry_span){buffer, 8 * i, size_bytes}, NULL);
        if (below(&self->random, 20) == 0)
            (void)ferry_future_wait(sends[i], 1000);
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        ferry_status status = ferry_future_wait(sends[i], -1);
        CHECK(status == FERRY_OK || status == FERRY_E_DEPENDENCY);
        if (status != FERRY_OK)
            add(&all.failed);
        CHECK(status == FERRY_OK || load(&all.seen[self->index - 1][i]) == 0);
        ferry_future_release(sends[i]);
    }
    ferry_buffer_release(buffer);
    return NULL;
}

static ferry_future *take(thread *self, ferry_buffer *buffer, size_t at)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_rank rank =
        below(&self->random, 3) == 0 ? 1 + below(&self->random, SENDERS) : FERRY_RANK_ANY;
    ferry_tag tag = below(&self->random, 3) == 0 ? below(&self->random, TAGS) : FERRY_TAG_ANY;
    options.deadline_ns =
        in_ns(below(&self->random, 20) == 0 ? 0 : 3000000); /* as it may fit none */
    return ferry_recv(all.groups[0], rank, tag, (ferry_span){buffer, at * LARGE_BYTES, LARGE_BYTES},
                      &options);
}

static void judge(ferry_future *future, const char *bytes)
{
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_status status = ferry_future_wait(future, -1);
    bool has_met = ferry_message_describe(future, &info) == FERRY_OK;
    uint64_t number;
    CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_DEADLINE);
    CHECK(status != FERRY_OK || has_met);
    CHECK(!has_met || (info.rank >= 1 && info.rank <= SENDERS && info.tag < TAGS));
    if (status == FERRY_OK) {
        memcpy(&number, bytes, sizeof number);
        CHECK(number < MESSAGES && (info.size_bytes == 8 || info.size_bytes == LARGE_BYTES));
        add(&all.seen[info.rank - 1][number]);
        add(&all.received);
    } else if (has_met) {
        add(&all.lost);
    }
    ferry_future *quiet = ferry_future_quiet(future);
    CHECK(ferry_future_wait(quiet, -1) == FERRY_OK);
    ferry_future_release(quiet);
    ferry_future_release(future);
}

static void *take_all(void *arg)
{
    thread *self = arg;
    ferry_buffer *buffer = make_buffer(all.engines[0], (size_t)OPEN * LARGE_BYTES);
    const char *bytes = ferry_buffer_data(buffer);
    while (!is_all_over()) {
        ferry_future *takes[OPEN];
        for (size_t i = 0; i < OPEN; i++)
            takes[i] = take(self, buffer, i);
        for (size_t i = 0; i < OPEN; i++) {
            if (below(&self->random, 3) == 0)
                CHECK(ferry_future_cancel(takes[i]) == FERRY_OK);
            judge(takes[i], bytes + i * LARGE_BYTES);
        }
    }
    ferry_buffer_release(buffer);
    return NULL;
}

/* Finds messages that are there, and takes none. */
static void *probe_all(void *arg)
{
    thread *self = arg;
    while (!is_all_over()) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
        options.deadline_ns = in_ns(below(&self->random, 2000000));
        ferry_rank rank = below(&self->random, 2) == 0 ? 1 : FERRY_RANK_ANY;
        ferry_tag tag = below(&self->random, 2) == 0 ? 1 : FERRY_TAG_ANY;
        ferry_future *found = ferry_message_probe(all.groups[0], rank, tag, &options);
        if (below(&self->random, 3) == 0)
            CHECK(ferry_future_cancel(found) == FERRY_OK);
        ferry_status status = ferry_future_wait(found, -1);
        bool has_met = ferry_message_describe(found, &info) == FERRY_OK;
        CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED || status == FERRY_E_DEADLINE);
        CHECK(has_met || status != FERRY_OK);
        CHECK(!has_met || ((rank == FERRY_RANK_ANY || info.rank == rank) &&
                           (tag == FERRY_TAG_ANY || info.tag == tag)));
        ferry_future_release(found);
    }
    return NULL;
}

/* ---- rounds ---- */

static void begin(void)
{
    ferry_future *joins[1 + SENDERS];
    char job[32];
    (void)snprintf(job, sizeof job, "job%llu", (unsigned long long)all.round);
    for (int i = 0; i <= SENDERS; i++) {
        ferry_engine_options engine_options = FERRY_ENGINE_OPTIONS_INIT;
        engine_options.host_devices = engine_options.host_workers = 1;
        CHECK(ferry_engine_create(&engine_options, &all.engines[i], NULL) == FERRY_OK);
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:any_source";
        options.job = job;
        options.size = 1 + SENDERS;
        options.unexpected_max = UNEXPECTED_FEW;
        options.any_source_max = i == 0 ? 64 : 0;
        options.rank = (ferry_rank)i;
        options.has_rank = true;
        options.lease_ns = 60 * SECOND_NS;
        options.deadline_ns = in_ns(60 * SECOND_NS);
        joins[i] = ferry_group_join(all.engines[i], &options, &all.groups[i]);
    }
    for (int i = 0; i <= SENDERS; i++) {
        CHECK(ferry_future_wait(joins[i], -1) == FERRY_OK);
        ferry_future_release(joins[i]);
    }
}

static void end(void)
{
    for (int i = 0; i <= SENDERS; i++) {
        ferry_group_release(all.groups[i]);
        CHECK(ferry_engine_shutdown(all.engines[i], -1) == FERRY_OK);
        ferry_engine_release(all.engines[i]);
    }
}

static void run_round(uint64_t seed)
{
    enum { THREADS = SENDERS + TAKERS + 1 };
    thread threads[THREADS];
    pthread_t ids[THREADS];
    memset(&all, 0, sizeof all);
    all.round = seed;
    begin();
    for (int i = 0; i < THREADS; i++) {
        threads[i] =
            (thread){.index = i + 1,
                     .random = (seed * THREADS + (uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15)};
        ids[i] = start_thread(i < SENDERS            ? send_all
                              : i < SENDERS + TAKERS ? take_all
                                                     : probe_all,
                              &threads[i]);
    }
    for (int i = 0; i < THREADS; i++)
        join_thread(ids[i]);
    CHECK(all.failed == all.lost);
    for (int s = 0; s < SENDERS; s++)
        for (int i = 0; i < MESSAGES; i++)
            CHECK(all.seen[s][i] <= 1);
    end();
}

int main(int argc, char **argv)
{
    seeds seeds = {.count = ROUNDS, .hang_s = HANG_S};
    spare_ucx_hooks();
    run_seeds(argc, argv, &seeds, run_round);
    printf("any_source: %llu rounds\n", (unsigned long long)seeds.count);
    return EXIT_SUCCESS;
}
