/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was slow, and what did it wait for? The program records a trace file of three chunks that
 * are copied, worked on and copied on; one chunk's work takes much longer. `ferry trace FILE` draws
 * the file and prints the critical path, which goes through that work. A dump shows what is alive.
 *
 *   ./find_slow slow.json && ferry trace slow.json && ferry trace --html slow.html slow.json
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

enum { CHUNKS = 3, CHUNK_BYTES = 1 << 20, SLOW = 1 };

static const char *const labels[CHUNKS] = {"work 0", "work 1, the slow one", "work 2"};

static ferry_status work(void *chunk)
{
    unsigned char *bytes = chunk;
    int rounds = bytes[0] == SLOW ? 40 : 1;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 1; i < CHUNK_BYTES; i++)
            bytes[i] = (unsigned char)(bytes[i] * 5 + bytes[i - 1]);
    return FERRY_OK;
}

static void submit(ferry_engine *engine, ferry_buffer *const buffers[3], size_t chunk)
{
    ferry_span spans[3];
    for (size_t i = 0; i < 3; i++)
        spans[i] = (ferry_span){buffers[i], chunk * CHUNK_BYTES, CHUNK_BYTES};
    ferry_access access = {spans[1], FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    options.label = labels[chunk]; /* what the trace calls it */
    char *middle = (char *)ferry_buffer_data(buffers[1]) + spans[1].offset_bytes;
    ferry_future_release(ferry_copy(engine, spans[1], spans[0], NULL));
    ferry_future_release(ferry_call(engine, NULL, work, middle, &options));
    ferry_future_release(ferry_copy(engine, spans[2], spans[1], NULL));
}

static void print(void *arg, const char *text, size_t size_bytes)
{
    fwrite(text, 1, size_bytes, arg);
}

/* Whether the file tells of the slow operation. */
static bool tells(const char *path)
{
    char line[4096];
    bool is_told = false;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        is_told = is_told || strstr(line, labels[SLOW]) != NULL;
    if (file != NULL)
        fclose(file);
    return is_told;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "find_slow.json";
    ferry_engine *engine = NULL;
    ferry_buffer *buffers[3];
    if (ferry_trace_open(path) != FERRY_OK || ferry_engine_create(NULL, &engine, NULL) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < 3; i++)
        if (ferry_buffer_alloc(ferry_device_at(engine, i), CHUNKS * CHUNK_BYTES, &buffers[i]) !=
            FERRY_OK)
            return 1;
    for (size_t i = 0; i < CHUNKS; i++)
        ((char *)ferry_buffer_data(buffers[0]))[i * CHUNK_BYTES] = (char)i;
    for (size_t i = 0; i < CHUNKS; i++)
        submit(engine, buffers, i);
    ferry_engine_dump(engine, FERRY_DUMP_JSON, print, stderr); /* what is alive at this moment */
    ferry_future *all = ferry_engine_drain(engine);
    ferry_status status = ferry_future_wait(all, -1);
    ferry_future_release(all);
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    ferry_engine_release(engine);
    ferry_trace_close();
    bool is_right = status == FERRY_OK && tells(path);
    if (argc == 1)
        remove(path);
    return is_right ? 0 : 1;
}
