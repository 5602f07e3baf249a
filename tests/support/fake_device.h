/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that exist in a test's head: a backend with main, parked and outside streams whose
 * operations run when the test says so, in any order that a GPU might choose, and whose failures it
 * scripts. Their memory is ordinary memory, and copies do copy.
 *
 * It is as unkind as its contract (gpu/device.h) allows: nothing runs before it was flushed; copies
 * of one stream run in any order but for what `waits` says, though they fire in theirs (an event of
 * their own stream is that copy and all before it); a wait for another stream holds up all that
 * comes behind it. What the contract forbids its caller makes
 * fake_complaint say so.
 */
#ifndef FERRY_TESTS_FAKE_DEVICE_H
#define FERRY_TESTS_FAKE_DEVICE_H

#include "gpu/device.h"

#define FAKE_DEVICES_MAX 8
#define FAKE_PARKED_MAX 8
#define FAKE_OUTSIDE_MAX 16
#define FAKE_USER_STREAMS 8
#define FAKE_ERROR_CODE 719

/* A device's streams by index; then come the parked ones, then those of the program's streams. */
enum { FAKE_IN = 0, FAKE_OUT, FAKE_WITHIN, FAKE_MAIN_COUNT };

typedef struct fake_world fake_world; /* devices that can wait for one another */
typedef struct fake_device fake_device;

typedef struct fake_options {
    const char *name;
    size_t parked_count;
    size_t outside_count; /* at least 1 */
    bool is_polled;
} fake_options;

/* How often a device was asked for what; of all its streams. */
typedef struct fake_counts {
    uint64_t copies, flushes, looks, outcomes, cancels, user_waits;
} fake_counts;

/* NULL without memory. The seed decides what fake_run_some runs. */
fake_world *fake_world_create(uint64_t seed);
void fake_world_destroy(fake_world *world); /* and its devices; NULL is allowed */
fake_device *fake_world_add(fake_world *world, const fake_options *options);

fry_device *fake_backend(fake_device *device);
fry_stream *fake_stream(fake_device *device, size_t index);
fake_counts fake_count(fake_device *device);

/* What the caller did that it must not, or NULL. */
const char *fake_complaint(fake_world *world);

/* Called after something has fired, without a lock; for streams that are not polled. */
void fake_set_notify(fake_world *world, fry_notify notify);

/* ---- running; any thread ---- */

/* Runs all that can, until nothing can. Returns how many operations that were. */
size_t fake_run(fake_world *world);

/* Runs up to `count`, chosen at random among those that can; events of user streams too. */
size_t fake_run_some(fake_world *world, size_t count);

/* Whether anything that was issued or recorded has yet to fire. */
bool fake_is_at_work(fake_world *world);

/* Nothing in the stream runs until it is let go. */
void fake_hold(fry_stream *stream, bool is_held);

/* Up to where it has fired, as the device knows it. */
uint64_t fake_fired(const fry_stream *stream);

/* The waits of an operation that has not fired. Returns how many. */
size_t fake_waits(const fry_stream *stream, uint64_t sequence, fry_event waits[FRY_STREAM_WAITS]);

/* ---- the program's own streams ---- */

/* The native handle of the i-th; NULL is another one, the default stream. */
void *fake_user_stream(fake_device *device, size_t i);

/* It comes to so many more of the events that were, or will be, recorded on it. */
void fake_user_go(fake_device *device, void *native_stream, uint64_t events);

void fake_user_capture(fake_device *device, void *native_stream, bool is_capturing);

/* An event of the program's own, for event_wrap: native_event is its address. */
typedef struct fake_user_event {
    bool has_fired;
} fake_user_event;

/* ---- failures ---- */

/* The next copy that is issued after so many others is refused. */
void fake_refuse_copy(fake_device *device, uint64_t after);

/* The same: it stands in its stream, but its outcome is a failure and it copies nothing. */
void fake_strike_copy(fake_device *device, uint64_t after);

/* The next event can't be recorded; FERRY_OK: it can. */
void fake_refuse_event(fake_device *device, ferry_status status);

/* Nothing of it will be known to fire, until it is found again; then all that it was given runs. */
void fake_lose(fake_device *device, bool is_lost);

/* Its streams say that they are full, until something of theirs has fired. */
void fake_fill(fry_stream *stream);

#endif
