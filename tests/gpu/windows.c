/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows over GPU memory, and gets and puts between GPUs, of two processes of one host. The
 * program starts itself once more; rank 0 owns the windows.
 *
 * - sizes: windows in all places and kinds of memory, from and to all places. What others can open
 *   is read where it is (CUDA IPC).
 * - staged: the same where one of the two allows host memory alone.
 * - behind: copies and the program's streams are queued behind a get into a GPU.
 * - told: a notice comes when the put that it names is in a GPU; also one of a plan.
 * - closed: while the other gets and puts, and the memory is written at once.
 * - killed: the owner is, while it is read.
 * - symmetric: memory of both, in all places.
 */
#include "tests/gpu/two.h"

#define WINDOWS_BYTES (5 * MIB + 3)

static const size_t sizes[] = {1, 100, 9000, 65536, MIB, WINDOWS_BYTES};
static const ferry_memory kinds[] = {FERRY_MEMORY_PLAIN, FERRY_MEMORY_DEFAULT};

/* Of what others can open, if that can be had there. */
static ferry_buffer *buffer_at(scene *self, size_t place, size_t size, ferry_memory kind)
{
    return gpu_buffer(place_of(&self->own, place), size, place == 0 ? FERRY_MEMORY_DEFAULT : kind);
}

/* Both count them, as the last one may be there still when the next is sought. */
static int number;

static ferry_window *opened(scene *self, ferry_buffer *buffer)
{
    ferry_window *window = NULL;
    char name[16];
    (void)snprintf(name, sizeof name, "w%d", ++number);
    CHECK_STATUS(gpu_end(ferry_window_open(self->own.group, ferry_buffer_span(buffer), name,
                                           FERRY_WINDOW_GET_PUT, &window)),
                 FERRY_OK);
    return window;
}

static ferry_window *found(scene *self, ferry_rank owner)
{
    ferry_window *window = NULL;
    char name[16];
    (void)snprintf(name, sizeof name, "w%d", ++number);
    CHECK_STATUS(gpu_end(ferry_window_find(self->own.group, owner, name, 0, &window)), FERRY_OK);
    return window;
}

static void close_window(ferry_window *window)
{
    CHECK_STATUS(gpu_end(ferry_window_close(window)), FERRY_OK);
    ferry_window_release(window);
}

/* ---- sizes ---- */

/* Rank 0: what the other has put is there. */
static void own_one(scene *self, size_t place, ferry_memory kind, size_t size)
{
    bool is_right = false;
    OWN_BUFFER *buffer = buffer_at(self, place, size, kind);
    write_to(&self->own, ferry_buffer_span(buffer), size);
    ferry_window *window = opened(self, buffer);
    meet(self);
    close_window(window);
    CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffer), size + 1, &is_right), FERRY_OK);
    CHECK(is_right);
}

/* Rank 1: gets all of it, then puts something else; both in parts. */
static void use_one(scene *self, size_t place, size_t size)
{
    bool is_right = false;
    OWN_BUFFER *buffer = buffer_at(self, place, size, FERRY_MEMORY_PLAIN);
    ferry_window *window = found(self, 0);
    size_t half = size / 2;
    ferry_span low = {buffer, 0, half}, high = {buffer, half, size - half};
    write_to(&self->own, ferry_buffer_span(buffer), size + 7);
    ferry_future *get = ferry_get(window, half, high, NULL);
    CHECK_STATUS(gpu_end(ferry_get(window, 0, low, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(get), FERRY_OK);
    CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffer), size, &is_right), FERRY_OK);
    CHECK(is_right);
    write_to(&self->own, ferry_buffer_span(buffer), size + 1);
    ferry_future *put = ferry_put(window, half, high, NULL);
    CHECK_STATUS(gpu_end(ferry_put(window, 0, low, NULL)), FERRY_OK);
    CHECK_STATUS(gpu_end(put), FERRY_OK);
    meet(self);
    ferry_window_release(window);
}

static void use_all(scene *self)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < 2 * PLACES * PLACES; k++) {
            if (self->rank == 0)
                own_one(self, k / 2 % PLACES, kinds[k % 2], sizes[i]);
            else
                use_one(self, k / 2 / PLACES, sizes[i]);
        }
    }
}

static ferry_member_info other_member(scene *self)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    CHECK_STATUS(ferry_group_member(self->own.group, (ferry_rank)(1 - self->rank), &info),
                 FERRY_OK);
    return info;
}

static void test_sizes(scene *self)
{
    use_all(self);
    CHECK(EMU(emu_call_count) == NULL || other_member(self).ipc_bytes != 0);
}

static void test_staged(scene *self)
{
    use_all(self);
    CHECK(other_member(self).ipc_bytes == 0 && other_member(self).staged_bytes != 0);
}

/* ---- behind ---- */

static void test_behind(scene *self)
{
    OWN_BUFFER *buffer = gpu_buffer(self->own.at.gpus[0], MIB, FERRY_MEMORY_PLAIN);
    if (self->rank == 0) {
        write_to(&self->own, ferry_buffer_span(buffer), 5);
        ferry_window *window = opened(self, buffer);
        meet(self);
        close_window(window);
        return;
    }
    ferry_window *window = found(self, 0);
    cudaStream_t stream;
    CHECK_CUDA(cudaSetDevice(self->own.at.ordinals[0]));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned char *bytes = malloc(MIB);
    CHECK(bytes != NULL);
    for (int i = 0; i < 20; i++) {
        OWN_BUFFER *next = gpu_buffer(self->own.at.gpus[1], MIB, FERRY_MEMORY_DEFAULT);
        bool is_right = false;
        write_to(&self->own, ferry_buffer_span(buffer), 9);
        ferry_future *get = ferry_get(window, 0, ferry_buffer_span(buffer), NULL);
        ferry_future *copy = ferry_copy(engine_of(&self->own), ferry_buffer_span(next),
                                        ferry_buffer_span(buffer), NULL);
        ferry_status status;
        while ((status = ferry_future_stream_wait(get, self->own.at.gpus[0], stream)) ==
               FERRY_E_NOT_ISSUED)
            (void)sched_yield();
        CHECK_STATUS(status, FERRY_OK);
        CHECK_CUDA(
            cudaMemcpyAsync(bytes, ferry_buffer_data(buffer), MIB, cudaMemcpyDeviceToHost, stream));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        CHECK_STATUS(gpu_end(copy), FERRY_OK);
        CHECK_STATUS(gpu_end(get), FERRY_OK);
        CHECK_STATUS(read_from(&self->own, ferry_buffer_span(next), 5, &is_right), FERRY_OK);
        CHECK(is_right);
        CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffer), 5, &is_right), FERRY_OK);
        CHECK(is_right);
    }
    free(bytes);
    CHECK_CUDA(cudaStreamDestroy(stream));
    meet(self);
    ferry_window_release(window);
}

/* ---- closed ---- */

static ferry_future *say_busy(scene *self)
{
    return ferry_send(self->own.group, 0, 2000, (ferry_span){0}, NULL);
}

static void hear_busy(scene *self)
{
    CHECK_STATUS(gpu_end(ferry_recv(self->own.group, 1, 2000, (ferry_span){0}, NULL)), FERRY_OK);
}

/* Until the window is closed or its owner gone. What was got well is what was there before. */
static void use_until_it_ends(scene *self, ferry_window *window, uint64_t busy_after)
{
    OWN_BUFFER *into = gpu_buffer(self->own.at.gpus[0], 2 * MIB, FERRY_MEMORY_PLAIN);
    ferry_status status = FERRY_OK;
    for (uint64_t i = 0; status == FERRY_OK; i++) {
        bool is_right = false;
        ferry_span span = ferry_buffer_span(into);
        if (i == busy_after)
            CHECK_STATUS(gpu_end(say_busy(self)), FERRY_OK);
        if (i % 3 == 2) {
            status = gpu_end(ferry_put(window, 2 * MIB, span, NULL));
            continue;
        }
        status = gpu_end(ferry_get(window, 0, span, NULL));
        if (status != FERRY_OK)
            break;
        CHECK_STATUS(read_from(&self->own, span, 5, &is_right), FERRY_OK);
        CHECK(is_right);
    }
    CHECK(status == FERRY_E_NOT_FOUND || status == FERRY_E_DEAD || status == FERRY_E_PEER);
}

static void test_closed(scene *self)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (self->rank == 1) {
            ferry_window *window = found(self, 0);
            meet(self);
            use_until_it_ends(self, window, (uint64_t)i % 3);
            ferry_window_release(window);
            meet(self);
            continue;
        }
        bool is_right = false;
        OWN_BUFFER *buffer = buffer_at(self, (size_t)i % PLACES, 4 * MIB, kinds[i / PLACES % 2]);
        write_to(&self->own, (ferry_span){buffer, 0, 2 * MIB}, 5);
        ferry_window *window = opened(self, buffer);
        meet(self);
        hear_busy(self);
        close_window(window);
        write_to(&self->own, ferry_buffer_span(buffer), 6);
        meet(self);
        CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffer), 6, &is_right), FERRY_OK);
        CHECK(is_right);
    }
}

/* ---- told ---- */

static void put_and_tell(scene *self, ferry_window *window, ferry_buffer *from, bool by_plan)
{
    ferry_op ops[] = {{.kind = FERRY_OP_PUT, .window = window, .src = ferry_buffer_span(from)},
                      {.kind = FERRY_OP_NOTICE, .group = self->own.group, .peer = 0}};
    if (by_plan) {
        ferry_plan *plan = NULL;
        CHECK_STATUS(ferry_plan_create(engine_of(&self->own), ops, sizeof ops[0], 2, &plan, NULL),
                     FERRY_OK);
        CHECK_STATUS(gpu_end(ferry_plan_post(plan, NULL, 0, NULL)), FERRY_OK);
        ferry_plan_release(plan);
        return;
    }
    ferry_future *put = ferry_put(window, 0, ferry_buffer_span(from), NULL);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &put;
    options.after_count = 1;
    CHECK_STATUS(gpu_end(ferry_notice_send(self->own.group, 0, NULL, 0, &options)), FERRY_OK);
    CHECK_STATUS(gpu_end(put), FERRY_OK);
}

static void test_told(scene *self)
{
    enum { TOLD = 8 };
    OWN_BUFFER *buffer = gpu_buffer(self->own.at.gpus[self->rank], MIB, FERRY_MEMORY_PLAIN);
    ferry_window *window = self->rank == 0 ? opened(self, buffer) : found(self, 0);
    for (uint64_t round = 0; round < TOLD; round++) {
        if (self->rank == 1) {
            write_to(&self->own, ferry_buffer_span(buffer), round);
            put_and_tell(self, window, buffer, round % 2 != 0);
        } else {
            bool is_right = false;
            CHECK_STATUS(gpu_end(ferry_notice_next(self->own.group, 0)), FERRY_OK);
            CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffer), round, &is_right),
                         FERRY_OK);
            CHECK(is_right);
        }
        meet(self);
    }
    ferry_window_release(window);
}

/* ---- killed ---- */

static void test_killed(scene *self)
{
    if (self->rank == 1) {
        OWN_BUFFER *buffer = gpu_buffer(self->own.at.gpus[0], MIB, FERRY_MEMORY_PLAIN);
        ferry_window *window = opened(self, buffer);
        (void)window;
        meet(self);
        for (;;)
            (void)pause();
    }
    ferry_window *window = found(self, 1);
    OWN_BUFFER *into = gpu_buffer(self->own.at.gpus[1], MIB, FERRY_MEMORY_PLAIN);
    meet(self);
    ferry_status status = FERRY_OK;
    for (int i = 0; status == FERRY_OK; i++) {
        if (i == 20)
            CHECK(kill(self->other, SIGKILL) == 0);
        status = gpu_end(ferry_get(window, 0, ferry_buffer_span(into), NULL));
    }
    CHECK(status == FERRY_E_NOT_FOUND || status == FERRY_E_DEAD);
    ferry_window_release(window);
}

/* ---- symmetric ---- */

/* Of GPUs, or of a GPU and a host: no addresses of the other's, but gets and puts. */
static void test_symmetric(scene *self)
{
    for (size_t k = 0; k < PLACES * PLACES; k++) {
        char name[16];
        bool is_right = false;
        ferry_symmetric *symmetric = NULL;
        size_t own_place = self->rank == 0 ? k % PLACES : k / PLACES;
        (void)snprintf(name, sizeof name, "s%zu", k);
        ferry_device *device = place_of(&self->own, own_place);
        CHECK_STATUS(
            gpu_end(ferry_symmetric_alloc(self->own.group, device, MIB, name, 0, &symmetric)),
            FERRY_OK);
        ferry_rank other = (ferry_rank)(1 - self->rank);
        bool are_hosts = k % PLACES == 0 && k / PLACES == 0;
        CHECK((ferry_symmetric_address(symmetric, other) != NULL) == are_hosts);
        CHECK(ferry_symmetric_address(symmetric, (ferry_rank)self->rank) != NULL);
        OWN_BUFFER *local = buffer_at(self, own_place, MIB, FERRY_MEMORY_PLAIN);
        write_to(&self->own, ferry_buffer_span(local), k + 10 * other);
        ferry_window *window = ferry_symmetric_window(symmetric, other);
        CHECK_STATUS(gpu_end(ferry_put(window, 0, ferry_buffer_span(local), NULL)), FERRY_OK);
        meet(self);
        ferry_span own = ferry_buffer_span(ferry_symmetric_buffer(symmetric));
        CHECK_STATUS(read_from(&self->own, own, k + 10 * (size_t)self->rank, &is_right), FERRY_OK);
        CHECK(is_right);
        CHECK_STATUS(gpu_end(ferry_get(window, 0, ferry_buffer_span(local), NULL)), FERRY_OK);
        CHECK_STATUS(read_from(&self->own, ferry_buffer_span(local), k + 10 * other, &is_right),
                     FERRY_OK);
        CHECK(is_right);
        meet(self);
        ferry_symmetric_release(symmetric);
    }
}

/* ---- main ---- */

static const two_test tests[] = {
    {"sizes", test_sizes, false},        {"staged", test_staged, false},
    {"behind", test_behind, false},      {"told", test_told, false},
    {"closed", test_closed, false},      {"killed", test_killed, true},
    {"symmetric", test_symmetric, false}};

static void run(const two_test *test, bool is_other)
{
    gpu_watch(test->name, 100);
    number = 0;
    test_name = test->name;
    lease_ns = test->ends ? 3000000000 : 100000000000;
    gpu_way = !is_other && test->fn == test_staged ? FERRY_GPU_WAY_STAGING : FERRY_GPU_WAY_ANY;
    if (!is_other)
        temporary_folder_make(folder);
    two_run(test, is_other ? 1 : 0, !is_other);
    if (is_other)
        return;
    temporary_folder_remove(folder);
    (void)printf("%s\n", test->name);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    bool is_other = two_is_other(argc, argv);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0)
            run(&tests[i], is_other);
    }
    return 0;
}
