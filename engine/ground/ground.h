/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all of engine/ stands on: whether an engine may be used, what keeps its memory, where the
 * calling thread is, and waking the loop. It knows nothing of the parts above it.
 */
#ifndef FRY_ENGINE_GROUND_GROUND_H
#define FRY_ENGINE_GROUND_GROUND_H

#include "engine/engine.h"

static inline ferry_engine *fry_engine_of(const ferry_future *future)
{
    return (ferry_engine *)future->owner;
}

/* ---- may it be used ---- */

extern uint64_t fry_fork_generation;
void fry_watch_forks(void); /* makes later forks' children known as such */

/*
 * Whether a call may use the engine: FERRY_OK; FERRY_E_INVALID for NULL; FERRY_E_FORKED; if the
 * engine must be open, FERRY_E_SHUTDOWN.
 */
static inline ferry_status fry_engine_check(const ferry_engine *engine)
{
    if (fry_unlikely(engine == NULL))
        return FERRY_E_INVALID;
    if (fry_unlikely(engine->fork_generation != fry_load_relaxed(&fry_fork_generation)))
        return FERRY_E_FORKED;
    return FERRY_OK;
}

static inline ferry_status fry_engine_check_open(const ferry_engine *engine)
{
    ferry_status status = fry_engine_check(engine);
    if (fry_unlikely(status == FERRY_OK && fry_load_relaxed(&engine->closing)))
        status = FERRY_E_SHUTDOWN;
    return status;
}

/* The same as refusals, for functions that return a future. */
static inline fry_refusal fry_engine_refusal(const ferry_engine *engine)
{
    if (fry_unlikely(engine == NULL))
        return FRY_REFUSED_ENGINE_NULL;
    if (fry_unlikely(engine->fork_generation != fry_load_relaxed(&fry_fork_generation)))
        return FRY_REFUSED_FORKED;
    return FRY_TAKEN;
}

static inline fry_refusal fry_engine_refusal_open(const ferry_engine *engine)
{
    fry_refusal why = fry_engine_refusal(engine);
    if (fry_unlikely(why == FRY_TAKEN && fry_load_relaxed(&engine->closing)))
        why = FRY_REFUSED_SHUTDOWN;
    return why;
}

/* Number of devices that are visible: acquire, so the devices are complete. Any thread. */
static inline uint32_t fry_engine_device_count(const ferry_engine *engine)
{
    return fry_load_acquire(&engine->device_count);
}

/* ---- memory ---- */

/*
 * Counts an object that must outlive the engine's handle: a buffer, a context in use. Releasing the
 * last reference frees the engine.
 */
void fry_engine_retain(ferry_engine *engine);
void fry_engine_unretain(ferry_engine *engine, int64_t count);

/* ---- where the calling thread is ---- */

/*
 * A place where the calling thread runs callbacks and functions of an engine, with that engine's
 * role; NULL: nowhere. Inside one the thread may make progress for another engine.
 */
typedef struct fry_callback_frame {
    ferry_engine *engine;
    struct fry_callback_frame *outer;
} fry_callback_frame;

extern _Thread_local fry_callback_frame *fry_callback_frames;

static inline void fry_callbacks_begin(fry_callback_frame *frame, ferry_engine *engine)
{
    *frame = (fry_callback_frame){.engine = engine, .outer = fry_callback_frames};
    fry_callback_frames = frame;
}

static inline void fry_callbacks_end(const fry_callback_frame *frame)
{
    fry_callback_frames = frame->outer;
}

/* Whether the calling thread is in a callback or function that this engine's loop runs. */
static inline bool fry_is_in_callback(const ferry_engine *engine)
{
    const fry_callback_frame *frame = fry_callback_frames;
    while (fry_unlikely(frame != NULL) && frame->engine != engine)
        frame = frame->outer;
    return frame != NULL;
}

/*
 * Asked after each callback of a tick: whether the tick belongs to a shutdown whose time is over.
 * The rest is then left to another tick.
 */
static inline bool fry_gives_up(const ferry_engine *engine)
{
    return fry_unlikely(engine->give_up_ns != FRY_NEVER_NS) &&
           fry_clock_monotonic_ns() >= engine->give_up_ns;
}

/* The calling thread's context; NULL if there is no memory for its first one. */
static inline fry_context *fry_context_get(ferry_engine *engine)
{
    if (fry_likely(fry_context_recent.engine_id == engine->id))
        return fry_context_recent.context;
    return fry_context_find(engine);
}

/* ---- waking ---- */

/* Wakes the loop if it sleeps. */
void fry_wake_now(ferry_engine *engine);

/* Makes the poller readable for whoever sleeps on it. */
void fry_wake_write(ferry_engine *engine);

/* After fry_arm: the loop does not sleep any more. With the role. */
static inline void fry_disarm(ferry_engine *engine)
{
    if (fry_load_relaxed(&engine->asleep) == FRY_ASLEEP) /* STOPPED is for good */
        fry_store_release(&engine->asleep, FRY_AWAKE);
}

/*
 * Wakes the loop if it sleeps. The caller has published the work and passed a full barrier; see
 * sleeper.pml. The load is seq_cst, because for most callers that barrier is a read-modify-write,
 * and a weaker load could pass it on aarch64 (NOTIFY_WITHOUT_BARRIER in the model). Any thread,
 * also with the baton. After the loop has stopped there is nobody to wake: see late.h.
 */
static inline void fry_wake(ferry_engine *engine)
{
    if (fry_unlikely(fry_load_seq_cst(&engine->asleep) != FRY_AWAKE))
        fry_wake_now(engine);
}

#endif
