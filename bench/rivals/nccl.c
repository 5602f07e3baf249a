/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rivals/nccl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nccl_calls nccl;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define FUNCTION(name) {#name, offsetof(nccl_calls, name)},
    NCCL_CALL_MAP(FUNCTION)
#undef FUNCTION
};

/* Its lines go to stdout otherwise, between the rows. */
static void keep_quiet(void)
{
    if (getenv("NCCL_DEBUG_FILE") == NULL)
        (void)unsetenv("NCCL_DEBUG");
}

bool nccl_find(bool is_named_only, const char **reason)
{
    static char text[256];
    const char *named = getenv("FERRY_NCCL");
    *reason = text;
    if (is_named_only && named == NULL) {
        (void)snprintf(text, sizeof text, "the emulator has no NCCL");
        return false;
    }
    keep_quiet();
    void *file = dlopen(named != NULL ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (file == NULL) {
        const char *why = dlerror();
        (void)snprintf(text, sizeof text, "no NCCL: %s", why != NULL ? why : "libnccl.so.2");
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *symbol = dlsym(file, functions[i].name);
        if (symbol == NULL) {
            (void)snprintf(text, sizeof text, "absent: %s", functions[i].name);
            return false;
        }
        memcpy((char *)&nccl + functions[i].offset, &symbol, sizeof symbol);
    }
    void *revoke = dlsym(file, "ncclCommRevoke");
    memcpy(&nccl.ncclCommRevoke, &revoke, sizeof revoke); /* ISO C has no cast for it */
    return true;
}

const char *nccl_result_name(ncclResult_t result)
{
    static const char *const names[] = {
        "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
        "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress",
    };
    return (size_t)result < sizeof names / sizeof names[0] ? names[result]
                                                           : "a result without a name";
}
