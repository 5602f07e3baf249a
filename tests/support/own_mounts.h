/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_OWN_MOUNTS_H
#define TESTS_SUPPORT_OWN_MOUNTS_H

/* Moves the calling process, which has one thread, to mounts of its own: what it mounts from now on
 * only it and its later children see, and is gone with them. Works in a chroot too. 0, or -1 with
 * errno if it is not allowed here. */
int own_mounts(void);

#endif
