/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines, cancels, and when memory is yours again. A copy waits for something that does not
 * come. Its deadline fails it; a second one is cancelled. A future that has failed tells what
 * became of the operation, and not that its memory is free: ferry_future_quiet tells that.
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 1 << 20, SOON_NS = 5000000 };

static ferry_engine *engine;
static ferry_buffer *source, *target;

static ferry_future *copy_after(ferry_future *before, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &before;
    options.after_count = 1;
    options.deadline_ns = deadline_ns; /* a time on the engine's clock; 0: none */
    options.label = "the late copy";
    return ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), &options);
}

/* Waits until nobody touches the operation's memory any more, whatever became of it. */
static ferry_status wait_until_quiet(ferry_future *operation)
{
    ferry_future *quiet = ferry_future_quiet(operation);
    ferry_status status = ferry_future_wait(quiet, -1);
    ferry_future_release(quiet);
    return status;
}

static bool fails_with(ferry_future *operation, ferry_status expected)
{
    ferry_status status = ferry_future_wait(operation, -1);
    const ferry_error *error = ferry_future_error(operation);
    printf("%s: %s: %s\n", ferry_status_name(status), error != NULL ? error->label : "",
           error != NULL ? error->message : "");
    return status == expected && wait_until_quiet(operation) == FERRY_OK;
}

int main(void)
{
    ferry_promise *never = NULL;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), BYTES, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), BYTES, &target) != FERRY_OK ||
        ferry_promise_create(engine, &never) != FERRY_OK)
        return 1;
    ferry_future *before = ferry_promise_future(never);

    ferry_future *late = copy_after(before, ferry_engine_deadline_in(engine, SOON_NS));
    bool is_right = fails_with(late, FERRY_E_DEADLINE);

    ferry_future *unwanted = copy_after(before, 0);
    ferry_future_cancel(unwanted); /* asks; the future still resolves, once */
    is_right = fails_with(unwanted, FERRY_E_CANCELLED) && is_right;

    /* Both are quiet, so the program may write the target itself; then its bytes are valid again.
     */
    memset(ferry_buffer_data(target), 7, BYTES);
    ferry_buffer_define(ferry_buffer_span(target), NULL);
    ferry_future *used =
        ferry_copy(engine, ferry_buffer_span(source), ferry_buffer_span(target), NULL);
    is_right = ferry_future_wait(used, -1) == FERRY_OK && is_right;

    ferry_future *all[] = {before, late, unwanted, used};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ferry_future_release(all[i]);
    ferry_promise_release(never);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return is_right ? 0 : 1;
}
