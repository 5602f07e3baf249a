/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces demo_cuda.c without CUDA's headers. Opening fails with that reason, and then nothing
 * else is called.
 */
#include "tools/demo_cuda.h"

#include <stdio.h>
#include <stdlib.h>

int demo_cuda_open(size_t stages, demo_cuda **cuda_p)
{
    (void)stages, (void)cuda_p;
    fputs("ferry: --device cuda: this ferry was built without CUDA's headers\n", stderr);
    return EXIT_FAILURE;
}

void demo_cuda_close(demo_cuda *cuda)
{
    (void)cuda;
}

void demo_cuda_device_name(const demo_cuda *cuda, size_t stage, char name[DEMO_CUDA_NAME_BYTES])
{
    (void)cuda, (void)stage;
    name[0] = '\0';
}

const char *demo_cuda_gpus(const demo_cuda *cuda)
{
    (void)cuda;
    return "";
}

void *demo_cuda_native_stream(const demo_cuda *cuda, size_t stage, demo_cuda_stream which)
{
    (void)cuda, (void)stage, (void)which;
    return NULL;
}

int demo_cuda_layer(demo_cuda *cuda, size_t stage, size_t width, size_t rows, const void *weights,
                    const void *in, void *out)
{
    (void)cuda, (void)stage, (void)width, (void)rows, (void)weights, (void)in, (void)out;
    return EXIT_FAILURE;
}

int demo_cuda_copy(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *dst,
                   const void *src, size_t size_bytes)
{
    (void)cuda, (void)stage, (void)which, (void)dst, (void)src, (void)size_bytes;
    return EXIT_FAILURE;
}

int demo_cuda_event(demo_cuda *cuda, size_t stage, void **event_p)
{
    (void)cuda, (void)stage, (void)event_p;
    return EXIT_FAILURE;
}

int demo_cuda_record(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *event)
{
    (void)cuda, (void)stage, (void)which, (void)event;
    return EXIT_FAILURE;
}

int demo_cuda_wait_event(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *event)
{
    (void)cuda, (void)stage, (void)which, (void)event;
    return EXIT_FAILURE;
}

int demo_cuda_fill(demo_cuda *cuda, size_t stage, void *dst, unsigned char byte, size_t size_bytes)
{
    (void)cuda, (void)stage, (void)dst, (void)byte, (void)size_bytes;
    return EXIT_FAILURE;
}

int demo_cuda_put(demo_cuda *cuda, size_t stage, void *dst, const void *src, size_t size_bytes)
{
    (void)cuda, (void)stage, (void)dst, (void)src, (void)size_bytes;
    return EXIT_FAILURE;
}

int demo_cuda_finish(demo_cuda *cuda, size_t stage, demo_cuda_stream which)
{
    (void)cuda, (void)stage, (void)which;
    return EXIT_FAILURE;
}

int demo_cuda_finish_all(demo_cuda *cuda)
{
    (void)cuda;
    return EXIT_FAILURE;
}
