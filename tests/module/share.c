/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory between processes: which can be opened elsewhere, and what a process opens of another's.
 * The other end starts this program once more, with a handle in its arguments.
 */
#include "tests/module/rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const char *program;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static bool has_no_threads; /* the system makes none */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *arg)
{
    int (*make)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&make, &found, sizeof make);
    return has_no_threads ? EAGAIN : make(thread, attributes, run, arg);
}
#endif

static ferry_status share_of(rig *self, fry_device *device, const void *memory, size_t size_bytes,
                             fry_memory_share *share)
{
    CUcontext before, now;
    OK(cuCtxGetCurrent(&before));
    ferry_status status =
        device->ops->memory_share(device, memory, size_bytes, share, &self->fault);
    OK(cuCtxGetCurrent(&now));
    CHECK(before == now);
    return status;
}

static char *get(fry_device *device, size_t size_bytes, fry_memory_kind kind)
{
    void *memory = NULL;
    fry_fault fault;
    OK(device->ops->memory_alloc(device, size_bytes, kind, &memory, &fault));
    return memory;
}

static void what_can_be_shared(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_memory_share share, again;
    char *plain = get(device, MIB, FRY_MEMORY_PLAIN), *pool = get(device, MIB, FRY_MEMORY_DEFAULT);
    CHECK(share_of(self, device, plain + 4096, MIB - 4096, &share) == FERRY_OK);
    CHECK(share.offset == 4096 && share.allocation_bytes >= MIB && share.generation != 0);
    CHECK(share_of(self, device, plain, 1, &again) == FERRY_OK);
    CHECK(again.offset == 0 && again.generation == share.generation);
    CHECK(memcmp(again.handle, share.handle, sizeof share.handle) == 0);
    CHECK(share_of(self, device, plain + 1, share.allocation_bytes, &share) == FERRY_E_UNSUPPORTED);
    CHECK(share_of(self, device, pool, MIB, &share) == FERRY_E_UNSUPPORTED);
    CHECK(strstr(self->fault.message, "cuIpcGetMemHandle") != NULL);
    char *pinned = rig_pinned(4096, 1);
    CHECK(share_of(self, device, pinned, 4096, &share) == FERRY_E_UNSUPPORTED);
    rig_free_pinned(pinned);
    device->ops->memory_free(device, plain, MIB, FRY_MEMORY_PLAIN);
    device->ops->memory_free(device, pool, MIB, FRY_MEMORY_DEFAULT);
}

static void what_cannot_be_opened(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_memory_share share;
    void *memory = NULL;
    char *plain = get(device, MIB, FRY_MEMORY_PLAIN);
    CHECK(share_of(self, device, plain, MIB, &share) == FERRY_OK);
    CHECK(device->ops->memory_open_shared(device, &share, &memory, &self->fault) ==
          FERRY_E_UNSUPPORTED); /* one's own */
    memset(share.handle, 0x5a, sizeof share.handle);
    CHECK(device->ops->memory_open_shared(device, &share, &memory, &self->fault) ==
          FERRY_E_UNSUPPORTED); /* no handle */
    CHECK(memory == NULL);
    device->ops->memory_free(device, plain, MIB, FRY_MEMORY_PLAIN);
}

/* ---- another process ---- */

static void start_other(const fry_memory_share *share, const char *what)
{
    char text[2 * sizeof *share + 1];
    const unsigned char *bytes = (const unsigned char *)share;
    for (size_t i = 0; i < sizeof *share; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    pid_t child = fork();
    if (child == 0) {
        (void)execl(program, program, what, text, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void other_reads(rig *self)
{
    fry_device *device = rig_device(self, "cuda:0", 0);
    fry_memory_share share;
    char *memory = rig_on_gpu(0, MIB, 7);
    CHECK(share_of(self, device, memory, MIB, &share) == FERRY_OK);
    start_other(&share, "reads");
    share.allocation_bytes *= 2;
    start_other(&share, "refuses");
    rig_free_on_gpu(memory);
}

static void close_it(fry_device *device, void *memory)
{
    uint32_t is_closed = 0;
    device->ops->memory_close_shared(device, memory, &is_closed);
    while (fry_load_acquire(&is_closed) == 0)
        (void)sched_yield();
}

static int reads(const fry_memory_share *share, bool is_right)
{
    rig self;
    rig_open(&self);
    fry_device *device = rig_device(&self, "cuda:0", 0);
    void *memory = NULL, *again = NULL;
    ferry_status status;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    has_no_threads = true; /* so nobody would close it */
    status = device->ops->memory_open_shared(device, share, &memory, &self.fault);
    CHECK(status == FERRY_E_UNSUPPORTED && memory == NULL);
    CHECK(strstr(self.fault.message, "no thread") != NULL);
    has_no_threads = false;
#endif
    status = device->ops->memory_open_shared(device, share, &memory, &self.fault);
    CHECK(status == (is_right ? FERRY_OK : FERRY_E_UNSUPPORTED));
    if (is_right) {
        char *own = rig_on_gpu(0, MIB, 1);
        fry_event event = rig_copy(&self, rig_main(device, FRY_CUDA_ON_DEVICE), own, memory,
                                   (size_t)share->allocation_bytes, NULL, 0);
        rig_flush(rig_main(device, FRY_CUDA_ON_DEVICE));
        rig_await(&self, event);
        CHECK(rig_is_all(own, 7, MIB));
        OK(device->ops->memory_open_shared(device, share, &again, &self.fault));
        CHECK(again == memory);
        close_it(device, again);
        close_it(device, memory);
        rig_free_on_gpu(own);
    }
    emu_counters counters; /* what could not be used is closed some time */
    do {
        (void)sched_yield();
        emu_get_counters(&counters);
    } while (counters.live_imports != 0);
    rig_close(&self);
    return 0;
}

int main(int count, char **arguments)
{
    rig self;
    program = arguments[0];
    if (count > 2) {
        fry_memory_share share;
        unsigned char *bytes = (unsigned char *)&share;
        for (size_t i = 0; i < sizeof share; i++) {
            char text[3] = {arguments[2][2 * i], arguments[2][2 * i + 1], 0};
            bytes[i] = (unsigned char)strtoul(text, NULL, 16);
        }
        return reads(&share, strcmp(arguments[1], "reads") == 0);
    }
    RIG_RUN(&self, what_can_be_shared(&self));
    RIG_RUN(&self, what_cannot_be_opened(&self));
    RIG_RUN(&self, other_reads(&self));
    return 0;
}
