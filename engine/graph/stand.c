/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/stand.h"

#include "engine/graph/node.h"

static bool has_stand(const fry_node *join, const fry_lane *lane)
{
    for (size_t i = 0; i < join->join.stand_count; i++) {
        if (fry_node_stand(join, i).lane == lane)
            return true;
    }
    return false;
}

bool fry_join_can_stand(const fry_node *join, const fry_node *member)
{
    size_t count = join->join.stand_count;
    for (size_t i = 0; i < fry_node_stand_count(member); i++)
        count += !has_stand(join, fry_node_stand(member, i).lane);
    return count <= FRY_JOIN_STANDS;
}

static void stand(fry_join_op *join, fry_stand at)
{
    for (size_t i = 0; i < join->stand_count; i++) {
        fry_stand *known = &join->stands[i];
        if (known->lane == at.lane) {
            known->sequence = known->sequence > at.sequence ? known->sequence : at.sequence;
            return;
        }
    }
    join->stands[join->stand_count++] = at;
}

void fry_join_stand(fry_node *join, const fry_node *member)
{
    for (size_t i = 0; i < fry_node_stand_count(member); i++)
        stand(&join->join, fry_node_stand(member, i));
}
