/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a play (tests/support/play.h) that need private means: copies of host devices are
 * stopped midway, and the baton is held as a busy thread holds it. For suites that are linked with
 * the objects, which call themselves an INNER_SUITE.
 *
 *   hold SPAN [at N]     the next copy to where the span begins stops once it has copied N bytes,
 *                        or before the first
 *   await held           until it has stopped
 *   await SPAN           until no copy has ended later than one to where the span begins
 *   begun N              so many copies have come to their first byte
 *   go                   the copy goes on, and none stops
 *   baton taken | baton given
 */
#ifndef FERRY_TESTS_INNER_PLAY_H
#define FERRY_TESTS_INNER_PLAY_H

#include "engine/engine.h"
#include "tests/support/play.h"
#include "tests/support/play_words.h"
#include "tests/unit/copy_gate.h"

static copy_gate gate; /* of the scene's engine */

static inline const void *start_of(ferry_span span)
{
    return (const char *)ferry_buffer_data(span.buffer) + span.offset_bytes;
}

static inline bool do_hold(void)
{
    ferry_span span;
    size_t at_bytes = 0;
    if (!play_take_span(&span) || (play_skip("at") && !play_take_size(&at_bytes)))
        return false;
    copy_gate_hold(&gate, start_of(span), at_bytes);
    return true;
}

static inline bool do_await(void)
{
    ferry_span span;
    if (play_skip("held")) {
        copy_gate_wait_held(&gate);
        return true;
    }
    if (!play_take_span(&span))
        return false;
    copy_gate_wait_ended(&gate, start_of(span));
    return true;
}

static inline bool do_begun(void)
{
    int64_t expected = 0, begun = (int64_t)copy_gate_begun(&gate);
    if (!play_take_number(&expected))
        return false;
    return begun == expected || play_complain("there are %lld", (long long)begun);
}

static inline bool do_go(void)
{
    copy_gate_open(&gate);
    return true;
}

static inline bool do_baton(void)
{
    if (play_skip("taken"))
        return fry_baton_take(&engine()->baton) || play_complain("somebody has it");
    fry_baton_give(&engine()->baton);
    return play_must("given");
}

static inline void inner_begin(void)
{
    static const play_act acts[] = {{"hold", do_hold},
                                    {"await", do_await},
                                    {"begun", do_begun},
                                    {"go", do_go},
                                    {"baton", do_baton}};
    copy_gate_install(&gate);
    play_add(acts, sizeof acts / sizeof *acts);
}

#define INNER_SUITE(name) TestSuite(name, .init = inner_begin, .fini = scene_end, .timeout = HANG_S)

#endif
