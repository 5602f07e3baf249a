/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call from outside, on a thread that has its own ideas of CUDA: what it has set is put back.
 */
#ifndef FRY_GPU_CUDA_CONTEXT_H
#define FRY_GPU_CUDA_CONTEXT_H

#include "gpu/cuda_driver.h"

typedef struct fry_cuda_scope {
    CUstreamCaptureMode mode; /* what the thread's was */
    bool has_mode, has_context;
} fry_cuda_scope;

/*
 * Makes the context the thread's current one and its capture mode relaxed: in any other, harmless
 * calls such as cuEventQuery would be refused, and a capture by the thread (or, if it is global, by
 * any thread) be broken, only because somebody captures. Scopes nest. What it answers, the driver
 * answered; whatever that is, fry_cuda_leave puts back what was changed.
 */
CUresult fry_cuda_enter(fry_cuda_scope *scope, CUcontext context);

/*
 * The same for calls that only issue: copies, numbers to write, events that are recorded or waited
 * for. No capture refuses these on a stream that is not captured, or is broken by them, so for a
 * thread whose current context it is nothing is changed: one call instead of four, beside each
 * operation.
 */
CUresult fry_cuda_enter_to_issue(fry_cuda_scope *scope, CUcontext context);

/* The same without a context, for calls that need none. */
CUresult fry_cuda_relax(fry_cuda_scope *scope);

void fry_cuda_leave(fry_cuda_scope *scope);

#endif
