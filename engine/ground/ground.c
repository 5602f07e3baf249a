/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ground/ground.h"

#include "engine/engine.h"

uint64_t fry_fork_generation;
_Thread_local fry_callback_frame *fry_callback_frames;

/* ---- forks ---- */

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked_in_child(void)
{
    fry_fork_generation++;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked_in_child);
}

void fry_watch_forks(void)
{
    (void)pthread_once(&fork_once, watch_forks);
}

/* ---- memory ---- */

void fry_engine_retain(ferry_engine *engine)
{
    (void)fry_fetch_add(&engine->references, 1);
}

void fry_engine_unretain(ferry_engine *engine, int64_t count)
{
    if (fry_fetch_sub(&engine->references, count) == count)
        engine->free_last(engine);
}

/* ---- waking ---- */

void fry_wake_write(ferry_engine *engine)
{
    fry_store_relaxed(&engine->wake_written, 1);
    fry_poller_wake(&engine->poller);
}

void fry_wake_now(ferry_engine *engine)
{
    uint32_t asleep = FRY_ASLEEP;
    if (fry_cas(&engine->asleep, &asleep, FRY_AWAKE))
        fry_wake_write(engine);
}
