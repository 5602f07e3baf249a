/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events between processes. Each has a page that those who have it open share: how many recordings
 * there were, and which of them have fired. What a process itself recorded last it looks up as of
 * any other event; else the page says it, and a stream that waits for it looks there now and then
 * until it has fired: the process that recorded it tells nobody. A recording whose process dies
 * never fires. The page stays with those who have it open when its maker destroys the event. Who
 * opens it only when its maker is dead is refused, where an H200 opens it.
 */
#include "tests/emu/driver.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RECORDINGS 64 /* that are told apart: of older ones the newer in their place tell */
#define LOOK_NS 50000

typedef struct page {
    _Atomic(uint64_t) last;              /* recordings so far */
    _Atomic(uint64_t) fired[RECORDINGS]; /* the newest of those with that remainder */
} page;

struct emu_ipc_event {
    unsigned references;
    page *page;
    emu_ipc_file file; /* none: another process made it */
};

/* ---- The page ------------------------------------------------------------------------------- */

static emu_ipc_event *map(int number)
{
    emu_ipc_event *shared;
    void *memory = mmap(NULL, sizeof(page), PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);

    if (memory == MAP_FAILED)
        return NULL;
    shared = emu_allocate(sizeof *shared);
    *shared = (emu_ipc_event){.references = 1, .page = memory, .file = EMU_IPC_FILE_NONE};
    return shared;
}

emu_ipc_event *emu_ipc_event_new(void)
{
    emu_ipc_file file;
    emu_ipc_event *shared;

    if (!emu_ipc_file_new(sizeof(page), &file))
        return NULL;
    shared = map(file.number);
    if (shared != NULL)
        shared->file = file;
    else
        emu_ipc_file_close(&file);
    return shared;
}

emu_ipc_event *emu_ipc_event_hold(emu_ipc_event *shared)
{
    shared->references++;
    return shared;
}

void emu_ipc_event_drop(emu_ipc_event *shared)
{
    if (--shared->references > 0)
        return;
    emu_ipc_file_close(&shared->file);
    (void)munmap(shared->page, sizeof(page));
    free(shared);
}

void emu_ipc_event_close(emu_ipc_event *shared)
{
    emu_ipc_file_close(&shared->file);
}

uint64_t emu_ipc_event_begin(emu_ipc_event *shared)
{
    return atomic_fetch_add(&shared->page->last, 1) + 1;
}

void emu_ipc_event_end(emu_ipc_event *shared, uint64_t recording)
{
    atomic_store(&shared->page->fired[recording % RECORDINGS], recording);
}

uint64_t emu_ipc_event_last(const emu_ipc_event *shared)
{
    return atomic_load(&shared->page->last);
}

bool emu_ipc_event_has_fired(const emu_ipc_event *shared, uint64_t recording)
{
    return atomic_load(&shared->page->fired[recording % RECORDINGS]) >= recording;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

typedef struct wait_data {
    emu_ipc_event *shared;
    uint64_t recording;
} wait_data;

static void look_later(void)
{
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

static bool has_fired(const emu_operation *operation)
{
    const wait_data *const data = operation->data;

    return emu_ipc_event_has_fired(data->shared, data->recording);
}

static CUresult wait_run(emu_operation *operation)
{
    while (!has_fired(operation) && !emu_operation_stopped(operation))
        look_later();
    return CUDA_SUCCESS;
}

static bool wait_stands(const emu_operation *operation)
{
    return !has_fired(operation);
}

static void wait_release(emu_operation *operation)
{
    const wait_data *const data = operation->data;

    emu_ipc_event_drop(data->shared);
}

emu_operation *emu_ipc_event_wait(emu_ipc_event *shared, uint64_t recording)
{
    emu_operation *const operation =
        emu_operation_new(EMU_OPERATION_MARK, "cuStreamWaitEvent", sizeof(wait_data));

    *(wait_data *)operation->data = (wait_data){emu_ipc_event_hold(shared), recording};
    operation->run = wait_run;
    operation->stands = wait_stands;
    operation->release = wait_release;
    return operation;
}

CUresult emu_ipc_event_synchronize(CUevent event)
{
    emu_ipc_event *const shared = emu_ipc_event_hold(event->shared);
    const uint64_t recording = emu_ipc_event_last(shared);
    CUcontext context = event->context;
    CUresult result;

    emu_object_hold(context);
    for (;;) {
        result = atomic_load(&emu.stopping) ? CUDA_ERROR_DEINITIALIZED : emu_context_error(context);
        if (result != CUDA_SUCCESS || emu_ipc_event_has_fired(shared, recording))
            break;
        emu_unlock();
        look_later();
        emu_lock();
    }
    emu_object_drop(context);
    emu_ipc_event_drop(shared);
    return result;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle_p, CUevent handle)
{
    CUcontext context;
    CUevent event;
    CUresult result = emu_enter_context(EMU_CALL_cuIpcGetEventHandle, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!emu.ipc)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    event = emu_object_find(EMU_OBJECT_EVENT, handle);
    if (event == NULL || event->shared == NULL || event->shared->file.number < 0)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (handle_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_ipc_name_write(&(emu_ipc_name){.kind = EMU_IPC_EVENT,
                                       .ordinal = event->context->device->ordinal,
                                       .size_bytes = sizeof(page)},
                       &event->shared->file, handle_p->reserved);
    return emu_leave(CUDA_SUCCESS);
}

static CUresult open_event(const emu_ipc_name *name, CUcontext context, CUevent *event_p)
{
    emu_device *device;
    emu_ipc_event *shared;
    CUresult result = emu_ipc_device(name, context, &device);
    int file;

    if (result != CUDA_SUCCESS)
        return result;
    file = emu_ipc_name_open(name, sizeof(page));
    if (file < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    shared = map(file);
    emu_ipc_name_close(file);
    if (shared == NULL)
        return CUDA_ERROR_MAP_FAILED;
    *event_p = emu_event_new(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    (*event_p)->shared = shared;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *event_p, CUipcEventHandle handle)
{
    CUcontext context;
    emu_ipc_name name;
    CUresult result = emu_enter_context(EMU_CALL_cuIpcOpenEventHandle, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!emu.ipc)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (event_p == NULL || !emu_ipc_name_read(handle.reserved, EMU_IPC_EVENT, &name))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (name.pid == (int32_t)getpid())
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    return emu_leave(open_event(&name, context, event_p));
}
