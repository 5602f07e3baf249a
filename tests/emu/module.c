/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, their functions, and launches. A module is a PTX text, read for the entries it has, or a
 * binary, of which nothing is known but that it is one: of that the built-in kernels alone are
 * found.
 */
#include "tests/emu/module.h"

#include "tests/emu/driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define PTX_VERSION_MOST 90 /* what the driver of CUDA 13.0 takes */
#define TARGET_MOST 90      /* the devices are sm_90 */
#define BLOCK_THREADS_MOST 1024
#define SHARED_BYTES_MOST (227 * 1024)
#define GRID_X_MOST 0x7fffffff
#define GRID_YZ_MOST 65535
#define NAME_BYTES 192
#define PARAM_ALIGN 64 /* that of a block of parameters: as much as any of them asks for */

struct CUmod_st {
    emu_object object;
    LIST_ENTRY(CUmod_st) entry; /* modules */
    CUcontext context;
    bool is_binary;
    emu_ptx ptx;
    LIST_HEAD(, CUfunc_st) functions; /* those that were asked for */
    unsigned pending;                 /* launches that stand in streams */
};

struct CUfunc_st {
    emu_object object;
    LIST_ENTRY(CUfunc_st) entry;
    CUmodule module;        /* a reference */
    char label[NAME_BYTES]; /* "kernel NAME", for reports */
    const char *name;       /* within it */
    emu_kernel_function *run;
    emu_touches_function *touches; /* or NULL */
    emu_ptx_entry params;          /* without the name */
    size_t block_bytes;            /* of all of them */
    bool is_loaded;
};

/* What a launch keeps until it is done. The parameters stand behind it. */
typedef struct launch_data {
    CUfunction function; /* a reference */
    emu_launch launch;
    void **params;
    bool counted; /* in the module's pending */
    bool broken;  /* was caught when it was issued; it raises an error and does not run */
} launch_data;

static LIST_HEAD(, CUmod_st) modules = LIST_HEAD_INITIALIZER(modules);

bool emu_launch_stopped(const emu_launch *launch)
{
    return emu_operation_stopped(launch->operation);
}

/* ---- Modules -------------------------------------------------------------------------------- */

static void free_module(emu_object *object)
{
    CUmodule module = (CUmodule)object;
    emu_ptx_free(&module->ptx);
}

static void free_function(emu_object *object)
{
    emu_object_drop(((CUfunction)object)->module);
}

static CUresult read_image(const void *image, CUmodule module)
{
    static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'};
    static const unsigned char fat_binary[] = {0x50, 0xed, 0x55, 0xba};
    static const unsigned char fat_binary_wrapper[] = {0xb1, 0x43, 0x62, 0x46};
    module->is_binary =
        strncmp(image, (const char *)elf, sizeof(elf)) == 0 ||
        strncmp(image, (const char *)fat_binary, sizeof(fat_binary)) == 0 ||
        strncmp(image, (const char *)fat_binary_wrapper, sizeof(fat_binary_wrapper)) == 0;
    if (module->is_binary)
        return CUDA_SUCCESS;
    switch (emu_ptx_read(image, &module->ptx)) {
    case EMU_PTX_NOT:
        return CUDA_ERROR_INVALID_IMAGE;
    case EMU_PTX_BAD:
        return CUDA_ERROR_INVALID_PTX;
    case EMU_PTX_OK:
        break;
    }
    if (module->ptx.version > PTX_VERSION_MOST)
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    return module->ptx.target > TARGET_MOST ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
}

static void unload(CUmodule module)
{
    CUfunction function;
    while ((function = LIST_FIRST(&module->functions)) != NULL) {
        LIST_REMOVE(function, entry);
        emu_object_destroy(function);
    }
    LIST_REMOVE(module, entry);
    emu.counters.live_modules--;
    emu_object_destroy(module);
}

void emu_modules_unload(CUcontext context)
{
    CUmodule module;
    CUmodule following;
    LIST_FOREACH_SAFE(module, &modules, entry, following) {
        if (module->context == context)
            unload(module);
    }
}

static CUresult load(CUcontext context, const void *image, CUmodule *module_p)
{
    if (module_p == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUmodule module = emu_object_new(EMU_OBJECT_MODULE, sizeof(*module), free_module);
    module->context = context;
    LIST_INIT(&module->functions);
    LIST_INSERT_HEAD(&modules, module, entry);
    emu.counters.live_modules++;
    CUresult result = read_image(image, module);
    if (result == CUDA_SUCCESS)
        *module_p = module;
    else
        unload(module);
    return result;
}

CUresult cuModuleLoadData(CUmodule *module_p, const void *image)
{
    CUcontext context;
    CUresult result = emu_enter_context(EMU_CALL_cuModuleLoadData, &context);
    if (result != CUDA_SUCCESS)
        return result;
    return emu_leave(load(context, image, module_p));
}

CUresult cuModuleLoadDataEx(CUmodule *module_p, const void *image, unsigned option_count,
                            CUjit_option *options, void **values)
{
    CUcontext context;
    CUresult result = emu_enter_context(EMU_CALL_cuModuleLoadDataEx, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (option_count > 0 && (options == NULL || values == NULL))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(load(context, image, module_p));
}

CUresult cuModuleUnload(CUmodule handle)
{
    CUcontext context;
    CUresult result = emu_enter_context(EMU_CALL_cuModuleUnload, &context);
    if (result != CUDA_SUCCESS)
        return result;
    CUmodule module = emu_object_find(EMU_OBJECT_MODULE, handle);
    if (module == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (module->pending > 0)
        emu_catch(EMU_CATCH_MISUSE, "a module is unloaded with %u of its kernels still in streams",
                  module->pending);
    unload(module);
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Functions ------------------------------------------------------------------------------ */

static const emu_ptx_entry *find_entry(const emu_ptx *ptx, const char *name)
{
    for (size_t i = 0; i < ptx->entry_count; i++) {
        if (strcmp(ptx->entries[i].name, name) == 0)
            return &ptx->entries[i];
    }
    return NULL;
}

/* Sets what runs: the built-in kernel, or what the program exports. */
static bool find_code(CUfunction function, const char *name)
{
    const emu_kernel *kernel = emu_kernel_find(name);
    if (kernel != NULL) {
        function->run = kernel->run;
        function->touches = kernel->touches;
        return true;
    }
    char symbol[NAME_BYTES + 16];
    (void)snprintf(symbol, sizeof(symbol), "emu_kernel_%s", name);
    function->run = (emu_kernel_function *)dlsym(RTLD_DEFAULT, symbol);
    (void)snprintf(symbol, sizeof(symbol), "emu_touches_%s", name);
    function->touches = (emu_touches_function *)dlsym(RTLD_DEFAULT, symbol);
    return function->run != NULL;
}

/* Sets the parameters: the module's, or where that can't tell, the built-in kernel's. */
static bool find_params(CUfunction function, const char *name)
{
    const emu_kernel *kernel = emu_kernel_find(name);
    emu_ptx_entry *params = &function->params;
    if (!function->module->is_binary) {
        *params = *find_entry(&function->module->ptx, name);
    } else if (kernel == NULL) {
        return false;
    } else {
        size_t offset = 0;
        for (size_t i = 0; i < kernel->param_count; i++) {
            size_t size_bytes = kernel->param_bytes[i];
            offset = (offset + size_bytes - 1) / size_bytes * size_bytes;
            params->param_offsets[i] = offset;
            params->param_bytes[i] = size_bytes;
            offset += size_bytes;
        }
        params->param_count = kernel->param_count;
    }
    params->name = NULL;
    if (params->param_count > 0)
        function->block_bytes = params->param_offsets[params->param_count - 1] +
                                params->param_bytes[params->param_count - 1];
    if (kernel == NULL)
        return true;
    bool same = kernel->param_count == params->param_count;
    for (size_t i = 0; i < kernel->param_count && same; i++)
        same = kernel->param_bytes[i] == params->param_bytes[i];
    if (!same)
        emu_catch(EMU_CATCH_MISUSE,
                  "the module's kernel %s has other parameters than the emulator's", name);
    return same;
}

static CUresult find_function(CUmodule module, const char *name, CUfunction *function_p)
{
    CUfunction function;
    if (strlen(name) + sizeof("kernel ") > NAME_BYTES)
        return CUDA_ERROR_NOT_FOUND;
    LIST_FOREACH(function, &module->functions, entry) {
        if (strcmp(function->name, name) == 0) {
            *function_p = function;
            return CUDA_SUCCESS;
        }
    }
    if (!module->is_binary && find_entry(&module->ptx, name) == NULL)
        return CUDA_ERROR_NOT_FOUND;
    function = emu_object_new(EMU_OBJECT_FUNCTION, sizeof(*function), free_function);
    function->module = module;
    emu_object_hold(module);
    (void)snprintf(function->label, sizeof(function->label), "kernel %s", name);
    function->name = function->label + strlen("kernel ");
    if (!find_code(function, name) || !find_params(function, name)) {
        emu_object_destroy(function);
        return CUDA_ERROR_NOT_FOUND;
    }
    LIST_INSERT_HEAD(&module->functions, function, entry);
    *function_p = function;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function_p, CUmodule handle, const char *name)
{
    CUcontext context;
    CUresult result = emu_enter_context(EMU_CALL_cuModuleGetFunction, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (function_p == NULL || name == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    CUmodule module = emu_object_find(EMU_OBJECT_MODULE, handle);
    if (module == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    return emu_leave(find_function(module, name, function_p));
}

CUresult cuFuncGetName(const char **name, CUfunction handle)
{
    CUresult result = emu_enter(EMU_CALL_cuFuncGetName);
    if (result != CUDA_SUCCESS)
        return result;
    CUfunction function = emu_object_find(EMU_OBJECT_FUNCTION, handle);
    if (function == NULL || name == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *name = function->name;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    CUresult result = emu_enter(EMU_CALL_cuFuncGetModule);
    if (result != CUDA_SUCCESS)
        return result;
    CUfunction function = emu_object_find(EMU_OBJECT_FUNCTION, handle);
    if (function == NULL || module == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *module = function->module;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    CUresult result = emu_enter(EMU_CALL_cuFuncGetParamInfo);
    if (result != CUDA_SUCCESS)
        return result;
    CUfunction function = emu_object_find(EMU_OBJECT_FUNCTION, handle);
    if (function == NULL || offset == NULL || index >= function->params.param_count)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *offset = function->params.param_offsets[index];
    if (size != NULL)
        *size = function->params.param_bytes[index];
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* Whether kernels of the context can touch the memory, which is device memory. */
static bool can_reach(CUcontext context, const emu_allocation *allocation)
{
    const emu_device *device = context->device;
    if (allocation->device == device ||
        (allocation->import != NULL && allocation->context == context))
        return true;
    if (allocation->pool != NULL)
        return (allocation->pool->access >> device->ordinal & 1) != 0;
    return (context->peers >> allocation->device->ordinal & 1) != 0;
}

/* Notes what the kernel touches; catches what no kernel can. What is freed emu_enqueue catches. */
static void note_touches(emu_operation *operation, CUcontext context)
{
    launch_data *data = operation->data;
    CUfunction function = data->function;
    emu_touch touches[EMU_TOUCHES_MOST];
    size_t count = function->touches == NULL ? 0 : function->touches(data->params, touches);
    for (size_t i = 0; i < count; i++) {
        const emu_touch *touch = &touches[i];
        emu_allocation *allocation = NULL;
        if (touch->size_bytes == 0)
            continue;
        emu_pointer kind = emu_pointer_kind(touch->start, touch->size_bytes, &allocation);
        if (kind == EMU_POINTER_PLAIN) {
            emu_catch(EMU_CATCH_MISUSE,
                      "%s is given %p, which no kernel can touch: pageable memory", function->label,
                      touch->start);
            data->broken = true;
        } else if (kind == EMU_POINTER_KNOWN && allocation->kind == EMU_MEMORY_DEVICE &&
                   !can_reach(context, allocation)) {
            emu_catch(EMU_CATCH_MISUSE, "%s is given %p of device %d, and has no peer access there",
                      function->label, touch->start, allocation->device->ordinal);
            data->broken = true;
        }
        emu_operation_touches(operation, touch->start, touch->size_bytes, 1, 0,
                              touch->kind == EMU_TOUCH_WRITE || touch->kind == EMU_TOUCH_ATOMIC, 0);
        emu_access *access = &operation->accesses[operation->access_count - 1];
        access->atomic = touch->kind == EMU_TOUCH_ATOMIC;
        access->polls = touch->kind == EMU_TOUCH_POLL;
    }
}

static CUresult run_launch(emu_operation *operation)
{
    launch_data *data = operation->data;
    if (data->broken)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    data->function->run(&data->launch, data->params);
    return CUDA_SUCCESS;
}

void emu_module_check(const emu_operation *operation)
{
    if (operation->run != run_launch)
        return;
    const launch_data *data = operation->data;
    if (data->function->object.destroyed)
        emu_catch(EMU_CATCH_MISUSE, "a graph is launched that has %s of a module that was unloaded",
                  data->function->label);
}

static void release_launch(emu_operation *operation)
{
    launch_data *data = operation->data;
    if (data->counted)
        data->function->module->pending--;
    emu_object_drop(data->function);
}

/* The block that `extra` names; NULL: it names none, or one that is too small. */
static const void *find_block(CUfunction function, void **extra)
{
    const void *block = NULL;
    size_t size_bytes = 0;
    for (; extra != NULL && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            block = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size_bytes = *(const size_t *)extra[1];
        else
            return NULL;
    }
    return size_bytes >= function->block_bytes ? block : NULL;
}

/* Makes the operation with a copy of the parameters, or NULL if they are not given. */
static emu_operation *new_launch(CUfunction function, const emu_launch *launch, void **params,
                                 void **extra)
{
    const emu_ptx_entry *entry = &function->params;
    const void *given = params == NULL && entry->param_count > 0 ? find_block(function, extra) : "";
    if (given == NULL)
        return NULL;
    size_t params_bytes = sizeof(launch_data) + entry->param_count * sizeof(void *);
    emu_operation *operation = emu_operation_new(
        EMU_OPERATION_KERNEL, function->label, params_bytes + PARAM_ALIGN + function->block_bytes);
    launch_data *data = operation->data;
    uintptr_t block = ((uintptr_t)data + params_bytes + PARAM_ALIGN - 1) & -(uintptr_t)PARAM_ALIGN;
    data->params = (void **)(data + 1);
    for (size_t i = 0; i < entry->param_count; i++) {
        data->params[i] = (void *)(block + entry->param_offsets[i]);
        memcpy(data->params[i],
               params != NULL ? params[i] : (const char *)given + entry->param_offsets[i],
               entry->param_bytes[i]);
    }
    data->launch = *launch;
    data->launch.operation = operation;
    data->function = function;
    emu_object_hold(function);
    operation->run = run_launch;
    operation->release = release_launch;
    return operation;
}

static bool is_shape(const emu_launch *launch)
{
    const unsigned *grid = launch->grid;
    const unsigned *block = launch->block;
    return grid[0] > 0 && grid[0] <= GRID_X_MOST && grid[1] > 0 && grid[1] <= GRID_YZ_MOST &&
           grid[2] > 0 && grid[2] <= GRID_YZ_MOST && block[0] > 0 && block[1] > 0 && block[2] > 0 &&
           block[0] <= BLOCK_THREADS_MOST && block[1] <= BLOCK_THREADS_MOST && block[2] <= 64 &&
           block[0] * block[1] * block[2] <= BLOCK_THREADS_MOST &&
           launch->shared_bytes <= SHARED_BYTES_MOST;
}

/*
 * Kernels are loaded lazily: the first launch brings one to the device, which "might require
 * context synchronization" (CUDA's guide, Lazy Loading). Here it always does, so who launches a
 * kernel for the first time beside one that waits for it, or for the same thread, stands for ever.
 * Gives the lock away.
 */
static CUresult load_function(CUfunction function, CUstream stream)
{
    bool was_loaded = function->is_loaded;
    function->is_loaded = true; /* of a captured one its graph sees to that */
    if (was_loaded || stream->capture != NULL || emu_context_is_held(stream->context))
        return CUDA_SUCCESS;
    emu_object_hold(function);
    emu_object_hold(stream);
    CUresult result = emu_wait_for_context(stream->context);
    if (result == CUDA_SUCCESS && (function->object.destroyed || stream->object.destroyed))
        result = CUDA_ERROR_INVALID_HANDLE;
    emu_object_drop(stream);
    emu_object_drop(function);
    return result;
}

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream_handle, void **params, void **extra)
{
    CUstream stream;
    CUresult result = emu_enter_stream(EMU_CALL_cuLaunchKernel, stream_handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    CUfunction function = emu_object_find(EMU_OBJECT_FUNCTION, handle);
    if (function == NULL)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    const emu_launch launch = {
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .shared_bytes = shared_bytes,
    };
    if (!is_shape(&launch) || (params != NULL && extra != NULL))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (function->module->context != stream->context) {
        emu_catch(EMU_CATCH_MISUSE,
                  "%s is launched in a stream of another context than its module's",
                  function->label);
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    result = load_function(function, stream);
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    emu_operation *operation = new_launch(function, &launch, params, extra);
    if (operation == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    launch_data *data = operation->data;
    note_touches(operation, stream->context);
    data->counted = stream->capture == NULL;
    if (data->counted)
        function->module->pending++;
    return emu_leave(emu_enqueue(stream, operation));
}
