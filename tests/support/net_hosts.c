/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/net_hosts.h"

#include "tests/support/net_test.h"
#include "tests/support/own_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_BYTES 2048
#define TCP_LISTEN_STATE 10 /* in /proc/net/tcp */

static unsigned host_count;
static int hub_fd = -1;
static int host_fds[NET_HOSTS_MAX];

/* ---- namespaces ---- */

/* In a child, which then ends. The steps of net_hosts_open and net_host_enter, one by one. */
static int try_hosts(void)
{
    if (unshare(CLONE_NEWNET) != 0)
        return 1;
    if (own_mounts() != 0 || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0)
        return 2;
    return system("ip link add up type veth peer name down >/dev/null 2>&1 && "
                  "ip link add hub type bridge >/dev/null 2>&1 && "
                  "ip link set lo up >/dev/null 2>&1") == 0
               ? 0
               : 3;
}

const char *net_hosts_absent(void)
{
    static const char *const reasons[] = {
        NULL, "network namespaces are not allowed here", "a /sys of its own is not allowed here",
        "this kernel, or this place, has no veth or bridge for ip"};
    if (geteuid() != 0)
        return "network namespaces take root";
    if (access("/sbin/ip", X_OK) != 0 && access("/usr/sbin/ip", X_OK) != 0 &&
        access("/bin/ip", X_OK) != 0)
        return "ip is not installed (Debian's iproute2)";
    if (access("/proc/self/ns/net", F_OK) != 0)
        return "no /proc";
    pid_t child = fork();
    if (child == 0)
        _exit(try_hosts());
    int status = 1 << 8;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) <= 3 ? reasons[WEXITSTATUS(status)]
                                                         : "trying it ended a process";
}

static int own_namespace(void)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        net_fail("cannot open a network namespace: %s", strerror(errno));
    return fd;
}

static void move_to(int fd)
{
    if (setns(fd, CLONE_NEWNET) != 0)
        net_fail("cannot enter a network namespace: %s", strerror(errno));
}

static void make_namespace(int *fd_p)
{
    if (unshare(CLONE_NEWNET) != 0)
        net_fail("cannot make a network namespace: %s", strerror(errno));
    *fd_p = own_namespace();
}

/* end: net_fail or net_skip, if the command fails. */
static void run_in(int fd, void (*end)(const char *, ...), const char *format, va_list arguments)
{
    char command[COMMAND_BYTES];
    if (vsnprintf(command, sizeof(command), format, arguments) >= (int)sizeof(command))
        net_fail("a command too long");
    pid_t child = fork();
    if (child == 0) {
        if (setns(fd, CLONE_NEWNET) != 0)
            _exit(126);
        /* Descriptors of namespaces that the command names by number stay open. */
        for (unsigned i = 0; i < host_count; i++)
            (void)fcntl(host_fds[i], F_SETFD, 0);
        execl("/bin/sh", "sh", "-ec", command, (char *)NULL);
        _exit(127);
    }
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status != 0)
        end("failed with %d: %s", status, command);
}

void net_host_run(unsigned host, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    run_in(host_fds[host], net_fail, format, arguments);
    va_end(arguments);
}

void net_host_need(unsigned host, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    run_in(host_fds[host], net_skip, format, arguments);
    va_end(arguments);
}

void net_hub_run(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    run_in(hub_fd, net_fail, format, arguments);
    va_end(arguments);
}

int net_host_enter(unsigned host)
{
    /* What UCX and others look up in /sys is of the namespace it was mounted in. */
    return setns(host_fds[host], CLONE_NEWNET) == 0 && own_mounts() == 0
               ? mount("sysfs", "/sys", "sysfs", 0, NULL)
               : -1;
}

/* ---- a relay instead of the kernel's hub ---- */

#define FRAME_BYTES 9216
#define FRAMES_MAX 4096

typedef struct frame {
    int64_t due_ns;
    unsigned from;
    size_t size_bytes;
    unsigned char bytes[FRAME_BYTES];
} frame;

static int tap_fds[NET_HOSTS_MAX];
static frame *frames; /* a ring: the delay is the same for all, so they are due in order */
static size_t frame_first, frame_count;
static _Atomic int64_t relay_delay_ns;

void net_relay_delay(int64_t delay_ns)
{
    atomic_store(&relay_delay_ns, delay_ns);
}

static void take_frame(unsigned port)
{
    frame *frame = &frames[(frame_first + frame_count) % FRAMES_MAX];
    ssize_t size = read(tap_fds[port], frame->bytes, sizeof(frame->bytes));
    if (size <= 0)
        return;
    frame->due_ns = net_now_ns() + atomic_load(&relay_delay_ns);
    frame->from = port;
    frame->size_bytes = (size_t)size;
    frame_count++; /* callers see that there is room */
}

static void send_due(void)
{
    while (frame_count > 0 && frames[frame_first].due_ns <= net_now_ns()) {
        const frame *frame = &frames[frame_first];
        for (unsigned port = 0; port < host_count; port++) {
            if (port != frame->from && write(tap_fds[port], frame->bytes, frame->size_bytes) < 0)
                continue; /* lost, as frames may be */
        }
        frame_first = (frame_first + 1) % FRAMES_MAX;
        frame_count--;
    }
}

static void *run_relay(void *arg)
{
    (void)arg;
    for (;;) {
        struct pollfd ports[NET_HOSTS_MAX];
        for (unsigned i = 0; i < host_count; i++)
            ports[i] = (struct pollfd){.fd = tap_fds[i], .events = POLLIN};
        struct timespec rest = {0};
        if (frame_count > 0) {
            int64_t rest_ns = frames[frame_first].due_ns - net_now_ns();
            if (rest_ns > 0)
                rest = (struct timespec){rest_ns / 1000000000, rest_ns % 1000000000};
        }
        bool is_full = frame_count + host_count > FRAMES_MAX;
        (void)ppoll(ports, is_full ? 0 : host_count, frame_count > 0 ? &rest : NULL, NULL);
        for (unsigned i = 0; i < host_count && !is_full; i++) {
            if ((ports[i].revents & POLLIN) != 0)
                take_frame(i);
        }
        send_due();
    }
    return NULL;
}

static int open_tap(void)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "eth0");
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        net_skip("no cables of our own: /dev/net/tun: %s", strerror(errno));
    return fd;
}

static void start_relay(void)
{
    pthread_t thread;
    frames = calloc(FRAMES_MAX, sizeof(*frames));
    if (!frames || pthread_create(&thread, NULL, run_relay, NULL) != 0)
        net_fail("cannot start the relay");
    (void)pthread_detach(thread);
}

/* ---- hosts ---- */

static void make_host(unsigned host, net_cable cable)
{
    make_namespace(&host_fds[host]);
    if (cable == NET_CABLE_RELAY)
        tap_fds[host] = open_tap();
    move_to(hub_fd);
    host_count = host + 1;
    if (cable == NET_CABLE_VETH)
        net_hub_run("ip link add up%u type veth peer name down%u;"
                    "ip link set up%u master hub; ip link set up%u up;"
                    "ip link set down%u netns /proc/self/fd/%d name eth0",
                    host, host, host, host, host, host_fds[host]);
    net_host_run(host,
                 "ip link set lo up; %s ip address add 10.77.0.%u/24 dev eth0; ip link set eth0 up",
                 cable == NET_CABLE_RELAY ? "ip link set eth0 mtu 9000;" : "", host + 1);
}

void net_hosts_open(unsigned hosts, net_cable cable)
{
    const char *absent = net_hosts_absent();
    if (absent)
        net_skip("%s", absent);
    if (hosts > NET_HOSTS_MAX || hub_fd >= 0)
        net_fail("too many hosts, or a second time");
    make_namespace(&hub_fd);
    net_hub_run("ip link set lo up");
    if (cable == NET_CABLE_VETH)
        net_hub_run("ip link add hub type bridge; ip address add " NET_HUB_ADDRESS "/24 dev hub;"
                    "ip link set hub up");
    for (unsigned i = 0; i < hosts; i++)
        make_host(i, cable);
    if (cable == NET_CABLE_RELAY)
        start_relay();
}

void net_host_plug(unsigned host, bool is_plugged)
{
    net_hub_run("ip link set up%u %s", host, is_plugged ? "up" : "down");
}

unsigned net_host_listeners(unsigned host, uint16_t *ports, unsigned room)
{
    move_to(host_fds[host]);
    FILE *file = fopen("/proc/thread-self/net/tcp", "re");
    move_to(hub_fd);
    if (!file)
        net_fail("cannot read /proc/net/tcp: %s", strerror(errno));
    char line[512];
    unsigned count = 0;
    while (fgets(line, sizeof(line), file)) {
        unsigned port = 0;
        unsigned state = 0;
        if (sscanf(line, " %*d: %*8x:%4x %*8x:%*4x %2x", &port, &state) == 2 &&
            state == TCP_LISTEN_STATE && count < room)
            ports[count++] = (uint16_t)port;
    }
    (void)fclose(file);
    return count;
}
