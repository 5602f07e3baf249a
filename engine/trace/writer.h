/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace file's thread, one in the process while a file is open: reads all engines' rings and
 * writes lines (base/trace_lines.h). Recording threads never wait for it: bell.h says how it
 * sleeps.
 */
#ifndef FRY_ENGINE_TRACE_WRITER_H
#define FRY_ENGINE_TRACE_WRITER_H

#include "base/lf.h"
#include "base/log.h"

#include <ferry/types.h>

/* An engine's place in the list of all engines. */
typedef struct fry_writer_seat {
    ferry_engine *next;
    struct fry_writer_source *source; /* the thread's state of the engine; NULL: not recorded */
    bool is_listed;
    uint32_t is_leaving; /* atomic: the engine wants its records written, and itself off the list */
} fry_writer_seat;

/*
 * Adds an engine. The first one looks at FERRY_TRACE. Takes no reference: fry_writer_detach
 * comes before the engine's memory is freed.
 */
void fry_writer_attach(ferry_engine *engine);

/*
 * Waits until the engine's records are in the file, and removes the engine: later records are not
 * written. False: they were not by end_ns (CLOCK_MONOTONIC), so the thread may still read its
 * rings.
 */
bool fry_writer_detach(ferry_engine *engine, int64_t end_ns);

/*
 * For tests, before a file is opened: no membarrier; how long the thread lingers, 0: the default.
 */
extern bool fry_test_no_membarrier;
extern int64_t fry_test_linger_ns;

#endif
