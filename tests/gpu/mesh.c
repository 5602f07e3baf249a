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
 * - star [MEMBERS]: one has many more members around it than communicators, of which it may have 16
 *   or a sixth of their number, if that is less. All are served, and memory does not grow.
 */
#include "tests/gpu/nccl.h"
#include "tests/support/failing_allocator.h"

#define RANKS 8
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARCELS 200
#define AROUND 6 /* members around one, if no other number is given */
#else
#define PARCELS 1000
#define AROUND 24
#endif
#define AROUND_MOST 1000
#define PAIRS_MOST 16

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

static rank ranks[1 + AROUND_MOST];
static int rank_count, gpu_count;
static int around_count = AROUND;
static bool is_star; /* rank 0 has a GPU of its own; the others share the others */
static bool has_nccl;
static parcel parcels[PARCELS > 2 * AROUND_MOST ? PARCELS : 2 * AROUND_MOST];
static failing_allocator memory; /* of all engines */

/* ---- members ---- */

static int gpu_of(int i)
{
    return !is_star ? i % gpu_count : i == 0 ? 0 : 1 + (i - 1) % (gpu_count - 1);
}

static void open_engine_of(int i, uint32_t pairs)
{
    char name[24];
    rank *self = &ranks[i];
    ferry_engine_options options = gpu_engine_options(&self->ge);
    options.nccl_slots = 1;
    options.nccl_pairs = pairs;
    ferry_allocator allocator = failing_allocator_interface(&memory);
    options.allocator = &allocator;
    CHECK_STATUS(ferry_engine_create(&options, &self->ge.engine, NULL), FERRY_OK);
    (void)snprintf(name, sizeof name, "cuda:%d", gpu_of(i));
    self->gpu = gpu_device(&self->ge, name);
    self->host = ferry_device_find(self->ge.engine, "host:0");
}

static void open_ranks(int count, uint32_t pairs)
{
    ferry_future *joins[sizeof ranks / sizeof *ranks];
    rank_count = count;
    for (int i = 0; i < count; i++) {
        open_engine_of(i, pairs);
        ferry_group_options group = nccl_group(count, i);
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
    return gpu_of(one) == gpu_of(other);
}

static uint64_t nccl_bytes(int from, int to)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    CHECK_STATUS(ferry_group_member(ranks[from].group, (ferry_rank)to, &info), FERRY_OK);
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
        self->send = ferry_send(ranks[self->from].group, (ferry_rank)self->to, (ferry_tag)i,
                                ferry_buffer_span(self->src), NULL);
    else
        self->receive = ferry_recv(ranks[self->to].group, (ferry_rank)self->from, (ferry_tag)i,
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

/* Each of those around sends one and gets one, all at once. */
static void serve_all(void)
{
    for (int i = 0; i < 2 * around_count; i++) {
        parcel *self = &parcels[i];
        int around = 1 + i / 2;
        self->from = i % 2 == 0 ? 0 : around;
        self->to = i % 2 == 0 ? around : 0;
        self->src = gpu_buffer(ranks[self->from].gpu, 4096, FERRY_MEMORY_DEFAULT);
        self->dst = gpu_buffer(ranks[self->to].gpu, 4096, FERRY_MEMORY_DEFAULT);
        begin_half(i, true);
        begin_half(i, false);
    }
    for (int i = 0; i < 2 * around_count; i++) {
        CHECK_STATUS(gpu_end(parcels[i].send), FERRY_OK);
        CHECK_STATUS(gpu_end(parcels[i].receive), FERRY_OK);
        ferry_buffer_release(parcels[i].src);
        ferry_buffer_release(parcels[i].dst);
    }
}

static void test_star(void)
{
    enum { GROWTH_MOST_BYTES = 1 << 20 };
    int64_t bytes = 0;
    int rounds = around_count <= AROUND ? 20 : 4; /* nearly each message takes a communicator */
    int pairs = around_count / 6 < PAIRS_MOST ? around_count / 6 : PAIRS_MOST;
    if (gpu_count < 2)
        return;
    if (around_count > AROUND)
        failing_allocator_fill_ends(&memory);
    gpu_watch("many around one", 300 + 3 * (unsigned)around_count);
    is_star = true;
    open_ranks(1 + around_count, (uint32_t)pairs);
    for (int round = 0; round < rounds; round++) {
        serve_all();
        if (round == rounds / 2)
            bytes = failing_allocator_live_bytes(&memory);
    }
    CHECK(failing_allocator_live_bytes(&memory) <= bytes + GROWTH_MOST_BYTES);
    for (int i = 1; i <= around_count; i++)
        CHECK(nccl_bytes(0, i) == (has_nccl ? (uint64_t)2 * (uint64_t)rounds * 4096 : 0));
    close_ranks();
    is_star = false;
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {
        {"mesh", test_mesh}, {"room", test_room}, {"twins", test_twins}, {"star", test_star}};
    failing_allocator_init(&memory);
    CHECK_CUDA(cudaGetDeviceCount(&gpu_count));
    gpu_count = gpu_count < RANKS ? gpu_count : RANKS;
    has_nccl = nccl_is_here();
    if (argc == 3 && strcmp(argv[1], "star") == 0) {
        around_count = atoi(argv[2]);
        CHECK(around_count >= 6 && around_count <= AROUND_MOST);
    }
    run_named(argc, argv, tests, sizeof tests / sizeof *tests);
    return 0;
}
