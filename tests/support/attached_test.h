/* SPDX-License-Identifier: Apache-2.0 */
/* A scene in any mode of its loop, also attached to a libev loop. For programs that have libev. */
#ifndef FERRY_TESTS_ATTACHED_TEST_H
#define FERRY_TESTS_ATTACHED_TEST_H

#include "tests/support/play.h"

#include <ev.h>

/* The loop that the scene's engine is attached to, or NULL. */
static struct ev_loop *user_loop;

/* Its engine has the machine's clock unless its options are told otherwise. */
static inline ferry_engine_options *begin_in(ferry_loop_mode loop)
{
    ferry_engine_options *options = scene_options(loop);
    options->clock = NULL;
    if (loop == FERRY_LOOP_ATTACHED) {
        user_loop = ev_loop_new(EVFLAG_AUTO);
        cr_assert_not_null(user_loop);
        options->ev_loop = user_loop;
    }
    return options;
}

static inline void end_in(void)
{
    scene_end();
    if (user_loop != NULL)
        ev_loop_destroy(user_loop);
    user_loop = NULL;
}

#define ATTACHED_SUITE(name) TestSuite(name, .fini = end_in, .timeout = HANG_S)

#endif
