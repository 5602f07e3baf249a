/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reduction made of functions. Each function names the spans that it reads and writes, so the
 * four partial sums may run at once, and the two levels of the tree wait for what they read.
 * Nothing in the program says so: no function is told what it comes after.
 */
#include <ferry/ferry.h>
#include <stdio.h>

enum { LEAVES = 4, NUMBERS = 100000 };

typedef struct add {
    const uint64_t *from;
    size_t count;
    uint64_t *to;
} add;

static ferry_buffer *numbers, *sums; /* sums: of the leaves, of two pairs, of all */

static ferry_status run_add(void *arg)
{
    const add *self = arg;
    uint64_t sum = 0;
    for (size_t i = 0; i < self->count; i++)
        sum += self->from[i];
    *self->to = sum;
    return FERRY_OK;
}

static ferry_span words_of(ferry_buffer *buffer, size_t first, size_t count)
{
    return ferry_span_slice(ferry_buffer_span(buffer), first * sizeof(uint64_t),
                            count * sizeof(uint64_t));
}

/* Submits sums[result] = from[first] + ... ; `self` lives until it has run. */
static ferry_future *submit(ferry_engine *engine, add *self, ferry_buffer *from, size_t first,
                            size_t count, size_t result)
{
    ferry_access accesses[] = {{words_of(from, first, count), FERRY_READ},
                               {words_of(sums, result, 1), FERRY_WRITE}};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = accesses;
    options.access_count = 2;
    *self = (add){(const uint64_t *)ferry_buffer_data(from) + first, count,
                  (uint64_t *)ferry_buffer_data(sums) + result};
    return ferry_call(engine, NULL, run_add, self, &options);
}

int main(void)
{
    ferry_engine *engine = NULL;
    size_t count = (size_t)LEAVES * NUMBERS;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), count * sizeof(uint64_t), &numbers) !=
            FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), 7 * sizeof(uint64_t), &sums) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < count; i++)
        ((uint64_t *)ferry_buffer_data(numbers))[i] = i;

    add adds[LEAVES + 3];
    for (size_t i = 0; i < LEAVES; i++)
        ferry_future_release(submit(engine, &adds[i], numbers, i * NUMBERS, NUMBERS, i));
    ferry_future_release(submit(engine, &adds[4], sums, 0, 2, 4));
    ferry_future_release(submit(engine, &adds[5], sums, 2, 2, 5));
    ferry_future *total = submit(engine, &adds[6], sums, 4, 2, 6);
    ferry_status status = ferry_future_wait(total, -1); /* tells of a failure anywhere below it */

    uint64_t sum = ((uint64_t *)ferry_buffer_data(sums))[6];
    printf("%s, the sum is %llu\n", ferry_status_name(status), (unsigned long long)sum);
    ferry_future_release(total);
    ferry_buffer_release(numbers);
    ferry_buffer_release(sums);
    ferry_engine_release(engine);
    return status == FERRY_OK && sum == (uint64_t)count * (count - 1) / 2 ? 0 : 1;
}
