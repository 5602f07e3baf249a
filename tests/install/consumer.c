/* SPDX-License-Identifier: Apache-2.0 */
/* An outside program: makes an engine, copies 64 bytes from one device to another, checks them. */
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, ferry_status status)
{
    fprintf(stderr, "%s: %s\n", what, ferry_status_name(status));
    return 1;
}

static int check_version(void)
{
    char headers[32];
    snprintf(headers, sizeof headers, "%d.%d.%d", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR,
             FERRY_VERSION_PATCH);
    if (strcmp(headers, ferry_version()) == 0)
        return 0;
    fprintf(stderr, "headers are %s, the library is %s\n", headers, ferry_version());
    return 1;
}

static int copy_and_check(ferry_engine *engine, ferry_buffer *dst, ferry_buffer *src)
{
    unsigned char *from = ferry_buffer_data(src);
    for (size_t i = 0; i < ferry_buffer_size_bytes(src); i++)
        from[i] = (unsigned char)(i * 7 + 1);
    memset(ferry_buffer_data(dst), 0, ferry_buffer_size_bytes(dst));

    ferry_future *copied = ferry_copy(engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
    ferry_status status = ferry_future_wait(copied, -1);
    ferry_future_release(copied);
    if (status != FERRY_OK)
        return fail("ferry_copy", status);
    if (memcmp(ferry_buffer_data(dst), from, ferry_buffer_size_bytes(src)) != 0) {
        fprintf(stderr, "the bytes differ\n");
        return 1;
    }
    return 0;
}

int main(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_engine *engine = NULL;
    ferry_buffer *src = NULL, *dst = NULL;
    int result = check_version();

    ferry_status status = ferry_engine_create(&options, &engine, NULL);
    if (status != FERRY_OK)
        return fail("ferry_engine_create", status);
    status = ferry_buffer_alloc(ferry_device_find(engine, "host:0"), 64, &src);
    if (status == FERRY_OK)
        status = ferry_buffer_alloc(ferry_device_find(engine, "host:1"), 64, &dst);
    if (status == FERRY_OK)
        result |= copy_and_check(engine, dst, src);
    else
        result = fail("ferry_buffer_alloc", status);

    ferry_buffer_release(dst);
    ferry_buffer_release(src);
    status = ferry_engine_shutdown(engine, -1);
    if (status != FERRY_OK)
        result = fail("ferry_engine_shutdown", status);
    ferry_engine_release(engine);
    return result;
}
