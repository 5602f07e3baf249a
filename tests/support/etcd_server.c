/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/etcd_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 256
#define URL_BYTES 64
#define LIST_BYTES 512
#define ATTEMPTS 5
#define READY_MS 30000
#define ANSWER_MS 10000
#define LOOK_MS 10
#define PORT_FIRST 10000
#define PORTS_MIN 4096 /* to choose from */
#define PORT_TRIES 100

typedef struct etcd_node {
    pid_t pid; /* 0: not running */
    bool is_paused;
    uint16_t client_port, peer_port, metrics_port;
    char address[URL_BYTES];
} etcd_node;

struct etcd_cluster {
    unsigned count;
    bool has_tls;
    etcd_tls tls;
    char folder[PATH_BYTES];
    char uri[LIST_BYTES];
    char members[LIST_BYTES];
    int reaper_fd; /* closed by the kernel if the test is killed */
    pid_t reaper;
    etcd_node nodes[ETCD_NODES_MAX];
};

static const char *const programs[] = {"/usr/bin/etcd", "/usr/local/bin/etcd"};

static const char *program(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (access(programs[i], X_OK) == 0)
            return programs[i];
    return NULL;
}

const char *etcd_absent(void)
{
    return program() != NULL ? NULL : "etcd is not installed (Debian's etcd-server)";
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* ---- the folder ---- */

/* By a program, for here nothing may be allocated: see forked_child.h. */
static void remove_folder(const char *folder)
{
    char *const arguments[] = {"rm", "-rf", (char *)(uintptr_t)folder, NULL};
    pid_t pid;

    if (posix_spawn(&pid, "/bin/rm", NULL, NULL, arguments, environ) != 0)
        return;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* A process that sleeps until the test's end of the pipe is closed, by whatever end. */
static void reap(const char *folder, int fd)
{
    char byte;

    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    if (dup2(fd, 0) != 0)
        _exit(1);
    closefrom(1);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    /* The nodes have been killed with the test and may be writing their last. */
    for (int i = 0; i < 100 && access(folder, F_OK) == 0; i++) {
        remove_folder(folder);
        if (access(folder, F_OK) == 0)
            pause_ms(50);
    }
    _exit(0);
}

static bool make_folder(etcd_cluster *cluster)
{
    int ends[2];
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(cluster->folder, PATH_BYTES, "%s/ferry-etcd-XXXXXX", base);
    if (mkdtemp(cluster->folder) == NULL)
        return false;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    cluster->reaper = fork();
    if (cluster->reaper == 0) {
        (void)close(ends[1]);
        reap(cluster->folder, ends[0]);
    }
    (void)close(ends[0]);
    cluster->reaper_fd = ends[1];
    return cluster->reaper > 0;
}

/* ---- ports and processes ---- */

/*
 * Below those that the kernel gives to who connects: one of those is easily taken while its etcd is
 * down, also by a client that tries to reach it, which then finds itself at the other end.
 */
static uint16_t guess_port(void)
{
    unsigned kernels_first = 0;
    uint16_t random = 0;
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

    if (range != NULL) {
        if (fscanf(range, "%u", &kernels_first) != 1)
            kernels_first = 0;
        (void)fclose(range);
    }
    (void)getrandom(&random, sizeof random, 0);
    if (kernels_first < PORT_FIRST + PORTS_MIN)
        return 0; /* the kernel's choice */
    return (uint16_t)(PORT_FIRST + random % (kernels_first - PORT_FIRST));
}

/* A socket that holds a free port; -1: none was found. */
static int hold_port(uint16_t *port)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons(guess_port())};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
            getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
            *port = ntohs(address.sin_port);
            return fd;
        }
        if (fd >= 0)
            (void)close(fd);
    }
    return -1;
}

/* Three at a time are held open, so that they differ; etcd binds them a moment later, or fails. */
static bool choose_ports(etcd_node *node)
{
    uint16_t *ports[] = {&node->client_port, &node->peer_port, &node->metrics_port};
    int fds[3];
    bool is_good = true;

    for (size_t i = 0; i < 3; i++) {
        fds[i] = hold_port(ports[i]);
        is_good = is_good && fds[i] >= 0;
    }
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    return is_good;
}

static void name_nodes(etcd_cluster *cluster)
{
    size_t uri =
        (size_t)snprintf(cluster->uri, LIST_BYTES, "etcd%s://", cluster->has_tls ? "s" : "");
    size_t members = 0;

    for (unsigned i = 0; i < cluster->count; i++) {
        etcd_node *node = &cluster->nodes[i];
        const char *comma = i > 0 ? "," : "";

        (void)snprintf(node->address, URL_BYTES, "127.0.0.1:%u", node->client_port);
        uri += (size_t)snprintf(cluster->uri + uri, LIST_BYTES - uri, "%s%s", comma, node->address);
        members += (size_t)snprintf(cluster->members + members, LIST_BYTES - members,
                                    "%sn%u=http://127.0.0.1:%u", comma, i, node->peer_port);
    }
}

static _Noreturn void become_node(const etcd_cluster *cluster, unsigned index, pid_t parent,
                                  bool is_new)
{
    const etcd_node *node = &cluster->nodes[index];
    char name[16], data[PATH_BYTES + 16], log[PATH_BYTES + 16];
    char client[URL_BYTES], peer[URL_BYTES], metrics[URL_BYTES];
    const char *arguments[48];
    size_t count = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)snprintf(name, sizeof name, "n%u", index);
    (void)snprintf(data, sizeof data, "%s/n%u", cluster->folder, index);
    (void)snprintf(log, sizeof log, "%s/n%u.log", cluster->folder, index);
    (void)snprintf(client, sizeof client, "http%s://127.0.0.1:%u", cluster->has_tls ? "s" : "",
                   node->client_port);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%u", node->peer_port);
    (void)snprintf(metrics, sizeof metrics, "http://127.0.0.1:%u", node->metrics_port);
    const char *const always[] = {program(),
                                  "--name",
                                  name,
                                  "--data-dir",
                                  data,
                                  "--listen-client-urls",
                                  client,
                                  "--advertise-client-urls",
                                  client,
                                  "--listen-peer-urls",
                                  peer,
                                  "--initial-advertise-peer-urls",
                                  peer,
                                  "--listen-metrics-urls",
                                  metrics,
                                  "--initial-cluster",
                                  cluster->members,
                                  "--initial-cluster-state",
                                  is_new ? "new" : "existing",
                                  "--heartbeat-interval",
                                  "50",
                                  "--election-timeout",
                                  "500"};
    for (; count < sizeof always / sizeof *always; count++)
        arguments[count] = always[count];
    if (cluster->has_tls) {
        arguments[count++] = "--cert-file";
        arguments[count++] = cluster->tls.certificate_path;
        arguments[count++] = "--key-file";
        arguments[count++] = cluster->tls.key_path;
    }
    if (cluster->has_tls && cluster->tls.client_ca_path != NULL) {
        arguments[count++] = "--client-cert-auth";
        arguments[count++] = "--trusted-ca-file";
        arguments[count++] = cluster->tls.client_ca_path;
    }
    arguments[count] = NULL;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) != 1 || dup2(fd, 2) != 2)
        _exit(1);
    closefrom(3);
    (void)execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(1);
}

static bool start_node(etcd_cluster *cluster, unsigned index, bool is_new)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();

    if (pid == 0)
        become_node(cluster, index, parent, is_new);
    cluster->nodes[index].pid = pid > 0 ? pid : 0;
    cluster->nodes[index].is_paused = false;
    return pid > 0;
}

/* ---- a client of one request ---- */

static int connect_to(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const struct timeval patience = {.tv_sec = ANSWER_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* HTTP/1.0, so that the body ends with the connection and nothing is chunked. */
static bool ask(uint16_t port, const char *head, const char *body, char *answer, size_t bytes)
{
    static char text[1 << 20];
    size_t got = 0;
    int fd = connect_to(port);

    if (fd < 0)
        return false;
    int size = snprintf(text, sizeof text, "%s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", head,
                        strlen(body), body);
    bool is_good = size > 0 && (size_t)size < sizeof text &&
                   send(fd, text, (size_t)size, MSG_NOSIGNAL) == size;
    while (is_good && got < sizeof text - 1) {
        ssize_t more = recv(fd, text + got, sizeof text - 1 - got, 0);

        if (more <= 0) {
            is_good = more == 0;
            break;
        }
        got += (size_t)more;
    }
    (void)close(fd);
    text[got] = 0;
    const char *end = strstr(text, "\r\n\r\n");
    if (!is_good || end == NULL)
        return false;
    (void)snprintf(answer, bytes, "%s", end + 4);
    return true;
}

bool etcd_post(const etcd_cluster *cluster, unsigned node, const char *path, const char *body,
               char *answer, size_t answer_bytes)
{
    char head[PATH_BYTES];

    (void)snprintf(head, sizeof head, "POST %s", path);
    return ask(cluster->nodes[node].client_port, head, body, answer, answer_bytes);
}

static bool wait_for_health(etcd_cluster *cluster, unsigned index)
{
    const int64_t until_ms = now_ms() + READY_MS;
    etcd_node *node = &cluster->nodes[index];
    char answer[256];

    while (now_ms() < until_ms) {
        if (waitpid(node->pid, NULL, WNOHANG) == node->pid) {
            node->pid = 0; /* most often somebody else has its port */
            return false;
        }
        if (ask(node->metrics_port, "GET /health", "", answer, sizeof answer) &&
            strstr(answer, "\"health\":\"true\"") != NULL)
            return true;
        pause_ms(LOOK_MS);
    }
    return false;
}

/* ---- the cluster ---- */

static bool start_all(etcd_cluster *cluster)
{
    bool is_good = true;

    for (unsigned i = 0; i < cluster->count; i++)
        is_good = is_good && choose_ports(&cluster->nodes[i]);
    name_nodes(cluster);
    for (unsigned i = 0; i < cluster->count; i++)
        is_good = is_good && start_node(cluster, i, true);
    for (unsigned i = 0; i < cluster->count; i++)
        is_good = is_good && wait_for_health(cluster, i);
    return is_good;
}

etcd_cluster *etcd_cluster_start(unsigned nodes, const etcd_tls *tls)
{
    etcd_cluster *cluster = calloc(1, sizeof *cluster);

    if (cluster == NULL || nodes == 0 || nodes > ETCD_NODES_MAX || program() == NULL)
        goto err_start;
    cluster->count = nodes;
    cluster->reaper_fd = -1;
    cluster->has_tls = tls != NULL;
    if (tls != NULL)
        cluster->tls = *tls;
    if (!make_folder(cluster))
        goto err_folder;
    for (int i = 0; i < ATTEMPTS; i++) {
        char data[PATH_BYTES + 16];

        if (start_all(cluster))
            return cluster;
        for (unsigned node = 0; node < nodes; node++) {
            etcd_node_kill(cluster, node);
            (void)snprintf(data, sizeof data, "%s/n%u", cluster->folder, node);
            remove_folder(data);
        }
    }

err_folder:
    etcd_cluster_stop(cluster);
    cluster = NULL;
err_start:
    free(cluster);
    (void)fprintf(stderr, "etcd_server: etcd can't be started\n");
    return NULL;
}

void etcd_cluster_stop(etcd_cluster *cluster)
{
    if (cluster == NULL)
        return;
    for (unsigned i = 0; i < cluster->count; i++)
        etcd_node_kill(cluster, i);
    if (cluster->reaper_fd >= 0)
        (void)close(cluster->reaper_fd);
    if (cluster->reaper > 0)
        (void)waitpid(cluster->reaper, NULL, 0);
    free(cluster);
}

const char *etcd_cluster_uri(const etcd_cluster *cluster)
{
    return cluster->uri;
}

const char *etcd_node_address(const etcd_cluster *cluster, unsigned node)
{
    return cluster->nodes[node].address;
}

const char *etcd_cluster_folder(const etcd_cluster *cluster)
{
    return cluster->folder;
}

void etcd_node_kill(etcd_cluster *cluster, unsigned node)
{
    if (cluster->nodes[node].pid == 0)
        return;
    (void)kill(cluster->nodes[node].pid, SIGKILL);
    (void)waitpid(cluster->nodes[node].pid, NULL, 0);
    cluster->nodes[node].pid = 0;
}

bool etcd_node_restart(etcd_cluster *cluster, unsigned node)
{
    /* Its own connections of before may still hold a port for a moment. */
    for (int i = 0; i < ATTEMPTS; i++) {
        if (cluster->nodes[node].pid == 0 && !start_node(cluster, node, false))
            return false;
        if (wait_for_health(cluster, node))
            return true;
        etcd_node_kill(cluster, node);
    }
    return false;
}

bool etcd_cluster_restart(etcd_cluster *cluster)
{
    bool is_good = false;

    for (int i = 0; i < ATTEMPTS && !is_good; i++) {
        is_good = true;
        for (unsigned node = 0; node < cluster->count; node++)
            is_good =
                (cluster->nodes[node].pid != 0 || start_node(cluster, node, false)) && is_good;
        for (unsigned node = 0; node < cluster->count; node++)
            is_good = wait_for_health(cluster, node) && is_good;
    }
    return is_good;
}

bool etcd_cluster_empty(etcd_cluster *cluster)
{
    bool is_good = false;

    for (int i = 0; i < ATTEMPTS && !is_good; i++) {
        for (unsigned node = 0; node < cluster->count; node++)
            etcd_node_kill(cluster, node);
        is_good = true;
        for (unsigned node = 0; node < cluster->count; node++) {
            char data[PATH_BYTES + 16];

            (void)snprintf(data, sizeof data, "%s/n%u", cluster->folder, node);
            remove_folder(data);
            is_good = is_good && start_node(cluster, node, true);
        }
        for (unsigned node = 0; node < cluster->count; node++)
            is_good = is_good && wait_for_health(cluster, node);
    }
    return is_good;
}

static void change_pause(etcd_node *node, bool is_paused)
{
    siginfo_t info;

    if (node->pid == 0 || node->is_paused == is_paused)
        return;
    (void)kill(node->pid, is_paused ? SIGSTOP : SIGCONT);
    (void)waitid(P_PID, (id_t)node->pid, &info, is_paused ? WSTOPPED : WCONTINUED);
    node->is_paused = is_paused;
}

void etcd_node_pause(etcd_cluster *cluster, unsigned node)
{
    change_pause(&cluster->nodes[node], true);
}

void etcd_node_resume(etcd_cluster *cluster, unsigned node)
{
    change_pause(&cluster->nodes[node], false);
}

void etcd_cluster_pause(etcd_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        etcd_node_pause(cluster, i);
}

void etcd_cluster_resume(etcd_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        etcd_node_resume(cluster, i);
}

/* A member is the leader if its own id is the one that it names as such. */
unsigned etcd_cluster_leader(const etcd_cluster *cluster)
{
    char answer[1024], member[32] = "", leader[32] = "";

    for (unsigned i = 0; i < cluster->count; i++) {
        if (cluster->nodes[i].pid == 0 || cluster->nodes[i].is_paused ||
            !etcd_post(cluster, i, "/v3/maintenance/status", "{}", answer, sizeof answer))
            continue;
        const char *own = strstr(answer, "\"member_id\":\"");
        const char *first = strstr(answer, "\"leader\":\"");
        if (own != NULL && first != NULL && sscanf(own, "\"member_id\":\"%31[0-9]", member) == 1 &&
            sscanf(first, "\"leader\":\"%31[0-9]", leader) == 1 && strcmp(member, leader) == 0)
            return i;
    }
    return ETCD_NODES_MAX;
}
