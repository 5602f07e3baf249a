/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/processes.h"

#include "bench/bench.h"
#include "bench/procfs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_BYTES 65536
#define LINK_FD 3
#define LIMIT_S 90
#define REMOVE_TRIES 50
#define ETCD_READY_MS 20000

/* ---- processes ---- */

static _Noreturn void become(const bench_command *command, pid_t parent, int input_fd,
                             int output_fd)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    (void)alarm(LIMIT_S);
    if (command->network_fd >= 0 && setns(command->network_fd, CLONE_NEWNET) != 0)
        _exit(1);
    if (command->network_fd >= 0 && bench_own_sysfs() != 0)
        _exit(1);
    if (command->cpu >= 0) {
        cpu_set_t allowed = bench_cpus_allowed();
        bench_thread_pin(0, &allowed, command->cpu);
    }
    if (command->set != NULL)
        (void)putenv((char *)command->set);
    if (dup2(input_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0)
        _exit(1);
    if (command->link_fd == LINK_FD)
        (void)fcntl(LINK_FD, F_SETFD, 0); /* which dup2 to itself would not do */
    else if (command->link_fd >= 0 && dup2(command->link_fd, LINK_FD) < 0)
        _exit(1);
    closefrom(command->link_fd >= 0 ? LINK_FD + 1 : LINK_FD);
    execv(command->arguments[0], (char *const *)command->arguments);
    _exit(127);
}

bench_process bench_process_start(const bench_command *command)
{
    int output[2];
    int input[2];
    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(input, O_CLOEXEC) != 0)
        bench_fail("cannot make a pipe");
    (void)fflush(stdout);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("cannot start %s: %s", command->arguments[0], strerror(errno));
    if (pid == 0)
        become(command, parent, input[0], output[1]);
    (void)close(output[1]);
    (void)close(input[0]);
    return (bench_process){
        .pid = pid, .output_fd = output[0], .input_fd = input[1], .name = command->arguments[0]};
}

/* Until a newline if `is_line`, else to the end; returns whether there was any. */
static bool read_text(const bench_process *process, char *text, bool is_line)
{
    size_t used = 0;
    while (used < TEXT_BYTES - 1) {
        ssize_t size = read(process->output_fd, text + used, is_line ? 1 : TEXT_BYTES - 1 - used);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            break;
        used += (size_t)size;
        if (is_line && text[used - 1] == '\n') {
            text[used - 1] = '\0';
            return true;
        }
    }
    text[used] = '\0';
    return used > 0;
}

const char *bench_process_line(bench_process *process)
{
    static char text[TEXT_BYTES];
    if (!read_text(process, text, true))
        bench_fail("%s ended too early", process->name);
    return text;
}

void bench_process_tell(const bench_process *process, const char *line)
{
    if (dprintf(process->input_fd, "%s\n", line) < 0)
        bench_fail("%s does not listen", process->name);
}

static int wait_for_end(bench_process *process)
{
    int status = 0;
    while (waitpid(process->pid, &status, 0) < 0) {
        if (errno != EINTR)
            bench_fail("cannot wait for %s", process->name);
    }
    (void)close(process->output_fd);
    (void)close(process->input_fd);
    process->pid = 0;
    return status;
}

const char *bench_process_end(bench_process *process)
{
    static char text[TEXT_BYTES];
    (void)read_text(process, text, false);
    int status = wait_for_end(process);
    if (WIFSIGNALED(status))
        bench_fail("%s was ended by signal %d", process->name, WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        bench_fail("%s ended with status %d", process->name, WEXITSTATUS(status));
    return text;
}

void bench_process_kill(bench_process *process)
{
    if (process->pid <= 0)
        return;
    (void)kill(process->pid, SIGKILL);
    (void)wait_for_end(process);
}

double bench_text_number(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at += length) {
        const char *value = at + length;
        if (*value == '=')
            return strtod(value + 1, NULL);
        if (value[0] == '"' && value[1] == ':')
            return strtod(value + 2, NULL);
    }
    bench_fail("no %s in \"%s\"", name, text);
}

/* ---- programs and folders ---- */

const char *bench_own_path(void)
{
    static char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        bench_fail("cannot read /proc/self/exe");
    path[size] = '\0';
    return path;
}

void bench_find_program(char *path, size_t path_bytes, const char *name)
{
    const char *own = bench_own_path();
    int folder = (int)(strrchr(own, '/') - own);
    if (snprintf(path, path_bytes, "%.*s/%s", folder, own, name) >= (int)path_bytes ||
        access(path, X_OK) != 0)
        path[0] = '\0';
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

/*
 * Has a process of its own remove the folder when this one has ended, however: the pipe has no
 * writer any more then. What was started here is killed with this process, but may write for a
 * moment more.
 */
static void remove_at_end(const char *folder)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        (void)setsid(); /* an interrupt from the terminal is not for it */
        for (int fd = 0; fd <= 2; fd++)
            (void)close(fd);
        (void)close(ends[1]);
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            continue;
        for (int i = 0; i < REMOVE_TRIES && access(folder, F_OK) == 0; i++) {
            (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
            (void)poll(NULL, 0, 10);
        }
        _exit(0);
    }
    (void)close(ends[0]); /* the other is open as long as this process is */
}

void bench_folder_make(char folder[BENCH_FOLDER_BYTES])
{
    (void)snprintf(folder, BENCH_FOLDER_BYTES, "/tmp/ferry-bench-XXXXXX");
    if (mkdtemp(folder) == NULL)
        bench_fail("cannot make a folder: %s", strerror(errno));
    remove_at_end(folder);
}

void bench_folder_remove(const char *folder)
{
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- etcd ---- */

static uint16_t free_port(int *fd_p)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    *fd_p = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd_p < 0 || bind(*fd_p, (struct sockaddr *)&address, size) != 0 ||
        getsockname(*fd_p, (struct sockaddr *)&address, &size) != 0)
        bench_fail("cannot find a free port");
    return ntohs(address.sin_port);
}

/* It takes calls from when it can serve. */
static void await_port(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int64_t end_ns = bench_now_ns() + ETCD_READY_MS * INT64_C(1000000);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_there = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
        (void)close(fd);
        if (is_there)
            return;
        if (bench_now_ns() > end_ns)
            bench_fail("etcd does not come up");
        (void)poll(NULL, 0, 10);
    }
}

bool bench_etcd_start(bench_etcd *etcd)
{
    char data[BENCH_FOLDER_BYTES + 16];
    char client[64];
    char peer[64];
    int fds[2];
    if (access("/usr/bin/etcd", X_OK) != 0)
        return false;
    (void)snprintf(etcd->folder, sizeof etcd->folder, "/dev/shm/ferry-bench-XXXXXX");
    if (mkdtemp(etcd->folder) == NULL)
        bench_fail("cannot make a folder: %s", strerror(errno));
    remove_at_end(etcd->folder);
    uint16_t port = free_port(&fds[0]);
    uint16_t peer_port = free_port(&fds[1]);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)snprintf(data, sizeof data, "--data-dir=%s/data", etcd->folder);
    (void)snprintf(client, sizeof client, "http://127.0.0.1:%u", port);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%u", peer_port);
    (void)snprintf(etcd->uri, sizeof etcd->uri, "etcd://127.0.0.1:%u", port);
    char cluster[96];
    (void)snprintf(cluster, sizeof cluster, "--initial-cluster=default=%s", peer);
    bench_command command = BENCH_COMMAND_INIT;
    const char *arguments[] = {"/usr/bin/etcd",
                               data,
                               "--log-level=fatal",
                               "--logger=zap",
                               "--log-outputs=/dev/null",
                               "--listen-client-urls",
                               client,
                               "--advertise-client-urls",
                               client,
                               "--listen-peer-urls",
                               peer,
                               "--initial-advertise-peer-urls",
                               peer,
                               cluster};
    memcpy(command.arguments, arguments, sizeof arguments);
    etcd->process = bench_process_start(&command);
    await_port(port);
    return true;
}

void bench_etcd_stop(bench_etcd *etcd)
{
    bench_process_kill(&etcd->process);
    bench_folder_remove(etcd->folder);
}
