/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rivals/cuda_driver.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

driver_calls driver;

static const struct {
    const char *name;
    int version;
    size_t offset;
} functions[] = {
#define FUNCTION(name, version) {#name, (version), offsetof(driver_calls, name)},
    DRIVER_CALL_MAP(FUNCTION)
#undef FUNCTION
};

bool driver_find(const char **reason)
{
    static char text[256];
    *reason = text;
    void *file = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = file != NULL ? dlsym(file, "cuGetProcAddress_v2") : NULL;
    if (symbol == NULL) {
        const char *why = dlerror();
        (void)snprintf(text, sizeof text, "no driver: %s", why != NULL ? why : "libcuda.so.1");
        return false;
    }
    __typeof__(&cuGetProcAddress) find;
    memcpy(&find, &symbol, sizeof find); /* ISO C has no cast for it */
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = NULL;
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        CUresult result = find(functions[i].name, &address, functions[i].version,
                               CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
        if (result != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS)
            address = NULL;
        memcpy((char *)&driver + functions[i].offset, &address, sizeof address);
    }
    return true;
}

const char *driver_error_name(CUresult result)
{
    const char *name = NULL;
    if (driver.cuGetErrorName == NULL || driver.cuGetErrorName(result, &name) != CUDA_SUCCESS ||
        name == NULL)
        return "an error without a name";
    return name;
}
