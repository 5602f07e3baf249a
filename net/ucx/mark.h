/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks: how a process that reads another's memory knows that it has read what was offered.
 *
 * On one host the receiver of a large message reads it from the sender's memory, by
 * process_vm_readv. Nobody can call it back from that: it may be stopped for an hour between
 * hearing of the message and reading it, or during the read. By then the sender may have given the
 * message up and reused its memory; or the sender is dead, and its number belongs to another
 * process, which may have memory at the same address.
 *
 * So an end that offers memory has a mark: 16 random bytes in a page of their own, which it tells
 * the other end when the two connect. The mark stays as long as the offers do. The owner wipes it
 * before it calls any offered memory quiet without the reader's word that the reader has finished.
 * The reader reads the mark behind the data, in the same call. If the mark is there and right, the
 * data is what was offered.
 *
 * Why that is so.
 *
 *  - Time. process_vm_readv reads its pieces in the order in which they are named (its man page
 *    promises that), so it reads the mark after the data. The owner wipes the mark, passes a fence,
 *    and only then calls the memory quiet, which allows others to overwrite it. If the read saw one
 *    byte written after that, its later read of the mark sees it wiped. The fence pairs with what
 *    the kernel does between two pieces: it releases the pages of one and takes the lock of the
 *    address space for the other, which are locked instructions.
 *  - Place. The kernel finds the address space once for each call, by the process's number, and
 *    takes all pieces from it. A mark is random, one of 2^128, and no two are equal. So if it is
 *    there, that was the address space of the process that announced it, and the data comes from
 *    there too. It does not matter which process has the number now, or whether the process has
 *    called exec. A fork's child has a copy of all memory, but not of marks: MADV_WIPEONFORK.
 *  - Death. A killed process wipes nothing, and need not: nobody overwrites its memory any more,
 *    and its address space can't be found after its last thread has released it.
 *  - Short reads. A call that reads less than it was asked for has not reached the mark. (UCX's own
 *    transport takes such a read for a whole one: openucx/ucx#10756. It is not used.)
 *
 * net/ucx/mark.pml checks the first three, with planted mistakes. An end that lies about its mark
 * gains nothing: it could as well offer other bytes.
 */
#ifndef FRY_NET_UCX_MARK_H
#define FRY_NET_UCX_MARK_H

#include <ferry/status.h>
#include <stddef.h>
#include <stdint.h>

/* Address and contents of a mark, as sent between processes of one host. */
typedef struct fry_ucx_mark_place {
    int64_t pid;
    uint64_t address;
    uint64_t words[2]; /* zeros: none */
} fry_ucx_mark_place;

/* This end's mark. Zeroed: none. */
typedef struct fry_ucx_mark {
    uint64_t *words; /* in a page of their own, or NULL */
} fry_ucx_mark;

/* Sets a mark. FERRY_OK, or FERRY_E_SYSTEM with errno set. */
ferry_status fry_ucx_mark_set(fry_ucx_mark *mark, fry_ucx_mark_place *place);

/*
 * Wipes a mark: from now on no unfinished read can succeed. NULL, a zeroed mark and one that was
 * wiped are allowed. Not in a fork's child, which has no part in the mark.
 */
void fry_ucx_mark_wipe(fry_ucx_mark *mark);

typedef enum fry_ucx_mark_result {
    FRY_UCX_MARK_STANDS,  /* all was read, and it is what was offered */
    FRY_UCX_MARK_IS_GONE, /* the bytes read may be anything */
    FRY_UCX_MARK_UNKNOWN, /* the memory, or that process, can't be read: errno, or 0 */
} fry_ucx_mark_result;

#define FRY_UCX_MARK_PARTS 32

/* What is read where. */
typedef struct fry_ucx_mark_part {
    void *to;
    uint64_t from;
    size_t size_bytes; /* not 0 */
} fry_ucx_mark_part;

/*
 * Reads up to FRY_UCX_MARK_PARTS parts, then the mark, from another process, or this one, by one
 * call: what it costs to look the process up is as much as to copy some KiB. The result is of all
 * of them together.
 */
fry_ucx_mark_result fry_ucx_mark_read_parts(const fry_ucx_mark_place *place,
                                            const fry_ucx_mark_part *parts, size_t count);

/* The same of one part. size_bytes 0: reads the mark alone. */
fry_ucx_mark_result fry_ucx_mark_read(const fry_ucx_mark_place *place, void *to, uint64_t from,
                                      size_t size_bytes);

#endif
