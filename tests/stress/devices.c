/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads open the same few GPUs of a module for tests at once, in different orders, and use them
 * as soon as they have them, while others look at all devices there are: each is opened once, all
 * get the same, and their copies bring the bytes. Round after round, each with an engine of its
 * own.
 */
#include "tests/support/fake_module.h"
#include "tests/support/stress.h"

enum { ROUNDS = 60, OPENERS = 4, GPUS = 5, SIZE = 3000 };

typedef struct round {
    ferry_engine *engine;
    pthread_barrier_t start;
    _Atomic(ferry_device *) seen[GPUS]; /* by whoever opened it first */
    _Atomic bool is_over;
    int number;
} round;

typedef struct opener {
    round *round;
    unsigned index;
    pthread_t thread;
} opener;

static ferry_buffer *buffer_on(ferry_device *device, ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc_kind(device, SIZE, kind, &buffer) == FERRY_OK);
    return buffer;
}

static void use(const opener *self, ferry_device *gpu, unsigned index)
{
    ferry_engine *engine = self->round->engine;
    ferry_device *host = ferry_device_at(engine, self->index % 2);
    ferry_buffer *from = buffer_on(host, FERRY_MEMORY_DEFAULT);
    ferry_buffer *to = buffer_on(host, FERRY_MEMORY_PINNED);
    ferry_buffer *through =
        buffer_on(gpu, index % 2 == 0 ? FERRY_MEMORY_DEFAULT : FERRY_MEMORY_PLAIN);
    memset(ferry_buffer_data(from), (int)(self->index + index + 1), SIZE);
    ferry_future_release(
        ferry_copy(engine, ferry_buffer_span(through), ferry_buffer_span(from), NULL));
    ferry_future *copy =
        ferry_copy(engine, ferry_buffer_span(to), ferry_buffer_span(through), NULL);
    CHECK(ferry_future_wait(copy, -1) == FERRY_OK);
    CHECK(memcmp(ferry_buffer_data(to), ferry_buffer_data(from), SIZE) == 0);
    ferry_future_release(copy);
    ferry_buffer_release(from);
    ferry_buffer_release(through);
    ferry_buffer_release(to);
}

static void *open_all(void *arg)
{
    const opener *self = arg;
    round *round = self->round;
    (void)pthread_barrier_wait(&round->start);
    for (unsigned i = 0; i < GPUS; i++) {
        unsigned index = (i * (self->index % 2 == 0 ? 1 : GPUS - 1) + self->index) % GPUS;
        char name[32];
        (void)snprintf(name, sizeof name, "cuda:%u", index);
        ferry_device *device = NULL, *expected = NULL;
        CHECK(ferry_device_open(round->engine, name, NULL, &device, NULL) == FERRY_OK);
        CHECK(ferry_device_find(round->engine, name) == device);
        CHECK(device != NULL && strcmp(ferry_device_name(device), name) == 0);
        if (!atomic_compare_exchange_strong(&round->seen[index], &expected, device))
            CHECK(expected == device);
        use(self, device, index);
    }
    return NULL;
}

/* What is counted is whole. */
static void *look(void *arg)
{
    const opener *self = arg;
    round *round = self->round;
    size_t before = 0;
    (void)pthread_barrier_wait(&round->start);
    while (!atomic_load(&round->is_over)) {
        size_t count = ferry_device_count(round->engine);
        CHECK(count >= before && count <= 2 + GPUS);
        before = count;
        for (size_t i = 0; i < count; i++) {
            ferry_device_info info = FERRY_DEVICE_INFO_INIT;
            CHECK(ferry_device_describe(ferry_device_at(round->engine, i), &info) == FERRY_OK);
            CHECK(info.index == i && info.stream_count == (i < 2 ? 1 : FAKE_STREAMS));
        }
    }
    return NULL;
}

static void run(fake_module *fake, int number)
{
    round self = {.number = number};
    opener openers[OPENERS + 1];
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = 2;
    options.host_workers = 1;
    atomic_store(&fake->device_opens, 0);
    CHECK(ferry_engine_create(&options, &self.engine, NULL) == FERRY_OK);
    CHECK(pthread_barrier_init(&self.start, NULL, OPENERS + 1) == 0);
    for (unsigned i = 0; i <= OPENERS; i++) {
        openers[i] = (opener){.round = &self, .index = i + (unsigned)number};
        CHECK(pthread_create(&openers[i].thread, NULL, i < OPENERS ? open_all : look,
                             &openers[i]) == 0);
    }
    for (unsigned i = 0; i <= OPENERS; i++) {
        if (i == OPENERS)
            atomic_store(&self.is_over, true);
        CHECK(pthread_join(openers[i].thread, NULL) == 0);
    }
    CHECK(fake->device_opens == GPUS);
    CHECK(ferry_engine_shutdown(self.engine, -1) == FERRY_OK);
    ferry_engine_release(self.engine);
    CHECK(fake->live_allocations == 0);
    (void)pthread_barrier_destroy(&self.start);
}

int main(void)
{
    fake_module *fake = fake_module_load();
    CHECK(fake != NULL);
    atomic_store(&fake->gpus, GPUS);
    for (int i = 0; i < ROUNDS; i++)
        run(fake, i);
    CHECK(fake->opens == ROUNDS && fake->destroys == ROUNDS && fake->entries == 1);
    (void)printf("devices: %d rounds\n", ROUNDS);
    return 0;
}
