/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share. They are plain users of CUDA: linked with its libraries
 * by name, they run on a GPU as well as on the emulator.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "tests/support/check.h"

#include <dlfcn.h>

/* A control function of the emulator's, or NULL: this is a real driver. */
#define EMU(name) ((__typeof__(&name))dlsym(RTLD_DEFAULT, #name))

#endif
