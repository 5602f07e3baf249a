/* SPDX-License-Identifier: Apache-2.0 */
/* Two members of one process, each an engine with a host and two GPUs, and bytes that they send. */
#ifndef FERRY_TESTS_GPU_MEMBERS_H
#define FERRY_TESTS_GPU_MEMBERS_H

#include "tests/gpu/places.h"
#include "tests/support/effort.h"

#include <time.h>

#define MEMBERS 2
#define PLACES 3 /* host:0, a GPU, another GPU */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 2 /* of what is done at random */
#else
#define ROUNDS 6
#endif

typedef struct member {
    places at;
    ferry_group *group;
} member;

static uint64_t random_state = 1;
static uint32_t window_messages; /* of the members that are opened next */
static uint32_t any_source_max;  /* of the next to join: 0: no receives of any member */
static ferry_loop_mode loop_mode;

static inline uint64_t next_random(void)
{
    uint64_t word = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

static inline size_t below(size_t bound)
{
    return (size_t)(next_random() % bound);
}

static inline int64_t in_ns(int64_t left_ns)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + left_ns;
}

static inline ferry_engine *engine_of(const member *of)
{
    return of->at.ge.engine;
}

static inline ferry_device *place_of(const member *of, size_t place)
{
    return place == 0 ? of->at.host : of->at.gpus[place - 1];
}

static inline void open_engine(member *self, size_t staging_bytes)
{
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    ferry_engine_options options = gpu_engine_options(&self->at.ge);
    options.message_staging_bytes = staging_bytes;
    options.loop = loop_mode;
    CHECK_STATUS(ferry_engine_create(&options, &self->at.ge.engine, NULL), FERRY_OK);
    self->at.host = ferry_device_find(self->at.ge.engine, "host:0");
    self->at.gpus[0] = gpu_device(&self->at.ge, "cuda:0");
    self->at.gpus[1] = gpu_device(&self->at.ge, count > 1 ? "cuda:1" : "cuda:0/1");
    self->at.ordinals[0] = 0;
    self->at.ordinals[1] = count > 1 ? 1 : 0;
}

/* The last one first: only it may have a loop that the waiting thread drives. */
static inline void join_all(member *members, int count)
{
    ferry_future *joins[MEMBERS];
    for (int i = 0; i < count; i++) {
        ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
        group.store = "mem:gpu";
        group.job = "job";
        group.size = (uint32_t)count;
        group.rank = (ferry_rank)i;
        group.has_rank = true;
        group.lease_ns = 100000000000; /* nobody is dead for want of a core */
        group.window_messages = window_messages;
        group.unexpected_max = UNEXPECTED_FEW;
        group.any_source_max = any_source_max;
        joins[i] = ferry_group_join(engine_of(&members[i]), &group, &members[i].group);
    }
    for (int i = count; i-- > 0;)
        CHECK_STATUS(gpu_end(joins[i]), FERRY_OK);
}

static inline void open_some(member *members, int count, size_t staging_bytes)
{
    for (int i = 0; i < count; i++)
        open_engine(&members[i], staging_bytes);
    join_all(members, count);
}

static inline void open_members(member members[MEMBERS], size_t staging_bytes)
{
    open_some(members, MEMBERS, staging_bytes);
}

static inline void close_some(member *members, int count)
{
    for (int i = 0; i < count; i++)
        ferry_group_release(members[i].group);
    for (int i = 0; i < count; i++)
        places_close(&members[i].at);
}

static inline void close_members(member members[MEMBERS])
{
    close_some(members, MEMBERS);
}

/* What a lost device may touch stays. The last step of a process. */
static inline void close_after_loss(member members[MEMBERS])
{
    for (int i = 0; i < MEMBERS; i++)
        ferry_group_release(members[i].group);
    bool is_over = true;
    for (int i = 0; i < MEMBERS; i++) {
        ferry_status status = ferry_engine_shutdown(engine_of(&members[i]), 200000000);
        CHECK(status == FERRY_OK || status == FERRY_E_DEADLINE);
        is_over = is_over && status == FERRY_OK;
        if (status == FERRY_OK)
            ferry_engine_release(engine_of(&members[i]));
    }
    if (!is_over)
        gpu_leave();
}

/* ---- bytes ---- */

/*
 * Byte i of a seed is (31 seed + 7 i + i / PAGE) mod 251 + 1. A page of that is a stretch of the
 * periodic 7 j mod 251, and is copied and compared as one: a byte at a time takes this program most
 * of its time. 36 is the inverse of 7.
 */
#define PAGE ((size_t)4096)
#define PERIOD 251

static inline const unsigned char *page_of(size_t at, uint64_t seed)
{
    static unsigned char periods[PERIOD + PAGE];
    static bool is_made;
    if (!is_made) {
        for (size_t j = 0; j < sizeof periods; j++)
            periods[j] = (unsigned char)(j * 7 % PERIOD + 1);
        is_made = true;
    }
    return periods + ((seed * 31 + at / PAGE) % PERIOD * 36 + at) % PERIOD;
}

static inline size_t page_bytes(size_t at, size_t size_bytes)
{
    return size_bytes - at < PAGE ? size_bytes - at : PAGE;
}

static inline void fill(unsigned char *bytes, size_t size_bytes, uint64_t seed)
{
    for (size_t at = 0; at < size_bytes; at += PAGE)
        memcpy(bytes + at, page_of(at, seed), page_bytes(at, size_bytes));
}

static inline bool is_filled(const unsigned char *bytes, size_t size_bytes, uint64_t seed)
{
    for (size_t at = 0; at < size_bytes; at += PAGE) {
        if (memcmp(bytes + at, page_of(at, seed), page_bytes(at, size_bytes)) != 0)
            return false;
    }
    return true;
}

/* Through a host buffer, as any program would. */
static inline void write_to(member *of, ferry_span span, uint64_t seed)
{
    OWN_BUFFER *host = gpu_buffer(of->at.host, span.size_bytes, FERRY_MEMORY_DEFAULT);
    fill(ferry_buffer_data(host), span.size_bytes, seed);
    CHECK_STATUS(gpu_end(ferry_copy(engine_of(of), span, ferry_buffer_span(host), NULL)), FERRY_OK);
}

static inline ferry_status read_from(member *of, ferry_span span, uint64_t seed, bool *is_right)
{
    OWN_BUFFER *host = gpu_buffer(of->at.host, span.size_bytes, FERRY_MEMORY_DEFAULT);
    ferry_status status = gpu_end(ferry_copy(engine_of(of), ferry_buffer_span(host), span, NULL));
    *is_right = status == FERRY_OK && is_filled(ferry_buffer_data(host), span.size_bytes, seed);
    return status;
}

/* ---- a message at random places ---- */

typedef struct talk {
    ferry_buffer *from, *into;
    ferry_future *send, *receive;
    uint64_t seed;
} talk;

static inline void begin_talk(talk *self, member members[MEMBERS], uint32_t from, uint32_t to,
                              ferry_tag tag, size_t size_bytes,
                              const ferry_op_options *send_options,
                              const ferry_op_options *receive_options)
{
    size_t from_place = below(PLACES), to_place = below(PLACES);
    if (from_place == 0 && to_place == 0)
        from_place = 1;
    self->seed = next_random() % 1000;
    self->from = gpu_buffer(place_of(&members[from], from_place), size_bytes, FERRY_MEMORY_DEFAULT);
    self->into = gpu_buffer(place_of(&members[to], to_place), size_bytes, FERRY_MEMORY_DEFAULT);
    write_to(&members[from], ferry_buffer_span(self->from), self->seed);
    self->send =
        ferry_send(members[from].group, to, tag, ferry_buffer_span(self->from), send_options);
    self->receive =
        ferry_recv(members[to].group, from, tag, ferry_buffer_span(self->into), receive_options);
}

static inline void release_talk(talk *self)
{
    ferry_future_release(self->send);
    ferry_future_release(self->receive);
    ferry_buffer_release(self->from);
    ferry_buffer_release(self->into);
}

/* ---- tests by name ---- */

typedef struct named_test {
    const char *name;
    void (*fn)(void);
} named_test;

/* PROGRAM [NAME|all [SEED]]: that test, or all. Says which have ended. */
static inline void run_named(int argc, char **argv, const named_test *tests, size_t count)
{
    if (argc > 2)
        random_state = strtoull(argv[2], NULL, 10);
    for (size_t i = 0; i < count; i++) {
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0 || strcmp(argv[1], "all") == 0) {
            tests[i].fn();
            (void)printf("%s\n", tests[i].name);
            (void)fflush(stdout);
        }
    }
}

#endif
