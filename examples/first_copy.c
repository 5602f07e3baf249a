/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/ferry.h>
#include <stdio.h>

static ferry_status fill(void *numbers)
{
    for (int i = 0; i < 1000; i++)
        ((int *)numbers)[i] = i;
    return FERRY_OK;
}

int main(void)
{
    ferry_engine *engine = NULL;
    ferry_buffer *source = NULL, *target = NULL;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_find(engine, "host:0"), 4000, &source) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_find(engine, "host:1"), 4000, &target) != FERRY_OK)
        return 1;

    /* The function writes the source, so the copy waits for it and shares its failure. */
    ferry_access writes = {ferry_buffer_span(source), FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &writes;
    options.access_count = 1;
    ferry_future_release(ferry_call(engine, NULL, fill, ferry_buffer_data(source), &options));
    ferry_future *copied =
        ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL);

    ferry_status status = ferry_future_wait(copied, -1);
    const int *numbers = ferry_buffer_data(target);
    printf("%s, the last number is %d\n", ferry_status_name(status), numbers[999]);

    ferry_future_release(copied);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    return status == FERRY_OK ? 0 : 1;
}
