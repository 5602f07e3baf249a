/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test_device.h"

#include <dlfcn.h>
#include <ferry/device.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "FERRY_TEST_DEVICES"
#define GPUS_MAX 64

/* A word that is none ends the program: a suite that ran on hosts instead would show nothing. */
size_t test_gpu_count(void)
{
    const char *text = getenv(VARIABLE);
    if (text == NULL || *text == '\0' || strcmp(text, "host") == 0)
        return 0;
    char *end = NULL;
    unsigned long count = strncmp(text, "cuda:", 5) == 0 ? strtoul(text + 5, &end, 10) : 0;
    if (count == 0 || count > GPUS_MAX || *end != '\0') {
        (void)fprintf(stderr, VARIABLE " is '%s'; it must be host or cuda:N\n", text);
        exit(2);
    }
    return count;
}

bool test_devices_are_hosts(void)
{
    return test_gpu_count() == 0;
}

void test_device_name(size_t index, char name[TEST_DEVICE_NAME_BYTES])
{
    size_t gpus = test_gpu_count();
    if (gpus == 0)
        (void)snprintf(name, TEST_DEVICE_NAME_BYTES, "host:%zu", index);
    else if (index < gpus)
        (void)snprintf(name, TEST_DEVICE_NAME_BYTES, "cuda:%zu", index);
    else
        (void)snprintf(name, TEST_DEVICE_NAME_BYTES, "cuda:%zu/%zu", index % gpus, index / gpus);
}

ferry_device *test_device(ferry_engine *engine, size_t index)
{
    char name[TEST_DEVICE_NAME_BYTES];
    test_device_name(index, name);
    for (size_t i = 0; i < ferry_device_count(engine); i++) { /* also after the shutdown */
        ferry_device *open = ferry_device_at(engine, i);
        if (strcmp(ferry_device_name(open), name) == 0)
            return open;
    }
    ferry_device *device = NULL;
    (void)ferry_device_open(engine, name, NULL, &device, NULL);
    return device;
}

bool test_devices_settle(void)
{
    static uint64_t seen;
    static uint64_t (*settle)(void);
    if (test_devices_are_hosts())
        return false;
    if (settle == NULL) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        void *symbol = driver != NULL ? dlsym(driver, "emu_settle") : NULL;
        if (symbol == NULL) {
            (void)fputs(VARIABLE " names GPUs, but this is not the emulated CUDA\n", stderr);
            exit(2);
        }
        memcpy(&settle, &symbol, sizeof settle);
    }
    uint64_t done = settle();
    return __atomic_exchange_n(&seen, done, __ATOMIC_RELAXED) != done;
}

device_memory alloc_device_memory(ferry_device *device, size_t size_bytes)
{
    device_memory memory = {0};
    if (strncmp(ferry_device_name(device), "host:", 5) == 0)
        memory.bytes = malloc(size_bytes);
    else if (ferry_buffer_alloc(device, size_bytes, &memory.lender) == FERRY_OK)
        memory.bytes = ferry_buffer_data(memory.lender);
    return memory;
}

void free_device_memory(device_memory *memory)
{
    if (memory->lender == NULL)
        free(memory->bytes);
    ferry_buffer_release(memory->lender);
    *memory = (device_memory){0};
}
