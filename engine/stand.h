/* SPDX-License-Identifier: Apache-2.0 */
/* Where joins stand on devices. With the baton. */
#ifndef FRY_ENGINE_STAND_H
#define FRY_ENGINE_STAND_H

#include "engine/node.h"

/* Whether the member, ISSUED, stands where the join can say so. */
bool fry_join_can_stand(const fry_node *join, const fry_node *member);

/* The join stands where the member does, too. */
void fry_join_stand(fry_node *join, const fry_node *member);

#endif
