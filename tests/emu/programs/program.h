/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share. They are plain users of CUDA: linked with its libraries
 * by name, they run on a GPU as well as on the emulator.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

/* The call gives that error. */
#define GIVES(call, expected)                                                                      \
    do {                                                                                           \
        int given_error = (int)(call);                                                             \
        if (given_error != (int)(expected)) {                                                      \
            fprintf(stderr, "%s:%d: %s gives %d, not %d\n", __FILE__, __LINE__, #call,             \
                    given_error, (int)(expected));                                                 \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

#define OK(call) GIVES(call, 0)

/* A control function of the emulator's, or NULL: this is a real driver. */
#define EMU(name) ((__typeof__(&name))dlsym(RTLD_DEFAULT, #name))

#endif
