/* SPDX-License-Identifier: Apache-2.0 */
/* What modules are made of: the entries of a PTX text, and the kernels that are built in. */
#ifndef EMU_MODULE_H
#define EMU_MODULE_H

#include "tests/emu/kernel.h"

#include <stdbool.h>
#include <stddef.h>

#define EMU_PARAMS_MOST 64

/* A kernel that is built in. */
typedef struct emu_kernel {
    const char *name;
    emu_kernel_function *run;
    emu_touches_function *touches; /* NULL: it touches nothing */
    size_t param_count;
    size_t param_bytes[8];
} emu_kernel;

/* The built-in kernel of that name, or NULL. */
const emu_kernel *emu_kernel_find(const char *name);

/* An .entry: its name and parameters. */
typedef struct emu_ptx_entry {
    char *name;
    size_t param_count;
    size_t param_bytes[EMU_PARAMS_MOST];
    size_t param_offsets[EMU_PARAMS_MOST]; /* in one block of all parameters */
} emu_ptx_entry;

typedef struct emu_ptx {
    unsigned version; /* 10 * major + minor */
    unsigned target;  /* 90: sm_90 */
    emu_ptx_entry *entries;
    size_t entry_count;
} emu_ptx;

typedef enum emu_ptx_status {
    EMU_PTX_OK,
    EMU_PTX_NOT, /* it does not begin as PTX does */
    EMU_PTX_BAD, /* it does, and then is none */
} emu_ptx_status;

/*
 * Reads what there is of entries; their code it looks at for the braces alone. The result is to be
 * freed with emu_ptx_free whatever the status.
 */
emu_ptx_status emu_ptx_read(const char *text, emu_ptx *ptx);
void emu_ptx_free(emu_ptx *ptx);

#endif
