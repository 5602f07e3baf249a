/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: streams of devices, with what stands in them. With the baton. */
#ifndef FRY_ENGINE_LANE_H
#define FRY_ENGINE_LANE_H

#include "engine/look.h"
#include "engine/node.h"
#include "engine/ready_queue.h"

/* An event that a program's own stream has come to, or will. */
typedef struct fry_outside_event {
    fry_lane *lane; /* NULL: none */
    uint64_t sequence;
} fry_outside_event;

/* A stream of a device with what stands in it. Baton. */
struct fry_lane {
    fry_stream *stream;
    fry_queue issued;        /* nodes, in sequence */
    fry_ready_queue backlog; /* READY nodes that found no room in the stream; not of a parked one */
    uint32_t in_flight, depth; /* how many stand there, and may */
    bool is_busy;              /* in engine->busy */
    bool is_watched;           /* polled, busy and not lost: counted in engine->watched */
    bool is_unflushed;         /* in engine->unflushed */
    bool needs_flush;          /* something was copied since the last */
    bool is_lost;              /* its device said that it fails; `native` says how */
    uint64_t failed_until;     /* is_lost: what stands here up to this has been failed */
    uint64_t fired;            /* up to here everything has, as of the last look */
    fry_lane *next_busy, *next_unflushed;
    uint64_t *behind;          /* parked: of each that stands here, the latest outside event before
                                  it; by sequence modulo FRY_STREAM_DEPTH */
    fry_outside_event outside; /* parked, not empty: whose events it waits for, and the latest */
    const fry_lane *main;      /* and which lane's copies it takes: see park.c */
    int64_t head_since_ns;     /* polled, in_flight: when its head got there; engine's clock */
    int64_t usual_ns[FRY_LOOK_SORTS]; /* how old heads of a sort get: see look.h */
    fry_node *refused;                /* READY: the device refused it, and the loop will fail it */
    ferry_status refused_status;
    fry_native_error native; /* why */
};

/* A fry_device is what a ferry_device handle points to; the handle also knows its engine. */
struct ferry_device {
    fry_device *device;
    ferry_engine *engine;
    fry_lane *lanes; /* of its streams, by their index in the device */
    uint32_t lane_count;
    fry_lane *host_lane; /* a host's: the lane of copies to it from hosts; NULL: it is none */
    size_t lane_bytes;
};

/*
 * Gives the device an index among the engine's and each of its streams one too, hangs lanes
 * on them, and then shows the device to everybody. The engine never lets go of it. One call at a
 * time, any thread, not with the baton. FERRY_OK sets *handle_p (NULL is allowed); FERRY_E_AGAIN:
 * FRY_DEVICES_MAX are there, or 65535 streams; FERRY_E_NO_MEMORY. Then nothing has changed.
 */
ferry_status fry_device_attach(ferry_engine *engine, fry_device *device, ferry_device **handle_p);

/* Frees what was attached but not the devices, which come after. */
void fry_devices_detach(ferry_engine *engine);

/* Issues a READY copy, or leaves it in its lane's backlog, or has it held by edges again. */
void fry_lane_issue(fry_turn *turn, fry_node *node);

/* An event that a device has recorded takes its place. */
void fry_lane_enter_event(fry_turn *turn, fry_node *node);

/* Whether another copy may be issued there. */
static inline bool fry_lane_has_room(const fry_lane *lane)
{
    return lane->in_flight < lane->depth && !lane->stream->is_full && lane->refused == NULL &&
           !lane->is_lost;
}

/* What was copied to stands in its stream from now on: of one lane, and of all. */
static inline void fry_lane_flush(fry_lane *lane)
{
    if (lane->needs_flush) {
        lane->needs_flush = false;
        lane->stream->device->ops->flush(lane->stream);
    }
}

void fry_lanes_flush(ferry_engine *engine);

/* When polled lanes are to be looked at next; INT64_MAX: there is nothing in them. The loop, about
 * to sleep until then (next_look_ns). */
int64_t fry_lanes_next_look_ns(ferry_engine *engine);

/* Completes what has fired on the busy lanes. Returns how many nodes. */
size_t fry_lanes_poll(fry_turn *turn);

/* Copies in the calling thread if the device can do that now. */
bool fry_lane_copy_inline(const fry_node *node);
bool fry_lane_copy_plain_inline(const fry_lane *lane, const fry_copy_op *copy);

/* Asks the device to stop. */
void fry_lane_cancel(fry_node *node);

#endif
