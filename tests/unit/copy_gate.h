/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops host copies midway, for tests that are linked with the objects: engines made after
 * copy_gate_install have their workers pass the gate before and after each chunk of a copy.
 */
#ifndef FERRY_TESTS_COPY_GATE_H
#define FERRY_TESTS_COPY_GATE_H

#include "engine/engine.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct copy_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const void *hold_dst; /* the copy that is held; NULL none */
    size_t hold_at_bytes; /* once it has copied so much */
    bool is_held;
    uint64_t begun, ended; /* copies that came to their first byte, and past their last */
    const void *last_ended_dst;
} copy_gate;

static inline void copy_gate_pass(void *arg, const fry_copy *copy, size_t copied_bytes)
{
    copy_gate *gate = arg;
    (void)pthread_mutex_lock(&gate->mutex);
    gate->begun += copied_bytes == 0;
    while (gate->hold_dst == copy->dst && gate->hold_at_bytes == copied_bytes) {
        gate->is_held = true;
        (void)pthread_cond_broadcast(&gate->changed);
        (void)pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    if (copied_bytes == copy->size_bytes) {
        gate->ended++;
        gate->last_ended_dst = copy->dst;
        (void)pthread_cond_broadcast(&gate->changed);
    }
    (void)pthread_mutex_unlock(&gate->mutex);
}

static inline void copy_gate_install(copy_gate *gate)
{
    *gate = (copy_gate){0};
    (void)pthread_mutex_init(&gate->mutex, NULL);
    (void)pthread_cond_init(&gate->changed, NULL);
    fry_test_host_gate = (fry_host_gate){copy_gate_pass, gate};
}

/* Before the copy is submitted: the one to this address stops once it has copied so much. */
static inline void copy_gate_hold(copy_gate *gate, const void *dst, size_t at_bytes)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->hold_dst = dst;
    gate->hold_at_bytes = at_bytes;
    gate->is_held = false;
    (void)pthread_cond_broadcast(&gate->changed); /* a copy that is held elsewhere goes on */
    (void)pthread_mutex_unlock(&gate->mutex);
}

static inline void copy_gate_wait_held(copy_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    while (!gate->is_held)
        (void)pthread_cond_wait(&gate->changed, &gate->mutex);
    (void)pthread_mutex_unlock(&gate->mutex);
}

static inline void copy_gate_open(copy_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->hold_dst = NULL;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->mutex);
}

/* Waits until the copy to this address is the newest that has copied its last byte. */
static inline void copy_gate_wait_ended(copy_gate *gate, const void *dst)
{
    (void)pthread_mutex_lock(&gate->mutex);
    while (gate->last_ended_dst != dst)
        (void)pthread_cond_wait(&gate->changed, &gate->mutex);
    (void)pthread_mutex_unlock(&gate->mutex);
}

/* How many copies have begun. */
static inline uint64_t copy_gate_begun(copy_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    uint64_t begun = gate->begun;
    (void)pthread_mutex_unlock(&gate->mutex);
    return begun;
}

#endif
