/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list scheduler on ferry. Its tasks are a binary tree that finds maxima: a task combines the
 * results of its two children, a leaf two pieces of a file. Two workers take the ready task with
 * the most costly path ahead. The scheduler says once what each task reads and writes. ferry brings
 * inputs to the task's device while others run, and then posts the task to the ready list.
 */
#include <ferry/ferry.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { TASKS = 63, WORKERS = 2, DEVICES = 4, RECORDS = 4096 };
enum { WORDS = 16384, TILE_BYTES = WORDS * 8, FILE_BYTES = (TASKS + 1) * TILE_BYTES };

typedef struct task {
    ferry_executor executor; /* one for each task, so that post knows the task */
    int cost, rank;          /* passes over its tiles (one would do); their sum to the root */
    ferry_buffer *tiles;     /* two inputs; the result replaces the first */
    ferry_task *ready;       /* for a worker to run */
    struct task *next;       /* in the ready list */
} task;

static task tasks[TASKS]; /* the root is 0, the children of i are 2i + 1 and 2i + 2 */
static task *ready_list;  /* sorted: highest rank first */
static sem_t ready_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t expected[WORDS];

static ferry_status combine(void *arg)
{
    const task *self = arg;
    uint64_t *data = ferry_buffer_data(self->tiles);
    for (int pass = 0; pass < self->cost; pass++)
        for (size_t i = 0; i < WORDS; i++)
            data[i] = data[i] > data[WORDS + i] ? data[i] : data[WORDS + i];
    return FERRY_OK;
}

/* Called when the task may run: puts it into the ready list. */
static void post(ferry_executor *executor, ferry_task *ready)
{
    task *self = executor->arg, **at = &ready_list;
    pthread_mutex_lock(&mutex);
    while (*at != NULL && (*at)->rank >= self->rank)
        at = &(*at)->next;
    self->ready = ready;
    self->next = *at;
    *at = self;
    pthread_mutex_unlock(&mutex);
    sem_post(&ready_count);
}

static void *work(void *unused)
{
    for (;;) {
        while (sem_wait(&ready_count) != 0) /* interrupted by a signal */
            continue;
        pthread_mutex_lock(&mutex);
        task *first = ready_list;
        ready_list = first != NULL ? first->next : NULL;
        pthread_mutex_unlock(&mutex);
        if (first == NULL) /* counted, but the list is empty: the end */
            return unused;
        ferry_task_run(first->ready);
    }
}

/* ferry orders copies and call by the bytes they name. Without memory they and the root fail. */
static ferry_future *submit(ferry_engine *engine, size_t index, ferry_buffer *source)
{
    task *self = &tasks[index];
    ferry_buffer_alloc(ferry_device_at(engine, index % DEVICES), 2 * TILE_BYTES, &self->tiles);
    for (size_t side = 0; side < 2; side++) {
        size_t child = 2 * index + 1 + side;
        ferry_span to = {self->tiles, side * TILE_BYTES, TILE_BYTES};
        ferry_span from = {source, (child - TASKS) * TILE_BYTES, TILE_BYTES};
        if (child < TASKS)
            from = (ferry_span){tasks[child].tiles, 0, TILE_BYTES};
        ferry_future_release(ferry_copy(engine, to, from, NULL));
    }
    ferry_access access = {ferry_buffer_span(self->tiles), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    self->executor = (ferry_executor){sizeof(ferry_executor), post, self};
    return ferry_call(engine, &self->executor, combine, self, &options);
}

/* The most copies in flight while workers had tasks, from ferry's flight recorder. */
static int most_in_flight(ferry_engine *engine)
{
    static ferry_trace_record records[RECORDS];
    size_t count =
        ferry_engine_flight_records(engine, records, sizeof(ferry_trace_record), RECORDS);
    int copies = 0, calls = 0, most = 0;
    for (const ferry_trace_record *record = records; record < records + count; record++) {
        int *under_way = record->kind == FERRY_OP_COPY ? &copies : &calls;
        *under_way += (record->what == FERRY_TRACE_ISSUED) - (record->what == FERRY_TRACE_RESOLVED);
        most = calls > 0 && copies > most ? copies : most;
    }
    return most;
}

int main(void)
{
    ferry_engine_options options = {sizeof options, .host_devices = DEVICES};
    options.flight_records = RECORDS;
    ferry_engine *engine = NULL;
    ferry_buffer *source = NULL;
    pthread_t workers[WORKERS];
    if (sem_init(&ready_count, 0, 0) != 0 ||
        ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), FILE_BYTES, &source) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, NULL) != 0)
            return 1;
    uint64_t *file = ferry_buffer_data(source);
    for (size_t i = 0; i < FILE_BYTES / 8; i++) {
        file[i] = i * 0x9e3779b97f4a7c15;
        expected[i % WORDS] = file[i] > expected[i % WORDS] ? file[i] : expected[i % WORDS];
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i].cost = 4 + i * 7 % 9;
        tasks[i].rank = tasks[i].cost + (i > 0 ? tasks[(i - 1) / 2].rank : 0);
    }

    for (size_t i = TASKS - 1; i > 0; i--)
        ferry_future_release(submit(engine, i, source));
    ferry_future *root = submit(engine, 0, source);
    ferry_status status = ferry_future_wait(root, -1); /* fails with any task below */
    int most = most_in_flight(engine);
    bool is_right = status == FERRY_OK && /* how much overlaps depends on the machine */
                    memcmp(ferry_buffer_data(tasks[0].tiles), expected, TILE_BYTES) == 0;
    printf("%d tasks, up to %d copies in flight while they ran; %s\n", TASKS, most,
           is_right ? "the root is right" : "something is WRONG");
    ferry_future_release(root);
    for (size_t i = 0; i < TASKS; i++)
        ferry_buffer_release(tasks[i].tiles);
    ferry_buffer_release(source);
    ferry_engine_release(engine);
    for (size_t i = 0; i < WORKERS; i++)
        sem_post(&ready_count);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return is_right ? 0 : 1;
}
