/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the folder of a file: store. */
#ifndef FRY_NET_STORE_DISK_OPEN_H
#define FRY_NET_STORE_DISK_OPEN_H

#include "net/store/disk.h"

/* Whether a file system, by statfs's f_type, is or may be a network's. */
bool fry_disk_is_remote(uint64_t type);

/*
 * Opens the folder; makes it if may_make, and its parts in any case. FERRY_OK, _E_UNSUPPORTED,
 * _E_STORE, _E_NO_MEMORY; then disk->fault says more.
 */
ferry_status fry_disk_open(fry_disk *disk, const fry_memory *memory, const char *folder,
                           bool is_real_clock, bool may_make);
void fry_disk_close(fry_disk *disk);

#endif
