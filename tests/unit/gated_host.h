/* SPDX-License-Identifier: Apache-2.0 */
/* A host of devices by itself, with no engine: its workers can be held in the midst of a copy, and
 * what fires is counted. */
#ifndef FERRY_TESTS_GATED_HOST_H
#define FERRY_TESTS_GATED_HOST_H

#include "gpu/host/host.h"
#include "tests/support/owned.h"
#include "tests/unit/copy_gate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { GATED_ORDER = 32, GATED_BYTES = 32 };

typedef struct gated_host {
    copy_gate gate;
    uint64_t fired;                 /* calls to notify; the gate's mutex */
    const void *order[GATED_ORDER]; /* dst of the first copies, as they began; the gate's mutex */
    size_t order_count;
    fry_memory memory;
    fry_host *host;
    unsigned char *bytes[GATED_BYTES]; /* that tests copy */
    size_t byte_count;
} gated_host;

static inline void gated_pass(void *arg, const fry_copy *copy, size_t copied_bytes)
{
    gated_host *self = arg;
    (void)pthread_mutex_lock(&self->gate.mutex);
    if (copied_bytes == 0 && self->order_count < GATED_ORDER)
        self->order[self->order_count++] = copy->dst;
    (void)pthread_mutex_unlock(&self->gate.mutex);
    copy_gate_pass(&self->gate, copy, copied_bytes);
}

static inline void gated_notify(void *arg)
{
    gated_host *self = arg;
    (void)pthread_mutex_lock(&self->gate.mutex);
    self->fired++;
    (void)pthread_cond_broadcast(&self->gate.changed);
    (void)pthread_mutex_unlock(&self->gate.mutex);
}

/* Waits without a call to the device: for `count` notifications since the host was opened. */
static inline void wait_fired_count(gated_host *self, uint64_t count)
{
    (void)pthread_mutex_lock(&self->gate.mutex);
    while (self->fired < count)
        (void)pthread_cond_wait(&self->gate.changed, &self->gate.mutex);
    (void)pthread_mutex_unlock(&self->gate.mutex);
}

static inline void gated_host_open(gated_host *self, uint32_t devices, uint32_t workers)
{
    *self = (gated_host){.fired = 0};
    copy_gate_install(&self->gate);
    fry_memory_init(&self->memory, NULL);
    fry_host_options options = {.device_count = devices,
                                .worker_count = workers,
                                .inline_copy_bytes = 4096,
                                .notify = {gated_notify, self},
                                .gate = {gated_pass, self}};
    cr_assert_eq(fry_host_open(&self->memory, &options, &self->host), FERRY_OK);
}

static inline void gated_host_close(gated_host *self)
{
    cr_assert_eq(fry_host_stop(self->host, FRY_NEVER_NS), FERRY_OK);
    fry_host_destroy(self->host);
    while (self->byte_count > 0)
        free(self->bytes[--self->byte_count]);
}

static inline fry_stream *stream_of(gated_host *self, size_t index)
{
    fry_device *device = fry_host_device(self->host, index);
    return device->ops->copy_stream(device, device, false);
}

/* Filled, and there until the host is closed. */
static inline void *bytes_of(gated_host *self, size_t size_bytes, int value)
{
    void *memory = malloc(size_bytes);
    cr_assert(memory != NULL && self->byte_count < GATED_BYTES);
    memset(memory, value, size_bytes);
    return self->bytes[self->byte_count++] = memory;
}

#endif
