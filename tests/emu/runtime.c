/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/runtime.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define DEVICES_MAX 64

static _Thread_local cudaError_t last_error;
static _Thread_local int thread_device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[DEVICES_MAX]; /* by device; NULL: not retained yet */

cudaError_t rt_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

/* The numbers are the same since CUDA 10.1; what has no name is not the runtime's. */
cudaError_t rt_result(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return cudaSuccess;
    cudaError_t error = (cudaError_t)result;
    if (strcmp(cudaGetErrorName(error), "unrecognized error code") == 0)
        error = cudaErrorUnknown;
    return rt_error(error);
}

CUresult rt_primary(int device, CUcontext *context_p)
{
    CUdevice handle;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS && device >= DEVICES_MAX)
        result = CUDA_ERROR_INVALID_DEVICE;
    if (result != CUDA_SUCCESS)
        return result;

    (void)pthread_mutex_lock(&lock);
    if (primaries[device] == NULL)
        result = cuDevicePrimaryCtxRetain(&primaries[device], handle);
    *context_p = primaries[device];
    (void)pthread_mutex_unlock(&lock);
    return result;
}

CUresult rt_reset(int device)
{
    CUresult result = CUDA_SUCCESS;
    (void)pthread_mutex_lock(&lock);
    if (device < DEVICES_MAX && primaries[device] != NULL)
        result = cuDevicePrimaryCtxReset(device);
    (void)pthread_mutex_unlock(&lock);
    return result;
}

CUresult rt_ready(void)
{
    CUcontext context = NULL;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS || context != NULL)
        return result;
    result = rt_primary(thread_device, &context);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return rt_error(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (version == NULL)
        return rt_error(cudaErrorInvalidValue);
    return rt_result(cuDriverGetVersion(version));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (symbol == NULL || function == NULL || version > CUDA_VERSION)
        return rt_error(cudaErrorInvalidValue);
    *function = NULL;
    CUresult result = cuGetProcAddress(symbol, function, (int)version, flags, &found);
    if (status != NULL)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    /* What is not there is told by the status and by NULL alone. */
    return rt_result(result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (count == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetCount(count);
    if (result == CUDA_SUCCESS && *count == 0)
        result = CUDA_ERROR_NO_DEVICE;
    return rt_result(result);
}

cudaError_t cudaSetDevice(int device)
{
    CUcontext context;
    CUresult result = rt_primary(device, &context);
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS)
        thread_device = device;
    return rt_result(result);
}

cudaError_t cudaGetDevice(int *device)
{
    CUcontext context = NULL;
    CUdevice handle = thread_device;
    if (device == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && context != NULL)
        result = cuCtxGetDevice(&handle);
    if (result == CUDA_SUCCESS)
        *device = handle;
    return rt_result(result);
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    CUcontext context;
    if (flags != 0 && flags != cudaInitDeviceFlagsAreValid)
        return rt_error(cudaErrorInvalidValue);
    (void)device_flags; /* how threads wait, which is one and the same here */
    return rt_result(rt_primary(device, &context));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    CUdevice handle;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, handle);
    return rt_result(result);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    CUdevice handle;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetPCIBusId(text, length, handle);
    return rt_result(result);
}

/* The fields that are attributes of the driver's, by their place. */
static const struct {
    CUdevice_attribute attribute;
    size_t offset;
} number_fields[] = {
#define FIELD(name, attribute)                                                                     \
    {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##attribute, offsetof(struct cudaDeviceProp, name)                     \
    }
    FIELD(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    FIELD(warpSize, WARP_SIZE),
    FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    FIELD(maxThreadsDim[0], MAX_BLOCK_DIM_X),
    FIELD(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
    FIELD(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
    FIELD(maxGridSize[0], MAX_GRID_DIM_X),
    FIELD(maxGridSize[1], MAX_GRID_DIM_Y),
    FIELD(maxGridSize[2], MAX_GRID_DIM_Z),
    FIELD(major, COMPUTE_CAPABILITY_MAJOR),
    FIELD(minor, COMPUTE_CAPABILITY_MINOR),
    FIELD(multiProcessorCount, MULTIPROCESSOR_COUNT),
    FIELD(integrated, INTEGRATED),
    FIELD(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    FIELD(concurrentKernels, CONCURRENT_KERNELS),
    FIELD(ECCEnabled, ECC_ENABLED),
    FIELD(pciBusID, PCI_BUS_ID),
    FIELD(pciDeviceID, PCI_DEVICE_ID),
    FIELD(pciDomainID, PCI_DOMAIN_ID),
    FIELD(asyncEngineCount, ASYNC_ENGINE_COUNT),
    FIELD(unifiedAddressing, UNIFIED_ADDRESSING),
    FIELD(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    FIELD(l2CacheSize, L2_CACHE_SIZE),
    FIELD(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    FIELD(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    FIELD(managedMemory, MANAGED_MEMORY),
    FIELD(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
    FIELD(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    FIELD(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    FIELD(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    FIELD(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    FIELD(cooperativeLaunch, COOPERATIVE_LAUNCH),
    FIELD(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    FIELD(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    FIELD(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
    FIELD(ipcEventSupported, IPC_EVENT_SUPPORTED),
#undef FIELD
};

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    CUdevice handle;
    if (properties == NULL)
        return rt_error(cudaErrorInvalidValue);
    *properties = (struct cudaDeviceProp){0};
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetName(properties->name, (int)sizeof(properties->name), handle);
    if (result == CUDA_SUCCESS)
        result = cuDeviceTotalMem(&properties->totalGlobalMem, handle);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetUuid(&properties->uuid, handle);
    for (size_t i = 0; i < sizeof(number_fields) / sizeof(number_fields[0]); i++) {
        int value = 0;
        if (result == CUDA_SUCCESS)
            result = cuDeviceGetAttribute(&value, number_fields[i].attribute, handle);
        memcpy((char *)properties + number_fields[i].offset, &value, sizeof(value));
    }
    return rt_result(result);
}

cudaError_t cudaDeviceSynchronize(void)
{
    RT_FORWARD(cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    return error == cudaSuccess ? rt_result(rt_reset(device)) : error;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    RT_FORWARD(cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaDeviceCanAccessPeer(int *can_access, int device, int peer)
{
    CUdevice handle;
    CUdevice peer_handle;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&peer_handle, peer);
    if (result == CUDA_SUCCESS)
        result = cuDeviceCanAccessPeer(can_access, handle, peer_handle);
    return rt_result(result);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context;
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS)
        result = rt_primary(peer, &context);
    if (result == CUDA_SUCCESS)
        result = cuCtxEnablePeerAccess(context, flags);
    return rt_result(result);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS)
        result = rt_primary(peer, &context);
    if (result == CUDA_SUCCESS)
        result = cuCtxDisablePeerAccess(context);
    return rt_result(result);
}
