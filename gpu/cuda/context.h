/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: calls on a thread that uses CUDA itself. A scope restores the thread's context and
 * capture mode.
 */
#ifndef FRY_GPU_CUDA_CONTEXT_H
#define FRY_GPU_CUDA_CONTEXT_H

#include "base/lf.h"
#include "gpu/cuda/driver.h"

typedef struct fry_cuda_scope {
    CUstreamCaptureMode mode; /* the thread's former mode */
    bool is_open, has_mode, has_context;
    CUcontext context;            /* the context to make current when a call needs it */
    struct fry_cuda_scope *outer; /* the thread's outer scope whose context is put off */
} fry_cuda_scope;

/*
 * Makes the context current and the thread's capture mode relaxed. In any other mode harmless calls
 * such as cuEventQuery would be refused, and break a capture by the thread (or, if it is global, by
 * any thread), only because somebody captures. Scopes nest and are left in the reverse order.
 * Returns the driver's answer; whatever it is, fry_cuda_leave restores what was changed.
 */
CUresult fry_cuda_enter(fry_cuda_scope *scope, CUcontext context);

/*
 * The same for calls that only issue on a named stream: copies, numbers to write, events to record
 * or wait for. No capture forbids these on a stream that is not captured, or is broken by them; and
 * they apply to the stream's context, whatever the thread's current one is, which only has to
 * exist. So for a thread that had a context nothing is asked or changed: no call instead of four,
 * for each operation. The context is put off until a call is refused (FRY_CUDA_ISSUE) or needs it
 * (fry_cuda_enter_put_off). is_named false: each context has such a stream (NULL), so the thread's
 * context is checked.
 */
CUresult fry_cuda_enter_to_issue(fry_cuda_scope *scope, CUcontext context, bool is_named);

/* The same for a query of an event: the capture mode is relaxed, the context put off. */
CUresult fry_cuda_enter_to_ask(fry_cuda_scope *scope, CUcontext context);

/*
 * Enters the context that the thread's innermost scope put off; CUDA_SUCCESS also if there is none.
 */
CUresult fry_cuda_enter_put_off(void);

/*
 * Whether a call was refused because the thread's context is missing or unsuitable, and one could
 * be entered: it has been entered then, and the caller makes the call again.
 */
bool fry_cuda_lacked_context(CUresult result);

/* Makes a call that only issues, and once more if it lacked only a context. */
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
