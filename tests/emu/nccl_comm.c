/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how they are made, what is asked of them, how they end. */
#include "tests/emu/nccl_comm.h"

#include "tests/emu/emu_nccl.h"
#include "tests/emu/nccl_script.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* With the lock. */
static struct ncclComm *comms;
static char last_error[EMU_NCCL_ERROR_BYTES];
static char host[EMU_NCCL_HOST_BYTES]; /* "": not asked yet */

void emu_nccl_nap(void)
{
    const struct timespec nap = {.tv_nsec = EMU_NCCL_NAP_NS};

    emu_outside_unlock();
    (void)nanosleep(&nap, NULL);
    emu_outside_lock();
}

bool emu_nccl_spawn(void *(*function)(void *), void *arg)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;
    int failed;

    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&thread, &attributes, function, arg);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return !failed;
}

ncclResult_t emu_nccl_error(ncclComm_t comm, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    if (comm != NULL)
        memcpy(comm->error, last_error, sizeof last_error);
    return result;
}

static ncclResult_t misuse(ncclComm_t comm, ncclResult_t result, const char *name, const char *what)
{
    char text[EMU_NCCL_ERROR_BYTES];

    (void)snprintf(text, sizeof text, "%s with a communicator that %s", name, what);
    emu_outside_misuse(text);
    return emu_nccl_error(comm, result, "%s", text);
}

static bool is_comm(const struct ncclComm *comm)
{
    const struct ncclComm *other = comms;

    while (other != NULL && other != comm)
        other = other->next;
    return comm != NULL && other != NULL;
}

ncclResult_t emu_nccl_comm_find(ncclComm_t comm, const char *name)
{
    if (!is_comm(comm))
        return emu_nccl_error(NULL, ncclInvalidArgument, "%s: not a communicator", name);
    if (comm->is_gone)
        return misuse(comm, ncclInvalidArgument, name, "was aborted or destroyed");
    return ncclSuccess;
}

ncclResult_t emu_nccl_comm_enter(ncclComm_t comm, const char *name)
{
    const uint64_t me = emu_outside_thread();
    const ncclResult_t result = emu_nccl_comm_find(comm, name);

    if (result != ncclSuccess)
        return result;
    if (comm->owner != 0 && comm->owner != me)
        return misuse(comm, ncclInvalidUsage, name, "another thread is using");
    if (comm->is_finalised)
        return misuse(comm, ncclInvalidArgument, name, "was finalised");
    if (comm->is_revoked)
        return emu_nccl_error(comm, ncclInvalidUsage, "%s after ncclCommRevoke", name);
    if (comm->state != ncclSuccess)
        return emu_nccl_error(comm,
                              comm->state == ncclInProgress ? ncclInvalidArgument : comm->state,
                              "%s before the previous operation returned ncclSuccess", name);
    comm->owner = me;
    comm->owned++;
    return ncclSuccess;
}

void emu_nccl_comm_leave(ncclComm_t comm)
{
    if (--comm->owned == 0)
        comm->owner = 0;
}

void emu_nccl_comm_hold(ncclComm_t comm)
{
    comm->references++;
}

void emu_nccl_comm_drop(ncclComm_t comm)
{
    if (--comm->references > 0)
        return;
    for (int i = 0; i < comm->ranks; i++) {
        if (comm->pidfds[i] >= 0)
            (void)close(comm->pidfds[i]);
    }
    emu_nccl_region_close(comm->region);
    comm->region = NULL;
}

/* ---- Making --------------------------------------------------------------------------------- */

static const char *host_name(void)
{
    const char *const given = getenv("NCCL_HOSTID");

    if (host[0] == '\0')
        (void)snprintf(host, sizeof host, "%s", given != NULL ? given : "this");
    return host;
}

static ncclResult_t take_rank(ncclComm_t comm)
{
    comm->region = emu_nccl_region_open(comm->id.internal, comm->ranks);
    if (comm->region == NULL)
        return emu_nccl_error(NULL, ncclSystemError, "nobody is where the unique id says");
    if (!emu_nccl_region_take(comm->region, comm->rank, comm->device, host_name())) {
        emu_nccl_region_close(comm->region);
        return emu_nccl_error(NULL, ncclInvalidUsage, "rank %d is there twice", comm->rank);
    }
    return ncclSuccess;
}

ncclResult_t emu_nccl_comm_new(ncclComm_t *comm_p, int ranks, const ncclUniqueId *id, int rank,
                               int device, bool is_blocking)
{
    ncclComm_t comm;
    ncclResult_t result;

    if (ranks < 1 || rank < 0 || rank >= ranks || ranks > EMU_NCCL_RANKS_MOST)
        return emu_nccl_error(NULL, ncclInvalidArgument, "rank %d of %d", rank, ranks);
    comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return emu_nccl_error(NULL, ncclSystemError, "no memory");
    comm->ranks = ranks;
    comm->rank = rank;
    comm->device = device;
    comm->id = *id;
    comm->id.internal[NCCL_UNIQUE_ID_BYTES - 1] = '\0';
    comm->is_blocking = is_blocking;
    comm->state = ncclInProgress;
    comm->references = 1;
    memset(comm->pidfds, -1, sizeof comm->pidfds);
    result = take_rank(comm);
    if (result != ncclSuccess) {
        free(comm);
        return result;
    }
    comm->next = comms;
    comms = comm;
    *comm_p = comm;
    return ncclSuccess;
}

static ncclResult_t meet(ncclComm_t comm)
{
    while (!emu_nccl_region_is_full(comm->region)) {
        if (atomic_load(&comm->is_aborted) || emu_outside_is_ending())
            return emu_nccl_error(comm, ncclSystemError, "aborted while others were awaited");
        emu_nccl_nap();
    }
    emu_nccl_region_forget(comm->id.internal);
    if (emu_nccl_region_is_doubled(comm->region))
        return emu_nccl_error(comm, ncclInvalidUsage,
                              "Duplicate GPU detected: two ranks on one device of one host");
    for (int i = 0; i < comm->ranks; i++) {
        const int32_t pid = comm->region->seats[i].pid;

        if (pid != (int32_t)getpid())
            comm->pidfds[i] = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    }
    return ncclSuccess;
}

static void *make(void *arg)
{
    const ncclComm_t comm = arg;
    const int64_t begin_ns = emu_nccl_now_ns();

    emu_outside_lock();
    while (!comm->is_blocking && !atomic_load(&comm->is_aborted) && emu_nccl_is_delayed(begin_ns))
        emu_nccl_nap();
    comm->state = meet(comm);
    comm->is_making = false;
    emu_nccl_comm_drop(comm);
    emu_outside_unlock();
    return NULL;
}

void emu_nccl_comm_make(ncclComm_t comm)
{
    comm->is_making = true;
    emu_nccl_comm_hold(comm);
    atomic_store(&comm->region->seats[comm->rank].presence, EMU_NCCL_JOINED);
    if (!emu_nccl_spawn(make, comm)) {
        comm->state = emu_nccl_error(comm, ncclSystemError, "no thread");
        comm->is_making = false;
        emu_nccl_comm_drop(comm);
    }
}

bool emu_nccl_comms_are_busy(void)
{
    for (const struct ncclComm *comm = comms; comm != NULL; comm = comm->next) {
        if ((comm->is_making && emu_nccl_region_is_full(comm->region) && !emu_nccl_is_held()) ||
            (comm->is_working && !emu_nccl_is_held()) ||
            (comm->is_flushing && (comm->kernels == 0 || atomic_load(&comm->is_aborted))))
            return true;
    }
    return false;
}

unsigned emu_nccl_comms_kernels(void)
{
    unsigned kernels = 0;

    for (const struct ncclComm *comm = comms; comm != NULL; comm = comm->next)
        kernels += comm->kernels;
    return kernels;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclGetUniqueId);

    if (result != ncclSuccess)
        return result;
    if (id == NULL)
        return emu_nccl_leave(emu_nccl_error(NULL, ncclInvalidArgument, "no place for it"));
    memset(id, 0, sizeof *id);
    if (!emu_nccl_region_name(id->internal, sizeof id->internal))
        return emu_nccl_leave(emu_nccl_error(NULL, ncclSystemError, "no shared memory"));
    return emu_nccl_leave(ncclSuccess);
}

/* ---- Asking --------------------------------------------------------------------------------- */

/* Whether a process is gone that had a rank and did not leave. */
static bool has_lost_rank(ncclComm_t comm)
{
    for (int i = 0; i < comm->ranks; i++) {
        struct pollfd gone = {.fd = comm->pidfds[i], .events = POLLIN};

        if (gone.fd >= 0 && poll(&gone, 1, 0) > 0 &&
            atomic_load(&comm->region->seats[i].presence) == EMU_NCCL_JOINED)
            return true;
    }
    return false;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state_p)
{
    ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommGetAsyncError);

    if (result != ncclSuccess)
        return result;
    result = emu_nccl_comm_find(comm, "ncclCommGetAsyncError");
    if (result == ncclSuccess && state_p == NULL)
        result = emu_nccl_error(comm, ncclInvalidArgument, "no place for it");
    if (result != ncclSuccess)
        return emu_nccl_leave(result);
    if (comm->state == ncclSuccess && has_lost_rank(comm))
        comm->state = emu_nccl_error(comm, ncclRemoteError, "the process of a rank is gone");
    *state_p = comm->state;
    return emu_nccl_leave(ncclSuccess);
}

const char *ncclGetLastError(ncclComm_t comm)
{
    static _Thread_local char copy[EMU_NCCL_ERROR_BYTES];

    emu_outside_lock();
    memcpy(copy, is_comm(comm) && comm->error[0] != '\0' ? comm->error : last_error, sizeof copy);
    emu_outside_unlock();
    return copy;
}

static ncclResult_t ask(emu_nccl_call call, const char *name, ncclComm_t comm, size_t offset,
                        int *value_p)
{
    ncclResult_t result = emu_nccl_enter(call);

    if (result != ncclSuccess)
        return result;
    result = emu_nccl_comm_find(comm, name);
    if (result == ncclSuccess && value_p == NULL)
        result = emu_nccl_error(comm, ncclInvalidArgument, "no place for it");
    else if (result == ncclSuccess && comm->is_making)
        result = emu_nccl_error(comm, ncclInvalidArgument, "%s before it is made", name);
    if (result == ncclSuccess)
        memcpy(value_p, (const char *)comm + offset, sizeof *value_p);
    return emu_nccl_leave(result);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count_p)
{
    return ask(EMU_NCCL_CALL_ncclCommCount, "ncclCommCount", comm, offsetof(struct ncclComm, ranks),
               count_p);
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device_p)
{
    return ask(EMU_NCCL_CALL_ncclCommCuDevice, "ncclCommCuDevice", comm,
               offsetof(struct ncclComm, device), device_p);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank_p)
{
    return ask(EMU_NCCL_CALL_ncclCommUserRank, "ncclCommUserRank", comm,
               offsetof(struct ncclComm, rank), rank_p);
}

ncclResult_t emu_nccl_fail_comm(ncclComm_t comm, ncclResult_t result)
{
    ncclResult_t found;

    emu_outside_lock();
    found = emu_nccl_comm_find(comm, "emu_nccl_fail_comm");
    if (found == ncclSuccess) {
        comm->state = emu_nccl_error(comm, result, "an error, as it was told to");
        atomic_store(&comm->is_stuck, true);
    }
    emu_outside_unlock();
    return found;
}

/* ---- Ending --------------------------------------------------------------------------------- */

static void flush(ncclComm_t comm)
{
    while (comm->kernels > 0 && !atomic_load(&comm->is_aborted) && !emu_outside_is_ending())
        emu_nccl_nap();
}

static void *flush_beside(void *arg)
{
    const ncclComm_t comm = arg;

    emu_outside_lock();
    flush(comm);
    if (comm->state == ncclInProgress)
        comm->state = ncclSuccess;
    comm->is_flushing = false;
    emu_nccl_comm_drop(comm);
    emu_outside_unlock();
    return NULL;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommFinalize);

    if (result != ncclSuccess)
        return result;
    result = emu_nccl_comm_enter(comm, "ncclCommFinalize");
    if (result != ncclSuccess)
        return emu_nccl_leave(result);
    comm->is_finalised = true;
    if (comm->is_blocking) {
        flush(comm);
    } else {
        comm->is_flushing = true;
        comm->state = ncclInProgress;
        emu_nccl_comm_hold(comm);
        result = ncclInProgress;
        if (!emu_nccl_spawn(flush_beside, comm)) {
            emu_nccl_comm_drop(comm);
            comm->is_flushing = false;
            result = comm->state = emu_nccl_error(comm, ncclSystemError, "no thread");
        }
    }
    emu_nccl_comm_leave(comm);
    return emu_nccl_leave(result);
}

void emu_nccl_comm_end(ncclComm_t comm, emu_nccl_presence presence)
{
    comm->is_gone = true;
    atomic_store(&comm->region->seats[comm->rank].presence, presence);
    if (presence == EMU_NCCL_ABORTED) {
        atomic_store(&comm->is_aborted, true);
        emu_outside_wake(); /* none of its kernels needs a slot any more */
    }
    while ((comm->is_making || comm->is_working || comm->is_flushing || comm->resident > 0) &&
           !emu_outside_is_ending())
        emu_nccl_nap();
    if (comm->last.stream != NULL)
        emu_outside_drop_stream(comm->last.stream);
    comm->last.stream = NULL;
    emu_nccl_comm_drop(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommAbort);

    if (result != ncclSuccess)
        return result;
    result = emu_nccl_comm_find(comm, "ncclCommAbort");
    if (result == ncclSuccess)
        emu_nccl_comm_end(comm, EMU_NCCL_ABORTED);
    return emu_nccl_leave(result);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result = emu_nccl_enter(EMU_NCCL_CALL_ncclCommDestroy);

    if (result != ncclSuccess)
        return result;
    result = emu_nccl_comm_find(comm, "ncclCommDestroy");
    if (result == ncclSuccess && comm->owner != 0)
        result = misuse(comm, ncclInvalidUsage, "ncclCommDestroy", "a call or an open group has");
    if (result != ncclSuccess)
        return emu_nccl_leave(result);
    while ((comm->is_making || comm->is_working) && !emu_outside_is_ending())
        emu_nccl_nap();
    if (comm->state == ncclSuccess || comm->state == ncclInProgress) {
        flush(comm);
        emu_nccl_comm_end(comm, EMU_NCCL_LEFT);
    } else {
        emu_nccl_comm_end(comm, EMU_NCCL_ABORTED);
    }
    return emu_nccl_leave(ncclSuccess);
}
