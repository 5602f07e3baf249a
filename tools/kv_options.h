/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `ferry kv` and `ferry demo kv`. */
#ifndef KV_OPTIONS_H
#define KV_OPTIONS_H

#include "tools/member_options.h"

#include <stddef.h>

/* Exit status for a command line that can't be run. */
#define KV_EXIT_USAGE 2

#define KV_DECODERS_MAX 256
#define KV_PAGE_MIN_BYTES ((size_t)16 << 10)
#define KV_PAGE_MAX_BYTES ((size_t)2 << 20)
#define KV_LAYERS_MAX 128
#define KV_PAGES_MAX 512
#define KV_ROOM_MAX 64
#define KV_REQUESTS_MAX ((uint64_t)1 << 32)
#define KV_CACHE_MAX_BYTES ((size_t)16 << 30)

/* What all of a run agree on. On the wire: rank 0 tells it to the others. */
typedef struct kv_shape {
    uint64_t page_bytes; /* a multiple of 8 */
    uint32_t layers;
    uint32_t pages;    /* of a request, in each layer */
    uint32_t room;     /* requests in the cache at once */
    uint32_t reserved; /* zero */
    uint64_t requests; /* of each decode process; 0: as many as fit the time */
    int64_t time_ns;   /* of the measurement, if there is no number of requests */
    int64_t raw_ns;    /* of the measurement of the limit */
    int64_t answer_ns; /* an answer that takes longer ends the run */
} kv_shape;

typedef struct kv_options {
    member_options meeting; /* rank 0 is the prefill process, the others are decode processes */
    kv_shape shape;
    const char *svg; /* the picture of a request; NULL: none */
    bool is_json;
} kv_options;

/*
 * Parses the command line; argv[0] is the command as shown in messages. Does not return on --help
 * (exit 0) or on a mistake (message on stderr, exit KV_EXIT_USAGE).
 */
void kv_options_parse(kv_options *options, int argc, char **argv);

/* The same for the demo: all processes are started here, and it is over after some seconds. */
void kv_options_parse_demo(kv_options *options, int argc, char **argv);

/* Whether a shape can be, whoever says so. */
bool kv_shape_is_possible(const kv_shape *shape);

/* Places of pages in a layer of the cache, and its bytes in all. */
uint32_t kv_shape_places(const kv_shape *shape);
size_t kv_shape_cache_bytes(const kv_shape *shape);

#endif
