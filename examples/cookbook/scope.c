/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that can be given up. All its operations join a scope: copies, functions, whatever. One
 * call cancels them all, and its future resolves when nothing of the request touches memory any
 * more. A second scope moves bytes in the background, slowly, so that it takes no bandwidth from
 * others, and tells how many it has moved.
 */
#include <ferry/ferry.h>
#include <stdio.h>

enum { BLOCKS = 32, BLOCK_BYTES = 64 << 10, SLOW_BYTES = 4 * BLOCK_BYTES };

static ferry_engine *engine;
static ferry_buffer *source, *target;

static ferry_future *copy_block(ferry_scope *scope, size_t i, ferry_future *const *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    options.after = after;
    options.after_count = after != NULL ? 1 : 0;
    ferry_span from = {source, i * BLOCK_BYTES, BLOCK_BYTES};
    ferry_span to = {target, i * BLOCK_BYTES, BLOCK_BYTES};
    return ferry_copy(engine, to, from, &options);
}

static ferry_status end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

/* The blocks wait for something that does not come; the request is given up. */
static bool give_up(ferry_scope *request, ferry_future *never)
{
    ferry_future *copies[BLOCKS];
    bool is_right = ferry_scope_engine(request) == engine;
    for (size_t i = 0; i < BLOCKS; i++)
        copies[i] = copy_block(request, i, &never);
    is_right = end(ferry_scope_cancel(request)) == FERRY_OK && is_right; /* all memory is quiet */
    for (size_t i = 0; i < BLOCKS; i++)
        is_right = end(copies[i]) == FERRY_E_CANCELLED && is_right;
    return end(copy_block(request, 0, NULL)) == FERRY_E_CANCELLED && is_right; /* it stays so */
}

/* What a scope has done; the engine counts, because its options say so. */
static bool has_moved(ferry_scope *scope, uint64_t bytes)
{
    ferry_stats stats = FERRY_STATS_INIT;
    if (ferry_stats_read(NULL, scope, &stats) != FERRY_OK)
        return false;
    printf("%llu operations, %llu bytes by way \"%s\"\n", (unsigned long long)stats.resolved,
           (unsigned long long)stats.bytes_by_way[FERRY_WAY_HOST], ferry_way_name(FERRY_WAY_HOST));
    return stats.bytes_by_way[FERRY_WAY_HOST] == bytes && stats.in_flight == 0;
}

/* Nobody waits for the copies one by one: the scope is closed, and ends with the last of them. */
static ferry_status move_slowly(void)
{
    ferry_scope_options options = FERRY_SCOPE_OPTIONS_INIT;
    ferry_scope *background = NULL;
    options.bytes_per_second = 64 << 20;
    options.burst_bytes = SLOW_BYTES;
    ferry_status status = ferry_scope_create(engine, &options, &background);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < BLOCKS; i++)
        ferry_future_release(copy_block(background, i, NULL));
    status = end(ferry_scope_close(background));
    if (status == FERRY_OK && !has_moved(background, BLOCKS * BLOCK_BYTES))
        status = FERRY_E_FAILED;
    ferry_scope_release(background);
    return status;
}

int main(void)
{
    ferry_engine_options counting = FERRY_ENGINE_OPTIONS_INIT;
    ferry_scope_options options = FERRY_SCOPE_OPTIONS_INIT;
    ferry_promise *never = NULL;
    ferry_scope *request = NULL;
    counting.stats = 1;
    if (ferry_engine_create(&counting, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), BLOCKS * BLOCK_BYTES, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), BLOCKS * BLOCK_BYTES, &target) != FERRY_OK ||
        ferry_promise_create(engine, &never) != FERRY_OK ||
        ferry_scope_create(engine, &options, &request) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < BLOCKS * BLOCK_BYTES; i++)
        ((unsigned char *)ferry_buffer_data(source))[i] = (unsigned char)(i >> 8);
    ferry_future *before = ferry_promise_future(never);
    bool is_right = give_up(request, before) && move_slowly() == FERRY_OK;
    for (size_t i = 0; i < BLOCKS * BLOCK_BYTES; i++)
        is_right =
            is_right && ((unsigned char *)ferry_buffer_data(target))[i] == (unsigned char)(i >> 8);
    puts(is_right ? "given up, then moved slowly" : "wrong");
    ferry_future_release(before);
    ferry_promise_release(never);
    ferry_scope_release(request);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return is_right ? 0 : 1;
}
