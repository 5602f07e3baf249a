/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a trace: a buffer in front of write(2), for one thread. After a failed write nothing
 * more is written, so the file has no hole; `error` says why.
 */
#ifndef FRY_BASE_TRACE_FILE_H
#define FRY_BASE_TRACE_FILE_H

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>

#define FRY_TRACE_ROOM_BYTES ((size_t)16 << 10) /* the room that fry_trace_file_room gives */

typedef struct fry_trace_file {
    int fd;    /* -1: closed */
    int error; /* errno of the failed write; 0: none failed */
    char *buffer;
    size_t used_bytes;
} fry_trace_file;

/*
 * Creates or empties the file. FERRY_OK; FERRY_E_NO_MEMORY; FERRY_E_SYSTEM with errno set if it
 * can't be opened for writing. A named pipe blocks until it has a reader.
 */
ferry_status fry_trace_file_open(fry_trace_file *file, const char *path);

/* Room for the next FRY_TRACE_ROOM_BYTES; may write out the buffer. */
char *fry_trace_file_room(fry_trace_file *file);

/* Adds what was written to the room, up to `end`. */
static inline void fry_trace_file_add(fry_trace_file *file, const char *end)
{
    file->used_bytes = (size_t)(end - file->buffer);
}

/* Writes the buffer out to the kernel. Keeps `error`. */
void fry_trace_file_flush(fry_trace_file *file);

/*
 * Flushes, waits until the file is on disk, closes it. False: something is missing, and `error`
 * says why.
 */
bool fry_trace_file_close(fry_trace_file *file);

/* In a fork's child: drops the parent's file without writing to it. */
void fry_trace_file_forget(fry_trace_file *file);

#endif
