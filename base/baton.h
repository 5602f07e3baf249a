/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baton: one flag that makes its holder the single writer of something, and never a lock that
 * anybody waits for. A thread that finds it taken leaves its work in a queue and returns.
 *
 * Why nothing is stranded. A visitor does      push(work);        if (take) { drain; give; look }
 *                          the holder does     give (full barrier); look at the queue; retake if
 * any Take and give are full barriers. If the visitor's take fails, it precedes the holder's give
 * in the single order of operations on the flag (else it would have succeeded); the push precedes
 * the take, and the look follows the give, so the holder's look sees the push. Looking before
 * giving is wrong: a push between the look and the give is seen by nobody. baton.pml beside this
 * checks both, and that the wrong order strands.
 */
#ifndef FRY_BASE_BATON_H
#define FRY_BASE_BATON_H

#include "base/lf.h"

typedef struct fry_baton {
    uint32_t taken;
} fry_baton;

/*
 * True: the caller holds it now; pairs with fry_baton_give. A look first keeps those who would fail
 * from pulling the line out of the holder's cache; it is seq_cst, so it stands in the argument
 * above where the failing exchange does.
 */
static inline bool fry_baton_take(fry_baton *baton)
{
    return fry_load_seq_cst(&baton->taken) == 0 && fry_exchange(&baton->taken, 1) == 0;
}

/* Full barrier: what the caller looks at next is read after everybody may take the baton. */
static inline void fry_baton_give(fry_baton *baton)
{
    (void)fry_exchange(&baton->taken, 0);
}

#endif
