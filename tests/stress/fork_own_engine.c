/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fork's child makes an engine of its own, and so does the child's child. Each forks when it has
 * shut its engine down and no thread is left beside it, so this holds under the sanitizers too,
 * whose own locks a fork from among threads may leave taken; api/fork.c forks from among threads.
 * Exit 0: all hold.
 */
#include "tests/support/stress.h"

#include <sys/wait.h>

#define HANG_S 60
#define GENERATIONS 3
#define BYTES 10000 /* more than is copied inline */

typedef struct generation {
    ferry_engine *engine;
    ferry_buffer *buffer;
    ferry_future *copy;
} generation;

static ferry_buffer *open_buffer(ferry_engine *engine, size_t device)
{
    ferry_buffer *buffer = NULL;
    CHECK(ferry_buffer_alloc(ferry_device_at(engine, device), BYTES, &buffer) == FERRY_OK);
    return buffer;
}

/* An engine that has worked and was shut down; what keeps its memory is not released. */
static void live(generation *self)
{
    CHECK(ferry_engine_create(NULL, &self->engine, NULL) == FERRY_OK);
    ferry_buffer *src = open_buffer(self->engine, 0);
    memset(ferry_buffer_data(src), 7, BYTES);
    self->buffer = open_buffer(self->engine, 1);
    self->copy =
        ferry_copy(self->engine, ferry_buffer_span(self->buffer), ferry_buffer_span(src), NULL);
    ferry_buffer_release(src);
    CHECK(ferry_future_wait(self->copy, -1) == FERRY_OK);
    CHECK(*(char *)ferry_buffer_data(self->buffer) == 7);
    CHECK(ferry_engine_shutdown(self->engine, -1) == FERRY_OK);
}

static void check_is_anothers(const generation *parent)
{
    CHECK(ferry_engine_shutdown(parent->engine, -1) == FERRY_E_FORKED);
    CHECK(ferry_future_poll(parent->copy) == FERRY_OK);
    CHECK(ferry_buffer_define(ferry_buffer_span(parent->buffer), NULL) == FERRY_E_FORKED);
}

static void release(generation *self)
{
    ferry_future_release(self->copy);
    ferry_buffer_release(self->buffer);
    ferry_engine_release(self->engine);
}

static void lead(generation *generations, size_t born)
{
    (void)alarm(HANG_S * PATIENCE); /* a child does not inherit it */
    for (size_t i = 0; i < born; i++)
        check_is_anothers(&generations[i]);
    live(&generations[born]);
    for (size_t i = 0; i < born; i++)
        release(&generations[i]); /* does nothing */
    if (born + 1 < GENERATIONS) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            lead(generations, born + 1);
            return;
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    release(&generations[born]);
}

int main(void)
{
    static generation generations[GENERATIONS];
    lead(generations, 0);
    return 0;
}
