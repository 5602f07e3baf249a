/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's errors by name and in words, as the toolkit's library says them. */
#include <cuda_runtime_api.h>

#include <stddef.h>

#define ERROR(name, text)                                                                          \
    {                                                                                              \
        name, #name, text                                                                          \
    }

static const struct {
    cudaError_t error;
    const char *name;
    const char *text;
} table[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    ERROR(cudaErrorProfilerDisabled, "profiler disabled while using external profiling tool"),
    ERROR(cudaErrorProfilerNotInitialized,
          "profiler not initialized: call cudaProfilerInitialize()"),
    ERROR(cudaErrorProfilerAlreadyStarted, "profiler already started"),
    ERROR(cudaErrorProfilerAlreadyStopped, "profiler already stopped"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidHostPointer, "invalid host pointer"),
    ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ERROR(cudaErrorInvalidTexture, "invalid texture reference"),
    ERROR(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"),
    ERROR(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorAddressOfConstant, "invalid address of constant"),
    ERROR(cudaErrorTextureFetchFailed, "fetch from texture failed"),
    ERROR(cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"),
    ERROR(cudaErrorSynchronizationError, "incorrect use of __syncthreads()"),
    ERROR(cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type"),
    ERROR(cudaErrorInvalidNormSetting, "read as normalized float not supported for data type"),
    ERROR(cudaErrorMixedDeviceExecution,
          "device emulation mode and device execution mode cannot be mixed"),
    ERROR(cudaErrorNotYetImplemented, "feature not yet implemented"),
    ERROR(cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit"),
    ERROR(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    ERROR(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(cudaErrorCallRequiresNewerDriver,
          "API call is not supported in the installed CUDA driver"),
    ERROR(cudaErrorInvalidSurface, "invalid surface reference"),
    ERROR(cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"),
    ERROR(cudaErrorDuplicateTextureName, "duplicate texture looked up by string name"),
    ERROR(cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name"),
    ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR(cudaErrorIncompatibleDriverContext, "incompatible driver context"),
    ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    ERROR(cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
    ERROR(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"),
    ERROR(cudaErrorLaunchFileScopedTex, "launch failed because kernel uses unsupported, "
                                        "file-scoped textures (texture objects are supported)"),
    ERROR(cudaErrorLaunchFileScopedSurf, "launch failed because kernel uses unsupported, "
                                         "file-scoped surfaces (surface objects are supported)"),
    ERROR(cudaErrorSyncDepthExceeded, "cudaDeviceSynchronize failed because caller's grid depth "
                                      "exceeds cudaLimitDevRuntimeSyncDepth"),
    ERROR(cudaErrorLaunchPendingCountExceeded,
          "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorDeviceNotLicensed, "device doesn't have valid Grid license"),
    ERROR(cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"),
    ERROR(cudaErrorStartupFailure, "startup failure in cuda runtime"),
    ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    ERROR(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    ERROR(cudaErrorUnmapBufferObjectFailed, "unmapping of buffer object failed"),
    ERROR(cudaErrorArrayIsMapped, "array is mapped"),
    ERROR(cudaErrorAlreadyMapped, "resource already mapped"),
    ERROR(cudaErrorNoKernelImageForDevice,
          "no kernel image is available for execution on the device"),
    ERROR(cudaErrorAlreadyAcquired, "resource already acquired"),
    ERROR(cudaErrorNotMapped, "resource not mapped"),
    ERROR(cudaErrorNotMappedAsArray, "resource not mapped as array"),
    ERROR(cudaErrorNotMappedAsPointer, "resource not mapped as pointer"),
    ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ERROR(cudaErrorUnsupportedLimit, "limit is not supported on this architecture"),
    ERROR(cudaErrorDeviceAlreadyInUse,
          "exclusive-thread device already in use by a different thread"),
    ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    ERROR(cudaErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    ERROR(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error detected during the execution"),
    ERROR(cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found"),
    ERROR(cudaErrorUnsupportedPtxVersion,
          "the provided PTX was compiled with an unsupported toolchain."),
    ERROR(cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled"),
    ERROR(cudaErrorUnsupportedExecAffinity, "the provided execution affinity is not supported"),
    ERROR(cudaErrorUnsupportedDevSideSync,
          "the provided PTX contains unsupported call to cudaDeviceSynchronize"),
    ERROR(cudaErrorContained, "Invalid access of peer GPU memory over nvlink or a hardware error"),
    ERROR(cudaErrorInvalidSource, "device kernel image is invalid"),
    ERROR(cudaErrorFileNotFound, "file not found"),
    ERROR(cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
    ERROR(cudaErrorSharedObjectInitFailed, "shared object initialization failed"),
    ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorLossyQuery, "attempted introspection would be semantically lossy"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ERROR(cudaErrorLaunchIncompatibleTexturing, "launch uses incompatible texturing mode"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR(cudaErrorSetOnActiveProcess, "cannot set while device is active in this process"),
    ERROR(cudaErrorContextIsDestroyed, "context is destroyed"),
    ERROR(cudaErrorAssert, "device-side assert triggered"),
    ERROR(cudaErrorTooManyPeers, "peer mapping resources exhausted"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered,
          "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"),
    ERROR(cudaErrorInvalidPc, "invalid program counter"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ERROR(cudaErrorTensorMemoryLeak, "tensor memory not completely freed"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    ERROR(cudaErrorSystemDriverMismatch,
          "system has unsupported display driver / cuda driver combination"),
    ERROR(cudaErrorCompatNotSupportedOnDevice,
          "forward compatibility was attempted on non supported HW"),
    ERROR(cudaErrorMpsConnectionFailed,
          "MPS client failed to connect to the MPS control daemon or the MPS server"),
    ERROR(cudaErrorMpsRpcFailure,
          "the remote procedural call between the MPS server and the MPS client failed"),
    ERROR(cudaErrorMpsServerNotReady, "MPS server is not ready to accept new MPS client requests"),
    ERROR(cudaErrorMpsMaxClientsReached,
          "the hardware resources required to create MPS client have been exhausted"),
    ERROR(cudaErrorMpsMaxConnectionsReached,
          "the hardware resources required to support device connections have been exhausted"),
    ERROR(cudaErrorMpsClientTerminated, "the MPS client has been terminated by the server"),
    ERROR(cudaErrorCdpNotSupported, "is using CUDA Dynamic Parallelism, but the current "
                                    "configuration, like MPS, does not support it"),
    ERROR(cudaErrorCdpVersionMismatch,
          "unsupported interaction between different versions of CUDA Dynamic Parallelism"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureMerge,
          "operation would result in a merge of separate capture sequences"),
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    ERROR(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(cudaErrorTimeout, "wait operation timed out"),
    ERROR(cudaErrorGraphExecUpdateFailure,
          "the graph update was not performed because it included changes which violated "
          "constraints specific to instantiated graph update"),
    ERROR(cudaErrorExternalDevice, "an async error has occured in external entity outside of CUDA"),
    ERROR(cudaErrorInvalidClusterSize,
          "a kernel launch error has occurred due to cluster misconfiguration"),
    ERROR(cudaErrorFunctionNotLoaded,
          "the function handle is not loaded when calling an API that requires a loaded function"),
    ERROR(cudaErrorInvalidResourceType,
          "one or more resources passed in are not valid resource types for the operation"),
    ERROR(cudaErrorInvalidResourceConfiguration,
          "one or more resources are insufficient or non-applicable for the operation"),
    ERROR(cudaErrorUnknown, "unknown error"),
};

static size_t find(cudaError_t error)
{
    size_t i = 0;
    while (i < sizeof(table) / sizeof(table[0]) && table[i].error != error)
        i++;
    return i;
}

const char *cudaGetErrorName(cudaError_t error)
{
    size_t i = find(error);
    return i < sizeof(table) / sizeof(table[0]) ? table[i].name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    size_t i = find(error);
    return i < sizeof(table) / sizeof(table[0]) ? table[i].text : "unrecognized error code";
}
