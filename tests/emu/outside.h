/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a library that runs on the emulated driver (libnccl) has of it beyond cuda.h: operations of
 * its own in streams, which may wait for something that is no stream's, and the one lock. "With the
 * lock" says that the caller holds it; nothing of cuda.h may be called then.
 */
#ifndef EMU_OUTSIDE_H
#define EMU_OUTSIDE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place in a stream. */
typedef struct emu_outside_place {
    CUstream stream;
    uint64_t sequence;
} emu_outside_place;

typedef struct emu_outside_range {
    const void *start;
    size_t size_bytes;
    bool is_write;
    uint32_t part; /* ranges with different parts stand in no order; 0: with all */
} emu_outside_range;

/* What an operation of the library's does; all but `run` with the lock. */
typedef struct emu_outside_work {
    const char *name;
    bool (*may_begin)(const void *arg); /* nothing else keeps it from that */
    void (*begin)(void *arg);
    void (*run)(void *arg, const void *operation); /* in the stream's thread, without the lock */
    bool (*stands)(const void *arg);               /* is under way, and can't go on by itself */
    void (*end)(void *arg);                        /* it is over, or never will be */
} emu_outside_work;

#pragma GCC visibility push(default)

void emu_outside_lock(void);
void emu_outside_unlock(void);

/*
 * The stream that a handle means in this thread, with a reference, and its device. CUDA's error: it
 * is none, or one that is captured. With the lock.
 */
CUresult emu_outside_stream(CUstream handle, CUstream *stream_p, int *ordinal_p);
void emu_outside_hold_stream(CUstream stream); /* with the lock */
void emu_outside_drop_stream(CUstream stream); /* with the lock */
/* The last that was issued to it. With the lock. */
emu_outside_place emu_outside_last(CUstream stream);

/*
 * Puts work behind what stands in the stream, and behind the places. `end` is called in any case.
 * Gives the lock away while it waits for room. With the lock.
 */
CUresult emu_outside_enqueue(CUstream stream, const emu_outside_work *work, void *arg,
                             const emu_outside_range *ranges, size_t range_count,
                             const emu_outside_place *after, size_t after_count);
/* What is issued to the stream from now on stands behind the place. The same. */
CUresult emu_outside_wait(CUstream stream, emu_outside_place place);
/* Whether the operation there would begin if it may. With the lock. */
bool emu_outside_is_next(emu_outside_place place);
/* The streams look anew at what they may begin. With the lock. */
void emu_outside_wake(void);

/* One that runs should give up: its device is lost, or the process ends. */
bool emu_outside_is_stopped(const void *operation);
/* The process ends. */
bool emu_outside_is_ending(void);

/* One that runs has gone on; others may have stood for that. */
void emu_outside_step(void);
/* Asked by emu_settle, with the lock: whether the library has something to do. */
void emu_outside_set_busy(bool (*is_busy)(void));
void emu_outside_misuse(const char *text); /* catches it; with the lock */
uint64_t emu_outside_thread(void);         /* a number of this thread's */

#pragma GCC visibility pop

#endif
