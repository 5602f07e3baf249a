/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_FILE "libcuda.so.1"
#define OLDEST_DRIVER 12000 /* cuStreamGetId, and cuGetProcAddress in the form used here */

#define QUEUES_DEFAULT 8
#define QUEUES_MOST 32

#define TEXT_BYTES 256
#define VERSION_BYTES 32

fry_cuda_functions fry_cuda;

static struct {
    pthread_once_t once;
    bool is_here;
    uint32_t count, queue_count;
    char version[VERSION_BYTES];
    char text[TEXT_BYTES];
} driver = {.once = PTHREAD_ONCE_INIT};

static const struct {
    const char *name;
    int version;
    bool is_optional;
    size_t offset;
} functions[] = {
#define FUNCTION(name, version) {#name, (version), false, offsetof(fry_cuda_functions, name)},
    FRY_CUDA_FUNCTION_MAP(FUNCTION)
#undef FUNCTION
#define FUNCTION(name, version) {#name, (version), true, offsetof(fry_cuda_functions, name)},
        FRY_CUDA_OPTIONAL_MAP(FUNCTION)
#undef FUNCTION
};

/* Stores an address from dlsym or cuGetProcAddress in a field; ISO C has no cast for this. */
static void set_function(void *field, void *address)
{
    memcpy(field, &address, sizeof address);
}

static bool find_functions(__typeof__(&cuGetProcAddress) find, int version)
{
    size_t length = strlen(driver.text);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = NULL;
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        CUresult result = find(functions[i].name, &address, functions[i].version,
                               CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
        if (result != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS)
            address = NULL;
        set_function((char *)&fry_cuda + functions[i].offset, address);
        if (address != NULL)
            continue;
        if (!functions[i].is_optional) {
            (void)snprintf(driver.text, TEXT_BYTES, "no driver: %s of CUDA %d.%d lacks %s",
                           DRIVER_FILE, version / 1000, version % 1000 / 10, functions[i].name);
            return false;
        }
        int added = snprintf(driver.text + length, TEXT_BYTES - length, "; without %s, of %d.%d",
                             functions[i].name, functions[i].version / 1000,
                             functions[i].version % 1000 / 10);
        if (added > 0 && length + (size_t)added < TEXT_BYTES)
            length += (size_t)added;
    }
    return true;
}

/* The driver's library is never closed, because the driver's threads don't end. */
static void *open_driver(void)
{
    void *file = dlopen(DRIVER_FILE, RTLD_NOW | RTLD_LOCAL);
    if (file == NULL) {
        const char *why = dlerror();
        (void)snprintf(driver.text, TEXT_BYTES, "no driver: %s",
                       why != NULL ? why : DRIVER_FILE " can't be opened");
    }
    return file;
}

static bool start_driver(void)
{
    CUresult result = fry_cuda.cuInit(0);
    int count = 0;
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) {
        fry_fault fault;
        (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, result, "cuInit");
        (void)snprintf(driver.text, TEXT_BYTES, "no device: %s", fault.message);
        return false;
    }
    if (count <= 0) {
        (void)snprintf(driver.text, TEXT_BYTES, "no device: the driver counts none");
        return false;
    }
    driver.count = (uint32_t)count;
    return true;
}

/* What the driver will read, too, as it starts. */
static uint32_t read_queue_count(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    long count = text != NULL ? strtol(text, NULL, 10) : 0;
    return count > 0 && count <= QUEUES_MOST ? (uint32_t)count : QUEUES_DEFAULT;
}

static void load_driver(void)
{
    driver.queue_count = read_queue_count();
    void *file = open_driver();
    if (file == NULL)
        return;
    __typeof__(&cuDriverGetVersion) get_version = NULL;
    __typeof__(&cuGetProcAddress) find = NULL;
    set_function(&get_version, dlsym(file, "cuDriverGetVersion"));
    set_function(&find, dlsym(file, "cuGetProcAddress_v2"));
    int version = 0;
    if (get_version == NULL || get_version(&version) != CUDA_SUCCESS)
        version = 0;
    if (find == NULL || version < OLDEST_DRIVER) {
        (void)snprintf(driver.text, TEXT_BYTES,
                       "no driver: %s is of CUDA %d.%d, and 12.0 or later is needed", DRIVER_FILE,
                       version / 1000, version % 1000 / 10);
        return;
    }
    (void)snprintf(driver.version, VERSION_BYTES, "CUDA %d.%d", version / 1000,
                   version % 1000 / 10);
    (void)snprintf(driver.text, TEXT_BYTES, "the driver is of %s", driver.version);
    driver.is_here = find_functions(find, version) && start_driver();
}

bool fry_cuda_load(uint32_t *count_p, const char **text_p)
{
    (void)pthread_once(&driver.once, load_driver);
    *count_p = driver.count;
    *text_p = driver.text;
    return driver.is_here;
}

uint32_t fry_cuda_queue_count(void)
{
    return driver.queue_count;
}

const char *fry_cuda_driver_text(void)
{
    return driver.version;
}

ferry_status fry_cuda_tell(fry_fault *fault, ferry_status status, CUresult result, const char *call)
{
    if (fault == NULL)
        return status;
    const char *name = NULL, *text = NULL;
    if (fry_cuda.cuGetErrorName == NULL || fry_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS ||
        name == NULL)
        name = "an error without a name";
    if (fry_cuda.cuGetErrorString == NULL ||
        fry_cuda.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL)
        text = "the driver has no text for it";
    *fault = (fry_fault){.status = status, .rank = -1, .native_code = result, .domain = "cuda"};
    (void)snprintf(fault->message, sizeof fault->message, "%s: %s, %s", call, name, text);
    return status;
}

bool fry_cuda_is_refusal(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
        return true;
    default:
        return false;
    }
}
