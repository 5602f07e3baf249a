/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/sum.h"

#include "engine/graph/edge.h"
#include "engine/graph/join.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

fry_node fry_sum_of_none;

void fry_sum_forget(fry_segment *piece)
{
    for (; piece != NULL && piece->sum != NULL; piece = RB_PARENT(piece, entry)) {
        fry_node *sum = piece->sum;
        piece->sum = NULL;
        if (fry_node_is_join(sum) && sum->join.cached_at == piece) {
            sum->join.cached_at = NULL;
            fry_join_release(sum);
        }
    }
}

const fry_segment *fry_sum_last(const fry_segment *root)
{
    while (RB_RIGHT(root, entry) != NULL)
        root = RB_RIGHT(root, entry);
    return root;
}

fry_segment *fry_sum_root(fry_segment *piece, size_t end)
{
    if (RB_LEFT(piece, entry) != NULL || fry_sum_last(piece)->begin >= end)
        return NULL;
    fry_segment *root = piece, *above;
    while ((above = RB_PARENT(root, entry)) != NULL && RB_LEFT(above, entry) == root &&
           fry_sum_last(above)->begin < end)
        root = above;
    return root;
}

static bool is_missing(const fry_segment *piece)
{
    return piece != NULL && piece->sum == NULL;
}

fry_segment *fry_sum_missing(fry_segment *root)
{
    if (root->sum != NULL)
        return NULL;
    for (;;) {
        if (is_missing(RB_LEFT(root, entry)))
            root = RB_LEFT(root, entry);
        else if (is_missing(RB_RIGHT(root, entry)))
            root = RB_RIGHT(root, entry);
        else
            return root;
    }
}

static fry_node *sum_of(const fry_segment *piece)
{
    return piece == NULL || piece->sum == &fry_sum_of_none ? NULL : piece->sum;
}

bool fry_sum_make(fry_turn *turn, fry_segment *piece)
{
    fry_node *const parts[] = {sum_of(RB_LEFT(piece, entry)), piece->node,
                               sum_of(RB_RIGHT(piece, entry))};
    fry_node *only = &fry_sum_of_none;
    size_t count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i] != NULL) {
            only = parts[i];
            count++;
        }
    }
    if (count > 1) {
        if ((only = fry_join_open(turn)) == NULL)
            return false;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (parts[i] != NULL)
                fry_join_add(turn, only, parts[i], FRY_EDGE_READ);
        }
        only->join.cached_at = piece;
        fry_join_close(turn, only);
    }
    piece->sum = only;
    return true;
}
