/* SPDX-License-Identifier: Apache-2.0 */
/* Functions by name and version, and what results are called. */
#include "tests/emu/driver.h"
#include <string.h>

typedef struct function {
    const char *name;
    int version; /* the first CUDA whose form of it this is */
    void *address;
} function;

static CUresult get_proc_address_v1(const char *name, void **address_p, int version,
                                    cuuint64_t flags)
{
    return cuGetProcAddress(name, address_p, version, flags, NULL);
}

static CUresult context_create_v2(CUcontext *context_p, unsigned int flags, CUdevice ordinal)
{
    return cuCtxCreate(context_p, NULL, flags, ordinal);
}

static CUresult context_create_v3(CUcontext *context_p, CUexecAffinityParam *params, int count,
                                  unsigned int flags, CUdevice ordinal)
{
    if (params != NULL || count != 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return cuCtxCreate(context_p, NULL, flags, ordinal);
}

static CUresult copy_batch_v1(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                              CUmemcpyAttributes *attributes, size_t *attribute_indexes,
                              size_t attribute_count, size_t *failed_index_p, CUstream stream)
{
    if (failed_index_p != NULL)
        *failed_index_p = SIZE_MAX; /* not one of the copies */
    return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, attribute_indexes,
                              attribute_count, stream);
}

/* Later forms of a name stand behind earlier ones. */
static const function functions[] = {
    {"cuGetProcAddress", 11030, (void *)get_proc_address_v1},
    {"cuCtxCreate", 3020, (void *)context_create_v2},
    {"cuCtxCreate", 11040, (void *)context_create_v3},
    {"cuIpcOpenMemHandle", 4010, (void *)cuIpcOpenMemHandle},
    {"cuMemcpyBatchAsync", 12080, (void *)copy_batch_v1},
#define FUNCTION(name, version, traits) {#name, version, (void *)name},
    EMU_CALLS(FUNCTION)
#undef FUNCTION
    /* Whoever asks for these as of CUDA 13 gets functions with one parameter more. */
    {"cuCtxGetDevice", 13000, (void *)cuCtxGetDevice_v2},
    {"cuCtxSynchronize", 13000, (void *)cuCtxSynchronize_v2},
    {"cuStreamGetCtx", 12050, (void *)cuStreamGetCtx_v2},
};

CUresult cuGetProcAddress(const char *name, void **address_p, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status_p)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = emu_enter(EMU_CALL_cuGetProcAddress);

    if (result != CUDA_SUCCESS)
        return result;
    if (name == NULL || address_p == NULL || version > emu.version ||
        (flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *address_p = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) != 0 || functions[i].address == NULL)
            continue;
        if (functions[i].version <= version) {
            *address_p = functions[i].address;
            status = CU_GET_PROC_ADDRESS_SUCCESS;
        } else if (*address_p == NULL) {
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        }
    }
    if (status_p != NULL)
        *status_p = status;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Results -------------------------------------------------------------------------------- */

static const struct {
    CUresult result;
    const char *name;
    const char *text;
} results[] = {
#define RESULT(name, text) {name, #name, text},
#include "tests/emu/results.h"
#undef RESULT
};

static CUresult result_text(emu_call call, CUresult result, const char **text_p, bool name)
{
    CUresult entered = emu_enter(call);

    if (entered != CUDA_SUCCESS)
        return entered;
    if (text_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *text_p = NULL;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].result == result)
            *text_p = name ? results[i].name : results[i].text;
    }
    return emu_leave(*text_p != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGetErrorName(CUresult result, const char **name_p)
{
    return result_text(EMU_CALL_cuGetErrorName, result, name_p, true);
}

CUresult cuGetErrorString(CUresult result, const char **text_p)
{
    return result_text(EMU_CALL_cuGetErrorString, result, text_p, false);
}
