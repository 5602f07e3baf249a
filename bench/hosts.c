/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts for ends that are to talk over TCP: network namespaces with a cable between them. */
#include "bench/bench.h"
#include "bench/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* What UCX looks up in /sys is of the namespace it was mounted in. */
int bench_own_sysfs(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
                   mount("sysfs", "/sys", "sysfs", 0, NULL) == 0
               ? 0
               : -1;
}

static int run_in(int network_fd, const char *script)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (setns(network_fd, CLONE_NEWNET) != 0)
            _exit(126);
        execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
        _exit(127);
    }
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

bool bench_hosts_open(int network_fds[2])
{
    static int fds[2] = {-1, -1};
    static const char path[] = "/proc/self/ns/net";
    char script[512];
    if (fds[0] < 0) {
        int own_fd = open(path, O_RDONLY | O_CLOEXEC);
        for (int i = 0; i < 2; i++) {
            if (unshare(CLONE_NEWNET) != 0)
                return false;
            fds[i] = open(path, O_RDONLY); /* `ip` is given it by its number */
        }
        if (own_fd < 0 || setns(own_fd, CLONE_NEWNET) != 0)
            bench_fail("cannot come back to the own network: %s", strerror(errno));
        (void)close(own_fd);
        (void)snprintf(script, sizeof script,
                       "ip link add c0 type veth peer name c1; ip link set lo up;"
                       "ip link set c1 netns /proc/self/fd/%d name eth0; ip link set c0 name eth0;"
                       "ip address add 10.78.0.1/24 dev eth0; ip link set eth0 up",
                       fds[1]);
        if (run_in(fds[0], script) != 0 ||
            run_in(fds[1], "ip link set lo up; ip address add 10.78.0.2/24 dev eth0;"
                           "ip link set eth0 up") != 0)
            return false;
        for (int i = 0; i < 2; i++)
            (void)fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    }
    network_fds[0] = fds[0];
    network_fds[1] = fds[1];
    return true;
}
