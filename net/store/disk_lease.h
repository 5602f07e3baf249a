/* SPDX-License-Identifier: Apache-2.0 */
/* Leases as files. */
#ifndef FRY_NET_STORE_DISK_LEASE_H
#define FRY_NET_STORE_DISK_LEASE_H

#include "net/store/disk.h"

/* Makes a lease's file. *fd_p holds it: its locks show that the holder lives. */
ferry_status fry_disk_lease_make(fry_disk *disk, int64_t ttl_ns, int64_t ends_ns, uint64_t *id_p,
                                 int *fd_p);

/* Writes a new end. FERRY_E_NOT_FOUND: the lease was ended. FERRY_E_BUSY: try again. */
ferry_status fry_disk_lease_extend(fry_disk *disk, int fd, int64_t ends_ns);

/* FERRY_E_NOT_FOUND: the lease has no file. */
ferry_status fry_disk_lease_read(fry_disk *disk, uint64_t id, fry_disk_lease *to);

/*
 * Removes a lease's file if its end is still as in `seen`, or its holder is dead. FERRY_E_BUSY: the
 * lease is just being extended, or ended by another process.
 */
ferry_status fry_disk_lease_end(fry_disk *disk, const fry_disk_lease *seen);

/* Removes the file of this process's own lease. */
void fry_disk_lease_drop(fry_disk *disk, uint64_t id);

#endif
