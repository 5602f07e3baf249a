/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/context.h"

#include "base/module/forward.h"
#include "gpu/cuda/driver.h"

/*
 * A thread's `had_context`: it had a context of its own, not of a scope's, when last asked, and no
 * call was refused since. `scope`: its innermost scope, if that scope's context is put off.
 */
static void open_scope(fry_cuda_scope *scope)
{
    fry_module_thread *thread = fry_forward_thread();
    *scope = (fry_cuda_scope){
        .mode = CU_STREAM_CAPTURE_MODE_RELAXED, .is_open = true, .outer = thread->scope};
    thread->scope = NULL;
}

/*
 * The two driver calls below change only the thread. A refused call is made once more: to go on
 * without it would lose a device, or memory that can't be given back then.
 */
static CUresult relax(fry_cuda_scope *scope)
{
    CUresult result = fry_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    if (result != CUDA_SUCCESS && fry_cuda_is_refusal(result))
        result = fry_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    scope->has_mode = result == CUDA_SUCCESS;
    return result;
}

static CUresult enter(fry_cuda_scope *scope, CUcontext context)
{
    CUresult result = scope->has_mode ? CUDA_SUCCESS : relax(scope);
    if (result != CUDA_SUCCESS)
        return result;
    result = fry_cuda.cuCtxPushCurrent(context);
    if (result != CUDA_SUCCESS && fry_cuda_is_refusal(result))
        result = fry_cuda.cuCtxPushCurrent(context);
    scope->has_context = result == CUDA_SUCCESS;
    fry_forward_thread()->entered += scope->has_context;
    return result;
}

CUresult fry_cuda_relax(fry_cuda_scope *scope)
{
    open_scope(scope);
    return relax(scope);
}

CUresult fry_cuda_enter(fry_cuda_scope *scope, CUcontext context)
{
    open_scope(scope);
    return enter(scope, context);
}

/* If the driver won't tell the current context, it counts as having none. */
static CUcontext look_at_context(void)
{
    CUcontext current = NULL;
    if (fry_cuda.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        current = NULL;
    fry_forward_thread()->had_context = current != NULL && fry_forward_thread()->entered == 0;
    return current;
}

static CUresult put_off_or_enter(fry_cuda_scope *scope, CUcontext context)
{
    fry_module_thread *thread = fry_forward_thread();
    if (!thread->had_context && look_at_context() == NULL)
        return enter(scope, context);
    scope->context = context;
    thread->scope = scope;
    return CUDA_SUCCESS;
}

CUresult fry_cuda_enter_to_issue(fry_cuda_scope *scope, CUcontext context, bool is_named)
{
    open_scope(scope);
    if (is_named)
        return put_off_or_enter(scope, context);
    return look_at_context() == context ? CUDA_SUCCESS : enter(scope, context);
}

CUresult fry_cuda_enter_to_ask(fry_cuda_scope *scope, CUcontext context)
{
    open_scope(scope);
    CUresult result = relax(scope);
    return result == CUDA_SUCCESS ? put_off_or_enter(scope, context) : result;
}

CUresult fry_cuda_enter_put_off(void)
{
    fry_module_thread *thread = fry_forward_thread();
    fry_cuda_scope *scope = thread->scope;
    if (scope == NULL)
        return CUDA_SUCCESS;
    thread->scope = NULL;
    return enter(scope, scope->context);
}

/*
 * No document says for each call which answers mean this. Refusals by a capture of the same thread
 * do: a capture refuses a copy on another context's stream, but not with that context current and
 * the mode relaxed. On an H200 (driver 580, CUDA 13.0) the calls that ferry makes to issue are
 * taken whatever context is current, also none; only cuMemcpyBatchAsync wants one, and answers
 * CUDA_ERROR_INVALID_VALUE without.
 */
static bool may_lack_context(CUresult result)
{
    bool is_of_capture = result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return is_of_capture || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_HANDLE ||
           (result == CUDA_ERROR_INVALID_VALUE && look_at_context() == NULL);
}

bool fry_cuda_lacked_context(CUresult result)
{
    fry_module_thread *thread = fry_forward_thread();
    if (thread->scope == NULL || !may_lack_context(result))
        return false;
    thread->had_context = false;
    return fry_cuda_enter_put_off() == CUDA_SUCCESS;
}

void fry_cuda_leave(fry_cuda_scope *scope)
{
    CUcontext left;
    if (!scope->is_open)
        return;
    if (scope->has_context) {
        (void)fry_cuda.cuCtxPopCurrent(&left);
        fry_forward_thread()->entered--;
    }
    if (scope->has_mode)
        (void)fry_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    fry_forward_thread()->scope = scope->outer;
    *scope = (fry_cuda_scope){0};
}
