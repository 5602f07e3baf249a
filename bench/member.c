/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/member.h"

#include "bench/bench.h"
#include "bench/member_reshard.h"
#include "bench/rivals/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define JOIN_LIMIT_NS INT64_C(60000000000)
#define ROUNDS_MAX 1000
#define ORDER_REPEATS 15

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    ferry_rank other; /* of two */
} member;

/* ---- what it does when told ---- */

static double barriers_us(const member *member, size_t count)
{
    double samples[ROUNDS_MAX];
    for (size_t i = 0; i < count && i < ROUNDS_MAX; i++) {
        double begin_s = pair_now_s();
        bench_finish(ferry_barrier(member->group, "bench", NULL));
        samples[i] = pair_now_s() - begin_s;
    }
    return pair_median(samples, count) * 1e6;
}

static double sets_us(const member *member, size_t count)
{
    double samples[ROUNDS_MAX];
    char key[32];
    (void)snprintf(key, sizeof key, "bench-%d", ferry_group_rank(member->group));
    for (size_t i = 0; i < count && i < ROUNDS_MAX; i++) {
        double begin_s = pair_now_s();
        bench_finish(ferry_group_set(member->group, key, &i, sizeof i, 0));
        samples[i] = pair_now_s() - begin_s;
    }
    return pair_median(samples, count) * 1e6;
}

static double cpu_s(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double idle_s(size_t seconds)
{
    double before_s = cpu_s();
    bench_sleep_ns((int64_t)seconds * 1000000000);
    return cpu_s() - before_s;
}

static ferry_span all(ferry_buffer *buffer)
{
    return ferry_buffer_span(buffer);
}

static void swap(const member *member, ferry_buffer *out, ferry_buffer *in, size_t loops)
{
    ferry_future *received = ferry_recv(member->group, member->other, 1, all(in), NULL);
    ferry_future *sent = ferry_send(member->group, member->other, 1, all(out), NULL);
    pair_compute(loops);
    bench_finish(received);
    bench_finish(sent);
}

static double overlap_us(const member *member, size_t rounds, size_t size_bytes, size_t loops)
{
    double samples[ROUNDS_MAX];
    ferry_buffer *out = bench_buffer(member->engine, "host:0", size_bytes, 1);
    ferry_buffer *in = bench_buffer(member->engine, "host:0", size_bytes, 2);
    for (size_t i = 0; i <= rounds && i < ROUNDS_MAX; i++) {
        pair_meet();
        double begin_s = pair_now_s();
        swap(member, out, in, loops);
        if (i > 0) /* the first warms up */
            samples[i - 1] = pair_now_s() - begin_s;
    }
    ferry_buffer_release(out);
    ferry_buffer_release(in);
    return pair_median(samples, rounds) * 1e6;
}

/* ---- order ---- */

static void shuffle(size_t *order, size_t count)
{
    uint64_t state = 88172645463325252u;
    for (size_t i = count - 1; i > 0; i--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t other = (size_t)(state % (i + 1));
        size_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* Each tag has a slot of its own. */
static double run_order_s(const member *member, ferry_buffer *buffer, const size_t *order,
                          size_t count, ferry_future **futures)
{
    size_t size_bytes = ferry_buffer_size_bytes(buffer) / count;
    pair_meet();
    double begin_s = pair_now_s();
    for (size_t i = 0; i < count; i++) {
        ferry_span span = {buffer, order[i] * size_bytes, size_bytes};
        futures[i] = (member->other == 1 ? ferry_send : ferry_recv)(member->group, member->other,
                                                                    100 + order[i], span, NULL);
    }
    for (size_t i = 0; i < count; i++)
        bench_finish(futures[i]);
    return pair_now_s() - begin_s;
}

/* Rank 0 sends in order; rank 1 receives in order and in another by turns. */
static void order(const member *member, size_t count, size_t size_bytes)
{
    double samples[2][ORDER_REPEATS];
    ferry_buffer *buffer = bench_buffer(member->engine, "host:0", count * size_bytes, 1);
    ferry_future **futures = bench_alloc(count * sizeof(ferry_future *));
    size_t *orders[2];
    for (size_t kind = 0; kind < 2; kind++) {
        orders[kind] = bench_alloc(count * sizeof(size_t));
        for (size_t i = 0; i < count; i++)
            orders[kind][i] = i;
    }
    if (member->other == 0)
        shuffle(orders[1], count);
    (void)run_order_s(member, buffer, orders[0], count, futures);
    for (size_t i = 0; i < ORDER_REPEATS; i++) {
        for (size_t kind = 0; kind < 2; kind++)
            samples[kind][i] = run_order_s(member, buffer, orders[kind], count, futures);
    }
    printf("in_order_us=%.3f random_us=%.3f\n", pair_median(samples[0], ORDER_REPEATS) * 1e6,
           pair_median(samples[1], ORDER_REPEATS) * 1e6);
    free(orders[0]);
    free(orders[1]);
    free(futures);
    ferry_buffer_release(buffer);
}

/* ---- the process ---- */

static void join(member *member, int argc, char **argv)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = pair_text(argc, argv, "store");
    options.job = "bench";
    options.size = (uint32_t)pair_number(argc, argv, "size", 2);
    options.rank = (ferry_rank)pair_number(argc, argv, "rank", 0);
    options.has_rank = true;
    options.device_count = 1;
    options.window_messages = (uint32_t)pair_number(argc, argv, "window", 1024);
    options.deadline_ns = bench_now_ns() + JOIN_LIMIT_NS;
    bench_finish(ferry_group_join(member->engine, &options, &member->group));
    member->other = options.rank == 0;
}

/* False: that was all. */
static bool obey(member *member, const char *line)
{
    size_t numbers[3] = {0};
    char word[16] = "";
    (void)sscanf(line, "%15s %zu %zu %zu", word, &numbers[0], &numbers[1], &numbers[2]);
    if (strcmp(word, "barrier") == 0)
        printf("median_us=%.3f\n", barriers_us(member, numbers[0]));
    else if (strcmp(word, "set") == 0)
        printf("median_us=%.3f\n", sets_us(member, numbers[0]));
    else if (strcmp(word, "idle") == 0)
        printf("cpu_s=%.6f\n", idle_s(numbers[0]));
    else if (strcmp(word, "touch") == 0)
        printf("touched took_us=%.3f\n", overlap_us(member, 1, 64, 0));
    else if (strcmp(word, "overlap") == 0)
        printf("median_us=%.3f\n", overlap_us(member, numbers[0], numbers[1], numbers[2]));
    else if (strcmp(word, "order") == 0)
        order(member, numbers[0], numbers[1]);
    else if (strcmp(word, "reshard") == 0)
        bench_member_reshard(member->group, numbers[0], numbers[1], numbers[2] != 0);
    else
        return false;
    (void)fflush(stdout);
    return true;
}

int bench_member_main(int argc, char **argv)
{
    member member = {0};
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = 1;
    options.host_workers = 1;
    member.engine = bench_engine_open(&options);
    char line[256];
    puts("ready");
    (void)fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        return 1;
    join(&member, argc, argv);
    printf("joined at=%lld\n", (long long)bench_now_ns());
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL && obey(&member, line))
        continue;
    ferry_future *left = ferry_group_leave(member.group);
    (void)ferry_future_wait(left, JOIN_LIMIT_NS);
    ferry_future_release(left);
    ferry_group_release(member.group);
    bench_engine_close(member.engine);
    return 0;
}

/* ---- starting them ---- */

bench_process bench_member_start(const char *store, uint32_t size, uint32_t rank, uint32_t window,
                                 int link_fd)
{
    char texts[4][160];
    bench_command command = BENCH_COMMAND_INIT;
    command.link_fd = link_fd;
    (void)snprintf(texts[0], sizeof texts[0], "store=%s", store);
    (void)snprintf(texts[1], sizeof texts[1], "size=%u", (unsigned)size);
    (void)snprintf(texts[2], sizeof texts[2], "rank=%u", (unsigned)rank);
    (void)snprintf(texts[3], sizeof texts[3], "window=%u", (unsigned)window);
    command.arguments[0] = bench_own_path();
    command.arguments[1] = BENCH_MEMBER;
    for (size_t i = 0; i < 4; i++)
        command.arguments[2 + i] = texts[i];
    return bench_process_start(&command);
}

int64_t bench_members_join(bench_process *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)bench_process_line(&members[i]); /* ready */
    int64_t begin_ns = bench_now_ns();
    for (uint32_t i = 0; i < count; i++)
        bench_process_tell(&members[i], "join");
    int64_t last_ns = begin_ns;
    for (uint32_t i = 0; i < count; i++) {
        int64_t at_ns = (int64_t)bench_text_number(bench_process_line(&members[i]), "at");
        last_ns = at_ns > last_ns ? at_ns : last_ns;
    }
    return last_ns - begin_ns;
}

double bench_members_do(bench_process *members, uint32_t count, const char *line, const char *name)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++)
        bench_process_tell(&members[i], line);
    for (uint32_t i = 0; i < count; i++) {
        double value = bench_text_number(bench_process_line(&members[i]), name);
        most = value > most ? value : most;
    }
    return most;
}

void bench_members_end(bench_process *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        bench_process_tell(&members[i], "end");
    for (uint32_t i = 0; i < count; i++)
        (void)bench_process_end(&members[i]);
}

void bench_members_pair(bench_process members[2], const char *store, uint32_t window)
{
    int links[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, links) != 0)
        bench_fail("cannot make a socket");
    for (uint32_t rank = 0; rank < 2; rank++)
        members[rank] = bench_member_start(store, 2, rank, window, links[rank]);
    (void)close(links[0]);
    (void)close(links[1]);
    (void)bench_members_join(members, 2);
}
