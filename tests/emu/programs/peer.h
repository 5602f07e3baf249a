/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second process of a test, which does what it is told: it has memory and events that others
 * open, or opens theirs. It is forked before the driver is there, and ends with its creator.
 */
#ifndef PEER_H
#define PEER_H

#include "driver.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum peer_order {
    PEER_MAKE,   /* memory of size_bytes, filled with `byte`; gives its handle and address */
    PEER_INSIDE, /* gives the handle of the memory's middle */
    PEER_FILL, /* the memory with `byte`, behind the other's event if it was opened, and records */
    PEER_SEE,  /* gives the memory's first and last byte as `byte` and `last` */
    PEER_FREE,
    PEER_OPEN,      /* `memory` */
    PEER_CLOSE,     /* what was opened */
    PEER_EVENT,     /* gives the handle of an event, which was never recorded */
    PEER_HEAR,      /* opens `event` */
    PEER_HOLD,      /* nothing begins... */
    PEER_RELEASE,   /* ...until this */
    PEER_COUNT,     /* gives what is live, descriptors, too, as `count`, and `freed_open` */
    PEER_READ_ALL,  /* copies the memory that was opened, many times, and answers at once */
    PEER_FORGET_IT, /* destroys its event */
    PEER_SKIP,      /* gives the address of memory of size_bytes, which is freed again */
} peer_order;

typedef struct peer_message {
    peer_order order;
    CUresult result;
    size_t size_bytes;
    unsigned char byte, last;
    CUdeviceptr address;
    uint64_t count, freed_open;
    CUipcMemHandle memory;
    CUipcEventHandle event;
} peer_message;

typedef struct peer {
    pid_t pid;
    int socket;
} peer;

/* Ends this program where the other one does. */
static inline peer_message peer_hear(const peer *which)
{
    peer_message message;
    CHECK(recv(which->socket, &message, sizeof message, 0) == (ssize_t)sizeof message);
    return message;
}

static inline void peer_tell(const peer *which, const peer_message *message)
{
    CHECK(send(which->socket, message, sizeof *message, MSG_NOSIGNAL) == (ssize_t)sizeof *message);
}

static inline peer_message peer_ask(const peer *which, peer_message message)
{
    peer_tell(which, &message);
    return peer_hear(which);
}

/* The same, which has to succeed. */
static inline peer_message peer_do(const peer *which, peer_message message)
{
    peer_message answer = peer_ask(which, message);
    OK(answer.result);
    return answer;
}

/* ---- What it does --------------------------------------------------------------------------- */

static struct {
    CUstream stream;
    CUdeviceptr memory, opened;
    size_t size_bytes;
    CUevent written, heard;
    unsigned char *bytes; /* pinned */
} peer_own;

static inline CUresult peer_make(peer_message *message)
{
    peer_own.size_bytes = message->size_bytes;
    peer_own.memory = message->address = new_memory(message->size_bytes);
    OK(cuMemsetD8Async(peer_own.memory, message->byte, message->size_bytes, peer_own.stream));
    OK(cuStreamSynchronize(peer_own.stream));
    return cuIpcGetMemHandle(&message->memory, peer_own.memory);
}

static inline CUresult peer_fill(const peer_message *message)
{
    if (peer_own.heard != NULL)
        OK(cuStreamWaitEvent(peer_own.stream, peer_own.heard, 0));
    OK(cuMemsetD8Async(peer_own.memory, message->byte, peer_own.size_bytes, peer_own.stream));
    return peer_own.written == NULL ? CUDA_SUCCESS
                                    : cuEventRecord(peer_own.written, peer_own.stream);
}

static inline CUresult peer_see(peer_message *message)
{
    const CUdeviceptr end = peer_own.memory + peer_own.size_bytes;
    OK(cuMemcpyAsync((CUdeviceptr)peer_own.bytes, peer_own.memory, 1, peer_own.stream));
    OK(cuMemcpyAsync((CUdeviceptr)peer_own.bytes + 1, end - 1, 1, peer_own.stream));
    CUresult result = cuStreamSynchronize(peer_own.stream);
    message->byte = peer_own.bytes[0];
    message->last = peer_own.bytes[1];
    return result;
}

static inline CUresult peer_event(peer_message *message)
{
    OK(cuEventCreate(&peer_own.written, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    return cuIpcGetEventHandle(&message->event, peer_own.written);
}

static inline unsigned descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    CHECK(closedir(folder) == 0);
    return count;
}

static inline CUresult peer_count(peer_message *message)
{
    emu_counters now;
    emu_get_counters(&now);
    message->count =
        now.live_imports + now.live_import_ranges + now.live_device_ranges + descriptors();
    message->freed_open = now.freed_open;
    return CUDA_SUCCESS;
}

static inline CUresult peer_read_all(const peer_message *message)
{
    CUdeviceptr own = new_memory(message->size_bytes);
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < 500 && result == CUDA_SUCCESS; i++)
        result = cuMemcpyAsync(own, peer_own.opened, message->size_bytes, peer_own.stream);
    return result;
}

static inline CUresult peer_skip(peer_message *message)
{
    message->address = new_memory(message->size_bytes);
    return cuMemFree(message->address);
}

static inline CUresult peer_obey(peer_message *message)
{
    switch (message->order) {
    case PEER_MAKE:
        return peer_make(message);
    case PEER_INSIDE:
        return cuIpcGetMemHandle(&message->memory, peer_own.memory + peer_own.size_bytes / 2);
    case PEER_FILL:
        return peer_fill(message);
    case PEER_SEE:
        return peer_see(message);
    case PEER_FREE:
        return cuMemFree(peer_own.memory);
    case PEER_OPEN:
        return cuIpcOpenMemHandle(&peer_own.opened, message->memory,
                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    case PEER_CLOSE:
        return cuIpcCloseMemHandle(peer_own.opened);
    case PEER_EVENT:
        return peer_event(message);
    case PEER_HEAR:
        return cuIpcOpenEventHandle(&peer_own.heard, message->event);
    case PEER_HOLD:
        emu_hold();
        return CUDA_SUCCESS;
    case PEER_RELEASE:
        emu_release();
        return CUDA_SUCCESS;
    case PEER_COUNT:
        return peer_count(message);
    case PEER_READ_ALL:
        return peer_read_all(message);
    case PEER_FORGET_IT:
        return cuEventDestroy(peer_own.written);
    case PEER_SKIP:
        return peer_skip(message);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static inline void use_first_device(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}

static inline void peer_main(int socket)
{
    peer_message message;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    use_first_device();
    peer_own.stream = NEW_STREAM;
    peer_own.bytes = new_pinned(2);
    while (recv(socket, &message, sizeof message, 0) == (ssize_t)sizeof message) {
        message.result = peer_obey(&message);
        CHECK(send(socket, &message, sizeof message, MSG_NOSIGNAL) == (ssize_t)sizeof message);
    }
    exit(EXIT_SUCCESS);
}

/* Before the driver is there. */
static inline peer peer_start(void)
{
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
    peer started = {fork(), sockets[0]};
    CHECK(started.pid >= 0);
    if (started.pid == 0) {
        CHECK(close(sockets[0]) == 0);
        peer_main(sockets[1]);
    }
    CHECK(close(sockets[1]) == 0);
    return started;
}

static inline void peer_kill(const peer *which)
{
    int status;
    CHECK(kill(which->pid, SIGKILL) == 0);
    CHECK(waitpid(which->pid, &status, 0) == which->pid && WIFSIGNALED(status));
}

/* In good order. */
static inline void peer_end(const peer *which)
{
    int status;
    CHECK(close(which->socket) == 0);
    CHECK(waitpid(which->pid, &status, 0) == which->pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

#endif
