/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function of ferry_call that stands still in the middle until the test lets it go on, and then
 * writes to its span: so the operation is under way for as long as the test wants. For Criterion
 * programs; needs an engine whose calls don't run on the test's own thread: name `executor`.
 */
#ifndef FERRY_TESTS_HELD_CALL_H
#define FERRY_TESTS_HELD_CALL_H

#include "tests/support/api_test.h"
#include "tests/support/thread_executor.h"

#include <semaphore.h>

typedef struct held_call {
    sem_t begun, go;
    unsigned char *bytes; /* what it writes once it goes on; NULL: nothing */
    size_t size_bytes;
    int fill;
    ferry_status result;
} held_call;

static inline void held_call_init(held_call *self, ferry_span span, int fill)
{
    memset(self, 0, sizeof *self);
    cr_assert_eq(sem_init(&self->begun, 0, 0), 0);
    cr_assert_eq(sem_init(&self->go, 0, 0), 0);
    if (span.buffer != NULL)
        self->bytes = (unsigned char *)ferry_buffer_data(span.buffer) + span.offset_bytes;
    self->size_bytes = span.size_bytes;
    self->fill = fill;
}

static inline void held_call_wait(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

static inline ferry_status held_call_run(void *arg)
{
    held_call *self = arg;
    cr_assert_eq(sem_post(&self->begun), 0);
    held_call_wait(&self->go);
    if (self->bytes != NULL)
        memset(self->bytes, self->fill, self->size_bytes);
    return self->result;
}

/* The function has begun, and stands still. */
static inline void held_call_await(held_call *self)
{
    held_call_wait(&self->begun);
}

static inline void held_call_let_go(held_call *self)
{
    cr_assert_eq(sem_post(&self->go), 0);
}

#endif
