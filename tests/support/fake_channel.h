/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels between two ends in one thread, or of one end to itself: reordering, late and failing at
 * will, by a seed. Data is read from the sender's memory, and written to the receiver's, as late as
 * a channel may, so that who reuses memory too early is seen.
 */
#ifndef FERRY_TESTS_FAKE_CHANNEL_H
#define FERRY_TESTS_FAKE_CHANNEL_H

#include "net/transport.h"

typedef struct fake_wire fake_wire;

typedef struct fake_wire_options {
    uint64_t seed; /* 0: in order and at once */
    size_t eager_bytes_max;
    bool is_self;     /* end 0 alone */
    uint32_t reorder; /* arrivals may overtake so many */
    bool is_late;     /* posts, pulls and arrivals take several turns */
    bool reads;       /* an end reads the other's memory (fry_channel_ops.read), but not always */
    bool has_event;   /* each end has a descriptor, which never tells anything */
    bool is_net; /* what has left an end that is destroyed may be lost, as between hosts; else it
                    still arrives, before the other end is told */
} fake_wire_options;

/* Exits if there is no memory. Any thread may call what the ends are, one at a time. */
fake_wire *fake_wire_open(const fake_wire_options *options);

/* What the ends were is destroyed. */
void fake_wire_close(fake_wire *wire);

fry_channel *fake_wire_end(fake_wire *wire, int end, const fry_channel_events *events,
                           void *events_arg);

/* What does not happen until it is let go again. */
enum fake_wire_hold {
    FAKE_HOLD_POSTS = 1 << 0,    /* data stays the sender's */
    FAKE_HOLD_ARRIVALS = 1 << 1, /* nothing comes */
    FAKE_HOLD_PULLS = 1 << 2,    /* pulls don't end */
};
void fake_wire_hold(fake_wire *wire, unsigned holds);

/* Both ends are told at their next turn; what is under way stays so until they are destroyed. */
void fake_wire_cut(fake_wire *wire);

/* The nth post from now on (1: the next) cuts it from within. 0: none. */
void fake_wire_cut_at_post(fake_wire *wire, uint32_t nth);

/* Bytes of nobody's arrive at an end. data NULL: of is_pulled none, or that size to be pulled. */
void fake_wire_inject(fake_wire *wire, int end, const void *header, size_t header_bytes,
                      const void *data, size_t size_bytes, bool is_pulled);

/* Looks at what has been posted and has not arrived, the oldest first, and may change it. Null: no
 * such. */
typedef struct fake_sight {
    uint8_t *header;
    size_t *header_bytes;
    uint8_t *data; /* its copy; NULL: there is none */
    size_t *size_bytes_p;
    size_t size_bytes;
    bool is_pulled;
} fake_sight;
bool fake_wire_look(fake_wire *wire, int to_end, size_t index, fake_sight *sight);

/* What has been posted and not arrived is lost. */
bool fake_wire_lose(fake_wire *wire, int to_end, size_t index);

/* It arrives twice. */
bool fake_wire_repeat(fake_wire *wire, int to_end, size_t index);

/* Counted over both ends. */
typedef struct fake_wire_counts {
    uint64_t posts, pulls, drops, arrivals, reads;
} fake_wire_counts;
fake_wire_counts fake_wire_count(const fake_wire *wire);

#endif
