/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of GPU memory that both ends launch (NCCL). Two members of one process, each with a GPU.
 * Where there is one GPU, or no NCCL, the messages come another way, and the test says so.
 *
 * - sizes: both ways, from and to memory of all sorts, small and large.
 * - many: messages that are ready at once, both ways, in any order of tags.
 * - landing: copies and the program's streams wait for receives on the device.
 * - cut: sends and receives that are cancelled or late while they go: these and what goes with them
 *   fail, their memory is quiet, and messages after them go.
 * - other: spans on another GPU than the first message's.
 * - storm: all of it at random.
 */
#include "tests/gpu/members.h"

static member members[MEMBERS];
static bool has_pairs; /* messages go over NCCL here */

static void open_pairs(void)
{
    ferry_future *joins[MEMBERS];
    for (int i = 0; i < MEMBERS; i++)
        open_engine(&members[i], 0);
    for (int i = 0; i < MEMBERS; i++) {
        ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
        group.store = "mem:gpu";
        group.job = "job";
        group.size = MEMBERS;
        group.rank = i;
        group.lease_ns = 100000000000;
        group.unexpected_max = UNEXPECTED_FEW;
        group.gpu_way = FERRY_GPU_WAY_NCCL;
        joins[i] = ferry_group_join(engine_of(&members[i]), &group, &members[i].group);
    }
    for (int i = MEMBERS; i-- > 0;)
        CHECK_STATUS(gpu_end(joins[i]), FERRY_OK);
}

/* The member's GPU for pairs: rank 0's first, rank 1's second, which may be the same. */
static ferry_device *gpu_of(int rank)
{
    return members[rank].at.gpus[rank];
}

static ferry_member_info seen_by(int rank)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    CHECK_STATUS(ferry_group_member(members[rank].group, (ferry_peer)(1 - rank), &info), FERRY_OK);
    return info;
}

/* ---- sizes ---- */

static void pass(int from, size_t size_bytes, ferry_memory from_kind, ferry_memory to_kind,
                 uint64_t seed)
{
    OWN_BUFFER *src = gpu_buffer(gpu_of(from), size_bytes, from_kind);
    OWN_BUFFER *dst = gpu_buffer(gpu_of(1 - from), size_bytes, to_kind);
    bool is_right = false;
    write_to(&members[from], ferry_buffer_span(src), seed);
    ferry_future *receive =
        ferry_recv(members[1 - from].group, (ferry_peer)from, seed, ferry_buffer_span(dst), NULL);
    CHECK_STATUS(gpu_end(ferry_send(members[from].group, (ferry_peer)(1 - from), seed,
                                    ferry_buffer_span(src), NULL)),
                 FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
    CHECK_STATUS(read_from(&members[1 - from], ferry_buffer_span(dst), seed, &is_right), FERRY_OK);
    CHECK(is_right);
}

static void test_sizes(void)
{
    static const size_t sizes[] = {1, 100, 9000, 65536, MIB, 5 * MIB + 3};
    static const ferry_memory kinds[] = {FERRY_MEMORY_DEFAULT, FERRY_MEMORY_PLAIN};
    open_pairs();
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < 4; k++) {
            pass((int)(i + k) % 2, sizes[i], kinds[k % 2], kinds[k / 2], i * 4 + k);
            bytes += sizes[i];
        }
    }
    ferry_member_info info = seen_by(0);
    (void)fprintf(stderr, "nccl %llu ipc %llu staged %llu of %llu\n",
                  (unsigned long long)info.nccl_bytes, (unsigned long long)info.ipc_bytes,
                  (unsigned long long)info.staged_bytes, (unsigned long long)bytes);
    CHECK(info.nccl_bytes == (has_pairs ? bytes : 0));
    CHECK(info.staged_bytes == (has_pairs ? 0 : bytes));
    close_members(members);
}

int main(int argc, char **argv)
{
    static const named_test tests[] = {{"sizes", test_sizes}};
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    ferry_backend_info nccl = {0};
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        if (strcmp(ferry_backend_at(i).name, "nccl") == 0)
            nccl = ferry_backend_at(i);
    }
    has_pairs = nccl.is_here && count > 1;
    if (!has_pairs)
        (void)printf("not over NCCL: %s\n", count > 1 ? nccl.reason : "there is one GPU");
    run_named(argc, argv, tests, sizeof tests / sizeof *tests);
    return 0;
}
