/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as sources: io_uring reads blocks of a file straight into spans, and copies wait for them.
 * A read is an operation that ends later (ferry_call_async): it holds its span until the kernel has
 * answered, so nobody sees half a block. One thread sleeps on two descriptors, the engine's and the
 * ring's. The last read is of a pipe to which nobody writes: its deadline makes ferry call
 * `cancel`, which asks the kernel to end the read, and the span is quiet when the kernel has.
 */
#include <ferry/ferry.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 64, BLOCK_BYTES = 16384 };

typedef struct file_read {
    int fd;
    uint64_t file_offset;
    ferry_span to;
    ferry_promise *promise;
} file_read;

static ferry_engine *engine;
static struct io_uring ring;
static int cancels;

/* ferry calls both in ferry_engine_progress, so one thread alone uses the ring. */
static void begin(void *arg, ferry_promise *promise)
{
    file_read *self = arg;
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    self->promise = promise;
    if (entry == NULL) { /* more at once than the ring has places for */
        ferry_promise_resolve(promise, FERRY_E_AGAIN, "the ring is full");
        ferry_promise_release(promise);
        return;
    }
    io_uring_prep_read(entry, self->fd,
                       (char *)ferry_buffer_data(self->to.buffer) + self->to.offset_bytes,
                       (unsigned)self->to.size_bytes, self->file_offset);
    io_uring_sqe_set_data(entry, self);
}

static void cancel(void *arg)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    cancels++;
    if (entry == NULL)
        return; /* the read goes on, and holds its span */
    io_uring_prep_cancel(entry, arg, 0);
    io_uring_sqe_set_data(entry, NULL); /* its own answer tells nothing */
}

/* The kernel has answered. */
static void end(file_read *self, int result)
{
    char message[64];
    snprintf(message, sizeof message, "the read gave %d", result);
    ferry_promise_resolve(self->promise,
                          result == (int)self->to.size_bytes ? FERRY_OK : FERRY_E_SYSTEM, message);
    ferry_promise_release(self->promise);
}

static ferry_future *submit(file_read *self, int64_t deadline_ns)
{
    ferry_access writes = {self->to, FERRY_WRITE};
    ferry_op_options options = {.struct_size = sizeof options,
                                .accesses = &writes,
                                .access_count = 1,
                                .deadline_ns = deadline_ns,
                                .label = "read"};
    return ferry_call_async(engine, NULL, begin, cancel, self, &options);
}

static void run_until(ferry_future *done)
{
    struct pollfd descriptors[] = {{.fd = ferry_engine_fd(engine), .events = POLLIN},
                                   {.fd = ring.ring_fd, .events = POLLIN}};
    for (;;) {
        struct io_uring_cqe *answer;
        while (io_uring_peek_cqe(&ring, &answer) == 0) {
            if (io_uring_cqe_get_data(answer) != NULL)
                end(io_uring_cqe_get_data(answer), answer->res);
            io_uring_cqe_seen(&ring, answer);
        }
        bool is_busy =
            ferry_engine_progress(engine, 0) > 0 || ferry_engine_arm(engine) == FERRY_E_BUSY;
        if (ferry_future_poll(done) != FERRY_PENDING)
            return;
        io_uring_submit(&ring); /* what begin and cancel have asked for */
        poll(descriptors, 2, is_busy ? 0 : -1);
    }
}

/* A file whose every byte says in which block it is. */
static int make_file(void)
{
    char name[] = "/tmp/ferry-file-reads-XXXXXX", block[BLOCK_BYTES];
    int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    for (int i = 0; fd >= 0 && i < BLOCKS; i++) {
        memset(block, i, sizeof block);
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            exit(1);
    }
    return fd;
}

int main(void)
{
    ferry_engine_options options = {sizeof options, .loop = FERRY_LOOP_EMBEDDED};
    int fd = make_file(), ends[2], right = 0, error = io_uring_queue_init(2 * BLOCKS, &ring, 0);
    ferry_buffer *read_to, *sorted;
    if (error != 0) {
        printf("skipped: io_uring is not to be had here: %s\n", strerror(-error));
        return 77;
    }
    if (fd < 0 || pipe(ends) != 0 || ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), BLOCKS * BLOCK_BYTES, &read_to) !=
            FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 1), BLOCKS * BLOCK_BYTES, &sorted) != FERRY_OK)
        return 1;

    /* The blocks come in any order; each copy waits for its own, by the span. The last go first. */
    static file_read reads[BLOCKS + 1];
    for (size_t i = 0; i < BLOCKS; i++) {
        ferry_span to = ferry_span_slice(ferry_buffer_span(sorted), (BLOCKS - 1 - i) * BLOCK_BYTES,
                                         BLOCK_BYTES);
        reads[i] = (file_read){.fd = fd,
                               .file_offset = i * BLOCK_BYTES,
                               .to = {read_to, i * BLOCK_BYTES, BLOCK_BYTES}};
        ferry_future_release(submit(&reads[i], 0));
        ferry_future_release(ferry_copy(engine, to, reads[i].to, NULL));
    }
    ferry_future *all = ferry_engine_drain(engine);
    run_until(all);
    for (int i = 0; i < BLOCKS; i++)
        right += ((unsigned char *)ferry_buffer_data(sorted))[(BLOCKS - i) * BLOCK_BYTES - 1] == i;

    reads[BLOCKS] = (file_read){.fd = ends[0], .to = {read_to, 0, 1}};
    ferry_future *late = submit(&reads[BLOCKS], ferry_engine_deadline_in(engine, 20000000));
    ferry_future *quiet = ferry_future_quiet(late);
    run_until(quiet);
    printf("%d of %d blocks are right; the read of the pipe: %s, cancelled %d time\n", right,
           BLOCKS, ferry_status_name(ferry_future_poll(late)), cancels);
    bool is_good = right == BLOCKS && ferry_future_poll(late) == FERRY_E_DEADLINE && cancels == 1;
    ferry_future_release(all);
    ferry_future_release(late);
    ferry_future_release(quiet);
    ferry_buffer_release(read_to);
    ferry_buffer_release(sorted);
    ferry_engine_release(engine);
    io_uring_queue_exit(&ring);
    return is_good ? 0 : 1;
}
