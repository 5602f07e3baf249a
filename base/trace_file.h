/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file a trace is written into: a buffer in front of write(2), for one thread. Once a write has
 * failed nothing more is written, so what the file holds has no hole; `error` says why.
 */
#ifndef FRY_BASE_TRACE_FILE_H
#define FRY_BASE_TRACE_FILE_H

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>

#define FRY_TRACE_ROOM_BYTES ((size_t)16 << 10) /* what fry_trace_file_room has ready */

typedef struct fry_trace_file {
    int fd;    /* -1: closed */
    int error; /* errno of the write that failed; 0: none has */
    char *buffer;
    size_t used_bytes;
} fry_trace_file;

/*
 * Creates the file, or empties the one that is there. FERRY_OK; FERRY_E_NO_MEMORY; FERRY_E_SYSTEM
 * with errno set if it can't be opened for writing. A named pipe blocks until it has a reader.
 */
ferry_status fry_trace_file_open(fry_trace_file *file, const char *path);

/* Where the next FRY_TRACE_ROOM_BYTES may be written; may write out what there is. */
char *fry_trace_file_room(fry_trace_file *file);

/* `end`: up to where the room was filled. */
static inline void fry_trace_file_add(fry_trace_file *file, const char *end)
{
    file->used_bytes = (size_t)(end - file->buffer);
}

/* Hands what there is to the kernel. Keeps `error`. */
void fry_trace_file_flush(fry_trace_file *file);

/* Flushes, waits until it is on disk, closes. False: something is missing, and `error` says why. */
bool fry_trace_file_close(fry_trace_file *file);

/* In a child of fork: lets go of the parent's file without writing to it. */
void fry_trace_file_forget(fry_trace_file *file);

#endif
