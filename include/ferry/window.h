/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: memory that its owner has announced to a group under a name, and that the other members
 * read and write by offsets, as often as they like, without a receive or a send of the owner's.
 *
 * Who writes a window while others read it decides what they read: operations on a window take no
 * part in the order of the owner's operations on that memory, as if they were
 * FERRY_OP_UNTRACKED there. So programs tell each other when bytes are there and when they may be
 * overwritten, for example by messages. In the member that gets or puts, the local span is ordered
 * like that of any operation.
 */
#ifndef FERRY_WINDOW_H
#define FERRY_WINDOW_H

#include <ferry/group.h>
#include <ferry/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the other members may do with a window. */
typedef enum ferry_window_rights FERRY_INT_ENUM {
    FERRY_WINDOW_GET = 1,     /* read it: ferry_get */
    FERRY_WINDOW_PUT = 2,     /* write it: ferry_put */
    FERRY_WINDOW_GET_PUT = 3, /* both */
} ferry_window_rights;

/*
 * Opens a window over a span of this member's memory, and announces it to the group.
 *  group     joined
 *  span      not empty; on a host device or a CUDA device. The window keeps the buffer until it is
 *            closed. Rights to put are refused for memory that is given as `source`
 *  name      1 to 128 of A-Z a-z 0-9 . _ - /, without parts that are empty or dots alone. Of this
 *            member's windows that are not closed, no other has it
 *  rights    ferry_window_rights
 *  window_p  receives the window, which the caller ends with ferry_window_release. NULL if the
 *            call is refused, with the future that says why
 * Any thread. Returns one reference, never NULL, to a future that resolves when the other members
 * can find the window. Fails at once like any operation (op.h), with FERRY_E_NOT_FOUND never;
 * later with FERRY_E_CHANGED, if a window of this member has that name; FERRY_E_AGAIN, if this
 * member has 1024 windows in the group; FERRY_E_DEAD or FERRY_E_FENCED, if the membership has
 * ended. A window whose opening has failed is closed.
 */
FERRY_API ferry_future *ferry_window_open(ferry_group *group, ferry_span span, const char *name,
                                          ferry_window_rights rights, ferry_window **window_p);

/*
 * Finds a window of another member by its name. If it is not open yet, the future waits until it
 * is.
 *  owner        rank of the member; not this one, whose windows are its own memory
 *  deadline_ns  as ferry_op_options.deadline_ns; 0: none
 *  window_p     receives the window, as above. Operations may name it before it was found if they
 *               wait for this future (ferry_op_options.after)
 * A window that was found ends with its owner's incarnation, and with the connection to it: if the
 * owner has closed it, leaves, dies or starts again, or the connection fails, operations on it
 * fail, and the program looks for it anew. The error names the owner and the reason. Any thread.
 * Returns one reference, never NULL. Fails with FERRY_E_NOT_FOUND (no such rank; or the window was
 * closed or released before it was found); FERRY_E_INVALID (this member's own rank, or a wrong
 * name); FERRY_E_DEADLINE, FERRY_E_CANCELLED; FERRY_E_DEAD, FERRY_E_PEER, FERRY_E_FENCED as a
 * receive of that member; FERRY_E_UNSUPPORTED, if that member's ferry does not know windows;
 * FERRY_E_AGAIN, if this member looks for or has 1024 windows of that member that are not released.
 */
FERRY_API ferry_future *ferry_window_find(ferry_group *group, ferry_rank owner, const char *name,
                                          int64_t deadline_ns, ferry_window **window_p);

/*
 * Closes a window. From now on operations on it fail with FERRY_E_NOT_FOUND, also those that were
 * submitted before and have not begun.
 *
 * Of the owner: each member that has found it is asked to leave it. The future resolves when all
 * have done so, or are gone, and no operation on it is under way: from then on no other member
 * reads or writes the memory through this window, whatever happens; the program may use it for
 * something else or free it. A member that is stopped (SIGSTOP) holds the close up until it goes
 * on, or is declared dead. The name is free at once.
 * Of a member that has found it: resolves when no operation of this member on it is under way, and
 * the owner will be told.
 *
 * Any thread. Returns one reference, never NULL, to a future. A window is closed once: a second
 * close is refused with FERRY_E_INVALID. Cancelling the future ends the wait, not the closing. At
 * the end of the membership every window is closed.
 */
FERRY_API ferry_future *ferry_window_close(ferry_window *window);

/* The state of a window, as this member knows it. */
typedef enum ferry_window_state FERRY_INT_ENUM {
    FERRY_WINDOW_PENDING = 0,   /* being opened, or sought */
    FERRY_WINDOW_IS_OPEN = 1,   /* operations may use it */
    FERRY_WINDOW_IS_CLOSED = 2, /* they can't, and never will */
} ferry_window_state;

/* A window, as this member knows it. Later versions may add fields at the end. */
typedef struct ferry_window_info {
    size_t struct_size;         /* sizeof(ferry_window_info), set by the caller */
    ferry_window_state state;   /* */
    ferry_window_rights rights; /* 0 before a sought window is found */
    ferry_rank owner;
    uint32_t reserved;   /* zero */
    uint64_t size_bytes; /* 0 before a sought window is found */
    char name[136];
} ferry_window_info;

#define FERRY_WINDOW_INFO_INIT FERRY_SIZED_INIT(ferry_window_info)

/*
 * Describes a window.
 *  info  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_INVALID for a NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_window_describe(const ferry_window *window, ferry_window_info *info);

/*
 * Releases a window, and closes it, if that was not done; NULL is allowed. Operations on it that
 * have begun go on. Nobody is told when they are over; use ferry_window_close for that. Any
 * thread, any context. Does nothing in a fork's child.
 */
FERRY_API void ferry_window_release(ferry_window *window);

/*
 * Copies bytes of another member's window, from an offset on, into a local span.
 *  window  that was found, or is being found and the operation waits for that. Of the same engine
 *          as the span
 *  offset  in the window; the span must fit behind it
 *  span    local, as for ferry_recv. Without bytes: resolves when after[] has, if the window is
 *          open then
 * On one host the bytes of host memory are read where they are, and the owner does nothing for it:
 * by a system call, or without one if the window is in memory of FERRY_MEMORY_SHARED.
 * If the window or the span is on a GPU, the bytes go as those of a message do (message.h), except
 * over NCCL; and so they do between hosts: the owner's engine has to make progress.
 *
 * A get is an operation: it starts when its dependencies allow; `after`, deadlines, labels,
 * accesses and poison work as usual, and op.h's rules for all operations hold. It is not ordered
 * with other operations on the window. After it has failed, ferry may write the span until it is
 * quiet. FERRY_OK: all bytes were read while the window was open; if its owner wrote them
 * meanwhile, they are of before or after, each byte by itself.
 *
 * Statuses, in addition to those of op.h and of ferry_recv: FERRY_E_INVALID at once, for a window
 * of another engine, or one of this member's own, or a span that is not within it or lacks the
 * right; later, with the same reasons, if the window had not been found at the submit;
 * FERRY_E_NOT_FOUND, if the window was closed, by either end, or was not found; the status that its
 * connection ended with, if it was lost by that; FERRY_E_DEPENDENCY, if the owner could not do it:
 * the cause has its reason. The error names the owner.
 */
FERRY_API ferry_future *ferry_get(ferry_window *window, uint64_t offset, ferry_span span,
                                  const ferry_op_options *options);

/*
 * Copies a local span into another member's window. The owner's engine fetches the bytes, so it has
 * to make progress. FERRY_OK: they are there. After a put has failed, the owner's engine may still
 * write them, until the put is quiet, or until the owner finds that the connection is lost; part of
 * the bytes may be there. Otherwise like ferry_get.
 */
FERRY_API ferry_future *ferry_put(ferry_window *window, uint64_t offset, ferry_span span,
                                  const ferry_op_options *options);

#ifdef __cplusplus
}
#endif
#endif
