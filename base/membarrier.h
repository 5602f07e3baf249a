/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full barrier in every other thread of the process: for protocols where one side is hot and the
 * other seldom runs. The hot side then needs no barrier of its own, only the order of its
 * instructions, which fry_order_instructions keeps.
 */
#ifndef FRY_BASE_MEMBARRIER_H
#define FRY_BASE_MEMBARRIER_H

#include <stdbool.h>

/* True: fry_membarrier works in this process from now on. */
bool fry_membarrier_register(void);

/*
 * On return each thread of the process has passed a full barrier since the call: one that was
 * running by an interrupt, one that was not by the switch that took it off its CPU.
 */
void fry_membarrier(void);

/* The compiler moves no access across. */
#define fry_order_instructions() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#endif
