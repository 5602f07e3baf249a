/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served SOCKET: a process whose engine serves its figures, for tests of the tool. It has copied 3
 * times 1000 bytes, failed a nop by cancelling it, and holds a promise with a nop behind it whose
 * label would steer a terminal. It says "ready", then does what its input says, and says it done:
 *   copy  another 1000 bytes
 *   die   ends without a shutdown
 * At the end of the input it shuts down.
 */
#include "tests/support/check.h"

#include <ferry/ferry.h>
#include <string.h>
#include <unistd.h>

#define SIZE_BYTES 1000

static ferry_engine *engine;
static ferry_buffer *source, *target;

static void copy(void)
{
    ferry_future *copied =
        ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL);
    OK(ferry_future_wait(copied, -1));
    ferry_future_release(copied);
}

static ferry_future *nop_behind(ferry_future *before, const char *label)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &before;
    options.after_count = 1;
    options.label = label;
    return ferry_nop(engine, &options);
}

static void say(const char *words)
{
    CHECK(puts(words) >= 0 && fflush(stdout) == 0);
}

static void obey(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "die\n") == 0)
            _exit(0);
        CHECK(strcmp(line, "copy\n") == 0);
        copy();
        say("copied");
    }
}

int main(int argc, char **argv)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_promise *promise = NULL;
    ferry_error *error = NULL;
    CHECK(argc == 2);
    options.stats = 1;
    options.stats_path = argv[1];
    if (ferry_engine_create(&options, &engine, &error) != FERRY_OK) {
        (void)fprintf(stderr, "served: %s\n", error->message);
        ferry_error_release(error);
        return 1;
    }
    OK(ferry_buffer_alloc(ferry_device_find(engine, "host:0"), SIZE_BYTES, &source));
    OK(ferry_buffer_alloc(ferry_device_find(engine, "host:1"), SIZE_BYTES, &target));
    memset(ferry_buffer_data(source), 1, SIZE_BYTES);
    for (int i = 0; i < 3; i++)
        copy();
    OK(ferry_promise_create(engine, &promise));
    ferry_future *before = ferry_promise_future(promise);
    ferry_future *cancelled = nop_behind(before, "cancelled");
    ferry_future *held = nop_behind(before, "held \033[31mred\n\"quoted\"");
    OK(ferry_future_cancel(cancelled));
    GIVES(ferry_future_wait(cancelled, -1), FERRY_E_CANCELLED);
    say("ready");
    obey();
    OK(ferry_promise_resolve(promise, FERRY_OK, NULL));
    OK(ferry_future_wait(held, -1));
    ferry_future_release(held);
    ferry_future_release(cancelled);
    ferry_future_release(before);
    ferry_promise_release(promise);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return 0;
}
