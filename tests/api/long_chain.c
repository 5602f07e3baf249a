/* SPDX-License-Identifier: Apache-2.0 */
/* A chain of a million operations needs no stack, whichever way it ends. */
#include "tests/support/api_test.h"

TestSuite(long_chain, .timeout = 2 * HANG_S);

enum { STACK_BYTES = 256 << 10 };

/* Under a sanitizer a tenth: that, too, at a few bytes a frame, has no room on the stack. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { LENGTH = 100000 };
#else
enum { LENGTH = 1000000 };
#endif

typedef enum end { BY_SUCCESS, BY_FAILURE, BY_CANCEL, BY_SHUTDOWN } end;

typedef struct chain {
    ferry_loop_mode loop;
    end end;
    bool by_buffer;
    ferry_status last;
    int64_t live_bytes;
} chain;

static ferry_future *grow(const test_engine *te, ferry_promise *promise)
{
    ferry_future *last = nop_after_promise(te, promise);
    for (int i = 1; i < LENGTH; i++) {
        ferry_future *next = nop_after(te, last);
        ferry_future_release(last);
        last = next;
    }
    return last;
}

static ferry_future *grow_by_buffer(const test_engine *te, ferry_promise *promise,
                                    ferry_buffer *buffer)
{
    ferry_future *future = ferry_promise_future(promise);
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    ASSERT_STATUS(ferry_buffer_define(access.span, future), FERRY_OK);
    ferry_future_release(future);
    ferry_future *last = NULL;
    for (int i = 0; i < LENGTH; i++) {
        ferry_future_release(last);
        last = ferry_nop(te->engine, &options);
    }
    return last;
}

static void *run_chain(void *arg)
{
    chain *self = arg;
    test_engine te;
    test_engine_open(&te, self->loop);
    ferry_promise *promise = test_promise(&te);
    ferry_future *head = ferry_promise_future(promise);
    ferry_buffer *buffer = test_buffer(&te, 0, 8, 0);
    ferry_future *last =
        self->by_buffer ? grow_by_buffer(&te, promise, buffer) : grow(&te, promise);
    if (self->end == BY_CANCEL)
        ASSERT_STATUS(ferry_future_cancel(head), FERRY_OK);
    else if (self->end == BY_SHUTDOWN)
        ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    else
        ASSERT_STATUS(ferry_promise_resolve(
                          promise, self->end == BY_SUCCESS ? FERRY_OK : FERRY_E_FAILED, NULL),
                      FERRY_OK);
    self->last = ferry_future_wait(last, -1);
    if (self->end == BY_FAILURE)
        cr_assert_eq(ferry_future_error(last)->cause->op, ferry_future_id(head));
    ferry_promise_release(promise);
    ferry_future_release(head);
    ferry_future_release(last);
    ferry_buffer_release(buffer);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ferry_engine_release(te.engine);
    self->live_bytes = failing_allocator_live_bytes(&te.memory);
    return NULL;
}

static void on_a_small_stack(chain *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, run_chain, self), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    (void)pthread_attr_destroy(&attributes);
    cr_assert_eq(self->live_bytes, 0);
}

Test(long_chain, succeeds)
{
    chain self = {.loop = FERRY_LOOP_EMBEDDED, .end = BY_SUCCESS};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_OK);
}

Test(long_chain, fails)
{
    chain self = {.loop = FERRY_LOOP_EMBEDDED, .end = BY_FAILURE};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_E_DEPENDENCY);
}

Test(long_chain, is_cancelled_at_its_head)
{
    chain self = {.loop = FERRY_LOOP_EMBEDDED, .end = BY_CANCEL};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_E_DEPENDENCY);
}

Test(long_chain, is_shut_down)
{
    chain self = {.loop = FERRY_LOOP_EMBEDDED, .end = BY_SHUTDOWN};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_E_SHUTDOWN);
}

Test(long_chain, by_a_buffer_fails)
{
    chain self = {.loop = FERRY_LOOP_EMBEDDED, .end = BY_FAILURE, .by_buffer = true};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_E_DEPENDENCY);
}

Test(long_chain, succeeds_on_the_loops_thread)
{
    chain self = {.loop = FERRY_LOOP_THREAD, .end = BY_SUCCESS};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_OK);
}

Test(long_chain, fails_on_the_loops_thread)
{
    chain self = {.loop = FERRY_LOOP_THREAD, .end = BY_FAILURE};
    on_a_small_stack(&self);
    ASSERT_STATUS(self.last, FERRY_E_DEPENDENCY);
}
