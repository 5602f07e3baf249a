/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baton: one flag that makes its holder the single writer of something. No thread waits for it:
 * a thread that finds it taken leaves its work in a queue and returns.
 *
 * Why no work is stranded:
 *
 *     visitor    push(work);             if (take) { drain; give; look }
 *     holder     give (full barrier);    look at the queue; retake if there is work
 *
 * Take and give are full barriers. If the visitor's take fails, it comes before the holder's give
 * in the single order of operations on the flag (else it would have succeeded). The push comes
 * before the take, and the look after the give, so the holder's look sees the push. A look before
 * the give would be wrong: no thread sees a push between the two. baton.pml beside this checks
 * both, and that the wrong order strands work.
 */
#ifndef FRY_BASE_BATON_H
#define FRY_BASE_BATON_H

#include "base/lf.h"

typedef struct fry_baton {
    uint32_t taken;
} fry_baton;

/*
 * True: the caller holds the baton; pairs with fry_baton_give. The load first keeps threads that
 * would fail from pulling the line out of the holder's cache. It is seq_cst, so in the argument
 * above it stands where the failing exchange does.
 */
static inline bool fry_baton_take(fry_baton *baton)
{
    return fry_load_seq_cst(&baton->taken) == 0 && fry_exchange(&baton->taken, 1) == 0;
}

/* A full barrier: what the caller reads next is read after every thread may take the baton. */
static inline void fry_baton_give(fry_baton *baton)
{
    (void)fry_exchange(&baton->taken, 0);
}

#endif
