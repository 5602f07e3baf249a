/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file as a source of copies. A read is begun by a function and ended by a promise
 * (ferry_call_async): it holds its span until its bytes are there, and a copy that names the span
 * waits for it. The reads here are the C library's (aio_read); examples/file_reads.c has io_uring.
 */
#define _DEFAULT_SOURCE /* mkstemp, also with -std=c11 */
#include <aio.h>
#include <errno.h>
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 8, BLOCK_BYTES = 64 << 10 };

typedef struct file_read {
    struct aiocb request;
    ferry_promise *promise;
} file_read;

/* The read has ended; on a thread of the C library's. */
static void end_read(union sigval value)
{
    file_read *self = value.sival_ptr;
    int error = aio_error(&self->request);
    bool is_whole = error == 0 && aio_return(&self->request) == BLOCK_BYTES;
    ferry_promise *promise = self->promise;
    ferry_promise_resolve(promise, is_whole ? FERRY_OK : FERRY_E_SYSTEM,
                          error != 0 ? strerror(error) : "the file is too short");
    ferry_promise_release(promise);
}

static void begin_read(void *arg, ferry_promise *promise)
{
    file_read *self = arg;
    self->promise = promise;
    self->request.aio_sigevent = (struct sigevent){.sigev_notify = SIGEV_THREAD,
                                                   .sigev_notify_function = end_read,
                                                   .sigev_value.sival_ptr = self};
    if (aio_read(&self->request) != 0) {
        ferry_promise_resolve(promise, FERRY_E_SYSTEM, strerror(errno));
        ferry_promise_release(promise);
    }
}

/* Asks the C library to end the read; end_read is called in any case. */
static void cancel_read(void *arg)
{
    file_read *self = arg;
    aio_cancel(self->request.aio_fildes, &self->request);
}

static ferry_future *submit_read(ferry_engine *engine, file_read *self, int fd, off_t offset,
                                 ferry_span to)
{
    ferry_access writes = {to, FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &writes;
    options.access_count = 1;
    self->request = (struct aiocb){
        .aio_fildes = fd,
        .aio_offset = offset,
        .aio_buf = (char *)ferry_buffer_data(to.buffer) + to.offset_bytes,
        .aio_nbytes = to.size_bytes,
    };
    return ferry_call_async(engine, NULL, begin_read, cancel_read, self, &options);
}

static int make_file(void)
{
    char name[] = "/tmp/ferry-file-XXXXXX", block[BLOCK_BYTES];
    int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    for (int i = 0; fd >= 0 && i < BLOCKS; i++) {
        memset(block, i, sizeof block);
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            return -1;
    }
    return fd;
}

int main(void)
{
    static file_read reads[BLOCKS];
    ferry_engine *engine = NULL;
    ferry_buffer *cache = NULL, *target = NULL;
    int fd = make_file(), right = 0;
    if (fd < 0 || ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), BLOCKS * BLOCK_BYTES, &cache) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), BLOCKS * BLOCK_BYTES, &target) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < BLOCKS; i++) {
        ferry_span from = {cache, i * BLOCK_BYTES, BLOCK_BYTES};
        ferry_span to = {target, i * BLOCK_BYTES, BLOCK_BYTES};
        ferry_future_release(submit_read(engine, &reads[i], fd, (off_t)(i * BLOCK_BYTES), from));
        ferry_future_release(ferry_copy(engine, to, from, NULL)); /* waits for the read */
    }
    ferry_future *all = ferry_engine_drain(engine);
    ferry_status status = ferry_future_wait(all, -1);
    for (int i = 0; i < BLOCKS; i++)
        right += ((char *)ferry_buffer_data(target))[(i + 1) * BLOCK_BYTES - 1] == i;
    printf("%s: %d of %d blocks are right\n", ferry_status_name(status), right, BLOCKS);
    ferry_future_release(all);
    ferry_buffer_release(cache);
    ferry_buffer_release(target);
    ferry_engine_release(engine);
    close(fd);
    return right == BLOCKS ? 0 : 1;
}
