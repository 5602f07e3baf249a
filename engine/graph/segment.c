/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/segment.h"

#include "engine/graph/buffer.h"

static int by_begin(const fry_segment *left, const fry_segment *right)
{
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(fry_spans, fry_segment, entry, by_begin, __attribute__((unused)) static)

fry_segment *fry_spans_from(const struct fry_spans *spans, size_t offset)
{
    fry_segment *found = NULL;
    for (fry_segment *at = spans->rbh_root; at != NULL;) {
        if (at->end > offset) {
            found = at;
            at = RB_LEFT(at, entry);
        } else {
            at = RB_RIGHT(at, entry);
        }
    }
    return found;
}

fry_segment *fry_spans_next(fry_segment *segment)
{
    return fry_spans_RB_NEXT(segment);
}

void fry_spans_insert(struct fry_spans *spans, fry_segment *segment)
{
    (void)fry_spans_RB_INSERT(spans, segment);
}

void fry_spans_remove(struct fry_spans *spans, fry_segment *segment)
{
    (void)fry_spans_RB_REMOVE(spans, segment);
}
