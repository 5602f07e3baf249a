/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)

ferry_status fry_trace_file_open(fry_trace_file *file, const char *path)
{
    *file = (fry_trace_file){.fd = -1, .buffer = malloc(BUFFER_BYTES)};
    if (file->buffer == NULL)
        return FERRY_E_NO_MEMORY;
    do
        file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd >= 0)
        return FERRY_OK;
    int why = errno;
    free(file->buffer);
    file->buffer = NULL;
    errno = why;
    return FERRY_E_SYSTEM;
}

void fry_trace_file_flush(fry_trace_file *file)
{
    const char *from = file->buffer;
    while (file->used_bytes != 0 && file->error == 0) {
        ssize_t written = write(file->fd, from, file->used_bytes);
        if (written > 0) {
            from += written;
            file->used_bytes -= (size_t)written;
        } else if (written == 0) {
            file->error = EIO; /* files don't return 0; better than trying for ever */
        } else if (errno != EINTR) {
            file->error = errno;
        }
    }
    file->used_bytes = 0;
}

char *fry_trace_file_room(fry_trace_file *file)
{
    if (BUFFER_BYTES - file->used_bytes < FRY_TRACE_ROOM_BYTES)
        fry_trace_file_flush(file);
    return file->buffer + file->used_bytes;
}

/* Pipes and terminals have no disk to wait for. */
static bool has_no_disk(int why)
{
    return why == EINVAL || why == EROFS || why == ENOTSUP;
}

bool fry_trace_file_close(fry_trace_file *file)
{
    fry_trace_file_flush(file);
    while (file->error == 0 && fsync(file->fd) != 0 && !has_no_disk(errno)) {
        if (errno != EINTR)
            file->error = errno;
    }
    if (close(file->fd) != 0 && file->error == 0 && errno != EINTR)
        file->error = errno;
    free(file->buffer);
    file->fd = -1;
    file->buffer = NULL;
    return file->error == 0;
}

void fry_trace_file_forget(fry_trace_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1; /* the buffer is not freed: a child does not give back its parent's memory */
}
