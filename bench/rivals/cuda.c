/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rivals/cuda.h"

#include "bench/bench.h"
#include "bench/rivals/cuda_check.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <ferry_kernels.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define THREADS 256 /* of a block */
#define WARM_BYTES ((size_t)65536)

/* The driver's calls that the runtime has no names for, found through it: nothing links libcuda. */
static PFN_cuModuleLoadData_v2000 module_load;
static PFN_cuModuleGetFunction_v2000 module_get_function;
static PFN_cuLaunchKernel_v4000 launch_kernel;
static PFN_cuStreamWriteValue32_v11070 write_value; /* NULL: this driver can't */

static cuda_facts facts;
static CUfunction spin_kernel, wait_flag_kernel, fill_kernel, fill_pattern_kernel,
    check_pattern_kernel, layer_kernel;
static uint32_t *pattern_errors; /* on the GPU */
static bool has_batch;

void cuda_fail(const char *what, int code)
{
    bench_fail("%s: %s (%s)", what, cudaGetErrorString((cudaError_t)code),
               cudaGetErrorName((cudaError_t)code));
}

/* tests/emu's driver counts them. */
bool cuda_driver_calls(uint64_t *count_p)
{
    static uint64_t (*total)(void);
    if (total == NULL)
        *(void **)&total = dlsym(RTLD_DEFAULT, "emu_call_total");
    if (total != NULL)
        *count_p = total();
    return total != NULL;
}

/* ---- opening ---- */

static int attribute(enum cudaDeviceAttr what)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, what, 0) == cudaSuccess ? value : 0;
}

const cuda_facts *cuda_look(const char **reason)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        *reason = error == cudaSuccess ? "there is none" : cudaGetErrorString(error);
        return NULL;
    }
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    (void)snprintf(facts.name, sizeof facts.name, "%s", properties.name);
    facts.is_emulated = strncasecmp(facts.name, "emulated", 8) == 0;
    facts.memory_bytes = properties.totalGlobalMem;
    facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
    facts.clock_khz = attribute(cudaDevAttrClockRate);
    facts.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate);
    CUDA_CHECK(cudaDriverGetVersion(&facts.driver_version));
    CUDA_CHECK(cudaRuntimeGetVersion(&facts.runtime_version));
    return &facts;
}

static void *find_entry(const char *name, unsigned version, bool is_optional)
{
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult result;
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &result);
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess)
        return entry;
    (void)cudaGetLastError();
    if (!is_optional)
        bench_fail("the driver has no %s", name);
    return NULL;
}

static CUfunction find_kernel(CUmodule module, const char *name)
{
    CUfunction kernel;
    CUresult error = module_get_function(&kernel, module, name);
    if (error != CUDA_SUCCESS)
        bench_fail("no kernel %s: driver error %d", name, (int)error);
    return kernel;
}

static void load_kernels(void)
{
    CUmodule module;
    CUresult error = module_load(&module, ferry_kernels_ptx);
    if (error != CUDA_SUCCESS)
        bench_fail("the driver does not take the kernels: error %d", (int)error);
    spin_kernel = find_kernel(module, "ferry_spin");
    wait_flag_kernel = find_kernel(module, "ferry_wait_flag");
    fill_kernel = find_kernel(module, "ferry_fill");
    fill_pattern_kernel = find_kernel(module, "ferry_fill_pattern");
    check_pattern_kernel = find_kernel(module, "ferry_check_pattern");
    layer_kernel = find_kernel(module, "ferry_layer");
}

/*
 * Launches each kernel once. A kernel's first launch loads it, and may wait for all that runs; one
 * that runs until the host says so would never end then.
 */
static void warm_up(void)
{
    void *stream = cuda_stream_open(false);
    void *target = cuda_memory_alloc(WARM_BYTES);
    void *source = cuda_memory_alloc(WARM_BYTES);
    uint32_t *flag = cuda_pinned_alloc(sizeof *flag);
    cuda_spin(0, stream);
    cuda_wait_flag(flag, 0, stream);
    cuda_touch(target, 0, stream);
    cuda_pattern_fill(source, WARM_BYTES, 1, stream);
    cuda_copy(target, source, WARM_BYTES, stream);
    cuda_stream_synchronize(stream);
    if (cuda_pattern_errors(target, WARM_BYTES, 1) != 0)
        bench_fail("the kernels don't do what they should");
    cuda_layer(16, 1, source, source, target, stream);
    cuda_stream_synchronize(stream);
    cuda_pinned_free(flag);
    cuda_memory_free(source);
    cuda_memory_free(target);
    cuda_stream_close(stream);
}

const cuda_facts *cuda_open(void)
{
    static bool is_open;
    const char *reason = NULL;
    if (is_open)
        return &facts;
    if (cuda_look(&reason) == NULL)
        bench_fail("no GPU: %s", reason);
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaFree(NULL)); /* makes the context */
    module_load = (PFN_cuModuleLoadData_v2000)find_entry("cuModuleLoadData", 2000, false);
    module_get_function =
        (PFN_cuModuleGetFunction_v2000)find_entry("cuModuleGetFunction", 2000, false);
    launch_kernel = (PFN_cuLaunchKernel_v4000)find_entry("cuLaunchKernel", 4000, false);
    write_value = (PFN_cuStreamWriteValue32_v11070)find_entry("cuStreamWriteValue32", 11070, true);
    has_batch = find_entry("cuMemcpyBatchAsync", 13000, true) != NULL;
    load_kernels();
    pattern_errors = cuda_memory_alloc(sizeof *pattern_errors);
    warm_up();
    is_open = true;
    return &facts;
}

/* ---- memory ---- */

void *cuda_memory_alloc(size_t size_bytes)
{
    void *memory = NULL;
    CUDA_CHECK(cudaMalloc(&memory, size_bytes));
    return memory;
}

void cuda_memory_free(void *memory)
{
    CUDA_CHECK(cudaFree(memory));
}

void *cuda_pinned_alloc(size_t size_bytes)
{
    void *memory = NULL;
    CUDA_CHECK(cudaHostAlloc(&memory, size_bytes, cudaHostAllocPortable));
    memset(memory, 0, size_bytes);
    return memory;
}

void cuda_pinned_free(void *memory)
{
    CUDA_CHECK(cudaFreeHost(memory));
}

void cuda_copy_now(void *target, const void *source, size_t size_bytes)
{
    CUDA_CHECK(cudaMemcpy(target, source, size_bytes, cudaMemcpyDefault));
    CUDA_CHECK(cudaDeviceSynchronize()); /* from device to device it returns before it is done */
}

/* ---- streams and events ---- */

void *cuda_stream_open(bool is_highest_priority)
{
    int lowest, highest;
    cudaStream_t stream;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                            is_highest_priority ? highest : 0));
    return stream;
}

void cuda_stream_close(void *stream)
{
    CUDA_CHECK(cudaStreamDestroy(stream));
}

void cuda_stream_synchronize(void *stream)
{
    CUDA_CHECK(cudaStreamSynchronize(stream));
}

void cuda_stream_wait(void *stream, void *event)
{
    CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
}

void cuda_synchronize(void)
{
    CUDA_CHECK(cudaDeviceSynchronize());
}

void *cuda_event_open(cuda_event_kind kind)
{
    cudaEvent_t event;
    unsigned flags = kind == CUDA_EVENT_TIMED ? cudaEventDefault : cudaEventDisableTiming;
    if (kind == CUDA_EVENT_BLOCKING)
        flags |= cudaEventBlockingSync;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    return event;
}

void cuda_event_close(void *event)
{
    CUDA_CHECK(cudaEventDestroy(event));
}

void cuda_event_record(void *event, void *stream)
{
    CUDA_CHECK(cudaEventRecord(event, stream));
}

bool cuda_event_is_fired(void *event)
{
    cudaError_t error = cudaEventQuery(event);
    if (error != cudaSuccess && error != cudaErrorNotReady)
        cuda_fail("cudaEventQuery", (int)error);
    return error == cudaSuccess;
}

void cuda_event_synchronize(void *event)
{
    CUDA_CHECK(cudaEventSynchronize(event));
}

double cuda_event_elapsed_ns(void *start, void *end)
{
    float elapsed_ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, start, end));
    return (double)elapsed_ms * 1e6;
}

/* ---- what runs on streams ---- */

void cuda_copy(void *target, const void *source, size_t size_bytes, void *stream)
{
    CUDA_CHECK(cudaMemcpyAsync(target, source, size_bytes, cudaMemcpyDefault, stream));
}

bool cuda_copy_batch(void *const *targets, void *const *sources, size_t size_bytes, size_t count,
                     void *stream)
{
    static size_t *sizes;
    static size_t capacity;
    if (!has_batch)
        return false;
    if (count > capacity) {
        free(sizes);
        sizes = bench_alloc(count * sizeof *sizes);
        capacity = count;
    }
    for (size_t i = 0; i < count; i++)
        sizes[i] = size_bytes;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;
    CUDA_CHECK(cudaMemcpyBatchAsync(targets, (const void *const *)sources, sizes, count,
                                    &attributes, &first, 1, stream));
    return true;
}

bool cuda_word_write(uint32_t *word, uint32_t value, void *stream)
{
    if (write_value == NULL)
        return false;
    CUresult error =
        write_value(stream, (CUdeviceptr)(uintptr_t)word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (error != CUDA_SUCCESS)
        bench_fail("cuStreamWriteValue32: error %d", (int)error);
    return true;
}

void cuda_host_call(void (*fn)(void *arg), void *arg, void *stream)
{
    CUDA_CHECK(cudaLaunchHostFunc(stream, fn, arg));
}

static void launch(CUfunction kernel, unsigned blocks, unsigned threads, void **arguments,
                   void *stream)
{
    CUresult error = launch_kernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
    if (error != CUDA_SUCCESS)
        bench_fail("cuLaunchKernel: error %d", (int)error);
}

void cuda_spin(int64_t duration_ns, void *stream)
{
    uint64_t duration = (uint64_t)duration_ns;
    launch(spin_kernel, 1, 1, (void *[]){&duration}, stream);
}

void cuda_wait_flag(const uint32_t *flag, uint32_t value, void *stream)
{
    launch(wait_flag_kernel, 1, 1, (void *[]){&flag, &value}, stream);
}

void cuda_touch(uint32_t *word, uint32_t value, void *stream)
{
    uint64_t count = 1;
    launch(fill_kernel, 1, 1, (void *[]){&word, &count, &value}, stream);
}

/* As many blocks as are busy at once, four for each multiprocessor. */
static unsigned full_grid(void)
{
    return (unsigned)facts.multiprocessors * 4;
}

void cuda_pattern_fill(void *words, size_t size_bytes, uint64_t seed, void *stream)
{
    uint64_t count = size_bytes / sizeof(uint64_t);
    launch(fill_pattern_kernel, full_grid(), THREADS, (void *[]){&words, &count, &seed}, stream);
}

uint32_t cuda_pattern_errors(const void *words, size_t size_bytes, uint64_t seed)
{
    uint64_t count = size_bytes / sizeof(uint64_t);
    uint32_t errors = 0;
    CUDA_CHECK(cudaMemset(pattern_errors, 0, sizeof *pattern_errors));
    CUDA_CHECK(cudaDeviceSynchronize());
    launch(check_pattern_kernel, full_grid(), THREADS,
           (void *[]){&words, &count, &seed, &pattern_errors}, NULL);
    CUDA_CHECK(cudaDeviceSynchronize());
    cuda_copy_now(&errors, pattern_errors, sizeof errors);
    return errors;
}

void cuda_layer(size_t width, size_t rows, const void *weights, const void *in, void *out,
                void *stream)
{
    uint64_t wide = width, high = rows;
    unsigned blocks = (unsigned)((rows + 3) / 4 * width / THREADS + 1);
    launch(layer_kernel, blocks, THREADS, (void *[]){&wide, &high, &weights, &in, &out}, stream);
}
