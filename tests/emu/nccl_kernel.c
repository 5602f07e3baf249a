/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/nccl_kernel.h"

#include "tests/emu/emu_nccl.h"
#include "tests/emu/nccl_script.h"

#include <bsd/sys/queue.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICES_MOST 64
#define HEADER_BYTES sizeof(uint64_t)
#define STALE 0xdb     /* what a sender that was aborted leaves in the receiver's memory */
#define YIELDS 50      /* of a kernel that stands, before it sleeps */
#define IDLE_NS 20000  /* that it sleeps */
#define NAP_NS 1000000 /* between looks at whether it was stopped, while it takes its time */

typedef enum phase { HEADER, BYTES, SEEN, DONE, STUCK } phase;

/* A piece under way. The stream's thread alone changes it; others look whether it can go on. */
typedef struct move {
    emu_nccl_piece piece;
    emu_nccl_ring *ring; /* NULL: to itself */
    const void *src;     /* then */
    _Atomic(int) phase;
    _Atomic(uint64_t) moved;
    _Atomic(uint64_t) end; /* of a send: its last byte's position */
} move;

typedef struct kernel {
    TAILQ_ENTRY(kernel) entry; /* of those that have no slot yet */
    ncclComm_t comm;
    emu_outside_place place;
    bool is_resident;
    move *moves;
    size_t move_count;
    emu_nccl_sum *sums;
    char **parts; /* of each sum: every rank's numbers, one after the other */
    size_t sum_count;
} kernel;

/* With the lock: in the order of their launch, and how many have a slot. */
static TAILQ_HEAD(, kernel) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static unsigned resident[DEVICES_MOST];
static unsigned begun[DEVICES_MOST];
static _Atomic(int64_t) time_ns[DEVICES_MOST]; /* read without the lock */

static unsigned count_of(const unsigned *counts, int ordinal)
{
    unsigned count;

    emu_outside_lock();
    count = ordinal >= 0 && ordinal < DEVICES_MOST ? counts[ordinal] : 0;
    emu_outside_unlock();
    return count;
}

unsigned emu_nccl_resident_count(int ordinal)
{
    return count_of(resident, ordinal);
}

unsigned emu_nccl_kernel_count(int ordinal)
{
    return count_of(begun, ordinal);
}

void emu_nccl_kernel_time(int ordinal, int64_t new_ns)
{
    if (ordinal >= 0 && ordinal < DEVICES_MOST)
        atomic_store(&time_ns[ordinal], new_ns);
}

size_t emu_nccl_type_bytes(ncclDataType_t type)
{
    static const unsigned char bytes[ncclNumTypes] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,    [ncclInt32] = 4,      [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,   [ncclFloat16] = 2,    [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1,
    };

    return (unsigned)type < ncclNumTypes ? bytes[type] : 0;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* Whether it could go on; unless `is_asked` it does. */
static bool step_send(move *move, bool is_asked)
{
    const uint64_t size = move->piece.size_bytes;
    const uint64_t moved = atomic_load(&move->moved);
    size_t put;

    switch (atomic_load(&move->phase)) {
    case HEADER:
        if (emu_nccl_ring_room(move->ring) < HEADER_BYTES)
            return false;
        if (is_asked)
            return true;
        (void)emu_nccl_ring_put(move->ring, &size, HEADER_BYTES);
        break;
    case BYTES:
        if (is_asked)
            return emu_nccl_ring_room(move->ring) > 0;
        put = emu_nccl_ring_put(move->ring, (const char *)move->piece.memory + moved, size - moved);
        if (put == 0)
            return false;
        atomic_store(&move->moved, moved + put);
        break;
    case SEEN:
        if (atomic_load(&move->ring->read) < atomic_load(&move->end))
            return false;
        if (!is_asked)
            atomic_store(&move->phase, DONE);
        return true;
    default:
        return false;
    }
    if (atomic_load(&move->moved) == size) {
        atomic_store(&move->end, atomic_load(&move->ring->written));
        atomic_store(&move->phase, SEEN);
    } else {
        atomic_store(&move->phase, BYTES);
    }
    return true;
}

/* NCCL does not look at it: one end ends, and the other stands or has half of it. */
static void catch_sizes(const move *move, uint64_t size)
{
    char text[EMU_NCCL_ERROR_BYTES];

    (void)snprintf(text, sizeof text, "ncclRecv of %zu bytes meets an ncclSend of %llu",
                   move->piece.size_bytes, (unsigned long long)size);
    emu_outside_lock();
    emu_outside_misuse(text);
    emu_outside_unlock();
}

/* A sender that was aborted has posted its steps without bytes: what is in the ring is taken. */
static bool take_stale(move *move)
{
    const uint64_t moved = atomic_load(&move->moved);

    memset((char *)move->piece.memory + moved, STALE, move->piece.size_bytes - moved);
    atomic_store(&move->moved, move->piece.size_bytes);
    atomic_store(&move->phase, DONE);
    return true;
}

static bool step_recv(move *move, bool is_asked)
{
    const uint64_t moved = atomic_load(&move->moved);
    const int phase = atomic_load(&move->phase);
    /* In this order: what was written before is seen. */
    const bool is_posted = atomic_load(&move->ring->is_posted);
    uint64_t size;
    size_t got;

    if (is_posted && (phase == HEADER || phase == BYTES) &&
        emu_nccl_ring_held(move->ring) < (phase == HEADER ? HEADER_BYTES : 1))
        return is_asked || take_stale(move);
    switch (phase) {
    case HEADER:
        if (emu_nccl_ring_held(move->ring) < HEADER_BYTES)
            return false;
        if (is_asked)
            return true;
        (void)emu_nccl_ring_get(move->ring, &size, HEADER_BYTES);
        if (size != move->piece.size_bytes)
            catch_sizes(move, size);
        atomic_store(&move->phase, size != move->piece.size_bytes ? STUCK
                                   : size == 0                    ? DONE
                                                                  : BYTES);
        return true;
    case BYTES:
        if (is_asked)
            return emu_nccl_ring_held(move->ring) > 0;
        got = emu_nccl_ring_get(move->ring, (char *)move->piece.memory + moved,
                                move->piece.size_bytes - moved);
        atomic_store(&move->moved, moved + got);
        if (moved + got == move->piece.size_bytes)
            atomic_store(&move->phase, DONE);
        return got > 0;
    default:
        return false;
    }
}

static bool step_self(move *move, bool is_asked)
{
    if (atomic_load(&move->phase) == DONE)
        return false;
    if (!is_asked) {
        if (move->piece.size_bytes > 0)
            memmove(move->piece.memory, move->src, move->piece.size_bytes);
        atomic_store(&move->phase, DONE);
    }
    return true;
}

/* Those between two ranks in one direction go one after the other. */
static bool step_all(const kernel *kernel, bool is_asked)
{
    uint32_t kept[2] = {0, 0}; /* bits of ranks, by direction */
    bool has_gone_on = false;

    for (size_t i = 0; i < kernel->move_count; i++) {
        move *const move = &kernel->moves[i];
        const bool is_send = move->piece.is_send;
        const uint32_t bit = UINT32_C(1) << move->piece.peer;
        bool goes_on;

        if (move->ring != NULL && (kept[is_send] & bit) != 0)
            continue;
        goes_on = move->ring == NULL ? step_self(move, is_asked)
                  : is_send          ? step_send(move, is_asked)
                                     : step_recv(move, is_asked);
        if (goes_on && !is_asked)
            emu_outside_step();
        has_gone_on |= goes_on;
        const int now = atomic_load(&move->phase);
        if (now != DONE && !(is_send && now == SEEN))
            kept[is_send] |= bit;
    }
    return has_gone_on;
}

static bool is_done(const kernel *kernel)
{
    for (size_t i = 0; i < kernel->move_count; i++) {
        if (atomic_load(&kernel->moves[i].phase) != DONE)
            return false;
    }
    return true;
}

/* ---- Sums ----------------------------------------------------------------------------------- */

#define ADD(name, type)                                                                            \
    static void name(void *sum, const void *more, size_t count)                                    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            ((type *)sum)[i] = (type)(((type *)sum)[i] + ((const type *)more)[i]);                 \
    }

ADD(add_uint8, uint8_t)
ADD(add_uint32, uint32_t) /* int32, too, without overflow */
ADD(add_float, float)
ADD(add_double, double)

typedef void add_function(void *sum, const void *more, size_t count);

static add_function *find_add(ncclDataType_t type)
{
    return type == ncclUint8                         ? add_uint8
           : type == ncclInt32 || type == ncclUint32 ? add_uint32
           : type == ncclFloat32                     ? add_float
           : type == ncclFloat64                     ? add_double
                                                     : NULL;
}

bool emu_nccl_has_sum(ncclDataType_t type)
{
    return find_add(type) != NULL;
}

/* In the order of ranks, so that all have the same bits. */
static void finish_sums(const kernel *kernel)
{
    for (size_t i = 0; i < kernel->sum_count; i++) {
        const emu_nccl_sum *const sum = &kernel->sums[i];
        const size_t bytes = sum->count * emu_nccl_type_bytes(sum->type);
        char *const parts = kernel->parts[i];

        if (bytes == 0)
            continue;
        memcpy(parts + (size_t)kernel->comm->rank * bytes, sum->src, bytes);
        for (int rank = 1; rank < kernel->comm->ranks; rank++)
            find_add(sum->type)(parts, parts + (size_t)rank * bytes, sum->count);
        memcpy(sum->dst, parts, bytes);
    }
}

/* ---- In a stream ---------------------------------------------------------------------------- */

/* Of those that could begin the one that was launched first. */
static bool may_begin(const void *arg)
{
    const kernel *const kernel = arg;
    const int device = kernel->comm->device;
    const unsigned most = emu_nccl_resident_most();
    const struct kernel *other;

    if (atomic_load(&kernel->comm->is_aborted) || most == 0)
        return true;
    if (resident[device] >= most)
        return false;
    TAILQ_FOREACH(other, &waiting, entry) {
        if (other == kernel)
            return true;
        if (other->comm->device == device && emu_outside_is_next(other->place))
            return false;
    }
    return true;
}

static void begin(void *arg)
{
    kernel *const kernel = arg;
    const ncclResult_t error = emu_nccl_kernel_error();

    TAILQ_REMOVE(&waiting, kernel, entry);
    kernel->is_resident = true;
    resident[kernel->comm->device]++;
    begun[kernel->comm->device]++;
    kernel->comm->resident++;
    if (error != ncclSuccess) {
        kernel->comm->state = emu_nccl_error(kernel->comm, error, "an error, as it was told to");
        atomic_store(&kernel->comm->is_stuck, true);
    }
    emu_outside_wake(); /* who was launched after it */
}

static bool is_to_end(const kernel *kernel, const void *operation)
{
    return atomic_load(&kernel->comm->is_aborted) ||
           (operation != NULL && emu_outside_is_stopped(operation));
}

static void pass_time(const kernel *kernel, const void *operation)
{
    const int64_t end_ns = emu_nccl_now_ns() + atomic_load(&time_ns[kernel->comm->device]);
    int64_t left_ns;

    while (!is_to_end(kernel, operation) && (left_ns = end_ns - emu_nccl_now_ns()) > 0) {
        const struct timespec nap = {.tv_nsec = left_ns < NAP_NS ? left_ns : NAP_NS};

        (void)nanosleep(&nap, NULL);
    }
}

/*
 * NCCL's kernels have one way out of an abort: they go on, wait for nobody, copy nothing, and post
 * each step. So the other end's kernel ends as if it had its bytes.
 */
static void post_rest(const kernel *kernel)
{
    for (size_t i = 0; i < kernel->move_count; i++) {
        const move *const move = &kernel->moves[i];

        if (move->ring != NULL && move->piece.is_send)
            atomic_store(&move->ring->is_posted, 1);
    }
}

static void run(void *arg, const void *operation)
{
    const struct timespec nap = {.tv_nsec = IDLE_NS};
    kernel *const kernel = arg;
    unsigned idle = 0;

    pass_time(kernel, operation);

    while (!is_to_end(kernel, operation)) {
        const bool is_stuck = atomic_load(&kernel->comm->is_stuck);

        if (!is_stuck && is_done(kernel)) {
            finish_sums(kernel);
            return;
        }
        if (!is_stuck && step_all(kernel, false))
            idle = 0;
        else if (idle++ < YIELDS)
            (void)sched_yield();
        else
            (void)nanosleep(&nap, NULL);
    }
    if (atomic_load(&kernel->comm->is_aborted))
        post_rest(kernel);
}

static bool stands(const void *arg)
{
    const kernel *const kernel = arg;

    if (is_to_end(kernel, NULL))
        return false;
    return atomic_load(&kernel->comm->is_stuck) || (!is_done(kernel) && !step_all(kernel, true));
}

static void free_kernel(kernel *kernel)
{
    for (size_t i = 0; i < kernel->sum_count; i++)
        free(kernel->parts[i]);
    free(kernel->parts);
    free(kernel->sums);
    free(kernel->moves);
    free(kernel);
}

static void end(void *arg)
{
    kernel *const kernel = arg;
    const ncclComm_t comm = kernel->comm;

    if (kernel->is_resident) {
        resident[comm->device]--;
        comm->resident--;
        emu_outside_wake();
    } else {
        TAILQ_REMOVE(&waiting, kernel, entry);
    }
    comm->kernels--;
    free_kernel(kernel);
    emu_nccl_comm_drop(comm);
}

static const emu_outside_work work = {"an NCCL kernel", may_begin, begin, run, stands, end};

/* ---- Launching ------------------------------------------------------------------------------ */

static void *allocate(size_t count, size_t size_bytes)
{
    void *const memory = calloc(count > 0 ? count : 1, size_bytes > 0 ? size_bytes : 1);

    if (memory == NULL)
        abort();
    return memory;
}

static move *next_move(kernel *kernel, emu_nccl_piece piece)
{
    move *const move = &kernel->moves[kernel->move_count++];
    const int rank = kernel->comm->rank;

    move->piece = piece;
    if (piece.peer != rank)
        move->ring = emu_nccl_region_ring(kernel->comm->region, piece.is_send ? rank : piece.peer,
                                          piece.is_send ? piece.peer : rank);
    return move;
}

/* The n-th send to itself goes with the n-th receive. */
static ncclResult_t add_selves(kernel *kernel, const emu_nccl_plan *plan)
{
    const int rank = plan->comm->rank;
    size_t send = 0, receive = 0;

    for (;;) {
        while (send < plan->piece_count &&
               (plan->pieces[send].peer != rank || !plan->pieces[send].is_send))
            send++;
        while (receive < plan->piece_count &&
               (plan->pieces[receive].peer != rank || plan->pieces[receive].is_send))
            receive++;
        if (send == plan->piece_count && receive == plan->piece_count)
            return ncclSuccess;
        if (send == plan->piece_count || receive == plan->piece_count)
            return emu_nccl_error(plan->comm, ncclInvalidUsage,
                                  "Trying to send to self without a matching recv, or to receive");
        if (plan->pieces[send].size_bytes != plan->pieces[receive].size_bytes) {
            emu_outside_misuse("a send to itself and its receive are of different sizes");
            return emu_nccl_error(plan->comm, ncclInvalidUsage, "different sizes");
        }
        next_move(kernel, plan->pieces[receive++])->src = plan->pieces[send++].memory;
    }
}

static void add_sum(kernel *kernel, const emu_nccl_sum *sum)
{
    const size_t bytes = sum->count * emu_nccl_type_bytes(sum->type);
    const ncclComm_t comm = kernel->comm;
    char *const parts = allocate((size_t)comm->ranks, bytes);

    kernel->sums[kernel->sum_count] = *sum;
    kernel->parts[kernel->sum_count++] = parts;
    for (int peer = 0; peer < comm->ranks; peer++) {
        if (peer == comm->rank)
            continue;
        (void)next_move(kernel, (emu_nccl_piece){true, peer, (void *)sum->src, bytes});
        (void)next_move(kernel, (emu_nccl_piece){false, peer, parts + (size_t)peer * bytes, bytes});
    }
}

static ncclResult_t fill(kernel *kernel, const emu_nccl_plan *plan)
{
    const ncclResult_t result = add_selves(kernel, plan);

    for (size_t i = 0; i < plan->piece_count && result == ncclSuccess; i++) {
        if (plan->pieces[i].peer != plan->comm->rank)
            (void)next_move(kernel, plan->pieces[i]);
    }
    for (size_t i = 0; i < plan->sum_count && result == ncclSuccess; i++)
        add_sum(kernel, &plan->sums[i]);
    return result;
}

/* Sends and receives stand in no order among each other. */
static size_t list_ranges(const emu_nccl_plan *plan, emu_outside_range *ranges)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->piece_count; i++) {
        const emu_nccl_piece *const piece = &plan->pieces[i];

        ranges[count++] =
            (emu_outside_range){piece->memory, piece->size_bytes, !piece->is_send, (uint32_t)i + 1};
    }
    for (size_t i = 0; i < plan->sum_count; i++) {
        const size_t bytes = plan->sums[i].count * emu_nccl_type_bytes(plan->sums[i].type);
        const uint32_t part = (uint32_t)(plan->piece_count + i) + 1;

        if (plan->sums[i].src != plan->sums[i].dst)
            ranges[count++] = (emu_outside_range){plan->sums[i].src, bytes, false, part};
        ranges[count++] = (emu_outside_range){plan->sums[i].dst, bytes, true, part};
    }
    return count;
}

/* Behind the communicator's last kernel, and what stands in the plan's other streams. */
static ncclResult_t enqueue(kernel *kernel, const emu_nccl_plan *plan)
{
    const ncclComm_t comm = plan->comm;
    const CUstream stream = plan->streams[0];
    emu_outside_range *const ranges =
        allocate(plan->piece_count + 2 * plan->sum_count, sizeof *ranges);
    emu_outside_place *const after = allocate(plan->stream_count + 1, sizeof *after);
    const size_t range_count = list_ranges(plan, ranges);
    size_t after_count = 0;
    CUresult result;

    if (comm->last.stream != NULL && comm->last.stream != stream)
        after[after_count++] = comm->last;
    for (size_t i = 1; i < plan->stream_count; i++)
        after[after_count++] = emu_outside_last(plan->streams[i]);
    result = emu_outside_enqueue(stream, &work, kernel, ranges, range_count, after, after_count);
    if (result == CUDA_SUCCESS) {
        emu_outside_hold_stream(stream);
        if (comm->last.stream != NULL)
            emu_outside_drop_stream(comm->last.stream);
        comm->last = kernel->place = emu_outside_last(stream);
    }
    for (size_t i = 1; i < plan->stream_count && result == CUDA_SUCCESS; i++)
        result = emu_outside_wait(plan->streams[i], comm->last);
    free(after);
    free(ranges);
    if (result != CUDA_SUCCESS)
        return emu_nccl_error(comm, ncclUnhandledCudaError, "Cuda failure %d", (int)result);
    return ncclSuccess;
}

ncclResult_t emu_nccl_launch(const emu_nccl_plan *plan)
{
    const size_t peers = (size_t)plan->comm->ranks;
    ncclResult_t result;
    kernel *kernel;

    if (atomic_load(&plan->comm->is_aborted))
        return ncclSuccess;
    kernel = allocate(1, sizeof *kernel);
    kernel->comm = plan->comm;
    kernel->moves =
        allocate(plan->piece_count + plan->sum_count * 2 * peers, sizeof *kernel->moves);
    kernel->sums = allocate(plan->sum_count, sizeof *kernel->sums);
    kernel->parts = allocate(plan->sum_count, sizeof *kernel->parts);
    result = fill(kernel, plan);
    if (result != ncclSuccess) {
        free_kernel(kernel);
        return result;
    }
    kernel->comm->kernels++;
    emu_nccl_comm_hold(kernel->comm);
    kernel->place = (emu_outside_place){plan->streams[0], 0};
    TAILQ_INSERT_TAIL(&waiting, kernel, entry);
    return enqueue(kernel, plan);
}
