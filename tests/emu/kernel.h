/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel of the emulator is: a C function, run once for a launch, not once a thread. Besides
 * those of kernels.c a program can bring its own: cuModuleGetFunction finds a kernel NAME, if the
 * module's PTX has an entry of that name, in the function emu_kernel_NAME that the program exports
 * (link it with -rdynamic). What that touches the emulator knows if the program exports
 * emu_touches_NAME, too; else it can't see what it does wrong.
 */
#ifndef EMU_KERNEL_H
#define EMU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_TOUCHES_MOST 8

typedef struct emu_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    const void *operation; /* for emu_launch_stopped */
} emu_launch;

/*
 * Runs in the stream's thread, and must not call CUDA. `params[i]` points to a copy of the i-th
 * parameter, as for cuLaunchKernel.
 */
typedef void emu_kernel_function(const emu_launch *launch, void **params);

typedef enum emu_touch_kind {
    EMU_TOUCH_READ,
    EMU_TOUCH_WRITE,  /* or both */
    EMU_TOUCH_ATOMIC, /* writes that may be in no order with other such writes */
    EMU_TOUCH_POLL,   /* reads until somebody changes it; in no conflict with anything */
} emu_touch_kind;

typedef struct emu_touch {
    const void *start;
    size_t size_bytes;
    emu_touch_kind kind;
} emu_touch;

/* Says what a launch with these parameters touches, and returns how many entries that took. */
typedef size_t emu_touches_function(void **params, emu_touch touches[EMU_TOUCHES_MOST]);

#pragma GCC visibility push(default)

/* Whether a kernel that takes long is to end now: its device is lost, or the process ends. */
bool emu_launch_stopped(const emu_launch *launch);

#pragma GCC visibility pop

#endif
