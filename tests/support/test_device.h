/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that a suite runs on where it does not matter which. FERRY_TEST_DEVICES says so:
 *   unset, "host"  host:0, host:1 and so on
 *   "cuda:N"       N GPUs of the emulated CUDA in turn, and past the N-th logical devices on them:
 *                  with N = 2 these are cuda:0, cuda:1, cuda:0/1, cuda:1/1
 * Their memory is ordinary memory on the emulator, so tests look at bytes by ferry_buffer_data
 * there as well: what is said here is of no use on a real GPU, which has tests/gpu.
 */
#ifndef FERRY_TESTS_TEST_DEVICE_H
#define FERRY_TESTS_TEST_DEVICE_H

#include <ferry/types.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether the suite runs on host devices. */
bool test_devices_are_hosts(void);

/* How many GPUs there are in turn; 0: the suite runs on host devices. */
size_t test_gpu_count(void);

#define TEST_DEVICE_NAME_BYTES 32

void test_device_name(size_t index, char name[TEST_DEVICE_NAME_BYTES]);

/* Device `index` of the engine; the first call that names a GPU opens it. NULL if there is none. */
ferry_device *test_device(ferry_engine *engine, size_t index);

/*
 * Waits until the GPUs have done all that they can begin, and says whether that was anything since
 * the last call: then an engine that nobody but the test moves has something to look at. False on
 * hosts, at once.
 */
bool test_devices_settle(void);

/*
 * Memory of a device that the caller may wrap. On a host from malloc; on a GPU a buffer of ferry's
 * own lends it, which no operation names. NULL: none is left. Give it back to free_device_memory
 * when no wrapped buffer is left.
 */
typedef struct device_memory {
    void *bytes;
    ferry_buffer *lender; /* NULL on a host */
} device_memory;

device_memory alloc_device_memory(ferry_device *device, size_t size_bytes);
void free_device_memory(device_memory *memory);

/*
 * Why a test runs on host devices alone: it is about what they do and no GPU does.
 */
#define HOSTS_COPY_INLINE "small copies run in the calling thread, and leave no node"
#define HOSTS_HAVE_WORKERS "host workers copy: how many, what they do beside"
#define HOSTS_HAVE_ONE_STREAM "a host device has one stream, which priorities order"
#define HOSTS_ARE_NAMED "names and numbers of host devices, as tools show them"
#define HOSTS_STOP_COPIES "a cancelled copy stops on its way"
#define HOSTS_WRAP_ANYTHING "memory of any alignment from anywhere is wrapped"
#define HOSTS_OUTLIVE_FORK "a fork's child may make an engine of its own"

#endif
