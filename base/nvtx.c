/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX is only headers: they find the tool by NVTX_INJECTION64_PATH and open it by dlopen. */
#include "base/nvtx.h"

#include "base/environment.h"

#include <string.h>

#ifdef FRY_HAVE_NVTX

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

typedef struct range {
    uint64_t op; /* 0: none */
    nvtxRangeId_t id;
} range;

struct fry_nvtx {
    range ranges[FRY_NVTX_RANGES];
};

const bool fry_nvtx_is_built = true;

static pthread_once_t domain_once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t domain; /* the process's; tools keep it */

static void create_domain(void)
{
    domain = nvtxDomainCreateA("ferry");
}

static bool is_wanted(void)
{
    const char *asked = fry_environment(FRY_ENV_FERRY_NVTX);
    if (asked != NULL)
        return strcmp(asked, "1") == 0;
    return fry_environment(FRY_ENV_NVTX_INJECTION64_PATH) != NULL;
}

fry_nvtx *fry_nvtx_create(const fry_memory *memory)
{
    if (!is_wanted())
        return NULL;
    (void)pthread_once(&domain_once, create_domain);
    return fry_alloc(memory, sizeof(fry_nvtx), _Alignof(fry_nvtx));
}

static void end_range(range *ended)
{
    if (ended->op != 0)
        nvtxDomainRangeEnd(domain, ended->id);
    ended->op = 0;
}

void fry_nvtx_destroy(const fry_memory *memory, fry_nvtx *nvtx)
{
    for (size_t i = 0; nvtx != NULL && i < FRY_NVTX_RANGES; i++)
        end_range(&nvtx->ranges[i]);
    fry_free(memory, nvtx, sizeof *nvtx);
}

void fry_nvtx_start(fry_nvtx *nvtx, uint64_t op, const char *name)
{
    range *started = &nvtx->ranges[op % FRY_NVTX_RANGES];
    end_range(started);
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                        .payload.ullValue = op,
                                        .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                        .message.ascii = name};
    *started = (range){.op = op, .id = nvtxDomainRangeStartEx(domain, &attributes)};
}

void fry_nvtx_end(fry_nvtx *nvtx, uint64_t op)
{
    range *ended = &nvtx->ranges[op % FRY_NVTX_RANGES];
    if (ended->op == op)
        end_range(ended);
}

#else

const bool fry_nvtx_is_built = false;

fry_nvtx *fry_nvtx_create(const fry_memory *memory)
{
    (void)memory;
    return NULL;
}

void fry_nvtx_destroy(const fry_memory *memory, fry_nvtx *nvtx)
{
    (void)memory, (void)nvtx;
}

void fry_nvtx_start(fry_nvtx *nvtx, uint64_t op, const char *name)
{
    (void)nvtx, (void)op, (void)name;
}

void fry_nvtx_end(fry_nvtx *nvtx, uint64_t op)
{
    (void)nvtx, (void)op;
}

#endif
