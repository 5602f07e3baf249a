/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do when there is no room. An engine has bounds; past one an operation is refused with
 * FERRY_E_AGAIN instead of taking memory without end. ferry_engine_writable is a future for room.
 * Here the bound is small, and a promise holds the first copies back, so that the limit is met.
 */
#include <ferry/ferry.h>
#include <stdio.h>

enum { ROOM = 64, COPIES = 1000, BYTES = 64 };

static ferry_engine *engine;
static ferry_buffer *source, *target;
static size_t refusals;

static ferry_future *try_copy(size_t i, ferry_future *const *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = 1;
    ferry_span from = {source, i * BYTES, BYTES}, to = {target, i * BYTES, BYTES};
    return ferry_copy(engine, to, from, &options);
}

/* Waits until there may be room. Handles that it holds itself count, so it holds none. */
static void wait_for_room(void)
{
    ferry_future *room = ferry_engine_writable(engine);
    ferry_future_wait(room, -1);
    ferry_future_release(room);
}

int main(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.max_nodes = ROOM;
    ferry_promise *gate = NULL;
    if (ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), COPIES * BYTES, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), COPIES * BYTES, &target) != FERRY_OK ||
        ferry_promise_create(engine, &gate) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < COPIES * BYTES; i++)
        ((unsigned char *)ferry_buffer_data(source))[i] = (unsigned char)(i >> 4);
    ferry_future *opened = ferry_promise_future(gate);

    for (size_t i = 0; i < COPIES;) {
        ferry_future *copy = try_copy(i, &opened);
        ferry_status status = ferry_future_poll(copy);
        ferry_future_release(copy);
        if (status != FERRY_E_AGAIN) {
            i++;
            continue;
        }
        refusals++;
        ferry_promise_resolve(gate, FERRY_OK, NULL); /* after the first time it changes nothing */
        wait_for_room();
    }
    ferry_promise_resolve(gate, FERRY_OK, NULL);
    ferry_future *drained = ferry_engine_drain(engine);
    bool is_right = ferry_future_wait(drained, -1) == FERRY_OK && refusals > 0;
    for (size_t i = 0; i < COPIES * BYTES; i++)
        is_right =
            is_right && ((unsigned char *)ferry_buffer_data(target))[i] == (unsigned char)(i >> 4);
    printf("%d copies, %s, the engine was full %s\n", COPIES, is_right ? "all right" : "wrong",
           refusals > 0 ? "at times" : "never");
    ferry_future_release(drained);
    ferry_future_release(opened);
    ferry_promise_release(gate);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return is_right ? 0 : 1;
}
