/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call from outside, on a thread that has its own ideas of CUDA: what it has set is put back.
 */
#ifndef FRY_GPU_CUDA_CONTEXT_H
#define FRY_GPU_CUDA_CONTEXT_H

#include "base/lf.h"
#include "gpu/cuda_driver.h"

typedef struct fry_cuda_scope {
    CUstreamCaptureMode mode; /* what the thread's was */
    bool is_open, has_mode, has_context;
    CUcontext context;            /* that is made current once a call needs it */
    struct fry_cuda_scope *outer; /* which of the thread's is put off beside it */
} fry_cuda_scope;

/*
 * Makes the context the thread's current one and its capture mode relaxed: in any other, harmless
 * calls such as cuEventQuery would be refused, and a capture by the thread (or, if it is global, by
 * any thread) be broken, only because somebody captures. Scopes nest, and are left in the reverse
 * order. What it answers, the driver answered; whatever that is, fry_cuda_leave puts back what was
 * changed.
 */
CUresult fry_cuda_enter(fry_cuda_scope *scope, CUcontext context);

/*
 * The same for calls that only issue on a stream that is named: copies, numbers to write, events
 * that are recorded or waited for. No capture refuses these on a stream that is not captured, or is
 * broken by them; and they are of the stream's context, whatever the thread's current one, which
 * only has to be there. So for a thread that had one nothing is asked nor changed: no call instead
 * of four, beside each operation. It is put off until a call is refused (FRY_CUDA_ISSUED) or needs
 * it (fry_cuda_enter_put_off). is_named false: the stream is one that each context has, such as
 * NULL, so the thread's context is looked at.
 */
CUresult fry_cuda_enter_to_issue(fry_cuda_scope *scope, CUcontext context, bool is_named);

/* The same for a question about an event: the capture mode is relaxed, the context put off. */
CUresult fry_cuda_enter_to_ask(fry_cuda_scope *scope, CUcontext context);

/* Enters what was put off by the thread's innermost scope; CUDA_SUCCESS also if nothing was. */
CUresult fry_cuda_enter_put_off(void);

/* Whether a call answered so as the thread has no context, or not one that will do, and one can be
 * entered: then it has been, and the call is to be made again. */
bool fry_cuda_lacked_context(CUresult result);

/* A call that only issues: made once more if a context was all that it lacked. */
#define FRY_CUDA_ISSUE(result, call)                                                               \
    do {                                                                                           \
        (result) = (call);                                                                         \
        if (fry_unlikely((result) != CUDA_SUCCESS) && fry_cuda_lacked_context(result))             \
            (result) = (call);                                                                     \
    } while (0)

/* The same without a context, for calls that need none. */
CUresult fry_cuda_relax(fry_cuda_scope *scope);

void fry_cuda_leave(fry_cuda_scope *scope);

#endif
