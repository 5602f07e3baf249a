/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs against an oracle that knows for each operation, as a set of bits, all that is
 * ordered before it. `driver_random SEEDS`; each seed runs two programs:
 *   caught   streams are ordered at random, and everything is held back until the context goes, so
 *            nothing is ever done: each operation has to be caught exactly if the oracle finds one
 *            that it is a race with
 *   ordered  each operation is first ordered behind all that it would be a race with, by waits or
 *            by streams alone: nothing may be caught, and the bytes have to be those of a run one
 *            after another
 */
#include "program.h"

#include "tests/emu/emu.h"
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    OPERATIONS = 240, /* fewer than stand in a stream */
    STREAMS = 7,      /* the first is the legacy one, the next three are blocking */
    BLOCKING = 4,
    EVENTS = 5,
    BYTES = 2048,
    WORDS = (OPERATIONS + 63) / 64,
};

typedef struct set {
    uint64_t words[WORDS];
} set;

/* The bytes that an operation touches. */
typedef struct footprint {
    uint64_t read[BYTES / 64], written[BYTES / 64];
} footprint;

typedef enum form {
    FORM_COPY,
    FORM_ROWS,
    FORM_SET,
    FORM_VALUE,
    FORM_COUNT,
} form;

typedef struct action {
    form form;
    size_t dst, src, row_bytes, row_count, dst_pitch, src_pitch;
    unsigned char value;
} action;

static uint64_t random_state;
static bool coarse; /* ranges begin and end at the same places, so that one often covers another */
static CUdeviceptr memory;
static unsigned char expected[BYTES], *result;
static CUstream streams[STREAMS];
static CUevent events[EVENTS];
static set before[STREAMS];  /* what is ordered before what the stream is given next */
static set recorded[EVENTS]; /* what was ordered before the record */
static bool is_recorded[EVENTS];
static footprint touched[OPERATIONS];

static uint64_t number(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void join(set *into, const set *other)
{
    for (size_t i = 0; i < WORDS; i++)
        into->words[i] |= other->words[i];
}

static bool has(const set *set, size_t i)
{
    return set->words[i / 64] >> (i % 64) & 1;
}

static bool both_blocking(size_t stream, size_t other)
{
    return (stream == 0) != (other == 0) && stream < BLOCKING && other < BLOCKING;
}

/* The legacy stream stands behind blocking ones and they behind it, whatever is enqueued. */
static void enqueue_order(size_t stream)
{
    for (size_t other = 0; other < BLOCKING; other++) {
        if (both_blocking(stream, other))
            join(&before[stream], &before[other]);
    }
}

static void record(size_t event, size_t stream)
{
    enqueue_order(stream);
    OK(cuEventRecord(events[event], streams[stream]));
    recorded[event] = before[stream];
    is_recorded[event] = true;
}

static void wait_for(size_t event, size_t stream)
{
    enqueue_order(stream);
    OK(cuStreamWaitEvent(streams[stream], events[event], 0));
    join(&before[stream], &recorded[event]);
}

static void mark(uint64_t *bytes, size_t start, size_t row_bytes, size_t row_count, size_t pitch)
{
    for (size_t row = 0; row < row_count; row++) {
        for (size_t i = start + row * pitch; i < start + row * pitch + row_bytes; i++)
            bytes[i / 64] |= (uint64_t)1 << (i % 64);
    }
}

/* Where something of that extent may begin. */
static size_t place(size_t row_bytes, size_t row_count, size_t pitch)
{
    const size_t start = number(BYTES + 1 - ((row_count - 1) * pitch + row_bytes));

    return coarse ? start & ~(size_t)63 : start;
}

static bool overlaps_itself(const footprint *footprint)
{
    for (size_t i = 0; i < BYTES / 64; i++) {
        if (footprint->read[i] & footprint->written[i])
            return true;
    }
    return false;
}

static action draw(footprint *footprint)
{
    action action;

    do {
        memset(footprint, 0, sizeof *footprint);
        action.form = (form)number(FORM_COUNT);
        action.value = (unsigned char)number(256);
        action.row_bytes = action.form == FORM_VALUE ? 4
                           : coarse                  ? 4 * (1 + number(3))
                                                     : 1 + number(12);
        action.row_count = action.form == FORM_ROWS ? 1 + number(8) : 1;
        action.dst_pitch = action.row_bytes + number(40);
        action.src_pitch = action.row_bytes + number(40);
        action.dst = place(action.row_bytes, action.row_count, action.dst_pitch);
        action.src = place(action.row_bytes, action.row_count, action.src_pitch);
        if (action.form == FORM_VALUE)
            action.dst &= ~(size_t)3;
        mark(footprint->written, action.dst, action.row_bytes, action.row_count, action.dst_pitch);
        if (action.form == FORM_COPY || action.form == FORM_ROWS)
            mark(footprint->read, action.src, action.row_bytes, action.row_count, action.src_pitch);
    } while (overlaps_itself(footprint));
    return action;
}

static void issue(const action *action, CUstream stream)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = memory + action->src,
                                .srcPitch = action->src_pitch,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = memory + action->dst,
                                .dstPitch = action->dst_pitch,
                                .WidthInBytes = action->row_bytes,
                                .Height = action->row_count};
    uint32_t word;

    switch (action->form) {
    case FORM_COPY:
        OK(cuMemcpyDtoDAsync(rows.dstDevice, rows.srcDevice, action->row_bytes, stream));
        break;
    case FORM_ROWS:
        OK(cuMemcpy2DAsync(&rows, stream));
        break;
    case FORM_SET:
        OK(cuMemsetD8Async(rows.dstDevice, action->value, action->row_bytes, stream));
        break;
    default:
        memset(&word, action->value, sizeof word);
        OK(cuStreamWriteValue32(stream, rows.dstDevice, word, 0));
    }
}

static void imitate(const action *action)
{
    for (size_t row = 0; row < action->row_count; row++) {
        unsigned char *dst = expected + action->dst + row * action->dst_pitch;

        if (action->form == FORM_COPY || action->form == FORM_ROWS)
            memcpy(dst, expected + action->src + row * action->src_pitch, action->row_bytes);
        else
            memset(dst, action->value, action->row_bytes);
    }
}

static bool is_race(const footprint *a, const footprint *b)
{
    for (size_t i = 0; i < BYTES / 64; i++) {
        if ((a->written[i] & (b->written[i] | b->read[i])) | (a->read[i] & b->written[i]))
            return true;
    }
    return false;
}

static void begin(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15 + 1;
    coarse = seed % 2 == 1;
    memset(before, 0, sizeof before);
    memset(is_recorded, 0, sizeof is_recorded);
    OK(cuMemAlloc(&memory, BYTES));
    OK(cuMemAllocHost((void **)&result, BYTES));
    for (size_t i = 1; i < STREAMS; i++)
        OK(cuStreamCreate(&streams[i], i < BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < EVENTS; i++)
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    OK(cuMemsetD8(memory, 0, BYTES));
    OK(cuCtxSynchronize());
    memset(expected, 0, BYTES);
}

static void add(const action *action, size_t operation, size_t stream)
{
    enqueue_order(stream);
    issue(action, streams[stream]);
    before[stream].words[operation / 64] |= (uint64_t)1 << (operation % 64);
}

/* Says how many of the operations were races. */
static unsigned caught(uint64_t seed)
{
    unsigned races = 0;

    begin(seed);
    emu_hold();
    for (size_t i = 0; i < OPERATIONS; i++) {
        const size_t stream = number(16) == 0 ? 0 : 1 + number(STREAMS - 1);
        const action action = draw(&touched[i]);
        const uint64_t caught_before = emu_caught(EMU_CATCH_UNORDERED);
        bool race = false, was_caught;

        if (number(3) == 0)
            record(number(EVENTS), number(STREAMS));
        for (size_t j = number(3); j > 0; j--) {
            const size_t event = number(EVENTS);

            if (is_recorded[event])
                wait_for(event, stream);
        }
        enqueue_order(stream);
        for (size_t j = 0; j < i && !race; j++)
            race = !has(&before[stream], j) && is_race(&touched[i], &touched[j]);
        add(&action, i, stream);
        was_caught = emu_caught(EMU_CATCH_UNORDERED) > caught_before;
        if (was_caught != race)
            fprintf(stdout, "seed %llu: operation %zu was %scaught, and is %sa race\n",
                    (unsigned long long)seed, i, was_caught ? "" : "not ", race ? "" : "not ");
        CHECK(was_caught == race);
        races += race;
    }
    OK(cuDevicePrimaryCtxReset(0));
    emu_release();
    return races;
}

static void ordered(uint64_t seed)
{
    const uint64_t caught_before = emu_caught(EMU_CATCH_UNORDERED);
    size_t stream_of[OPERATIONS];

    begin(seed);
    for (size_t i = 0; i < OPERATIONS; i++) {
        const size_t stream = number(16) == 0 ? 0 : 1 + number(STREAMS - 1);
        const action action = draw(&touched[i]);

        enqueue_order(stream);
        for (size_t j = i; j-- > 0;) {
            if (has(&before[stream], j) || !is_race(&touched[i], &touched[j]))
                continue;
            record(0, stream_of[j]);
            wait_for(0, stream);
        }
        stream_of[i] = stream;
        add(&action, i, stream);
        imitate(&action);
    }
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(result, memory, BYTES));
    CHECK(memcmp(result, expected, BYTES) == 0);
    CHECK(emu_caught(EMU_CATCH_UNORDERED) == caught_before);
    OK(cuDevicePrimaryCtxReset(0));
}

int main(int argc, char **argv)
{
    const uint64_t seeds = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    unsigned races = 0;
    CUcontext context;

    CHECK(seeds > 0);
    CHECK(freopen("/dev/null", "w", stderr) != NULL); /* each catch is a line */
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    emu_count_catches(true);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        races += caught(seed);
        ordered(seed);
    }
    printf("driver_random: %llu seeds, %llu operations, %u of them races\n",
           (unsigned long long)seeds, (unsigned long long)seeds * OPERATIONS, races);
    return races > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
