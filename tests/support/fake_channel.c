/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_channel.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef enum parcel_state {
    PARCEL_POSTED,  /* its data is the sender's */
    PARCEL_SENT,    /* its own copy; or to be pulled */
    PARCEL_ARRIVED, /* to be pulled: the receiver has its token */
    PARCEL_PULLING,
    PARCEL_PULLED, /* or dropped: the sender is to be told */
} parcel_state;

typedef struct parcel {
    struct parcel *next;
    parcel_state state;
    int from;
    uint8_t header[FRY_HEADER_BYTES_MAX];
    size_t header_bytes;
    const uint8_t *data;
    uint8_t *copy;
    size_t size_bytes;
    bool is_pulled;
    bool is_read; /* it has no message: one end reads the other's memory */
    bool is_arrived;
    fry_post *post; /* NULL: nobody is told */
    fry_pull *pull;
} parcel;

typedef struct end {
    fry_channel channel; /* first */
    fake_wire *wire;
    int index;
    bool is_open, is_cut, is_told;
    bool is_left; /* the other one is destroyed */
} end;

struct fake_wire {
    fake_wire_options options;
    uint64_t random;
    end ends[2];
    parcel *parcels; /* the oldest first */
    uint32_t cut_at_post;
    unsigned holds;
    fake_wire_counts counts;
    pthread_mutex_t mutex; /* recursive: what an end tells may call it */
};

static uint64_t next_random(fake_wire *wire)
{
    wire->random ^= wire->random << 13;
    wire->random ^= wire->random >> 7;
    wire->random ^= wire->random << 17;
    return wire->random;
}

/* Whether something that may take several turns happens in this one. */
static bool is_time(fake_wire *wire, unsigned hold)
{
    return (wire->holds & hold) == 0 && (!wire->options.is_late || next_random(wire) % 3 == 0);
}

static int to_of(const fake_wire *wire, const parcel *parcel_)
{
    return wire->options.is_self ? 0 : 1 - parcel_->from;
}

static void *get_memory(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes > 0 ? size_bytes : 1);
    if (memory == NULL) {
        fputs("fake_channel: no memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void add_parcel(fake_wire *wire, parcel *parcel_)
{
    parcel **place = &wire->parcels;
    while (*place != NULL)
        place = &(*place)->next;
    *place = parcel_;
}

static void remove_parcel(fake_wire *wire, parcel *parcel_)
{
    parcel **place = &wire->parcels;
    while (*place != parcel_)
        place = &(*place)->next;
    *place = parcel_->next;
    free(parcel_->copy);
    free(parcel_);
}

/* ---- what a channel does ---- */

static void cut(fake_wire *wire)
{
    wire->ends[0].is_cut = true;
    wire->ends[1].is_cut = true;
}

static void tell_cut(end *end_)
{
    if (end_->is_told || !end_->is_open)
        return;
    end_->is_told = true;
    fry_fault fault = {.domain = "fake", .native_code = -7, .message = "cut"};
    end_->channel.events->failed(end_->channel.events_arg, &fault);
}

/* Its data is the channel's own from now on. */
static void send_parcel(parcel *parcel_)
{
    parcel_->state = PARCEL_SENT;
    if (parcel_->is_pulled || parcel_->size_bytes == 0)
        return;
    parcel_->copy = get_memory(parcel_->size_bytes);
    memcpy(parcel_->copy, parcel_->data, parcel_->size_bytes);
    parcel_->data = parcel_->copy;
}

static fry_post_result fake_post(fry_channel *channel, fry_post *post)
{
    end *end_ = (end *)channel;
    fake_wire *wire = end_->wire;
    assert(end_->is_open && post->header_bytes <= FRY_HEADER_BYTES_MAX);
    wire->counts.posts++;
    if (wire->cut_at_post > 0 && --wire->cut_at_post == 0) {
        cut(wire);
        tell_cut(end_);
    }
    if (end_->is_cut)
        return FRY_POST_FAILED;
    parcel *parcel_ = get_memory(sizeof(*parcel_));
    parcel_->from = end_->index;
    memcpy(parcel_->header, post->header, post->header_bytes);
    parcel_->header_bytes = post->header_bytes;
    parcel_->data = post->data;
    parcel_->size_bytes = post->size_bytes;
    parcel_->is_pulled = post->is_pulled && post->size_bytes > 0;
    parcel_->post = post;
    add_parcel(wire, parcel_);
    if (parcel_->is_pulled) {
        parcel_->state = PARCEL_SENT;
        return FRY_POST_BEGUN;
    }
    if (!is_time(wire, FAKE_HOLD_POSTS))
        return FRY_POST_BEGUN;
    send_parcel(parcel_);
    parcel_->post = NULL;
    return FRY_POST_DONE;
}

/* The other end's memory may be gone by now: what is read then is nothing. */
static void finish_read(fake_wire *wire, parcel *parcel_, bool is_told)
{
    fry_pull *pull = parcel_->pull;
    if (!is_told) {
        memset(pull->memory, 0xee, pull->size_bytes);
        return;
    }
    memcpy(pull->memory, parcel_->data, parcel_->size_bytes);
    remove_parcel(wire, parcel_);
    pull->done(pull, FERRY_OK, NULL);
}

static void finish_pull(fake_wire *wire, parcel *parcel_, bool is_told)
{
    fry_pull *pull = parcel_->pull;
    if (parcel_->is_read) {
        finish_read(wire, parcel_, is_told);
        return;
    }
    memcpy(pull->memory, parcel_->data, parcel_->size_bytes);
    parcel_->state = PARCEL_PULLED;
    if (is_told)
        pull->done(pull, FERRY_OK, NULL);
}

static bool fake_read(fry_channel *channel, fry_pull *pull)
{
    end *end_ = (end *)channel;
    fake_wire *wire = end_->wire;
    assert(end_->is_open);
    bool is_random = wire->random != 0;
    if (!wire->options.reads || end_->is_cut || (is_random && next_random(wire) % 8 == 0))
        return false;
    wire->counts.reads++;
    if (is_random && next_random(wire) % 8 == 0) {
        pull->done(pull, FERRY_E_UNSUPPORTED, NULL);
        return true;
    }
    parcel *parcel_ = get_memory(sizeof *parcel_);
    parcel_->from = wire->options.is_self ? 0 : 1 - end_->index;
    parcel_->data = (const void *)(uintptr_t)pull->address;
    parcel_->size_bytes = pull->size_bytes;
    parcel_->is_pulled = parcel_->is_read = parcel_->is_arrived = true;
    parcel_->state = PARCEL_PULLING;
    parcel_->pull = pull;
    add_parcel(wire, parcel_);
    if (is_time(wire, FAKE_HOLD_PULLS))
        finish_pull(wire, parcel_, true);
    return true;
}

static void fake_pull(fry_channel *channel, fry_pull *pull)
{
    end *end_ = (end *)channel;
    parcel *parcel_ = pull->token;
    assert(end_->is_open && parcel_->state == PARCEL_ARRIVED);
    assert(pull->size_bytes == parcel_->size_bytes);
    end_->wire->counts.pulls++;
    parcel_->state = PARCEL_PULLING;
    parcel_->pull = pull;
    if (!end_->is_cut && is_time(end_->wire, FAKE_HOLD_PULLS))
        finish_pull(end_->wire, parcel_, true);
}

static void fake_drop(fry_channel *channel, void *token)
{
    end *end_ = (end *)channel;
    parcel *parcel_ = token;
    assert(end_->is_open && parcel_->state == PARCEL_ARRIVED);
    end_->wire->counts.drops++;
    parcel_->state = PARCEL_PULLED;
}

/* One that is due to arrive at the end, NULL: none. */
static parcel *pick_arrival(end *end_)
{
    fake_wire *wire = end_->wire;
    parcel *found[64];
    size_t count = 0;
    size_t limit = wire->options.reorder + 1;
    for (parcel *p = wire->parcels; p != NULL && count < limit && count < 64; p = p->next)
        if (p->state == PARCEL_SENT && !p->is_arrived && to_of(wire, p) == end_->index)
            found[count++] = p;
    return count == 0 ? NULL : found[limit > 1 ? next_random(wire) % count : 0];
}

static bool deliver_one(end *end_)
{
    fake_wire *wire = end_->wire;
    parcel *parcel_ = pick_arrival(end_);
    if (parcel_ == NULL)
        return false;
    wire->counts.arrivals++;
    parcel_->is_arrived = true;
    fry_arrival arrival = {.header = parcel_->header,
                           .header_bytes = parcel_->header_bytes,
                           .size_bytes = parcel_->size_bytes};
    if (parcel_->is_pulled) {
        parcel_->state = PARCEL_ARRIVED;
        arrival.token = parcel_;
    } else if (parcel_->size_bytes > 0) {
        arrival.data = parcel_->data;
    }
    bool is_pulled = parcel_->is_pulled;
    end_->channel.events->arrived(end_->channel.events_arg, &arrival);
    if (!is_pulled)
        remove_parcel(wire, parcel_);
    return true;
}

/* Something that the end waits for, but arrivals: true if there was any. */
static bool step_one(end *end_)
{
    fake_wire *wire = end_->wire;
    for (parcel *p = wire->parcels; p != NULL; p = p->next) {
        if (p->from == end_->index && p->state == PARCEL_POSTED && is_time(wire, FAKE_HOLD_POSTS)) {
            fry_post *post = p->post;
            send_parcel(p);
            p->post = NULL;
            post->done(post, FERRY_OK, NULL);
            return true;
        }
        if (p->from == end_->index && p->state == PARCEL_PULLED && is_time(wire, 0)) {
            fry_post *post = p->post;
            remove_parcel(wire, p);
            if (post != NULL)
                post->done(post, FERRY_OK, NULL);
            return true;
        }
        if (to_of(wire, p) == end_->index && p->state == PARCEL_PULLING &&
            is_time(wire, FAKE_HOLD_PULLS)) {
            finish_pull(wire, p, true);
            return true;
        }
    }
    return false;
}

/* What is under way when it is cut goes on behind everybody's back. */
static void haunt(end *end_)
{
    for (parcel *p = end_->wire->parcels; p != NULL; p = p->next)
        if (to_of(end_->wire, p) == end_->index && p->state == PARCEL_PULLING)
            finish_pull(end_->wire, p, false);
}

static size_t fake_progress(fry_channel *channel)
{
    end *end_ = (end *)channel;
    fake_wire *wire = end_->wire;
    assert(end_->is_open);
    if (end_->is_cut) {
        haunt(end_);
        if (!end_->is_left || wire->options.is_net || end_->is_told || !deliver_one(end_))
            tell_cut(end_);
        return 1;
    }
    size_t count = 0;
    while (!end_->is_cut && step_one(end_))
        count++;
    while (!end_->is_cut && is_time(wire, FAKE_HOLD_ARRIVALS) && deliver_one(end_))
        count++;
    while (!end_->is_cut && step_one(end_))
        count++;
    return count;
}

static bool fake_arm(fry_channel *channel)
{
    const end *end_ = (const end *)channel;
    assert(end_->is_open);
    if (end_->is_cut)
        return end_->is_told;
    for (const parcel *p = end_->wire->parcels; p != NULL; p = p->next) {
        bool is_mine = p->from == end_->index;
        bool is_to_me = to_of(end_->wire, p) == end_->index;
        if (is_mine && (p->state == PARCEL_POSTED || p->state == PARCEL_PULLED))
            return false;
        if (is_to_me && (p->state == PARCEL_SENT || p->state == PARCEL_PULLING))
            return false;
    }
    return true;
}

static void fake_destroy(fry_channel *channel)
{
    end *end_ = (end *)channel;
    assert(end_->is_open);
    end_->is_open = false;
    cut(end_->wire);
    end_->wire->ends[1 - end_->index].is_left = true;
    /* What the other end has the token of stays its own; the rest goes. */
    for (parcel *p = end_->wire->parcels, *next; p != NULL; p = next) {
        next = p->next;
        bool is_to_other = to_of(end_->wire, p) != end_->index;
        if (is_to_other && (p->state == PARCEL_ARRIVED || p->state == PARCEL_PULLING)) {
            if (p->copy == NULL && !p->is_read) {
                p->copy = get_memory(p->size_bytes);
                memcpy(p->copy, p->data, p->size_bytes);
                p->data = p->copy;
            }
            p->post = NULL;
        } else if (!is_to_other || p->state != PARCEL_SENT || p->is_pulled ||
                   end_->wire->options.is_net) {
            remove_parcel(end_->wire, p);
        }
    }
}

/* ---- one thread at a time, of either end's ---- */

static fake_wire *lock(fry_channel *channel)
{
    fake_wire *wire = ((end *)channel)->wire;
    (void)pthread_mutex_lock(&wire->mutex);
    return wire;
}

static void unlock(fake_wire *wire)
{
    (void)pthread_mutex_unlock(&wire->mutex);
}

static fry_post_result locked_post(fry_channel *channel, fry_post *post)
{
    fake_wire *wire = lock(channel);
    fry_post_result result = fake_post(channel, post);
    unlock(wire);
    return result;
}

static bool locked_read(fry_channel *channel, fry_pull *pull)
{
    fake_wire *wire = lock(channel);
    bool reads = fake_read(channel, pull);
    unlock(wire);
    return reads;
}

static void locked_pull(fry_channel *channel, fry_pull *pull)
{
    fake_wire *wire = lock(channel);
    fake_pull(channel, pull);
    unlock(wire);
}

static void locked_drop(fry_channel *channel, void *token)
{
    fake_wire *wire = lock(channel);
    fake_drop(channel, token);
    unlock(wire);
}

static size_t locked_progress(fry_channel *channel)
{
    fake_wire *wire = lock(channel);
    size_t count = fake_progress(channel);
    unlock(wire);
    return count;
}

static fry_arming locked_arm(fry_channel *channel)
{
    fake_wire *wire = lock(channel);
    fry_arming arming = fake_arm(channel) ? FRY_ARMING_ARMED : FRY_ARMING_BUSY;
    unlock(wire);
    return arming;
}

static void locked_destroy(fry_channel *channel)
{
    fake_wire *wire = lock(channel);
    fake_destroy(channel);
    if (channel->event_fd >= 0)
        (void)close(channel->event_fd);
    channel->event_fd = -1;
    unlock(wire);
}

static const fry_channel_ops fake_ops = {
    .post = locked_post,
    .pull = locked_pull,
    .read = locked_read,
    .drop = locked_drop,
    .progress = locked_progress,
    .arm = locked_arm,
    .destroy = locked_destroy,
};

/* ---- the wire ---- */

fake_wire *fake_wire_open(const fake_wire_options *options)
{
    fake_wire *wire = get_memory(sizeof(*wire));
    wire->options = *options;
    wire->random = options->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (int i = 0; i < 2; i++)
        wire->ends[i] = (end){.wire = wire, .index = i};
    pthread_mutexattr_t recursive;
    (void)pthread_mutexattr_init(&recursive);
    (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&wire->mutex, &recursive);
    (void)pthread_mutexattr_destroy(&recursive);
    return wire;
}

void fake_wire_close(fake_wire *wire)
{
    while (wire->parcels != NULL)
        remove_parcel(wire, wire->parcels);
    (void)pthread_mutex_destroy(&wire->mutex);
    free(wire);
}

fry_channel *fake_wire_end(fake_wire *wire, int index, const fry_channel_events *events,
                           void *events_arg)
{
    end *end_ = &wire->ends[index];
    end_->is_open = true;
    end_->channel = (fry_channel){
        .ops = &fake_ops,
        .path = wire->options.is_self  ? FRY_PATH_SELF
                : wire->options.is_net ? FRY_PATH_NET
                                       : FRY_PATH_SHARED,
        .event_fd = wire->options.has_event ? eventfd(0, EFD_CLOEXEC) : -1,
        .eager_bytes_max = wire->options.eager_bytes_max,
        .events = events,
        .events_arg = events_arg,
    };
    return &end_->channel;
}

void fake_wire_hold(fake_wire *wire, unsigned holds)
{
    (void)pthread_mutex_lock(&wire->mutex);
    wire->holds = holds;
    unlock(wire);
}

void fake_wire_cut(fake_wire *wire)
{
    (void)pthread_mutex_lock(&wire->mutex);
    cut(wire);
    unlock(wire);
}

void fake_wire_cut_at_post(fake_wire *wire, uint32_t nth)
{
    wire->cut_at_post = nth;
}

void fake_wire_inject(fake_wire *wire, int to_end, const void *header, size_t header_bytes,
                      const void *data, size_t size_bytes, bool is_pulled)
{
    parcel *parcel_ = get_memory(sizeof(*parcel_));
    parcel_->from = wire->options.is_self ? 0 : 1 - to_end;
    parcel_->state = PARCEL_SENT;
    parcel_->header_bytes =
        header_bytes < FRY_HEADER_BYTES_MAX ? header_bytes : FRY_HEADER_BYTES_MAX;
    memcpy(parcel_->header, header, parcel_->header_bytes);
    parcel_->size_bytes = size_bytes;
    parcel_->is_pulled = is_pulled;
    if (size_bytes > 0) {
        parcel_->copy = get_memory(size_bytes);
        if (data != NULL)
            memcpy(parcel_->copy, data, size_bytes);
    }
    parcel_->data = parcel_->copy;
    add_parcel(wire, parcel_);
}

static parcel *at_index(fake_wire *wire, int to_end, size_t index)
{
    for (parcel *p = wire->parcels; p != NULL; p = p->next) {
        bool is_waiting = (p->state == PARCEL_POSTED || p->state == PARCEL_SENT) && !p->is_arrived;
        if (is_waiting && to_of(wire, p) == to_end && index-- == 0)
            return p;
    }
    return NULL;
}

bool fake_wire_look(fake_wire *wire, int to_end, size_t index, fake_sight *sight)
{
    parcel *parcel_ = at_index(wire, to_end, index);
    if (parcel_ == NULL)
        return false;
    *sight = (fake_sight){.header = parcel_->header,
                          .header_bytes = &parcel_->header_bytes,
                          .data = parcel_->copy,
                          .size_bytes_p = &parcel_->size_bytes,
                          .size_bytes = parcel_->size_bytes,
                          .is_pulled = parcel_->is_pulled};
    return true;
}

bool fake_wire_lose(fake_wire *wire, int to_end, size_t index)
{
    parcel *parcel_ = at_index(wire, to_end, index);
    if (parcel_ == NULL || parcel_->post != NULL)
        return false;
    remove_parcel(wire, parcel_);
    return true;
}

bool fake_wire_repeat(fake_wire *wire, int to_end, size_t index)
{
    const parcel *parcel_ = at_index(wire, to_end, index);
    if (parcel_ == NULL)
        return false;
    fake_wire_inject(wire, to_end, parcel_->header, parcel_->header_bytes, parcel_->data,
                     parcel_->size_bytes, parcel_->is_pulled);
    return true;
}

fake_wire_counts fake_wire_count(const fake_wire *wire)
{
    return wire->counts;
}
