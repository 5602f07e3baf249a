/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full barrier in every other thread of the process, for protocols with one hot side and one that
 * rarely runs. The hot side then needs no barrier of its own, only the order of its instructions,
 * which fry_order_instructions keeps.
 */
#ifndef FRY_BASE_MEMBARRIER_H
#define FRY_BASE_MEMBARRIER_H

#include <stdbool.h>

/* Prepares this process; true: fry_membarrier works from now on. */
bool fry_membarrier_register(void);

/*
 * On return each thread of the process has passed a full barrier since the call: a running thread
 * by an interrupt, another by the switch that took it off its CPU.
 */
void fry_membarrier(void);

/* The compiler moves no access across. */
#define fry_order_instructions() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
