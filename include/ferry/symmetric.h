/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symmetric memory: each member of a group has memory of one size under one name, and reaches that
 * of all the others, at the same offsets: by ferry_get and ferry_put, and by loads and stores where
 * it is mapped.
 *
 * All members ask for it, each when it likes and in any order with other names, and all equally
 * often. The n-th ask of a member for a name and a size ends FERRY_OK at the latest when all of
 * them have asked n times; earlier, where the others have it still. What a member has kept from
 * before decides how fast an ask is answered, never whether.
 */
#ifndef FERRY_SYMMETRIC_H
#define FERRY_SYMMETRIC_H

#include <ferry/group.h>
#include <ferry/window.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_SYMMETRIC_IDLE_MAX 16     /* that a member keeps in a group, without a handle */
#define FERRY_SYMMETRIC_NAMES_MAX 65536 /* names and sizes, in a group's life */

/*
 * Asks for memory that every member of the group has.
 *  group         joined, and closed (FERRY_GROUP_CLOSED)
 *  device        of the group's engine; where this member's memory is to be. Others may name
 *                devices of another kind
 *  size_bytes    the same with all members: another size is another memory
 *  name          1 to 64 of A-Z a-z 0-9 . _ - /, without parts that are empty or dots alone
 *  deadline_ns   absolute, on the engine's clock; 0: none
 *  symmetric_p   receives the handle, which the caller ends with ferry_symmetric_release. NULL if
 *                the call is refused, with the future that says why
 * On a host device the memory is of FERRY_MEMORY_SHARED, and zeroed when it is new. What is left
 * from an earlier ask is given again as it is. The members' memory is reached over their
 * connections; the store is not asked for anything but those.
 *
 * Memory that this member still has whole needs no message: the future has resolved, or is about
 * to. A member keeps the last FERRY_SYMMETRIC_IDLE_MAX of a group that it has no handle of. It is
 * no barrier: an ask of another member's may already have been answered out of that.
 *
 * Any thread. Returns one reference, never NULL, to a future. Fails at once like any operation
 * (op.h), and with FERRY_E_INVALID; FERRY_E_UNSUPPORTED, if the group is open, or the device has no
 * memory that members can reach; FERRY_E_NO_MEMORY; FERRY_E_CHANGED, if this member has memory of
 * that name and size on another device; FERRY_E_AGAIN, if it has asked for
 * FERRY_SYMMETRIC_NAMES_MAX of them. Later with FERRY_E_DEADLINE, and the message names the ranks
 * whose memory is not there; with the first reason why a member's memory can't be had, as
 * ferry_window_find has them, and its rank; FERRY_E_NOT_FOUND, if the handle was released before.
 * An ask that has failed does not count, and its handle is only good for being released. Where an
 * ask fails with some members alone, the others' memory fails as if that member had died, and
 * programs that go on take another name.
 */
FERRY_API ferry_future *ferry_symmetric_alloc(ferry_group *group, ferry_device *device,
                                              size_t size_bytes, const char *name,
                                              int64_t deadline_ns, ferry_symmetric **symmetric_p);

/*
 * This member's memory. Borrowed until the handle is released; operations may use it like any
 * buffer, but nothing orders them with what others do. NULL for NULL. Any thread, any context.
 */
FERRY_API ferry_buffer *ferry_symmetric_buffer(const ferry_symmetric *symmetric);

/*
 * Another member's memory, for ferry_get and ferry_put. Borrowed until the handle is released; not
 * to be closed or released. NULL before the ask has ended FERRY_OK, for this member's own rank, for
 * a rank that the group does not have, and for NULL. Any thread, any context.
 */
FERRY_API ferry_window *ferry_symmetric_window(const ferry_symmetric *symmetric, ferry_rank rank);

/*
 * Where a member's memory is in this process, to be read and written by loads and stores: valid
 * until the handle is released, also if the member has died. Programs order these themselves, with
 * atomics in the memory or by messages.
 * NULL: before the ask has ended FERRY_OK; for a member on another host, or one that this process
 * may not map (as with process_vm_readv: ptrace's rules, another pid namespace); and for memory
 * that is on a GPU at either end, except this member's own: this version maps no GPU's memory of
 * other processes. Then ferry_get and ferry_put are the way. Any thread, any context.
 */
FERRY_API void *ferry_symmetric_address(const ferry_symmetric *symmetric, ferry_rank rank);

/* The state of symmetric memory, as this member knows it. */
typedef enum ferry_symmetric_state FERRY_INT_ENUM {
    FERRY_SYMMETRIC_PENDING = 0,   /* asked for; for a moment also when the ask has failed */
    FERRY_SYMMETRIC_IS_WHOLE = 1,  /* all members have it */
    FERRY_SYMMETRIC_IS_BROKEN = 2, /* a member's was lost: gets and puts there fail. The others' can
                                      be used on; so can what is mapped */
    FERRY_SYMMETRIC_HAS_FAILED = 3, /* the ask */
} ferry_symmetric_state;

/* Symmetric memory, as this member knows it. Later versions may add fields at the end. */
typedef struct ferry_symmetric_info {
    size_t struct_size; /* sizeof(ferry_symmetric_info), set by the caller */
    ferry_symmetric_state state;
    int32_t failed_rank;        /* IS_BROKEN: the first member whose memory was lost; else -1 */
    ferry_status failed_status; /* IS_BROKEN: why; else FERRY_OK */
    uint32_t mapped;            /* number of members whose memory has an address here */
    uint64_t size_bytes;
    char name[72];
} ferry_symmetric_info;

#define FERRY_SYMMETRIC_INFO_INIT FERRY_SIZED_INIT(ferry_symmetric_info)

/*
 * Describes symmetric memory.
 *  info  filled in up to its struct_size, which the caller has set
 * Any thread, any context. Returns FERRY_OK; FERRY_E_INVALID for a NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_symmetric_describe(const ferry_symmetric *symmetric,
                                                ferry_symmetric_info *info);

/*
 * Lets go of symmetric memory; NULL is allowed. Nothing of it may be used by this handle any more,
 * and operations on its buffer and windows are to have ended. This member's memory stays for the
 * others: it is freed when all members have let go of it, or have died, and have asked for it
 * equally often. If the ask has not ended, it fails with FERRY_E_NOT_FOUND. Any thread, any
 * context. Does nothing in a fork's child.
 */
FERRY_API void ferry_symmetric_release(ferry_symmetric *symmetric);

#ifdef __cplusplus
}
#endif
#endif
