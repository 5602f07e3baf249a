/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over NCCL: whether there is any, groups that use it, and what scripts the emulated one.
 */
#ifndef FERRY_TESTS_GPU_NCCL_H
#define FERRY_TESTS_GPU_NCCL_H

#include "tests/gpu/members.h"

/* Of the emulated NCCL (tests/emu/emu_nccl.h); NULL: it is another one, or none. */
static inline void *nccl_emulators(const char *name)
{
    void *file = dlopen("libnccl.so.2", RTLD_NOW);
    return file != NULL ? dlsym(file, name) : NULL;
}

#define EMU_NCCL(name) ((__typeof__(&(name)))nccl_emulators(#name))

/* Says why not. */
static inline bool nccl_is_here(void)
{
    for (size_t i = 0; i < ferry_backend_count(); i++) {
        ferry_backend_info info = FERRY_BACKEND_INFO_INIT;
        (void)ferry_backend_at(i, &info);
        if (strcmp(info.name, "nccl") != 0)
            continue;
        if (!info.is_here)
            (void)printf("not over NCCL: %s\n", info.reason);
        return info.is_here;
    }
    return false;
}

/* An engine that lets one lot be on its GPU, the one of that number. */
static inline ferry_device *nccl_engine_open(gpu_engine *self, int ordinal)
{
    char name[24];
    ferry_engine_options options = gpu_engine_options(self);
    options.nccl_slots = 1;
    CHECK_STATUS(ferry_engine_create(&options, &self->engine, NULL), FERRY_OK);
    (void)snprintf(name, sizeof name, "cuda:%d", ordinal);
    return gpu_device(self, name);
}

/* Of members in one process. */
static inline ferry_group_options nccl_group(int size, int rank)
{
    ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
    group.store = "mem:gpu";
    group.job = "job";
    group.size = (uint32_t)size;
    group.rank = (ferry_rank)rank;
    group.has_rank = true;
    group.lease_ns = 100000000000;
    group.unexpected_max = UNEXPECTED_FEW;
    group.gpu_way = FERRY_GPU_WAY_NCCL;
    return group;
}

#endif
