/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: streams of devices and the operations in them. With the baton. */
#ifndef FRY_ENGINE_GRAPH_LANE_H
#define FRY_ENGINE_GRAPH_LANE_H

#include "engine/graph/look.h"
#include "engine/graph/node.h"
#include "engine/graph/ready_queue.h"

/* An event that a program's own stream has reached or will reach. */
typedef struct fry_outside_event {
    fry_lane *lane; /* NULL: none */
    uint64_t sequence;
} fry_outside_event;

/* A device's stream and the operations in it. Baton. */
struct fry_lane {
    fry_stream *stream;
    fry_queue issued;          /* nodes, by sequence */
    fry_ready_queue backlog;   /* READY nodes without room in the stream; never on a parked lane */
    uint32_t in_flight, depth; /* how many are in it, and the bound */
    bool is_busy;              /* in engine->busy */
    bool is_watched;           /* polled, busy and not lost: counted in engine->watched */
    bool is_unflushed;         /* in engine->unflushed */
    bool needs_flush;          /* something was copied since the last flush */
    bool is_lost;              /* its device reported failure; see `fault` */
    uint64_t failed_until;     /* if is_lost: operations up to this one have been failed */
    uint64_t fired;            /* all operations up to this one have fired, as of the last look */
    fry_lane *next_busy, *next_unflushed;
    uint64_t *behind;          /* parked: for each operation here, the latest outside event
                                  before it; by sequence modulo FRY_STREAM_DEPTH */
    fry_outside_event outside; /* parked and not empty: whose events it waits for, and the latest */
    const fry_lane *main;      /* the same: whose copies it takes; see park.c */
    int64_t head_since_ns;     /* polled, in_flight: when its head got there; engine's clock */
    int64_t usual_ns[FRY_LOOK_SORTS]; /* the usual age of heads of each sort: see look.h */
    fry_node *refused;                /* READY; the device refused it, and the loop will fail it */
    fry_fault fault;                  /* if refused or is_lost: why */
};

/* A handle of a device. The fry_device does not know its engine, the handle does. */
struct ferry_device {
    fry_device *device;
    ferry_engine *engine;
    fry_lane *lanes; /* of its streams, by index in the device */
    uint32_t lane_count;
    fry_lane *host_lane; /* of a host: the lane of copies from hosts to it; NULL: not a host */
    size_t lane_bytes;
};

/*
 * Gives the device and each of its streams an index in the engine, attaches lanes to the streams,
 * then makes the device visible to all threads. The engine keeps it for good. One call at a time,
 * any thread, not with the baton. FERRY_OK sets *handle_p (which may be NULL). FERRY_E_AGAIN: there
 * are FRY_DEVICES_MAX devices or 65535 streams; FERRY_E_NO_MEMORY. Then nothing has changed.
 */
ferry_status fry_lane_attach(ferry_engine *engine, fry_device *device, ferry_device **handle_p);

/* Frees what was attached, but not the devices, which are destroyed later. */
void fry_devices_detach(ferry_engine *engine);

/* Issues a READY copy, or puts it in its lane's backlog, or has edges hold it again. */
void fry_lane_issue(fry_turn *turn, fry_node *node);

/* Enters an event that a device has recorded. */
void fry_lane_enter_event(fry_turn *turn, fry_node *node);

/* Whether another copy may be issued to it. */
static inline bool fry_lane_has_room(const fry_lane *lane)
{
    return lane->in_flight < lane->depth && !lane->stream->is_full && lane->refused == NULL &&
           !lane->is_lost;
}

/* Hands gathered copies to the stream: of one lane, of all. */
static inline void fry_lane_flush(fry_lane *lane)
{
    if (lane->needs_flush) {
        lane->needs_flush = false;
        lane->stream->device->ops->flush(lane->stream);
    }
}

void fry_lanes_flush(ferry_engine *engine);

/*
 * When polled lanes must be looked at next; INT64_MAX: nothing is in them. For the loop, which is
 * about to sleep until then (next_look_ns).
 */
int64_t fry_lanes_next_look_ns(ferry_engine *engine);

/* Completes the operations that have fired on busy lanes. Returns how many. */
size_t fry_lanes_poll(fry_turn *turn);

/* Copies in the calling thread, if the device can do that now. */
bool fry_lane_copy_inline(const fry_node *node);
bool fry_lane_copy_plain_inline(const fry_lane *lane, const fry_copy_op *copy);

/* Asks the device to stop the copy. */
void fry_lane_cancel(fry_node *node);

#endif
