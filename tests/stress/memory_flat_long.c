/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory stays flat over very many transfers: two threads submit copies of all sorts (inline, on
 * workers, held, cancelled, failing, refused for want of nodes) and keep their futures for a while.
 * After a tenth of them the engine's memory, and the process's, must have stopped growing. A plain
 * program. Exit 0: it did.
 */
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

/* A sanitizer keeps memory of its own, so there the engine's alone is looked at. */
#if defined(__SANITIZE_THREAD__)
#define COPIES 100000
#define IS_PROCESS_FLAT 0
#elif defined(__SANITIZE_ADDRESS__)
#define COPIES 300000
#define IS_PROCESS_FLAT 0
#else
#define COPIES 10000000
#define IS_PROCESS_FLAT 1
#endif

#define THREADS 2
#define KEPT 512 /* futures that a thread keeps */
#define MAX_NODES 2048
#define GROWTH_MAX_BYTES (1 << 20)
#define SLOT_BYTES 64
#define SLOTS 64
#define WORKER_BYTES 8192

typedef struct submitter {
    ferry_engine *engine;
    ferry_buffer *left, *right;
    ferry_future *kept[KEPT];
    size_t next;
    uint64_t random;
    uint64_t copies, failed, refused;
} submitter;

static void end_kept(submitter *self, size_t at)
{
    if (self->kept[at] == NULL)
        return;
    self->failed += ferry_future_wait(self->kept[at], -1) != FERRY_OK;
    if (below(&self->random, 4) == 0)
        (void)ferry_future_error(self->kept[at]);
    ferry_future_release(self->kept[at]);
    self->kept[at] = NULL;
}

static void end_all(submitter *self)
{
    for (size_t i = 0; i < KEPT; i++)
        end_kept(self, i);
}

static void keep(submitter *self, ferry_future *future)
{
    end_kept(self, self->next);
    self->kept[self->next] = future;
    self->next = (self->next + 1) % KEPT;
    self->copies++;
}

static ferry_future *copy_some(submitter *self, ferry_future *after)
{
    bool is_on_worker = below(&self->random, 64) == 0;
    size_t size = is_on_worker ? WORKER_BYTES : SLOT_BYTES;
    size_t offset = below(&self->random, SLOTS) * SLOT_BYTES;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = after != NULL;
    options.deadline_ns = below(&self->random, 1024) == 0 ? 1 : 0;
    return ferry_copy(self->engine, (ferry_span){self->left, is_on_worker ? 0 : offset, size},
                      (ferry_span){self->right, is_on_worker ? 0 : offset, size}, &options);
}

/* Some copies behind a promise, which may fail or be dropped; some of them are cancelled. */
static void hold_some(submitter *self)
{
    ferry_promise *promise = NULL;
    ferry_status status = ferry_promise_create(self->engine, &promise);
    if (status == FERRY_E_AGAIN) {
        self->refused++;
        end_all(self);
        ferry_future *writable = ferry_engine_writable(self->engine);
        CHECK(ferry_future_wait(writable, -1) == FERRY_OK);
        ferry_future_release(writable);
        return;
    }
    CHECK(status == FERRY_OK);
    ferry_future *held = ferry_promise_future(promise);
    uint32_t count = 1 + below(&self->random, 16);
    ferry_future *copies[16];
    for (uint32_t i = 0; i < count; i++) {
        copies[i] = copy_some(self, held);
        if (below(&self->random, 256) == 0)
            CHECK(ferry_future_cancel(copies[i]) == FERRY_OK);
    }
    uint32_t dice = below(&self->random, 128);
    if (dice > 1)
        CHECK(ferry_promise_resolve(promise, FERRY_OK, NULL) == FERRY_OK);
    else if (dice == 1)
        CHECK(ferry_promise_resolve(promise, FERRY_E_FAILED, "on purpose") == FERRY_OK);
    ferry_promise_release(promise);
    ferry_future_release(held);
    for (uint32_t i = 0; i < count; i++)
        keep(self, copies[i]);
}

static void submit_until(submitter *self, uint64_t copies)
{
    while (self->copies < copies) {
        if (below(&self->random, 16) == 0)
            hold_some(self);
        else
            keep(self, copy_some(self, NULL));
        if (below(&self->random, 4096) == 0) { /* heals what failures left */
            (void)ferry_buffer_define(ferry_buffer_span(self->left), NULL);
            (void)ferry_buffer_define(ferry_buffer_span(self->right), NULL);
        }
    }
    end_all(self);
}

static uint64_t target;

static void *submitter_main(void *arg)
{
    submit_until(arg, target);
    return NULL;
}

static void run_both(submitter submitters[THREADS], uint64_t copies)
{
    pthread_t threads[THREADS];
    target = copies / THREADS;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, submitter_main, &submitters[i]) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    ferry_future *drained = ferry_engine_drain(submitters[0].engine);
    CHECK(ferry_future_wait(drained, -1) == FERRY_OK);
    ferry_future_release(drained);
}

static int64_t rss_bytes(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    char line[256];
    int64_t kib = -1;
    while (kib < 0 && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoll(line + 6, NULL, 10);
    }
    (void)fclose(status);
    CHECK(kib > 0);
    return kib * 1024;
}

int main(void)
{
    static submitter submitters[THREADS];
    failing_allocator counting;
    failing_allocator_init(&counting);
    ferry_allocator allocator = failing_allocator_interface(&counting);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.allocator = &allocator;
    options.host_workers = 1;
    options.max_nodes = MAX_NODES;
    options.log = no_log; /* each that passes its deadline is a line */
    ferry_engine *engine;
    CHECK(ferry_engine_create(&options, &engine, NULL) == FERRY_OK);
    for (size_t i = 0; i < THREADS; i++) {
        submitters[i] = (submitter){.engine = engine, .random = i + 1};
        CHECK(ferry_buffer_alloc(ferry_device_at(engine, i), WORKER_BYTES, &submitters[i].left) ==
              FERRY_OK);
        CHECK(ferry_buffer_alloc(ferry_device_at(engine, i), WORKER_BYTES, &submitters[i].right) ==
              FERRY_OK);
    }
    run_both(submitters, COPIES / 10);
    int64_t engine_bytes = failing_allocator_live_bytes(&counting), process_bytes = rss_bytes();
    run_both(submitters, COPIES);
    int64_t engine_growth = failing_allocator_live_bytes(&counting) - engine_bytes;
    int64_t process_growth = rss_bytes() - process_bytes;
    uint64_t failed = 0, refused = 0;
    for (size_t i = 0; i < THREADS; i++) {
        failed += submitters[i].failed;
        refused += submitters[i].refused;
        ferry_buffer_release(submitters[i].left);
        ferry_buffer_release(submitters[i].right);
    }
    (void)printf(
        "%d copies, %llu failed, %llu promises refused: the engine grew by %lld bytes from "
        "%lld, the process by %lld from %lld\n",
        COPIES, (unsigned long long)failed, (unsigned long long)refused, (long long)engine_growth,
        (long long)engine_bytes, (long long)process_growth, (long long)process_bytes);
    CHECK(failed > 0);
    CHECK(engine_growth <= GROWTH_MAX_BYTES);
    CHECK(!IS_PROCESS_FLAT || process_growth <= GROWTH_MAX_BYTES);
    ferry_engine_release(engine);
    CHECK(failing_allocator_live_bytes(&counting) == 0);
    return 0;
}
