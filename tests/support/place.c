/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/place.h"

#include <stddef.h>
#include <unistd.h>

const char *place_lacks_processes(void)
{
    return access("/proc/self/stat", R_OK) == 0 ? NULL : "no /proc, which tells of processes";
}

const char *place_lacks_ucx(void)
{
    return access("/proc/sys/kernel/random/boot_id", R_OK) == 0
               ? NULL
               : "no /proc, where UCX reads the boot's id";
}

const char *place_lacks_ucx_tcp(void)
{
    if (access("/sys/class/net/lo", F_OK) != 0)
        return "no /sys/class/net, where UCX looks for interfaces";
    return place_lacks_ucx();
}

const char *place_lacks_this_host(void)
{
    if (access("/proc/self/ns/net", F_OK) != 0)
        return "no /proc, by which members know their host";
    if (access("/dev/shm", R_OK | W_OK | X_OK) != 0)
        return "no /dev/shm for memory that processes share";
    return NULL;
}
