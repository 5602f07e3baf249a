/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS_MAX (FAKE_MAIN_COUNT + FAKE_PARKED_MAX + FAKE_OUTSIDE_MAX)
#define USER_WAITS_MAX 32
#define NEVER UINT64_MAX

typedef struct fake_slot {
    fry_copy copy; /* of an event: nothing */
    fry_event waits[USER_WAITS_MAX];
    size_t wait_count;
    bool is_done, is_cancelled, is_struck;
} fake_slot;

typedef struct fake_fry_stream {
    fry_stream stream; /* first */
    uint64_t flushed, fired;
    uint64_t told; /* up to where the engine has been told that it fired */
    bool is_held;
    bool is_claimed; /* outside: by who records, until event_entered */
    void *native;    /* outside: whose events are here */
    fake_slot slots[FRY_STREAM_DEPTH];
} fake_fry_stream;

typedef struct fake_user {
    bool is_capturing;
    uint64_t allowed, reached; /* events it may come to, and has */
    fry_event waits[USER_WAITS_MAX];
    size_t wait_count; /* for the next event */
} fake_user;

struct fake_device {
    fry_device device; /* first */
    fake_world *world;
    size_t parked_count, stream_count;
    fake_fry_stream *streams;
    fake_user users[FAKE_USER_STREAMS + 1]; /* the last is the default stream */
    fake_counts counts;
    uint64_t refuse_after, strike_after;
    ferry_status next_event;
    bool is_lost;
};

struct fake_world {
    pthread_mutex_t lock;
    uint64_t random;
    fry_notify notify;
    const char *complaint;
    size_t device_count;
    fake_device *devices[FAKE_DEVICES_MAX];
};

static fake_fry_stream *fake_of(const fry_stream *stream)
{
    return (fake_fry_stream *)(uintptr_t)stream;
}

static fake_device *device_of(const fry_device *device)
{
    return (fake_device *)(uintptr_t)device;
}

static fake_world *world_of(const fry_stream *stream)
{
    return device_of(stream->device)->world;
}

static fake_slot *slot_of(fake_fry_stream *stream, uint64_t sequence)
{
    return &stream->slots[sequence % FRY_STREAM_DEPTH];
}

static void lock(fake_world *world)
{
    (void)pthread_mutex_lock(&world->lock);
}

static void unlock(fake_world *world)
{
    (void)pthread_mutex_unlock(&world->lock);
}

static void complain(fake_world *world, const char *why)
{
    if (world->complaint == NULL)
        world->complaint = why;
}

static uint64_t next_random(fake_world *world)
{
    uint64_t x = world->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return world->random = x;
}

static void say(fry_fault *fault, const char *message)
{
    *fault = (fry_fault){
        .status = FERRY_E_DEVICE, .rank = -1, .native_code = FAKE_ERROR_CODE, .domain = "fake"};
    (void)snprintf(fault->message, sizeof fault->message, "%s", message);
}

static fake_user *user_of(fake_device *device, void *native)
{
    for (size_t i = 0; i < FAKE_USER_STREAMS; i++) {
        if (native == &device->users[i])
            return &device->users[i];
    }
    return native == NULL ? &device->users[FAKE_USER_STREAMS] : NULL;
}

/* ---- running ---- */

static bool is_own(const fake_fry_stream *stream, const fry_event *event)
{
    return event->stream == &stream->stream;
}

static bool others_have_fired(fake_fry_stream *stream, uint64_t sequence)
{
    const fake_slot *slot = slot_of(stream, sequence);
    for (size_t i = 0; i < slot->wait_count; i++) {
        const fry_event *wait = &slot->waits[i];
        if (!is_own(stream, wait) && fake_of(wait->stream)->fired < wait->sequence)
            return false;
    }
    return true;
}

static bool own_are_done(fake_fry_stream *stream, uint64_t sequence)
{
    const fake_slot *slot = slot_of(stream, sequence);
    for (size_t i = 0; i < slot->wait_count; i++) {
        const fry_event *wait = &slot->waits[i];
        if (!is_own(stream, wait))
            continue;
        for (uint64_t at = stream->fired + 1; at <= wait->sequence; at++) {
            if (!slot_of(stream, at)->is_done)
                return false;
        }
    }
    return true;
}

/* Whether the operation can run now; *is_blocked_p: nor can anything behind it. */
static bool can_run(fake_fry_stream *stream, uint64_t sequence, bool *is_blocked_p)
{
    *is_blocked_p =
        stream->is_held || sequence > stream->flushed || !others_have_fired(stream, sequence);
    if (*is_blocked_p)
        return false;
    if (stream->stream.kind == FRY_STREAM_OUTSIDE) {
        const fake_user *user = user_of(device_of(stream->stream.device), stream->native);
        *is_blocked_p =
            sequence != stream->fired + 1 || (user != NULL && user->reached >= user->allowed);
        return !*is_blocked_p;
    }
    return !slot_of(stream, sequence)->is_done && own_are_done(stream, sequence);
}

static void copy_rows(const fry_copy *copy)
{
    size_t row_bytes = fry_copy_row_bytes(copy);
    for (size_t row = 0; row < copy->row_count; row++)
        memcpy((char *)copy->dst + row * copy->dst_pitch_bytes,
               (const char *)copy->src + row * copy->src_pitch_bytes, row_bytes);
}

static void run_slot(fake_fry_stream *stream, uint64_t sequence)
{
    fake_slot *slot = slot_of(stream, sequence);
    if (stream->stream.kind == FRY_STREAM_OUTSIDE) {
        fake_user *user = user_of(device_of(stream->stream.device), stream->native);
        if (user != NULL)
            user->reached++;
    } else if (!slot->is_struck &&
               (!slot->is_cancelled || next_random(world_of(&stream->stream)) % 2 != 0)) {
        copy_rows(&slot->copy);
    }
    slot->is_done = true;
    while (stream->fired < stream->flushed && slot_of(stream, stream->fired + 1)->is_done)
        stream->fired++;
}

typedef struct fake_choice {
    fake_fry_stream *stream;
    uint64_t sequence;
} fake_choice;

/* One of those that can run, or the first; no stream: none can. */
static fake_choice choose(fake_world *world, bool at_random)
{
    fake_choice chosen = {NULL, 0};
    uint64_t count = 0;
    for (size_t d = 0; d < world->device_count; d++) {
        fake_device *device = world->devices[d];
        for (size_t s = 0; s < device->stream_count && !device->is_lost; s++) {
            fake_fry_stream *stream = &device->streams[s];
            bool is_blocked = false;
            for (uint64_t at = stream->fired + 1; at <= stream->flushed && !is_blocked; at++) {
                if (!can_run(stream, at, &is_blocked))
                    continue;
                if (next_random(world) % ++count == 0)
                    chosen = (fake_choice){stream, at};
                if (!at_random)
                    return (fake_choice){stream, at};
            }
        }
    }
    return chosen;
}

static size_t run(fake_world *world, size_t limit, bool at_random)
{
    size_t count = 0;
    lock(world);
    fry_notify notify = world->notify;
    for (; count < limit; count++) {
        fake_choice chosen = choose(world, at_random);
        if (chosen.stream == NULL)
            break;
        run_slot(chosen.stream, chosen.sequence);
    }
    unlock(world);
    if (count != 0 && notify.fn != NULL)
        notify.fn(notify.arg);
    return count;
}

size_t fake_run(fake_world *world)
{
    return run(world, SIZE_MAX, false);
}

size_t fake_run_some(fake_world *world, size_t count)
{
    return run(world, count, true);
}

bool fake_is_at_work(fake_world *world)
{
    bool is_at_work = false;
    lock(world);
    for (size_t d = 0; d < world->device_count; d++) {
        for (size_t s = 0; s < world->devices[d]->stream_count; s++) {
            const fake_fry_stream *stream = &world->devices[d]->streams[s];
            is_at_work = is_at_work || stream->fired < stream->stream.issued;
        }
    }
    unlock(world);
    return is_at_work;
}

/* ---- fry_device_ops ---- */

static void fake_describe(fry_device *device, fry_device_facts *facts)
{
    *facts = (fry_device_facts){.stream_count = (uint32_t)device_of(device)->stream_count};
}

static ferry_status fake_memory_alloc(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                      void **memory_p, fry_fault *fault)
{
    (void)device, (void)kind, (void)fault;
    *memory_p = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
    return *memory_p != NULL ? FERRY_OK : FERRY_E_NO_MEMORY;
}

static void fake_memory_free(fry_device *device, void *memory, size_t size_bytes,
                             fry_memory_kind kind)
{
    (void)device, (void)size_bytes, (void)kind;
    free(memory);
}

static fry_stream *fake_stream_at(fry_device *device, size_t index)
{
    fake_device *self = device_of(device);
    return index < self->stream_count ? &self->streams[index].stream : NULL;
}

static const fry_device_ops fake_ops;

static fry_stream *fake_copy_stream(fry_device *dst, fry_device *src, bool is_pageable)
{
    (void)is_pageable;
    if (dst->ops != &fake_ops)
        return fake_stream_at(src, FAKE_OUT);
    return fake_stream_at(dst, src->ops == &fake_ops ? FAKE_WITHIN : FAKE_IN);
}

static fry_stream *fake_parked_stream(fry_stream *main, size_t index)
{
    const fake_device *device = device_of(main->device);
    return index < device->parked_count ? fake_stream_at(main->device, FAKE_MAIN_COUNT + index)
                                        : NULL;
}

static bool fake_copy_inline(fry_stream *stream, const fry_copy *copy)
{
    (void)stream, (void)copy;
    return false;
}

static bool fake_can_wait(const fry_stream *stream, const fry_stream *other)
{
    return other->device->ops == &fake_ops && world_of(stream) == world_of(other);
}

static void check_copy(fake_fry_stream *stream, const fry_event *waits, size_t wait_count)
{
    fake_world *world = world_of(&stream->stream);
    if (wait_count > FRY_STREAM_WAITS)
        complain(world, "too many waits");
    if (stream->stream.issued - stream->fired >= FRY_STREAM_DEPTH)
        complain(world, "a copy in a stream without room");
    if (stream->stream.is_full)
        complain(world, "a copy in a stream that says it is full");
    if (stream->stream.kind == FRY_STREAM_OUTSIDE)
        complain(world, "a copy in a program's own stream");
    for (size_t i = 0; i < wait_count && i < FRY_STREAM_WAITS; i++) {
        const fry_stream *other = waits[i].stream;
        if (!fake_can_wait(&stream->stream, other))
            complain(world, "a wait for what it can't wait for");
        else if (waits[i].sequence > other->issued || waits[i].sequence == 0)
            complain(world, "a wait for what was not issued");
        else if (waits[i].sequence <= fake_of(other)->told)
            complain(world, "a wait for what is known to have fired");
        else if (stream->stream.kind == FRY_STREAM_MAIN && other->kind != FRY_STREAM_MAIN &&
                 fake_of(other)->fired < waits[i].sequence)
            complain(world, "a main stream stands behind an outside event");
        for (size_t j = 0; j < i; j++) {
            if (waits[j].stream == other)
                complain(world, "two waits for one stream");
        }
    }
}

static bool is_due(uint64_t *after)
{
    return *after != NEVER && (*after)-- == 0;
}

static ferry_status fake_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                              size_t wait_count, uint64_t *sequence_p, fry_fault *fault)
{
    fake_device *device = device_of(stream->device);
    fake_fry_stream *self = fake_of(stream);
    ferry_status status = FERRY_OK;
    lock(device->world);
    check_copy(self, waits, wait_count);
    device->counts.copies++;
    if (device->is_lost || is_due(&device->refuse_after)) {
        say(fault, device->is_lost ? "the device is lost" : "the copy is refused");
        status = FERRY_E_DEVICE;
    } else {
        uint64_t sequence = stream->issued + 1;
        fake_slot *slot = slot_of(self, sequence);
        *slot = (fake_slot){.copy = *copy, .wait_count = wait_count};
        memcpy(slot->waits, waits, wait_count * sizeof *waits);
        slot->is_struck = is_due(&device->strike_after);
        stream->struck += slot->is_struck;
        __atomic_store_n(&stream->issued, sequence, __ATOMIC_RELAXED);
        *sequence_p = sequence;
    }
    unlock(device->world);
    return status;
}

static void fake_flush(fry_stream *stream)
{
    lock(world_of(stream));
    device_of(stream->device)->counts.flushes++;
    fake_of(stream)->flushed = stream->issued;
    unlock(world_of(stream));
}

static uint64_t fake_ops_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault)
{
    fake_device *device = device_of(stream->device);
    lock(device->world);
    uint64_t fired = fake_of(stream)->told = fake_of(stream)->fired;
    if (stream->kind != FRY_STREAM_OUTSIDE)
        stream->is_full = stream->is_full && fired != stream->issued;
    device->counts.looks++;
    *status_p = FERRY_OK;
    if (device->is_lost) {
        *status_p = FERRY_E_DEVICE;
        say(fault, "the device is lost");
    }
    unlock(device->world);
    return fired;
}

static ferry_status fake_outcome(fry_stream *stream, uint64_t sequence, fry_fault *fault)
{
    fake_fry_stream *self = fake_of(stream);
    fake_device *device = device_of(stream->device);
    lock(device->world);
    device->counts.outcomes++;
    if (sequence > self->fired || stream->issued - sequence >= FRY_STREAM_DEPTH)
        complain(device->world, "the outcome of what has not fired, or is forgotten");
    bool is_struck = slot_of(self, sequence)->is_struck;
    if (is_struck)
        say(fault, "the copy failed");
    unlock(device->world);
    return is_struck ? FERRY_E_DEVICE : FERRY_OK;
}

static int64_t fake_begun_ns(fry_stream *stream, uint64_t sequence)
{
    (void)stream, (void)sequence;
    return 0;
}

static void fake_cancel(fry_stream *stream, uint64_t sequence)
{
    fake_device *device = device_of(stream->device);
    lock(device->world);
    device->counts.cancels++;
    slot_of(fake_of(stream), sequence)->is_cancelled = true;
    unlock(device->world);
}

/* With the lock: an outside stream for the caller alone. */
static fake_fry_stream *claim(fake_device *device, void *key)
{
    fake_fry_stream *empty = NULL;
    for (size_t i = FAKE_MAIN_COUNT + device->parked_count; i < device->stream_count; i++) {
        fake_fry_stream *stream = &device->streams[i];
        bool is_empty = stream->fired == stream->stream.issued;
        if (stream->is_claimed)
            continue;
        if (!is_empty && stream->native == key)
            return stream->stream.issued - stream->fired < FRY_STREAM_DEPTH ? stream : NULL;
        if (is_empty && empty == NULL)
            empty = stream;
    }
    if (empty != NULL)
        empty->native = key;
    return empty;
}

static ferry_status record(fake_device *device, fake_user *user, void *key, fry_event *event_p,
                           fry_fault *fault)
{
    ferry_status status = device->next_event;
    device->next_event = FERRY_OK;
    if (status == FERRY_E_DEVICE || device->is_lost) {
        say(fault, "no event can be recorded");
        return FERRY_E_DEVICE;
    }
    if (status != FERRY_OK)
        return status;
    if (user != NULL && user->is_capturing)
        return FERRY_E_CAPTURE;
    fake_fry_stream *stream = claim(device, key);
    if (stream == NULL)
        return FERRY_E_AGAIN;
    stream->is_claimed = true;
    uint64_t sequence = stream->stream.issued + 1;
    fake_slot *slot = slot_of(stream, sequence);
    *slot = (fake_slot){0};
    if (user != NULL) {
        memcpy(slot->waits, user->waits, sizeof slot->waits);
        slot->wait_count = user->wait_count;
        user->wait_count = 0;
    }
    __atomic_store_n(&stream->stream.issued, sequence, __ATOMIC_RELAXED);
    stream->flushed = sequence;
    *event_p = (fry_event){&stream->stream, sequence};
    return FERRY_OK;
}

static ferry_status fake_event_record(fry_device *device, void *native_stream, fry_event *event_p,
                                      fry_fault *fault)
{
    fake_device *self = device_of(device);
    fake_user *user = user_of(self, native_stream);
    if (user == NULL)
        return FERRY_E_INVALID;
    lock(self->world);
    ferry_status status = record(self, user, native_stream, event_p, fault);
    unlock(self->world);
    return status;
}

static void fake_event_entered(fry_event event)
{
    lock(world_of(event.stream));
    if (!fake_of(event.stream)->is_claimed)
        complain(world_of(event.stream), "an event has entered twice");
    fake_of(event.stream)->is_claimed = false;
    unlock(world_of(event.stream));
}

/* It stands where the program's stream has got to: fake_user_go lets it fire, too. */
static ferry_status fake_event_wrap(fry_device *device, void *native_event, void *native_stream,
                                    fry_event *event_p, fry_fault *fault)
{
    if (((fake_user_event *)native_event)->has_fired) {
        *event_p = (fry_event){NULL, 0};
        return FERRY_OK;
    }
    return fake_event_record(device, native_stream, event_p, fault);
}

static ferry_status fake_stream_wait(fry_device *device, void *native_stream, fry_event event,
                                     fry_fault *fault)
{
    fake_device *self = device_of(device);
    fake_user *user = user_of(self, native_stream);
    ferry_status status = FERRY_OK;
    lock(self->world);
    self->counts.user_waits++;
    fake_fry_stream *stream = fake_of(event.stream);
    if (self->is_lost) {
        say(fault, "no stream can wait");
        status = FERRY_E_DEVICE;
    } else if (user->is_capturing) {
        status = FERRY_E_CAPTURE;
    } else if (event.sequence > stream->flushed) {
        status = FERRY_E_NOT_ISSUED;
    } else if (event.sequence > stream->fired) {
        if (user->wait_count < USER_WAITS_MAX)
            user->waits[user->wait_count++] = event;
        else
            complain(self->world, "more waits than the fake can hold");
    }
    unlock(self->world);
    return status;
}

static const fry_device_ops fake_ops = {
    .backend = "fake",
    .describe = fake_describe,
    .memory_alloc = fake_memory_alloc,
    .memory_free = fake_memory_free,
    .stream_at = fake_stream_at,
    .copy_stream = fake_copy_stream,
    .parked_stream = fake_parked_stream,
    .copy_inline = fake_copy_inline,
    .copy = fake_copy,
    .flush = fake_flush,
    .can_wait = fake_can_wait,
    .fired = fake_ops_fired,
    .outcome = fake_outcome,
    .begun_ns = fake_begun_ns,
    .cancel = fake_cancel,
    .event_record = fake_event_record,
    .event_entered = fake_event_entered,
    .event_wrap = fake_event_wrap,
    .stream_wait = fake_stream_wait,
};

/* ---- making ---- */

fake_world *fake_world_create(uint64_t seed)
{
    fake_world *world = calloc(1, sizeof *world);
    if (world == NULL)
        return NULL;
    (void)pthread_mutex_init(&world->lock, NULL);
    world->random = seed * 2654435761 + 88172645463325252;
    return world;
}

void fake_world_destroy(fake_world *world)
{
    if (world == NULL)
        return;
    for (size_t i = 0; i < world->device_count; i++) {
        free(world->devices[i]->streams);
        free(world->devices[i]);
    }
    (void)pthread_mutex_destroy(&world->lock);
    free(world);
}

static fry_stream_kind kind_of(const fake_device *device, size_t index)
{
    if (index < FAKE_MAIN_COUNT)
        return FRY_STREAM_MAIN;
    return index < FAKE_MAIN_COUNT + device->parked_count ? FRY_STREAM_PARKED : FRY_STREAM_OUTSIDE;
}

fake_device *fake_world_add(fake_world *world, const fake_options *options)
{
    if (world->device_count == FAKE_DEVICES_MAX || options->parked_count > FAKE_PARKED_MAX ||
        options->outside_count > FAKE_OUTSIDE_MAX)
        return NULL;
    fake_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device->world = world;
    device->device.ops = &fake_ops;
    (void)snprintf(device->device.name, sizeof device->device.name, "%s", options->name);
    device->parked_count = options->parked_count;
    device->stream_count = FAKE_MAIN_COUNT + options->parked_count + options->outside_count;
    device->refuse_after = device->strike_after = NEVER;
    device->streams = calloc(device->stream_count, sizeof *device->streams);
    if (device->streams == NULL) {
        free(device);
        return NULL;
    }
    for (size_t i = 0; i < device->stream_count; i++) {
        fry_stream *stream = &device->streams[i].stream;
        stream->device = &device->device;
        stream->kind = (uint8_t)kind_of(device, i);
        stream->is_polled = options->is_polled;
    }
    world->devices[world->device_count++] = device;
    return device;
}

fry_device *fake_backend(fake_device *device)
{
    return &device->device;
}

fry_stream *fake_stream(fake_device *device, size_t index)
{
    return &device->streams[index].stream;
}

fake_counts fake_count(fake_device *device)
{
    lock(device->world);
    fake_counts counts = device->counts;
    unlock(device->world);
    return counts;
}

const char *fake_complaint(fake_world *world)
{
    lock(world);
    const char *complaint = world->complaint;
    unlock(world);
    return complaint;
}

void fake_set_notify(fake_world *world, fry_notify notify)
{
    lock(world);
    world->notify = notify;
    unlock(world);
}

/* ---- steering ---- */

void fake_hold(fry_stream *stream, bool is_held)
{
    lock(world_of(stream));
    fake_of(stream)->is_held = is_held;
    unlock(world_of(stream));
}

uint64_t fake_fired(const fry_stream *stream)
{
    lock(world_of(stream));
    uint64_t fired = fake_of(stream)->fired;
    unlock(world_of(stream));
    return fired;
}

size_t fake_waits(const fry_stream *stream, uint64_t sequence, fry_event waits[FRY_STREAM_WAITS])
{
    lock(world_of(stream));
    const fake_slot *slot = slot_of(fake_of(stream), sequence);
    size_t count = slot->wait_count < FRY_STREAM_WAITS ? slot->wait_count : FRY_STREAM_WAITS;
    memcpy(waits, slot->waits, count * sizeof *waits);
    unlock(world_of(stream));
    return count;
}

void *fake_user_stream(fake_device *device, size_t i)
{
    return &device->users[i];
}

void fake_user_go(fake_device *device, void *native_stream, uint64_t events)
{
    lock(device->world);
    user_of(device, native_stream)->allowed += events;
    unlock(device->world);
}

void fake_user_capture(fake_device *device, void *native_stream, bool is_capturing)
{
    lock(device->world);
    user_of(device, native_stream)->is_capturing = is_capturing;
    unlock(device->world);
}

void fake_refuse_copy(fake_device *device, uint64_t after)
{
    lock(device->world);
    device->refuse_after = after;
    unlock(device->world);
}

void fake_strike_copy(fake_device *device, uint64_t after)
{
    lock(device->world);
    device->strike_after = after;
    unlock(device->world);
}

void fake_refuse_event(fake_device *device, ferry_status status)
{
    lock(device->world);
    device->next_event = status;
    unlock(device->world);
}

void fake_lose(fake_device *device, bool is_lost)
{
    lock(device->world);
    device->is_lost = is_lost;
    for (size_t i = 0; i < device->stream_count && !is_lost; i++) {
        fake_fry_stream *stream = &device->streams[i];
        stream->flushed = stream->stream.issued; /* nobody flushes a lost one */
    }
    unlock(device->world);
}

void fake_fill(fry_stream *stream)
{
    lock(world_of(stream));
    stream->is_full = true;
    unlock(world_of(stream));
}
