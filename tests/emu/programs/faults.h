/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of planted faults: each case is a few calls that commit one, and has a twin that does
 * the same and no wrong. `program CASE` commits it, and ends by the emulator's abort; the twin ends
 * well. Without an emulator's catch it ends well, too, which the test takes for the failure that it
 * is. A case ends once all that it gave the devices is done; what it made goes with its process.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include "driver.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct fault {
    const char *name;
    void (*run)(bool faulty);
} fault;

static bool faults_are_held;

/* From now to the end of the case, or to let_go. */
static inline void hold_back(void)
{
    faults_are_held = true;
    hold();
}

static inline void let_go(void)
{
    faults_are_held = false;
    release();
}

/* Runs argv[1], as its twin with argv[2] "twin". */
static inline int faults_main(int argc, char **argv, const fault *faults, size_t count)
{
    CHECK(argc == 2 || (argc == 3 && strcmp(argv[2], "twin") == 0));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[1], faults[i].name) != 0)
            continue;
        CUdevice device;
        CUcontext context;
        OK(cuInit(0));
        OK(cuDeviceGet(&device, 0));
        OK(cuDevicePrimaryCtxRetain(&context, device));
        OK(cuCtxSetCurrent(context));
        faults[i].run(argc == 2);
        if (faults_are_held)
            release();
        OK(cuCtxSynchronize());
        printf("%s: nothing was caught\n", argv[1]);
        return EXIT_SUCCESS;
    }
    fprintf(stderr, "no case %s\n", argv[1]);
    return EXIT_FAILURE;
}

#endif
