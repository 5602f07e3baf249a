/* SPDX-License-Identifier: Apache-2.0 */
/* What the place where tests run may lack: containers, chroots and users without rights have less
 * than a machine. Each function gives NULL if it is there, else why tests that need it are skipped.
 * Tests of a suite begin with PLACE_NEEDS; those of tests/net have net_hosts_absent and net_skip.
 */
#ifndef TESTS_SUPPORT_PLACE_H
#define TESTS_SUPPORT_PLACE_H

/* What the kernel says of processes, which is in /proc. */
const char *place_lacks_processes(void);

/* Any channel of UCX's, also to oneself: UCX asks for the boot's id, of which it makes addresses.
 */
const char *place_lacks_ucx(void);

/* UCX's TCP reads about interfaces in /sys; without one it says that there is none. */
const char *place_lacks_ucx_tcp(void);

/* By what ferry tells that another process is on this host, and when it ends: /proc and /dev/shm.
 * Without them members of one host are reached over the network. */
const char *place_lacks_this_host(void);

/* Skips the test that calls it, with the reason. */
#define PLACE_NEEDS(lacks)                                                                         \
    do {                                                                                           \
        const char *why_ = lacks();                                                                \
        if (why_)                                                                                  \
            cr_skip_test("%s", why_);                                                              \
    } while (0)

#endif
