/* SPDX-License-Identifier: Apache-2.0 */
#include "net/nccl/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NCCL_FILE "libnccl.so.2"
#define OLDEST_NCCL 22700
#define TEXT_BYTES 256

fry_nccl_functions fry_nccl;

static struct {
    pthread_once_t once;
    uint32_t version;
    char text[TEXT_BYTES];
} nccl = {.once = PTHREAD_ONCE_INIT};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define FUNCTION(name) {#name, offsetof(fry_nccl_functions, name)},
    FRY_NCCL_FUNCTION_MAP(FUNCTION)
#undef FUNCTION
};

static bool find_functions(void *file)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(file, functions[i].name);
        memcpy((char *)&fry_nccl + functions[i].offset, &address, sizeof address);
        if (address == NULL) {
            (void)snprintf(nccl.text, TEXT_BYTES, "no NCCL: %s lacks %s", NCCL_FILE,
                           functions[i].name);
            return false;
        }
    }
    return true;
}

static void load(void)
{
    void *file = dlopen(NCCL_FILE, RTLD_NOW | RTLD_LOCAL);
    if (file == NULL) {
        const char *why = dlerror();
        (void)snprintf(nccl.text, TEXT_BYTES, "no NCCL: %s", why != NULL ? why : NCCL_FILE);
        return;
    }
    int version = 0;
    if (!find_functions(file))
        return;
    if (fry_nccl.ncclGetVersion(&version) != ncclSuccess || version < 0)
        version = 0;
    const char *verdict = version < OLDEST_NCCL ? ", and 2.27 or later is needed" : "";
    (void)snprintf(nccl.text, TEXT_BYTES, "NCCL %d.%d.%d%s", version / 10000, version % 10000 / 100,
                   version % 100, verdict);
    nccl.version = version < OLDEST_NCCL ? 0 : (uint32_t)version;
}

uint32_t fry_nccl_load(const char **text_p)
{
    (void)pthread_once(&nccl.once, load);
    if (text_p != NULL)
        *text_p = nccl.text;
    return nccl.version;
}

ferry_status fry_nccl_tell(fry_fault *fault, ncclResult_t result, const char *call, ncclComm_t comm)
{
    *fault =
        (fry_fault){.status = FERRY_E_DEVICE, .rank = -1, .native_code = result, .domain = "nccl"};
    const char *text = fry_nccl.ncclGetErrorString(result);
    const char *last = fry_nccl.ncclGetLastError(comm);
    bool has_last = last != NULL && last[0] != '\0';
    (void)snprintf(fault->message, sizeof fault->message, "%s: %s%s%s", call,
                   text != NULL ? text : "an unknown result", has_last ? ": " : "",
                   has_last ? last : "");
    return fault->status;
}
