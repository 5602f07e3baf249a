/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scene of a case: an engine, and what the case makes with it. The scene owns every future,
 * buffer and promise that it is given, under a name or without one. At its end it releases all of
 * them and the engine, and then none of the engine's memory may be left. So a case opens, settles,
 * releases and closes nothing, unless that is what it tests.
 *
 * A suite names scene_end as its .fini. A process has one scene, as each case has a process of its
 * own. One thread at a time. For Criterion programs.
 */
#ifndef FERRY_TESTS_SCENE_H
#define FERRY_TESTS_SCENE_H

#include "tests/support/api_test.h"

#define SCENE_NAME_BYTES 32

typedef enum scene_kind {
    SCENE_FUTURE,
    SCENE_BUFFER,
    SCENE_PROMISE,
    SCENE_WAITER, /* a counted_waiter, from malloc; freed when the engine is gone */
} scene_kind;

/* A suite whose cases are played on a scene. */
#define SCENE_SUITE(name) TestSuite(name, .fini = scene_end, .timeout = HANG_S)

/* ---- the engine ---- */

/* It opens on first use: embedded, unless the case has asked for something else before. */
test_engine *scene(void);
ferry_engine *engine(void);

/* The options that the engine will open with; before its first use. */
ferry_engine_options *scene_options(ferry_loop_mode loop);

/* Opens it now, with such a loop. */
void scene_begin(ferry_loop_mode loop);

/* An embedded loop makes all the progress it can; another has a thread for that. */
void scene_settle(void);

/* Whether its descriptor says that there is something to do. */
bool scene_is_readable(void);

/* Shuts the engine down and lets it go; what the scene owns stays until its end. */
void scene_leave(void);

/* The same, with no shutdown of its own. */
void scene_drop(void);

/* All that the scene owns is released, and the engine, if there is one, is gone with all its
 * memory; then a case may begin another scene. Does nothing if the case has failed. */
void scene_end(void);

/* ---- what the engine says ---- */

/* How many warnings and errors it has logged, and one of the last 64 of them: from 0 on, or from
 * -1 down for the last. "" if there is none. */
int scene_warnings(void);
const char *scene_warning(int at);

/* The last line, of whatever level. */
const char *scene_last_line(void);

/* ---- what the scene owns ---- */

/* Gives the thing to the scene, which releases it at its end; NULL is nothing. Returns it. */
#define own(thing)                                                                                 \
    (_Generic((thing), SCENE_OWN(future), SCENE_OWN(buffer), SCENE_OWN(promise))(thing))
#define SCENE_OWN(kind) ferry_##kind * : scene_own_##kind

ferry_future *scene_own_future(ferry_future *future);
ferry_buffer *scene_own_buffer(ferry_buffer *buffer);
ferry_promise *scene_own_promise(ferry_promise *promise);

/* The same under a name that no other thing of the scene has; "it" is the newest that was so named.
 * False: another has the name, or it is too long; then the thing has none. */
bool scene_own_as(scene_kind kind, void *thing, const char *name);

/* The thing of that name, or NULL; the scene's. */
void *scene_find(scene_kind kind, const char *name);

/* Registers a waiter that counts its calls; the scene's. The executor may be NULL. */
counted_waiter *on_ready(ferry_future *future, ferry_executor *executor);

/* Gives back what has the name, now. False: nothing has it. */
bool scene_release(const char *name);

/* The same for a case, which fails without it; names are made as by printf. The future of a
 * promise's name is the promise's. */
#define the_future(...) ((ferry_future *)scene_get(SCENE_FUTURE, __VA_ARGS__))
#define the_buffer(...) ((ferry_buffer *)scene_get(SCENE_BUFFER, __VA_ARGS__))
#define the_promise(...) ((ferry_promise *)scene_get(SCENE_PROMISE, __VA_ARGS__))
#define the_waiter(...) ((counted_waiter *)scene_get(SCENE_WAITER, __VA_ARGS__))
__attribute__((format(printf, 2, 3))) void *scene_get(scene_kind kind, const char *format, ...);

/* ---- all there is room for ---- */

/* Takes every node that there is, and says how many; each can be given back, the newest first. */
size_t take_all_nodes(void);
void give_node(void);
void give_all_nodes(void);

/* ---- functions ---- */

/* The executor whose tasks run when the case says so; it is there before the engine is. */
manual_executor *by_hand(void);

/* Waits until so many tasks were posted by the loop's thread or in the progress made here. */
void wait_posted(size_t count);

/* Runs all that was posted, with no progress made. */
void run_posted(void);

/* How often count_call was called for the scene. */
_Atomic int *scene_calls(void);

/* ---- looks ---- */

/*
 * The status that a future has come to: an embedded loop has made all the progress it can, another
 * is waited for unless the future is expected to be pending.
 */
ferry_status scene_status(ferry_future *future, ferry_status expected);

/* The status as it is, with no progress made; what a host does within a call, a GPU is given the
 * time for. */
ferry_status scene_status_now(ferry_future *future, ferry_status expected);

#define EXPECT(future, expected)                                                                   \
    ASSERT_STATUS(scene_status((future), FERRY_##expected), FERRY_##expected)
#define WAIT(future, expected) ASSERT_STATUS(ferry_future_wait((future), -1), FERRY_##expected)
#define EXPECT_NOW(future, expected)                                                               \
    ASSERT_STATUS(scene_status_now((future), FERRY_##expected), FERRY_##expected)

#endif
