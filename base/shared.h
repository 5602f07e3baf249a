/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory: host memory that other processes of this host can map, and read with plain loads.
 *
 *     owner                                          reader
 *     [ private page ]  descriptor, size
 *     [ head, a page ]  key, marks      ◄─ maps ─►   [ head ]
 *     [ memory       ]                               [ memory ]      read-only, or not
 *
 * It is a file without a name (memfd_create). The reader opens it by /proc/<pid>/fd/<descriptor>,
 * which the kernel allows to whom it allows process_vm_readv. A pid and a descriptor prove nothing:
 * either may name something else by the time it is opened, and in another pid namespace it does
 * from the beginning. So the head has a key, 16 random bytes, which the owner tells as well; no
 * other file has it. The size is sealed, as a read past the end of a file that was cut would end
 * the process (SIGBUS). What is told is not trusted: what is opened must be a file of that size,
 * with that seal and that key.
 *
 * Marks. Nobody can take a mapping back, so it must be certain what a read of it is worth: the
 * owner may have given the reader up, as it was stopped for too long, and may have used the memory
 * again. So each reader that may read has a mark of its own, a number in the head that no mark had
 * before. The owner wipes the mark, passes a fence, and only then calls the memory quiet, which
 * allows others to overwrite it. The reader copies the bytes, passes a fence, and then looks at the
 * mark. If the copy saw one byte that was written after the wipe, the reader's fence comes after
 * that load and the owner's before that store, so the mark that is looked at is wiped, or is a
 * later reader's, which has another number. That is message passing through the byte, with the mark
 * as the message; C11 (29.8, fence-fence synchronisation) would have the byte atomic, and on all
 * machines that ferry runs on a plain load or store of a byte is. The same as net/ucx/mark.h has
 * for reads by the kernel.
 *
 * A killed owner wipes nothing, and need not: nobody overwrites its memory any more, and the
 * mapping stays.
 *
 * Took from UCX's posix transport (uct/sm/mm/posix): the path by /proc for a file that has no name.
 * Changed: it trusts what it opens there.
 */
#ifndef FRY_BASE_SHARED_H
#define FRY_BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the owner ---- */

#define FRY_SHARED_MARKS 448 /* readers of one memory at a time */

/* What a reader needs, in the owner's words: not trusted. */
typedef struct fry_shared_place {
    int32_t pid, descriptor;
    uint64_t key[2];
    uint64_t size_bytes; /* of the memory */
    uint32_t mark;       /* which mark is the reader's */
    uint64_t number;     /* and what stands there; 0: there is no place */
} fry_shared_place;

/* Zeroed memory, aligned to a page. NULL, with errno set. Any thread. */
void *fry_shared_alloc(size_t size_bytes);

/* Frees it. Readers keep what they have mapped. NULL is allowed. Any thread. */
void fry_shared_free(void *memory);

/*
 * Gives one more reader a mark, and fills in the place to tell it. False: all marks are given. For
 * one memory: one thread at a time, as with withdraw.
 */
bool fry_shared_grant(void *memory, fry_shared_place *place);

/* Takes a mark back: no read that is not over can succeed any more. */
void fry_shared_withdraw(void *memory, uint32_t mark);

/* ---- the reader ---- */

/* Memory of another process, or of this one, that is mapped here. Zeroed: none. */
typedef struct fry_shared_map {
    const unsigned char *memory; /* NULL: none */
    uint64_t size_bytes;
    const uint64_t *mark; /* the reader's, in the head; atomic */
    uint64_t number;      /* that it has while the reader may read */
} fry_shared_map;

/*
 * Maps what a place names. False: it can't be mapped, whatever the reason; the process is in
 * another namespace or has ended, or the rules for ptrace forbid it.
 */
bool fry_shared_open(fry_shared_map *map, const fry_shared_place *place);

/*
 * The same, to be written too: for memory whose owner uses it for nothing else as long as anybody
 * may have it mapped, since marks keep nobody from writing (engine/messages/symmetric.c).
 */
bool fry_shared_open_writable(fry_shared_map *map, const fry_shared_place *place);

/* What may be written, of a map that was opened so. */
static inline void *fry_shared_memory(const fry_shared_map *map)
{
    return (void *)(uintptr_t)map->memory;
}

/* Unmaps it. A map that is none is allowed. */
void fry_shared_close(fry_shared_map *map);

/*
 * Copies bytes of it, which are within it. False: the owner has taken the mark back, and the bytes
 * copied may be anything.
 */
bool fry_shared_read(const fry_shared_map *map, void *to, uint64_t offset, size_t size_bytes);

#endif
