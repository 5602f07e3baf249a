/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many members of one process that send each other GPU memory over NCCL, in orders of their own.
 * On the emulator a GPU has room for one kernel of NCCL: who launches in an order of his own stands
 * for ever (tests/emu/programs/nccl_deadlock.c). Where there is one GPU, or no NCCL, the messages
 * come another way, and the test says so.
 *
 * - mesh: each has a GPU of its own.
 * - room: an engine has fewer communicators than there are members.
 * - twins: each two share a GPU, and its one slot. They send each other nothing over NCCL, which
 *   refuses that; what they send others is over NCCL.
 * - figures [PARCELS]: not a test; docs/performance.md says what it shows.
 */
#include "tests/gpu/members.h"

#define RANKS 8
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARCELS 200
#else
#define PARCELS 1000
#endif

typedef struct parcel {
    int from, to;
    ferry_buffer *src, *dst;
    ferry_future *send, *receive;
} parcel;

typedef struct rank {
    gpu_engine ge;
    ferry_device *gpu, *host;
    ferry_group *group;
} rank;

static rank ranks[RANKS];
static int rank_count, gpu_count;
static bool has_nccl;
static parcel parcels[PARCELS];

/* ---- members ---- */

static void open_engine_of(int i, uint32_t pairs)
{
    char name[24];
    rank *self = &ranks[i];
    ferry_engine_options options = gpu_engine_options(&self->ge);
    options.nccl_slots = 1;
    options.nccl_pairs = pairs;
    CHECK_STATUS(ferry_engine_create(&options, &self->ge.engine, NULL), FERRY_OK);
    (void)snprintf(name, sizeof name, "cuda:%d", i % gpu_count);
    self->gpu = gpu_device(&self->ge, name);
    self->host = ferry_device_find(self->ge.engine, "host:0");
}

static void open_ranks(int count, uint32_t pairs)
{
    ferry_future *joins[RANKS];
    rank_count = count;
    for (int i = 0; i < count; i++) {
        open_engine_of(i, pairs);
        ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
        group.store = "mem:gpu";
        group.job = "job";
        group.size = (uint32_t)count;
        group.rank = i;
        group.lease_ns = 100000000000;
        group.unexpected_max = UNEXPECTED_FEW;
        group.gpu_way = FERRY_GPU_WAY_NCCL;
        joins[i] = ferry_group_join(ranks[i].ge.engine, &group, &ranks[i].group);
    }
    for (int i = 0; i < count; i++)
        CHECK_STATUS(gpu_end(joins[i]), FERRY_OK);
}

static void close_ranks(void)
{
    for (int i = 0; i < rank_count; i++)
        ferry_group_release(ranks[i].group);
    for (int i = 0; i < rank_count; i++)
        gpu_engine_close(&ranks[i].ge);
}

static bool share_gpu(int one, int other)
{
    return one % gpu_count == other % gpu_count;
}

static uint64_t nccl_bytes(int from, int to)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    CHECK_STATUS(ferry_group_member(ranks[from].group, (ferry_peer)to, &info), FERRY_OK);
    return info.nccl_bytes;
}

/* ---- parcels ---- */

static void pack(parcel *self, int i)
{
    self->from = (int)below((size_t)rank_count);
    self->to = (self->from + 1 + (int)below((size_t)rank_count - 1)) % rank_count;
    size_t size_bytes = 1 + below(i % 10 == 0 ? 2 * MIB : 256);
    const rank *from = &ranks[self->from];
    self->src = gpu_buffer(from->gpu, size_bytes, FERRY_MEMORY_DEFAULT);
    self->dst = gpu_buffer(ranks[self->to].gpu, size_bytes, FERRY_MEMORY_DEFAULT);
    OWN_BUFFER *bytes = gpu_buffer(from->host, size_bytes, FERRY_MEMORY_DEFAULT);
    fill(ferry_buffer_data(bytes), size_bytes, (uint64_t)i);
    CHECK_STATUS(gpu_end(ferry_copy(from->ge.engine, ferry_buffer_span(self->src),
                                    ferry_buffer_span(bytes), NULL)),
                 FERRY_OK);
}

static void begin_half(int i, bool is_send)
{
    parcel *self = &parcels[i];
    if (is_send)
        self->send = ferry_send(ranks[self->from].group, (ferry_peer)self->to, (ferry_tag)i,
                                ferry_buffer_span(self->src), NULL);
    else
        self->receive = ferry_recv(ranks[self->to].group, (ferry_peer)self->from, (ferry_tag)i,
                                   ferry_buffer_span(self->dst), NULL);
}

static void unpack(parcel *self, int i)
{
    const rank *to = &ranks[self->to];
    ferry_span dst = ferry_buffer_span(self->dst);
    CHECK_STATUS(gpu_end(self->send), FERRY_OK);
    CHECK_STATUS(gpu_end(self->receive), FERRY_OK);
    OWN_BUFFER *bytes = gpu_buffer(to->host, dst.size_bytes, FERRY_MEMORY_DEFAULT);
    CHECK_STATUS(gpu_end(ferry_copy(to->ge.engine, ferry_buffer_span(bytes), dst, NULL)), FERRY_OK);
    CHECK(is_filled(ferry_buffer_data(bytes), dst.size_bytes, (uint64_t)i));
    ferry_buffer_release(self->src);
    ferry_buffer_release(self->dst);
}

static void shuffle(int *order)
{
    for (int i = 0; i < PARCELS; i++)
        order[i] = i;
    for (int i = PARCELS; i-- > 1;) {
        int k = (int)below((size_t)i + 1), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

/* All that goes between each two, by the size of what was sent. */
static void check_way(uint64_t sent[RANKS][RANKS])
{
    for (int i = 0; i < rank_count; i++) {
        for (int k = 0; k < rank_count; k++) {
            bool is_over_nccl = has_nccl && !share_gpu(i, k);
            CHECK(i == k || nccl_bytes(i, k) == (is_over_nccl ? sent[i][k] + sent[k][i] : 0));
        }
    }
}

/* Each end begins in an order of its own. */
static void exchange(void)
{
    static int sends[PARCELS], receives[PARCELS];
    uint64_t sent[RANKS][RANKS] = {0};
    for (int i = 0; i < PARCELS; i++) {
        pack(&parcels[i], i);
        sent[parcels[i].from][parcels[i].to] += ferry_buffer_span(parcels[i].src).size_bytes;
    }
    shuffle(sends);
    shuffle(receives);
    for (int i = 0; i < PARCELS; i++) {
        begin_half(sends[i], true);
        begin_half(receives[i], false);
    }
    for (int i = 0; i < PARCELS; i++)
        unpack(&parcels[i], i);
    check_way(sent);
}

/* ---- tests ---- */

static void test_mesh(void)
{
    if (gpu_count < 3)
        return;
    gpu_watch("a mesh", 100);
    open_ranks(gpu_count, 0);
    exchange();
    close_ranks();
}

static void test_room(void)
{
    if (gpu_count < 3)
        return;
    for (uint32_t pairs = 1; pairs <= 3; pairs++) {
        gpu_watch("members with few communicators", 200);
        open_ranks(gpu_count, pairs);
        exchange();
        close_ranks();
    }
}

static void test_twins(void)
{
    int gpus = gpu_count;
    gpu_watch("members that share a GPU", 200);
    gpu_count = gpus < RANKS / 2 ? gpus : RANKS / 2;
    open_ranks(2 * gpu_count, 0);
    exchange();
    close_ranks();
    gpu_count = gpus;
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {
        {"mesh", test_mesh}, {"room", test_room}, {"twins", test_twins}};
    CHECK_CUDA(cudaGetDeviceCount(&gpu_count));
    gpu_count = gpu_count < RANKS ? gpu_count : RANKS;
    ferry_backend_info nccl = {0};
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        if (strcmp(ferry_backend_at(i).name, "nccl") == 0)
            nccl = ferry_backend_at(i);
    }
    has_nccl = nccl.is_here;
    if (!has_nccl)
        (void)printf("not over NCCL: %s\n", nccl.reason);
    run_named(argc, argv, tests, sizeof tests / sizeof *tests);
    return 0;
}
