/* SPDX-License-Identifier: Apache-2.0 */
/* Says that it is ready, and waits for a promise that nobody keeps. */
#include <ferry/ferry.h>
#include <stdio.h>

int main(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_engine *engine = NULL;
    ferry_promise *promise = NULL;
    if (ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_promise_create(engine, &promise) != FERRY_OK)
        return 1;
    (void)puts("ready");
    (void)fflush(stdout);
    (void)ferry_future_wait(ferry_promise_future(promise), -1);
    return 1;
}
