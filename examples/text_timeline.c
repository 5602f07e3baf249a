/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler made of ferry's trace hooks. It draws the life of each operation as a line of text,
 * followed by the operation that it waited for last. The watched program copies chunks of a file to
 * a device, works on them, and copies them on. Nothing in it says that chunks overlap.
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNKS = 4, STEPS = 3, OPERATIONS = CHUNKS * STEPS, COLUMNS = 64 };
enum { CHUNK_BYTES = 1 << 20, FILE_BYTES = CHUNKS * CHUNK_BYTES };

typedef struct life {
    uint64_t op; /* 0: unused */
    const char *label;
    uint64_t waited_for;                     /* the operation that held it last; 0: none */
    int64_t when_ns[FERRY_TRACE_CANCEL + 1]; /* by transition; 0: not seen */
} life;

static life lives[OPERATIONS];

static life *find_life(uint64_t op)
{
    for (life *self = lives; self < lives + OPERATIONS; self++)
        if (self->op == op || self->op == 0)
            return self;
    return NULL;
}

/* Called on the engine's loop: first one thread's records in order, then another's. */
static void record(void *arg, const ferry_trace_record *seen)
{
    (void)arg;
    life *self = seen->label != NULL ? find_life(seen->op) : NULL;
    if (self == NULL)
        return;
    self->op = seen->op;
    self->label = seen->label;
    self->waited_for |= seen->waited_for; /* only one record has it, in others it is 0 */
    self->when_ns[seen->what] = seen->when_ns;
}

static int compare_submits(const void *left, const void *right)
{
    int64_t a = ((const life *)left)->when_ns[FERRY_TRACE_SUBMITTED];
    int64_t b = ((const life *)right)->when_ns[FERRY_TRACE_SUBMITTED];
    return (a > b) - (a < b);
}

/* Whether every moment was seen, in the right order. */
static bool is_whole(const life *self)
{
    int64_t last_ns = 1;
    for (int what = FERRY_TRACE_SUBMITTED; what <= FERRY_TRACE_QUIET; what++) {
        if (what == FERRY_TRACE_BEGUN || (what == FERRY_TRACE_FIRED && self->when_ns[what] == 0))
            continue; /* a worker may begin before the issue is noted; only copies fire */
        if (self->when_ns[what] < last_ns)
            return false;
        last_ns = self->when_ns[what];
    }
    return true;
}

/* Each column shows the last transition before its end. */
static void draw(const life *self, int64_t begin_ns, int64_t end_ns)
{
    char bar[COLUMNS + 1] = "";
    for (int column = 0; column < COLUMNS; column++) {
        int64_t from_ns = begin_ns + (end_ns - begin_ns) * column / COLUMNS;
        int64_t to_ns = begin_ns + (end_ns - begin_ns) * (column + 1) / COLUMNS;
        int last = 0;
        for (int what = FERRY_TRACE_SUBMITTED; what <= FERRY_TRACE_RESOLVED; what++)
            if (self->when_ns[what] != 0 && self->when_ns[what] <= to_ns)
                last = what;
        bar[column] = self->when_ns[FERRY_TRACE_RESOLVED] < from_ns ? ' ' : " .-=#*+"[last];
    }
    const life *before = self->waited_for != 0 ? find_life(self->waited_for) : NULL;
    printf("%-6s |%s| %s\n", self->label, bar, before != NULL ? before->label : "");
}

static const char *const labels[OPERATIONS] = {
    "in 0", "work 0", "out 0", "in 1", "work 1", "out 1",
    "in 2", "work 2", "out 2", "in 3", "work 3", "out 3",
};

static ferry_status work(void *chunk)
{
    unsigned char *bytes = chunk;
    for (size_t i = 0; i < CHUNK_BYTES; i++)
        bytes[i] = (unsigned char)(bytes[i] * 5 + 1);
    return FERRY_OK;
}

static void submit(ferry_engine *engine, ferry_buffer *const buffers[STEPS], size_t chunk)
{
    ferry_span spans[STEPS];
    ferry_op_options options[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        spans[i] = (ferry_span){buffers[i], chunk * CHUNK_BYTES, CHUNK_BYTES};
        options[i] = (ferry_op_options){sizeof options[i], .label = labels[chunk * STEPS + i]};
    }
    ferry_access access = {spans[1], FERRY_READ_WRITE};
    options[1].accesses = &access;
    options[1].access_count = 1;
    char *middle = (char *)ferry_buffer_data(buffers[1]) + spans[1].offset_bytes;
    ferry_future_release(ferry_copy(engine, spans[1], spans[0], &options[0]));
    ferry_future_release(ferry_call(engine, NULL, work, middle, &options[1]));
    ferry_future_release(ferry_copy(engine, spans[2], spans[1], &options[2]));
}

int main(void)
{
    ferry_engine *engine = NULL;
    ferry_buffer *buffers[STEPS] = {NULL};
    ferry_trace_hooks hooks = {sizeof hooks, .record = record};
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_engine_trace(engine, &hooks) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < STEPS; i++)
        if (ferry_buffer_alloc(ferry_device_at(engine, i), FILE_BYTES, &buffers[i]) != FERRY_OK)
            return 1;
    unsigned char *file = ferry_buffer_data(buffers[0]), *result = ferry_buffer_data(buffers[2]);
    for (size_t i = 0; i < FILE_BYTES; i++)
        file[i] = (unsigned char)(i * i >> 5);

    for (size_t chunk = 0; chunk < CHUNKS; chunk++)
        submit(engine, buffers, chunk);
    ferry_future *all = ferry_engine_drain(engine);
    bool is_right = ferry_future_wait(all, -1) == FERRY_OK;
    ferry_engine_shutdown(engine, -1); /* then the hook has seen every record */
    for (size_t i = 0; i < FILE_BYTES; i++)
        is_right = is_right && result[i] == (unsigned char)(file[i] * 5 + 1);
    int64_t end_ns = 0;
    qsort(lives, OPERATIONS, sizeof lives[0], compare_submits);
    for (size_t i = 0; i < OPERATIONS; i++) {
        is_right = is_right && is_whole(&lives[i]);
        if (lives[i].when_ns[FERRY_TRACE_RESOLVED] > end_ns)
            end_ns = lives[i].when_ns[FERRY_TRACE_RESOLVED];
    }
    puts(". submitted - ready = issued # begun * fired + resolved; then what it waited for last");
    for (size_t i = 0; i < OPERATIONS; i++)
        draw(&lives[i], lives[0].when_ns[FERRY_TRACE_SUBMITTED], end_ns);
    ferry_future_release(all);
    for (size_t i = 0; i < STEPS; i++)
        ferry_buffer_release(buffers[i]);
    ferry_engine_release(engine);
    return is_right ? 0 : 1;
}
