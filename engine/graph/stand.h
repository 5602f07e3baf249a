/* SPDX-License-Identifier: Apache-2.0 */
/* The places of joins on devices. With the baton. */
#ifndef FRY_ENGINE_GRAPH_STAND_H
#define FRY_ENGINE_GRAPH_STAND_H

#include "engine/graph/node.h"

/* Whether the join can take over the places of the member, which is ISSUED. */
bool fry_join_can_stand(const fry_node *join, const fry_node *member);

/* Adds the member's places to the join's. */
void fry_join_stand(fry_node *join, const fry_node *member);

#endif
