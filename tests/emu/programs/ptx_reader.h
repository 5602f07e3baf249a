/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels of a PTX text on the CPU, one thread after the other: as much of PTX as kernels.ptx
 * uses, and what it does not know ends the program. So the PTX is tried where there is no GPU.
 */
#ifndef PTX_READER_H
#define PTX_READER_H

#include <stddef.h>
#include <stdint.h>

typedef struct ptx_kernel ptx_kernel;

/* Memory that a kernel may touch; anything else ends the program. */
typedef struct ptx_memory {
    void *start;
    size_t size_bytes;
} ptx_memory;

typedef struct ptx_run {
    const uint64_t *params; /* one each, whatever its size */
    const ptx_memory *memory;
    size_t memory_count;
    unsigned grid, block; /* in x */
    /* NULL, or called when the kernel looks at the clock (gives the time in ns) or naps (gives
     * any). */
    uint64_t (*pass_time)(void *arg);
    void *arg;
} ptx_run;

/* Reads an entry; NULL: there is none of that name. Free it with ptx_kernel_free. */
ptx_kernel *ptx_kernel_read(const char *text, const char *name);
void ptx_kernel_free(ptx_kernel *kernel);

void ptx_kernel_run(const ptx_kernel *kernel, const ptx_run *run);

#endif
