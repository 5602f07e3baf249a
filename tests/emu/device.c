/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: how many, what they say of themselves. */
#include "tests/emu/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_BYTES ((uint64_t)32 << 30)

/* Two devices of an H200's kind, whose memory is a part of one's. */
static void devices_make(void)
{
    const char *const count = getenv("FERRY_EMU_DEVICES");
    const long wanted = count != NULL ? strtol(count, NULL, 10) : 2;

    emu.device_count = wanted < 1 ? 1 : wanted > EMU_DEVICES_MOST ? EMU_DEVICES_MOST : (int)wanted;
    for (int i = 0; i < emu.device_count; i++) {
        emu_device *const device = &emu.devices[i];
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}};

        device->ordinal = i;
        snprintf(device->name, sizeof device->name, "Emulated H200 %d", i);
        device->total_bytes = DEVICE_BYTES;
        for (int direction = 0; direction < EMU_DIRECTIONS; direction++) {
            device->engines[direction].free = direction == EMU_ON_DEVICE ? 2 : 1;
            TAILQ_INIT(&device->engines[direction].ready);
        }
        device->default_pool = device->pool = emu_pool_new(device, &props);
        device->default_pool->is_default = true;
    }
}

static bool has_no_devices(void)
{
    const char *const count = getenv("FERRY_EMU_DEVICES");

    return count != NULL && strcmp(count, "0") == 0;
}

CUresult cuInit(unsigned int flags)
{
    CUresult result = emu_enter(EMU_CALL_cuInit);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (emu.forked)
        return emu_leave(CUDA_ERROR_NOT_INITIALIZED);
    if (has_no_devices())
        return emu_leave(CUDA_ERROR_NO_DEVICE);
    if (!emu.initialised) {
        emu.initialised = true;
        devices_make();
        emu_script_read();
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version_p)
{
    CUresult result = emu_enter(EMU_CALL_cuDriverGetVersion);

    if (result != CUDA_SUCCESS)
        return result;
    if (version_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *version_p = emu.version;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetCount(int *count_p)
{
    CUresult result = emu_enter(EMU_CALL_cuDeviceGetCount);

    if (result != CUDA_SUCCESS)
        return result;
    if (count_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *count_p = emu.device_count;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device_p, int ordinal)
{
    CUresult result = emu_enter(EMU_CALL_cuDeviceGet);

    if (result != CUDA_SUCCESS)
        return result;
    if (device_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *device_p = ordinal;
    return emu_leave(CUDA_SUCCESS);
}

/* The call has begun with success; sets *device_p, or ends it. */
static CUresult enter_device(emu_call call, CUdevice ordinal, const void *result_p,
                             const emu_device **device_p)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    if (result_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *device_p = &emu.devices[ordinal];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size_bytes, CUdevice ordinal)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceGetName, ordinal, name, &device);

    if (result != CUDA_SUCCESS)
        return result;
    if (size_bytes <= 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)size_bytes, "%s", device->name);
    return emu_leave(CUDA_SUCCESS);
}

static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6016},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
};

CUresult cuDeviceGetAttribute(int *value_p, CUdevice_attribute attribute, CUdevice ordinal)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceGetAttribute, ordinal, value_p, &device);

    if (result != CUDA_SUCCESS)
        return result;
    *value_p = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? 0x10 + device->ordinal : 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (attributes[i].attribute == attribute)
            *value_p = attributes[i].value;
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)
        *value_p = emu.ipc;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem(size_t *size_bytes_p, CUdevice ordinal)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceTotalMem, ordinal, size_bytes_p, &device);

    if (result != CUDA_SUCCESS)
        return result;
    *size_bytes_p = device->total_bytes;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid(CUuuid *uuid_p, CUdevice ordinal)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceGetUuid, ordinal, uuid_p, &device);

    if (result != CUDA_SUCCESS)
        return result;
    memcpy(uuid_p->bytes, "emulated device ", sizeof uuid_p->bytes);
    uuid_p->bytes[15] = (char)('0' + device->ordinal);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *text, int size_bytes, CUdevice ordinal)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceGetPCIBusId, ordinal, text, &device);

    if (result != CUDA_SUCCESS)
        return result;
    if (size_bytes < 13)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(text, (size_t)size_bytes, "0000:%02X:00.0", 0x10 + device->ordinal);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceCanAccessPeer(int *can_p, CUdevice ordinal, CUdevice peer)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceCanAccessPeer, ordinal, can_p, &device);

    if (result != CUDA_SUCCESS)
        return result;
    if (peer < 0 || peer >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *can_p = ordinal != peer && emu.peers;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *value_p, CUdevice_P2PAttribute attribute, CUdevice ordinal,
                                 CUdevice peer)
{
    const emu_device *device = NULL;
    CUresult result = enter_device(EMU_CALL_cuDeviceGetP2PAttribute, ordinal, value_p, &device);

    if (result != CUDA_SUCCESS)
        return result;
    if (peer < 0 || peer >= emu.device_count || peer == ordinal)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *value_p = emu.peers && (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
    return emu_leave(CUDA_SUCCESS);
}
