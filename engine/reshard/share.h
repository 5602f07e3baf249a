/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends what several members have: shares of each block's owners, such that the member that
 * sends most sends as little as is possible.
 */
#ifndef FRY_ENGINE_RESHARD_SHARE_H
#define FRY_ENGINE_RESHARD_SHARE_H

#include "engine/reshard/layout.h"

/*
 * Divides the elements that are wanted of each block between its owners.
 *  wanted     of each block of the layout; all together below 2^63
 *  shares     receives the share of each of layout->owners
 *  busiest_p  receives the largest sum of a member's shares, of which there is no smaller
 * False: no memory.
 */
bool fry_reshard_share(const fry_memory *memory, const fry_reshard_layout *layout,
                       const uint64_t *wanted, uint64_t *shares, uint64_t *busiest_p);

#endif
